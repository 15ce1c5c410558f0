"""The JSON of per-file statistics."""

from __future__ import annotations

import datetime as dt
import decimal
import json

import pyarrow as pa

from deltaberg.delta.stats.json_columns import EMBEDDED, PLAIN
from deltaberg.delta.stats.stats_json import record_count_text, stats_text

BOUNDS = pa.struct(
    [
        ("id", pa.int64()),
        ("name", pa.string()),
        ("price", pa.decimal128(20, 9)),
        ("at", pa.timestamp("us", "UTC")),
        ("blob", pa.binary()),
        ("nested", pa.struct([("x", pa.float64()), ("day", pa.date32())])),
    ]
)
COUNTS = pa.struct([("id", pa.int64()), ("nested", pa.struct([("x", pa.int64())]))])
STATS = pa.struct(
    [
        ("num_records", pa.int64()),
        ("tight_bounds", pa.bool_()),
        ("min_values", BOUNDS),
        ("max_values", BOUNDS),
        ("null_count", COUNTS),
    ]
)
FULL = {
    "num_records": 3,
    "tight_bounds": False,
    "min_values": {
        "id": 1,
        "name": 'a"\\\n',
        "price": decimal.Decimal("0.000000001"),
        "at": dt.datetime(2024, 1, 2, 3, 4, 5, 678901, dt.timezone.utc),
        "blob": b"x",
        "nested": {"x": float("-inf"), "day": dt.date(2024, 1, 2)},
    },
    "max_values": {"id": 9, "name": None, "price": None, "at": None, "blob": None, "nested": {"x": 2.0, "day": None}},
    "null_count": {"id": 0, "nested": {"x": 1}},
}


def test_every_member_stands_where_the_protocol_puts_it() -> None:
    (text,) = stats_text(pa.array([FULL], STATS), PLAIN).array().to_pylist()
    assert json.loads(text, parse_float=decimal.Decimal) == {
        "numRecords": 3,
        "minValues": {
            "id": 1,
            "name": 'a"\\\n',
            "price": decimal.Decimal("0.000000001"),
            "at": "2024-01-02T03:04:05.678901Z",
            "nested": {"x": "-Infinity", "day": "2024-01-02"},
        },
        "maxValues": {"id": 9, "nested": {"x": decimal.Decimal("2.0")}},
        "nullCount": {"id": 0, "nested": {"x": 1}},
        "tightBounds": False,
    }


def test_embedded_text_is_the_plain_text_inside_a_string() -> None:
    stats = pa.array([FULL, None, {"num_records": 1}], STATS)
    plain, embedded = stats_text(stats, PLAIN).array().to_pylist(), stats_text(stats, EMBEDDED).array().to_pylist()
    assert [None if text is None else json.loads(f'"{text}"') for text in embedded] == plain


def test_unknown_members_are_left_out_row_by_row() -> None:
    stats = pa.array([None, {"num_records": 7}, {"num_records": None, "null_count": {"id": None}}], STATS)
    assert stats_text(stats, PLAIN).array().to_pylist() == [None, '{"numRecords":7}', '{"nullCount":{}}']


def test_a_null_struct_hides_what_its_children_hold() -> None:
    bounds = pa.array([{"id": 1}], pa.struct([("id", pa.int64())]))
    hidden = pa.StructArray.from_arrays([bounds.field("id")], names=["id"], mask=pa.array([True]))
    stats = pa.StructArray.from_arrays([pa.array([5]), hidden], names=["num_records", "min_values"])
    assert stats_text(stats, PLAIN).array().to_pylist() == ['{"numRecords":5}']


def test_a_remove_states_the_record_count_alone() -> None:
    stats = pa.array([FULL, None], STATS)
    assert record_count_text(stats, PLAIN).array().to_pylist() == ['{"numRecords":3}', None]
