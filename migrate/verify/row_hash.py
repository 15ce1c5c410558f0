"""A 64-bit hash of every row that does not depend on the format: equal values hash alike on both sides.

Integers of every width are one kind, as are texts and bytes of every Arrow flavour. NaN equals NaN, -0.0 differs from
0.0. Lists count their order, maps do not. Sums of such hashes compare tables as multisets of rows without sorting.

Hashes of two keys are as good as independent: a pair of them is a hash of 128 bits. They protect against accidents, not
against an adversary who constructs two texts of a kilobyte or more that collide under every key.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

Hashes = npt.NDArray[np.uint64]

_SLICE_ROWS: Final = 8192
_ONE: Final = np.uint64(1)
_MIX_A: Final = np.uint64(0xBF58476D1CE4E5B9)
_MIX_B: Final = np.uint64(0x94D049BB133111EB)
_KEY: Final = np.uint64(0xA24BAED4963EE407)
_VALUE: Final = np.uint64(0x9FB21C651E98DF25)


@dataclass(frozen=True, slots=True, kw_only=True)
class HashKey:
    """Which of many hash functions: two numbers of 64 bits, ``base`` odd."""

    salt: int
    base: int


USUAL_KEY: Final = HashKey(salt=0x9E3779B97F4A7C15, base=0xD6E8FEB86659FD93)


def column_hashes(values: pa.Array, key: HashKey = USUAL_KEY) -> Hashes:
    """One hash a value."""
    with np.errstate(over="ignore"):
        return _hashes(values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values, key)


def row_hashes(columns: Mapping[str, Hashes], rows: int, key: HashKey = USUAL_KEY) -> Hashes:
    """One hash a row, from the hashes of its columns by name, made with the same key."""
    with np.errstate(over="ignore"):
        total = np.zeros(rows, np.uint64)
        for name, hashes in columns.items():
            total += _mix(hashes ^ np.uint64(zlib.crc32(name.encode("utf-8", "surrogatepass")) | 1 << 40), key)
        return _mix(total, key)


def _hashes(values: pa.Array, key: HashKey) -> Hashes:
    kind = values.type
    if isinstance(kind, pa.BaseExtensionType):
        return _hashes(values.storage, key)
    if pt.is_null(kind):
        return np.full(len(values), np.uint64(key.salt))
    hashes = _valid_hashes(values, kind, key)
    if values.null_count:
        hashes = np.where(_mask(values.is_valid()), hashes, np.uint64(key.salt))
    return hashes


def _valid_hashes(values: pa.Array, kind: pa.DataType, key: HashKey) -> Hashes:
    """Hashes that are meaningful where the value is not null."""
    if pt.is_struct(kind):
        return _struct_hashes(values, kind, key)
    if pt.is_map(kind):
        return _map_hashes(values, key)
    if pt.is_list(kind) or pt.is_large_list(kind) or pt.is_fixed_size_list(kind):
        return _list_hashes(values, key)
    if pt.is_string(kind) or pt.is_large_string(kind) or pt.is_binary(kind) or pt.is_large_binary(kind):
        return _bytes_hashes(values.cast(pa.large_binary()), key)
    if pt.is_fixed_size_binary(kind):
        return _bytes_hashes(values.cast(pa.binary()).cast(pa.large_binary()), key)
    if pt.is_decimal(kind):
        return _decimal_hashes(values, kind, key)
    return _mix(_bits(values, kind), key)


def _bits(values: pa.Array, kind: pa.DataType) -> Hashes:
    if pt.is_boolean(kind):
        filled = pc.fill_null(values, False)
        return np.asarray(filled.to_numpy(zero_copy_only=False), np.uint64)
    if pt.is_floating(kind):
        numbers = pc.fill_null(values, 0.0).to_numpy(zero_copy_only=False).astype(np.float64)
        bits = numbers.view(np.uint64).copy()
        bits[np.isnan(numbers)] = np.uint64(0x7FF8000000000000)
        return np.asarray(bits, np.uint64)
    if pt.is_integer(kind):
        whole = values.cast(pa.int64()) if not pt.is_uint64(kind) else values
    else:
        whole = values.cast(pa.int32()).cast(pa.int64()) if kind.bit_width == 32 else values.cast(pa.int64())
    numbers = pc.fill_null(whole, 0).to_numpy(zero_copy_only=False)
    return np.asarray(np.ascontiguousarray(numbers).view(np.uint64), np.uint64)


def _decimal_hashes(values: pa.Array, kind: pa.DataType, key: HashKey) -> Hashes:
    """The unscaled number and the scale: a value has one scale throughout its column."""
    wide = values.cast(pa.decimal128(38, kind.scale))
    words = np.frombuffer(wide.buffers()[1], np.uint64)[2 * wide.offset : 2 * (wide.offset + len(wide))]
    hashes: Hashes = _mix(words[0::2] + _mix(words[1::2] + np.uint64(kind.scale), key), key)
    return hashes


def _bytes_hashes(values: pa.Array, key: HashKey) -> Hashes:
    """A polynomial of the bytes, modulo 2**64, with the length."""
    if len(values) > _SLICE_ROWS:  # what the processor's cache holds is several times faster
        parts = range(0, len(values), _SLICE_ROWS)
        return np.concatenate([_bytes_hashes(values.slice(start, _SLICE_ROWS), key) for start in parts])
    offsets = np.frombuffer(values.buffers()[1], np.int64)[values.offset : values.offset + len(values) + 1]
    lengths = np.diff(offsets)
    buffer = values.buffers()[2]
    data = np.frombuffer(buffer, np.uint8)[offsets[0] : offsets[-1]] if buffer is not None else np.zeros(0, np.uint8)
    starts = offsets[:-1] - offsets[0]
    place = np.arange(len(data)) - np.repeat(starts, lengths)
    longest = int(lengths.max()) if len(lengths) else 0
    powers = np.cumprod(np.full(max(longest, 1), key.base, np.uint64), dtype=np.uint64)
    terms = (data.astype(np.uint64) + _ONE) * powers[place]
    return _mix(_sums(terms, starts, lengths) + lengths.astype(np.uint64), key)


def _sums(terms: Hashes, starts: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]) -> Hashes:
    """The sum of each run of terms; 0 for an empty one."""
    totals = np.concatenate((np.zeros(1, np.uint64), np.cumsum(terms, dtype=np.uint64)))
    result: Hashes = totals[starts + lengths] - totals[starts]
    return result


def _struct_hashes(values: pa.Array, kind: pa.DataType, key: HashKey) -> Hashes:
    """Fields of the null type do not count: a table of the other format may be without them."""
    total = np.zeros(len(values), np.uint64)
    for place, child in enumerate(values.flatten()):
        if pt.is_null(child.type):
            continue
        name = zlib.crc32(kind.field(place).name.encode("utf-8", "surrogatepass"))
        total += _mix(_hashes(child, key) ^ np.uint64(name | 1 << 36), key)
    return _mix(total + _ONE, key)


def _list_hashes(values: Any, key: HashKey) -> Hashes:
    lengths = np.asarray(pc.fill_null(pc.list_value_length(values), 0).to_numpy(zero_copy_only=False), np.int64)
    starts = np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths)[:-1])) if len(lengths) else lengths
    elements = _hashes(values.flatten(), key)
    place = np.arange(len(elements), dtype=np.uint64) - np.repeat(starts, lengths).astype(np.uint64)
    return _mix(_sums(_mix(elements + place * _KEY, key), starts, lengths) + lengths.astype(np.uint64), key)


def _map_hashes(values: pa.MapArray, key: HashKey) -> Hashes:
    offsets = np.asarray(values.offsets.to_numpy(), np.int64)
    first, last = int(offsets[0]), int(offsets[-1])
    keys = _hashes(values.keys.slice(first, last - first), key)
    items = _hashes(values.items.slice(first, last - first), key)
    lengths = np.diff(offsets)
    terms = _mix(keys * _KEY + _mix(items * _VALUE, key), key)
    return _mix(_sums(terms, offsets[:-1] - first, lengths) + lengths.astype(np.uint64), key)


def _mix(numbers: Hashes, key: HashKey) -> Hashes:
    """The finaliser of splitmix64."""
    mixed = numbers + np.uint64(key.salt)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * _MIX_A
    mixed = (mixed ^ (mixed >> np.uint64(27))) * _MIX_B
    result: Hashes = mixed ^ (mixed >> np.uint64(31))
    return result


def _mask(values: pa.Array) -> npt.NDArray[np.bool_]:
    return np.asarray(values.to_numpy(zero_copy_only=False), dtype=bool)
