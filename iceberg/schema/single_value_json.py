"""Single values as JSON: the form of ``initial-default`` and ``write-default`` (Appendix D)."""

from __future__ import annotations

import datetime
import math
import re
import struct
from decimal import Decimal, InvalidOperation
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa

from deltaberg.iceberg.errors import InvalidIcebergRequest
from deltaberg.iceberg.schema.json_object import JsonObject, as_bool, as_int, as_list, as_long, as_text, rejected
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
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
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

_DATE = re.compile(r"([+-]?[0-9]{4,9})-([0-9]{2})-([0-9]{2})")
_CLOCK = re.compile(r"([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:\.([0-9]{1,9}))?)?")
_HEX = re.compile(r"(?:[0-9a-fA-F]{2})*")
_UUID = re.compile(r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}")
_UTC = ("+00:00", "Z")
_EPOCH = np.datetime64("1970-01-01", "D")
_INT_MAX = 2**31 - 1
_LONG_MAX = 2**63 - 1
_PER_SECOND = {"us": 1_000_000, "ns": 1_000_000_000}


def _days(text: str, path: str) -> int:
    match = _DATE.fullmatch(text)
    if match is None:
        raise rejected(path, "an ISO 8601 date", text)
    year, month, day = int(match[1]), int(match[2]), int(match[3])
    if not (1 <= month <= 12 and 1 <= day <= 31):
        raise rejected(path, "an ISO 8601 date", text)
    first = np.datetime64(year - 1970, "Y").astype("datetime64[M]") + np.timedelta64(month - 1, "M")
    days = first.astype("datetime64[D]") + np.timedelta64(day - 1, "D")
    if days.astype("datetime64[M]") != first:
        raise rejected(path, "a day that the calendar has", text)
    result = int((days - _EPOCH).astype(np.int64))
    if not -_INT_MAX - 1 <= result <= _INT_MAX:
        raise rejected(path, "a date within 32-bit days", text)
    return result


def _clock(text: str, unit: str, path: str) -> int:
    match = _CLOCK.fullmatch(text)
    if match is None:
        raise rejected(path, "an ISO 8601 time", text)
    hour, minute, second = int(match[1]), int(match[2]), int(match[3] or 0)
    if hour > 23 or minute > 59 or second > 59:
        raise rejected(path, "an ISO 8601 time", text)
    digits = (match[4] or "").ljust(9, "0")
    fraction = int(digits) if unit == "ns" else int(digits[:6])
    if unit == "us" and digits[6:] != "000":
        raise rejected(path, "a time of microsecond precision", text)
    return (hour * 3600 + minute * 60 + second) * _PER_SECOND[unit] + fraction


def _instant(text: str, unit: str, *, zoned: bool, path: str) -> int:
    offset = next((suffix for suffix in _UTC if text.endswith(suffix)), None)
    if zoned and offset is None:
        raise rejected(path, "a timestamp with the zone offset +00:00", text)
    local = text[: -len(offset)] if zoned and offset is not None else text
    day, separator, clock = local.partition("T")
    if not separator:
        raise rejected(path, "an ISO 8601 timestamp", text)
    result = _days(day, path) * 86_400 * _PER_SECOND[unit] + _clock(clock, unit, path)
    if not -_LONG_MAX - 1 <= result <= _LONG_MAX:
        raise rejected(path, "a timestamp within 64 bits", text)
    return result


def _bytes(value: object, path: str, length: int | None = None) -> bytes:
    text = as_text(value, path)
    if not _HEX.fullmatch(text) or (length is not None and len(text) != 2 * length):
        raise rejected(path, "hexadecimal digits" if length is None else f"{2 * length} hexadecimal digits", text)
    return bytes.fromhex(text)


def _decimal(value: object, kind: DecimalType, path: str) -> Decimal:
    text = as_text(value, path)
    try:
        number = Decimal(text)
    except InvalidOperation as error:
        raise rejected(path, f"a {type_name(kind)}", text) from error
    _, digits, exponent = number.as_tuple()
    if not isinstance(exponent, int) or exponent != -kind.scale or (number and len(digits) > kind.precision):
        raise rejected(path, f"a {type_name(kind)} with {kind.scale} digits after the point", text)
    return number


def _floating(value: object, path: str, *, single: bool) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise rejected(path, "a number", value)
    try:
        number = float(value)
        if single:
            struct.pack("<f", number)
    except OverflowError as error:
        raise rejected(path, f"a number within {'float' if single else 'double'}", value) from error
    if not math.isfinite(number):
        raise rejected(path, "a finite number", value)
    return number


def scalar_from_json(value: object, kind: Type, path: str = "$") -> pa.Scalar:
    """An Arrow scalar of ``arrow_type(kind)`` from its JSON form; null for None. Raises CorruptMetadata."""
    return pa.scalar(_plain(value, kind, path), arrow_type(kind))


def _plain(value: object, kind: Type, path: str) -> Any:
    """A Python value from which pyarrow builds the scalar; temporal values as their integers."""
    if value is None:
        return None
    match kind:
        case BooleanType():
            return as_bool(value, path)
        case IntegerType():
            return as_int(value, path)
        case LongType():
            return as_long(value, path)
        case FloatType():
            return _floating(value, path, single=True)
        case DoubleType():
            return _floating(value, path, single=False)
        case DecimalType():
            return _decimal(value, kind, path)
        case DateType():
            return _days(as_text(value, path), path)
        case TimeType():
            return _clock(as_text(value, path), "us", path)
        case TimestampType():
            return _instant(as_text(value, path), "us", zoned=False, path=path)
        case TimestamptzType():
            return _instant(as_text(value, path), "us", zoned=True, path=path)
        case TimestampNsType():
            return _instant(as_text(value, path), "ns", zoned=False, path=path)
        case TimestamptzNsType():
            return _instant(as_text(value, path), "ns", zoned=True, path=path)
        case StringType():
            return as_text(value, path)
        case UuidType():
            text = as_text(value, path)
            if not _UUID.fullmatch(text):
                raise rejected(path, "a UUID", text)
            return UUID(text).bytes
        case FixedType():
            return _bytes(value, path, kind.length)
        case BinaryType():
            return _bytes(value, path)
        case StructType():
            node = JsonObject(value, path)
            known = {str(nested.field_id): nested for nested in kind.fields}
            for key in node.values:
                if key not in known:
                    raise rejected(node.at(key), "the id of a field of the struct", key)
            return {part.name: _plain(node.values.get(key), part.type, node.at(key)) for key, part in known.items()}
        case ListType():
            return [_plain(item, kind.element.type, f"{path}[{at}]") for at, item in enumerate(as_list(value, path))]
        case MapType():
            node = JsonObject(value, path)
            keys = [_plain(item, kind.key.type, at) for item, at in node.items("keys")]
            values = [_plain(item, kind.value.type, at) for item, at in node.items("values")]
            if len(keys) != len(values) or None in keys:
                raise rejected(path, "as many keys (none null) as values", value)
            return list(zip(keys, values, strict=True))
        case _:
            raise rejected(path, f"null (a {type_name(kind)} has no other default)", value)


def check_default(value: object, nested: NestedField, path: str) -> None:
    """Raise CorruptMetadata unless a default is valid for its field (section "Default values").

    A struct's default is null or the empty object; unknown, variant, geometry and geography default to null.
    """
    if value is None:
        return
    if isinstance(nested.type, (UnknownType, VariantType, GeometryType, GeographyType)):
        raise rejected(path, f"null (a {type_name(nested.type)} has no other default)", value)
    if isinstance(nested.type, StructType):
        if value != {}:
            raise rejected(path, "null or {} (the fields of a struct carry their own defaults)", value)
        return
    scalar_from_json(value, nested.type, path)


def initial_default(nested: NestedField) -> pa.Scalar:
    """The value of a field in rows that were written before it was added; a struct's ``{}`` takes its fields' initial
    defaults.
    """
    return pa.scalar(_effective(nested, initial=True), arrow_type(nested.type))


def write_default(nested: NestedField) -> pa.Scalar:
    """The value that a writer stores where none is given; a struct's ``{}`` takes its fields' write defaults."""
    return pa.scalar(_effective(nested, initial=False), arrow_type(nested.type))


def _effective(nested: NestedField, *, initial: bool) -> Any:
    value = nested.initial_default if initial else nested.write_default
    if isinstance(nested.type, StructType) and value is not None:
        return {part.name: _effective(part, initial=initial) for part in nested.type.fields}
    return _plain(value, nested.type, f"default of field {nested.field_id} ({nested.name})")


def _date_text(days: int) -> str:
    """ISO 8601: years beyond four digits have a sign."""
    day = _EPOCH + np.timedelta64(days, "D")
    month = day.astype("datetime64[M]")
    year = int(month.astype("datetime64[Y]").astype(np.int64)) + 1970
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    number = int(month.astype(np.int64)) % 12 + 1
    return f"{sign}{abs(year):04d}-{number:02d}-{int((day - month.astype('datetime64[D]')).astype(np.int64)) + 1:02d}"


def _clock_text(value: int, unit: str) -> str:
    seconds, fraction = divmod(value, _PER_SECOND[unit])
    base = str(datetime.timedelta(seconds=seconds)).rjust(8, "0")
    return f"{base}.{fraction:0{6 if unit == 'us' else 9}d}" if fraction else base


def _instant_text(value: int, unit: str) -> str:
    days, clock = divmod(value, 86_400 * _PER_SECOND[unit])
    return f"{_date_text(days)}T{_clock_text(clock, unit)}"


def scalar_to_json(scalar: pa.Scalar, kind: Type) -> object:
    """The JSON form of an Arrow scalar of ``arrow_type(kind)``; None for null.

    Raises InvalidIcebergRequest for a value that JSON cannot hold (NaN, infinity, a variant, a geometry).
    """
    if not scalar.is_valid:
        return None
    match kind:
        case BooleanType() | IntegerType() | LongType() | StringType():
            return scalar.as_py()
        case FloatType() | DoubleType():
            number = scalar.as_py()
            if not math.isfinite(number):
                raise InvalidIcebergRequest(f"Cannot write {number} as a default: JSON has no such number")
            return number
        case DecimalType():
            return f"{scalar.as_py():f}"
        case DateType():
            return _date_text(scalar.value)
        case TimeType():
            return _clock_text(scalar.value, "us")
        case TimestampType():
            return _instant_text(scalar.value, "us")
        case TimestamptzType():
            return f"{_instant_text(scalar.value, 'us')}+00:00"
        case TimestampNsType():
            return _instant_text(scalar.value, "ns")
        case TimestamptzNsType():
            return f"{_instant_text(scalar.value, 'ns')}+00:00"
        case UuidType():
            return str(UUID(bytes=scalar.as_py()))
        case FixedType() | BinaryType():
            return scalar.as_py().hex()
        case StructType():
            return {
                str(nested.field_id): scalar_to_json(scalar[position], nested.type)
                for position, nested in enumerate(kind.fields)
            }
        case ListType():
            return [scalar_to_json(item, kind.element.type) for item in scalar.values]
        case MapType():
            entries = scalar.values
            return {
                "keys": [scalar_to_json(item, kind.key.type) for item in entries.field(0)],
                "values": [scalar_to_json(item, kind.value.type) for item in entries.field(1)],
            }
        case _:
            raise InvalidIcebergRequest(f"Cannot write a {type_name(kind)} default: only null is allowed")
