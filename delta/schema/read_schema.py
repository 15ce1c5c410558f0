"""How the columns of a Delta schema are read from Parquet files: PROTOCOL "Reader Requirements for Column Mapping"."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from deltaberg.datafile import Match, ReadField
from deltaberg.delta.schema.column_mapping import ColumnMapping, MappingMode
from deltaberg.delta.schema.types import (
    ArrayType,
    DeltaType,
    GeographyType,
    GeometryType,
    MapType,
    StructField,
    StructType,
    VariantType,
    arrow_type,
)


def match_by(mapping: ColumnMapping) -> Match:
    """Whether columns are found by Parquet field id (mode ``id``) or by physical name."""
    return "id" if mapping.mode is MappingMode.ID else "name"


def read_fields(
    mapping: ColumnMapping, fields: Iterable[StructField], *, variant_as_json: bool
) -> tuple[ReadField, ...]:
    """The fields to read from a data file for top-level columns of the table.

    Every field is nullable, also a required one: a column that a file lacks reads as null, and readers do not
    enforce what writers promised ("Consistency Between Table Metadata and Data Files").
    """
    return tuple(_field(mapping, field, variant_as_json) for field in fields)


def result_field(field: StructField, *, variant_as_json: bool) -> pa.Field:
    """The Arrow field that a scan returns for a column."""
    return pa.field(field.name, result_type(field.type, variant_as_json=variant_as_json))


def result_type(delta_type: DeltaType, *, variant_as_json: bool) -> pa.DataType:
    """``arrow_type`` with nothing but map keys required, and variants as JSON text where asked for."""
    match delta_type:
        case VariantType() if variant_as_json:
            return pa.string()
        case ArrayType(element_type=element):
            return pa.list_(pa.field("element", result_type(element, variant_as_json=variant_as_json)))
        case MapType(key_type=key, value_type=value):
            return pa.map_(
                result_type(key, variant_as_json=variant_as_json), result_type(value, variant_as_json=variant_as_json)
            )
        case StructType(fields=fields):
            return pa.struct([result_field(field, variant_as_json=variant_as_json) for field in fields])
        case _:
            return arrow_type(delta_type)


def _field(mapping: ColumnMapping, field: StructField, variant_as_json: bool) -> ReadField:
    return _read(
        mapping, field.name, field.type, variant_as_json, mapping.physical_name(field), mapping.column_id(field)
    )


def _read(
    mapping: ColumnMapping,
    name: str,
    delta_type: DeltaType,
    variant_as_json: bool,
    physical_name: str,
    field_id: int | None = None,
) -> ReadField:
    children: tuple[ReadField, ...] = ()
    kind: str = "plain"
    match delta_type:
        case StructType(fields=fields):
            children = read_fields(mapping, fields, variant_as_json=variant_as_json)
        case ArrayType(element_type=element):
            children = (_read(mapping, "element", element, variant_as_json, "element"),)
        case MapType(key_type=key, value_type=value):
            children = (
                _read(mapping, "key", key, variant_as_json, "key"),
                _read(mapping, "value", value, variant_as_json, "value"),
            )
        case VariantType():
            kind = "variant"
        case GeometryType() | GeographyType():
            kind = "geometry"
    return ReadField(
        name=name,
        type=result_type(delta_type, variant_as_json=variant_as_json),
        field_id=field_id,
        physical_name=physical_name,
        children=children,
        kind=kind,  # type: ignore[arg-type]
    )
