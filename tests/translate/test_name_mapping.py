from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from deltaberg.datafile import file_fields
from deltaberg.delta.schema import types as delta
from deltaberg.translate.field_ids import assigned_ids
from deltaberg.translate.name_mapping import delta_to_name_mapping


def test_every_field_has_its_physical_name(column: Any, delta_schema: Any) -> None:
    schema = delta_schema(
        column("a", delta.LongType(), **{"delta.columnMapping.physicalName": "col-1"}),
        column("m", delta.MapType(key_type=delta.StringType(), value_type=delta_schema(column("x", delta.LongType())))),
    )
    made = delta_to_name_mapping(schema, assigned_ids(schema, known={}), first_spare_id=9)
    assert json.loads(made.mapping.to_text()) == [
        {"names": ["col-1"], "field-id": 1},
        {
            "names": ["m"],
            "field-id": 2,
            "fields": [
                {"names": ["key"], "field-id": 3},
                {"names": ["value"], "field-id": 4, "fields": [{"names": ["x"], "field-id": 5}]},
            ],
        },
    ]
    assert made.last_id == 8


def test_hidden_columns_and_strangers_get_ids_that_no_field_has(column: Any, delta_schema: Any) -> None:
    schema = delta_schema(column("a", delta.LongType()), column("p", delta.StringType()))
    stranger = pa.list_(pa.struct([("x", pa.int64())]))
    held = file_fields(
        pa.schema([("a", pa.int64()), ("p", pa.string()), ("_change_type", pa.string()), ("l", stranger)])
    )
    made = delta_to_name_mapping(
        schema, assigned_ids(schema, known={}), hidden=[("p",)], files=[held], first_spare_id=3
    )
    assert json.loads(made.mapping.to_text()) == [
        {"names": ["a"], "field-id": 1},
        {"names": ["p"], "field-id": 3},
        {"names": ["_change_type"], "field-id": 4},
        {
            "names": ["l"],
            "field-id": 5,
            "fields": [{"names": ["element"], "field-id": 6, "fields": [{"names": ["x"], "field-id": 7}]}],
        },
    ]
    assert made.last_id == 7


def test_strangers_inside_a_struct_are_mapped_too(column: Any, delta_schema: Any) -> None:
    schema = delta_schema(column("s", delta_schema(column("x", delta.LongType()))))
    held = file_fields(pa.schema([("s", pa.struct([("x", pa.int64()), ("gone", pa.int64())]))]))
    made = delta_to_name_mapping(schema, assigned_ids(schema, known={}), files=[held], first_spare_id=3)
    (mapped,) = json.loads(made.mapping.to_text())
    assert mapped["fields"] == [{"names": ["x"], "field-id": 2}, {"names": ["gone"], "field-id": 3}]
