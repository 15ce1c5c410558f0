"""IcebergCompatV1, V2 and V3: the rules that keep a table convertible to Iceberg.

PROTOCOL "Iceberg Compatibility V1" and "V2", and the RFC of V3 (protocol_rfcs/iceberg-compat-v3.md); where these are
silent, the reference implementations (``IcebergCompat.scala`` and the kernel's ``icebergcompat`` package): a partition
column is of a primitive type, and V3 is never switched off again (``metadata_change``). A rule that is broken is refused
by name; nothing is switched on behind the caller's back, except by ``with_nested_ids``, which a caller asks for.

A commit does not open data files, so the rules about what is in them are kept by the writer of the files: partition
values stand in them as columns, every column carries its column mapping id as ``field_id``, and from V2 on timestamps
are int64 and list elements, map keys and map values carry their ids, too.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from enum import Enum

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.delta.errors import InvalidDeltaRequest
from deltaberg.delta.log.actions import Metadata
from deltaberg.delta.protocol.protocol import Protocol
from deltaberg.delta.schema.column_mapping import NESTED_IDS, PHYSICAL_NAME, ColumnMapping, MappingMode
from deltaberg.delta.schema.default_literal import is_literal
from deltaberg.delta.schema.schema import walk_fields
from deltaberg.delta.schema.type_widening import type_changes
from deltaberg.delta.schema.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DateType,
    DecimalType,
    DeltaType,
    DoubleType,
    FloatType,
    GeographyType,
    GeometryType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNtzType,
    TimestampType,
    VariantType,
    VoidType,
    type_name,
)


class IcebergCompat(Enum):
    """The version that a table has switched on."""

    V1 = 1
    V2 = 2
    V3 = 3

    @property
    def feature(self) -> str:
        return f"icebergCompatV{self.value}"

    @property
    def property_key(self) -> str:
        return f"delta.enableIcebergCompatV{self.value}"


_PRIMITIVES: tuple[type, ...] = (
    ByteType,
    ShortType,
    IntegerType,
    LongType,
    FloatType,
    DoubleType,
    DecimalType,
    StringType,
    BinaryType,
    BooleanType,
    TimestampType,
    TimestampNtzType,
    DateType,
)
_ALLOWED_TYPES: dict[IcebergCompat, tuple[type, ...]] = {
    IcebergCompat.V2: (*_PRIMITIVES, ArrayType, MapType, StructType),
    IcebergCompat.V3: (*_PRIMITIVES, ArrayType, MapType, StructType, VariantType, GeometryType, GeographyType),
}
_FORBIDDEN_IN_V1: tuple[type, ...] = (MapType, ArrayType, VoidType)

_INTEGERS = (ByteType, ShortType, IntegerType, LongType)


def active_version(protocol: Protocol, metadata: Metadata) -> IcebergCompat | None:
    """The version that is switched on. Raises InvalidDeltaRequest where two are, or one without its feature."""
    active = [IcebergCompat(number) for number in metadata.properties.iceberg_compat_versions]
    if len(active) > 1:
        raise _broken(active[-1], f"{active[0].property_key} is true, too (expected one version at a time)")
    for version in active:
        if not protocol.supports(version.feature):
            raise _broken(version, f"the protocol does not list {version.feature}")
        return version
    return None


def check_table(protocol: Protocol, metadata: Metadata, *, replaced: Metadata | None = None) -> None:
    """Check the rules about protocol, schema and properties; ``replaced`` is the metadata of the version before.

    Raises InvalidDeltaRequest naming the first rule that is broken; nothing is checked while no version is active.
    """
    version = active_version(protocol, metadata)
    if version is None:
        return
    for reason in broken_rules(version, protocol, metadata):
        raise _broken(version, reason)
    if replaced is not None and replaced.partition_columns and replaced.partition_columns != metadata.partition_columns:
        raise _broken(
            version,
            f"the partition columns change from {list(replaced.partition_columns)} to "
            f"{list(metadata.partition_columns)} (expected the same names)",
        )


def check_adds(version: IcebergCompat, batch: pa.RecordBatch) -> None:
    """Every file that is added states its record count. Raises InvalidDeltaRequest naming a file that does not."""
    unknown = pc.is_null(pc.struct_field(batch.column("stats"), "num_records"))
    row = pc.index(unknown, True).as_py()
    if row >= 0:
        path = batch.column("path")[row].as_py()
        raise InvalidDeltaRequest(
            f"Cannot add a file to a table with {version.feature}: its stats have no numRecords",
            path=path,
            feature=version.feature,
        )


def with_nested_ids(schema: StructType, first_id: int) -> tuple[StructType, int]:
    """The schema with ids for list elements and map entries that have none, and the next free id.

    Keys are physical names (``delta.columnMapping.nested.ids``). The schema must be mapped already.
    """
    counter = _Counter(first_id)
    return _struct_with_ids(schema, counter), counter.next_id


def broken_rules(version: IcebergCompat, protocol: Protocol, metadata: Metadata) -> Iterator[str]:
    """Every rule of a version about protocol, schema and properties that a table breaks, as a reason."""
    mapping = ColumnMapping.of(protocol, metadata)
    properties = metadata.properties
    if protocol.min_writer_version < 7:
        yield f"the table is on writer version {protocol.min_writer_version} (expected 7)"
    if mapping.mode is MappingMode.NONE:
        yield "column mapping is off (expected delta.columnMapping.mode name or id)"
    if version is IcebergCompat.V1 and protocol.supports("deletionVectors"):
        yield "the protocol supports deletionVectors (expected a table without that feature)"
    if version is IcebergCompat.V2 and protocol.supports("deletionVectors") and properties.deletion_vectors:
        yield "deletion vectors are active (expected delta.enableDeletionVectors false)"
    if version is IcebergCompat.V3 and not (protocol.supports("rowTracking") and properties.row_tracking):
        yield "row tracking is not enabled (expected delta.enableRowTracking true)"
    yield from _broken_types(version, metadata)
    if version is not IcebergCompat.V1:
        yield from _missing_nested_ids(mapping)
    widens = protocol.supports("typeWidening")
    for path, field in walk_fields(metadata.schema):
        for change in type_changes(field) if widens else ():
            if not _convertible(change.from_type, change.to_type):
                yield (
                    f"the column {'.'.join(path)!r} was widened from {type_name(change.from_type)} to "
                    f"{type_name(change.to_type)}, which Iceberg cannot promote"
                )
        default = field.metadata.get("CURRENT_DEFAULT")
        if version is IcebergCompat.V3 and isinstance(default, str) and not is_literal(default, field.type):
            yield (
                f"the default of {'.'.join(path)!r} is {default!r} (expected a bare literal of the type "
                f"{type_name(field.type)}, such as 1.5 or '2024-01-31')"
            )


def _broken_types(version: IcebergCompat, metadata: Metadata) -> Iterator[str]:
    for path, delta_type in _all_types(metadata.schema, ()):
        name = ".".join(path)
        if version is IcebergCompat.V1:
            if isinstance(delta_type, _FORBIDDEN_IN_V1):
                yield f"the column {name!r} is a {type_name(delta_type)} (expected no map, array or void)"
        elif not isinstance(delta_type, _ALLOWED_TYPES[version]):
            yield f"the column {name!r} is of type {type_name(delta_type)}, which has no place in Iceberg"
    if version is not IcebergCompat.V1:
        for column in metadata.partition_columns:
            kind = metadata.schema.field(column).type
            if not isinstance(kind, _PRIMITIVES):
                yield f"the partition column {column!r} is of type {type_name(kind)}"


def _missing_nested_ids(mapping: ColumnMapping) -> Iterator[str]:
    for path, field in walk_fields(mapping.schema):
        known = mapping.nested_ids(field)
        for step in _steps(field.type, ()):
            if ".".join(step) not in known:
                yield f"{'.'.join((*path, *step))!r} has no id (expected one under {NESTED_IDS})"


def _convertible(before: DeltaType, after: DeltaType) -> bool:
    """Whether Iceberg promotes so, too: the list of V3's RFC, which is what Iceberg v2 allows ("Schema Evolution").

    A column that was void is in no file, so there is nothing to promote.
    """
    if before == after or isinstance(before, VoidType):
        return True
    match before, after:
        case (ByteType() | ShortType() | IntegerType(), ShortType() | IntegerType() | LongType()):
            return _INTEGERS.index(type(before)) < _INTEGERS.index(type(after))
        case FloatType(), DoubleType():
            return True
        case DecimalType(), DecimalType():
            return after.scale == before.scale and after.precision > before.precision
    return False


def _all_types(delta_type: DeltaType, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], DeltaType]]:
    if path:
        yield path, delta_type
    match delta_type:
        case StructType(fields=fields):
            for field in fields:
                yield from _all_types(field.type, (*path, field.name))
        case ArrayType(element_type=element):
            yield from _all_types(element, (*path, "element"))
        case MapType(key_type=key, value_type=value):
            yield from _all_types(key, (*path, "key"))
            yield from _all_types(value, (*path, "value"))


def _steps(delta_type: DeltaType, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Paths of list elements and map entries below a field, up to the next struct."""
    match delta_type:
        case ArrayType(element_type=element):
            yield (*path, "element")
            yield from _steps(element, (*path, "element"))
        case MapType(key_type=key, value_type=value):
            yield (*path, "key")
            yield from _steps(key, (*path, "key"))
            yield (*path, "value")
            yield from _steps(value, (*path, "value"))


class _Counter:
    def __init__(self, next_id: int) -> None:
        self.next_id = next_id

    def take(self) -> int:
        self.next_id += 1
        return self.next_id - 1


def _struct_with_ids(struct: StructType, counter: _Counter) -> StructType:
    return StructType(fields=tuple(_field_with_ids(field, counter) for field in struct.fields))


def _field_with_ids(field: StructField, counter: _Counter) -> StructField:
    metadata = dict(field.metadata)
    steps = list(_steps(field.type, ()))
    if steps:
        prefix = str(metadata.get(PHYSICAL_NAME, field.name))
        found = metadata.get(NESTED_IDS)
        known = dict(found) if isinstance(found, dict) else {}
        for step in steps:
            key = ".".join((prefix, *step))
            known[key] = known[key] if key in known else counter.take()
        metadata[NESTED_IDS] = known
    return dataclasses.replace(field, type=_type_with_ids(field.type, counter), metadata=metadata)


def _type_with_ids(delta_type: DeltaType, counter: _Counter) -> DeltaType:
    match delta_type:
        case StructType():
            return _struct_with_ids(delta_type, counter)
        case ArrayType(element_type=element):
            return dataclasses.replace(delta_type, element_type=_type_with_ids(element, counter))
        case MapType(key_type=key, value_type=value):
            return dataclasses.replace(
                delta_type, key_type=_type_with_ids(key, counter), value_type=_type_with_ids(value, counter)
            )
        case _:
            return delta_type


def _broken(version: IcebergCompat, reason: str) -> InvalidDeltaRequest:
    return InvalidDeltaRequest(f"Cannot commit to a table with {version.feature}: {reason}", feature=version.feature)
