"""One struct for the partitions of several specs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pyarrow as pa

from deltaberg.iceberg.partition.partition_spec import PartitionField, PartitionSpec
from deltaberg.iceberg.partition.partition_struct import PartitionStruct
from deltaberg.iceberg.partition.transforms import BucketTransform, IdentityTransform, Transform, VoidTransform
from deltaberg.iceberg.schema.schema import Schema
from deltaberg.iceberg.schema.types import LongType, NestedField, StringType

SCHEMA = Schema(
    schema_id=0,
    fields=(
        NestedField(field_id=1, name="id", required=False, type=LongType()),
        NestedField(field_id=2, name="p", required=False, type=StringType()),
    ),
)


def part(source: int, field_id: int, name: str, transform: Transform) -> PartitionField:
    return PartitionField(source_ids=(source,), field_id=field_id, name=name, transform=transform)


def struct(*specs: tuple[PartitionField, ...]) -> PartitionStruct:
    numbered = tuple(PartitionSpec(spec_id=i, fields=fields) for i, fields in enumerate(specs))
    by_id = {spec.spec_id: spec for spec in numbered}
    metadata: Any = SimpleNamespace(
        partition_specs=numbered, schemas_newest_first=(SCHEMA,), spec_by_id=by_id.__getitem__
    )
    return PartitionStruct(metadata)


P = part(2, 1000, "p", IdentityTransform())
BUCKET = part(1, 1001, "b", BucketTransform(num_buckets=4))


def test_every_field_of_every_spec_is_there_once() -> None:
    common = struct((P,), (P, BUCKET), ())
    assert common.type == pa.struct([("p", pa.string()), ("b", pa.int32())])
    rows = pa.array([{"p": "x"}, {"p": None}], pa.struct([("p", pa.string())]))
    assert common.array(0, rows).to_pylist() == [{"p": "x", "b": None}, {"p": None, "b": None}]
    assert [scalar.as_py() for scalar in common.scalars(0, rows[0])] == ["x", None]
    empty = pa.array([{}, {}], pa.struct([]))
    assert common.array(2, empty).to_pylist() == [{"p": None, "b": None}] * 2


def test_a_table_without_partitions_has_an_empty_struct() -> None:
    common = struct(())
    assert common.type == pa.struct([])
    assert common.array(0, pa.array([{}, {}], pa.struct([]))).to_pylist() == [{}, {}]


def test_a_field_takes_its_newest_name_and_the_type_from_before_it_was_void() -> None:
    renamed = part(2, 1000, "p_1000", VoidTransform())
    again = part(2, 1002, "p", BucketTransform(num_buckets=8))
    common = struct((P,), (renamed, again))
    assert common.type == pa.struct([("p_1000", pa.string()), ("p", pa.int32())])


def test_two_fields_of_one_name_are_told_apart_by_id() -> None:
    other = part(1, 1005, "p", IdentityTransform())
    assert struct((P,), (other,)).type == pa.struct([("p_1000", pa.string()), ("p_1005", pa.int64())])


def test_a_field_id_that_version_1_reused_stands_for_two_fields() -> None:
    common = struct((P,), (part(1, 1000, "b", BucketTransform(num_buckets=4)),))
    assert sorted(field.name for field in common.type) == ["b", "p"]
    assert common.array(0, pa.array([{"p": "x"}])).to_pylist() == [{"b": None, "p": "x"}]
    assert common.array(1, pa.array([{"b": 3}], pa.struct([("b", pa.int32())]))).to_pylist() == [{"b": 3, "p": None}]
