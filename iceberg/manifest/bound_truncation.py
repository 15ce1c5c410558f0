"""Shortening bounds so that they stay bounds (Data File Fields 125 and 128), over whole Arrow arrays.

A lower bound is cut; an upper bound is cut and its last unit incremented. Where nothing can be incremented there is no
upper bound (null).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

_LAST_BEFORE_SURROGATES = 0xD7FF
_FIRST_AFTER_SURROGATES = 0xE000
_LAST_CODE_POINT = 0x10FFFF


def truncate_lower_text(values: pa.Array, length: int) -> pa.Array:
    """At most ``length`` code points of every string."""
    return pc.utf8_slice_codeunits(values, 0, length)


def truncate_upper_text(values: pa.Array, length: int) -> pa.Array:
    """At most ``length`` code points of every string, made larger where something was cut off."""
    too_long = pc.greater(pc.utf8_length(values), length)
    if not pc.any(too_long, min_count=0).as_py():
        return values
    cut = pc.utf8_slice_codeunits(values.filter(too_long), 0, length)
    return pc.replace_with_mask(values, pc.fill_null(too_long, False), increment_text(cut))


def truncate_lower_bytes(values: pa.Array, length: int) -> pa.Array:
    """At most ``length`` bytes of every value."""
    return pc.binary_slice(values, 0, length)


def truncate_upper_bytes(values: pa.Array, length: int) -> pa.Array:
    """At most ``length`` bytes of every value, made larger where something was cut off."""
    too_long = pc.greater(pc.binary_length(values), length)
    if not pc.any(too_long, min_count=0).as_py():
        return values
    cut = pc.binary_slice(values.filter(too_long), 0, length)
    return pc.replace_with_mask(values, pc.fill_null(too_long, False), increment_bytes(cut))


def increment_text(values: pa.Array) -> pa.Array:
    """The last code point that can be incremented, incremented, and what follows it dropped; null when none can."""
    result = pa.nulls(len(values), pa.string())
    rows = np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False))
    rest = values.take(pa.array(rows))
    while len(rest):
        empty = pc.equal(pc.binary_length(rest), 0).to_numpy(zero_copy_only=False)
        if empty.any():
            rows = rows[~empty]
            rest = rest.filter(pa.array(~empty))
            continue
        last = _code_points(pc.utf8_slice_codeunits(rest, -1))
        prefix = pc.utf8_slice_codeunits(rest, 0, stop=-1)
        done = last < _LAST_CODE_POINT
        higher = last[done] + 1
        higher[higher == _LAST_BEFORE_SURROGATES + 1] = _FIRST_AFTER_SURROGATES
        incremented = pc.binary_join_element_wise(prefix.filter(pa.array(done)), _characters(higher), "")
        mask = np.zeros(len(values), bool)
        mask[rows[done]] = True
        result = pc.replace_with_mask(result, pa.array(mask), incremented)
        rows = rows[~done]
        rest = prefix.filter(pa.array(~done))
    return result


def increment_bytes(values: pa.Array) -> pa.Array:
    """The last byte below 0xFF incremented, and what follows it dropped; null when there is none."""
    result = pa.nulls(len(values), pa.binary())
    rows = np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False))
    rest = values.take(pa.array(rows))
    while len(rest):
        lengths = pc.binary_length(rest).to_numpy(zero_copy_only=False)
        if (lengths == 0).any():
            keep = lengths > 0
            rows = rows[keep]
            rest = rest.filter(pa.array(keep))
            continue
        _, offsets, data = rest.buffers()
        ends = np.frombuffer(offsets, np.int32)[rest.offset + 1 : rest.offset + 1 + len(rest)]
        last = np.frombuffer(data, np.uint8)[ends - 1]
        prefix = pc.binary_slice(rest, 0, -1)
        done = last < 0xFF
        higher = np.ascontiguousarray(last[done] + 1)
        single = pa.Array.from_buffers(
            pa.binary(),
            len(higher),
            [None, pa.py_buffer(np.arange(len(higher) + 1, dtype=np.int32)), pa.py_buffer(higher)],
        )
        incremented = pc.binary_join_element_wise(prefix.filter(pa.array(done)), single, b"")
        mask = np.zeros(len(values), bool)
        mask[rows[done]] = True
        result = pc.replace_with_mask(result, pa.array(mask), incremented)
        rows = rows[~done]
        rest = prefix.filter(pa.array(~done))
    return result


def _code_points(characters: pa.Array) -> npt.NDArray[np.int64]:
    """The code point of every one-character string."""
    _, offset_buffer, data = characters.buffers()
    offsets = np.frombuffer(offset_buffer, np.int32)[characters.offset : characters.offset + len(characters) + 1]
    octets = np.concatenate([np.frombuffer(data, np.uint8), np.zeros(4, np.uint8)]).astype(np.int64)
    starts, lengths = offsets[:-1], np.diff(offsets)
    result = octets[starts]
    for length, mask in ((2, 0x1F), (3, 0x0F), (4, 0x07)):
        rows = np.flatnonzero(lengths == length)
        value = octets[starts[rows]] & mask
        for position in range(1, length):
            value = (value << 6) | (octets[starts[rows] + position] & 0x3F)
        result[rows] = value
    return result


def _characters(points: npt.NDArray[np.int64]) -> pa.Array:
    """One-character strings of code points."""
    lengths = 1 + (points >= 0x80).astype(np.int64) + (points >= 0x800) + (points >= 0x10000)
    matrix = np.zeros((len(points), 4), np.uint8)
    matrix[:, 0] = np.where(points < 0x80, points, 0)
    for length, lead in ((2, 0xC0), (3, 0xE0), (4, 0xF0)):
        rows = np.flatnonzero(lengths == length)
        value = points[rows]
        for position in range(length - 1, 0, -1):
            matrix[rows, position] = 0x80 | (value & 0x3F)
            value = value >> 6
        matrix[rows, 0] = lead | value
    data = matrix[np.arange(4)[None, :] < lengths[:, None]]
    offsets = np.zeros(len(points) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    return pa.Array.from_buffers(pa.string(), len(points), [None, pa.py_buffer(offsets), pa.py_buffer(data)])
