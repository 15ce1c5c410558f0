"""Which schema a snapshot is read in, and what stands for fields that a file lacks."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from deltaberg.datafile import file_schema
from deltaberg.iceberg.errors import CorruptMetadata, InvalidIcebergRequest
from deltaberg.iceberg.metadata.snapshot import Snapshot
from deltaberg.iceberg.metadata.snapshot_ref import RefType, SnapshotRef
from deltaberg.iceberg.metadata.table_metadata import TableMetadata
from deltaberg.iceberg.partition.partition_spec import PartitionField, PartitionSpec
from deltaberg.iceberg.partition.transforms import BucketTransform, IdentityTransform
from deltaberg.iceberg.schema.name_mapping import MappedField, NameMapping
from deltaberg.iceberg.schema.read_schema import identity_constants, mapped_fields, read_fields, schema_at
from deltaberg.iceberg.schema.schema import Schema
from deltaberg.iceberg.schema.types import (
    GeometryType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    Type,
    UuidType,
    VariantType,
)


def column(field_id: int, name: str, kind: Type, **options: Any) -> NestedField:
    return NestedField(field_id=field_id, name=name, required=False, type=kind, **options)


@pytest.fixture
def metadata() -> TableMetadata:
    old = Schema(schema_id=0, fields=(column(1, "a", LongType()),))
    new = Schema(schema_id=1, fields=(column(1, "b", LongType()),))
    snapshots = tuple(
        Snapshot(snapshot_id=i, timestamp_ms=i, manifest_list=f"/t/{i}.avro", schema_id=schema_id)
        for i, schema_id in ((1, 0), (2, 0), (3, None))
    )
    return TableMetadata(
        format_version=2,
        table_uuid=None,
        location="/t",
        last_updated_ms=1,
        last_column_id=1,
        schemas=(old, new),
        current_schema_id=1,
        partition_specs=(PartitionSpec(spec_id=0),),
        default_spec_id=0,
        last_partition_id=999,
        current_snapshot_id=2,
        snapshots=snapshots,
        refs={
            "main": SnapshotRef(snapshot_id=2, type=RefType.BRANCH),
            "dev": SnapshotRef(snapshot_id=1, type=RefType.BRANCH),
            "v1": SnapshotRef(snapshot_id=1, type=RefType.TAG),
        },
    )


@pytest.mark.parametrize(
    ("snapshot_id", "ref", "schema_id"),
    [(None, None, 1), (2, "main", 1), (1, "dev", 1), (1, "v1", 0), (1, None, 0), (2, None, 0), (3, None, 1)],
)
def test_branches_are_read_in_the_current_schema_and_points_in_theirs(
    metadata: TableMetadata, snapshot_id: int | None, ref: str | None, schema_id: int
) -> None:
    snapshot = None if snapshot_id is None else metadata.snapshot_by_id(snapshot_id)
    assert schema_at(metadata, snapshot=snapshot, ref=ref).schema_id == schema_id


def test_an_unknown_ref_is_refused(metadata: TableMetadata) -> None:
    with pytest.raises(InvalidIcebergRequest, match="Cannot find branch or tag x"):
        schema_at(metadata, snapshot=metadata.current_snapshot, ref="x")


def test_fields_become_arrow_fields_with_variants_as_text_at_any_depth() -> None:
    variants = ListType(element=column(11, "element", VariantType()))
    named = MapType(
        key=NestedField(field_id=21, name="key", required=True, type=StringType()),
        value=column(22, "value", StructType(fields=(column(23, "v", VariantType()), column(24, "u", UuidType())))),
    )
    fields = (
        column(1, "v", VariantType()),
        column(10, "l", variants),
        column(20, "m", named),
        column(30, "g", GeometryType()),
    )
    text, binary, list_, map_ = pa.string(), pa.binary(), pa.list_, pa.map_
    inner = pa.struct([("v", text), ("u", pa.binary(16))])
    assert [field.type for field in read_fields(fields)] == [
        text,
        list_(pa.field("element", text)),
        map_(pa.field("key", text, False), pa.field("value", inner)),
        binary,
    ]
    assert [field.kind for field in read_fields(fields)] == ["variant", "plain", "plain", "geometry"]
    (stored, *_) = read_fields(fields, variant_as_json=False)
    assert stored.type == pa.struct([pa.field("metadata", binary, False), pa.field("value", binary, False)])


def test_partition_values_stand_before_defaults_and_are_promoted() -> None:
    spec = PartitionSpec(
        spec_id=0,
        fields=(
            PartitionField(source_ids=(1,), field_id=1000, name="a", transform=IdentityTransform()),
            PartitionField(source_ids=(2,), field_id=1001, name="b", transform=BucketTransform(num_buckets=2)),
            PartitionField(source_ids=(3,), field_id=1002, name="c", transform=IdentityTransform()),
        ),
    )
    kind = pa.struct([("a", pa.int32()), ("b", pa.int32()), ("c", pa.string())])
    constants = identity_constants(spec, pa.scalar({"a": 5, "b": 1, "c": None}, kind))
    assert {key: value.as_py() for key, value in constants.items()} == {1: 5, 3: None}
    fields = (
        column(1, "a", LongType(), initial_default=9),
        column(2, "b", IntegerType(), initial_default=8),
        column(3, "c", StringType(), initial_default="x"),
    )
    defaults = [field.default for field in read_fields(fields, constants)]
    assert defaults == [pa.scalar(5, pa.int64()), pa.scalar(8, pa.int32()), None]


def test_a_partition_value_that_does_not_fit_its_column_is_refused() -> None:
    with pytest.raises(CorruptMetadata, match="partition value does not fit"):
        read_fields((column(1, "a", IntegerType()),), {1: pa.scalar("x")})


def test_a_name_mapping_leaves_out_columns_with_a_partition_value() -> None:
    child = MappedField(names=("x", "y"), field_id=2)
    mapping = NameMapping(
        fields=(MappedField(names=("s",), field_id=1, fields=(child,)), MappedField(names=("p",), field_id=3))
    )
    assert mapped_fields(None, {}) is None
    assert mapped_fields(mapping, {3: pa.scalar("v")}) == (
        file_schema.NamedField(
            names=("s",), field_id=1, children=(file_schema.NamedField(names=("x", "y"), field_id=2),)
        ),
        file_schema.NamedField(names=("p",), field_id=None),
    )
