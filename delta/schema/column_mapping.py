"""How the columns of a schema are found in data files, statistics and partition values. PROTOCOL "Column Mapping"."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

from deltaberg.delta.errors import CorruptLog
from deltaberg.delta.log.actions import Metadata
from deltaberg.delta.protocol.protocol import Protocol
from deltaberg.delta.schema.schema import walk_fields
from deltaberg.delta.schema.types import ArrayType, DeltaType, MapType, StructField, StructType

PHYSICAL_NAME = "delta.columnMapping.physicalName"
COLUMN_ID = "delta.columnMapping.id"
NESTED_IDS = "delta.columnMapping.nested.ids"
# The key that the protocol's text of 2024 gave; engines use it only on the way to Parquet.
_FORMER_NESTED_IDS = "parquet.field.nested.ids"


class MappingMode(Enum):
    """``delta.columnMapping.mode``."""

    NONE = "none"
    NAME = "name"
    ID = "id"


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnMapping:
    """The mapping of one schema. In mode ``none`` physical names are the logical ones and there are no ids.

    ``physical_schema`` mirrors ``schema`` with the physical name of every struct field, in the same order.
    """

    mode: MappingMode
    schema: StructType
    physical_schema: StructType
    max_column_id: int | None = None

    @staticmethod
    def of(protocol: Protocol, metadata: Metadata) -> ColumnMapping:
        """The mapping of a table; the mode counts only where the protocol supports the feature.

        Raises CorruptLog naming the field when a name or id is missing, malformed or given twice.
        """
        # Delta Spark 3.1 upgraded protocols without listing the feature for readers. Its writers obey their own list, so
        # that the files have physical names: without the mapping every column would be null.
        supported = protocol.min_reader_version == 2 or "columnMapping" in (
            *(protocol.reader_features or ()),
            *(protocol.writer_features or ()),
        )
        mode = MappingMode(metadata.properties.column_mapping_mode) if supported else MappingMode.NONE
        if mode is MappingMode.NONE:
            return ColumnMapping(mode=mode, schema=metadata.schema, physical_schema=metadata.schema)
        _check(metadata.schema)
        return ColumnMapping(
            mode=mode,
            schema=metadata.schema,
            physical_schema=_physical_struct(metadata.schema),
            max_column_id=metadata.properties.column_mapping_max_id,
        )

    def physical_name(self, field: StructField) -> str:
        """The name of a field in files, statistics and partition values."""
        return field.name if self.mode is MappingMode.NONE else _physical_name(field)

    def column_id(self, field: StructField) -> int | None:
        """The id of a field; None in mode ``none``."""
        return None if self.mode is MappingMode.NONE else _column_id(field)

    def nested_ids(self, field: StructField) -> Mapping[str, int]:
        """Ids of list elements and map entries below a field, by path such as ``element`` or ``value.element``.

        The path is relative to the field and ends before the next struct. Empty where none were assigned.
        """
        return {} if self.mode is MappingMode.NONE else _nested_ids(field)


def _physical_name(field: StructField) -> str:
    name = field.metadata.get(PHYSICAL_NAME)
    if not isinstance(name, str) or not name:
        raise CorruptLog(f"Cannot map the column {field.name!r}: {PHYSICAL_NAME} is {name!r} (expected a name)")
    return name


def _column_id(field: StructField) -> int:
    number = field.metadata.get(COLUMN_ID)
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number < 2**31:
        raise CorruptLog(f"Cannot map the column {field.name!r}: {COLUMN_ID} is {number!r} (expected a 32-bit id)")
    return number


def _nested_ids(field: StructField) -> dict[str, int]:
    found = field.metadata.get(NESTED_IDS, field.metadata.get(_FORMER_NESTED_IDS))
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise CorruptLog(f"Cannot map the column {field.name!r}: {NESTED_IDS} is {found!r} (expected an object)")
    result: dict[str, int] = {}
    for key, number in found.items():
        if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number < 2**31:
            raise CorruptLog(f"Cannot map the column {field.name!r}: the nested id of {key!r} is {number!r}")
        # Keys begin with the physical name; the text of 2024 said the display name.
        for prefix in (_physical_name(field), field.name):
            if key.startswith(f"{prefix}."):
                result[key.removeprefix(f"{prefix}.")] = number
                break
        else:
            raise CorruptLog(
                f"Cannot map the column {field.name!r}: the nested id {key!r} does not begin with its physical name"
            )
    return result


def _check(schema: StructType) -> None:
    ids: dict[int, str] = {}
    for path, field in walk_fields(schema):
        name = ".".join(path)
        for number in (_column_id(field), *_nested_ids(field).values()):
            if number in ids:
                raise CorruptLog(f"Cannot map the column {name!r}: the id {number} belongs to {ids[number]!r}, too")
            ids[number] = name
    for struct in _structs(schema):
        names: dict[str, str] = {}
        for field in struct.fields:
            other = names.setdefault(_physical_name(field), field.name)
            if other != field.name:
                raise CorruptLog(
                    f"Cannot map the column {field.name!r}: its physical name {_physical_name(field)!r} "
                    f"belongs to {other!r}, too"
                )


def _structs(delta_type: DeltaType) -> Iterator[StructType]:
    match delta_type:
        case StructType(fields=fields):
            yield delta_type
            for field in fields:
                yield from _structs(field.type)
        case ArrayType(element_type=element):
            yield from _structs(element)
        case MapType(key_type=key, value_type=value):
            yield from _structs(key)
            yield from _structs(value)


def _physical_struct(struct: StructType) -> StructType:
    return StructType(
        fields=tuple(
            StructField(
                name=_physical_name(field),
                type=_physical_type(field.type),
                nullable=field.nullable,
                metadata=field.metadata,
            )
            for field in struct.fields
        )
    )


def _physical_type(delta_type: DeltaType) -> DeltaType:
    match delta_type:
        case StructType():
            return _physical_struct(delta_type)
        case ArrayType(element_type=element, contains_null=contains_null):
            return ArrayType(element_type=_physical_type(element), contains_null=contains_null)
        case MapType(key_type=key, value_type=value, value_contains_null=value_contains_null):
            return MapType(
                key_type=_physical_type(key),
                value_type=_physical_type(value),
                value_contains_null=value_contains_null,
            )
        case _:
            return delta_type
