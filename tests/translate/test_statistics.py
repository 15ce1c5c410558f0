from __future__ import annotations

import datetime as dt
import math
import struct
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaberg.delta.schema import types as delta
from deltaberg.delta.schema.types import arrow_type
from deltaberg.iceberg.manifest.data_file import DATA_FILE_SCHEMA
from deltaberg.iceberg.manifest.metrics import metric, metric_ids, metric_map
from deltaberg.iceberg.schema import types as ice
from deltaberg.iceberg.schema.single_value import decode_bounds, encode_bounds
from deltaberg.translate.schema import LeafPair
from deltaberg.translate.statistics import delta_to_iceberg_metrics, iceberg_to_delta_stats

UTC = dt.timezone.utc


def leaf(kind: Any, other: Any, *, path: tuple[str, ...] = ("a",), in_collection: bool = False) -> LeafPair:
    return LeafPair(field_id=1, path=path, name=".".join(path), iceberg=other, delta=kind, in_collection=in_collection)


LONG = leaf(delta.LongType(), ice.LongType())


def stats(
    kind: Any, low: Any, high: Any, *, nulls: int | None = 0, rows: int | None = 10, tight: bool | None = None
) -> pa.StructArray:
    bounds = pa.struct([("a", arrow_type(kind))])
    return pa.array(
        [
            {
                "num_records": rows,
                "tight_bounds": tight,
                "min_values": {"a": low},
                "max_values": {"a": high},
                "null_count": {"a": nulls},
            }
        ],
        pa.struct(
            [
                ("num_records", pa.int64()),
                ("tight_bounds", pa.bool_()),
                ("min_values", bounds),
                ("max_values", bounds),
                ("null_count", pa.struct([("a", pa.int64())])),
            ]
        ),
    )


def there(pair: LeafPair, values: pa.StructArray, rows: int = 10) -> dict[str, Any]:
    metrics = delta_to_iceberg_metrics(values, [pair], record_counts=pa.array([rows], pa.int64()))
    return {
        "lower": decode_bounds(metric(metrics.lower_bounds, 1), pair.iceberg)[0].as_py(),
        "upper": decode_bounds(metric(metrics.upper_bounds, 1), pair.iceberg)[0].as_py(),
        "nulls": metric(metrics.null_value_counts, 1)[0].as_py(),
        "values": metric(metrics.value_counts, 1)[0].as_py(),
    }


def test_bounds_and_counts_are_carried() -> None:
    assert there(LONG, stats(delta.LongType(), 3, 8, nulls=2)) == {"lower": 3, "upper": 8, "nulls": 2, "values": 10}


def test_missing_statistics_are_unknown_and_never_zero() -> None:
    values = stats(delta.LongType(), None, None, nulls=None)
    metrics = delta_to_iceberg_metrics(values, [LONG], record_counts=pa.array([10], pa.int64()))
    assert metric_ids(metrics.null_value_counts) == ()
    assert metric_ids(metrics.lower_bounds) == metric_ids(metrics.upper_bounds) == ()
    assert there(LONG, pa.array([None], values.type))["nulls"] is None


def test_an_upper_timestamp_encloses_the_millisecond_that_was_cut_off() -> None:
    pair = leaf(delta.TimestampType(), ice.TimestamptzType())
    low, high = dt.datetime(2024, 1, 1, 0, 0, 0, 5000, UTC), dt.datetime(2024, 1, 1, 0, 0, 0, 7000, UTC)
    got = there(pair, stats(delta.TimestampType(), low, high))
    assert got["lower"] == low
    assert got["upper"] == high + dt.timedelta(microseconds=999)


def test_a_timestamp_finer_than_a_millisecond_was_not_cut_off() -> None:
    pair = leaf(delta.TimestampNtzType(), ice.TimestampType())
    high = dt.datetime(1960, 1, 1, 0, 0, 0, 7001)
    assert there(pair, stats(delta.TimestampNtzType(), high, high))["upper"] == high


def test_nan_is_no_bound_and_zero_has_the_sign_that_encloses_both() -> None:
    pair = leaf(delta.DoubleType(), ice.DoubleType())
    got = there(pair, stats(delta.DoubleType(), 0.0, math.nan))
    assert got["upper"] is None
    assert math.copysign(1, got["lower"]) == -1
    assert math.copysign(1, there(pair, stats(delta.DoubleType(), -1.0, -0.0))["upper"]) == 1


@pytest.mark.parametrize(("nulls", "carried"), [(0, 0), (10, 10), (4, None)])
def test_with_wide_bounds_only_none_and_all_are_null_counts(nulls: int, carried: int | None) -> None:
    assert there(LONG, stats(delta.LongType(), 3, 8, nulls=nulls, tight=False))["nulls"] == carried


def test_contradictory_bounds_and_counts_are_left_out() -> None:
    got = there(LONG, stats(delta.LongType(), 9, 8, nulls=11))
    assert (got["lower"], got["upper"], got["nulls"]) == (None, None, None)


def test_narrow_integers_are_bounds_of_int() -> None:
    pair = leaf(delta.ByteType(), ice.IntegerType())
    got = there(pair, stats(delta.ByteType(), -128, 127))
    assert (got["lower"], got["upper"]) == (-128, 127)


def test_bounds_that_follow_a_collation_are_left_out() -> None:
    pair = leaf(delta.StringType(collation="spark.UNICODE_CI"), ice.StringType())
    assert there(pair, stats(delta.StringType(), "a", "B"))["lower"] is None


def test_leaves_below_lists_have_no_counts() -> None:
    pair = leaf(delta.LongType(), ice.LongType(), path=("a", "element"), in_collection=True)
    metrics = delta_to_iceberg_metrics(stats(delta.LongType(), 1, 2), [pair], record_counts=pa.array([10], pa.int64()))
    assert metric_ids(metrics.value_counts) == ()


# Towards Delta


def data_file(
    kind: Any, low: Any, high: Any, *, nulls: int | None = 0, nans: int | None = None, rows: int = 10
) -> pa.RecordBatch:
    typed = pa.array([low, high], ice.arrow_type(kind))
    encoded = encode_bounds(typed, kind).cast(pa.binary())
    columns = {
        "record_count": pa.array([rows], pa.int64()),
        "lower_bounds": metric_map({1: encoded.slice(0, 1)}),
        "upper_bounds": metric_map({1: encoded.slice(1, 1)}),
        "null_value_counts": metric_map({1: pa.array([nulls], pa.int64())}),
        "nan_value_counts": metric_map({1: pa.array([nans], pa.int64())}),
    }
    return pa.RecordBatch.from_arrays(
        [columns.get(field.name, pa.nulls(1, field.type)) for field in DATA_FILE_SCHEMA],
        names=DATA_FILE_SCHEMA.names,
    )


def back(pair: LeafPair, batch: pa.RecordBatch) -> dict[str, Any]:
    made = iceberg_to_delta_stats(batch, [pair])[0].as_py()
    return {
        "rows": made["num_records"],
        "tight": made["tight_bounds"],
        "low": made["min_values"].get("a"),
        "high": made["max_values"].get("a"),
        "nulls": made["null_count"].get("a"),
    }


def test_iceberg_bounds_are_wide_ones() -> None:
    got = back(LONG, data_file(ice.LongType(), 3, 8, nulls=2))
    assert got == {"rows": 10, "tight": False, "low": 3, "high": 8, "nulls": 2}


def test_timestamps_are_rounded_outwards_to_milliseconds() -> None:
    pair = leaf(delta.TimestampNtzType(), ice.TimestampType())
    low, high = dt.datetime(1969, 12, 31, 23, 59, 59, 999_999), dt.datetime(1970, 1, 1, 0, 0, 0, 1)
    got = back(pair, data_file(ice.TimestampType(), low, high))
    assert got["low"] == dt.datetime(1969, 12, 31, 23, 59, 59, 999_000)
    assert got["high"] == dt.datetime(1970, 1, 1, 0, 0, 0, 1000)


@pytest.mark.parametrize(("nans", "carried"), [(0, 8.0), (1, None), (None, None)])
def test_a_float_has_a_maximum_only_where_it_holds_no_nan(nans: int | None, carried: float | None) -> None:
    pair = leaf(delta.DoubleType(), ice.DoubleType())
    got = back(pair, data_file(ice.DoubleType(), 1.0, 8.0, nans=nans))
    assert (got["low"], got["high"]) == (1.0, carried)


@pytest.mark.parametrize(
    ("mine", "theirs", "value"),
    [(delta.BinaryType(), ice.BinaryType(), b"a"), (delta.BooleanType(), ice.BooleanType(), True)],
)
def test_types_without_delta_bounds_have_counts_only(mine: Any, theirs: Any, value: Any) -> None:
    got = back(leaf(mine, theirs), data_file(theirs, value, value, nulls=1))
    assert (got["low"], got["high"], got["nulls"]) == (None, None, 1)


def test_a_bound_written_before_a_promotion_is_read_at_its_old_width() -> None:
    batch = data_file(ice.LongType(), 3, 8)
    narrow = metric_map({1: pa.array([struct.pack("<i", -5)], pa.binary())})
    place = batch.schema.get_field_index("lower_bounds")
    assert back(LONG, batch.set_column(place, "lower_bounds", narrow))["low"] == -5


def test_nested_paths_become_nested_structs() -> None:
    pair = leaf(delta.LongType(), ice.LongType(), path=("s", "t", "x"))
    made = iceberg_to_delta_stats(data_file(ice.LongType(), 1, 2), [pair])[0].as_py()
    assert made["min_values"] == {"s": {"t": {"x": 1}}}
    assert made["null_count"] == {"s": {"t": {"x": 0}}}


decimals = st.decimals(min_value=-(10**8), max_value=10**8, places=2).map(lambda d: d.quantize(Decimal("0.01")))


@given(
    pair=st.sampled_from(
        [
            (leaf(delta.LongType(), ice.LongType()), st.integers(-(2**63), 2**63 - 1)),
            (leaf(delta.StringType(), ice.StringType()), st.text(st.characters(codec="utf-8"), max_size=8)),
            (leaf(delta.DateType(), ice.DateType()), st.dates()),
            (leaf(delta.DecimalType(precision=12, scale=2), ice.DecimalType(precision=12, scale=2)), decimals),
            (
                leaf(delta.TimestampNtzType(), ice.TimestampType()),
                st.datetimes(min_value=dt.datetime(1, 1, 2), max_value=dt.datetime(9999, 12, 30)),
            ),
        ]
    ),
    data=st.data(),
)
def test_bounds_enclose_the_values_whichever_way_they_go(pair: Any, data: Any) -> None:
    each, values = pair
    held = data.draw(st.lists(values, min_size=1, max_size=5))
    low, high = min(held, key=sort_key), max(held, key=sort_key)
    there_again = there(each, stats(each.delta, low, high))
    assert sort_key(there_again["lower"]) <= sort_key(low)
    assert sort_key(there_again["upper"]) >= sort_key(high)
    here = back(each, data_file(each.iceberg, low, high))
    assert sort_key(here["low"]) <= sort_key(low)
    assert sort_key(here["high"]) >= sort_key(high)


def sort_key(value: Any) -> Any:
    return value.encode() if isinstance(value, str) else value
