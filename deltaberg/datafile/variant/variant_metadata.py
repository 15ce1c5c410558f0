"""The dictionary of field names that a Variant's ``metadata`` bytes hold (Variant Binary Encoding, "Metadata encoding").

header: version (4 bits, always 1), sorted flag, unused bit, offset size less 1 (2 bits)
dictionary size, then size + 1 offsets, all little-endian of that offset size, then the names' bytes
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise

import numpy as np

from deltaberg.datafile.errors import DataFileError

_VERSION = 1


@lru_cache(maxsize=4096)
def field_names(metadata: bytes) -> tuple[str, ...]:
    """The names in the order of their field ids. Raises DataFileError for a malformed dictionary."""
    if not metadata or metadata[0] & 0x0F != _VERSION:
        found = metadata[0] & 0x0F if metadata else "nothing"
        raise malformed(f"its metadata has version {found} (expected {_VERSION})")
    width = (metadata[0] >> 6) + 1
    size = int.from_bytes(metadata[1 : 1 + width], "little")
    start = 1 + width
    first_byte = start + (size + 1) * width
    if first_byte > len(metadata):
        raise malformed(f"its metadata has {len(metadata)} bytes (expected {size} field names)")
    offsets = unsigned(metadata, start, size + 1, width)
    total = len(metadata) - first_byte
    if offsets[0] != 0 or offsets[-1] > total or any(a > b for a, b in pairwise(offsets)):
        raise malformed("the offsets of its field names are not in ascending order or lead outside")
    content = metadata[first_byte:]
    try:
        return tuple(content[a:b].decode() for a, b in pairwise(offsets))
    except UnicodeDecodeError as error:
        raise malformed("a field name is not UTF-8") from error


@lru_cache(maxsize=4096)
def field_ids(metadata: bytes) -> dict[str, int]:
    """The id of each name; the first where a name occurs twice."""
    names = field_names(metadata)
    return {name: number for number, name in reversed(tuple(enumerate(names)))}


def unsigned(data: bytes, start: int, count: int, width: int) -> list[int]:
    """``count`` little-endian unsigned integers of ``width`` bytes; the caller has checked that they are there."""
    if width == 1:
        return list(data[start : start + count])
    if count < 8:
        return [int.from_bytes(data[at : at + width], "little") for at in range(start, start + count * width, width)]
    part = np.frombuffer(data, np.uint8, count * width, start).reshape(count, width).astype(np.int64)
    values: list[int] = (part << (8 * np.arange(width))).sum(axis=1).tolist()
    return values


def malformed(reason: str) -> DataFileError:
    return DataFileError(f"Cannot read a Variant: {reason}")
