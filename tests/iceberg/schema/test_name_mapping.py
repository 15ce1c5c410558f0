"""Name mappings as the table property holds them."""

from __future__ import annotations

import json

import pytest

from deltaberg.iceberg.errors import CorruptMetadata
from deltaberg.iceberg.schema.name_mapping import NameMapping
from deltaberg.iceberg.schema.schema import Schema
from deltaberg.iceberg.schema.types import ListType, LongType, MapType, NestedField, StringType, StructType

EXAMPLE = """[ { "field-id": 1, "names": ["id", "record_id"] },
  { "field-id": 2, "names": ["data"] },
  { "names": ["ignored"] },
  { "field-id": 3, "names": ["location"], "fields": [
    { "field-id": 4, "names": ["latitude", "lat"] },
    { "field-id": 5, "names": [], "x": 1 }
  ] } ]"""


def test_the_example_of_the_specification_is_read() -> None:
    mapping = NameMapping.from_text(EXAMPLE)
    found = mapping.find("record_id")
    assert found is not None
    assert found.field_id == 1
    ignored = mapping.find("ignored")
    assert ignored is not None
    assert ignored.field_id is None
    location = mapping.find("location")
    assert location is not None
    latitude = location.find("lat")
    assert latitude is not None
    assert latitude.field_id == 4
    assert mapping.find("lat") is None


def test_nothing_is_lost_in_a_round_trip() -> None:
    again = NameMapping.from_text(NameMapping.from_text(EXAMPLE).to_text())
    assert again == NameMapping.from_text(EXAMPLE)
    assert json.loads(again.to_text())[3]["fields"][1] == {"names": [], "field-id": 5, "x": 1}


def test_a_schema_gives_every_field_its_name() -> None:
    def field(field_id: int, name: str, kind: object) -> NestedField:
        return NestedField(field_id=field_id, name=name, required=name == "key", type=kind)  # type: ignore[arg-type]

    schema = Schema(
        schema_id=0,
        fields=(
            field(1, "a.b", LongType()),
            field(2, "l", ListType(element=field(3, "element", StructType(fields=(field(4, "x", LongType()),))))),
            field(5, "m", MapType(key=field(6, "key", StringType()), value=field(7, "value", LongType()))),
        ),
    )
    assert json.loads(NameMapping.of(schema).to_text()) == [
        {"names": ["a.b"], "field-id": 1},
        {
            "names": ["l"],
            "field-id": 2,
            "fields": [
                {"names": ["element"], "field-id": 3, "fields": [{"names": ["x"], "field-id": 4}]},
            ],
        },
        {
            "names": ["m"],
            "field-id": 5,
            "fields": [{"names": ["key"], "field-id": 6}, {"names": ["value"], "field-id": 7}],
        },
    ]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[1]",
        '[{"field-id": 1}]',
        '[{"names": "a", "field-id": 1}]',
        '[{"names": ["a"], "field-id": "1"}]',
        '[{"names": ["a"]}, {"names": ["a"]}]',
        '[{"names": ["a"], "fields": {}}]',
        '[{"names": [1]}]',
        '[{"names": [], "fields": ' * 200 + "[]" + "}]" * 200,
    ],
)
def test_a_malformed_mapping_is_corrupt(text: str) -> None:
    with pytest.raises(CorruptMetadata, match=r"property schema\.name-mapping\.default|nested too deeply"):
        NameMapping.from_text(text)
