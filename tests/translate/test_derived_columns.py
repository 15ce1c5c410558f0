"""Generated columns for partition transforms: values from partition tuples are those of the expression."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaberg.delta.schema import types as delta
from deltaberg.delta.schema.column_mapping import MappingMode
from deltaberg.iceberg.partition.partition_spec import PartitionField, PartitionSpec
from deltaberg.iceberg.partition.transforms import parse_transform
from deltaberg.iceberg.schema import types as ice
from deltaberg.iceberg.schema.schema import Schema
from deltaberg.translate.derived_columns import DerivedColumn, derive_columns, with_derived_columns
from deltaberg.translate.partitioning import iceberg_to_delta_partitioning

EPOCH = dt.datetime(1970, 1, 1)
MICROSECOND = dt.timedelta(microseconds=1)


def schema(kind: Any, name: str = "c") -> Schema:
    return Schema(schema_id=0, fields=(ice.NestedField(field_id=1, name=name, required=False, type=kind),))


def spec(transform: str, spec_id: int = 0) -> PartitionSpec:
    field = PartitionField(
        source_ids=(1,), field_id=1000 + spec_id, name=f"p{spec_id}", transform=parse_transform(transform, "$")
    )
    return PartitionSpec(spec_id=spec_id, fields=(field,))


def only(kind: Any, transform: str, **options: Any) -> DerivedColumn:
    (column,) = derive_columns([spec(transform)], schema(kind), **{"taken": ["c"], **options})
    return column


def _year_month(moment: dt.date) -> int:
    return moment.year * 100 + moment.month


OF_MOMENTS: dict[str, Callable[[dt.datetime], object]] = {
    "year": lambda moment: moment.year,
    "month": _year_month,
    "day": lambda moment: moment.date(),
    "hour": lambda moment: (moment - EPOCH) // dt.timedelta(hours=1),
}


@pytest.mark.parametrize("kind", [ice.TimestampType(), ice.TimestamptzType()], ids=str)
@pytest.mark.parametrize("transform", OF_MOMENTS)
@given(moments=st.lists(st.none() | st.datetimes(), max_size=6))
def test_values_of_times_are_exact_in_utc(kind: Any, transform: str, moments: list[dt.datetime | None]) -> None:
    column = only(kind, transform)
    micros = [None if each is None else (each - EPOCH) // MICROSECOND for each in moments]
    zone = "UTC" if isinstance(kind, ice.TimestamptzType) else None
    tuples = parse_transform(transform, "$").apply(pa.array(micros, pa.int64()).cast(pa.timestamp("us", zone)))
    expected = [None if each is None else OF_MOMENTS[transform](each) for each in moments]
    assert column.values(tuples).to_pylist() == expected


@pytest.mark.parametrize("transform", ["year", "month", "day"])
@given(days=st.lists(st.none() | st.dates(), max_size=6))
def test_values_of_dates_are_exact(transform: str, days: list[dt.date | None]) -> None:
    tuples = parse_transform(transform, "$").apply(pa.array(days, pa.date32()))
    of_days: dict[str, Callable[[dt.date], object]] = {
        "year": lambda d: d.year,
        "month": _year_month,
        "day": lambda d: d,
    }
    expected = [None if each is None else of_days[transform](each) for each in days]
    assert only(ice.DateType(), transform).values(tuples).to_pylist() == expected


@pytest.mark.parametrize("days", [pa.array([-1, None], pa.int32()), pa.array([-1, None], pa.date32())])
def test_days_that_older_writers_stored_as_int_are_dates(days: pa.Array) -> None:
    assert only(ice.TimestampType(), "day").values(days).to_pylist() == [dt.date(1969, 12, 31), None]


def test_a_truncation_is_the_number_without_its_remainder_or_the_first_characters() -> None:
    assert only(ice.LongType(), "truncate[10]").expression == "`c` - PMOD(`c`, 10)"
    assert only(ice.StringType(), "truncate[3]").expression == "SUBSTRING(`c`, 1, 3)"
    assert only(ice.IntegerType(), "truncate[10]").type == delta.IntegerType()


def test_instants_are_cut_downwards_and_never_by_the_session_zone() -> None:
    hour = only(ice.TimestamptzType(), "hour").expression
    assert hour == "(CAST(`c` AS BIGINT) - PMOD(CAST(`c` AS BIGINT), 3600)) DIV 3600"


def test_a_name_is_quoted_and_a_taken_one_avoided_whatever_its_case() -> None:
    odd = schema(ice.DateType(), "a`{column}{width}")
    (column,) = derive_columns([spec("year")], odd, taken=["A`{COLUMN}{WIDTH}_YEAR"])
    assert column.expression == "YEAR(`a``{column}{width}`)"
    assert column.name == "a`{column}{width}_year_"


@pytest.mark.parametrize(
    ("kind", "transform"),
    [
        (ice.LongType(), "bucket[4]"),
        (ice.BinaryType(), "truncate[4]"),
        (ice.DecimalType(precision=9, scale=2), "truncate[4]"),
        (ice.TimestampNsType(), "day"),
        (ice.LongType(), "void"),
        (ice.LongType(), "identity"),
    ],
    ids=str,
)
def test_what_no_expression_repeats_exactly_is_left_alone(kind: Any, transform: str) -> None:
    assert derive_columns([spec(transform)], schema(kind), taken=[]) == ()


def test_a_column_with_empty_strings_or_another_type_has_no_derived_one() -> None:
    text = schema(ice.StringType())
    assert derive_columns([spec("truncate[2]")], text, taken=[], empty_strings=frozenset({1})) == ()
    assert derive_columns([spec("truncate[2]")], text, taken=[], unmappable=frozenset({1})) == ()


def test_all_live_specs_must_share_the_transform() -> None:
    dates = schema(ice.DateType())
    (column,) = derive_columns([spec("day"), spec("day", 1)], dates, taken=[])
    assert column.field_names == {0: "p0", 1: "p1"}
    assert derive_columns([spec("month"), spec("day", 1)], dates, taken=[]) == ()


def test_the_schema_ends_with_the_generated_columns_under_new_ids() -> None:
    column = only(ice.DateType(), "year")
    before = delta.StructType(fields=())
    (field,) = with_derived_columns(before, [column], mode=MappingMode.ID, last_column_id=7).fields
    assert (field.name, field.type, field.nullable) == ("c_year", delta.IntegerType(), True)
    assert dict(field.metadata) == {
        "delta.generationExpression": "YEAR(`c`)",
        "delta.columnMapping.id": 8,
        "delta.columnMapping.physicalName": "c_year",
    }
    (plain,) = with_derived_columns(before, [column], mode=MappingMode.NONE, last_column_id=7).fields
    assert dict(plain.metadata) == {"delta.generationExpression": "YEAR(`c`)"}


def test_the_plan_names_the_column_only_where_it_was_asked_for() -> None:
    dates = schema(ice.DateType())
    asked = iceberg_to_delta_partitioning([spec("year")], dates, derive_beside=["c"])
    assert (asked.names, [each.code.name for each in asked.findings]) == (("c_year",), ["partition-column-derived"])
    unasked = iceberg_to_delta_partitioning([spec("year")], dates)
    assert (unasked.names, [each.code.name for each in unasked.findings]) == ((), ["partition-field-not-carried"])
    withheld = iceberg_to_delta_partitioning([spec("year")], dates, derive_beside=["c"], withheld="why")
    assert withheld.names == ()
