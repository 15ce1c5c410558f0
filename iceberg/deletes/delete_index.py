"""Which delete files apply to which data files (section "Scan Planning", the scope rules), column-wise.

Delete entries are sorted so that all entries that apply to a data file are adjacent: every relation between data files
and deletes is then one range of places per data file, found by binary search. No step handles a file by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.iceberg.errors import CorruptMetadata
from deltaberg.iceberg.manifest.data_file import DATA, EQUALITY_DELETES, POSITION_DELETES
from deltaberg.iceberg.manifest.metrics import metric
from deltaberg.iceberg.schema.tuple_keys import tuple_keys

Int64s = npt.NDArray[np.int64]

FILE_PATH_ID = 2147483546
POS_ID = 2147483545
"""Reserved field ids of the columns of position delete files."""

PUFFIN = "puffin"

_ENTRY_COLUMNS = (
    "content",
    "file_path",
    "file_format",
    "spec_id",
    "sequence_number",
    "record_count",
    "file_size_in_bytes",
    "equality_ids",
    "key_metadata",
    "referenced_data_file",
    "content_offset",
    "content_size_in_bytes",
)
ENTRY_SCHEMA = pa.schema(
    [
        pa.field("content", pa.int32()),
        pa.field("file_path", pa.string()),
        pa.field("file_format", pa.string()),
        pa.field("spec_id", pa.int32()),
        pa.field("sequence_number", pa.int64()),
        pa.field("record_count", pa.int64()),
        pa.field("file_size_in_bytes", pa.int64()),
        pa.field("equality_ids", pa.list_(pa.field("element", pa.int32(), nullable=False))),
        pa.field("key_metadata", pa.binary()),
        pa.field("referenced_data_file", pa.string()),
        pa.field("content_offset", pa.int64()),
        pa.field("content_size_in_bytes", pa.int64()),
        pa.field("lower_path", pa.binary()),
        pa.field("upper_path", pa.binary()),
    ]
)
"""The columns that are kept of each delete entry. ``lower_path``, ``upper_path``: bounds of the data file paths in it,
or null.
"""


class Scope(Enum):
    """How a delete entry finds its data files."""

    VECTOR = "deletion vector"
    FILE = "position deletes of one data file"
    PARTITION = "position deletes of a partition"
    EQUALITY = "equality deletes of a partition"
    GLOBAL_EQUALITY = "equality deletes of the whole table"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceRanges:
    """Half-open ranges of places in ``DeleteIndex.entries(scope)``, one per data file; empty where start == stop."""

    start: Int64s
    stop: Int64s

    @property
    def counts(self) -> Int64s:
        return self.stop - self.start


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteMatches:
    """The deletes of each data file of one batch, in the order of its rows.

    Position deletes of a file that has a deletion vector are left out already: the vector holds them.
    """

    vector: PlaceRanges
    file: PlaceRanges
    partition: PlaceRanges
    equality: PlaceRanges
    global_equality: PlaceRanges

    @property
    def untouched(self) -> npt.NDArray[np.bool_]:
        """True for data files that no delete applies to."""
        total = self.vector.counts + self.file.counts + self.partition.counts
        return np.asarray((total + self.equality.counts + self.global_equality.counts) == 0, dtype=bool)


class _Group:
    """The delete entries of one scope, sorted by (key, sequence number).

    A data file that belongs to a key finds the entries at or after (key, its own sequence number) in one run.
    """

    def __init__(self, entries: pa.Table, keys: Int64s, *, strict: bool) -> None:
        sequence = np.asarray(entries["sequence_number"].to_numpy(), dtype=np.int64)
        order = np.lexsort((sequence, keys))
        self.entries = entries.take(pa.array(order))
        self._sequences = np.unique(sequence)
        self._stride = len(self._sequences) + 1
        self._strict = strict
        ranks = np.searchsorted(self._sequences, sequence[order])
        self._sorted = keys[order] * self._stride + ranks

    def run(self, place: int) -> tuple[int, int]:
        """The places of all entries with the key of the one at ``place``."""
        key = int(self._sorted[place]) // self._stride
        start, stop = np.searchsorted(self._sorted, [key * self._stride, (key + 1) * self._stride])
        return int(start), int(stop)

    def ranges(self, keys: Int64s, sequence: Int64s) -> PlaceRanges:
        """Places for data files with a key (-1: none) and a data sequence number."""
        if not self.entries.num_rows:
            return _no_places(len(keys))
        # The first delete sequence that reaches the file: not below it, or strictly above it for equality deletes.
        ranks = np.searchsorted(self._sequences, sequence, side="right" if self._strict else "left")
        start = np.searchsorted(self._sorted, keys * self._stride + ranks)
        stop = np.searchsorted(self._sorted, (keys + 1) * self._stride)
        stop = np.where(keys < 0, start, stop)
        return PlaceRanges(start=start.astype(np.int64), stop=stop.astype(np.int64))


class DeleteIndex:
    """The delete entries of a snapshot, ready to be asked which of them apply to data files.

    Memory is that of the entries (a few hundred bytes each); the data files are never held.
    """

    def __init__(self, batches: Iterable[pa.RecordBatch], *, unpartitioned_spec_ids: frozenset[int]) -> None:
        """``batches``: live delete entries (DATA_FILE_SCHEMA). ``unpartitioned_spec_ids``: specs without fields.

        Raises CorruptMetadata for entries that contradict the specification.
        """
        tables = []
        keys = []
        for batch in batches:
            if not batch.num_rows:
                continue
            _check_entries(batch)
            tables.append(_entry_table(batch))
            keys.append(partition_keys(batch))
        table = (pa.concat_tables(tables) if tables else ENTRY_SCHEMA.empty_table()).combine_chunks()
        self.entry_count = table.num_rows
        self._partitions, partition_places = _distinct(pa.chunked_array(keys, type=pa.binary()))
        self._paths, path_places = _distinct(_referenced(table))
        self._group_by_scope(table, partition_places, path_places, unpartitioned_spec_ids)

    def _group_by_scope(
        self, table: pa.Table, partition: Int64s, path_keys: Int64s, unpartitioned: frozenset[int]
    ) -> None:
        content = np.asarray(table["content"].to_numpy(), dtype=np.int64)
        puffin = np.asarray(pc.equal(table["file_format"], PUFFIN).to_numpy(), dtype=bool)
        specs = np.asarray(table["spec_id"].to_numpy(), dtype=np.int64)
        in_global = np.isin(specs, np.array(sorted(unpartitioned), dtype=np.int64))
        equality = content == EQUALITY_DELETES
        masks = {
            Scope.VECTOR: puffin,
            Scope.FILE: ~puffin & (content == POSITION_DELETES) & (path_keys >= 0),
            Scope.PARTITION: ~puffin & (content == POSITION_DELETES) & (path_keys < 0),
            Scope.EQUALITY: equality & ~in_global,
            Scope.GLOBAL_EQUALITY: equality & in_global,
        }
        # A path belongs to one partition only, yet the rule asks for both to be equal: the key says both.
        both = path_keys * len(self._partitions) + partition
        self._vector_paths = np.zeros(len(self._paths), dtype=bool)
        self._vector_paths[path_keys[masks[Scope.VECTOR]]] = True
        by_scope: Mapping[Scope, Int64s] = {
            Scope.VECTOR: both,
            Scope.FILE: both,
            Scope.PARTITION: partition,
            Scope.EQUALITY: partition,
            Scope.GLOBAL_EQUALITY: np.zeros_like(partition),
        }
        self._groups = {
            scope: _Group(
                table.filter(pa.array(mask)),
                by_scope[scope][mask],
                strict=scope in {Scope.EQUALITY, Scope.GLOBAL_EQUALITY},
            )
            for scope, mask in masks.items()
        }

    def entries(self, scope: Scope) -> pa.Table:
        """The delete entries of a scope (ENTRY_SCHEMA) in the order to which places refer."""
        return self._groups[scope].entries

    def run(self, scope: Scope, place: int) -> tuple[int, int]:
        """The half-open range of places whose entries reach the same partition (or data file) as the one at ``place``."""
        return self._groups[scope].run(place)

    def match(self, batches: Sequence[pa.RecordBatch]) -> list[DeleteMatches]:
        """The deletes of the data files of several batches (DATA_FILE_SCHEMA).

        One call costs a pass over the referenced paths: call it with many data files at once.
        Raises CorruptMetadata for two deletion vectors of one data file, and for a vector whose partition differs
        from that of its data file.
        """
        if not self.entry_count:
            return [_nothing(batch.num_rows) for batch in batches]
        paths = _places(
            pa.chunked_array([batch.column("file_path") for batch in batches], type=pa.string()), self._paths
        )
        partitions = _places(pa.chunked_array([partition_keys(b) for b in batches], type=pa.binary()), self._partitions)
        result = []
        at = 0
        for batch in batches:
            here = slice(at, at + batch.num_rows)
            at += batch.num_rows
            result.append(self._match(batch, paths[here], partitions[here], _sequence_numbers(batch)))
        return result

    def _match(self, batch: pa.RecordBatch, paths: Int64s, partitions: Int64s, sequence: Int64s) -> DeleteMatches:
        both = np.where((paths >= 0) & (partitions >= 0), paths * len(self._partitions) + partitions, -1)
        groups = self._groups
        vector = groups[Scope.VECTOR].ranges(both, sequence)
        self._check_vectors(batch, paths, vector)
        has_vector = vector.counts > 0
        return DeleteMatches(
            vector=vector,
            file=_without(groups[Scope.FILE].ranges(both, sequence), has_vector),
            partition=_without(groups[Scope.PARTITION].ranges(partitions, sequence), has_vector),
            equality=groups[Scope.EQUALITY].ranges(partitions, sequence),
            global_equality=groups[Scope.GLOBAL_EQUALITY].ranges(np.zeros_like(partitions), sequence),
        )

    def _check_vectors(self, batch: pa.RecordBatch, paths: Int64s, vector: PlaceRanges) -> None:
        several = np.flatnonzero(vector.counts > 1)
        if len(several):
            path = batch.column("file_path")[int(several[0])].as_py()
            raise CorruptMetadata(
                f"Cannot apply deletes to {path}: expected at most one deletion vector, "
                f"found {int(vector.counts[several[0]])}",
                path=path,
                field="referenced_data_file",
            )
        # The deletes of a vector that names the file but has another partition would be dropped silently.
        named = np.zeros(len(paths), dtype=bool)
        named[paths >= 0] = self._vector_paths[paths[paths >= 0]]
        for row in np.flatnonzero(named & (vector.counts == 0)):
            self._check_missed_vector(batch, int(row))

    def _check_missed_vector(self, batch: pa.RecordBatch, row: int) -> None:
        path = batch.column("file_path")[row].as_py()
        entries = self._groups[Scope.VECTOR].entries
        newest = pc.max(entries["sequence_number"].filter(pc.equal(entries["referenced_data_file"], path))).as_py()
        if newest >= batch.column("sequence_number")[row].as_py():
            raise CorruptMetadata(
                f"Cannot apply the deletion vector of {path}: its partition differs from the data file's "
                "(expected equal spec and values)",
                path=path,
                field="partition",
            )


def _check_entries(batch: pa.RecordBatch) -> None:
    """Refuse entries without the fields that their kind of delete needs."""
    content = batch.column("content")
    if pc.any(pc.equal(content, DATA)).as_py():
        row = pc.index(content, pa.scalar(DATA, pa.int32())).as_py()
        raise _bad_entry(batch, row, "content", "1 or 2 in a delete manifest", "0")
    if batch.column("sequence_number").null_count:
        row = pc.index(batch.column("sequence_number").is_null(), pa.scalar(True)).as_py()
        raise _bad_entry(batch, row, "sequence_number", "a number", "null")
    vector = pc.equal(batch.column("file_format"), PUFFIN)
    equality = pc.equal(content, EQUALITY_DELETES)
    checks = (
        (pc.and_(vector, equality), "content", "1 for a deletion vector", "2"),
        (pc.and_(vector, batch.column("referenced_data_file").is_null()), "referenced_data_file", "a path", "null"),
        (pc.and_(vector, batch.column("content_offset").is_null()), "content_offset", "an offset", "null"),
        (
            pc.and_(vector, batch.column("content_size_in_bytes").is_null()),
            "content_size_in_bytes",
            "a length",
            "null",
        ),
        (
            pc.and_(equality, pc.equal(pc.fill_null(pc.list_value_length(batch.column("equality_ids")), 0), 0)),
            "equality_ids",
            "at least one field id",
            "none",
        ),
    )
    for wrong, field, expected, found in checks:
        if pc.any(wrong).as_py():
            raise _bad_entry(batch, pc.index(wrong, pa.scalar(True)).as_py(), field, expected, found)


def _bad_entry(batch: pa.RecordBatch, row: int, field: str, expected: str, found: str) -> CorruptMetadata:
    path = batch.column("file_path")[row].as_py()
    return CorruptMetadata(
        f"Cannot use delete file {path}: {field} must be {expected}, found {found}", path=path, field=field
    )


def _entry_table(batch: pa.RecordBatch) -> pa.Table:
    columns = [batch.column(name) for name in _ENTRY_COLUMNS]
    bounds = [metric(batch.column(name), FILE_PATH_ID) for name in ("lower_bounds", "upper_bounds")]
    return pa.table(columns + bounds, schema=ENTRY_SCHEMA)


def referenced_paths(batch: pa.RecordBatch) -> pa.Array:
    """The one data file that each delete entry names, as bytes; null where it names none."""
    return _referenced(_entry_table(batch)).combine_chunks()


def partition_keys(batch: pa.RecordBatch) -> pa.BinaryArray:
    """One key for the partition, spec and values, of each file."""
    partition = batch.column("partition")
    return tuple_keys([batch.column("spec_id"), *partition.flatten()], batch.num_rows)


def _referenced(table: pa.Table) -> pa.ChunkedArray:
    """The one data file that an entry names, null where it names none.

    Position deletes whose path bounds are equal name that one file: bounds enclose every value, so all are it.
    """
    lower, upper = table["lower_path"], table["upper_path"]
    position = pc.equal(table["content"], POSITION_DELETES)
    bound = pc.if_else(pc.fill_null(pc.equal(lower, upper), False), lower, pa.scalar(None, pa.binary()))
    path = pc.coalesce(table["referenced_data_file"].cast(pa.binary()), bound)
    return pc.if_else(position, path, pa.scalar(None, pa.binary()))


def _distinct(values: pa.ChunkedArray) -> tuple[pa.Array, Int64s]:
    """The distinct values, and the place of each value among them (-1 for null)."""
    if not len(values):
        return pa.array([], pa.binary()), np.zeros(0, dtype=np.int64)
    encoded = values.combine_chunks().dictionary_encode()
    return encoded.dictionary, np.asarray(pc.fill_null(encoded.indices, -1).to_numpy(), dtype=np.int64)


def _places(values: pa.ChunkedArray, among: pa.Array) -> Int64s:
    """The place of each value among distinct ones, -1 where it is not there."""
    if not len(among):
        return np.full(len(values), -1, dtype=np.int64)
    found = pc.index_in(values.cast(pa.binary()), value_set=among)
    return np.asarray(pc.fill_null(found, -1).to_numpy(), dtype=np.int64)


def _sequence_numbers(batch: pa.RecordBatch) -> Int64s:
    column = batch.column("sequence_number")
    if column.null_count:
        row = pc.index(column.is_null(), pa.scalar(True)).as_py()
        path = batch.column("file_path")[row].as_py()
        raise CorruptMetadata(
            f"Cannot plan the scan of {path}: its data sequence number is null (expected a number)",
            path=path,
            field="sequence_number",
        )
    return np.asarray(column.to_numpy(), dtype=np.int64)


def _without(ranges: PlaceRanges, gone: npt.NDArray[np.bool_]) -> PlaceRanges:
    return PlaceRanges(start=ranges.start, stop=np.where(gone, ranges.start, ranges.stop))


def _no_places(count: int) -> PlaceRanges:
    return PlaceRanges(start=np.zeros(count, np.int64), stop=np.zeros(count, np.int64))


def _nothing(count: int) -> DeleteMatches:
    none = _no_places(count)
    return DeleteMatches(vector=none, file=none, partition=none, equality=none, global_equality=none)
