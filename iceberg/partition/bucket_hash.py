"""The 32-bit hash of bucket transforms (Appendix B): Murmur3 x86, seed 0, over whole Arrow arrays."""

from __future__ import annotations

from typing import TypeAlias

import mmh3
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from deltaberg.iceberg.errors import InvalidIcebergRequest
from deltaberg.iceberg.schema.single_value import Bytes, Ints, decimal_words, minimal_big_endian

Hashes: TypeAlias = npt.NDArray[np.uint32]

_C1 = np.uint32(0xCC9E2D51)
_C2 = np.uint32(0x1B873593)
# Values are hashed in runs that stay in the processor's cache.
_RUN = 1 << 15
# Beyond this many bytes one call of a native hash per value beats another pass over all values.
_LONG_VALUE = 96


def _mix_block(hashes: Hashes, block: Hashes) -> None:
    """Mix one 4-byte block into every hash; ``block`` is scratch."""
    block *= _C1
    upper = block >> np.uint32(17)
    block <<= np.uint32(15)
    block |= upper
    block *= _C2
    hashes ^= block
    np.right_shift(hashes, np.uint32(19), out=upper)
    hashes <<= np.uint32(13)
    hashes |= upper
    hashes *= np.uint32(5)
    hashes += np.uint32(0xE6546B64)


def _finish(hashes: Hashes) -> None:
    scratch = hashes >> np.uint32(16)
    hashes ^= scratch
    hashes *= np.uint32(0x85EBCA6B)
    np.right_shift(hashes, np.uint32(13), out=scratch)
    hashes ^= scratch
    hashes *= np.uint32(0xC2B2AE35)
    np.right_shift(hashes, np.uint32(16), out=scratch)
    hashes ^= scratch


def hash_longs(values: Ints) -> Hashes:
    """The hash of every 64-bit integer, as its 8 little-endian bytes."""
    result = np.zeros(len(values), np.uint32)
    words = np.ascontiguousarray(values).view(np.uint32).reshape(-1, 2)
    for start in range(0, len(values), _RUN):
        part = result[start : start + _RUN]
        pair = words[start : start + _RUN]
        _mix_block(part, np.ascontiguousarray(pair[:, 0]))
        _mix_block(part, np.ascontiguousarray(pair[:, 1]))
        part ^= np.uint32(8)
        _finish(part)
    return result


def hash_spans(data: Bytes, starts: Ints, lengths: Ints) -> Hashes:
    """The hash of every run of bytes ``data[start : start + length]``."""
    result = np.zeros(len(starts), np.uint32)
    padded = np.concatenate([data, np.zeros(4, np.uint8)]) if len(data) < 4 else data
    for start in range(0, len(starts), _RUN):
        stop = start + _RUN
        result[start:stop] = _hash_run(padded, starts[start:stop], lengths[start:stop])
    return result


def _hash_run(data: Bytes, starts: Ints, lengths: Ints) -> Hashes:
    """One run; ``data`` holds at least 4 bytes."""
    words = np.ndarray((len(data) - 3,), dtype="<u4", buffer=data, strides=(1,))
    order = np.argsort(lengths, kind="stable")[::-1]
    starts, lengths = starts[order], lengths[order]
    hashes = np.zeros(len(starts), np.uint32)
    long_values = int(np.searchsorted(-lengths, -_LONG_VALUE, side="left"))
    for position in range(long_values):
        start = int(starts[position])
        hashes[position] = mmh3.hash(data[start : start + int(lengths[position])].tobytes(), signed=False)
    short_starts, short_lengths = starts[long_values:], lengths[long_values:]
    short = hashes[long_values:]
    blocks = short_lengths >> 2
    for block in range(int(blocks.max(initial=0))):
        # Values are ordered from long to short, so those with this block come first.
        count = int(np.searchsorted(-blocks, -block, side="left"))
        _mix_block(short[:count], words[short_starts[:count] + 4 * block])
    tails = short_lengths & 3
    rows = np.flatnonzero(tails)
    if len(rows):
        tail_at = short_starts[rows] + 4 * blocks[rows]
        # A tail near the end of the buffer is read from 4 bytes before it and shifted down.
        from_ = np.minimum(tail_at, len(data) - 4)
        block_words = words[from_] >> (8 * (tail_at - from_)).astype(np.uint32)
        block_words &= (np.uint32(1) << (8 * tails[rows]).astype(np.uint32)) - np.uint32(1)
        block_words *= _C1
        block_words = (block_words << np.uint32(15)) | (block_words >> np.uint32(17))
        block_words *= _C2
        short[rows] ^= block_words
    short ^= short_lengths.astype(np.uint32)
    _finish(short)
    result = np.empty_like(hashes)
    result[order] = hashes
    return result


def _hash_decimals(words: npt.NDArray[np.uint64]) -> Hashes:
    """The hash of 128-bit values, as their shortest big-endian bytes."""
    result = np.zeros(len(words), np.uint32)
    for start in range(0, len(words), _RUN):
        result[start : start + _RUN] = _hash_run(*minimal_big_endian(words[start : start + _RUN]))
    return result


def _binary_spans(array: pa.Array) -> tuple[Bytes, Ints, Ints]:
    """The bytes of a binary or string array, with starts and lengths (0 for null)."""
    kind = array.type
    if pa.types.is_fixed_size_binary(kind):
        width = kind.byte_width
        buffer = array.buffers()[1]
        data = np.frombuffer(buffer, np.uint8) if buffer is not None else np.zeros(0, np.uint8)
        starts: Ints = (np.arange(len(array), dtype=np.int64) + array.offset) * width
        return data, starts, np.full(len(array), width, np.int64)
    if not (pa.types.is_large_binary(kind) or pa.types.is_large_string(kind)):
        kind = pa.binary() if pa.types.is_binary_view(kind) else kind
        kind = pa.string() if pa.types.is_string_view(kind) else kind
        array = array.cast(kind)
    _, offset_buffer, buffer = array.buffers()
    data = np.frombuffer(buffer, np.uint8) if buffer is not None else np.zeros(0, np.uint8)
    if offset_buffer is None or len(array) == 0:
        return data, np.zeros(len(array), np.int64), np.zeros(len(array), np.int64)
    wide = pa.types.is_large_binary(kind) or pa.types.is_large_string(kind)
    every_offset = np.frombuffer(offset_buffer, "<i8" if wide else "<i4")
    offsets: Ints = every_offset[array.offset : array.offset + len(array) + 1].astype(np.int64)
    return data, offsets[:-1], np.diff(offsets)


def _integers(array: pa.Array, dtype: str) -> Ints:
    buffer = array.buffers()[1]
    if buffer is None or len(array) == 0:
        return np.zeros(len(array), np.int64)
    values = np.frombuffer(buffer, dtype)[array.offset : array.offset + len(array)]
    return values.astype(np.int64)


def hash_array(array: pa.Array) -> Hashes:
    """The hash of every value of a type that may be bucketed; the hash of a null is meaningless."""
    kind = array.type
    if pa.types.is_int32(kind) or pa.types.is_date32(kind):
        return hash_longs(_integers(array, "<i4"))
    if pa.types.is_int64(kind) or kind in (pa.time64("us"),):
        return hash_longs(_integers(array, "<i8"))
    if pa.types.is_timestamp(kind) and kind.unit in ("us", "ns"):
        values = _integers(array, "<i8")
        return hash_longs(values if kind.unit == "us" else np.floor_divide(values, 1000))
    if pa.types.is_decimal(kind):
        return _hash_decimals(decimal_words(array))
    if (
        pa.types.is_fixed_size_binary(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_binary_view(kind)
        or pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_string_view(kind)
    ):
        return hash_spans(*_binary_spans(array))
    raise InvalidIcebergRequest(f"Cannot hash values of Arrow type {kind}: bucket partitions do not take them")
