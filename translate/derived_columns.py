"""Generated Delta columns that repeat the partition transforms of an Iceberg table (``--derive-partition-columns``).

Iceberg: "Partition Transforms". Delta: "Generated Columns". The values of shared files come from Iceberg's partition
tuples; the expression is for rows that are written later and gives equal values in every session's time zone: instants
are cut by integer arithmetic on seconds (``/`` would divide doubles), never turned into local time. Only functions that
Delta allows in generated columns occur.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.delta.schema import types as delta
from deltaberg.delta.schema.column_mapping import COLUMN_ID, PHYSICAL_NAME, MappingMode
from deltaberg.iceberg.partition.partition_spec import PartitionField, PartitionSpec
from deltaberg.iceberg.partition.transforms import (
    DayTransform,
    HourTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    YearTransform,
)
from deltaberg.iceberg.schema import types as ice
from deltaberg.iceberg.schema.schema import Schema
from deltaberg.translate import codes
from deltaberg.translate.findings import Finding

GENERATION_KEY: Final = "delta.generationExpression"

_DAY_SECONDS: Final = 86_400
_HOUR_SECONDS: Final = 3_600

Values = Callable[[pa.Array], pa.Array]


@dataclass(frozen=True, slots=True, kw_only=True)
class DerivationRule:
    """The generated column for one transform of one type.

    transform, sources: names as in Iceberg. type: of the generated column. suffix: of its name.
    expression: with ``{column}`` for the quoted column and ``{width}`` for a truncation's width.
    values: from the transform's result, as the partition tuple holds it, to values of ``type``; null for null.
    """

    transform: type[Transform]
    source: type[ice.Type]
    type: delta.DeltaType
    suffix: str
    expression: str
    values: Values


def _floor(unit: int) -> str:
    """How many units of seconds lie between 1970 and an instant, rounded down.

    The cast rounds down, too; UNIX_TIMESTAMP would round towards zero.
    """
    seconds = "CAST({column} AS BIGINT)"
    return f"({seconds} - PMOD({seconds}, {unit})) DIV {unit}"


def _years(ordinals: pa.Array) -> pa.Array:
    return pc.add(ordinals.cast(pa.int64()), 1970).cast(pa.int32())


def _year_months(ordinals: pa.Array) -> pa.Array:
    months = pc.fill_null(ordinals.cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
    values = (np.floor_divide(months, 12) + 1970) * 100 + np.mod(months, 12) + 1
    return pa.array(values.astype(np.int32), mask=ordinals.is_null().to_numpy(zero_copy_only=False))


def _dates(days: pa.Array) -> pa.Array:
    return days.cast(pa.date32())


def _hours(ordinals: pa.Array) -> pa.Array:
    return ordinals.cast(pa.int64())


def _unchanged(values: pa.Array) -> pa.Array:
    return values


_UTC_DATE: Final = f"DATE_ADD(DATE'1970-01-01', CAST({_floor(_DAY_SECONDS)} AS INT))"
_INT, _LONG, _DATE = delta.IntegerType(), delta.LongType(), delta.DateType()


def _time_rules(source: type[ice.Type], date: str, plain: str) -> Iterable[DerivationRule]:
    """date: the column's day as SQL. plain: the argument of YEAR and MONTH."""
    yield DerivationRule(
        transform=YearTransform, source=source, type=_INT, suffix="year", expression=f"YEAR({plain})", values=_years
    )
    yield DerivationRule(
        transform=MonthTransform,
        source=source,
        type=_INT,
        suffix="month",
        expression=f"YEAR({plain}) * 100 + MONTH({plain})",
        values=_year_months,
    )
    yield DerivationRule(
        transform=DayTransform, source=source, type=_DATE, suffix="day", expression=date, values=_dates
    )


DERIVATION_RULES: Final[tuple[DerivationRule, ...]] = (
    *_time_rules(ice.DateType, "CAST({column} AS DATE)", "{column}"),
    *_time_rules(ice.TimestampType, "CAST({column} AS DATE)", "{column}"),
    *_time_rules(ice.TimestamptzType, _UTC_DATE, _UTC_DATE),
    DerivationRule(
        transform=HourTransform,
        source=ice.TimestampType,
        type=_LONG,
        suffix="hour",
        expression="CAST(DATEDIFF(CAST({column} AS DATE), DATE'1970-01-01') AS BIGINT) * 24 + HOUR({column})",
        values=_hours,
    ),
    DerivationRule(
        transform=HourTransform,
        source=ice.TimestamptzType,
        type=_LONG,
        suffix="hour",
        expression=_floor(_HOUR_SECONDS),
        values=_hours,
    ),
    DerivationRule(
        transform=TruncateTransform,
        source=ice.IntegerType,
        type=_INT,
        suffix="trunc",
        expression="{column} - PMOD({column}, {width})",
        values=_unchanged,
    ),
    DerivationRule(
        transform=TruncateTransform,
        source=ice.LongType,
        type=_LONG,
        suffix="trunc",
        expression="{column} - PMOD({column}, {width})",
        values=_unchanged,
    ),
    DerivationRule(
        transform=TruncateTransform,
        source=ice.StringType,
        type=delta.StringType(),
        suffix="trunc",
        expression="SUBSTRING({column}, 1, {width})",
        values=_unchanged,
    ),
)
"""Every transform that a generated column repeats exactly."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DerivedColumn:
    """A generated Delta column that repeats a transform of another column.

    field_names: by spec id, the partition field that holds the transform's value in files of that spec.
    """

    name: str
    rule: DerivationRule
    expression: str
    transform: Transform
    source_id: int
    field_names: Mapping[int, str]

    @property
    def type(self) -> delta.DeltaType:
        return self.rule.type

    def values(self, tuple_values: pa.Array) -> pa.Array:
        """The column's values from those of the partition tuples."""
        return self.rule.values(tuple_values)

    def under_names_of(self, schema: Schema) -> DerivedColumn:
        """The generated column for another schema, in which the source column may have another name."""
        column = schema.find(self.source_id)
        assert column is not None
        return replace(self, expression=_expression(self.rule, self.transform, column.name))

    def repeats(self, field: PartitionField) -> bool:
        return (field.source_id, field.transform) == (self.source_id, self.transform)

    def finding(self, what: str) -> Finding:
        return Finding(code=codes.PARTITION_DERIVED, what=what, detail=f"{self.name} = {self.expression}")


def derive_columns(
    live_specs: Iterable[PartitionSpec],
    schema: Schema,
    *,
    taken: Iterable[str],
    empty_strings: frozenset[int] = frozenset(),
    unmappable: frozenset[int] = frozenset(),
) -> tuple[DerivedColumn, ...]:
    """A generated column for every transform that the specs of all live files share and that has an exact expression.

    taken: names that no new column may have, regardless of case: of columns past and present, and in the files.
    empty_strings: source ids of whose truncations some live file has the empty string, which a Delta log states as
    null. unmappable: source ids whose column gets another type.
    """
    specs = sorted(live_specs, key=lambda spec: -spec.spec_id)
    names = {name.lower() for name in taken}
    result: list[DerivedColumn] = []
    for field in specs[0].fields if specs else ():
        rule = derivation_rule(field, schema)
        places = {spec.spec_id: name for spec in specs if (name := _name_in(spec, field)) is not None}
        if rule is None or len(places) < len(specs) or field.source_id in unmappable:
            continue
        if isinstance(rule.type, delta.StringType) and field.source_id in empty_strings:
            continue
        column = schema.find(field.source_id)
        assert column is not None
        name = f"{column.name}_{rule.suffix}"
        while name.lower() in names:
            name = f"{name}_"
        names.add(name.lower())
        result.append(
            DerivedColumn(
                name=name,
                rule=rule,
                expression=_expression(rule, field.transform, column.name),
                transform=field.transform,
                source_id=field.source_id,
                field_names=places,
            )
        )
    return tuple(result)


def derivation_rule(field: PartitionField, schema: Schema) -> DerivationRule | None:
    """The rule for a partition field; None where no generated column repeats it exactly."""
    column = schema.find(field.source_id)
    if column is None or schema.parent_id(field.source_id) is not None:
        return None
    for rule in DERIVATION_RULES:
        if isinstance(field.transform, rule.transform) and isinstance(column.type, rule.source):
            return rule
    return None


def with_derived_columns(
    schema: delta.StructType, columns: Sequence[DerivedColumn], *, mode: MappingMode, last_column_id: int
) -> delta.StructType:
    """The Delta schema with the generated columns at its end; ids go on after ``last_column_id``."""
    added = []
    for place, column in enumerate(columns, start=1):
        metadata: dict[str, object] = {GENERATION_KEY: column.expression}
        if mode is not MappingMode.NONE:
            metadata |= {COLUMN_ID: last_column_id + place, PHYSICAL_NAME: column.name}
        added.append(delta.StructField(name=column.name, type=column.type, nullable=True, metadata=metadata))
    return delta.StructType(fields=(*schema.fields, *added))


def _name_in(spec: PartitionSpec, wanted: PartitionField) -> str | None:
    for field in spec.fields:
        if field.source_id == wanted.source_id and field.transform == wanted.transform:
            return field.name
    return None


def _expression(rule: DerivationRule, transform: Transform, column: str) -> str:
    quoted = f"`{column.replace('`', '``')}`"
    width = transform.width if isinstance(transform, TruncateTransform) else 0
    return rule.expression.replace("{width}", str(width)).replace("{column}", quoted)
