"""What entries inherit, how manifests of any writer are typed, and the malformed twins of a manifest."""

import io
import json
from dataclasses import replace
from decimal import Decimal

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaberg.iceberg.avro.container import encode_block, encode_header, read_blocks, read_header
from deltaberg.iceberg.avro.writer import AvroWriter
from deltaberg.iceberg.errors import CorruptMetadata, UnsupportedIcebergFeature
from deltaberg.iceberg.manifest.live_files import data_files, delete_files
from deltaberg.iceberg.manifest.manifest_entry import METRIC_MAPS, entry_type, read_type
from deltaberg.iceberg.manifest.manifest_list import COUNTS, ROW_COUNTS, ManifestContent, ManifestFile
from deltaberg.iceberg.manifest.manifest_list_writer import write_manifest_list
from deltaberg.iceberg.manifest.manifest_reader import read_manifest
from deltaberg.iceberg.metadata.snapshot import Snapshot
from deltaberg.iceberg.metadata.table_metadata import TableMetadata
from deltaberg.iceberg.partition.partition_spec import PartitionField, PartitionSpec
from deltaberg.iceberg.partition.transforms import parse_transform
from deltaberg.iceberg.schema.schema import Schema
from deltaberg.iceberg.schema.types import (
    BinaryType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    arrow_type,
)
from deltaberg.iceberg.table import Table
from deltaberg.storage import NotFound, open_storage

SYNC = bytes(range(16))
PLAIN = PartitionSpec(spec_id=0)
LOCATION = "file:/t"


def schema(kind=None, schema_id=0):
    kind = LongType() if kind is None else kind
    return Schema(schema_id=schema_id, fields=(NestedField(field_id=1, name="a", required=False, type=kind),))


def identity(transform="identity", name="a"):
    part = PartitionField(source_ids=(1,), field_id=1000, name=name, transform=parse_transform(transform))
    return PartitionSpec(spec_id=0, fields=(part,))


def metadata(spec=PLAIN, version=2, schemas=None, location=LOCATION, snapshots=()):
    return TableMetadata(
        format_version=version,
        table_uuid="9c12d441-03fe-4693-9a96-a0705ddf69c1",
        location=location,
        last_updated_ms=0,
        last_column_id=9,
        schemas=schemas or (schema(),),
        current_schema_id=0,
        partition_specs=(spec,),
        default_spec_id=0,
        last_partition_id=1000,
        snapshots=snapshots,
    )


def entry(**changes):
    data_file = {
        "content": 0,
        "file_path": "file:/t/data/a.parquet",
        "file_format": "PARQUET",
        "partition": {},
        "record_count": 10,
        "file_size_in_bytes": 100,
        "block_size_in_bytes": 1,
    }
    outer = {"status": 1, "snapshot_id": None, "sequence_number": None, "file_sequence_number": None}
    for name, value in changes.items():
        (outer if name in outer else data_file)[name] = value
    return {**outer, "data_file": data_file}


def stored(folder, *entries, version=2, properties=None, kind=None, name="m.avro"):
    """A manifest file with exactly these entries, whatever the specification says about them."""
    kind = entry_type(version, StructType(fields=())) if kind is None else kind
    out = io.BytesIO()
    header = (
        {"format-version": str(version), "content": "data", "partition-spec-id": "0"}
        if properties is None
        else properties
    )
    writer = AvroWriter(out, kind, name="manifest_entry", codec="null", metadata=header, sync=SYNC)
    writer.write(pa.array(entries, arrow_type(kind)))
    (folder / name).write_bytes(out.getvalue())
    return ManifestFile(
        manifest_path=f"file:{folder}/{name}",
        manifest_length=len(out.getvalue()),
        partition_spec_id=0,
        sequence_number=5,
        min_sequence_number=1,
        added_snapshot_id=77,
    )


def rows(manifest, table=None):
    return [row for batch in read_manifest(open_storage(), manifest, table or metadata()) for row in batch.to_pylist()]


def column(manifest, name, table=None):
    return [row[name] for row in rows(manifest, table)]


EXPLICIT = {"sequence_number": 2, "file_sequence_number": 1}


def test_added_entries_inherit_sequence_numbers_and_others_have_their_own(tmp_path):
    manifest = stored(
        tmp_path, entry(), entry(status=0, **EXPLICIT), entry(status=2, **EXPLICIT), entry(sequence_number=3)
    )
    assert column(manifest, "sequence_number") == [5, 2, 2, 3]
    assert column(manifest, "file_sequence_number") == [5, 1, 1, 5]


def test_the_snapshot_id_is_inherited_by_entries_of_every_status(tmp_path):
    manifest = stored(tmp_path, entry(), entry(status=0, **EXPLICIT), entry(status=2, snapshot_id=9, **EXPLICIT))
    assert column(manifest, "snapshot_id") == [77, 77, 9]
    assert column(replace(manifest, added_snapshot_id=None), "snapshot_id") == [None, None, 9]


def test_a_deleted_entry_without_a_number_keeps_none_but_a_live_one_is_corrupt(tmp_path):
    assert column(stored(tmp_path, entry(status=2)), "sequence_number") == [None]
    with pytest.raises(CorruptMetadata, match="a number for every existing file") as caught:
        rows(stored(tmp_path, entry(status=0)))
    assert caught.value.field == "sequence_number"
    assert caught.value.path == f"file:{tmp_path}/m.avro"


def test_all_numbers_of_a_version_1_manifest_are_0_whatever_the_list_says(tmp_path):
    manifest = stored(tmp_path, entry(), entry(status=0), entry(status=2), version=1, properties={})
    for known in (manifest, replace(manifest, sequence_number=0)):
        assert column(known, "sequence_number") == [0, 0, 0]
        assert column(known, "file_sequence_number") == [0, 0, 0]


def test_a_version_1_manifest_has_data_only_and_null_for_what_came_later(tmp_path):
    (row,) = rows(stored(tmp_path, entry(), version=1))
    assert row["content"] == 0
    assert [row[name] for name in ("equality_ids", "first_row_id", "referenced_data_file", "content_offset")] == [
        None
    ] * 4


def test_file_sequence_numbers_that_a_writer_did_not_know_stay_null_for_existing_files(tmp_path):
    full = entry_type(2, StructType(fields=()))
    kind = StructType(fields=tuple(each for each in full.fields if each.name != "file_sequence_number"))
    manifest = stored(tmp_path, entry(), entry(status=0, sequence_number=2), kind=kind)
    assert column(manifest, "file_sequence_number") == [5, None]


def test_row_ids_follow_each_other_from_the_manifests_and_deleted_entries_use_none_up(tmp_path):
    known = metadata(version=3)
    manifest = stored(
        tmp_path,
        entry(record_count=3),
        entry(status=0, record_count=4, first_row_id=900, **EXPLICIT),
        entry(status=2, record_count=5, **EXPLICIT),
        entry(status=0, record_count=6, **EXPLICIT),
        entry(record_count=7),
        version=3,
    )
    assert column(replace(manifest, first_row_id=100), "first_row_id", known) == [100, 900, None, 103, 109]
    assert column(manifest, "first_row_id", known) == [None] * 5


@given(counts=st.lists(st.tuples(st.integers(0, 10**9), st.booleans()), min_size=1, max_size=30))
def test_row_ids_never_overlap(tmp_path_factory, counts):
    folder = tmp_path_factory.mktemp("m")
    made = [entry(record_count=n, status=1 if live else 2, **({} if live else EXPLICIT)) for n, live in counts]
    found = column(replace(stored(folder, *made, version=3), first_row_id=10), "first_row_id", metadata(version=3))
    at = 10
    for (count, live), first in zip(counts, found, strict=True):
        assert first == (at if live else None)
        at += count if live else 0


def test_a_delete_manifest_never_has_row_ids(tmp_path):
    manifest = stored(tmp_path, entry(content=1, first_row_id=3), version=3, properties={"format-version": "3"})
    deletes = replace(manifest, content=ManifestContent.DELETES, first_row_id=100)
    assert column(deletes, "first_row_id", metadata(version=3)) == [None]
    assert column(deletes, "content", metadata(version=3)) == [1]


@pytest.mark.parametrize(
    ("change", "field", "message"),
    [
        ({"status": 3}, "status", "expected 0 to 2, found 3"),
        ({"status": -1}, "status", "expected 0 to 2, found -1"),
        ({"content": 1}, "content", r"expected 0, found 1"),
        ({"content": 7}, "content", r"expected 0, found 7"),
        ({"record_count": -1}, "record_count", "expected at least 0, found -1"),
        ({"file_size_in_bytes": -5}, "file_size_in_bytes", "expected at least 0, found -5"),
    ],
)
def test_values_that_mean_nothing_are_corrupt(tmp_path, change, field, message):
    with pytest.raises(CorruptMetadata, match=message) as caught:
        rows(stored(tmp_path, entry(**change)))
    assert (caught.value.field, caught.value.path) == (field, f"file:{tmp_path}/m.avro")


def test_a_delete_manifest_holds_no_data_files(tmp_path):
    manifest = replace(stored(tmp_path, entry(), properties={}), content=ManifestContent.DELETES)
    with pytest.raises(CorruptMetadata, match="content is invalid"):
        rows(manifest)


def test_list_and_manifest_must_agree_on_the_content(tmp_path):
    manifest = replace(stored(tmp_path, entry()), content=ManifestContent.DELETES)
    with pytest.raises(CorruptMetadata, match="expected a manifest of deletes, as the list says, found data"):
        rows(manifest)


@pytest.mark.parametrize("field", ["status", "file_path", "file_format", "record_count", "file_size_in_bytes"])
def test_a_missing_required_field_is_corrupt_and_named(tmp_path, field):
    full = entry_type(2, StructType(fields=()))
    outer = tuple(each for each in full.fields if each.name != field)
    inner = StructType(fields=tuple(each for each in outer[-1].type.fields if each.name != field))
    kind = StructType(fields=(*outer[:-1], replace(outer[-1], type=inner)))
    with pytest.raises(CorruptMetadata, match=f"{field} is missing") as caught:
        rows(stored(tmp_path, entry(), kind=kind))
    assert caught.value.field == field


def test_a_manifest_without_data_files_at_all_is_corrupt(tmp_path):
    full = entry_type(2, StructType(fields=()))
    with pytest.raises(CorruptMetadata, match=r"data_file .* is missing"):
        rows(stored(tmp_path, entry(), kind=StructType(fields=full.fields[:-1])))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("added_files_count", 3),
        ("existing_files_count", 0),
        ("deleted_files_count", 2),
        ("added_rows_count", 21),
        ("existing_rows_count", 9),
        ("deleted_rows_count", 0),
    ],
)
def test_counts_of_list_and_manifest_must_agree(tmp_path, name, said):
    manifest = stored(tmp_path, entry(), entry(), entry(status=0, **EXPLICIT), entry(status=2, **EXPLICIT))
    right = {
        "added_files_count": 2,
        "existing_files_count": 1,
        "deleted_files_count": 1,
        "added_rows_count": 20,
        "existing_rows_count": 10,
        "deleted_rows_count": 10,
    }
    assert len(rows(replace(manifest, **right))) == 4
    with pytest.raises(CorruptMetadata, match=f"the manifest list says {name} {said}, found {right[name]}") as caught:
        rows(replace(manifest, **{**right, name: said}))
    assert caught.value.field == name


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[:3],
        lambda data: data[: len(data) // 2],
        lambda data: data[:-1],
        lambda data: b"JUNK" + data[4:],
        lambda data: b"PAR1" + data[4:],
        lambda data: data[:-16] + bytes(16),
    ],
)
def test_a_damaged_file_is_corrupt_and_named(tmp_path, damage):
    manifest = stored(tmp_path, entry())
    path = tmp_path / "m.avro"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(CorruptMetadata) as caught:
        rows(manifest)
    assert caught.value.path == manifest.manifest_path
    assert caught.value.field


def test_a_manifest_that_is_gone_is_named(tmp_path):
    manifest = stored(tmp_path, entry())
    (tmp_path / "m.avro").unlink()
    with pytest.raises(NotFound, match=r"m\.avro"):
        rows(manifest)


def test_an_unknown_partition_spec_is_corrupt(tmp_path):
    with pytest.raises(CorruptMetadata, match="Cannot find partition spec 3"):
        rows(replace(stored(tmp_path, entry()), partition_spec_id=3))


def test_an_encrypted_manifest_is_refused(tmp_path):
    with pytest.raises(UnsupportedIcebergFeature, match="it is encrypted") as caught:
        rows(replace(stored(tmp_path, entry()), key_metadata=b"k"))
    assert caught.value.feature == "encryption"


def test_a_manifest_of_a_future_version_is_refused(tmp_path):
    with pytest.raises(UnsupportedIcebergFeature, match="format version '5'") as caught:
        rows(stored(tmp_path, entry(), properties={"format-version": "5"}))
    assert caught.value.path == f"file:{tmp_path}/m.avro"


def tupled(*fields):
    return entry_type(2, StructType(fields=fields))


def part(kind, field_id=1000, name="a"):
    return NestedField(field_id=field_id, name=name, required=False, type=kind)


@pytest.mark.parametrize(
    ("written", "now", "value", "expected"),
    [
        (IntegerType(), LongType(), -7, -7),
        (FloatType(), DoubleType(), 0.5, 0.5),
        (DecimalType(precision=5, scale=2), DecimalType(precision=30, scale=2), Decimal("-1.25"), Decimal("-1.25")),
        (DateType(), TimestampType(), 1, 86_400_000_000),
    ],
)
def test_partition_values_from_before_a_promotion_are_read_in_the_present_type(tmp_path, written, now, value, expected):
    spec = identity()
    manifest = stored(tmp_path, entry(partition={"a": value}), kind=tupled(part(written)))
    (batch,) = read_manifest(open_storage(), manifest, metadata(spec, schemas=(schema(now),)))
    found = batch.column("partition").field(0)
    assert found.type == arrow_type(now)
    assert (found.cast(pa.int64()) if isinstance(now, TimestampType) else found).to_pylist() == [expected]


def test_a_day_may_be_stored_as_a_plain_int(tmp_path):
    spec = identity("day", "a_day")
    for written in (IntegerType(), DateType()):
        manifest = stored(tmp_path, entry(partition={"a_day": 3}), kind=tupled(part(written, name="a_day")))
        (batch,) = read_manifest(open_storage(), manifest, metadata(spec, schemas=(schema(TimestampType()),)))
        assert batch.column("partition").field(0).cast(pa.int32()).to_pylist() == [3]


def test_a_value_keeps_its_type_where_the_columns_id_was_given_to_another_type(tmp_path):
    table = metadata(identity(), schemas=(schema(DoubleType()), schema(StringType(), schema_id=1)))
    manifest = stored(tmp_path, entry(partition={"a": "x"}), kind=tupled(part(StringType())))
    assert column(manifest, "partition", table) == [{"a": "x"}]


def test_an_unknown_transforms_value_is_as_the_file_has_it(tmp_path):
    table = metadata(identity("zorder[3]"))
    manifest = stored(tmp_path, entry(partition={"a": b"\x01"}), kind=tupled(part(BinaryType())))
    assert column(manifest, "partition", table) == [{"a": b"\x01"}]


@pytest.mark.parametrize("name", ["é space", "1", "a.b"])
def test_partition_fields_are_found_by_id_and_named_by_the_spec(tmp_path, name):
    table = metadata(identity(name=name))
    manifest = stored(tmp_path, entry(partition={"elsewhere": 4}), kind=tupled(part(LongType(), name="elsewhere")))
    assert column(manifest, "partition", table) == [{name: 4}]


@pytest.mark.parametrize(
    ("spec", "fields"),
    [
        (identity(), ()),
        (PLAIN, (part(LongType()),)),
        (identity(), (part(LongType(), field_id=1001),)),
        (identity(), (part(LongType()), part(LongType(), field_id=1001, name="b"))),
    ],
)
def test_partition_tuples_of_another_width_are_corrupt(tmp_path, spec, fields):
    manifest = stored(tmp_path, entry(partition={each.name: 1 for each in fields}), kind=tupled(*fields))
    with pytest.raises(CorruptMetadata, match=r"its partition fields .* are not those of partition spec 0") as caught:
        rows(manifest, metadata(spec))
    assert caught.value.field == "partition"


def test_a_void_field_may_be_left_out(tmp_path):
    assert column(stored(tmp_path, entry(), kind=tupled()), "partition", metadata(identity("void"))) == [{"a": None}]


def test_partition_fields_without_ids_are_corrupt(tmp_path):
    manifest = stored(tmp_path, entry(partition={"a": 1}), kind=tupled(part(LongType())))
    path = tmp_path / "m.avro"
    with path.open("rb") as file:
        reader = fastavro.reader(file)
        text = json.loads(reader.metadata["avro.schema"])
        body = b"".join(_encoded(each, text) for each in reader)
    tuples = next(each for each in text["fields"][-1]["type"]["fields"] if each["name"] == "partition")
    del tuples["type"]["fields"][0]["field-id"]
    header = encode_header({"avro.schema": json.dumps(text).encode()}, SYNC)
    path.write_bytes(header + encode_block(1, body, codec="null", sync=SYNC))
    with pytest.raises(CorruptMetadata, match="its partition field a has no field id"):
        rows(manifest, metadata(identity()))


def _encoded(value, text):
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(json.dumps(text))), value)
    return out.getvalue()


def test_version_4_resolves_relative_locations_against_the_table(tmp_path):
    reference = {"referenced_data_file": "data/x.parquet"}
    manifest = stored(
        tmp_path,
        entry(file_path="data/a.parquet", **reference),
        entry(file_path="s3://b/c"),
        version=3,
        properties={"format-version": "4"},
    )
    table = metadata(version=4, location="s3://w/t/")
    assert column(manifest, "file_path", table) == ["s3://w/t//data/a.parquet", "s3://b/c"]
    assert column(manifest, "referenced_data_file", table) == ["s3://w/t//data/x.parquet", None]


def test_version_4_gives_older_manifests_paths_the_tables_scheme(tmp_path):
    manifest = stored(tmp_path, entry(file_path="/w/t/data/a"), version=3)
    assert column(manifest, "file_path", metadata(version=4, location="hdfs://w/t")) == ["hdfs://w/t/data/a"]


def test_paths_before_version_4_stay_as_they_are(tmp_path):
    manifest = stored(tmp_path, entry(file_path="data/a%20b.parquet"))
    assert column(manifest, "file_path") == ["data/a%20b.parquet"]


def test_formats_are_lower_case_and_unknown_ones_kept(tmp_path):
    manifest = stored(tmp_path, entry(file_format="ORC"), entry(file_format="Lance"))
    assert column(manifest, "file_format") == ["orc", "lance"]


def test_typed_statistics_fill_in_for_absent_maps(tmp_path):
    members = StructType(
        fields=(
            part(LongType(), field_id=10_201, name="lower_bound"),
            part(LongType(), field_id=10_202, name="upper_bound"),
            part(LongType(), field_id=10_204, name="value_count"),
        )
    )
    stats = StructType(fields=(part(members, field_id=10_200),))
    kind = read_type(StructType(fields=()), stats)
    made = entry(content_stats={"a": {"lower_bound": -1, "upper_bound": 2, "value_count": 10}})
    kept = entry(content_stats={"a": {"lower_bound": -1}}, lower_bounds=[(1, b"x")])
    bare = entry(content_stats=None)
    found = rows(stored(tmp_path, made, kept, bare, kind=kind))
    assert found[0]["lower_bounds"] == [(1, b"\xff" * 8)]
    assert found[0]["upper_bounds"] == [(1, b"\x02" + bytes(7))]
    assert found[0]["value_counts"] == [(1, 10)]
    assert found[1]["lower_bounds"] == [(1, b"x")]
    assert found[2]["lower_bounds"] == []


def test_without_metrics_every_other_column_is_the_same_and_the_maps_are_null(tmp_path):
    full = entry(lower_bounds=[(1, b"x")], value_counts=[(1, 10)], split_offsets=[4], column_sizes=[(1, 3)])
    manifest = stored(tmp_path, full, entry(file_path="file:/t/data/b.parquet", null_value_counts=[(1, 0)]))
    whole = next(read_manifest(open_storage(), manifest, metadata()))
    slim = next(read_manifest(open_storage(), manifest, metadata(), with_metrics=False))
    assert slim.schema == whole.schema
    for name in whole.schema.names:
        wanted = pa.nulls(2, whole.schema.field(name).type) if name in METRIC_MAPS else whole.column(name)
        assert slim.column(name).equals(wanted), name


def test_without_metrics_typed_statistics_are_left_out_too(tmp_path):
    members = StructType(fields=(part(LongType(), field_id=10_201, name="lower_bound"),))
    kind = read_type(StructType(fields=()), StructType(fields=(part(members, field_id=10_200),)))
    manifest = stored(tmp_path, entry(content_stats={"a": {"lower_bound": 1}}), kind=kind)
    (batch,) = read_manifest(open_storage(), manifest, metadata(), with_metrics=False)
    assert batch.column("lower_bounds").null_count == 1


def test_live_files_leave_out_deleted_entries_and_the_other_kind(tmp_path):
    data = stored(tmp_path, entry(file_path="file:/a"), entry(file_path="file:/b", status=2, **EXPLICIT), name="d.avro")
    gone = stored(tmp_path, entry(status=2, **EXPLICIT), name="g.avro")
    deletes = stored(tmp_path, entry(content=2, file_path="file:/e"), properties={}, name="e.avro", version=2)
    deletes = replace(deletes, content=ManifestContent.DELETES)
    zero = dict.fromkeys(("added_files_count", "existing_files_count", "deleted_files_count"), 0)
    zero |= dict.fromkeys(("added_rows_count", "existing_rows_count", "deleted_rows_count"), 0)
    counted = [
        replace(
            data,
            **zero
            | {"added_files_count": 1, "deleted_files_count": 1, "added_rows_count": 10, "deleted_rows_count": 10},
        ),
        replace(gone, **zero | {"deleted_files_count": 1, "deleted_rows_count": 10}),
        replace(deletes, **zero | {"added_files_count": 1, "added_rows_count": 10}),
    ]
    storage = open_storage()
    write_manifest_list(
        storage,
        f"{tmp_path}/l.avro",
        counted,
        format_version=2,
        snapshot_id=1,
        parent_snapshot_id=None,
        sequence_number=5,
    )
    snapshot = Snapshot(snapshot_id=1, timestamp_ms=1, manifest_list=f"{tmp_path}/l.avro")
    table = Table(metadata=metadata(snapshots=(snapshot,)), metadata_location="file:/t/v1.json", storage=storage)
    assert [path for batch in data_files(table, snapshot) for path in batch.column("file_path").to_pylist()] == [
        "file:/a"
    ]
    assert [path for batch in delete_files(table, snapshot) for path in batch.column("file_path").to_pylist()] == [
        "file:/e"
    ]
    assert list(data_files(table, None)) == []


FIXED = StructType(fields=(NestedField(field_id=1000, name="p", required=False, type=FixedType(length=3)),))


def of_fixed(folder, values, *, prefixed, rows_each=10):
    """A manifest of one file for each partition value, with the length before the value as Iceberg's Java library has it."""
    kind = entry_type(2, FIXED)
    manifest = stored(folder, *(entry(partition={"p": value}, record_count=rows_each) for value in values), kind=kind)
    if prefixed:
        data = (folder / "m.avro").read_bytes()
        header = read_header(data)
        (block,) = read_blocks(data, header)
        content = bytes(block.data)
        for value in values:
            assert content.count(value) == 1
            content = content.replace(value, b"\x06" + value)
        (folder / "m.avro").write_bytes(
            data[: header.size] + encode_block(block.objects, content, codec="null", sync=SYNC)
        )
    counts = dict.fromkeys((*COUNTS, *ROW_COUNTS), 0)
    counts |= {"added_files_count": len(values), "added_rows_count": rows_each * len(values)}
    return replace(manifest, **counts)


@pytest.mark.parametrize("last", [0x00, 0x7F, 0x80, 0xEF, 0xFF])
@pytest.mark.parametrize("rows_each", [0, 3, 10, 80, 20_000])
@pytest.mark.parametrize("first", [b"\xab", b"\x06"])
@pytest.mark.parametrize("prefixed", [False, True])
def test_a_fixed_partition_value_is_read_with_and_without_a_length_before_it(
    tmp_path, prefixed, first, rows_each, last
):
    """With a last byte above 127, the next number can take it up: both ways fill the file, and the row counts decide."""
    values = [first + b"\xcd" + bytes([last]), first + b"\xce" + bytes([last])]
    table = metadata(identity(), schemas=(schema(FixedType(length=3)),))
    for count in (1, 2):
        manifest = of_fixed(tmp_path, values[:count], prefixed=prefixed, rows_each=rows_each)
        if prefixed and (last, rows_each) == (0x80, 0):
            # 0x80 0x00 is a long way to write 0: only here do the counts not tell, and no file has no rows.
            with pytest.raises(CorruptMetadata, match="can be read with and without a length before them"):
                rows(manifest, table)
            continue
        found = rows(manifest, table)
        assert [each["partition"]["a"] for each in found] == values[:count]
        assert {each["record_count"] for each in found} == {rows_each}
