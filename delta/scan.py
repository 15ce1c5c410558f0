"""The rows of a snapshot: data files read through the schema of today, deletion vectors applied, partition values
taken from the log. PROTOCOL "Requirements for Readers"."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.datafile import ParquetSource, ReadField
from deltaberg.delta.deletion_vector.deletion_vector import DeletionVectorDescriptor, descriptors, read_deletion_vector
from deltaberg.delta.errors import CorruptDeletionVector, CorruptLog, InvalidDeltaRequest
from deltaberg.delta.log.add_path import location_array
from deltaberg.delta.protocol.row_tracking import is_enabled
from deltaberg.delta.schema.char_padding import has_char, padded
from deltaberg.delta.schema.partition_values import decode_partition_values
from deltaberg.delta.schema.read_schema import match_by, read_fields, result_field
from deltaberg.delta.schema.types import StructField
from deltaberg.delta.snapshot import Snapshot
from deltaberg.delta.stats.variant_text import holds_variant, json_text
from deltaberg.errors import error_context

ROW_ID = "_row_id"
ROW_COMMIT_VERSION = "_row_commit_version"
_LINEAGE = (pa.field(ROW_ID, pa.int64()), pa.field(ROW_COMMIT_VERSION, pa.int64()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """A scan that has not begun. ``schema``: the columns asked for in their order, all nullable, then the lineage."""

    snapshot: Snapshot
    schema: pa.Schema
    columns: tuple[StructField, ...]
    with_lineage: bool
    batch_size: int
    variant_as_json: bool
    files: tuple[pa.RecordBatch, ...] | None
    partition_timezone: str

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows, file by file; each call reads the table again.

        Raises DataFileError and StorageError naming a data file that cannot be read, CorruptDeletionVector and
        CorruptLog for a vector or a partition value that contradicts the log.
        """
        reader = _FileReader(self)
        for files in self.snapshot.add_files(check_totals=False) if self.files is None else self.files:
            yield from reader.rows(files)


def scan(
    snapshot: Snapshot,
    *,
    columns: Iterable[str] | None = None,
    with_lineage: bool = False,
    batch_size: int = 65_536,
    variant_as_json: bool = True,
    files: Iterable[pa.RecordBatch] | None = None,
    partition_timezone: str = "UTC",
) -> Scan:
    """Plan a scan; no data file is opened yet.

    ``columns``: top-level names, all when None. ``with_lineage`` appends ``_row_id`` and ``_row_commit_version``.
    ``variant_as_json`` gives a column with variants, at any depth, as JSON text; else variants are structs of metadata
    and value. ``files`` restricts the scan to some of the snapshot's files, as batches of ADD_SCHEMA.
    ``partition_timezone`` is the zone of timestamps in partition values that name none: that of the writer's system,
    which the log does not tell.

    Raises InvalidDeltaRequest for an unknown column and for lineage where row tracking is not enabled.
    """
    chosen = _chosen(snapshot, columns)
    fields = [_result_field(field, variant_as_json) for field in chosen]
    if with_lineage:
        if not is_enabled(snapshot.protocol, snapshot.metadata):
            raise InvalidDeltaRequest(
                "Cannot read row ids: row tracking is not enabled (expected delta.enableRowTracking true)",
                version=snapshot.version,
                feature="rowTracking",
            )
        for lineage in _LINEAGE:
            if any(field.name == lineage.name for field in fields):
                raise InvalidDeltaRequest(f"Cannot read row ids: the table has a column {lineage.name!r} of its own")
        fields.extend(_LINEAGE)
    return Scan(
        snapshot=snapshot,
        schema=pa.schema(fields),
        columns=chosen,
        with_lineage=with_lineage,
        batch_size=batch_size,
        variant_as_json=variant_as_json,
        files=None if files is None else tuple(files),
        partition_timezone=partition_timezone,
    )


def _result_field(field: StructField, variant_as_json: bool) -> pa.Field:
    if variant_as_json and holds_variant(field.type):
        return pa.field(field.name, pa.string())
    return result_field(field, variant_as_json=variant_as_json)


def _chosen(snapshot: Snapshot, columns: Iterable[str] | None) -> tuple[StructField, ...]:
    schema = snapshot.metadata.schema
    if columns is None:
        return schema.fields
    chosen = []
    for name in columns:
        if name not in schema:
            raise InvalidDeltaRequest(
                f"Cannot read the column {name!r}: the table has none of that name (it has {', '.join(schema.names)})",
                version=snapshot.version,
            )
        chosen.append(schema.field(name))
    if len({field.name for field in chosen}) < len(chosen):
        raise InvalidDeltaRequest(f"Cannot read the columns {[field.name for field in chosen]}: one is named twice")
    return tuple(chosen)


@dataclass(frozen=True, slots=True, kw_only=True)
class _DataFile:
    """The columns of one row of ADD_SCHEMA that the scan needs."""

    location: str
    vector: DeletionVectorDescriptor | None
    partition_values: dict[str, pa.Scalar]
    base_row_id: int | None
    default_row_commit_version: int | None


class _FileReader:
    """The values that the files of one scan share."""

    def __init__(self, scan: Scan) -> None:
        self._scan = scan
        snapshot = scan.snapshot
        self._snapshot = snapshot
        self._storage, self._root = snapshot.storage, snapshot.table_root
        mapping = snapshot.column_mapping
        partitions = frozenset(snapshot.metadata.partition_columns)
        data = [field for field in scan.columns if field.name not in partitions]
        self._partitions = [field for field in scan.columns if field.name in partitions]
        self._char = frozenset(field.name for field in scan.columns if has_char(field))
        self._variant = frozenset(
            field.name for field in scan.columns if scan.variant_as_json and holds_variant(field.type)
        )
        self._match = match_by(mapping)
        self._fields = read_fields(mapping, data, variant_as_json=scan.variant_as_json)
        if scan.with_lineage:
            properties = snapshot.metadata.properties
            self._fields += tuple(
                ReadField(name=lineage.name, type=lineage.type, physical_name=stored)
                for lineage, stored in zip(
                    _LINEAGE,
                    (properties.materialized_row_id_column, properties.materialized_row_commit_version_column),
                    strict=True,
                )
                if stored is not None
            )

    def rows(self, files: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        for file in self._data_files(files):
            with error_context(path=file.location):
                yield from self._file_rows(file)

    def _data_files(self, files: pa.RecordBatch) -> Iterator[_DataFile]:
        mapping = self._snapshot.column_mapping
        raw = files.column("partition_values")
        values = {
            field.name: decode_partition_values(
                raw.field(mapping.physical_name(field)),
                field.type,
                column=field.name,
                partition_timezone=self._scan.partition_timezone,
            )
            for field in self._partitions
        }
        rows = zip(
            location_array(files, self._root).to_pylist(),
            descriptors(files.column("deletion_vector")),
            files.column("base_row_id").to_pylist(),
            files.column("default_row_commit_version").to_pylist(),
            strict=True,
        )
        for index, (location, vector, base_row_id, commit_version) in enumerate(rows):
            yield _DataFile(
                location=location,
                vector=vector,
                partition_values={name: array[index] for name, array in values.items()},
                base_row_id=base_row_id,
                default_row_commit_version=commit_version,
            )

    def _file_rows(self, file: _DataFile) -> Iterator[pa.RecordBatch]:
        with ParquetSource(self._storage, file.location) as source:
            deleted = self._deleted(file, source.num_rows)
            if deleted is not None and len(deleted) == source.num_rows:
                return
            batches = source.iter_batches(
                self._fields,
                match=self._match,
                batch_size=self._scan.batch_size,
                positions=deleted is not None or self._scan.with_lineage,
            )
            for batch in batches:
                kept = batch if deleted is None else _without(batch, deleted)
                if kept.num_rows:
                    yield self._result(kept, file)

    def _deleted(self, file: _DataFile, rows: int) -> npt.NDArray[np.int64] | None:
        if file.vector is None:
            return None
        bitmap = read_deletion_vector(self._storage, self._root, file.vector)
        if bitmap.last is not None and bitmap.last >= rows:
            raise CorruptDeletionVector(
                f"Cannot apply the deletion vector {file.vector.unique_id:.60}: it deletes row {bitmap.last} "
                f"(expected rows below {rows}, the number in the file)"
            )
        return bitmap.to_positions(limit=rows)

    def _result(self, batch: pa.RecordBatch, file: _DataFile) -> pa.RecordBatch:
        columns: dict[str, pa.Array] = {field.name: batch.column(i) for i, field in enumerate(self._fields)}
        for name, value in file.partition_values.items():
            columns[name] = pa.repeat(value, batch.num_rows)
        if self._scan.with_lineage:
            self._add_lineage(columns, _positions(batch), file)
        for field in self._scan.columns:
            if field.name in self._char:
                columns[field.name] = padded(columns[field.name], field)
            if field.name in self._variant:
                columns[field.name] = json_text(columns[field.name], field.type)
        if not self._scan.schema.names:
            return pa.RecordBatch.from_struct_array(pa.array([{}] * batch.num_rows, pa.struct([])))
        return pa.RecordBatch.from_arrays([columns[name] for name in self._scan.schema.names], schema=self._scan.schema)

    def _add_lineage(self, columns: dict[str, pa.Array], positions: pa.Array, file: _DataFile) -> None:
        if file.base_row_id is None or file.default_row_commit_version is None:
            raise CorruptLog(
                "Cannot read row ids: row tracking is enabled, but the add has no baseRowId and defaultRowCommitVersion"
            )
        generated = (
            (ROW_ID, pc.add_checked(positions, file.base_row_id)),
            (ROW_COMMIT_VERSION, pa.repeat(pa.scalar(file.default_row_commit_version, pa.int64()), len(positions))),
        )
        for name, values in generated:
            stored = columns.get(name)
            columns[name] = values if stored is None else pc.coalesce(stored, values)


def _positions(batch: pa.RecordBatch) -> pa.Array:
    """The file positions of the columns that were read, under whatever name the table has for those columns."""
    return batch.column(batch.num_columns - 1)


def _without(batch: pa.RecordBatch, deleted: npt.NDArray[np.int64]) -> pa.RecordBatch:
    """The rows whose positions are not among the deleted ones; a batch's positions are consecutive."""
    first = _positions(batch)[0].as_py()
    low, high = np.searchsorted(deleted, (first, first + batch.num_rows))
    if low == high:
        return batch
    keep = np.ones(batch.num_rows, np.bool_)
    keep[deleted[low:high] - first] = False
    return batch.filter(pa.array(keep))
