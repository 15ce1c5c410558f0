"""Columns are found by physical name or id as the table's mode says; a mapping with holes is refused."""

from __future__ import annotations

import json

import pytest

from deltaberg.delta.errors import CorruptLog
from deltaberg.delta.log.actions import Metadata
from deltaberg.delta.protocol.protocol import Protocol
from deltaberg.delta.schema.column_mapping import ColumnMapping, MappingMode
from deltaberg.delta.schema.types import StructType

READER_2 = Protocol(min_reader_version=2, min_writer_version=5)
READER_2_WRITER_7 = Protocol(min_reader_version=2, min_writer_version=7, writer_features=("columnMapping",))
READER_3 = Protocol(
    min_reader_version=3, min_writer_version=7, reader_features=("columnMapping",), writer_features=("columnMapping",)
)
READER_1_WRITER_7 = Protocol(min_reader_version=1, min_writer_version=7, writer_features=("columnMapping",))
# As Delta Spark 3.1 leaves it after delta.minReaderVersion was set to 3.
WRITERS_ALONE = Protocol(
    min_reader_version=3, min_writer_version=7, reader_features=(), writer_features=("columnMapping", "icebergCompatV1")
)
OTHER_FEATURES = Protocol(
    min_reader_version=3, min_writer_version=7, reader_features=("v2Checkpoint",), writer_features=("v2Checkpoint",)
)
READER_1 = Protocol(min_reader_version=1, min_writer_version=2)


def mapped(name: str, number: object, physical: object, kind: object = "long", **more: object) -> dict[str, object]:
    keys = {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": physical, **more}
    return {"name": name, "type": kind, "nullable": True, "metadata": {k: v for k, v in keys.items() if v is not None}}


def metadata(*fields: dict[str, object], mode: str = "name", partition_columns: tuple[str, ...] = ()) -> Metadata:
    return Metadata.from_json(
        {
            "id": "x",
            "schemaString": json.dumps({"type": "struct", "fields": fields}),
            "partitionColumns": list(partition_columns),
            "configuration": {"delta.columnMapping.mode": mode, "delta.columnMapping.maxColumnId": "9"},
        }
    )


def below(schema: StructType, name: str) -> StructType:
    kind = schema.field(name).type
    assert isinstance(kind, StructType)
    return kind


@pytest.mark.parametrize("protocol", [READER_2, READER_2_WRITER_7, READER_3, WRITERS_ALONE, READER_1_WRITER_7])
@pytest.mark.parametrize("mode", ["name", "id"])
def test_a_supported_mode_maps_names_and_ids(protocol: Protocol, mode: str) -> None:
    struct = {"type": "struct", "fields": [mapped("x", 3, "col-x")]}
    mapping = ColumnMapping.of(protocol, metadata(mapped("s", 2, "col-s", struct), mode=mode))
    assert mapping.mode is MappingMode(mode)
    assert mapping.physical_schema.names == ("col-s",)
    assert below(mapping.physical_schema, "col-s").names == ("col-x",)
    assert mapping.max_column_id == 9
    assert mapping.column_id(below(mapping.schema, "s").field("x")) == 3


@pytest.mark.parametrize("protocol", [READER_1, OTHER_FEATURES])
def test_the_mode_counts_only_where_the_protocol_supports_it(protocol: Protocol) -> None:
    mapping = ColumnMapping.of(protocol, metadata(mapped("a", 1, "col-a")))
    assert mapping.mode is MappingMode.NONE
    field = mapping.schema.field("a")
    assert (mapping.physical_name(field), mapping.column_id(field), mapping.nested_ids(field)) == ("a", None, {})


def test_nested_ids_are_relative_to_the_field() -> None:
    kind = {
        "type": "map",
        "keyType": "long",
        "valueType": {"type": "array", "elementType": "long", "containsNull": True},
        "valueContainsNull": True,
    }
    ids = {"col-m.key": 5, "col-m.value": 6, "col-m.value.element": 7}
    mapping = ColumnMapping.of(
        READER_3, metadata(mapped("m", 4, "col-m", kind, **{"delta.columnMapping.nested.ids": ids}))
    )
    assert mapping.nested_ids(mapping.schema.field("m")) == {"key": 5, "value": 6, "value.element": 7}
    assert mapping.physical_schema.names == ("col-m",)


def test_nested_ids_under_the_former_key_and_display_name_are_read() -> None:
    kind = {"type": "array", "elementType": "long", "containsNull": True}
    mapping = ColumnMapping.of(
        READER_3, metadata(mapped("a", 4, "col-a", kind, **{"parquet.field.nested.ids": {"a.element": 5}}))
    )
    assert mapping.nested_ids(mapping.schema.field("a")) == {"element": 5}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ((mapped("a", None, "p"),), "delta.columnMapping.id is None"),
        ((mapped("a", "1", "p"),), "delta.columnMapping.id is '1'"),
        ((mapped("a", 2**31, "p"),), "expected a 32-bit id"),
        ((mapped("a", 1, None),), "delta.columnMapping.physicalName is None"),
        ((mapped("a", 1, "p"), mapped("b", 1, "q")), "the id 1 belongs to 'a', too"),
        ((mapped("a", 1, "p"), mapped("b", 2, "p")), "physical name 'p' belongs to 'a', too"),
        ((mapped("a", 1, "p", **{"delta.columnMapping.nested.ids": {"p.element": 1}}),), "the id 1 belongs to"),
        ((mapped("a", 1, "p", **{"delta.columnMapping.nested.ids": {"x.element": 2}}),), "does not begin with"),
        ((mapped("a", 1, "p", **{"delta.columnMapping.nested.ids": []}),), "expected an object"),
    ],
)
def test_a_mapping_with_holes_names_the_column(fields: tuple[dict[str, object], ...], message: str) -> None:
    with pytest.raises(CorruptLog, match="Cannot map the column") as caught:
        ColumnMapping.of(READER_3, metadata(*fields))
    assert message in str(caught.value)


def test_an_unknown_mode_is_refused() -> None:
    with pytest.raises(CorruptLog, match="expected none, name or id"):
        ColumnMapping.of(READER_3, metadata(mapped("a", 1, "p"), mode="position"))


def test_structs_of_different_parents_may_share_physical_names() -> None:
    inner = {"type": "struct", "fields": [mapped("x", 2, "p")]}
    mapping = ColumnMapping.of(READER_3, metadata(mapped("s", 1, "p", inner)))
    assert below(mapping.physical_schema, "p").names == ("p",)
