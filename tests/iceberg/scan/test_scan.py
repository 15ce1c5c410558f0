"""What a scan gives: deletes applied, columns by id, defaults, partition values, lineage, metadata columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from deltaberg.datafile.errors import DataFileError
from deltaberg.errors import UsageError
from deltaberg.iceberg.errors import CorruptMetadata, UnsupportedIcebergFeature
from deltaberg.iceberg.partition.partition_spec import PartitionField, PartitionSpec
from deltaberg.iceberg.partition.transforms import BucketTransform, IdentityTransform
from deltaberg.iceberg.scan.scan import scan
from deltaberg.iceberg.schema.schema import Schema
from deltaberg.iceberg.schema.types import (
    DateType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    Type,
)

Stored = Callable[..., Any]


def column(field_id: int, name: str, kind: Type, **options: Any) -> NestedField:
    return NestedField(field_id=field_id, name=name, required=False, type=kind, **options)


def schema(*fields: NestedField, schema_id: int = 0) -> Schema:
    return Schema(schema_id=schema_id, fields=fields)


ID = column(1, "id", LongType())
NAME = column(2, "name", StringType())
PART = column(3, "p", StringType())
BY_PART = PartitionSpec(
    spec_id=1,
    fields=(PartitionField(source_ids=(3,), field_id=1000, name="p", transform=IdentityTransform()),),
)
UNPARTITIONED = PartitionSpec(spec_id=0)


def numbers(*values: int | None) -> pa.Table:
    return pa.table({"id": pa.array(values, pa.int64())})


def rows(table: Any, **options: Any) -> list[dict[str, Any]]:
    scanned = scan(table, **options)
    found = scanned.read_all()
    found.validate(full=True)
    assert found.schema == scanned.schema
    listed: list[dict[str, Any]] = found.to_pylist()
    return listed


def ids(table: Any, **options: Any) -> list[Any]:
    return [row["id"] for row in rows(table, **options)]


def test_a_table_without_a_snapshot_has_no_rows(stored_table: Stored) -> None:
    table = stored_table(schema(ID)).open()
    empty = type(table)(
        metadata=type(table.metadata)(
            **{
                name: getattr(table.metadata, name)
                for name in table.metadata.__dataclass_fields__
                if not name.startswith("_") and name not in ("current_snapshot_id", "snapshots", "refs")
            }
        ),
        metadata_location=table.metadata_location,
        storage=table.storage,
    )
    assert rows(empty) == []


def test_fields_are_found_by_id_whatever_their_names(stored_table: Stored) -> None:
    stored = stored_table(
        schema(column(3, "measurement", DoubleType()), column(2, "name", StringType()), column(4, "a", LongType()))
    )
    stored.data(pa.table({"a": [1], "b": ["x"], "c": [2.5]}), ids={"a": 1, "b": 2, "c": 3})
    assert rows(stored.open()) == [{"measurement": 2.5, "name": "x", "a": None}]


def test_promotions_are_exact(stored_table: Stored) -> None:
    stored = stored_table(
        schema(column(1, "a", LongType()), column(2, "b", DoubleType()), column(3, "c", TimestampType())), version=3
    )
    old = pa.table(
        {
            "a": pa.array([-(2**31)], pa.int32()),
            "b": pa.array([0.1], pa.float32()),
            "c": pa.array([-1], pa.date32()),
        }
    )
    stored.data(old)
    (row,) = rows(stored.open())
    assert row["a"] == -(2**31)
    assert row["b"] == float(np.float32(0.1))
    assert str(row["c"]) == "1969-12-31 00:00:00"


def test_a_date_out_of_the_range_of_nanoseconds_is_refused(stored_table: Stored) -> None:
    from deltaberg.iceberg.schema.types import TimestampNsType

    stored = stored_table(schema(column(1, "c", TimestampNsType())), version=3)
    path = stored.data(pa.table({"c": pa.array([2**30], pa.date32())}))
    with pytest.raises(DataFileError, match="'c'") as caught:
        rows(stored.open())
    assert caught.value.path == path


def test_absent_fields_get_partition_value_then_initial_default_then_null(stored_table: Stored) -> None:
    default = column(4, "d", IntegerType(), initial_default=7, write_default=8)
    stored = stored_table(
        schema(ID, PART, default, column(5, "n", LongType())), specs=(UNPARTITIONED, BY_PART), version=3
    )
    stored.data(numbers(1), partition={"p": "x"})
    stored.data(numbers(2), partition={"p": None})
    stored.data(numbers(3), spec_id=0)
    assert rows(stored.open()) == [
        {"id": 3, "p": None, "d": 7, "n": None},
        {"id": 1, "p": "x", "d": 7, "n": None},
        {"id": 2, "p": None, "d": 7, "n": None},
    ]


def test_a_null_partition_value_comes_before_the_default(stored_table: Stored) -> None:
    part = column(3, "p", StringType(), initial_default="never")
    stored = stored_table(schema(ID, part), specs=(BY_PART,), version=3)
    stored.data(numbers(1), partition={"p": None})
    assert rows(stored.open()) == [{"id": 1, "p": None}]


def test_a_column_in_the_file_comes_before_its_partition_value(stored_table: Stored) -> None:
    stored = stored_table(schema(ID, PART), specs=(BY_PART,))
    stored.data(pa.table({"id": [1], "p": ["stored"]}), partition={"p": "x"})
    assert rows(stored.open()) == [{"id": 1, "p": "stored"}]


def test_defaults_apply_inside_structs_but_not_to_null_ones(stored_table: Stored) -> None:
    inner = (column(11, "x", IntegerType(), initial_default=0), column(12, "y", IntegerType(), initial_default=5))
    point = column(10, "point", StructType(fields=inner))
    added = column(
        20, "added", StructType(fields=(column(21, "z", IntegerType(), initial_default=9),)), initial_default={}
    )
    stored = stored_table(schema(ID, point, added), version=3)
    x = pa.field("x", pa.int32(), metadata={"PARQUET:field_id": "11"})
    points = pa.array([{"x": 3}, None], pa.struct([x]))
    stored.data(pa.table({"id": [1, 2], "point": points}), ids={"id": 1, "point": 10})
    assert rows(stored.open()) == [
        {"id": 1, "point": {"x": 3, "y": 5}, "added": {"z": 9}},
        {"id": 2, "point": None, "added": {"z": 9}},
    ]


def test_a_required_field_that_is_absent_is_refused(stored_table: Stored) -> None:
    need = NestedField(field_id=2, name="need", required=True, type=LongType())
    stored = stored_table(schema(ID, need))
    path = stored.data(numbers(1))
    with pytest.raises(DataFileError, match=r"'need'.*required") as caught:
        rows(stored.open())
    assert caught.value.path == path


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_a_name_mapping_serves_files_without_ids(stored_table: Stored, file_format: str) -> None:
    mapping = '[{"field-id":1,"names":["id","nr"]},{"field-id":2,"names":["old.name"]},{"names":["p"],"field-id":3}]'
    stored = stored_table(schema(ID, NAME, PART), specs=(BY_PART,), properties={"schema.name-mapping.default": mapping})
    name = "old.name" if file_format != "avro" else "nr"
    content = (
        {"nr": pa.array([4], pa.int64()), "p": pa.array(["from file"])}
        if file_format == "avro"
        else {
            "nr": pa.array([4], pa.int64()),
            name: pa.array(["n"]),
            "p": pa.array(["from file"]),
        }
    )
    stored.data(pa.table(content), file_format=file_format, ids={}, partition={"p": "partition"})
    expected = {"id": 4, "name": None if file_format == "avro" else "n", "p": "partition"}
    assert rows(stored.open()) == [expected]


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_a_file_without_ids_or_mapping_is_refused(stored_table: Stored, file_format: str) -> None:
    stored = stored_table(schema(ID))
    path = stored.data(numbers(1), file_format=file_format, ids={})
    with pytest.raises(DataFileError, match="no field ids") as caught:
        rows(stored.open())
    assert caught.value.path == path


def test_data_files_of_every_format_are_read_alike(stored_table: Stored) -> None:
    mapping = '[{"field-id":1,"names":["id"]},{"field-id":2,"names":["name"]}]'
    stored = stored_table(schema(ID, NAME), properties={"schema.name-mapping.default": mapping})
    content = pa.table({"id": pa.array(range(1000), pa.int64()), "name": [f"n{i}" for i in range(1000)]})
    for file_format in ("parquet", "orc", "avro"):
        path = stored.data(content, file_format=file_format)
        stored.position_deletes([(path, position) for position in (0, 500, 999)], sequence_number=1)
    table = stored.open()
    expected = [i for i in range(1000) if i not in (0, 500, 999)]
    assert ids(table) == expected * 3
    assert ids(table, batch_size=7) == expected * 3
    assert max(batch.num_rows for batch in scan(table, batch_size=7).batches()) == 7


@pytest.mark.parametrize("file_format", ["parquet", "avro"])
def test_delete_files_of_every_format_apply(stored_table: Stored, file_format: str) -> None:
    stored = stored_table(schema(ID))
    path = stored.data(numbers(*range(10)))
    stored.position_deletes([(path, 3), (path, 4), (path, 3)], file_format=file_format)
    assert ids(stored.open()) == [0, 1, 2, 5, 6, 7, 8, 9]


def test_position_delete_files_in_orc_are_read_by_the_names_the_specification_gives(stored_table: Stored) -> None:
    stored = stored_table(schema(ID))
    path = stored.data(numbers(*range(4)))
    stored.position_deletes([(path, 3)], file_format="orc")
    assert ids(stored.open()) == [0, 1, 2]


def test_position_deletes_reach_files_that_are_not_newer(stored_table: Stored) -> None:
    stored = stored_table(schema(ID))
    old = stored.data(numbers(1, 2), sequence_number=1)
    same = stored.data(numbers(3, 4), sequence_number=2)
    new = stored.data(numbers(5, 6), sequence_number=3)
    stored.position_deletes([(old, 0), (same, 0), (new, 0)], sequence_number=2)
    assert ids(stored.open()) == [2, 4, 5, 6]


def test_position_deletes_reach_only_their_own_partition_and_spec(stored_table: Stored) -> None:
    stored = stored_table(schema(ID, PART), specs=(UNPARTITIONED, BY_PART))
    a = stored.data(numbers(1, 2), partition={"p": "a"})
    b = stored.data(numbers(3, 4), partition={"p": "b"})
    none = stored.data(numbers(5, 6), partition={"p": None})
    flat = stored.data(numbers(7, 8), spec_id=0)
    stored.position_deletes([(a, 0), (b, 0), (none, 0), (flat, 0)], partition={"p": "a"})
    stored.position_deletes([(none, 1)], partition={"p": None})
    stored.position_deletes([(a, 1), (flat, 1)], spec_id=0)
    assert sorted(ids(stored.open())) == [2, 3, 4, 5, 7]


def test_a_delete_file_that_references_one_data_file_reaches_only_that(stored_table: Stored) -> None:
    stored = stored_table(schema(ID))
    one, two = stored.data(numbers(1, 2)), stored.data(numbers(3, 4))
    stored.position_deletes([(one, 0)], referenced_data_file=one)
    stored.position_deletes([(two, 1)])
    assert ids(stored.open()) == [2, 3]


def test_a_row_that_contradicts_the_referenced_data_file_is_refused(stored_table: Stored) -> None:
    stored = stored_table(schema(ID))
    one, two = stored.data(numbers(1, 2)), stored.data(numbers(3, 4))
    deletes = stored.position_deletes([(one, 0), (two, 0)], referenced_data_file=one)
    with pytest.raises(CorruptMetadata, match="a row names") as caught:
        rows(stored.open())
    assert (caught.value.path, caught.value.field) == (deletes, "referenced_data_file")


def test_paths_are_compared_as_they_stand_in_the_manifest(stored_table: Stored) -> None:
    stored = stored_table(schema(ID), location="file:/warehouse/t")
    path = stored.data(numbers(1, 2, 3))
    assert path.startswith("file:/warehouse/t/")
    stored.position_deletes([(path, 0), (path.replace("file:", "file://"), 1), (path.removeprefix("file:"), 2)])
    assert ids(stored.open()) == [2, 3]


def test_a_vector_supersedes_position_deletes(stored_table: Stored) -> None:
    stored = stored_table(schema(ID), version=3)
    path = stored.data(numbers(*range(6)))
    other = stored.data(numbers(*range(10, 13)))
    stored.position_deletes([(path, 1), (path, 2), (other, 0)])
    stored.vector(path, [2, 3], sequence_number=2)
    assert ids(stored.open()) == [0, 1, 4, 5, 11, 12]


def test_a_vector_reaches_a_file_of_its_own_sequence_number_and_no_newer_one(stored_table: Stored) -> None:
    stored = stored_table(schema(ID), version=3)
    same = stored.data(numbers(1, 2), sequence_number=2)
    newer = stored.data(numbers(3, 4), sequence_number=3)
    stored.vector(same, [0], sequence_number=2)
    stored.vector(newer, [0], sequence_number=2)
    assert ids(stored.open()) == [2, 3, 4]


def test_equality_deletes_reach_older_files_only(stored_table: Stored) -> None:
    stored = stored_table(schema(ID))
    stored.data(numbers(1, 2), sequence_number=1)
    stored.data(numbers(1, 2), sequence_number=2)
    stored.data(numbers(1, 2), sequence_number=3)
    stored.equality_deletes(numbers(1), [1], sequence_number=2)
    assert ids(stored.open()) == [2, 1, 2, 1, 2]


def test_equality_deletes_of_an_unpartitioned_spec_are_global_others_are_not(stored_table: Stored) -> None:
    stored = stored_table(schema(ID, PART), specs=(UNPARTITIONED, BY_PART))
    for value in ("a", "b", None):
        stored.data(numbers(1, 2, 3), partition={"p": value})
    stored.equality_deletes(numbers(1), [1], sequence_number=2, spec_id=0)
    stored.equality_deletes(numbers(2), [1], sequence_number=2, partition={"p": "a"})
    stored.equality_deletes(numbers(3), [1], sequence_number=2, partition={"p": None})
    assert ids(stored.open()) == [3, 2, 3, 2]


def test_equality_keys_compare_null_nan_and_zero_as_the_specification_says(stored_table: Stored) -> None:
    stored = stored_table(schema(ID, column(2, "f", FloatType())))
    values = pa.array([0.0, -0.0, float("nan"), None, 1.5], pa.float32())
    other_nan = np.array([0x7FC00001], np.uint32).view(np.float32)
    stored.data(pa.table({"id": [1, 2, 3, 4, 5], "f": values}))
    stored.equality_deletes(pa.table({"f": pa.array([-0.0, other_nan[0], None], pa.float32())}), [2], sequence_number=2)
    assert ids(stored.open()) == [1, 5]


def test_equality_keys_of_several_columns_match_whole_rows(stored_table: Stored) -> None:
    stored = stored_table(schema(ID, NAME))
    stored.data(pa.table({"id": [1, 1, 2, None, None], "name": ["a", "b", "a", "a", None]}))
    stored.equality_deletes(
        pa.table({"id": pa.array([1, None], pa.int64()), "name": pa.array(["a", None])}), [2, 1], sequence_number=2
    )
    assert [(row["id"], row["name"]) for row in rows(stored.open())] == [(1, "b"), (2, "a"), (None, "a")]


def test_delete_files_of_different_keys_add_up(stored_table: Stored) -> None:
    stored = stored_table(schema(ID, NAME))
    stored.data(pa.table({"id": [1, 2, 3], "name": ["a", "b", "c"]}))
    extra = pa.table({"id": [1], "name": ["never compared"]})
    stored.equality_deletes(extra, [1], sequence_number=2)
    stored.equality_deletes(pa.table({"name": ["b"]}), [2], sequence_number=3)
    assert ids(stored.open()) == [3]


def test_a_dropped_delete_column_is_still_used(stored_table: Stored) -> None:
    stored = stored_table(schema(ID, NAME), schema(ID, schema_id=1))
    stored.data(pa.table({"id": [1, 2], "name": ["a", "b"]}), ids={"id": 1, "name": 2})
    stored.equality_deletes(pa.table({"name": ["b"]}), [2], sequence_number=2)
    assert rows(stored.open()) == [{"id": 1}]


def test_a_promoted_delete_column_compares_across_types(stored_table: Stored) -> None:
    stored = stored_table(schema(column(1, "id", IntegerType())), schema(ID, schema_id=1))
    stored.data(pa.table({"id": pa.array([1, 2, 3], pa.int32())}))
    stored.equality_deletes(numbers(2), [1], sequence_number=3)
    stored.equality_deletes(pa.table({"id": pa.array([3], pa.int32())}), [1], sequence_number=2)
    assert ids(stored.open()) == [1]


def test_a_date_key_promoted_to_timestamp_compares_as_timestamp(stored_table: Stored) -> None:
    stored = stored_table(
        schema(ID, column(2, "t", DateType())), schema(ID, column(2, "t", TimestampType()), schema_id=1), version=3
    )
    stored.data(pa.table({"id": [1, 2], "t": pa.array([0, 1], pa.date32())}))
    stored.equality_deletes(pa.table({"t": pa.array([86_400_000_000], pa.timestamp("us"))}), [2], sequence_number=2)
    assert ids(stored.open()) == [1]


def test_an_added_delete_column_reads_as_its_default_in_older_files(stored_table: Stored) -> None:
    added = column(2, "k", LongType(), initial_default=5)
    stored = stored_table(schema(ID, added), version=3)
    stored.data(numbers(1))
    stored.data(pa.table({"id": [2, 3], "k": [5, None]}))
    stored.equality_deletes(pa.table({"k": [5]}), [2], sequence_number=2)
    assert ids(stored.open()) == [3]


def test_a_nested_delete_column_is_null_where_its_struct_is(stored_table: Stored) -> None:
    inner = column(11, "x", LongType())
    stored = stored_table(schema(ID, column(10, "s", StructType(fields=(inner, column(12, "y", LongType()))))))
    fields = [pa.field(n, pa.int64(), metadata={"PARQUET:field_id": i}) for n, i in (("x", "11"), ("y", "12"))]
    values = pa.array([{"x": 1, "y": 1}, {"x": None, "y": 1}, None, {"x": 2, "y": 2}], pa.struct(fields))
    stored.data(pa.table({"id": [1, 2, 3, 4], "s": values}), ids={"id": 1, "s": 10})
    deletes = pa.table({"s": pa.array([{"x": None}, {"x": 2}], pa.struct(fields[:1]))})
    stored.equality_deletes(deletes, [11], sequence_number=2, ids={"s": 10})
    assert rows(stored.open(), columns=["id"]) == [{"id": 1}]


def test_a_delete_column_that_is_a_partition_value_absent_from_the_file(stored_table: Stored) -> None:
    stored = stored_table(schema(ID, PART), specs=(UNPARTITIONED, BY_PART))
    stored.data(numbers(1, 2), partition={"p": "a"})
    stored.data(numbers(1, 2), partition={"p": "b"})
    stored.equality_deletes(pa.table({"id": [1], "p": ["b"]}), [1, 3], sequence_number=2, spec_id=0)
    assert rows(stored.open()) == [{"id": 1, "p": "a"}, {"id": 2, "p": "a"}, {"id": 2, "p": "b"}]


def test_a_delete_file_without_its_delete_column_is_refused(stored_table: Stored) -> None:
    stored = stored_table(schema(ID, NAME))
    stored.data(numbers(1))
    deletes = stored.equality_deletes(numbers(1), [1, 2], sequence_number=2)
    with pytest.raises(CorruptMetadata, match=r"lacks delete column 2 \(name\)") as caught:
        rows(stored.open())
    assert (caught.value.path, caught.value.field) == (deletes, "equality_ids")


def test_a_delete_column_that_no_schema_has_is_refused(stored_table: Stored) -> None:
    stored = stored_table(schema(ID))
    stored.data(numbers(1))
    stored.equality_deletes(numbers(1), [99], sequence_number=2)
    with pytest.raises(CorruptMetadata, match="no schema of the table has field 99"):
        rows(stored.open())


def test_deletes_of_a_bucketed_table_follow_the_bucket(stored_table: Stored) -> None:
    spec = PartitionSpec(
        spec_id=0,
        fields=(PartitionField(source_ids=(1,), field_id=1000, name="b", transform=BucketTransform(num_buckets=4)),),
    )
    stored = stored_table(schema(ID), specs=(spec,))
    stored.data(numbers(1, 2), partition={"b": 0})
    stored.data(numbers(1, 2), partition={"b": 1})
    stored.equality_deletes(numbers(1), [1], sequence_number=2, partition={"b": 1})
    assert ids(stored.open()) == [1, 2, 2]


def test_every_row_of_a_file_can_be_deleted(stored_table: Stored) -> None:
    stored = stored_table(schema(ID))
    path = stored.data(numbers(1, 2))
    stored.position_deletes([(path, 0)])
    stored.equality_deletes(numbers(2), [1], sequence_number=2)
    assert rows(stored.open()) == []


def test_lineage_is_inherited_where_the_file_stores_none(stored_table: Stored) -> None:
    stored = stored_table(schema(ID), version=3)
    stored.data(numbers(1, 2), sequence_number=4, first_row_id=100)
    moved = pa.table({"id": [3, 4], "r": [7, None], "s": [2, None]})
    path = stored.data(moved, ids={"id": 1, "r": 2147483540, "s": 2147483539}, sequence_number=5, first_row_id=200)
    stored.vector(path, [], sequence_number=5)
    found = [
        (row["id"], row["_row_id"], row["_last_updated_sequence_number"])
        for row in rows(stored.open(), with_lineage=True)
    ]
    assert found == [(1, 100, 4), (2, 101, 4), (3, 7, 2), (4, 201, 5)]


def test_a_table_before_version_3_has_null_lineage(stored_table: Stored) -> None:
    stored = stored_table(schema(ID))
    stored.data(numbers(1))
    assert rows(stored.open(), with_lineage=True) == [{"id": 1, "_row_id": None, "_last_updated_sequence_number": None}]


def test_metadata_columns_describe_each_row(stored_table: Stored) -> None:
    other = PartitionSpec(
        spec_id=2,
        fields=(PartitionField(source_ids=(1,), field_id=1001, name="b", transform=BucketTransform(num_buckets=4)),),
    )
    stored = stored_table(schema(ID, PART), specs=(BY_PART, other))
    one = stored.data(numbers(1, 2), spec_id=1, partition={"p": "a"})
    two = stored.data(numbers(3), spec_id=2, partition={"b": 3})
    stored.position_deletes([(one, 0)], spec_id=1, partition={"p": "a"})
    names = ("_file", "_pos", "_spec_id", "_partition", "_deleted")
    assert rows(stored.open(), columns=["id"], metadata_columns=names) == [
        {"id": 1, "_file": one, "_pos": 0, "_spec_id": 1, "_partition": {"p": "a", "b": None}, "_deleted": True},
        {"id": 2, "_file": one, "_pos": 1, "_spec_id": 1, "_partition": {"p": "a", "b": None}, "_deleted": False},
        {"id": 3, "_file": two, "_pos": 0, "_spec_id": 2, "_partition": {"p": None, "b": 3}, "_deleted": False},
    ]
    assert [row["_pos"] for row in rows(stored.open(), columns=[], metadata_columns=["_pos"])] == [1, 0]


def test_columns_are_chosen_by_name(stored_table: Stored) -> None:
    stored = stored_table(schema(ID, NAME))
    stored.data(pa.table({"id": [1], "name": ["x"]}))
    table = stored.open()
    assert scan(table, columns=["name", "id"]).read_all().to_pydict() == {"name": ["x"], "id": [1]}
    assert scan(table, columns=[]).read_all().num_rows == 1
    with pytest.raises(UsageError, match="Cannot scan column x: the table has id, name"):
        scan(table, columns=["x"])
    with pytest.raises(UsageError, match="column id would occur twice"):
        scan(table, columns=["id", "id"])
    with pytest.raises(UsageError, match="no metadata column _none"):
        scan(table, metadata_columns=["_none"])


def test_a_count_that_differs_from_the_manifest_is_refused(stored_table: Stored) -> None:
    stored = stored_table(schema(ID))
    path = stored.data(numbers(1, 2), record_count=3)
    with pytest.raises(DataFileError, match=r"it has 2 rows \(expected 3 by its manifest entry\)") as caught:
        rows(stored.open())
    assert caught.value.path == path


def test_encrypted_and_unknown_files_are_refused_by_name(stored_table: Stored) -> None:
    stored = stored_table(schema(ID))
    path = stored.data(numbers(1), key_metadata=b"key")
    with pytest.raises(UnsupportedIcebergFeature, match="it is encrypted") as caught:
        rows(stored.open())
    assert (caught.value.path, caught.value.feature) == (path, "encryption")


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_a_truncated_data_file_is_refused_by_name(stored_table: Stored, file_format: str) -> None:
    mapping = '[{"field-id":1,"names":["id"]}]'
    stored = stored_table(schema(ID), properties={"schema.name-mapping.default": mapping})
    path = stored.data(numbers(*range(5000)), file_format=file_format)
    whole = stored.storage.get(path)
    for length in (0, 3, 40, len(whole) // 2, len(whole) - 1):
        stored.storage.put(path, whole[:length])
        with pytest.raises(DataFileError) as caught:
            rows(stored.open())
        assert caught.value.path == path
