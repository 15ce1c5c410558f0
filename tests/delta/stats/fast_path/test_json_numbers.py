"""Plain numbers read from words are exactly what a parser makes of them, or not plain."""

from __future__ import annotations

import json
import struct
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from deltaberg.delta.stats.fast_path.byte_windows import WORD, Scratch, other_texts_at, words_at
from deltaberg.delta.stats.fast_path.json_numbers import (
    LONGEST,
    PlainNumbers,
    as_decimals,
    as_doubles,
    as_floats,
    as_integers,
    read_plain_numbers,
)


def numbers_of(texts: list[str], *, points: bool, words: int = 2) -> PlainNumbers:
    """The texts one after the other with a comma between them, as they stand in a line of JSON."""
    data = np.frombuffer(",".join(texts).encode() + b"}", dtype=np.uint8)
    lengths = np.array([len(text) for text in texts], dtype=np.int64)
    starts = np.cumsum(lengths + 1) - lengths - 1
    return read_plain_numbers(list(words_at(data, starts, words).T), lengths, points=points)


NUMBERS = st.one_of(
    st.integers(-(10**17), 10**17).map(str),
    st.integers(-999, 999).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(json.dumps),
    st.decimals(-(10**9), 10**9, places=4).map(str),
    st.decimals(-99, 99, places=2).map(str),
    st.from_regex(r"-?[0-9]{0,9}\.?[0-9]{0,9}", fullmatch=True).filter(bool),
)


def is_plain(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return len(text) <= LONGEST and "e" not in text.lower() and text != "NaN" and "Infinity" not in text


@given(st.lists(NUMBERS, min_size=1, max_size=6))
@example(["1.", ".5", "-", "00", "0.0.1", "--1"])
@example(["-0", "-0.0", "9007199254740993", "0.1", "123456.1234567", "1234567.12345678"])
@example(["16777217", "16777219.0", "0.50000003", "8388608.5"])
def test_a_number_that_is_plain_has_its_value(texts: list[str]) -> None:
    numbers = numbers_of(texts, points=True)
    assert numbers.plain.tolist() == [is_plain(text) for text in texts]
    doubles, exact = as_doubles(numbers), numbers.plain.copy()
    for text, value, plain in zip(texts, doubles.tolist(), exact.tolist(), strict=True):
        if plain:
            assert struct.pack("<d", value) == struct.pack("<d", float(text))
    floats = as_floats(numbers)
    for text, single, plain in zip(texts, floats, numbers.plain.tolist(), strict=True):
        if plain:
            distances = {
                each: abs(Decimal(float(each)) - Decimal(text))
                for each in (single, np.nextafter(single, np.float32("-inf")), np.nextafter(single, np.float32("inf")))
            }
            assert distances[single] == min(distances.values())


@given(st.lists(st.one_of(st.integers(-(10**17), 10**17), st.integers(-300, 300)), min_size=1, max_size=6))
@pytest.mark.parametrize("kind", ["int8", "int16", "int32", "int64"])
def test_integers_keep_to_the_range_of_their_type(kind: str, values: list[int]) -> None:
    texts = [str(value) for value in values]
    numbers = numbers_of(texts, points=False)
    found = as_integers(numbers, np.dtype(kind))
    limits = np.iinfo(kind)
    for text, value, plain in zip(texts, found.tolist(), numbers.plain.tolist(), strict=True):
        assert plain == (len(text) <= LONGEST and limits.min <= int(text) <= limits.max)
        assert not plain or value == int(text)


@given(st.lists(NUMBERS, min_size=1, max_size=6), st.integers(1, 38), st.integers(0, 38))
def test_decimals_are_exact_and_fit(texts: list[str], precision: int, scale: int) -> None:
    numbers = numbers_of(texts, points=True)
    found = as_decimals(numbers, precision=precision, scale=min(scale, precision), words=2)
    for text, (low, high), plain in zip(texts, found.tolist(), numbers.plain.tolist(), strict=True):
        if plain:
            unscaled = (high << 64) | (low % 2**64)
            assert Decimal(unscaled) == Decimal(text).scaleb(min(scale, precision))
            assert abs(unscaled) < 10**precision


def test_one_word_holds_eight_characters() -> None:
    numbers = numbers_of(["12345678", "-1234567", "-12345678", "1.234567", "123456789"], points=True, words=1)
    assert numbers.plain.tolist() == [True, True, False, True, False]
    assert as_doubles(numbers)[numbers.plain].tolist() == [12345678.0, -1234567.0, 1.234567]


@given(st.binary(min_size=1, max_size=60), st.lists(st.integers(0, 60), min_size=1, max_size=8), st.integers(1, 3))
def test_words_are_the_bytes_from_each_place_on(data: bytes, places: list[int], count: int) -> None:
    text = np.frombuffer(data, dtype=np.uint8)
    one = np.array(sorted(min(place, len(data)) for place in places), dtype=np.int64)
    for at in (one, np.stack([np.maximum(one - 1, 0), one])):
        words = words_at(text, at, count)
        assert words.shape == (*at.shape, count)
        for found, place in zip(words.reshape(-1, count), at.ravel().tolist(), strict=True):
            assert found.astype("<u8").tobytes() == data[place : place + count * WORD].ljust(count * WORD, b"\0")


@given(st.lists(st.lists(NUMBERS, min_size=3, max_size=3), min_size=1, max_size=4), st.booleans())
def test_columns_read_together_are_what_each_is_alone(columns: list[list[str]], points: bool) -> None:
    data = np.frombuffer(",".join(text for texts in columns for text in texts).encode() + b"}", dtype=np.uint8)
    lengths = np.array([[len(text) for text in texts] for texts in columns], dtype=np.int64)
    starts = np.cumsum(lengths + 1).reshape(lengths.shape) - lengths - 1
    together = read_plain_numbers(list(np.moveaxis(words_at(data, starts, 2), -1, 0)), lengths, points=points)
    for number, texts in enumerate(columns):
        alone, one = numbers_of(texts, points=points), together.row(number)
        assert one.plain.tolist() == alone.plain.tolist()
        for name in ("digits", "fraction", "whole", "negative"):
            assert getattr(one, name)[one.plain].tolist() == getattr(alone, name)[alone.plain].tolist(), name


def test_another_text_is_told_to_its_last_byte() -> None:
    data = np.frombuffer(b'{"abcdefgh":1{"abcdefgH":1{"abcdefgh"-1', dtype=np.uint8)
    places = np.array([0, 13, 26], dtype=np.int64)
    other = other_texts_at(data, places, b'{"abcdefgh":')
    assert other is not None
    assert other.tolist() == [False, True, True]
    assert other_texts_at(data, places, b'{"abcdef') is None
    assert other_texts_at(data, places, b"") is None


def test_a_large_table_is_not_kept() -> None:
    scratch = Scratch()
    first, second = scratch.table("a", 2, 4), scratch.table("a", 1, 8)
    assert np.shares_memory(first, second)
    assert not np.shares_memory(first, scratch.table("b", 2, 4))
    assert not np.shares_memory(scratch.table("a", 1 << 11, 1 << 11), scratch.table("a", 1 << 11, 1 << 11))
