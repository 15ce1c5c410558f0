import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaberg.iceberg.manifest.data_file import BOUND_MAP, COUNT_MAP
from deltaberg.iceberg.manifest.metrics import metric, metric_ids, metric_map

COLUMN = st.lists(st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)), min_size=5, max_size=5)


def test_a_metric_is_aligned_with_the_files_and_null_where_a_file_has_none():
    maps = pa.array([[(1, 10), (2, 20)], None, [], [(2, 21)]], COUNT_MAP)
    assert metric(maps, 1).to_pylist() == [10, None, None, None]
    assert metric(maps, 2).to_pylist() == [20, None, None, 21]
    assert metric(maps, 3).to_pylist() == [None] * 4


def test_a_metric_of_a_slice_belongs_to_the_files_of_the_slice():
    maps = pa.array([[(1, 10)], [(1, 11)], [(1, 12)]], COUNT_MAP)
    assert metric(maps.slice(1), 1).to_pylist() == [11, 12]
    assert metric(pa.concat_arrays([maps, maps]).slice(2, 3), 1).to_pylist() == [12, 10, 11]


def test_of_a_key_that_occurs_twice_the_last_value_counts():
    assert metric(pa.array([[(1, 10), (1, 11)]], COUNT_MAP), 1).to_pylist() == [11]


def test_a_null_map_has_no_metric_even_where_values_stand_behind_it():
    hidden = pa.MapArray.from_arrays(
        pa.array([0, 1, 2], pa.int32()),
        pa.array([1, 1], pa.int32()),
        pa.array([10, 11], pa.int64()),
        mask=pa.array([True, False]),
    )
    assert metric(hidden, 1).to_pylist() == [None, 11]
    assert metric_ids(pa.array([None, [(7, 1)], [(3, 1), (7, 2)]], COUNT_MAP)) == (3, 7)


def test_a_map_leaves_out_the_keys_of_null_values():
    maps = metric_map({3: pa.array([b"x", None], pa.binary()), 1: pa.array([None, b"y"], pa.binary())})
    assert maps.type == BOUND_MAP
    assert maps.to_pylist() == [[(3, b"x")], [(1, b"y")]]


@pytest.mark.parametrize("length", [0, 2])
def test_no_columns_give_empty_maps(length):
    assert metric_map({}, length=length).to_pylist() == [[]] * length


@given(st.dictionaries(st.integers(0, 2**31 - 1), COLUMN, min_size=1, max_size=6))
def test_columns_come_back_out_of_their_maps(columns):
    maps = metric_map({field_id: pa.array(values, pa.int64()) for field_id, values in columns.items()})
    maps.validate(full=True)
    for field_id, values in columns.items():
        assert metric(maps, field_id).to_pylist() == values
    expected = tuple(sorted(key for key, values in columns.items() if any(value is not None for value in values)))
    assert metric_ids(maps) == expected
