"""Updates of table metadata, one rule each."""

from __future__ import annotations

from dataclasses import replace

import pytest

from deltaberg.iceberg.errors import InvalidIcebergRequest
from deltaberg.iceberg.metadata.encryption_key import EncryptionKey
from deltaberg.iceberg.metadata.metadata_builder import MetadataBuilder
from deltaberg.iceberg.metadata.metadata_update import (
    AddEncryptionKey,
    AddSchema,
    AddSnapshot,
    AddSpec,
    AssignUuid,
    MetadataUpdate,
    RemovePartitionStatistics,
    RemoveProperties,
    RemoveSnapshotRef,
    RemoveSnapshots,
    RemoveStatistics,
    SetCurrentSchema,
    SetDefaultSpec,
    SetLocation,
    SetPartitionStatistics,
    SetProperties,
    SetSnapshotRef,
    SetStatistics,
    UpgradeFormatVersion,
)
from deltaberg.iceberg.metadata.snapshot import Snapshot
from deltaberg.iceberg.metadata.snapshot_ref import RefType, SnapshotRef
from deltaberg.iceberg.metadata.statistics_file import PartitionStatisticsFile, StatisticsFile
from deltaberg.iceberg.metadata.table_metadata import TableMetadata
from deltaberg.iceberg.partition.partition_spec import PartitionField, PartitionSpec
from deltaberg.iceberg.partition.transforms import IdentityTransform
from deltaberg.iceberg.schema.schema import Schema
from deltaberg.iceberg.schema.types import LongType, NestedField

UUID = "fb072c92-a02b-11e9-ae9c-1bb7bc9eca94"
SCHEMA = Schema(schema_id=0, fields=(NestedField(field_id=1, name="id", required=False, type=LongType()),))
WIDER = Schema(schema_id=1, fields=(*SCHEMA.fields, NestedField(field_id=2, name="x", required=False, type=LongType())))


def metadata(version: int = 2, **changes: object) -> TableMetadata:
    base = TableMetadata(
        format_version=version,
        table_uuid=UUID,
        location="/wh/t",
        last_updated_ms=1000,
        last_column_id=1,
        schemas=(SCHEMA,),
        current_schema_id=0,
        partition_specs=(PartitionSpec(spec_id=0),),
        default_spec_id=0,
        last_partition_id=999,
        next_row_id=0 if version >= 3 else None,
    )
    return replace(base, **changes)  # type: ignore[arg-type]


def snapshot(number: int, **options: object) -> Snapshot:
    values: dict[str, object] = {"sequence_number": number, "timestamp_ms": 1000 * number, **options}
    return Snapshot(snapshot_id=number, manifest_list=f"/wh/t/metadata/{number}.avro", **values)  # type: ignore[arg-type]


def built(base: TableMetadata, *updates: MetadataUpdate, now_ms: int = 5000) -> TableMetadata:
    builder = MetadataBuilder(base, now_ms=now_ms)
    for update in updates:
        builder.apply(update)
    return builder.build(previous_location="/wh/t/metadata/v1.metadata.json")


def to_main(number: int, logged_ms: int | None = None) -> SetSnapshotRef:
    return SetSnapshotRef(name="main", ref=SnapshotRef(snapshot_id=number, type=RefType.BRANCH), logged_ms=logged_ms)


def test_every_new_version_logs_the_one_before() -> None:
    after = built(metadata(), SetProperties(updates={"a": "b"}))
    assert after.last_updated_ms == 5000
    assert [(entry.metadata_file, entry.timestamp_ms) for entry in after.metadata_log] == [
        ("/wh/t/metadata/v1.metadata.json", 1000)
    ]


def test_time_never_runs_backwards() -> None:
    assert built(metadata(), SetProperties(updates={}), now_ms=10).last_updated_ms == 1000
    after = built(metadata(), AddSnapshot(snapshot=snapshot(9)), to_main(9, 9000), now_ms=10)
    assert after.last_updated_ms == 9000


def test_the_log_says_when_main_moved() -> None:
    after = built(metadata(), AddSnapshot(snapshot=snapshot(1)), to_main(1), AddSnapshot(snapshot=snapshot(2)))
    assert [(entry.snapshot_id, entry.timestamp_ms) for entry in after.snapshot_log] == [(1, 5000)]
    assert after.current_snapshot_id == 1
    assert after.last_sequence_number == 2


def test_simple_updates() -> None:
    after = built(
        metadata(),
        SetProperties(updates={"a": "1", "b": "2"}),
        RemoveProperties(removals=("a", "zzz")),
        SetLocation(location="/wh/other"),
        AddSchema(schema=WIDER, last_column_id=7, make_current=False),
        AddSpec(
            spec=PartitionSpec(
                spec_id=4,
                fields=(PartitionField(source_ids=(1,), field_id=1003, name="id", transform=IdentityTransform()),),
            ),
            make_default=False,
        ),
        AssignUuid(uuid=UUID),
        AddEncryptionKey(key=EncryptionKey(key_id="k", encrypted_key_metadata="eA==")),
    )
    assert after.properties == {"b": "2"}
    assert after.location == "/wh/other"
    assert (after.current_schema_id, after.last_column_id, len(after.schemas)) == (0, 7, 2)
    assert (after.default_spec_id, after.last_partition_id, len(after.partition_specs)) == (0, 1003, 2)
    assert [key.key_id for key in after.encryption_keys] == ["k"]
    moved = built(after, SetCurrentSchema(schema_id=1), SetDefaultSpec(spec_id=4))
    assert (moved.current_schema_id, moved.default_spec_id) == (1, 4)


def test_a_location_that_is_set_is_stored() -> None:
    base = metadata(4, location="file:///wh/t", stores_location=False)
    assert not built(base, SetProperties(updates={})).stores_location
    assert built(base, SetLocation(location="file:///wh/u")).stores_location


def test_statistics_are_kept_one_a_snapshot_and_go_with_it() -> None:
    def statistics(path: str) -> StatisticsFile:
        return StatisticsFile(snapshot_id=1, statistics_path=path, file_size_in_bytes=1, file_footer_size_in_bytes=1)

    partition = PartitionStatisticsFile(snapshot_id=1, statistics_path="/p", file_size_in_bytes=1)
    base = built(
        metadata(),
        AddSnapshot(snapshot=snapshot(1)),
        SetStatistics(statistics=statistics("/a")),
        SetStatistics(statistics=statistics("/b")),
        SetPartitionStatistics(statistics=partition),
    )
    assert [item.statistics_path for item in base.statistics] == ["/b"]
    assert base.partition_statistics == (partition,)
    assert built(base, RemoveStatistics(snapshot_id=1), RemovePartitionStatistics(snapshot_id=1)).statistics == ()
    gone = built(base, RemoveSnapshots(snapshot_ids=(1,)))
    assert (gone.snapshots, gone.statistics, gone.partition_statistics) == ((), (), ())


def test_without_main_there_is_no_current_snapshot() -> None:
    base = built(metadata(), AddSnapshot(snapshot=snapshot(1)), to_main(1))
    after = built(base, RemoveSnapshotRef(name="main"))
    assert (after.current_snapshot_id, after.snapshot_log) == (None, ())
    assert after.has_snapshot(1)


def test_row_ids_are_counted_on_from_what_a_snapshot_reaches() -> None:
    after = built(metadata(3), AddSnapshot(snapshot=snapshot(1, first_row_id=10, added_rows=5)))
    assert after.next_row_id == 15


def test_an_upgrade_to_version_4_gives_every_location_its_scheme() -> None:
    base = built(metadata(3, location="file:///wh/t"), AddSnapshot(snapshot=snapshot(1, first_row_id=0, added_rows=0)))
    after = built(base, UpgradeFormatVersion(format_version=4))
    assert [each.manifest_list for each in after.snapshots] == ["file:///wh/t/metadata/1.avro"]
    assert after.metadata_log[-1].metadata_file == "file:///wh/t/metadata/v1.metadata.json"


@pytest.mark.parametrize(
    ("version", "update", "message"),
    [
        (2, AddSnapshot(snapshot=snapshot(0)), "its sequence number 0 is not above the last one 0"),
        (3, AddSnapshot(snapshot=snapshot(1)), "version 3 needs its first row id and added rows"),
        (2, AddSchema(schema=WIDER, last_column_id=1), "last column id 1 is below its highest field id 2"),
        (
            2,
            AddSchema(schema=replace(WIDER, schema_id=0), last_column_id=2),
            "Cannot add schema 0: the table has another one with this id",
        ),
        (2, SetCurrentSchema(schema_id=9), "it has no schema 9"),
        (2, SetDefaultSpec(spec_id=9), "it has no partition spec 9"),
        (2, to_main(9), "the table has no snapshot 9"),
        (2, AssignUuid(uuid="00000000-0000-0000-0000-000000000000"), "Cannot give the table UUID"),
        (2, RemoveSnapshots(snapshot_ids=(9,)), "it has no snapshot 9"),
        (3, UpgradeFormatVersion(format_version=4), "it needs a scheme such as file:"),
    ],
)
def test_updates_that_break_a_rule_are_refused(version: int, update: MetadataUpdate, message: str) -> None:
    with pytest.raises(InvalidIcebergRequest, match=message):
        built(metadata(version), update)


def test_a_snapshot_id_is_used_once() -> None:
    base = built(metadata(), AddSnapshot(snapshot=snapshot(1)))
    with pytest.raises(InvalidIcebergRequest, match="the table has a snapshot with this id"):
        built(base, AddSnapshot(snapshot=snapshot(1, sequence_number=2)))


def test_a_tag_does_not_turn_into_a_branch() -> None:
    tag = SetSnapshotRef(name="t", ref=SnapshotRef(snapshot_id=1, type=RefType.TAG))
    base = built(metadata(), AddSnapshot(snapshot=snapshot(1)), tag)
    with pytest.raises(InvalidIcebergRequest, match="Cannot set reference t as a branch: it is a tag"):
        built(base, SetSnapshotRef(name="t", ref=SnapshotRef(snapshot_id=1, type=RefType.BRANCH)))
