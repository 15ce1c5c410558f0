"""Spark reads and writes tables whose first version is a checkpoint in parts, and sees nothing of them before."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg.iceberg.schema.schema import Schema
from deltaberg.iceberg.schema.types import LongType, NestedField
from deltaberg.migrate import convert as conversion
from deltaberg.migrate.source import IcebergSource
from deltaberg.storage import open_storage
from tests.delta.commit.test_distributed_create import WHOLE, Watched, create
from tests.iceberg.conftest import StoredTable
from tests.independent_readers import delta_rs, duckdb_delta
from tests.migrate.spark.conftest import InThisProcess
from tests.migrate.spark.test_translation import InParts


def ids(query: Any, folder: Path, at: str = "") -> list[int]:
    return sorted(query(f"SELECT id FROM delta.`{folder}` {at}")["id"].to_pylist())


def test_spark_writes_on_top_and_the_others_read_it(spark: Any, query: Any, tmp_path: Path) -> None:
    folder = tmp_path / "t"
    create(folder, open_storage())
    assert ids(query, folder) == WHOLE
    for statement in (
        "INSERT INTO {t} VALUES (1000, 'p0'), (1001, 'p1')",
        "DELETE FROM {t} WHERE id % 7 = 3",
        "UPDATE {t} SET id = id + 2000 WHERE id = 4",
        "OPTIMIZE {t}",
    ):
        spark.sql(statement.format(t=f"delta.`{folder}`"))
    wanted = sorted([each for each in WHOLE if each % 7 != 3 and each != 4] + [1000, 1001, 2004])
    assert ids(query, folder) == wanted
    for reader in (delta_rs, duckdb_delta):
        assert sorted(reader(str(folder), None)["id"].to_pylist()) == wanted
    assert ids(query, folder, "VERSION AS OF 1") == WHOLE
    history = query(f"DESCRIBE HISTORY delta.`{folder}`")["version"].to_pylist()
    assert min(history) == 1


def test_spark_sees_no_part_of_it(spark: Any, query: Any, tmp_path: Path) -> None:
    seen: list[tuple[str, bool]] = []

    def look(what: str, location: str) -> None:
        copy = tmp_path / f"copy-{len(seen)}"
        # Spark remembers what it has seen of a folder, so it looks at a copy.
        shutil.copytree(tmp_path / "t", copy)
        try:
            found = ids(query, copy)
        except Exception:  # noqa: BLE001  a refusal of whatever kind shows nothing
            seen.append((Path(location).name, False))
            return
        assert found == WHOLE
        seen.append((Path(location).name, True))

    create(tmp_path / "t", Watched(look))
    visible = [name for name, whole in seen if whole]
    assert visible[0] == "00000000000000000001.json"
    assert seen[0] == ("00000000000000000000.json", False)


def test_spark_applies_and_replaces_the_vectors_of_a_table_translated_in_parts(
    spark: Any, query: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = Schema(schema_id=0, fields=(NestedField(field_id=1, name="id", required=False, type=LongType()),))
    stored = StoredTable(tmp_path / "source", schema, version=3)
    paths = [stored.data(pa.table({"id": pa.array([4 * n + i for i in range(4)], pa.int64())})) for n in range(3)]
    for path in paths[:2]:
        stored.vector(path, [1], sequence_number=2)
    table = stored.open()
    source = IcebergSource(
        table=table,
        snapshot=table.metadata.current_snapshot,
        schema=schema,
        ref=None,
        storage=table.storage,
        location=table.location,
    )
    monkeypatch.setattr(conversion, "engine_of", lambda *_: InParts(InThisProcess(), files_per_part=1))
    done = conversion.convert(source, to="delta", target=str(tmp_path / "target"))
    folder = Path(done.target)
    assert done.commits[0][1] == 1
    left = [each for each in range(12) if each not in {1, 5}]
    assert ids(query, folder) == left
    spark.sql(f"DELETE FROM delta.`{folder}` WHERE id = 4")
    left.remove(4)
    assert ids(query, folder) == left
    for reader in (delta_rs, duckdb_delta):
        assert sorted(reader(str(folder), None)["id"].to_pylist()) == left
