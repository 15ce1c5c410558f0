"""The columns of a checkpoint (protocol, Checkpoints and Checkpoint Schema), made from batches of file actions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.delta.log.file_actions import STRING_MAP
from deltaberg.delta.stats.json_columns import PLAIN
from deltaberg.delta.stats.stats_json import stats_text

DELETION_VECTOR = pa.struct(
    [
        ("storageType", pa.string()),
        ("pathOrInlineDv", pa.string()),
        ("offset", pa.int32()),
        ("sizeInBytes", pa.int32()),
        ("cardinality", pa.int64()),
    ]
)
REMOVE = pa.struct(
    [
        ("path", pa.string()),
        ("deletionTimestamp", pa.int64()),
        ("dataChange", pa.bool_()),
        ("extendedFileMetadata", pa.bool_()),
        ("partitionValues", STRING_MAP),
        ("size", pa.int64()),
        ("deletionVector", DELETION_VECTOR),
        ("baseRowId", pa.int64()),
        ("defaultRowCommitVersion", pa.int64()),
    ]
)
SIDECAR = pa.struct(
    [("path", pa.string()), ("sizeInBytes", pa.int64()), ("modificationTime", pa.int64()), ("tags", STRING_MAP)]
)
SMALL_ACTIONS: Mapping[str, pa.DataType] = {
    "txn": pa.struct([("appId", pa.string()), ("version", pa.int64()), ("lastUpdated", pa.int64())]),
    "metaData": pa.struct(
        [
            ("id", pa.string()),
            ("name", pa.string()),
            ("description", pa.string()),
            ("format", pa.struct([("provider", pa.string()), ("options", STRING_MAP)])),
            ("schemaString", pa.string()),
            ("partitionColumns", pa.list_(pa.string())),
            ("createdTime", pa.int64()),
            ("configuration", STRING_MAP),
        ]
    ),
    "protocol": pa.struct(
        [
            ("minReaderVersion", pa.int32()),
            ("minWriterVersion", pa.int32()),
            ("readerFeatures", pa.list_(pa.string())),
            ("writerFeatures", pa.list_(pa.string())),
        ]
    ),
    "domainMetadata": pa.struct([("domain", pa.string()), ("configuration", pa.string()), ("removed", pa.bool_())]),
    "checkpointMetadata": pa.struct([("version", pa.int64()), ("tags", STRING_MAP)]),
    "sidecar": SIDECAR,
}
"""Every action but ``add`` and ``remove``, as the column that holds it."""

_STATS_MEMBERS = {
    "numRecords": "num_records",
    "minValues": "min_values",
    "maxValues": "max_values",
    "nullCount": "null_count",
    "tightBounds": "tight_bounds",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AddColumn:
    """How the ``add`` column of one checkpoint is laid out.

    ``stats_as_json`` and ``stats_as_struct`` follow the table properties of nearly the same names; ``partition_types``
    maps physical partition columns to their types and serves ``partitionValues_parsed``.
    """

    stats_as_json: bool
    stats_as_struct: bool
    partition_types: Mapping[str, pa.DataType]
    bounds: pa.StructType
    null_counts: pa.StructType

    @property
    def type(self) -> pa.StructType:
        fields = [
            pa.field("path", pa.string()),
            pa.field("partitionValues", STRING_MAP),
            pa.field("size", pa.int64()),
            pa.field("modificationTime", pa.int64()),
            pa.field("dataChange", pa.bool_()),
            pa.field("tags", STRING_MAP),
            pa.field("deletionVector", DELETION_VECTOR),
            pa.field("baseRowId", pa.int64()),
            pa.field("defaultRowCommitVersion", pa.int64()),
            pa.field("clusteringProvider", pa.string()),
        ]
        if self.stats_as_json:
            fields.append(pa.field("stats", pa.string()))
        if self.stats_as_struct:
            fields.append(pa.field("stats_parsed", self._stats_type()))
            if self.partition_types:
                fields.append(pa.field("partitionValues_parsed", pa.struct(list(self.partition_types.items()))))
        return pa.struct(fields)

    def _stats_type(self) -> pa.StructType:
        fields = [pa.field("numRecords", pa.int64())]
        for name, kind in (
            ("minValues", writable(self.bounds)),
            ("maxValues", writable(self.bounds)),
            ("nullCount", writable(self.null_counts)),
        ):
            if kind is not None:
                fields.append(pa.field(name, kind))
        fields.append(pa.field("tightBounds", pa.bool_()))
        return pa.struct(fields)

    def values(self, batch: pa.RecordBatch, partition_values: Mapping[str, pa.Array]) -> pa.Array:
        """The column for a batch of ADD_SCHEMA; ``partition_values`` are its typed partition values.

        ``dataChange`` is false throughout, as in every checkpoint of the reference implementation: the data was there.
        """
        rows = batch.num_rows
        stats = batch.column("stats")
        columns: dict[str, pa.Array] = {
            "path": batch.column("path"),
            "partitionValues": string_map(batch.column("partition_values")),
            "size": batch.column("size"),
            "modificationTime": batch.column("modification_time"),
            "dataChange": pa.repeat(pa.scalar(False), rows),
            "tags": batch.column("tags").cast(STRING_MAP),
            "deletionVector": _renamed(batch.column("deletion_vector"), DELETION_VECTOR),
            "baseRowId": batch.column("base_row_id"),
            "defaultRowCommitVersion": batch.column("default_row_commit_version"),
            "clusteringProvider": batch.column("clustering_provider"),
        }
        if self.stats_as_json:
            columns["stats"] = stats_text(stats, PLAIN).array()
        if self.stats_as_struct:
            columns["stats_parsed"] = self._stats_values(stats)
            if self.partition_types:
                columns["partitionValues_parsed"] = pa.StructArray.from_arrays(
                    [partition_values[name] for name in self.partition_types], names=list(self.partition_types)
                )
        kind = self.type
        return pa.StructArray.from_arrays([columns[field.name] for field in kind], fields=list(kind))

    def _stats_values(self, stats: pa.Array) -> pa.Array:
        kind = self._stats_type()
        children = []
        for field in kind:
            at = stats.type.get_field_index(_STATS_MEMBERS[field.name])
            children.append(as_type(None if at < 0 else pc.struct_field(stats, [at]), field.type, len(stats)))
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=pc.is_null(stats))


def remove_values(batch: pa.RecordBatch) -> pa.Array:
    """The ``remove`` column for rows of ``file_actions.remove_rows``; checkpoints keep no stats and tags of removes."""
    extended = pc.fill_null(batch.column("extended_file_metadata"), False)
    columns = [
        batch.column("path"),
        batch.column("deletion_timestamp"),
        pa.repeat(pa.scalar(False), batch.num_rows),
        extended,
        string_map(batch.column("partition_values"), mask=pc.invert(extended)),
        batch.column("size"),
        _renamed(batch.column("deletion_vector"), DELETION_VECTOR),
        batch.column("base_row_id"),
        batch.column("default_row_commit_version"),
    ]
    return pa.StructArray.from_arrays(columns, fields=list(REMOVE))


def non_file_action_values(name: str, bodies: Sequence[Mapping[str, object]]) -> pa.Array:
    """The column of one kind of non-file action, from the JSON objects that stand under its name in a commit."""
    kind = SMALL_ACTIONS[name]
    return pa.array([_shaped(body, kind) for body in bodies], kind)


def writable(kind: pa.StructType) -> pa.StructType | None:
    """A statistics type without the members that Parquet or the engines cannot hold: void, binary, and structs left
    empty.
    """
    fields = []
    for field in kind:
        if pa.types.is_struct(field.type):
            inner = writable(field.type)
            if inner is not None:
                fields.append(pa.field(field.name, inner))
        elif PLAIN.scalar(pa.nulls(0, field.type)) is not None:
            fields.append(pa.field(field.name, field.type))
    return pa.struct(fields) if fields else None


def string_map(values: pa.Array, *, mask: pa.Array | None = None) -> pa.Array:
    """A struct of string columns as ``map<string, string>``, one entry a column in their order; null where masked."""
    rows, names = len(values), [field.name for field in values.type]
    width = len(names)
    offsets = pa.array(np.arange(rows + 1, dtype=np.int32) * width)
    if not width:
        nothing = pa.array([], pa.string())
        return pa.MapArray.from_arrays(offsets, nothing, nothing, mask=mask)
    keys = pa.array(np.tile(np.arange(width, dtype=np.int32), rows))
    columns = pa.concat_arrays([pc.struct_field(values, [index]).cast(pa.string()) for index in range(width)])
    order = np.arange(rows * width, dtype=np.int64).reshape(width, rows).T.reshape(-1)
    items = columns.take(pa.array(order)) if width > 1 else columns
    return pa.MapArray.from_arrays(offsets, pa.array(names, pa.string()).take(keys), items, mask=mask)


def _shaped(value: object, kind: pa.DataType) -> object:
    """A JSON value in Arrow's form for a type: maps as pairs, structs without members that the type lacks."""
    if isinstance(value, Mapping):
        if pa.types.is_map(kind):
            return list(value.items())
        return {field.name: _shaped(value.get(field.name), field.type) for field in kind}
    return value


def _renamed(values: pa.Array, kind: pa.StructType) -> pa.Array:
    """The struct under the log's member names."""
    children = [values.field(index).cast(field.type) for index, field in enumerate(kind)]
    return pa.StructArray.from_arrays(children, fields=list(kind), mask=pc.is_null(values))


def as_type(values: pa.Array | None, kind: pa.DataType, rows: int) -> pa.Array:
    """A statistics column as ``kind``, which may be of a whole table: fields that it lacks are null, those that ``kind`` lacks are left out."""
    if values is None:
        return pa.nulls(rows, kind)
    if not pa.types.is_struct(kind):
        return values.cast(kind)
    children = [
        as_type(None if at < 0 else pc.struct_field(values, [at]), field.type, rows)
        for field, at in ((field, values.type.get_field_index(field.name)) for field in kind)
    ]
    return pa.StructArray.from_arrays(children, fields=list(kind), mask=pc.is_null(values))
