"""Whether statistics prove that a file's dates and instants lie where a legacy form of storing them does no harm."""

from __future__ import annotations

import datetime as dt
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.delta.schema import types as delta
from deltaberg.translate.field_ids import Path
from deltaberg.translate.struct_members import StructMembers

_NANOSECOND_RANGE: Final = (dt.datetime(1677, 9, 22), dt.datetime(2262, 4, 11))
"""Instants that 64 bits of nanoseconds hold."""

_GREGORIAN_DATES: Final = dt.date(1582, 10, 15)
_MODERN_INSTANTS: Final = dt.datetime(1900, 1, 1, 12) + dt.timedelta(days=1)
"""From here on the hybrid calendar and the proleptic Gregorian one agree; instants also need modern zone offsets."""


def int96_may_overflow(stats: pa.StructArray, path: Path, record_counts: pa.Array) -> pa.Array:
    """For which files a timestamp column may hold instants that readers through nanoseconds get wrong (bool)."""
    low, high = _NANOSECOND_RANGE
    return _may_be_outside(stats, path, record_counts, low, high)


def rebase_may_matter(stats: pa.StructArray, path: Path, kind: delta.DeltaType, record_counts: pa.Array) -> pa.Array:
    """For which files the hybrid calendar may change a date or instant (bool)."""
    low = _GREGORIAN_DATES if isinstance(kind, delta.DateType) else _MODERN_INSTANTS
    return _may_be_outside(stats, path, record_counts, low, None)


def _may_be_outside(
    stats: pa.StructArray, path: Path, record_counts: pa.Array, low: dt.date | dt.datetime, high: dt.datetime | None
) -> pa.Array:
    nothing = pa.repeat(pa.scalar(False), len(stats))
    inside = nothing
    members = StructMembers(stats)
    lower, upper = members.at(("min_values", *path)), members.at(("max_values", *path))
    if lower is not None and (high is None or upper is not None):
        inside = pc.greater_equal(lower, pa.scalar(_zoned(low, lower.type), lower.type))
        if high is not None:
            inside = pc.and_(inside, pc.less(upper, pa.scalar(_zoned(high, upper.type), upper.type)))
    null_count = members.at(("null_count", *path))
    empty = pc.equal(null_count, record_counts) if null_count is not None else nothing
    return pc.invert(pc.or_(pc.fill_null(inside, False), pc.fill_null(empty, False)))


def _zoned(value: dt.date | dt.datetime, kind: pa.DataType) -> dt.date | dt.datetime:
    zoned = isinstance(value, dt.datetime) and pa.types.is_timestamp(kind) and kind.tz is not None
    return value.replace(tzinfo=dt.timezone.utc) if zoned and isinstance(value, dt.datetime) else value
