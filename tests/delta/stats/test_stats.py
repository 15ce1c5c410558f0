"""Statistics become typed columns; what cannot be trusted is unknown, and nothing is ever invented."""

from __future__ import annotations

import json
import math
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaberg.delta.schema.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DateType,
    DecimalType,
    DeltaType,
    DoubleType,
    FloatType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampNtzType,
    TimestampType,
    VariantType,
    VoidType,
)
from deltaberg.delta.stats.stats import parse_stats, stats_from_struct, stats_type

UTC = timezone.utc


def field(name: str, delta_type: DeltaType, **metadata: object) -> StructField:
    return StructField(name=name, type=delta_type, metadata=metadata)


WIDENED = {"delta.typeChanges": [{"fromType": "float", "toType": "double"}]}
SCHEMA = StructType(
    fields=(
        field("id", LongType()),
        field("b", ByteType()),
        field("f", FloatType()),
        field("d", DoubleType()),
        field("wide", DoubleType(), **WIDENED),
        field("dec", DecimalType(precision=38, scale=9)),
        field("s", StringType()),
        field("flag", BooleanType()),
        field("day", DateType()),
        field("ts", TimestampType()),
        field("ntz", TimestampNtzType()),
        field("bytes", BinaryType()),
        field("v", VariantType()),
        field("none", VoidType()),
        field("list", ArrayType(element_type=LongType())),
        field("n", StructType(fields=(field("x.y", LongType()), field("bytes", BinaryType())))),
        field("hollow", StructType(fields=(field("bytes", BinaryType()),))),
        field("p", StringType()),
    )
)
TYPE = stats_type(SCHEMA, exclude=frozenset({"p"}))


def read(*texts: str | None) -> list[dict[str, Any] | None]:
    parsed = parse_stats(pa.array(texts, pa.string()), TYPE)
    parsed.validate(full=True)
    assert parsed.type == TYPE
    rows: list[dict[str, Any] | None] = parsed.to_pylist()
    return rows


def bound(key: str, value: object, *beside: str) -> Any:
    """The min and max read for one value of a column, in a column of other texts."""
    text = json.dumps({"numRecords": 1, "minValues": {key: value}, "maxValues": {key: value}})
    row = read(*beside, text)[-1]
    assert row is not None
    assert row["num_records"] == 1
    return row["min_values"][key], row["max_values"][key]


# One text of each kind: numbers only, a quoted number (texts are read), a value that is no scalar (line by line).
COMPANY: list[tuple[str, ...]] = [
    (),
    ('{"minValues":{"d":"NaN"}}',),
    ('{"minValues":{"d":[]}}',),
]


def test_bounds_exist_for_what_the_log_has_bounds_of() -> None:
    bounds = TYPE.field("min_values").type
    assert bounds.names == ["id", "b", "f", "d", "wide", "dec", "s", "flag", "day", "ts", "ntz", "v", "n"]
    assert bounds.field("v").type == pa.string()
    assert bounds.field("n").type.names == ["x.y"]
    counts = TYPE.field("null_count").type
    assert set(counts.names) == {each.name for each in SCHEMA.fields} - {"p"}
    assert counts.field("list").type == pa.int64()
    assert counts.field("hollow").type == pa.struct([("bytes", pa.int64())])


@pytest.mark.parametrize("company", COMPANY)
@pytest.mark.parametrize(
    ("key", "logged", "value"),
    [
        ("id", -(2**63), -(2**63)),
        ("b", -128, -128),
        ("d", 0.1, 0.1),
        ("d", 5, 5.0),
        ("d", -0.0, -0.0),
        ("s", 'a"b\\,:5}{\u20ac', 'a"b\\,:5}{\u20ac'),
        ("s", '"nullCount":{', '"nullCount":{'),
        ("flag", True, True),
        ("day", "2024-02-29", date(2024, 2, 29)),
        ("ts", "2024-01-01T00:00:00.123Z", datetime(2024, 1, 1, 0, 0, 0, 123000, UTC)),
        ("ts", "2024-01-01T00:00:00.123-08:00", datetime(2024, 1, 1, 8, 0, 0, 123000, UTC)),
        ("ts", "2024-01-01 00:00:00", datetime(2024, 1, 1, tzinfo=UTC)),
        ("ts", "2024-01-01T00:00:00.123456", datetime(2024, 1, 1, 0, 0, 0, 123456, UTC)),
        ("ntz", "2024-01-01T00:00:00.123", datetime(2024, 1, 1, 0, 0, 0, 123000)),
        ("ntz", "2024-01-01", datetime(2024, 1, 1)),
        ("v", "0rr91000f5", "0rr91000f5"),
        ("f", 1.1, pa.scalar(1.1, pa.float32()).as_py()),
    ],
)
def test_a_bound_is_read_exactly(company: tuple[str, ...], key: str, logged: object, value: object) -> None:
    assert bound(key, logged, *company) == (value, value)
    assert math.copysign(1, bound("d", -0.0, *company)[0]) == -1


@pytest.mark.parametrize("company", COMPANY)
@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1E-9", Decimal("1E-9")),
        ("12345678901234567890123456789.123456789", Decimal("12345678901234567890123456789.123456789")),
        ("0.1", Decimal("0.1")),
        ("100", Decimal(100)),
        ('"1.5"', Decimal("1.5")),
    ],
)
def test_decimals_never_pass_through_a_double(company: tuple[str, ...], text: str, value: Decimal) -> None:
    row = read(*company, f'{{"maxValues":{{"dec":{text}}}}}')[-1]
    assert row is not None
    assert row["max_values"]["dec"] == value


@pytest.mark.parametrize(
    "text",
    [
        "1e-10",
        "123456789012345678901234567890",
        "1e30",
        "1e999999",
        "9" * 38,
        "1" * 31,
        "-" + "7" * 60,
        '"x"',
        "[]",
        "{}",
        "true",
    ],
)
def test_a_decimal_that_does_not_fit_is_unknown(text: str) -> None:
    row = read(f'{{"numRecords":3,"maxValues":{{"dec":{text},"id":1}}}}')[0]
    assert row is not None
    assert (row["num_records"], row["max_values"]["dec"], row["max_values"]["id"]) == (3, None, 1)


def test_not_a_number_and_the_infinities_are_texts() -> None:
    assert all(math.isnan(value) for value in bound("d", "NaN"))
    assert bound("d", "Infinity") == (math.inf, math.inf)
    assert bound("f", "-Infinity") == (-math.inf, -math.inf)


def test_a_number_too_large_for_its_type_does_not_become_infinite() -> None:
    for row in read('{"maxValues":{"f":3.5e38,"id":1}}', '{"maxValues":{"d":1e400,"f":1.5}}'):
        assert row is not None
        assert row["max_values"]["d"] is None
    assert read('{"maxValues":{"f":3.5e38,"id":1}}')[0]["max_values"] == {  # type: ignore[index]
        **dict.fromkeys(TYPE.field("max_values").type.names),
        "id": 1,
    }


def test_bounds_of_a_former_float_hold_for_the_float_and_for_the_double() -> None:
    single = pa.scalar(1.1, pa.float32()).as_py()
    assert single > 1.1
    assert bound("wide", 1.1) == (1.1, single)
    assert bound("wide", -1.1) == (-single, -1.1)
    assert bound("wide", 1e300) == (1e300, 1e300)
    assert bound("wide", "Infinity") == (math.inf, math.inf)
    struct = pa.array([{"maxValues": {"wide": 1.1}, "minValues": {"wide": 1.1}}])
    row = stats_from_struct(struct, TYPE)[0].as_py()
    assert (row["min_values"]["wide"], row["max_values"]["wide"]) == (1.1, single)


@pytest.mark.parametrize(
    ("key", "logged"),
    [
        ("id", 2**63),
        ("id", 1.5),
        ("id", "x"),
        ("b", 200),
        ("s", 5),
        ("s", True),
        ("s", None),
        ("s", ["a"]),
        ("flag", "perhaps"),
        ("flag", 1),
        ("day", 19000),
        ("day", "2023-02-29"),
        ("ts", 1704067200000),
        ("ts", "yesterday"),
        ("n", 5),
    ],
)
def test_a_bound_of_the_wrong_kind_is_unknown_and_spoils_nothing_else(key: str, logged: object) -> None:
    good = '{"numRecords":7,"minValues":{"id":1,"s":"a"},"nullCount":{"id":0}}'
    bad = json.dumps({"numRecords": 8, "minValues": {"d": 1.5, key: logged}, "nullCount": {"id": 2}})
    first, second = read(good, bad)
    assert first is not None
    assert second is not None
    assert (first["num_records"], first["min_values"]["id"], first["min_values"]["s"]) == (7, 1, "a")
    assert (second["num_records"], second["min_values"]["d"], second["null_count"]["id"]) == (8, 1.5, 2)
    assert second["min_values"][key] is None


@pytest.mark.parametrize(
    "text",
    ["", " ", "null", "5", '"x"', "[1]", "{", "}", '{"numRecords":', "{}{}", '{"a":1} {"b":2}', "\u0000", "{'a':1}"],
)
def test_text_that_is_no_object_is_unknown_and_spoils_nothing_else(text: str) -> None:
    first, second, third = read('{"numRecords":1}', text, '{"numRecords":3}')
    assert (first or {}).get("num_records") == 1
    assert second is None
    assert (third or {}).get("num_records") == 3


def test_absent_is_null_at_every_level() -> None:
    absent, bare, empty = read(None, "{}", '{"minValues":{},"maxValues":{"n":{}},"nullCount":null}')
    assert absent is None
    assert bare == dict.fromkeys(TYPE.names)
    assert empty is not None
    assert set(empty["min_values"].values()) == {None}
    assert empty["max_values"]["n"] == {"x.y": None}
    assert empty["null_count"] is None


def test_columns_that_the_schema_does_not_have_are_ignored() -> None:
    row = read(
        '{"numRecords":1,"minValues":{"gone":{"deep":[1,{"a":2}]},"id":1},"vendor":{"a":[]},"nullCount":{"p":0}}'
    )[0]
    assert row is not None
    assert row["min_values"]["id"] == 1


def test_nested_columns_are_found_by_their_own_names() -> None:
    row = read('{"minValues":{"n":{"x.y":4}},"nullCount":{"n":{"x.y":1,"bytes":2},"list":3,"hollow":{"bytes":4}}}')[0]
    assert row is not None
    assert row["min_values"]["n"] == {"x.y": 4}
    assert row["null_count"]["n"] == {"x.y": 1, "bytes": 2}
    assert (row["null_count"]["list"], row["null_count"]["hollow"]) == (3, {"bytes": 4})


@pytest.mark.parametrize("company", COMPANY)
def test_negative_counts_are_unknown(company: tuple[str, ...]) -> None:
    row = read(*company, '{"numRecords":-1,"nullCount":{"id":-2,"n":{"x.y":-3},"s":0}}')[-1]
    assert row is not None
    assert (row["num_records"], row["null_count"]["id"], row["null_count"]["s"]) == (None, None, 0)
    assert row["null_count"]["n"]["x.y"] is None


def test_a_missing_record_count_stays_missing() -> None:
    row = read('{"minValues":{"id":1}}')[0]
    assert row is not None
    assert row["num_records"] is None


def test_tight_bounds_are_read_before_and_after_the_counts() -> None:
    before = '{"numRecords":%d,"tightBounds":false,"minValues":{"id":1},"nullCount":{"id":0}}'
    after = '{"numRecords":%d,"minValues":{"id":1},"nullCount":{"id":0},"tightBounds":true}'
    assert [row["tight_bounds"] for row in read(*(before % n for n in range(20))) if row] == [False] * 20
    assert [row["tight_bounds"] for row in read(*(after % n for n in range(20))) if row] == [True] * 20


def test_shared_null_counts_belong_to_their_rows() -> None:
    texts = [
        json.dumps(
            {"numRecords": n, "minValues": {"id": n, "s": 'x,"nullCount":{'}, "nullCount": {"id": n % 2}},
            separators=(",", ":"),
        )
        for n in range(100)
    ]
    rows = read(*texts)
    assert [row["null_count"]["id"] for row in rows if row] == [n % 2 for n in range(100)]
    assert [row["min_values"]["id"] for row in rows if row] == list(range(100))
    assert {row["min_values"]["s"] for row in rows if row} == {'x,"nullCount":{'}


def test_a_column_named_like_a_member_of_statistics_is_no_such_member() -> None:
    schema = StructType(fields=(field("nullCount", LongType()), field("id", LongType())))
    texts = pa.array(['{"numRecords":1,"minValues":{"id":1,"nullCount":{"x":5}},"nullCount":{"id":3}}'] * 20)
    rows = parse_stats(texts, stats_type(schema)).to_pylist()
    assert rows[0]["min_values"] == {"nullCount": None, "id": 1}
    assert rows[0]["null_count"] == {"nullCount": None, "id": 3}


def test_of_a_member_given_twice_the_last_counts() -> None:
    row = read('{"numRecords":1,"numRecords":2,"minValues":{"id":5,"id":6}}')[0]
    assert row is not None
    assert (row["num_records"], row["min_values"]["id"]) == (2, 6)


def test_half_a_surrogate_pair_is_no_text() -> None:
    row = read('{"numRecords":1,"minValues":{"s":"\\ud800","id":1}}')[0]
    assert row is not None
    assert (row["min_values"]["s"], row["min_values"]["id"]) == (None, 1)


def test_bytes_that_are_not_utf8_spoil_their_own_file_only() -> None:
    texts = [
        b'{"numRecords":1,"minValues":{"s":"a\xff"}}',
        b'{"numRecords":2,"minValues":{"s":"a"}}',
        b'\xff{"numRecords":3}',
        b'{"numRecords":4,"minValues":{"d":"NaN"}}',
    ]
    parsed = parse_stats(pa.array(texts, pa.binary()).view(pa.string()), TYPE)
    parsed.validate(full=True)
    assert [row and row["num_records"] for row in parsed.to_pylist()] == [None, 2, None, 4]


def test_a_table_whose_columns_have_no_bounds_has_statistics() -> None:
    target = stats_type(StructType(fields=(field("bytes", BinaryType()),)))
    rows = parse_stats(pa.array(['{"numRecords":1,"minValues":{},"nullCount":{"bytes":0}}', None]), target).to_pylist()
    assert rows == [
        {"num_records": 1, "tight_bounds": None, "min_values": {}, "max_values": None, "null_count": {"bytes": 0}},
        None,
    ]


def test_a_struct_of_statistics_is_cast_as_types_were_widened() -> None:
    struct = pa.array(
        [
            {
                "numRecords": 3,
                "minValues": {
                    "id": 1,
                    "d": 2,
                    "dec": Decimal("1.5"),
                    "day": date(2024, 1, 1),
                    "ntz": date(2024, 1, 2),
                    "s": 5,
                },
                "nullCount": {"id": 0, "n": {"x.y": 4}},
            },
            None,
        ],
        pa.struct(
            [
                ("numRecords", pa.int64()),
                (
                    "minValues",
                    pa.struct(
                        [
                            ("id", pa.int16()),
                            ("d", pa.int32()),
                            ("dec", pa.decimal128(5, 1)),
                            ("day", pa.date32()),
                            ("ntz", pa.date32()),
                            ("s", pa.int64()),
                        ]
                    ),
                ),
                ("nullCount", pa.struct([("id", pa.int64()), ("n", pa.struct([("x.y", pa.int64())]))])),
            ]
        ),
    )
    first, second = stats_from_struct(struct, TYPE).to_pylist()
    assert second is None
    assert first["num_records"] == 3
    assert first["max_values"] is None
    bounds = {key: value for key, value in first["min_values"].items() if value is not None}
    assert bounds == {"id": 1, "d": 2.0, "dec": Decimal("1.5"), "day": date(2024, 1, 1), "ntz": datetime(2024, 1, 2)}
    assert first["null_count"]["n"]["x.y"] == 4


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from([*TYPE.field("null_count").type.names, "x.y"]), inner, max_size=3)
    ),
    max_leaves=6,
)
DOCUMENTS = st.dictionaries(
    st.sampled_from(["numRecords", "tightBounds", "minValues", "maxValues", "nullCount", "other"]),
    JSON_VALUES,
    max_size=4,
)


@given(st.lists(st.none() | DOCUMENTS.map(json.dumps) | st.text(max_size=20), max_size=4))
def test_any_texts_read_alone_as_they_read_together(texts: list[str | None]) -> None:
    together = read(*texts)
    alone = [read(text)[0] for text in texts]
    assert repr(together) == repr(alone)
