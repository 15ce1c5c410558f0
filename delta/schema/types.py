"""The types of a Delta schema and the Arrow types that carry their values.

PROTOCOL "Schema Serialization Format"; variant, void, geometry, geography and intervals as `upstream-changes`
describes them: they came after the text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from deltaberg.delta.errors import UnsupportedDeltaFeature


@dataclass(frozen=True, slots=True, kw_only=True)
class BooleanType:
    """true or false."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ByteType:
    """8-bit signed integer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShortType:
    """16-bit signed integer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IntegerType:
    """32-bit signed integer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LongType:
    """64-bit signed integer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FloatType:
    """IEEE 754 single precision."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DoubleType:
    """IEEE 754 double precision."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecimalType:
    """Exact decimal of at most ``precision`` digits (1..38), ``scale`` of them after the point."""

    precision: int
    scale: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StringType:
    """UTF-8 text; ``collation`` is ``provider.name`` where the field's metadata names one."""

    collation: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BinaryType:
    """Bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DateType:
    """Days since 1970-01-01."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimestampType:
    """Microseconds since 1970-01-01T00:00:00Z."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimestampNtzType:
    """Microseconds since 1970-01-01T00:00:00 on a clock without zone (feature timestampNtz)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantType:
    """Semi-structured value: binary ``metadata`` and ``value`` (feature variantType)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VoidType:
    """Always null; never in data files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IntervalType:
    """``interval <text>``: months for year-month intervals, microseconds for day-time intervals."""

    text: str

    @property
    def counts_months(self) -> bool:
        return self.text in ("year", "month", "year to month")


@dataclass(frozen=True, slots=True, kw_only=True)
class GeometryType:
    """Planar geometry as WKB in the coordinate system ``crs`` (feature geospatial)."""

    crs: str = "OGC:CRS84"


@dataclass(frozen=True, slots=True, kw_only=True)
class GeographyType:
    """Geography as WKB, edges interpolated by ``algorithm`` (feature geospatial)."""

    crs: str = "OGC:CRS84"
    algorithm: str = "SPHERICAL"


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayType:
    """A list of elements."""

    element_type: DeltaType
    contains_null: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class MapType:
    """Keys, never null, to values."""

    key_type: DeltaType
    value_type: DeltaType
    value_contains_null: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class StructField:
    """A column or nested field; ``metadata`` is kept exactly as the schema string has it."""

    name: str
    type: DeltaType
    nullable: bool = True
    metadata: Mapping[str, object] = field(default_factory=dict, hash=False)

    @property
    def comment(self) -> str | None:
        value = self.metadata.get("comment")
        return value if isinstance(value, str) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class StructType:
    """Named fields in order."""

    fields: tuple[StructField, ...] = ()

    def __contains__(self, name: str) -> bool:
        return any(each.name == name for each in self.fields)

    def field(self, name: str) -> StructField:
        """The field of that exact name; KeyError when there is none."""
        for each in self.fields:
            if each.name == name:
                return each
        raise KeyError(name)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(each.name for each in self.fields)


PrimitiveType = (
    BooleanType
    | ByteType
    | ShortType
    | IntegerType
    | LongType
    | FloatType
    | DoubleType
    | DecimalType
    | StringType
    | BinaryType
    | DateType
    | TimestampType
    | TimestampNtzType
    | VariantType
    | VoidType
    | IntervalType
    | GeometryType
    | GeographyType
)
DeltaType = PrimitiveType | ArrayType | MapType | StructType

VARIANT_ARROW = pa.struct([pa.field("metadata", pa.binary(), nullable=False), pa.field("value", pa.binary())])

_ARROW: Mapping[type, pa.DataType] = {
    BooleanType: pa.bool_(),
    ByteType: pa.int8(),
    ShortType: pa.int16(),
    IntegerType: pa.int32(),
    LongType: pa.int64(),
    FloatType: pa.float32(),
    DoubleType: pa.float64(),
    StringType: pa.string(),
    BinaryType: pa.binary(),
    DateType: pa.date32(),
    TimestampType: pa.timestamp("us", tz="UTC"),
    TimestampNtzType: pa.timestamp("us"),
    VariantType: VARIANT_ARROW,
    VoidType: pa.null(),
    GeometryType: pa.binary(),
    GeographyType: pa.binary(),
}


def arrow_type(delta_type: DeltaType) -> pa.DataType:
    """The Arrow type of a column: timestamps in microseconds, text as utf8, variant as struct, WKB as binary.

    List elements are named ``element``; nullability follows the schema. Intervals are the number that the file
    stores: int32 months or int64 microseconds.
    """
    match delta_type:
        case DecimalType(precision=precision, scale=scale):
            return pa.decimal128(precision, scale)
        case IntervalType():
            return pa.int32() if delta_type.counts_months else pa.int64()
        case ArrayType(element_type=element, contains_null=contains_null):
            return pa.list_(pa.field("element", arrow_type(element), contains_null))
        case MapType(key_type=key, value_type=value, value_contains_null=value_contains_null):
            return pa.map_(arrow_type(key), pa.field("value", arrow_type(value), value_contains_null))
        case StructType(fields=fields):
            return pa.struct([arrow_field(each) for each in fields])
        case _:
            return _ARROW[type(delta_type)]


def primitive_type_of(arrow: pa.DataType) -> PrimitiveType | None:
    """The primitive type whose values are of an Arrow type; None where there is none or several mean different things."""
    if pa.types.is_decimal128(arrow):
        return DecimalType(precision=arrow.precision, scale=arrow.scale)
    return _PRIMITIVE.get(arrow)


def arrow_field(struct_field: StructField) -> pa.Field:
    """The Arrow field of a column, under its logical name."""
    return pa.field(struct_field.name, arrow_type(struct_field.type), struct_field.nullable)


def arrow_schema(struct: StructType) -> pa.Schema:
    """The Arrow schema of a table's rows."""
    return pa.schema([arrow_field(each) for each in struct.fields])


def type_name(delta_type: DeltaType) -> str:
    """The name of a primitive type as the schema string spells it; ``array``, ``map`` or ``struct`` for the rest."""
    match delta_type:
        case DecimalType(precision=precision, scale=scale):
            return f"decimal({precision},{scale})"
        case IntervalType(text=text):
            return f"interval {text}"
        case GeometryType(crs=crs):
            return f"geometry({crs})"
        case GeographyType(crs=crs, algorithm=algorithm):
            return f"geography({crs}, {algorithm})"
        case _:
            return _NAME_OF[type(delta_type)]


_SIMPLE: Mapping[str, PrimitiveType] = {
    "boolean": BooleanType(),
    "byte": ByteType(),
    "short": ShortType(),
    "integer": IntegerType(),
    "long": LongType(),
    "float": FloatType(),
    "double": DoubleType(),
    "string": StringType(),
    "binary": BinaryType(),
    "date": DateType(),
    "timestamp": TimestampType(),
    "timestamp_ntz": TimestampNtzType(),
    "variant": VariantType(),
    "void": VoidType(),
}
_NAME_OF: Mapping[type, str] = {
    **{type(value): name for name, value in _SIMPLE.items()},
    ArrayType: "array",
    MapType: "map",
    StructType: "struct",
}
_PRIMITIVE: Mapping[pa.DataType, PrimitiveType] = {
    _ARROW[type(value)]: value for value in _SIMPLE.values() if not isinstance(value, (VariantType, VoidType))
}
# Spark's own spelling of void before it got a name, and of a decimal without parameters.
_ALIASES: Mapping[str, PrimitiveType] = {
    "null": VoidType(),
    "decimal": DecimalType(precision=10, scale=0),
    "int": IntegerType(),
}
_INTERVALS = frozenset(
    f"{start} to {end}" if start != end else start
    for units in (("year", "month"), ("day", "hour", "minute", "second"))
    for position, start in enumerate(units)
    for end in units[position:]
)


def parse_type_name(name: str) -> PrimitiveType:
    """The primitive type of that name. Raises UnsupportedDeltaFeature for a name that the protocol does not define."""
    simple = _SIMPLE.get(name) or _ALIASES.get(name)
    if simple is not None:
        return simple
    head, _, rest = name.partition("(")
    if rest.endswith(")"):
        arguments = [part.strip() for part in rest[:-1].split(",")]
        parsed = _with_arguments(head.strip(), arguments)
        if parsed is not None:
            return parsed
    if name.startswith("interval ") and name.removeprefix("interval ") in _INTERVALS:
        return IntervalType(text=name.removeprefix("interval "))
    if name == "geometry":
        return GeometryType()
    if name == "geography":
        return GeographyType()
    raise UnsupportedDeltaFeature(
        f"Cannot read the type {name!r}: the Delta protocol defines no such type; upgrade deltaberg if it is newer",
        feature=f"type {name}",
    )


def _with_arguments(head: str, arguments: list[str]) -> PrimitiveType | None:
    match head, arguments:
        case "decimal", [precision, scale] if _is_count(precision) and _is_count(scale):
            return _decimal(int(precision), int(scale))
        case "decimal", [precision] if _is_count(precision):
            return _decimal(int(precision), 0)
        case "geometry", [crs] if crs:
            return GeometryType(crs=crs)
        case "geography", [crs] if crs:
            return GeographyType(crs=crs)
        case "geography", [crs, algorithm] if crs and algorithm:
            return GeographyType(crs=crs, algorithm=algorithm)
    return None


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 3


def _decimal(precision: int, scale: int) -> DecimalType | None:
    return DecimalType(precision=precision, scale=scale) if 1 <= precision <= 38 and scale <= precision else None
