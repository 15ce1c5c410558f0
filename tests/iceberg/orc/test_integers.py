"""ORC's run-length encodings, by the examples of its specification and against Arrow's writer."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaberg.iceberg.orc.integers import decode_integers

PATCHED = [2030, 2000, 2020, 1000000, *range(2040, 2200, 10)]
"""The specification's example of patched base encoding."""


@pytest.mark.parametrize(
    ("data", "values", "signed"),
    [
        ("0a2710", [10000] * 5, False),
        ("5e035ca1ab1edeadbeef", [23713, 43806, 57005, 48879], False),
        ("8e132b2107d01e00147028323c46505a646e78828c96a0aab4befce8", PATCHED, False),
        ("c609020222424246", [2, 3, 5, 7, 11, 13, 17, 19, 23, 29], False),
        ("0009", [-5, -5, -5], True),
    ],
)
def test_version_2_decodes_the_examples_of_the_specification(data: str, values: list[int], signed: bool) -> None:
    assert decode_integers(bytes.fromhex(data), len(values), signed=signed, version_2=True).tolist() == values


@pytest.mark.parametrize(
    ("data", "values", "signed"),
    [
        ("610007", [7] * 100, False),
        ("61ff64", list(range(100, 0, -1)), False),
        ("fb0203060711"[:12], [2, 3, 6, 7, 17], False),
        ("fd000102", [0, -1, 1], True),
    ],
)
def test_version_1_decodes_the_examples_of_the_specification(data: str, values: list[int], signed: bool) -> None:
    assert decode_integers(bytes.fromhex(data), len(values), signed=signed, version_2=False).tolist() == values


def test_no_values_need_no_data() -> None:
    assert decode_integers(b"", 0, signed=True, version_2=True).tolist() == []


@given(st.binary(max_size=60), st.booleans(), st.booleans(), st.integers(1, 2000))
def test_any_bytes_decode_or_are_refused(data: bytes, signed: bool, version_2: bool, count: int) -> None:
    try:
        found = decode_integers(data, count, signed=signed, version_2=version_2)
    except ValueError:
        return
    assert found.dtype == np.int64
    assert len(found) == count
