"""JSON text built column-wise says the same as the standard library reads."""

from __future__ import annotations

import datetime as dt
import decimal
import json
import math

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaberg.delta.stats.json_columns import EMBEDDED, PLAIN, JsonColumns, of_array

TEXT = st.one_of(st.none(), st.text(st.characters(exclude_categories=["Cs"])))


def unembedded(texts: pa.Array) -> list[str | None]:
    return [None if text is None else json.loads(f'"{text}"') for text in texts.to_pylist()]


@given(st.lists(TEXT))
def test_strings_survive_at_both_depths(values: list[str | None]) -> None:
    array = pa.array(values, pa.string())
    assert [None if t is None else json.loads(t) for t in PLAIN.string(array).array().to_pylist()] == values
    assert [None if t is None else json.loads(t) for t in unembedded(EMBEDDED.string(array).array())] == values


@given(st.lists(st.one_of(st.none(), st.floats())))
def test_doubles_take_the_shortest_round_trip_form_and_names_for_what_json_lacks(values: list[float | None]) -> None:
    texts = PLAIN.scalar(pa.array(values, pa.float64()))
    assert texts is not None
    for value, text in zip(values, texts.array().to_pylist(), strict=True):
        if value is None:
            assert text is None
        elif math.isnan(value):
            assert text == '"NaN"'
        elif math.isinf(value):
            assert text == ('"Infinity"' if value > 0 else '"-Infinity"')
        else:
            read = json.loads(text)
            assert isinstance(read, float) or "e" in text
            assert float(read) == value
            assert math.copysign(1, float(read)) == math.copysign(1, value)


def test_a_whole_double_keeps_its_fraction() -> None:
    texts = PLAIN.scalar(pa.array([1250.0, -0.0, 1e20, 1e10, 9e9]))
    assert texts is not None
    assert texts.array().to_pylist() == ["1250.0", "-0.0", "1e+20", "1e+10", "9000000000.0"]


@given(
    st.integers(1, 38).flatmap(
        lambda precision: st.tuples(
            st.just(precision),
            st.integers(0, precision),
            st.lists(st.one_of(st.none(), st.integers(-(10**precision) + 1, 10**precision - 1)), min_size=1),
        )
    )
)
def test_decimals_keep_every_digit_without_an_exponent(case: tuple[int, int, list[int | None]]) -> None:
    precision, scale, unscaled = case
    exact = decimal.Context(prec=60)
    values = [None if n is None else exact.scaleb(decimal.Decimal(n), -scale) for n in unscaled]
    texts = PLAIN.scalar(pa.array(values, pa.decimal128(precision, scale)))
    assert texts is not None
    for value, text in zip(values, texts.array().to_pylist(), strict=True):
        assert (value is None) == (text is None)
        if text is not None:
            assert "E" not in text
            assert decimal.Decimal(text) == value


def test_decimals_of_a_slice_keep_their_rows() -> None:
    array = pa.array([decimal.Decimal("0.000000001"), None, decimal.Decimal("-0.000000002")], pa.decimal128(18, 9))
    texts = PLAIN.scalar(array.slice(1))
    assert texts is not None
    assert texts.array().to_pylist() == [None, "-0.000000002"]


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (pa.array([1, None], pa.int8()), ["1", None]),
        (pa.array([True, False]), ["true", "false"]),
        (pa.array([dt.date(2024, 2, 29), dt.date(1, 1, 1)]), ['"2024-02-29"', '"0001-01-01"']),
        (pa.array([2932897, -719163], pa.int32()).cast(pa.date32()), [None, None]),
        (
            pa.array([0, 1_500_000], pa.timestamp("us", "UTC")),
            ['"1970-01-01T00:00:00.000Z"', '"1970-01-01T00:00:01.500Z"'],
        ),
        (pa.array([-1], pa.timestamp("us", "UTC")), ['"1969-12-31T23:59:59.999999Z"']),
        (pa.array([1], pa.timestamp("us")), ['"1970-01-01T00:00:00.000001"']),
        (pa.array([253402300800000000, 1000], pa.timestamp("us")), [None, '"1970-01-01T00:00:00.001"']),
        (pa.array([None], pa.timestamp("us")), [None]),
        (pa.array([0.1], pa.float32()), ["0.1"]),
    ],
)
def test_scalars_are_spelled_as_the_engines_spell_them(array: pa.Array, expected: list[str | None]) -> None:
    texts = PLAIN.scalar(array)
    assert texts is not None
    assert texts.array().to_pylist() == expected


@pytest.mark.parametrize("array", [pa.array([b"x"]), pa.array([[1]]), pa.nulls(1)])
def test_types_without_a_scalar_form_are_left_to_the_caller(array: pa.Array) -> None:
    assert PLAIN.scalar(array) is None


@pytest.mark.parametrize("writer", [PLAIN, EMBEDDED])
def test_an_object_leaves_out_null_members_or_writes_them(writer: JsonColumns) -> None:
    fields = [("a", of_array(pa.array(["1", None]))), ('q"', of_array(pa.array([None, "2"], pa.string())))]
    left_out = writer.object(fields, rows=2)
    written = writer.object(fields, rows=2, nulls=True)
    read = unembedded if writer.embedded else pa.Array.to_pylist
    assert [json.loads(str(t)) for t in read(left_out.array())] == [{"a": 1}, {'q"': 2}]
    assert [json.loads(str(t)) for t in read(written.array())] == [{"a": 1, 'q"': None}, {"a": None, 'q"': 2}]
    empty = [("a", of_array(pa.array([None, "1"]))), ("b", of_array(pa.array([None, None], pa.string())))]
    assert [json.loads(str(t)) for t in read(writer.object(empty, rows=2).array())] == [{}, {"a": 1}]
    assert writer.object([], rows=2).array().to_pylist() == ["{}", "{}"]


@given(st.lists(st.one_of(st.none(), st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), TEXT))))
def test_string_maps_become_objects(values: list[dict[str, str | None] | None]) -> None:
    array = pa.array([None if v is None else list(v.items()) for v in values], pa.map_(pa.string(), pa.string()))
    assert [None if t is None else json.loads(t) for t in PLAIN.string_map(array).array().to_pylist()] == values
    tail = PLAIN.string_map(array.slice(1))
    assert [None if t is None else json.loads(t) for t in tail.array().to_pylist()] == values[1:]
