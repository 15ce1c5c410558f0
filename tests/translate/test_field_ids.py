from __future__ import annotations

import json
from typing import Any

import pytest

from deltaberg.delta.log.actions import Metadata
from deltaberg.delta.protocol.protocol import Protocol
from deltaberg.delta.schema import types as delta
from deltaberg.delta.schema.column_mapping import ColumnMapping
from deltaberg.delta.schema.schema import schema_to_json
from deltaberg.translate.field_ids import assigned_ids, declared_ids, mapped_schema


def mapping(schema: delta.StructType, mode: str) -> ColumnMapping:
    metadata = Metadata.from_json(
        {
            "id": "t",
            "schemaString": schema_to_json(schema),
            "configuration": {"delta.columnMapping.mode": mode, "delta.columnMapping.maxColumnId": "20"},
        }
    )
    protocol = Protocol(min_reader_version=2, min_writer_version=7, writer_features=("columnMapping",))
    return ColumnMapping.of(protocol, metadata)


@pytest.fixture
def mapped(column: Any, delta_schema: Any) -> delta.StructType:
    inner = delta_schema(
        column("x", delta.LongType(), **{"delta.columnMapping.id": 5, "delta.columnMapping.physicalName": "c5"})
    )
    return delta_schema(
        column(
            "l",
            delta.ArrayType(element_type=inner),
            **{
                "delta.columnMapping.id": 3,
                "delta.columnMapping.physicalName": "c3",
                "delta.columnMapping.nested.ids": {"c3.element": 11},
            },
        )
    )  # type: ignore[no-any-return]


def test_declared_ids_are_those_of_columns_and_nested_ids(mapped: delta.StructType) -> None:
    assert declared_ids(mapping(mapped, "name")) == {("c3",): 3, ("c3", "element"): 11, ("c3", "element", "c5"): 5}


def test_a_table_that_gave_up_column_mapping_has_no_declared_ids(mapped: delta.StructType) -> None:
    given_up = mapping(mapped, "none")
    assert declared_ids(given_up) == {}
    assert "physicalName" not in json.dumps(json.loads(schema_to_json(mapped_schema(given_up))))


def test_new_ids_come_after_every_known_one(column: Any, delta_schema: Any) -> None:
    schema = delta_schema(column("a", delta.LongType()), column("b", delta.ArrayType(element_type=delta.LongType())))
    assert assigned_ids(schema, known={("a",): 9}) == {("a",): 9, ("b",): 10, ("b", "element"): 11}


def test_ids_below_the_first_free_one_are_never_given_out(column: Any, delta_schema: Any) -> None:
    assert assigned_ids(delta_schema(column("a", delta.LongType())), known={}, first_free=21) == {("a",): 21}


def test_fields_of_a_struct_come_before_their_parts(column: Any, delta_schema: Any) -> None:
    schema = delta_schema(column("s", delta_schema(column("x", delta.LongType()))), column("b", delta.LongType()))
    assert assigned_ids(schema, known={}) == {("s",): 1, ("b",): 2, ("s", "x"): 3}
