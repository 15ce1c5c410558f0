"""Manifest lists of every version, the numbers they assign, version 1's inline lists, and the malformed twins."""

import io
import json
from dataclasses import fields, replace

import fastavro
import pyarrow as pa
import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import read_manifest_list as their_manifest_list

from deltaberg.iceberg.avro.writer import AvroWriter
from deltaberg.iceberg.errors import CorruptMetadata, InvalidIcebergRequest
from deltaberg.iceberg.manifest.manifest_list import (
    UNASSIGNED_SEQUENCE_NUMBER,
    FieldSummary,
    ManifestContent,
    ManifestFile,
    manifest_file_type,
    parse_manifest_list,
    read_manifest_list,
)
from deltaberg.iceberg.manifest.manifest_list_writer import write_manifest_list
from deltaberg.iceberg.metadata.snapshot import Snapshot
from deltaberg.iceberg.metadata.table_metadata import TableMetadata
from deltaberg.iceberg.partition.partition_spec import PartitionField, PartitionSpec
from deltaberg.iceberg.partition.transforms import parse_transform
from deltaberg.iceberg.schema.schema import Schema
from deltaberg.iceberg.schema.types import LongType, NestedField, StructType, arrow_type
from deltaberg.storage import NotFound, open_storage

SYNC = bytes(range(16))
BY_A = PartitionSpec(
    spec_id=3,
    fields=(PartitionField(source_ids=(1,), field_id=1000, name="a", transform=parse_transform("identity")),),
)


def metadata(version=2, location="s3://w/t"):
    return TableMetadata(
        format_version=version,
        table_uuid="9c12d441-03fe-4693-9a96-a0705ddf69c1",
        location=location,
        last_updated_ms=0,
        last_column_id=9,
        schemas=(Schema(schema_id=0, fields=(NestedField(field_id=1, name="a", required=False, type=LongType()),)),),
        current_schema_id=0,
        partition_specs=(PartitionSpec(spec_id=0), BY_A),
        default_spec_id=0,
        last_partition_id=1000,
    )


def manifest(name="m", **changes):
    known = {
        "manifest_path": f"s3://w/t/metadata/{name}.avro",
        "manifest_length": 1234,
        "partition_spec_id": 3,
        "sequence_number": UNASSIGNED_SEQUENCE_NUMBER,
        "min_sequence_number": UNASSIGNED_SEQUENCE_NUMBER,
        "added_snapshot_id": 77,
        "added_files_count": 1,
        "existing_files_count": 2,
        "deleted_files_count": 3,
        "added_rows_count": 10,
        "existing_rows_count": 20,
        "deleted_rows_count": 2**40,
        "partitions": (FieldSummary(contains_null=True, contains_nan=None, lower_bound=b"\x01", upper_bound=b""),),
        "key_metadata": b"\x00",
    }
    return ManifestFile(**known | changes)


def write(folder, *manifests, version=2, **changes):
    options = {
        "format_version": version,
        "snapshot_id": 77,
        "parent_snapshot_id": 76,
        "sequence_number": 9,
        "first_row_id": 1000 if version >= 3 else None,
    }
    return write_manifest_list(open_storage(), f"file:{folder}/list.avro", manifests, **options | changes)


def read(folder, version=2, **options):
    snapshot = Snapshot(snapshot_id=77, timestamp_ms=1, manifest_list=f"file:{folder}/list.avro")
    return read_manifest_list(open_storage(), snapshot, metadata(version, **options))


@pytest.mark.parametrize("version", [2, 3, 4])
def test_a_list_comes_back_as_it_was_written(tmp_path, version):
    written = write(
        tmp_path,
        manifest("a"),
        manifest("b", content=ManifestContent.DELETES, partitions=None, key_metadata=None),
        manifest("c", sequence_number=4, min_sequence_number=2, partitions=()),
        version=version,
    )
    assert read(tmp_path, version) == written.manifests
    assert [(each.sequence_number, each.min_sequence_number) for each in written.manifests] == [(9, 9), (9, 9), (4, 2)]


def test_a_version_1_list_comes_back_without_sequence_numbers(tmp_path):
    unknown = dict.fromkeys(("added_files_count", "existing_files_count", "deleted_files_count"))
    unknown |= dict.fromkeys(("added_rows_count", "existing_rows_count", "deleted_rows_count"))
    write(tmp_path, manifest("a"), manifest("b", **unknown), version=1, sequence_number=0)
    zero = {"sequence_number": 0, "min_sequence_number": 0}
    assert read(tmp_path, 1) == (manifest("a", **zero), manifest("b", **unknown, **zero))


def test_files_that_state_their_own_number_lower_the_manifests_lowest(tmp_path):
    written = write(tmp_path, manifest(min_sequence_number=3))
    assert (written.manifests[0].sequence_number, written.manifests[0].min_sequence_number) == (9, 3)


def test_row_ids_are_assigned_in_list_order_and_kept_once_assigned(tmp_path):
    written = write(
        tmp_path,
        manifest("a"),
        manifest("kept", first_row_id=5),
        manifest("deletes", content=ManifestContent.DELETES),
        manifest("b", added_rows_count=0, existing_rows_count=100),
        manifest("c"),
        version=3,
    )
    assert [each.first_row_id for each in written.manifests] == [1000, 5, None, 1030, 1130]
    assert written.next_row_id == 1160
    assert read(tmp_path, 3) == written.manifests


def test_below_version_3_there_are_no_row_ids(tmp_path):
    written = write(tmp_path, manifest(first_row_id=8))
    assert written.next_row_id is None
    assert read(tmp_path)[0].first_row_id is None


@pytest.mark.parametrize("version", [1, 2])
def test_pyiceberg_reads_the_list(tmp_path, version):
    write(tmp_path, manifest(), version=version)
    (theirs,) = their_manifest_list(PyArrowFileIO().new_input(f"{tmp_path}/list.avro"))
    assert theirs.manifest_path == "s3://w/t/metadata/m.avro"
    assert (theirs.added_files_count, theirs.existing_rows_count, theirs.deleted_rows_count) == (1, 20, 2**40)
    assert theirs.partition_spec_id == 3
    assert (theirs.partitions[0].contains_null, theirs.partitions[0].lower_bound) == (True, b"\x01")
    assert theirs.sequence_number == (9 if version == 2 else 0)


@pytest.mark.parametrize(
    ("version", "extra"),
    [
        (1, {}),
        (2, {"sequence-number": "9"}),
        (3, {"sequence-number": "9", "first-row-id": "1000"}),
        (4, {"sequence-number": "9", "first-row-id": "1000"}),
    ],
)
def test_the_header_names_the_snapshot(tmp_path, version, extra):
    write(tmp_path, version=version, parent_snapshot_id=None)
    with (tmp_path / "list.avro").open("rb") as file:
        header = fastavro.reader(file).metadata
    known = {key: value for key, value in header.items() if key not in ("avro.schema", "iceberg.schema")}
    assert (
        known
        == {"avro.codec": "deflate", "snapshot-id": "77", "parent-snapshot-id": "null", "format-version": str(version)}
        | extra
    )
    assert json.loads(header["avro.schema"])["name"] == "manifest_file"


@pytest.mark.parametrize(
    ("version", "change", "message"),
    [
        (2, {"added_rows_count": None}, "added_rows_count of manifest .* is unknown, which version 2 does not allow"),
        (3, {"existing_rows_count": None}, "Cannot assign row ids .* its row counts are unknown"),
        (2, {"added_snapshot_id": None}, "has no snapshot id"),
        (1, {"content": ManifestContent.DELETES}, "version 1 has no delete manifests"),
        (4, {"manifest_path": "/w/t/m.avro"}, "reads /w/t/m.avro as relative"),
    ],
)
def test_what_a_version_does_not_allow_is_refused_and_nothing_is_left(tmp_path, version, change, message):
    with pytest.raises(InvalidIcebergRequest, match=message):
        write(tmp_path, manifest(**change), version=version)
    assert list(tmp_path.iterdir()) == []


def test_version_3_needs_the_snapshots_first_row_id(tmp_path):
    with pytest.raises(InvalidIcebergRequest, match="format version 3 needs a first row id"):
        write(tmp_path, version=3, first_row_id=None)


def stored(row, *, kind=None, properties=None):
    """A list of one row, whatever the specification says about it."""
    kind = manifest_file_type(2) if kind is None else kind
    out = io.BytesIO()
    AvroWriter(out, kind, name="manifest_file", codec="null", metadata=properties or {}, sync=SYNC).write(
        pa.array([row], arrow_type(kind))
    )
    return out.getvalue()


ROW = {
    each.name: getattr(manifest(sequence_number=1, min_sequence_number=1), each.name)
    for each in fields(ManifestFile)
    if each.name not in ("partitions", "content", "first_row_id")
} | {"content": 0, "partitions": []}


def test_a_plain_row_is_read():
    (found,) = parse_manifest_list(stored(ROW), metadata())
    assert found == manifest(sequence_number=1, min_sequence_number=1, partitions=())


@pytest.mark.parametrize(
    ("change", "field", "message"),
    [
        ({"content": 2}, "content", r"expected 0 \(data\) or 1 \(deletes\), found 2"),
        ({"manifest_length": -1}, "manifest_length", "found -1"),
        ({"added_files_count": -3}, "added_files_count", "found -3"),
        ({"deleted_rows_count": -(2**40)}, "deleted_rows_count", "not negative"),
        ({"sequence_number": -1}, "sequence_number", "not negative"),
    ],
)
def test_values_that_mean_nothing_are_corrupt(change, field, message):
    with pytest.raises(CorruptMetadata, match=message) as caught:
        parse_manifest_list(stored(ROW | change), metadata())
    assert caught.value.field == field


@pytest.mark.parametrize("field", ["manifest_path", "manifest_length", "partition_spec_id"])
def test_a_missing_required_field_is_corrupt_and_named(field):
    kind = StructType(fields=tuple(each for each in manifest_file_type(2).fields if each.name != field))
    with pytest.raises(CorruptMetadata, match=f"{field} is missing"):
        parse_manifest_list(stored(ROW, kind=kind), metadata())


def test_fields_are_found_by_id_whatever_they_are_called():
    kind = manifest_file_type(2)
    renamed = tuple(replace(each, name=f"x{each.field_id}") for each in reversed(kind.fields))
    row = {f"x{each.field_id}": ROW[each.name] for each in kind.fields}
    (found,) = parse_manifest_list(stored(row, kind=StructType(fields=renamed)), metadata())
    assert found == manifest(sequence_number=1, min_sequence_number=1, partitions=())


def test_a_delete_manifest_has_no_row_ids_even_if_the_list_says_so():
    (found,) = parse_manifest_list(
        stored(ROW | {"content": 1, "first_row_id": 4}, kind=manifest_file_type(3)), metadata(3)
    )
    assert found.first_row_id is None


def test_locations_without_scheme_are_relative_only_in_lists_of_version_4():
    table = metadata(4, "s3://w/t")
    row = ROW | {"manifest_path": "metadata/m.avro"}
    assert (
        parse_manifest_list(stored(row, properties={"format-version": "4"}), table)[0].manifest_path
        == "s3://w/t/metadata/m.avro"
    )
    old = ROW | {"manifest_path": "/w/t/m.avro"}
    assert (
        parse_manifest_list(stored(old, properties={"format-version": "3"}), metadata(4, "hdfs://w/t"))[0].manifest_path
        == "hdfs://w/t/m.avro"
    )
    assert parse_manifest_list(stored(row), metadata(2))[0].manifest_path == "metadata/m.avro"


@pytest.mark.parametrize("damage", [lambda d: b"", lambda d: d[:100], lambda d: d[:-1], lambda d: d[:-4] + b"abcd"])
def test_a_damaged_list_is_corrupt_and_named(tmp_path, damage):
    write(tmp_path, manifest())
    path = tmp_path / "list.avro"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(CorruptMetadata) as caught:
        read(tmp_path)
    assert caught.value.path == f"file:{tmp_path}/list.avro"


def test_a_list_that_is_gone_is_named(tmp_path):
    with pytest.raises(NotFound, match=r"list\.avro"):
        read(tmp_path)


def inline(folder, **properties):
    (folder / "m.avro").write_bytes(stored(ROW, properties=properties))
    snapshot = Snapshot(snapshot_id=5, timestamp_ms=1, manifests=(f"file:{folder}/m.avro",))
    return read_manifest_list(open_storage(), snapshot, metadata(1))


@pytest.mark.parametrize(
    "properties",
    [
        {"partition-spec-id": "3"},
        {"partition-spec": '[{"source-id": 1, "field-id": 1000, "name": "a", "transform": "identity"}]'},
        {"partition-spec": '[{"source-id": 1, "name": "a", "transform": "identity"}]'},
    ],
)
def test_a_version_1_snapshot_may_list_its_manifests_itself(tmp_path, properties):
    (found,) = inline(tmp_path, **properties)
    assert found == ManifestFile(
        manifest_path=f"file:{tmp_path}/m.avro",
        manifest_length=(tmp_path / "m.avro").stat().st_size,
        partition_spec_id=3,
        added_snapshot_id=5,
    )


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({}, "partition-spec is missing"),
        ({"partition-spec-id": "x"}, "expected a spec id, found x"),
        (
            {"partition-spec": '[{"source-id": 9, "name": "z", "transform": "identity"}]'},
            "the fields of one of the table's specs",
        ),
        ({"partition-spec": "{"}, "Cannot read JSON"),
    ],
)
def test_an_inline_manifest_whose_spec_cannot_be_told_is_corrupt(tmp_path, properties, message):
    with pytest.raises(CorruptMetadata, match=message) as caught:
        inline(tmp_path, **properties)
    assert caught.value.path == f"file:{tmp_path}/m.avro"
