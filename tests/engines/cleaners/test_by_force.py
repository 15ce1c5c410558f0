"""How a user still breaks one table with a cleaner of the other, and that ``deltaberg verify`` finds it.

docs/compatibility.md lists what is done here. What guards a table, and what keeps a target that was left behind, is shown
beside it.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import deltalake
import deltalake.exceptions
import pytest

import deltaberg

DAY_MS = 24 * 3600 * 1000
EVERY_ROW = 34


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A source, its target, and how Spark calls both."""

    source: Path
    target: Path
    source_sql: str
    target_sql: str
    to: str

    @property
    def iceberg_name(self) -> str:
        """As the procedures want it."""
        return (self.target_sql if self.to == "iceberg" else self.source_sql).removeprefix("ice.")


Broken = Callable[..., None]


@pytest.fixture
def found_by_verify(command: Any) -> Broken:
    """``found_by_verify(pair, *words)``: the command says one of them, in one line and with that exit code."""

    def check(pair: Pair, *words: str, code: int = 4) -> None:
        outcome = command("verify", pair.source, pair.target, "--to", pair.to)
        assert outcome.code == code
        assert any(each in outcome.err for each in words)
        assert len(outcome.err.splitlines()) == 1

    return check


@pytest.fixture
def survives(query: Any) -> Callable[..., None]:
    """Spark reads that many rows from each."""

    def check(*names: str, rows: int = EVERY_ROW) -> None:
        assert [query(f"SELECT * FROM {name}").num_rows for name in names] == [rows] * len(names)

    return check


@pytest.fixture
def delta_source(make_delta: Any, warehouse: Path, new_namespace: Any) -> Pair:
    namespace = new_namespace()
    folder = warehouse / namespace / "table"
    make_delta(folder)
    deltaberg.convert(folder, to="iceberg")
    return Pair(
        source=folder,
        target=folder / "_iceberg",
        source_sql=f"delta.`{folder}`",
        target_sql=f"ice.{namespace}.table._iceberg",
        to="iceberg",
    )


@pytest.fixture(params=["inside", "elsewhere"])
def iceberg_source(request: pytest.FixtureRequest, make_iceberg: Any, warehouse: Path, new_namespace: Any) -> Pair:
    namespace = new_namespace()
    folder = warehouse / namespace / "table"
    make_iceberg(f"ice.{namespace}.table", 3)
    target = folder if request.param == "inside" else warehouse / namespace / "copy"
    deltaberg.convert(folder, to="delta", target=target)
    return Pair(
        source=folder,
        target=target,
        source_sql=f"ice.{namespace}.table",
        target_sql=f"delta.`{target}`",
        to="delta",
    )


only_inside = pytest.mark.parametrize("iceberg_source", ["inside"], indirect=True)
only_elsewhere = pytest.mark.parametrize("iceberg_source", ["elsewhere"], indirect=True)


def shared_files(pair: Pair) -> list[str]:
    """The names of the data files that both tables list."""
    names = {path.name for path in pair.source.rglob("*.parquet")}
    listed = [
        path for path in live_files(pair.target, pair.to) if Path(path).name in names and "rewritten-" not in path
    ]
    return Path(sorted(listed)[0]).name


def live_files(table: Path, format: str) -> list[str]:
    if format == "delta":
        commit = min((table / "_delta_log").glob("*.json")).read_text(encoding="utf-8")
        return [action["add"]["path"] for line in commit.splitlines() if "add" in (action := json.loads(line))]
    from pyiceberg.table import StaticTable

    newest = max((table / "metadata").glob("v*.metadata.json"))
    return [task.file.file_path for task in StaticTable.from_metadata(str(newest)).scan().plan_files()]


def age(delta: Path, days: int) -> None:
    """Let days go by since files were removed: a cleaner goes by the moment that the log tells."""
    for path in (delta / "_delta_log").glob("*.json"):
        actions = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        for action in actions:
            if "remove" in action:
                action["remove"]["deletionTimestamp"] -= days * DAY_MS
        path.write_text("".join(json.dumps(action) + "\n" for action in actions), encoding="utf-8")
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)  # Hadoop's


# A target that was left behind: no force is needed.


def test_a_source_that_moved_on_takes_files_from_its_target_once_its_retention_has_passed(
    run: Any, engine_cleaners: Any, delta_source: Pair, found_by_verify: Broken, survives: Any
) -> None:
    shared = shared_files(delta_source)
    run(f"DELETE FROM {delta_source.source_sql}")
    age(delta_source.source, 8)
    engine_cleaners.forget()
    run(
        f"ALTER TABLE {delta_source.source_sql} SET TBLPROPERTIES ('delta.deletedFileRetentionDuration' = 'interval 30 days')"
    )
    engine_cleaners.vacuum(delta_source.source)
    survives(delta_source.target_sql)
    run(f"ALTER TABLE {delta_source.source_sql} UNSET TBLPROPERTIES ('delta.deletedFileRetentionDuration')")
    engine_cleaners.vacuum(delta_source.source)
    found_by_verify(delta_source, *shared)


@only_elsewhere
def test_a_tag_keeps_what_a_target_needs_from_the_expiry_of_its_source(
    run: Any, engine_cleaners: Any, iceberg_source: Pair, found_by_verify: Broken, survives: Any
) -> None:
    shared = shared_files(iceberg_source)
    run(f"ALTER TABLE {iceberg_source.source_sql} CREATE TAG converted", f"DELETE FROM {iceberg_source.source_sql}")
    engine_cleaners.expire_snapshots(iceberg_source.iceberg_name)
    survives(iceberg_source.target_sql)
    assert deltaberg.verify(iceberg_source.source, iceberg_source.target, to="delta", rows=True, ref="converted").equal
    run(f"ALTER TABLE {iceberg_source.source_sql} DROP TAG converted")
    engine_cleaners.expire_snapshots(iceberg_source.iceberg_name)
    found_by_verify(iceberg_source, *shared)


def test_a_history_lives_as_long_as_the_files_of_its_source(
    run: Any, query: Any, warehouse: Path, new_namespace: Any, engine_cleaners: Any, command: Any
) -> None:
    """The newest version of a target is whole; a former one names files that the source's cleaner has deleted."""
    namespace = new_namespace()
    folder = warehouse / namespace / "table"
    table = f"delta.`{folder}`"
    run(
        f"CREATE TABLE {table} (id INT) USING delta",
        f"INSERT INTO {table} VALUES (1)",
        f"INSERT OVERWRITE {table} VALUES (2)",
    )
    options = deltaberg.ConvertOptions(history="all")
    commits = dict(deltaberg.convert(folder, to="iceberg", options=options).commits)
    former = f"SELECT * FROM ice.{namespace}.table._iceberg VERSION AS OF {commits[1]}"
    assert query(former).column("id").to_pylist() == [1]
    engine_cleaners.vacuum(folder, hours=0, forced=True)
    assert query(f"SELECT * FROM ice.{namespace}.table._iceberg").column("id").to_pylist() == [2]
    assert command("verify", folder, folder / "_iceberg", "--rows").code == 0
    outcome = command("scan", folder / "_iceberg", "--snapshot-id", commits[1])
    assert outcome.code == 1
    assert ".parquet" in outcome.err


# Guards, and what happens once a user takes them away.


def test_no_drop_purges_an_iceberg_target_until_its_guard_is_off(
    run: Any, spark: Any, delta_source: Pair, survives: Any, command: Any
) -> None:
    """The action is Spark's PURGE in every catalog but Hadoop's, which deletes the target's folder and nothing else."""
    shared = shared_files(delta_source)
    jvm = spark._jvm.org.apache.iceberg
    io = jvm.hadoop.HadoopFileIO(spark._jsc.hadoopConfiguration())

    def purge() -> None:
        newest = max((delta_source.target / "metadata").glob("v*.metadata.json"))
        jvm.spark.actions.SparkActions.get(spark._jsparkSession).deleteReachableFiles(str(newest)).io(io).execute()

    with pytest.raises(Exception, match="GC is disabled"):
        spark.sql(f"DROP TABLE {delta_source.target_sql} PURGE")
    with pytest.raises(Exception, match="GC is disabled"):
        purge()
    survives(delta_source.source_sql, delta_source.target_sql)
    run(f"ALTER TABLE {delta_source.target_sql} SET TBLPROPERTIES ('gc.enabled' = 'true')")
    purge()
    outcome = command("verify", delta_source.source, delta_source.target, "--rows")
    assert outcome.code == 1
    assert str(delta_source.target) in outcome.err
    outcome = command("scan", delta_source.source, "--limit", EVERY_ROW)
    assert outcome.code == 1
    assert any(each in outcome.err for each in shared)


def test_an_iceberg_target_without_its_guard_expires_the_files_of_its_source(
    run: Any, engine_cleaners: Any, delta_source: Pair, found_by_verify: Broken, survives: Any
) -> None:
    shared = shared_files(delta_source)
    run(f"DELETE FROM {delta_source.target_sql}")
    with pytest.raises(Exception, match="GC is disabled"):
        engine_cleaners.expire_snapshots(delta_source.iceberg_name)
    survives(delta_source.source_sql)
    run(f"ALTER TABLE {delta_source.target_sql} SET TBLPROPERTIES ('gc.enabled' = 'true')")
    engine_cleaners.remove_orphan_files(delta_source.iceberg_name)
    survives(delta_source.source_sql)
    engine_cleaners.expire_snapshots(delta_source.iceberg_name)
    found_by_verify(delta_source, *shared)


@only_inside
def test_a_delta_target_without_its_guard_vacuums_the_metadata_of_its_source(
    run: Any, engine_cleaners: Any, iceberg_source: Pair, found_by_verify: Broken, cleaner_orders: Any, spark: Any
) -> None:
    """In the Iceberg table's own folder. Its metadata are visible files that the Delta log does not know."""
    with pytest.raises(Exception, match=r"(?i)retention"):
        engine_cleaners.vacuum(iceberg_source.target, hours=0)
    cleaner_orders.date_back(iceberg_source.source)
    run(f"ALTER TABLE {iceberg_source.target_sql} UNSET TBLPROPERTIES ('delta.deletedFileRetentionDuration')")
    engine_cleaners.vacuum(iceberg_source.target)
    assert not list((iceberg_source.source / "metadata").glob("*"))
    found_by_verify(iceberg_source, "it holds no iceberg table", code=1)


@only_inside
def test_a_forced_vacuum_does_so_at_once(engine_cleaners: Any, iceberg_source: Pair, found_by_verify: Broken) -> None:
    engine_cleaners.vacuum(iceberg_source.target, hours=0, forced=True)
    found_by_verify(iceberg_source, "it holds no iceberg table", code=1)


@only_inside
def test_delta_rs_keeps_to_the_guard_too(iceberg_source: Pair, survives: Any, cleaner_orders: Any) -> None:
    cleaner_orders.date_back(iceberg_source.source)
    table = deltalake.DeltaTable(iceberg_source.target)
    with pytest.raises(deltalake.exceptions.DeltaError, match="retention"):
        table.vacuum(retention_hours=0, full=True, dry_run=False)
    assert not [*table.vacuum(dry_run=False), *table.vacuum(full=True, dry_run=False)]
    survives(iceberg_source.source_sql, iceberg_source.target_sql)
    assert table.vacuum(retention_hours=0, full=True, enforce_retention_duration=False), "by force it would"


@only_inside
def test_orphans_that_are_listed_by_prefix_are_no_hidden_files_either(
    run: Any, iceberg_source: Pair, survives: Any, cleaner_orders: Any
) -> None:
    stray = iceberg_source.source / "stray.parquet"
    stray.write_bytes(b"PAR1")
    cleaner_orders.date_back(iceberg_source.source)
    run(f"CALL ice.system.remove_orphan_files(table => '{iceberg_source.iceberg_name}', prefix_listing => true)")
    assert not stray.exists()
    survives(iceberg_source.source_sql, iceberg_source.target_sql)


@only_elsewhere
def test_a_delta_target_that_gave_up_files_deletes_them_only_by_force(
    run: Any, engine_cleaners: Any, iceberg_source: Pair, found_by_verify: Broken, survives: Any
) -> None:
    """Its remove actions name files that the source still needs, and VACUUM LITE goes by them, wherever the files are."""
    shared = shared_files(iceberg_source)
    target = iceberg_source.target
    run(f"DELETE FROM {iceberg_source.target_sql}")
    engine_cleaners.vacuum(target)
    engine_cleaners.vacuum(target, lite=True)
    engine_cleaners.vacuum(target, hours=0, forced=True)
    survives(iceberg_source.source_sql)
    engine_cleaners.vacuum(target, hours=0, lite=True, forced=True)
    found_by_verify(iceberg_source, *shared)


@only_inside
def test_what_spark_writes_on_a_delta_target_in_the_folder_of_its_source_is_an_orphan_there(
    run: Any, engine_cleaners: Any, iceberg_source: Pair, found_by_verify: Broken, cleaner_orders: Any, survives: Any
) -> None:
    before = set(iceberg_source.target.rglob("*.parquet"))
    run(f"INSERT INTO {iceberg_source.target_sql} VALUES (1000, 'on top', 1.0)")
    (written,) = set(iceberg_source.target.rglob("*.parquet")) - before
    cleaner_orders.date_back(iceberg_source.source)
    engine_cleaners.remove_orphan_files(iceberg_source.iceberg_name)
    survives(iceberg_source.source_sql)
    assert not written.exists()
    found_by_verify(iceberg_source, written.name)


# What a hand can do.


def test_a_target_without_its_hidden_folder_is_missed(iceberg_source: Pair, found_by_verify: Broken) -> None:
    shutil.rmtree(iceberg_source.target / "_deltaberg")
    found_by_verify(iceberg_source, "_deltaberg/")


def test_a_target_that_was_deleted_is_missed(delta_source: Pair, found_by_verify: Broken) -> None:
    shutil.rmtree(delta_source.target)
    found_by_verify(delta_source, str(delta_source.target), code=1)


def test_the_page_names_tests_that_are_here() -> None:
    page = (Path(__file__).resolve().parents[3] / "docs" / "cleaners.md").read_text(encoding="utf-8")
    named = re.findall(r"`(test_\w+)`", page)
    assert named
    assert not [name for name in named if name not in globals()]
