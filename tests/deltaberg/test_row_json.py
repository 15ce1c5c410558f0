from __future__ import annotations

import json
from decimal import Decimal

import pyarrow as pa
import pytest

from deltaberg.row_json import row_objects


def values(array: pa.Array) -> list[object]:
    return [row["c"] for row in row_objects(pa.record_batch({"c": array}))]


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (pa.array([1, None, -(2**63)], pa.int64()), [1, None, -(2**63)]),
        (pa.array([True, None]), [True, None]),
        (pa.array([1.5, float("nan"), float("inf"), float("-inf"), -0.0]), [1.5, "NaN", "Infinity", "-Infinity", -0.0]),
        (pa.array([Decimal("1.50"), Decimal("0E-10"), None], pa.decimal128(38, 10)), ["1.5000000000", "0.0000000000", None]),
        (pa.array([b"\x00\xff", None]), ["AP8=", None]),
        (pa.array([b"\x00" * 16], pa.binary(16)), ["AAAAAAAAAAAAAAAAAAAAAA=="]),
        (pa.array([0, -719_162, 2_932_896], pa.date32()), ["1970-01-01", "0001-01-01", "9999-12-31"]),
        (pa.array([0, -1, 1_714_570_215_123_456], pa.timestamp("us")),
         ["1970-01-01T00:00:00.000000", "1969-12-31T23:59:59.999999", "2024-05-01T13:30:15.123456"]),
        (pa.array([0], pa.timestamp("us", "UTC")), ["1970-01-01T00:00:00.000000Z"]),
        (pa.array([1_714_570_215_123_456_789], pa.timestamp("ns")), ["2024-05-01T13:30:15.123456789"]),
        (pa.array([-(2**63), 2**63 - 1], pa.timestamp("us")),
         ["-290308-12-21T19:59:05.224192", "+294247-01-10T04:00:54.775807"]),
        (pa.array([3_723_000_001], pa.time64("us")), ["01:02:03.000001"]),
        (pa.array([[1, None], None, []], pa.list_(pa.int32())), [[1, None], None, []]),
        (pa.array([[("b", 0), ("a", None)]], pa.map_(pa.string(), pa.timestamp("us"))),
         [[["b", "1970-01-01T00:00:00.000000"], ["a", None]]]),
        (pa.array([{"x": 0, "y": None}, None], pa.struct([("x", pa.date32()), ("y", pa.binary())])), [{"x": "1970-01-01", "y": None}, None]),
        (pa.array(["a", None, "a"]).dictionary_encode(), ["a", None, "a"]),
        (pa.nulls(2), [None, None]),
    ],
)  # fmt: skip
def test_values_are_exact_and_fit_json(array: pa.Array, expected: list[object]) -> None:
    got = values(array)
    assert got == expected
    json.dumps(got, allow_nan=False)


def test_a_row_is_an_object_in_column_order() -> None:
    batch = pa.record_batch({"b": pa.array([1, 2]), "a": pa.array(["x", None])})
    assert [list(row.items()) for row in row_objects(batch)] == [[("b", 1), ("a", "x")], [("b", 2), ("a", None)]]
