"""Single values as bytes, column-wise (Appendix D, "Binary single-value" and "Bound serialization").

``decode_bounds`` turns a binary array into values of a type, ``encode_bounds`` the other way. The JSON form of
defaults is in ``single_value_json``.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.iceberg.errors import CorruptMetadata, InvalidIcebergRequest
from deltaberg.iceberg.schema.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    GeographyType,
    GeometryType,
    IntegerType,
    LongType,
    StringType,
    TimestampNsType,
    TimestampType,
    TimestamptzNsType,
    TimestamptzType,
    TimeType,
    Type,
    UnknownType,
    UuidType,
    VariantType,
    arrow_type,
    type_name,
)

Ints: TypeAlias = npt.NDArray[np.int64]
Bools: TypeAlias = npt.NDArray[np.bool_]
Bytes: TypeAlias = npt.NDArray[np.uint8]

POINT = pa.struct(
    [
        pa.field("x", pa.float64(), False),
        pa.field("y", pa.float64(), False),
        pa.field("z", pa.float64()),
        pa.field("m", pa.float64()),
    ]
)
_US_PER_DAY = 86_400_000_000
_NS_PER_DAY = 86_400_000_000_000
_DECIMAL_BYTES = 16


def bound_arrow_type(kind: Type) -> pa.DataType:
    """The Arrow type of decoded bounds: that of the values, a point struct for geometry and geography."""
    if isinstance(kind, (GeometryType, GeographyType)):
        return POINT
    if isinstance(kind, VariantType):
        return pa.binary()
    return arrow_type(kind)


def _combined(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


class _Spans:
    """The values of a binary array as one byte buffer with starts and lengths; nulls have length 0."""

    __slots__ = ("data", "lengths", "size", "starts", "valid")

    def __init__(self, array: pa.Array) -> None:
        if (
            pa.types.is_fixed_size_binary(array.type)
            or pa.types.is_binary(array.type)
            or pa.types.is_string(array.type)
        ):
            array = array.cast(pa.large_binary())
        offsets = np.frombuffer(array.buffers()[1] or b"\0" * 8, dtype=np.int64)
        offsets = offsets[array.offset : array.offset + len(array) + 1] if len(array) else np.zeros(1, np.int64)
        buffer = array.buffers()[2]
        self.data: Bytes = np.frombuffer(buffer, dtype=np.uint8) if buffer is not None else np.zeros(0, np.uint8)
        self.valid: Bools = array.is_valid().to_numpy(zero_copy_only=False).astype(bool)
        self.starts: Ints = offsets[:-1]
        self.lengths: Ints = np.where(self.valid, np.diff(offsets), 0)
        self.size = len(array)

    def words(self, at: Ints, dtype: str) -> npt.NDArray[Any]:
        """Little-endian values read at byte positions; the caller has checked that they are in range."""
        width = np.dtype(dtype).itemsize
        if len(self.data) < width:
            return np.zeros(len(at), dtype)
        view = np.ndarray((len(self.data) - width + 1,), dtype=dtype, buffer=self.data, strides=(1,))
        return view[at]


def _with_nulls(values: npt.NDArray[Any], valid: Bools, kind: pa.DataType) -> pa.Array:
    """An Arrow array of a fixed-width type over a NumPy buffer of the same width."""
    bitmap = None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little").tobytes())
    data = np.ascontiguousarray(values)
    return pa.Array.from_buffers(kind, len(valid), [bitmap, pa.py_buffer(data)])


def _wrong_width(spans: _Spans, wrong: Bools, kind: Type, expected: str) -> CorruptMetadata:
    row = int(np.flatnonzero(wrong)[0])
    return CorruptMetadata(
        f"Cannot read a single value of type {type_name(kind)}: expected {expected} bytes, "
        f"found {int(spans.lengths[row])}; the manifest is corrupt"
    )


def _decode_fixed(spans: _Spans, kind: Type, dtype: str) -> npt.NDArray[Any]:
    width = np.dtype(dtype).itemsize
    wrong = spans.valid & (spans.lengths != width)
    if wrong.any():
        raise _wrong_width(spans, wrong, kind, str(width))
    result = np.zeros(spans.size, dtype)
    result[spans.valid] = spans.words(spans.starts[spans.valid], dtype)
    return result


def _decode_widened(spans: _Spans, kind: Type, narrow: str, wide: str, factor: int = 1) -> npt.NDArray[Any]:
    """Values written at the wide width, or at the narrow one before a type promotion (times ``factor``)."""
    size = np.dtype(wide).itemsize
    is_wide = spans.valid & (spans.lengths == size)
    is_narrow = spans.valid & (spans.lengths == np.dtype(narrow).itemsize)
    wrong = spans.valid & ~is_wide & ~is_narrow
    if wrong.any():
        raise _wrong_width(spans, wrong, kind, f"{size} (or {np.dtype(narrow).itemsize} before a promotion)")
    result = np.zeros(spans.size, wide)
    result[is_wide] = spans.words(spans.starts[is_wide], wide)
    narrow_values = spans.words(spans.starts[is_narrow], narrow).astype(wide)
    if factor != 1 and len(narrow_values):
        limit = (2**63 - 1) // factor
        if int(np.abs(narrow_values).max()) > limit:
            raise CorruptMetadata(
                f"Cannot read a single value of type {type_name(kind)}: a promoted date is outside its range"
            )
        narrow_values = narrow_values * factor
    result[is_narrow] = narrow_values
    return result


def _decode_decimal(spans: _Spans, kind: DecimalType) -> pa.Array:
    wrong = spans.valid & ((spans.lengths < 1) | (spans.lengths > _DECIMAL_BYTES))
    if wrong.any():
        raise _wrong_width(spans, wrong, kind, "1 to 16")
    ends = spans.starts + spans.lengths
    matrix = np.zeros((spans.size, _DECIMAL_BYTES), np.uint8)
    rows = np.flatnonzero(spans.valid)
    negative = spans.data[spans.starts[rows]] >= 0x80 if len(rows) else np.zeros(0, bool)
    matrix[rows[negative]] = 0xFF
    longest = int(spans.lengths.max(initial=0))
    for back in range(longest):
        some = rows[spans.lengths[rows] > back]
        matrix[some, back] = spans.data[ends[some] - 1 - back]
    return decimal_from_words(matrix.view("<u8"), spans.valid, kind)


def decimal_from_words(words: npt.NDArray[np.uint64], valid: Bools, kind: DecimalType) -> pa.Array:
    """A decimal128 array from 16-byte little-endian values; raises CorruptMetadata when one has too many digits."""
    low, high = words[:, 0], words[:, 1].astype(np.int64)
    negative = high < 0
    magnitude_low = np.where(negative, ~low + np.uint64(1), low)
    magnitude_high = np.where(negative, (~high).astype(np.uint64) + (low == 0), high.astype(np.uint64))
    limit = 10**kind.precision
    limit_high, limit_low = np.uint64(limit >> 64), np.uint64(limit & (2**64 - 1))
    too_big = (magnitude_high > limit_high) | ((magnitude_high == limit_high) & (magnitude_low >= limit_low))
    if (too_big & valid).any():
        raise CorruptMetadata(
            f"Cannot read a single value of type {type_name(kind)}: it has more than {kind.precision} digits"
        )
    return _with_nulls(words, valid, pa.decimal128(kind.precision, kind.scale))


def _decode_points(spans: _Spans, kind: Type) -> pa.Array:
    wrong = spans.valid & ~np.isin(spans.lengths, (16, 24, 32))
    if wrong.any():
        raise _wrong_width(spans, wrong, kind, "16, 24 or 32")
    columns = []
    for position in range(4):
        has = spans.valid & (spans.lengths >= 8 * (position + 1))
        values = np.zeros(spans.size, "<f8")
        values[has] = spans.words(spans.starts[has] + 8 * position, "<f8")
        missing = np.isnan(values) if position == 2 else np.zeros(spans.size, bool)
        columns.append(pa.array(values, pa.float64(), mask=(~has | missing) & (position >= 2)))
    return pa.StructArray.from_arrays(columns, fields=list(POINT), mask=pa.array(~spans.valid))


def _decode_text(array: pa.Array) -> pa.Array:
    try:
        return array.cast(pa.string())
    except pa.ArrowInvalid as error:
        raise CorruptMetadata("Cannot read a single value of type string: it is not valid UTF-8") from error


def decode_bounds(array: pa.Array | pa.ChunkedArray, kind: Type) -> pa.Array:
    """Values of ``bound_arrow_type(kind)`` from their binary form; null stays null.

    Values written before a type promotion are read at their old width (4-byte ``long``, ``double`` and ``timestamp``).
    Raises CorruptMetadata for a width, digit count or text that the type does not allow.
    """
    array = _combined(array)
    target = bound_arrow_type(kind)
    if isinstance(kind, UnknownType):
        return pa.nulls(len(array))
    if isinstance(kind, StringType):
        return _decode_text(array)
    if isinstance(kind, (BinaryType, VariantType)):
        return array.cast(pa.binary())
    spans = _Spans(array)
    match kind:
        case BooleanType():
            flags = _decode_fixed(spans, kind, "u1") != 0
            return pa.array(flags, pa.bool_(), mask=~spans.valid)
        case IntegerType() | DateType():
            values = _decode_fixed(spans, kind, "<i4")
        case LongType():
            values = _decode_widened(spans, kind, "<i4", "<i8")
        case FloatType():
            values = _decode_fixed(spans, kind, "<f4")
        case DoubleType():
            values = _decode_widened(spans, kind, "<f4", "<f8")
        case TimestampType():
            values = _decode_widened(spans, kind, "<i4", "<i8", _US_PER_DAY)
        case TimestampNsType():
            values = _decode_widened(spans, kind, "<i4", "<i8", _NS_PER_DAY)
        case TimeType() | TimestamptzType() | TimestamptzNsType():
            values = _decode_fixed(spans, kind, "<i8")
        case DecimalType():
            return _decode_decimal(spans, kind)
        case UuidType():
            return _decode_bytes(spans, kind, 16)
        case FixedType():
            return _decode_bytes(spans, kind, kind.length)
        case GeometryType() | GeographyType():
            return _decode_points(spans, kind)
        case _:
            raise InvalidIcebergRequest(f"Cannot decode a bound of type {type_name(kind)}: it has no binary form")
    return _with_nulls(values, spans.valid, target)


def _decode_bytes(spans: _Spans, kind: Type, width: int) -> pa.Array:
    wrong = spans.valid & (spans.lengths != width)
    if wrong.any():
        raise _wrong_width(spans, wrong, kind, str(width))
    if not spans.valid.any():
        return pa.nulls(spans.size, pa.binary(width))
    taken = np.zeros((spans.size, width), np.uint8)
    rows = np.flatnonzero(spans.valid)
    taken[rows] = spans.data[spans.starts[rows][:, None] + np.arange(width)]
    return _with_nulls(taken, spans.valid, pa.binary(width))


def _encoded(values: npt.NDArray[Any], valid: Bools) -> pa.Array:
    """A binary array whose valid rows hold the bytes of fixed-width values."""
    width = values.dtype.itemsize
    offsets = np.zeros(len(valid) + 1, np.int32)
    np.cumsum(np.where(valid, width, 0), out=offsets[1:])
    bitmap = None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little").tobytes())
    data = pa.py_buffer(np.ascontiguousarray(values[valid]))
    return pa.Array.from_buffers(pa.binary(), len(valid), [bitmap, pa.py_buffer(offsets), data])


def decimal_words(array: pa.Array) -> npt.NDArray[np.uint64]:
    """The unscaled values of a decimal array as rows of (low, high) 64-bit words."""
    array = array.cast(pa.decimal128(38, array.type.scale)) if not pa.types.is_decimal128(array.type) else array
    buffer = array.buffers()[1]
    if buffer is None or len(array) == 0:
        return np.zeros((len(array), 2), np.uint64)
    words = np.frombuffer(buffer, dtype="<u8")
    return words[2 * array.offset : 2 * (array.offset + len(array))].reshape(-1, 2)


def minimal_big_endian(words: npt.NDArray[np.uint64]) -> tuple[Bytes, Ints, Ints]:
    """128-bit values as their shortest two's-complement big-endian bytes: (buffer, starts, lengths)."""
    low, high = words[:, 0], words[:, 1]
    flip = np.where(high >> np.uint64(63), np.uint64(2**64 - 1), np.uint64(0))
    low, high = low ^ flip, high ^ flip
    lengths = np.ones(len(words), np.int64)
    for bits in range(7, 64, 8):
        lengths += (low >> np.uint64(bits)) != 0
    wide = np.flatnonzero(high | (low >> np.uint64(63)))
    if len(wide):
        extra = np.full(len(wide), 9, np.int64)
        for bits in range(7, 63, 8):
            extra += (high[wide] >> np.uint64(bits)) != 0
        lengths[wide] = extra
    big = np.ascontiguousarray(words[:, ::-1].byteswap()).view(np.uint8).reshape(-1)
    return big, np.arange(len(words), dtype=np.int64) * _DECIMAL_BYTES + (_DECIMAL_BYTES - lengths), lengths


def _encode_decimal(array: pa.Array, valid: Bools) -> pa.Array:
    buffer, _, lengths = minimal_big_endian(decimal_words(array))
    lengths = np.where(valid, lengths, 0)
    offsets = np.zeros(len(valid) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    keep = np.arange(_DECIMAL_BYTES)[None, :] >= (_DECIMAL_BYTES - lengths)[:, None]
    data = buffer.reshape(-1, _DECIMAL_BYTES)[keep]
    bitmap = None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little").tobytes())
    return pa.Array.from_buffers(
        pa.binary(), len(valid), [bitmap, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(data)]
    )


def _encode_points(array: pa.Array, valid: Bools) -> pa.Array:
    x, y, z, m = (array.field(i) for i in range(4))
    pieces = np.stack([c.fill_null(float("nan")).to_numpy(zero_copy_only=False).astype("<f8") for c in (x, y, z, m)], 1)
    has_m = m.is_valid().to_numpy(zero_copy_only=False)
    has_z = z.is_valid().to_numpy(zero_copy_only=False)
    counts = np.where(valid, np.where(has_m, 4, np.where(has_z, 3, 2)), 0)
    data = pieces[np.arange(4)[None, :] < counts[:, None]]
    offsets = np.zeros(len(valid) + 1, np.int32)
    np.cumsum(counts * 8, out=offsets[1:])
    bitmap = None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little").tobytes())
    return pa.Array.from_buffers(pa.binary(), len(valid), [bitmap, pa.py_buffer(offsets), pa.py_buffer(data)])


def _numbers(array: pa.Array, dtype: str) -> npt.NDArray[Any]:
    """The value buffer of a fixed-width array, nulls as whatever stands there."""
    buffer = array.buffers()[1]
    if buffer is None or len(array) == 0:
        return np.zeros(len(array), dtype)
    return np.frombuffer(buffer, dtype=dtype)[array.offset : array.offset + len(array)]


_ENCODED_AS: dict[type, str] = {
    IntegerType: "<i4",
    DateType: "<i4",
    LongType: "<i8",
    TimeType: "<i8",
    TimestampType: "<i8",
    TimestamptzType: "<i8",
    TimestampNsType: "<i8",
    TimestamptzNsType: "<i8",
    FloatType: "<f4",
    DoubleType: "<f8",
}


def encode_bounds(array: pa.Array | pa.ChunkedArray, kind: Type) -> pa.Array:
    """The binary form of values of ``bound_arrow_type(kind)``; null stays null, and NaN (never a bound) becomes null.

    The array is cast to the type's Arrow type first; raises InvalidIcebergRequest when a value does not fit.
    """
    array = _combined(array)
    if isinstance(kind, UnknownType):
        return pa.nulls(len(array), pa.binary())
    try:
        array = array if array.type == bound_arrow_type(kind) else array.cast(bound_arrow_type(kind))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidIcebergRequest(
            f"Cannot encode values of Arrow type {array.type} as {type_name(kind)}: {str(error).splitlines()[0]}"
        ) from error
    if isinstance(kind, (StringType, BinaryType, VariantType)):
        return array.cast(pa.binary())
    if isinstance(kind, (UuidType, FixedType)):
        return array.cast(pa.binary())
    valid: Bools = array.is_valid().to_numpy(zero_copy_only=False).astype(bool)
    if isinstance(kind, BooleanType):
        return _encoded(array.fill_null(False).cast(pa.uint8()).to_numpy(), valid)
    if isinstance(kind, DecimalType):
        return _encode_decimal(array, valid)
    if isinstance(kind, (GeometryType, GeographyType)):
        return _encode_points(array, valid)
    dtype = _ENCODED_AS.get(type(kind))
    if dtype is None:
        raise InvalidIcebergRequest(f"Cannot encode a bound of type {type_name(kind)}: it has no binary form")
    values = _numbers(array, dtype)
    if isinstance(kind, (FloatType, DoubleType)):
        valid = valid & ~np.isnan(values)
    return _encoded(values, valid)


def single_value_bytes(value: object, kind: Type) -> bytes | None:
    """The binary form of one Python value."""
    encoded: bytes | None = encode_bounds(pa.array([value], bound_arrow_type(kind)), kind)[0].as_py()
    return encoded


def minimum_and_maximum(array: pa.Array) -> tuple[pa.Scalar, pa.Scalar]:
    """Smallest and largest non-null value of a primitive array, NaN left out, -0.0 below +0.0; null when none."""
    if pa.types.is_floating(array.type):
        array = array.filter(pc.invert(pc.is_nan(array)))
        values = array.drop_null().to_numpy(zero_copy_only=False)
        if not len(values):
            return pa.scalar(None, array.type), pa.scalar(None, array.type)
        low, high = values.min(), values.max()
        zeros = values[values == 0]
        low = -0.0 if low == 0 and np.signbit(zeros).any() else low
        high = 0.0 if high == 0 and not np.signbit(zeros).all() else high
        return pa.scalar(low, array.type), pa.scalar(high, array.type)
    if pa.types.is_fixed_size_binary(array.type):
        low, high = minimum_and_maximum(array.cast(pa.binary()))
        return low.cast(array.type), high.cast(array.type)
    if pa.types.is_null(array.type):
        return pa.scalar(None, array.type), pa.scalar(None, array.type)
    found = pc.min_max(array)
    return found["min"], found["max"]
