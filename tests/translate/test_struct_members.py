from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import given
from hypothesis import strategies as st

from deltaberg.translate.struct_members import StructMembers

STRUCT = pa.struct([("a", pa.int64()), ("b", pa.struct([("c", pa.string()), ("d", pa.int32())]))])
ROW = st.none() | st.fixed_dictionaries(
    {
        "a": st.none() | st.integers(-5, 5),
        "b": st.none() | st.fixed_dictionaries({"c": st.none() | st.text(max_size=2), "d": st.none() | st.just(1)}),
    }
)


@given(st.lists(ROW, max_size=6), st.integers(0, 3), st.integers(0, 6))
def test_members_are_those_that_arrow_finds_in_whole_and_cut_arrays(
    rows: list[object], start: int, length: int
) -> None:
    values = pa.array(rows, STRUCT).slice(start, length)
    members = StructMembers(values)
    for path in (("a",), ("b",), ("b", "c"), ("b", "d"), ("b", "c")):
        assert members.at(path).to_pylist() == pc.struct_field(values, list(path)).to_pylist()


def test_there_is_none_of_an_unknown_name_below_a_leaf_or_of_a_name_given_twice() -> None:
    values = pa.StructArray.from_arrays([pa.array([1]), pa.array([2]), pa.array([3])], names=["a", "x", "x"])
    members = StructMembers(values)
    assert members.at(("a",)).to_pylist() == [1]
    assert [members.at(path) for path in (("x",), ("y",), ("a", "b"), ("y", "b", "c"))] == [None] * 4
