"""The rows of a snapshot, all deletes applied (sections "Scan Planning", "Column Projection", "Delete Formats").

Data files are planned many at a time and read one after the other in batches, so memory does not grow with the table;
only the delete entries of the snapshot are held, and the deletes of the partition that is being read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from deltaberg.datafile.errors import DataFileError
from deltaberg.errors import UsageError, error_context
from deltaberg.iceberg.deletes.row_deletes import FileDeletes, RowDeletes
from deltaberg.iceberg.metadata.snapshot import Snapshot
from deltaberg.iceberg.scan.content_file import BATCH_ROWS, ContentFile
from deltaberg.iceberg.scan.metadata_columns import (
    DELETED,
    METADATA_COLUMNS,
    MetadataColumns,
    metadata_column_field,
)
from deltaberg.iceberg.scan.scan_task import DataFileTask, plan_data_files
from deltaberg.iceberg.schema.read_schema import identity_constants, read_fields
from deltaberg.iceberg.schema.schema import Schema
from deltaberg.iceberg.schema.types import NestedField
from deltaberg.iceberg.snapshot_write.row_lineage import LINEAGE_FIELDS
from deltaberg.iceberg.table import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """One scan of a table, not yet begun.

    ``schema``: the columns asked for, then lineage, then metadata columns. Variants are JSON text (unless asked for
    as they are stored), geometry and geography WKB, uuid 16 bytes.
    """

    table: Table
    snapshot: Snapshot | None
    fields: tuple[NestedField, ...]
    extra_columns: tuple[str, ...]
    batch_rows: int
    variant_as_json: bool
    schema: pa.Schema

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows in no particular order, at most ``batch_rows`` at a time; each call reads the table again.

        Raises IcebergError for metadata, DataFileError for data and delete files that are corrupt, StorageError for
        files that are not there.
        """
        version = None if self.snapshot is None else self.snapshot.snapshot_id
        with error_context(table=self.table.location, version=version):
            deletes = RowDeletes(self.table, self.snapshot)
            for task in plan_data_files(self.table, self.snapshot, deletes.index):
                yield from self.file_batches(task, deletes.of(task))

    def read_all(self) -> pa.Table:
        """Every row in memory."""
        return pa.Table.from_batches(self.batches(), schema=self.schema)

    def file_batches(self, task: DataFileTask, deletes: FileDeletes) -> Iterator[pa.RecordBatch]:
        """The rows of one data file of the scan's snapshot, for callers that plan files themselves."""
        columns = MetadataColumns(self.table.metadata, task, self.extra_columns)
        keys = [field for each in deletes.equality for field in each.columns.fields]
        fields = [*self.fields, *columns.stored_fields, *keys]
        constants = identity_constants(self.table.metadata.spec_by_id(task.spec_id), task.partition)
        count = 0
        with (
            error_context(path=task.file_path),
            ContentFile(
                self.table.storage,
                task.file_path,
                task.file_format,
                key_metadata=task.key_metadata,
                name_mapping=self.table.metadata.name_mapping,
            ) as file,
        ):
            for batch in file.iter_batches(
                fields, constants=constants, batch_rows=self.batch_rows, variant_as_json=self.variant_as_json
            ):
                count += batch.num_rows
                kept = self._rows(batch, columns, deletes)
                if kept.num_rows:
                    yield kept
        if count != task.record_count:
            raise DataFileError(
                f"Cannot read {task.file_path}: it has {count} rows (expected {task.record_count} by its manifest entry)",
                path=task.file_path,
            )

    def _rows(self, batch: pa.RecordBatch, columns: MetadataColumns, deletes: FileDeletes) -> pa.RecordBatch:
        positions = batch.column(batch.num_columns - 1)
        own, stored = len(self.fields), len(columns.stored_fields)
        deleted = deletes.deleted(positions, batch.columns[own + stored : -1])
        extra = columns.arrays(positions, batch.columns[own : own + stored], deleted)
        arrays = [*batch.columns[:own], *extra]
        if arrays:
            rows = pa.RecordBatch.from_arrays(arrays, schema=self.schema)
        else:
            rows = pa.RecordBatch.from_struct_array(pa.StructArray.from_buffers(pa.struct([]), len(positions), [None]))
        if deleted is None or DELETED in self.extra_columns:
            return rows
        return rows.filter(pa.array(~deleted))


def scan(
    table: Table,
    *,
    snapshot: Snapshot | None = None,
    schema: Schema | None = None,
    columns: Iterable[str] | None = None,
    with_lineage: bool = False,
    metadata_columns: Sequence[str] = (),
    batch_size: int = BATCH_ROWS,
    variant_as_json: bool = True,
) -> Scan:
    """A scan of a snapshot (None: the current one).

    ``schema``: in which to read it; by default the current one for the current snapshot, else that of the snapshot
    (``read_schema.schema_at`` tells what a branch, a tag or a point in time asks for). ``columns``: names of top-level
    columns (None: all). ``with_lineage`` appends ``_row_id`` and ``_last_updated_sequence_number``.
    ``metadata_columns``: any of ``_file``, ``_pos``, ``_deleted``, ``_spec_id``, ``_partition``; with ``_deleted``
    deleted rows come too and are marked.

    Raises UsageError for a column that is not there.
    """
    snapshot = table.metadata.current_snapshot if snapshot is None else snapshot
    schema = table.schema_for(snapshot) if schema is None else schema
    fields = schema.fields if columns is None else tuple(_column(schema, name) for name in columns)
    extra = (*(field.name for field in LINEAGE_FIELDS if with_lineage), *metadata_columns)
    for name in extra:
        if name not in METADATA_COLUMNS:
            raise UsageError(
                f"Cannot scan {table.location}: there is no metadata column {name} "
                f"(expected one of {', '.join(METADATA_COLUMNS)})"
            )
    names = [field.name for field in fields] + list(extra)
    twice = next((name for place, name in enumerate(names) if name in names[:place]), None)
    if twice is not None:
        raise UsageError(f"Cannot scan {table.location}: column {twice} would occur twice")
    own = [pa.field(f.name, f.type, f.nullable) for f in read_fields(fields, variant_as_json=variant_as_json)]
    return Scan(
        table=table,
        snapshot=snapshot,
        fields=tuple(fields),
        extra_columns=extra,
        batch_rows=batch_size,
        variant_as_json=variant_as_json,
        schema=pa.schema([*own, *(metadata_column_field(table.metadata, name) for name in extra)]),
    )


def _column(schema: Schema, name: str) -> NestedField:
    found = next((field for field in schema.fields if field.name == name), None)
    if found is None:
        known = ", ".join(field.name for field in schema.fields)
        raise UsageError(f"Cannot scan column {name}: the table has {known or 'no columns'}")
    return found
