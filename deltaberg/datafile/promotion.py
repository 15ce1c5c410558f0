"""Which stored values may be read as which declared type, and the exact conversion.

The union of Iceberg's schema evolution (section "Schema Evolution") and Delta's type widening (section "Type
Widening"), plus the physical spellings that both formats allow for one logical type (section "Parquet" of each). A pair
that is not listed is refused; a listed conversion is exact or refused, never rounded.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from deltaberg.datafile.hybrid_calendar import HybridCalendar

Convert = Callable[[pa.Array], pa.Array]

_UNIT = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}
_DAY_NS = 86_400_000_000_000
_DIGITS = {
    8: 3,
    16: 5,
    32: 10,
    64: 20,
}  # the digits that Delta requires; its text names 10 and 20, Spark widens byte and short, too


class NotPromotable(Exception):
    """The stored type may not be read as the declared one. Never leaves this package."""


def promotion(source: pa.DataType, target: pa.DataType, calendar: HybridCalendar | None = None) -> Convert | None:
    """The conversion of an array of ``source`` to ``target``; None where there is nothing to do.

    ``calendar``: the calendar that dates and instants of the file are written in, when it is not today's. Timestamps
    without zone are never rebased (Spark has no legacy files of them), and INT96 counts as an instant.

    Raises NotPromotable; the conversion raises ``pa.ArrowInvalid`` for a value that does not fit.
    """
    if isinstance(target, pa.BaseExtensionType):
        wrap = partial(pa.ExtensionArray.from_storage, target)
        inner = promotion(source, target.storage_type, calendar)
        return wrap if inner is None else _after(inner, wrap)
    if isinstance(source, pa.BaseExtensionType):
        inner = promotion(source.storage_type, target, calendar)
        return _after(lambda array: array.storage, inner)
    if pt.is_dictionary(source):
        inner = promotion(source.value_type, target, calendar)
        return _after(lambda array: array.dictionary_decode(), inner)
    if pt.is_run_end_encoded(source):
        inner = promotion(source.value_type, target, calendar)
        return _after(pc.run_end_decode, inner)
    if pt.is_null(target):
        return None if pt.is_null(source) else lambda array: pa.nulls(len(array))
    if pt.is_null(source):
        return lambda array: pa.nulls(len(array), target)
    if pt.is_string(target):
        return _to_string(source)
    if pt.is_date32(source) and calendar is not None:
        inner = promotion(source, target)
        return _after(_rebase_days(calendar), inner)
    if pt.is_timestamp(target):
        return _to_timestamp(source, target, calendar)
    if source == target:
        return None
    if pt.is_signed_integer(target):
        return _to_integer(source, target)
    if pt.is_float64(target) and (pt.is_float32(source) or (pt.is_integer(source) and source.bit_width <= 32)):
        return _cast(target)
    if pt.is_decimal128(target):
        return _to_decimal(source, target)
    if pt.is_binary(target) and _is_bytes(source):
        return _cast(target)
    if pt.is_fixed_size_binary(target) and _is_bytes(source):
        return _to_fixed(target)
    if pt.is_date32(target) and pt.is_date64(source):
        return _cast(target)
    if pt.is_time64(target) and pt.is_time(source):
        return _to_time(source, target)
    raise NotPromotable


def _after(first: Convert, second: Convert | None) -> Convert:
    return first if second is None else lambda array: second(first(array))


def _cast(target: pa.DataType) -> Convert:
    return lambda array: array.cast(target)


def _to_integer(source: pa.DataType, target: pa.DataType) -> Convert:
    # Parquet stores every width up to 32 bits as INT32; the annotation of a narrower one may be missing.
    if not pt.is_integer(source) or (source.bit_width == 64 and target.bit_width < 64):
        raise NotPromotable
    return _cast(target)


def _to_decimal(source: pa.DataType, target: pa.DataType) -> Convert:
    if pt.is_integer(source):
        if target.precision - target.scale < _DIGITS[source.bit_width]:
            raise NotPromotable
        integer = pa.decimal128(20, 0)
        return lambda array: array.cast(pa.int64()).cast(integer).cast(target)
    if not pt.is_decimal(source):
        raise NotPromotable
    if source.scale > target.scale or source.precision - source.scale > target.precision - target.scale:
        raise NotPromotable
    return _cast(target)


def _is_bytes(source: pa.DataType) -> bool:
    text = pt.is_string(source) or pt.is_large_string(source) or pt.is_string_view(source)
    binary = pt.is_binary(source) or pt.is_large_binary(source) or pt.is_binary_view(source)
    return bool(text or binary or pt.is_fixed_size_binary(source))


def _to_string(source: pa.DataType) -> Convert:
    if pt.is_string(source):
        return _valid_text
    if not _is_bytes(source) or pt.is_fixed_size_binary(source):
        raise NotPromotable
    # Parquet files of some writers leave the UTF8 annotation out; a cast from binary checks the bytes.
    return lambda array: array.cast(pa.binary()).cast(pa.string())


def _valid_text(array: pa.Array) -> pa.Array:
    array.validate(full=True)
    return array


def _to_fixed(target: pa.DataType) -> Convert:
    def convert(array: pa.Array) -> pa.Array:
        if pt.is_fixed_size_binary(array.type):
            array = array.cast(pa.binary())
        lengths = pc.binary_length(array.cast(pa.binary()))
        if pc.any(pc.not_equal(lengths, target.byte_width), min_count=0).as_py():
            raise pa.ArrowInvalid(f"a value is not {target.byte_width} bytes long")
        return array.cast(pa.binary()).cast(target)

    return convert


def _to_time(source: pa.DataType, target: pa.DataType) -> Convert:
    width = pa.int32() if pt.is_time32(source) else pa.int64()
    scale = _scaled(_UNIT[source.unit], _UNIT[target.unit])
    return lambda array: scale(array.view(width).cast(pa.int64())).view(target)


def _to_timestamp(source: pa.DataType, target: pa.DataType, calendar: HybridCalendar | None) -> Convert | None:
    if pt.is_date32(source):
        if target.tz is not None:
            raise NotPromotable
        factor = _DAY_NS // _UNIT[target.unit]
        return lambda array: pc.multiply_checked(array.view(pa.int32()).cast(pa.int64()), factor).view(target)
    if not pt.is_timestamp(source):
        raise NotPromotable
    rebased = calendar is not None and target.tz is not None
    if source == target and not rebased:
        return None
    # Whether the file says "adjusted to UTC" or not, its number counts from 1970-01-01T00:00: the declared type
    # decides what the number means, as in Spark and in Iceberg's readers.
    scale = _scaled(_UNIT[source.unit], _UNIT[target.unit])
    if calendar is not None and rebased:
        to_micros, from_micros = _scaled(_UNIT[source.unit], 1_000), _scaled(1_000, _UNIT[target.unit])
        rebase = _rebase_micros(calendar)
        return lambda array: from_micros(rebase(to_micros(array.view(pa.int64())))).view(target)
    return lambda array: scale(array.view(pa.int64())).view(target)


def _scaled(source_ns: int, target_ns: int) -> Convert:
    """int64 counts of one unit as counts of another, exactly."""
    if source_ns == target_ns:
        return lambda array: array
    if source_ns > target_ns:
        factor = source_ns // target_ns
        return lambda array: pc.multiply_checked(array, factor)
    divisor = target_ns // source_ns

    def divide(array: pa.Array) -> pa.Array:
        values = _numbers(array)
        quotient = values // divisor
        if np.any(quotient * divisor != values):
            raise pa.ArrowInvalid("a time of day or timestamp is finer than the declared unit")
        return _with_nulls_of(array, quotient)

    return divide


def _rebase_days(calendar: HybridCalendar) -> Convert:
    def rebase(array: pa.Array) -> pa.Array:
        numbers = array.view(pa.int32()).cast(pa.int64())
        days = calendar.days(_numbers(numbers))
        return _with_nulls_of(numbers, days).cast(pa.int32()).view(pa.date32())

    return rebase


def _rebase_micros(calendar: HybridCalendar) -> Convert:
    def rebase(array: pa.Array) -> pa.Array:
        try:
            return _with_nulls_of(array, calendar.micros(_numbers(array)))
        except ValueError as error:
            raise pa.ArrowInvalid(str(error)) from error

    return rebase


def _numbers(array: pa.Array) -> Any:
    """The int64 values; 0 where null."""
    return (array.fill_null(0) if array.null_count else array).to_numpy(zero_copy_only=False)


def _with_nulls_of(array: pa.Array, values: Any) -> pa.Array:
    return pa.array(
        values, pa.int64(), mask=array.is_null().to_numpy(zero_copy_only=False) if array.null_count else None
    )
