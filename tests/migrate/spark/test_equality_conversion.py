"""Tables with equality deletes become Delta tables: both engines write the same entries, and no data file is rewritten."""

from __future__ import annotations

import json
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltaberg.delta.deletion_vector.deletion_vector import descriptors, read_deletion_vector
from deltaberg.iceberg.schema.schema import Schema
from deltaberg.iceberg.schema.types import LongType, NestedField, StringType
from deltaberg.migrate.convert import ConvertResult, convert
from deltaberg.migrate.refusal import Refused
from deltaberg.migrate.source import IcebergSource
from deltaberg.migrate.spark import equality_deletes
from deltaberg.migrate.spark.equality_deletes import Limits
from deltaberg.migrate.to_delta import design as delta_target
from deltaberg.migrate.verify.verify import verify
from deltaberg.storage import open_storage
from deltaberg.translate.options import ConvertOptions

CLOCK_MS = 1_700_000_000_000
ID = NestedField(field_id=1, name="id", required=False, type=LongType())
NAME = NestedField(field_id=2, name="name", required=False, type=StringType())


@pytest.fixture
def always_in_tasks(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """As for a table that is large enough."""
    monkeypatch.setattr(delta_target, "LOCAL_ROWS", 0)
    return monkeypatch


def entries(table: Any) -> list[dict[str, Any]]:
    """What the log says of each file, its deletion vector as positions."""
    found = []
    for batch in table.snapshot.add_files():
        vectors = descriptors(batch.column("deletion_vector"))
        for row, vector in zip(batch.drop_columns("deletion_vector").to_pylist(), vectors, strict=True):
            bitmap = None if vector is None else read_deletion_vector(table.storage, table.snapshot.table_root, vector)
            found.append(row | {"deleted": None if bitmap is None else bitmap.to_positions().tolist()})
    return sorted(found, key=lambda row: str(row["path"]))


def both_engines(source: Any, tmp_path: Path, spark: Any) -> tuple[ConvertResult, ConvertResult]:
    local, cluster = (
        convert(
            source,
            to="delta",
            target=str(tmp_path / engine),
            options=ConvertOptions(engine=engine),
            clock_ms=CLOCK_MS,
            session=spark if engine == "spark" else None,
        )
        for engine in ("local", "spark")
    )
    return local, cluster


@pytest.mark.parametrize(
    ("name", "held_keys"),
    [
        ("spark-del_equality_v2", 0),
        ("spark-del_equality_v3", 1_000_000),
        ("spark-del_mixed_v3", 0),
        ("spark-del_equality_types", 1_000_000),
    ],
)
def test_tables_that_spark_wrote(
    name: str,
    held_keys: int,
    always_in_tasks: pytest.MonkeyPatch,
    shared: Path,
    tmp_path: Path,
    opened: Any,
    spark: Any,
    independent: Any,
    difference: Any,
) -> None:
    always_in_tasks.setattr(equality_deletes, "Limits", partial(Limits, held_keys=held_keys, list_files=1))
    case = json.loads((shared / "corpus" / "iceberg" / name / "case.json").read_text(encoding="utf-8"))
    shutil.copytree(shared / "corpus" / "iceberg" / name / "table", tmp_path / "table")
    storage = open_storage(relocate={case["location"]: str(tmp_path / "table")})
    source = opened(tmp_path / "table" / case["metadata"], storage=storage)
    before = {file: file.read_bytes() for file in (tmp_path / "table").rglob("*") if file.is_file()}
    local, cluster = both_engines(source, tmp_path, spark)
    assert {file: file.read_bytes() for file in (tmp_path / "table").rglob("*") if file.is_file()} == before
    found, expected = opened(cluster.target, storage=storage), opened(local.target, storage=storage)
    assert entries(found) == entries(expected)
    assert any(row["deleted"] for row in entries(found))
    assert (cluster.files, cluster.rows, cluster.rewritten_files) == (local.files, local.rows, local.rewritten_files)
    assert not [place for place in (Path(cluster.target) / "_deltaberg").rglob("*") if "staging" in str(place)]
    (item,) = [item for item in cluster.plan.items if item.code == "equality-deletes-resolved"]
    assert "by a Spark job" in item.reason
    rows = pq.read_table(shared / "corpus" / "iceberg" / name / "expected.parquet")
    if not local.rewritten_files:
        read = independent.read("deltalake", Path(cluster.target))
        assert not isinstance(read, str), read
        assert not difference(read, rows)
    assert verify(source, found, rows=True).equal


@pytest.fixture
def small(tmp_path: Path, stored_table: Any) -> IcebergSource:
    made = stored_table(tmp_path / "table", Schema(schema_id=0, fields=(ID, NAME)))
    for start in (0, 10):
        ids = list(range(start, start + 10))
        made.data(pa.table({"id": ids, "name": [f"n{each}" for each in ids]}), sequence_number=1)
    made.equality_deletes(pa.table({"id": [3, 14]}), [1], sequence_number=2)
    table = made.open()
    return IcebergSource(
        table=table,
        snapshot=table.metadata.current_snapshot,
        schema=table.metadata.schema,
        ref=None,
        storage=table.storage,
        location=table.location,
    )


def test_a_small_table_needs_no_job_of_its_own(
    small: IcebergSource, tmp_path: Path, spark: Any, monkeypatch: pytest.MonkeyPatch, opened: Any
) -> None:
    def never(*_: Any, **__: Any) -> Any:
        raise AssertionError("a job was started")

    monkeypatch.setattr(equality_deletes, "Limits", never)
    local, cluster = both_engines(small, tmp_path, spark)
    assert entries(opened(cluster.target)) == entries(opened(local.target))
    assert cluster.rows == 18
    reasons = [
        item.reason for done in (local, cluster) for item in done.plan.items if item.code == "equality-deletes-resolved"
    ]
    assert "(" not in reasons[0]
    assert reasons[1].endswith("(2 deleted keys, without a Spark job of its own)")


def test_a_job_that_fails_leaves_no_target(
    small: IcebergSource, always_in_tasks: Any, tmp_path: Path, spark: Any
) -> None:
    (file,) = (tmp_path / "table" / "data").glob("00001*")
    whole = file.read_bytes()
    file.write_bytes(whole[:4] + bytes(60) + whole[64:])
    with pytest.raises(Refused, match="file-unreadable") as raised:
        convert(small, to="delta", target=str(tmp_path / "delta"), session=spark)
    assert raised.value.path == str(file)
    assert not (tmp_path / "delta").exists()
