"""Dates and timestamps as the log writes them, in every dialect of its writers.

PROTOCOL "Partition Value Serialization" gives ``yyyy-MM-dd HH:mm:ss[.SSSSSS]`` in the writer's zone and ISO 8601 in
UTC; statistics carry ISO 8601 with offsets. Arrow reads the usual texts; the others (more than six digits of a second,
years outside 1..9999, single digits) are read one by one.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timedelta, timezone, tzinfo
from typing import cast
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.delta.errors import InvalidDeltaRequest

_DATE = r"(?P<year>[+-]?\d{1,6})-(?P<month>\d{1,2})-(?P<day>\d{1,2})"
_TIME = r"(?:[T ](?P<hour>\d{1,2}):(?P<minute>\d{1,2})(?::(?P<second>\d{1,2})(?:[.,](?P<fraction>\d{1,9}))?)?)?"
_ZONE = r"\s*(?P<zone>Z|UTC|GMT|[+-]\d{1,2}(?::?\d{2})?(?::?\d{2})?)?"
_TIMESTAMP = re.compile(_DATE + _TIME + _ZONE)
_DATE_ONLY = re.compile(_DATE + r"(?:[T ]0{1,2}:0{1,2}(?::0{1,2}(?:\.0+)?)?)?")
_HAS_ZONE = r"(?:Z|UTC|GMT|:\d{2}(?:\.\d+)?\s*[+-]\d{1,2}(?::?\d{2})?(?::?\d{2})?)$"
_MICROS = 1_000_000
_INT64 = range(-(2**63), 2**63)
_INT32 = range(-(2**31), 2**31)


def zone_of(name: str) -> tzinfo:
    """The time zone of that IANA name. Raises InvalidDeltaRequest for an unknown one."""
    if name == "UTC":
        return timezone.utc
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise InvalidDeltaRequest(
            f"Cannot use the time zone {name!r}: it is not known (expected an IANA name such as Europe/Berlin)"
        ) from error


def parse_dates(texts: pa.Array) -> pa.Array:
    """date32 of ``yyyy-MM-dd`` texts; null where a text is no date."""
    return _fast_or_each(texts, pa.date32(), _date_of)


def parse_local_timestamps(texts: pa.Array) -> pa.Array:
    """Timestamps in microseconds without zone. ``Z`` is dropped; texts with another offset are null.

    Digits below the microsecond must be zero, else the text is null.
    """
    return _fast_or_each(texts, pa.timestamp("us"), lambda text: _local_of(text, zones=("Z", "UTC", "GMT")))


def parse_timestamps(texts: pa.Array, *, zone: str) -> pa.Array:
    """Timestamps in microseconds UTC; a text without offset is a local time of ``zone``. Null where it is none.

    A local time that the zone skips moves on by the gap; one that occurs twice is the earlier, as in Java.
    """
    instant = pa.timestamp("us", tz="UTC")
    if pc.all(pc.ends_with(texts, "Z"), min_count=0).as_py():  # the form of most engines, told without a pattern
        return _fast_or_each(texts, instant, lambda text: _instant_of(text, zone))
    with_zone = pc.match_substring_regex(texts, _HAS_ZONE)
    if pc.all(with_zone, min_count=0).as_py():
        return _fast_or_each(texts, instant, lambda text: _instant_of(text, zone))
    if zone != "UTC":
        unique = pc.dictionary_encode(texts)
        values = pa.array([_instant_of(text, zone) for text in unique.dictionary.to_pylist()], pa.int64())
        return values.cast(instant).take(unique.indices)
    # Without zone and with zone cannot go through one cast.
    through = None if pc.any(with_zone, min_count=0).as_py() else pa.timestamp("us")
    return _fast_or_each(texts, instant, lambda text: _instant_of(text, zone), through=through)


def _fast_or_each(
    texts: pa.Array, target: pa.DataType, one: Callable[[str], int | None], *, through: pa.DataType | None = None
) -> pa.Array:
    """All at once where Arrow reads every text; else each distinct text by ``one``, which gives the stored integer."""
    try:
        values = pc.cast(texts, through or target)
    except pa.ArrowInvalid:
        unique = pc.dictionary_encode(texts)
        width = pa.int32() if pa.types.is_date(target) else pa.int64()
        each = pa.array([one(text) for text in unique.dictionary.to_pylist()], width)
        return each.cast(target).take(unique.indices)
    return values if through is None else values.cast(target)


def _date_of(text: str) -> int | None:
    match = _DATE_ONLY.fullmatch(text.strip())
    if match is None:
        return None
    days = _days(int(match["year"]), int(match["month"]), int(match["day"]))
    return days if days is not None and days in _INT32 else None


def _local_of(text: str, *, zones: tuple[str, ...]) -> int | None:
    match = _TIMESTAMP.fullmatch(text.strip())
    if match is None or (match["zone"] is not None and match["zone"] not in zones):
        return None
    days = _days(int(match["year"]), int(match["month"]), int(match["day"]))
    hour, minute, second = (int(match[part] or 0) for part in ("hour", "minute", "second"))
    if days is None or hour > 23 or minute > 59 or second > 59:
        return None
    nanos = int((match["fraction"] or "0").ljust(9, "0"))
    if nanos % 1000:
        return None
    micros = (days * 86_400 + hour * 3_600 + minute * 60 + second) * _MICROS + nanos // 1000
    return micros if micros in _INT64 else None


def _instant_of(text: str, zone: str) -> int | None:
    match = _TIMESTAMP.fullmatch(text.strip())
    if match is None:
        return None
    offset = match["zone"]
    local = _local_of(text[: match.start("zone")] if offset else text, zones=())
    if local is None:
        return None
    if offset in ("Z", "UTC", "GMT"):
        return local
    if offset:
        seconds = _offset_seconds(offset)
        return None if seconds is None else local - seconds * _MICROS
    return _from_zone(local, zone_of(zone))


def _offset_seconds(offset: str) -> int | None:
    sign = -1 if offset[0] == "-" else 1
    digits = offset[1:].replace(":", "")
    digits = digits if len(digits) % 2 == 0 else "0" + digits
    parts = [int(digits[index : index + 2]) for index in range(0, len(digits), 2)]
    hours, minutes, seconds = (*parts, 0, 0)[:3]
    if hours > 18 or minutes > 59 or seconds > 59:
        return None
    return sign * (hours * 3_600 + minutes * 60 + seconds)


def _from_zone(local_micros: int, zone: tzinfo) -> int | None:
    if zone is timezone.utc:
        return local_micros
    try:
        wall = datetime(1970, 1, 1) + timedelta(microseconds=local_micros)
    except OverflowError:
        return None
    # fold=0 is the earlier of two instants and, in a gap, the offset before it: both as in Java.
    offset = cast(timedelta, wall.replace(tzinfo=zone).utcoffset())
    return local_micros - round(offset.total_seconds() * _MICROS)


def _days(year: int, month: int, day: int) -> int | None:
    """Days from 1970-01-01 in the proleptic Gregorian calendar, which has a year 0; None where there is no such day."""
    if not 1 <= month <= 12:
        return None
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    length = (31, 29 if leap else 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)[month - 1]
    if not 1 <= day <= length:
        return None
    shifted_year = year - (month <= 2)
    era, year_of_era = divmod(shifted_year, 400)
    day_of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return era * 146_097 + year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year - 719_468
