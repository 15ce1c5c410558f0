"""Commits through a catalog: a pointer is swapped, or the catalog is told what changes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg.iceberg.catalog import CatalogCommit
from deltaberg.iceberg.create_table import create_table
from deltaberg.iceberg.errors import (
    IcebergCommitStateUnknown,
    IcebergConflict,
    IcebergError,
    NotAnIcebergTable,
)
from deltaberg.iceberg.metadata.metadata_update import updates_to_json
from deltaberg.iceberg.runtime import Runtime
from deltaberg.iceberg.scan.scan import scan
from deltaberg.iceberg.schema.schema import Schema
from deltaberg.iceberg.schema.types import LongType, NestedField
from deltaberg.iceberg.table import Table
from deltaberg.storage import open_storage

SCHEMA = Schema(schema_id=0, fields=(NestedField(field_id=1, name="id", required=False, type=LongType()),))
PATIENT = Runtime(wait_ms=lambda duration: None)


class Pointer:
    """A catalog of one table that swaps a pointer when nobody else has."""

    def __init__(self) -> None:
        self.location: str | None = None
        self.commits: list[CatalogCommit] = []
        self.failure: BaseException | None = None
        self.swap_before_failing = False

    def current(self) -> str | None:
        return self.location

    def commit(self, commit: CatalogCommit) -> str:
        self.commits.append(commit)
        failure, self.failure = self.failure, None
        if failure is not None and not self.swap_before_failing:
            raise failure
        if commit.expected != self.location:
            raise IcebergConflict(f"Cannot swap the pointer: it is at {self.location}")
        self.location = commit.location
        if failure is not None:
            raise failure
        return commit.location


@pytest.fixture
def catalog() -> Pointer:
    return Pointer()


@pytest.fixture
def table(tmp_path: Path, catalog: Pointer) -> Table:
    return create_table(open_storage(), str(tmp_path / "table"), schema=SCHEMA, catalog=catalog).commit()


def appended(table: Table, batch: pa.RecordBatch) -> Table:
    transaction = table.transaction(PATIENT)
    transaction.snapshot("append").add_files(batch)
    return transaction.commit()


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64())})


def ids_of(table: Table) -> list[int]:
    found = scan(table)
    return sorted(pa.Table.from_batches(found.batches(), found.schema)["id"].to_pylist())


def names(table: Table, ending: str) -> list[str]:
    return sorted(path.name for path in (Path(table.location) / "metadata").iterdir() if path.name.endswith(ending))


def test_metadata_files_are_numbered_and_unique(table: Table, catalog: Pointer, data_files: Any) -> None:
    after = appended(table, data_files.write(SCHEMA, rows(1)))
    assert [name[:6] for name in names(after, ".metadata.json")] == ["00000-", "00001-"]
    assert catalog.location == after.metadata_location
    assert not (Path(table.location) / "metadata" / "version-hint.text").exists()
    opened = Table.of_catalog(catalog, open_storage())
    assert opened.metadata == after.metadata
    assert opened.catalog is catalog
    assert [commit.expected for commit in catalog.commits] == [None, table.metadata_location]


def test_a_catalog_learns_requirements_and_updates(table: Table, catalog: Pointer, data_files: Any) -> None:
    transaction = table.transaction()
    transaction.set_properties({"a": "b"}, remove=["c"])
    transaction.update_schema(lambda update: update.add_column("x", LongType()))
    transaction.snapshot("append", snapshot_id=7, timestamp_ms=5).add_files(data_files.write(SCHEMA, rows(1)))
    transaction.commit()
    commit = catalog.commits[-1]
    assert [each.to_json() for each in commit.requirements] == [
        {"type": "assert-table-uuid", "uuid": table.metadata.table_uuid},
        {"type": "assert-current-schema-id", "current-schema-id": 0},
        {"type": "assert-last-assigned-field-id", "last-assigned-field-id": 1},
    ]
    updates = updates_to_json(commit.updates)
    assert [update["action"] for update in updates] == [
        "set-properties",
        "remove-properties",
        "add-schema",
        "set-current-schema",
        "add-snapshot",
        "set-snapshot-ref",
    ]
    assert updates[-1] == {"action": "set-snapshot-ref", "ref-name": "main", "snapshot-id": 7, "type": "branch"}
    assert json.loads(json.dumps(updates))


def test_a_lost_race_is_run_again(table: Table, catalog: Pointer, data_files: Any) -> None:
    mine = table.transaction(PATIENT)
    mine.snapshot("append").add_files(data_files.write(SCHEMA, rows(1)))
    appended(table, data_files.write(SCHEMA, rows(2)))
    after = mine.commit()
    assert ids_of(after) == [1, 2]
    # The metadata file of the attempt that lost is gone.
    assert [name[:6] for name in names(after, ".metadata.json")] == ["00000-", "00001-", "00002-"]


def test_a_refusal_leaves_nothing_behind(table: Table, catalog: Pointer, data_files: Any) -> None:
    catalog.failure = IcebergError("Cannot commit: the catalog is read-only")
    with pytest.raises(IcebergError, match="the catalog is read-only"):
        appended(table, data_files.write(SCHEMA, rows(1)))
    assert names(table, ".avro") == []
    assert len(names(table, ".metadata.json")) == 1


@pytest.mark.parametrize("happened", [True, False])
def test_an_unknown_outcome_leaves_every_file_alone(
    table: Table, catalog: Pointer, data_files: Any, happened: bool
) -> None:
    catalog.failure = IcebergCommitStateUnknown("Cannot tell whether the commit took place: no answer")
    catalog.swap_before_failing = happened
    with pytest.raises(IcebergCommitStateUnknown, match="no answer"):
        appended(table, data_files.write(SCHEMA, rows(1)))
    assert len(names(table, ".avro")) == 2
    assert len(names(table, ".metadata.json")) == 2
    assert ids_of(Table.of_catalog(catalog, open_storage())) == ([1] if happened else [])


def test_a_conflict_with_oneself_is_a_commit(table: Table, catalog: Pointer, data_files: Any) -> None:
    """A client repeats its request when the answer is lost, and is told that the table has changed."""
    catalog.failure = IcebergConflict("Cannot swap the pointer: it has moved")
    catalog.swap_before_failing = True
    after = appended(table, data_files.write(SCHEMA, rows(1)))
    assert (ids_of(after), after.metadata_location) == ([1], catalog.location)
    assert len(catalog.commits) == 2


def test_a_conflict_with_whom_cannot_be_learnt_leaves_every_file_alone(
    table: Table, catalog: Pointer, data_files: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent() -> str:
        raise IcebergError("no answer")

    transaction = table.transaction(PATIENT)
    transaction.snapshot("append").add_files(data_files.write(SCHEMA, rows(1)))
    catalog.failure = IcebergConflict("Cannot swap the pointer: it has moved")
    monkeypatch.setattr(catalog, "current", silent)
    with pytest.raises(IcebergCommitStateUnknown, match=r"cannot be asked whose \(no answer\)"):
        transaction.commit()
    assert len(names(table, ".avro")) == 2


@pytest.mark.parametrize("happened", [True, False])
def test_an_interrupt_while_the_catalog_is_asked_leaves_every_file_alone(
    table: Table, catalog: Pointer, data_files: Any, happened: bool
) -> None:
    catalog.failure = KeyboardInterrupt()
    catalog.swap_before_failing = happened
    with table.transaction(PATIENT) as transaction:
        transaction.snapshot("append").add_files(data_files.write(SCHEMA, rows(1)))
        with pytest.raises(KeyboardInterrupt):
            transaction.commit()
    assert len(names(table, ".avro")) == 2
    assert ids_of(Table.of_catalog(catalog, open_storage())) == ([1] if happened else [])


def test_metadata_goes_where_the_table_says(table: Table, catalog: Pointer, data_files: Any, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    table = table.transaction().set_properties({"write.metadata.path": str(elsewhere)}).commit()
    table = appended(table, data_files.write(SCHEMA, rows(1)))
    assert len(list(elsewhere.iterdir())) == 4
    assert ids_of(Table.of_catalog(catalog, open_storage())) == [1]


def test_a_catalog_without_the_table_is_told(catalog: Pointer) -> None:
    with pytest.raises(NotAnIcebergTable, match="the catalog has none of this name"):
        Table.of_catalog(catalog, open_storage())


def test_a_catalog_with_the_table_gets_no_second_one(table: Table, catalog: Pointer, tmp_path: Path) -> None:
    with pytest.raises(IcebergConflict, match="the catalog has a table of this name"):
        create_table(open_storage(), str(tmp_path / "other"), schema=SCHEMA, catalog=catalog)
