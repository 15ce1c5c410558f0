"""How much a compressed piece of metadata may unpack to: a few kilobytes must not fill the memory
(docs/reliability.md).

JSON of nothing but equal schemas packs 150 times, of snapshots 8 times. A file that is read block by block has no limit
as a whole: manifests of wide tables with equal statistics pack better than anything else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from deltaberg.iceberg.errors import CorruptMetadata

RATIO: Final = 200
_MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class UnpackLimit:
    """free: any file may unpack to this many bytes; to more only if they are at most RATIO times the packed ones, and
    never to more than ``most``.
    """

    free: int
    most: int

    def of(self, packed: int) -> int:
        """The bytes that ``packed`` bytes may unpack to."""
        return min(self.most, max(self.free, RATIO * packed))

    def check(self, what: str, *, packed: int, unpacked: int) -> None:
        """Raise CorruptMetadata for more bytes than the limit. what: the beginning of the message."""
        if unpacked > self.of(packed):
            raise self.exceeded(what, packed)

    def exceeded(self, what: str, packed: int) -> CorruptMetadata:
        return CorruptMetadata(
            f"{what}: {packed:,} bytes would exceed {self.of(packed):,} unpacked (expected at most {self.free // _MIB} MiB, or "
            f"{RATIO} times the packed size up to {self.most // _MIB:,} MiB); the file is damaged or hostile"
        )


AVRO_BLOCK: Final = UnpackLimit(free=16 * _MIB, most=128 * _MIB)
MANIFEST_LIST: Final = UnpackLimit(free=8 * _MIB, most=1 << 30)
"""The limit of all blocks of a manifest list together, since a list is held in memory."""
METADATA_JSON: Final = UnpackLimit(free=8 * _MIB, most=1 << 30)
PUFFIN: Final = UnpackLimit(free=16 * _MIB, most=1 << 30)
ORC_TAIL: Final = UnpackLimit(free=16 * _MIB, most=1 << 30)
