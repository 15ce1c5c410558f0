"""New tables: what they are made of, and what they may not be made of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from deltaberg.iceberg.create_table import create_table
from deltaberg.iceberg.errors import IcebergConflict, InvalidIcebergRequest
from deltaberg.iceberg.partition.partition_spec import PartitionField, PartitionSpec
from deltaberg.iceberg.partition.sort_order import NullOrder, SortDirection, SortField, SortOrder
from deltaberg.iceberg.partition.transforms import BucketTransform, IdentityTransform, UnknownTransform
from deltaberg.iceberg.schema.schema import Schema
from deltaberg.iceberg.schema.types import (
    DoubleType,
    GeometryType,
    LongType,
    NestedField,
    StructType,
    TimestampNsType,
    Type,
    VariantType,
)
from deltaberg.iceberg.table import Table
from deltaberg.storage import open_storage

UUID = "fb072c92-a02b-11e9-ae9c-1bb7bc9eca94"


def schema_of(kind: Type, **options: Any) -> Schema:
    return Schema(schema_id=0, fields=(NestedField(field_id=3, name="c", required=False, type=kind, **options),))


def ordered(field_id: int) -> SortOrder:
    key = SortField(
        source_ids=(field_id,),
        transform=IdentityTransform(),
        direction=SortDirection.ASC,
        null_order=NullOrder.NULLS_FIRST,
    )
    return SortOrder(order_id=1, fields=(key,))


def test_a_table_is_what_was_asked_for(tmp_path: Path) -> None:
    part = PartitionField(source_ids=(3,), field_id=1005, name="b", transform=BucketTransform(num_buckets=4))
    table = create_table(
        open_storage(),
        f"{tmp_path}/t/",
        schema=schema_of(LongType()),
        spec=PartitionSpec(spec_id=0, fields=(part,)),
        sort_order=ordered(3),
        format_version=3,
        properties={"gc.enabled": "false"},
        uuid=UUID,
        timestamp_ms=1000,
        last_column_id=17,
    ).commit(timestamp_ms=1000)
    metadata = Table.open(str(tmp_path / "t"), open_storage()).metadata
    assert metadata == table.metadata
    assert metadata.location == f"{tmp_path}/t"
    assert (metadata.format_version, metadata.table_uuid, metadata.last_updated_ms) == (3, UUID, 1000)
    assert (metadata.last_column_id, metadata.last_partition_id, metadata.next_row_id) == (17, 1005, 0)
    assert metadata.properties == {"gc.enabled": "false"}
    assert [order.order_id for order in metadata.sort_orders] == [0, 1]
    assert metadata.metadata_log == ()


def test_fresh_ids_count_from_1(tmp_path: Path) -> None:
    inner = StructType(fields=(NestedField(field_id=90, name="x", required=True, type=LongType()),))
    schema = Schema(
        schema_id=0,
        fields=(
            NestedField(field_id=70, name="s", required=True, type=inner),
            NestedField(field_id=80, name="c", required=False, type=LongType()),
        ),
        identifier_field_ids=(90,),
    )
    made = create_table(open_storage(), str(tmp_path / "t"), schema=schema, fresh_ids=True).commit().metadata.schema
    assert [(field.field_id, field.name) for field in made.all_fields()] == [(1, "s"), (3, "x"), (2, "c")]
    assert made.identifier_field_ids == (3,)


def test_a_folder_holds_one_table(tmp_path: Path) -> None:
    first = create_table(open_storage(), str(tmp_path / "t"), schema=schema_of(LongType()))
    second = create_table(open_storage(), str(tmp_path / "t"), schema=schema_of(DoubleType()))
    table = first.commit()
    with pytest.raises(IcebergConflict, match="another commit was faster"):
        second.commit()
    with pytest.raises(IcebergConflict, match="there is one already"):
        create_table(open_storage(), str(tmp_path / "t"), schema=schema_of(LongType()))
    assert Table.open(table.location, open_storage()).metadata == table.metadata


def test_version_4_says_what_it_is(tmp_path: Path) -> None:
    with pytest.raises(InvalidIcebergRequest, match="it is not adopted yet; ask for 4-preview"):
        create_table(open_storage(), str(tmp_path / "t"), schema=schema_of(LongType()), format_version=4)
    table = create_table(
        open_storage(), str(tmp_path / "t"), schema=schema_of(LongType()), format_version="4-preview"
    ).commit()
    assert table.metadata.format_version == 4
    assert table.location == f"file://{tmp_path}/t"


@pytest.mark.parametrize("version", [0, 5, "five", "5", True])
def test_a_version_that_nobody_knows_is_refused(tmp_path: Path, version: Any) -> None:
    with pytest.raises(InvalidIcebergRequest, match="expected 1, 2, 3 or 4-preview"):
        create_table(
            open_storage(),
            str(tmp_path / "t"),
            schema=schema_of(LongType()),
            format_version=0 if version is True else version,
        )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"schema": schema_of(VariantType())}, "type variant needs format version 3, the table has 2"),
        ({"schema": schema_of(TimestampNsType())}, "type timestamp_ns needs format version 3"),
        ({"schema": schema_of(GeometryType())}, "needs format version 3"),
        ({"schema": schema_of(LongType(), initial_default=5)}, "its initial default needs format version 3"),
        (
            {
                "schema": schema_of(DoubleType()),
                "spec": PartitionSpec(
                    spec_id=0,
                    fields=(
                        PartitionField(
                            source_ids=(3,), field_id=1000, name="b", transform=BucketTransform(num_buckets=4)
                        ),
                    ),
                ),
            },
            "it is not defined for double",
        ),
        (
            {
                "schema": schema_of(LongType()),
                "spec": PartitionSpec(
                    spec_id=0,
                    fields=(
                        PartitionField(source_ids=(3,), field_id=1000, name="b", transform=UnknownTransform(text="z")),
                    ),
                ),
            },
            "has the unknown transform z",
        ),
        ({"schema": schema_of(LongType()), "sort_order": ordered(9)}, "its field over column 9 cannot be applied"),
        (
            {"schema": schema_of(LongType()), "sort_order": ordered(3), "fresh_ids": True},
            "Cannot assign fresh field ids",
        ),
    ],
)
def test_what_a_version_does_not_allow_is_refused(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidIcebergRequest, match=message):
        create_table(open_storage(), str(tmp_path / "t"), **options)
    assert not (tmp_path / "t").exists()
