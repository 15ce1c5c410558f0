"""The cleaners of both formats, on both tables, in every order: the other table still reads every row.

Iceberg's ``remove_orphan_files`` takes nothing younger than a day, so files are dated back before it runs.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import deltaberg

TEN_DAYS = 10 * 24 * 3600
SIXTY_DAYS = 60 * 24 * 3600


def vacuum(spark: Any, folder: Path, iceberg: str) -> None:
    spark.sql(f"VACUUM delta.`{folder}`")


def forced_vacuum(spark: Any, folder: Path, iceberg: str) -> None:
    spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    try:
        spark.sql(f"VACUUM delta.`{folder}` RETAIN 0 HOURS")
    finally:
        spark.conf.unset("spark.databricks.delta.retentionDurationCheck.enabled")


def log_cleanup(spark: Any, folder: Path, iceberg: str) -> None:
    """A checkpoint removes the commits before it that are older than the log's retention, a month unless set."""
    past = time.time() - SIXTY_DAYS
    for path in (folder / "_delta_log").glob("*.json"):
        os.utime(path, (past, past))
    log = spark._jvm.org.apache.spark.sql.delta.DeltaLog
    log.clearCache()
    log.forTable(spark._jsparkSession, str(folder)).checkpoint()


def expire_snapshots(spark: Any, folder: Path, iceberg: str) -> None:
    spark.sql(
        f"CALL ice.system.expire_snapshots(table => '{iceberg}', older_than => TIMESTAMP '2999-01-01', retain_last => 1)"
    )


def remove_orphan_files(spark: Any, folder: Path, iceberg: str) -> None:
    past = time.time() - TEN_DAYS
    for path in folder.rglob("*"):
        os.utime(path, (past, past))
    spark.sql(f"CALL ice.system.remove_orphan_files(table => '{iceberg}')")


Cleaner = Callable[[Any, Path, str], None]
GUARDED = "GC is disabled"


def clean(cleaner: Cleaner, spark: Any, folder: Path, iceberg: str) -> None:
    """Run it; a table that says gc.enabled=false refuses by name, which is the guard at work."""
    try:
        cleaner(spark, folder, iceberg)
    except Exception as error:
        if GUARDED not in str(error):
            raise


@pytest.fixture
def delta_source(spark: Any, warehouse: Path, request: pytest.FixtureRequest) -> Path:
    """A Delta table with removed files and a stray one, converted to its default place."""
    folder = warehouse / "clean" / f"d{abs(hash(request.node.name))}"
    sql = f"delta.`{folder}`"
    spark.sql(
        f"CREATE TABLE {sql} (id INT, v STRING) USING delta TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
    )
    spark.sql(f"INSERT INTO {sql} SELECT CAST(id AS INT), concat('v', id) FROM range(20)")
    spark.sql(f"INSERT INTO {sql} SELECT CAST(id AS INT), concat('w', id) FROM range(20, 40)")
    spark.sql(f"OPTIMIZE {sql}")
    spark.sql(f"DELETE FROM {sql} WHERE id % 7 = 3")
    deltaberg.convert(folder, to="iceberg")
    return folder


@pytest.fixture
def iceberg_source(spark: Any, warehouse: Path, request: pytest.FixtureRequest) -> Path:
    """An Iceberg table with expired data and deletes, converted to its default place."""
    name = f"i{abs(hash(request.node.name))}"
    spark.sql(
        f"CREATE TABLE ice.clean.{name} (id INT, v STRING) USING iceberg "
        "TBLPROPERTIES ('format-version' = '2', 'write.delete.mode' = 'merge-on-read')"
    )
    spark.sql(f"INSERT INTO ice.clean.{name} SELECT CAST(id AS INT), concat('v', id) FROM range(20)")
    spark.sql(f"INSERT INTO ice.clean.{name} SELECT CAST(id AS INT), concat('w', id) FROM range(20, 40)")
    spark.sql(f"CALL ice.system.rewrite_data_files(table => 'clean.{name}', options => map('rewrite-all', 'true'))")
    spark.sql(f"DELETE FROM ice.clean.{name} WHERE id % 7 = 3")
    folder = warehouse / "clean" / name
    deltaberg.convert(folder, to="delta")
    return folder


DELTA_SOURCE_CLEANERS = (forced_vacuum, log_cleanup, expire_snapshots, remove_orphan_files)
ICEBERG_SOURCE_CLEANERS = (vacuum, log_cleanup, expire_snapshots, remove_orphan_files)


def orders(cleaners: tuple[Cleaner, ...]) -> list[tuple[Cleaner, ...]]:
    """Every pair in both orders, then all of them forwards and backwards: whatever one leaves the next one meets."""
    return [*itertools.permutations(cleaners, 2), cleaners, cleaners[::-1]]


def order_name(order: tuple[Cleaner, ...]) -> str:
    return "-".join(cleaner.__name__ for cleaner in order)


@pytest.mark.parametrize("order", orders(DELTA_SOURCE_CLEANERS), ids=order_name)
def test_both_tables_of_a_delta_source_survive(
    order: tuple[Cleaner, ...], spark: Any, query: Any, warehouse: Path, delta_source: Path, difference: Any
) -> None:
    iceberg = f"clean.{delta_source.name}._iceberg"
    wanted = query(f"SELECT * FROM delta.`{delta_source}`")
    for cleaner in order:
        clean(cleaner, spark, delta_source, iceberg)
        spark.catalog.clearCache()
        assert not difference(query(f"SELECT * FROM delta.`{delta_source}`"), wanted), cleaner.__name__
        assert not difference(query(f"SELECT * FROM ice.{iceberg}"), wanted), cleaner.__name__
    assert deltaberg.verify(delta_source, delta_source / "_iceberg", rows=True).equal


@pytest.mark.parametrize("order", orders(ICEBERG_SOURCE_CLEANERS), ids=order_name)
def test_both_tables_of_an_iceberg_source_survive(
    order: tuple[Cleaner, ...], spark: Any, query: Any, iceberg_source: Path, difference: Any
) -> None:
    iceberg = f"clean.{iceberg_source.name}"
    wanted = query(f"SELECT * FROM ice.{iceberg}")
    for cleaner in order:
        clean(cleaner, spark, iceberg_source, iceberg)
        spark.catalog.clearCache()
        assert not difference(query(f"SELECT * FROM ice.{iceberg}"), wanted), cleaner.__name__
        assert not difference(query(f"SELECT * FROM delta.`{iceberg_source}`"), wanted), cleaner.__name__
    assert deltaberg.verify(iceberg_source, iceberg_source, to="delta", rows=True).equal


def test_a_vacuum_shorter_than_the_guard_is_refused_unless_forced(spark: Any, iceberg_source: Path) -> None:
    """The Delta log in an Iceberg table's folder: only a person who switches Spark's own check off can break it."""
    with pytest.raises(Exception, match=r"retention|RETENTION"):
        spark.sql(f"VACUUM delta.`{iceberg_source}` RETAIN 0 HOURS")


def test_verify_finds_what_a_forced_vacuum_broke(spark: Any, iceberg_source: Path) -> None:
    """It deletes the Iceberg metadata, which is a visible folder that the Delta log does not know; the docs say so."""
    forced_vacuum(spark, iceberg_source, "")
    assert not list((iceberg_source / "metadata").glob("snap-*.avro"))
    with pytest.raises(deltaberg.NotATable, match="it holds no iceberg table"):
        deltaberg.verify(iceberg_source, iceberg_source, to="delta")
