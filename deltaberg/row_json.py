"""Rows as JSON values and as text, as ``scan`` prints them.

Integers, strings and booleans are themselves. Floats too, except ``"NaN"``, ``"Infinity"`` and ``"-Infinity"``.
Decimals are strings at full scale. Binary is base64. Dates, times and timestamps are ISO 8601, instants with ``Z``,
with as many fraction digits as the unit has. Lists are arrays, structs are objects, maps are arrays of ``[key,
value]``.
"""

from __future__ import annotations

import base64
import datetime as dt
import math
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

_DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_EPOCH = dt.datetime(1970, 1, 1)


def row_objects(batch: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    """Each row as an object of JSON values, columns in order."""
    names = batch.schema.names
    columns = [_values(batch.column(index)) for index in range(batch.num_columns)]
    if not columns:
        yield from ({} for _ in range(batch.num_rows))
    for row in zip(*columns, strict=True):
        yield dict(zip(names, row, strict=True))


def _values(array: pa.Array) -> list[Any]:
    convert = _converter(array.type)
    raw = _plain(array).to_pylist()
    return [None if value is None else convert(value) for value in raw]


def _plain(array: pa.Array) -> pa.Array:
    """Timestamps and times as integers: Python's datetime has neither nanoseconds nor every year."""
    target = _integers(array.type)
    return array if target == array.type else array.cast(target)


def _integers(type_: pa.DataType) -> pa.DataType:
    if pt.is_timestamp(type_) or pt.is_time64(type_):
        return pa.int64()
    if pt.is_time32(type_) or pt.is_date32(type_):
        return pa.int32()
    if pt.is_dictionary(type_):
        return _integers(type_.value_type)
    if pt.is_struct(type_):
        return pa.struct([field.with_type(_integers(field.type)) for field in type_])
    if pt.is_map(type_):
        return pa.map_(
            type_.key_field.with_type(_integers(type_.key_type)), type_.item_field.with_type(_integers(type_.item_type))
        )
    if pt.is_list(type_):
        return pa.list_(type_.value_field.with_type(_integers(type_.value_type)))
    if pt.is_large_list(type_):
        return pa.large_list(type_.value_field.with_type(_integers(type_.value_type)))
    return type_


def _converter(type_: pa.DataType) -> Callable[[Any], Any]:
    if pt.is_dictionary(type_):
        return _converter(type_.value_type)
    if pt.is_floating(type_):
        return _float
    if pt.is_decimal(type_):
        return lambda value: format(value, "f")
    if pt.is_binary(type_) or pt.is_large_binary(type_) or pt.is_fixed_size_binary(type_) or pt.is_binary_view(type_):
        return lambda value: base64.b64encode(value).decode("ascii")
    if pt.is_date32(type_):
        return _date
    if pt.is_timestamp(type_):
        unit, zone = type_.unit, "Z" if type_.tz is not None else ""
        return lambda ticks: _instant(ticks, unit) + zone
    if pt.is_time(type_):
        time_unit = type_.unit
        return lambda ticks: _instant(ticks, time_unit)[11:]
    if pt.is_struct(type_):
        fields = [(field.name, _converter(field.type)) for field in type_]
        return lambda value: {name: None if value[name] is None else convert(value[name]) for name, convert in fields}
    if pt.is_map(type_):
        key, item = _converter(type_.key_type), _converter(type_.item_type)
        return lambda pairs: [[key(k), None if v is None else item(v)] for k, v in pairs]
    if pt.is_list(type_) or pt.is_large_list(type_):
        element = _converter(type_.value_type)
        return lambda values: [None if value is None else element(value) for value in values]
    return lambda value: value


def _float(value: float) -> float | str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value


def _date(days: int) -> str:
    return _instant(days * 86_400, "s")[:-9]


def _instant(ticks: int, unit: str) -> str:
    """``YYYY-MM-DDTHH:MM:SS[.fraction]``; years outside 1 to 9999 in astronomical numbering with a sign."""
    seconds, rest = divmod(ticks, _PER_SECOND[unit])
    # The calendar repeats every 400 years of 146,097 days, so any year can be had from one that datetime knows.
    eras, second = divmod(seconds, 146_097 * 86_400)
    moment = _EPOCH + dt.timedelta(seconds=second)
    year = moment.year + 400 * eras
    date = f"{year:04d}" if 0 <= year <= 9999 else f"{year:+05d}"
    fraction = f".{rest:0{_DIGITS[unit]}d}" if _DIGITS[unit] else ""
    return f"{date}-{moment:%m-%dT%H:%M:%S}{fraction}"
