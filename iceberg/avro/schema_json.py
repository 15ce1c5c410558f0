"""Iceberg types as Avro schema JSON with field ids (Appendix A, "Avro")."""

from __future__ import annotations

import re
from typing import Final

from deltaberg.iceberg.avro.encoder import decimal_size
from deltaberg.iceberg.schema.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    GeographyType,
    GeometryType,
    IntegerType,
    ListType,
    LongType,
    MapType,
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
    UuidType,
    VariantType,
)

ICEBERG_NAME: Final = "iceberg-field-name"
"""The attribute that keeps a field's name where Avro's rules for names do not allow it."""

_UNSAFE_FIRST: Final = re.compile(r"^[^A-Za-z_]")
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9_]")


def avro_schema_json(struct: StructType, name: str) -> dict[str, object]:
    """The record schema of a struct. Types that Avro wants named are defined once each, under names of their own."""
    return _Names().record(struct, name)


def avro_name(name: str) -> str:
    """A name that every Avro reader accepts: each character outside ``[A-Za-z0-9_]`` becomes ``_x`` and its hex code,
    a leading digit gets an underscore.
    """
    first = _UNSAFE_FIRST.sub(
        lambda match: f"_{match[0]}" if match[0].isdigit() and match[0].isascii() else match[0], name
    )
    return _UNSAFE.sub(lambda match: f"_x{ord(match[0]):X}", first) or "_"


class _Names:
    def __init__(self) -> None:
        self.used: set[str] = set()

    def unique(self, name: str) -> str:
        """A type name that this schema does not use yet: some readers know definitions only, not references."""
        chosen, i = name, 2
        while chosen in self.used:
            chosen, i = f"{name}_{i}", i + 1
        self.used.add(chosen)
        return chosen

    def record(self, struct: StructType, name: str) -> dict[str, object]:
        name = self.unique(name)
        taken: set[str] = set()
        fields = [self.field(nested, taken) for nested in struct.fields]
        return {"type": "record", "name": name, "fields": fields}

    def field(self, nested: NestedField, taken: set[str]) -> dict[str, object]:
        name = avro_name(nested.name)
        if name in taken:
            name = f"{name}_{nested.field_id}"
        taken.add(name)
        result: dict[str, object] = {"name": name, "type": self.optional(nested)}
        if nested.doc is not None:
            result["doc"] = nested.doc
        if not nested.required:
            result["default"] = None
        result["field-id"] = nested.field_id
        if name != nested.name:
            result[ICEBERG_NAME] = nested.name
        return result

    def optional(self, nested: NestedField) -> object:
        kind = self.type(nested.type, nested.field_id)
        return kind if nested.required or kind == "null" else ["null", kind]

    def type(self, kind: Type, field_id: int) -> object:
        match kind:
            case StructType():
                return self.record(kind, f"r{field_id}")
            case ListType():
                return {"type": "array", "items": self.optional(kind.element), "element-id": kind.element.field_id}
            case MapType():
                pair = StructType(fields=(kind.key, kind.value))
                items = self.record(pair, f"k{kind.key.field_id}_v{kind.value.field_id}")
                return {"type": "array", "items": items, "logicalType": "map"}
            case VariantType():
                binary = [{"name": each, "type": "bytes"} for each in ("metadata", "value")]
                return {"type": "record", "name": self.unique(f"r{field_id}"), "fields": binary}
            case DecimalType():
                return {
                    "type": "fixed",
                    "name": self.unique(f"decimal_{kind.precision}_{kind.scale}"),
                    "size": decimal_size(kind.precision),
                    "logicalType": "decimal",
                    "precision": kind.precision,
                    "scale": kind.scale,
                }
            case FixedType():
                return {"type": "fixed", "name": self.unique(f"fixed_{kind.length}"), "size": kind.length}
            case UuidType():
                return {"type": "fixed", "name": self.unique("uuid_fixed"), "size": 16, "logicalType": "uuid"}
            case TimestampType() | TimestamptzType():
                return _timestamp("timestamp-micros", utc=isinstance(kind, TimestamptzType))
            case TimestampNsType() | TimestamptzNsType():
                return _timestamp("timestamp-nanos", utc=isinstance(kind, TimestamptzNsType))
        return _SCALARS[type(kind)]


def _timestamp(logical: str, *, utc: bool) -> dict[str, object]:
    return {"type": "long", "logicalType": logical, "adjust-to-utc": utc}


_SCALARS: Final[dict[type, object]] = {
    BooleanType: "boolean",
    IntegerType: "int",
    LongType: "long",
    FloatType: "float",
    DoubleType: "double",
    DateType: {"type": "int", "logicalType": "date"},
    TimeType: {"type": "long", "logicalType": "time-micros"},
    StringType: "string",
    BinaryType: "bytes",
    GeometryType: "bytes",
    GeographyType: "bytes",
    UnknownType: "null",
}
