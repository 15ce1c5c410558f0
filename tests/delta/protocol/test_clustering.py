"""Clustering columns are told by the names that users see."""

from __future__ import annotations

import json

import pytest

from deltaberg.delta.errors import CorruptLog
from deltaberg.delta.log.actions import DomainMetadata, Metadata
from deltaberg.delta.protocol.clustering import clustering_columns
from deltaberg.delta.protocol.protocol import Protocol
from deltaberg.delta.schema.column_mapping import ColumnMapping


def field(name: str, number: int, kind: object) -> dict[str, object]:
    keys = {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": f"col-{number}"}
    return {"name": name, "type": kind, "nullable": True, "metadata": keys}


SCHEMA = {
    "type": "struct",
    "fields": [field("a", 1, "long"), field("s", 2, {"type": "struct", "fields": [field("x", 3, "long")]})],
}
METADATA = Metadata.from_json(
    {"id": "i", "schemaString": json.dumps(SCHEMA), "configuration": {"delta.columnMapping.mode": "name"}}
)
MAPPED = ColumnMapping.of(Protocol(min_reader_version=2, min_writer_version=5), METADATA)
UNMAPPED = ColumnMapping.of(Protocol(min_reader_version=1, min_writer_version=2), METADATA)


def columns(configuration: str, mapping: ColumnMapping = MAPPED) -> tuple[tuple[str, ...], ...]:
    return clustering_columns(
        {"delta.clustering": DomainMetadata(domain="delta.clustering", configuration=configuration)}, mapping
    )


def test_physical_paths_become_logical_ones() -> None:
    assert columns('{"clusteringColumns":[["col-2","col-3"],["col-1"]],"domainName":"x"}') == (("s", "x"), ("a",))
    assert columns('{"clusteringColumns":["col-1"]}') == (("a",),)
    assert columns('{"clusteringColumns":[["s","x"]]}', UNMAPPED) == (("s", "x"),)


def test_no_columns_are_none() -> None:
    assert columns('{"clusteringColumns":[]}') == ()
    assert clustering_columns({}, MAPPED) == ()


@pytest.mark.parametrize(
    ("configuration", "message"),
    [
        ("x", "no JSON object"),
        ("[]", "no JSON object"),
        ("{}", "clusteringColumns is None"),
        ('{"clusteringColumns":[[]]}', "a column is []"),
        ('{"clusteringColumns":[5]}', "a column is 5"),
        ('{"clusteringColumns":[["a"]]}', "the schema has no column 'a'"),
        ('{"clusteringColumns":[["col-1","col-3"]]}', "the schema has no column 'col-1.col-3'"),
    ],
)
def test_a_malformed_domain_is_named(configuration: str, message: str) -> None:
    with pytest.raises(CorruptLog, match=r"Cannot read the domain delta\.clustering") as caught:
        columns(configuration)
    assert message in str(caught.value)
