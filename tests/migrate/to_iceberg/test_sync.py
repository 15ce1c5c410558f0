"""``sync`` of a Delta table: each commit becomes one snapshot with the rows that the table had then, whoever wrote it."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import deltaberg
from deltaberg.errors import Conflict
from deltaberg.iceberg.table import Table
from deltaberg.migrate.convert import convert
from deltaberg.migrate.refusal import Refused
from deltaberg.migrate.source import TableFormat, open_source
from deltaberg.migrate.sync import SyncResult, sync
from deltaberg.migrate.target.watermark import STREAMS_KEY, WATERMARK_KEY
from deltaberg.migrate.verify.verify import verify
from deltaberg.storage import open_storage
from deltaberg.translate.options import ConvertOptions

pyiceberg_table = pytest.importorskip("pyiceberg.table")
deltalake = pytest.importorskip("deltalake")

Difference = Callable[..., str]


def rows(first: int, count: int = 4, **more: Any) -> pa.Table:
    """``id``, a partition ``p`` and a value, from ``first`` on."""
    numbers = range(first, first + count)
    made = pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "p": [f"p {number % 3}" for number in numbers],
            "v": [None if number % 5 == 4 else number / 2 for number in numbers],
        }
    )
    for name, value in more.items():
        made = made.append_column(name, pa.array([value] * count))
    return made


def write(folder: Path, table: pa.Table, mode: str = "append", **more: Any) -> None:
    deltalake.write_deltalake(str(folder), table, mode=mode, **more)


def synced(folder: Path, **chosen: Any) -> SyncResult:
    return sync(open_source(str(folder), open_storage(), format=TableFormat.DELTA), to="iceberg", **chosen)


def iceberg_at(location: str, snapshot_id: int) -> pa.Table:
    """What PyIceberg reads."""
    batches = pyiceberg_table.StaticTable.from_metadata(location).scan(snapshot_id=snapshot_id)
    return batches.to_arrow_batch_reader().read_all()


def delta_at(folder: Path, version: int) -> pa.Table:
    """What delta-rs reads."""
    table = deltalake.DeltaTable(str(folder), version=version)
    return pa.table(deltalake.QueryBuilder().register("t", table).execute("SELECT * FROM t").read_all())


def assert_every_version_is_equal(folder: Path, done: SyncResult, difference: Difference) -> None:
    for version, snapshot_id in done.commits:
        found = difference(iceberg_at(done.target_metadata, snapshot_id), delta_at(folder, version))
        assert not found, f"version {version}: {found}"


def target(folder: Path) -> Table:
    return Table.open(f"{folder}/_iceberg", open_storage())


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A table of two versions, partitioned, with its Iceberg target."""
    folder = tmp_path / "table"
    write(folder, rows(0), partition_by=["p"])
    write(folder, rows(10))
    assert synced(folder).created
    return folder


def test_a_target_that_is_not_there_is_created_and_a_second_sync_does_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "table"
    write(folder, rows(0))
    first = synced(folder)
    assert (first.created, first.before, first.watermark) == (True, None, 0)
    before = sorted(path.name for path in (folder / "_iceberg").rglob("*"))
    again = synced(folder)
    assert (again.created, again.before, again.watermark, again.commits) == (False, 0, 0, ())
    assert sorted(path.name for path in (folder / "_iceberg").rglob("*")) == before


def test_each_commit_is_one_snapshot_with_its_operation_and_time(table: Path, difference: Difference) -> None:
    write(table, rows(20))
    deltalake.DeltaTable(str(table)).delete("id = 13")
    deltalake.DeltaTable(str(table)).optimize.compact()
    done = synced(table)
    assert [source for source, _ in done.commits] == [2, 3, 4]
    assert_every_version_is_equal(table, done, difference)
    metadata = target(table).metadata
    snapshots = [metadata.snapshot_by_id(snapshot_id) for _, snapshot_id in done.commits]
    assert [each.operation for each in snapshots] == ["append", "overwrite", "replace"]
    history = {each["version"]: each["timestamp"] for each in deltalake.DeltaTable(str(table)).history()}
    assert [each.timestamp_ms for each in snapshots] == [pytest.approx(history[v], abs=2_000) for v in (2, 3, 4)]
    source = open_source(str(table), open_storage(), format=TableFormat.DELTA)
    assert verify(source, open_source(done.target, open_storage()), rows=True, bounds=True).equal


def test_squashed_commits_are_one_snapshot_of_the_newest_state(table: Path, difference: Difference) -> None:
    write(table, rows(20))
    deltalake.DeltaTable(str(table)).delete("p = 'p 1'")
    deltalake.DeltaTable(str(table)).restore(1)
    write(table, rows(30))
    done = synced(table, squash=True)
    assert [source for source, _ in done.commits] == [5]
    assert_every_version_is_equal(table, done, difference)


def test_a_commit_that_changes_only_data_leaves_the_tables_properties_alone(table: Path) -> None:
    before = dict(target(table).metadata.properties)
    write(table, rows(20))
    synced(table)
    assert target(table).metadata.properties == before
    head = target(table).metadata.current_snapshot
    assert head is not None
    assert json.loads(head.summary[WATERMARK_KEY])["version"] == 2


def test_inspect_tells_how_far_the_target_has_come(table: Path) -> None:
    write(table, rows(20))
    done = synced(table)
    position = deltaberg.inspect(done.target).position
    assert position is not None
    assert position["version"] == 2


def test_a_new_column_gets_an_id_of_its_own_and_old_rows_read_as_null(table: Path, difference: Difference) -> None:
    last = target(table).metadata.last_column_id
    write(table, rows(20, extra="new"), schema_mode="merge")
    done = synced(table)
    assert_every_version_is_equal(table, done, difference)
    schema = target(table).metadata.schema
    column = next(each for each in schema.fields if each.name == "extra")
    assert column.field_id > last
    write(table, rows(30, extra="newer", other=1), schema_mode="merge")
    assert_every_version_is_equal(table, synced(table), difference)


def test_a_column_of_the_same_name_and_another_type_is_refused_and_nothing_is_written(table: Path) -> None:
    write(table, pa.table({"id": ["a"], "p": ["p 0"], "v": [1.0]}), mode="overwrite", schema_mode="overwrite")
    before = target(table).metadata_location
    with pytest.raises(Refused, match=r"change-not-followed: schema: .*the type of id changes"):
        synced(table)
    assert target(table).metadata_location == before


def test_a_restored_version_comes_as_a_snapshot_that_leads_there(table: Path, difference: Difference) -> None:
    write(table, rows(20))
    deltalake.DeltaTable(str(table)).delete("id > 1")
    assert_every_version_is_equal(table, synced(table), difference)
    deltalake.DeltaTable(str(table)).restore(1)
    assert_every_version_is_equal(table, synced(table), difference)


def test_how_far_streams_have_written_stands_in_the_summary(table: Path) -> None:
    commit = deltalake.CommitProperties(app_transactions=[deltalake.Transaction("stream-1", 7)])
    write(table, rows(20), commit_properties=commit)
    synced(table)
    head = target(table).metadata.current_snapshot
    assert head is not None
    assert json.loads(head.summary[STREAMS_KEY]) == {"stream-1": 7}


def test_a_target_of_a_conversion_of_all_versions_goes_on(tmp_path: Path, difference: Difference) -> None:
    folder = tmp_path / "table"
    write(folder, rows(0))
    write(folder, rows(10))
    source = open_source(str(folder), open_storage())
    convert(source, to="iceberg", options=ConvertOptions(history="all"))
    write(folder, rows(20))
    done = synced(folder)
    assert [version for version, _ in done.commits] == [2]
    assert_every_version_is_equal(folder, done, difference)


def test_somebody_elses_commit_to_the_target_is_a_conflict(table: Path) -> None:
    with target(table).transaction() as transaction:
        transaction.snapshot("append")
        transaction.commit()
    write(table, rows(20))
    with pytest.raises(Conflict, match="somebody else has committed to it"):
        synced(table)


def test_a_recreated_source_is_a_conflict(table: Path) -> None:
    kept = table.parent / "kept"
    shutil.move(table / "_iceberg", kept)
    shutil.rmtree(table)
    write(table, rows(0), partition_by=["p"])
    shutil.move(kept, table / "_iceberg")
    with pytest.raises(Conflict, match="the source was recreated"):
        synced(table)


def test_a_source_that_was_set_back_is_a_conflict(table: Path) -> None:
    (table / "_delta_log" / f"{1:020}.json").unlink()
    with pytest.raises(Conflict, match="its log was set back to an earlier state"):
        synced(table)


def test_a_source_whose_log_was_cleaned_beyond_the_watermark_is_a_conflict(table: Path) -> None:
    for first in (20, 30, 40):
        write(table, rows(first))
    deltalake.DeltaTable(str(table)).create_checkpoint()
    for version in (0, 1, 2, 3):
        (table / "_delta_log" / f"{version:020}.json").unlink()
    with pytest.raises(Conflict, match="no longer holds what came after version 1"):
        synced(table)


OPERATIONS = (
    "append",
    "add column",
    "delete",
    "delete partition",
    "update",
    "overwrite",
    "compact",
    "restore",
    "merge",
)


@settings(
    max_examples=6,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    steps=st.lists(st.tuples(st.sampled_from(OPERATIONS), st.booleans()), min_size=2, max_size=6),
    partitioned=st.booleans(),
    format_version=st.sampled_from([None, 1, 3]),
)
def test_any_sequence_of_operations_is_followed(
    steps: list[tuple[str, bool]], partitioned: bool, format_version: int | None, difference: Difference
) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "table"
        write(folder, rows(0, 12), partition_by=["p"] if partitioned else None)
        synced(folder, options=ConvertOptions(format_version=format_version))
        for number, (operation, now) in enumerate(steps):
            apply(folder, operation, number)
            if now:
                assert_every_version_is_equal(folder, synced(folder), difference)
        assert_every_version_is_equal(folder, synced(folder), difference)
        source = open_source(str(folder), open_storage(), format=TableFormat.DELTA)
        assert verify(source, open_source(f"{folder}/_iceberg", open_storage()), rows=True, bounds=True).equal


def apply(folder: Path, operation: str, number: int) -> None:
    """One commit by delta-rs, or none where there is nothing to do."""
    table = deltalake.DeltaTable(str(folder))
    match operation:
        case "append":
            write(folder, rows(100 + 10 * number), schema_mode="merge")
        case "add column":
            write(folder, rows(100 + 10 * number, **{f"c{number}": "x"}), schema_mode="merge")
        case "delete":
            table.delete(f"id % 7 = {number % 7}")
        case "delete partition":
            table.delete(f"p = 'p {number % 3}'")
        case "update":
            table.update(predicate=f"id % 5 = {number % 5}", updates={"v": "v + 100"})
        case "overwrite":
            write(folder, rows(200 + 10 * number), mode="overwrite", schema_mode="merge")
        case "compact":
            table.optimize.compact()
        case "restore":
            if table.version():
                table.restore(table.version() - 1)
        case "merge":
            merged = table.merge(rows(0, 6), "s.id = t.id", source_alias="s", target_alias="t")
            merged.when_matched_update(updates={"v": "s.v"}).execute()
