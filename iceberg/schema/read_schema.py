"""How a table's fields are read out of data files (section "Column Projection").

A field is looked up by id. Where a file lacks it, its value is the identity partition value, else the column that a
name mapping finds, else ``initial-default``, else null: the first and the third become the default of a ReadField.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import pyarrow as pa

from deltaberg.datafile import file_schema
from deltaberg.datafile.projection import ReadField
from deltaberg.iceberg.errors import CorruptMetadata
from deltaberg.iceberg.metadata.snapshot import Snapshot
from deltaberg.iceberg.metadata.snapshot_ref import RefType
from deltaberg.iceberg.metadata.table_metadata import TableMetadata
from deltaberg.iceberg.partition.partition_spec import PartitionSpec
from deltaberg.iceberg.partition.transforms import IdentityTransform
from deltaberg.iceberg.schema.name_mapping import MappedField, NameMapping
from deltaberg.iceberg.schema.schema import Schema
from deltaberg.iceberg.schema.single_value_json import initial_default
from deltaberg.iceberg.schema.types import (
    GeographyType,
    GeometryType,
    ListType,
    MapType,
    NestedField,
    StructType,
    Type,
    VariantType,
    arrow_type,
    nested_fields,
)

Constants = Mapping[int, pa.Scalar]
"""Values by field id that stand for fields which a file lacks."""


def schema_at(metadata: TableMetadata, *, snapshot: Snapshot | None, ref: str | None = None) -> Schema:
    """The schema in which a snapshot is read when it was chosen by ``ref``, or by id or time (no ``ref``).

    A branch (and the table as it is: no snapshot) is read in the current schema, columns added since its last commit
    included; a tag, a snapshot id and a time in the schema of that snapshot. The specification does not say; Iceberg's
    own readers do this. Raises InvalidIcebergRequest for an unknown ref.
    """
    if snapshot is None or (ref is not None and metadata.ref(ref).type is RefType.BRANCH):
        return metadata.schema
    return metadata.schema_for(snapshot)


def read_fields(
    fields: Sequence[NestedField], constants: Constants | None = None, *, variant_as_json: bool = True
) -> tuple[ReadField, ...]:
    """The fields in the form in which a data file is read.

    ``variant_as_json``: variants come as JSON text, else as a struct of ``metadata`` and ``value``.
    """
    return tuple(_read_field(nested, constants or {}, variant_as_json) for nested in fields)


def identity_constants(spec: PartitionSpec, partition: pa.StructScalar) -> dict[int, pa.Scalar]:
    """The values of columns that a partition tuple states exactly, by source field id."""
    return {
        part.source_id: partition[place]
        for place, part in enumerate(spec.fields)
        if isinstance(part.transform, IdentityTransform)
    }


def mapped_fields(mapping: NameMapping | None, constants: Constants) -> tuple[file_schema.NamedField, ...] | None:
    """A name mapping as data files use it; partition values come before names, so their fields are left out."""
    return None if mapping is None else tuple(_mapped(field, constants) for field in mapping.fields)


def _mapped(field: MappedField, constants: Constants) -> file_schema.NamedField:
    known = field.field_id if field.field_id not in constants else None
    return file_schema.NamedField(
        names=field.names,
        field_id=known,
        children=tuple(_mapped(child, constants) for child in field.fields),
    )


def _read_field(nested: NestedField, constants: Constants, variant_as_json: bool) -> ReadField:
    children = tuple(_read_field(child, constants, variant_as_json) for child in nested_fields(nested.type))
    kind = _read_type(nested.type, children, variant_as_json)
    return ReadField(
        name=nested.name,
        type=kind,
        nullable=not nested.required,
        field_id=nested.field_id,
        physical_name=nested.name,
        children=children,
        default=_default(nested, kind, constants),
        kind=_projection_kind(nested.type),
    )


def _read_type(kind: Type, children: tuple[ReadField, ...], variant_as_json: bool) -> pa.DataType:
    below = [pa.field(child.name, child.type, child.nullable) for child in children]
    match kind:
        case StructType():
            return pa.struct(below)
        case ListType():
            return pa.list_(below[0])
        case MapType():
            return pa.map_(below[0], below[1])
        case VariantType() if variant_as_json:
            return pa.string()
        case _:
            return arrow_type(kind)


def _projection_kind(kind: Type) -> Literal["plain", "variant", "geometry"]:
    match kind:
        case VariantType():
            return "variant"
        case GeometryType() | GeographyType():
            return "geometry"
        case _:
            return "plain"


def _default(nested: NestedField, kind: pa.DataType, constants: Constants) -> pa.Scalar | None:
    constant = constants.get(nested.field_id)
    if nested.field_id in constants:
        if constant is None or not constant.is_valid:
            return None
        try:
            return constant.cast(kind)
        except pa.ArrowException as error:
            raise CorruptMetadata(
                f"Cannot read column {nested.name}: its partition value does not fit (expected {kind}, "
                f"found {constant.type}: {error})",
                field=f"partition field of column {nested.field_id}",
            ) from error
    if nested.initial_default is None:
        return None
    return initial_default(nested)
