from __future__ import annotations

from typing import Any

import pytest

from deltaberg.delta.schema import types as delta
from deltaberg.iceberg.schema import types as ice
from deltaberg.translate.type_changes import TypeChangeEntry, delta_can_widen, iceberg_can_promote, widening_chain


def decimal(precision: int, scale: int) -> delta.DecimalType:
    return delta.DecimalType(precision=precision, scale=scale)


@pytest.mark.parametrize(
    ("narrow", "wide", "allowed"),
    [
        (delta.ByteType(), delta.ShortType(), True),
        (delta.IntegerType(), delta.LongType(), True),
        (delta.IntegerType(), delta.DoubleType(), True),
        (delta.LongType(), delta.DoubleType(), False),
        (delta.FloatType(), delta.DoubleType(), True),
        (delta.DateType(), delta.TimestampNtzType(), True),
        (delta.DateType(), delta.TimestampType(), False),
        (decimal(5, 2), decimal(8, 2), True),
        (decimal(5, 2), decimal(8, 4), True),
        (decimal(5, 2), decimal(6, 4), False),
        (delta.IntegerType(), decimal(10, 0), True),
        (delta.IntegerType(), decimal(9, 0), False),
        (delta.LongType(), decimal(22, 2), True),
        (delta.LongType(), delta.IntegerType(), False),
        (delta.StringType(), delta.StringType(), True),
    ],
)
def test_deltas_widenings(narrow: Any, wide: Any, allowed: bool) -> None:
    assert delta_can_widen(narrow, wide) is allowed


@pytest.mark.parametrize(
    ("narrow", "wide", "version", "allowed"),
    [
        (ice.IntegerType(), ice.LongType(), 1, True),
        (ice.IntegerType(), ice.DoubleType(), 3, False),
        (ice.FloatType(), ice.DoubleType(), 2, True),
        (ice.DateType(), ice.TimestampType(), 2, False),
        (ice.DateType(), ice.TimestampType(), 3, True),
        (ice.DateType(), ice.TimestamptzType(), 3, False),
        (ice.DecimalType(precision=5, scale=2), ice.DecimalType(precision=9, scale=2), 1, True),
        (ice.DecimalType(precision=5, scale=2), ice.DecimalType(precision=9, scale=3), 3, False),
        (ice.StringType(), ice.StringType(), 1, True),
    ],
)
def test_icebergs_promotions(narrow: Any, wide: Any, version: int, allowed: bool) -> None:
    assert iceberg_can_promote(narrow, wide, format_version=version) is allowed


def test_several_narrow_types_make_one_chain() -> None:
    assert widening_chain([decimal(9, 2), decimal(5, 2)], decimal(12, 2)) == (
        TypeChangeEntry(from_type="decimal(5,2)", to_type="decimal(9,2)"),
        TypeChangeEntry(from_type="decimal(9,2)", to_type="decimal(12,2)"),
    )
