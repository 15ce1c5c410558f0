"""A decimal bound of a Delta log encloses the values, whatever number type it passed through."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deltaberg.translate.decimal_bounds import may_be_rounded, safe_lower, safe_upper


@settings(deadline=None)
@given(
    st.integers(1, 38).flatmap(
        lambda scale: st.tuples(
            st.just(scale),
            st.integers(-(10**38) + 1, 10**38 - 1) | st.integers(-(10**18), 10**18),
        )
    )
)
def test_a_value_that_became_a_double_is_enclosed(case: tuple[int, int]) -> None:
    scale, unscaled = case
    kind = pa.decimal128(38, scale)
    value = pa.scalar(unscaled, pa.decimal128(38, 0)).as_py().scaleb(-scale, _exact())
    stated = Decimal(repr(float(value))).quantize(Decimal(1).scaleb(-scale), context=_exact())
    if abs(stated) >= Decimal(10) ** (38 - scale):
        return
    bound = pa.array([stated], kind)
    lower, upper = safe_lower(bound)[0].as_py(), safe_upper(bound)[0].as_py()
    assert lower is None or lower <= value
    assert upper is None or upper >= value
    if abs(unscaled) < 10**15:
        assert lower == upper == value


def _exact() -> object:
    from decimal import Context

    return Context(prec=60)


@pytest.mark.parametrize("limit", [2**63 - 1, -(2**63)])
def test_a_limit_of_64_bits_says_nothing(limit: int) -> None:
    bound = pa.array([Decimal(limit), Decimal(limit - 1 if limit > 0 else limit + 1), None], pa.decimal128(38, 0))
    for safe in (safe_lower, safe_upper):
        assert safe(bound).to_pylist() == [None, bound[1].as_py(), None]


def test_a_bound_that_would_leave_its_type_is_left_out() -> None:
    bound = pa.array([Decimal("99999999999999.99"), Decimal("-99999999999999.99"), None], pa.decimal128(16, 2))
    assert safe_upper(bound).to_pylist() == [None, Decimal("-99999999999999.90"), None]
    assert safe_lower(bound).to_pylist() == [Decimal("99999999999999.90"), None, None]


@pytest.mark.parametrize(
    ("kind", "doubtful"),
    [
        (pa.decimal128(15, 2), False),
        (pa.decimal128(16, 2), True),
        (pa.decimal128(38, 0), False),
        (pa.int64(), False),
    ],
)
def test_which_types_may_be_rounded(kind: pa.DataType, doubtful: bool) -> None:
    assert may_be_rounded(kind) is doubtful
