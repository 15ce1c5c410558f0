"""Manifests that other engines wrote: equal to what fastavro reads, equal again after being written here, and never a
foreign error or a long wait once their bytes are changed."""

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deltaberg.iceberg.avro import reader as avro_reader
from deltaberg.iceberg.avro.container import encode_block, encode_header, read_blocks, read_header
from deltaberg.iceberg.errors import IcebergError
from deltaberg.iceberg.manifest.manifest_entry import read_type
from deltaberg.iceberg.manifest.manifest_list import UNASSIGNED_SEQUENCE_NUMBER, read_manifest_list
from deltaberg.iceberg.manifest.manifest_reader import read_manifest
from deltaberg.iceberg.manifest.manifest_writer import ManifestWriter
from deltaberg.iceberg.metadata.table_metadata_json import read_metadata
from deltaberg.iceberg.schema.types import MapType, StructType
from deltaberg.storage import NotFound, open_storage

MISSING = {"big_query_error", "equality_deletes-warehouse-mydb-mytable"}
"""Cases whose tables came without some of their manifests."""


class Copies:
    """Files by the part of their location that follows the table's, so that bytes can be swapped in memory."""

    def __init__(self, table: Path) -> None:
        self.table = table
        self.changed: dict[str, bytes] = {}

    def get(self, location):
        if location in self.changed:
            return self.changed[location]
        path = self.table / "metadata" / location.rpartition("/metadata/")[2]
        if not path.is_file():
            raise NotFound(f"no file {path}", path=location)
        return path.read_bytes()

    def open(self, location):
        return pa.BufferReader(self.get(location))


def tables(shared) -> Iterator[tuple[str, Copies, object]]:
    for case in sorted((shared / "corpus" / "iceberg").iterdir()):
        facts = json.loads((case / "case.json").read_text())
        if "metadata" not in facts or case.name in MISSING:
            continue
        try:
            metadata = read_metadata((case / "table" / facts["metadata"]).read_bytes())
        except IcebergError:
            continue
        yield case.name, Copies(case / "table"), metadata


def manifests(storage, metadata):
    """The manifests of all snapshots that are still there, each once."""
    seen = {}
    for snapshot in metadata.snapshots:
        try:
            for manifest in read_manifest_list(storage, snapshot, metadata):
                seen[manifest.manifest_path] = manifest
        except NotFound:
            continue
    return list(seen.values())


def test_fastavro_reads_the_same_entries(shared, monkeypatch):
    read = 0
    for name, storage, metadata in tables(shared):
        for manifest in manifests(storage, metadata):
            data = storage.get(manifest.manifest_path)
            if data[:4] == b"PAR1" or read_header(data).codec not in ("null", "deflate"):
                continue
            wanted = [_by_id(each, read_type(StructType(fields=()))) for each in _fastavro(data)]
            for few in (24, 0):
                monkeypatch.setattr(avro_reader, "_FEW", few)
                found = [row for batch in read_manifest(storage, manifest, metadata) for row in batch.to_pylist()]
                assert len(found) == len(wanted), (name, manifest.manifest_path)
                for ours, theirs in zip(found, wanted, strict=True):
                    for field in (
                        "status",
                        "record_count",
                        "file_size_in_bytes",
                        "file_path",
                        "split_offsets",
                        "lower_bounds",
                        "upper_bounds",
                        "value_counts",
                        "null_value_counts",
                        "column_sizes",
                        "nan_value_counts",
                        "equality_ids",
                        "sort_order_id",
                        "content_offset",
                    ):
                        assert ours[field] == theirs[field], (name, manifest.manifest_path, field)
                    assert list(ours["partition"].values()) == theirs["partition"] or _differs_in_type(theirs)
            read += 1
    assert read > 300


def _differs_in_type(theirs):
    """Dates, decimals, uuids and promoted values: fastavro's Python type is another; compared in other tests."""
    return any(not isinstance(value, str | int | float | bool | None) for value in theirs["partition"]) or any(
        isinstance(value, int | float) for value in theirs["partition"]
    )


def _fastavro(data):
    import io

    reader = fastavro.reader(io.BytesIO(data))
    schema = json.loads(reader.metadata["avro.schema"])
    return [(schema, row) for row in reader]


def _by_id(schema_and_row, wanted):
    schema, row = schema_and_row
    outer = {each["field-id"]: each for each in schema["fields"]}
    inner_type = outer[2]["type"]
    inner_type = (
        inner_type if isinstance(inner_type, dict) else next(each for each in inner_type if isinstance(each, dict))
    )
    values = {each["field-id"]: row["data_file"][each["name"]] for each in inner_type["fields"] if "field-id" in each}
    result = {"status": row[outer[0]["name"]], "partition": list((values.get(102) or {}).values())}
    for nested in wanted.fields[-1].type.fields:
        if nested.field_id == 102:
            continue
        value = values.get(nested.field_id)
        if isinstance(nested.type, MapType) and value is not None:
            value = [(each["key"], each["value"]) for each in value]
        result[nested.name] = value
    return result


def test_entries_written_again_are_the_same(shared, tmp_path):
    storage = open_storage()
    written = 0
    for name, source, metadata in tables(shared):
        for manifest in manifests(source, metadata)[-3:]:
            batches = list(read_manifest(source, manifest, metadata))
            location = f"file:{tmp_path}/{written}.avro"
            with ManifestWriter(
                storage,
                location,
                format_version=metadata.format_version,
                spec=metadata.spec_by_id(manifest.partition_spec_id),
                schemas=metadata.schemas_newest_first,
                content=manifest.content,
                snapshot_id=manifest.added_snapshot_id,
            ) as writer:
                for batch in batches:
                    writer.write(batch)
            again = writer.manifest
            for field in (
                "added_files_count",
                "existing_files_count",
                "deleted_files_count",
                "added_rows_count",
                "existing_rows_count",
                "deleted_rows_count",
                "partitions",
            ):
                said = getattr(manifest, field)
                assert said is None or getattr(again, field) == said, (name, field)
            assert again.min_sequence_number in (UNASSIGNED_SEQUENCE_NUMBER, manifest.min_sequence_number), name
            again = replace(again, sequence_number=manifest.sequence_number, first_row_id=manifest.first_row_id)
            found = [row for batch in read_manifest(storage, again, metadata) for row in batch.to_pylist()]
            assert found == [row for batch in batches for row in batch.to_pylist()], name
            written += 1
    assert written > 150


SEEDS = (
    "spark-part_multi",
    "spark-v1_basic",
    "spark-del_mixed_v3",
    "spark-types_uuid_fixed_v2",
    "spark-part_nanos_v3",
    "spark-part_bucket_decimal",
    "spark-manifest_codecs",
    "iceberg-lineitem_iceberg",
)


@pytest.fixture(scope="module")
def seeds(shared):
    """Lists and manifests to damage: (copies, metadata, manifest or snapshot, location)."""
    found = []
    for name, storage, metadata in tables(shared):
        if name in SEEDS:
            found += [(storage, metadata, each, each.manifest_path) for each in manifests(storage, metadata)]
            known = [each for each in metadata.snapshots if each.manifest_list is not None]
            found += [(storage, metadata, known[-1], known[-1].manifest_list)]
    return found


CHANGE = st.one_of(
    st.tuples(st.just("set"), st.floats(0, 1, exclude_max=True), st.binary(min_size=1, max_size=1)),
    st.tuples(
        st.just("set"),
        st.floats(0, 1, exclude_max=True),
        st.sampled_from([b"\xff" * 9 + b"\x01", b"\xfe\xff\xff\xff\x0f", b"\x00"]),
    ),
    st.tuples(st.just("insert"), st.floats(0, 1, exclude_max=True), st.binary(min_size=1, max_size=6)),
    st.tuples(st.just("cut"), st.floats(0, 1, exclude_max=True), st.binary(min_size=1, max_size=8)),
)


def changed(data, change):
    how, place, value = change
    at = int(place * len(data))
    if how == "insert":
        return data[:at] + value + data[at:]
    return data[:at] + (value if how == "set" else b"") + data[at + len(value) :]


def damaged(data, where, changes, objects):
    """The file with changes to its raw bytes, its decompressed blocks, or its schema."""
    if where == "file":
        for each in changes:
            data = changed(data, each)
        return data
    header = read_header(data)
    blocks = [(block.objects, block.data) for block in read_blocks(data, header)]
    metadata = {**header.metadata, "avro.codec": b"null"}
    for each in changes:
        if where == "schema":
            metadata["avro.schema"] = changed(metadata["avro.schema"], each)
        elif blocks:
            blocks[0] = (blocks[0][0] + objects, changed(blocks[0][1], each))
    return encode_header(metadata, header.sync) + b"".join(
        encode_block(count, body, codec="null", sync=header.sync) for count, body in blocks
    )


@settings(max_examples=400, deadline=None)
@given(
    which=st.integers(0, 10**6),
    where=st.sampled_from(["file", "block", "block", "schema"]),
    changes=st.lists(CHANGE, min_size=1, max_size=3),
    objects=st.sampled_from([0, 0, 0, 1, -1, 2**40]),
)
def test_changed_bytes_are_read_or_refused_in_time(seeds, which, where, changes, objects):
    storage, metadata, subject, location = seeds[which % len(seeds)]
    storage.changed = {location: damaged(storage.get(location), where, changes, objects)}
    start = time.monotonic()
    assert _outcome(storage, metadata, subject) in (None, location)
    assert time.monotonic() - start < 20


def _outcome(storage, metadata, subject):
    """Read everything; the file that the error names, if there is one."""
    try:
        if hasattr(subject, "manifest_path"):
            for batch in read_manifest(storage, subject, metadata):
                batch.validate(full=True)
        else:
            read_manifest_list(storage, subject, metadata)
    except IcebergError as error:
        return error.path or "no file named"
    finally:
        storage.changed = {}
    return None
