"""The description of a Delta table, from its log alone."""

from __future__ import annotations

import json

import pyarrow.compute as pc

from deltaberg.delta.log.add_path import location_array
from deltaberg.delta.schema.types import ArrayType, DeltaType, MapType, StructType, type_name
from deltaberg.migrate.files.outside_files import (
    count_files,
    count_sidecars,
    count_vector_files,
    outside_findings,
    outside_of,
)
from deltaberg.migrate.inspection import ColumnDescription, Inspection
from deltaberg.migrate.plan_report import items_of
from deltaberg.migrate.source import DeltaSource
from deltaberg.migrate.target.existing_target import delta_watermark
from deltaberg.translate.properties import shown_properties


def inspect(source: DeltaSource) -> Inspection:
    """No data file is opened. Raises the errors of reading the log."""
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
    position = delta_watermark(snapshot)
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
                type=_type_text(column.type),
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


def _type_text(kind: DeltaType) -> str:
    match kind:
        case StructType(fields=fields):
            return f"struct<{', '.join(f'{each.name}: {_type_text(each.type)}' for each in fields)}>"
        case ArrayType(element_type=element):
            return f"array<{_type_text(element)}>"
        case MapType(key_type=key, value_type=value):
            return f"map<{_type_text(key)}, {_type_text(value)}>"
        case _:
            return type_name(kind)
