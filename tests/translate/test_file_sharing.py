"""What keeps readers of the other format from sharing a file, and which obstacles count."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from deltaberg.datafile import FileField, file_fields
from deltaberg.delta.schema import types as delta
from deltaberg.iceberg.schema import types as ice
from deltaberg.iceberg.schema.name_mapping import NameMapping
from deltaberg.translate import codes
from deltaberg.translate.field_ids import assigned_ids
from deltaberg.translate.file_sharing import (
    SharingBlocker,
    delta_blockers,
    effective_blockers,
    fields_by_id,
    fields_by_path,
    iceberg_blockers,
    name_obstacles,
    names_in_file,
    narrower_types,
)

RENAMED = SharingBlocker(code=codes.FORMER_NAMES, column="new")
IMPORTED = SharingBlocker(code=codes.FIELD_IDS_DISAGREE, column="other")
WITHOUT_DEFAULT = SharingBlocker(code=codes.INITIAL_DEFAULT, column="added")
FOREIGN_TYPE = SharingBlocker(code=codes.TYPE_MAPPED, column="id")


def test_former_names_do_not_refuse_a_file_that_is_written_anew_for_another_reason() -> None:
    assert effective_blockers((RENAMED, WITHOUT_DEFAULT)) == (WITHOUT_DEFAULT,)
    assert effective_blockers((FOREIGN_TYPE, RENAMED, IMPORTED)) == (FOREIGN_TYPE,)


def test_former_names_of_a_file_that_could_be_shared_otherwise_count() -> None:
    assert effective_blockers((RENAMED,)) == (RENAMED,)
    assert effective_blockers((RENAMED, IMPORTED)) == (RENAMED, IMPORTED)
    assert effective_blockers(()) == ()


def test_a_file_with_a_refused_column_keeps_all_its_obstacles() -> None:
    refused = SharingBlocker(code=codes.TYPE_NOT_IN_DELTA, column="t")
    assert effective_blockers((refused, RENAMED)) == (refused, RENAMED)


def tree(*columns: tuple[str, Any, int | None]) -> tuple[FileField, ...]:
    return file_fields(
        pa.schema(
            [
                pa.field(name, kind, metadata=None if number is None else {"PARQUET:field_id": str(number)})
                for name, kind, number in columns
            ]
        )
    )


def part(name: str, kind: Any, number: int | None) -> pa.Field:
    return pa.field(name, kind, metadata=None if number is None else {"PARQUET:field_id": str(number)})


def towards_iceberg(
    fields: tuple[FileField, ...], schema: Any, *, by_id: bool = False, version: int = 2, **more: Any
) -> list[tuple[str, str]]:
    ids = assigned_ids(schema, known={})
    held = fields_by_path(fields, schema, ids, by_id=by_id)
    found = iceberg_blockers(fields, schema, ids, held, format_version=version, **more)
    return [(each.code.name, each.column) for each in found]


def test_a_file_with_the_tables_ids_or_none_is_shared(column: Any, delta_schema: Any) -> None:
    schema = delta_schema(column("a", delta.LongType()), column("b", delta.StringType()))
    for numbers in ((1, 2), (None, None)):
        fields = tree(("a", pa.int64(), numbers[0]), ("b", pa.string(), numbers[1]))
        assert towards_iceberg(fields, schema) == []


def test_ids_of_another_table_are_foreign(column: Any, delta_schema: Any) -> None:
    schema = delta_schema(column("a", delta.LongType()), column("b", delta.StringType()))
    swapped = tree(("a", pa.int64(), 2), ("b", pa.string(), 1))
    assert towards_iceberg(swapped, schema) == [("field-ids-foreign", "a"), ("field-ids-foreign", "b")]
    stranger = tree(("a", pa.int64(), 1), ("gone", pa.string(), 2))
    assert towards_iceberg(stranger, schema) == [("field-ids-foreign", "gone")]


def test_list_elements_without_id_beside_columns_with_one(column: Any, delta_schema: Any) -> None:
    schema = delta_schema(column("l", delta.ArrayType(element_type=delta.LongType())))
    bare = tree(("l", pa.list_(part("element", pa.int64(), None)), 1))
    whole = tree(("l", pa.list_(part("element", pa.int64(), 2)), 1))
    assert towards_iceberg(bare, schema) == [("nested-ids-missing", "l.element")]
    assert towards_iceberg(whole, schema) == []


@pytest.mark.parametrize(
    ("kind", "stored", "version", "code"),
    [
        (delta.LongType(), pa.int32(), 2, None),
        (delta.DoubleType(), pa.int32(), 3, "narrow-type"),
        (delta.TimestampNtzType(), pa.date32(), 2, "narrow-type"),
        (delta.TimestampNtzType(), pa.date32(), 3, None),
        (delta.DecimalType(precision=9, scale=3), pa.decimal128(5, 2), 3, "narrow-type"),
        (delta.StringType(), pa.binary(), 2, "narrow-type"),
        (delta.TimestampType(), pa.timestamp("us"), 2, "physical-type-foreign"),
        (delta.TimestampType(), pa.timestamp("ns", tz="UTC"), 2, "physical-type-foreign"),
        (delta.ByteType(), pa.int8(), 2, None),
        (delta.LongType(), pa.uint32(), 2, "physical-type-foreign"),
    ],
)
def test_stored_types_that_iceberg_readers_cannot_promote(
    column: Any, delta_schema: Any, kind: Any, stored: Any, version: int, code: str | None
) -> None:
    found = towards_iceberg(tree(("a", stored, None)), delta_schema(column("a", kind)), version=version)
    assert found == ([] if code is None else [(code, "a")])


def test_columns_whose_value_is_not_taken_from_the_file_do_not_matter(column: Any, delta_schema: Any) -> None:
    schema = delta_schema(column("p", delta.TimestampType()))
    assert towards_iceberg(tree(("p", pa.timestamp("us"), None)), schema, skip=[("p",)]) == []


# Towards Delta


def named(fields: tuple[FileField, ...], schema: Any, names: dict[int, str]) -> list[str]:
    held = fields_by_id(fields, schema, None)
    return [each.column for each in name_obstacles(fields, schema, held, names)]


def test_a_column_under_a_former_name_is_in_the_way_of_readers_by_name(field: Any, iceberg_schema: Any) -> None:
    schema = iceberg_schema(field(1, "new", ice.LongType()))
    assert named(tree(("old", pa.int64(), 1)), schema, {1: "new"}) == ["new"]
    assert named(tree(("old", pa.int64(), 1)), schema, {1: "old"}) == []


def test_a_dropped_column_that_was_added_again_is_not_taken_for_the_new_one(field: Any, iceberg_schema: Any) -> None:
    schema = iceberg_schema(field(7, "a", ice.LongType()))
    assert named(tree(("a", pa.int64(), 3)), schema, {7: "a"}) == ["a"]


def test_a_rename_inside_a_struct_counts(field: Any, iceberg_schema: Any) -> None:
    inner = ice.StructType(fields=(field(2, "y", ice.LongType()),))
    schema = iceberg_schema(field(1, "s", inner))
    fields = tree(("s", pa.struct([part("x", pa.int64(), 2)]), 1))
    assert named(fields, schema, {1: "s", 2: "y"}) == ["s.y"]
    assert names_in_file(schema, fields_by_id(fields, schema, None)) == {1: "s", 2: "x"}


def towards_delta(fields: tuple[FileField, ...], schema: Any, **more: Any) -> list[tuple[str, str]]:
    choices = {"mapped": frozenset(), "partition_sources": frozenset(), "identity_sources": frozenset(), **more}
    found = delta_blockers(schema, fields_by_id(fields, schema, None), **choices)
    return [(each.code.name, each.column) for each in found]


def test_a_default_matters_where_the_file_lacks_the_column(field: Any, iceberg_schema: Any) -> None:
    schema = iceberg_schema(field(1, "a", ice.LongType()), field(2, "d", ice.LongType(), initial_default=7))
    assert towards_delta(tree(("a", pa.int64(), 1)), schema) == [("initial-default", "d")]
    assert towards_delta(tree(("a", pa.int64(), 1), ("d", pa.int64(), 2)), schema) == []


def test_a_partition_value_that_only_metadata_state(field: Any, iceberg_schema: Any) -> None:
    schema = iceberg_schema(field(1, "a", ice.LongType()), field(2, "p", ice.LongType()))
    fields = tree(("a", pa.int64(), 1))
    assert towards_delta(fields, schema, identity_sources=frozenset({2})) == [("partition-column-not-in-file", "p")]
    assert towards_delta(fields, schema, identity_sources=frozenset({2}), partition_sources=frozenset({2})) == []


def test_narrow_types_are_found_for_type_widening(field: Any, iceberg_schema: Any) -> None:
    schema = iceberg_schema(field(1, "a", ice.LongType()), field(2, "b", ice.DoubleType()))
    fields = tree(("a", pa.int32(), 1), ("b", pa.float64(), 2))
    assert narrower_types(schema, fields_by_id(fields, schema, None)) == {1: delta.IntegerType()}
    assert towards_delta(fields, schema) == []


def test_a_mapped_type_counts_only_where_the_file_holds_it(field: Any, iceberg_schema: Any) -> None:
    schema = iceberg_schema(field(1, "a", ice.LongType()), field(2, "u", ice.UuidType()))
    mapped = frozenset({2})
    assert towards_delta(tree(("a", pa.int64(), 1)), schema, mapped=mapped) == []
    fields = tree(("a", pa.int64(), 1), ("u", pa.binary(16), 2))
    assert towards_delta(fields, schema, mapped=mapped) == [("type-mapped", "u")]


def test_files_without_ids_are_read_by_the_name_mapping(field: Any, iceberg_schema: Any) -> None:
    schema = iceberg_schema(field(1, "full_name", ice.StringType()))
    mapping = NameMapping.from_text('[{"field-id": 1, "names": ["name", "full_name"]}]')
    held = fields_by_id(tree(("name", pa.string(), None)), schema, mapping)
    assert names_in_file(schema, held) == {1: "name"}
    assert [
        each.code.name for each in name_obstacles(tree(("name", pa.string(), None)), schema, held, {1: "full_name"})
    ] == ["field-ids-disagree"]
