"""Deletion vectors: the descriptor in the log, where its bytes are, and those bytes verified.

PROTOCOL "Deletion Vector Descriptor Schema", "Deletion Vector Format" and "Deletion Vector File Storage Format".
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from deltaberg.bitmap import FRAME_BYTES, NATIVE_MAGIC, CorruptBitmap, PositionBitmap, unframe
from deltaberg.delta.deletion_vector import z85
from deltaberg.delta.errors import CorruptDeletionVector
from deltaberg.delta.log.add_path import decode_path
from deltaberg.errors import error_context
from deltaberg.storage.protocol import Storage

FILE_VERSION = 1
_UUID_CHARACTERS = 20
_NEAR_START = 1 << 16
_SPARSE = 4
_SMALLEST_BITMAP = 4  # the magic number at least
_STORAGE_TYPES = frozenset("uip")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionVectorDescriptor:
    """Where the vector of one file is stored, and how many rows it deletes.

    ``storage_type`` is ``u`` (a file under the table, named by UUID), ``p`` (a file by absolute path) or ``i`` (the
    bytes themselves); ``offset`` counts from the start of the file; ``size_in_bytes`` is that of the serialised bitmap
    alone.
    """

    storage_type: str
    path_or_inline_dv: str
    offset: int | None
    size_in_bytes: int
    cardinality: int

    @property
    def unique_id(self) -> str:
        """The identity of a vector among those of one data file, for log replay."""
        start = f"{self.storage_type}{self.path_or_inline_dv}"
        return start if self.offset is None else f"{start}@{self.offset}"

    def location(self, table_root: str) -> str:
        """The file that holds the vector. Raises CorruptDeletionVector for an inline one and for a malformed name."""
        if self.storage_type == "p":
            return decode_path(self.path_or_inline_dv)
        if self.storage_type != "u":
            raise self._corrupt(f"storage type {self.storage_type!r} names no file (expected 'u' or 'p')")
        prefix = self.path_or_inline_dv[:-_UUID_CHARACTERS]
        try:
            name = uuid.UUID(bytes=z85.decode(self.path_or_inline_dv[-_UUID_CHARACTERS:]))
        except ValueError as error:
            raise self._corrupt(f"its name holds no UUID in Z85 ({error})") from error
        folder = f"{table_root}/{prefix}" if prefix else table_root
        return f"{folder}/deletion_vector_{name}.bin"

    def to_json(self) -> dict[str, object]:
        """The ``deletionVector`` object of an action."""
        offset = {} if self.offset is None else {"offset": self.offset}
        return {
            "storageType": self.storage_type,
            "pathOrInlineDv": self.path_or_inline_dv,
            **offset,
            "sizeInBytes": self.size_in_bytes,
            "cardinality": self.cardinality,
        }

    def _corrupt(self, reason: str) -> CorruptDeletionVector:
        return CorruptDeletionVector(f"Cannot read the deletion vector {self.unique_id:.60}: {reason}")


def descriptors(column: pa.Array) -> list[DeletionVectorDescriptor | None]:
    """The descriptors of ``ADD_SCHEMA``'s ``deletion_vector`` column, one a row. Raises CorruptDeletionVector."""
    return [None if value is None else _descriptor(value) for value in column.to_pylist()]


def inline_descriptor(blob: bytes, cardinality: int) -> DeletionVectorDescriptor:
    """A vector stored in the log itself; ``blob`` is magic and bitmap."""
    return DeletionVectorDescriptor(
        storage_type="i",
        path_or_inline_dv=z85.encode(blob),
        offset=None,
        size_in_bytes=len(blob),
        cardinality=cardinality,
    )


def read_deletion_vector(storage: Storage, table_root: str, descriptor: DeletionVectorDescriptor) -> PositionBitmap:
    """The deleted positions, after size, checksum, format and cardinality were checked.

    Raises CorruptDeletionVector naming the file, and StorageError where the file is missing or shorter.
    """
    return parse_blob(read_blob(storage, table_root, descriptor), descriptor)


def parse_blob(blob: bytes, descriptor: DeletionVectorDescriptor) -> PositionBitmap:
    """The bitmap of verified bytes. Raises CorruptDeletionVector when they are none or the cardinality differs."""
    try:
        if blob.startswith(NATIVE_MAGIC[::-1]):
            blob = _little_endian(blob)
        native = blob.startswith(NATIVE_MAGIC)
        bitmap = PositionBitmap.deserialize_native(blob) if native else PositionBitmap.deserialize(blob)
    except CorruptBitmap as error:
        raise CorruptDeletionVector(f"{error.message} (vector {descriptor.unique_id:.60})") from error
    if bitmap.cardinality != descriptor.cardinality:
        raise CorruptDeletionVector(
            f"Cannot read the deletion vector {descriptor.unique_id:.60}: it deletes {bitmap.cardinality} rows "
            f"(expected the descriptor's cardinality {descriptor.cardinality})"
        )
    return bitmap


def read_blob(storage: Storage, table_root: str, descriptor: DeletionVectorDescriptor) -> bytes:
    """Magic and bitmap of one vector, size and checksum verified.

    The bytes are as stored; only those that begin with the portable magic number may be copied into other containers.
    """
    (blob,) = read_blobs(storage, table_root, (descriptor,))
    return blob


def read_blobs(storage: Storage, table_root: str, wanted: Sequence[DeletionVectorDescriptor]) -> tuple[bytes, ...]:
    """``read_blob`` for many vectors, in their order; those that lie close together in one file are read at once."""
    blobs: dict[int, bytes] = {}
    by_file: dict[str, list[int]] = {}
    for index, each in enumerate(wanted):
        if each.storage_type == "i":
            blobs[index] = _inline_blob(each)
        else:
            by_file.setdefault(each.location(table_root), []).append(index)
    for location, indices in by_file.items():
        with error_context(path=location):
            found = tuple(_file_blobs(storage, location, [wanted[index] for index in indices]))
        blobs.update(zip(indices, found, strict=True))
    return tuple(blobs[index] for index in range(len(wanted)))


def _inline_blob(descriptor: DeletionVectorDescriptor) -> bytes:
    if descriptor.offset is not None:
        raise descriptor._corrupt(f"it is inline and has the offset {descriptor.offset} (expected none)")
    try:
        data = z85.decode(descriptor.path_or_inline_dv)
    except ValueError as error:
        raise descriptor._corrupt(f"its inline bytes are not Z85 ({error})") from error
    if not 0 <= len(data) - descriptor.size_in_bytes < 4:
        raise descriptor._corrupt(
            f"it holds {len(data)} bytes with padding (expected {descriptor.size_in_bytes}, padded to a multiple of 4)"
        )
    return data[: descriptor.size_in_bytes]


def _file_blobs(storage: Storage, location: str, wanted: list[DeletionVectorDescriptor]) -> Iterator[bytes]:
    starts = [0 if each.offset is None else each.offset for each in wanted]  # absent means 0 (upstream section 4.1)
    ends = [start + each.size_in_bytes + FRAME_BYTES for start, each in zip(starts, wanted, strict=True)]
    first, last = min(starts), max(ends)
    if first < _NEAR_START:
        first = 0
    else:
        _check_version(storage.get_range(location, 0, 1))
    together = last - first <= _SPARSE * sum(each.size_in_bytes + FRAME_BYTES for each in wanted) + _NEAR_START
    span = storage.get_range(location, first, last - first) if together else b""
    if first == 0:
        _check_version(span[:1] or storage.get_range(location, 0, 1))
    for start, end, each in zip(starts, ends, wanted, strict=True):
        framed = span[start - first : end - first] if together else storage.get_range(location, start, end - start)
        yield _unframed(framed, each)


def _little_endian(blob: bytes) -> bytes:
    """The native layout with its own numbers turned: the inline example of the protocol's text has them big-endian."""
    numbers = [NATIVE_MAGIC, blob[4:8][::-1]]
    at = 8
    for _ in range(min(int.from_bytes(blob[4:8], "big"), len(blob))):
        length = int.from_bytes(blob[at : at + 4], "big")
        numbers += (blob[at : at + 4][::-1], blob[at + 4 : at + 4 + length])
        at += 4 + length
    return b"".join([*numbers, blob[at:]])


def _check_version(data: bytes) -> None:
    if data[0] != FILE_VERSION:
        raise CorruptDeletionVector(
            f"Cannot read a deletion vector file: its first byte is {data[0] if data[0] < 32 else 'no version'} (expected the "
            f"format version {FILE_VERSION})"
        )


def _unframed(data: bytes, descriptor: DeletionVectorDescriptor) -> bytes:
    try:
        return unframe(data, expected_size=descriptor.size_in_bytes)
    except CorruptBitmap as error:
        raise CorruptDeletionVector(f"{error.message} (vector {descriptor.unique_id:.60})") from error


def _descriptor(value: dict[str, object]) -> DeletionVectorDescriptor:
    kind, path, offset = value["storage_type"], value["path_or_inline_dv"], value["offset"]
    size, cardinality = value["size_in_bytes"], value["cardinality"]
    found = f"{kind}{path}"[:80]
    if not (isinstance(kind, str) and isinstance(path, str) and isinstance(size, int) and isinstance(cardinality, int)):
        raise CorruptDeletionVector(f"Cannot read the deletion vector {found}: a required member is null")
    if kind not in _STORAGE_TYPES:
        raise CorruptDeletionVector(
            f"Cannot read the deletion vector {found}: unknown storage type {kind!r} (expected 'u', 'i' or 'p')"
        )
    if size < _SMALLEST_BITMAP or cardinality < 0 or (isinstance(offset, int) and offset < 0):
        raise CorruptDeletionVector(
            f"Cannot read the deletion vector {found}: impossible numbers "
            f"(offset {offset}, sizeInBytes {size}, cardinality {cardinality})"
        )
    return DeletionVectorDescriptor(
        storage_type=kind,
        path_or_inline_dv=path,
        offset=offset if isinstance(offset, int) else None,
        size_in_bytes=size,
        cardinality=cardinality,
    )
