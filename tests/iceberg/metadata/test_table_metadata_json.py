"""Table metadata files of every version: nothing is lost, and whatever is malformed is named."""

from __future__ import annotations

import contextlib
import copy
import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deltaberg.iceberg.errors import CorruptMetadata, IcebergError, InvalidIcebergRequest, UnsupportedIcebergFeature
from deltaberg.iceberg.metadata.snapshot_ref import RefType
from deltaberg.iceberg.metadata.table_metadata import TableMetadata
from deltaberg.iceberg.metadata.table_metadata_json import (
    metadata_from_json,
    metadata_to_json,
    read_metadata,
    write_metadata,
)

UUID = "fb072c92-a02b-11e9-ae9c-1bb7bc9eca94"
SCHEMA: dict[str, Any] = {
    "type": "struct",
    "schema-id": 0,
    "identifier-field-ids": [1],
    "fields": [
        {"id": 1, "name": "id", "required": True, "type": "long", "doc": "key"},
        {"id": 2, "name": "ts", "required": False, "type": "timestamptz"},
    ],
}


def document(version: int) -> dict[str, Any]:
    """A full metadata document of a version, with fields that no specification knows at every level."""
    snapshot: dict[str, Any] = {
        "snapshot-id": 3051729675574597004,
        "timestamp-ms": 1515100955770,
        "summary": {"operation": "append", "added-files-size": "10"},
        "manifest-list": "s3://b/t/metadata/s1.avro",
        "schema-id": 0,
        "x": 1,
    }
    child: dict[str, Any] = {**snapshot, "snapshot-id": 3051729675574597005, "timestamp-ms": 1515100956770}
    child["parent-snapshot-id"] = 3051729675574597004
    if version >= 2:
        snapshot["sequence-number"], child["sequence-number"] = 1, 2
    if version >= 3:
        snapshot |= {"first-row-id": 0, "added-rows": 5}
        child |= {"first-row-id": 5, "added-rows": 7, "key-id": "k1"}
    value: dict[str, Any] = {
        "format-version": version,
        "table-uuid": UUID,
        "location": "s3://b/t",
        "last-updated-ms": 1515100956770,
        "last-column-id": 2,
        "schemas": [{**SCHEMA, "x": {"y": [1]}}],
        "current-schema-id": 0,
        "partition-specs": [
            {
                "spec-id": 0,
                "fields": [{"source-id": 2, "field-id": 1000, "name": "ts_day", "transform": "day", "x": 1}],
                "x": 1,
            }
        ],
        "default-spec-id": 0,
        "last-partition-id": 1000,
        "properties": {"write.format.default": "parquet"},
        "current-snapshot-id": 3051729675574597005,
        "snapshots": [snapshot, child],
        "snapshot-log": [{"snapshot-id": 3051729675574597005, "timestamp-ms": 1515100956770, "x": 1}],
        "metadata-log": [
            {"metadata-file": "s3://b/t/metadata/v1.metadata.json", "timestamp-ms": 1515100955770, "x": 1}
        ],
        "sort-orders": [
            {"order-id": 0, "fields": []},
            {
                "order-id": 3,
                "fields": [
                    {
                        "transform": "bucket[4]",
                        "source-id": 1,
                        "direction": "desc",
                        "null-order": "nulls-last",
                        "x": 1,
                    }
                ],
                "x": 1,
            },
        ],
        "default-sort-order-id": 3,
        "refs": {
            "main": {"snapshot-id": 3051729675574597005, "type": "branch", "min-snapshots-to-keep": 3, "x": 1},
            "tagged": {"snapshot-id": 3051729675574597004, "type": "tag", "max-ref-age-ms": 10000000},
        },
        "statistics": [
            {
                "snapshot-id": 3051729675574597004,
                "statistics-path": "s3://b/t/metadata/s.puffin",
                "file-size-in-bytes": 413,
                "file-footer-size-in-bytes": 42,
                "key-metadata": "aWNl",
                "blob-metadata": [
                    {
                        "type": "ndv",
                        "snapshot-id": 3051729675574597004,
                        "sequence-number": 1,
                        "fields": [1],
                        "properties": {"ndv": "5"},
                        "x": 1,
                    }
                ],
                "x": 1,
            }
        ],
        "partition-statistics": [
            {
                "snapshot-id": 3051729675574597004,
                "statistics-path": "s3://b/t/metadata/p.parquet",
                "file-size-in-bytes": 43,
                "x": 1,
            }
        ],
        "x-unknown": {"deep": [None, {"a": 1.5}]},
    }
    if version == 1:
        value["schema"] = value["schemas"][0]
        value["partition-spec"] = value["partition-specs"][0]["fields"]
    else:
        value["last-sequence-number"] = 2
    if version >= 3:
        value["next-row-id"] = 12
        value["encryption-keys"] = [
            {
                "key-id": "k1",
                "encrypted-key-metadata": "aWNlYmVyZwo=",
                "encrypted-by-id": "k0",
                "properties": {"a": "b"},
                "x": 1,
            }
        ]
    fresh: dict[str, Any] = json.loads(json.dumps(value))
    return fresh


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_every_field_survives_a_round_trip(version: int) -> None:
    value = document(version)
    metadata = metadata_from_json(copy.deepcopy(value))
    assert metadata_to_json(metadata) == value
    assert read_metadata(write_metadata(metadata)) == metadata
    assert read_metadata(write_metadata(metadata, gzip=True)) == metadata


def test_gzip_is_told_by_the_bytes_and_may_have_several_members() -> None:
    data = json.dumps(document(2)).encode()
    parts = gzip.compress(data[:100]) + gzip.compress(data[100:])
    assert read_metadata(parts) == read_metadata(data)


def test_a_byte_order_mark_is_skipped() -> None:
    assert read_metadata(b"\xef\xbb\xbf" + json.dumps(document(2)).encode()).table_uuid == UUID


def test_version_1_defaults_are_filled_in() -> None:
    metadata = metadata_from_json(
        {
            "format-version": 1,
            "location": "s3://b/t",
            "last-updated-ms": 1,
            "last-column-id": 2,
            "schema": {key: SCHEMA[key] for key in ("type", "fields")},
            "partition-spec": [{"source-id": 1, "name": "id", "transform": "identity"}],
        }
    )
    assert metadata.table_uuid is None
    assert metadata.current_schema_id == 0
    assert metadata.last_sequence_number == 0
    assert metadata.last_partition_id == 1000
    assert metadata.sort_order.is_unsorted
    assert metadata.current_snapshot is None
    written = metadata_to_json(metadata)
    assert written["current-snapshot-id"] == -1
    assert "last-sequence-number" not in written


def test_a_version_1_snapshot_may_list_manifests_inline() -> None:
    value = document(1)
    del value["snapshots"][1]["manifest-list"]
    value["snapshots"][1]["manifests"] = ["s3://b/t/metadata/m0.avro"]
    metadata = metadata_from_json(value)
    assert metadata.snapshots[1].manifests == ("s3://b/t/metadata/m0.avro",)
    assert metadata_to_json(metadata) == value


@pytest.mark.parametrize(("version", "written"), [(1, -1), (2, -1), (3, None), (4, None)])
def test_no_current_snapshot_is_written_as_readers_expect(version: int, written: int | None) -> None:
    for absent in (-1, None):
        value = document(version)
        value |= {"current-snapshot-id": absent, "refs": {}, "snapshot-log": []}
        assert metadata_to_json(metadata_from_json(value))["current-snapshot-id"] == written


def test_main_is_there_even_where_refs_are_not() -> None:
    value = document(2)
    del value["refs"]
    metadata = metadata_from_json(value)
    assert metadata.ref("main").type is RefType.BRANCH
    assert metadata.ref("main").snapshot_id == metadata.current_snapshot_id


def test_version_4_locations_are_resolved_and_made_relative_again() -> None:
    value = document(4)
    value["snapshots"][0]["manifest-list"] = "metadata/s1.avro"
    value["snapshots"][1]["manifest-list"] = "hdfs://other/s2.avro"
    value["metadata-log"][0]["metadata-file"] = "metadata/v1.metadata.json"
    value["statistics"][0]["statistics-path"] = "metadata/s.puffin"
    value["partition-statistics"][0]["statistics-path"] = "metadata/p.parquet"
    metadata = metadata_from_json(copy.deepcopy(value))
    assert [snapshot.manifest_list for snapshot in metadata.snapshots] == [
        "s3://b/t/metadata/s1.avro",
        "hdfs://other/s2.avro",
    ]
    assert metadata.metadata_log[0].metadata_file == "s3://b/t/metadata/v1.metadata.json"
    assert metadata.statistics[0].statistics_path == "s3://b/t/metadata/s.puffin"
    assert metadata_to_json(metadata) == value


def test_version_4_may_leave_the_location_out() -> None:
    value = document(4)
    del value["location"]
    value["snapshots"][0]["manifest-list"] = "metadata/s1.avro"
    metadata = metadata_from_json(copy.deepcopy(value), table_location="s3://elsewhere/t")
    assert metadata.location == "s3://elsewhere/t"
    assert metadata.snapshots[0].manifest_list == "s3://elsewhere/t/metadata/s1.avro"
    written = metadata_to_json(metadata)
    assert "location" not in written
    assert written["snapshots"] == value["snapshots"]
    with pytest.raises(CorruptMetadata, match="the table's location must be given"):
        metadata_from_json(value)


def test_version_4_needs_an_absolute_location() -> None:
    with pytest.raises(CorruptMetadata, match="absolute location"):
        metadata_from_json({**document(4), "location": "/wh/t"})


def test_older_versions_keep_their_locations_as_they_stand() -> None:
    value = document(3)
    value["snapshots"][0]["manifest-list"] = "/wh/t/metadata/s1.avro"
    assert metadata_from_json(value).snapshots[0].manifest_list == "/wh/t/metadata/s1.avro"


@pytest.mark.parametrize("version", [5, 99, 2**31 - 1])
def test_a_version_that_nobody_knows_is_refused_by_name(version: int) -> None:
    with pytest.raises(UnsupportedIcebergFeature, match=f"Cannot read format version {version}") as caught:
        metadata_from_json({**document(2), "format-version": version})
    assert caught.value.feature == f"format-version {version}"
    assert caught.value.exit_code == 3


Change = Callable[[dict[str, Any]], object]
MALFORMED: list[tuple[str, Change, str]] = [
    ("no version", lambda v: v.pop("format-version"), "$.format-version"),
    ("version 0", lambda v: v.update({"format-version": 0}), "$.format-version"),
    ("version as text", lambda v: v.update({"format-version": "2"}), "$.format-version"),
    ("version as fraction", lambda v: v.update({"format-version": 2.0}), "$.format-version"),
    ("version as truth", lambda v: v.update({"format-version": True}), "$.format-version"),
    ("no uuid", lambda v: v.pop("table-uuid"), "$.table-uuid"),
    ("no UUID at all", lambda v: v.update({"table-uuid": "table"}), "$.table-uuid"),
    ("no location", lambda v: v.pop("location"), "$.location"),
    ("no sequence number", lambda v: v.pop("last-sequence-number"), "$.last-sequence-number"),
    ("no time", lambda v: v.pop("last-updated-ms"), "$.last-updated-ms"),
    ("no last column id", lambda v: v.pop("last-column-id"), "$.last-column-id"),
    ("last column id too low", lambda v: v.update({"last-column-id": 1}), "$.last-column-id"),
    ("last column id too high", lambda v: v.update({"last-column-id": 2**31}), "$.last-column-id"),
    ("no schemas", lambda v: v.pop("schemas"), "$.schemas"),
    ("empty schemas", lambda v: v.update({"schemas": []}), "$.current-schema-id"),
    ("schemas as object", lambda v: v.update({"schemas": {}}), "$.schemas"),
    ("schema without id", lambda v: v["schemas"][0].pop("schema-id"), "$.schemas[0].schema-id"),
    ("schema twice", lambda v: v["schemas"].append(v["schemas"][0]), "$.schemas"),
    ("dangling schema", lambda v: v.update({"current-schema-id": 7}), "$.current-schema-id"),
    ("no current schema", lambda v: v.pop("current-schema-id"), "$.current-schema-id"),
    ("field twice", lambda v: v["schemas"][0]["fields"].append(v["schemas"][0]["fields"][0]), "$.schemas[0]"),
    ("field id", lambda v: v["schemas"][0]["fields"][1].pop("id"), "$.schemas[0].fields[1].id"),
    ("field type", lambda v: v["schemas"][0]["fields"][1].update({"type": "blob"}), "$.schemas[0].fields[1].type"),
    ("no specs", lambda v: v.pop("partition-specs"), "$.partition-specs"),
    ("dangling spec", lambda v: v.update({"default-spec-id": 7}), "$.default-spec-id"),
    ("spec twice", lambda v: v["partition-specs"].append(v["partition-specs"][0]), "$.partition-specs"),
    (
        "no buckets",
        lambda v: v["partition-specs"][0]["fields"][0].update({"transform": "bucket[0]"}),
        "$.partition-specs[0].fields[0].transform",
    ),
    ("no last partition id", lambda v: v.pop("last-partition-id"), "$.last-partition-id"),
    ("no sort orders", lambda v: v.pop("sort-orders"), "$.sort-orders"),
    ("dangling order", lambda v: v.update({"default-sort-order-id": 7}), "$.default-sort-order-id"),
    (
        "sideways",
        lambda v: v["sort-orders"][1]["fields"][0].update({"direction": "sideways"}),
        "$.sort-orders[1].fields[0].direction",
    ),
    ("property that is no text", lambda v: v["properties"].update({"a": 1}), "$.properties.a"),
    ("snapshots as object", lambda v: v.update({"snapshots": {}}), "$.snapshots"),
    ("snapshot twice", lambda v: v["snapshots"].append(v["snapshots"][0]), "$.snapshots"),
    ("snapshot without id", lambda v: v["snapshots"][0].pop("snapshot-id"), "$.snapshots[0].snapshot-id"),
    ("snapshot without list", lambda v: v["snapshots"][0].pop("manifest-list"), "$.snapshots[0].manifest-list"),
    ("snapshot id too long", lambda v: v["snapshots"][0].update({"snapshot-id": 2**64}), "$.snapshots[0].snapshot-id"),
    (
        "summary without operation",
        lambda v: v["snapshots"][0]["summary"].pop("operation"),
        "$.snapshots[0].summary",
    ),
    (
        "sequence number past the last",
        lambda v: v["snapshots"][1].update({"sequence-number": 3}),
        "$.snapshots[1].sequence-number",
    ),
    ("dangling snapshot", lambda v: v.update({"current-snapshot-id": 7}), "$.current-snapshot-id"),
    ("ref without snapshot", lambda v: v["refs"]["tagged"].update({"snapshot-id": 7}), "$.refs.tagged"),
    ("ref of no kind", lambda v: v["refs"]["tagged"].update({"type": "label"}), "$.refs.tagged.type"),
    ("main elsewhere", lambda v: v["refs"]["main"].update({"snapshot-id": 3051729675574597004}), "$.refs.main"),
    ("log without time", lambda v: v["snapshot-log"][0].pop("timestamp-ms"), "$.snapshot-log[0].timestamp-ms"),
    ("log without file", lambda v: v["metadata-log"][0].pop("metadata-file"), "$.metadata-log[0].metadata-file"),
    ("statistics without path", lambda v: v["statistics"][0].pop("statistics-path"), "$.statistics[0].statistics-path"),
    (
        "blob without fields",
        lambda v: v["statistics"][0]["blob-metadata"][0].pop("fields"),
        "$.statistics[0].blob-metadata[0].fields",
    ),
]


@pytest.mark.parametrize(("change", "field"), [pytest.param(c, f, id=name) for name, c, f in MALFORMED])
def test_a_malformed_document_is_refused_by_file_and_path(change: Change, field: str) -> None:
    value = document(2)
    change(value)
    with pytest.raises(CorruptMetadata) as caught:
        read_metadata(json.dumps(value).encode(), path="s3://b/t/metadata/v9.metadata.json")
    assert caught.value.field == field
    assert "s3://b/t/metadata/v9.metadata.json" in str(caught.value)
    assert field.removeprefix("$.") in str(caught.value)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (lambda v: v.pop("next-row-id"), "$.next-row-id"),
        (lambda v: v.update({"next-row-id": 11}), "$.snapshots[1].first-row-id"),
        (lambda v: v["snapshots"][0].pop("added-rows"), "$.snapshots[0].added-rows"),
        (lambda v: v["snapshots"][0].update({"first-row-id": -1}), "$.snapshots[0].first-row-id"),
        (
            lambda v: v["encryption-keys"][0].pop("encrypted-key-metadata"),
            "$.encryption-keys[0].encrypted-key-metadata",
        ),
    ],
)
def test_malformed_version_3_fields_are_refused(change: Change, field: str) -> None:
    value = document(3)
    change(value)
    with pytest.raises(CorruptMetadata) as caught:
        metadata_from_json(value)
    assert caught.value.field == field


def test_a_parent_that_has_expired_is_no_fault() -> None:
    value = document(2)
    del value["snapshots"][0]
    value["refs"].pop("tagged")
    metadata = metadata_from_json(value)
    assert [snapshot.snapshot_id for snapshot in metadata.ancestors(metadata.current_snapshot_id)] == [
        3051729675574597005
    ]


def test_parents_in_a_circle_end_in_an_error_not_in_a_hang() -> None:
    value = document(2)
    value["snapshots"][0]["parent-snapshot-id"] = 3051729675574597005
    metadata = metadata_from_json(value)
    with pytest.raises(CorruptMetadata, match="they form a circle"):
        list(metadata.ancestors(metadata.current_snapshot_id))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "truncated or no JSON"),
        (b"[]", "expected an object, found"),
        (b'{"format-version": 2', "truncated or no JSON"),
        (b"\xff\xfe", "not valid UTF-8"),
        (b'{"a": NaN}', "NaN is not a JSON value"),
        (b'{"a": 1, "a": 2}', "occurs twice"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"a": ' + b"9" * 10_000 + b"}", "Cannot read JSON"),
        (gzip.compress(b"{}", mtime=0)[:-6], "the file is truncated"),
        (b"\x1f\x8b\x08garbage", "Cannot read gzipped metadata"),
    ],
)
def test_bytes_that_are_no_metadata_are_refused(data: bytes, message: str) -> None:
    with pytest.raises(CorruptMetadata, match=message) as caught:
        read_metadata(data, path="v1.metadata.json")
    assert caught.value.path == "v1.metadata.json"


def test_what_a_version_cannot_say_is_not_written() -> None:
    metadata = metadata_from_json(document(1))
    with pytest.raises(InvalidIcebergRequest, match="the table has no UUID"):
        metadata_to_json(replaced(metadata, format_version=2, table_uuid=None))
    with pytest.raises(InvalidIcebergRequest, match="version 4 adds them"):
        metadata_to_json(replaced(metadata, relative_locations=True))


def replaced(metadata: TableMetadata, **changes: Any) -> TableMetadata:
    from dataclasses import replace

    return replace(metadata, **changes)


def test_every_metadata_file_of_the_corpus_survives(shared: Path) -> None:
    """One file is a stub. The two ``vfinal`` files state a snapshot id as an unsigned number."""
    read = 0
    refused = set()
    for path in sorted((shared / "corpus" / "iceberg").rglob("*metadata.json*")):
        data = path.read_bytes()
        try:
            metadata = read_metadata(data, path=str(path))
        except CorruptMetadata as error:
            refused.add((path.name, error.field))
            continue
        raw = json.loads(gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data)
        written = metadata_to_json(metadata)
        assert metadata_from_json(json.loads(json.dumps(written))) == metadata
        assert_nothing_lost(raw, written, metadata.format_version, str(path))
        read += 1
    assert refused == {("v0.metadata.json", "$.format-version")}
    assert read > 600


def assert_nothing_lost(raw: Any, written: Any, version: int, path: str) -> None:
    """Every value of ``raw`` stands in ``written``; empty values and fields that the version dropped aside."""
    dropped = {"schema", "partition-spec"} if version >= 2 else set()
    if isinstance(raw, dict):
        for key, value in raw.items():
            if value in (None, [], {}) or key in dropped:
                continue
            assert key in written, f"{path}: {key}"
            if key == "schema" and version == 1:
                continue
            assert_nothing_lost(value, written[key], version, f"{path}: {key}")
    elif isinstance(raw, list):
        assert len(raw) == len(written), path
        for one, other in zip(raw, written, strict=True):
            assert_nothing_lost(one, other, version, path)
    elif path.endswith("current-snapshot-id") and raw == -1:
        assert written in (-1, None)
    elif isinstance(raw, int) and path.endswith("snapshot-id") and raw >= 2**63:
        assert written == raw - 2**64
    else:
        assert str(raw).replace(" ", "") == str(written).replace(" ", ""), path


junk = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False),
    st.text(max_size=5),
    st.sampled_from(["\ud800", "long", "bucket[0]", "decimal(99, 1)", "void", "main"]),
    st.lists(st.integers(0, 3), max_size=2),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
)


def places(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [here for key, child in items for here in [(*at, key), *places(child, (*at, key))]]


@settings(max_examples=600, deadline=None)
@given(st.integers(1, 4), st.data())
def test_mutated_documents_are_read_right_or_refused(version: int, data: st.DataObject) -> None:
    value = document(version)
    for _ in range(data.draw(st.integers(1, 3))):
        known = places(value)
        *parents, last = data.draw(st.sampled_from(known))
        holder = value
        for key in parents:
            holder = holder[key]
        match data.draw(st.sampled_from(["replace", "remove", "copy"])):
            case "replace":
                holder[last] = data.draw(junk)
            case "remove":
                del holder[last]
            case "copy" if isinstance(holder, list):
                holder.append(copy.deepcopy(holder[last]))
    try:
        metadata = metadata_from_json(copy.deepcopy(value))
    except IcebergError:
        return
    assert metadata_from_json(json.loads(json.dumps(metadata_to_json(metadata)))) == metadata
    assert metadata.schema.schema_id == value.get("current-schema-id", 0)
    assert metadata.current_snapshot_id == (
        None if value.get("current-snapshot-id") == -1 else value.get("current-snapshot-id")
    )


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=40), st.integers(0, 4000), st.integers(0, 40), st.booleans())
def test_mutated_bytes_are_read_or_refused(patch: bytes, start: int, length: int, packed: bool) -> None:
    data = json.dumps(document(3)).encode()
    data = gzip.compress(data) if packed else data
    start %= len(data)
    mutated = data[:start] + patch + data[start + length :]
    with contextlib.suppress(IcebergError):
        read_metadata(mutated, path="v1.metadata.json")
