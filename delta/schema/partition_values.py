"""Partition values: typed values and their texts in the log. PROTOCOL "Partition Value Serialization".

Everything works on whole columns; only texts that Arrow cannot read are parsed one by one, each distinct one once.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal, InvalidOperation

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.delta.errors import CorruptLog, UnsupportedDeltaFeature
from deltaberg.delta.schema.timestamp_text import parse_dates, parse_local_timestamps, parse_timestamps
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
    arrow_type,
    type_name,
)

_INTEGER = re.compile(r"[+-]?[0-9]{1,40}")
_INFINITE = r"(?i)^[+-]?inf(?:inity)?$"


def decode_partition_values(
    texts: pa.Array, delta_type: DeltaType, *, column: str, partition_timezone: str = "UTC"
) -> pa.Array:
    """The values of a column of logged texts, as ``arrow_type(delta_type)``; null and the empty text are null.

    A timestamp without offset is a local time of ``partition_timezone`` (IANA name). Raises CorruptLog naming column
    and text where the text is no value of the type.
    """
    texts = empty_as_null(texts)
    values = parse_texts(texts, delta_type, zone=partition_timezone)
    if values.null_count != texts.null_count:
        bad = texts.filter(pc.and_(pc.is_null(values), pc.is_valid(texts)))[0].as_py()
        raise CorruptLog(
            f"Cannot read the partition value {bad!r:.100} of column {column!r}: it is no {type_name(delta_type)}"
        )
    return values


def empty_as_null(texts: pa.Array) -> pa.Array:
    """Texts with null for the empty one, which stands for null in every type."""
    empty = pc.equal(texts, "")
    if not pc.any(empty, min_count=0).as_py():
        return texts
    return pc.if_else(empty, pa.scalar(None, texts.type), texts)


def parse_texts(texts: pa.Array, delta_type: DeltaType, *, zone: str = "UTC") -> pa.Array:
    """The values of texts as ``arrow_type(delta_type)``; null where a text is no value of that type."""
    target = arrow_type(delta_type)
    match delta_type:
        case StringType():
            return texts.cast(target)
        case BinaryType():
            return texts.cast(target)
        case DateType():
            return parse_dates(texts)
        case TimestampType():
            return parse_timestamps(texts, zone=zone)
        case TimestampNtzType():
            return parse_local_timestamps(texts)
        case BooleanType():
            return _parse_booleans(texts)
        case ByteType() | ShortType() | IntegerType() | LongType():
            # Arrow takes hexadecimal digits, too.
            return _cast_or_each(texts, target, _integer_parser(target), unless="[xX]")
        case FloatType() | DoubleType():
            return _parse_floats(texts, target)
        case DecimalType():
            return _parse_decimals(texts, delta_type)
        case _:
            raise UnsupportedDeltaFeature(
                f"Cannot read {type_name(delta_type)} values from text: the protocol gives them no text form",
                feature=f"partition column of type {type_name(delta_type)}",
            )


def encode_partition_values(values: pa.Array, delta_type: DeltaType, *, column: str) -> pa.Array:
    """The texts to log for typed values: ISO 8601 in UTC for timestamps, exact decimals, null for null.

    An empty string stays empty and therefore reads back as null: callers decide whether that may be. Raises CorruptLog
    naming the column for bytes that are not UTF-8, which no text can carry.
    """
    values = values.cast(arrow_type(delta_type))
    match delta_type:
        case TimestampType():
            return _without_zero_fraction(pc.replace_substring(values.cast(pa.string()), " ", "T"))
        case TimestampNtzType():
            return _without_zero_fraction(values.cast(pa.string()))
        case FloatType() | DoubleType():
            return _float_texts(values)
        case DecimalType():
            texts = values.cast(pa.string())
            return _replace_each(texts, pc.match_substring(texts, "E"), lambda text: format(Decimal(text), "f"))
        case BinaryType():
            try:
                return values.cast(pa.string())
            except pa.ArrowInvalid as error:
                raise CorruptLog(f"Cannot log the partition column {column!r}: its bytes are not UTF-8") from error
        case _:
            return values.cast(pa.string())


def _parse_booleans(texts: pa.Array) -> pa.Array:
    lower = pc.utf8_lower(texts)
    true = pc.equal(lower, "true")
    return pc.if_else(pc.or_(true, pc.equal(lower, "false")), true, pa.scalar(None, pa.bool_()))


def _parse_floats(texts: pa.Array, target: pa.DataType) -> pa.Array:
    values = _cast_or_each(texts, target, _float_parser(target))
    overflown = pc.and_not(pc.is_inf(values), pc.match_substring_regex(texts, _INFINITE))
    if not pc.any(overflown, min_count=0).as_py():
        return values
    return pc.if_else(overflown, pa.scalar(None, target), values)


def _parse_decimals(texts: pa.Array, delta_type: DecimalType) -> pa.Array:
    target = arrow_type(delta_type)
    parse = _decimal_parser(delta_type)
    # Arrow moves the point without looking whether the digits still fit: 38 of them surely fit 256 bits.
    if pc.any(pc.match_substring_regex(texts, r"[eE]\+?[0-9]|.{39}"), min_count=0).as_py():
        return _each(texts, target, parse)
    try:
        return pc.cast(pc.cast(texts, pa.decimal256(76, delta_type.scale)), target)
    except pa.ArrowInvalid:
        return _each(texts, target, parse)


def _cast_or_each(
    texts: pa.Array, target: pa.DataType, one: Callable[[str], object], *, unless: str | None = None
) -> pa.Array:
    """All at once where Arrow reads every text and none matches ``unless``; else each distinct text by ``one``."""
    if unless is None or not pc.any(pc.match_substring_regex(texts, unless), min_count=0).as_py():
        try:
            return pc.cast(texts, target)
        except pa.ArrowInvalid:
            pass
    return _each(texts, target, one)


def _each(texts: pa.Array, target: pa.DataType, one: Callable[[str], object]) -> pa.Array:
    unique = pc.dictionary_encode(texts)
    return pa.array([one(text) for text in unique.dictionary.to_pylist()], target).take(unique.indices)


def _integer_parser(target: pa.DataType) -> Callable[[str], int | None]:
    limit = 1 << (target.bit_width - 1)

    def parse(text: str) -> int | None:
        text = text.strip()
        value = int(text) if _INTEGER.fullmatch(text) else None
        return value if value is not None and -limit <= value < limit else None

    return parse


def _float_parser(target: pa.DataType) -> Callable[[str], object]:
    def parse(text: str) -> object:
        try:
            return pc.cast(pa.scalar(text.strip()), target).as_py()
        except pa.ArrowInvalid:
            return None

    return parse


def _decimal_parser(delta_type: DecimalType) -> Callable[[str], Decimal | None]:
    # A longer text could have more digits than anything exact that fits; parsing it would only take time.
    longest = 200

    def parse(text: str) -> Decimal | None:
        try:
            value = Decimal(text.strip()) if len(text) <= longest else None
        except InvalidOperation:
            return None
        if value is None or not value.is_finite():
            return None
        # Digits, not arithmetic: the context's precision would round.
        _, digits, exponent = value.as_tuple()
        assert isinstance(exponent, int)
        significant = "".join(map(str, digits)).strip("0")
        if not significant:
            return Decimal(0)
        exponent += len(digits) - len("".join(map(str, digits)).rstrip("0"))
        fits = -exponent <= delta_type.scale and len(significant) + exponent <= delta_type.precision - delta_type.scale
        return value if fits else None

    return parse


def _float_texts(values: pa.Array) -> pa.Array:
    texts = values.cast(pa.string())
    for arrow, delta in (("inf", "Infinity"), ("-inf", "-Infinity"), ("nan", "NaN"), ("-nan", "NaN"), ("-0", "-0.0")):
        texts = pc.if_else(pc.equal(texts, arrow), delta, texts)
    return texts


def _without_zero_fraction(texts: pa.Array) -> pa.Array:
    return pc.replace_substring_regex(pc.replace_substring_regex(texts, r"(\.\d*?)0+(Z?)$", r"\1\2"), r"\.(Z?)$", r"\1")


def _replace_each(texts: pa.Array, mask: pa.Array, one: Callable[[str], str]) -> pa.Array:
    if not pc.any(mask, min_count=0).as_py():
        return texts
    unique = pc.dictionary_encode(texts)
    return pa.array([one(text) for text in unique.dictionary.to_pylist()], pa.string()).take(unique.indices)
