"""A description of a table: format, schema, partitioning, features, counts, deletes, size."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import pyarrow.compute as pc

from deltaberg.delta.log.add_path import location_array
from deltaberg.delta.schema.types import ArrayType, DeltaType, MapType, StructType
from deltaberg.delta.schema.types import type_name as delta_type_name
from deltaberg.iceberg.deletes.delete_index import PUFFIN
from deltaberg.iceberg.manifest.data_file import EQUALITY_DELETES
from deltaberg.iceberg.manifest.live_files import data_files, delete_files
from deltaberg.iceberg.partition.transforms import VoidTransform
from deltaberg.iceberg.schema.types import type_name as iceberg_type_name
from deltaberg.migrate.files.outside_files import (
    count_files,
    count_metadata_files,
    count_sidecars,
    count_vector_files,
    outside_findings,
    outside_of,
)
from deltaberg.migrate.plan_report import PlanItem, items_of
from deltaberg.migrate.source import DeltaSource, IcebergSource, Source
from deltaberg.migrate.target.watermark import Watermark
from deltaberg.translate.partitioning import field_text
from deltaberg.translate.properties import shown_properties


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnDescription:
    """One top-level column in readable form; ``type`` is the format's own type text."""

    name: str
    type: str
    nullable: bool
    field_id: int | None = None
    comment: str | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "type": self.type,
            "nullable": self.nullable,
            "field_id": self.field_id,
            "comment": self.comment,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """One state of one table.

    version: the Delta version or the Iceberg snapshot id (None for an empty Iceberg table).
    format_version: ``"3"`` for Iceberg, ``"reader 3, writer 7"`` for Delta. partitioning: ``"day(ts)"``, ``"p"``. rows:
    live rows, deletes applied; None where a file's count can only be read from its footer.
    deletes: ``{"vectors", "position", "equality", "rows"}``. position: the source position, where deltaberg wrote it.
    properties: without values that are secrets. warnings: folders outside the table's own under which files lie; coded like a
    plan's items.
    """

    format: str
    location: str
    name: str | None
    uuid: str
    version: int | None
    timestamp_ms: int | None
    format_version: str
    features: tuple[str, ...]
    columns: tuple[ColumnDescription, ...]
    partitioning: tuple[str, ...]
    files: int
    rows: int | None
    bytes: int
    deletes: dict[str, int]
    properties: dict[str, str] = field(default_factory=dict)
    position: dict[str, Any] | None = None
    warnings: tuple[PlanItem, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "format": self.format,
            "location": self.location,
            "name": self.name,
            "uuid": self.uuid,
            "version": self.version,
            "timestamp_ms": self.timestamp_ms,
            "format_version": self.format_version,
            "features": list(self.features),
            "columns": [column.to_json() for column in self.columns],
            "partitioning": list(self.partitioning),
            "files": self.files,
            "rows": self.rows,
            "bytes": self.bytes,
            "deletes": self.deletes,
            "properties": self.properties,
            "position": self.position,
            "warnings": [item.to_json() for item in self.warnings],
        }


def inspect_table(source: Source) -> Inspection:
    """Describe the table from its metadata alone; no data file is opened. Raises the errors of reading the metadata."""
    match source:
        case IcebergSource():
            return _inspect_iceberg(source)
        case DeltaSource():
            return _inspect_delta(source)


def _inspect_iceberg(source: IcebergSource) -> Inspection:
    metadata, snapshot = source.table.metadata, source.snapshot
    files = rows = size = 0
    outside = outside_of(source)
    count_metadata_files(outside, source, () if snapshot is None else (snapshot,))
    for batch in data_files(source.table, snapshot, with_metrics=False):
        count_files(outside, source.storage, batch.column("file_path"))
        files += batch.num_rows
        rows += pc.sum(batch.column("record_count")).as_py()
        size += pc.sum(batch.column("file_size_in_bytes")).as_py()
    deletes = {"vectors": 0, "position": 0, "equality": 0, "rows": 0}
    for batch in delete_files(source.table, snapshot):
        count_files(outside, source.storage, batch.column("file_path"))
        vectors = pc.equal(batch.column("file_format"), PUFFIN)
        equality = pc.sum(pc.equal(batch.column("content"), EQUALITY_DELETES)).as_py()
        count = pc.sum(vectors).as_py()
        deletes["vectors"] += count
        deletes["equality"] += equality
        deletes["position"] += batch.num_rows - count - equality
        deletes["rows"] += pc.sum(batch.column("record_count").filter(vectors)).as_py() or 0
    known = not deletes["position"] and not deletes["equality"]
    position = Watermark.from_properties(metadata.properties)
    return Inspection(
        format=source.format.value,
        location=source.location,
        name=None,
        uuid=metadata.table_uuid or "",
        version=None if snapshot is None else snapshot.snapshot_id,
        timestamp_ms=None if snapshot is None else snapshot.timestamp_ms,
        format_version=str(metadata.format_version),
        features=(),
        columns=tuple(
            ColumnDescription(
                name=column.name,
                type=iceberg_type_name(column.type),
                nullable=not column.required,
                field_id=column.field_id,
                comment=column.doc,
            )
            for column in source.schema.fields
        ),
        partitioning=tuple(
            field_text(part, source.schema)
            for part in metadata.spec.fields
            if not isinstance(part.transform, VoidTransform)
        ),
        files=files,
        rows=rows - deletes["rows"] if known else None,
        bytes=size,
        deletes=deletes,
        properties=shown_properties(metadata.properties),
        position=None if position is None else json.loads(position.to_text()),
        warnings=items_of(outside_findings(outside, source.storage)),
    )


def _inspect_delta(source: DeltaSource) -> Inspection:
    snapshot = source.snapshot
    metadata, mapping, protocol = snapshot.metadata, snapshot.column_mapping, snapshot.protocol
    files = rows = size = vectors = deleted = uncounted = 0
    outside = outside_of(source)
    count_sidecars(outside, source)
    for batch in snapshot.add_files(check_totals=False):
        count_files(outside, source.storage, location_array(batch, snapshot.table_root))
        count_vector_files(outside, source, batch.column("deletion_vector"))
        counts = pc.struct_field(batch.column("stats"), "num_records")
        descriptors = batch.column("deletion_vector")
        files += batch.num_rows
        rows += pc.sum(counts).as_py() or 0
        uncounted += counts.null_count
        size += pc.sum(batch.column("size")).as_py() or 0
        vectors += batch.num_rows - descriptors.null_count
        deleted += pc.sum(pc.struct_field(descriptors, "cardinality")).as_py() or 0
    position = Watermark.from_properties(metadata.configuration)
    return Inspection(
        format=source.format.value,
        location=source.location,
        name=metadata.name,
        uuid=metadata.id,
        version=snapshot.version,
        timestamp_ms=snapshot.timestamp_ms,
        format_version=f"reader {protocol.min_reader_version}, writer {protocol.min_writer_version}",
        features=protocol.features,
        columns=tuple(
            ColumnDescription(
                name=column.name,
                type=_delta_type_text(column.type),
                nullable=column.nullable,
                field_id=mapping.column_id(column),
                comment=column.comment,
            )
            for column in metadata.schema.fields
        ),
        partitioning=metadata.partition_columns,
        files=files,
        rows=None if uncounted else rows - deleted,
        bytes=size,
        deletes={"vectors": vectors, "position": 0, "equality": 0, "rows": deleted},
        properties=shown_properties(metadata.configuration),
        position=None if position is None else json.loads(position.to_text()),
        warnings=items_of(outside_findings(outside, source.storage)),
    )


def _delta_type_text(kind: DeltaType) -> str:
    match kind:
        case StructType(fields=fields):
            return f"struct<{', '.join(f'{each.name}: {_delta_type_text(each.type)}' for each in fields)}>"
        case ArrayType(element_type=element):
            return f"array<{_delta_type_text(element)}>"
        case MapType(key_type=key, value_type=value):
            return f"map<{_delta_type_text(key)}, {_delta_type_text(value)}>"
        case _:
            return delta_type_name(kind)
