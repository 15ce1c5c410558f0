"""``sync`` of an Iceberg table: each snapshot becomes one version with the rows that the table had then, whoever wrote it."""

from __future__ import annotations

import json
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from deltaberg.delta.table import DeltaTable
from deltaberg.errors import Conflict
from deltaberg.iceberg.create_table import create_table
from deltaberg.iceberg.partition.partition_spec import UNPARTITIONED
from deltaberg.iceberg.schema.schema import Schema as IcebergSchema
from deltaberg.iceberg.schema.types import LongType, NestedField
from deltaberg.iceberg.table import Table
from deltaberg.migrate.refusal import Refused
from deltaberg.migrate.source import TableFormat, open_source
from deltaberg.migrate.sync import SyncResult, sync
from deltaberg.migrate.verify.verify import verify
from deltaberg.storage import open_storage

pytest.importorskip("pyiceberg")
deltalake = pytest.importorskip("deltalake")

from pyiceberg import types  # noqa: E402
from pyiceberg.catalog.sql import SqlCatalog  # noqa: E402
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionField, PartitionSpec  # noqa: E402
from pyiceberg.schema import Schema  # noqa: E402
from pyiceberg.transforms import IdentityTransform  # noqa: E402

Difference = Callable[..., str]
SCHEMA = Schema(
    types.NestedField(1, "id", types.IntegerType()),
    types.NestedField(2, "p", types.StringType()),
    types.NestedField(3, "v", types.DoubleType()),
)
BY_P = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "p"))


def rows(first: int, count: int = 4, **more: Any) -> pa.Table:
    """``id``, a partition ``p`` and a value, from ``first`` on."""
    numbers = range(first, first + count)
    made = pa.table(
        {
            "id": pa.array(numbers, pa.int32()),
            "p": [f"p {number % 3}" for number in numbers],
            "v": [None if number % 5 == 4 else number / 2 for number in numbers],
        }
    )
    for name, value in more.items():
        made = made.append_column(name, pa.array([value] * count))
    return made


@contextmanager
def iceberg_table(folder: Path, *, partitioned: bool = True, format_version: int = 2) -> Iterator[Any]:
    catalog = SqlCatalog("t", uri=f"sqlite:///{folder}/c.db", warehouse=f"file://{folder}/warehouse")
    try:
        catalog.create_namespace("n")
        yield catalog.create_table(
            "n.t",
            schema=SCHEMA,
            partition_spec=BY_P if partitioned else UNPARTITIONED_PARTITION_SPEC,
            properties={"format-version": str(format_version), "commit.manifest.min-count-to-merge": "2"},
        )
    finally:
        catalog.close()


@pytest.fixture
def table(tmp_path: Path) -> Iterator[Any]:
    """A partitioned table of one snapshot; its target is ``target`` beside it."""
    with iceberg_table(tmp_path) as made:
        made.append(rows(0))
        assert synced(made.metadata_location, tmp_path).created
        yield made


def synced(place: str, folder: Path, **chosen: Any) -> SyncResult:
    source = open_source(place, open_storage(), format=TableFormat.ICEBERG)
    return sync(source, to="delta", target=f"{folder}/target", **chosen)


def delta_at(folder: Path, version: int) -> pa.Table:
    """What delta-rs reads."""
    table = deltalake.DeltaTable(f"{folder}/target", version=version)
    return pa.table(deltalake.QueryBuilder().register("t", table).execute("SELECT * FROM t").read_all())


def assert_every_version_is_equal(table: Any, folder: Path, done: SyncResult, difference: Difference) -> None:
    for snapshot_id, version in done.commits:
        # A schema that was changed after the newest snapshot is a version of its own.
        is_head = (snapshot_id, version) == done.commits[-1]
        scan = table.scan() if is_head else table.scan(snapshot_id=snapshot_id)
        found = difference(delta_at(folder, version), scan.to_arrow_batch_reader().read_all())
        assert not found, f"version {version}: {found}"


def actions(folder: Path, version: int) -> list[str]:
    """The names of the actions of a commit file."""
    text = (folder / "target" / "_delta_log" / f"{version:020}.json").read_text()
    return [next(iter(json.loads(line))) for line in text.splitlines()]


def test_each_snapshot_is_one_version_and_a_second_sync_does_nothing(
    table: Any, tmp_path: Path, difference: Difference
) -> None:
    table.append(rows(10))
    table.delete("id = 10")
    table.append(rows(20))
    done = synced(table.metadata_location, tmp_path)
    assert [source for source, _ in done.commits] == [each.snapshot_id for each in table.metadata.snapshots[1:]]
    assert [version for _, version in done.commits] == [1, 2, 3]
    assert_every_version_is_equal(table, tmp_path, done, difference)
    again = synced(table.metadata_location, tmp_path)
    assert (again.commits, again.before, again.watermark) == ((), done.watermark, done.watermark)
    report = verify(
        open_source(table.metadata_location, open_storage()),
        open_source(done.target, open_storage()),
        rows=True,
        bounds=True,
    )
    assert report.equal, report.to_json()


def test_a_commit_that_changes_only_data_has_no_metadata_action(table: Any, tmp_path: Path) -> None:
    table.append(rows(10))
    table.delete("id = 10")
    synced(table.metadata_location, tmp_path)
    assert "metaData" not in actions(tmp_path, 1) + actions(tmp_path, 2)
    assert "protocol" not in actions(tmp_path, 1) + actions(tmp_path, 2)
    assert actions(tmp_path, 1).count("txn") == actions(tmp_path, 2).count("txn") == 1


def test_squashed_snapshots_are_one_version(table: Any, tmp_path: Path, difference: Difference) -> None:
    table.append(rows(10))
    table.delete("p = 'p 1'")
    table.append(rows(20))
    done = synced(table.metadata_location, tmp_path, squash=True)
    assert [version for _, version in done.commits] == [1]
    assert_every_version_is_equal(table, tmp_path, done, difference)


@pytest.mark.parametrize("format_version", [2, 3])
def test_deleted_rows_are_exchanged_and_taken_back(
    tmp_path: Path, delete_from_iceberg: Any, difference: Difference, format_version: int
) -> None:
    """Position delete files or vectors: the first deletes of a table, more of them, and a rollback to before."""
    with iceberg_table(tmp_path, partitioned=False) as table:
        table.append(rows(0))
        table.append(rows(10))
        place = table.metadata_location
        if format_version == 3:
            with Table.of_catalog(OneFile(place), open_storage()).transaction() as transaction:
                place = transaction.upgrade(3).commit().metadata_location
        synced(place, tmp_path)
        first = delete_from_iceberg(place, {0: [0, 2]})
        second = delete_from_iceberg(first, {1: [3]})
        for step, left in ((first, 6), (second, 5)):
            done = synced(step, tmp_path)
            source = open_source(step, open_storage())
            assert verify(source, open_source(done.target, open_storage()), rows=True).equal
            assert delta_at(tmp_path, done.commits[-1][1]).num_rows == left
        assert "metaData" in actions(tmp_path, 1), "vectors are switched on with the first deletes"
        assert "metaData" not in actions(tmp_path, 2)
        back = Table.of_catalog(OneFile(second), open_storage())
        with back.transaction() as transaction:
            snapshot = back.metadata.current_snapshot
            assert snapshot is not None
            assert snapshot.parent_snapshot_id is not None
            place = transaction.rollback_to(snapshot.parent_snapshot_id).commit().metadata_location
        done = synced(place, tmp_path)
        assert [source for source, _ in done.commits] == [snapshot.parent_snapshot_id]
        assert delta_at(tmp_path, done.commits[-1][1]).num_rows == 6


@pytest.mark.parametrize("tracked", [True, False])
def test_row_ids_are_carried_where_the_target_has_them(tmp_path: Path, write_iceberg_file: Any, tracked: bool) -> None:
    """A target made before the source was upgraded to version 3 has none, and gets none."""
    root = str(tmp_path / "iceberg")
    schema = IcebergSchema(schema_id=0, fields=(NestedField(field_id=1, name="id", required=False, type=LongType()),))
    with create_table(open_storage(), root, schema=schema, format_version=3 if tracked else 2) as transaction:
        transaction.commit()
    append(root, write_iceberg_file, schema, [1, 2])
    synced(root, tmp_path)
    if not tracked:
        with Table.open(root, open_storage()).transaction() as transaction:
            transaction.upgrade(3).commit()
    append(root, write_iceberg_file, schema, [3, 4, 5])
    append(root, write_iceberg_file, schema, [6])
    done = synced(root, tmp_path)
    source, target = open_source(root, open_storage()), open_source(done.target, open_storage())
    assert verify(source, target, rows=True).equal
    snapshot = DeltaTable.open(done.target, open_storage()).snapshot()
    adds = pa.Table.from_batches(snapshot.add_files())
    assert sorted(adds["base_row_id"].to_pylist(), key=str) == ([0, 2, 5] if tracked else [None, None, None])


def append(root: str, write: Any, schema: IcebergSchema, ids: list[int]) -> None:
    entry = write(root, schema, pa.table({"id": pa.array(ids, pa.int64())}), UNPARTITIONED)
    with Table.open(root, open_storage()).transaction() as transaction:
        transaction.snapshot("append").add_files(entry)
        transaction.commit()


class OneFile:
    """A catalog of the one table whose metadata file is ``place``."""

    def __init__(self, place: str) -> None:
        self.place = place

    def current(self) -> str:
        return self.place

    def commit(self, commit: Any) -> str:
        self.place = commit.location
        return self.place


def test_columns_come_and_types_widen(table: Any, tmp_path: Path, difference: Difference) -> None:
    with table.update_schema() as update:
        update.add_column("extra", types.StringType())
    table.append(rows(10, extra="new"))
    with table.update_schema() as update:
        update.update_column("id", types.LongType())
    table.append(rows(20, extra="newer"))
    done = synced(table.metadata_location, tmp_path)
    for snapshot_id, version in done.commits:
        got = pa.table(open_rows(f"{tmp_path}/target", version))
        wanted = table.scan(snapshot_id=snapshot_id).to_arrow_batch_reader().read_all()
        assert not difference(got, wanted), difference(got, wanted)
    metadata = [version for _, version in done.commits if "metaData" in actions(tmp_path, version)]
    assert len(metadata) == 2


def open_rows(folder: str, version: int) -> pa.Table:
    """What deltaberg reads: delta-rs refuses tables with widened types."""
    from deltaberg.delta.scan import scan

    source = open_source(folder, open_storage(), version=version)
    found = scan(source.snapshot)  # type: ignore[arg-type]
    return pa.Table.from_batches(found.batches(), schema=found.schema)


def test_a_schema_that_changed_without_a_snapshot_is_a_version(table: Any, tmp_path: Path) -> None:
    with table.update_schema() as update:
        update.add_column("extra", types.StringType())
    done = synced(table.metadata_location, tmp_path)
    assert [version for _, version in done.commits] == [1]
    assert delta_at(tmp_path, 1).column_names == ["id", "p", "v", "extra"]
    assert synced(table.metadata_location, tmp_path).commits == ()


def test_changed_properties_are_a_version(table: Any, tmp_path: Path) -> None:
    with table.transaction() as transaction:
        transaction.set_properties({"team": "a"})
    done = synced(table.metadata_location, tmp_path)
    held = deltalake.DeltaTable(done.target).metadata().configuration
    assert held["iceberg.team"] == "a"
    with table.transaction() as transaction:
        transaction.remove_properties("team")
    synced(table.metadata_location, tmp_path)
    assert "iceberg.team" not in deltalake.DeltaTable(done.target).metadata().configuration
    assert synced(table.metadata_location, tmp_path).commits == ()


def test_a_renamed_column_with_new_files_is_refused_and_nothing_is_written(table: Any, tmp_path: Path) -> None:
    with table.update_schema() as update:
        update.rename_column("v", "w")
    table.append(rows(10).rename_columns(["id", "p", "w"]))
    with pytest.raises(Refused, match="former-names: w"):
        synced(table.metadata_location, tmp_path)
    assert not (tmp_path / "target" / "_delta_log" / f"{1:020}.json").exists()


def test_files_without_a_value_for_the_targets_partition_column_are_refused(table: Any, tmp_path: Path) -> None:
    with table.update_spec() as update:
        update.remove_field("p")
    table.append(rows(10))
    with pytest.raises(Refused, match=r"change-not-followed: partition columns: .*the target is partitioned by p"):
        synced(table.metadata_location, tmp_path)


def test_an_expired_watermark_is_a_conflict(table: Any, tmp_path: Path) -> None:
    table.append(rows(10))
    with Table.of_catalog(OneFile(table.metadata_location), open_storage()).transaction() as transaction:
        first = table.metadata.snapshots[0].snapshot_id
        place = transaction.remove_snapshots([first]).commit().metadata_location
    with pytest.raises(Conflict, match=f"snapshot {first} .*has expired"):
        synced(place, tmp_path)


def test_somebody_elses_commit_to_the_target_is_a_conflict_and_a_vacuum_is_not(table: Any, tmp_path: Path) -> None:
    target = deltalake.DeltaTable(f"{tmp_path}/target")
    log = tmp_path / "target" / "_delta_log"
    (log / f"{1:020}.json").write_text(json.dumps({"commitInfo": {"operation": "VACUUM START", "timestamp": 1}}))
    table.append(rows(10))
    assert [version for _, version in synced(table.metadata_location, tmp_path).commits] == [2]
    add = json.loads((log / f"{0:020}.json").read_text().splitlines()[-1])
    (log / f"{3:020}.json").write_text(
        json.dumps({"commitInfo": {"operation": "WRITE", "timestamp": 1}}) + "\n" + json.dumps(add)
    )
    table.append(rows(20))
    with pytest.raises(Conflict, match="somebody else has committed to it"):
        synced(table.metadata_location, tmp_path)
    assert target.version() == 0


OPERATIONS = (
    "append",
    "merge manifests",
    "delete",
    "delete partition",
    "overwrite",
    "add column",
    "roll back",
    "branch",
)


@pytest.mark.filterwarnings("ignore:Delete operation did not match any records:UserWarning")
@settings(
    max_examples=6,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    steps=st.lists(st.tuples(st.sampled_from(OPERATIONS), st.booleans()), min_size=2, max_size=6),
    partitioned=st.booleans(),
)
def test_any_sequence_of_operations_is_followed(
    steps: list[tuple[str, bool]], partitioned: bool, difference: Difference
) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        with iceberg_table(folder, partitioned=partitioned) as table:
            table.append(rows(0, 12))
            synced(table.metadata_location, folder)
            for number, (operation, now) in enumerate(steps):
                apply(table, operation, number)
                if now:
                    done = synced(table.metadata_location, folder)
                    assert_every_version_is_equal(table, folder, done, difference)
            done = synced(table.metadata_location, folder)
            assert_every_version_is_equal(table, folder, done, difference)
            source = open_source(table.metadata_location, open_storage())
            report = verify(source, open_source(done.target, open_storage()), rows=True, bounds=True)
            assert report.equal, report.to_json()


def apply(table: Any, operation: str, number: int) -> None:
    """One or two commits by PyIceberg."""
    more = {field.name: None for field in table.schema().fields[3:]}
    made = rows(100 + 10 * number, **{name: pa.scalar(None, pa.string()) for name in more})
    match operation:
        case "append" | "merge manifests":
            table.append(made)
        case "delete" | "delete partition":
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # there may be no such row
                partition = f"p = 'p {number % 3}'"
                table.delete(partition if "partition" in operation else f"id > {3 * number} and id < {3 * number + 3}")
        case "overwrite":
            table.overwrite(made, overwrite_filter=f"p = 'p {number % 3}'")
        case "add column":
            with table.update_schema() as update:
                update.add_column(f"c{number}", types.StringType())
        case "roll back":
            parent = table.current_snapshot().parent_snapshot_id
            if parent is not None:
                table.manage_snapshots().rollback_to_snapshot(parent).commit()
        case "branch":
            table.manage_snapshots().create_branch(table.current_snapshot().snapshot_id, f"b{number}").commit()
