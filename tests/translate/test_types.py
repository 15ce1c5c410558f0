from __future__ import annotations

import pytest

from deltaberg.delta.schema import types as delta
from deltaberg.delta.schema.types import arrow_type as delta_arrow
from deltaberg.iceberg.schema import types as ice
from deltaberg.iceberg.schema.types import arrow_type as iceberg_arrow
from deltaberg.translate.types import (
    TYPE_MAPPINGS,
    TYPE_PAIRS,
    delta_to_iceberg_type,
    iceberg_to_delta_type,
    mappable_name,
)

BOTH_WAYS = [
    (delta.BooleanType(), ice.BooleanType()),
    (delta.IntegerType(), ice.IntegerType()),
    (delta.LongType(), ice.LongType()),
    (delta.FloatType(), ice.FloatType()),
    (delta.DoubleType(), ice.DoubleType()),
    (delta.DecimalType(precision=38, scale=9), ice.DecimalType(precision=38, scale=9)),
    (delta.StringType(), ice.StringType()),
    (delta.BinaryType(), ice.BinaryType()),
    (delta.DateType(), ice.DateType()),
    (delta.TimestampType(), ice.TimestamptzType()),
    (delta.TimestampNtzType(), ice.TimestampType()),
    (delta.VariantType(), ice.VariantType()),
    (delta.VoidType(), ice.UnknownType()),
    (delta.GeometryType(crs="EPSG:3857"), ice.GeometryType(crs="EPSG:3857")),
]


@pytest.mark.parametrize(("mine", "theirs"), BOTH_WAYS, ids=lambda kind: type(kind).__name__)
def test_types_that_both_formats_have_are_carried_both_ways(mine: delta.DeltaType, theirs: ice.Type) -> None:
    assert delta_to_iceberg_type(mine) == theirs
    assert iceberg_to_delta_type(theirs) == mine


@pytest.mark.parametrize(("mine", "theirs"), BOTH_WAYS, ids=lambda kind: type(kind).__name__)
def test_a_carried_type_has_one_physical_form(mine: delta.DeltaType, theirs: ice.Type) -> None:
    if not isinstance(mine, delta.VariantType):  # nullability of its value differs, not its form
        assert delta_arrow(mine) == iceberg_arrow(theirs)


@pytest.mark.parametrize("narrow", [delta.ByteType(), delta.ShortType()])
def test_byte_and_short_become_int(narrow: delta.DeltaType) -> None:
    assert delta_to_iceberg_type(narrow) == ice.IntegerType()


def test_edge_algorithms_are_spelled_as_each_format_does() -> None:
    assert delta_to_iceberg_type(delta.GeographyType(crs="OGC:CRS84", algorithm="SPHERICAL")) == ice.GeographyType(
        crs="OGC:CRS84", algorithm="spherical"
    )
    assert iceberg_to_delta_type(ice.GeographyType(algorithm="karney")) == delta.GeographyType(algorithm="KARNEY")


@pytest.mark.parametrize(
    "kind",
    [ice.UuidType(), ice.FixedType(length=4), ice.TimeType(), ice.TimestampNsType(), ice.TimestamptzNsType()],
)
def test_types_that_delta_lacks_have_no_equivalent_but_mappings(kind: ice.Type) -> None:
    assert iceberg_to_delta_type(kind) is None
    name = mappable_name(kind)
    assert name is not None
    assert TYPE_MAPPINGS[name]


def test_intervals_have_no_equivalent() -> None:
    assert delta_to_iceberg_type(delta.IntervalType(text="day to second")) is None


def test_types_that_delta_has_cannot_be_mapped() -> None:
    assert mappable_name(ice.LongType()) is None


def test_the_table_for_the_docs_says_what_the_functions_do() -> None:
    carried = {(pair.delta, pair.iceberg) for pair in TYPE_PAIRS if "carried" in pair.to_iceberg}
    assert ("timestamp", "timestamptz") in carried
    assert ("timestamp_ntz", "timestamp") in carried
    assert {pair.iceberg for pair in TYPE_PAIRS if pair.to_delta.startswith("refused")} == {
        "time",
        "uuid",
        "fixed(*)",
        "timestamp_ns",
        "timestamptz_ns",
    }
