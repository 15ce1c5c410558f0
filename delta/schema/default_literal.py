"""Which ``CURRENT_DEFAULT`` is a literal value of its column's type, as icebergCompatV3 asks for.

The RFC of icebergCompatV3 says "a literal value" and nothing else. The reference implementations
(``DeltaColumnDefaults`` of Spark, ``ColumnDefaults`` of the kernel) parse the bare text by the column's type: no
``DATE'...'``, no ``1.5BD``, no ``NULL``. A table with another default could not be written by them any more, so this is
the form that counts here.
"""

from __future__ import annotations

import datetime as dt
import re
from decimal import Decimal

from deltaberg.delta.schema.types import (
    BinaryType,
    BooleanType,
    ByteType,
    DateType,
    DecimalType,
    DeltaType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    TimestampNtzType,
    TimestampType,
)

_INTEGER = re.compile(r"[+-]?\d+", re.ASCII)
_DECIMAL = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_FLOATING = re.compile(rf"(?:{_DECIMAL.pattern}|[+-]?(?:NaN|Infinity))[fFdD]?", re.ASCII)
_HEXADECIMAL = re.compile(r"[xX](['\"])[0-9a-fA-F]*\1")
_QUOTED = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"", re.DOTALL)
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?(Z|[+-]\d\d:\d\d)?", re.ASCII)
_BITS: dict[type[DeltaType], int] = {ByteType: 8, ShortType: 16, IntegerType: 32, LongType: 64}


def is_literal(text: str, delta_type: DeltaType) -> bool:
    """Whether the text is a literal of the type in the bare form that every writer of icebergCompatV3 reads."""
    match delta_type:
        case BooleanType():
            return text.lower() in {"true", "false"}
        case ByteType() | ShortType() | IntegerType() | LongType():
            limit = 1 << (_BITS[type(delta_type)] - 1)
            return _INTEGER.fullmatch(text) is not None and -limit <= int(text) < limit
        case FloatType() | DoubleType():
            return _FLOATING.fullmatch(text) is not None
        case DecimalType():
            return _DECIMAL.fullmatch(text) is not None and _fits(Decimal(text), delta_type)
        case StringType():
            return _QUOTED.fullmatch(text) is not None
        case BinaryType():
            return (_QUOTED.fullmatch(text) or _HEXADECIMAL.fullmatch(text)) is not None
        case DateType() | TimestampType() | TimestampNtzType():
            return _QUOTED.fullmatch(text) is not None and _is_moment(text[1:-1], delta_type)
        case _:
            return False


def _fits(value: Decimal, delta_type: DecimalType) -> bool:
    """Whether the digits as written need no rounding."""
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)  # the pattern lets no NaN and no infinity through
    return -exponent <= delta_type.scale and len(digits) + exponent <= delta_type.precision - delta_type.scale


def _is_moment(text: str, delta_type: DateType | TimestampType | TimestampNtzType) -> bool:
    try:
        if isinstance(delta_type, DateType):
            return dt.date.fromisoformat(text).isoformat() == text
        found = _MOMENT.fullmatch(text)
        if found is None:
            return False
        dt.datetime.fromisoformat(text[:19])
    except ValueError:
        return False
    return found[1] is None or isinstance(delta_type, TimestampType)
