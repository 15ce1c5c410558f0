"""Snapshots: which files they hold, with which numbers, in which manifests, and what their summaries say."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from deltaberg.bitmap import PositionBitmap, frame
from deltaberg.iceberg.create_table import create_table
from deltaberg.iceberg.errors import InvalidIcebergRequest
from deltaberg.iceberg.manifest.data_file import ADDED, DELETED, EXISTING
from deltaberg.iceberg.manifest.live_files import data_files as live_data_files
from deltaberg.iceberg.manifest.live_files import delete_files as live_delete_files
from deltaberg.iceberg.manifest.manifest_list import ManifestContent, ManifestFile, read_manifest_list
from deltaberg.iceberg.manifest.manifest_reader import read_manifest
from deltaberg.iceberg.metadata.snapshot_ref import RefType
from deltaberg.iceberg.partition.partition_spec import PartitionField, PartitionSpec
from deltaberg.iceberg.partition.transforms import parse_transform
from deltaberg.iceberg.scan.scan import scan
from deltaberg.iceberg.schema.schema import Schema
from deltaberg.iceberg.schema.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestampType,
    TimestamptzType,
    TimeType,
    Type,
    UuidType,
    arrow_type,
)
from deltaberg.iceberg.table import Table
from deltaberg.storage import open_storage

SCHEMA = Schema(
    schema_id=0,
    fields=(
        NestedField(field_id=1, name="id", required=False, type=LongType()),
        NestedField(field_id=2, name="s", required=False, type=StringType()),
    ),
)
BUCKETED = PartitionSpec(
    spec_id=0,
    fields=(
        PartitionField(source_ids=(1,), field_id=1000, name="id_bucket_4", transform=parse_transform("bucket[4]")),
    ),
)
ALL_VERSIONS = pytest.mark.parametrize("version", [1, 2, 3, "4-preview"])
INDEPENDENT_VERSIONS = (1, 2, 3)


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "s": [f"s{each}" for each in ids]})


def read(table: Table, **options: Any) -> pa.Table:
    found = scan(table, **options)
    return pa.Table.from_batches(found.batches(), found.schema)


def ids_of(table: Table) -> list[int]:
    return sorted(read(table)["id"].to_pylist())


def manifests_of(table: Table) -> tuple[ManifestFile, ...]:
    snapshot = table.metadata.current_snapshot
    assert snapshot is not None
    return read_manifest_list(table.storage, snapshot, table.metadata)


def entries_of(table: Table) -> pa.Table:
    batches = [
        batch for manifest in manifests_of(table) for batch in read_manifest(table.storage, manifest, table.metadata)
    ]
    return pa.Table.from_batches(batches).sort_by("file_path")


def summary_of(table: Table) -> dict[str, str]:
    assert table.metadata.current_snapshot is not None
    return dict(table.metadata.current_snapshot.summary)


@pytest.fixture
def new_table(tmp_path: Path) -> Callable[..., Table]:
    def make(version: int | str = 2, *, schema: Schema = SCHEMA, **options: Any) -> Table:
        location = str(tmp_path / "table")
        return create_table(open_storage(), location, schema=schema, format_version=version, **options).commit()

    return make


def committed(table: Table, operation: str, *, add: Any = (), delete: Any = (), **options: Any) -> Table:
    transaction = table.transaction()
    builder = transaction.snapshot(operation, **options)
    builder.add_files(add)
    if len(delete):
        builder.delete_files(delete)
    return transaction.commit()


def deletion_vector(folder: Path, data_file: str, *positions: int) -> pa.RecordBatch:
    """A deletion vector in a Puffin file that is nothing but its blob behind the magic."""
    blob = frame(PositionBitmap.from_positions(pa.array(positions, pa.int64()).to_numpy()).serialize())
    path = folder / f"dv-{abs(hash((data_file, positions)))}.puffin"
    footer = (
        b'{"blobs":[{"type":"deletion-vector-v1","fields":[2147483645],"snapshot-id":-1,"sequence-number":-1,"offset":4,"length":'
        + str(len(blob)).encode()
        + b',"properties":{"referenced-data-file":"'
        + data_file.encode()
        + b'","cardinality":"'
        + str(len(positions)).encode()
        + b'"}}]}'
    )
    path.write_bytes(b"PFA1" + blob + b"PFA1" + footer + len(footer).to_bytes(4, "little") + b"\0" * 4 + b"PFA1")
    return pa.record_batch(
        {
            "content": pa.array([1], pa.int32()),
            "file_path": [str(path)],
            "file_format": ["puffin"],
            "record_count": [len(positions)],
            "file_size_in_bytes": [path.stat().st_size],
            "referenced_data_file": [data_file],
            "content_offset": [4],
            "content_size_in_bytes": [len(blob)],
        }
    )


@ALL_VERSIONS
def test_appends_add_up(new_table: Callable[..., Table], data_files: Any, version: int | str) -> None:
    table = committed(new_table(version), "append", add=[data_files.write(SCHEMA, rows(1, 2))])
    table = committed(table, "append", add=[data_files.write(SCHEMA, rows(3))], summary={"engine-name": "test"})
    assert ids_of(Table.open(table.location, open_storage())) == [1, 2, 3]
    summary = summary_of(table)
    assert summary["operation"] == "append"
    assert summary["engine-name"] == "test"
    assert summary["added-data-files"] == "1"
    assert summary["added-records"] == "1"
    assert summary["total-data-files"] == "2"
    assert summary["total-records"] == "3"
    assert summary["total-delete-files"] == "0"
    assert summary["changed-partition-count"] == "1"
    assert (summary["manifests-created"], summary["manifests-kept"], summary["manifests-replaced"]) == ("1", "1", "0")
    sizes = pc.sum(entries_of(table)["file_size_in_bytes"]).as_py()
    assert summary["total-files-size"] == str(sizes)


@ALL_VERSIONS
def test_overwritten_files_stay_as_deleted_entries(
    new_table: Callable[..., Table], data_files: Any, version: int | str
) -> None:
    one, two = data_files.write(SCHEMA, rows(1)), data_files.write(SCHEMA, rows(2))
    table = committed(new_table(version), "append", add=[one, two], snapshot_id=11)
    table = committed(table, "overwrite", add=[data_files.write(SCHEMA, rows(10))], delete=one, snapshot_id=12)
    assert ids_of(table) == [2, 10]
    entries = entries_of(table)
    assert entries["status"].to_pylist() == [DELETED, EXISTING, ADDED]
    assert entries["snapshot_id"].to_pylist() == [12, 11, 12]
    first = 0 if version == 1 else 1
    assert entries["sequence_number"].to_pylist() == [first, first, 2 * first]
    assert entries["file_sequence_number"].to_pylist() == [first, first, 2 * first]
    summary = summary_of(table)
    assert summary["deleted-data-files"] == "1"
    assert summary["deleted-records"] == "1"
    assert summary["total-records"] == "2"
    # The next change of that manifest drops the deleted entry.
    table = committed(table, "delete", delete=two)
    assert entries_of(table)["file_path"].to_pylist()[0].endswith(two["file_path"][0].as_py())
    assert ids_of(table) == [10]


def test_everything_can_be_deleted_at_once(new_table: Callable[..., Table], data_files: Any) -> None:
    table = committed(new_table(), "append", add=[data_files.write(SCHEMA, rows(1)), data_files.write(SCHEMA, rows(2))])
    transaction = table.transaction()
    transaction.snapshot("delete").delete_everything()
    table = transaction.commit()
    assert ids_of(table) == []
    assert summary_of(table)["deleted-data-files"] == "2"
    assert summary_of(table)["total-records"] == "0"


def test_a_file_that_is_not_there_cannot_be_deleted(new_table: Callable[..., Table], data_files: Any) -> None:
    table = committed(new_table(), "append", add=data_files.write(SCHEMA, rows(1)))
    transaction = table.transaction()
    transaction.snapshot("delete").delete_files(data_files.write(SCHEMA, rows(2)))
    with pytest.raises(
        InvalidIcebergRequest, match=r"Cannot delete file .*00001\.parquet: the snapshot does not list it"
    ):
        transaction.commit()
    assert len(list((Path(table.location) / "metadata").glob("*.avro"))) == 2


def test_only_manifests_that_can_list_a_file_are_rewritten(new_table: Callable[..., Table], data_files: Any) -> None:
    table = new_table()
    for number in range(3):
        table = committed(table, "append", add=data_files.write(SCHEMA, rows(number)))
    before = [manifest.manifest_path for manifest in manifests_of(table)]
    entry = pa.RecordBatch.from_struct_array(
        entries_of(table).slice(1, 1).combine_chunks().to_struct_array().combine_chunks()
    )
    for path in before:
        if path != before[1]:
            Path(path).rename(f"{path}.hidden")
    transaction = table.transaction()
    transaction.snapshot("delete").delete_files(entry)
    after = transaction.commit()
    for path in before:
        if path != before[1]:
            Path(f"{path}.hidden").rename(path)
    assert ids_of(after) == [0, 2]
    assert [manifest.manifest_path for manifest in manifests_of(after)][::2] == before[::2]
    assert summary_of(after)["manifests-replaced"] == "1"


def test_an_append_may_not_remove_or_delete(new_table: Callable[..., Table], data_files: Any) -> None:
    one = data_files.write(SCHEMA, rows(1))
    table = committed(new_table(), "append", add=one)
    transaction = table.transaction()
    transaction.snapshot("append").delete_files(one)
    with pytest.raises(InvalidIcebergRequest, match="use overwrite or delete"):
        transaction.commit()


def test_deletion_vectors_are_added_and_replaced(new_table: Callable[..., Table], data_files: Any) -> None:
    data = data_files.write(SCHEMA, rows(1, 2, 3, 4))
    path = data["file_path"][0].as_py()
    table = committed(new_table(3), "append", add=data)
    vector = deletion_vector(data_files.folder, path, 1)
    table = committed(table, "delete", add=vector)
    assert ids_of(table) == [1, 3, 4]
    summary = summary_of(table)
    assert (summary["added-dvs"], summary["added-delete-files"], summary["added-position-deletes"]) == ("1", "1", "1")
    assert (summary["total-delete-files"], summary["total-position-deletes"]) == ("1", "1")
    assert "added-position-delete-files" not in summary
    merged = deletion_vector(data_files.folder, path, 1, 3)
    transaction = table.transaction()
    transaction.snapshot("delete").add_files(merged)
    with pytest.raises(InvalidIcebergRequest, match="it has one already; merge the two and delete the old one"):
        transaction.commit()
    table = committed(table, "delete", add=merged, delete=vector)
    assert ids_of(table) == [1, 3]
    summary = summary_of(table)
    assert (summary["removed-dvs"], summary["removed-position-deletes"], summary["total-position-deletes"]) == (
        "1",
        "1",
        "2",
    )
    assert [manifest.content for manifest in manifests_of(table)] == [
        ManifestContent.DATA,
        ManifestContent.DELETES,
        ManifestContent.DELETES,
    ]
    assert sum(batch.num_rows for batch in live_delete_files(table, table.metadata.current_snapshot)) == 1


def test_a_data_file_takes_its_deletion_vector_along(new_table: Callable[..., Table], data_files: Any) -> None:
    one, two = data_files.write(SCHEMA, rows(1, 2)), data_files.write(SCHEMA, rows(3, 4))
    table = committed(new_table(3), "append", add=[one, two])
    vectors = [deletion_vector(data_files.folder, each["file_path"][0].as_py(), 0) for each in (one, two)]
    table = committed(table, "delete", add=vectors)
    table = committed(table, "delete", delete=one)
    assert ids_of(table) == [4]
    (left,) = live_delete_files(table, table.metadata.current_snapshot)
    assert left["referenced_data_file"].to_pylist() == two["file_path"].to_pylist()
    summary = summary_of(table)
    assert (summary["removed-dvs"], summary["total-position-deletes"], summary["total-records"]) == ("1", "1", "2")


def test_position_and_equality_deletes_of_version_2(new_table: Callable[..., Table], data_files: Any) -> None:
    table = committed(new_table(2), "append", add=data_files.write(SCHEMA, rows(1, 2, 3)))
    keys = Schema(schema_id=0, fields=(SCHEMA.fields[0],))
    deletes = data_files.write(
        keys,
        rows(2).select(["id"]),
        content=pa.array([2], pa.int32()),
        equality_ids=pa.array([[1]], pa.list_(pa.int32())),
    )
    table = committed(table, "delete", add=deletes)
    assert ids_of(table) == [1, 3]
    summary = summary_of(table)
    assert (summary["added-equality-delete-files"], summary["total-equality-deletes"]) == ("1", "1")
    table = committed(table, "overwrite", delete=deletes)
    assert ids_of(table) == [1, 2, 3]
    assert summary_of(table)["removed-equality-deletes"] == "1"


@pytest.mark.parametrize(
    ("version", "entry", "message"),
    [
        (1, {"content": 2, "equality_ids": [1]}, "delete files to a version 1 table"),
        (2, {"content": 1, "file_format": "puffin"}, "deletion vectors to a version 2 table"),
        (3, {"content": 1}, "position delete files to a version 3 table"),
        (3, {"content": 1, "file_format": "puffin"}, "its referenced_data_file is missing"),
        (3, {"content": 0, "file_format": "puffin"}, "a puffin file as data"),
        (2, {"content": 2}, "its equality_ids are missing"),
        (2, {"content": 7}, "its content is not 0"),
        (2, {"file_format": "csv"}, "a file of format 'csv'"),
        (2, {"record_count": -1}, "is negative"),
        (2, {"spec_id": 3}, "an entry is not of partition spec 0"),
        (2, {"record_count": None}, "an entry has no record_count"),
    ],
)
def test_files_that_a_version_does_not_allow_are_refused(
    new_table: Callable[..., Table], version: int, entry: dict[str, Any], message: str
) -> None:
    kinds = {"content": pa.int32(), "spec_id": pa.int32(), "equality_ids": pa.list_(pa.int32())}
    columns = {"file_path": "/x/y", "file_format": "parquet", "record_count": 1, "file_size_in_bytes": 1, **entry}
    batch = pa.record_batch(
        {
            name: pa.array([value], kinds.get(name, pa.string() if isinstance(value, str) else pa.int64()))
            for name, value in columns.items()
        }
    )
    with new_table(version).transaction() as transaction, pytest.raises(InvalidIcebergRequest, match=message):
        transaction.snapshot("overwrite").add_files(batch)


def test_two_vectors_for_one_file_are_refused(new_table: Callable[..., Table], data_files: Any) -> None:
    data = data_files.write(SCHEMA, rows(1, 2, 3))
    path = data["file_path"][0].as_py()
    table = committed(new_table(3), "append", add=data)
    transaction = table.transaction()
    transaction.snapshot("delete").add_files(
        [deletion_vector(data_files.folder, path, 0), deletion_vector(data_files.folder, path, 1)]
    )
    with pytest.raises(InvalidIcebergRequest, match="Cannot add two deletion vectors for data file"):
        transaction.commit()


def lineage(table: Table) -> list[tuple[int, int | None, int | None]]:
    found = read(table, with_lineage=True).sort_by("id")
    return list(
        zip(
            found["id"].to_pylist(),
            found["_row_id"].to_pylist(),
            found["_last_updated_sequence_number"].to_pylist(),
            strict=True,
        )
    )


def test_row_ids_are_assigned_in_the_order_of_files(new_table: Callable[..., Table], data_files: Any) -> None:
    table = committed(
        new_table(3), "append", add=[data_files.write(SCHEMA, rows(1, 2)), data_files.write(SCHEMA, rows(3))]
    )
    assert lineage(table) == [(1, 0, 1), (2, 1, 1), (3, 2, 1)]
    assert table.metadata.next_row_id == 3
    table = committed(table, "append", add=data_files.write(SCHEMA, rows(4)))
    assert lineage(table)[3] == (4, 3, 2)
    assert table.metadata.next_row_id == 4
    snapshot = table.metadata.current_snapshot
    assert snapshot is not None
    assert (snapshot.first_row_id, snapshot.added_rows) == (3, 1)
    assert [manifest.first_row_id for manifest in manifests_of(table)] == [3, 0]


def test_rewritten_manifests_keep_the_row_ids_of_files(new_table: Callable[..., Table], data_files: Any) -> None:
    one, two = data_files.write(SCHEMA, rows(1, 2)), data_files.write(SCHEMA, rows(3))
    table = committed(new_table(3), "append", add=[one, two])
    table = committed(table, "overwrite", add=data_files.write(SCHEMA, rows(9)), delete=one)
    assert lineage(table) == [(3, 2, 1), (9, 3, 2)]
    assert table.metadata.next_row_id == 4


def test_an_upgraded_table_gets_row_ids_with_the_next_commit(new_table: Callable[..., Table], data_files: Any) -> None:
    table = committed(new_table(1), "append", add=data_files.write(SCHEMA, rows(1, 2)), snapshot_id=5)
    table = table.transaction().upgrade(2).commit()
    assert table.metadata.last_sequence_number == 0
    table = table.transaction().upgrade(3).commit()
    assert table.metadata.next_row_id == 0
    assert lineage(table) == [(1, None, None), (2, None, None)]
    table = committed(table, "append", add=data_files.write(SCHEMA, rows(3)))
    found = lineage(table)
    assert sorted(row_id for _, row_id, _ in found if row_id is not None) == [0, 1, 2]
    assert [number for _, _, number in found] == [0, 0, 1]
    assert table.metadata.next_row_id == 3
    assert summary_of(table)["total-records"] == "3"
    before = table.metadata.snapshot_by_id(5)
    assert before.first_row_id is None


def test_a_version_1_snapshot_without_manifest_list_is_built_upon(
    new_table: Callable[..., Table], data_files: Any
) -> None:
    one = data_files.write(SCHEMA, rows(1))
    table = committed(new_table(1), "append", add=[one, data_files.write(SCHEMA, rows(2))])
    document = json.loads(Path(table.metadata_location).read_text())
    del document["snapshots"][0]["manifest-list"]
    document["snapshots"][0]["manifests"] = [manifest.manifest_path for manifest in manifests_of(table)]
    Path(table.metadata_location).write_text(json.dumps(document))
    table = Table.open(table.location, open_storage())
    table = committed(table, "append", add=data_files.write(SCHEMA, rows(3)))
    assert ids_of(table) == [1, 2, 3]
    assert summary_of(table)["total-records"] == "3"
    table = table.transaction().upgrade(3).commit()
    table = committed(table, "overwrite", add=data_files.write(SCHEMA, rows(4)), delete=one)
    assert ids_of(table) == [2, 3, 4]
    assert sorted(row_id for _, row_id, _ in lineage(table) if row_id is not None) == [0, 1, 2]


def test_explicit_numbers_are_written_as_given(new_table: Callable[..., Table], data_files: Any) -> None:
    table = new_table(3)
    transaction = table.transaction()
    builder = transaction.snapshot(
        "append", snapshot_id=77, timestamp_ms=1234567890123, sequence_number=40, first_row_id=0
    )
    builder.add_files(
        [
            data_files.write(SCHEMA, rows(1, 2), sequence_number=7, first_row_id=100),
            data_files.write(SCHEMA, rows(3), sequence_number=40, first_row_id=50),
        ],
        keep_inherited=True,
    )
    table = transaction.commit()
    snapshot = table.metadata.current_snapshot
    assert snapshot is not None
    assert (snapshot.snapshot_id, snapshot.timestamp_ms, snapshot.sequence_number) == (77, 1234567890123, 40)
    assert (snapshot.first_row_id, snapshot.added_rows) == (0, 102)
    assert table.metadata.next_row_id == 102
    assert table.metadata.last_sequence_number == 40
    assert lineage(table) == [(1, 100, 7), (2, 101, 7), (3, 50, 40)]
    entries = entries_of(table)
    assert entries["file_sequence_number"].to_pylist() == [40, 40]
    (manifest,) = manifests_of(table)
    assert (manifest.sequence_number, manifest.min_sequence_number) == (40, 7)
    # A version of the source that only deletes follows, with the files carried over as they were.
    (batch,) = live_data_files(table, snapshot)
    transaction = table.transaction()
    builder = transaction.snapshot("delete", sequence_number=41)
    builder.existing_files(batch.slice(1, 1)).delete_files(batch.slice(0, 1))
    table = transaction.commit()
    assert lineage(table) == [(3, 50, 40)]
    assert table.metadata.next_row_id == 102
    assert summary_of(table)["deleted-records"] == "2"
    assert summary_of(table)["total-records"] == "1"
    assert entries_of(table)["status"].to_pylist() == [DELETED, EXISTING]


def test_new_row_ids_never_meet_explicit_ones(new_table: Callable[..., Table], data_files: Any) -> None:
    transaction = new_table(3).transaction()
    builder = transaction.snapshot("append")
    builder.add_files(data_files.write(SCHEMA, rows(1, 2), first_row_id=1), keep_inherited=True)
    builder.add_files(data_files.write(SCHEMA, rows(3)))
    table = transaction.commit()
    assert lineage(table) == [(1, 1, 1), (2, 2, 1), (3, 3, 1)]
    assert table.metadata.next_row_id == 4


@pytest.mark.parametrize(
    ("options", "entry", "message"),
    [
        ({"sequence_number": 1}, {"sequence_number": 2}, "files cannot be younger than the snapshot"),
        ({"sequence_number": 0}, {}, "is not above the last one 0"),
        ({"first_row_id": -5}, {}, "is below the table's next row id 0"),
    ],
)
def test_numbers_that_contradict_each_other_are_refused(
    new_table: Callable[..., Table], data_files: Any, options: dict[str, int], entry: dict[str, int], message: str
) -> None:
    transaction = new_table(3).transaction()
    transaction.snapshot("append", **options).add_files(data_files.write(SCHEMA, rows(1), **entry), keep_inherited=True)
    with pytest.raises(InvalidIcebergRequest, match=message):
        transaction.commit()


def test_kept_manifests_are_all_that_remains(new_table: Callable[..., Table], data_files: Any) -> None:
    table = new_table(2)
    for number in range(3):
        table = committed(table, "append", add=data_files.write(SCHEMA, rows(number)))
    newest, _, oldest = manifests_of(table)
    transaction = table.transaction()
    transaction.snapshot("overwrite").keep_manifests([oldest, newest]).add_files(data_files.write(SCHEMA, rows(9)))
    table = transaction.commit()
    assert ids_of(table) == [0, 2, 9]
    # The totals are counted anew, since nobody said which files went.
    assert summary_of(table)["total-data-files"] == "3"
    assert summary_of(table)["total-records"] == "3"
    assert summary_of(table)["manifests-kept"] == "2"


def test_totals_do_not_trust_a_summary_that_contradicts_the_manifests(
    new_table: Callable[..., Table], data_files: Any
) -> None:
    table = committed(
        new_table(2),
        "append",
        add=data_files.write(SCHEMA, rows(1)),
        summary={"total-records": "999", "total-files-size": "0"},
    )
    assert summary_of(table)["total-records"] == "999"
    table = committed(table, "append", add=data_files.write(SCHEMA, rows(2, 3)))
    assert summary_of(table)["total-records"] == "3"
    assert summary_of(table)["total-files-size"] == str(pc.sum(entries_of(table)["file_size_in_bytes"]).as_py())


def test_small_manifests_are_merged_once_there_are_enough(new_table: Callable[..., Table], data_files: Any) -> None:
    table = new_table(3, properties={"commit.manifest.min-count-to-merge": "3"})
    for number in range(1, 6):
        table = committed(table, "append", add=data_files.write(SCHEMA, rows(number)), snapshot_id=number)
        assert len(manifests_of(table)) == [0, 1, 2, 1, 2, 1][number]
    assert lineage(table) == [(number, number - 1, number) for number in range(1, 6)]
    entries = entries_of(table)
    assert entries["status"].to_pylist() == [EXISTING] * 4 + [ADDED]
    assert entries["snapshot_id"].to_pylist() == [1, 2, 3, 4, 5]
    assert entries["sequence_number"].to_pylist() == [1, 2, 3, 4, 5]
    assert table.metadata.next_row_id is not None
    assert table.metadata.next_row_id >= 5
    (manifest,) = manifests_of(table)
    assert (manifest.sequence_number, manifest.min_sequence_number) == (5, 1)


def test_merging_keeps_explicit_row_ids_and_deletions_of_the_same_commit(
    new_table: Callable[..., Table], data_files: Any
) -> None:
    table = new_table(3, properties={"commit.manifest.min-count-to-merge": "1"})
    one, two = data_files.write(SCHEMA, rows(1)), data_files.write(SCHEMA, rows(2))
    table = committed(table, "append", add=[one, two])
    transaction = table.transaction()
    builder = transaction.snapshot("overwrite").delete_files(one)
    builder.add_files(data_files.write(SCHEMA, rows(3), first_row_id=70), keep_inherited=True)
    builder.add_files(data_files.write(SCHEMA, rows(4)))
    table = transaction.commit()
    assert lineage(table) == [(2, 1, 1), (3, 70, 2), (4, 71, 2)]
    assert entries_of(table)["status"].to_pylist() == [DELETED, EXISTING, ADDED, ADDED]
    table = committed(table, "append", add=data_files.write(SCHEMA, rows(5)))
    assert DELETED not in entries_of(table)["status"].to_pylist()


def test_manifests_are_split_at_the_target_size(new_table: Callable[..., Table]) -> None:
    table = new_table(2, properties={"commit.manifest.target-size-bytes": "100000"})
    count = 50_000
    batch = pa.record_batch(
        {
            "file_path": [f"/nowhere/{number:07}.parquet" for number in range(count)],
            "file_format": ["parquet"] * count,
            "record_count": pa.array([1] * count),
            "file_size_in_bytes": pa.array(range(count)),
        }
    )
    table = committed(table, "append", add=batch, merge_manifests=False)
    manifests = manifests_of(table)
    assert len(manifests) > 2
    assert sum(manifest.added_files_count or 0 for manifest in manifests) == count
    assert summary_of(table)["total-data-files"] == str(count)


PARTITIONED: list[tuple[str, Type, list[Any]]] = [
    ("identity", BooleanType(), [True, False, None]),
    ("identity", IntegerType(), [-5, 7, None]),
    ("identity", LongType(), [2**40, -1, None]),
    ("identity", FloatType(), [1.5, -0.25, None]),
    ("identity", DoubleType(), [1e300, -2.5, None]),
    ("identity", DateType(), [datetime.date(1969, 12, 31), datetime.date(2024, 2, 29), None]),
    ("identity", TimestampType(), [datetime.datetime(1969, 12, 31, 23, 59, 59, 999999), None]),
    ("identity", TimestamptzType(), [datetime.datetime(2024, 3, 10, 10, 30, tzinfo=datetime.timezone.utc), None]),
    ("identity", StringType(), ["a b/c%20é", "", None]),
    ("identity", BinaryType(), [b"\x00\xff", b"", None]),
    ("identity", DecimalType(precision=20, scale=3), [Decimal("-1.280"), Decimal("99999999999999999.999"), None]),
    ("bucket[5]", StringType(), ["iceberg", "x", None]),
    ("bucket[5]", DecimalType(precision=9, scale=2), [Decimal("14.20"), None]),
    ("truncate[4]", StringType(), ["icebergs", "ab", None]),
    ("truncate[10]", LongType(), [-1, 19, None]),
    ("truncate[10]", DecimalType(precision=9, scale=2), [Decimal("10.65"), Decimal("-0.01"), None]),
    ("year", DateType(), [datetime.date(1969, 5, 5), datetime.date(2024, 1, 1), None]),
    ("month", TimestampType(), [datetime.datetime(1969, 12, 31), datetime.datetime(2024, 1, 1), None]),
    ("day", TimestamptzType(), [datetime.datetime(1969, 12, 31, 1, tzinfo=datetime.timezone.utc), None]),
    ("hour", TimestampType(), [datetime.datetime(1969, 12, 31, 23, 59), datetime.datetime(2024, 1, 1, 5), None]),
    ("void", StringType(), ["a", None]),
]


def theirs(independent: Any, engine: str, table: Table, version: int | None = None) -> pa.Table:
    """What an engine reads; its own words fail the test."""
    found = independent.read(engine, table.metadata_location, version)
    assert isinstance(found, pa.Table), found
    return found


@pytest.mark.parametrize("version", INDEPENDENT_VERSIONS)
@pytest.mark.parametrize(("transform", "kind", "values"), PARTITIONED)
def test_other_engines_read_every_partitioning(
    new_table: Callable[..., Table],
    data_files: Any,
    independent: Any,
    difference: Any,
    version: int,
    transform: str,
    kind: Type,
    values: list[Any],
) -> None:
    schema = Schema(
        schema_id=0,
        fields=(
            NestedField(field_id=1, name="n", required=False, type=LongType()),
            NestedField(field_id=2, name="v", required=False, type=kind),
        ),
    )
    part = PartitionField(source_ids=(2,), field_id=1000, name="p", transform=parse_transform(transform))
    spec = PartitionSpec(spec_id=0, fields=(part,))
    table = new_table(version, schema=schema, spec=spec)
    tables = [
        pa.table({"n": pa.array([number, number + 100]), "v": pa.array([value, value], arrow_type(kind))})
        for number, value in enumerate(values)
    ]
    table = committed(table, "append", add=[data_files.write(schema, each, spec) for each in tables])
    expected = pa.concat_tables(tables)
    assert difference(read(table), expected) == ""
    for engine in ("pyiceberg", "duckdb-iceberg"):
        assert difference(theirs(independent, engine, table), expected) == "", engine


@pytest.mark.parametrize("version", INDEPENDENT_VERSIONS)
def test_other_engines_read_every_plain_type(
    new_table: Callable[..., Table], data_files: Any, independent: Any, difference: Any, version: int
) -> None:
    moment = datetime.datetime(2024, 2, 29, 12, 30, 1, 123456)
    columns: dict[str, tuple[Type, list[Any]]] = {
        "b": (BooleanType(), [True, None]),
        "i": (IntegerType(), [-(2**31), None]),
        "l": (LongType(), [2**63 - 1, None]),
        "f": (FloatType(), [1.5, None]),
        "d": (DoubleType(), [-0.0, None]),
        "dec": (DecimalType(precision=38, scale=10), [Decimal("-1234567890.0123456789"), None]),
        "date": (DateType(), [moment.date(), None]),
        "time": (TimeType(), [moment.time(), None]),
        "ts": (TimestampType(), [moment, None]),
        "tstz": (TimestamptzType(), [moment.replace(tzinfo=datetime.timezone.utc), None]),
        "s": (StringType(), ["é" * 20, None]),
        "u": (UuidType(), [b"\x01" * 16, None]),
        "fx": (FixedType(length=3), [b"abc", None]),
        "bin": (BinaryType(), [b"\xff" * 20, None]),
    }
    schema = Schema(
        schema_id=0,
        fields=tuple(
            NestedField(field_id=number, name=name, required=False, type=kind)
            for number, (name, (kind, _)) in enumerate(columns.items(), 1)
        ),
    )
    expected = pa.table({name: pa.array(values, arrow_type(kind)) for name, (kind, values) in columns.items()})
    table = committed(new_table(version, schema=schema), "append", add=data_files.write(schema, expected))
    assert difference(read(table), expected) == ""
    for engine in ("pyiceberg", "duckdb-iceberg"):
        assert difference(theirs(independent, engine, table), expected) == "", engine


@pytest.mark.parametrize("version", INDEPENDENT_VERSIONS)
def test_other_engines_read_evolved_partitioning_at_every_snapshot(
    new_table: Callable[..., Table], data_files: Any, independent: Any, version: int
) -> None:
    table = committed(new_table(version), "append", add=data_files.write(SCHEMA, rows(1, 2)), snapshot_id=1)
    transaction = table.transaction()
    transaction.update_spec(lambda update: update.add_field("id", parse_transform("bucket[4]")))
    table = transaction.commit()
    spec = table.metadata.spec
    table = committed(
        table,
        "append",
        add=[data_files.write(SCHEMA, rows(3), spec), data_files.write(SCHEMA, rows(4), spec)],
        snapshot_id=2,
    )
    transaction = table.transaction()
    transaction.update_spec(lambda update: update.remove_field("id_bucket_4").add_field("s"))
    table = transaction.commit()
    spec = table.metadata.spec
    assert [(part.name, str(part.transform)) for part in spec.fields] == (
        [("id_bucket_4", "void"), ("s", "identity")] if version == 1 else [("s", "identity")]
    )
    table = committed(table, "append", add=data_files.write(SCHEMA, rows(5), spec), snapshot_id=3)
    entry = next(
        batch
        for batch in live_data_files(table, table.metadata.current_snapshot)
        if batch["record_count"][0].as_py() == 2
    )
    table = committed(table, "delete", delete=entry, snapshot_id=4)
    expected = {1: [1, 2], 2: [1, 2, 3, 4], 3: [1, 2, 3, 4, 5], 4: [3, 4, 5]}
    for snapshot_id, ids in expected.items():
        found = read(table, snapshot=table.snapshot_for(snapshot_id=snapshot_id))
        assert sorted(found["id"].to_pylist()) == ids
        for engine in ("pyiceberg", "duckdb-iceberg"):
            found = theirs(independent, engine, table, snapshot_id)
            assert sorted(found["id"].to_pylist()) == ids, engine


def test_other_engines_read_deletes(new_table: Callable[..., Table], data_files: Any, independent: Any) -> None:
    data = data_files.write(SCHEMA, rows(1, 2, 3, 4))
    table = committed(new_table(3), "append", add=data)
    table = committed(table, "delete", add=deletion_vector(data_files.folder, data["file_path"][0].as_py(), 0, 3))
    for engine in ("pyiceberg", "duckdb-iceberg"):
        assert sorted(theirs(independent, engine, table)["id"].to_pylist()) == [2, 3], engine


def test_pyiceberg_reads_the_metadata_as_we_do(new_table: Callable[..., Table], data_files: Any) -> None:
    from pyiceberg.table import StaticTable

    table = new_table(2, spec=BUCKETED, properties={"a": "b"})
    table = committed(
        table, "append", add=[data_files.write(SCHEMA, rows(1), BUCKETED), data_files.write(SCHEMA, rows(2), BUCKETED)]
    )
    table = table.transaction().set_ref("tagged", table.metadata.current_snapshot_id or 0, type=RefType.TAG).commit()
    theirs = StaticTable.from_metadata(table.metadata_location)
    assert theirs.metadata.table_uuid.hex == (table.metadata.table_uuid or "").replace("-", "")
    assert dict(theirs.properties) == {"a": "b"}
    assert set(theirs.refs()) == {"main", "tagged"}
    files = theirs.inspect.files().to_pylist()
    assert sorted(file["record_count"] for file in files) == [1, 1]
    manifests = theirs.inspect.manifests().to_pylist()
    assert [len(manifest["partition_summaries"]) for manifest in manifests] == [1]
    summary = manifests[0]["partition_summaries"][0]
    buckets = sorted(file["partition"]["id_bucket_4"] for file in files)
    assert (summary["lower_bound"], summary["upper_bound"]) == (str(buckets[0]), str(buckets[-1]))
