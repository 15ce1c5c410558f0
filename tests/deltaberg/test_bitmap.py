"""Position bitmaps: both specifications' bytes, exactly and strictly."""

from __future__ import annotations

import struct
import time
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyroaring import BitMap, BitMap64

from deltaberg.bitmap import MAX_POSITION, CorruptBitmap, PositionBitmap, frame, unframe

MAGIC = b"\xd1\xd3\x39\x64"

starts = st.one_of(st.integers(0, 200_000), st.integers(0, 1 << 40), st.integers(0, MAX_POSITION - 300_000))
clusters = st.lists(st.tuples(starts, st.integers(1, 20_000), st.sampled_from([1, 1, 2, 3, 17, 65_536])), max_size=6)


@st.composite
def position_sets(draw: st.DrawFn) -> np.ndarray:
    """Positions that make arrays, bitsets and runs, in several 32-bit bitmaps."""
    parts = [np.arange(start, start + count * step, step, dtype=np.uint64) for start, count, step in draw(clusters)]
    positions = np.unique(np.concatenate([*parts, np.zeros(0, np.uint64)]))
    return positions[positions <= MAX_POSITION]


def vector(*bitmaps: tuple[int, bytes], count: int | None = None) -> bytes:
    parts = [struct.pack("<I", key) + data for key, data in bitmaps]
    return MAGIC + struct.pack("<q", len(parts) if count is None else count) + b"".join(parts)


def roaring(*positions: int) -> bytes:
    return BitMap(positions).serialize()


@settings(max_examples=60, deadline=None)
@given(position_sets())
def test_positions_come_back(positions: np.ndarray) -> None:
    bitmap = PositionBitmap.from_positions(positions)
    again = PositionBitmap.deserialize(bitmap.serialize())
    assert np.array_equal(again.to_positions(), positions.astype(np.int64))
    assert again.cardinality == len(positions)
    assert again == bitmap
    assert again.last == (int(positions[-1]) if len(positions) else None)


@settings(max_examples=60, deadline=None)
@given(position_sets(), st.booleans())
def test_bytes_are_those_of_the_portable_format(positions: np.ndarray, runs: bool) -> None:
    reference = BitMap64(positions.tolist())
    if runs:
        reference.run_optimize()
    data = MAGIC + reference.serialize()
    assert np.array_equal(PositionBitmap.deserialize(data).to_positions(), positions.astype(np.int64))
    written = BitMap64.deserialize(PositionBitmap.from_positions(positions).serialize()[4:])
    assert written == reference


@settings(max_examples=30, deadline=None)
@given(position_sets(), position_sets())
def test_union_holds_both(left: np.ndarray, right: np.ndarray) -> None:
    both = PositionBitmap.from_positions(left).union(PositionBitmap.from_positions(right))
    assert np.array_equal(both.to_positions(), np.union1d(left, right).astype(np.int64))


@settings(max_examples=30, deadline=None)
@given(position_sets(), st.integers(0, 300_000), st.integers(0, 70_000))
def test_a_mask_tells_the_rows_of_a_window(positions: np.ndarray, start: int, length: int) -> None:
    mask = PositionBitmap.from_positions(positions).mask(start, length)
    assert np.array_equal(mask, np.isin(np.arange(start, start + length), positions.astype(np.int64)))


@settings(max_examples=300, deadline=None)
@given(position_sets(), st.data())
def test_damaged_bytes_are_refused_or_still_a_bitmap(positions: np.ndarray, data: st.DataObject) -> None:
    good = bytearray(PositionBitmap.from_positions(positions[:50_000]).serialize())
    for _ in range(data.draw(st.integers(1, 3))):
        good[data.draw(st.integers(0, len(good) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(good)))
    for bytes_ in (bytes(good), bytes(good[:cut])):
        try:
            bitmap = PositionBitmap.deserialize(bytes_)
        except CorruptBitmap:
            continue
        read = bitmap.to_positions(limit=10_000_000)
        assert np.all(read[1:] > read[:-1])
        assert len(read) == bitmap.cardinality


def test_the_smallest_vectors_have_the_sizes_of_the_specification() -> None:
    assert len(frame(PositionBitmap().serialize())) == 20
    assert len(frame(PositionBitmap.from_positions(np.arange(5)).serialize())) == 39
    assert len(frame(vector((0, roaring(1, 5, 9))))) == 46


def test_bitmaps_of_several_keys_and_empty_ones_are_read() -> None:
    data = vector((0, roaring(7)), (1, roaring()), (5, roaring(0, 0xFFFFFFFF)))
    assert PositionBitmap.deserialize(data).to_positions().tolist() == [7, 5 << 32, (5 << 32) + 0xFFFFFFFF]
    assert PositionBitmap.deserialize(vector()).to_positions().tolist() == []


def test_run_containers_with_and_without_offsets_are_read() -> None:
    for containers in (1, 3, 4, 9):
        bits = BitMap()
        for key in range(containers):
            bits.add_range(key * 65_536 + 10, key * 65_536 + 60_000)
        bits.add(containers * 65_536 + 3)
        bits.run_optimize()
        read = PositionBitmap.deserialize(vector((0, bits.serialize()))).to_positions()
        assert read.tolist() == list(bits)


def test_bytes_are_accepted_as_a_memoryview() -> None:
    data = memoryview(frame(vector((0, roaring(3)))))
    assert PositionBitmap.deserialize(memoryview(unframe(data))).to_positions().tolist() == [3]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "wrong magic"),
        (MAGIC, "ends at byte 4"),
        (b"\xd0\xd3\x39\x64" + bytes(8), "wrong magic"),
        (vector(count=-1), "-1 bitmaps"),
        (vector(count=1 << 62), "4611686018427387904 bitmaps"),
        (vector((0, roaring(1)), count=2), "2 bitmaps"),
        (vector((0, roaring(1)), count=0), "follow its last bitmap"),
        (vector((0, roaring(1))) + b"\0", "1 bytes follow its last bitmap"),
        (vector((1, roaring(1)), (0, roaring(1))), "key 0 follows key 1"),
        (vector((1, roaring(1)), (1, roaring(2))), "key 1 follows key 1"),
        (vector((1 << 31, roaring(1))), "more than 63 bits"),
        (vector((0, b"\0" * 20)), "cookie 0"),
        (vector((0, struct.pack("<II", 12346, 1 << 31) + bytes(8))), "2147483648 containers"),
        (vector((0, struct.pack("<II", 12346, 1 << 16) + bytes(8))), "expected 262144 bytes"),
        (vector((0, struct.pack("<I", 12347 | 0xFFFF << 16) + bytes(8))), "expected 8192 bytes"),
        # One array container of two positions: key, cardinality - 1, offset, positions.
        (vector((0, struct.pack("<IIHHI2H", 12346, 1, 0, 1, 16, 5, 5))), "not in ascending order"),
        (vector((0, struct.pack("<IIHHI2H", 12346, 1, 0, 1, 16, 6, 5))), "not in ascending order"),
        (vector((0, struct.pack("<IIHHI2H", 12346, 1, 0, 1, 18, 5, 6))), "do not lead to its containers"),
        (vector((0, struct.pack("<IIHHI2H", 12346, 1, 0, 2, 16, 5, 6))), "ends at byte"),
        (
            vector((0, struct.pack("<IIHHHHII2H", 12346, 2, 4, 0, 4, 0, 24, 26, 1, 1))),
            "containers of a bitmap are not in ascending order",
        ),
        # One run container: flags, key, cardinality - 1, number of runs, (start, length - 1) each.
        (vector((0, struct.pack("<IBHHHHH", 12347, 1, 0, 3, 1, 10, 4))), "5 positions .expected 4"),
        (vector((0, struct.pack("<IBHHHHH", 12347, 1, 0, 9, 1, 65_530, 9))), "overlap or leave"),
        (vector((0, struct.pack("<IBHHHHHHH", 12347, 1, 0, 9, 2, 10, 4, 14, 4))), "overlap or leave"),
        (vector((0, struct.pack("<IBHHH", 12347, 1, 0, 9, 65_535))), "expected 262142 bytes"),
        (vector((0, struct.pack("<IIHHI", 12346, 1, 0, 4999, 16) + bytes(8192))), "0 positions .expected 5000"),
    ],
)
def test_malformed_vectors_are_refused_with_a_reason(data: bytes, message: str) -> None:
    with pytest.raises(CorruptBitmap, match=message) as raised:
        PositionBitmap.deserialize(data)
    assert "\n" not in str(raised.value)


def test_frames_are_checked() -> None:
    blob = vector((0, roaring(1, 2)))
    framed = frame(blob)
    assert framed == struct.pack(">I", len(blob)) + blob + struct.pack(">I", zlib.crc32(blob))
    assert unframe(framed) == blob
    assert unframe(framed, expected_size=len(blob)) == blob
    for data, expected, message in (
        (b"1234567", None, "7 bytes"),
        (framed[:-1], None, f"says {len(blob)} bytes"),
        (framed + b"\0", None, f"says {len(blob)} bytes"),
        (framed, len(blob) + 1, "by the metadata"),
        (framed[:-1] + bytes([framed[-1] ^ 1]), None, "wrong CRC-32"),
        (framed[:10] + bytes([framed[10] ^ 1]) + framed[11:], None, "wrong CRC-32"),
        (b"\xff\xff\xff\xff" + framed[4:], None, "says 4294967295 bytes"),
    ):
        with pytest.raises(CorruptBitmap, match=message):
            unframe(data, expected_size=expected)


def test_the_native_layout_of_delta_is_read_on_request_only() -> None:
    first, second = roaring(3, 4), roaring(9)
    data = (
        struct.pack("<Ii", 1681511376, 2)
        + struct.pack("<i", len(first)) + first
        + struct.pack("<i", len(second)) + second
    )  # fmt: skip
    assert PositionBitmap.deserialize_native(data).to_positions().tolist() == [3, 4, (1 << 32) + 9]
    with pytest.raises(CorruptBitmap, match="wrong magic"):
        PositionBitmap.deserialize(data)
    for damaged, message in (
        (data[:-1], "expected 18 bytes"),
        (data + b"\0", "1 bytes follow"),
        (MAGIC + data[4:], "wrong magic"),
        (data[:4] + struct.pack("<i", -1) + data[8:], "-1 bitmaps"),
        (data[:4] + struct.pack("<i", 1 << 30) + data[8:], "1073741824 bitmaps"),
        (data[:8] + struct.pack("<i", len(first) + 1) + data[12:], "not 21 bytes long"),
        (data[:8] + struct.pack("<i", -5) + data[12:], "expected -5 bytes"),
    ):
        with pytest.raises(CorruptBitmap, match=message):
            PositionBitmap.deserialize_native(damaged)


def test_a_small_vector_of_many_positions_costs_nothing_until_asked() -> None:
    bits = BitMap64()
    bits.add_range(0, 1 << 36)
    bits.run_optimize()
    bitmap = PositionBitmap.deserialize(MAGIC + bits.serialize())
    assert bitmap.cardinality == 1 << 36
    assert bitmap.mask((1 << 36) - 2, 4).tolist() == [True, True, False, False]
    with pytest.raises(CorruptBitmap, match=r"68719476736 positions .expected 100"):
        bitmap.to_positions(limit=100)


@pytest.mark.parametrize("position", [-1, MAX_POSITION + 1, (1 << 63) - 1])
def test_positions_that_no_reader_holds_are_not_written(position: int) -> None:
    with pytest.raises(ValueError, match="row position"):
        PositionBitmap.from_positions(np.array([position]))


def test_ten_million_positions_are_read_in_well_under_a_second() -> None:
    random = np.random.default_rng(5)
    positions = np.flatnonzero(random.random(100_000_000, np.float32) < 0.1)
    assert len(positions) > 9_900_000
    data = PositionBitmap.from_positions(positions).serialize()
    began = time.process_time()
    read = PositionBitmap.deserialize(data).to_positions()
    took = time.process_time() - began
    assert np.array_equal(read, positions)
    assert took < 1.0
