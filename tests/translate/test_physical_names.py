from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from deltaberg.iceberg.schema.schema import Schema
from deltaberg.iceberg.schema.types import ListType, LongType, MapType, NestedField, StringType, StructType
from deltaberg.translate.physical_names import choose_physical_names


def column(field_id: int, name: str, kind: object = None) -> NestedField:
    return NestedField(field_id=field_id, name=name, required=False, type=kind or LongType())  # type: ignore[arg-type]


def schema(*fields: NestedField) -> Schema:
    return Schema(schema_id=0, fields=fields)


NOBODY: frozenset[int] = frozenset()


def test_a_column_that_no_file_holds_keeps_its_name() -> None:
    assert choose_physical_names(schema(column(1, "a")), {}, present=NOBODY) == {1: "a"}


def test_the_name_that_most_bytes_use_wins() -> None:
    names = {1: {"old": 10, "older": 90}}
    assert choose_physical_names(schema(column(1, "new")), names, present=NOBODY) == {1: "older"}


def test_the_present_name_wins_where_as_many_bytes_use_it() -> None:
    for order in ({"old": 5, "new": 5}, {"new": 5, "old": 5}):
        assert choose_physical_names(schema(column(1, "new")), {1: order}, present=NOBODY) == {1: "new"}


def test_partition_columns_keep_their_present_name() -> None:
    found = choose_physical_names(
        schema(column(1, "p"), column(2, "v")), {1: {"q": 9}, 2: {"w": 9}}, present=frozenset({1})
    )
    assert found == {1: "p", 2: "w"}


def test_without_column_mapping_every_name_stays() -> None:
    assert choose_physical_names(schema(column(1, "new")), {1: {"old": 9}}, present=None) == {1: "new"}


def test_two_columns_never_share_a_name_whatever_the_case() -> None:
    found = choose_physical_names(
        schema(column(1, "a"), column(2, "b"), column(3, "c")),
        {1: {"x": 9}, 2: {"X": 9}, 3: {"x": 1}},
        present=NOBODY,
    )
    assert found == {1: "x", 2: "col-2", 3: "col-3"}


def test_columns_of_different_structs_may_share_a_name() -> None:
    inner = StructType(fields=(column(2, "a"),))
    found = choose_physical_names(schema(column(1, "s", inner), column(3, "a")), {2: {"a": 9}}, present=NOBODY)
    assert found == {1: "s", 2: "a", 3: "a"}


def test_parts_of_lists_and_maps_have_no_name_of_their_own_but_structs_in_them_do() -> None:
    element = column(2, "element", StructType(fields=(column(3, "x"),)))
    entries = MapType(
        key=NestedField(field_id=5, name="key", required=True, type=StringType()), value=column(6, "value")
    )
    found = choose_physical_names(
        schema(column(1, "l", ListType(element=element)), column(4, "m", entries)),
        {3: {"y": 1}, 2: {"array": 4}, 6: {"v": 4}},
        present=NOBODY,
    )
    assert found == {1: "l", 3: "y", 4: "m"}


def test_a_column_that_no_file_holds_avoids_a_name_that_files_give_to_another() -> None:
    """Such as one that was dropped and added again: whoever looks for ``a`` would find the values of the old one."""
    found = choose_physical_names(schema(column(7, "a")), {}, present=NOBODY, taken_in_files={7: {"a", "b"}})
    assert found == {7: "col-7"}


def test_a_partition_column_keeps_its_name_whatever_files_call_a() -> None:
    found = choose_physical_names(schema(column(7, "a")), {}, present=frozenset({7}), taken_in_files={7: {"a"}})
    assert found == {7: "a"}


def test_files_that_are_shared_under_any_name_never_have_another_column_under_a_columns_name() -> None:
    """``a`` was renamed to ``b``, and a new ``a`` came: old files hold 1 as ``a``, new ones 1 as ``b`` and 2 as ``a``."""
    names, taken = {1: {"a": 90, "b": 10}, 2: {"a": 10}}, {1: {"a"}, 2: {"a", "b"}}
    renamed = schema(column(1, "b"), column(2, "a"))
    found = choose_physical_names(renamed, names, present=NOBODY, taken_in_files=taken, shared_under_any_name=True)
    assert found == {1: "b", 2: "col-2"}
    others = choose_physical_names(renamed, names, present=NOBODY, taken_in_files=taken)
    assert others == {1: "a", 2: "col-2"}, "files with other names than these are not shared then"


def test_a_made_up_name_is_not_one_that_files_or_siblings_have() -> None:
    found = choose_physical_names(
        schema(column(1, "COL-7"), column(7, "a"), column(8, "c")),
        {8: {"col-7-2": 1}},
        present=NOBODY,
        taken_in_files={7: {"a", "col-7-2"}},
    )
    assert found == {1: "COL-7", 7: "col-7-3", 8: "col-7-2"}


@st.composite
def files_of_three_columns(draw: st.DrawFn) -> list[dict[int, str]]:
    """Which of three columns each file holds, and the name that each has in it."""
    names = ("a", "A", "b", "c", "col-1")
    files = draw(st.lists(st.dictionaries(st.sampled_from((1, 2, 3)), st.sampled_from(names)), max_size=4))
    return [file for file in files if len({name.lower() for name in file.values()}) == len(file)]


@given(files_of_three_columns(), st.permutations(("a", "b", "c")))
def test_no_shared_file_has_another_column_under_a_columns_name(
    files: list[dict[int, str]], present: list[str]
) -> None:
    taken: dict[int, set[str]] = {1: set(), 2: set(), 3: set()}
    counts: dict[int, dict[str, int]] = {1: {}, 2: {}, 3: {}}
    for file in files:
        for number in taken:
            taken[number] |= {name.lower() for other, name in file.items() if other != number}
        for number, name in file.items():
            counts[number][name] = counts[number].get(name, 0) + 1
    columns = schema(*(column(number, name) for number, name in enumerate(present, 1)))
    found = choose_physical_names(columns, counts, present=NOBODY, taken_in_files=taken, shared_under_any_name=True)
    assert len({name.lower() for name in found.values()}) == 3
    for file in files:
        for number, name in file.items():
            assert name.lower() not in {found[other].lower() for other in found if other != number}


def test_a_given_name_goes_before_the_present_one() -> None:
    found = choose_physical_names(
        schema(column(1, "p"), column(2, "q")), {2: {"file": 9}}, present=frozenset({1}), given={1: "col-1", 2: "col-2"}
    )
    assert found == {1: "col-1", 2: "file"}, "where files hold a column, theirs is its name"
