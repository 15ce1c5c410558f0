"""Partition values have one typed value for every writer's text, and a text that reads back for every value."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaberg.delta.errors import CorruptLog, InvalidDeltaRequest, UnsupportedDeltaFeature
from deltaberg.delta.schema.partition_values import decode_partition_values, encode_partition_values
from deltaberg.delta.schema.types import (
    BinaryType,
    BooleanType,
    ByteType,
    DateType,
    DecimalType,
    DeltaType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    TimestampNtzType,
    TimestampType,
    VariantType,
    arrow_type,
)

UTC = timezone.utc


def decode(text: str | None, delta_type: DeltaType, zone: str = "UTC") -> Any:
    # Beside a text that Arrow reads at once and alone: both ways must agree.
    alone = decode_partition_values(pa.array([text], pa.string()), delta_type, column="p", partition_timezone=zone)
    assert alone.type == arrow_type(delta_type)
    twice = decode_partition_values(
        pa.array([text, None, text], pa.string()), delta_type, column="p", partition_timezone=zone
    )
    assert twice.to_pylist()[:2] == [alone[0].as_py(), None] or text in ("NaN", "nan")
    return alone[0].as_py()


@pytest.mark.parametrize(
    ("text", "delta_type", "value"),
    [
        ("-128", ByteType(), -128),
        ("32767", ShortType(), 32767),
        ("+7", IntegerType(), 7),
        (" 7 ", IntegerType(), 7),
        ("-9223372036854775808", LongType(), -(2**63)),
        ("1.4E-45", FloatType(), 1.401298464324817e-45),
        ("1.23456789E7", DoubleType(), 12345678.9),
        ("Infinity", DoubleType(), float("inf")),
        ("-Infinity", FloatType(), float("-inf")),
        ("0.0000", DecimalType(precision=10, scale=4), Decimal("0.0000")),
        ("1E-9", DecimalType(precision=20, scale=9), Decimal("1E-9")),
        ("1.500", DecimalType(precision=5, scale=1), Decimal("1.5")),
        (
            "12345678901234567890123456789012345.678",
            DecimalType(precision=38, scale=3),
            Decimal("12345678901234567890123456789012345.678"),
        ),
        ("1E+3", DecimalType(precision=5, scale=0), Decimal(1000)),
        ("true", BooleanType(), True),
        ("FALSE", BooleanType(), False),
        ("a b/c=%20", StringType(), "a b/c=%20"),
        ("\u0001\u0002", BinaryType(), b"\x01\x02"),
        ("é", BinaryType(), "é".encode()),
        ("2024-02-29", DateType(), date(2024, 2, 29)),
        ("0001-01-01", DateType(), date(1, 1, 1)),
        ("2024-2-9", DateType(), date(2024, 2, 9)),
        ("2024-02-29 00:00:00", DateType(), date(2024, 2, 29)),
    ],
)
def test_every_form_of_a_value_is_read(text: str, delta_type: DeltaType, value: Any) -> None:
    assert decode(text, delta_type) == value


def test_not_a_number_is_read() -> None:
    assert str(decode("NaN", DoubleType())) == "nan"


@pytest.mark.parametrize(
    "delta_type", [StringType(), LongType(), DateType(), TimestampType(), BooleanType(), BinaryType()]
)
def test_null_and_the_empty_text_are_null_in_every_type(delta_type: DeltaType) -> None:
    assert decode(None, delta_type) is None
    assert decode("", delta_type) is None


INSTANTS = [
    ("2024-03-10T10:30:00.123456Z", datetime(2024, 3, 10, 10, 30, 0, 123456, UTC)),
    ("2024-03-10T10:30:00.1Z", datetime(2024, 3, 10, 10, 30, 0, 100000, UTC)),
    ("2024-03-10T10:30:00Z", datetime(2024, 3, 10, 10, 30, 0, 0, UTC)),
    ("2024-03-10 10:30:00+05:30", datetime(2024, 3, 10, 5, 0, 0, 0, UTC)),
    ("2024-03-10T10:30:00.5-08", datetime(2024, 3, 10, 18, 30, 0, 500000, UTC)),
    ("2024-03-10T10:30:00-0800", datetime(2024, 3, 10, 18, 30, 0, 0, UTC)),
    ("2024-03-10T10:30:00 UTC", datetime(2024, 3, 10, 10, 30, 0, 0, UTC)),
    ("2024-03-10T10:30:00.123456000Z", datetime(2024, 3, 10, 10, 30, 0, 123456, UTC)),
    ("0001-01-01T00:00:00Z", datetime(1, 1, 1, 0, 0, 0, 0, UTC)),
    ("9999-12-31T23:59:59.999999Z", datetime(9999, 12, 31, 23, 59, 59, 999999, UTC)),
]


@pytest.mark.parametrize(("text", "instant"), INSTANTS)
@pytest.mark.parametrize("zone", ["UTC", "America/Los_Angeles"])
def test_a_timestamp_with_an_offset_is_an_instant_whatever_the_zone(text: str, instant: datetime, zone: str) -> None:
    assert decode(text, TimestampType(), zone) == instant


LOCAL = [
    ("2024-06-01 05:00:00", datetime(2024, 6, 1, 5)),
    ("2024-06-01 05:00:00.5", datetime(2024, 6, 1, 5, 0, 0, 500000)),
    ("2024-06-01T05:00:00.123456", datetime(2024, 6, 1, 5, 0, 0, 123456)),
    ("2024-06-01", datetime(2024, 6, 1)),
    ("2024-6-1 5:00", datetime(2024, 6, 1, 5)),
]


@pytest.mark.parametrize(("text", "local"), LOCAL)
def test_a_timestamp_without_an_offset_is_a_local_time_of_the_zone(text: str, local: datetime) -> None:
    assert decode(text, TimestampType()) == local.replace(tzinfo=UTC)
    berlin = ZoneInfo("Europe/Berlin")
    assert decode(text, TimestampType(), "Europe/Berlin") == local.replace(tzinfo=berlin)
    assert decode(text, TimestampNtzType()) == local


def test_times_that_a_zone_skips_or_repeats_are_taken_as_java_takes_them() -> None:
    los_angeles = "America/Los_Angeles"
    assert decode("2024-03-10 02:30:00", TimestampType(), los_angeles) == datetime(2024, 3, 10, 10, 30, tzinfo=UTC)
    assert decode("2024-11-03 01:30:00", TimestampType(), los_angeles) == datetime(2024, 11, 3, 8, 30, tzinfo=UTC)


def test_texts_with_and_without_offset_may_stand_in_one_column() -> None:
    texts = pa.array(["2024-01-01 00:00:00", "2024-01-01T00:00:00Z", None])
    values = decode_partition_values(texts, TimestampType(), column="p", partition_timezone="Asia/Tokyo")
    assert values.to_pylist() == [datetime(2023, 12, 31, 15, tzinfo=UTC), datetime(2024, 1, 1, tzinfo=UTC), None]


def test_a_local_timestamp_drops_the_mark_of_utc() -> None:
    assert decode("2024-01-01T10:00:00Z", TimestampNtzType()) == datetime(2024, 1, 1, 10)


@pytest.mark.parametrize(
    ("text", "days"), [("+10000-01-01", 2932897), ("-0044-03-15", -735525), ("0000-01-01", -719528)]
)
def test_years_outside_of_four_digits_are_exact(text: str, days: int) -> None:
    dates = decode_partition_values(pa.array([text]), DateType(), column="p")
    assert dates.cast(pa.int32()).to_pylist() == [days]
    moments = decode_partition_values(pa.array([f"{text} 00:00:01"]), TimestampNtzType(), column="p")
    assert moments.cast(pa.int64()).to_pylist() == [(days * 86400 + 1) * 1_000_000]


@pytest.mark.parametrize(
    ("text", "delta_type"),
    [
        ("128", ByteType()),
        ("1.0", LongType()),
        ("9223372036854775808", LongType()),
        ("0x1", LongType()),
        ("1e400", DoubleType()),
        ("one", FloatType()),
        ("1.15", DecimalType(precision=5, scale=1)),
        ("123456", DecimalType(precision=5, scale=1)),
        ("1e999999999", DecimalType(precision=38, scale=0)),
        ("1E+30", DecimalType(precision=38, scale=9)),
        ("9" * 38, DecimalType(precision=38, scale=9)),
        ("1" * 31, DecimalType(precision=38, scale=9)),
        ("NaN", DecimalType(precision=38, scale=0)),
        ("yes", BooleanType()),
        ("2023-02-29", DateType()),
        ("2024-01-01 10:00:00", DateType()),
        ("20240101", DateType()),
        ("2024-01-01 24:00:00", TimestampType()),
        ("2024-01-01 00:00:00.123456789", TimestampType()),
        ("2024-01-01 00:00:00 Mars/Olympus", TimestampType()),
        ("2024-01-01T00:00:00+01:00", TimestampNtzType()),
        ("300000-01-01 00:00:00", TimestampNtzType()),
    ],
)
def test_a_text_that_is_no_value_names_column_and_text(text: str, delta_type: DeltaType) -> None:
    with pytest.raises(CorruptLog, match="Cannot read the partition value") as caught:
        decode(text, delta_type)
    assert repr(text) in str(caught.value)
    assert "'p'" in str(caught.value)


def test_a_type_without_a_text_form_is_refused() -> None:
    with pytest.raises(UnsupportedDeltaFeature, match="variant"):
        decode("x", VariantType())


def test_an_unknown_zone_is_a_usage_error() -> None:
    with pytest.raises(InvalidDeltaRequest, match="'Mars/Olympus'"):
        decode("2024-01-01 00:00:00", TimestampType(), "Mars/Olympus")


@pytest.mark.parametrize(
    ("value", "delta_type", "text"),
    [
        (datetime(2024, 3, 10, 10, 30, 0, 123456, UTC), TimestampType(), "2024-03-10T10:30:00.123456Z"),
        (datetime(2024, 3, 10, 10, 30, 0, 500000, UTC), TimestampType(), "2024-03-10T10:30:00.5Z"),
        (datetime(2024, 3, 10, 10, 30, 0, 0, UTC), TimestampType(), "2024-03-10T10:30:00Z"),
        (datetime(2024, 3, 10, 10, 30, 0, 0), TimestampNtzType(), "2024-03-10 10:30:00"),
        (float("inf"), DoubleType(), "Infinity"),
        (float("nan"), FloatType(), "NaN"),
        (-0.0, DoubleType(), "-0.0"),
        (Decimal("1E-9"), DecimalType(precision=20, scale=9), "0.000000001"),
        (True, BooleanType(), "true"),
        (b"\x01a", BinaryType(), "\u0001a"),
        (None, LongType(), None),
    ],
)
def test_values_are_written_as_the_protocol_recommends(value: Any, delta_type: DeltaType, text: str | None) -> None:
    values = pa.array([value], arrow_type(delta_type))
    assert encode_partition_values(values, delta_type, column="p").to_pylist() == [text]


def test_bytes_that_no_text_can_carry_are_refused() -> None:
    with pytest.raises(CorruptLog, match="column 'p': its bytes are not UTF-8"):
        encode_partition_values(pa.array([b"\xff"]), BinaryType(), column="p")


ROUND_TRIPS: list[tuple[DeltaType, st.SearchStrategy[Any]]] = [
    (LongType(), st.integers(-(2**63), 2**63 - 1)),
    (ByteType(), st.integers(-128, 127)),
    (DoubleType(), st.floats(allow_nan=False)),
    (FloatType(), st.floats(allow_nan=False, width=32)),
    (DecimalType(precision=38, scale=10), st.decimals(-(10**27), 10**27, places=10)),
    (BooleanType(), st.booleans()),
    (DateType(), st.dates()),
    (TimestampType(), st.datetimes(timezones=st.just(UTC))),
    (TimestampNtzType(), st.datetimes()),
    (StringType(), st.text(min_size=1)),
    (BinaryType(), st.text(min_size=1).map(str.encode)),
]


@pytest.mark.parametrize(("delta_type", "values"), ROUND_TRIPS, ids=lambda each: type(each).__name__)
@given(data=st.data())
def test_what_is_written_is_read_back(
    delta_type: DeltaType, values: st.SearchStrategy[Any], data: st.DataObject
) -> None:
    column = pa.array(data.draw(st.lists(st.none() | values, max_size=5)), arrow_type(delta_type))
    texts = encode_partition_values(column, delta_type, column="p")
    assert decode_partition_values(texts, delta_type, column="p").equals(column)


OFFSETS = st.integers(-18 * 60, 18 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))


@given(
    st.datetimes(datetime(2, 1, 1), datetime(9998, 1, 1), timezones=OFFSETS),
    st.sampled_from(["UTC", "Europe/Berlin", "America/St_Johns"]),
)
def test_any_offset_is_subtracted(moment: datetime, zone: str) -> None:
    assert decode(moment.isoformat(), TimestampType(), zone) == moment
