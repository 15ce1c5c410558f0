"""Deletion vectors: the deleted positions of one data file in a Puffin blob (section "Deletion Vectors")."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from deltaberg.bitmap import FRAME_BYTES, CorruptBitmap, PositionBitmap, unframe
from deltaberg.iceberg.content_file import refuse_encrypted
from deltaberg.iceberg.delete_index import DeleteIndex, DeleteMatches, Scope
from deltaberg.iceberg.errors import CorruptMetadata
from deltaberg.storage.protocol import Storage

_READ_COLUMNS = [
    "file_path",
    "key_metadata",
    "record_count",
    "referenced_data_file",
    "content_offset",
    "content_size_in_bytes",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorPlace:
    """Where the deletion vector of a data file stands: a framed blob (length, magic, vector, CRC) in a Puffin file."""

    location: str
    offset: int
    size: int
    cardinality: int
    referenced_data_file: str


class DeletionVectors:
    """The deletion vectors of a snapshot."""

    def __init__(self, storage: Storage, index: DeleteIndex) -> None:
        self._storage = storage
        self._index = index

    def place(self, matches: DeleteMatches, row: int) -> VectorPlace | None:
        """The vector of the data file in a row of a matched batch. UnsupportedIcebergFeature when it is encrypted."""
        start, stop = int(matches.vector.start[row]), int(matches.vector.stop[row])
        if start == stop:
            return None
        entry: dict[str, Any] = self._index.entries(Scope.VECTOR).select(_READ_COLUMNS).slice(start, 1).to_pylist()[0]
        refuse_encrypted(entry["file_path"], entry["key_metadata"])
        return VectorPlace(
            location=entry["file_path"],
            offset=entry["content_offset"],
            size=entry["content_size_in_bytes"],
            cardinality=entry["record_count"],
            referenced_data_file=entry["referenced_data_file"],
        )

    def read(self, place: VectorPlace) -> PositionBitmap:
        """The deleted positions. CorruptMetadata when length, magic, checksum, cardinality or owner do not agree."""
        return read_deletion_vector(self._storage, place)


def read_deletion_vector(storage: Storage, place: VectorPlace) -> PositionBitmap:
    """One deletion vector, checked against its manifest entry.

    Raises CorruptMetadata for a blob that is damaged or is not what the entry says, StorageError for a file that is
    not there or shorter than the entry says.
    """
    if place.offset < 0 or place.size < FRAME_BYTES:
        raise _corrupt(place, "content_size_in_bytes", f"{place.size} bytes at {place.offset} cannot be a vector")
    data = storage.get_range(place.location, place.offset, place.size)
    try:
        bitmap = PositionBitmap.deserialize(unframe(data, expected_size=place.size - FRAME_BYTES))
    except CorruptBitmap as error:
        raise _corrupt(place, "content_offset", error.message) from error
    if bitmap.cardinality != place.cardinality:
        raise _corrupt(
            place,
            "record_count",
            f"it has {bitmap.cardinality} positions (expected {place.cardinality} by its manifest entry)",
        )
    return bitmap


def _corrupt(place: VectorPlace, field: str, reason: str) -> CorruptMetadata:
    return CorruptMetadata(
        f"Cannot use the deletion vector of {place.referenced_data_file} at byte {place.offset} of {place.location}: "
        f"{reason}",
        path=place.location,
        field=field,
    )
