"""Spark writes on tables that deltaberg made, in both formats, and deltaberg reads the result exactly; so do others."""

from __future__ import annotations

from collections.abc import Mapping
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
DELTA_UPKEEP = ("REORG TABLE {t} APPLY (PURGE)", "OPTIMIZE {t} WHERE p < 2")
EVOLUTION = (
    "ALTER TABLE {t} ADD COLUMN extra STRING",
    "INSERT INTO {t} VALUES (5000, 'evolved', 1, 'extra')",
    "ALTER TABLE {t} RENAME COLUMN v TO w",
    "ALTER TABLE {t} DROP COLUMN extra",
    "INSERT INTO {t} VALUES (5001, 'renamed', 2)",
)
# Only now: readers other than Spark know no table with this feature.
WIDENING = (
    "ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')",
    "ALTER TABLE {t} ALTER COLUMN id TYPE BIGINT",
    "INSERT INTO {t} VALUES (9223372036854775807, 'widened', 0)",
)
WIDEN = "widen a column of a Delta table from int to bigint"
REORDER = (
    "ALTER TABLE {t} ALTER COLUMN w FIRST",
    "INSERT INTO {t} VALUES ('reordered', 5002, 1)",
    "ALTER TABLE {t} ADD COLUMN s STRUCT<a: INT> AFTER w",
    "ALTER TABLE {t} ADD COLUMN s.b STRING",
    "INSERT INTO {t} VALUES ('nested', named_struct('a', 1, 'b', 'two'), 5003, 2)",
    "ALTER TABLE {t} RENAME COLUMN s.a TO aa",
    "ALTER TABLE {t} DROP COLUMN s.b",
    "UPDATE {t} SET s = named_struct('aa', 7) WHERE id = 5003",
    "MERGE INTO {t} t USING (SELECT 'late' AS w, named_struct('aa', 8) AS s, id, 1 AS p FROM range(5000, 5010)) n "
    "ON t.id = n.id WHEN MATCHED AND t.id = 5001 THEN DELETE WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
)


def rows(table: Path, **where: Any) -> pa.Table:
    return deltaberg.scan(table, **where).read_all()


@pytest.fixture(scope="session")
def plain_delta(run: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("plain") / "delta"
    run(
        f"CREATE TABLE delta.`{folder}` (id INT, v STRING, p INT) USING delta PARTITIONED BY (p)",
        f"INSERT INTO delta.`{folder}` SELECT CAST(id AS INT), concat('v', id), CAST(id % 3 AS INT) FROM range(90)",
        f"DELETE FROM delta.`{folder}` WHERE id = 4",
    )
    return folder


@pytest.mark.parametrize("format_version", [2, 3])
def test_spark_writes_on_an_iceberg_target(
    format_version: int, run: Any, query: Any, warehouse: Path, plain_delta: Path, difference: Any
) -> None:
    name = f"write.on_v{format_version}"
    folder = warehouse / "write" / f"on_v{format_version}"
    options = deltaberg.ConvertOptions(format_version=format_version)
    deltaberg.convert(plain_delta, to="iceberg", target=folder, options=options)
    before = rows(plain_delta)
    for mode in ("copy-on-write", "merge-on-read"):
        modes = ", ".join(f"'write.{verb}.mode' = '{mode}'" for verb in ("delete", "update", "merge"))
        run(f"ALTER TABLE ice.{name} SET TBLPROPERTIES ({modes})")
        for statement in (*DML, *ICEBERG_UPKEEP):
            run(statement.format(t=f"ice.{name}", n=name))
            assert not difference(rows(folder), query(f"SELECT * FROM ice.{name}")), statement
    for statement in (*EVOLUTION, *WIDENING, *REORDER):
        run(statement.format(t=f"ice.{name}", n=name))
        assert not difference(rows(folder), query(f"SELECT * FROM ice.{name}")), statement
    assert not difference(rows(plain_delta), before), "the source is not touched by writes on the target"


@pytest.mark.parametrize(("place", "vectors"), [("inside", "true"), ("elsewhere", "true"), ("elsewhere", "false")])
def test_spark_writes_on_a_delta_target(
    place: str,
    vectors: str,
    run: Any,
    query: Any,
    limits: Mapping[str, str],
    warehouse: Path,
    difference: Any,
    independent: Any,
) -> None:
    """In the Iceberg table's own folder and outside it; readers that compare the spellings of paths see the same rows."""
    name = f"write.{place}_{vectors}"
    run(
        f"CREATE TABLE ice.{name} (id INT, v STRING, p INT) USING iceberg PARTITIONED BY (p)",
        f"INSERT INTO ice.{name} SELECT CAST(id AS INT), concat('v', id), CAST(id % 3 AS INT) FROM range(90)",
        f"DELETE FROM ice.{name} WHERE id = 4",
    )
    source = warehouse / "write" / f"{place}_{vectors}"
    target = source if place == "inside" else warehouse / "write to" / source.name
    deltaberg.convert(source, to="delta", target=target)
    before = query(f"SELECT * FROM ice.{name}")
    sql = f"delta.`{target}`"
    run(f"ALTER TABLE {sql} SET TBLPROPERTIES ('delta.enableDeletionVectors' = '{vectors}')")
    widening = WIDENING[:1] if WIDEN in limits else WIDENING
    # Copy on write tells nothing new about schemas.
    evolution = (*EVOLUTION, *widening, *REORDER) if vectors == "true" else ()
    for statement in (*DML, *DELTA_UPKEEP, *evolution):
        run(statement.format(t=sql))
        mine = rows(target, format="delta")
        assert not difference(mine, query(f"SELECT * FROM {sql}")), statement
        if statement == DML[-1]:
            for engine in ("duckdb-delta", "deltalake"):
                got = independent.read(engine, target)
                assert not isinstance(got, str), got
                assert not difference(got, mine), f"{engine} after {statement}"
    if WIDEN in limits and evolution:
        with pytest.raises(AssertionError, match=limits[WIDEN]):
            run(WIDENING[1].format(t=sql))
    assert not difference(query(f"SELECT * FROM ice.{name}"), before), (
        "the source is not touched by writes on the target"
    )
