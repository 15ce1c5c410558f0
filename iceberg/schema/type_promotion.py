"""Which type may become which (section "Schema Evolution", "Valid primitive type promotions")."""

from __future__ import annotations

from deltaberg.iceberg.errors import InvalidIcebergRequest
from deltaberg.iceberg.partition.partition_spec import PartitionSpec
from deltaberg.iceberg.partition.transforms import DayTransform, MonthTransform, VoidTransform, YearTransform
from deltaberg.iceberg.schema.schema import Schema
from deltaberg.iceberg.schema.types import (
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    PrimitiveType,
    StructType,
    TimestampNsType,
    TimestampType,
    Type,
    UnknownType,
    VariantType,
    type_name,
)

_SINCE_V3 = 3


def may_promote(old: Type, new: Type, format_version: int) -> bool:
    """True when a column without parts may change from one type to the other (or not change at all)."""
    if old == new:
        return True
    match old:
        case UnknownType():
            return format_version >= _SINCE_V3 and isinstance(
                new, (PrimitiveType, VariantType, StructType, ListType, MapType)
            )
        case IntegerType():
            return isinstance(new, LongType)
        case FloatType():
            return isinstance(new, DoubleType)
        case DecimalType():
            return isinstance(new, DecimalType) and new.scale == old.scale and new.precision > old.precision
        case DateType():
            return format_version >= _SINCE_V3 and isinstance(new, (TimestampType, TimestampNsType))
        case _:
            return False


def check_promotion(old: NestedField, new: Type, *, format_version: int, name: str, spec: PartitionSpec) -> None:
    """Raise InvalidIcebergRequest unless a column may take a new type.

    ``spec`` is the partition spec of new data: a promotion that would change its values is refused.
    """
    if not may_promote(old.type, new, format_version):
        raise InvalidIcebergRequest(
            f"Cannot change column {name} from {type_name(old.type)} to {type_name(new)}: "
            f"format version {format_version} has no such promotion"
        )
    if isinstance(old.type, DateType) and old.type != new:
        for part in spec.fields:
            stable = isinstance(part.transform, (YearTransform, MonthTransform, DayTransform, VoidTransform))
            if part.source_id == old.field_id and not stable:
                raise InvalidIcebergRequest(
                    f"Cannot change column {name} from date to {type_name(new)}: partition field {part.name} "
                    f"({part.transform}) would get other values"
                )


def check_evolution(old: Schema, new: Schema, *, format_version: int, spec: PartitionSpec) -> None:
    """Raise InvalidIcebergRequest unless ``new`` can follow ``old``: a field id keeps its place among structs, lists
    and maps, and its type but for promotions. Fields may come, go, move within their struct and be renamed."""
    for nested in new.all_fields():
        before = old.find(nested.field_id)
        if before is None:
            continue
        name = new.full_name(nested.field_id)
        if old.parent_id(nested.field_id) != new.parent_id(nested.field_id):
            raise InvalidIcebergRequest(f"Cannot move column {name}: field {nested.field_id} would change its parent")
        same_shape = any(
            isinstance(before.type, kind) and isinstance(nested.type, kind) for kind in (StructType, ListType, MapType)
        )
        if same_shape:
            continue
        check_promotion(before, nested.type, format_version=format_version, name=name, spec=spec)
