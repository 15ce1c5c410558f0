"""Schemas: fields by id and name, and what makes a schema invalid."""

from __future__ import annotations

import pyarrow as pa
import pytest

from deltaberg.iceberg.errors import CorruptMetadata, InvalidIcebergRequest
from deltaberg.iceberg.schema.schema import Schema
from deltaberg.iceberg.schema.types import (
    DoubleType,
    IntegerType,
    ListType,
    LongType,
    NestedField,
    StringType,
    StructType,
)


def field(field_id: int, name: str, kind: object, *, required: bool = False) -> NestedField:
    return NestedField(field_id=field_id, name=name, required=required, type=kind)  # type: ignore[arg-type]


NESTED = Schema(
    schema_id=3,
    fields=(
        field(1, "id", LongType(), required=True),
        field(2, "a", StructType(fields=(field(4, "b", IntegerType()), field(5, "c.d", StringType())))),
        field(3, "items", ListType(element=field(6, "element", StructType(fields=(field(7, "x", IntegerType()),))))),
        field(8, "a.b", StringType()),
    ),
    identifier_field_ids=(1,),
)


def test_fields_are_found_by_id_at_any_depth() -> None:
    assert NESTED.find(7) is not None
    assert NESTED.full_name(7) == "items.element.x"
    assert NESTED.full_name(5) == "a.c.d"
    assert NESTED.find(99) is None
    assert NESTED.highest_field_id == 8
    assert [leaf.field_id for leaf in NESTED.leaves()] == [1, 4, 5, 7, 8]
    assert NESTED.within_collection(7)
    assert not NESTED.within_collection(4)


@pytest.mark.parametrize(("name", "found"), [("a.b", 8), ("a.c.d", 5), ("items.element.x", 7), ("id", 1)])
def test_a_name_with_dots_of_its_own_wins_over_a_path(name: str, found: int) -> None:
    result = NESTED.find_by_name(name)
    assert result is not None
    assert result.field_id == found


def test_a_name_that_is_not_there_finds_nothing() -> None:
    assert NESTED.find_by_name("a.x") is None


def test_arrow_columns_carry_their_field_ids() -> None:
    assert NESTED.arrow_schema().field("id") == pa.field("id", pa.int64(), nullable=False)
    assert NESTED.arrow_schema().field("id").metadata == {b"PARQUET:field_id": b"1"}


def test_json_round_trip_keeps_everything() -> None:
    value = {**NESTED.to_json(), "x-owner": {"team": 1}}
    parsed = Schema.from_json(value)
    assert parsed == NESTED
    assert parsed.to_json() == value


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ((field(1, "a", LongType()), field(1, "b", LongType())), "Cannot use field id 1 for b: a has it already"),
        ((field(1, "a", LongType()), field(2, "a", LongType())), "Cannot use the name a twice in one struct"),
        ((field(2147483540, "a", LongType()),), "Cannot use field id 2147483540: ids go from 0 to 2147483447"),
    ],
)
def test_clashing_fields_are_refused(fields: tuple[NestedField, ...], message: str) -> None:
    with pytest.raises(InvalidIcebergRequest, match=message):
        Schema(schema_id=0, fields=fields)


@pytest.mark.parametrize(
    ("ids", "fields"),
    [
        ((9,), (field(1, "a", LongType(), required=True),)),
        ((1,), (field(1, "a", LongType()),)),
        ((1,), (field(1, "a", DoubleType(), required=True),)),
        ((2,), (field(1, "a", StructType(fields=(field(2, "b", LongType(), required=True),))),)),
        ((2,), (field(1, "a", ListType(element=field(2, "element", LongType(), required=True)), required=True),)),
    ],
)
def test_identifier_fields_must_be_required_primitives(ids: tuple[int, ...], fields: tuple[NestedField, ...]) -> None:
    with pytest.raises(InvalidIcebergRequest, match="Cannot use identifier field"):
        Schema(schema_id=0, fields=fields, identifier_field_ids=ids)


@pytest.mark.parametrize(
    "default", [{"initial-default": "x"}, {"write-default": 2**31}, {"initial-default": 1.5}, {"write-default": []}]
)
def test_a_default_of_another_type_is_corrupt(default: dict[str, object]) -> None:
    value = {
        "type": "struct",
        "schema-id": 0,
        "fields": [{"id": 1, "name": "a", "required": False, "type": "int", **default}],
    }
    with pytest.raises(CorruptMetadata, match=r"field 1 \(a\) (initial|write)-default"):
        Schema.from_json(value, "$.schemas[0]")
