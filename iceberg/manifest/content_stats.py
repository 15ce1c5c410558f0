"""Typed column statistics of format version 4: ``content_stats`` (field 146 of ``data_file``, section "Content Stats").

Version 4 is not adopted, and no released writer stores this struct; this module reads and makes the form that the text
defines. A table field with id f has its statistics in a struct whose own id is 10000 + 200 f and whose members' ids
count on from there. The struct says what the maps of version 3 say, so both directions are exact, but for three members
that the maps cannot hold: ``tight_bounds``, ``avg_value_size_in_bytes`` and Z or M of one geometry bound alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.iceberg.errors import CorruptMetadata
from deltaberg.iceberg.manifest.data_file import BOUND_MAP, COUNT_MAP
from deltaberg.iceberg.manifest.metrics import metric, metric_ids, metric_map
from deltaberg.iceberg.schema.schema import Schema
from deltaberg.iceberg.schema.single_value import bound_arrow_type, decode_bounds, encode_bounds
from deltaberg.iceberg.schema.types import (
    BinaryType,
    BooleanType,
    DoubleType,
    FloatType,
    GeographyType,
    GeometryType,
    IntegerType,
    LongType,
    NestedField,
    PrimitiveType,
    StringType,
    StructType,
    Type,
    UnknownType,
    VariantType,
    arrow_type,
    nested_fields,
)

FIRST_ID: Final = 10_000
IDS_PER_FIELD: Final = 200
MAX_FIELD_ID: Final = 999_949
"""Statistics of fields with a higher id cannot be stored: the reserved range ends at 200,000,000."""

RESERVED: Final[Mapping[int, int]] = {2147483540: 9200, 2147483539: 9000}
"""Metadata columns (``_row_id``, ``_last_updated_sequence_number``) and the ids of their statistics."""

_LOWER, _UPPER, _TIGHT, _VALUES, _NULLS, _NANS, _AVERAGE = 1, 2, 3, 4, 5, 6, 7
_GEO_LOWER, _GEO_UPPER = 10, 14
_GEO: Final = (GeometryType, GeographyType)
_LINEAGE: Final = (
    NestedField(field_id=2147483540, name="_row_id", required=False, type=LongType()),
    NestedField(field_id=2147483539, name="_last_updated_sequence_number", required=False, type=LongType()),
)
_COUNTS: Final = {
    "value_counts": "value_count",
    "null_value_counts": "null_value_count",
    "nan_value_counts": "nan_value_count",
}
_BOUNDS: Final = {"lower_bounds": "lower_bound", "upper_bounds": "upper_bound"}


def stats_id(field_id: int) -> int | None:
    """The id of the statistics of a table or metadata field; None where none can be stored."""
    if field_id in RESERVED:
        return RESERVED[field_id]
    return FIRST_ID + IDS_PER_FIELD * field_id if 0 <= field_id <= MAX_FIELD_ID else None


def content_stats_type(schema: Schema, field_ids: Iterable[int] | None = None) -> StructType:
    """The struct with the statistics of a schema's fields (only those in ``field_ids``) and of the lineage columns."""
    wanted = None if field_ids is None else frozenset(field_ids)
    found = []
    for nested in (*schema.all_fields(), *_LINEAGE):
        base = stats_id(nested.field_id)
        if base is None or (wanted is not None and nested.field_id not in wanted):
            continue
        name = nested.name if nested.field_id in RESERVED else schema.full_name(nested.field_id)
        found.append(_optional(base, name, StructType(fields=tuple(_members(nested, base)))))
    return StructType(fields=tuple(found))


def metrics_from_stats(stats: pa.StructArray, schema: Schema) -> dict[str, pa.MapArray]:
    """The maps of version 3 for structs of ``content_stats_type(schema)``; a missing member leaves its key out.

    Raises CorruptMetadata for a bound that has no binary form.
    """
    columns: dict[str, dict[int, pa.Array]] = {name: {} for name in (*_COUNTS, *_BOUNDS)}
    for slot, nested in enumerate(content_stats_type(schema).fields):
        field_id = _table_field_id(nested.field_id)
        source = schema.find(field_id) or next(each for each in _LINEAGE if each.field_id == field_id)
        members = _with_parent_nulls(stats.field(slot), stats)
        present = {each.name: _with_parent_nulls(members.field(i), members) for i, each in enumerate(members.type)}
        for name, member in _COUNTS.items():
            if member in present:
                columns[name][field_id] = present[member]
        for name, member in _BOUNDS.items():
            if member in present:
                columns[name][field_id] = _bound_bytes(present[member], source.type)
    return {
        name: _maps(found, len(stats), COUNT_MAP if name in _COUNTS else BOUND_MAP) for name, found in columns.items()
    }


def stats_from_metrics(batch: pa.RecordBatch, schema: Schema) -> tuple[StructType, pa.StructArray]:
    """The typed statistics of a ``data_file_schema`` batch: of every field of the schema that any file has some of.

    Statistics of fields that the schema no longer has are dropped; bounds are promoted to the schema's types.
    """
    maps = {name: _column(batch, name) for name in (*_COUNTS, *_BOUNDS)}
    found = sorted({field_id for each in maps.values() for field_id in metric_ids(each)})
    kind = content_stats_type(schema, found)
    arrays = []
    for nested in kind.fields:
        field_id = _table_field_id(nested.field_id)
        source = schema.find(field_id) or next(each for each in _LINEAGE if each.field_id == field_id)
        values = {member: metric(maps[name], field_id) for name, member in _COUNTS.items()}
        for name, member in _BOUNDS.items():
            values[member] = _typed_bound(metric(maps[name], field_id), source.type)
        members = nested_fields(nested.type)
        arrays.append(
            pa.StructArray.from_arrays(
                [values.get(each.name, pa.nulls(batch.num_rows, arrow_type(each.type))) for each in members],
                fields=[pa.field(each.name, arrow_type(each.type)) for each in members],
            )
        )
    if not arrays:
        return kind, pa.Array.from_buffers(pa.struct([]), batch.num_rows, [None])
    return kind, pa.StructArray.from_arrays(arrays, fields=list(arrow_type(kind)))


def _members(nested: NestedField, base: int) -> Iterable[NestedField]:
    kind = nested.type
    if isinstance(kind, _GEO):
        yield _optional(base + _LOWER, "lower_bound", _point(base + _GEO_LOWER))
        yield _optional(base + _UPPER, "upper_bound", _point(base + _GEO_UPPER))
    elif isinstance(kind, (PrimitiveType, VariantType)) and not isinstance(kind, UnknownType):
        yield _optional(base + _LOWER, "lower_bound", kind)
        yield _optional(base + _UPPER, "upper_bound", kind)
        if not isinstance(kind, VariantType):
            yield _optional(base + _TIGHT, "tight_bounds", BooleanType())
    yield _optional(base + _VALUES, "value_count", LongType())
    if not nested.required:
        yield _optional(base + _NULLS, "null_value_count", LongType())
    if isinstance(kind, (FloatType, DoubleType)):
        yield _optional(base + _NANS, "nan_value_count", LongType())
    if isinstance(kind, (StringType, BinaryType, VariantType, *_GEO)):
        yield _optional(base + _AVERAGE, "avg_value_size_in_bytes", IntegerType())


def _point(first_id: int) -> StructType:
    return StructType(
        fields=tuple(
            NestedField(field_id=first_id + i, name=name, required=i < 2, type=DoubleType())
            for i, name in enumerate(("x", "y", "z", "m"))
        )
    )


def _optional(field_id: int, name: str, kind: Type) -> NestedField:
    return NestedField(field_id=field_id, name=name, required=False, type=kind)


def _table_field_id(base: int) -> int:
    reserved = next((field_id for field_id, first in RESERVED.items() if first == base), None)
    return (base - FIRST_ID) // IDS_PER_FIELD if reserved is None else reserved


def _bound_bytes(values: pa.Array, kind: Type) -> pa.Array:
    if isinstance(kind, VariantType):
        metadata, value = (_with_parent_nulls(values.field(i), values) for i in range(2))
        return pc.binary_join_element_wise(metadata, value, b"")
    if isinstance(kind, _GEO):
        x, y = values.field(0), values.field(1)
        if pc.any(pc.and_(values.is_valid(), pc.or_(x.is_null(), y.is_null()))).as_py():
            raise CorruptMetadata("Cannot read content_stats: a geometry bound lacks x or y", field="content_stats")
        parts = [x.fill_null(0.0), y.fill_null(0.0), values.field(2), values.field(3)]
        values = pa.StructArray.from_arrays(parts, fields=list(bound_arrow_type(kind)), mask=values.is_null())
    return encode_bounds(values, kind)


def _typed_bound(values: pa.Array, kind: Type) -> pa.Array:
    if isinstance(kind, VariantType):
        return _split_variants(values)
    if isinstance(kind, _GEO):
        points = decode_bounds(values, kind)
        parts = [_with_parent_nulls(points.field(i), points) for i in range(4)]
        return pa.StructArray.from_arrays(parts, fields=list(arrow_type(_point(0))), mask=points.is_null())
    if not isinstance(kind, PrimitiveType) or isinstance(kind, UnknownType):
        return pa.nulls(len(values))
    return decode_bounds(values, kind)


def _split_variants(values: pa.BinaryArray) -> pa.StructArray:
    """Cut bounds into metadata and value: the metadata's header says how long it is (Variant Encoding)."""
    metadata, value = [], []
    for each in values.to_pylist():
        if each is None:
            metadata.append(b"")
            value.append(b"")
            continue
        width = (each[0] >> 6) + 1 if each else 1
        count = int.from_bytes(each[1 : 1 + width], "little")
        last = 1 + width + count * width
        size = last + width + int.from_bytes(each[last : last + width], "little")
        if not each or size >= len(each):
            raise CorruptMetadata("Cannot read a variant bound: its metadata does not end before the value")
        metadata.append(each[:size])
        value.append(each[size:])
    kind = arrow_type(VariantType())
    arrays = [pa.array(metadata, pa.binary()), pa.array(value, pa.binary())]
    return pa.StructArray.from_arrays(arrays, fields=list(kind), mask=values.is_null())


def _maps(columns: dict[int, pa.Array], length: int, kind: pa.MapType) -> pa.MapArray:
    if not columns:
        return pa.nulls(length, kind)
    return metric_map(columns).cast(kind)


def _with_parent_nulls(values: pa.Array, parent: pa.StructArray) -> pa.Array:
    """A child of a struct, null wherever the struct is."""
    if parent.null_count == 0:
        return values
    index = np.arange(len(values), dtype=np.int64)
    return values.take(pa.array(index, mask=parent.is_null().to_numpy(zero_copy_only=False)))


def _column(batch: pa.RecordBatch, name: str) -> pa.MapArray:
    return batch.column(name)
