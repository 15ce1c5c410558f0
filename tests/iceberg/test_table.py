"""Opening tables: by folder or file, copied or not, encrypted or not, and choosing a snapshot."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from deltaberg.iceberg.create_table import create_table
from deltaberg.iceberg.errors import (
    CorruptMetadata,
    InvalidIcebergRequest,
    NotAnIcebergTable,
    UnsupportedIcebergFeature,
)
from deltaberg.iceberg.metadata.snapshot_ref import RefType
from deltaberg.iceberg.schema.schema import Schema
from deltaberg.iceberg.schema.types import LongType, NestedField
from deltaberg.iceberg.table import Table
from deltaberg.storage import open_storage

SCHEMA = Schema(schema_id=0, fields=(NestedField(field_id=1, name="id", required=False, type=LongType()),))


@pytest.fixture
def made(tmp_path: Path) -> Callable[..., Table]:
    """A table with two empty snapshots, of times 1000 and 2000, and a tag on the first."""

    def make(name: str = "t", **properties: str) -> Table:
        storage = open_storage()
        table = create_table(
            storage, str(tmp_path / name), schema=SCHEMA, properties=properties, timestamp_ms=500
        ).commit(timestamp_ms=500)
        for timestamp in (1000, 2000):
            transaction = table.transaction()
            transaction.snapshot("append", timestamp_ms=timestamp, snapshot_id=timestamp)
            if timestamp == 1000:
                transaction.set_ref("first", 1000, type=RefType.TAG)
            else:
                transaction.update_schema(lambda update: update.add_column("x", LongType()))
            table = transaction.commit(timestamp_ms=timestamp)
        return table

    return make


def test_a_table_is_opened_by_folder_and_by_metadata_file(made: Callable[..., Table]) -> None:
    table = made()
    for location in (table.location, f"{table.location}/", table.metadata_location, f"file://{table.location}"):
        opened = Table.open(location, open_storage())
        assert opened.metadata == table.metadata
    older = Table.open(f"{table.location}/metadata/v2.metadata.json", open_storage())
    assert older.metadata.current_snapshot_id == 1000


def test_snapshots_are_chosen_by_id_ref_and_time(made: Callable[..., Table]) -> None:
    table = made()

    def chosen(**choice: int | str) -> int | None:
        found = table.snapshot_for(**choice)  # type: ignore[arg-type]
        return None if found is None else found.snapshot_id

    assert chosen() == 2000
    assert chosen(snapshot_id=1000) == 1000
    assert chosen(ref="first") == 1000
    assert chosen(ref="main") == 2000
    assert chosen(as_of_ms=1999) == 1000
    assert chosen(as_of_ms=2000) == 2000


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ({"snapshot_id": 7}, "Cannot find snapshot 7"),
        ({"ref": "dev"}, "Cannot find branch or tag dev: the table has first, main"),
        ({"as_of_ms": 999}, "the snapshot log has no entry at or before it"),
        ({"snapshot_id": 1000, "ref": "main"}, "give only one of snapshot id, branch or tag, and time"),
    ],
)
def test_a_snapshot_that_is_not_there_is_a_usage_error(
    made: Callable[..., Table], choice: dict[str, int | str], message: str
) -> None:
    with pytest.raises(InvalidIcebergRequest, match=message) as caught:
        made().snapshot_for(**choice)  # type: ignore[arg-type]
    assert caught.value.exit_code == 2


def test_an_older_snapshot_is_read_with_the_schema_of_its_time(made: Callable[..., Table]) -> None:
    table = made()
    assert [field.name for field in table.schema_for(table.snapshot_for(snapshot_id=1000)).fields] == ["id"]
    assert [field.name for field in table.schema_for(table.snapshot_for()).fields] == ["id", "x"]
    assert [field.name for field in table.schema_for(None).fields] == ["id", "x"]


def test_a_copy_is_refused_until_a_relocation_is_given(made: Callable[..., Table], tmp_path: Path) -> None:
    table = made()
    copied = tmp_path / "copy"
    shutil.move(table.location, copied)
    with pytest.raises(InvalidIcebergRequest, match=f"relocate {table.location}={copied}"):
        Table.open(str(copied), open_storage())
    with pytest.raises(InvalidIcebergRequest, match="its metadata places it in"):
        Table.open(f"{copied}/metadata/v1.metadata.json", open_storage())
    moved = Table.open(str(copied), open_storage(relocate={table.location: str(copied)}))
    assert moved.metadata == table.metadata


def test_a_copy_beside_an_unchanged_original_reads_the_original(made: Callable[..., Table], tmp_path: Path) -> None:
    table = made()
    shutil.copytree(table.location, tmp_path / "copy")
    assert Table.open(str(tmp_path / "copy"), open_storage()).metadata == table.metadata
    table.transaction().set_properties({"a": "b"}).commit()
    (Path(table.location) / "metadata" / "v3.metadata.json").write_text("{}")
    with pytest.raises(InvalidIcebergRequest, match="if it was copied"):
        Table.open(str(tmp_path / "copy"), open_storage())


def test_a_copy_from_another_store_is_refused_without_asking_that_store(
    made: Callable[..., Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = made()
    path = Path(table.metadata_location)
    path.write_text(path.read_text().replace(f'"location":"{table.location}"', '"location":"s3://bucket/t"'))
    storage = open_storage()
    real = storage.get
    asked: list[str] = []
    monkeypatch.setattr(storage, "get", lambda location: asked.append(location) or real(location))
    with pytest.raises(InvalidIcebergRequest, match=f"relocate s3://bucket/t={table.location}"):
        Table.open(table.location, storage)
    assert not [location for location in asked if location.startswith("s3:")]


def test_an_encrypted_table_is_refused_by_name(made: Callable[..., Table]) -> None:
    table = made("secret", **{"encryption.key-id": "k"})
    with pytest.raises(UnsupportedIcebergFeature, match=r"property encryption\.key-id is set") as caught:
        Table.open(table.location, open_storage())
    assert caught.value.feature == "table encryption"


def test_a_missing_file_is_no_table(tmp_path: Path) -> None:
    with pytest.raises(NotAnIcebergTable, match="there is no metadata file"):
        Table.open(str(tmp_path / "v1.metadata.json"), open_storage())


def test_a_broken_file_is_named(made: Callable[..., Table]) -> None:
    table = made()
    Path(table.metadata_location).write_bytes(b"{")
    with pytest.raises(CorruptMetadata, match="truncated or no JSON") as caught:
        Table.open(table.location, open_storage())
    assert caught.value.path == table.metadata_location


def test_refresh_follows_the_table_and_notices_another_one(made: Callable[..., Table], tmp_path: Path) -> None:
    table = made()
    newer = table.transaction().set_properties({"a": "b"}).commit()
    assert table.refresh().metadata == newer.metadata
    shutil.rmtree(table.location)
    made()
    with pytest.raises(CorruptMetadata, match="another table took its place"):
        table.refresh()
