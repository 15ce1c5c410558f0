"""Points in time as a person writes and reads them."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone

from deltaberg.errors import UsageError

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MOMENT = re.compile(
    r"(?P<date>\d{4}-\d{2}-\d{2})"
    r"(?:[T ](?P<time>\d{2}:\d{2}(?::\d{2})?)(?:\.(?P<fraction>\d{1,9}))?)?"
    r"\s*(?P<zone>Z|[+-]\d{2}:?\d{2})?",
    re.IGNORECASE,
)


def moment_ms(moment: str | datetime) -> int:
    """Milliseconds since 1970-01-01 UTC, rounded down; a timestamp without an offset is in UTC.

    Text is ISO 8601: ``2024-05-01``, ``2024-05-01 13:30``, ``2024-05-01T13:30:00.250Z``, ``...+02:00``.

    Raises UsageError for anything else.
    """
    if isinstance(moment, datetime):
        aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=timezone.utc)
        return (aware - _EPOCH) // timedelta(milliseconds=1)
    parts = _MOMENT.fullmatch(moment.strip())
    if parts is None:
        raise UsageError(
            f"Cannot read the moment {moment!r}: it is not ISO 8601 (expected such as 2024-05-01, "
            "2024-05-01T13:30:00 or 2024-05-01T13:30:00.250+02:00; UTC where no zone is given)"
        )
    zone = (parts["zone"] or "Z").upper()
    offset = "+00:00" if zone == "Z" else f"{zone[:3]}:{zone[-2:]}"
    milliseconds = int((parts["fraction"] or "0").ljust(3, "0")[:3])
    try:
        whole = datetime.fromisoformat(f"{parts['date']}T{parts['time'] or '00:00'}{offset}")
    except ValueError as error:
        raise UsageError(f"Cannot read the moment {moment!r}: {error}") from error
    return (whole - _EPOCH) // timedelta(milliseconds=1) + milliseconds


def moment_text(timestamp_ms: int) -> str:
    """``2024-05-01 13:30:00.250 UTC`` of milliseconds since 1970-01-01 UTC; a time outside the years 1 to 9999 as its number."""
    try:
        at = _EPOCH + timedelta(milliseconds=timestamp_ms)
    except OverflowError:
        return f"{timestamp_ms} ms"
    return f"{at:%Y-%m-%d %H:%M:%S}" + (f".{timestamp_ms % 1000:03d}" if timestamp_ms % 1000 else "") + " UTC"
