"""Manifest lists: the manifests of a snapshot, one ``manifest_file`` struct each (section "Manifest Lists")."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from deltaberg.errors import error_context
from deltaberg.iceberg.avro.container import AvroHeader, read_header
from deltaberg.iceberg.avro.reader import read_avro
from deltaberg.iceberg.errors import CorruptMetadata
from deltaberg.iceberg.metadata.location import qualify_location, resolve_location
from deltaberg.iceberg.metadata.snapshot import Snapshot
from deltaberg.iceberg.metadata.table_metadata import TableMetadata
from deltaberg.iceberg.metadata.unpacked_size import MANIFEST_LIST
from deltaberg.iceberg.partition.partition_spec import PartitionSpec
from deltaberg.iceberg.schema.json_object import parse_json
from deltaberg.iceberg.schema.types import (
    BinaryType,
    BooleanType,
    IntegerType,
    ListType,
    LongType,
    NestedField,
    StringType,
    StructType,
    Type,
)
from deltaberg.storage.protocol import Storage

RELATIVE_LOCATIONS: Final = 4
"""The first format version whose locations may be relative."""

UNASSIGNED_SEQUENCE_NUMBER: Final = -1
"""The sequence number of a new manifest until the list that holds it is written."""


class ManifestContent(Enum):
    """The kind of files in a manifest; a manifest never mixes them."""

    DATA = 0
    DELETES = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldSummary:
    """The values of one partition field over all files of a manifest; bounds in the binary single-value form.

    ``contains_nan`` None: unknown. Bounds None: all values are null or NaN.
    """

    contains_null: bool
    contains_nan: bool | None = None
    lower_bound: bytes | None = None
    upper_bound: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestFile:
    """One manifest of a snapshot. ``manifest_path`` is absolute; counts are None where a version 1 writer left them
    out (then they may be anything). ``sequence_number`` and ``min_sequence_number`` are 0 for version 1 lists."""

    manifest_path: str
    manifest_length: int
    partition_spec_id: int
    content: ManifestContent = ManifestContent.DATA
    sequence_number: int = 0
    min_sequence_number: int = 0
    added_snapshot_id: int | None = None
    added_files_count: int | None = None
    existing_files_count: int | None = None
    deleted_files_count: int | None = None
    added_rows_count: int | None = None
    existing_rows_count: int | None = None
    deleted_rows_count: int | None = None
    partitions: tuple[FieldSummary, ...] | None = None
    key_metadata: bytes | None = None
    first_row_id: int | None = None


_INT: Final = IntegerType()
_LONG: Final = LongType()
_BOUND: Final = BinaryType()
COUNTS: Final = ("added_files_count", "existing_files_count", "deleted_files_count")
ROW_COUNTS: Final = ("added_rows_count", "existing_rows_count", "deleted_rows_count")


def _field(field_id: int, name: str, kind: Type, doc: str, *, required: bool) -> NestedField:
    return NestedField(field_id=field_id, name=name, required=required, type=kind, doc=doc)


_SUMMARY: Final = StructType(
    fields=(
        _field(509, "contains_null", BooleanType(), "True if any file has a null partition value", required=True),
        _field(518, "contains_nan", BooleanType(), "True if any file has a nan partition value", required=False),
        _field(510, "lower_bound", _BOUND, "Partition lower bound for all files", required=False),
        _field(511, "upper_bound", _BOUND, "Partition upper bound for all files", required=False),
    )
)


def manifest_file_type(version: int) -> StructType:
    """``manifest_file`` as a format version writes it."""
    counts = version >= 2
    head = (
        _field(500, "manifest_path", StringType(), "Location URI with FS scheme", required=True),
        _field(501, "manifest_length", _LONG, "Total file size in bytes", required=True),
        _field(502, "partition_spec_id", _INT, "Spec ID used to write", required=True),
    )
    numbers = (
        _field(517, "content", _INT, "Contents of the manifest: 0=data, 1=deletes", required=True),
        _field(515, "sequence_number", _LONG, "Sequence number when the manifest was added", required=True),
        _field(516, "min_sequence_number", _LONG, "Lowest sequence number in the manifest", required=True),
    )
    files = (
        _field(503, "added_snapshot_id", _LONG, "Snapshot ID that added the manifest", required=True),
        _field(504, "added_files_count", _INT, "Added entry count", required=counts),
        _field(505, "existing_files_count", _INT, "Existing entry count", required=counts),
        _field(506, "deleted_files_count", _INT, "Deleted entry count", required=counts),
    )
    rows = (
        _field(512, "added_rows_count", _LONG, "Added rows count", required=counts),
        _field(513, "existing_rows_count", _LONG, "Existing rows count", required=counts),
        _field(514, "deleted_rows_count", _LONG, "Deleted rows count", required=counts),
    )
    element = NestedField(field_id=508, name="element", required=True, type=_SUMMARY)
    partitions = _field(507, "partitions", ListType(element=element), "Summary for each partition", required=False)
    key = _field(519, "key_metadata", _BOUND, "Encryption key metadata blob", required=False)
    if version == 1:
        return StructType(fields=(*head, *files, partitions, *rows, key))
    first = "Starting row ID to assign to new rows in ADDED data files"
    lineage = (_field(520, "first_row_id", _LONG, first, required=False),) if version >= 3 else ()
    return StructType(fields=(*head, *numbers, *files, *rows, partitions, key, *lineage))


_READ_TYPE: Final = manifest_file_type(3)


def read_manifest_list(storage: Storage, snapshot: Snapshot, metadata: TableMetadata) -> tuple[ManifestFile, ...]:
    """The manifests of a snapshot in the order of its list, or of the locations that a version 1 snapshot holds itself.

    Raises CorruptMetadata naming file and field, StorageError when a file is not there.
    """
    if snapshot.manifest_list is None:
        return tuple(_inline(storage, path, snapshot, metadata) for path in snapshot.manifests or ())
    path = snapshot.manifest_list
    data = storage.get(path)
    with error_context(path=path):
        return parse_manifest_list(data, metadata, snapshot)


def parse_manifest_list(
    data: bytes, metadata: TableMetadata, snapshot: Snapshot | None = None
) -> tuple[ManifestFile, ...]:
    """The manifests of a list that is in memory; relative locations are resolved as version 4 defines.

    snapshot: whose list it is; a list that says it is of another snapshot, or of another attempt to commit it, is corrupt.
    """
    header = read_header(data)
    if snapshot is not None:
        _check_snapshot(header, snapshot)
    version = header.text("format-version")
    relative = metadata.format_version >= RELATIVE_LOCATIONS
    manifests = []
    for batch in read_avro(data, _READ_TYPE, header=header, limit=MANIFEST_LIST):
        for values in batch.to_pylist():
            path = values["manifest_path"]
            if relative and path is not None:
                fixed = (
                    resolve_location
                    if version is not None and version.isdigit() and int(version) >= 4
                    else qualify_location
                )
                path = fixed(metadata.location, path)
            manifests.append(_manifest_file(values, path))
    if snapshot is not None and snapshot.sequence_number:
        for manifest in manifests:
            if manifest.sequence_number > snapshot.sequence_number:
                expected = f"at most {snapshot.sequence_number}, that of snapshot {snapshot.snapshot_id}"
                raise _invalid("sequence_number", expected, manifest.sequence_number)
    return tuple(manifests)


def _check_snapshot(header: AvroHeader, snapshot: Snapshot) -> None:
    """Compare the ids that the list itself states with the snapshot that names it."""
    for key, expected in (("snapshot-id", snapshot.snapshot_id), ("sequence-number", snapshot.sequence_number)):
        text = header.text(key)
        if text is None or not text.lstrip("-").isdecimal() or not expected:
            continue
        # Some writers state ids as unsigned numbers.
        if (int(text) - expected) % 2**64:
            raise _invalid(key, f"{expected}, since the table's metadata names this list for that snapshot", text)


def _inline(storage: Storage, path: str, snapshot: Snapshot, metadata: TableMetadata) -> ManifestFile:
    """A manifest that no list describes: its own header tells its spec, and all sequence numbers are 0."""
    with error_context(path=path):
        data = storage.get(path)
        header = read_header(data)
        return ManifestFile(
            manifest_path=path,
            manifest_length=len(data),
            partition_spec_id=_spec_id(header, metadata),
            added_snapshot_id=snapshot.snapshot_id,
        )


def _spec_id(header: AvroHeader, metadata: TableMetadata) -> int:
    """The spec that a version 1 manifest was written with: by its id, else by its fields."""
    text = header.text("partition-spec-id")
    if text is not None:
        if not (text.isascii() and text.isdigit() and len(text) < 10):
            raise _invalid("partition-spec-id", "a spec id", text)
        return int(text)
    fields = header.text("partition-spec")
    if fields is None:
        raise _missing("partition-spec")
    written = PartitionSpec.from_fields_json(parse_json(fields.encode()), "partition-spec", spec_id=0)
    for spec in metadata.partition_specs:
        if spec.fields == written.fields:
            return spec.spec_id
    raise _invalid("partition-spec", "the fields of one of the table's specs", fields)


def _manifest_file(values: Mapping[str, Any], path: str | None) -> ManifestFile:
    if path is None:
        raise _missing("manifest_path")
    content = values["content"]
    if content not in (None, 0, 1):
        raise _invalid("content", "0 (data) or 1 (deletes)", content)
    kind = ManifestContent(content or 0)
    for name in (*COUNTS, *ROW_COUNTS, "manifest_length", "sequence_number", "min_sequence_number", "first_row_id"):
        if values[name] is not None and values[name] < 0:
            raise _invalid(name, "a number that is not negative", values[name])
    for name in ("manifest_length", "partition_spec_id"):
        if values[name] is None:
            raise _missing(name)
    summaries = values["partitions"]
    return ManifestFile(
        manifest_path=path,
        manifest_length=values["manifest_length"],
        partition_spec_id=values["partition_spec_id"],
        content=kind,
        sequence_number=values["sequence_number"] or 0,
        min_sequence_number=values["min_sequence_number"] or 0,
        added_snapshot_id=values["added_snapshot_id"],
        **{name: values[name] for name in (*COUNTS, *ROW_COUNTS)},
        partitions=None if summaries is None else tuple(_summary(each) for each in summaries),
        key_metadata=values["key_metadata"],
        # The specification: always null for delete manifests.
        first_row_id=values["first_row_id"] if kind is ManifestContent.DATA else None,
    )


def _summary(values: Mapping[str, Any] | None) -> FieldSummary:
    if values is None or values["contains_null"] is None:
        raise _missing("partitions.contains_null")
    return FieldSummary(**values)


def _missing(field: str) -> CorruptMetadata:
    return CorruptMetadata(f"Cannot read manifest list: {field} is missing", field=field)


def _invalid(field: str, expected: str, found: object) -> CorruptMetadata:
    return CorruptMetadata(
        f"Cannot read manifest list: {field} is invalid (expected {expected}, found {found})", field=field
    )
