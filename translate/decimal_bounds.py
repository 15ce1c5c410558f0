"""Decimal bounds that a Delta writer may have passed through another number type.

Delta's log states decimals as JSON numbers. Spark writes every digit; delta-rs writes a double where there is a scale, and
stops at the limits of 64 bits where there is none. So the bound in the log can lie inside the values of the file.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

_DOUBLE_DIGITS: Final = 15
"""Decimals of so many digits survive a double."""

_INT64_DIGITS: Final = 18
_INT64_LIMITS: Final = (-(2**63), 2**63 - 1)
_UNSCALED: Final = pa.decimal128(38, 0)
_WIDE: Final = pa.decimal256(50, 0)


def may_be_rounded(kind: pa.DataType) -> bool:
    """Whether bounds of a decimal type may be other than the values, and are moved outwards."""
    return bool(pa.types.is_decimal(kind) and kind.scale > 0 and kind.precision > _DOUBLE_DIGITS)


def safe_lower(bound: pa.Array) -> pa.Array:
    """Lower bounds, decimal128: not above any value that may have been rounded to them; null where that cannot be
    known.
    """
    return _safe(bound, -1)


def safe_upper(bound: pa.Array) -> pa.Array:
    """Upper bounds, decimal128: not below any value that may have been rounded to them; null where that cannot be
    known.
    """
    return _safe(bound, 1)


def _safe(bound: pa.Array, direction: int) -> pa.Array:
    kind = bound.type
    if may_be_rounded(kind):
        return _moved(bound, direction)
    if kind.scale == 0 and kind.precision > _INT64_DIGITS:
        limits = pa.array([Decimal(limit) for limit in _INT64_LIMITS], _UNSCALED)
        stopped = pc.is_in(bound.cast(_UNSCALED), value_set=limits)
        return pc.if_else(stopped, pa.scalar(None, kind), bound)
    return bound


def _moved(bound: pa.Array, direction: int) -> pa.Array:
    """Outwards by more than half the distance to the next double, for numbers that a double may not hold."""
    unscaled = bound.view(_UNSCALED)
    size = pc.abs(unscaled)
    slack = size.view(pa.decimal128(38, _DOUBLE_DIGITS)).cast(_UNSCALED, safe=False)
    doubtful = pc.greater_equal(size, pa.scalar(Decimal(10**_DOUBLE_DIGITS), _UNSCALED))
    slack = pc.if_else(doubtful, slack, pa.scalar(Decimal(0), _UNSCALED)).cast(_WIDE)
    combine = pc.add if direction > 0 else pc.subtract
    result = combine(unscaled.cast(_WIDE), slack)
    largest = pa.scalar(Decimal(10**bound.type.precision - 1), result.type)
    fits = pc.less_equal(pc.abs(result), largest)
    return pc.if_else(fits, result, pa.scalar(None, result.type)).cast(_UNSCALED).view(bound.type)
