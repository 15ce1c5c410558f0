"""Keys are equal exactly when Iceberg calls the tuples equal."""

from __future__ import annotations

import struct
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaberg.iceberg.schema.tuple_keys import hash_keys, tuple_keys

NANS = [struct.unpack("<d", struct.pack("<Q", bits))[0] for bits in (0x7FF8000000000000, 0xFFF8000000000001)]


def keys(*columns: pa.Array) -> list[bytes]:
    found: list[bytes] = tuple_keys(columns, len(columns[0])).to_pylist()
    return found


@pytest.mark.parametrize(
    ("values", "classes"),
    [
        (pa.array([0.0, -0.0, NANS[0], NANS[1], None, 1.0, None]), [0, 1, 2, 2, 3, 4, 3]),
        (pa.array([0.0, -0.0, NANS[0], None], pa.float32()), [0, 1, 2, 3]),
        (pa.array(["", None, "a", "a "]), [0, 1, 2, 3]),
        (pa.array([True, False, None, True]), [0, 1, 2, 0]),
        (pa.array([Decimal("1.50"), Decimal("1.5"), None], pa.decimal128(9, 2)), [0, 0, 1]),
        (pa.array([None, None], pa.null()), [0, 0]),
        (pa.array([0, 1, None], pa.time64("us")), [0, 1, 2]),
    ],
)
def test_keys_tell_values_apart_as_iceberg_does(values: pa.Array, classes: list[int]) -> None:
    found = keys(values)
    for i, one in enumerate(classes):
        for j, two in enumerate(classes):
            assert (found[i] == found[j]) == (one == two), (i, j)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (pa.int32(), pa.int64()),
        (pa.float32(), pa.float64()),
        (pa.date32(), pa.int32()),
        (pa.string(), pa.binary()),
    ],
)
def test_a_value_has_the_key_of_its_promotion(old: pa.DataType, new: pa.DataType) -> None:
    raw = pa.array(["a", None, ""]) if old == pa.string() else pa.array([-1, 0, None], pa.int32())
    values = raw.cast(old)
    assert keys(values) == keys(values.cast(new))
    narrow = pa.array([Decimal("1.23"), None], pa.decimal128(5, 2))
    assert keys(narrow) == keys(narrow.cast(pa.decimal128(20, 2)))


@given(st.lists(st.tuples(st.one_of(st.none(), st.binary(max_size=4)), st.one_of(st.none(), st.binary(max_size=4)))))
def test_tuples_share_a_key_only_when_they_are_equal(rows: list[tuple[Any, Any]]) -> None:
    columns = [pa.array([row[i] for row in rows], pa.binary()) for i in (0, 1)]
    found = keys(*columns)
    assert len(set(found)) == len(set(rows))
    hashes = hash_keys(tuple_keys(columns, len(rows)))
    assert len(hashes) == len(rows)
    by_key = dict(zip(found, hashes.tolist(), strict=True))
    assert [by_key[key] for key in found] == hashes.tolist()


def test_without_columns_all_rows_share_a_key() -> None:
    assert tuple_keys([], 3).to_pylist() == [b"\x00"] * 3


def test_hashes_do_not_depend_on_place_or_width() -> None:
    found = tuple_keys([pa.array(["a", "bb", None, "x" * 5000])], 4)
    assert hash_keys(found.slice(1)).tolist() == hash_keys(found).tolist()[1:]
    assert hash_keys(found.cast(pa.large_binary())).tolist() == hash_keys(found).tolist()
    assert len(np.unique(hash_keys(found))) == 4


def test_nested_values_have_no_key() -> None:
    with pytest.raises(TypeError, match="have no key"):
        tuple_keys([pa.array([[1]])], 1)
