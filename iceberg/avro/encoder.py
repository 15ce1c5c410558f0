"""Arrow arrays as the Avro encoding of their values, column by column (Appendix A).

Every value becomes a short byte string; a record is its fields' strings joined, which Arrow does at the speed of
copying. A field's encoding is a list of pieces: constants (``bytes``) and binary arrays, to be joined left to right.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.iceberg.avro.container import encode_long
from deltaberg.iceberg.errors import InvalidIcebergRequest
from deltaberg.iceberg.schema.single_value import decimal_words
from deltaberg.iceberg.schema.types import (
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StructType,
    TimestampNsType,
    TimestampType,
    TimestamptzNsType,
    TimestamptzType,
    TimeType,
    Type,
    UnknownType,
    UuidType,
)

Piece: TypeAlias = bytes | pa.BinaryArray
Words: TypeAlias = npt.NDArray[np.uint64]
Sizes: TypeAlias = npt.NDArray[np.int64]

_NULL: Final = b"\x00"
_VALUE: Final = b"\x02"
_END: Final = b"\x00"
_U = np.uint64
_LONGS: Final = (
    IntegerType,
    LongType,
    DateType,
    TimeType,
    TimestampType,
    TimestamptzType,
    TimestampNsType,
    TimestamptzNsType,
)


def encode_records(records: pa.StructArray, kind: StructType) -> pa.BinaryArray:
    """One byte string per record; fields are taken in the order of ``kind``, which must be the array's."""
    return _joined(_struct(records, kind), len(records))


def decimal_size(precision: int) -> int:
    """The fewest bytes that hold every unscaled value of a precision."""
    size = 1
    while 10**precision > 2 ** (8 * size - 1):
        size += 1
    return size


def _field(values: pa.Array, nested: NestedField) -> list[Piece]:
    if nested.required:
        if values.null_count:
            raise InvalidIcebergRequest(
                f"Cannot write Avro field {nested.name}: it is required (field id {nested.field_id}), found null"
            )
        return _value(values, nested.type)
    if isinstance(nested.type, UnknownType) or values.null_count == len(values):
        return [_NULL] if not isinstance(nested.type, UnknownType) else []
    if values.null_count == 0:
        return [_VALUE, *_value(values, nested.type)]
    # Encode the values that are there, and give the places of the others their one byte.
    valid = values.is_valid()
    present = _joined([_VALUE, *_value(values.drop_null(), nested.type)], len(values) - values.null_count)
    rank = np.cumsum(valid.to_numpy(zero_copy_only=False)) - 1
    spread = present.take(pa.array(rank, mask=~valid.to_numpy(zero_copy_only=False)))
    return [pc.fill_null(spread, _NULL)]


def _value(values: pa.Array, kind: Type) -> list[Piece]:
    """The encoding of an array without nulls."""
    match kind:
        case StructType():
            return _struct(values, kind)
        case ListType():
            return _list(values, kind)
        case MapType():
            return _map(values, kind)
        case BooleanType():
            return [_bytes_of(values.cast(pa.uint8()).to_numpy()[:, None])]
        case FloatType() | DoubleType():
            width = 4 if isinstance(kind, FloatType) else 8
            numbers = np.ascontiguousarray(values.to_numpy().astype(f"<f{width}"))
            return [_bytes_of(numbers.view(np.uint8).reshape(len(numbers), width))]
        case DecimalType():
            return [_decimals(values, kind)]
        case FixedType() | UuidType():
            return [values.cast(pa.binary())]
        case _ if isinstance(kind, _LONGS):
            return _longs(_as_int64(values))
        case _:
            return _texts(values.cast(pa.binary()))


def _struct(values: pa.StructArray, kind: StructType) -> list[Piece]:
    pieces: list[Piece] = []
    for slot, nested in enumerate(kind.fields):
        pieces += _field(values.field(slot), nested)
    return pieces


def _list(values: pa.ListArray, kind: ListType) -> list[Piece]:
    offsets, counts = _offsets(values)
    items = values.values.slice(int(offsets[0]), int(offsets[-1] - offsets[0]))
    return _items(counts, _joined(_field(items, kind.element), len(items)), offsets - offsets[0])


def _map(values: pa.MapArray, kind: MapType) -> list[Piece]:
    offsets, counts = _offsets(values)
    start, length = int(offsets[0]), int(offsets[-1] - offsets[0])
    keys, items = values.keys.slice(start, length), values.items.slice(start, length)
    if isinstance(kind.key.type, _LONGS) and kind.value.required and keys.null_count == items.null_count == 0:
        pairs = _pairs(keys, items, kind)
    else:
        pairs = _joined([*_field(keys, kind.key), *_field(items, kind.value)], length)
    return _items(counts, pairs, offsets - offsets[0])


def _pairs(keys: pa.Array, items: pa.Array, kind: MapType) -> pa.BinaryArray:
    """Integer keys and their required values, in one pass where a pair's integers fit into a word."""
    numbers = isinstance(kind.value.type, _LONGS)
    second = _as_int64(items) if numbers else pc.binary_length(items).to_numpy().astype(np.int64)
    first_words, first_sizes = _varints(_as_int64(keys))
    second_words, second_sizes = _varints(second)
    if int(first_sizes.max(initial=0)) + int(second_sizes.max(initial=0)) <= 8:
        words = first_words | (second_words << (first_sizes << 3).view(_U))
        head = _bytes_of_words(words, first_sizes + second_sizes)
    else:
        head = _joined([*_longs(_as_int64(keys)), *_longs(second)], len(keys))
    return head if numbers else pc.binary_join_element_wise(head, items.cast(pa.binary()), b"")


def _offsets(values: pa.ListArray | pa.MapArray) -> tuple[Sizes, Sizes]:
    offsets = values.offsets.to_numpy().astype(np.int64)
    return offsets, np.diff(offsets)


def _items(counts: Sizes, items: pa.BinaryArray, offsets: Sizes) -> list[Piece]:
    """One block of items for each row: a count, the items, and an end marker; only the marker where there are none."""
    if len(items) == 0:
        return [_END]
    starts = np.frombuffer(items.buffers()[1], dtype=np.int32)[items.offset : items.offset + len(items) + 1]
    rows = _binary(starts[offsets], items.buffers()[2], len(counts))
    if int(counts.min()) == int(counts.max()):
        return [encode_long(int(counts[0])), rows, _END]
    words, sizes = _varints(counts)
    return [_bytes_of_words(words, np.where(counts == 0, 0, sizes)), rows, _END]


def _texts(values: pa.BinaryArray) -> list[Piece]:
    if len(values) and values.null_count == 0 and pc.all(pc.equal(values, values[0])).as_py():
        text = values[0].as_py()
        return [encode_long(len(text)) + text]
    return [*_longs(pc.binary_length(values).to_numpy().astype(np.int64)), values]


def _longs(values: npt.NDArray[np.int64]) -> list[Piece]:
    if len(values) and bool((values == values[0]).all()):
        return [encode_long(int(values[0]))]
    zigzag = (values << 1) ^ (values >> 63)
    if len(zigzag) and (int(zigzag.min()) < 0 or int(zigzag.max()) >> 56):
        return [_wide_longs(zigzag.view(_U))]
    return [_bytes_of_words(*_varints(values))]


def _varints(values: npt.NDArray[np.int64]) -> tuple[Words, Sizes]:
    """Varints as little-endian words and their sizes; a size of 9 stands for anything that does not fit a word."""
    zigzag = ((values << 1) ^ (values >> 63)).view(_U)
    most = int(zigzag.max(initial=_U(0)))
    if most < 1 << 7:
        return zigzag, np.ones(len(values), dtype=np.int64)
    if most >= 1 << 56:
        return zigzag, np.full(len(values), 9, dtype=np.int64)
    sizes = np.ones(len(values), dtype=np.int64)
    for bits in range(7, most.bit_length(), 7):
        sizes += zigzag >= _U(1 << bits)
    words = zigzag
    if most >= 1 << 28:
        words = (words & _U(0x000000000FFFFFFF)) | ((words & _U(0x00FFFFFFF0000000)) << _U(4))
    if most >= 1 << 14:
        words = (words & _U(0x00003FFF00003FFF)) | ((words & _U(0x0FFFC0000FFFC000)) << _U(2))
    words = (words & _U(0x007F007F007F007F)) | ((words & _U(0x3F803F803F803F80)) << _U(1))
    words |= _U(0x8080808080808080) & ((_U(1) << ((sizes - 1) << 3).view(_U)) - _U(1))
    return words, sizes


def _wide_longs(zigzag: Words) -> pa.BinaryArray:
    """Varints of any size up to ten bytes."""
    groups = np.empty((len(zigzag), 10), dtype=np.uint8)
    sizes = np.ones(len(zigzag), dtype=np.int64)
    for i in range(10):
        rest = zigzag >> _U(7 * i)
        groups[:, i] = (rest & _U(0x7F)).astype(np.uint8) | 0x80
        if i:
            sizes += rest > 0
    groups[np.arange(len(zigzag)), sizes - 1] &= 0x7F
    return _masked(groups, sizes)


def _bytes_of_words(words: Words, sizes: Sizes) -> pa.BinaryArray:
    """The first ``sizes`` bytes of little-endian words."""
    if len(words) and int(sizes.min()) == int(sizes.max()):
        return _bytes_of(words.astype("<u8").view(np.uint8).reshape(len(words), 8)[:, : int(sizes[0])])
    return _masked(words.astype("<u8").view(np.uint8).reshape(len(words), 8), sizes)


def _masked(cells: npt.NDArray[np.uint8], sizes: Sizes) -> pa.BinaryArray:
    offsets = np.zeros(len(sizes) + 1, dtype=np.int64)
    np.cumsum(sizes, out=offsets[1:])
    width = int(sizes.max(initial=0))
    content = cells[:, :width][np.arange(width) < sizes[:, None]]
    return _binary(offsets.astype(np.int32), pa.py_buffer(content), len(sizes))


def _bytes_of(cells: npt.NDArray[np.uint8]) -> pa.BinaryArray:
    """Rows of a byte matrix."""
    rows, width = cells.shape
    content = np.ascontiguousarray(cells).ravel()
    return _binary(np.arange(rows + 1, dtype=np.int32) * np.int32(width), pa.py_buffer(content), rows)


def _binary(offsets: npt.NDArray[np.int32], content: pa.Buffer | None, length: int) -> pa.BinaryArray:
    return pa.Array.from_buffers(
        pa.binary(), length, [None, pa.py_buffer(np.ascontiguousarray(offsets)), content or pa.py_buffer(b"")]
    )


def _decimals(values: pa.Array, kind: DecimalType) -> pa.BinaryArray:
    words = decimal_words(values)
    size = decimal_size(kind.precision)
    cells = np.ascontiguousarray(words).view(np.uint8).reshape(len(values), 16)
    return _bytes_of(cells[:, size - 1 :: -1] if size < 16 else cells[:, ::-1])


def _as_int64(values: pa.Array) -> npt.NDArray[np.int64]:
    """The integers behind an array of integers, dates, times or timestamps."""
    if pa.types.is_date32(values.type) or pa.types.is_time32(values.type):
        values = values.view(pa.int32())
    elif not pa.types.is_integer(values.type):
        values = values.view(pa.int64())
    return np.ascontiguousarray(values.to_numpy().astype(np.int64))


def _joined(pieces: list[Piece], length: int) -> pa.BinaryArray:
    """The concatenation of all pieces for each row; neighbouring constants become one."""
    parts: list[Piece] = []
    for piece in pieces:
        if isinstance(piece, bytes) and parts and isinstance(parts[-1], bytes):
            parts[-1] += piece
        elif not (isinstance(piece, bytes) and not piece):
            parts.append(piece)
    arrays = [part for part in parts if not isinstance(part, bytes)]
    if not arrays:
        return pa.repeat(pa.scalar(b"".join(part for part in parts if isinstance(part, bytes)), pa.binary()), length)
    if len(parts) == 1:
        return arrays[0]
    scalars = [pa.scalar(part, pa.binary()) if isinstance(part, bytes) else part for part in parts]
    return pc.binary_join_element_wise(*scalars, b"")
