"""A manifest list or manifest that says it belongs elsewhere is not read: rows that were deleted would come back."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg.iceberg.errors import CorruptMetadata
from deltaberg.iceberg.manifest.manifest_list import ManifestFile, read_manifest_list
from deltaberg.iceberg.manifest.manifest_list_writer import write_manifest_list
from deltaberg.iceberg.manifest.manifest_reader import read_manifest
from deltaberg.iceberg.metadata.snapshot import Snapshot
from deltaberg.iceberg.schema.schema import Schema
from deltaberg.iceberg.schema.types import LongType, NestedField
from deltaberg.storage import open_storage

UNSIGNED = 9876543210123456789
SCHEMA = Schema(schema_id=0, fields=(NestedField(field_id=1, name="id", required=False, type=LongType()),))
Read = Callable[..., tuple[ManifestFile, ...]]


@pytest.fixture
def read(tmp_path: Path, stored_table: Any) -> Read:
    """``read(of=7, as_if=8)``: the manifests of a list that was written for one snapshot, read for another."""
    metadata = stored_table(SCHEMA, version=2).open().metadata

    def make(*, of: int, as_if: int, sequence_number: int = 2, told: int = 2, manifest_number: int = 2) -> Any:
        location = str(tmp_path / "list.avro")
        manifest = ManifestFile(
            manifest_path="/t/m.avro",
            manifest_length=1,
            partition_spec_id=0,
            sequence_number=manifest_number,
            min_sequence_number=0,
            added_snapshot_id=1,
            **dict.fromkeys(("added_files_count", "existing_files_count", "deleted_files_count"), 0),
            **dict.fromkeys(("added_rows_count", "existing_rows_count", "deleted_rows_count"), 0),
        )
        write_manifest_list(
            open_storage(),
            location,
            [manifest],
            format_version=2,
            snapshot_id=of,
            parent_snapshot_id=None,
            sequence_number=sequence_number,
        )
        snapshot = Snapshot(snapshot_id=as_if, timestamp_ms=0, manifest_list=location, sequence_number=told)
        return read_manifest_list(open_storage(), snapshot, metadata)

    return make


def test_the_list_of_the_snapshot_is_read(read: Read) -> None:
    assert [each.sequence_number for each in read(of=7, as_if=7)] == [2]
    # Version 1 metadata has no sequence numbers, and some writers state ids as unsigned numbers.
    assert read(of=7, as_if=7, told=0)
    assert read(of=UNSIGNED, as_if=UNSIGNED - 2**64)


@pytest.mark.parametrize(
    ("changes", "field", "words"),
    [
        ({"of": 7, "as_if": 8}, "snapshot-id", "expected 8, since the table's metadata names this list .* found 7"),
        ({"of": 7, "as_if": 7, "sequence_number": 3, "told": 2}, "sequence-number", "expected 2, .* found 3"),
        ({"of": 7, "as_if": 7, "manifest_number": 3}, "sequence_number", "expected at most 2, .* found 3"),
    ],
)
def test_the_list_of_another_snapshot_or_attempt_is_not(
    read: Read, changes: dict[str, Any], field: str, words: str
) -> None:
    with pytest.raises(CorruptMetadata, match=words) as caught:
        read(**changes)
    assert caught.value.field == field
    assert caught.value.path is not None
    assert caught.value.path.endswith("/list.avro")


def test_deleted_rows_do_not_come_back_through_the_list_of_an_older_snapshot(tmp_path: Path, command: Any) -> None:
    pyiceberg = pytest.importorskip("pyiceberg.catalog.sql")
    root = tmp_path
    catalog = pyiceberg.SqlCatalog("t", uri=f"sqlite:///{root}/c.db", warehouse=f"file://{root}")
    catalog.create_namespace("n")
    table = catalog.create_table("n.t", schema=pa.schema([("id", pa.int64())]))
    table.append(pa.table({"id": [1, 2, 3]}))
    table.delete("id = 2")
    path = Path(table.metadata_location.removeprefix("file://"))
    catalog.close()
    assert command("inspect", path, "--json").document["rows"] == 2
    metadata = json.loads(path.read_text())
    first, second = metadata["snapshots"]
    second["manifest-list"] = first["manifest-list"]
    path.write_text(json.dumps(metadata))
    for verb, *rest, code in (
        ("scan", 1),
        ("inspect", 1),
        ("plan", "--to", "delta", 3),
        ("convert", "--to", "delta", 3),
    ):
        refused = command(verb, path, *rest)
        assert refused.code == code
        assert f"snapshot-id is invalid (expected {second['snapshot-id']}" in refused.err + refused.out


def test_a_manifest_of_another_spec_or_from_the_future_is_not_read(stored_table: Any) -> None:
    stored = stored_table(SCHEMA, version=2)
    stored.data(pa.table({"id": [1]}))
    table = stored.open()
    (manifest,) = read_manifest_list(table.storage, table.metadata.current_snapshot, table.metadata)
    assert sum(batch.num_rows for batch in read_manifest(table.storage, manifest, table.metadata)) == 1
    spec = replace(table.metadata.spec, spec_id=5)
    metadata = replace(table.metadata, partition_specs=(*table.metadata.partition_specs, spec))
    with pytest.raises(CorruptMetadata, match="expected 5, as the list says, found 0") as caught:
        list(read_manifest(table.storage, replace(manifest, partition_spec_id=5), metadata))
    assert caught.value.field == "partition-spec-id"
