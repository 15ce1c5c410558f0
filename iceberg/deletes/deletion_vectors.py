"""Deletion vectors: the deleted positions of one data file in a Puffin blob (section "Deletion Vectors")."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from deltaberg.bitmap import FRAME_BYTES, CorruptBitmap, PositionBitmap, unframe
from deltaberg.iceberg.deletes.delete_index import DeleteIndex, DeleteMatches, Scope
from deltaberg.iceberg.deletes.puffin import DELETION_VECTOR, MAGIC, Blob, PuffinFile
from deltaberg.iceberg.errors import CorruptMetadata
from deltaberg.iceberg.metadata.location import qualify_location, resolve_location
from deltaberg.iceberg.scan.content_file import refuse_encrypted
from deltaberg.storage.protocol import Storage

_KEPT_FOOTERS = 16
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
    """The deletion vectors of a snapshot; ``table_location`` completes relative locations (version 4)."""

    def __init__(self, storage: Storage, table_location: str, index: DeleteIndex) -> None:
        self._storage = storage
        self._table_location = table_location
        self._index = index
        self._footers: dict[str, dict[int, Blob] | None] = {}

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
        """The deleted positions.

        Raises CorruptMetadata when length, magic, checksum or cardinality do not agree with the manifest entry, or the
        Puffin footer says that the blob is another or belongs to another data file.
        """
        self._check_footer(place)
        return read_deletion_vector(self._storage, place)

    def _check_footer(self, place: VectorPlace) -> None:
        blobs = self._blobs(place.location)
        if blobs is None:
            return
        blob = blobs.get(place.offset)
        if blob is None or blob.length != place.size or blob.type != DELETION_VECTOR:
            found = "none" if blob is None else f"{blob.type} of {blob.length} bytes"
            raise _corrupt(
                place, "content_offset", f"the footer has no such blob (expected {place.size} bytes, found {found})"
            )
        if blob.compression_codec is not None:
            raise _corrupt(place, "compression-codec", "the footer says that it is compressed, which no vector may be")
        owner = blob.properties.get("referenced-data-file")
        # The manifest entry counts; the property is only a second witness.
        if owner is not None and place.referenced_data_file not in (
            owner,
            resolve_location(self._table_location, owner),
            qualify_location(self._table_location, owner),
        ):
            raise _corrupt(place, "referenced-data-file", f"the footer says that it belongs to {owner}")

    def _blobs(self, location: str) -> dict[int, Blob] | None:
        """The blobs of a Puffin file by offset. None for a file that only holds bare vectors.

        Released writers (Delta's UniForm, early DuckDB) left such files, and Iceberg's own reader takes them: it never
        opens the footer. The blob itself says its length, its checksum and its cardinality.
        """
        if location not in self._footers:
            if len(self._footers) >= _KEPT_FOOTERS:
                self._footers.pop(next(iter(self._footers)))
            is_puffin = self._storage.get_range(location, 0, len(MAGIC)) == MAGIC
            blobs = PuffinFile.open(self._storage, location).blobs if is_puffin else ()
            self._footers[location] = {blob.offset: blob for blob in blobs} if is_puffin else None
        return self._footers[location]


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
