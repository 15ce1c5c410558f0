"""Non-file actions keep what they say, and what is missing or malformed in them is named."""

from __future__ import annotations

import json

import pytest

from deltaberg.delta.errors import CorruptLog, UnsupportedDeltaFeature
from deltaberg.delta.log.actions import CommitInfo, DomainMetadata, Metadata, Sidecar, Txn
from deltaberg.delta.protocol.table_properties import TableProperties

SCHEMA = json.dumps(
    {
        "type": "struct",
        "fields": [
            {"name": "id", "type": "long", "nullable": True, "metadata": {}},
            {"name": "s", "type": {"type": "struct", "fields": []}, "nullable": True, "metadata": {}},
        ],
    }
)
METADATA: dict[str, object] = {
    "id": "af23c9d7",
    "name": "n",
    "description": "d",
    "format": {"provider": "parquet", "options": {"a": "b"}},
    "schemaString": SCHEMA,
    "partitionColumns": ["id"],
    "configuration": {"delta.appendOnly": "true"},
    "createdTime": 5,
}


def test_metadata_is_read_and_written_whole() -> None:
    metadata = Metadata.from_json(METADATA)
    assert (metadata.name, metadata.description, metadata.created_time) == ("n", "d", 5)
    assert metadata.partition_columns == ("id",)
    assert metadata.properties.append_only
    assert metadata.to_json() == METADATA


def test_metadata_needs_no_more_than_the_protocol_requires() -> None:
    metadata = Metadata.from_json({"id": "x", "schemaString": SCHEMA})
    assert (metadata.partition_columns, dict(metadata.configuration), metadata.created_time) == ((), {}, None)
    assert metadata.format.provider == "parquet"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"id": None}, "id is missing"),
        ({"id": 5}, "id is 5 (expected text)"),
        ({"schemaString": None}, "schemaString is missing"),
        ({"partitionColumns": "id"}, "partitionColumns is 'id'"),
        ({"partitionColumns": ["x"]}, "partition column 'x' is not in the schema"),
        ({"partitionColumns": ["id", "id"]}, "partition column 'id' is listed twice"),
        ({"partitionColumns": ["s"]}, "partition column 's' is not of a primitive type"),
        ({"configuration": {"a": 5}}, "configuration.a is 5"),
        ({"configuration": []}, "configuration is []"),
        ({"createdTime": "now"}, "createdTime is 'now'"),
        ({"createdTime": 2**63}, "expected a 64-bit number"),
        ({"format": "parquet"}, "format is 'parquet'"),
        ({"format": {}}, "format.provider is missing"),
    ],
)
def test_malformed_metadata_names_the_field(change: dict[str, object], message: str) -> None:
    with pytest.raises(CorruptLog, match="Cannot read metaData") as caught:
        Metadata.from_json({**METADATA, **change})
    assert message in str(caught.value)


def test_data_files_in_another_format_are_refused_by_name() -> None:
    with pytest.raises(UnsupportedDeltaFeature, match=r"its files are 'csv' \(expected parquet\)") as caught:
        Metadata.from_json({**METADATA, "format": {"provider": "csv"}})
    assert caught.value.feature == "format csv"


def test_transactions_and_domains_are_read_and_written_whole() -> None:
    for txn in ({"appId": "a", "version": -1}, {"appId": "a", "version": 7, "lastUpdated": 8}):
        assert Txn.from_json(txn).to_json() == txn
    domain = {"domain": "delta.clustering", "configuration": "{}", "removed": True}
    parsed = DomainMetadata.from_json(domain)
    assert parsed.to_json() == domain
    assert parsed.is_system_controlled
    assert not DomainMetadata.from_json({"domain": "mine", "configuration": ""}).is_system_controlled


@pytest.mark.parametrize(
    ("parse", "value", "message"),
    [
        (Txn.from_json, {"version": 1}, "Cannot read txn: appId is missing"),
        (Txn.from_json, {"appId": "a", "version": 1.5}, "Cannot read txn: version is 1.5"),
        (DomainMetadata.from_json, {"configuration": ""}, "Cannot read domainMetadata: domain is missing"),
        (DomainMetadata.from_json, {"domain": "d", "removed": "no"}, "Cannot read domainMetadata: removed is 'no'"),
        (Sidecar.from_json, {"path": "p", "sizeInBytes": True}, "Cannot read sidecar: sizeInBytes is True"),
    ],
)
def test_malformed_actions_name_the_field(parse: object, value: dict[str, object], message: str) -> None:
    with pytest.raises(CorruptLog) as caught:
        parse(value)  # type: ignore[operator]
    assert message in str(caught.value)


def test_commit_info_may_hold_anything() -> None:
    info = CommitInfo(
        raw={"timestamp": 1, "inCommitTimestamp": 2, "operation": "WRITE", "operationParameters": {"m": 1}}
    )
    assert (info.timestamp, info.in_commit_timestamp, info.operation) == (1, 2, "WRITE")
    odd = CommitInfo(raw={"timestamp": "x", "operation": 5, "operationMetrics": [], "engineInfo": None})
    assert (odd.timestamp, odd.operation, odd.engine_info) == (None, None, None)
    assert odd.operation_metrics == {}


def test_properties_are_typed() -> None:
    properties = TableProperties(
        configuration={
            "delta.enableRowTracking": "TRUE",
            "delta.checkpointInterval": "100",
            "delta.enableIcebergCompatV2": "true",
            "delta.constraints.positive": "id > 0",
            "delta.columnMapping.mode": "Name",
            "delta.checkpoint.writeStatsAsJson": "false",
        }
    )
    assert properties.row_tracking
    assert not properties.deletion_vectors
    assert properties.checkpoint_interval == 100
    assert TableProperties(configuration={}).checkpoint_interval == 10
    assert properties.iceberg_compat_versions == (2,)
    assert properties.check_constraints == (("positive", "id > 0"),)
    assert properties.column_mapping_mode == "name"
    assert not properties.write_stats_as_json
    assert properties.checkpoint_policy == "classic"


@pytest.mark.parametrize(
    ("key", "value", "name"),
    [
        ("delta.appendOnly", "maybe", "append_only"),
        ("delta.checkpointInterval", "ten", "checkpoint_interval"),
        ("delta.checkpointInterval", "9" * 30, "checkpoint_interval"),
        ("delta.checkpointPolicy", "v9", "checkpoint_policy"),
        ("delta.columnMapping.mode", "position", "column_mapping_mode"),
    ],
)
def test_a_property_of_the_wrong_kind_names_its_key(key: str, value: str, name: str) -> None:
    with pytest.raises(CorruptLog, match="Cannot read the table property") as caught:
        getattr(TableProperties(configuration={key: value}), name)
    assert key in str(caught.value)
    assert value in str(caught.value)
