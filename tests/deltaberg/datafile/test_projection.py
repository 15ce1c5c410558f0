"""Projection: fields found by id or name, nested anywhere, with defaults and nulls where the file lacks them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deltaberg.datafile import DataFileError, NamedField, Projection, ReadField, file_fields, project

Kind = Literal["id", "name"]


def field(name: str, kind: pa.DataType, number: int | None = None, **more: Any) -> ReadField:
    return ReadField(**{"name": name, "type": kind, "field_id": number, "physical_name": name, **more})


def struct_field(name: str, number: int | None, *children: ReadField, **more: Any) -> ReadField:
    kind = pa.struct([pa.field(child.name, child.type, child.nullable) for child in children])
    return field(name, kind, number, children=children, **more)


def list_field(name: str, number: int | None, element: ReadField, **more: Any) -> ReadField:
    element = replace(element, name="element")
    kind = pa.list_(pa.field("element", element.type, element.nullable))
    return field(name, kind, number, children=(element,), **more)


def map_field(name: str, number: int | None, key: ReadField, value: ReadField, **more: Any) -> ReadField:
    key, value = replace(key, name="key", nullable=False), replace(value, name="value")
    kind = pa.map_(pa.field("key", key.type, False), pa.field("value", value.type, value.nullable))
    return field(name, kind, number, children=(key, value), **more)


def stored(name: str, kind: pa.DataType, number: int | None = None, nullable: bool = True) -> pa.Field:
    return pa.field(name, kind, nullable, None if number is None else {"PARQUET:field_id": str(number)})


def batch(rows: list[dict[str, Any]], *fields: pa.Field) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, pa.schema(fields))


def read(data: pa.RecordBatch, *fields: ReadField, match: Kind = "id", **more: Any) -> list[dict[str, Any]]:
    result = project(data, None, fields, match=match, **more)
    result.validate(full=True)
    assert result.schema.types == [item.type for item in fields]
    rows: list[dict[str, Any]] = result.to_pylist()
    return rows


def test_ids_find_renamed_and_reordered_fields() -> None:
    data = batch([{"old": 1, "b": "x"}], stored("old", pa.int32(), 1), stored("b", pa.string(), 2))
    assert read(data, field("b", pa.string(), 2), field("new", pa.int64(), 1)) == [{"b": "x", "new": 1}]


def test_a_dropped_and_added_name_is_another_field() -> None:
    data = batch([{"a": 1}], stored("a", pa.int32(), 1))
    assert read(data, field("a", pa.int32(), 7)) == [{"a": None}]


def test_physical_names_find_fields_whatever_their_ids() -> None:
    data = batch([{"col-1": 1}], stored("col-1", pa.int32(), 99))
    assert read(data, field("shown", pa.int32(), 5, physical_name="col-1"), match="name") == [{"shown": 1}]


def test_names_that_differ_only_in_case_are_found_unless_that_is_ambiguous() -> None:
    data = batch([{"Id": 1, "ID": 2}], stored("Id", pa.int32()), stored("ID", pa.int32()))
    assert read(data, field("ID", pa.int32()), match="name") == [{"ID": 2}]
    with pytest.raises(DataFileError, match=r"Cannot read column 'id': 2 columns of the file have its name 'id'"):
        read(data, field("id", pa.int32()), match="name")
    one = batch([{"Id": 1}], stored("Id", pa.int32()))
    assert read(one, field("id", pa.int32()), match="name") == [{"id": 1}]


def test_two_columns_of_one_id_are_refused_only_when_asked_for() -> None:
    data = batch([{"a": 1, "b": 2, "c": 3}], *(stored(n, pa.int32(), i) for n, i in (("a", 1), ("b", 1), ("c", 3))))
    assert read(data, field("c", pa.int32(), 3)) == [{"c": 3}]
    with pytest.raises(DataFileError, match="2 columns of the file have its field id 1"):
        read(data, field("a", pa.int32(), 1))


def test_a_file_without_ids_needs_a_name_mapping() -> None:
    data = batch([{"a": 1}], stored("a", pa.int32()))
    with pytest.raises(DataFileError, match="it has no field ids"):
        read(data, field("a", pa.int32(), 1))
    assert read(data, field("b", pa.int32(), 1), name_mapping=(NamedField(names=("a",), field_id=1),)) == [{"b": 1}]


def test_a_name_mapping_reaches_into_structs_lists_and_maps() -> None:
    inner = pa.struct([("x", pa.int32())])
    data = batch(
        [{"s": {"x": 1}, "l": [{"x": 2}], "m": [("k", {"x": 3})], "extra": 4}],
        stored("s", inner),
        stored("l", pa.list_(pa.field("array", inner))),
        stored("m", pa.map_(pa.string(), inner)),
        stored("extra", pa.int32()),
    )

    def mapped(number: int | None, *names: str, children: tuple[NamedField, ...] = ()) -> NamedField:
        return NamedField(names=names, field_id=number, children=children)

    mapping = (
        mapped(1, "s", "former", children=(mapped(2, "x"),)),
        mapped(3, "l", children=(mapped(4, "element", children=(mapped(5, "x"),)),)),
        mapped(6, "m", children=(mapped(7, "key"), mapped(8, "value", children=(mapped(9, "x"),)))),
        mapped(None, "extra"),
    )
    x = field("y", pa.int64(), None)
    fields = (
        struct_field("s", 1, replace(x, field_id=2)),
        list_field("l", 3, struct_field("element", 4, replace(x, field_id=5))),
        map_field("m", 6, field("key", pa.string(), 7), struct_field("value", 8, replace(x, field_id=9))),
    )
    assert read(data, *fields, name_mapping=mapping) == [{"s": {"y": 1}, "l": [{"y": 2}], "m": [("k", {"y": 3})]}]


def test_a_name_mapping_does_not_overrule_ids_of_the_file() -> None:
    data = batch([{"a": 1, "b": 2}], stored("a", pa.int32(), 5), stored("b", pa.int32()))
    mapping = (NamedField(names=("a",), field_id=1), NamedField(names=("b",), field_id=2))
    fields = (field("a", pa.int32(), 1), field("b", pa.int32(), 2), field("c", pa.int32(), 5))
    assert read(data, *fields, name_mapping=mapping) == [{"a": None, "b": 2, "c": 1}]


def test_elements_keys_and_values_are_found_by_place_whatever_their_names_and_ids() -> None:
    data = batch(
        [{"l": [1], "m": [("k", 2)]}],
        stored("l", pa.list_(stored("array", pa.int32(), 77)), 1),
        stored("m", pa.map_(pa.string(), stored("v", pa.int32(), 78)), 2),
    )
    fields = (
        list_field("l", 1, field("element", pa.int64(), 11)),
        map_field("m", 2, field("key", pa.string(), 12), field("value", pa.int64(), 13)),
    )
    assert read(data, *fields) == [{"l": [1], "m": [("k", 2)]}]


@pytest.mark.parametrize("kind", [pa.list_, pa.large_list, pa.list_view, pa.large_list_view, lambda t: pa.list_(t, 2)])
def test_every_kind_of_list_is_read(kind: Any) -> None:
    data = batch([{"l": [1, None]}, {"l": None}], stored("l", kind(pa.int32())))
    assert read(data, list_field("l", None, field("element", pa.int64())), match="name") == [
        {"l": [1, None]},
        {"l": None},
    ]


def test_missing_fields_are_null_or_their_default() -> None:
    data = batch([{"a": 1}, {"a": 2}], stored("a", pa.int32(), 1))
    fields = (
        field("n", pa.string(), 2),
        field("d", pa.int64(), 3, default=pa.scalar(7, pa.int32()), nullable=False),
        field("t", pa.timestamp("us", "UTC"), 4, default=pa.scalar(5, pa.timestamp("us", "UTC"))),
        field("z", pa.null(), 5),
        struct_field("s", 6, field("x", pa.int32(), 7, default=pa.scalar(1)), field("y", pa.int32(), 8)),
        struct_field(
            "e", 9, field("x", pa.int32(), 10, default=pa.scalar(1)), field("y", pa.int32(), 11),
            default=pa.scalar({}, pa.struct([])),
        ),
        list_field("l", 12, field("element", pa.int32(), 13), default=pa.scalar([4], pa.list_(pa.int32()))),
    )  # fmt: skip
    rows = read(data, *fields)
    assert rows[0] == rows[1]
    assert rows[0]["t"].microsecond == 5
    assert {**rows[0], "t": 0} == {
        "n": None, "d": 7, "t": 0, "z": None, "s": None, "e": {"x": 1, "y": None}, "l": [4],
    }  # fmt: skip


def test_a_required_field_must_be_there_or_have_a_default() -> None:
    data = batch([{"a": 1}], stored("a", pa.int32(), 1))
    with pytest.raises(DataFileError, match=r"Cannot read column 's\.x': the file lacks it, and it is required"):
        read(
            batch([{"s": {"y": 1}}], stored("s", pa.struct([stored("y", pa.int32(), 2)]), 1)),
            struct_field("s", 1, field("x", pa.int32(), 9, nullable=False)),
        )
    with pytest.raises(DataFileError, match="Cannot read column 'b': the file lacks it"):
        read(data, field("b", pa.int32(), 2, nullable=False))


def test_a_nested_default_stays_away_where_the_parent_is_null() -> None:
    data = batch(
        [{"s": {"x": 1}}, {"s": None}, {"s": {"x": None}}],
        stored("s", pa.struct([stored("x", pa.int32(), 2)]), 1),
    )
    added = field("d", pa.int32(), 3, default=pa.scalar(42, pa.int32()), nullable=False)
    expected = [{"s": {"x": 1, "d": 42}}, {"s": None}, {"s": {"x": None, "d": 42}}]
    assert read(data, struct_field("s", 1, field("x", pa.int32(), 2), added)) == expected
    assert read(data, struct_field("s", 1, added)) == [{"s": {"d": 42}}, {"s": None}, {"s": {"d": 42}}]


def test_a_struct_of_added_fields_still_knows_where_it_is_null() -> None:
    inner = pa.struct([stored("deep", pa.list_(stored("element", pa.int32(), 5)), 4)])
    data = batch(
        [{"s": {"i": {"deep": [1]}}}, {"s": None}, {"s": {"i": None}}],
        stored("s", pa.struct([stored("i", inner, 2)]), 1),
    )
    fields = struct_field("s", 1, struct_field("i", 2, field("new", pa.int32(), 9)))
    projection = Projection(file_fields(data.schema), [fields], match="id")
    assert projection.leaves == (0,)
    assert read(data, fields) == [{"s": {"i": {"new": None}}}, {"s": None}, {"s": {"i": None}}]


def test_required_parents_and_children_are_told_from_null_parents() -> None:
    kind = pa.struct([stored("x", pa.int32(), 2)])
    wanted = struct_field("s", 1, field("x", pa.int32(), 2, nullable=False))
    good = batch([{"s": {"x": 1}}, {"s": None}], stored("s", kind, 1))
    assert read(good, wanted) == [{"s": {"x": 1}}, {"s": None}]
    with pytest.raises(DataFileError, match=r"Cannot read column 's\.x': a value is null"):
        read(batch([{"s": {"x": None}}], stored("s", kind, 1)), wanted)
    with pytest.raises(DataFileError, match="Cannot read column 's': a value is null"):
        read(good, replace(wanted, nullable=False))
    items = stored("l", pa.list_(stored("element", pa.int32(), 2)), 1)
    with pytest.raises(DataFileError, match=r"Cannot read column 'l\.element': a value is null"):
        read(batch([{"l": [None]}], items), list_field("l", 1, field("element", pa.int32(), 2, nullable=False)))
    assert read(batch([{"l": None}], items), list_field("l", 1, field("element", pa.int32(), 2, nullable=False))) == [
        {"l": None}
    ]


def test_required_fields_below_null_parents_have_no_nulls_of_their_own() -> None:
    inner = pa.struct([stored("x", pa.int32(), 3), stored("t", pa.string(), 4), stored("l", pa.list_(pa.int32()), 5)])
    data = batch(
        [{"s": {"i": {"x": 1, "t": "a", "l": [1]}}}, {"s": None}], stored("s", pa.struct([stored("i", inner, 2)]), 1)
    )
    below = (
        field("x", pa.int32(), 3, nullable=False),
        field("t", pa.string(), 4, nullable=False),
        list_field("l", 5, field("element", pa.int32(), 6), nullable=False),
    )
    wanted = struct_field("s", 1, struct_field("i", 2, *below, nullable=False))
    result = project(data, None, [wanted], match="id")
    result.validate(full=True)
    assert result.to_pylist() == [{"s": {"i": {"x": 1, "t": "a", "l": [1]}}}, {"s": None}]
    required = result["s"].field(0)
    assert [required.null_count, *(required.field(index).null_count for index in range(3))] == [0, 0, 0, 0]


def test_required_columns_of_a_file_are_read_as_optional_ones() -> None:
    kind = pa.struct([stored("x", pa.int32(), 2, False)])
    data = batch([{"s": {"x": 1}}], stored("s", kind, 1, False))
    assert read(data, struct_field("s", 1, field("x", pa.int32(), 2))) == [{"s": {"x": 1}}]


def test_nested_mismatches_name_the_whole_path() -> None:
    kind = pa.map_(
        pa.string(), stored("value", pa.list_(stored("element", pa.struct([stored("x", pa.string(), 5)]), 4)), 3)
    )
    data = batch([{"m": [("k", [{"x": "1"}])]}], stored("m", kind, 1))
    below = list_field("value", 3, struct_field("element", 4, field("x", pa.int32(), 5)))
    with pytest.raises(DataFileError, match=r"'m\.value\.element\.x'.*expected int32, found string"):
        read(data, map_field("m", 1, field("key", pa.string(), 2), below))
    with pytest.raises(DataFileError, match=r"Cannot read column 'm'.*found map"):
        read(data, list_field("m", 1, field("element", pa.int32(), 2)))


def test_only_the_needed_leaves_are_asked_for() -> None:
    schema = pa.schema(
        [
            stored("a", pa.int32(), 1),
            stored("s", pa.struct([stored("x", pa.int32(), 3), stored("y", pa.int32(), 4)]), 2),
            stored("m", pa.map_(stored("key", pa.string(), 6, False), stored("value", pa.struct([stored("p", pa.int32(), 8), stored("q", pa.int32(), 9)]), 7)), 5),
            stored("z", pa.int32(), 10),
        ]
    )  # fmt: skip
    fields = [
        field("z", pa.int32(), 10),
        struct_field("s", 2, field("y", pa.int32(), 4)),
        map_field("m", 5, field("key", pa.string(), 6), struct_field("value", 7, field("q", pa.int32(), 9))),
        field("gone", pa.int32(), 11),
    ]
    assert Projection(file_fields(schema), fields, match="id").leaves == (2, 3, 5, 6)


def test_slices_of_batches_are_read_as_they_stand() -> None:
    kind = pa.list_(stored("element", pa.struct([stored("x", pa.int32(), 3)]), 2))
    schema = (stored("l", kind, 1), stored("m", pa.map_(pa.string(), pa.int32()), 4))
    rows = [{"l": [{"x": n}] * n if n % 3 else None, "m": [(str(n), n)] if n % 2 else None} for n in range(20)]
    wanted = (
        list_field("l", 1, struct_field("element", 2, field("x", pa.int64(), 3))),
        map_field("m", 4, field("key", pa.string(), 5), field("value", pa.int64(), 6)),
    )
    assert read(batch(rows, *schema).slice(7, 9), *wanted) == rows[7:16]


def test_no_columns_keep_the_number_of_rows() -> None:
    result = project(batch([{"a": 1}] * 3, stored("a", pa.int32())), None, [], match="name")
    assert (result.num_rows, result.num_columns) == (3, 0)


def test_a_field_id_that_is_no_number_is_refused() -> None:
    with pytest.raises(DataFileError, match="its field id is b'x'"):
        file_fields(pa.schema([pa.field("a", pa.int32(), metadata={"PARQUET:field_id": "x"})]))


types = st.recursive(
    st.sampled_from([pa.int32(), pa.string(), pa.float32()]),
    lambda below: st.one_of(
        below.map(lambda kind: pa.list_(pa.field("element", kind))),
        below.map(lambda kind: pa.map_(pa.string(), pa.field("value", kind))),
        st.lists(below, min_size=1, max_size=3).map(
            lambda kinds: pa.struct([(f"f{n}", k) for n, k in enumerate(kinds)])
        ),
    ),
    max_leaves=6,
)


def values_of(kind: pa.DataType) -> st.SearchStrategy[Any]:
    if pa.types.is_struct(kind):
        made: st.SearchStrategy[Any] = st.fixed_dictionaries({item.name: values_of(item.type) for item in kind})
    elif pa.types.is_map(kind):
        made = st.lists(st.tuples(st.text(max_size=2), values_of(kind.item_type)), max_size=3, unique_by=lambda e: e[0])
    elif pa.types.is_list(kind):
        made = st.lists(values_of(kind.value_type), max_size=3)
    elif pa.types.is_string(kind):
        made = st.text(max_size=3)
    elif pa.types.is_integer(kind):
        made = st.integers(-(2**31), 2**31 - 1)
    else:
        made = st.floats(width=32, allow_nan=False)
    return st.none() | made


def widened(name: str, kind: pa.DataType) -> ReadField:
    if pa.types.is_struct(kind):
        return struct_field(name, None, *(widened(item.name, item.type) for item in reversed(list(kind))))
    if pa.types.is_map(kind):
        return map_field(name, None, field("key", pa.string()), widened("value", kind.item_type))
    if pa.types.is_list(kind):
        return list_field(name, None, widened("element", kind.value_type))
    return field(name, {pa.int32(): pa.int64(), pa.float32(): pa.float64()}.get(kind, kind))


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_nesting_is_widened_and_reordered_without_changing_values(data: st.DataObject) -> None:
    kind = data.draw(types)
    column = data.draw(st.lists(values_of(kind), max_size=8))
    arrays = pa.array(column, kind)
    start = data.draw(st.integers(0, len(column)))
    source = pa.RecordBatch.from_arrays([arrays], ["c"]).slice(start)
    rows = read(source, widened("c", kind), match="name")
    assert [row["c"] for row in rows] == source["c"].to_pylist()
