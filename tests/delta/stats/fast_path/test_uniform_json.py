"""Reading lines by their common layout gives exactly what a JSON parser gives, or nothing."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pyarrow.json as pj
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from deltaberg.delta.schema.types import DecimalType, DoubleType, LongType, StringType, StructField, StructType
from deltaberg.delta.stats.fast_path.uniform_json import read_uniform_objects
from deltaberg.delta.stats.stats import parse_stats, stats_type

BOUNDS = pa.struct(
    [
        ("i", pa.int64()),
        ("b", pa.int8()),
        ("d", pa.float64()),
        ("f", pa.float32()),
        ("x", pa.decimal128(12, 3)),
        ("s", pa.string()),
        ("yes", pa.bool_()),
        ("in", pa.struct([("s", pa.string()), ("i", pa.int64())])),
    ]
)
READ_AS = pa.struct([("n", pa.int64()), ("min", BOUNDS), ("max", BOUNDS), ("missing", pa.struct([("i", pa.int64())]))])


def parsed(lines: pa.Array) -> pa.Array | None:
    """What Arrow's own JSON parser makes of the lines; None when it refuses them."""
    if len(lines) == 0:
        return pa.array([], READ_AS)
    try:
        table = pj.read_json(
            pa.BufferReader("\n".join(lines.to_pylist()).encode()),
            read_options=pj.ReadOptions(block_size=1 << 24, use_threads=False),
            parse_options=pj.ParseOptions(explicit_schema=pa.schema(list(READ_AS)), unexpected_field_behavior="ignore"),
        )
    except pa.ArrowInvalid:
        return None
    if table.num_rows != len(lines):
        return None
    return table.to_struct_array().combine_chunks()


def read(*lines: str) -> list[Any] | None:
    found = read_uniform_objects(pa.array(lines), READ_AS, parsed)
    if found is None:
        return None
    found.validate(full=True)
    assert found.type == READ_AS
    rows: list[Any] = found.to_pylist()
    expected = parsed(pa.array(lines))
    assert expected is not None
    assert rows == expected.to_pylist()
    return rows


def line(number: int, text: str = "a", **bounds: Any) -> str:
    low = {"i": number, "b": number % 100, "d": number + 0.5, "x": 1.25, "s": text, "yes": True, **bounds}
    return json.dumps({"n": 3, "min": low, "max": {"in": {"s": text, "i": -number}}, "other": {"t": 1}})


def test_values_of_every_kind_are_read() -> None:
    rows = read(*(line(number, f"text {number}") for number in range(20)))
    assert rows is not None
    assert rows[7]["min"]["i"] == 7
    assert rows[7]["min"]["d"] == 7.5
    assert rows[7]["min"]["s"] == "text 7"
    assert rows[7]["min"]["yes"] is True
    assert rows[7]["min"]["f"] is None
    assert rows[7]["max"]["in"] == {"s": "text 7", "i": -7}
    assert rows[7]["missing"] is None


@pytest.mark.parametrize(
    "odd",
    [
        '{"n":4}',
        '{"min":{"i":1},"n":4}',
        line(1, "with, a comma"),
        line(1, 'with "quotes"'),
        line(1, "with \\ and \n"),
        line(1, "ü€😀"),
        line(1, i=None),
        line(1, extra=5),
        line(1).replace('"s"', '"t"'),
        line(1).replace(", ", ","),
        line(1, ""),
    ],
)
@pytest.mark.parametrize("place", [0, 5, 9])
def test_a_line_of_another_layout_is_read_all_the_same(odd: str, place: int) -> None:
    lines = [line(number) for number in range(9)]
    lines.insert(place, odd)
    assert read(*lines) is not None


@pytest.mark.parametrize(
    "number", ["01", "-01", "+1", "0x1F", "1.", ".5", "-.5", "1.2.3", "--1", "-", "1-2", "1e", "nan", "1/2"]
)
@pytest.mark.parametrize("key", ["i", "d", "x", "unasked"])
def test_what_is_no_json_number_is_never_read_as_one(number: str, key: str) -> None:
    lines = [json.dumps({"min": {key: each + 0.5 if key == "d" else each, "s": "a"}}) for each in range(9)]
    lines.insert(4, f'{{"min": {{"{key}": {number}, "s": "a"}}}}')
    assert read_uniform_objects(pa.array(lines), READ_AS, parsed) is None


@pytest.mark.parametrize("value", ["1.5", "300", '"7"', "true", "null", "1e2"])
def test_a_value_of_another_kind_is_left_to_the_parser(value: str) -> None:
    lines = [line(number) for number in range(9)]
    lines.append(line(1).replace('"b": 1,', f'"b": {value},'))
    assert value in lines[-1]
    read(*lines)


def test_lines_that_share_no_layout_are_left_to_the_parser() -> None:
    assert read(*(json.dumps({"n": 1, **{f"k{each}": 1 for each in range(number)}}) for number in range(10))) is None


def test_text_that_is_not_utf8_is_left_to_the_parser() -> None:
    whole = pa.array([b'{"min":{"s":"a%d"}}' % number for number in range(9)] + [b'{"min":{"s":"a\xff"}}'])
    assert read_uniform_objects(whole.view(pa.string()), READ_AS, lambda _: None) is None


NUMBERS = st.one_of(
    st.integers(-(2**63), 2**63 - 1).map(str),
    st.integers(-99, 99).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(json.dumps),
    st.decimals(-999, 999, places=2).map(str),
    st.sampled_from(["0", "-0", "0.0", "-0.5", "00", "1.", "null", "true", "1e5", "1E-2", "Infinity"]),
)
TEXTS = st.one_of(st.text(max_size=5), st.sampled_from(["", ",", '"', "\\", "a:b", "{", "}", '","s":"'])).map(
    json.dumps
)
LINES = st.tuples(NUMBERS, NUMBERS, NUMBERS, TEXTS, st.sampled_from(["", "", "", ",", "}", '"', " ", "\r"]))


@given(st.lists(LINES, min_size=2, max_size=8))
@example([("1", "1", "1", '"a"', ""), ("1", "1", "1", '"a","s":"b"', "")])
def test_any_lines_are_read_as_a_parser_reads_them_or_not_at_all(rows: list[tuple[str, ...]]) -> None:
    read(*(f'{{"n":{a},"min":{{"i":{b},"d":{c},"s":{text}}}{more}}}' for a, b, c, text, more in rows))


def test_statistics_are_the_same_whichever_way_they_are_read() -> None:
    schema = StructType(
        fields=(
            StructField(name="id", type=LongType()),
            StructField(name="d", type=DoubleType()),
            StructField(name="x", type=DecimalType(precision=10, scale=2)),
            StructField(name="s", type=StringType()),
        )
    )
    target = stats_type(schema)
    lines = []
    for number in range(1000):
        bounds = {"id": number - 500, "d": number / 3, "x": number / 4, "s": f"a,{number}" if number % 7 == 0 else "b"}
        if number % 11 == 0:
            del bounds["d"]
        lines.append(json.dumps({"numRecords": number, "minValues": bounds, "nullCount": {"id": number % 3}}))
    together = parse_stats(pa.array(lines), target)
    alone = pa.concat_arrays([parse_stats(pa.array([text]), target) for text in lines])
    assert together.equals(alone)
