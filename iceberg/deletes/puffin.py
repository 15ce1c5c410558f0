"""Puffin files: blobs of statistics and deletion vectors, with a JSON footer that says where each is (Puffin spec).

Magic Blob1 ... BlobN Footer        Footer := Magic Payload PayloadSize(4, little-endian) Flags(4) Magic
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Final

import pyarrow as pa

from deltaberg import __version__
from deltaberg.errors import error_context
from deltaberg.iceberg.deletes.puffin_codec import compress, decompress
from deltaberg.iceberg.errors import (
    CorruptMetadata,
    InvalidIcebergRequest,
    UnsupportedIcebergFeature,
    corrupt_context,
)
from deltaberg.iceberg.schema.json_object import JsonObject, parse_json
from deltaberg.redaction import told_beginning
from deltaberg.storage.protocol import Storage

MAGIC: Final = b"PFA1"
DELETION_VECTOR: Final = "deletion-vector-v1"
THETA_SKETCH: Final = "apache-datasketches-theta-v1"
POSITION_FIELD_ID: Final = 2147483645
"""The metadata column ``_pos``, which a deletion vector is about."""

UNASSIGNED: Final = -1
"""Snapshot id and sequence number of a deletion vector: the manifest entry has them."""

_TAIL: Final = 12
_SMALLEST: Final = len(MAGIC) * 2 + _TAIL
_FOOTER_GUESS: Final = 1 << 16
_COMPRESSED: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Blob:
    """One blob's entry in the footer. ``length`` is its size in the file, after compression."""

    type: str
    fields: tuple[int, ...]
    snapshot_id: int
    sequence_number: int
    offset: int
    length: int
    compression_codec: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict, hash=False)

    def to_json(self) -> dict[str, object]:
        """The entry as the footer has it."""
        result: dict[str, object] = {
            "type": self.type,
            "fields": list(self.fields),
            "snapshot-id": self.snapshot_id,
            "sequence-number": self.sequence_number,
            "offset": self.offset,
            "length": self.length,
        }
        if self.compression_codec is not None:
            result["compression-codec"] = self.compression_codec
        if self.properties:
            result["properties"] = dict(self.properties)
        return result


@dataclass(frozen=True, slots=True, kw_only=True)
class PuffinFile:
    """A Puffin file whose footer was read; blobs are fetched one by one. Blobs of unknown types are read like all
    others.
    """

    storage: Storage
    location: str
    size: int
    blobs: tuple[Blob, ...]
    properties: Mapping[str, str] = field(default_factory=dict, hash=False)

    @classmethod
    def open(cls, storage: Storage, location: str) -> PuffinFile:
        """Read the footer. Raises CorruptMetadata naming file and field, StorageError for a file that is not there."""
        with error_context(path=location):
            size = storage.head(location).size
            if size < _SMALLEST:
                raise _corrupt("size", f"at least {_SMALLEST} bytes", f"{size}")
            tail = storage.get_range(location, max(0, size - _FOOTER_GUESS), min(size, _FOOTER_GUESS))
            head = tail if len(tail) == size else storage.get_range(location, 0, len(MAGIC))
            if head[: len(MAGIC)] != MAGIC:
                raise _corrupt("magic", f"the file to start with {MAGIC!r}", told_beginning(head[: len(MAGIC)]))
            payload_size, compressed = _footer_tail(tail[-_TAIL:], size)
            start = size - _TAIL - payload_size - len(MAGIC)
            footer = (
                tail[-_TAIL - payload_size - len(MAGIC) : -_TAIL]
                if size - start <= len(tail)
                else storage.get_range(location, start, payload_size + len(MAGIC))
            )
            if footer[: len(MAGIC)] != MAGIC:
                raise _corrupt("footer magic", f"{MAGIC!r} at byte {start}", told_beginning(footer[: len(MAGIC)]))
            payload = footer[len(MAGIC) :]
            if compressed:
                payload = decompress("lz4", payload, "footer")
            with corrupt_context(field="footer"):
                node = JsonObject(parse_json(payload), "$")
            blobs = tuple(_blob(JsonObject(value, path), start) for value, path in node.items("blobs"))
            return cls(
                storage=storage, location=location, size=size, blobs=blobs, properties=node.text_map("properties")
            )

    def read(self, blob: Blob) -> bytes:
        """A blob's content, decompressed. Raises CorruptMetadata when its frame is damaged or oversized."""
        data = self.storage.get_range(self.location, blob.offset, blob.length)
        if blob.compression_codec is None:
            return data
        with error_context(path=self.location):
            return decompress(blob.compression_codec, data, f"blob at byte {blob.offset}")


class PuffinWriter:
    """Writes one Puffin file, blob by blob; use as a context manager.

    Nothing is visible before the context ends, and nothing at all when it ends with an error. ``length`` is the
    file's size once it has ended.
    """

    def __init__(self, storage: Storage, location: str, *, properties: Mapping[str, str] | None = None) -> None:
        self.location = location
        self.length = 0
        self.blobs: list[Blob] = []
        self._properties = {"created-by": f"deltaberg {__version__}"} if properties is None else dict(properties)
        self._output = storage.create(location)

    def __enter__(self) -> PuffinWriter:
        self._sink = self._output.__enter__()
        self._put(MAGIC)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        if error is None:
            footer: dict[str, object] = {"blobs": [blob.to_json() for blob in self.blobs]}
            if self._properties:
                footer["properties"] = self._properties
            payload = json.dumps(footer, separators=(",", ":"), ensure_ascii=False).encode()
            self._put(MAGIC + payload + len(payload).to_bytes(4, "little") + bytes(4) + MAGIC)
        return self._output.__exit__(kind, error, trace)

    def add(
        self,
        kind: str,
        data: bytes,
        *,
        fields: Sequence[int],
        snapshot_id: int,
        sequence_number: int,
        properties: Mapping[str, str] | None = None,
        compression_codec: str | None = None,
    ) -> Blob:
        """Append a blob, compressed on request (``lz4`` or ``zstd``), and return its footer entry."""
        stored = data if compression_codec is None else compress(compression_codec, data)
        blob = Blob(
            type=kind,
            fields=tuple(fields),
            snapshot_id=snapshot_id,
            sequence_number=sequence_number,
            offset=self.length,
            length=len(stored),
            compression_codec=compression_codec,
            properties={} if properties is None else dict(properties),
        )
        self._put(stored)
        self.blobs.append(blob)
        return blob

    def add_deletion_vector(self, framed: bytes, *, referenced_data_file: str, cardinality: int) -> Blob:
        """Append a deletion vector as it stands in its frame (length, magic, vector, checksum).

        ``referenced_data_file`` is the data file's location as table metadata has it. Offset and length of the
        returned entry are the manifest entry's ``content_offset`` and ``content_size_in_bytes``.
        """
        if cardinality < 0 or int.from_bytes(framed[:4], "big") + 8 != len(framed):
            raise InvalidIcebergRequest(
                f"Cannot write a deletion vector for {referenced_data_file}: its frame of {len(framed)} bytes says "
                f"{int.from_bytes(framed[:4], 'big')}"
            )
        return self.add(
            DELETION_VECTOR,
            framed,
            fields=(POSITION_FIELD_ID,),
            snapshot_id=UNASSIGNED,
            sequence_number=UNASSIGNED,
            properties={"referenced-data-file": referenced_data_file, "cardinality": str(cardinality)},
        )

    def _put(self, data: bytes) -> None:
        self._sink.write(pa.py_buffer(data))
        self.length += len(data)


def _footer_tail(tail: bytes, size: int) -> tuple[int, bool]:
    """Payload size and whether the payload is compressed."""
    if tail[8:] != MAGIC:
        raise _corrupt("magic", f"the file to end with {MAGIC!r}", told_beginning(tail[8:]))
    payload_size = int.from_bytes(tail[:4], "little", signed=True)
    if not 0 <= payload_size <= size - _SMALLEST:
        raise _corrupt("footer payload size", f"0 to {size - _SMALLEST}", str(payload_size))
    flags = int.from_bytes(tail[4:8], "little")
    if flags & ~_COMPRESSED:
        raise UnsupportedIcebergFeature(
            f"Cannot read Puffin file: its footer has unknown flags {flags:#x} (expected 0 or 1)",
            feature=f"Puffin flags {flags:#x}",
        )
    return payload_size, bool(flags & _COMPRESSED)


def _blob(node: JsonObject, end: int) -> Blob:
    offset, length = node.long("offset", low=0), node.long("length", low=0)
    if offset < len(MAGIC) or offset + length > end:
        raise _corrupt(
            node.at("offset"), f"a blob between bytes {len(MAGIC)} and {end}", f"{offset} to {offset + length}"
        )
    node.raw("fields")
    return Blob(
        type=node.text("type"),
        fields=node.integers("fields"),
        snapshot_id=node.long("snapshot-id"),
        sequence_number=node.long("sequence-number"),
        offset=offset,
        length=length,
        compression_codec=node.optional_text("compression-codec"),
        properties=node.text_map("properties"),
    )


def _corrupt(field_name: str, expected: str, found: str) -> CorruptMetadata:
    return CorruptMetadata(
        f"Cannot read Puffin file: {field_name} is invalid (expected {expected}, found {found})", field=field_name
    )
