"""The description of an Iceberg table, from its metadata alone."""

from __future__ import annotations

import json

import pyarrow.compute as pc

from deltaberg.iceberg.deletes.delete_index import PUFFIN
from deltaberg.iceberg.manifest.data_file import EQUALITY_DELETES
from deltaberg.iceberg.manifest.live_files import data_files, delete_files
from deltaberg.iceberg.partition.transforms import VoidTransform
from deltaberg.iceberg.schema.types import type_name
from deltaberg.migrate.files.outside_files import count_files, count_metadata_files, outside_findings, outside_of
from deltaberg.migrate.inspection import ColumnDescription, Inspection
from deltaberg.migrate.plan_report import items_of
from deltaberg.migrate.source import IcebergSource
from deltaberg.migrate.target.existing_target import iceberg_watermark
from deltaberg.translate.partitioning import field_text
from deltaberg.translate.properties import shown_properties


def inspect(source: IcebergSource) -> Inspection:
    """No data file is opened. Raises the errors of reading the metadata."""
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
    position = iceberg_watermark(metadata, snapshot)
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
                type=type_name(column.type),
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
