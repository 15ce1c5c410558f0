"""The deletes of a snapshot as positions, to be written in another form.

Where a data file has one deletion vector and nothing else, that vector is named so that its bytes can be copied;
everything else is merged into one bitmap per data file. Equality deletes are resolved by reading only key columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.bitmap import PositionBitmap
from deltaberg.errors import error_context
from deltaberg.iceberg.deletes.delete_index import DeleteMatches, Scope
from deltaberg.iceberg.deletes.equality_deletes import DeleteColumns, EqualityFilter
from deltaberg.iceberg.deletes.row_deletes import FileDeletes, RowDeletes
from deltaberg.iceberg.metadata.snapshot import Snapshot
from deltaberg.iceberg.scan.content_file import ContentFile
from deltaberg.iceberg.scan.scan_task import DataFileTask, matched_data_files, tasks
from deltaberg.iceberg.schema.read_schema import identity_constants
from deltaberg.iceberg.table import Table

VECTOR_TYPE = pa.struct(
    [
        pa.field("location", pa.string(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("size", pa.int64(), nullable=False),
        pa.field("cardinality", pa.int64(), nullable=False),
    ]
)
"""A framed ``deletion-vector-v1`` blob: ``size`` bytes (length, magic, vector, CRC) at ``offset`` of a Puffin file."""

_ENTRY_NAMES = ("file_path", "content_offset", "content_size_in_bytes", "record_count")


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedDeletes:
    """The deleted rows of one batch of data files.

    ``vectors``: VECTOR_TYPE per data file, null where none can be copied. ``merged``: for other files with deleted
    rows, the positions by row of the batch. A data file in neither has no deleted row.
    """

    data_files: pa.RecordBatch
    vectors: pa.StructArray
    merged: Mapping[int, PositionBitmap] = field(repr=False)


class DeletedByKey(Protocol):
    """The rows that the equality deletes of a snapshot delete, resolved elsewhere."""

    def positions(self, file_path: str) -> PositionBitmap:
        """The positions deleted from a data file that has equality deletes; each file is asked for once, in manifest
        order.

        Raises DeltabergError for a data file that was not resolved: its deletes must not get lost.
        """
        ...


def resolve_deletes(
    table: Table, snapshot: Snapshot | None, *, by_key: DeletedByKey | None = None
) -> Iterator[ResolvedDeletes]:
    """Every live data file of a snapshot (batches of DATA_FILE_SCHEMA, in manifest order) with its deleted rows.

    by_key: the rows that equality deletes delete, where they are known already; no data file is read for them then.

    Raises CorruptMetadata and DataFileError for deletes that contradict themselves or their data files,
    UnsupportedIcebergFeature for encrypted files, StorageError for files that are not there. A vector that is named
    has not been read: ``deletion_vectors.read_deletion_vector`` checks it.
    """
    with error_context(table=table.location, version=None if snapshot is None else snapshot.snapshot_id):
        deletes = RowDeletes(table, snapshot)
        yield from resolve_matched(table, deletes, matched_data_files(table, snapshot, deletes.index), by_key=by_key)


def resolve_matched(
    table: Table,
    deletes: RowDeletes,
    matched: Iterable[tuple[pa.RecordBatch, DeleteMatches]],
    *,
    by_key: DeletedByKey | None = None,
) -> Iterator[ResolvedDeletes]:
    """``resolve_deletes`` for data files and deletes that the caller has matched."""
    for batch, matches in matched:
        yield _resolve(table, deletes, batch, matches, by_key)


def _resolve(
    table: Table, deletes: RowDeletes, batch: pa.RecordBatch, matches: DeleteMatches, by_key: DeletedByKey | None
) -> ResolvedDeletes:
    has_vector = matches.vector.counts > 0
    has_keys = (matches.equality.counts + matches.global_equality.counts) > 0
    has_files = (matches.file.counts + matches.partition.counts) > 0
    copied = has_vector & ~has_keys
    merged: dict[int, PositionBitmap] = {}
    for task in tasks(batch, matches, np.flatnonzero(has_keys | has_files)):
        with error_context(path=task.file_path):
            if not has_keys[task.row]:
                positions = PositionBitmap()
            elif by_key is not None:
                positions = by_key.positions(task.file_path)
            else:
                filters = deletes.equality_deletes.filters(matches, task.row, task.sequence_number)
                positions = deleted_by_key(table, task, filters)
            if has_vector[task.row] and not positions.cardinality:
                copied[task.row] = True
                continue
            found = deletes.positions(task)
            if found is not None:
                positions = positions.union(_within(found, task.record_count))
            if positions.cardinality:
                merged[task.row] = positions
    return ResolvedDeletes(data_files=batch, vectors=_vectors(deletes, matches, copied), merged=merged)


def deleted_by_key(table: Table, task: DataFileTask, filters: Sequence[EqualityFilter]) -> PositionBitmap:
    """The rows of a data file that equality deletes reach; only the delete columns are read."""
    if not filters:
        return PositionBitmap()
    only_keys = FileDeletes(positions=None, equality=tuple(filters))
    found = [np.zeros(0, dtype=np.int64)]
    for places, columns in read_key_columns(table, task, [each.columns for each in filters]):
        mask = only_keys.deleted(places, columns)
        if mask is not None:
            found.append(places.to_numpy()[mask])
    return PositionBitmap.from_positions(np.concatenate(found))


def read_key_columns(
    table: Table, task: DataFileTask, wanted: Sequence[DeleteColumns]
) -> Iterator[tuple[pa.Array, list[pa.Array]]]:
    """The positions of a data file's rows and the delete columns of each of ``wanted``, one after the other."""
    fields = [key for each in wanted for key in each.fields]
    constants = identity_constants(table.metadata.spec_by_id(task.spec_id), task.partition)
    with ContentFile(
        table.storage,
        task.file_path,
        task.file_format,
        key_metadata=task.key_metadata,
        name_mapping=table.metadata.name_mapping,
    ) as file:
        for batch in file.iter_batches(fields, constants=constants):
            yield batch.column(batch.num_columns - 1), batch.columns[:-1]


def _within(positions: PositionBitmap, record_count: int) -> PositionBitmap:
    """Without positions after the end of the data file, which delete nothing."""
    if positions.last is None or positions.last < record_count:
        return positions
    rows = positions.to_positions()
    return PositionBitmap.from_positions(rows[rows < record_count])


def _vectors(deletes: RowDeletes, matches: DeleteMatches, copied: npt.NDArray[np.bool_]) -> pa.StructArray:
    places = pa.array(matches.vector.start, mask=~copied)
    entries = deletes.index.entries(Scope.VECTOR)
    columns = []
    for name, part in zip(_ENTRY_NAMES, VECTOR_TYPE, strict=True):
        column = entries[name].take(places)
        column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        columns.append(pc.fill_null(column, pa.scalar("" if pa.types.is_string(part.type) else 0, part.type)))
    return pa.StructArray.from_arrays(columns, fields=list(VECTOR_TYPE), mask=pa.array(~copied))
