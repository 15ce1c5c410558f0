"""Manifests written here: read back whole, and by PyIceberg; refused where the specification forbids them."""

import json
import math
from datetime import date
from decimal import Decimal

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import ManifestContent as TheirContent
from pyiceberg.manifest import ManifestFile as TheirManifestFile

from deltaberg.iceberg.avro.codec import CODECS
from deltaberg.iceberg.errors import InvalidIcebergRequest
from deltaberg.iceberg.manifest.data_file import ADDED, DELETED, EXISTING, data_file_schema
from deltaberg.iceberg.manifest.manifest_list import UNASSIGNED_SEQUENCE_NUMBER, FieldSummary, ManifestContent
from deltaberg.iceberg.manifest.manifest_reader import read_manifest
from deltaberg.iceberg.manifest.manifest_writer import ManifestWriter
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
    LongType,
    NestedField,
    StringType,
    TimestampNsType,
    TimestamptzType,
    UuidType,
)
from deltaberg.storage import open_storage

KINDS = {
    "long": LongType(),
    "text é": StringType(),
    "day": DateType(),
    "number": DecimalType(precision=11, scale=2),
    "real": DoubleType(),
    "small": FloatType(),
    "key": UuidType(),
    "bytes": BinaryType(),
    "fixed": FixedType(length=3),
    "moment": TimestamptzType(),
    "nanos": TimestampNsType(),
}
SCHEMA = Schema(
    schema_id=0,
    fields=tuple(
        NestedField(field_id=i + 1, name=name, required=False, type=kind)
        for i, (name, kind) in enumerate(KINDS.items())
    ),
)


def spec(*names, transform="identity"):
    ids = {nested.name: nested.field_id for nested in SCHEMA.fields}
    return PartitionSpec(
        spec_id=4,
        fields=tuple(
            PartitionField(source_ids=(ids[name],), field_id=1000 + i, name=name, transform=parse_transform(transform))
            for i, name in enumerate(names)
        ),
    )


def metadata(partition, version=2):
    return TableMetadata(
        format_version=version,
        table_uuid="9c12d441-03fe-4693-9a96-a0705ddf69c1",
        location="file:/t",
        last_updated_ms=0,
        last_column_id=99,
        schemas=(SCHEMA,),
        current_schema_id=0,
        partition_specs=(partition,),
        default_spec_id=partition.spec_id,
        last_partition_id=1010,
    )


def entries(partition, *rows):
    defaults = {
        "status": ADDED,
        "content": 0,
        "file_format": "parquet",
        "spec_id": partition.spec_id,
        "partition": {},
        "record_count": 10,
        "file_size_in_bytes": 100,
    }
    numbered = [{**defaults, "file_path": f"file:/t/data/{i}.parquet", **row} for i, row in enumerate(rows)]
    return pa.RecordBatch.from_pylist(numbered, schema=data_file_schema(partition.arrow_partition_type(SCHEMA)))


FULL = {
    "column_sizes": [(1, 100), (300, 2**40)],
    "value_counts": [(1, 10)],
    "null_value_counts": [],
    "nan_value_counts": None,
    "lower_bounds": [(1, b"\x00" * 8), (2, b"a")],
    "upper_bounds": [(1, b"\xff" * 8), (2, b"")],
    "key_metadata": b"\x01",
    "split_offsets": [4, 2**33],
    "sort_order_id": 0,
}


def write(folder, partition, *batches, version=2, content=ManifestContent.DATA, snapshot_id=7, **options):
    location = f"file:{folder}/m-{version}.{'parquet' if version == 4 else 'avro'}"
    with ManifestWriter(
        open_storage(),
        location,
        format_version=version,
        spec=partition,
        schemas=(SCHEMA,),
        content=content,
        snapshot_id=snapshot_id,
        **options,
    ) as writer:
        for batch in batches:
            writer.write(batch)
    return writer.manifest


def reread(manifest, partition, version=2, **changes):
    from dataclasses import replace

    known = replace(manifest, **{"sequence_number": 5, "first_row_id": 1000, **changes})
    return [
        row for batch in read_manifest(open_storage(), known, metadata(partition, version)) for row in batch.to_pylist()
    ]


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_entries_come_back_with_what_they_inherit(tmp_path, version):
    partition = spec("long")
    numbers = {"sequence_number": 2, "file_sequence_number": 1, "snapshot_id": 3}
    batch = entries(
        partition,
        {"partition": {"long": 1}, **FULL},
        {"partition": {"long": None}, "status": EXISTING, **numbers, "first_row_id": 50},
        {"partition": {"long": -1}, "status": DELETED, **numbers, "snapshot_id": None},
        {"partition": {"long": 5}, "record_count": 7},
    )
    manifest = write(tmp_path, partition, batch, version=version)
    rows = reread(manifest, partition, version)
    wanted = batch.to_pylist()
    inherited = 0 if version == 1 else 5
    for row in (0, 3):
        wanted[row] |= {"snapshot_id": 7, "sequence_number": inherited, "file_sequence_number": inherited}
    wanted[2]["snapshot_id"] = 7
    if version == 1:
        wanted[1] |= {"sequence_number": 0, "file_sequence_number": 0}
        wanted[2] |= {"sequence_number": 0, "file_sequence_number": 0}
    ids = [1000, 50, None, 1010] if version >= 3 else [1000, 1010, None, 1020]
    for row, first_row_id in zip(wanted, ids, strict=True):
        row["first_row_id"] = first_row_id
    assert rows == wanted


def test_explicit_numbers_of_added_entries_are_stored(tmp_path):
    partition = spec()
    batch = entries(partition, {"sequence_number": 1, "file_sequence_number": 2, "first_row_id": 77, "snapshot_id": 9})
    (row,) = reread(write(tmp_path, partition, batch, version=3), partition, 3)
    assert (row["sequence_number"], row["file_sequence_number"], row["first_row_id"], row["snapshot_id"]) == (
        1,
        2,
        77,
        9,
    )


VALUES = {
    "long": (-(2**63), 2**63 - 1),
    "text é": ("", "\U0001f600"),
    "day": (date(1969, 12, 31), date(9999, 12, 31)),
    "number": (Decimal("-999999999.99"), Decimal("0.01")),
    "real": (-0.0, 1e300),
    "small": (-0.5, 2.0),
    "key": (bytes(16), b"\xff" * 16),
    "bytes": (b"", b"\xff"),
    "fixed": (b"abc", b"\xff\x00\x01"),
}


@pytest.mark.parametrize("version", [2, 4])
@pytest.mark.parametrize("name", VALUES)
def test_partition_values_of_every_type_come_back(tmp_path, name, version):
    partition = spec(name)
    low, high = VALUES[name]
    batch = entries(partition, *({"partition": {name: value}} for value in (high, None, low)))
    rows = reread(write(tmp_path, partition, batch, version=version), partition, version)
    found = [row["partition"][name] for row in rows]
    assert found == [high, None, low]
    if name == "real":
        assert math.copysign(1, found[2]) == -1


@pytest.mark.parametrize("version", [3, 4])
@pytest.mark.parametrize("name", ["moment", "nanos"])
def test_instants_keep_every_digit(tmp_path, name, version):
    partition = spec(name)
    kind = partition.arrow_partition_type(SCHEMA)
    plain = entries(partition, {}, {})
    values = pa.array([1_700_000_000_123_456_789, -1]).view(kind.field(0).type)
    tuples = pa.StructArray.from_arrays([values], fields=list(kind))
    batch = plain.set_column(plain.schema.get_field_index("partition"), plain.schema.field("partition"), tuples)
    manifest = write(tmp_path, partition, batch, version=version)
    from dataclasses import replace

    (read,) = read_manifest(open_storage(), replace(manifest, sequence_number=1), metadata(partition, version))
    assert read.column("partition").field(0).equals(values)


def test_the_summary_of_a_partition_field_covers_all_entries(tmp_path):
    partition = spec("real", "text é", "number")
    rows = [(math.nan, "b", Decimal("-1.28")), (-0.0, None, Decimal("5.00")), (0.0, "", Decimal("300.00"))]
    batches = [entries(partition, {"partition": {"real": x, "text é": y, "number": z}}) for x, y, z in rows]
    real, text, number = write(tmp_path, partition, *batches).partitions
    assert real == FieldSummary(
        contains_null=False, contains_nan=True, lower_bound=b"\x00" * 7 + b"\x80", upper_bound=b"\x00" * 8
    )
    assert text == FieldSummary(contains_null=True, contains_nan=False, lower_bound=b"", upper_bound=b"b")
    assert number == FieldSummary(contains_null=False, contains_nan=False, lower_bound=b"\x80", upper_bound=b"\x75\x30")


def test_a_partition_field_without_values_has_no_bounds(tmp_path):
    partition = spec("real", "key")
    batch = entries(partition, {"partition": {"real": math.nan, "key": None}})
    assert write(tmp_path, partition, batch).partitions == (
        FieldSummary(contains_null=False, contains_nan=True),
        FieldSummary(contains_null=True, contains_nan=False),
    )


def test_the_manifest_is_described_for_the_list(tmp_path):
    partition = spec()
    old = {"sequence_number": 3, "file_sequence_number": 3}
    batch = entries(
        partition,
        {"record_count": 1},
        {"record_count": 2, "status": EXISTING, **old},
        {"record_count": 4, "status": DELETED, "sequence_number": 1},
        {"record_count": 8},
    )
    manifest = write(tmp_path, partition, batch)
    assert manifest.manifest_length == (tmp_path / "m-2.avro").stat().st_size
    assert (manifest.added_files_count, manifest.existing_files_count, manifest.deleted_files_count) == (2, 1, 1)
    assert (manifest.added_rows_count, manifest.existing_rows_count, manifest.deleted_rows_count) == (9, 2, 4)
    assert (manifest.sequence_number, manifest.min_sequence_number) == (UNASSIGNED_SEQUENCE_NUMBER, 3)
    assert (manifest.partition_spec_id, manifest.added_snapshot_id, manifest.partitions) == (4, 7, ())


def test_a_manifest_whose_files_all_inherit_has_no_lowest_number_yet(tmp_path):
    assert write(tmp_path, spec(), entries(spec(), {})).min_sequence_number == UNASSIGNED_SEQUENCE_NUMBER


def test_an_empty_manifest_is_whole(tmp_path):
    for version in (2, 4):
        manifest = write(tmp_path, spec("long"), version=version)
        assert manifest.added_files_count == 0
        assert reread(manifest, spec("long"), version) == []


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("codec", ["null", "deflate", "zstandard", "bzip2"])
def test_pyiceberg_reads_the_entries(tmp_path, version, codec):
    partition = spec("day", "text é", "key")
    batch = entries(
        partition,
        {"partition": {"day": date(2024, 2, 29), "text é": "x", "key": bytes(range(16))}, **FULL, "key_metadata": None},
        {"partition": {"day": None, "text é": None, "key": None}, "record_count": 3},
    )
    manifest = write(tmp_path, partition, batch, version=version, codec=codec)
    theirs = TheirManifestFile.from_args(
        manifest_path=manifest.manifest_path,
        manifest_length=manifest.manifest_length,
        partition_spec_id=4,
        content=TheirContent.DATA,
        sequence_number=5,
        min_sequence_number=5,
        added_snapshot_id=7,
    )
    full, plain = theirs.fetch_manifest_entry(PyArrowFileIO())
    assert full.snapshot_id == 7
    assert full.data_file.file_path == "file:/t/data/0.parquet"
    assert full.data_file.file_format.value == "PARQUET"
    assert full.data_file.column_sizes == dict(FULL["column_sizes"])
    assert full.data_file.lower_bounds == dict(FULL["lower_bounds"])
    assert full.data_file.split_offsets == FULL["split_offsets"]
    assert full.data_file.partition[0] == (date(2024, 2, 29) - date(1970, 1, 1)).days
    assert full.data_file.partition[1] == "x"
    assert plain.data_file.record_count == 3
    assert [plain.data_file.partition[i] for i in range(3)] == [None] * 3


def test_every_avro_codec_is_read_back(tmp_path):
    for codec in CODECS:
        assert len(reread(write(tmp_path, spec(), entries(spec(), {}, {}), codec=codec), spec())) == 2


@pytest.mark.parametrize(("version", "content"), [(1, None), (2, "data"), (3, "data")])
def test_the_header_says_what_the_specification_asks_for(tmp_path, version, content):
    write(tmp_path, spec("long"), entries(spec("long"), {"partition": {"long": 1}}), version=version)
    with (tmp_path / f"m-{version}.avro").open("rb") as file:
        reader = fastavro.reader(file)
        header = reader.metadata
        names = [each["name"] for each in reader.writer_schema["fields"]]
        (row,) = reader
    assert json.loads(header["schema"])["schema-id"] == 0
    assert header["schema-id"] == "0"
    assert json.loads(header["partition-spec"]) == [
        {"source-id": 1, "field-id": 1000, "name": "long", "transform": "identity"}
    ]
    assert (header["partition-spec-id"], header["format-version"], header.get("content")) == (
        "4",
        str(version),
        content,
    )
    assert reader.writer_schema["name"] == "manifest_entry"
    assert names == [
        "status",
        "snapshot_id",
        *(["sequence_number", "file_sequence_number"] if version > 1 else []),
        "data_file",
    ]
    assert row["data_file"]["file_format"] == "PARQUET"
    assert row["data_file"].get("block_size_in_bytes") == (67108864 if version == 1 else None)


def test_a_parquet_manifest_looks_as_released_software_writes_it(tmp_path):
    write(tmp_path, spec("long"), entries(spec("long"), {"partition": {"long": 1}}), version=4)
    file = pq.ParquetFile(tmp_path / "m-4.parquet")
    assert set(file.metadata.metadata) == {
        b"schema",
        b"schema-id",
        b"partition-spec",
        b"partition-spec-id",
        b"format-version",
        b"content",
        b"iceberg.schema",
    }
    assert file.metadata.metadata[b"format-version"] == b"4"
    data_file = file.schema_arrow.field("data_file")
    ids = {each.name: int(each.metadata[b"PARQUET:field_id"]) for each in data_file.type}
    assert ids["partition"] == 102
    assert ids["content_size_in_bytes"] == 145
    assert data_file.type.field("lower_bounds").type.key_field.metadata[b"PARQUET:field_id"] == b"126"
    assert file.metadata.row_group(0).column(0).compression == "GZIP"
    write(tmp_path, spec(), entries(spec(), {}), version=4)
    unpartitioned = pq.ParquetFile(tmp_path / "m-4.parquet").schema_arrow.field("data_file").type
    assert unpartitioned.get_field_index("partition") == -1


def test_values_of_a_type_that_the_source_column_no_longer_has_are_kept(tmp_path):
    former = Schema(schema_id=1, fields=(NestedField(field_id=1, name="long", required=False, type=StringType()),))
    partition = spec("long")
    plain = entries(spec(), {})
    kind = pa.struct([pa.field("long", pa.string())])
    batch = plain.set_column(8, pa.field("partition", kind), pa.array([{"long": "old"}], kind))
    with ManifestWriter(
        open_storage(),
        f"{tmp_path}/m.avro",
        format_version=2,
        spec=partition,
        schemas=(SCHEMA, former),
        content=ManifestContent.DATA,
        snapshot_id=1,
    ) as writer:
        writer.write(batch)
    assert writer.manifest.partitions[0].lower_bound == b"old"


VECTOR = {
    "content": 1,
    "file_format": "puffin",
    "referenced_data_file": "file:/t/data/x.parquet",
    "content_offset": 4,
    "content_size_in_bytes": 44,
    "first_row_id": 3,
}


def test_deletion_vectors_come_back_and_never_have_row_ids(tmp_path):
    manifest = write(tmp_path, spec(), entries(spec(), VECTOR), version=3, content=ManifestContent.DELETES)
    (row,) = reread(manifest, spec(), 3)
    assert {name: row[name] for name in VECTOR} == {**VECTOR, "first_row_id": None}


@pytest.mark.parametrize(
    ("version", "content", "row", "message"),
    [
        (1, ManifestContent.DELETES, {"content": 1}, "format version 1 has no delete files"),
        (2, ManifestContent.DELETES, {"content": 0}, "it holds deletes, found entries of the other kind"),
        (2, ManifestContent.DATA, {"content": 2}, "it holds data, found entries of the other kind"),
        (2, ManifestContent.DATA, {"status": 3}, "status is not 0, 1 or 2"),
        (2, ManifestContent.DATA, {"status": EXISTING}, "has no sequence number"),
        (2, ManifestContent.DELETES, VECTOR, "deletion vectors need format version 3"),
        (4, ManifestContent.DATA, {"file_path": "/t/data/a.parquet"}, "reads a location without scheme as relative"),
    ],
)
def test_what_the_specification_forbids_is_refused(tmp_path, version, content, row, message):
    with pytest.raises(InvalidIcebergRequest, match=message):
        write(tmp_path, spec(), entries(spec(), row), version=version, content=content)
    assert list(tmp_path.iterdir()) == []


def test_partition_tuples_of_another_width_or_type_are_refused(tmp_path):
    with pytest.raises(InvalidIcebergRequest, match="partition spec 4 has 1 fields, found 0"):
        write(tmp_path, spec("long"), entries(spec(), {}))
    with pytest.raises(InvalidIcebergRequest, match="do not fit its spec"):
        write(tmp_path, spec("day"), entries(spec("key"), {"partition": {"key": bytes(16)}}))


def test_version_1_needs_snapshot_ids(tmp_path):
    with pytest.raises(InvalidIcebergRequest, match="needs the snapshot id of every entry"):
        write(tmp_path, spec(), entries(spec(), {}), version=1, snapshot_id=None)


def test_an_unfinished_manifest_is_not_described_and_not_left_behind(tmp_path):
    writer = ManifestWriter(
        open_storage(),
        f"{tmp_path}/m.avro",
        format_version=2,
        spec=spec(),
        schemas=SCHEMA,
        content=ManifestContent.DATA,
        snapshot_id=1,
    )
    with pytest.raises(RuntimeError, match="gave up"):
        _abandon(writer)
    with pytest.raises(InvalidIcebergRequest, match="not finished"):
        _ = writer.manifest
    assert list(tmp_path.iterdir()) == []


def _abandon(writer):
    with writer:
        writer.write(entries(spec(), {}))
        assert (writer.entries, writer.length > 0) == (1, True)
        raise RuntimeError("gave up")
