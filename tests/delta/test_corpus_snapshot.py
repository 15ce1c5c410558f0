"""Tables that other engines wrote open with the facts that those engines report, or are refused for a stated reason."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg.delta.errors import CorruptLog, DeltaError, NotADeltaTable, UnsupportedDeltaFeature
from deltaberg.delta.snapshot import Snapshot
from deltaberg.delta.table import DeltaTable
from deltaberg.storage import open_storage

_CORPUS = Path(__file__).resolve().parents[3] / "shared" / "corpus" / "delta"
_CASES = sorted(path.parent.name for path in _CORPUS.glob("*/case.json"))

pytestmark = pytest.mark.skipif(not _CASES, reason="../shared is absent")

# What must be refused, and why a reader of the protocol would refuse it, too.
REFUSED: dict[str, tuple[type[DeltaError], str]] = {
    "catalog-owned-preview": (UnsupportedDeltaFeature, "catalogManaged"),
    "corrupted-last-checkpoint": (CorruptLog, "schemaString is missing"),
    "crc-full": (CorruptLog, "differ in numFiles (checksum 10, log 0)"),
    "crc-malformed": (NotADeltaTable, "no commit and no complete checkpoint"),
    "data-reader-absolute-paths-escaped-chars": (CorruptLog, "the log has no metaData action"),
    "deltalog-commit-info": (CorruptLog, "schemaString is missing"),
    "deltalog-invalid-protocol-version": (UnsupportedDeltaFeature, "reader version 99"),
    "deltalog-state-reconstruction-from-checkpoint-missing-metadata": (CorruptLog, "the log has no metaData action"),
    "deltalog-state-reconstruction-from-checkpoint-missing-protocol": (CorruptLog, "the log has no protocol action"),
    "deltalog-state-reconstruction-without-metadata": (CorruptLog, "the log has no metaData action"),
    "deltalog-state-reconstruction-without-protocol": (CorruptLog, "the log has no protocol action"),
    "no-delta-log-folder": (NotADeltaTable, "no Delta log found"),
    "simple_table_features": (UnsupportedDeltaFeature, "reader version 5"),
    "update-deleted-directory": (CorruptLog, "schemaString is missing"),
    "versions-not-contiguous": (CorruptLog, "commit 1 (00000000000000000001.json) is missing"),
}
# delta-rs compares paths as text: it does not see that /a/b and file:/a/b are one file, which the remove names.
REMOVED_UNDER_ANOTHER_SPELLING = {
    "canonicalized-paths-normal-a",
    "canonicalized-paths-normal-b",
    "canonicalized-paths-special-a",
    "canonicalized-paths-special-b",
}
_FACTS_ABOUT_FILES = 40  # the cases describe no more files than that
OPENED = [name for name in _CASES if name not in REFUSED]


def _open(name: str) -> Snapshot:
    return DeltaTable.open(str(_CORPUS / name / "table"), open_storage()).snapshot()


def _case(name: str) -> dict[str, Any]:
    value: dict[str, Any] = json.loads((_CORPUS / name / "case.json").read_text())
    return value


def _rows(snapshot: Snapshot) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for batch in snapshot.add_files():
        batch.validate(full=True)
        assert batch.schema.equals(snapshot.add_schema)
        rows.extend(batch.to_pylist())
    return rows


@pytest.mark.parametrize("name", [name for name in _CASES if name in REFUSED])
def test_a_table_without_a_readable_state_is_refused_by_name(name: str) -> None:
    error, message = REFUSED[name]
    with pytest.raises(error) as caught:
        list(_open(name).add_files())
    assert message in str(caught.value)


@pytest.mark.parametrize("name", OPENED)
def test_version_and_live_files_are_those_that_delta_rs_finds(name: str) -> None:
    found = _case(name).get("deltalake")
    if found is None:
        pytest.skip("the case does not say what delta-rs finds; its facts are tested apart")
    snapshot = _open(name)
    assert snapshot.version == found["version"]
    assert len(_rows(snapshot)) == (0 if name in REMOVED_UNDER_ANOTHER_SPELLING else found["files"])


@pytest.mark.parametrize("name", OPENED)
def test_protocol_is_the_one_that_delta_rs_finds(name: str) -> None:
    found = _case(name).get("protocol")
    if found is None:
        pytest.skip("the case states no protocol")
    protocol = _open(name).protocol
    assert protocol.min_reader_version == found["min_reader_version"]
    assert protocol.min_writer_version == found["min_writer_version"]
    assert set(protocol.reader_features or ()) == set(found["reader_features"] or ())
    assert set(protocol.writer_features or ()) == set(found["writer_features"] or ())


@pytest.mark.parametrize("name", [name for name in OPENED if _CASES and name.startswith("spark-")])
def test_every_fact_of_a_table_that_spark_wrote_holds(name: str) -> None:
    case = _case(name)
    facts = case.get("facts")
    if facts is None:
        pytest.skip("the case states no facts")
    snapshot = _open(name)
    rows = _rows(snapshot)
    assert snapshot.version == case["version"]
    assert len(rows) == facts["num_files"]
    assert sum(row["size"] for row in rows) == facts["size_in_bytes"]
    assert list(snapshot.metadata.partition_columns) == facts["partition_columns"]
    assert dict(snapshot.metadata.configuration) == facts["table_properties"]
    assert json.loads(snapshot.metadata.schema_string) == facts["schema"]
    assert snapshot.metadata.created_time == facts["createdTime"]
    assert {name: domain.configuration for name, domain in snapshot.domain_metadata.items()} == {
        domain["domain"]: domain["configuration"] for domain in facts["domain_metadata"]
    }
    assert {app: txn.version for app, txn in snapshot.txns.items()} == {
        txn["appId"]: txn["version"] for txn in facts["transactions"]
    }
    vectors = [row["deletion_vector"] for row in rows if row["deletion_vector"] is not None]
    assert len(vectors) == facts["deletion_vectors"]["count"]
    assert sum(vector["cardinality"] for vector in vectors) == facts["deletion_vectors"]["cardinality"]
    by_path = {row["path"]: row for row in rows}
    expected = {file["path"]: file for file in facts["files"]}
    assert set(expected) <= set(by_path)
    assert len(expected) == min(len(by_path), _FACTS_ABOUT_FILES)
    for path, file in expected.items():
        row = by_path[path]
        assert row["size"] == file["size"]
        partition_values = {key: value or None for key, value in (file.get("partitionValues") or {}).items()}
        assert row["partition_values"] == partition_values
        assert row["base_row_id"] == file.get("baseRowId")
        assert row["default_row_commit_version"] == file.get("defaultRowCommitVersion")
        assert row["clustering_provider"] == file.get("clusteringProvider")
        assert dict(row["tags"] or ()) == (file.get("tags") or {})
        assert (row["stats"] or {}).get("num_records") == file.get("num_records")
        if file.get("stats"):
            logged = json.loads(file["stats"], parse_float=Decimal)
            stats_type = snapshot.add_schema.field("stats").type
            for field, key in (("min_values", "minValues"), ("max_values", "maxValues"), ("null_count", "nullCount")):
                want = dict(_leaves(logged.get(key) or {}, stats_type.field(field).type))
                got = dict(_leaves(row["stats"][field] or {}, stats_type.field(field).type, parsed=True))
                assert got == want


def _leaves(
    value: dict[str, Any], target: pa.DataType, path: tuple[str, ...] = (), *, parsed: bool = False
) -> Iterator[tuple[tuple[str, ...], object]]:
    """Leaves that are there, comparable: the log's JSON turned into values of the type without deltaberg's help."""
    for field in target:
        found = value.get(field.name)
        if found is None:
            continue
        here = (*path, field.name)
        if pa.types.is_struct(field.type):
            yield from _leaves(found, field.type, here, parsed=parsed)
        else:
            plain = found if parsed else _from_json(found, field.type)
            if isinstance(plain, float):
                plain = "NaN" if math.isnan(plain) else (plain, math.copysign(1, plain))
            yield here, plain


def _from_json(value: Any, target: pa.DataType) -> object:
    if pa.types.is_date(target):
        return date.fromisoformat(value)
    if pa.types.is_timestamp(target):
        text = value.replace("Z", "+00:00") if target.tz else value
        moment = datetime.fromisoformat(text)
        return moment.astimezone(timezone.utc) if target.tz else moment
    if pa.types.is_float32(target):
        return pa.scalar(float(value), pa.float32()).as_py()
    if pa.types.is_floating(target):
        return float(value)
    if pa.types.is_decimal(target):
        return Decimal(value)
    return value


def test_timestamps_of_the_test_are_compared_in_microseconds() -> None:
    assert _from_json("2024-01-01T00:00:00.001-08:00", pa.timestamp("us", "UTC")) == datetime(
        2024, 1, 1, 8, 0, 0, 1000, tzinfo=timezone(timedelta(0))
    )
