"""What a table says about itself, as Arrow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from deltaberg.iceberg import metadata_tables
from deltaberg.iceberg.manifest.data_file import DATA_FILE_SCHEMA
from deltaberg.iceberg.partition.partition_spec import PartitionField, PartitionSpec
from deltaberg.iceberg.partition.transforms import IdentityTransform
from deltaberg.iceberg.schema.schema import Schema
from deltaberg.iceberg.schema.types import LongType, NestedField, StringType

ID = NestedField(field_id=1, name="id", required=False, type=LongType())
PART = NestedField(field_id=2, name="p", required=False, type=StringType())
FLAT = PartitionSpec(spec_id=0)
BY_PART = PartitionSpec(
    spec_id=1, fields=(PartitionField(source_ids=(2,), field_id=1000, name="p", transform=IdentityTransform()),)
)
Stored = Callable[..., Any]


def table(stored_table: Stored) -> tuple[Any, list[str]]:
    stored = stored_table(Schema(schema_id=0, fields=(ID, PART)), specs=(FLAT, BY_PART), version=3)
    paths = [
        stored.data(pa.table({"id": [1, 2]}), spec_id=0),
        stored.data(pa.table({"id": [1, 2, 3]}), partition={"p": "a"}),
        stored.data(pa.table({"id": [4]}), partition={"p": "a"}),
        stored.data(pa.table({"id": [5]}), partition={"p": None}, snapshot_id=77),
    ]
    paths += [
        stored.vector(paths[1], [0, 1], partition={"p": "a"}),
        stored.equality_deletes(pa.table({"id": [5]}), [1], partition={"p": None}, snapshot_id=77),
    ]
    return stored.open(), paths


def test_files_of_all_specs_stand_in_one_table(stored_table: Stored) -> None:
    opened, paths = table(stored_table)
    found = metadata_tables.files(opened, opened.metadata.current_snapshot).read_all()
    found.validate(full=True)
    assert found.schema.names == [name for name in DATA_FILE_SCHEMA.names if name != "status"]
    assert found["file_path"].to_pylist() == paths[:4]
    assert found["partition"].to_pylist() == [{"p": None}, {"p": "a"}, {"p": "a"}, {"p": None}]
    assert found["spec_id"].to_pylist() == [0, 1, 1, 1]
    deletes = metadata_tables.delete_files(opened, opened.metadata.current_snapshot).read_all()
    assert deletes["file_path"].to_pylist() == paths[4:]
    assert deletes["content"].to_pylist() == [1, 2]


def test_partitions_add_up_their_files(stored_table: Stored) -> None:
    opened, _ = table(stored_table)
    found = metadata_tables.partitions(opened, opened.metadata.current_snapshot)
    found.validate(full=True)
    sizes = found["total_data_file_size_in_bytes"].to_pylist()
    rows = found.drop_columns(["total_data_file_size_in_bytes", "last_updated_at"]).to_pylist()
    zero = {
        "position_delete_record_count": 0,
        "position_delete_file_count": 0,
        "equality_delete_record_count": 0,
        "equality_delete_file_count": 0,
    }
    vector = {"position_delete_record_count": 2, "position_delete_file_count": 1}
    equality = {"equality_delete_record_count": 1, "equality_delete_file_count": 1}
    assert rows == [
        {"partition": {"p": None}, "spec_id": 0, "record_count": 2, "file_count": 1, **zero, "last_updated_snapshot_id": 1},
        {"partition": {"p": "a"}, "spec_id": 1, "record_count": 4, "file_count": 2, **zero, **vector, "last_updated_snapshot_id": 1},
        {"partition": {"p": None}, "spec_id": 1, "record_count": 1, "file_count": 1, **zero, **equality, "last_updated_snapshot_id": None},
    ]  # fmt: skip
    assert all(size > 0 for size in sizes)
    times = found["last_updated_at"].cast(pa.int64()).to_pylist()
    assert times == [1, 1, None]


def test_a_table_without_snapshots_has_nothing(stored_table: Stored) -> None:
    opened, _ = table(stored_table)
    assert metadata_tables.files(opened, None).read_all().num_rows == 0
    assert metadata_tables.delete_files(opened, None).read_all().num_rows == 0
    assert metadata_tables.manifests(opened, None).num_rows == 0
    assert metadata_tables.partitions(opened, None).num_rows == 0


def test_manifests_come_with_their_counts_and_summaries(stored_table: Stored) -> None:
    opened, _ = table(stored_table)
    found = metadata_tables.manifests(opened, opened.metadata.current_snapshot)
    rows = found.select(["content", "partition_spec_id", "existing_files_count", "existing_rows_count"]).to_pylist()
    assert [list(row.values()) for row in rows] == [[0, 0, 1, 2], [0, 1, 3, 5], [1, 1, 2, 3]]
    summary = {"contains_null": True, "contains_nan": False, "lower_bound": b"a", "upper_bound": b"a"}
    assert found["partition_summaries"].to_pylist() == [[], [summary], [summary]]
    assert found["first_row_id"].to_pylist() == [0, 2, None]


def test_snapshots_history_and_refs_are_those_of_the_metadata(stored_table: Stored) -> None:
    opened, _ = table(stored_table)
    (snapshot,) = metadata_tables.snapshots(opened).to_pylist()
    assert snapshot["snapshot_id"] == 1
    assert snapshot["operation"] == "append"
    assert snapshot["summary"] == [("operation", "append")]
    assert snapshot["committed_at"].timestamp() == 0.001
    assert metadata_tables.history(opened).num_rows == 0
    assert metadata_tables.refs(opened).to_pylist() == [
        {
            "name": "main",
            "type": "BRANCH",
            "snapshot_id": 1,
            "max_reference_age_in_ms": None,
            "min_snapshots_to_keep": None,
            "max_snapshot_age_in_ms": None,
        }
    ]
