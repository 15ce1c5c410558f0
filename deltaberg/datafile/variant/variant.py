"""Variant values as JSON text (Variant Binary Encoding, "Value encoding").

Types that JSON lacks are written as Spark writes them: dates and times as strings with a space between date and time
and the fraction without trailing zeros, instants with ``+00:00``, binary as base64, NaN and infinities as strings,
decimals without trailing zeros.
"""

from __future__ import annotations

import base64
import json
import math
import struct
import uuid
from collections.abc import Callable
from decimal import Decimal
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from deltaberg.datafile.errors import DataFileError
from deltaberg.datafile.variant.variant_metadata import field_names, malformed, unsigned

_MAX_DEPTH = 400
_DAY_US = 86_400_000_000
_US, _NS = 1_000_000, 1_000_000_000

_escape = json.encoder.encode_basestring


def variants_to_json(metadata: pa.Array, value: pa.Array) -> pa.Array:
    """JSON text of Variants given as two binary arrays of one length; null where ``value`` is null.

    Raises DataFileError for a malformed Variant.
    """
    texts = [
        None if data is None else to_json(names, data)
        for names, data in zip(metadata.to_pylist(), value.to_pylist(), strict=True)
    ]
    return pa.array(texts, pa.string())


def to_json(metadata: bytes | None, value: bytes) -> str:
    """JSON text of one Variant. Raises DataFileError when it is malformed."""
    if metadata is None:
        raise malformed("it has no metadata")
    writer = _Writer(metadata, value)
    end = writer.write(0, 0)
    if end != len(value):
        raise malformed(f"{len(value) - end} bytes follow its value")
    return "".join(writer.text)


@lru_cache(maxsize=4096)
def _keys(metadata: bytes) -> tuple[tuple[str, ...], bool]:
    """The field names as JSON writes them before a value, and whether all are different."""
    names = field_names(metadata)
    return tuple(_escape(name) + ":" for name in names), len(set(names)) == len(names)


class _Writer:
    """Writes one Variant. ``seen`` counts the bytes of all values read: overlapping values would exceed the whole."""

    __slots__ = ("metadata", "seen", "size", "text", "value")

    def __init__(self, metadata: bytes, value: bytes) -> None:
        self.metadata = metadata
        self.value = value
        self.size = len(value)
        self.text: list[str] = []
        self.seen = 0

    def write(self, at: int, depth: int) -> int:
        """Append the text of the value at ``at``; return where it ends."""
        value = self.value
        if at >= self.size:
            raise malformed(f"a value begins at byte {at} of {self.size}")
        header = value[at]
        basic, detail = header & 3, header >> 2
        if basic >= 2:
            return self._container(at, basic == 2, detail, depth)
        start = at + 1
        render: Callable[[Any], str]
        if basic == 1:
            end, render = start + detail, _string
        else:
            primitive = _PRIMITIVES.get(detail)
            if primitive is None:
                raise malformed(f"it holds a value of primitive type {detail}, which the specification does not define")
            width, render = primitive
            if width < 0:
                start += 4
                width = int.from_bytes(value[at + 1 : start], "little")
            end = start + width
        self.seen += end - at
        if end > self.size or self.seen > self.size:
            raise self._beyond(at, end)
        self.text.append(render(value[start:end]))
        return end

    def _container(self, at: int, is_object: bool, detail: int, depth: int) -> int:
        if depth >= _MAX_DEPTH:
            raise malformed(f"its values are nested more than {_MAX_DEPTH} deep")
        value, text = self.value, self.text
        offset_width = (detail & 3) + 1
        id_width = ((detail >> 2) & 3) + 1 if is_object else 0
        is_large = (detail >> 4 if is_object else detail >> 2) & 1
        start = at + (5 if is_large else 2)
        count = int.from_bytes(value[at + 1 : start], "little")
        offsets_start = start + count * id_width
        first = offsets_start + (count + 1) * offset_width
        self.seen += first - at
        if first > self.size or self.seen > self.size:
            raise self._beyond(at, first)
        offsets = unsigned(value, offsets_start, count + 1, offset_width)
        end = first + offsets[count]
        if end > self.size:
            raise self._beyond(at, end)
        keys = self._object_keys(unsigned(value, start, count, id_width)) if is_object else None
        text.append("[" if keys is None else "{")
        for index in range(count):
            if index:
                text.append(",")
            if keys is not None:
                text.append(keys[index])
            place = first + offsets[index]
            if place >= end or self.write(place, depth + 1) > end:
                raise malformed("a value leads outside the object or array that holds it")
        text.append("]" if keys is None else "}")
        return end

    def _object_keys(self, ids: list[int]) -> list[str]:
        keys, all_different = _keys(self.metadata)
        if ids and max(ids) >= len(keys):
            raise malformed(f"field id {max(ids)} is not in its metadata, which has {len(keys)} names")
        found = [keys[number] for number in ids]
        if len(set(ids if all_different else found)) != len(found):
            raise malformed("an object has a field twice")
        return found

    def _beyond(self, at: int, end: int) -> DataFileError:
        if end > self.size:
            return malformed(f"a value at byte {at} ends at byte {end} (expected at most {self.size})")
        return malformed("its values overlap")


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise malformed("a string is not UTF-8") from error


def _string(data: bytes) -> str:
    return _escape(_text(data))


def _signed(data: bytes) -> int:
    return int.from_bytes(data, "little", signed=True)


def _integer(data: bytes) -> str:
    return str(_signed(data))


def _decimal(data: bytes) -> str:
    scale, unscaled = data[0], _signed(data[1:])
    if scale > 38 or abs(unscaled) >= 10**38:
        raise malformed(f"a decimal has scale {scale} and unscaled value {unscaled} (expected at most 38 digits)")
    digits = str(abs(unscaled)).rjust(scale + 1, "0")
    whole, fraction = (digits[:-scale], digits[-scale:].rstrip("0")) if scale else (digits, "")
    return f"{'-' * (unscaled < 0)}{whole}{'.' * bool(fraction)}{fraction}"


def _double(data: bytes) -> str:
    (number,) = struct.unpack("<d", data)
    return _floating(number, repr(number))


def _float(data: bytes) -> str:
    number = np.frombuffer(data, "<f4")[0]
    return _floating(float(number), np.format_float_scientific(number))


def _floating(number: float, shortest: str) -> str:
    """The shortest digits that give the number back, laid out as Java does: ``1.0E10``, ``0.001``, ``1.0E-4``."""
    if math.isnan(number):
        return '"NaN"'
    if math.isinf(number):
        return '"Infinity"' if number > 0 else '"-Infinity"'
    sign, digits, exponent = Decimal(shortest).as_tuple()
    text = "".join(map(str, digits)).lstrip("0")
    minus = "-" * sign
    if not text:
        return f"{minus}0.0"
    point = len(text) + int(exponent)
    text = text.rstrip("0")
    if -3 < point <= 7:
        if point <= 0:
            return f"{minus}0.{'0' * -point}{text}"
        return f"{minus}{text[:point].ljust(point, '0')}.{text[point:] or '0'}"
    return f"{minus}{text[0]}.{text[1:] or '0'}E{point - 1}"


def _date(days: int) -> str:
    """ISO 8601, proleptic Gregorian, years beyond 9999 with ``+`` and before 0 with ``-``."""
    era, day_of_era = divmod(days + 719_468, 146_097)
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    month = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * month + 2) // 5 + 1
    month = month + 3 if month < 10 else month - 9
    year = year_of_era + 400 * era + (month <= 2)
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    return f"{sign}{abs(year):04d}-{month:02d}-{day:02d}"


def _time(ticks: int, second: int) -> str:
    seconds, fraction = divmod(ticks, second)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    digits = str(fraction).rjust(len(str(second)) - 1, "0").rstrip("0")
    return f"{hours:02d}:{minutes:02d}:{seconds:02d}{'.' * bool(digits)}{digits}"


def _timestamp(second: int, zone: str) -> Callable[[bytes], str]:
    def render(data: bytes) -> str:
        days, ticks = divmod(_signed(data), 86_400 * second)
        return f'"{_date(days)} {_time(ticks, second)}{zone}"'

    return render


def _time_of_day(data: bytes) -> str:
    ticks = _signed(data)
    if not 0 <= ticks < _DAY_US:
        raise malformed(f"a time of day is {ticks} microseconds after midnight")
    return f'"{_time(ticks, _US)}"'


def _constant(text: str) -> Callable[[bytes], str]:
    return lambda data: text


# Type id: bytes of the value (-1: a 4-byte length stands before it), and its text.
_PRIMITIVES: dict[int, tuple[int, Callable[[Any], str]]] = {
    0: (0, _constant("null")),
    1: (0, _constant("true")),
    2: (0, _constant("false")),
    3: (1, _integer),
    4: (2, _integer),
    5: (4, _integer),
    6: (8, _integer),
    7: (8, _double),
    8: (5, _decimal),
    9: (9, _decimal),
    10: (17, _decimal),
    11: (4, lambda data: f'"{_date(_signed(data))}"'),
    12: (8, _timestamp(_US, "+00:00")),
    13: (8, _timestamp(_US, "")),
    14: (4, _float),
    15: (-1, lambda data: f'"{base64.b64encode(data).decode()}"'),
    16: (-1, _string),
    17: (8, _time_of_day),
    18: (8, _timestamp(_NS, "+00:00")),
    19: (8, _timestamp(_NS, "")),
    20: (16, lambda data: f'"{uuid.UUID(bytes=bytes(data))}"'),
}
