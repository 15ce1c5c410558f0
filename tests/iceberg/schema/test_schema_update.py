"""Schema evolution: fresh ids, promotions, and everything that the specification forbids."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from deltaberg.iceberg.errors import CorruptMetadata, InvalidIcebergRequest
from deltaberg.iceberg.metadata.table_metadata import TableMetadata
from deltaberg.iceberg.partition.partition_spec import PartitionField, PartitionSpec
from deltaberg.iceberg.partition.sort_order import NullOrder, SortDirection, SortField, SortOrder
from deltaberg.iceberg.partition.transforms import BucketTransform, DayTransform, IdentityTransform, VoidTransform
from deltaberg.iceberg.schema.schema import Schema
from deltaberg.iceberg.schema.schema_update import SchemaUpdate
from deltaberg.iceberg.schema.type_promotion import check_evolution
from deltaberg.iceberg.schema.types import (
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampNsType,
    TimestampType,
    TimestamptzType,
    Type,
    UnknownType,
    UuidType,
    type_name,
)


def field(field_id: int, name: str, kind: Type, *, required: bool = False) -> NestedField:
    return NestedField(field_id=field_id, name=name, required=required, type=kind)


POINT = StructType(fields=(field(5, "x", IntegerType()), field(6, "y", FloatType())))
SCHEMA = Schema(
    schema_id=0,
    fields=(
        field(1, "id", IntegerType(), required=True),
        field(2, "day", DateType()),
        field(3, "price", DecimalType(precision=9, scale=2)),
        field(4, "point", POINT),
        field(7, "items", ListType(element=field(8, "element", StructType(fields=(field(9, "a", LongType()),))))),
        field(
            10,
            "props",
            MapType(
                key=field(11, "key", StringType(), required=True),
                value=field(12, "value", StructType(fields=(field(13, "b", LongType()),))),
            ),
        ),
        field(14, "nothing", UnknownType()),
    ),
    identifier_field_ids=(1,),
)


def metadata(*, version: int = 3, schema: Schema = SCHEMA, parts: tuple[PartitionField, ...] = ()) -> TableMetadata:
    order = SortOrder(
        order_id=1,
        fields=(
            SortField(
                source_ids=(3,),
                transform=IdentityTransform(),
                direction=SortDirection.ASC,
                null_order=NullOrder.NULLS_FIRST,
            ),
        ),
    )
    return TableMetadata(
        format_version=version,
        table_uuid=None,
        location="s3://b/t",
        last_updated_ms=0,
        last_column_id=20,
        schemas=(schema,),
        current_schema_id=0,
        partition_specs=(PartitionSpec(spec_id=0, fields=parts),),
        default_spec_id=0,
        last_partition_id=1000,
        sort_orders=(order,),
        default_sort_order_id=1,
    )


def part(source: int, transform: Any) -> PartitionField:
    return PartitionField(source_ids=(source,), field_id=1000, name="p", transform=transform)


def test_new_fields_get_ids_that_were_never_used() -> None:
    update = SchemaUpdate(metadata())
    nested = StructType(
        fields=(field(1, "u", LongType()), field(2, "v", ListType(element=field(3, "element", LongType()))))
    )
    schema = update.add_column("new", nested, doc="why").add_column("z", StringType(), parent="point").schema()
    assert schema.schema_id == 1
    assert update.last_column_id == 25
    added = schema.find_by_name("new")
    assert added is not None
    assert added.doc == "why"
    assert [schema.full_name(i) for i in range(21, 26)] == ["new", "new.u", "new.v", "new.v.element", "point.z"]


def test_columns_are_added_inside_lists_and_map_values() -> None:
    schema = (
        SchemaUpdate(metadata())
        .add_column("c", LongType(), parent="items")
        .add_column("d", LongType(), parent="props")
        .schema()
    )
    assert schema.full_name(21) == "items.element.c"
    assert schema.full_name(22) == "props.value.d"


def test_columns_are_renamed_moved_and_deleted_under_their_ids() -> None:
    schema = (
        SchemaUpdate(metadata())
        .rename_column("point.x", "east")
        .move_after("point.east", "point.y")
        .move_first("props")
        .move_before("day", "nothing")
        .delete_column("items")
        .make_optional("day")
        .update_doc("day", "when")
        .schema()
    )
    assert [nested.name for nested in schema.fields] == ["props", "id", "price", "point", "day", "nothing"]
    point = schema.find(4)
    assert point is not None
    assert isinstance(point.type, StructType)
    assert [(nested.field_id, nested.name) for nested in point.type.fields] == [(6, "y"), (5, "east")]
    assert schema.find(9) is None


def test_no_change_is_the_schema_that_is_there() -> None:
    assert SchemaUpdate(metadata()).rename_column("id", "x").rename_column("x", "id").schema() is SCHEMA


def test_defaults_are_set_with_the_column_and_write_defaults_change() -> None:
    update = SchemaUpdate(metadata()).add_column("n", LongType(), required=True, default=5)
    added = update.update_write_default("n", 6).schema().find_by_name("n")
    assert added is not None
    assert (added.required, added.initial_default, added.write_default) == (True, 5, 6)


def test_identifier_fields_follow_names() -> None:
    assert SchemaUpdate(metadata()).set_identifier_fields(()).schema().identifier_field_ids == ()


Change = Callable[[SchemaUpdate], object]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda u: u.add_column("n", LongType(), required=True), "Cannot add required column n"),
        (lambda u: u.add_column("id", LongType()), "Cannot use the name id twice in one struct"),
        (lambda u: u.add_column("n", LongType(), parent="id"), "Cannot add column n to id: it is not a struct"),
        (lambda u: u.add_column("n", LongType(), parent="zzz"), "the schema has no such column"),
        (lambda u: u.delete_column("id"), "it is an identifier field"),
        (lambda u: u.delete_column("price"), "the sort order is made from it"),
        (lambda u: u.delete_column("items.element"), "a list or map cannot lose a part"),
        (lambda u: u.rename_column("props.key", "k"), "the parts of lists and maps have fixed names"),
        (lambda u: u.rename_column("day", "id"), "Cannot use the name id twice"),
        (lambda u: u.update_type("id", StringType()), "from int to string: format version 3 has no such promotion"),
        (lambda u: u.update_type("price", DecimalType(precision=12, scale=3)), "no such promotion"),
        (lambda u: u.update_type("price", DecimalType(precision=5, scale=2)), "no such promotion"),
        (lambda u: u.update_type("day", TimestamptzType()), "no such promotion"),
        (lambda u: u.update_type("point", LongType()), "no such promotion"),
        (lambda u: u.require("day"), "existing rows may hold nulls"),
        (lambda u: u.move_after("id", "point.x"), "they are in different structs"),
        (lambda u: u.move_after("id", "id"), "it cannot go beside itself"),
        (lambda u: u.move_first("items.element"), "the parts of lists and maps have fixed places"),
        (lambda u: u.set_identifier_fields(("day",)), "it must be required"),
        (lambda u: u.make_optional("id"), "it must be required"),
    ],
)
def test_what_the_specification_forbids_is_refused(change: Change, message: str) -> None:
    with pytest.raises(InvalidIcebergRequest, match=message):
        change(SchemaUpdate(metadata()))


def test_a_default_of_another_type_is_refused() -> None:
    with pytest.raises(CorruptMetadata, match="default of column n"):
        SchemaUpdate(metadata()).add_column("n", LongType(), default="five")


def test_the_source_of_a_partition_field_stays() -> None:
    with pytest.raises(InvalidIcebergRequest, match="partition field p is made from it"):
        SchemaUpdate(metadata(parts=(part(2, DayTransform()),))).delete_column("day")
    schema = SchemaUpdate(metadata(parts=(part(2, VoidTransform()),))).delete_column("day").schema()
    assert schema.find(2) is None


PROMOTIONS: list[tuple[Type, Type, bool, bool]] = [
    (IntegerType(), LongType(), True, True),
    (FloatType(), DoubleType(), True, True),
    (DecimalType(precision=5, scale=2), DecimalType(precision=6, scale=2), True, True),
    (DateType(), TimestampType(), False, True),
    (DateType(), TimestampNsType(), False, True),
    (UnknownType(), StringType(), False, True),
    (UnknownType(), POINT, False, True),
    (DateType(), TimestamptzType(), False, False),
    (IntegerType(), DoubleType(), False, False),
    (LongType(), IntegerType(), False, False),
    (IntegerType(), DecimalType(precision=10, scale=0), False, False),
    (UuidType(), StringType(), False, False),
    (StringType(), POINT, False, False),
]


@pytest.mark.parametrize(
    ("old", "new", "before_v3", "since_v3"),
    PROMOTIONS,
    ids=[f"{type_name(old)} to {type_name(new)}" for old, new, _, _ in PROMOTIONS],
)
def test_promotions_are_those_of_the_version(old: Type, new: Type, before_v3: bool, since_v3: bool) -> None:
    schema = Schema(schema_id=0, fields=(field(1, "c", old), field(3, "k", LongType())))
    for version, allowed in ((1, before_v3), (2, before_v3), (3, since_v3)):
        update = SchemaUpdate(metadata(version=version, schema=schema))
        if allowed:
            promoted = update.update_type("c", new).schema().find(1)
            assert promoted is not None
            assert promoted.type == new
        else:
            with pytest.raises(InvalidIcebergRequest, match="no such promotion"):
                update.update_type("c", new)


@pytest.mark.parametrize(
    ("transform", "allowed"),
    [(DayTransform(), True), (IdentityTransform(), False), (BucketTransform(num_buckets=4), False)],
)
def test_a_promotion_may_not_change_partition_values(transform: Any, allowed: bool) -> None:
    update = SchemaUpdate(metadata(parts=(part(2, transform),)))
    if allowed:
        update.update_type("day", TimestampType())
    else:
        with pytest.raises(InvalidIcebergRequest, match="would get other values"):
            update.update_type("day", TimestampType())


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ((field(1, "id", StringType()),), "from int to string"),
        ((field(4, "point", LongType()),), "from struct<x: int, y: float> to long"),
        ((field(5, "x", IntegerType()),), "Cannot move column x: field 5 would change its parent"),
        ((field(2, "day", StructType(fields=(field(99, "d", DateType()),))),), "no such promotion"),
    ],
)
def test_a_whole_schema_is_held_to_the_same_rules(fields: tuple[NestedField, ...], message: str) -> None:
    new = Schema(schema_id=1, fields=fields)
    with pytest.raises(InvalidIcebergRequest, match=message):
        check_evolution(SCHEMA, new, format_version=3, spec=PartitionSpec(spec_id=0))


def test_a_schema_may_drop_add_rename_and_promote_at_once() -> None:
    new = Schema(
        schema_id=1,
        fields=(
            field(1, "key", LongType()),
            field(50, "added", StringType()),
            field(4, "point", StructType(fields=(field(6, "north", DoubleType()), field(51, "z", IntegerType())))),
        ),
    )
    check_evolution(replace(SCHEMA), new, format_version=3, spec=PartitionSpec(spec_id=0))
