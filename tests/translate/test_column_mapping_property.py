"""The property that tells the way back which column mapping a table had."""

from __future__ import annotations

import pytest

from deltaberg.delta.schema.column_mapping import MappingMode
from deltaberg.translate.column_mapping_property import MAPPING_KEY, CarriedMapping


def test_survives_the_property_in_the_order_of_the_partition_columns() -> None:
    carried = CarriedMapping(mode=MappingMode.NAME, partition_names={7: "col-ü", 2: "b"})
    read = CarriedMapping.of({MAPPING_KEY: carried.to_text()})
    assert read == carried
    assert read is not None
    assert list(read.partition_names) == [7, 2]


def test_is_absent_from_a_table_that_was_never_delta() -> None:
    assert CarriedMapping.of({"owner": "me"}) is None


@pytest.mark.parametrize(
    "text", ["", "null", "[]", "7", "{", '{"mode": "some", "partition-columns": []}', '{"mode": "id"}']
)
def test_a_text_that_is_not_deltabergs_says_nothing(text: str) -> None:
    assert CarriedMapping.of({MAPPING_KEY: text}) is None
