"""Parquet manifests, as Iceberg 1.12 reads and writes them for format version 4.

No specification has adopted version 4. Released software stores the entries of version 3 in Parquet with field ids,
the header's key-value pairs in the footer, and leaves ``partition`` out where it would be an empty group.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from deltaberg.datafile import DataFileError, FileField, ParquetSource
from deltaberg.iceberg.errors import CorruptMetadata
from deltaberg.iceberg.manifest.manifest_entry import CONTENT_STATS, DATA_FILE, PARTITION
from deltaberg.iceberg.schema.read_schema import read_fields
from deltaberg.iceberg.schema.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestampNsType,
    TimestampType,
    TimestamptzNsType,
    TimestamptzType,
    TimeType,
    Type,
    UnknownType,
    arrow_type,
    nested_fields,
    type_to_json,
)
from deltaberg.storage.protocol import Storage

BATCH_ROWS: Final = 16_384
_ROW_GROUP_ROWS: Final = 65_536
_FIELD_ID: Final = b"PARQUET:field_id"


class ParquetManifest:
    """One Parquet manifest, opened. Raises CorruptMetadata for every defect of the file."""

    def __init__(self, storage: Storage, location: str) -> None:
        with _corrupt(location):
            self._source = ParquetSource(storage, location, rebase_calendar=False)
        self._location = location
        self.field_ids = frozenset(each.field_id for each in self._source.fields if each.field_id is not None)
        data_file = _by_id(self._source.fields, DATA_FILE)
        if data_file is None:
            raise CorruptMetadata(
                f"Cannot read manifest: data_file (field id {DATA_FILE}) is missing", path=location, field="data_file"
            )
        partition = _by_id(data_file.children, PARTITION)
        self._fields = () if partition is None else partition.children
        self.has_partition = partition is not None
        self.has_content_stats = _by_id(data_file.children, CONTENT_STATS) is not None

    @property
    def properties(self) -> dict[str, str]:
        """The footer's key-value pairs. Version 4 is the first whose manifests can be Parquet files."""
        pairs = self._source.key_values.items()
        found = {key.decode("utf-8", "replace"): value.decode("utf-8", "replace") for key, value in pairs}
        return {"format-version": "4", **found}

    def partition_types(self) -> dict[int, Type]:
        """The types of the stored partition values by field id."""
        result: dict[int, Type] = {}
        for each in self._fields:
            if each.field_id is None:
                raise CorruptMetadata(
                    f"Cannot read manifest: its partition field {each.name} has no field id",
                    path=self._location,
                    field=f"partition.{each.name}",
                )
            result[each.field_id] = _written_type(each)
        return result

    def entries(self, kind: StructType) -> Iterator[pa.StructArray]:
        """The entries as structs of a type from ``read_type``."""
        stored = kind if self.has_partition else _without(kind, PARTITION)
        with _corrupt(self._location), self._source:
            for batch in self._source.iter_batches(read_fields(stored.fields), match="id", batch_size=BATCH_ROWS):
                entries = batch.to_struct_array()
                yield entries if self.has_partition else _with_partition(entries, kind)


class ParquetManifestWriter:
    """Writes structs of one type to a sink; ``close`` must be called, and does not close the sink."""

    def __init__(self, sink: pa.NativeFile, kind: StructType, *, metadata: Mapping[str, str]) -> None:
        partition = next(each for each in nested_fields(_data_file(kind).type) if each.field_id == PARTITION)
        self._empty_partition = not nested_fields(partition.type)
        stored = _without(kind, PARTITION) if self._empty_partition else kind
        value = type_to_json(stored)
        schema = {"type": "struct", "schema-id": 0, **value} if isinstance(value, dict) else value
        pairs = {**metadata, "iceberg.schema": json.dumps(schema, separators=(",", ":"))}
        self._schema = pa.schema([_identified(each) for each in stored.fields])
        self._sink = sink
        self._writer = pq.ParquetWriter(
            sink,
            self._schema,
            compression="gzip",
            store_schema=False,
            use_compliant_nested_type=True,
            version="2.6",
        )
        self._writer.add_key_value_metadata(pairs)

    @property
    def length(self) -> int:
        """Bytes written so far."""
        return int(self._sink.tell())

    def write(self, entries: pa.StructArray) -> None:
        """Append entries."""
        arrays = []
        for field in self._schema:
            values = entries.field(field.name)
            if field.name == "data_file":
                names = [field.type.field(i).name for i in range(field.type.num_fields)]
                values = pa.StructArray.from_arrays(
                    [values.field(name).cast(field.type.field(name).type) for name in names],
                    fields=list(field.type),
                )
            arrays.append(values)
        batch = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        self._writer.write_batch(batch, row_group_size=_ROW_GROUP_ROWS)

    def close(self) -> None:
        """Write the footer."""
        self._writer.close()


def _identified(nested: NestedField) -> pa.Field:
    """An Arrow field whose own and nested field ids Parquet will store."""
    return pa.field(nested.name, _identified_type(nested.type), not nested.required, {_FIELD_ID: str(nested.field_id)})


def _identified_type(kind: Type) -> pa.DataType:
    parts = [_identified(each) for each in nested_fields(kind)]
    plain = arrow_type(kind)
    if isinstance(kind, StructType):
        return pa.struct(parts)
    if pa.types.is_list(plain):
        return pa.list_(parts[0])
    if pa.types.is_map(plain):
        return pa.map_(parts[0], parts[1])
    return plain


def _data_file(kind: StructType) -> NestedField:
    return next(each for each in kind.fields if each.field_id == DATA_FILE)


def _without(kind: StructType, field_id: int) -> StructType:
    """An entry's type without one field of its data file."""
    return StructType(
        fields=tuple(
            replace(each, type=StructType(fields=tuple(f for f in nested_fields(each.type) if f.field_id != field_id)))
            if each.field_id == DATA_FILE
            else each
            for each in kind.fields
        )
    )


def _with_partition(entries: pa.StructArray, kind: StructType) -> pa.StructArray:
    """Put back the partition tuple that the file left out: no fields, or only void ones, which are null."""
    file = entries.field("data_file")
    wanted = nested_fields(_data_file(kind).type)
    columns = []
    for nested in wanted:
        if nested.field_id != PARTITION:
            columns.append(file.field(nested.name))
            continue
        parts = nested_fields(nested.type)
        if parts:
            nulls = [pa.nulls(len(entries), arrow_type(part.type)) for part in parts]
            columns.append(pa.StructArray.from_arrays(nulls, names=[part.name for part in parts]))
        else:
            columns.append(pa.Array.from_buffers(pa.struct([]), len(entries), [None]))
    data_file = pa.StructArray.from_arrays(columns, names=[nested.name for nested in wanted])
    arrays = [data_file if each.field_id == DATA_FILE else entries.field(each.name) for each in kind.fields]
    return pa.StructArray.from_arrays(arrays, names=[each.name for each in kind.fields])


def _written_type(field: FileField) -> Type:
    kind = field.type
    if pa.types.is_timestamp(kind):
        nanos = kind.unit == "ns"
        if kind.tz is None:
            return TimestampNsType() if nanos else TimestampType()
        return TimestamptzNsType() if nanos else TimestamptzType()
    if pa.types.is_decimal(kind):
        return DecimalType(precision=kind.precision, scale=kind.scale)
    if pa.types.is_fixed_size_binary(kind):
        return FixedType(length=kind.byte_width)
    found = next((each for test, each in _WRITTEN if test(kind)), None)
    if found is None:
        raise CorruptMetadata(
            f"Cannot read manifest: partition field {field.name} is stored as {kind} (expected a scalar)",
            field=f"partition.{field.name}",
        )
    return found


_WRITTEN: Final = (
    (pa.types.is_boolean, BooleanType()),
    (pa.types.is_int32, IntegerType()),
    (pa.types.is_int64, LongType()),
    (pa.types.is_float32, FloatType()),
    (pa.types.is_float64, DoubleType()),
    (pa.types.is_date, DateType()),
    (pa.types.is_time, TimeType()),
    (pa.types.is_string, StringType()),
    (pa.types.is_binary, BinaryType()),
    (pa.types.is_null, UnknownType()),
)


def _by_id(fields: tuple[FileField, ...], field_id: int) -> FileField | None:
    return next((each for each in fields if each.field_id == field_id), None)


@contextmanager
def _corrupt(location: str) -> Iterator[None]:
    try:
        yield
    except DataFileError as error:
        raise CorruptMetadata(f"Cannot read manifest: {error.message}", path=location, field="Parquet") from error
