"""The cleaners of both formats, on both tables, each after every other: the other table still reads every row.

Iceberg's ``remove_orphan_files`` takes nothing younger than a day, so files are dated back before it runs.
"""

from __future__ import annotations

import itertools
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import deltaberg

TEN_DAYS = 10 * 24 * 3600
SIXTY_DAYS = 60 * 24 * 3600
ROWS = 34
_NAMES = itertools.count()

# A cleaner gets the Spark session, the Delta table's folder, the Iceberg table's folder and its name.
Cleaner = Callable[[Any, Path, Path, str], None]


def vacuum(spark: Any, delta: Path, iceberg: Path, name: str) -> None:
    spark.sql(f"VACUUM delta.`{delta}`")


def lite_vacuum(spark: Any, delta: Path, iceberg: Path, name: str) -> None:
    """The one that takes the files of remove actions instead of what a listing finds."""
    spark.sql(f"VACUUM delta.`{delta}` LITE")


def forced_vacuum(spark: Any, delta: Path, iceberg: Path, name: str) -> None:
    forced(spark, f"VACUUM delta.`{delta}` RETAIN 0 HOURS")


def forced_lite_vacuum(spark: Any, delta: Path, iceberg: Path, name: str) -> None:
    forced(spark, f"VACUUM delta.`{delta}` LITE RETAIN 0 HOURS")


def forced(spark: Any, statement: str) -> None:
    """With Spark's own check of the retention switched off."""
    spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    try:
        spark.sql(statement)
    finally:
        spark.conf.unset("spark.databricks.delta.retentionDurationCheck.enabled")


def log_cleanup(spark: Any, delta: Path, iceberg: Path, name: str) -> None:
    """A checkpoint removes the commits before it that are older than the log's retention, a month unless set."""
    date_back(delta / "_delta_log", SIXTY_DAYS)
    log = spark._jvm.org.apache.spark.sql.delta.DeltaLog
    log.clearCache()
    log.forTable(spark._jsparkSession, str(delta)).checkpoint()


def expire_snapshots(spark: Any, delta: Path, iceberg: Path, name: str) -> None:
    spark.sql(
        f"CALL ice.system.expire_snapshots(table => '{name}', older_than => TIMESTAMP '2999-01-01', retain_last => 1)"
    )


def remove_orphan_files(spark: Any, delta: Path, iceberg: Path, name: str) -> None:
    date_back(iceberg, TEN_DAYS)
    spark.sql(f"CALL ice.system.remove_orphan_files(table => '{name}')")


def date_back(folder: Path, seconds: int) -> None:
    past = time.time() - seconds
    for path in folder.rglob("*"):
        os.utime(path, (past, past))


# Each stands once right after every other one, and once first (a Williams square).
ORDERS = ((0, 1, 3, 2), (1, 2, 0, 3), (2, 3, 1, 0), (3, 0, 2, 1))
ON_A_DELTA_SOURCE = (forced_vacuum, log_cleanup, expire_snapshots, remove_orphan_files)
ON_AN_ICEBERG_SOURCE = (vacuum, log_cleanup, expire_snapshots, remove_orphan_files)
ON_A_TARGET_ELSEWHERE = (forced_vacuum, log_cleanup, expire_snapshots, remove_orphan_files)


def orders(cleaners: tuple[Cleaner, ...], *more: str) -> list[Any]:
    """A parameter for each order, with ``more`` behind it."""
    chosen = [tuple(cleaners[index] for index in order) for order in ORDERS]
    return [pytest.param(each, *more, id="-".join((*more, *(cleaner.__name__ for cleaner in each)))) for each in chosen]


@pytest.fixture(scope="session")
def delta_template(run: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Delta table with removed files and a deletion vector; all its paths are relative, so copies of it are tables."""
    folder = tmp_path_factory.mktemp("template") / "delta"
    table = f"delta.`{folder}`"
    run(
        f"CREATE TABLE {table} (id INT, v STRING) USING delta TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')",
        f"INSERT INTO {table} SELECT CAST(id AS INT), concat('v', id) FROM range(20)",
        f"INSERT INTO {table} SELECT CAST(id AS INT), concat('w', id) FROM range(20, 40)",
        f"OPTIMIZE {table}",
        f"DELETE FROM {table} WHERE id % 7 = 3",
    )
    return folder


@pytest.fixture
def delta_source(delta_template: Path, warehouse: Path) -> Path:
    """A copy of the template, and a file in it that no table knows."""
    folder = warehouse / "clean" / f"d{next(_NAMES)}"
    shutil.copytree(delta_template, folder)
    (folder / "stray.parquet").write_bytes(b"PAR1")
    return folder


@pytest.fixture
def iceberg_source(run: Any, warehouse: Path) -> Path:
    """An Iceberg table with expired data, deletes and a file that no table knows."""
    name = f"ice.clean.i{next(_NAMES)}"
    run(
        f"CREATE TABLE {name} (id INT, v STRING) USING iceberg "
        "TBLPROPERTIES ('format-version' = '2', 'write.delete.mode' = 'merge-on-read')",
        f"INSERT INTO {name} SELECT CAST(id AS INT), concat('v', id) FROM range(20)",
        f"INSERT OVERWRITE {name} SELECT CAST(id AS INT), concat('w', id) FROM range(40)",
        f"DELETE FROM {name} WHERE id % 7 = 3",
    )
    folder = warehouse / "clean" / name.rpartition(".")[2]
    (folder / "data" / "stray.parquet").write_bytes(b"PAR1")
    return folder


@pytest.fixture
def contents(query: Any) -> Callable[[Path, str], list[list[int]]]:
    """``contents(delta, iceberg)``: how many rows Spark reads from each table, and a hash of all of them."""

    def read(delta: Path, name: str) -> list[list[int]]:
        found = query(
            f"SELECT 1 AS side, count(*) AS n, bit_xor(xxhash64(id, v)) AS h FROM delta.`{delta}` "
            f"UNION ALL SELECT 2, count(*), bit_xor(xxhash64(id, v)) FROM ice.{name}"
        ).sort_by("side")
        return [[row["n"], row["h"]] for row in found.to_pylist()]

    return read


@pytest.mark.parametrize("place", ["inside", "elsewhere"])
@pytest.mark.parametrize("order", orders(ON_A_DELTA_SOURCE))
def test_both_tables_of_a_delta_source_survive(
    order: tuple[Cleaner, ...], place: str, spark: Any, warehouse: Path, delta_source: Path, contents: Any
) -> None:
    target = delta_source / "_iceberg" if place == "inside" else warehouse / "clean" / f"{delta_source.name}_target"
    name = f"clean.{delta_source.name}{'._iceberg' if place == 'inside' else '_target'}"
    deltaberg.convert(delta_source, to="iceberg", target=target)
    for cleaner in order:
        if cleaner in {expire_snapshots, remove_orphan_files}:
            with pytest.raises(Exception, match="GC is disabled"):
                cleaner(spark, delta_source, target, name)
        else:
            cleaner(spark, delta_source, target, name)
        assert deltaberg.verify(delta_source, target, rows=True).equal, cleaner.__name__
    assert not (delta_source / "stray.parquet").exists(), "the vacuum did its work"
    first, second = contents(delta_source, name)
    assert first == second
    assert first[0] == ROWS


@pytest.mark.parametrize(
    ("order", "place"),
    [*orders(ON_AN_ICEBERG_SOURCE, "inside"), *orders(ON_A_TARGET_ELSEWHERE, "elsewhere")],
)
def test_both_tables_of_an_iceberg_source_survive(
    order: tuple[Cleaner, ...], place: str, spark: Any, iceberg_source: Path, contents: Any, tmp_path: Path
) -> None:
    target = iceberg_source if place == "inside" else tmp_path / "target"
    name = f"clean.{iceberg_source.name}"
    deltaberg.convert(iceberg_source, to="delta", target=target)
    for cleaner in order:
        cleaner(spark, target, iceberg_source, name)
        assert deltaberg.verify(iceberg_source, target, to="delta", rows=True).equal, cleaner.__name__
    assert not (iceberg_source / "data" / "stray.parquet").exists(), "the removal of orphans did its work"
    assert len(list((iceberg_source / "metadata").glob("snap-*.avro"))) == 1, "the snapshots have expired"
    first, second = contents(target, name)
    assert first == second
    assert first[0] == ROWS


def test_a_vacuum_shorter_than_the_guard_is_refused_unless_forced(spark: Any, iceberg_source: Path) -> None:
    """The Delta log in an Iceberg table's folder: only a person who switches Spark's own check off can break it."""
    deltaberg.convert(iceberg_source, to="delta")
    with pytest.raises(Exception, match="RETENTION"):
        spark.sql(f"VACUUM delta.`{iceberg_source}` RETAIN 0 HOURS")


def test_verify_finds_what_a_forced_vacuum_broke(spark: Any, iceberg_source: Path) -> None:
    """It deletes the Iceberg metadata, which is a visible folder that the Delta log does not know; the docs say so."""
    deltaberg.convert(iceberg_source, to="delta")
    forced_vacuum(spark, iceberg_source, iceberg_source, "")
    assert not list((iceberg_source / "metadata").glob("*"))
    with pytest.raises(deltaberg.NotATable, match="it holds no iceberg table"):
        deltaberg.verify(iceberg_source, iceberg_source, to="delta")


@pytest.mark.parametrize("place", ["inside", "elsewhere"])
def test_a_compacted_delta_target_gives_up_shared_files_only_by_force(
    place: str, spark: Any, run: Any, iceberg_source: Path, contents: Any, tmp_path: Path
) -> None:
    """The remove actions of the target name files that the source still needs: the guard keeps every vacuum from them."""
    target = iceberg_source if place == "inside" else tmp_path / "target"
    deltaberg.convert(iceberg_source, to="delta", target=target)
    run(f"REORG TABLE delta.`{target}` APPLY (PURGE)", f"VACUUM delta.`{target}`", f"VACUUM delta.`{target}` LITE")
    first, second = contents(target, f"clean.{iceberg_source.name}")
    assert first == second
    assert first[0] == ROWS
    forced_lite_vacuum(spark, target, iceberg_source, "")
    with pytest.raises(deltaberg.DeltabergError, match=r"data/.*\.parquet"):
        deltaberg.verify(iceberg_source, target, to="delta", rows=True)


def test_a_target_left_behind_loses_what_its_source_cleans_away(
    spark: Any, run: Any, delta_source: Path, iceberg_source: Path
) -> None:
    """A target shares the files of the version that it holds; a source that moves on and is then cleaned takes them away."""
    deltaberg.convert(delta_source, to="iceberg")
    run(f"REORG TABLE delta.`{delta_source}` APPLY (PURGE)")
    forced_vacuum(spark, delta_source, delta_source, "")
    with pytest.raises(deltaberg.DeltabergError, match=r"\.parquet"):
        deltaberg.verify(delta_source, delta_source / "_iceberg", rows=True)
    deltaberg.convert(iceberg_source, to="delta")
    name = f"clean.{iceberg_source.name}"
    run(f"CALL ice.system.rewrite_data_files(table => '{name}', options => map('rewrite-all', 'true'))")
    expire_snapshots(spark, iceberg_source, iceberg_source, name)
    with pytest.raises(deltaberg.DeltabergError, match=r"\.parquet"):
        deltaberg.verify(iceberg_source, iceberg_source, to="delta", rows=True)
