"""Position delete files: rows deleted by data file and position (section "Position Delete Files").

A delete file names data files by the literal ``file_path`` of their manifest entries. One written for a whole
partition is read once and kept, as one bitmap per data file, for the data files that follow.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.bitmap import MAX_POSITION, PositionBitmap
from deltaberg.datafile.errors import DataFileError
from deltaberg.errors import error_context
from deltaberg.iceberg.deletes.delete_index import FILE_PATH_ID, POS_ID, DeleteIndex, DeleteMatches, PlaceRanges, Scope
from deltaberg.iceberg.errors import CorruptMetadata
from deltaberg.iceberg.manifest.manifest_list import RELATIVE_LOCATIONS
from deltaberg.iceberg.metadata.location import has_scheme, qualify_location
from deltaberg.iceberg.metadata.table_metadata import TableMetadata
from deltaberg.iceberg.scan.content_file import ContentFile
from deltaberg.iceberg.schema.name_mapping import MappedField, NameMapping
from deltaberg.iceberg.schema.types import LongType, NestedField, StringType
from deltaberg.storage.protocol import Storage

DELETE_FIELDS = (
    NestedField(field_id=FILE_PATH_ID, name="file_path", required=True, type=StringType()),
    NestedField(field_id=POS_ID, name="pos", required=True, type=LongType()),
)
"""The columns of ``file_position_delete`` that say which rows are deleted; ``row`` is not needed."""

_NAMES = NameMapping(fields=tuple(MappedField(names=(field.name,), field_id=field.field_id) for field in DELETE_FIELDS))
_CACHED_POSITIONS = 50_000_000


class PositionDeletes:
    """The position delete files of a snapshot, read when the first data file needs them.

    Recently used partition-wide files stay in memory, up to a number of positions.
    """

    def __init__(self, storage: Storage, metadata: TableMetadata, index: DeleteIndex) -> None:
        self._storage = storage
        self._metadata = metadata
        self._index = index
        self._files: dict[int, dict[str, PositionBitmap]] = {}

    def deleted(self, path: str, matches: DeleteMatches, row: int) -> PositionBitmap | None:
        """The deleted positions of the data file in a row of a matched batch; None where no delete file reaches it.

        Raises CorruptMetadata for a delete file that contradicts its manifest entry, DataFileError for a corrupt one.
        """
        found: PositionBitmap | None = None
        for bitmap in self._own(path, matches.file, row):
            found = bitmap if found is None else found.union(bitmap)
        for bitmap in self._shared(path, matches.partition, row):
            found = bitmap if found is None else found.union(bitmap)
        return found

    def _own(self, path: str, ranges: PlaceRanges, row: int) -> Iterator[PositionBitmap]:
        """The deleted positions in delete files that apply to this data file alone."""
        for entry in self._entries(Scope.FILE, int(ranges.start[row]), int(ranges.stop[row])):
            by_path = self._read(entry)
            others = [name for name in by_path if name != path]
            if others:
                raise CorruptMetadata(
                    f"Cannot apply position deletes of {entry['file_path']}: a row names {others[0]} "
                    f"(its manifest entry says that all are in {path})",
                    path=entry["file_path"],
                    field="referenced_data_file",
                )
            yield from by_path.values()

    def _shared(self, path: str, ranges: PlaceRanges, row: int) -> Iterator[PositionBitmap]:
        """The deleted positions in delete files that apply to a whole partition."""
        start, stop = int(ranges.start[row]), int(ranges.stop[row])
        if start == stop:
            return
        entries = self._index.entries(Scope.PARTITION).slice(start, stop - start)
        literal = pa.scalar(path.encode(), pa.binary())
        below = pc.fill_null(pc.less_equal(entries["lower_path"], literal), True)
        above = pc.fill_null(pc.greater_equal(entries["upper_path"], literal), True)
        for offset in np.flatnonzero(pc.and_(below, above).to_numpy()).tolist():
            bitmap = self._partition_file(start + offset).get(path)
            if bitmap is not None:
                yield bitmap

    def _partition_file(self, place: int) -> dict[str, PositionBitmap]:
        by_path = self._files.pop(place, None)
        if by_path is None:
            (entry,) = self._entries(Scope.PARTITION, place, place + 1)
            by_path = self._read(entry)
            held = _size(by_path)
            while self._files and held + sum(map(_size, self._files.values())) > _CACHED_POSITIONS:
                self._files.pop(next(iter(self._files)))
        self._files[place] = by_path
        return by_path

    def _entries(self, scope: Scope, start: int, stop: int) -> list[dict[str, Any]]:
        if start >= stop:
            return []
        entries = self._index.entries(scope).slice(start, stop - start)
        rows: list[dict[str, Any]] = entries.select(["file_path", "file_format", "key_metadata"]).to_pylist()
        return rows

    def _read(self, entry: dict[str, Any]) -> dict[str, PositionBitmap]:
        """The positions of one delete file by data file."""
        location = entry["file_path"]
        parts: dict[str, list[npt.NDArray[np.int64]]] = {}
        with (
            error_context(path=location),
            ContentFile(
                self._storage,
                location,
                entry["file_format"],
                key_metadata=entry["key_metadata"],
                name_mapping=_NAMES,
            ) as file,
        ):
            for batch in file.iter_batches(DELETE_FIELDS):
                for path, positions in _by_path(batch, location):
                    parts.setdefault(self._manifest_path(path), []).append(positions)
        return {path: PositionBitmap.from_positions(np.concatenate(each)) for path, each in parts.items()}

    def _manifest_path(self, path: str) -> str:
        """The path in the form in which manifest entries of this table are read: version 4 puts a scheme before older
        ones.
        """
        if self._metadata.format_version < RELATIVE_LOCATIONS or has_scheme(path):
            return path
        return qualify_location(self._metadata.location, path)


def _by_path(batch: pa.RecordBatch, location: str) -> Iterator[tuple[str, npt.NDArray[np.int64]]]:
    """The positions of each data file in a batch; files stand together where the file is sorted as it must be."""
    encoded = batch.column(0).dictionary_encode()
    codes = encoded.indices.to_numpy()
    positions = batch.column(1).to_numpy()
    if len(positions) and (int(positions.min()) < 0 or int(positions.max()) > MAX_POSITION):
        raise DataFileError(
            f"Cannot read position deletes of {location}: pos {int(positions.min())} or {int(positions.max())} "
            "is no row position",
            path=location,
        )
    order = np.argsort(codes, kind="stable")
    edges = np.flatnonzero(np.diff(codes[order])) + 1
    for places in np.split(order, edges):
        if len(places):
            yield encoded.dictionary[int(codes[places[0]])].as_py(), positions[places]


def _size(by_path: dict[str, PositionBitmap]) -> int:
    return sum(bitmap.cardinality for bitmap in by_path.values())
