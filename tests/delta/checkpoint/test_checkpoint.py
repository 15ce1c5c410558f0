"""Checkpoints: every layout holds the whole state, and other engines read the table from it alone."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from deltaberg.delta.checkpoint.checkpoint import checkpoint_snapshot, interval_ms
from deltaberg.delta.checkpoint.checkpoint_writer import CheckpointKind
from deltaberg.delta.checkpoint.last_checkpoint_checksum import canonical_json, last_checkpoint_checksum
from deltaberg.delta.create_table import create_table, new_metadata
from deltaberg.delta.scan import scan
from deltaberg.delta.schema.types import (
    DateType,
    DecimalType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)
from deltaberg.delta.snapshot import Snapshot
from deltaberg.delta.table import DeltaTable
from deltaberg.delta.transaction import begin_transaction
from deltaberg.storage import open_storage

STORAGE = open_storage()
NOW = 1_700_000_000_000
WEEK = 7 * 86_400_000
SCHEMA = StructType(
    fields=(
        StructField(name="id", type=LongType()),
        StructField(name="price", type=DecimalType(precision=20, scale=9)),
        StructField(name="at", type=TimestampType()),
        StructField(name="day", type=DateType()),
        StructField(name="p", type=StringType()),
    )
)
MakeFile = Callable[..., pa.RecordBatch]


def rows(*ids: int) -> pa.Table:
    at = dt.datetime(2024, 1, 1, tzinfo=dt.timezone.utc)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "price": pa.array([Decimal(i).scaleb(-9) for i in ids], pa.decimal128(20, 9)),
            "at": pa.array([at + dt.timedelta(microseconds=i) for i in ids], pa.timestamp("us", "UTC")),
            "day": pa.array([dt.date(2024, 1, 1 + i) for i in ids]),
        }
    )


def table(root: Path, data_file: MakeFile, configuration: dict[str, str]) -> Snapshot:
    """Three versions: two files, one of them removed, a transaction, a domain and its tombstone."""
    create = create_table(
        STORAGE,
        str(root),
        metadata=new_metadata(
            SCHEMA,
            table_id="t",
            created_time_ms=NOW,
            partition_columns=("p",),
            configuration=configuration,
        ),
        features=["domainMetadata"],
        now_ms=lambda: NOW,
    )
    create.add_files([data_file(rows(1, 2), partition={"p": "a b"}, path="p=a%20b/1.parquet")])
    create.set_domain_metadata("kept", "{}")
    create.set_domain_metadata("dropped", "{}")
    create.commit("WRITE")
    second = begin_transaction(newest(root), now_ms=lambda: NOW)
    second.add_files([data_file(rows(3), partition={"p": None})])
    second.set_txn("app", 5, last_updated_ms=NOW)
    second.commit("WRITE")
    third = begin_transaction(newest(root), now_ms=lambda: NOW)
    third.add_files([data_file(rows(4, 5), partition={"p": "c"})])
    live = pa.Table.from_batches(third.base.add_files())  # type: ignore[union-attr]
    third.remove_files(live.filter(pc.equal(live["path"], "p=a%20b/1.parquet")).to_batches())
    third.remove_domain_metadata("dropped")
    third.commit("MERGE")
    return newest(root)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "table"


def newest(root: Path) -> Snapshot:
    return DeltaTable.open(str(root), STORAGE).snapshot()


def contents(snapshot: Snapshot) -> list[dict[str, object]]:
    return sorted(pa.Table.from_batches(scan(snapshot).batches()).to_pylist(), key=lambda row: row["id"])


def files(snapshot: Snapshot) -> list[dict[str, object]]:
    return sorted(
        ({**row, "data_change": None} for batch in snapshot.add_files() for row in batch.to_pylist()),
        key=lambda row: row["path"],
    )


def tombstones(snapshot: Snapshot) -> list[str]:
    return sorted(path for batch in snapshot.remove_files() for path in batch.column("path").to_pylist())


LAYOUTS = {
    "classic": (CheckpointKind.CLASSIC, {}),
    "struct statistics": (CheckpointKind.CLASSIC, {"delta.checkpoint.writeStatsAsStruct": "true"}),
    "struct statistics alone": (
        CheckpointKind.CLASSIC,
        {"delta.checkpoint.writeStatsAsStruct": "true", "delta.checkpoint.writeStatsAsJson": "false"},
    ),
    "no statistics": (CheckpointKind.CLASSIC, {"delta.checkpoint.writeStatsAsJson": "false"}),
    "V2 in Parquet": (CheckpointKind.V2_PARQUET, {"delta.checkpointPolicy": "v2"}),
    "V2 in JSON": (CheckpointKind.V2_JSON, {"delta.checkpointPolicy": "v2"}),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_table_reads_the_same_from_a_checkpoint_alone(
    root: Path, data_file: MakeFile, engines, difference, layout: str
) -> None:
    kind, configuration = LAYOUTS[layout]
    before = table(root, data_file, configuration)
    state = (files(before), tombstones(before), before.txns, before.domain_metadata, before.protocol, before.metadata)
    expected = contents(before)
    assert [row["id"] for row in expected] == [3, 4, 5]
    last = checkpoint_snapshot(before, now_ms=NOW, kind=kind)
    for version in range(3):
        (root / "_delta_log" / f"{version:020d}.json").unlink()
        (root / "_delta_log" / f"{version:020d}.crc").unlink()
    after = newest(root)
    assert contents(after) == expected
    read = (files(after), tombstones(after), after.txns, after.domain_metadata, after.protocol, after.metadata)
    if layout == "no statistics":
        assert [row["stats"] for row in read[0]] == [None, None]  # type: ignore[index]
        assert read[1:] == state[1:]
    else:
        assert read == state
    assert after.version == last.version == 2
    assert (last.num_of_add_files, set(after.domain_metadata)) == (2, {"kept"})
    for engine in ("deltalake", "duckdb"):
        assert difference(engines.rows(engine, root), pa.Table.from_pylist(expected, schema=scan(after).schema)) == ""


def test_the_policy_of_the_table_chooses_the_layout(root: Path, data_file: MakeFile) -> None:
    checkpoint_snapshot(table(root, data_file, {"delta.checkpointPolicy": "v2"}), now_ms=NOW)
    names = [path.name for path in (root / "_delta_log").glob("*.checkpoint.*")]
    assert len(names) == 1
    assert len(names[0]) == len("00000000000000000002.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.parquet")
    assert len(list((root / "_delta_log" / "_sidecars").iterdir())) == 1


def test_expired_tombstones_are_left_out(root: Path, data_file: MakeFile) -> None:
    snapshot = table(root, data_file, {})
    checkpoint_snapshot(snapshot, now_ms=NOW + WEEK)
    assert len(tombstones(newest(root))) == 1
    checkpoint_snapshot(snapshot, now_ms=NOW + WEEK + 1)
    (root / "_delta_log" / f"{2:020d}.json").unlink()
    assert tombstones(newest(root)) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("interval 1 week", WEEK),
        ("interval 30 days", 30 * 86_400_000),
        ("36 hours", 36 * 3_600_000),
        ("INTERVAL 1 DAY 2 HOURS", 26 * 3_600_000),
        ("interval 1 month", None),
        ("soon", None),
    ],
)
def test_retention_intervals(text: str, expected: int | None) -> None:
    assert interval_ms(text) == expected


def test_a_first_version_is_checkpointed_without_reading_it_back(root: Path, data_file: MakeFile) -> None:
    properties = {"delta.enableRowTracking": "true", "delta.checkpoint.writeStatsAsStruct": "true"}
    create = create_table(
        STORAGE,
        str(root),
        metadata=new_metadata(
            SCHEMA, table_id="t", created_time_ms=NOW, configuration=properties, partition_columns=["p"]
        ),
        now_ms=lambda: NOW,
    )
    create.add_files([data_file(rows(1, 2), partition={"p": "x"}), data_file(rows(3), partition={"p": None})])
    create.commit("WRITE")
    logged = newest(root)
    before = files(logged), logged.domain_metadata
    create.checkpoint()
    (root / "_delta_log" / f"{0:020d}.json").unlink()
    after = newest(root)
    assert (files(after), after.domain_metadata) == before
    assert [row["base_row_id"] for row in sorted(files(after), key=lambda row: row["base_row_id"])] == [0, 2]


def test_the_hint_points_to_the_newest_checkpoint_and_carries_its_checksum(root: Path, data_file: MakeFile) -> None:
    table(root, data_file, {})
    opened = DeltaTable.open(str(root), STORAGE)
    checkpoint_snapshot(opened.snapshot(2), now_ms=NOW)
    hint = json.loads((root / "_delta_log" / "_last_checkpoint").read_text())
    assert (hint["version"], hint["numOfAddFiles"]) == (2, 2)
    assert hint["size"] == pq.read_metadata(root / "_delta_log" / f"{2:020d}.checkpoint.parquet").num_rows
    assert hint["sizeInBytes"] == (root / "_delta_log" / f"{2:020d}.checkpoint.parquet").stat().st_size
    assert hint["checksum"] == last_checkpoint_checksum(hint)
    checkpoint_snapshot(opened.snapshot(1), now_ms=NOW)
    assert json.loads((root / "_delta_log" / "_last_checkpoint").read_text()) == hint


def test_the_checksum_of_the_protocols_example() -> None:
    example = {
        "k0": "'v 0'",
        "checksum": "adsaskfljadfkjadfkj",
        "k1": {"k2": 2, "k3": ["v3", [1, 2], {"k4": "v4", "k5": ["v5", "v6", "v7"]}]},
    }
    without = {key: value for key, value in example.items() if key != "checksum"}
    assert canonical_json(without) == (
        '"k0"="%27v%200%27","k1"+"k2"=2,"k1"+"k3"+0="v3","k1"+"k3"+1+0=1,"k1"+"k3"+1+1=2,"k1"+"k3"+2+"k4"="v4",'
        '"k1"+"k3"+2+"k5"+0="v5","k1"+"k3"+2+"k5"+1="v6","k1"+"k3"+2+"k5"+2="v7"'
    )
    assert last_checkpoint_checksum(example) == "6a92d155a59bf2eecbd4b4ec7fd1f875"
