"""Table metadata files: JSON, plain or gzipped, of versions 1 to 4 (Appendix C, "Table Metadata and Snapshots")."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar
from uuid import UUID

from deltaberg.iceberg.errors import CorruptMetadata, InvalidIcebergRequest, UnsupportedIcebergFeature, corrupt_context
from deltaberg.iceberg.metadata.encryption_key import EncryptionKey
from deltaberg.iceberg.metadata.location import has_scheme, relativize_location, resolve_location
from deltaberg.iceberg.metadata.snapshot import Snapshot, SnapshotLogEntry
from deltaberg.iceberg.metadata.snapshot_ref import SnapshotRef
from deltaberg.iceberg.metadata.statistics_file import PartitionStatisticsFile, StatisticsFile
from deltaberg.iceberg.metadata.table_metadata import MAX_FORMAT_VERSION, MetadataLogEntry, TableMetadata, map_locations
from deltaberg.iceberg.metadata.unpacked_size import METADATA_JSON
from deltaberg.iceberg.partition.partition_spec import FIRST_PARTITION_FIELD_ID, PartitionSpec
from deltaberg.iceberg.partition.sort_order import UNSORTED, SortOrder
from deltaberg.iceberg.schema.json_object import JsonObject, parse_json, rejected
from deltaberg.iceberg.schema.schema import Schema

_KEYS = frozenset(
    {
        "format-version",
        "table-uuid",
        "location",
        "last-sequence-number",
        "last-updated-ms",
        "last-column-id",
        "schema",
        "schemas",
        "current-schema-id",
        "partition-spec",
        "partition-specs",
        "default-spec-id",
        "last-partition-id",
        "properties",
        "current-snapshot-id",
        "snapshots",
        "snapshot-log",
        "metadata-log",
        "sort-orders",
        "default-sort-order-id",
        "refs",
        "statistics",
        "partition-statistics",
        "next-row-id",
        "encryption-keys",
    }
)
_GZIP_MAGIC = b"\x1f\x8b"
_INFLATED_AT_ONCE = 1 << 14
_NO_SNAPSHOT = -1
_T = TypeVar("_T")


def read_metadata(data: bytes, *, table_location: str | None = None, path: str | None = None) -> TableMetadata:
    """Table metadata from the bytes of a metadata file.

    ``table_location`` is needed for version 4 metadata that does not say where the table is; ``path`` names the file
    in errors. Raises CorruptMetadata, and UnsupportedIcebergFeature for a format version above 4.
    """
    with corrupt_context(path=path):
        return metadata_from_json(parse_json(_inflate(data)), table_location=table_location)


def write_metadata(metadata: TableMetadata, *, gzip: bool = False) -> bytes:
    """The bytes of a metadata file."""
    text = json.dumps(metadata_to_json(metadata), ensure_ascii=False, separators=(",", ":")).encode("utf-8")
    if not gzip:
        return text
    deflate = zlib.compressobj(9, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
    return deflate.compress(text) + deflate.flush()


def _inflate(data: bytes) -> bytes:
    """The bytes of a metadata file, unpacked where they are gzipped, whatever its name."""
    if not data.startswith(_GZIP_MAGIC):
        return data
    parts: list[bytes] = []
    inflated, stream = 0, zlib.decompressobj(16 + zlib.MAX_WBITS)
    for at in range(0, len(data), _INFLATED_AT_ONCE):
        piece = data[at : at + _INFLATED_AT_ONCE]
        while piece:
            if stream.eof:
                stream = zlib.decompressobj(16 + zlib.MAX_WBITS)
            try:
                parts.append(stream.decompress(piece))
            except zlib.error as error:
                raise CorruptMetadata(f"Cannot read gzipped metadata: {error}") from error
            inflated += len(parts[-1])
            packed = at + len(piece) - len(stream.unused_data)
            METADATA_JSON.check("Cannot read gzipped metadata", packed=packed, unpacked=inflated)
            piece = stream.unused_data
    if not stream.eof:
        raise CorruptMetadata("Cannot read gzipped metadata: the file is truncated")
    return b"".join(parts)


def metadata_from_json(value: object, *, table_location: str | None = None) -> TableMetadata:
    """Table metadata from a parsed JSON document. Raises CorruptMetadata, UnsupportedIcebergFeature."""
    node = JsonObject(value)
    version = node.integer("format-version")
    if version > MAX_FORMAT_VERSION:
        raise UnsupportedIcebergFeature(
            f"Cannot read format version {version}: versions 1 to {MAX_FORMAT_VERSION} are known",
            feature=f"format-version {version}",
        )
    if version < 1:
        raise rejected(node.at("format-version"), f"a version from 1 to {MAX_FORMAT_VERSION}", version)
    location, stored = _location(node, version, table_location)
    schemas, current_schema_id = _schemas(node, version)
    specs, default_spec_id = _specs(node, version)
    orders, default_order_id = _sort_orders(node, version)
    current = node.optional_snapshot_id("current-snapshot-id")
    current = None if current == _NO_SNAPSHOT else current
    last_partition_id = _required_from(2, version, node, "last-partition-id", node.optional_integer)
    metadata = TableMetadata(
        format_version=version,
        table_uuid=_uuid(node, version),
        location=location,
        last_updated_ms=node.long("last-updated-ms"),
        last_column_id=node.integer("last-column-id", low=0),
        schemas=schemas,
        current_schema_id=current_schema_id,
        partition_specs=specs,
        default_spec_id=default_spec_id,
        last_partition_id=(
            max((spec.last_assigned_id for spec in specs), default=FIRST_PARTITION_FIELD_ID - 1)
            if last_partition_id is None
            else last_partition_id
        ),
        last_sequence_number=(
            0
            if version == 1
            else _required_from(2, version, node, "last-sequence-number", lambda key: node.optional_long(key, low=0))
            or 0
        ),
        properties=node.text_map("properties"),
        current_snapshot_id=current,
        snapshots=tuple(Snapshot.from_json(item, at) for item, at in node.optional_items("snapshots")),
        snapshot_log=tuple(SnapshotLogEntry.from_json(item, at) for item, at in node.optional_items("snapshot-log")),
        metadata_log=tuple(MetadataLogEntry.from_json(item, at) for item, at in node.optional_items("metadata-log")),
        sort_orders=orders,
        default_sort_order_id=default_order_id,
        refs=_refs(node),
        statistics=tuple(StatisticsFile.from_json(item, at) for item, at in node.optional_items("statistics")),
        partition_statistics=tuple(
            PartitionStatisticsFile.from_json(item, at) for item, at in node.optional_items("partition-statistics")
        ),
        next_row_id=_next_row_id(node, version),
        encryption_keys=tuple(EncryptionKey.from_json(item, at) for item, at in node.optional_items("encryption-keys")),
        stores_location=stored,
        extra=node.extra(_KEYS),
    )
    _check_numbers(metadata)
    return _resolved(metadata) if version >= 4 else metadata


def _required_from(since: int, version: int, node: JsonObject, key: str, read: Callable[[str], _T | None]) -> _T | None:
    """An optional field that a version made required."""
    value = read(key)
    if value is None and version >= since:
        node.raw(key)
    return value


def _location(node: JsonObject, version: int, table_location: str | None) -> tuple[str, bool]:
    if version < 4 or node.has("location"):
        location = node.text("location")
        if version >= 4 and not has_scheme(location):
            raise rejected(node.at("location"), "an absolute location (with a URI scheme)", location)
        return location, True
    if table_location is None:
        raise CorruptMetadata(
            "Cannot read $.location: version 4 metadata leaves it out, so the table's location must be given",
            field="$.location",
        )
    return table_location, False


def _uuid(node: JsonObject, version: int) -> str | None:
    text = _required_from(2, version, node, "table-uuid", node.optional_text)
    if text is not None:
        try:
            UUID(text)
        except ValueError as error:
            raise rejected(node.at("table-uuid"), "a UUID", text) from error
    return text


def _next_row_id(node: JsonObject, version: int) -> int | None:
    """Required from version 3 on; 0 where it is missing and no snapshot can have assigned a row id."""
    if version < 3:
        return None
    if not node.has("next-row-id") and not any(True for _ in node.optional_items("snapshots")):
        return 0
    return node.long("next-row-id", low=0)


def _schemas(node: JsonObject, version: int) -> tuple[tuple[Schema, ...], int]:
    if node.has("schemas"):
        schemas = tuple(_full_schema(item, at) for item, at in node.items("schemas"))
        return schemas, node.integer("current-schema-id")
    if version >= 2:
        node.raw("schemas")
    schema = Schema.from_json(node.raw("schema"), node.at("schema"))
    return (schema,), schema.schema_id


def _full_schema(value: object, path: str) -> Schema:
    JsonObject(value, path).raw("schema-id")
    return Schema.from_json(value, path)


def _specs(node: JsonObject, version: int) -> tuple[tuple[PartitionSpec, ...], int]:
    if node.has("partition-specs"):
        specs = tuple(PartitionSpec.from_json(item, at) for item, at in node.items("partition-specs"))
        return specs, node.integer("default-spec-id")
    if version >= 2:
        node.raw("partition-specs")
    spec = PartitionSpec.from_fields_json(node.raw("partition-spec"), node.at("partition-spec"), spec_id=0)
    return (spec,), spec.spec_id


def _sort_orders(node: JsonObject, version: int) -> tuple[tuple[SortOrder, ...], int]:
    if node.has("sort-orders"):
        orders = tuple(SortOrder.from_json(item, at) for item, at in node.items("sort-orders"))
        return orders, node.integer("default-sort-order-id")
    if version >= 2:
        node.raw("sort-orders")
    return (UNSORTED,), UNSORTED.order_id


def _refs(node: JsonObject) -> dict[str, SnapshotRef]:
    if not node.has("refs"):
        return {}
    refs = node.child("refs")
    return {name: SnapshotRef.from_json(refs.raw(name), refs.at(name)) for name in refs.values}


def _check_numbers(metadata: TableMetadata) -> None:
    """Counters that promise to be above every id in use."""
    highest = max((schema.highest_field_id for schema in metadata.schemas), default=0)
    if metadata.last_column_id < highest:
        raise rejected("$.last-column-id", f"at least {highest}, the highest field id", metadata.last_column_id)
    for position, snapshot in enumerate(metadata.snapshots):
        path = f"$.snapshots[{position}]"
        if metadata.format_version >= 2 and snapshot.sequence_number > metadata.last_sequence_number:
            raise rejected(
                f"{path}.sequence-number",
                f"at most last-sequence-number {metadata.last_sequence_number}",
                snapshot.sequence_number,
            )
        if metadata.next_row_id is not None and snapshot.first_row_id is not None:
            end = snapshot.first_row_id + (snapshot.added_rows or 0)
            if end > metadata.next_row_id:
                raise rejected(f"{path}.first-row-id", f"row ids below next-row-id {metadata.next_row_id}", end)


def _resolved(metadata: TableMetadata) -> TableMetadata:
    """Version 4: relative locations made absolute, remembering that some were relative."""
    resolved = map_locations(metadata, lambda path: resolve_location(metadata.location, path))
    return resolved if resolved == metadata else replace(resolved, relative_locations=True)


def metadata_to_json(metadata: TableMetadata) -> dict[str, object]:
    """The JSON document of table metadata in its own format version.

    Raises InvalidIcebergRequest for values that this version cannot express.
    """
    version = metadata.format_version
    if version >= 2 and metadata.table_uuid is None:
        raise InvalidIcebergRequest(f"Cannot write version {version} metadata: the table has no UUID")
    if metadata.relative_locations:
        if version < 4:
            raise InvalidIcebergRequest(
                f"Cannot write relative locations in version {version} metadata: version 4 adds them"
            )
        metadata = map_locations(metadata, lambda path: relativize_location(metadata.location, path))
    result: dict[str, object] = {"format-version": version}
    if metadata.table_uuid is not None:
        result["table-uuid"] = metadata.table_uuid
    if metadata.stores_location or version < 4:
        result["location"] = metadata.location
    if version >= 2:
        result["last-sequence-number"] = metadata.last_sequence_number
    result["last-updated-ms"] = metadata.last_updated_ms
    result["last-column-id"] = metadata.last_column_id
    if version == 1:
        result["schema"] = metadata.schema.to_json()
    result["current-schema-id"] = metadata.current_schema_id
    result["schemas"] = [schema.to_json() for schema in metadata.schemas]
    if version == 1:
        result["partition-spec"] = metadata.spec.fields_to_json()
    result["default-spec-id"] = metadata.default_spec_id
    result["partition-specs"] = [spec.to_json() for spec in metadata.partition_specs]
    result["last-partition-id"] = metadata.last_partition_id
    result["default-sort-order-id"] = metadata.default_sort_order_id
    result["sort-orders"] = [order.to_json() for order in metadata.sort_orders]
    result["properties"] = dict(metadata.properties)
    # Version 1 and 2 readers of the reference implementation expect -1 for "no current snapshot".
    absent = _NO_SNAPSHOT if version < 3 else None
    result["current-snapshot-id"] = absent if metadata.current_snapshot_id is None else metadata.current_snapshot_id
    if version >= 3:
        result["next-row-id"] = metadata.next_row_id or 0
    if metadata.encryption_keys:
        result["encryption-keys"] = [key.to_json() for key in metadata.encryption_keys]
    result["refs"] = {name: ref.to_json() for name, ref in metadata.refs.items()}
    result["snapshots"] = [snapshot.to_json(version) for snapshot in metadata.snapshots]
    result["statistics"] = [item.to_json() for item in metadata.statistics]
    result["partition-statistics"] = [item.to_json() for item in metadata.partition_statistics]
    result["snapshot-log"] = [entry.to_json() for entry in metadata.snapshot_log]
    result["metadata-log"] = [entry.to_json() for entry in metadata.metadata_log]
    return {**result, **metadata.extra}
