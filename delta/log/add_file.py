"""The live files of a snapshot as Arrow rows: ``add`` actions with typed statistics. PROTOCOL "Add File"."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.delta.log.actions import Metadata
from deltaberg.delta.log.file_actions import DELETION_VECTOR, STRING_MAP
from deltaberg.delta.schema.column_mapping import ColumnMapping
from deltaberg.delta.stats.stats import parse_stats, stats_from_struct, stats_type

_TAIL = (
    pa.field("deletion_vector", DELETION_VECTOR),
    pa.field("base_row_id", pa.int64()),
    pa.field("default_row_commit_version", pa.int64()),
    pa.field("clustering_provider", pa.string()),
    pa.field("tags", STRING_MAP),
)


def add_schema(partition_values: pa.StructType, stats: pa.StructType) -> pa.Schema:
    """ADD_SCHEMA of a table.

    ``path`` is as logged (a URI, relative or absolute); ``partition_values`` are the logged texts, null for the empty
    one, named physically; ``stats`` is null where the log has none; sizes are bytes, times milliseconds since 1970.
    """
    return pa.schema(
        [
            pa.field("path", pa.string(), nullable=False),
            pa.field("partition_values", partition_values),
            pa.field("size", pa.int64(), nullable=False),
            pa.field("modification_time", pa.int64()),
            pa.field("data_change", pa.bool_()),
            pa.field("stats", stats),
            *_TAIL,
        ]
    )


def partition_values_type(metadata: Metadata, mapping: ColumnMapping) -> pa.StructType:
    """The struct of raw partition values: one string per partition column, by physical name, in the table's order."""
    return pa.struct(
        [
            pa.field(mapping.physical_name(metadata.schema.field(name)), pa.string())
            for name in metadata.partition_columns
        ]
    )


def table_add_schema(metadata: Metadata, mapping: ColumnMapping) -> pa.Schema:
    """ADD_SCHEMA of a table with that metadata and mapping."""
    partitions = partition_values_type(metadata, mapping)
    return add_schema(partitions, stats_type(mapping.physical_schema, exclude=frozenset(partitions.names)))


def add_rows_with_stats(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """A batch of ADD_SCHEMA from rows of ``file_actions.add_rows``, whose statistics it parses."""
    stats = _stats(rows, schema.field("stats").type)
    columns = []
    for field in schema:
        if field.name == "stats":
            columns.append(stats)
        elif field.name == "partition_values":
            columns.append(_ordered(rows.column("partition_values"), field.type))
        else:
            columns.append(rows.column(field.name))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _stats(rows: pa.RecordBatch, target: pa.StructType) -> pa.Array:
    texts = rows.column("stats")
    if "stats_parsed" not in rows.schema.names:
        return parse_stats(texts, target)
    stats = stats_from_struct(rows.column("stats_parsed"), target)
    if stats.null_count == 0 or texts.null_count == len(texts):
        return stats
    return pc.if_else(pc.is_valid(stats), stats, parse_stats(texts, target))


def _ordered(partition_values: pa.StructArray, target: pa.StructType) -> pa.Array:
    if partition_values.type == target:
        return partition_values
    found = partition_values.type
    columns = [pc.struct_field(partition_values, [found.get_field_index(name)]) for name in target.names]
    return pa.StructArray.from_arrays(columns, fields=list(target))
