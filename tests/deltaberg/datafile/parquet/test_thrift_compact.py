"""Compact Thrift from bytes that nobody has checked: values, or our own error, in bounded time and memory."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deltaberg.datafile.parquet.thrift_compact import ThriftError, list_ends, read_struct


def varint(number: int) -> bytes:
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def zigzag(number: int) -> bytes:
    return varint((number << 1) ^ (number >> 63))


def test_fields_of_every_type_are_read() -> None:
    data = b"".join(
        (
            b"\x11",  # 1: true
            b"\x12",  # 2: false
            b"\x13\xfe",  # 3: byte
            b"\x14" + zigzag(-5),  # 4: i16
            b"\x16" + zigzag(1 << 40),  # 6: i64, after a step
            b"\x08" + zigzag(100) + b"\x03abc",  # 100: binary, long form
            b"\x19\x35" + zigzag(1) + zigzag(-1) + zigzag(0),  # 101: list of three i32
            b"\x19\xf1\x10" + b"\x01\x02" * 8,  # 102: list of sixteen booleans
            b"\x1c\x15" + zigzag(7) + b"\x00",  # 103: struct
            b"\x17" + bytes(8),  # 104: double
            b"\x00",
        )
    )
    assert read_struct(data) == {
        1: True, 2: False, 3: 254, 4: -5, 5: 1 << 40, 100: b"abc", 101: [1, -1, 0], 102: [True, False] * 8,
        103: {1: 7}, 104: bytes(8),
    }  # fmt: skip


@settings(deadline=None)
@given(st.integers(-(2**63), 2**63 - 1))
def test_integers_come_back(number: int) -> None:
    assert read_struct(b"\x16" + zigzag(number) + b"\x00") == {1: number}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "in the middle"),
        (b"\x15", "in the middle"),
        (b"\x15\x02", "in the middle"),
        (b"\x18\xff\xff\xff\xff\x0f", "4294967295 bytes"),
        (b"\x19\xf5\xff\xff\xff\xff\x0f", "4294967295 bytes"),
        (b"\x19\xf1\xff\xff\x7f" + b"\x01" * 3_000_000, "2097151 elements"),
        (b"\x16" + b"\xff" * 20, "more than 64 bits"),
        (b"\x1d\x00", "unknown type 13"),
        (b"\x1b\x00", "unknown type 11"),
        (b"\x1c" * 100, "nested more than 32 deep"),
    ],
)
def test_lengths_and_depths_are_not_believed(data: bytes, message: str) -> None:
    with pytest.raises(ThriftError, match=message):
        read_struct(data)


@settings(deadline=None)
@given(st.binary(max_size=200), st.integers(0, 2**32))
def test_any_bytes_are_a_struct_or_an_error(data: bytes, seed: int) -> None:
    noise = random.Random(seed).randbytes(len(data))
    for bytes_ in (data, noise):
        try:
            found = read_struct(bytes_)
        except ThriftError:
            continue
        assert isinstance(found, dict)


def test_the_ends_of_a_lists_structs_are_found() -> None:
    elements = [b"\x15\x02\x00", b"\x18\x01a\x65\x04\x00", b"\x00"]
    data = b"\x15\x02" + b"\x19\x3c" + b"".join(elements) + b"\x16\x02\x00"
    assert list_ends(data, 2) == [(7, 1), (13, 7), (14, 0)]
    with pytest.raises(ThriftError, match="no list 5"):
        list_ends(data, 5)
