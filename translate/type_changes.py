"""Columns whose type was widened: the support that files with the narrow type need in the other format.

Delta: "Type Widening" and ``delta.typeChanges``. Iceberg: "Schema Evolution", valid type promotions.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from deltaberg.delta.schema import types as delta
from deltaberg.delta.schema.types import type_name
from deltaberg.iceberg.schema import types as ice

TYPE_CHANGES_KEY: Final = "delta.typeChanges"


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeChangeEntry:
    """One entry of ``delta.typeChanges``, by the names of Delta's types."""

    from_type: str
    to_type: str

    def to_json(self, field_path: str = "") -> dict[str, object]:
        """field_path: the steps below the struct field that carries the entry (``element``, ``key.element``)."""
        result: dict[str, object] = {"fromType": self.from_type, "toType": self.to_type}
        if field_path:
            result["fieldPath"] = field_path
        return result


def iceberg_can_promote(narrow: ice.Type, wide: ice.Type, *, format_version: int) -> bool:
    """Whether an Iceberg reader of that version reads files with ``narrow`` as ``wide``; True where both are equal."""
    if narrow == wide:
        return True
    match narrow, wide:
        case (ice.IntegerType(), ice.LongType()) | (ice.FloatType(), ice.DoubleType()):
            return True
        case ice.DecimalType(), ice.DecimalType():
            return narrow.scale == wide.scale and narrow.precision <= wide.precision
        case ice.DateType(), ice.TimestampType() | ice.TimestampNsType():
            return format_version >= 3
        case ice.UnknownType(), _:
            return format_version >= 3
        case _:
            return False


def widening_chain(narrow: Iterable[delta.DeltaType], wide: delta.DeltaType) -> tuple[TypeChangeEntry, ...]:
    """The changes that lead from the narrowest type through the others to the present one, as Delta records them."""
    steps: list[delta.DeltaType] = []
    for kind in narrow:
        place = sum(delta_can_widen(other, kind) for other in steps)
        steps.insert(place, kind)
    pairs = zip(steps, [*steps[1:], wide], strict=True)
    return tuple(TypeChangeEntry(from_type=type_name(before), to_type=type_name(after)) for before, after in pairs)


def delta_can_widen(narrow: delta.DeltaType, wide: delta.DeltaType) -> bool:
    """Whether feature typeWidening covers the change; True where both are equal."""
    if narrow == wide:
        return True
    match narrow, wide:
        case (
            (delta.ByteType(), delta.ShortType() | delta.IntegerType() | delta.LongType() | delta.DoubleType())
            | (delta.ShortType(), delta.IntegerType() | delta.LongType() | delta.DoubleType())
            | (delta.IntegerType(), delta.LongType() | delta.DoubleType())
            | (delta.FloatType(), delta.DoubleType())
            | (delta.DateType(), delta.TimestampNtzType())
        ):
            return True
        case delta.DecimalType(), delta.DecimalType():
            return wide.scale >= narrow.scale and wide.precision - wide.scale >= narrow.precision - narrow.scale
        case delta.ByteType() | delta.ShortType() | delta.IntegerType(), delta.DecimalType():
            return wide.precision - wide.scale >= 10
        case delta.LongType(), delta.DecimalType():
            return wide.precision - wide.scale >= 20
        case _:
            return False
