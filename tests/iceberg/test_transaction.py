"""Transactions: changes become visible together or not at all, survive conflicts that do not matter, and leave no
files behind when they fail."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg.iceberg.create_table import create_table
from deltaberg.iceberg.errors import (
    IcebergCommitStateUnknown,
    IcebergConflict,
    InvalidIcebergRequest,
    UnsupportedIcebergFeature,
)
from deltaberg.iceberg.manifest.live_files import data_files as live_data_files
from deltaberg.iceberg.manifest.manifest_list import read_manifest_list
from deltaberg.iceberg.metadata.snapshot_ref import RefType
from deltaberg.iceberg.metadata.table_requirement import AssertProperty
from deltaberg.iceberg.partition.partition_spec import PartitionField, PartitionSpec
from deltaberg.iceberg.partition.sort_order import NullOrder, SortDirection, SortField, SortOrder
from deltaberg.iceberg.partition.transforms import IdentityTransform
from deltaberg.iceberg.runtime import Runtime
from deltaberg.iceberg.scan.scan import scan
from deltaberg.iceberg.schema.schema import Schema
from deltaberg.iceberg.schema.types import LongType, NestedField, StringType
from deltaberg.iceberg.table import Table
from deltaberg.storage import FileInfo, Storage, StorageError, open_storage

SCHEMA = Schema(
    schema_id=0,
    fields=(
        NestedField(field_id=1, name="id", required=False, type=LongType()),
        NestedField(field_id=2, name="s", required=False, type=StringType()),
    ),
)


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "s": [f"s{each}" for each in ids]})


def ids_of(table: Table) -> list[int]:
    return sorted(pa.Table.from_batches(scan(table).batches(), scan(table).schema)["id"].to_pylist())


def metadata_files(table: Table) -> list[str]:
    return sorted(path.name for path in (Path(table.location) / "metadata").iterdir())


class Outside:
    """A clock that only moves when it is waited on, and predictable UUIDs."""

    def __init__(self) -> None:
        self.time = 1_600_000_000_000
        self.waited: list[float] = []
        self._numbers = itertools.count(1)

    def wait(self, duration: float) -> None:
        self.waited.append(duration)
        self.time += int(duration)

    @property
    def runtime(self) -> Runtime:
        return Runtime(
            now_ms=lambda: self.time,
            new_uuid=lambda: f"00000000-0000-4000-8000-{next(self._numbers):012}",
            wait_ms=self.wait,
        )


@pytest.fixture
def outside() -> Outside:
    return Outside()


@pytest.fixture
def table(tmp_path: Path, outside: Outside) -> Table:
    """An empty version 2 table."""
    return create_table(open_storage(), str(tmp_path / "table"), schema=SCHEMA, runtime=outside.runtime).commit()


class Meddling:
    """Storage whose ``put_if_absent`` does something else first, or instead."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self.before: Callable[[str], object] = lambda location: None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._storage, name)

    def resolve(self, location: str) -> str:
        return self._storage.resolve(location)

    def get(self, location: str) -> bytes:
        return self._storage.get(location)

    def list(self, folder: str, *, start_after: str | None = None, recursive: bool = False) -> Iterator[FileInfo]:
        return self._storage.list(folder, start_after=start_after, recursive=recursive)

    def create(self, location: str, *, durable: bool = False) -> AbstractContextManager[pa.NativeFile]:
        return self._storage.create(location, durable=durable)

    def put_if_absent(self, location: str, data: bytes) -> None:
        self.before(location)
        self._storage.put_if_absent(location, data)


def test_the_first_commit_makes_the_table(table: Table) -> None:
    assert metadata_files(table) == ["v1.metadata.json", "version-hint.text"]
    assert (Path(table.location) / "metadata" / "version-hint.text").read_text() == "1"
    assert Table.open(table.location, open_storage()).metadata == table.metadata
    assert table.metadata.last_updated_ms == 1_600_000_000_000


def test_several_changes_are_one_commit(table: Table, data_files: Any, outside: Outside) -> None:
    transaction = table.transaction(outside.runtime)
    transaction.set_properties({"a": "b", "c": "d"}, remove=["c"])
    transaction.update_schema(lambda update: update.add_column("x", LongType()))
    builder = transaction.snapshot("append")
    builder.add_files(data_files.write(SCHEMA, rows(1, 2)))
    transaction.set_ref("kept", builder.snapshot_id, type=RefType.TAG, max_ref_age_ms=5)
    after = transaction.commit()
    assert after.metadata_location.endswith("v2.metadata.json")
    assert after.metadata.properties == {"a": "b"}
    assert after.metadata.ref("kept").snapshot_id == after.metadata.current_snapshot_id == builder.snapshot_id
    assert after.metadata.current_snapshot is not None
    assert after.metadata.current_snapshot.schema_id == 1
    assert ids_of(after) == [1, 2]
    assert [entry.metadata_file for entry in after.metadata.metadata_log] == [table.metadata_location]


def test_nothing_is_visible_before_the_commit_and_nothing_stays_without_one(table: Table, data_files: Any) -> None:
    with table.transaction() as transaction:
        transaction.snapshot("append").add_files(data_files.write(SCHEMA, rows(1)))
        assert len(metadata_files(table)) == 3
        assert table.refresh().metadata == table.metadata
    assert metadata_files(table) == ["v1.metadata.json", "version-hint.text"]
    with pytest.raises(InvalidIcebergRequest, match="the transaction has ended"):
        transaction.commit()


def test_a_transaction_without_changes_commits_nothing(table: Table) -> None:
    assert table.transaction().commit() is table


def test_an_append_is_repeated_on_top_of_what_others_committed(table: Table, data_files: Any, outside: Outside) -> None:
    mine = table.transaction(outside.runtime)
    mine.snapshot("append").add_files(data_files.write(SCHEMA, rows(1)))
    other = table.transaction()
    other.snapshot("append").add_files(data_files.write(SCHEMA, rows(2)))
    other.set_properties({"theirs": "kept"}).commit()
    after = mine.commit()
    assert after.metadata_location.endswith("v3.metadata.json")
    assert ids_of(after) == [1, 2]
    assert after.metadata.properties == {"theirs": "kept"}
    assert [snapshot.sequence_number for snapshot in after.metadata.snapshots] == [1, 2]
    assert len(outside.waited) == 1
    manifests = read_manifest_list(after.storage, after.metadata.snapshots[1], after.metadata)
    assert [manifest.sequence_number for manifest in manifests] == [2, 1]
    # One manifest each, and only the list of the attempt that succeeded.
    assert len([name for name in metadata_files(after) if name.endswith(".avro")]) == 4


def test_writers_at_the_same_time_all_get_through(table: Table, data_files: Any) -> None:
    properties = {"commit.retry.num-retries": "100", "commit.retry.min-wait-ms": "1", "commit.retry.max-wait-ms": "20"}
    table = table.transaction().set_properties(properties).commit()
    batches = [[data_files.write(SCHEMA, rows(10 * writer + turn)) for turn in range(3)] for writer in range(4)]

    def write(mine: list[pa.RecordBatch]) -> None:
        for batch in mine:
            transaction = Table.open(table.location, open_storage()).transaction()
            transaction.snapshot("append").add_files(batch)
            transaction.commit()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, batches))
    after = table.refresh()
    assert ids_of(after) == sorted(10 * writer + turn for writer in range(4) for turn in range(3))
    assert [snapshot.sequence_number for snapshot in after.metadata.snapshots] == list(range(1, 13))
    lists = {Path(snapshot.manifest_list or "").name for snapshot in after.metadata.snapshots}
    assert {name for name in metadata_files(after) if name.startswith("snap-")} == lists


def test_a_conflict_that_never_ends_is_reported_and_cleaned_up(table: Table, data_files: Any, outside: Outside) -> None:
    table = table.transaction().set_properties({"commit.retry.num-retries": "2"}).commit()
    storage = Meddling(open_storage())
    meddled = Table.open(table.location, storage)  # type: ignore[arg-type]

    def be_faster(location: str) -> None:
        Table.open(table.location, open_storage()).transaction().set_properties({"n": location}).commit()

    storage.before = be_faster
    transaction = meddled.transaction(outside.runtime)
    transaction.snapshot("append").add_files(data_files.write(SCHEMA, rows(1)))
    with pytest.raises(IcebergConflict, match="another commit was faster") as caught:
        transaction.commit()
    assert caught.value.exit_code == 5
    assert len(outside.waited) == 2
    assert outside.waited[1] > 0
    assert not [name for name in metadata_files(table) if name.endswith(".avro")]


@pytest.mark.parametrize(
    ("mine", "theirs", "message"),
    [
        (
            lambda t: t.update_schema(lambda u: u.add_column("x", LongType())),
            lambda t: t.update_schema(lambda u: u.add_column("y", LongType())),
            "the current schema changed since the table was read",
        ),
        (
            lambda t: t.update_spec(lambda u: u.add_field("id")),
            lambda t: t.update_spec(lambda u: u.add_field("s")),
            "the last partition field id changed",
        ),
        (
            lambda t: t.require(AssertProperty(key="position", value=None)).set_properties({"a": "b"}),
            lambda t: t.set_properties({"position": "7"}),
            "property position changed since the table was read",
        ),
        (
            lambda t: t.set_properties({"a": "b"}),
            lambda t: t.upgrade(3),
            "the table's format version changed",
        ),
    ],
)
def test_a_change_that_depends_on_what_others_changed_is_a_conflict(
    table: Table, mine: Callable[[Any], object], theirs: Callable[[Any], object], message: str
) -> None:
    transaction = table.transaction(Runtime(wait_ms=lambda duration: None))
    mine(transaction)
    other = table.transaction()
    theirs(other)
    other.commit()
    with pytest.raises(IcebergConflict, match=message):
        transaction.commit()


def test_rewriting_over_another_overwrite_is_a_conflict_over_an_append_it_is_not(
    table: Table, data_files: Any, outside: Outside
) -> None:
    first = data_files.write(SCHEMA, rows(1))
    second = data_files.write(SCHEMA, rows(2))
    start = table.transaction()
    start.snapshot("append").add_files([first, second])
    table = start.commit()

    def replacing(batch: pa.RecordBatch, *ids: int) -> Any:
        transaction = table.transaction(outside.runtime)
        transaction.snapshot("overwrite").delete_files(batch).add_files(data_files.write(SCHEMA, rows(*ids)))
        return transaction

    over_append, over_overwrite = replacing(first, 10), replacing(second, 20)
    append = table.transaction()
    append.snapshot("append").add_files(data_files.write(SCHEMA, rows(3)))
    append.commit()
    assert ids_of(over_append.commit()) == [2, 3, 10]
    with pytest.raises(IcebergConflict, match=r"\(overwrite\) changed branch main meanwhile"):
        over_overwrite.commit()


def test_explicit_manifests_need_the_branch_where_it_was(table: Table, data_files: Any, outside: Outside) -> None:
    transaction = table.transaction(outside.runtime)
    transaction.snapshot("append").keep_manifests([]).add_files(data_files.write(SCHEMA, rows(1)))
    other = table.transaction()
    other.snapshot("append").add_files(data_files.write(SCHEMA, rows(2)))
    other.commit()
    with pytest.raises(IcebergConflict, match="branch main moved to snapshot"):
        transaction.commit()


@pytest.mark.parametrize("outcome", ["written", "taken", "lost", "remote"])
def test_a_write_that_reports_an_error_is_looked_into(
    table: Table, data_files: Any, outside: Outside, monkeypatch: pytest.MonkeyPatch, outcome: str
) -> None:
    storage = Meddling(open_storage())
    meddled = Table.open(table.location, storage)  # type: ignore[arg-type]
    real = open_storage()

    def fail(location: str, data: bytes) -> None:
        monkeypatch.undo()
        if outcome == "written":
            real.put_if_absent(location, data)
        if outcome == "taken":
            real.put_if_absent(
                location, json.dumps({**json.loads(table_text(table)), "properties": {"x": "y"}}).encode()
            )
        if outcome == "remote":
            monkeypatch.setattr(storage, "resolve", lambda location: f"s3://b{location}", raising=False)
        raise StorageError("Cannot write: the connection was reset")

    transaction = meddled.transaction(outside.runtime)
    transaction.snapshot("append").add_files(data_files.write(SCHEMA, rows(1)))
    monkeypatch.setattr(storage, "put_if_absent", fail, raising=False)
    if outcome == "written":
        assert ids_of(transaction.commit()) == [1]
    elif outcome == "taken":
        after = transaction.commit()
        assert after.metadata_location.endswith("v3.metadata.json")
        assert after.metadata.properties == {"x": "y"}
    elif outcome == "lost":
        with pytest.raises(StorageError, match="the connection was reset"):
            transaction.commit()
        assert not [name for name in metadata_files(table) if name.endswith(".avro")]
    else:
        with pytest.raises(IcebergCommitStateUnknown, match="Cannot tell whether the commit of"):
            transaction.commit()
        # Nobody may delete what the table may be using.
        assert len([name for name in metadata_files(table) if name.endswith(".avro")]) == 2


@pytest.mark.parametrize("written", [True, False])
def test_an_interruption_during_the_commit_deletes_what_is_certainly_not_committed(
    table: Table, data_files: Any, monkeypatch: pytest.MonkeyPatch, written: bool
) -> None:
    storage = Meddling(open_storage())
    meddled = Table.open(table.location, storage)  # type: ignore[arg-type]

    def interrupt(location: str, data: bytes) -> None:
        if written:
            open_storage().put_if_absent(location, data)
        raise KeyboardInterrupt

    transaction = meddled.transaction()
    transaction.snapshot("append").add_files(data_files.write(SCHEMA, rows(1)))
    monkeypatch.setattr(storage, "put_if_absent", interrupt, raising=False)
    with transaction, pytest.raises(KeyboardInterrupt):
        transaction.commit()
    assert len([name for name in metadata_files(table) if name.endswith(".avro")]) == (2 if written else 0)
    assert ids_of(table.refresh()) == ([1] if written else [])


def table_text(table: Table) -> str:
    return Path(table.metadata_location).read_text()


def test_a_table_of_a_catalog_is_not_committed_to_by_file(table: Table) -> None:
    location = f"{table.location}/metadata/00001-19739cda-f528-4429-84cc-377ffdd24c75.metadata.json"
    Path(location).write_text(table_text(table))
    opened = Table.open(location, open_storage())
    with pytest.raises(InvalidIcebergRequest, match="named by a catalog, which alone can commit"):
        opened.transaction().set_properties({"a": "b"}).commit()


def test_the_metadata_log_is_trimmed_and_its_files_deleted_on_request(table: Table) -> None:
    properties = {"write.metadata.previous-versions-max": "2"}
    table = table.transaction().set_properties(properties).commit()
    for number in range(3):
        table = table.transaction().set_properties({"n": str(number)}).commit()
    assert [entry.metadata_file.rpartition("/")[2] for entry in table.metadata.metadata_log] == [
        "v3.metadata.json",
        "v4.metadata.json",
    ]
    assert "v1.metadata.json" in metadata_files(table)
    table = table.transaction().set_properties({"write.metadata.delete-after-commit.enabled": "true"}).commit()
    table = table.transaction().set_properties({"n": "last"}).commit()
    assert [name for name in metadata_files(table) if name.startswith("v") and "hint" not in name] == [
        "v1.metadata.json",
        "v2.metadata.json",
        "v5.metadata.json",
        "v6.metadata.json",
        "v7.metadata.json",
    ]


def test_metadata_is_gzipped_on_request(table: Table) -> None:
    table = table.transaction().set_properties({"write.metadata.compression-codec": "gzip"}).commit()
    assert table.metadata_location.endswith("v2.gz.metadata.json")
    again = Table.open(table.location, open_storage())
    assert again.metadata == table.metadata
    plain = again.transaction().set_properties({"write.metadata.compression-codec": "none"}).commit()
    assert plain.metadata_location.endswith("v3.metadata.json")


def test_a_version_taken_under_its_gzipped_name_is_a_conflict(table: Table, outside: Outside) -> None:
    rival = Path(table.location) / "metadata" / "v2.gz.metadata.json"
    transaction = table.transaction(outside.runtime).set_properties({"a": "b"})
    rival.write_text(table_text(table))
    after = transaction.commit()
    assert after.metadata_location.endswith("v3.metadata.json")


@pytest.mark.parametrize(("codec", "magic"), [("uncompressed", "null"), ("zstd", "zstandard"), ("gzip", "deflate")])
def test_manifests_take_the_codec_of_the_table(table: Table, data_files: Any, codec: str, magic: str) -> None:
    table = table.transaction().set_properties({"write.manifest.compression-codec": codec}).commit()
    transaction = table.transaction()
    transaction.snapshot("append").add_files(data_files.write(SCHEMA, rows(1)))
    table = transaction.commit()
    written = list((Path(table.location) / "metadata").glob("*.avro"))
    assert len(written) == 2
    assert all(magic.encode() in path.read_bytes()[:20000] for path in written)
    assert ids_of(table) == [1]


def test_an_unknown_codec_is_refused(table: Table) -> None:
    table = table.transaction().set_properties({"write.manifest.compression-codec": "lzo"}).commit()
    with pytest.raises(UnsupportedIcebergFeature, match="expected gzip, zstd, snappy or uncompressed"):
        table.transaction().snapshot("append")


def test_branches_tags_and_rollback(table: Table, data_files: Any) -> None:
    for number in (1, 2, 3):
        transaction = table.transaction()
        transaction.snapshot("append", snapshot_id=number).add_files(data_files.write(SCHEMA, rows(number)))
        table = transaction.commit()
    table = table.transaction().set_ref("old", 1, type=RefType.TAG).set_ref("dev", 2, min_snapshots_to_keep=5).commit()
    transaction = table.transaction()
    transaction.snapshot("append", branch="dev", snapshot_id=4).add_files(data_files.write(SCHEMA, rows(4)))
    transaction.snapshot("append", branch="fresh", snapshot_id=5).add_files(data_files.write(SCHEMA, rows(5)))
    table = transaction.commit()
    assert table.metadata.current_snapshot_id == 3
    assert table.metadata.ref("dev").min_snapshots_to_keep == 5
    dev = table.snapshot_for(ref="dev")
    fresh = table.snapshot_for(ref="fresh")
    assert dev is not None
    assert fresh is not None
    assert dev.parent_snapshot_id == 2
    assert fresh.parent_snapshot_id == 3
    files = pa.Table.from_batches(live_data_files(table, dev))
    assert files.num_rows == 3
    table = table.transaction().rollback_to(1).commit()
    assert ids_of(table) == [1]
    assert [entry.snapshot_id for entry in table.metadata.snapshot_log] == [1, 2, 3, 1]
    with pytest.raises(InvalidIcebergRequest, match="it is not an ancestor of snapshot 1"):
        table.transaction().rollback_to(3)
    tagged = table.transaction()
    tagged.snapshot("append", branch="old").add_files(data_files.write(SCHEMA, rows(6)))
    with pytest.raises(InvalidIcebergRequest, match="Cannot commit to old: it is a tag"):
        tagged.commit()
    assert "old" not in table.transaction().remove_ref("old").commit().metadata.refs


def test_expired_snapshots_take_the_log_before_them_along(table: Table, data_files: Any) -> None:
    for number in (1, 2, 3):
        transaction = table.transaction()
        transaction.snapshot("append", snapshot_id=number).add_files(data_files.write(SCHEMA, rows(number)))
        table = transaction.commit()
    table = table.transaction().set_ref("two", 2, type=RefType.TAG).commit()
    after = table.transaction().remove_snapshots([2]).commit()
    assert [snapshot.snapshot_id for snapshot in after.metadata.snapshots] == [1, 3]
    assert [entry.snapshot_id for entry in after.metadata.snapshot_log] == [3]
    assert "two" not in after.metadata.refs
    assert ids_of(after) == [1, 2, 3]
    with pytest.raises(InvalidIcebergRequest, match="it is the current one"):
        after.transaction().remove_snapshots([3])


def test_history_keeps_the_times_that_it_is_given(table: Table, data_files: Any, outside: Outside) -> None:
    transaction = table.transaction(outside.runtime)
    for number, timestamp in ((1, 5000), (2, 9000), (3, 7000)):
        builder = transaction.snapshot("append", snapshot_id=number, timestamp_ms=timestamp)
        builder.add_files(data_files.write(SCHEMA, rows(number)))
    after = transaction.commit()
    assert [snapshot.timestamp_ms for snapshot in after.metadata.snapshots] == [5000, 9000, 7000]
    assert [snapshot.parent_snapshot_id for snapshot in after.metadata.snapshots] == [None, 1, 2]
    # Readers refuse a log that runs backwards.
    assert [entry.timestamp_ms for entry in after.metadata.snapshot_log] == [5000, 9000, 9000]
    assert after.metadata.last_updated_ms == outside.time
    assert ids_of(after) == [1, 2, 3]


def test_sort_orders_are_added_once(table: Table) -> None:
    key = SortField(
        source_ids=(1,),
        transform=IdentityTransform(),
        direction=SortDirection.DESC,
        null_order=NullOrder.NULLS_LAST,
    )
    transaction = table.transaction()
    assert transaction.set_sort_order(SortOrder(order_id=1, fields=(key,))) == 1
    table = transaction.commit()
    transaction = table.transaction()
    assert transaction.set_sort_order(SortOrder(order_id=9, fields=(key,))) == 1
    assert transaction.set_sort_order(SortOrder(order_id=0)) == 0
    table = transaction.commit()
    assert [order.order_id for order in table.metadata.sort_orders] == [0, 1]
    assert table.metadata.sort_order.is_unsorted


def test_specs_are_added_once(table: Table) -> None:
    part = PartitionField(source_ids=(1,), field_id=1000, name="id", transform=IdentityTransform())
    transaction = table.transaction()
    assert transaction.set_spec(PartitionSpec(spec_id=0, fields=(part,))) == 1
    assert transaction.set_spec(PartitionSpec(spec_id=5)) == 0
    assert transaction.set_spec(PartitionSpec(spec_id=7, fields=(replace(part, field_id=1009),))) == 1
    table = transaction.commit()
    assert table.metadata.last_partition_id == 1000
    assert table.metadata.default_spec_id == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.upgrade(1), "there is no way down"),
        (lambda t: t.upgrade(4), "it is not adopted yet; ask for 4-preview"),
        (lambda t: t.upgrade("4-preview"), "it needs a scheme such as file:"),
        (lambda t: t.upgrade(7), "expected 1, 2, 3 or 4-preview"),
        (lambda t: t.set_ref("x", 99), "the table has no snapshot 99"),
        (lambda t: t.set_ref("main", 1, type=RefType.TAG), "it is the main branch"),
        (lambda t: t.set_ref("x", 1, type=RefType.TAG, min_snapshots_to_keep=1), "only branches have it"),
        (lambda t: t.set_ref("x", 1, max_snapshot_age_ms=0), "numbers must be positive"),
        (lambda t: t.remove_snapshots([5]), "it has no snapshot 5"),
        (lambda t: t.snapshot("merge"), "expected append, replace, overwrite, delete"),
        (lambda t: t.snapshot("append", snapshot_id=-1), "not a positive long"),
        (lambda t: t.rollback_to(5), "Cannot find branch or tag main"),
    ],
)
def test_requests_that_make_no_sense_are_refused(table: Table, change: Callable[[Any], object], message: str) -> None:
    with pytest.raises(InvalidIcebergRequest, match=message):
        change(table.transaction())
