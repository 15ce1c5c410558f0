from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaberg.migrate.verify.row_hash import USUAL_KEY, HashKey, column_hashes, row_hashes

SAME = [
    ([1, None, -3], pa.int8(), pa.int64()),
    (["a", "", None], pa.string(), pa.large_string()),
    ([b"a", b"", None], pa.binary(), pa.large_binary()),
    ([b"abcd", None], pa.binary(), pa.binary(4)),
    ([1.5, None], pa.float32(), pa.float64()),
    ([Decimal("1.50"), None], pa.decimal128(5, 2), pa.decimal128(20, 2)),
    ([dt.datetime(2024, 1, 1), None], pa.timestamp("us"), pa.timestamp("us", tz="UTC")),
    ([[1, None], [], None], pa.list_(pa.int32()), pa.large_list(pa.int64())),
]


@pytest.mark.parametrize(("values", "one", "other"), SAME, ids=str)
def test_equal_values_hash_alike_whatever_arrow_calls_them(values: Any, one: Any, other: Any) -> None:
    left, right = column_hashes(pa.array(values, one)), column_hashes(pa.array(values, other))
    assert left.tolist() == right.tolist()
    assert len(set(left.tolist())) == len(values)


def test_nan_is_one_value_and_zero_two() -> None:
    quiet, other = np.array([0x7FF8000000000000, 0xFFF8000000000001], np.uint64).view(np.float64)
    hashes = column_hashes(pa.array([quiet, other, 0.0, -0.0], pa.float64())).tolist()
    assert hashes[0] == hashes[1]
    assert len(set(hashes)) == 3


def test_maps_ignore_and_lists_count_the_order() -> None:
    kind = pa.map_(pa.string(), pa.int64())
    one, other = column_hashes(pa.array([[("a", 1), ("b", 2)], [("b", 2), ("a", 1)]], kind))
    assert one == other
    assert len(set(column_hashes(pa.array([[1, 2], [2, 1], [12], []], pa.list_(pa.int64()))).tolist())) == 4


def test_fields_without_a_type_have_no_say_at_any_depth() -> None:
    inner = pa.struct([("a", pa.int64())])
    with_void = pa.struct([("n", pa.null()), ("a", pa.int64())])
    values = [{"a": 1}, {"a": None}, None]
    assert column_hashes(pa.array(values, inner)).tolist() == column_hashes(pa.array(values, with_void)).tolist()
    lists = [[{"a": 1}, None], [], None]
    left, right = (column_hashes(pa.array(lists, pa.list_(kind))).tolist() for kind in (inner, with_void))
    assert left == right


def test_a_null_differs_from_what_is_empty() -> None:
    for values, kind in (
        ([None, ""], pa.string()),
        ([None, []], pa.list_(pa.int64())),
        ([None, {"a": None}], pa.struct([("a", pa.int64())])),
        ([None, 0], pa.int64()),
    ):
        assert len(set(column_hashes(pa.array(values, kind)).tolist())) == 2


def test_columns_that_swap_their_values_make_other_rows() -> None:
    one, two = column_hashes(pa.array([1])), column_hashes(pa.array([2]))
    assert row_hashes({"a": one, "b": two}, 1) != row_hashes({"a": two, "b": one}, 1)
    assert row_hashes({"a": one, "b": two}, 1) == row_hashes({"b": two, "a": one}, 1)


@given(
    values=st.lists(st.one_of(st.none(), st.lists(st.one_of(st.none(), st.text(max_size=4)), max_size=3)), max_size=8),
    start=st.integers(0, 8),
)
def test_a_slice_hashes_as_its_copy(values: Any, start: int) -> None:
    whole = pa.array(values, pa.list_(pa.string()))
    assert column_hashes(whole.slice(start)).tolist() == column_hashes(pa.array(values[start:], whole.type)).tolist()


@given(rows=st.lists(st.tuples(st.integers(-5, 5), st.text(max_size=3)), unique=True, max_size=40))
def test_different_rows_hash_apart(rows: Any) -> None:
    columns = {
        "a": column_hashes(pa.array([each[0] for each in rows], pa.int64())),
        "b": column_hashes(pa.array([each[1] for each in rows], pa.string())),
    }
    assert len(set(row_hashes(columns, len(rows)).tolist())) == len(rows)


OTHER_KEY = HashKey(salt=0x0123456789ABCDEF, base=0xFEDCBA9876543211)
NESTED = pa.struct([("n", pa.list_(pa.map_(pa.string(), pa.decimal128(9, 2)))), ("f", pa.float64())])


@pytest.mark.parametrize(("values", "one", "other"), SAME, ids=str)
def test_under_every_key_equal_values_hash_alike(values: Any, one: Any, other: Any) -> None:
    left = column_hashes(pa.array(values, one), OTHER_KEY)
    assert left.tolist() == column_hashes(pa.array(values, other), OTHER_KEY).tolist()
    assert not set(left.tolist()) & set(column_hashes(pa.array(values, one)).tolist())


@pytest.mark.parametrize("length", [1, 7, 900])
def test_texts_that_collide_under_one_key_do_not_under_another(length: int) -> None:
    """The hash of a text is a polynomial: with the base 1 anagrams collide, which another base tells apart."""
    weak = HashKey(salt=USUAL_KEY.salt, base=1)
    anagrams = pa.array(["ab" * length, "ba" * length])
    assert len(set(column_hashes(anagrams, weak).tolist())) == 1
    assert len(set(column_hashes(anagrams, OTHER_KEY).tolist())) == 2


def test_a_key_reaches_every_depth() -> None:
    values = pa.array([{"n": [[("a", Decimal("1.00"))]], "f": 1.0}], NESTED)
    keys = [HashKey(salt=salt, base=base) for salt, base in ((1, 3), (2, 3), (1, 5))]
    assert len({column_hashes(values, key)[0] for key in keys}) == len(keys)
    one, other = ({"a": column_hashes(values, key)} for key in keys[:2])
    assert row_hashes(one, 1, keys[0]) != row_hashes(other, 1, keys[1])
