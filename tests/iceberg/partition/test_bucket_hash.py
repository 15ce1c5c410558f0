"""The hash of bucket transforms: the vectors of Appendix B, and a native hash as the judge for everything else."""

from __future__ import annotations

import datetime
from decimal import Decimal
from uuid import UUID

import mmh3
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaberg.iceberg.errors import InvalidIcebergRequest
from deltaberg.iceberg.partition.bucket_hash import hash_array

MOMENT = datetime.datetime(2017, 11, 16, 22, 31, 8)
UTC = datetime.timezone.utc
OFFSET = datetime.timezone(datetime.timedelta(hours=-8))


def hashes(array: pa.Array) -> list[int]:
    return hash_array(array).view(np.int32).tolist()


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        (34, pa.int32(), 2017239379),
        (34, pa.int64(), 2017239379),
        (Decimal("14.20"), pa.decimal128(9, 2), -500754589),
        (datetime.date(2017, 11, 16), pa.date32(), -653330422),
        (datetime.time(22, 31, 8), pa.time64("us"), -662762989),
        (MOMENT, pa.timestamp("us"), -2047944441),
        (MOMENT + datetime.timedelta(microseconds=1), pa.timestamp("us"), -1207196810),
        (MOMENT.replace(hour=14, tzinfo=OFFSET), pa.timestamp("us", tz="UTC"), -2047944441),
        (MOMENT, pa.timestamp("ns"), -2047944441),
        (MOMENT.replace(tzinfo=UTC), pa.timestamp("ns", tz="UTC"), -2047944441),
        ("iceberg", pa.string(), 1210000089),
        (UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7").bytes, pa.binary(16), 1488055340),
        (b"\x00\x01\x02\x03", pa.binary(4), -188683207),
        (b"\x00\x01\x02\x03", pa.binary(), -188683207),
        ("iceberg", pa.large_string(), 1210000089),
    ],
)
def test_the_vectors_of_the_specification_hold(value: object, kind: pa.DataType, expected: int) -> None:
    assert hashes(pa.array([value], kind)) == [expected]


def test_nanoseconds_are_hashed_as_microseconds_before_1970_too() -> None:
    nanos = pa.array([1510871468000001001, -1, -1001], pa.int64()).view(pa.timestamp("ns"))
    micros = pa.array([1510871468000001, -1, -2], pa.int64()).view(pa.timestamp("us"))
    assert hashes(nanos) == hashes(micros)
    assert hashes(nanos)[0] == -1207196810


@given(st.lists(st.none() | st.binary(max_size=200)), st.integers(0, 3))
def test_bytes_of_any_length_hash_as_the_native_function_does(values: list[bytes | None], offset: int) -> None:
    array = pa.array(values, pa.binary()).slice(offset)
    for value, found in zip(array.to_pylist(), hashes(array), strict=True):
        assert value is None or found == mmh3.hash(value)


@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=40)))
def test_strings_hash_as_their_utf8_bytes(values: list[str]) -> None:
    assert hashes(pa.array(values, pa.string())) == [mmh3.hash(value.encode()) for value in values]


@given(st.lists(st.integers(-(2**63), 2**63 - 1)))
def test_longs_hash_as_eight_little_endian_bytes(values: list[int]) -> None:
    expected = [mmh3.hash(value.to_bytes(8, "little", signed=True)) for value in values]
    assert hashes(pa.array(values, pa.int64())) == expected


@given(st.lists(st.integers(-(10**38) + 1, 10**38 - 1)))
def test_decimals_hash_as_their_shortest_big_endian_bytes(values: list[int]) -> None:
    def shortest(value: int) -> bytes:
        return value.to_bytes((value if value >= 0 else ~value).bit_length() // 8 + 1, "big", signed=True)

    array = pa.array([Decimal(value) for value in values], pa.decimal128(38, 0))
    assert hashes(array) == [mmh3.hash(shortest(value)) for value in values]


def test_a_run_longer_than_the_working_set_hashes_every_value() -> None:
    values = np.arange(100_003, dtype=np.int64)
    texts = pa.array([f"v{value}" for value in values.tolist()])
    assert hashes(pa.array(values))[-1] == mmh3.hash((100_002).to_bytes(8, "little"))
    assert hashes(texts) == [mmh3.hash(text) for text in texts.to_pylist()]


@pytest.mark.parametrize("kind", [pa.float64(), pa.bool_(), pa.list_(pa.int32())])
def test_other_types_are_refused(kind: pa.DataType) -> None:
    with pytest.raises(InvalidIcebergRequest, match="bucket partitions do not take them"):
        hash_array(pa.nulls(1, kind))
