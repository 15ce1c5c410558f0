"""Writing Parquet data files that both formats accept, with field ids and the facts that their metadata need."""

from __future__ import annotations

import io
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import MappingProxyType, TracebackType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as pt

from deltaberg.datafile.errors import DataFileError
from deltaberg.datafile.file_schema import PARQUET_FIELD_ID, child_fields, file_fields, is_list
from deltaberg.datafile.parquet.column_metrics import LeafMetrics, MetricsBuilder
from deltaberg.datafile.parquet.variant_annotation import VARIANT_MARK, annotated, variant_elements
from deltaberg.datafile.projection import Projection, ReadField
from deltaberg.errors import DeltabergError
from deltaberg.storage import Storage, StorageError

ROW_GROUP_BYTES = 64 << 20
"""How much Arrow data makes a row group."""

_ROW_GROUP_ROWS = 1 << 20
_VARIANT_GROUP = pa.struct([pa.field("metadata", pa.binary(), False), pa.field("value", pa.binary(), False)])
_NO_VALUES: Mapping[bytes, bytes] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenFiles:
    """The files of one writer, column-wise: every array has one entry per file, in the order written.

    ``files``: location string, record_count int64, file_size_in_bytes int64, split_offsets list<int64> (where the row
    groups begin). ``leaves``: counts and bounds per leaf (``LeafMetrics``).
    """

    files: pa.RecordBatch
    leaves: tuple[LeafMetrics, ...]

    def leaf(self, field_id: int) -> LeafMetrics | None:
        """The metrics of the leaf with a field id."""
        return next((leaf for leaf in self.leaves if leaf.field_id == field_id), None)


def parquet_schema(fields: Sequence[ReadField]) -> pa.Schema:
    """The Arrow schema of files that hold ``fields`` under their physical names and with their field ids.

    Columns of type null are left out, structs of nothing else too: both formats keep them out of data files. Fields
    of kind "uuid" and "variant" are annotated as such; a Variant is written as metadata and value, not shredded.
    Raises DataFileError for a list or map of nulls.
    """
    kept = [made for made in map(_stored_field, fields) if made is not None]
    return pa.schema(kept)


def _stored_field(field: ReadField) -> pa.Field | None:
    kind = field.type
    if pt.is_null(kind):
        return None
    if field.kind == "uuid":
        kind = pa.uuid()
    elif field.kind == "variant":
        kind = _VARIANT_GROUP
    elif field.children:
        there = [made for made in map(_stored_field, field.children) if made is not None]
        if pt.is_struct(kind):
            if not there:
                return None
            kind = pa.struct(there)
        elif len(there) < len(field.children):
            raise DataFileError(f"Cannot write column {field.name!r}: a {kind} of nothing has no form in Parquet")
        elif pt.is_map(kind):
            kind = pa.map_(there[0].with_name("key"), there[1].with_name("value"))
        else:
            kind = pa.list_(there[0].with_name("element"))
    metadata = {} if field.field_id is None else {PARQUET_FIELD_ID: str(field.field_id).encode()}
    if field.kind == "variant":
        metadata[VARIANT_MARK] = b""
    return pa.field(field.physical_name, kind, field.nullable, metadata)


class ParquetFileWriter:
    """Writes batches into one file or, with ``target_size``, into as many as that size asks for.

    ``location`` names the n-th file. Batches may have more columns than ``schema``, in any order; they are matched by
    name. A row group holds about ``row_group_bytes`` of Arrow data; a file is closed after the row group that reaches
    ``target_size`` bytes. Nothing is written when there are no rows. When the body of the ``with`` statement raises,
    none of the files is left behind.

    Raises DataFileError for batches that do not fit the schema, StorageError for what the store refuses.
    """

    def __init__(
        self,
        storage: Storage,
        location: Callable[[int], str],
        schema: pa.Schema,
        *,
        target_size: int | None = None,
        row_group_bytes: int = ROW_GROUP_BYTES,
        compression: str = "zstd",
        key_values: Mapping[bytes, bytes] = _NO_VALUES,
    ) -> None:
        if len(schema) == 0:
            raise DataFileError("Cannot write a Parquet file: it would have no columns")
        self._storage, self._location = storage, location
        self._schema = schema.remove_metadata()
        self._key_values = dict(key_values)
        self._target_size = target_size
        self._row_group_bytes = row_group_bytes
        self._compression = compression
        self._fields = tuple(_read_field(field) for field in schema)
        self._metrics = MetricsBuilder(schema)
        self._pending: list[pa.RecordBatch] = []
        self._pending_bytes = self._pending_rows = 0
        self._files: list[tuple[str, int, int, list[int]]] = []
        self._open: _OpenFile | None = None

    def write(self, batch: pa.RecordBatch) -> None:
        filling = -(-batch.num_rows * self._row_group_bytes // max(1, batch.nbytes))
        step = max(1, min(_ROW_GROUP_ROWS, filling))
        for start in range(0, batch.num_rows, step):
            part = batch.slice(start, step)
            fitted = Projection(
                file_fields(part.schema.remove_metadata()), self._fields, match="name", pruned=False
            ).apply(part)
            self._pending.append(pa.RecordBatch.from_arrays(fitted.columns, schema=self._schema))
            self._pending_bytes += fitted.nbytes
            self._pending_rows += fitted.num_rows
            if self._pending_bytes >= self._row_group_bytes or self._pending_rows >= _ROW_GROUP_ROWS:
                self._flush()

    def finish(self) -> WrittenFiles:
        """Close the last file and describe the files that were written."""
        self._flush()
        self._close_file()
        names = ["location", "record_count", "file_size_in_bytes", "split_offsets"]
        kinds = [pa.string(), pa.int64(), pa.int64(), pa.list_(pa.int64())]
        columns = [pa.array([file[index] for file in self._files], kind) for index, kind in enumerate(kinds)]
        return WrittenFiles(files=pa.RecordBatch.from_arrays(columns, names), leaves=self._metrics.result())

    def __enter__(self) -> ParquetFileWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None:
                self.finish()
        except BaseException:
            self._abandon()
            raise
        if error is not None:
            self._abandon()

    def _abandon(self) -> None:
        if self._open is not None:
            self._open.abandon()
            self._open = None
        for location, *_ in self._files:
            self._storage.delete(location)

    def _flush(self) -> None:
        if not self._pending:
            return
        table = pa.Table.from_batches(self._pending, self._schema)
        if self._open is None:
            self._open = _OpenFile(
                self._storage, self._location(len(self._files)), self._schema, self._compression, self._key_values
            )
        for batch in self._pending:
            self._metrics.add(batch)
        self._pending, self._pending_bytes, self._pending_rows = [], 0, 0
        written = self._open.write(table)
        if self._target_size is not None and written >= self._target_size:
            self._close_file()

    def _close_file(self) -> None:
        if self._open is None:
            return
        file = self._open
        size, metadata = file.close()
        self._open = None
        groups = [metadata.row_group(index) for index in range(metadata.num_row_groups)]
        offsets = [_start(group.column(0)) for group in groups]
        sizes = [
            sum(group.column(leaf).total_compressed_size for group in groups) for leaf in range(metadata.num_columns)
        ]
        self._metrics.finish_file(sizes)
        self._files.append((file.location, metadata.num_rows, size, offsets))


class _OpenFile:
    """The file that is being written."""

    def __init__(
        self, storage: Storage, location: str, schema: pa.Schema, compression: str, key_values: Mapping[bytes, bytes]
    ) -> None:
        self.location = location
        self._created: AbstractContextManager[pa.NativeFile] = storage.create(location)
        self._sink = self._created.__enter__()
        self._footers: list[pq.FileMetaData] = []
        self._variants = variant_elements(schema)
        # Where there are Variants, the footer is held back to be annotated.
        self._held = _HeldFooter(self._sink) if self._variants else None
        try:
            self._writer = pq.ParquetWriter(
                self._sink if self._held is None else pa.PythonFile(self._held, mode="w"),
                schema,
                compression=compression,
                store_schema=False,
                store_decimal_as_integer=True,
                metadata_collector=self._footers,
            )
            self._writer.add_key_value_metadata(key_values)
        except (pa.ArrowException, OSError) as error:
            failure = _failure(location, error)
            self._created.__exit__(type(failure), failure, None)
            raise failure from error

    def write(self, table: pa.Table) -> int:
        """Write one row group; return the bytes that the file has."""
        try:
            self._writer.write_table(table, row_group_size=max(1, table.num_rows))
            return int(self._sink.tell())
        except (pa.ArrowException, OSError) as error:
            raise _failure(self.location, error) from error

    def close(self) -> tuple[int, Any]:
        try:
            if self._held is not None:
                self._held.begin()
            self._writer.close()
            if self._held is not None:
                self._held.end(self._variants)
            size = int(self._sink.tell())
        except (pa.ArrowException, OSError) as error:
            raise _failure(self.location, error) from error
        self._created.__exit__(None, None, None)
        return size, self._footers[-1]

    def abandon(self) -> None:
        """Leave nothing behind."""
        # pyarrow's writer would write its footer when it is collected.
        self._writer.is_open = False
        stop = DataFileError(f"Cannot write {self.location}: the writer was abandoned")
        self._created.__exit__(type(stop), stop, None)


class _HeldFooter(io.RawIOBase):
    """Passes written bytes on, and keeps the footer back from ``begin`` until ``end`` annotates it."""

    def __init__(self, sink: pa.NativeFile) -> None:
        super().__init__()
        self._sink = sink
        self._kept: list[bytes] | None = None

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return int(self._sink.tell()) + sum(map(len, self._kept or ()))

    def write(self, data: Any, /) -> int:
        if self._kept is None:
            self._sink.write(data)
        else:
            self._kept.append(bytes(data))
        return len(data)

    def begin(self) -> None:
        self._kept = []

    def end(self, variants: Collection[int]) -> None:
        tail = b"".join(self._kept or ())
        length = int.from_bytes(tail[-8:-4], "little")
        before, footer = tail[: -8 - length], annotated(tail[-8 - length : -8], variants)
        self._kept = None
        self._sink.write(b"".join((before, footer, len(footer).to_bytes(4, "little"), tail[-4:])))


def _failure(location: str, error: Exception) -> DeltabergError:
    reason = str(error).split("\n", 1)[0]
    kind = StorageError if isinstance(error, OSError) else DataFileError
    return kind(f"Cannot write {location}: {reason}", path=location)


def _start(column: Any) -> int:
    dictionary = column.dictionary_page_offset
    data: int = column.data_page_offset
    return min(dictionary, data) if dictionary is not None else data


def _read_field(field: pa.Field) -> ReadField:
    """The field of a file's schema, as a field to read from a batch by name."""
    kind = field.type
    below = child_fields(kind)
    names = [child.name for child in below]
    if pt.is_map(kind):
        names = ["key", "value"]
    elif is_list(kind):
        names = ["element"]
    children = tuple(_read_field(child.with_name(name)) for child, name in zip(below, names, strict=True))
    return ReadField(name=field.name, physical_name=field.name, type=kind, nullable=field.nullable, children=children)
