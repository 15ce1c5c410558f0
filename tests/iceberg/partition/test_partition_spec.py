"""Partition specs: their JSON forms over the versions, their types, and what may be written under them."""

from __future__ import annotations

import pytest

from deltaberg.iceberg.errors import CorruptMetadata, InvalidIcebergRequest
from deltaberg.iceberg.partition.partition_spec import UNPARTITIONED, PartitionField, PartitionSpec
from deltaberg.iceberg.partition.transforms import (
    BucketTransform,
    DayTransform,
    IdentityTransform,
    Transform,
    UnknownTransform,
    VoidTransform,
)
from deltaberg.iceberg.schema.schema import Schema
from deltaberg.iceberg.schema.types import (
    DateType,
    IntegerType,
    ListType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
)


def column(field_id: int, name: str, kind: object) -> NestedField:
    return NestedField(field_id=field_id, name=name, required=False, type=kind)  # type: ignore[arg-type]


def part(source: int, field_id: int, name: str, transform: Transform) -> PartitionField:
    return PartitionField(source_ids=(source,), field_id=field_id, name=name, transform=transform)


SCHEMA = Schema(
    schema_id=1,
    fields=(
        column(1, "id", LongType()),
        column(2, "ts", TimestampType()),
        column(3, "s", StructType(fields=(column(4, "x", StringType()),))),
        column(5, "items", ListType(element=column(6, "element", StringType()))),
    ),
)
SPEC = PartitionSpec(
    spec_id=2,
    fields=(part(1, 1000, "id_bucket", BucketTransform(num_buckets=16)), part(2, 1001, "ts_day", DayTransform())),
)


def test_json_round_trip_keeps_everything() -> None:
    value = {**SPEC.to_json(), "note": 1}
    assert PartitionSpec.from_json(value) == SPEC
    assert PartitionSpec.from_json(value).to_json() == value


def test_version_1_fields_without_ids_are_numbered_from_1000() -> None:
    value = [
        {"source-id": 1, "name": "a", "transform": "identity"},
        {"source-id": 2, "name": "b", "transform": "day"},
    ]
    spec = PartitionSpec.from_fields_json(value, "$.partition-spec", spec_id=0)
    assert [field.field_id for field in spec.fields] == [1000, 1001]
    assert spec.last_assigned_id == 1001
    assert UNPARTITIONED.last_assigned_id == 999


def test_several_sources_make_a_transform_unknown_and_survive() -> None:
    value = {
        "spec-id": 0,
        "fields": [{"source-ids": [1, 2], "field-id": 1000, "name": "p", "transform": "bucket[4]"}],
    }
    spec = PartitionSpec.from_json(value)
    assert spec.fields[0].transform == UnknownTransform(text="bucket[4]")
    assert spec.to_json() == value


def test_one_source_in_a_list_is_one_source() -> None:
    value = {"spec-id": 0, "fields": [{"source-ids": [1], "field-id": 1000, "name": "p", "transform": "bucket[4]"}]}
    assert PartitionSpec.from_json(value).fields == (part(1, 1000, "p", BucketTransform(num_buckets=4)),)


@pytest.mark.parametrize(
    "fields",
    [
        [{"field-id": 1000, "name": "p", "transform": "identity"}],
        [{"source-ids": [], "field-id": 1000, "name": "p", "transform": "identity"}],
        [{"source-id": 1, "source-ids": [2], "field-id": 1000, "name": "p", "transform": "identity"}],
        [{"source-id": 1, "field-id": 1000, "transform": "identity"}],
        [{"source-id": 1, "field-id": 1000, "name": "p"}],
        [{"source-id": 1, "field-id": "1000", "name": "p", "transform": "identity"}],
        [{"source-id": 1, "field-id": 1000, "name": n, "transform": "identity"} for n in "ab"],
        [{"source-id": 1, "field-id": i, "name": "p", "transform": "identity"} for i in (1000, 1001)],
        ["p"],
        None,
    ],
)
def test_malformed_specs_are_corrupt(fields: object) -> None:
    with pytest.raises(CorruptMetadata) as caught:
        PartitionSpec.from_json({"spec-id": 0, "fields": fields}, "$.partition-specs[0]")
    assert str(caught.value.field).startswith("$.partition-specs[0]")


def test_the_partition_type_is_optional_fields_of_result_types() -> None:
    assert SPEC.partition_type(SCHEMA) == StructType(
        fields=(column(1000, "id_bucket", IntegerType()), column(1001, "ts_day", DateType()))
    )


def test_a_dropped_source_column_is_typed_by_a_former_schema() -> None:
    former = Schema(schema_id=0, fields=(column(9, "old", StringType()),))
    spec = PartitionSpec(spec_id=0, fields=(part(9, 1000, "old", IdentityTransform()),))
    assert spec.partition_type((SCHEMA, former)).fields[0].type == StringType()
    with pytest.raises(CorruptMetadata, match="no schema has its source column 9"):
        spec.partition_type(SCHEMA)


def test_a_void_field_without_source_is_an_int() -> None:
    spec = PartitionSpec(spec_id=0, fields=(part(9, 1000, "gone", VoidTransform()),))
    assert spec.partition_type(SCHEMA).fields[0].type == IntegerType()
    assert spec.is_unpartitioned


@pytest.mark.parametrize(
    ("field", "message"),
    [
        (part(1, 1000, "p", UnknownTransform(text="zorder")), "field p has the unknown transform zorder"),
        (part(6, 1000, "p", IdentityTransform()), "a primitive outside lists and maps"),
        (part(7, 1000, "p", IdentityTransform()), "needs source column 7"),
        (part(3, 1000, "p", IdentityTransform()), "not defined for struct"),
    ],
)
def test_specs_that_nothing_may_be_written_under(field: PartitionField, message: str) -> None:
    spec = PartitionSpec(spec_id=0, fields=(field,))
    with pytest.raises(InvalidIcebergRequest, match=message):
        spec.check(SCHEMA)


def test_fields_in_structs_and_void_fields_may_be_written_under() -> None:
    PartitionSpec(
        spec_id=0, fields=(part(4, 1000, "x", IdentityTransform()), part(9, 1001, "gone", VoidTransform()))
    ).check(SCHEMA)


def test_compatible_specs_may_differ_in_ids() -> None:
    other = PartitionSpec(
        spec_id=7,
        fields=(part(1, 1005, "id_bucket", BucketTransform(num_buckets=16)), part(2, 1006, "ts_day", DayTransform())),
    )
    assert SPEC.compatible(other)
    assert not SPEC.compatible(UNPARTITIONED)
