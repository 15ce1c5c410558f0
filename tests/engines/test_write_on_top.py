"""Spark writes on tables that deltaberg made, in both formats, and deltaberg reads the result exactly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import deltaberg

DML = (
    "INSERT INTO {t} SELECT CAST(id AS INT), concat('new', id), CAST(id % 3 AS INT) FROM range(1000, 1010)",
    "DELETE FROM {t} WHERE id % 11 = 5",
    "UPDATE {t} SET v = 'spark' WHERE id BETWEEN 30 AND 35",
    "MERGE INTO {t} t USING (SELECT CAST(id AS INT) AS id, 'merged' AS v, CAST(id % 3 AS INT) AS p FROM range(50, 2000, 50)) s "
    "ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT *",
)
ICEBERG_UPKEEP = (
    "CALL ice.system.rewrite_data_files(table => '{n}', options => map('rewrite-all', 'true'))",
    "CALL ice.system.rewrite_manifests(table => '{n}')",
    "CALL ice.system.rewrite_position_delete_files(table => '{n}')",
)
DELTA_UPKEEP = ("OPTIMIZE {t}", "REORG TABLE {t} APPLY (PURGE)")
EVOLUTION = (
    "ALTER TABLE {t} ADD COLUMN extra STRING",
    "INSERT INTO {t} VALUES (5000, 'evolved', 1, 'extra')",
    "ALTER TABLE {t} RENAME COLUMN v TO w",
    "ALTER TABLE {t} DROP COLUMN extra",
    "INSERT INTO {t} VALUES (5001, 'renamed', 2)",
)


def rows(table: Path) -> pa.Table:
    return deltaberg.scan(table).read_all()


@pytest.fixture(scope="session")
def plain_delta(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("plain") / "delta"
    spark.sql(f"CREATE TABLE delta.`{folder}` (id INT, v STRING, p INT) USING delta PARTITIONED BY (p)")
    spark.sql(
        f"INSERT INTO delta.`{folder}` SELECT CAST(id AS INT), concat('v', id), CAST(id % 3 AS INT) FROM range(90)"
    )
    spark.sql(f"DELETE FROM delta.`{folder}` WHERE id = 4")
    return folder


@pytest.mark.parametrize("format_version", [2, 3])
def test_spark_writes_on_an_iceberg_target(
    format_version: int, spark: Any, query: Any, warehouse: Path, plain_delta: Path, difference: Any
) -> None:
    name = f"write.on_v{format_version}"
    folder = warehouse / "write" / f"on_v{format_version}"
    options = deltaberg.ConvertOptions(format_version=format_version)
    deltaberg.convert(plain_delta, to="iceberg", target=folder, options=options)
    before = rows(plain_delta)
    for mode in ("copy-on-write", "merge-on-read"):
        modes = ", ".join(f"'write.{verb}.mode' = '{mode}'" for verb in ("delete", "update", "merge"))
        spark.sql(f"ALTER TABLE ice.{name} SET TBLPROPERTIES ({modes})")
        for statement in (*DML, *ICEBERG_UPKEEP):
            spark.sql(statement.format(t=f"ice.{name}", n=name))
            assert not difference(rows(folder), query(f"SELECT * FROM ice.{name}")), statement
    for statement in EVOLUTION:
        spark.sql(statement.format(t=f"ice.{name}", n=name))
        assert not difference(rows(folder), query(f"SELECT * FROM ice.{name}")), statement
    assert not difference(rows(plain_delta), before), "the source is not touched by writes on the target"


@pytest.mark.parametrize("vectors", ["false", "true"])
def test_spark_writes_on_a_delta_target(vectors: str, spark: Any, query: Any, warehouse: Path, difference: Any) -> None:
    """In its default place, the Iceberg table's own folder: Spark's writer of deletion vectors knows files only by a
    relative path or by one with a scheme, which other readers do not take."""
    name = f"write.from_{vectors}"
    spark.sql(f"CREATE TABLE ice.{name} (id INT, v STRING, p INT) USING iceberg PARTITIONED BY (p)")
    spark.sql(f"INSERT INTO ice.{name} SELECT CAST(id AS INT), concat('v', id), CAST(id % 3 AS INT) FROM range(90)")
    spark.sql(f"DELETE FROM ice.{name} WHERE id = 4")
    folder = warehouse / "write" / f"from_{vectors}"
    deltaberg.convert(folder, to="delta")
    before = query(f"SELECT * FROM ice.{name}")
    sql = f"delta.`{folder}`"
    spark.sql(f"ALTER TABLE {sql} SET TBLPROPERTIES ('delta.enableDeletionVectors' = '{vectors}')")
    for statement in (*DML, *DELTA_UPKEEP, *EVOLUTION):
        spark.sql(statement.format(t=sql))
        got = deltaberg.scan(folder, format="delta").read_all()
        assert not difference(got, query(f"SELECT * FROM {sql}")), statement
    assert not difference(query(f"SELECT * FROM ice.{name}"), before), (
        "the source is not touched by writes on the target"
    )
