"""Manifests that other processes write for a snapshot: the same snapshot as if its own process had written them."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg.iceberg.create_table import create_table
from deltaberg.iceberg.errors import InvalidIcebergRequest
from deltaberg.iceberg.manifest.live_files import data_files as live_data_files
from deltaberg.iceberg.manifest.live_files import delete_files as live_delete_files
from deltaberg.iceberg.manifest.manifest_list import ManifestFile, read_manifest_list
from deltaberg.iceberg.partition.partition_spec import PartitionField, PartitionSpec
from deltaberg.iceberg.partition.transforms import parse_transform
from deltaberg.iceberg.schema.schema import Schema
from deltaberg.iceberg.schema.types import LongType, NestedField
from deltaberg.iceberg.table import Table
from deltaberg.storage import open_storage

SCHEMA = Schema(schema_id=0, fields=(NestedField(field_id=1, name="id", required=False, type=LongType()),))
SPEC = PartitionSpec(
    spec_id=0,
    fields=(PartitionField(source_ids=(1,), field_id=1000, name="id", transform=parse_transform("identity")),),
)


def begin(folder: Path, version: int) -> Any:
    return create_table(open_storage(), str(folder), schema=SCHEMA, spec=SPEC, format_version=version)


def position_deletes(data_file: str, partition: int) -> pa.RecordBatch:
    return pa.record_batch(
        {
            "content": pa.array([1], pa.int32()),
            "file_path": [f"{data_file}-deletes"],
            "file_format": ["parquet"],
            "partition": pa.array([{"id": partition}], SPEC.arrow_partition_type(SCHEMA)),
            "record_count": [1],
            "file_size_in_bytes": [9],
        }
    )


def listed(table: Table) -> tuple[list[dict[str, Any]], list[ManifestFile]]:
    """Entries and manifests, without what every run names anew."""
    snapshot = table.metadata.current_snapshot
    assert snapshot is not None
    entries = [
        row
        for batch in (*live_data_files(table, snapshot), *live_delete_files(table, snapshot))
        for row in batch.drop_columns(["snapshot_id"]).to_pylist()
    ]
    manifests = read_manifest_list(table.storage, snapshot, table.metadata)
    return entries, [
        replace(manifest, manifest_path="", manifest_length=0, added_snapshot_id=None) for manifest in manifests
    ]


@pytest.mark.parametrize("keep_inherited", [False, True])
@pytest.mark.parametrize("version", [1, 2, 3])
def test_manifests_written_elsewhere_make_the_same_snapshot(
    data_files: Any, tmp_path: Path, version: int, keep_inherited: bool
) -> None:
    numbers = {"sequence_number": 4, "first_row_id": 100} if keep_inherited else {}
    files = [
        data_files.write(SCHEMA, pa.table({"id": pa.array([number] * (number + 1), pa.int64())}), SPEC, **numbers)
        for number in range(4)
    ]
    deletes = [position_deletes(files[0].column("file_path")[0].as_py(), 0)] if version == 2 else []
    operation = "overwrite" if deletes else "append"
    tables = []
    for place, elsewhere in (("here", False), ("there", True)):
        with begin(tmp_path / place, version) as transaction:
            builder = transaction.snapshot(operation, sequence_number=7 if version > 1 else None, merge_manifests=False)
            for number, part in enumerate((files[:3], [*files[3:], *deletes])):
                if elsewhere:
                    recipe = pickle.loads(pickle.dumps(builder.manifest_recipe(keep_inherited=keep_inherited)))
                    with recipe.open(open_storage(), f"part-{number}") as added:
                        for batch in part:
                            added.write(batch)
                    builder.add_manifests([pickle.loads(pickle.dumps(added.written))])
                else:
                    builder.add_files(part, keep_inherited=keep_inherited)
            tables.append(transaction.commit())
    (here, there) = tables
    assert listed(there) == listed(here)
    assert there.metadata.next_row_id == here.metadata.next_row_id
    mine, theirs = (table.metadata.current_snapshot for table in tables)
    assert mine is not None
    assert theirs is not None
    assert theirs.summary == mine.summary
    assert theirs.added_rows == mine.added_rows


def test_manifests_written_elsewhere_are_deleted_when_nothing_is_committed(data_files: Any, tmp_path: Path) -> None:
    storage = open_storage()
    with begin(tmp_path / "t", 2) as transaction:
        builder = transaction.snapshot("append")
        with builder.manifest_recipe().open(storage, "part") as added:
            added.write(data_files.write(SCHEMA, pa.table({"id": pa.array([1], pa.int64())}), SPEC))
        (location,) = added.written.locations
        builder.add_manifests([added.written])
        assert storage.exists(location)
    assert not storage.exists(location)


def test_the_number_of_a_younger_file_in_a_manifest_written_elsewhere_is_refused(
    data_files: Any, tmp_path: Path
) -> None:
    rows = pa.table({"id": pa.array([1], pa.int64())})
    with begin(tmp_path / "t", 2) as transaction:
        builder = transaction.snapshot("append", sequence_number=3)
        with builder.manifest_recipe(keep_inherited=True).open(open_storage(), "part") as added:
            added.write(data_files.write(SCHEMA, rows, SPEC, sequence_number=4))
        builder.add_manifests([added.written])
        with pytest.raises(InvalidIcebergRequest, match="sequence number 4 to a snapshot of sequence number 3"):
            transaction.commit()


def test_deletes_in_a_manifest_written_elsewhere_are_no_append(tmp_path: Path) -> None:
    with begin(tmp_path / "t", 2) as transaction:
        builder = transaction.snapshot("append")
        with builder.manifest_recipe().open(open_storage(), "part") as added:
            added.write(position_deletes("/x", 0))
        builder.add_manifests([added.written])
        with pytest.raises(InvalidIcebergRequest, match="Cannot commit an append"):
            transaction.commit()
