"""Type changes are read as recorded and checked against the protocol's list."""

from __future__ import annotations

import pytest

from deltaberg.delta.errors import CorruptLog, UnsupportedDeltaFeature
from deltaberg.delta.log.actions import Metadata
from deltaberg.delta.schema.schema import schema_to_json
from deltaberg.delta.schema.type_widening import TypeChange, is_widening, require_known_changes, type_changes
from deltaberg.delta.schema.types import IntegerType, LongType, StructField, StructType, parse_type_name

WIDENINGS = """
byte short|byte integer|byte long|short integer|short long|integer long|float double|byte double|short double
integer double|date timestamp_ntz|decimal(10,2) decimal(12,2)|decimal(10,2) decimal(14,4)|byte decimal(10,0)
byte decimal(4,1)|short decimal(6,1)|integer decimal(10,0)|integer decimal(11,1)|long decimal(20,0)|long decimal(21,1)
void long|void string
"""
NOT_WIDENINGS = """
long integer|double float|long double|float integer|date timestamp|timestamp timestamp_ntz|integer string
decimal(10,2) decimal(10,4)|decimal(10,2) decimal(9,2)|decimal(10,2) decimal(12,1)|integer decimal(10,1)|long decimal(19,0)
"""


def pairs(text: str) -> list[tuple[str, str]]:
    return [(pair.split()[0], pair.split()[1]) for line in text.split("\n") for pair in line.split("|") if pair]


@pytest.mark.parametrize(("narrow", "wide"), pairs(WIDENINGS))
def test_the_protocol_allows(narrow: str, wide: str) -> None:
    assert is_widening(parse_type_name(narrow), parse_type_name(wide))


@pytest.mark.parametrize(("narrow", "wide"), pairs(NOT_WIDENINGS))
def test_the_protocol_forbids(narrow: str, wide: str) -> None:
    assert not is_widening(parse_type_name(narrow), parse_type_name(wide))


def field(changes: object) -> StructField:
    return StructField(name="f", type=LongType(), metadata={"delta.typeChanges": changes})


def test_changes_are_read_with_and_without_their_optional_fields() -> None:
    changes = [
        {"fromType": "integer", "toType": "long", "tableVersion": 2},
        {"fromType": "integer", "toType": "long", "fieldPath": "element"},
    ]
    assert type_changes(field(changes)) == (
        TypeChange(from_type=IntegerType(), to_type=LongType()),
        TypeChange(from_type=IntegerType(), to_type=LongType(), field_path="element"),
    )


@pytest.mark.parametrize("changes", ["x", ["x"], [{"fromType": "integer"}], [{"fromType": 5, "toType": "long"}]])
def test_malformed_changes_name_the_field(changes: object) -> None:
    with pytest.raises(CorruptLog, match=r"delta\.typeChanges of 'f'"):
        type_changes(field(changes))


def test_an_unknown_change_is_refused_with_its_column() -> None:
    schema = StructType(fields=(field([{"fromType": "string", "toType": "long"}]),))
    metadata = Metadata(id="x", schema=schema, schema_string=schema_to_json(schema))
    with pytest.raises(UnsupportedDeltaFeature, match=r"column 'f'.*string to long") as caught:
        require_known_changes(metadata)
    assert caught.value.feature == "type change string to long"
