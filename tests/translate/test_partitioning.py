from __future__ import annotations

from typing import Any

import pytest

from deltaberg.iceberg.partition.partition_spec import PartitionField, PartitionSpec
from deltaberg.iceberg.partition.transforms import parse_transform
from deltaberg.iceberg.schema import types as ice
from deltaberg.iceberg.schema.schema import Schema
from deltaberg.translate.partitioning import delta_to_iceberg_spec, field_text, iceberg_to_delta_partitioning

SCHEMA = Schema(
    schema_id=0,
    fields=(
        ice.NestedField(field_id=1, name="a", required=False, type=ice.LongType()),
        ice.NestedField(field_id=2, name="s", required=False, type=ice.StringType()),
        ice.NestedField(field_id=3, name="ts", required=False, type=ice.TimestamptzType()),
        ice.NestedField(field_id=4, name="b", required=False, type=ice.BinaryType()),
        ice.NestedField(
            field_id=5,
            name="st",
            required=False,
            type=ice.StructType(fields=(ice.NestedField(field_id=6, name="x", required=False, type=ice.LongType()),)),
        ),
        ice.NestedField(field_id=7, name="n", required=False, type=ice.TimestampType()),
    ),
)


def spec(spec_id: int, *fields: tuple[int, str]) -> PartitionSpec:
    return PartitionSpec(
        spec_id=spec_id,
        fields=tuple(
            PartitionField(
                source_ids=(source,),
                field_id=1000 + 10 * spec_id + place,
                name=f"p{spec_id}_{place}",
                transform=parse_transform(transform, "$"),
            )
            for place, (source, transform) in enumerate(fields)
        ),
    )


def kept(result: Any) -> dict[str, str]:
    return {each.what: each.detail for each in result.findings if each.code.name == "partition-field-not-carried"}


def test_partition_columns_become_identity_fields_in_order() -> None:
    made = delta_to_iceberg_spec(["s", "a"], SCHEMA)
    assert [(f.source_id, f.field_id, f.name, str(f.transform)) for f in made.fields] == [
        (2, 1000, "s", "identity"),
        (1, 1001, "a", "identity"),
    ]


def test_identity_fields_become_partition_columns() -> None:
    result = iceberg_to_delta_partitioning([spec(0, (2, "identity"), (1, "identity"))], SCHEMA)
    assert [(column.name, column.field_names) for column in result.columns] == [
        ("s", {0: "p0_0"}),
        ("a", {0: "p0_1"}),
    ]
    assert result.findings == ()


def test_other_transforms_stay_ordinary_columns_and_are_named() -> None:
    result = iceberg_to_delta_partitioning([spec(0, (3, "day"), (1, "bucket[16]"), (2, "truncate[3]"))], SCHEMA)
    assert result.columns == ()
    assert list(kept(result)) == ["day(ts)", "bucket[16](a)", "truncate[3](s)"]


def test_of_several_specs_only_what_all_share_partitions() -> None:
    specs = [spec(0, (2, "identity")), spec(1, (2, "identity"), (1, "identity"))]
    result = iceberg_to_delta_partitioning(specs, SCHEMA)
    assert [(column.name, column.field_names) for column in result.columns] == [("s", {0: "p0_0", 1: "p1_0"})]
    assert kept(result) == {"a": "files of spec 0 are not partitioned by it"}
    assert any(each.code.name == "partition-evolution" for each in result.findings)


@pytest.mark.parametrize(
    ("source", "more", "reason"),
    [
        (4, {}, "a Delta log cannot state every binary value"),
        (6, {}, "its source column is nested"),
        (99, {}, "its source column was dropped"),
        (2, {"empty_strings": frozenset({2})}, "a value is the empty string, which a Delta log states as null"),
        (2, {"unmappable": frozenset({2})}, "its source column gets another type"),
        (2, {"withheld": "not today"}, "not today"),
    ],
)
def test_identity_fields_that_delta_cannot_state_stay_ordinary(source: int, more: Any, reason: str) -> None:
    result = iceberg_to_delta_partitioning([spec(0, (source, "identity"))], SCHEMA, **more)
    assert result.columns == ()
    assert list(kept(result).values()) == [reason]


def test_void_fields_are_no_partitioning() -> None:
    result = iceberg_to_delta_partitioning([spec(0, (1, "void"))], SCHEMA)
    assert result.columns == result.findings == ()


def test_fields_are_written_as_a_person_would() -> None:
    made = spec(0, (1, "identity"), (3, "day"), (99, "identity"))
    assert [field_text(field, SCHEMA) for field in made.fields] == ["a", "day(ts)", "#99"]
