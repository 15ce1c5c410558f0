"""Delta's ``CURRENT_DEFAULT`` (SQL text) and Iceberg's ``write-default`` (JSON single value), where both are literals.

Delta's protocol names no SQL dialect. Only literals that mean the same in Spark's dialect with and without ANSI
mode are read; everything else (functions, casts, strings with a backslash) is an expression and gives None.
Iceberg: Appendix D, "JSON single-value serialization". Delta: "Default Columns".
"""

from __future__ import annotations

import datetime as dt
import decimal
import math
import re

from deltaberg.iceberg.schema import types as ice

_INTEGER = re.compile(r"([+-]?\d+)[lLsSyY]?")
_NUMBER = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)(?:BD|bd|[dDfF])?")
_STRING = re.compile(r"'([^'\\]*)'|\"([^\"\\]*)\"")
_TYPED = re.compile(r"(DATE|TIMESTAMP|TIMESTAMP_LTZ|TIMESTAMP_NTZ|X)\s*'([^'\\]*)'", re.IGNORECASE)
_HEX = re.compile(r"(?:[0-9a-fA-F]{2})*")


class LiteralError(ValueError):
    """The text is an expression, or a literal of another type than the column's."""


def delta_to_iceberg_default(text: str, type_: ice.Type) -> object:
    """The JSON single value of a SQL literal for a column of an Iceberg type; None for NULL.

    Raises LiteralError where the text is not a literal that fits the type.
    """
    text = text.strip()
    if text.upper() == "NULL":
        return None
    match type_:
        case ice.BooleanType():
            if text.upper() in {"TRUE", "FALSE"}:
                return text.upper() == "TRUE"
        case ice.IntegerType() | ice.LongType():
            if found := _INTEGER.fullmatch(text):
                bits = 31 if isinstance(type_, ice.IntegerType) else 63
                value = int(found[1])
                if -(1 << bits) <= value < 1 << bits:
                    return value
        case ice.FloatType() | ice.DoubleType():
            if found := _NUMBER.fullmatch(text):
                return float(found[1])
        case ice.DecimalType(precision=precision, scale=scale):
            if found := _NUMBER.fullmatch(text):
                return _decimal_text(found[1], precision, scale)
        case ice.StringType():
            if found := _STRING.fullmatch(text):
                return found[1] if found[1] is not None else found[2]
        case ice.DateType() | ice.TimestampType() | ice.TimestamptzType() | ice.BinaryType():
            if found := _TYPED.fullmatch(text):
                return _typed_literal(found[1].upper(), found[2], type_)
    raise LiteralError(text)


def _decimal_text(text: str, precision: int, scale: int) -> str:
    with decimal.localcontext() as context:
        context.prec = 80
        value = decimal.Decimal(text)
        try:
            exact = value.quantize(decimal.Decimal(1).scaleb(-scale))
        except decimal.InvalidOperation as error:
            raise LiteralError(text) from error
    if exact != value or len(exact.as_tuple().digits) > precision:
        raise LiteralError(text)
    return format(exact, "f")


def _typed_literal(word: str, text: str, type_: ice.Type) -> object:
    try:
        match word, type_:
            case "DATE", ice.DateType():
                return dt.date.fromisoformat(text).isoformat()
            case "TIMESTAMP_NTZ", ice.TimestampType():
                moment = dt.datetime.fromisoformat(text)
                if moment.tzinfo is None:
                    return moment.isoformat(timespec="microseconds")
            case "TIMESTAMP" | "TIMESTAMP_LTZ", ice.TimestamptzType():
                moment = dt.datetime.fromisoformat(text.replace("Z", "+00:00"))
                if moment.tzinfo is not None:  # without a zone it means the session's, which is not recorded
                    return moment.astimezone(dt.timezone.utc).isoformat(timespec="microseconds")
            case "X", ice.BinaryType():
                if _HEX.fullmatch(text):
                    return text.upper()
    except ValueError as error:
        raise LiteralError(text) from error
    raise LiteralError(text)


def iceberg_to_delta_default(value: object, type_: ice.Type) -> str:
    """The SQL literal of a JSON single value; ``NULL`` for None.

    Raises LiteralError for types whose values have no literal in Spark's SQL (nested, uuid, time ...).
    """
    if value is None:
        return "NULL"
    match type_:
        case ice.BooleanType():
            return "true" if value else "false"
        case ice.IntegerType() | ice.LongType():
            return str(value)
        case ice.FloatType():
            return f"float('{_float_text(value)}')" if _special(value) else f"{value!r}F"
        case ice.DoubleType():
            return f"double('{_float_text(value)}')" if _special(value) else f"{value!r}D"
        case ice.DecimalType():
            return f"{value}BD"
        case ice.StringType():
            escaped = str(value).replace("\\", "\\\\").replace("'", "\\'")
            return f"'{escaped}'"
        case ice.DateType():
            return f"DATE'{value}'"
        case ice.TimestampType():
            return f"TIMESTAMP_NTZ'{str(value).replace('T', ' ')}'"
        case ice.TimestamptzType():
            return f"TIMESTAMP'{str(value).replace('T', ' ').replace('+00:00', 'Z')}'"
        case ice.BinaryType():
            return f"X'{value}'"
        case _:
            raise LiteralError(str(value))


def _special(value: object) -> bool:
    return not math.isfinite(float(str(value)))


def _float_text(value: object) -> str:
    number = float(str(value))
    return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"
