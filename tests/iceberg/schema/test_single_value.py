"""Bounds as bytes: the specification's forms, old widths after a promotion, and every wrong width refused."""

from __future__ import annotations

import datetime
import struct
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaberg.iceberg.errors import CorruptMetadata
from deltaberg.iceberg.schema.single_value import (
    POINT,
    bound_arrow_type,
    decode_bounds,
    encode_bounds,
    minimum_and_maximum,
    single_value_bytes,
)
from deltaberg.iceberg.schema.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    GeometryType,
    IntegerType,
    LongType,
    StringType,
    TimestampNsType,
    TimestampType,
    TimestamptzType,
    TimeType,
    Type,
    UnknownType,
    UuidType,
    VariantType,
)

MOMENT = datetime.datetime(2017, 11, 16, 22, 31, 8, 123456)


@pytest.mark.parametrize(
    ("value", "kind", "data"),
    [
        (True, BooleanType(), b"\x01"),
        (False, BooleanType(), b"\x00"),
        (-2, IntegerType(), b"\xfe\xff\xff\xff"),
        (34, LongType(), b"\x22" + b"\0" * 7),
        (1.5, FloatType(), struct.pack("<f", 1.5)),
        (-0.0, DoubleType(), struct.pack("<d", -0.0)),
        (datetime.date(1969, 12, 31), DateType(), b"\xff" * 4),
        (datetime.time(0, 0, 1), TimeType(), (1_000_000).to_bytes(8, "little")),
        (MOMENT, TimestampType(), (1510871468123456).to_bytes(8, "little")),
        ("é", StringType(), b"\xc3\xa9"),
        (b"\1" * 16, UuidType(), b"\1" * 16),
        (b"abc", FixedType(length=3), b"abc"),
        (b"", BinaryType(), b""),
        (Decimal("14.20"), DecimalType(precision=9, scale=2), b"\x05\x8c"),
        (Decimal("-1.28"), DecimalType(precision=9, scale=2), b"\x80"),
        (Decimal("1.28"), DecimalType(precision=9, scale=2), b"\x00\x80"),
        (Decimal("0.00"), DecimalType(precision=9, scale=2), b"\x00"),
    ],
)
def test_single_values_have_the_form_of_appendix_d(value: object, kind: Type, data: bytes) -> None:
    assert single_value_bytes(value, kind) == data
    assert decode_bounds(pa.array([data, None]), kind).to_pylist() == [value, None]


@pytest.mark.parametrize(
    ("kind", "data", "value"),
    [
        (LongType(), b"\xfe\xff\xff\xff", -2),
        (DoubleType(), struct.pack("<f", 0.5), 0.5),
        (TimestampType(), b"\xff" * 4, datetime.datetime(1969, 12, 31)),
        (DecimalType(precision=30, scale=2), b"\x05\x8c", Decimal("14.20")),
    ],
)
def test_bounds_from_before_a_promotion_are_read_at_their_old_width(kind: Type, data: bytes, value: object) -> None:
    wide = single_value_bytes(value, kind)
    assert decode_bounds(pa.array([data, None, wide]), kind).to_pylist() == [value, None, value]


def test_a_date_bound_on_a_nanosecond_column_is_its_midnight() -> None:
    assert decode_bounds(pa.array([b"\x01\0\0\0"]), TimestampNsType()).cast(pa.int64()).to_pylist() == [86_400 * 10**9]


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        (IntegerType(), b"\0" * 8),
        (LongType(), b"\0" * 5),
        (BooleanType(), b""),
        (DateType(), b"\0" * 3),
        (TimestamptzType(), b"\0" * 4),
        (DoubleType(), b"\0" * 16),
        (UuidType(), b"\0" * 15),
        (FixedType(length=3), b"abcd"),
        (DecimalType(precision=9, scale=2), b""),
        (DecimalType(precision=9, scale=2), b"\0" * 17),
        (GeometryType(), b"\0" * 8),
    ],
)
def test_a_wrong_width_is_corrupt(kind: Type, data: bytes) -> None:
    with pytest.raises(CorruptMetadata, match=f"expected .* bytes, found {len(data)}"):
        decode_bounds(pa.array([None, data]), kind)


def test_a_decimal_with_too_many_digits_is_corrupt() -> None:
    with pytest.raises(CorruptMetadata, match="more than 3 digits"):
        decode_bounds(pa.array([b"\x03\xe8"]), DecimalType(precision=3, scale=0))
    assert decode_bounds(pa.array([b"\x03\xe7"]), DecimalType(precision=3, scale=0)).to_pylist() == [Decimal(999)]


def test_text_that_is_not_utf8_is_corrupt() -> None:
    with pytest.raises(CorruptMetadata, match="not valid UTF-8"):
        decode_bounds(pa.array([b"\xff"]), StringType())


def test_a_date_far_outside_the_nanosecond_range_is_corrupt() -> None:
    with pytest.raises(CorruptMetadata, match="outside its range"):
        decode_bounds(pa.array([b"\xff\xff\xff\x7f"]), TimestampNsType())


def test_nan_is_never_a_bound() -> None:
    assert encode_bounds(pa.array([float("nan"), 1.0]), DoubleType()).to_pylist() == [None, struct.pack("<d", 1.0)]


def test_geometry_bounds_are_points() -> None:
    points = pa.array(
        [{"x": 1.0, "y": 2.0}, {"x": 1.0, "y": 2.0, "z": 3.0}, {"x": 1.0, "y": 2.0, "m": 4.0}, None], POINT
    )
    encoded = encode_bounds(points, GeometryType())
    assert [None if each is None else len(each) for each in encoded.to_pylist()] == [16, 24, 32, None]
    assert decode_bounds(encoded, GeometryType()).to_pylist() == points.to_pylist()


def test_types_without_a_binary_form_pass_through() -> None:
    assert decode_bounds(pa.array([b"ab"]), VariantType()).to_pylist() == [b"ab"]
    assert decode_bounds(pa.array([b"ab", None]), UnknownType()).to_pylist() == [None, None]
    assert encode_bounds(pa.nulls(2), UnknownType()).to_pylist() == [None, None]


decimals = st.integers(1, 38).flatmap(
    lambda digits: st.tuples(
        st.just(digits), st.lists(st.none() | st.integers(-(10**digits) + 1, 10**digits - 1), max_size=20)
    )
)


@given(decimals)
def test_decimals_use_the_fewest_bytes_and_come_back(case: tuple[int, list[int | None]]) -> None:
    digits, numbers = case
    kind = DecimalType(precision=digits, scale=0)
    values = pa.array([None if number is None else Decimal(number) for number in numbers], pa.decimal128(digits, 0))
    encoded = encode_bounds(values, kind)
    for number, data in zip(numbers, encoded.to_pylist(), strict=True):
        if number is None:
            assert data is None
        else:
            width = (number if number >= 0 else ~number).bit_length() // 8 + 1
            assert data == number.to_bytes(width, "big", signed=True)
    assert decode_bounds(encoded, kind).equals(values)


@given(
    st.sampled_from(
        [
            (IntegerType(), np.int32),
            (LongType(), np.int64),
            (DateType(), np.int32),
            (TimestampType(), np.int64),
            (TimestampNsType(), np.int64),
        ]
    ),
    st.lists(st.none() | st.integers(-(2**31), 2**31 - 1), max_size=30),
    st.integers(0, 5),
)
def test_numbers_come_back_from_slices_too(case: tuple[Type, type], numbers: list[int | None], offset: int) -> None:
    kind, width = case
    integers = pa.array(numbers, pa.from_numpy_dtype(width))
    values = integers.view(bound_arrow_type(kind))
    assert decode_bounds(encode_bounds(values.slice(offset), kind), kind).equals(values.slice(offset))
    assert decode_bounds(encode_bounds(values, kind).slice(offset), kind).equals(values.slice(offset))


@given(st.lists(st.none() | st.text(st.characters(codec="utf-8"), max_size=5)))
def test_strings_come_back(texts: list[str | None]) -> None:
    values = pa.array(texts, pa.string())
    assert decode_bounds(encode_bounds(values, StringType()), StringType()).equals(values)


@pytest.mark.parametrize(
    ("values", "low", "high"),
    [
        ([0.0, -0.0], -0.0, 0.0),
        ([-0.0], -0.0, -0.0),
        ([0.0, float("nan"), None], 0.0, 0.0),
        ([float("nan")], None, None),
        ([], None, None),
    ],
)
def test_minimum_and_maximum_order_the_zeros_and_leave_nan_out(
    values: list[float | None], low: float | None, high: float | None
) -> None:
    found = tuple(scalar.as_py() for scalar in minimum_and_maximum(pa.array(values, pa.float64())))
    assert repr(found) == repr((low, high))
