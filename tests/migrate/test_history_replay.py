"""``--history all``: one target commit for each source commit, each with the rows that the source had then."""

from __future__ import annotations

import datetime as dt
import itertools
import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg.delta.schema.schema import type_to_json
from deltaberg.delta.schema.types import TimestampNtzType
from deltaberg.delta.table import DeltaTable
from deltaberg.delta.transaction import Transaction, begin_transaction
from deltaberg.errors import CommitStateUnknown, Conflict
from deltaberg.iceberg.table import Table
from deltaberg.migrate.convert import ConvertResult, convert
from deltaberg.migrate.plan import plan
from deltaberg.migrate.target.watermark import WATERMARK_KEY, Watermark
from deltaberg.migrate.verify.verify import verify
from deltaberg.storage import StorageError, open_storage
from deltaberg.translate.options import ConvertOptions

pyiceberg_table = pytest.importorskip("pyiceberg.table")
types = pytest.importorskip("pyiceberg.types")
schemas = pytest.importorskip("pyiceberg.schema")
transforms = pytest.importorskip("pyiceberg.transforms")
deltalake = pytest.importorskip("deltalake")

CLOCK_MS = 1_700_000_000_000
CHANGED = {"delta.typeChanges": [{"fromType": "date", "toType": "timestamp_ntz"}]}
Difference = Callable[..., str]


def replay(source: Any, target: Path, to: str, *, storage: Any = None, **options: Any) -> ConvertResult:
    chosen = ConvertOptions(history="all", **options)
    return convert(source, to=to, target=str(target), options=chosen, clock_ms=CLOCK_MS)


def iceberg_at(metadata: str, snapshot_id: int) -> pa.Table:
    return pyiceberg_table.StaticTable.from_metadata(metadata).scan(snapshot_id=snapshot_id).to_arrow()


def delta_at(folder: Path | str, version: int) -> pa.Table:
    table = deltalake.DeltaTable(str(folder), version=version)
    return pa.table(deltalake.QueryBuilder().register("t", table).execute("SELECT * FROM t").read_all())


def commit(folder: Path | str, version: int) -> list[dict[str, Any]]:
    """The actions of one commit file."""
    lines = (Path(folder) / "_delta_log" / f"{version:020}.json").read_text().splitlines()
    return [json.loads(line) for line in lines]


def assert_equal_at_every_version(done: ConvertResult, metadata: str, difference: Difference) -> None:
    for snapshot_id, version in done.commits:
        found = difference(delta_at(done.target, version), iceberg_at(metadata, snapshot_id))
        assert not found, f"version {version}: {found}"


def people(start: int, count: int, **columns: Any) -> pa.Table:
    """Rows with the required ``id``, ``name`` and others."""
    numbers = range(start, start + count)
    rows = pa.table(
        {"id": pa.array(numbers, pa.int32()), "name": [None if i % 3 == 2 else f"n{i}" for i in numbers]},
        schema=pa.schema([pa.field("id", pa.int32()), pa.field("name", pa.string())]),
    )
    for name, values in columns.items():
        rows = rows.append_column(name, values)
    return rows


@pytest.fixture
def table(catalog: Any) -> Any:
    """Two columns, five rows, one snapshot."""
    schema = schemas.Schema(
        types.NestedField(1, "id", types.IntegerType()), types.NestedField(2, "name", types.StringType())
    )
    made = catalog.create_table("n.t", schema=schema)
    made.append(people(0, 5))
    return made


def edited(table: Any, change: Callable[[Any], object]) -> str:
    """Another metadata file of a PyIceberg table."""
    place = Path(open_storage().resolve(table.metadata_location))
    metadata = json.loads(place.read_text())
    change(metadata)
    other = place.with_name("v9.metadata.json")
    other.write_text(json.dumps(metadata))
    return str(other)


class TestIcebergToDelta:
    def test_every_snapshot_is_a_version(
        self, tmp_path: Path, table: Any, delete_from_iceberg: Any, opened: Any, difference: Difference
    ) -> None:
        table.append(people(5, 4))
        table.delete("id = 6")
        table.append(people(20, 3))
        place = delete_from_iceberg(table.metadata_location, {0: [0], 2: [1]})
        place = delete_from_iceberg(place, {0: [1]})
        source = opened(place)
        done = replay(source, tmp_path / "target", "delta")
        snapshots = source.table.metadata.snapshots
        assert done.commits == tuple((each.snapshot_id, version) for version, each in enumerate(snapshots))
        assert done.rewritten_files == 0
        assert_equal_at_every_version(done, place, difference)
        assert verify(source, opened(done.target), rows=True, bounds=True).equal

    def test_every_version_says_which_snapshot_it_holds_and_when_it_was_made(
        self, tmp_path: Path, table: Any, opened: Any
    ) -> None:
        table.append(people(5, 4))
        source = opened(table.metadata_location)
        done = replay(source, tmp_path / "target", "delta")
        for snapshot, (snapshot_id, version) in zip(source.table.metadata.snapshots, done.commits, strict=True):
            held = DeltaTable.open(done.target, open_storage()).snapshot(version)
            position = Watermark.from_properties(held.metadata.configuration)
            assert position is not None
            assert position.version == snapshot_id == snapshot.snapshot_id
            assert held.txns[position.app_id].version == snapshot_id
            assert held.timestamp_ms == snapshot.timestamp_ms
            info = next(action["commitInfo"] for action in commit(done.target, version) if "commitInfo" in action)
            assert info[WATERMARK_KEY]["version"] == snapshot_id
        again = replay(source, tmp_path / "target", "delta")
        assert again.already_current
        assert again.commits == ()

    def test_columns_come_and_go(self, tmp_path: Path, table: Any, opened: Any, difference: Difference) -> None:
        with table.update_schema() as update:
            update.add_column("age", types.DoubleType())
        table.append(people(5, 2, age=pa.array([1.5, None])))
        with table.update_schema(allow_incompatible_changes=True) as update:
            update.delete_column("name")
        table.append(people(7, 2, age=pa.array([2.5, 3.5])).drop_columns("name"))
        with table.update_schema() as update:
            update.add_column("name", types.LongType())
        table.append(people(9, 1, age=pa.array([4.5])).drop_columns("name").append_column("name", pa.array([77])))
        done = replay(opened(table.metadata_location), tmp_path / "target", "delta", former_names="rewrite")
        assert_equal_at_every_version(done, table.metadata_location, difference)
        assert delta_at(done.target, 0).column_names == ["id", "name"]
        assert delta_at(done.target, 3).to_pydict()["name"].count(77) == 1

    def test_a_promoted_type_is_wide_from_then_on(
        self, tmp_path: Path, table: Any, opened: Any, difference: Difference
    ) -> None:
        with table.update_schema() as update:
            update.update_column("id", types.LongType())
        wide = pa.table({"id": pa.array([1 << 40]), "name": ["far"]})
        table.append(wide)
        done = replay(opened(table.metadata_location), tmp_path / "target", "delta")
        # delta-rs does not know the table feature typeWidening.
        kinds = []
        for _, version in done.commits:
            held = DeltaTable.open(done.target, open_storage()).snapshot(version)
            field = held.metadata.schema.field("id")
            kinds.append((type(field.type).__name__, field.metadata.get("delta.typeChanges")))
            assert verify(
                opened(table.metadata_location, snapshot_id=done.commits[version][0]),
                opened(done.target, version=version),
                rows=True,
            ).equal
        assert kinds == [("IntegerType", None), ("LongType", [{"fromType": "integer", "toType": "long"}])]

    def test_partition_columns_are_those_that_all_files_share(
        self, tmp_path: Path, catalog: Any, opened: Any, difference: Difference
    ) -> None:
        schema = schemas.Schema(
            types.NestedField(1, "id", types.IntegerType()), types.NestedField(2, "name", types.StringType())
        )
        made = catalog.create_table("n.p", schema=schema)
        with made.update_spec() as update:
            update.add_identity("id")
        made.append(people(0, 2))
        with made.update_spec() as update:
            update.add_identity("name")
        made.append(people(3, 2))
        done = replay(opened(made.metadata_location), tmp_path / "target", "delta")
        assert done.plan.target["partitioning"] == ["id"]
        assert_equal_at_every_version(done, made.metadata_location, difference)

    def test_rewritten_files_keep_their_place_in_every_version(
        self, tmp_path: Path, table: Any, delete_from_iceberg: Any, opened: Any, difference: Difference
    ) -> None:
        with table.update_schema() as update:
            update.rename_column("name", "called")
        table.append(people(5, 40).rename_columns(["id", "called"]))
        place = delete_from_iceberg(table.metadata_location, {0: [1], 1: [2]})
        place = delete_from_iceberg(place, {0: [0, 3]})
        done = replay(opened(place), tmp_path / "target", "delta", former_names="rewrite")
        assert done.rewritten_files == 1
        assert len(list((tmp_path / "target" / "_deltaberg").glob("rewritten-*.parquet"))) == 1
        assert [delta_at(done.target, version).num_rows for version in range(4)] == [5, 45, 43, 41]
        assert_equal_at_every_version(done, place, difference)

    def test_a_compaction_changes_no_data(self, tmp_path: Path, table: Any, opened: Any) -> None:
        table.append(people(5, 4))
        place = edited(table, lambda metadata: metadata["snapshots"][-1]["summary"].update(operation="replace"))
        done = replay(opened(place), tmp_path / "target", "delta")
        flags = [action["add"]["dataChange"] for action in commit(done.target, 1) if "add" in action]
        assert flags == [False]
        assert all(action["add"]["dataChange"] for action in commit(done.target, 0) if "add" in action)

    def test_history_starts_behind_expired_snapshots(
        self, tmp_path: Path, table: Any, opened: Any, difference: Difference
    ) -> None:
        first = table.current_snapshot().snapshot_id
        table.append(people(5, 4))
        table.append(people(9, 1))
        place = edited(table, lambda metadata: metadata["snapshots"].pop(0))
        source = opened(place)
        (item,) = [
            each
            for each in plan(source, to="delta", options=ConvertOptions(history="all")).items
            if each.code == "history-truncated"
        ]
        assert f"snapshot {first} has expired" in item.reason
        done = replay(source, tmp_path / "target", "delta")
        assert len(done.commits) == 2
        assert_equal_at_every_version(done, place, difference)

    def test_a_branch_is_replayed_along_its_own_line(
        self, tmp_path: Path, table: Any, opened: Any, difference: Difference
    ) -> None:
        fork = table.current_snapshot().snapshot_id
        table.manage_snapshots().create_branch(fork, "side").commit()
        table.append(people(5, 4))
        table.append(people(50, 2), branch="side")
        source = opened(table.metadata_location, ref="side")
        done = replay(source, tmp_path / "target", "delta")
        assert [each for each, _ in done.commits] == [fork, source.snapshot.snapshot_id]
        assert_equal_at_every_version(done, table.metadata_location, difference)
        assert delta_at(done.target, 1).num_rows == 7

    def test_many_snapshots_get_checkpoints(
        self, tmp_path: Path, table: Any, opened: Any, difference: Difference
    ) -> None:
        for start in range(10, 23):
            table.append(people(start, 1))
        table.delete("id = 12")
        done = replay(opened(table.metadata_location), tmp_path / "target", "delta")
        assert len(done.commits) == 15
        assert list((tmp_path / "target" / "_delta_log").glob("*10.checkpoint*.parquet"))
        assert_equal_at_every_version(done, table.metadata_location, difference)

    @pytest.mark.parametrize("failing", [0, 1])
    def test_the_newest_checkpoint_counts(
        self, tmp_path: Path, table: Any, opened: Any, monkeypatch: pytest.MonkeyPatch, failing: int
    ) -> None:
        table.append(people(10, 1))
        checkpoint, calls = Transaction.checkpoint, itertools.count()

        def sometimes(transaction: Transaction) -> Any:
            if next(calls) == failing:
                raise StorageError("the disk is full")
            return checkpoint(transaction)

        monkeypatch.setattr(Transaction, "checkpoint", sometimes)
        monkeypatch.setattr(Transaction.checkpoint_when_due, "__kwdefaults__", {"many_files": 1})
        done = replay(opened(table.metadata_location), tmp_path / "target", "delta")
        assert [target for _, target in done.commits] == [0, 1]
        told = [(warning.code, warning.what) for warning in done.warnings]
        assert told == ([("checkpoint-not-written", "version 1")] if failing == 1 else [])


class Killed(BaseException):
    """The process is gone: nothing after this runs, no clean-up either."""


class KillingStorage:
    """A storage whose machine dies at the n-th write, before or after it is done."""

    def __init__(self, dies_at: int, *, done: bool) -> None:
        self._real, self.left, self.done = open_storage(), dies_at, done

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def _write(self, write: Callable[[str, bytes], None], location: str, data: bytes) -> None:
        if self.left < 0:
            raise StorageError("the machine is gone", path=location)
        self.left -= 1
        if self.left >= 0 or self.done:
            write(location, data)
        if self.left < 0:
            raise Killed

    def put(self, location: str, data: bytes) -> None:
        self._write(self._real.put, location, data)

    def put_if_absent(self, location: str, data: bytes) -> None:
        self._write(self._real.put_if_absent, location, data)

    @contextmanager
    def create(self, location: str, *, durable: bool = False) -> Iterator[pa.NativeFile]:
        if self.left < 0:
            raise StorageError("the machine is gone", path=location)
        self.left -= 1
        if self.left < 0 and not self.done:
            raise Killed
        with self._real.create(location, durable=durable) as sink:
            yield sink
        if self.left < 0:
            raise Killed

    def delete(self, location: str) -> None:
        if self.left < 0:
            raise StorageError("the machine is gone", path=location)
        self._real.delete(location)


class FullDisk:
    """A storage whose n-th write fails; everything else works."""

    def __init__(self, fails_at: int, trouble: BaseException) -> None:
        self._real, self.left, self.trouble = open_storage(), fails_at, trouble

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def _write(self, write: Callable[[str, bytes], None], location: str, data: bytes) -> None:
        self._count(location)
        write(location, data)

    def _count(self, location: str) -> None:
        self.left -= 1
        if self.left == -1:
            raise self.trouble

    @contextmanager
    def create(self, location: str, *, durable: bool = False) -> Iterator[pa.NativeFile]:
        self._count(location)
        with self._real.create(location, durable=durable) as sink:
            yield sink

    def put(self, location: str, data: bytes) -> None:
        self._write(self._real.put, location, data)

    def put_if_absent(self, location: str, data: bytes) -> None:
        self._write(self._real.put_if_absent, location, data)


class TestASchemaThatChangedAfterTheLastSnapshot:
    @pytest.fixture
    def place(self, table: Any) -> str:
        table.append(people(5, 40))
        with table.update_schema() as update:
            update.rename_column("name", "called")
            update.add_column("note", types.StringType())
        return str(table.metadata_location)

    def test_is_a_version_of_its_own(self, tmp_path: Path, place: str, opened: Any, difference: Difference) -> None:
        source = opened(place)
        result = replay(source, tmp_path / "target", "delta", former_names="rewrite")
        ids = [snapshot for snapshot, _ in result.commits]
        assert ids[-1] == ids[-2] == source.snapshot.snapshot_id
        before, after = delta_at(result.target, len(ids) - 2), delta_at(result.target, len(ids) - 1)
        assert before.column_names == ["id", "name"]
        assert after.column_names == ["id", "called", "note"]
        assert after["note"].null_count == after.num_rows
        assert not difference(after.drop_columns(["note"]).rename_columns(["id", "name"]), before)
        newest = opened(result.target).snapshot
        assert not newest.changes(newest.version).adds.num_rows
        assert verify(source, opened(result.target), rows=True).equal
        assert replay(opened(place), tmp_path / "target", "delta", former_names="rewrite").already_current

    def test_is_what_an_interrupted_replay_goes_on_with(self, tmp_path: Path, place: str, opened: Any) -> None:
        whole = replay(opened(place), tmp_path / "whole", "delta", former_names="rewrite")
        target, stood = tmp_path / "target", set()
        for fails_at in range(100):
            try:
                source = opened(place, storage=FullDisk(fails_at, StorageError("disk full")))
                replay(source, target, "delta", former_names="rewrite")
            except (StorageError, CommitStateUnknown):
                versions = len(list((target / "_delta_log").glob("*.json")))
                result = replay(opened(place), target, "delta", former_names="rewrite")
                assert result.already_current or len(result.commits) + versions == len(whole.commits)
                assert opened(target).snapshot.version == len(whole.commits) - 1
                assert verify(opened(place), opened(target), rows=True).equal
                stood.add(versions)
                shutil.rmtree(target)
            else:
                shutil.rmtree(target)
                if fails_at > 20:
                    break
        assert stood >= {0, 1, 2}


class TestAnInterruptedReplay:
    @pytest.fixture
    def place(self, table: Any, delete_from_iceberg: Any) -> str:
        with table.update_schema() as update:
            update.rename_column("name", "called")
        table.append(people(5, 40).rename_columns(["id", "called"]))
        return str(delete_from_iceberg(table.metadata_location, {0: [1], 1: [2]}))

    @pytest.mark.parametrize("done", [False, True], ids=["before", "after"])
    def test_goes_on_where_the_machine_died(
        self, tmp_path: Path, place: str, opened: Any, difference: Difference, done: bool
    ) -> None:
        target = tmp_path / "target"
        resumed = 0
        for dies_at in range(100):
            try:
                replay(
                    opened(place, storage=KillingStorage(dies_at, done=done)), target, "delta", former_names="rewrite"
                )
            except Killed:
                pass
            else:
                break
            versions = len(list((target / "_delta_log").glob("*.json")))
            result = replay(opened(place), target, "delta", former_names="rewrite")
            assert len(result.commits) + versions == 3
            resumed += 0 < versions < 3
            assert_equal_at_every_version(result, place, difference)
            assert verify(opened(place), opened(target), rows=True).equal
            assert replay(opened(place), target, "delta", former_names="rewrite").already_current
            shutil.rmtree(target)
        assert dies_at > 6
        assert resumed >= 2

    @pytest.mark.parametrize("trouble", [StorageError("disk full"), KeyboardInterrupt()], ids=["disk", "interrupt"])
    def test_keeps_the_versions_that_others_can_see_and_goes_on(
        self, tmp_path: Path, place: str, opened: Any, difference: Difference, trouble: BaseException
    ) -> None:
        """Before the first version nothing is left; behind it every version stands, with its rows."""
        target = tmp_path / "target"
        whole = replay(opened(place), tmp_path / "whole", "delta", former_names="rewrite")
        wanted = [delta_at(whole.target, version) for _, version in whole.commits]
        stood = set()
        for fails_at in range(100):
            try:
                source = opened(place, storage=FullDisk(fails_at, trouble))
                replay(source, target, "delta", former_names="rewrite")
            except (StorageError, CommitStateUnknown, KeyboardInterrupt) as error:
                versions = len(list((target / "_delta_log").glob("*.json")))
                if not versions and not isinstance(error, CommitStateUnknown):
                    assert not target.exists()
                for version in range(versions):
                    assert not difference(delta_at(target, version), wanted[version])
                stood.add(versions)
                result = replay(opened(place), target, "delta", former_names="rewrite")
                assert len(result.commits) + versions == 3 or (result.already_current and versions == 3)
                assert not difference(delta_at(target, 2), wanted[2])
                assert verify(opened(place), opened(target), rows=True).equal
                shutil.rmtree(target)
            else:
                shutil.rmtree(target)
                if fails_at > 20:
                    break
        assert stood >= {0, 1, 2}

    def test_does_not_delete_what_somebody_else_has_built_on(self, tmp_path: Path, place: str, opened: Any) -> None:
        target = tmp_path / "target"

        class Neighbour(KillingStorage):
            def put_if_absent(self, location: str, data: bytes) -> None:
                if location.endswith(f"{1:020}.json"):
                    self._real.put_if_absent(location, b'{"txn":{"appId":"theirs","version":1}}\n')
                self._real.put_if_absent(location, data)

        with pytest.raises(Conflict):
            replay(opened(place, storage=Neighbour(1000, done=True)), target, "delta", former_names="rewrite")
        assert delta_at(target, 1).num_rows == 5
        with pytest.raises(Conflict, match="somebody else has committed"):
            replay(opened(place), target, "delta", former_names="rewrite")

    def test_of_another_state_of_the_source_is_not_gone_on_with(self, tmp_path: Path, table: Any, opened: Any) -> None:
        replay(opened(table.metadata_location), tmp_path / "target", "delta")
        table.append(people(9, 1))
        with pytest.raises(Conflict, match="it is behind; bring it up to date with deltaberg sync"):
            replay(opened(table.metadata_location), tmp_path / "target", "delta")


class TestDeltaToIceberg:
    @pytest.mark.parametrize("format_version", [2, 3])
    def test_every_version_is_a_snapshot(
        self,
        tmp_path: Path,
        write_delta: Any,
        delete_from_delta: Any,
        opened: Any,
        difference: Difference,
        format_version: int,
    ) -> None:
        folder = write_delta(people(0, 5))
        write_delta(people(5, 3), folder)
        deltalake.DeltaTable(str(folder)).optimize.compact()
        write_delta(people(8, 4), folder)
        delete_from_delta(folder, {0: [1]})
        wanted = {version: delta_at(folder, version) for version in range(5)}
        done = replay(opened(folder), tmp_path / "target", "iceberg", format_version=format_version)
        assert [version for version, _ in done.commits] == [0, 1, 2, 3, 4]
        for version, snapshot_id in done.commits:
            found = difference(iceberg_at(done.target_metadata, snapshot_id), wanted[version])
            assert not found, f"version {version}: {found}"
        metadata = Table.open(done.target, open_storage()).metadata
        assert [each.operation for each in metadata.snapshots] == ["append", "append", "replace", "append", "delete"]
        assert [each.parent_snapshot_id for each in metadata.snapshots] == [
            None,
            *(each for _, each in done.commits[:-1]),
        ]
        assert verify(opened(folder), opened(done.target), rows=True, bounds=True).equal
        assert replay(opened(folder), tmp_path / "target", "iceberg", format_version=format_version).already_current

    def test_timestamps_and_positions_are_those_of_the_versions(
        self, tmp_path: Path, write_delta: Any, opened: Any
    ) -> None:
        folder = write_delta(people(0, 5))
        write_delta(people(5, 3), folder)
        done = replay(opened(folder), tmp_path / "target", "iceberg")
        snapshots = Table.open(done.target, open_storage()).metadata.snapshots
        history = DeltaTable.open(str(folder), open_storage()).history()
        assert sorted(each.timestamp_ms for each in snapshots) == sorted(each.timestamp_ms for each in history)
        positions = [Watermark.from_properties(each.summary) for each in snapshots]
        assert [each.version for each in positions if each is not None] == [0, 1]

    def test_columns_come_and_rows_are_replaced(
        self, tmp_path: Path, write_delta: Any, opened: Any, difference: Difference
    ) -> None:
        folder = write_delta(people(0, 5))
        write_delta(people(5, 2, age=pa.array([1.5, None])), folder, schema_mode="merge")
        write_delta(people(90, 2, age=pa.array([2.5, 3.5])), folder, mode="overwrite")
        done = replay(opened(folder), tmp_path / "target", "iceberg")
        for version, snapshot_id in done.commits:
            found = difference(iceberg_at(done.target_metadata, snapshot_id), delta_at(folder, version))
            assert not found, f"version {version}: {found}"
        assert iceberg_at(done.target_metadata, done.commits[0][1]).column_names == ["id", "name"]

    def test_partitioned_rows_that_move(
        self, tmp_path: Path, write_delta: Any, opened: Any, difference: Difference
    ) -> None:
        folder = write_delta(people(0, 6), partition_by=["name"])
        deltalake.DeltaTable(str(folder)).delete("id = 1")
        write_delta(people(6, 3), folder, partition_by=["name"])
        done = replay(opened(folder), tmp_path / "target", "iceberg")
        for version, snapshot_id in done.commits:
            found = difference(iceberg_at(done.target_metadata, snapshot_id), delta_at(folder, version))
            assert not found, f"version {version}: {found}"

    def test_history_starts_at_the_oldest_whole_version(
        self, tmp_path: Path, write_delta: Any, opened: Any, difference: Difference
    ) -> None:
        folder = write_delta(people(0, 5))
        write_delta(people(5, 3), folder)
        deltalake.DeltaTable(str(folder)).create_checkpoint()
        write_delta(people(8, 1), folder)
        (folder / "_delta_log" / f"{0:020}.json").unlink()
        done = replay(opened(folder), tmp_path / "target", "iceberg")
        assert [version for version, _ in done.commits] == [1, 2]
        assert [each.what for each in done.plan.items if each.code == "history-truncated"] == ["version 1"]
        for version, snapshot_id in done.commits:
            assert not difference(iceberg_at(done.target_metadata, snapshot_id), delta_at(folder, version))

    @pytest.mark.parametrize(
        ("format_version", "versions", "rewritten"), [(None, [0, 1, 2], 0), (3, [0, 1, 2], 0), (2, [2], 1)]
    )
    def test_a_date_that_became_a_timestamp(
        self,
        tmp_path: Path,
        write_delta: Any,
        opened: Any,
        format_version: int | None,
        versions: list[int],
        rewritten: int,
    ) -> None:
        """Iceberg allows it from version 3 on; below, history begins with the change."""
        days = pa.array([dt.date(2024, 2, 29), None])
        folder = write_delta(pa.table({"id": [1, 2], "at": days}))
        write_delta(pa.table({"id": [3], "at": pa.array([dt.date(1900, 1, 1)])}), folder)
        snapshot = DeltaTable.open(str(folder), open_storage()).snapshot()
        fields = [
            replace(field, type=TimestampNtzType(), metadata=CHANGED) if field.name == "at" else field
            for field in snapshot.metadata.schema.fields
        ]
        configuration = {**snapshot.metadata.configuration, "delta.enableTypeWidening": "true"}
        transaction = begin_transaction(snapshot)
        schema = replace(snapshot.metadata.schema, fields=tuple(fields))
        text = json.dumps(type_to_json(schema))
        transaction.set_metadata(
            replace(snapshot.metadata, schema=schema, schema_string=text, configuration=configuration)
        )
        transaction.commit("CHANGE COLUMN")
        options = {} if format_version is None else {"format_version": format_version}
        done = replay(opened(folder), tmp_path / "target", "iceberg", **options)
        assert [version for version, _ in done.commits] == versions
        assert done.plan.target["format_version"] == (format_version or 3)
        assert done.rewritten_files == 2 * rewritten
        snapshots = Table.open(done.target, open_storage()).metadata.snapshots
        assert len({each.schema_id for each in snapshots}) == len(versions) - (len(versions) > 1)
        report = verify(opened(folder), opened(done.target), rows=True)
        assert report.equal, report.to_json()

    @pytest.mark.parametrize("done", [False, True], ids=["before", "after"])
    def test_is_whole_or_not_there_when_the_machine_dies(
        self,
        tmp_path: Path,
        write_delta: Any,
        delete_from_delta: Any,
        opened: Any,
        difference: Difference,
        done: bool,
    ) -> None:
        """All snapshots become visible at once, so that a rerun begins anew or has nothing to do."""
        folder, target = write_delta(people(0, 5)), tmp_path / "target"
        write_delta(people(5, 3), folder)
        delete_from_delta(folder, {0: [1]})
        begun_anew = 0
        for dies_at in range(100):
            source = opened(folder, storage=KillingStorage(dies_at, done=done))
            try:
                replay(source, target, "iceberg")
            except Killed:
                pass
            else:
                break
            again = replay(opened(folder), target, "iceberg")
            begun_anew += not again.already_current
            for version, snapshot_id in again.commits:
                found = difference(iceberg_at(again.target_metadata, snapshot_id), delta_at(folder, version))
                assert not found, f"write {dies_at}, version {version}: {found}"
            assert verify(opened(folder), opened(target), rows=True).equal
            assert replay(opened(folder), target, "iceberg").already_current
            shutil.rmtree(target)
        assert dies_at > 8
        assert begun_anew >= dies_at - 2

    def test_nothing_is_left_where_a_write_fails(
        self, tmp_path: Path, write_delta: Any, delete_from_delta: Any, opened: Any
    ) -> None:
        folder = write_delta(people(0, 5))
        write_delta(people(5, 3), folder)
        delete_from_delta(folder, {0: [1]})

        failed = 0
        for fails_at in range(100):
            try:
                replay(
                    opened(folder, storage=FullDisk(fails_at, StorageError("disk full"))),
                    tmp_path / "target",
                    "iceberg",
                )
            except StorageError:
                failed += 1
                assert not (tmp_path / "target").exists()
            else:
                break
        assert failed >= 2
