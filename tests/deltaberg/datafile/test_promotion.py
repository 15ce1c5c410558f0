"""Promotions: every allowed one is exact, everything else is refused."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deltaberg.datafile import DataFileError, ReadField, project
from deltaberg.datafile.hybrid_calendar import HybridCalendar
from deltaberg.datafile.promotion import NotPromotable, promotion

D, TZ = dt.datetime, dt.timezone.utc


def promoted(values: list[Any], source: pa.DataType, target: pa.DataType) -> pa.Array:
    batch = pa.RecordBatch.from_arrays([pa.array(values, source)], ["c"])
    field = ReadField(name="c", physical_name="c", type=target)
    result = project(batch, None, [field], match="name")
    result.validate(full=True)
    assert result.schema.field("c").type == target
    return result["c"]


ALLOWED = [
    (pa.int8(), pa.int32(), [-128, None, 127], [-128, None, 127]),
    (pa.int16(), pa.int64(), [-32768], [-32768]),
    (pa.int32(), pa.int64(), [-(2**31), 2**31 - 1], [-(2**31), 2**31 - 1]),
    (pa.int32(), pa.int8(), [-128, 127], [-128, 127]),
    (pa.int32(), pa.int16(), [32767], [32767]),
    (pa.uint8(), pa.int16(), [255], [255]),
    (pa.uint8(), pa.int32(), [255], [255]),
    (pa.uint16(), pa.int32(), [65535], [65535]),
    (pa.uint32(), pa.int64(), [2**32 - 1], [2**32 - 1]),
    (pa.uint32(), pa.int32(), [2**31 - 1], [2**31 - 1]),
    (pa.uint64(), pa.int64(), [2**63 - 1], [2**63 - 1]),
    (pa.float32(), pa.float64(), [1.5, None], [1.5, None]),
    (pa.int8(), pa.float64(), [-3], [-3.0]),
    (pa.int32(), pa.float64(), [2**31 - 1], [2.0**31 - 1]),
    (pa.decimal128(5, 2), pa.decimal128(9, 2), [Decimal("-1.25")], [Decimal("-1.25")]),
    (pa.decimal128(5, 2), pa.decimal128(9, 4), [Decimal("999.99")], [Decimal("999.9900")]),
    (pa.decimal128(36, 1), pa.decimal128(38, 3), [Decimal("9" * 35 + ".9")], [Decimal("9" * 35 + ".900")]),
    (pa.decimal256(40, 2), pa.decimal128(38, 0), None, None),
    (pa.int8(), pa.decimal128(10, 0), [-7], [Decimal(-7)]),
    (pa.int32(), pa.decimal128(12, 2), [2**31 - 1, None], [Decimal("2147483647.00"), None]),
    (pa.int64(), pa.decimal128(20, 0), [-(2**63)], [Decimal(-(2**63))]),
    (pa.int64(), pa.decimal128(38, 18), [2**63 - 1], [Decimal("9223372036854775807." + "0" * 18)]),
    (pa.date32(), pa.timestamp("us"), [dt.date(1, 1, 1), dt.date(9999, 12, 31)], [D(1, 1, 1), D(9999, 12, 31)]),
    (pa.timestamp("ms"), pa.timestamp("us"), [D(1, 1, 1), D(9999, 12, 31)], [D(1, 1, 1), D(9999, 12, 31)]),
    (pa.timestamp("s"), pa.timestamp("us"), [D(2024, 1, 1)], [D(2024, 1, 1)]),
    (pa.timestamp("ns"), pa.timestamp("us"), [D(1969, 12, 31, 23, 59, 59, 999_999), None], None),
    (pa.timestamp("us"), pa.timestamp("us", "UTC"), [D(1, 1, 1, 5)], [D(1, 1, 1, 5, tzinfo=TZ)]),
    (pa.timestamp("us", "America/New_York"), pa.timestamp("us", "UTC"), [D(2024, 1, 1, 5, tzinfo=TZ)], None),
    (pa.timestamp("us", "UTC"), pa.timestamp("us"), [D(1, 1, 1, 5, tzinfo=TZ)], [D(1, 1, 1, 5)]),
    (pa.time32("ms"), pa.time64("us"), [dt.time(23, 59, 59, 999_000), None], None),
    (pa.time64("ns"), pa.time64("us"), [dt.time(23, 59, 59, 999_999)], None),
    (pa.large_string(), pa.string(), ["é", None], ["é", None]),
    (pa.string_view(), pa.string(), ["é", None], ["é", None]),
    (pa.binary(), pa.string(), ["é".encode(), None], ["é", None]),
    (pa.string(), pa.binary(), ["é"], ["é".encode()]),
    (pa.large_binary(), pa.binary(), [b"\xff"], [b"\xff"]),
    (pa.binary(2), pa.binary(), [b"ab", None], [b"ab", None]),
    (pa.binary(), pa.binary(2), [b"ab", None], [b"ab", None]),
    (pa.dictionary(pa.int8(), pa.string()), pa.string(), ["a", None, "a"], ["a", None, "a"]),
    (pa.dictionary(pa.int8(), pa.int32()), pa.int64(), [5, None], [5, None]),
    (pa.null(), pa.int32(), [None, None], [None, None]),
    (pa.int32(), pa.null(), [1, None], [None, None]),
    (pa.uuid(), pa.binary(16), [bytes(range(16))], [bytes(range(16))]),
    (pa.date64(), pa.date32(), [dt.date(2024, 2, 29)], [dt.date(2024, 2, 29)]),
    (pa.bool_(), pa.bool_(), [True, None], [True, None]),
]


@pytest.mark.parametrize(("source", "target", "values", "expected"), ALLOWED, ids=lambda item: str(item)[:40])
def test_allowed_promotions_are_exact(source: pa.DataType, target: pa.DataType, values: Any, expected: Any) -> None:
    if values is None:
        with pytest.raises(DataFileError, match="may not be read"):
            promoted([], source, target)
        return
    assert promoted(values, source, target).to_pylist() == (values if expected is None else expected)
    assert len(promoted([], source, target)) == 0


KINDS = [
    pa.bool_(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.decimal128(9, 2), pa.string(), pa.binary(),
    pa.binary(4), pa.date32(), pa.time64("us"), pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.timestamp("ns"),
    pa.list_(pa.int32()), pa.struct([("a", pa.int32())]), pa.map_(pa.string(), pa.int32()), pa.duration("us"),
    pa.float16(), pa.uint64(),
]  # fmt: skip
NAMED = {
    (pa.int32(), pa.int64()), (pa.int32(), pa.float64()), (pa.float32(), pa.float64()),
    (pa.date32(), pa.timestamp("us")), (pa.date32(), pa.timestamp("ns")), (pa.string(), pa.binary()),
    (pa.binary(), pa.string()), (pa.binary(), pa.binary(4)), (pa.binary(4), pa.binary()),
    (pa.string(), pa.binary(4)), (pa.uint64(), pa.int64()),
}  # fmt: skip


@pytest.mark.parametrize("source", KINDS, ids=str)
def test_everything_else_is_refused_by_column_and_types(source: pa.DataType) -> None:
    for target in KINDS:
        timestamps = pa.types.is_timestamp(source) and pa.types.is_timestamp(target)
        if source == target or (source, target) in NAMED or timestamps or target in (pa.duration("us"), pa.uint64()):
            continue
        with pytest.raises(DataFileError, match=r"Cannot read column 'c'.*expected .*, found ") as raised:
            promoted([], source, target)
        assert str(source) in str(raised.value)


@pytest.mark.parametrize(
    ("source", "target", "value"),
    [
        (pa.int32(), pa.int8(), 128),
        (pa.int32(), pa.int16(), -32769),
        (pa.uint32(), pa.int32(), 2**31),
        (pa.uint64(), pa.int64(), 2**63),
        (pa.timestamp("ns"), pa.timestamp("us"), 1),
        (pa.timestamp("ns"), pa.timestamp("us", "UTC"), -1),
        (pa.timestamp("ms"), pa.timestamp("us"), 2**62),
        (pa.timestamp("us"), pa.timestamp("ns"), 2**60),
        (pa.date32(), pa.timestamp("ns"), 2**30),
        (pa.time64("ns"), pa.time64("us"), 1),
        (pa.binary(), pa.string(), b"\xff"),
        (pa.binary(), pa.binary(4), b"abc"),
        (pa.binary(3), pa.binary(4), b"abc"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_not_rounded(source: pa.DataType, target: pa.DataType, value: Any) -> None:
    with pytest.raises(DataFileError, match="Cannot read column 'c': a value does not fit"):
        promoted([None, value], source, target)


def test_text_that_is_not_utf8_is_refused() -> None:
    broken = pa.array([b"ok", b"\xff"], pa.binary()).view(pa.string())
    batch = pa.RecordBatch.from_arrays([broken], ["c"])
    with pytest.raises(DataFileError, match="Cannot read column 'c'"):
        project(batch, None, [ReadField(name="c", physical_name="c", type=pa.string())], match="name")


@pytest.mark.parametrize("target", [pa.timestamp("us", "UTC"), pa.timestamp("ns", "UTC")])
def test_a_date_never_becomes_an_instant(target: pa.DataType) -> None:
    with pytest.raises(NotPromotable):
        promotion(pa.date32(), target)


@settings(deadline=None)
@given(st.lists(st.one_of(st.none(), st.integers(-62_135_596_800_000_000, 253_402_300_799_999_999))))
def test_instants_keep_their_microseconds_in_every_unit(values: list[int | None]) -> None:
    stored = pa.array(values, pa.timestamp("us"))
    assert promoted(values, pa.timestamp("us"), pa.timestamp("us", "UTC")).cast(pa.int64()).to_pylist() == values
    whole = [None if value is None else value // 1000 * 1000 for value in values]
    milliseconds = pa.array(whole, pa.timestamp("us")).cast(pa.timestamp("ms"))
    assert promoted(milliseconds, pa.timestamp("ms"), pa.timestamp("us")).cast(pa.int64()).to_pylist() == whole
    sliced = pa.concat_arrays([pa.array([0, 1], pa.timestamp("us")), stored]).slice(2)
    batch = pa.RecordBatch.from_arrays([sliced], ["c"])
    result = project(
        batch, None, [ReadField(name="c", physical_name="c", type=pa.timestamp("us", "UTC"))], match="name"
    )
    assert result["c"].cast(pa.int64()).to_pylist() == values


def test_a_calendar_changes_dates_and_instants_but_not_local_timestamps() -> None:
    calendar = HybridCalendar()
    days = pa.array([-719_164, None, -141_427], pa.int32()).view(pa.date32())
    moved = promotion(pa.date32(), pa.date32(), calendar)
    assert moved is not None
    assert moved(days).view(pa.int32()).to_pylist() == [-719_162, None, -141_427]
    to_timestamp = promotion(pa.date32(), pa.timestamp("us"), calendar)
    assert to_timestamp is not None
    assert to_timestamp(days).to_pylist() == [D(1, 1, 1), None, D(1582, 10, 15)]
    instants = pa.array([-719_164 * 86_400_000_000 + 5, None], pa.int64())
    for unit in ("us", "ms"):
        stored = (
            pa.array([-719_164 * 86_400_000_000, None], pa.int64()).view(pa.timestamp("us")).cast(pa.timestamp(unit))
        )
        move = promotion(stored.type, pa.timestamp("us", "UTC"), calendar)
        assert move is not None
        assert move(stored).to_pylist() == [D(1, 1, 1, tzinfo=TZ), None]
    assert promotion(pa.timestamp("us"), pa.timestamp("us"), calendar) is None
    move = promotion(pa.timestamp("us"), pa.timestamp("us", "UTC"), calendar)
    assert move is not None
    assert move(instants.view(pa.timestamp("us"))).to_pylist() == [D(1, 1, 1, 0, 0, 0, 5, tzinfo=TZ), None]
