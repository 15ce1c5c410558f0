from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest

from deltaberg.delta.schema import types as delta
from deltaberg.translate.legacy_timestamps import int96_may_overflow, rebase_may_matter

COUNT = pa.array([10], pa.int64())
UTC = pa.timestamp("us", tz="UTC")


def stats(low: Any, high: Any, nulls: int | None, kind: pa.DataType = UTC) -> pa.StructArray:
    bounds = pa.struct([("t", kind)])
    return pa.array(
        [{"min_values": {"t": low}, "max_values": {"t": high}, "null_count": {"t": nulls}}],
        pa.struct([("min_values", bounds), ("max_values", bounds), ("null_count", pa.struct([("t", pa.int64())]))]),
    )


def instant(*parts: int) -> dt.datetime:
    return dt.datetime(*parts, tzinfo=dt.timezone.utc)  # type: ignore[misc,arg-type]


@pytest.mark.parametrize(
    ("low", "high", "nulls", "doubtful"),
    [
        (instant(1999, 1, 1), instant(2024, 1, 1), 0, False),
        (instant(1677, 1, 1), instant(2024, 1, 1), 0, True),
        (instant(1999, 1, 1), instant(2262, 4, 11), 0, True),
        (None, None, 10, False),
        (None, None, 0, True),
        (instant(1999, 1, 1), None, None, True),
    ],
)
def test_int96_is_harmless_only_where_statistics_prove_it(low: Any, high: Any, nulls: Any, doubtful: bool) -> None:
    assert int96_may_overflow(stats(low, high, nulls), ("t",), COUNT).to_pylist() == [doubtful]


@pytest.mark.parametrize(("low", "doubtful"), [(instant(1900, 1, 3), False), (instant(1899, 1, 1), True), (None, True)])
def test_instants_before_1900_may_be_rebased(low: Any, doubtful: bool) -> None:
    found = rebase_may_matter(stats(low, instant(2024, 1, 1), 0), ("t",), delta.TimestampType(), COUNT)
    assert found.to_pylist() == [doubtful]


@pytest.mark.parametrize(("low", "doubtful"), [(dt.date(1582, 10, 15), False), (dt.date(1582, 10, 4), True)])
def test_dates_before_the_reform_may_be_rebased(low: dt.date, doubtful: bool) -> None:
    found = rebase_may_matter(stats(low, low, 0, pa.date32()), ("t",), delta.DateType(), COUNT)
    assert found.to_pylist() == [doubtful]


def test_a_column_without_statistics_is_doubtful() -> None:
    assert int96_may_overflow(pa.array([{}], pa.struct([])), ("t",), COUNT).to_pylist() == [True]
