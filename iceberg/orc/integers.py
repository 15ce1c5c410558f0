"""ORC's integer run-length encodings, versions 1 and 2 (ORC v1 specification, "Run Length Encoding").

Decoding walks run by run (up to 512 values each) and unpacks each run with NumPy.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]

_WIDTHS = (*range(1, 25), 26, 28, 30, 32, 40, 48, 56, 64)
"""The bit width that each five-bit code stands for."""


def decode_integers(data: bytes, count: int, *, signed: bool, version_2: bool) -> Int64s:
    """Exactly ``count`` integers; ValueError when the stream holds fewer or is not well formed.

    Unsigned values of 64 bits keep their bit pattern.
    """
    decoder: Callable[[bytes, int, bool], tuple[Int64s, int]] = _run_v2 if version_2 else _run_v1
    runs: list[Int64s] = []
    at = total = 0
    while total < count:
        if at >= len(data):
            raise ValueError(f"an integer stream ends after {total} of {count} values")
        values, at = decoder(data, at, signed)
        runs.append(values)
        total += len(values)
    return np.concatenate(runs)[:count] if runs else np.zeros(0, np.int64)


def _run_v1(data: bytes, at: int, signed: bool) -> tuple[Int64s, int]:
    control = data[at]
    at += 1
    if control < 128:
        if at >= len(data):
            raise ValueError("a run has no delta")
        delta = int.from_bytes(data[at : at + 1], "little", signed=True)
        base, at = read_varint(data, at + 1)
        start = _unzigzag(base) if signed else base
        return _wrap(start) + np.arange(control + 3, dtype=np.int64) * delta, at
    values = []
    for _ in range(256 - control):
        value, at = read_varint(data, at)
        values.append(_unzigzag(value) if signed else value)
    return np.array([_wrap(value) for value in values], dtype=np.int64), at


def _run_v2(data: bytes, at: int, signed: bool) -> tuple[Int64s, int]:
    head = data[at]
    match head >> 6:
        case 0:
            return _short_repeat(data, at, signed)
        case 1:
            width, length, at = _header(data, at)
            values = _unpack(data, at, length, width)
            return _signed(values) if signed else values.view(np.int64), at + (length * width + 7) // 8
        case 2:
            return _patched_base(data, at)
        case _:
            return _delta(data, at, signed)


def _short_repeat(data: bytes, at: int, signed: bool) -> tuple[Int64s, int]:
    width = (data[at] >> 3 & 7) + 1
    length = (data[at] & 7) + 3
    raw = data[at + 1 : at + 1 + width]
    if len(raw) < width:
        raise ValueError("a short repeat is cut short")
    value = int.from_bytes(raw, "big")
    return np.full(length, _wrap(_unzigzag(value) if signed else value), dtype=np.int64), at + 1 + width


def _patched_base(data: bytes, at: int) -> tuple[Int64s, int]:
    width, length, at = _header(data, at)
    if at + 2 > len(data):
        raise ValueError("a patched run is cut short")
    base_width, patch_width = (data[at] >> 5) + 1, _WIDTHS[data[at] & 31]
    gap_width, patch_count = (data[at + 1] >> 5) + 1, data[at + 1] & 31
    at += 2
    raw = data[at : at + base_width]
    if len(raw) < base_width:
        raise ValueError("a patched run has no base")
    magnitude = int.from_bytes(raw, "big")
    sign = 1 << (base_width * 8 - 1)
    base = -(magnitude & ~sign) if magnitude & sign else magnitude
    at += base_width
    values = _unpack(data, at, length, width)
    at += (length * width + 7) // 8
    entry_width = next((known for known in _WIDTHS if known >= gap_width + patch_width), 0)
    if not entry_width:
        raise ValueError("a patch is wider than 64 bits")
    entries = _unpack(data, at, patch_count, entry_width)
    at += (patch_count * entry_width + 7) // 8
    gaps = (entries >> np.uint64(patch_width)).astype(np.int64)
    patches = entries & np.uint64((1 << patch_width) - 1)
    where = np.cumsum(gaps)
    if patch_count:
        if int(where[-1]) >= length or width >= 64:
            raise ValueError("a patch lies outside its run")
        # A gap beyond 255 is spelled as an empty patch 255 further on, which changes nothing here.
        np.bitwise_or.at(values, where, patches << np.uint64(width))
    return values.view(np.int64) + base, at


def _delta(data: bytes, at: int, signed: bool) -> tuple[Int64s, int]:
    code = data[at] >> 1 & 31
    width, length, at = _header(data, at)
    raw, at = read_varint(data, at)
    base = _wrap(_unzigzag(raw) if signed else raw)
    raw, at = read_varint(data, at)
    first = _wrap(_unzigzag(raw))
    steps = np.full(length, first, dtype=np.int64)
    steps[0] = base
    if code and length > 2:
        deltas = _unpack(data, at, length - 2, width).view(np.int64)
        steps[2:] = -deltas if first < 0 else deltas
        at += ((length - 2) * width + 7) // 8
    return np.cumsum(steps), at


def _header(data: bytes, at: int) -> tuple[int, int, int]:
    if at + 2 > len(data):
        raise ValueError("a run header is cut short")
    return _WIDTHS[data[at] >> 1 & 31], ((data[at] & 1) << 8 | data[at + 1]) + 1, at + 2


def _unpack(data: bytes, at: int, count: int, width: int) -> npt.NDArray[np.uint64]:
    """``count`` big-endian bit-packed unsigned integers of ``width`` bits."""
    size = (count * width + 7) // 8
    raw = np.frombuffer(data, dtype=np.uint8, count=min(size, max(0, len(data) - at)), offset=min(at, len(data)))
    if len(raw) < size:
        raise ValueError("a run is cut short")
    if width % 8 == 0:
        wide = np.zeros((count, 8), dtype=np.uint8)
        wide[:, 8 - width // 8 :] = raw.reshape(count, width // 8)
    else:
        bits = np.unpackbits(raw)[: count * width].reshape(count, width)
        wide = np.packbits(np.pad(bits, ((0, 0), (64 - width, 0))), axis=1)
    return wide.reshape(-1).view(">u8").astype(np.uint64)


def _signed(values: npt.NDArray[np.uint64]) -> Int64s:
    """Undo the zigzag encoding."""
    return (values >> np.uint64(1)).view(np.int64) ^ -(values & np.uint64(1)).view(np.int64)


def _unzigzag(value: int) -> int:
    return value >> 1 ^ -(value & 1)


def _wrap(value: int) -> int:
    """An integer of 64 bits, read as signed."""
    value &= (1 << 64) - 1
    return value - (1 << 64) if value >> 63 else value


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """An unsigned base-128 varint, and where it ends. Raises ValueError for one that is cut short."""
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise ValueError("a varint is cut short or too long")
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
