"""Tuples of values as bytes that are equal exactly when Iceberg calls the tuples equal.

Used for partition tuples (Scan Planning, notes 3 and 4) and for the keys of equality deletes: nulls equal nulls, NaNs
equal NaNs whatever their bits, -0.0 and 0.0 differ, and a value equals the same value of a promoted type.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

_NAN_BITS = np.int64(0x7FF8000000000000)
_ABSENT = b"\x00"
_PRESENT = b"\x01"
_HASHED_BYTES = 1 << 18
_POWERS = np.full(4096, 0x9E3779B97F4A7C15, dtype=np.uint64).cumprod()


def tuple_keys(columns: Sequence[pa.Array], length: int) -> pa.BinaryArray:
    """One key per row of columns that are ``length`` long each; without columns all keys are equal.

    Keys of two calls compare when their columns have the same types up to promotion, in the same order.
    Raises TypeError for nested values.
    """
    if not columns:
        return pa.array([_ABSENT], pa.binary()).take(pa.array(np.zeros(length, dtype=np.int64)))
    parts = []
    for column in columns:
        values = _comparable(column)
        if not pa.types.is_binary(values.type):
            parts.append(pc.fill_null(pc.binary_join_element_wise(_PRESENT, _raw(values), b""), _ABSENT))
            continue
        # A length before the bytes keeps ("ab", "c") apart from ("a", "bc").
        sizes = _raw(pc.binary_length(values).cast(pa.int64()))
        parts.append(pc.fill_null(pc.binary_join_element_wise(_PRESENT, sizes, values, b""), _ABSENT))
    return parts[0] if len(parts) == 1 else pc.binary_join_element_wise(*parts, b"")


def hash_keys(keys: pa.BinaryArray | pa.LargeBinaryArray) -> npt.NDArray[np.uint64]:
    """A 64-bit hash of each key, the same for binary and large binary; no key may be empty or null."""
    if not len(keys):
        return np.zeros(0, dtype=np.uint64)
    width = np.int64 if pa.types.is_large_binary(keys.type) else np.int32
    offsets = np.frombuffer(keys.buffers()[1], dtype=width)[keys.offset : keys.offset + len(keys) + 1]
    data = np.frombuffer(keys.buffers()[2], dtype=np.uint8)
    hashes = np.empty(len(keys), dtype=np.uint64)
    edges = np.searchsorted(offsets, np.arange(int(offsets[0]), int(offsets[-1]), _HASHED_BYTES))
    edges = np.unique(np.append(edges, len(keys)))
    for start, stop in itertools.pairwise([0, *edges[edges > 0].tolist()]):
        hashes[start:stop] = _hash_some(data, offsets[start : stop + 1].astype(np.int64))
    return hashes


def _hash_some(data: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
    """A polynomial of the bytes between neighbouring offsets, modulo 2 to the 64."""
    first, last = int(offsets[0]), int(offsets[-1])
    starts = offsets[:-1] - first
    within = np.arange(last - first) - np.repeat(starts, np.diff(offsets))
    within &= len(_POWERS) - 1
    terms = data[first:last].astype(np.uint64)
    terms += np.uint64(1)
    terms *= _POWERS[within]
    hashes: npt.NDArray[np.uint64] = np.add.reduceat(terms, starts)
    return hashes


def _comparable(values: pa.Array) -> pa.Array:
    """Values as int64, decimal128(38) or binary whose equality is Iceberg's."""
    kind = values.type
    if pa.types.is_floating(kind):
        valid = np.asarray(values.is_valid().to_numpy(zero_copy_only=False), dtype=bool)
        floats = pc.fill_null(values.cast(pa.float64()), 0.0).to_numpy(zero_copy_only=False)
        bits = np.where(np.isnan(floats), _NAN_BITS, np.ascontiguousarray(floats).view(np.int64))
        return pa.array(bits, mask=~valid)
    if pa.types.is_date32(kind) or pa.types.is_time32(kind):
        return values.cast(pa.int32()).cast(pa.int64())
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind):
        return values.cast(pa.int64())
    if pa.types.is_timestamp(kind) or pa.types.is_time64(kind):
        return values.cast(pa.int64())
    if pa.types.is_decimal128(kind):
        return values.cast(pa.decimal128(38, kind.scale))
    if pa.types.is_binary(kind):
        return values
    if pa.types.is_string(kind) or pa.types.is_fixed_size_binary(kind):
        return values.cast(pa.binary())
    if pa.types.is_null(kind):
        return pa.nulls(len(values), pa.int64())
    raise TypeError(f"values of type {kind} have no key")


def _raw(values: pa.Array) -> pa.BinaryArray:
    """The bytes of fixed-width values."""
    return values.view(pa.binary(values.type.bit_width // 8)).cast(pa.binary())
