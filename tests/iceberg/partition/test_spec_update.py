"""Partition evolution: field ids are kept, reused and never mixed up, in version 1 by voiding fields."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from deltaberg.iceberg.errors import InvalidIcebergRequest
from deltaberg.iceberg.metadata.table_metadata import TableMetadata
from deltaberg.iceberg.partition.partition_spec import PartitionSpec
from deltaberg.iceberg.partition.spec_update import SpecUpdate, default_field_name
from deltaberg.iceberg.partition.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    VoidTransform,
    YearTransform,
)
from deltaberg.iceberg.schema.schema import Schema
from deltaberg.iceberg.schema.types import LongType, NestedField, StringType, TimestampType

SCHEMA = Schema(
    schema_id=0,
    fields=(
        NestedField(field_id=1, name="id", required=False, type=LongType()),
        NestedField(field_id=2, name="ts", required=False, type=TimestampType()),
        NestedField(field_id=3, name="s", required=False, type=StringType()),
    ),
)


def metadata(*specs: PartitionSpec, version: int = 2) -> TableMetadata:
    known = specs or (PartitionSpec(spec_id=0),)
    return TableMetadata(
        format_version=version,
        table_uuid=None,
        location="s3://b/t",
        last_updated_ms=0,
        last_column_id=3,
        schemas=(SCHEMA,),
        current_schema_id=0,
        partition_specs=known,
        default_spec_id=known[-1].spec_id,
        last_partition_id=max(spec.last_assigned_id for spec in known),
    )


def shown(spec: PartitionSpec) -> list[tuple[int, str, str]]:
    return [(part.field_id, part.name, str(part.transform)) for part in spec.fields]


def evolved(base: TableMetadata, change: Callable[[SpecUpdate], object]) -> TableMetadata:
    update = SpecUpdate(base)
    change(update)
    spec = update.spec()
    specs = {each.spec_id: each for each in (*base.partition_specs, spec)}
    return replace(
        base,
        partition_specs=tuple(specs.values()),
        default_spec_id=spec.spec_id,
        last_partition_id=max(base.last_partition_id, spec.last_assigned_id),
    )


def test_fields_are_numbered_from_1000_on() -> None:
    after = evolved(
        metadata(), lambda u: u.add_field("ts", DayTransform()).add_field("id", BucketTransform(num_buckets=8))
    )
    assert shown(after.spec) == [(1000, "ts_day", "day"), (1001, "id_bucket_8", "bucket[8]")]
    assert after.spec.spec_id == 1


@pytest.mark.parametrize("version", [2, 3])
def test_a_field_that_comes_back_has_its_id_again(version: int) -> None:
    base = evolved(metadata(version=version), lambda u: u.add_field("s").add_field("id"))
    without = evolved(base, lambda u: u.remove_field("s"))
    assert shown(without.spec) == [(1001, "id", "identity")]
    again = evolved(without, lambda u: u.add_field("s"))
    assert shown(again.spec) == [(1001, "id", "identity"), (1000, "s", "identity")]
    assert again.last_partition_id == 1001
    back = evolved(again, lambda u: u.remove_field("s"))
    assert back.default_spec_id == without.default_spec_id


def test_version_1_voids_fields_and_never_reorders() -> None:
    base = evolved(metadata(version=1), lambda u: u.add_field("s").add_field("id"))
    without = evolved(base, lambda u: u.remove_field("s"))
    assert shown(without.spec) == [(1000, "s", "void"), (1001, "id", "identity")]
    again = evolved(without, lambda u: u.add_field("s"))
    assert shown(again.spec) == [(1000, "s_1000", "void"), (1001, "id", "identity"), (1002, "s", "identity")]


def test_a_renamed_field_keeps_its_id() -> None:
    base = evolved(metadata(), lambda u: u.add_field("ts", DayTransform()))
    assert shown(evolved(base, lambda u: u.rename_field("ts_day", "d")).spec) == [(1000, "d", "day")]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda u: u.add_field("zzz"), "the schema has no such column"),
        (lambda u: u.add_field("s"), "there is one with this name"),
        (lambda u: u.add_field("s", name="other"), "s is the same"),
        (lambda u: u.add_field("ts", DayTransform(), name="id"), "a column has this name"),
        (lambda u: u.remove_field("zzz"), "there is none"),
        (lambda u: u.rename_field("zzz", "y"), "there is none"),
    ],
)
def test_senseless_changes_are_refused(change: Callable[[SpecUpdate], object], message: str) -> None:
    base = evolved(metadata(), lambda u: u.add_field("s"))
    with pytest.raises(InvalidIcebergRequest, match=message):
        change(SpecUpdate(base))


@pytest.mark.parametrize(
    ("transform", "name"),
    [
        (IdentityTransform(), "c"),
        (BucketTransform(num_buckets=8), "c_bucket_8"),
        (TruncateTransform(width=3), "c_trunc_3"),
        (YearTransform(), "c_year"),
        (MonthTransform(), "c_month"),
        (DayTransform(), "c_day"),
        (HourTransform(), "c_hour"),
        (VoidTransform(), "c_null"),
    ],
)
def test_fields_are_named_as_the_reference_implementation_names_them(transform: Transform, name: str) -> None:
    assert default_field_name("c", transform) == name
