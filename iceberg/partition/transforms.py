"""Partition transforms (section "Partition Transforms"), applied to whole Arrow arrays.

Every transform returns null for null. Unknown transforms are kept and never applied.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.iceberg.errors import InvalidIcebergRequest, UnsupportedIcebergFeature
from deltaberg.iceberg.partition.bucket_hash import hash_array
from deltaberg.iceberg.schema.json_object import as_text, rejected
from deltaberg.iceberg.schema.single_value import decimal_words
from deltaberg.iceberg.schema.types import (
    BinaryType,
    DateType,
    DecimalType,
    FixedType,
    GeographyType,
    GeometryType,
    IntegerType,
    LongType,
    PrimitiveType,
    StringType,
    TimestampNsType,
    TimestampType,
    TimestamptzNsType,
    TimestamptzType,
    TimeType,
    Type,
    UuidType,
    type_name,
)

_TIMESTAMPS = (TimestampType, TimestamptzType, TimestampNsType, TimestamptzNsType)
_BUCKETED = (
    IntegerType, LongType, DecimalType, DateType, TimeType, *_TIMESTAMPS, StringType, UuidType, FixedType, BinaryType,
)  # fmt: skip
_TRUNCATED = (IntegerType, LongType, DecimalType, StringType, BinaryType)
_MAX = 2**31 - 1
_UNITS_PER_HOUR = {"s": 3600, "ms": 3_600_000, "us": 3_600_000_000, "ns": 3_600_000_000_000}


@dataclass(frozen=True, slots=True, kw_only=True)
class IdentityTransform:
    """The source value itself."""

    def accepts(self, source: Type) -> bool:
        return isinstance(source, PrimitiveType) and not isinstance(source, (GeometryType, GeographyType))

    def result_type(self, source: Type) -> Type:
        return source

    def apply(self, array: pa.Array | pa.ChunkedArray) -> pa.Array:
        return _combined(array)

    def __str__(self) -> str:
        return "identity"


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketTransform:
    """A hash of the value, modulo ``num_buckets``."""

    num_buckets: int

    def accepts(self, source: Type) -> bool:
        return isinstance(source, _BUCKETED)

    def result_type(self, source: Type) -> Type:
        return IntegerType()

    def apply(self, array: pa.Array | pa.ChunkedArray) -> pa.Array:
        array = _combined(array)
        buckets = hash_array(array)
        buckets &= np.uint32(_MAX)
        buckets %= np.uint32(self.num_buckets)
        return _int32(buckets.view(np.int32), array)

    def __str__(self) -> str:
        return f"bucket[{self.num_buckets}]"


@dataclass(frozen=True, slots=True, kw_only=True)
class TruncateTransform:
    """The value cut to ``width``: numbers down to a multiple, text to code points, binary to bytes.

    A number whose multiple lies below its type's range wraps around, as in the reference implementation.
    """

    width: int

    def accepts(self, source: Type) -> bool:
        return isinstance(source, _TRUNCATED)

    def result_type(self, source: Type) -> Type:
        return source

    def apply(self, array: pa.Array | pa.ChunkedArray) -> pa.Array:
        array = _combined(array)
        kind = array.type
        if pa.types.is_int32(kind) or pa.types.is_int64(kind):
            values = _values(array, "<i4" if pa.types.is_int32(kind) else "<i8")
            width = values.dtype.type(self.width)
            with np.errstate(over="ignore"):
                return _fixed_width(np.floor_divide(values, width) * width, array)
        if pa.types.is_decimal(kind):
            return _truncate_decimal(array, self.width)
        if pa.types.is_string(kind) or pa.types.is_large_string(kind):
            return pc.utf8_slice_codeunits(array, 0, self.width)
        if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
            return pc.binary_slice(array, 0, self.width)
        raise _refused(self, kind)

    def __str__(self) -> str:
        return f"truncate[{self.width}]"


@dataclass(frozen=True, slots=True, kw_only=True)
class YearTransform:
    """Years since 1970."""

    def accepts(self, source: Type) -> bool:
        return isinstance(source, (DateType, *_TIMESTAMPS))

    def result_type(self, source: Type) -> Type:
        return IntegerType()

    def apply(self, array: pa.Array | pa.ChunkedArray) -> pa.Array:
        array = _combined(array)
        return _int32(_calendar_units(_days(array, self), "Y"), array)

    def __str__(self) -> str:
        return "year"


@dataclass(frozen=True, slots=True, kw_only=True)
class MonthTransform:
    """Months since 1970-01."""

    def accepts(self, source: Type) -> bool:
        return isinstance(source, (DateType, *_TIMESTAMPS))

    def result_type(self, source: Type) -> Type:
        return IntegerType()

    def apply(self, array: pa.Array | pa.ChunkedArray) -> pa.Array:
        array = _combined(array)
        return _int32(_calendar_units(_days(array, self), "M"), array)

    def __str__(self) -> str:
        return "month"


@dataclass(frozen=True, slots=True, kw_only=True)
class DayTransform:
    """The date; stored as days since 1970-01-01, by older writers under the type int."""

    def accepts(self, source: Type) -> bool:
        return isinstance(source, (DateType, *_TIMESTAMPS))

    def result_type(self, source: Type) -> Type:
        return DateType()

    def apply(self, array: pa.Array | pa.ChunkedArray) -> pa.Array:
        array = _combined(array)
        return _int32(_days(array, self), array, pa.date32())

    def __str__(self) -> str:
        return "day"


@dataclass(frozen=True, slots=True, kw_only=True)
class HourTransform:
    """Hours since 1970-01-01 00:00."""

    def accepts(self, source: Type) -> bool:
        return isinstance(source, _TIMESTAMPS)

    def result_type(self, source: Type) -> Type:
        return IntegerType()

    def apply(self, array: pa.Array | pa.ChunkedArray) -> pa.Array:
        array = _combined(array)
        if not pa.types.is_timestamp(array.type):
            raise _refused(self, array.type)
        return _int32(np.floor_divide(_values(array, "<i8"), _UNITS_PER_HOUR[array.type.unit]), array)

    def __str__(self) -> str:
        return "hour"


@dataclass(frozen=True, slots=True, kw_only=True)
class VoidTransform:
    """Always null; how a version 1 table drops a partition field."""

    def accepts(self, source: Type) -> bool:
        return True

    def result_type(self, source: Type) -> Type:
        return source if isinstance(source, PrimitiveType) else IntegerType()

    def apply(self, array: pa.Array | pa.ChunkedArray) -> pa.Array:
        return pa.nulls(len(array), array.type)

    def __str__(self) -> str:
        return "void"


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownTransform:
    """A transform that no version of the specification defines: kept, ignored in filters, never written with.

    Its result type is unknown; values are handled as strings, as the reference implementation does.
    """

    text: str

    def accepts(self, source: Type) -> bool:
        return True

    def result_type(self, source: Type) -> Type:
        return StringType()

    def apply(self, array: pa.Array | pa.ChunkedArray) -> pa.Array:
        raise UnsupportedIcebergFeature(
            f"Cannot apply the partition transform {self.text!r}: the specification does not define it",
            feature=f"transform {self.text}",
        )

    def __str__(self) -> str:
        return self.text


Transform: TypeAlias = (
    IdentityTransform
    | BucketTransform
    | TruncateTransform
    | YearTransform
    | MonthTransform
    | DayTransform
    | HourTransform
    | VoidTransform
    | UnknownTransform
)

_PLAIN: dict[str, Transform] = {
    "identity": IdentityTransform(),
    "year": YearTransform(),
    "month": MonthTransform(),
    "day": DayTransform(),
    "hour": HourTransform(),
    "void": VoidTransform(),
}
_PARAMETRISED = re.compile(r"(bucket|truncate)\[\s*(-?[0-9]+)\s*\]")


def parse_transform(value: object, path: str = "$") -> Transform:
    """The transform that a JSON string names; an undefined one becomes UnknownTransform.

    Raises CorruptMetadata for a bucket count or width that is not a positive 32-bit integer.
    """
    text = as_text(value, path)
    plain = _PLAIN.get(text)
    if plain is not None:
        return plain
    match = _PARAMETRISED.fullmatch(text)
    if match is None:
        return UnknownTransform(text=text)
    number = int(match[2]) if len(match[2]) <= 10 else 0
    if not 1 <= number <= _MAX:
        raise rejected(path, f"a {match[1]} parameter from 1 to {_MAX}", text)
    return BucketTransform(num_buckets=number) if match[1] == "bucket" else TruncateTransform(width=number)


def check_transform(transform: Transform, source: Type, name: str) -> None:
    """Raise InvalidIcebergRequest unless a transform is defined for a source type."""
    if not transform.accepts(source):
        raise InvalidIcebergRequest(
            f"Cannot use transform {transform} in partition field {name}: it is not defined for {type_name(source)}"
        )


def _combined(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    array = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
    return array.dictionary_decode() if isinstance(array, pa.DictionaryArray) else array


def _refused(transform: Transform, kind: pa.DataType) -> InvalidIcebergRequest:
    return InvalidIcebergRequest(f"Cannot apply transform {transform} to values of Arrow type {kind}")


def _values(array: pa.Array, dtype: str) -> npt.NDArray[Any]:
    buffer = array.buffers()[1]
    if buffer is None or len(array) == 0:
        return np.zeros(len(array), dtype)
    return np.frombuffer(buffer, dtype)[array.offset : array.offset + len(array)]


def _fixed_width(values: npt.NDArray[Any], source: pa.Array, kind: pa.DataType | None = None) -> pa.Array:
    """Values under the validity of the source array."""
    bitmap = None
    if source.null_count:
        valid = source.is_valid().to_numpy(zero_copy_only=False)
        bitmap = pa.py_buffer(np.packbits(valid, bitorder="little").tobytes())
    return pa.Array.from_buffers(
        source.type if kind is None else kind, len(source), [bitmap, pa.py_buffer(np.ascontiguousarray(values))]
    )


def _int32(values: npt.NDArray[Any], source: pa.Array, kind: pa.DataType | None = None) -> pa.Array:
    narrow = values.astype(np.int32)
    if values.dtype != np.int32 and (narrow != values).any():
        valid = source.is_valid().to_numpy(zero_copy_only=False)
        if ((narrow != values) & valid).any():
            raise InvalidIcebergRequest(
                "Cannot apply a time transform: a value lies outside the 32-bit range of its result"
            )
    return _fixed_width(narrow, source, pa.int32() if kind is None else kind)


def _days(array: pa.Array, transform: Transform) -> npt.NDArray[Any]:
    if pa.types.is_date32(array.type):
        return _values(array, "<i4")
    if pa.types.is_timestamp(array.type):
        days: npt.NDArray[np.int64] = np.floor_divide(_values(array, "<i8"), 24 * _UNITS_PER_HOUR[array.type.unit])
        return days
    raise _refused(transform, array.type)


def _calendar_units(days: npt.NDArray[Any], unit: str) -> npt.NDArray[np.int64]:
    units: npt.NDArray[np.int64] = days.astype("<i8").view("datetime64[D]").astype(f"datetime64[{unit}]").view("<i8")
    return units


def _truncate_decimal(array: pa.Array, width: int) -> pa.Array:
    """Floor the unscaled 128-bit values to a multiple of ``width`` (which takes the column's scale)."""
    kind = array.type
    words = decimal_words(array)
    low, high = words[:, 0], words[:, 1]
    divisor = np.uint64(width)
    narrow = high == np.where(low >> np.uint64(63), np.uint64(2**64 - 1), np.uint64(0))
    if narrow.all():
        remainder = np.mod(low.view(np.int64), np.int64(width)).view(np.uint64)
    else:
        remainder = np.zeros(len(words), np.uint64)
        for limb in (
            high >> np.uint64(32),
            high & np.uint64(_MAX * 2 + 1),
            low >> np.uint64(32),
            low & np.uint64(_MAX * 2 + 1),
        ):
            remainder = ((remainder << np.uint64(32)) | limb) % divisor
        # The words were read as unsigned: a negative value is 2**128 less.
        negative = (high >> np.uint64(63)) != 0
        remainder = np.where(negative, (remainder + np.uint64(width - 2**128 % width)) % divisor, remainder)
    result = np.empty_like(words)
    result[:, 0] = low - remainder
    result[:, 1] = high - (low < remainder)
    return _fixed_width(result, array, pa.decimal128(kind.precision, kind.scale))
