"""The 64-bit position bitmap that deletion vectors of both formats hold.

Iceberg's Puffin blob ``deletion-vector-v1`` and Delta's section "Deletion Vector Format" share it byte for byte:

    magic D1 D3 39 64, int64 count, then per 32-bit bitmap, keys ascending: int32 key, Roaring "general layout"

all little-endian. In a file the vector has a frame: its length, big-endian, before it and its CRC-32, big-endian, after
it. Positions are row numbers from 0; the highest bit of a position is 0.
"""

from __future__ import annotations

import array
import struct
import zlib
from typing import Any

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap64

from deltaberg.errors import DeltabergError

MAGIC = b"\xd1\xd3\x39\x64"
NATIVE_MAGIC = b"\xd0\xd3\x39\x64"
MAX_POSITION = (0x7FFFFFFE << 32) | 0x80000000
FRAME_BYTES = 8

_NO_RUNS, _WITH_RUNS = 12346, 12347
_ARRAY_LIMIT = 4096
_BITSET_BYTES = 8192
_ONES = np.array([bin(value).count("1") for value in range(1 << 16)], np.uint8)

Positions = npt.NDArray[np.int64]


class CorruptBitmap(DeltabergError):
    """A deletion vector's bytes contradict the specifications."""


class PositionBitmap:
    """An immutable set of row positions."""

    __slots__ = ("_bits",)

    def __init__(self, bits: Any = None) -> None:
        self._bits = BitMap64() if bits is None else bits

    @classmethod
    def from_positions(cls, positions: npt.NDArray[Any]) -> PositionBitmap:
        """Positions in any order, repeated or not. Raises ValueError for one below 0 or above ``MAX_POSITION``."""
        if len(positions) == 0:
            return cls()
        if int(positions.min()) < 0 or int(positions.max()) > MAX_POSITION:
            raise ValueError(f"a row position must be between 0 and {MAX_POSITION}")
        return cls(BitMap64(array.array("Q", positions.astype(np.uint64).tobytes())))

    @property
    def cardinality(self) -> int:
        """How many positions there are."""
        return len(self._bits)

    @property
    def last(self) -> int | None:
        """The highest position; None when there is none."""
        return int(self._bits.max()) if self._bits else None

    def to_positions(self, *, limit: int | None = None) -> Positions:
        """The positions, ascending. Raises CorruptBitmap when there are more than ``limit``, before any is made."""
        if limit is not None and self.cardinality > limit:
            raise CorruptBitmap(
                f"Cannot use the deletion vector: it has {self.cardinality} positions (expected {limit})"
            )
        return np.frombuffer(self._bits.to_array(), np.uint64).astype(np.int64)

    def mask(self, start: int, length: int) -> npt.NDArray[np.bool_]:
        """For each row from ``start``, whether it is in the set."""
        found = np.zeros(length, np.bool_)
        if length:
            window = BitMap64()
            window.add_range(start, start + length)
            inside = (self._bits & window).to_array()
            found[np.frombuffer(inside, np.uint64).astype(np.int64) - start] = True
        return found

    def union(self, other: PositionBitmap) -> PositionBitmap:
        return PositionBitmap(self._bits | other._bits)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PositionBitmap) and bool(self._bits == other._bits)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"PositionBitmap(cardinality={self.cardinality}, last={self.last})"

    def serialize(self) -> bytes:
        """Magic and vector, without frame; consecutive positions as runs."""
        bits = self._bits.copy()
        bits.run_optimize()
        return MAGIC + bytes(bits.serialize())

    @classmethod
    def deserialize(cls, data: bytes | memoryview) -> PositionBitmap:
        """Read magic and vector, all of ``data``. Raises CorruptBitmap for anything the layout does not allow."""
        data = bytes(data)
        if data[:4] != MAGIC:
            raise CorruptBitmap(f"Cannot read the deletion vector: wrong magic bytes (expected {MAGIC.hex()})")
        _check_vector(data, 4)
        return cls(BitMap64.deserialize(data[4:]))

    @classmethod
    def deserialize_native(cls, data: bytes | memoryview) -> PositionBitmap:
        """Read the older layout of Delta's Spark library: magic 1681511376, int32 count, {int32 length, bitmap}.

        A bitmap's key is its index. Raises CorruptBitmap for anything that layout does not allow.
        """
        data = bytes(data)
        if data[:4] != NATIVE_MAGIC or len(data) < 8:
            raise CorruptBitmap(f"Cannot read the deletion vector: wrong magic bytes (expected {NATIVE_MAGIC.hex()})")
        (count,) = struct.unpack_from("<i", data, 4)
        if count < 0 or count > (len(data) - 8) // 12:
            raise CorruptBitmap(
                f"Cannot read the deletion vector: it says that it has {count} bitmaps in {len(data)} bytes"
            )
        parts = [struct.pack("<q", count)]
        at = 8
        for key in range(count):
            if at + 4 > len(data):
                raise _truncated(at, 4, len(data))
            (length,) = struct.unpack_from("<i", data, at)
            at += 4
            if length < 0 or at + length > len(data):
                raise _truncated(at, length, len(data))
            parts += (struct.pack("<i", key), data[at : at + length])
            if _check_bitmap(np.frombuffer(data, np.uint8), at) != at + length:
                raise CorruptBitmap(
                    f"Cannot read the deletion vector: bitmap {key} is not {length} bytes long as it says"
                )
            at += length
        if at != len(data):
            raise CorruptBitmap(f"Cannot read the deletion vector: {len(data) - at} bytes follow its last bitmap")
        return cls(BitMap64.deserialize(b"".join(parts)))


def frame(blob: bytes) -> bytes:
    """Magic and vector as they stand in a file: length before, CRC-32 after, both big-endian."""
    return struct.pack(">I", len(blob)) + blob + struct.pack(">I", zlib.crc32(blob))


def unframe(data: bytes | memoryview, *, expected_size: int | None = None) -> bytes:
    """Magic and vector out of their frame, which is all of ``data``.

    ``expected_size`` is the length that the metadata gives to magic and vector (Delta's ``sizeInBytes``, Iceberg's
    ``content_size_in_bytes`` less 8). Raises CorruptBitmap when a length or the checksum is wrong.
    """
    data = bytes(data)
    if len(data) < FRAME_BYTES:
        raise CorruptBitmap(
            f"Cannot read the deletion vector: it has {len(data)} bytes (expected at least {FRAME_BYTES})"
        )
    (size,) = struct.unpack_from(">I", data)
    if expected_size is not None and size != expected_size:
        raise _unlike(data, "length", f"it says {size} bytes (expected {expected_size} by the metadata)")
    if size != len(data) - FRAME_BYTES:
        raise _unlike(data, "length", f"it says {size} bytes (expected {len(data) - FRAME_BYTES})")
    blob = data[4:-4]
    (checksum,) = struct.unpack(">I", data[-4:])
    if zlib.crc32(blob) != checksum:
        raise _unlike(data, "CRC-32", f"wrong CRC-32 (expected {checksum:08x}, found {zlib.crc32(blob):08x})")
    return blob


def _unlike(data: bytes, what: str, told: str) -> CorruptBitmap:
    """An error quotes numbers of the file only where the magic shows that it is a vector, so that no bytes of another
    file are shown.
    """
    if data[4:8] in (MAGIC, NATIVE_MAGIC, NATIVE_MAGIC[::-1]):
        return CorruptBitmap(f"Cannot read the deletion vector: {told}")
    return CorruptBitmap(
        f"Cannot read the deletion vector: wrong {what}, and there is none at the place that the metadata gives (expected "
        f"{MAGIC.hex()} behind its length)"
    )


def _check_vector(data: bytes, at: int) -> None:
    """Check everything from the count on: pyroaring trusts the order and the counts inside containers."""
    if at + 8 > len(data):
        raise _truncated(at, 8, len(data))
    (count,) = struct.unpack_from("<q", data, at)
    at += 8
    if count < 0 or count > (len(data) - at) // 12:
        raise CorruptBitmap(
            f"Cannot read the deletion vector: it says that it has {count} bitmaps in {len(data)} bytes"
        )
    content = np.frombuffer(data, np.uint8)
    previous = -1
    for _ in range(count):
        if at + 4 > len(data):
            raise _truncated(at, 4, len(data))
        (key,) = struct.unpack_from("<I", data, at)
        if key <= previous:
            raise CorruptBitmap(
                f"Cannot read the deletion vector: key {key} follows key {previous} (expected ascending)"
            )
        if key > 0x7FFFFFFF:
            raise CorruptBitmap(f"Cannot read the deletion vector: key {key} makes positions of more than 63 bits")
        previous = key
        at = _check_bitmap(content, at + 4)
    if at != len(data):
        raise CorruptBitmap(f"Cannot read the deletion vector: {len(data) - at} bytes follow its last bitmap")


def _check_bitmap(content: npt.NDArray[np.uint8], start: int) -> int:
    """Check one 32-bit Roaring bitmap that begins at ``start`` and return where it ends.

    Header: cookie, number of containers, run flags; then key and cardinality less 1 of each container; then, unless
    there are runs and fewer than 4 containers, the offset of each. Containers follow without gaps.
    """
    end = len(content)
    cookie = _take(content, start, 4, "<u4")[0]
    at = start + 4
    has_runs = np.zeros(0, np.bool_)
    if cookie & 0xFFFF == _WITH_RUNS:
        size = int(cookie >> 16) + 1
        flags = _take(content, at, (size + 7) // 8, "u1")
        has_runs = np.unpackbits(flags, bitorder="little")[:size].astype(np.bool_)
        at += len(flags)
    elif cookie == _NO_RUNS:
        size = int(_take(content, at, 4, "<u4")[0])
        at += 4
        if size > 1 << 16:
            raise CorruptBitmap(f"Cannot read the deletion vector: a bitmap says that it has {size} containers")
        has_runs = np.zeros(size, np.bool_)
    else:
        raise CorruptBitmap(
            f"Cannot read the deletion vector: a bitmap begins with cookie {cookie} (expected 12346 or 12347)"
        )
    header = _take(content, at, 4 * size, "<u2").reshape(size, 2)
    at += 4 * size
    keys, cardinality = header[:, 0].astype(np.int64), header[:, 1].astype(np.int64) + 1
    if np.any(keys[1:] <= keys[:-1]):
        raise CorruptBitmap("Cannot read the deletion vector: the containers of a bitmap are not in ascending order")
    offsets = None
    if cookie == _NO_RUNS or size >= 4:
        offsets = _take(content, at, 4 * size, "<u4").astype(np.int64) + start
        at += 4 * size
    lengths = np.where(cardinality > _ARRAY_LIMIT, _BITSET_BYTES, 2 * cardinality)
    if has_runs.any():
        lengths = _with_run_lengths(content, at, lengths, has_runs, offsets)
    places = at + np.cumsum(lengths) - lengths
    if offsets is not None and not np.array_equal(offsets, places):
        raise CorruptBitmap("Cannot read the deletion vector: the offsets of a bitmap do not lead to its containers")
    total = int(lengths.sum())
    if at + total > end:
        raise _truncated(at, total, end)
    numbers = _take(content, at, total, "<u2")
    places = (places - at) // 2
    is_bitset = ~has_runs & (cardinality > _ARRAY_LIMIT)
    _check_arrays(numbers, places, lengths // 2, ~has_runs & ~is_bitset)
    _check_bitsets(numbers, places[is_bitset], cardinality[is_bitset])
    _check_runs(numbers, places[has_runs], lengths[has_runs] // 2, cardinality[has_runs])
    return at + total


def _with_run_lengths(
    content: npt.NDArray[np.uint8],
    at: int,
    lengths: Positions,
    has_runs: npt.NDArray[np.bool_],
    offsets: Positions | None,
) -> Positions:
    """The byte lengths with those of run containers, which state their number of runs."""
    lengths = lengths.copy()
    if offsets is None:
        for index in range(len(lengths)):
            if has_runs[index]:
                lengths[index] = 2 + 4 * int(_take(content, at, 2, "<u2")[0])
            at += int(lengths[index])
        return lengths
    places = offsets[has_runs]
    outside = (places < at) | (places + 2 > len(content))
    if outside.any():
        raise _truncated(int(places[outside][0]), 2, len(content))
    runs = content[places].astype(np.int64) | (content[places + 1].astype(np.int64) << 8)
    lengths[has_runs] = 2 + 4 * runs
    return lengths


def _check_arrays(
    numbers: npt.NDArray[np.uint16], places: Positions, lengths: Positions, is_array: npt.NDArray[np.bool_]
) -> None:
    if not is_array.any():
        return
    ascending = numbers[1:] > numbers[:-1]
    # A pair of neighbours matters when both stand in the same array container.
    matters = np.repeat(is_array, lengths)[:-1]
    matters[places[1:] - 1] = False
    if np.any(matters & ~ascending):
        raise CorruptBitmap("Cannot read the deletion vector: the positions of a container are not in ascending order")


def _check_bitsets(numbers: npt.NDArray[np.uint16], places: Positions, cardinality: Positions) -> None:
    for place, count in zip(places.tolist(), cardinality.tolist(), strict=True):
        found = int(_ONES[numbers[place : place + _BITSET_BYTES // 2]].sum(dtype=np.int64))
        if found != count:
            raise CorruptBitmap(
                f"Cannot read the deletion vector: a container has {found} positions (expected {count})"
            )


def _check_runs(numbers: npt.NDArray[np.uint16], places: Positions, lengths: Positions, cardinality: Positions) -> None:
    if len(places) == 0:
        return
    counts = lengths // 2
    container = np.repeat(np.arange(len(places)), counts)
    within = np.arange(len(container)) - np.repeat(np.cumsum(counts) - counts, counts)
    at = places[container] + 1 + 2 * within
    first = numbers[at].astype(np.int64)
    last = first + numbers[at + 1]
    neighbours = container[1:] == container[:-1]
    if np.any(neighbours & (first[1:] <= last[:-1])) or np.any(last > 0xFFFF):
        raise CorruptBitmap("Cannot read the deletion vector: the runs of a container overlap or leave it")
    found = np.bincount(container, weights=last - first + 1, minlength=len(places)).astype(np.int64)
    wrong = np.flatnonzero(found != cardinality)
    if len(wrong):
        raise CorruptBitmap(
            f"Cannot read the deletion vector: a container has {found[wrong[0]]} positions "
            f"(expected {cardinality[wrong[0]]})"
        )


def _take(content: npt.NDArray[np.uint8], at: int, length: int, kind: str) -> npt.NDArray[Any]:
    if length < 0 or at + length > len(content):
        raise _truncated(at, length, len(content))
    return np.frombuffer(content[at : at + length].tobytes(), kind)


def _truncated(at: int, length: int, size: int) -> CorruptBitmap:
    return CorruptBitmap(
        f"Cannot read the deletion vector: it ends at byte {size} (expected {length} bytes from byte {at})"
    )
