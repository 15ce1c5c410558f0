"""Data types (section "Schemas and Data Types"), their JSON forms (Appendix C) and their Arrow types.

Types compare by what they mean; ``extra`` keeps unknown JSON fields for a round trip and takes no part in equality.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, TypeAlias

import pyarrow as pa

from deltaberg.iceberg.errors import CorruptMetadata
from deltaberg.iceberg.schema.json_object import JsonObject, rejected

MAX_DECIMAL_PRECISION = 38
MAX_FIELD_ID = 2147483447
DEFAULT_CRS = "OGC:CRS84"
EDGE_ALGORITHMS = ("spherical", "vincenty", "thomas", "andoyer", "karney")
_MAX_DEPTH = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class PrimitiveType:
    """A type without parts. ``min_version`` is the first format version that allows it."""

    min_version: ClassVar[int] = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class BooleanType(PrimitiveType):
    """True or false."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IntegerType(PrimitiveType):
    """32-bit signed integers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LongType(PrimitiveType):
    """64-bit signed integers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FloatType(PrimitiveType):
    """32-bit IEEE 754."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DoubleType(PrimitiveType):
    """64-bit IEEE 754."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecimalType(PrimitiveType):
    """Fixed-point decimal of at most 38 digits."""

    precision: int
    scale: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DateType(PrimitiveType):
    """Days since 1970-01-01."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeType(PrimitiveType):
    """Microseconds since midnight."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimestampType(PrimitiveType):
    """Microseconds, without zone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimestamptzType(PrimitiveType):
    """Microseconds, an instant in UTC."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimestampNsType(PrimitiveType):
    """Nanoseconds, without zone."""

    min_version: ClassVar[int] = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class TimestamptzNsType(PrimitiveType):
    """Nanoseconds, an instant in UTC."""

    min_version: ClassVar[int] = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class StringType(PrimitiveType):
    """UTF-8 text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UuidType(PrimitiveType):
    """16 bytes, big-endian."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedType(PrimitiveType):
    """``length`` bytes."""

    length: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BinaryType(PrimitiveType):
    """Bytes of any length."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownType(PrimitiveType):
    """Always null, not stored in data files."""

    min_version: ClassVar[int] = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class GeometryType(PrimitiveType):
    """WKB with planar edges in a coordinate reference system."""

    min_version: ClassVar[int] = 3
    crs: str = DEFAULT_CRS


@dataclass(frozen=True, slots=True, kw_only=True)
class GeographyType(PrimitiveType):
    """WKB with edges on the globe."""

    min_version: ClassVar[int] = 3
    crs: str = DEFAULT_CRS
    algorithm: str = "spherical"


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantType:
    """Semi-structured values; neither a primitive nor a nested type."""

    min_version: ClassVar[int] = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class NestedField:
    """A struct's field, or a list's ``element``, or a map's ``key`` or ``value``.

    ``initial_default`` and ``write_default`` hold the JSON single value of Appendix D (None: null), which
    ``single_value_json.scalar_from_json`` turns into an Arrow scalar.
    """

    field_id: int
    name: str
    required: bool
    type: Type
    doc: str | None = None
    initial_default: object = field(default=None, hash=False)
    write_default: object = field(default=None, hash=False)
    extra: Mapping[str, object] = field(default_factory=dict, hash=False, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class StructType:
    """A tuple of named fields."""

    min_version: ClassVar[int] = 1
    fields: tuple[NestedField, ...]
    extra: Mapping[str, object] = field(default_factory=dict, hash=False, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListType:
    """A list of ``element.type``."""

    min_version: ClassVar[int] = 1
    element: NestedField
    extra: Mapping[str, object] = field(default_factory=dict, hash=False, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class MapType:
    """A map; keys are required."""

    min_version: ClassVar[int] = 1
    key: NestedField
    value: NestedField
    extra: Mapping[str, object] = field(default_factory=dict, hash=False, compare=False, repr=False)


Type: TypeAlias = PrimitiveType | VariantType | StructType | ListType | MapType

_PLAIN: dict[str, Type] = {
    "boolean": BooleanType(),
    "int": IntegerType(),
    "long": LongType(),
    "float": FloatType(),
    "double": DoubleType(),
    "date": DateType(),
    "time": TimeType(),
    "timestamp": TimestampType(),
    "timestamptz": TimestamptzType(),
    "timestamp_ns": TimestampNsType(),
    "timestamptz_ns": TimestamptzNsType(),
    "string": StringType(),
    "uuid": UuidType(),
    "binary": BinaryType(),
    "unknown": UnknownType(),
    "variant": VariantType(),
    "geometry": GeometryType(),
    "geography": GeographyType(),
}
_PLAIN_NAMES: dict[type, str] = {type(value): name for name, value in _PLAIN.items()}
# Readers must accept optional whitespace around parameters and separators.
_DECIMAL = re.compile(r"decimal\(\s*([0-9]{1,9})\s*,\s*([0-9]{1,9})\s*\)")
_FIXED = re.compile(r"fixed\[\s*([0-9]{1,10})\s*\]")
_GEOMETRY = re.compile(r"geometry\s*\(\s*([^(),]*[^(),\s])\s*\)")
_GEOGRAPHY = re.compile(r"geography\s*\(\s*([^(),]*[^(),\s])\s*(?:,\s*([A-Za-z]+)\s*)?\)")
_STRUCT_KEYS = frozenset({"type", "fields"})
_FIELD_KEYS = frozenset({"id", "name", "required", "type", "doc", "initial-default", "write-default"})
_LIST_KEYS = frozenset({"type", "element-id", "element-required", "element"})
_MAP_KEYS = frozenset({"type", "key-id", "key", "value-id", "value-required", "value"})


def _parse_text(text: str, path: str) -> Type:
    plain = _PLAIN.get(text)
    if plain is not None:
        return plain
    if match := _DECIMAL.fullmatch(text):
        precision, scale = int(match[1]), int(match[2])
        if not 1 <= precision <= MAX_DECIMAL_PRECISION or scale > precision:
            raise rejected(path, f"a decimal of 1 to {MAX_DECIMAL_PRECISION} digits whose scale fits in them", text)
        return DecimalType(precision=precision, scale=scale)
    if match := _FIXED.fullmatch(text):
        length = int(match[1])
        if not 1 <= length < 2**31:
            raise rejected(path, "a fixed length from 1 to 2147483647", text)
        return FixedType(length=length)
    if match := _GEOMETRY.fullmatch(text):
        return GeometryType(crs=match[1])
    if match := _GEOGRAPHY.fullmatch(text):
        algorithm = (match[2] or "spherical").lower()
        if algorithm not in EDGE_ALGORITHMS:
            raise rejected(path, f"an edge-interpolation algorithm of {', '.join(EDGE_ALGORITHMS)}", text)
        return GeographyType(crs=match[1], algorithm=algorithm)
    raise rejected(path, "a type that the specification defines", text)


def _parse_part(node: JsonObject, key: str, depth: int, *, required: bool) -> Type:
    """The type of a field, element, key or value, which must be optional when it is unknown."""
    kind = parse_type(node.raw(key), node.at(key), depth + 1)
    if required and isinstance(kind, UnknownType):
        raise rejected(node.at(key), "a type other than unknown, which must be optional", "unknown")
    return kind


def _field_id(node: JsonObject, key: str) -> int:
    return node.integer(key, low=0)


def parse_struct_fields(node: JsonObject, depth: int = 0) -> tuple[NestedField, ...]:
    """The ``fields`` of a struct or schema object."""
    return tuple(_parse_field(JsonObject(value, path), depth) for value, path in node.items("fields"))


def _parse_field(node: JsonObject, depth: int) -> NestedField:
    required = node.boolean("required")
    return NestedField(
        field_id=_field_id(node, "id"),
        name=node.text("name"),
        required=required,
        type=_parse_part(node, "type", depth, required=required),
        doc=node.optional_text("doc"),
        initial_default=node.values.get("initial-default"),
        write_default=node.values.get("write-default"),
        extra=node.extra(_FIELD_KEYS),
    )


def parse_type(value: object, path: str = "$", depth: int = 0) -> Type:
    """The type that a JSON value stands for; raises CorruptMetadata with the JSON path."""
    if isinstance(value, str):
        return _parse_text(value, path)
    if depth > _MAX_DEPTH:
        raise CorruptMetadata(f"Cannot read {path}: types are nested more than {_MAX_DEPTH} deep", field=path)
    node = JsonObject(value, path)
    kind = node.text("type")
    if kind == "struct":
        return StructType(fields=parse_struct_fields(node, depth), extra=node.extra(_STRUCT_KEYS))
    if kind == "list":
        required = node.boolean("element-required")
        element = NestedField(
            field_id=_field_id(node, "element-id"),
            name="element",
            required=required,
            type=_parse_part(node, "element", depth, required=required),
        )
        return ListType(element=element, extra=node.extra(_LIST_KEYS))
    if kind == "map":
        key = NestedField(
            field_id=_field_id(node, "key-id"),
            name="key",
            required=True,
            type=_parse_part(node, "key", depth, required=True),
        )
        required = node.boolean("value-required")
        item = NestedField(
            field_id=_field_id(node, "value-id"),
            name="value",
            required=required,
            type=_parse_part(node, "value", depth, required=required),
        )
        return MapType(key=key, value=item, extra=node.extra(_MAP_KEYS))
    raise rejected(node.at("type"), '"struct", "list" or "map"', kind)


def field_to_json(nested: NestedField) -> dict[str, object]:
    """A struct field's JSON object."""
    result: dict[str, object] = {
        "id": nested.field_id,
        "name": nested.name,
        "required": nested.required,
        "type": type_to_json(nested.type),
    }
    if nested.doc is not None:
        result["doc"] = nested.doc
    if nested.initial_default is not None:
        result["initial-default"] = nested.initial_default
    if nested.write_default is not None:
        result["write-default"] = nested.write_default
    return {**result, **nested.extra}


def type_to_json(kind: Type) -> object:
    """The canonical JSON form of a type (Appendix C)."""
    match kind:
        case StructType():
            return {"type": "struct", "fields": [field_to_json(nested) for nested in kind.fields], **kind.extra}
        case ListType():
            return {
                "type": "list",
                "element-id": kind.element.field_id,
                "element-required": kind.element.required,
                "element": type_to_json(kind.element.type),
                **kind.extra,
            }
        case MapType():
            return {
                "type": "map",
                "key-id": kind.key.field_id,
                "key": type_to_json(kind.key.type),
                "value-id": kind.value.field_id,
                "value-required": kind.value.required,
                "value": type_to_json(kind.value.type),
                **kind.extra,
            }
        case DecimalType():
            return f"decimal({kind.precision}, {kind.scale})"
        case FixedType():
            return f"fixed[{kind.length}]"
        case GeometryType():
            return f"geometry({kind.crs})"
        case GeographyType():
            return f"geography({kind.crs}, {kind.algorithm})"
        case _:
            return _PLAIN_NAMES[type(kind)]


def type_name(kind: Type) -> str:
    """A type as messages show it: ``struct<a: int, b: list<string>>``."""
    match kind:
        case StructType():
            return f"struct<{', '.join(f'{nested.name}: {type_name(nested.type)}' for nested in kind.fields)}>"
        case ListType():
            return f"list<{type_name(kind.element.type)}>"
        case MapType():
            return f"map<{type_name(kind.key.type)}, {type_name(kind.value.type)}>"
        case _:
            return str(type_to_json(kind))


VARIANT_STORAGE = pa.struct([pa.field("metadata", pa.binary(), False), pa.field("value", pa.binary(), False)])
_ARROW: dict[type, pa.DataType] = {
    BooleanType: pa.bool_(),
    IntegerType: pa.int32(),
    LongType: pa.int64(),
    FloatType: pa.float32(),
    DoubleType: pa.float64(),
    DateType: pa.date32(),
    TimeType: pa.time64("us"),
    TimestampType: pa.timestamp("us"),
    TimestamptzType: pa.timestamp("us", tz="UTC"),
    TimestampNsType: pa.timestamp("ns"),
    TimestamptzNsType: pa.timestamp("ns", tz="UTC"),
    StringType: pa.string(),
    UuidType: pa.binary(16),
    BinaryType: pa.binary(),
    UnknownType: pa.null(),
    VariantType: VARIANT_STORAGE,
    GeometryType: pa.binary(),
    GeographyType: pa.binary(),
}


def arrow_type(kind: Type) -> pa.DataType:
    """The Arrow type in which values of a type are handled here."""
    match kind:
        case DecimalType():
            return pa.decimal128(kind.precision, kind.scale)
        case FixedType():
            return pa.binary(kind.length)
        case StructType():
            return pa.struct([arrow_field(nested) for nested in kind.fields])
        case ListType():
            return pa.list_(arrow_field(kind.element))
        case MapType():
            return pa.map_(arrow_field(kind.key).with_nullable(False), arrow_field(kind.value))
        case _:
            return _ARROW[type(kind)]


def arrow_field(nested: NestedField, *, with_field_id: bool = False) -> pa.Field:
    """A field in Arrow; ``with_field_id`` adds the ``PARQUET:field_id`` metadata to it (not to nested ones)."""
    metadata = {b"PARQUET:field_id": str(nested.field_id).encode()} if with_field_id else None
    return pa.field(nested.name, arrow_type(nested.type), nullable=not nested.required, metadata=metadata)


def nested_fields(kind: Type) -> tuple[NestedField, ...]:
    """The direct parts of a type: struct fields, list element, map key and value; none for the others."""
    match kind:
        case StructType():
            return kind.fields
        case ListType():
            return (kind.element,)
        case MapType():
            return (kind.key, kind.value)
        case _:
            return ()


def walk(fields: tuple[NestedField, ...]) -> Iterator[NestedField]:
    """Every field of a tree, parents before children, in declaration order."""
    for nested in fields:
        yield nested
        yield from walk(nested_fields(nested.type))
