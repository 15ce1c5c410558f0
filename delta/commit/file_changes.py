"""The file actions of a commit that is being prepared, and their effect on the table as a whole."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.delta.errors import InvalidDeltaRequest
from deltaberg.delta.log.add_path import path_keys
from deltaberg.delta.log.file_actions import DELETION_VECTOR, STRING_MAP, file_keys
from deltaberg.delta.log.path_fingerprints import PathFingerprints, first_repeated, paths_among
from deltaberg.delta.protocol import row_tracking
from deltaberg.delta.protocol.writer_requirements import CommitShape
from deltaberg.storage.batch_spool import BatchSpool

_REQUIRED = (
    pa.field("path", pa.string()),
    pa.field("size", pa.int64()),
    pa.field("modification_time", pa.int64()),
    pa.field("data_change", pa.bool_()),
)
_OPTIONAL = (
    pa.field("deletion_vector", DELETION_VECTOR),
    pa.field("base_row_id", pa.int64()),
    pa.field("default_row_commit_version", pa.int64()),
    pa.field("clustering_provider", pa.string()),
    pa.field("tags", STRING_MAP),
)
_NO_STATS = pa.struct([("num_records", pa.int64())])
_NO_KEYS = pa.array([], pa.string())


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeTotals:
    """Numbers of one side of a commit. ``rows`` and ``deleted_rows`` are None where a file states no count."""

    files: int = 0
    bytes: int = 0
    rows: int | None = 0
    vectors: int = 0
    deleted_rows: int = 0

    def __add__(self, other: ChangeTotals) -> ChangeTotals:
        known = self.rows is not None and other.rows is not None
        return ChangeTotals(
            files=self.files + other.files,
            bytes=self.bytes + other.bytes,
            rows=(self.rows or 0) + (other.rows or 0) if known else None,
            vectors=self.vectors + other.vectors,
            deleted_rows=self.deleted_rows + other.deleted_rows,
        )

    @staticmethod
    def of(batch: pa.RecordBatch) -> ChangeTotals:
        counts = pc.struct_field(batch.column("stats"), "num_records")
        vectors = batch.column("deletion_vector")
        return ChangeTotals(
            files=batch.num_rows,
            bytes=pc.sum(batch.column("size")).as_py() or 0,
            rows=None if counts.null_count else pc.sum(counts).as_py() or 0,
            vectors=len(vectors) - vectors.null_count,
            deleted_rows=pc.sum(pc.struct_field(vectors, "cardinality")).as_py() or 0,
        )


class FileBatches:
    """Files of one kind of action, put aside, with the facts about them that are needed without reading them again."""

    def __init__(self) -> None:
        self._batches = BatchSpool()
        self._paths = PathFingerprints()
        self.totals = ChangeTotals()
        self.changes_data = False
        self.has_vectors = False
        self.has_row_ids = False
        self.highest_row_id = -1
        self.rows_without_ids = 0

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return iter(self._batches)

    def __bool__(self) -> bool:
        return len(self._batches) > 0

    def append(self, batch: pa.RecordBatch) -> None:
        """A batch as ``conformed`` gives it."""
        row_ids = batch.column("base_row_id")
        self._paths.add(path_keys(batch.column("path").drop_null()))
        self.totals = self.totals + ChangeTotals.of(batch)
        self.changes_data = self.changes_data or bool(pc.any(batch.column("data_change"), min_count=0).as_py())
        self.has_vectors = self.has_vectors or batch.column("deletion_vector").null_count < batch.num_rows
        self.has_row_ids = self.has_row_ids or row_ids.null_count < batch.num_rows
        self.highest_row_id = max(self.highest_row_id, row_tracking.highest_id(batch))
        self.rows_without_ids += row_tracking.rows_without_ids(batch)
        self._batches.append(batch)

    @property
    def fingerprints(self) -> PathFingerprints:
        """The keys of all paths."""
        return self._paths


class FileChanges:
    """Adds and removes, checked as they come and put aside."""

    def __init__(self) -> None:
        self.adds = FileBatches()
        self.recommitted = FileBatches()
        self._removes = {True: FileBatches(), False: FileBatches()}

    @property
    def all_adds(self) -> Iterator[pa.RecordBatch]:
        """New files, then those that are live already and committed again."""
        yield from self.adds
        yield from self.recommitted

    @property
    def removes(self) -> Iterator[tuple[bool, FileBatches]]:
        """Whether removing them changes data, and the files."""
        return ((data_change, files) for data_change, files in self._removes.items() if files)

    @property
    def all_removes(self) -> Iterator[pa.RecordBatch]:
        """The files to remove, as they are live."""
        for files in self._removes.values():
            yield from files

    @property
    def removed_fingerprints(self) -> PathFingerprints:
        """The keys of the paths of all files to remove."""
        return PathFingerprints.joined(files.fingerprints for files in self._removes.values())

    def remove(self, batch: pa.RecordBatch, *, data_change: bool) -> None:
        self._removes[data_change].append(batch)

    def added_keys(self) -> pa.Array:
        return _path_keys(self.all_adds)

    def removed_keys(self) -> pa.Array:
        return _path_keys(self.all_removes)

    def check(self) -> None:
        """Raise InvalidDeltaRequest for two actions that reconcile with each other (PROTOCOL "Delta Log Entries")."""
        for sides, verb in (((self.adds, self.recommitted), "add"), (tuple(self._removes.values()), "remove")):
            twice = _first_repeated(sides)
            if twice is not None:
                raise InvalidDeltaRequest(f"Cannot {verb} a file twice in one commit", path=twice)
        if not any(self._removes.values()) or not (self.adds or self.recommitted):
            return
        added, removed = self.added_keys(), self.removed_keys()
        again = _logical_keys(self.all_adds, removed)
        gone = _logical_keys(self.all_removes, added)
        same = again.filter(pc.is_in(again, gone)) if len(again) and len(gone) else again.slice(0, 0)
        if len(same):
            raise InvalidDeltaRequest(
                "Cannot remove and add a file with the same deletion vector in one commit (expected another one)",
                path=same[0].as_py().partition("\0")[0],
            )

    def shape(self, *, copies_rows: bool | None) -> CommitShape:
        """The commit's effect on rows. ``copies_rows`` None assumes the worst of a commit that adds and removes."""
        adds_rows = self.adds.changes_data
        if adds_rows and any(self._removes.values()):
            removed = self.removed_keys()
            adds_rows = any(
                pc.any(pc.and_(batch.column("data_change"), _outside(path_keys(batch.column("path")), removed))).as_py()
                for batch in self.adds
            )
        removes_rows = bool(self._removes[True])
        both = adds_rows and removes_rows
        return CommitShape(
            adds_rows=adds_rows,
            removes_rows=removes_rows,
            writes_vectors=self.adds.has_vectors,
            copies_rows=both if copies_rows is None else copies_rows,
        )

    def added(self) -> ChangeTotals:
        return self.adds.totals

    def removed(self) -> ChangeTotals:
        return sum((files.totals for files in self._removes.values()), ChangeTotals())

    def metrics(self) -> dict[str, str]:
        """``operationMetrics`` in the reference implementation's names."""
        added, removed = self.added(), self.removed()
        metrics = {
            "numFiles": added.files,
            "numOutputBytes": added.bytes,
            "numAddedFiles": added.files,
            "numAddedBytes": added.bytes,
            "numRemovedFiles": removed.files,
            "numRemovedBytes": removed.bytes,
            "numAddedChangeFiles": 0,
            "numDeletionVectorsAdded": added.vectors,
            "numDeletionVectorsRemoved": removed.vectors,
        }
        if added.rows is not None:
            metrics["numOutputRows"] = added.rows
        return {name: str(number) for name, number in metrics.items()}


def conformed(batch: pa.RecordBatch, partition_names: Iterable[str]) -> pa.RecordBatch:
    """A batch with every column of ADD_SCHEMA that a writer needs; optional ones that are absent become null.

    Raises InvalidDeltaRequest for a missing column, other partition columns than the table's, and an empty partition
    value, which would read back as null.
    """
    names = list(partition_names)
    columns: dict[str, pa.Array] = {}
    for field in _REQUIRED:
        if batch.schema.get_field_index(field.name) < 0:
            raise InvalidDeltaRequest(f"Cannot commit files: the batch has no column {field.name!r}")
        columns[field.name] = _cast(batch, field)
    if batch.schema.get_field_index("partition_values") < 0:
        raise InvalidDeltaRequest("Cannot commit files: the batch has no column 'partition_values'")
    columns["partition_values"] = batch.column("partition_values")
    columns["stats"] = batch.column("stats") if "stats" in batch.schema.names else pa.nulls(batch.num_rows, _NO_STATS)
    for field in _OPTIONAL:
        present = field.name in batch.schema.names
        columns[field.name] = _cast(batch, field) if present else pa.nulls(batch.num_rows, field.type)
    columns["stats"] = _wide_with_vectors(columns["stats"], columns["deletion_vector"])
    values = columns["partition_values"]
    found = [field.name for field in values.type]
    if found != names:
        raise InvalidDeltaRequest(
            f"Cannot commit files: their partition values are of the columns {found} (expected {names}, by physical name)"
        )
    for index, name in enumerate(names):
        empty = pc.equal(pc.struct_field(values, index), "")
        row = pc.index(pc.fill_null(empty, False), True).as_py()
        if row >= 0:
            raise InvalidDeltaRequest(
                f"Cannot commit a file whose value of the partition column {name!r} is the empty string: Delta reads it "
                "as null",
                path=columns["path"][row].as_py(),
            )
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def _wide_with_vectors(stats: pa.Array, vectors: pa.Array) -> pa.Array:
    """Statistics that say ``tightBounds`` false where rows were deleted: they were gathered over the whole file."""
    if vectors.null_count == len(vectors) or stats.null_count == len(stats):
        return stats
    names = [field.name for field in stats.type]
    children = {name: pc.struct_field(stats, [index]) for index, name in enumerate(names)}
    tight = children.get("tight_bounds", pa.nulls(len(stats), pa.bool_()))
    children["tight_bounds"] = pc.if_else(pc.is_valid(vectors), False, tight)
    return pa.StructArray.from_arrays(list(children.values()), names=list(children), mask=pc.is_null(stats))


def _cast(batch: pa.RecordBatch, field: pa.Field) -> pa.Array:
    values = batch.column(field.name)
    try:
        return values if values.type == field.type else values.cast(field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise InvalidDeltaRequest(
            f"Cannot commit files: the column {field.name!r} is of type {values.type} (expected {field.type})"
        ) from error


def require_counts_with_vectors(batch: pa.RecordBatch) -> None:
    """A file with a deletion vector states its physical record count (PROTOCOL "Writer Requirement for Deletion Vectors")."""
    counts = pc.struct_field(batch.column("stats"), "num_records")
    missing = pc.and_(pc.is_valid(batch.column("deletion_vector")), pc.is_null(counts))
    row = pc.index(missing, True).as_py()
    if row >= 0:
        raise InvalidDeltaRequest(
            "Cannot add a file with a deletion vector: its stats have no numRecords (expected the physical row count)",
            path=batch.column("path")[row].as_py(),
        )


def _path_keys(batches: Iterable[pa.RecordBatch]) -> pa.Array:
    keys = [path_keys(batch.column("path")) for batch in batches]
    return pa.concat_arrays(keys) if keys else _NO_KEYS


def _logical_keys(batches: Iterable[pa.RecordBatch], paths: pa.Array) -> pa.Array:
    """Keys of path and deletion vector of the files whose path is among ``paths``."""
    found = []
    for batch in batches:
        by_path, by_file = file_keys(batch)
        found.append(by_file.filter(pc.is_in(by_path, paths)))
    return pa.concat_arrays(found) if found else _NO_KEYS


def _first_repeated(sides: Sequence[FileBatches]) -> str | None:
    """A path that occurs twice among all sides."""
    suspects = PathFingerprints.repeated_among([side.fingerprints for side in sides])
    if len(suspects) == 0:
        return None
    keys = (path_keys(batch.column("path").drop_null()) for side in sides for batch in side)
    return first_repeated(pa.concat_arrays([paths_among(each, suspects) for each in keys]))


def _outside(keys: pa.Array, others: pa.Array) -> pa.Array:
    return pc.invert(pc.is_in(keys, others)) if len(others) else pa.repeat(pa.scalar(True), len(keys))
