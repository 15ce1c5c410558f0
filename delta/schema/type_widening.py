"""Type changes that a column went through without its files being rewritten. PROTOCOL RFC "Type Widening"."""

from __future__ import annotations

from dataclasses import dataclass

from deltaberg.delta.errors import CorruptLog, UnsupportedDeltaFeature
from deltaberg.delta.log.actions import Metadata
from deltaberg.delta.schema.schema import walk_fields
from deltaberg.delta.schema.types import (
    ByteType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    PrimitiveType,
    ShortType,
    StructField,
    TimestampNtzType,
    VoidType,
    parse_type_name,
    type_name,
)

TYPE_CHANGES = "delta.typeChanges"

_INTEGER_DIGITS = {ByteType: 3, ShortType: 5, IntegerType: 10, LongType: 20}
_RANK = {ByteType: 0, ShortType: 1, IntegerType: 2, LongType: 3}


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeChange:
    """One change; ``field_path`` is ``element``, ``key``, ``value`` or a dotted path of them, empty for the field."""

    from_type: PrimitiveType
    to_type: PrimitiveType
    field_path: str = ""


def type_changes(field: StructField) -> tuple[TypeChange, ...]:
    """The changes recorded for a field, oldest first. Raises CorruptLog naming the field for malformed ones."""
    found = field.metadata.get(TYPE_CHANGES)
    if found is None:
        return ()
    if not isinstance(found, list):
        raise CorruptLog(f"Cannot read {TYPE_CHANGES} of {field.name!r}: it is {found!r:.100} (expected a list)")
    return tuple(_type_change(each, field.name) for each in found)


def is_widening(from_type: PrimitiveType, to_type: PrimitiveType) -> bool:
    """Whether the protocol lets a column change so while files keep the narrow type."""
    if from_type == to_type or isinstance(from_type, VoidType):
        return True
    match from_type, to_type:
        case ((ByteType() | ShortType() | IntegerType()), (ShortType() | IntegerType() | LongType())):
            return _RANK[type(from_type)] < _RANK[type(to_type)]
        case ((FloatType() | ByteType() | ShortType() | IntegerType()), DoubleType()):
            return True
        case DateType(), TimestampNtzType():
            return True
        case DecimalType(), DecimalType():
            more_scale = to_type.scale - from_type.scale
            return more_scale >= 0 and to_type.precision - from_type.precision >= more_scale
        case ((ByteType() | ShortType() | IntegerType() | LongType()), DecimalType()):
            # Bytes and shorts go through int, which is what the protocol's list and its first writers differ about.
            return to_type.precision - to_type.scale >= _INTEGER_DIGITS[type(from_type)]
        case _:
            return False


def require_known_changes(metadata: Metadata) -> None:
    """Raise UnsupportedDeltaFeature naming the column whose recorded type change deltaberg does not know."""
    for path, field in walk_fields(metadata.schema):
        for change in type_changes(field):
            if not is_widening(change.from_type, change.to_type):
                described = f"{type_name(change.from_type)} to {type_name(change.to_type)}"
                raise UnsupportedDeltaFeature(
                    f"Cannot read the column {'.'.join(path)!r}: its type was changed from {described}, "
                    "which no known version of the protocol allows",
                    feature=f"type change {described}",
                )


def _type_change(value: object, name: str) -> TypeChange:
    if not isinstance(value, dict):
        raise CorruptLog(f"Cannot read {TYPE_CHANGES} of {name!r}: a change is {value!r:.100} (expected an object)")
    from_type, to_type, path = value.get("fromType"), value.get("toType"), value.get("fieldPath", "")
    if not isinstance(from_type, str) or not isinstance(to_type, str) or not isinstance(path, str):
        raise CorruptLog(f"Cannot read {TYPE_CHANGES} of {name!r}: fromType, toType or fieldPath is missing or no text")
    return TypeChange(from_type=parse_type_name(from_type), to_type=parse_type_name(to_type), field_path=path)
