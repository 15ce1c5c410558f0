from __future__ import annotations

import pytest

from deltaberg.delta.errors import CorruptLog
from deltaberg.delta.log.actions import DomainMetadata
from deltaberg.delta.protocol.protocol import Protocol
from deltaberg.delta.protocol.table_properties import TableProperties
from deltaberg.translate.lineage import (
    DOMAIN,
    delta_lineage,
    iceberg_to_delta_lineage_properties,
)

TRACKED = Protocol(min_reader_version=1, min_writer_version=7, writer_features=("rowTracking", "domainMetadata"))
PLAIN = Protocol(min_reader_version=1, min_writer_version=2)
ENABLED = TableProperties(configuration=iceberg_to_delta_lineage_properties())


def domain(text: str) -> dict[str, DomainMetadata]:
    return {DOMAIN: DomainMetadata(domain=DOMAIN, configuration=text)}


def test_the_lowest_free_id_is_one_above_the_high_water_mark() -> None:
    assert delta_lineage(TRACKED, ENABLED, domain('{"rowIdHighWaterMark":41}')).next_row_id == 42


def test_a_table_without_the_domain_has_given_out_no_id() -> None:
    assert delta_lineage(TRACKED, ENABLED, {}).next_row_id == 0


@pytest.mark.parametrize(
    ("protocol", "properties", "supported", "enabled"),
    [
        (PLAIN, {"delta.enableRowTracking": "true"}, False, False),
        (TRACKED, {}, True, False),
        (TRACKED, {"delta.enableRowTracking": "true"}, True, True),
        (TRACKED, {"delta.enableRowTracking": "true", "delta.rowTrackingSuspended": "true"}, True, False),
    ],
)
def test_row_ids_are_claimed_only_where_every_row_has_one(
    protocol: Protocol, properties: dict[str, str], supported: bool, enabled: bool
) -> None:
    made = delta_lineage(protocol, TableProperties(configuration=properties), {})
    assert (made.supported, made.enabled) == (supported, enabled)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"rowIdHighWaterMark":"1"}', '{"rowIdHighWaterMark":-2}'])
def test_a_high_water_mark_that_is_none_is_named(text: str) -> None:
    with pytest.raises(CorruptLog, match=r"delta\.rowTracking"):
        delta_lineage(TRACKED, ENABLED, domain(text))


def test_materialised_columns_have_the_names_that_iceberg_writes() -> None:
    made = delta_lineage(TRACKED, ENABLED, {})
    assert (made.row_id_column, made.commit_version_column) == ("_row_id", "_last_updated_sequence_number")
