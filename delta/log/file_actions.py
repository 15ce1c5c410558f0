"""``add`` and ``remove`` actions as Arrow rows, from the columns that a JSON or Parquet reader found.

Rows of adds have the columns of ADD_SCHEMA, but ``stats`` still is the logged text, and ``stats_parsed`` follows where
a checkpoint has it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.delta.errors import CorruptLog
from deltaberg.delta.log.add_path import path_keys
from deltaberg.delta.schema.partition_values import empty_as_null, encode_partition_values
from deltaberg.delta.schema.types import primitive_type_of

STRING_MAP = pa.map_(pa.string(), pa.string())
DELETION_VECTOR = pa.struct(
    [
        ("storage_type", pa.string()),
        ("path_or_inline_dv", pa.string()),
        ("offset", pa.int32()),
        ("size_in_bytes", pa.int32()),
        ("cardinality", pa.int64()),
    ]
)
_LOGGED_DELETION_VECTOR = ("storageType", "pathOrInlineDv", "offset", "sizeInBytes", "cardinality")
_REQUIRED_OF_DELETION_VECTOR = ("storage_type", "path_or_inline_dv", "size_in_bytes", "cardinality")


def add_rows(adds: pa.StructArray, partition_names: Sequence[str], *, tags: pa.Array | None = None) -> pa.RecordBatch:
    """Rows of a column of non-null ``add`` structs.

    ``partition_names`` are physical; ``tags`` stands in for tags that were read elsewhere. Raises CorruptLog naming
    the field that is missing or of the wrong type.
    """
    columns = {
        "path": _required(adds, "add", "path", pa.string()),
        "partition_values": _partition_values(adds, "add", partition_names),
        "size": _required(adds, "add", "size", pa.int64()),
        "modification_time": _member(adds, "add", "modificationTime", pa.int64()),
        "data_change": _member(adds, "add", "dataChange", pa.bool_()),
        "stats": _member(adds, "add", "stats", pa.string()),
        "deletion_vector": _deletion_vector(adds, "add"),
        "base_row_id": _member(adds, "add", "baseRowId", pa.int64()),
        "default_row_commit_version": _member(adds, "add", "defaultRowCommitVersion", pa.int64()),
        "clustering_provider": _member(adds, "add", "clusteringProvider", pa.string()),
        "tags": _member(adds, "add", "tags", STRING_MAP) if tags is None else tags,
    }
    if pc.any(pc.less(columns["size"], 0), min_count=0).as_py():
        raise CorruptLog("Cannot read an add action: size is negative")
    if adds.type.get_field_index("stats_parsed") >= 0:
        columns["stats_parsed"] = _child(adds, "stats_parsed")
    return pa.record_batch(list(columns.values()), names=list(columns))


def remove_rows(
    removes: pa.StructArray, partition_names: Sequence[str], *, tags: pa.Array | None = None
) -> pa.RecordBatch:
    """Rows of a column of non-null ``remove`` structs; timestamps in milliseconds since 1970. Raises like ``add_rows``."""
    columns = {
        "path": _required(removes, "remove", "path", pa.string()),
        "partition_values": _partition_values(removes, "remove", partition_names),
        "size": _member(removes, "remove", "size", pa.int64()),
        "deletion_timestamp": _member(removes, "remove", "deletionTimestamp", pa.int64()),
        "data_change": _member(removes, "remove", "dataChange", pa.bool_()),
        "extended_file_metadata": _member(removes, "remove", "extendedFileMetadata", pa.bool_()),
        "deletion_vector": _deletion_vector(removes, "remove"),
        "base_row_id": _member(removes, "remove", "baseRowId", pa.int64()),
        "default_row_commit_version": _member(removes, "remove", "defaultRowCommitVersion", pa.int64()),
        "tags": _member(removes, "remove", "tags", STRING_MAP) if tags is None else tags,
    }
    return pa.record_batch(list(columns.values()), names=list(columns))


def change_file_rows(files: pa.StructArray, partition_names: Sequence[str]) -> pa.RecordBatch:
    """Rows of a column of non-null ``cdc`` structs. Raises like ``add_rows``."""
    columns = {
        "path": _required(files, "cdc", "path", pa.string()),
        "partition_values": _partition_values(files, "cdc", partition_names),
        "size": _member(files, "cdc", "size", pa.int64()),
    }
    return pa.record_batch(list(columns.values()), names=list(columns))


def vector_ids(rows: pa.RecordBatch | pa.Table) -> pa.Array | pa.ChunkedArray:
    """``deletionVector.uniqueId`` of file actions; null where there is none. PROTOCOL "Derived Fields"."""
    vectors = rows.column("deletion_vector")
    if vectors.null_count == len(vectors):
        return pa.nulls(len(vectors), pa.string())
    start = pc.binary_join_element_wise(
        pc.struct_field(vectors, "storage_type"), pc.struct_field(vectors, "path_or_inline_dv"), ""
    )
    offset = pc.struct_field(vectors, "offset")
    with_offset = pc.binary_join_element_wise(start, offset.cast(pa.string()), "@")
    return pc.if_else(pc.is_valid(offset), with_offset, start)


def file_keys(rows: pa.RecordBatch | pa.Table) -> tuple[pa.Array | pa.ChunkedArray, pa.Array | pa.ChunkedArray]:
    """The keys of files: their path in one spelling, and the logical file's key, path with deletion vector."""
    paths = rows.column("path")
    if isinstance(paths, pa.ChunkedArray):
        paths = paths.combine_chunks()
    keys = path_keys(paths)
    ids = vector_ids(rows)
    if ids.null_count == len(ids):
        return keys, keys
    # No path holds NUL.
    return keys, pc.if_else(pc.is_null(ids), keys, pc.binary_join_element_wise(keys, ids, "\0"))


def _child(struct: pa.StructArray, name: str) -> pa.Array:
    index = struct.type.get_field_index(name)
    return pc.struct_field(struct, [index]) if struct.null_count else struct.field(index)


def _member(struct: pa.StructArray, action: str, name: str, target: pa.DataType) -> pa.Array:
    if struct.type.get_field_index(name) < 0:
        return pa.nulls(len(struct), target)
    column = _child(struct, name)
    if column.type == target:
        return column
    try:
        return column.cast(target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise _wrong_kind(action, name, column.type, str(target)) from error


def _wrong_kind(action: str, name: str, found: pa.DataType, expected: str) -> CorruptLog:
    return CorruptLog(f"Cannot read the {action} actions: {name} is of type {found} (expected {expected})")


def _required(struct: pa.StructArray, action: str, name: str, target: pa.DataType) -> pa.Array:
    column = _member(struct, action, name, target)
    if column.null_count:
        raise CorruptLog(f"Cannot read an {action} action: {name} is missing")
    return column


def _deletion_vector(struct: pa.StructArray, action: str) -> pa.Array:
    index = struct.type.get_field_index("deletionVector")
    if index < 0:
        return pa.nulls(len(struct), DELETION_VECTOR)
    vectors = _child(struct, "deletionVector")
    if vectors.null_count == len(vectors):
        return pa.nulls(len(struct), DELETION_VECTOR)
    if not pa.types.is_struct(vectors.type):
        raise _wrong_kind(action, "deletionVector", vectors.type, "a struct")
    what = f"{action}.deletionVector"
    members = [
        _member(vectors, what, logged, field.type)
        for logged, field in zip(_LOGGED_DELETION_VECTOR, DELETION_VECTOR, strict=True)
    ]
    valid = pc.is_valid(vectors)
    for member, field, logged in zip(members, DELETION_VECTOR, _LOGGED_DELETION_VECTOR, strict=True):
        missing = pc.and_(valid, pc.is_null(member))
        if field.name in _REQUIRED_OF_DELETION_VECTOR and pc.any(missing, min_count=0).as_py():
            raise CorruptLog(f"Cannot read an {action} action: deletionVector.{logged} is missing")
    return pa.StructArray.from_arrays(members, fields=list(DELETION_VECTOR), mask=pc.invert(valid))


def _partition_values(struct: pa.StructArray, action: str, names: Sequence[str]) -> pa.Array:
    target = pa.struct([pa.field(name, pa.string()) for name in names])
    if not names:
        return _empty_structs(len(struct))
    if struct.type.get_field_index("partitionValues") >= 0:
        values = _child(struct, "partitionValues")
        if pa.types.is_map(values.type):
            columns = [_map_value(values, name) for name in names]
        elif pa.types.is_struct(values.type):
            columns = [_member(values, f"{action}.partitionValues", name, pa.string()) for name in names]
        else:
            raise _wrong_kind(action, "partitionValues", values.type, "a map")
    elif struct.type.get_field_index("partitionValues_parsed") >= 0:
        columns = [_text_of_parsed(_child(struct, "partitionValues_parsed"), action, name) for name in names]
    else:
        columns = [pa.nulls(len(struct), pa.string()) for _ in names]
    return pa.StructArray.from_arrays([empty_as_null(column) for column in columns], fields=list(target))


def _text_of_parsed(parsed: pa.Array, action: str, name: str) -> pa.Array:
    """Typed partition values as the texts that the log would have; only for checkpoints that left those out."""
    what = f"partitionValues_parsed.{name}"
    if not pa.types.is_struct(parsed.type):
        raise _wrong_kind(action, "partitionValues_parsed", parsed.type, "a struct")
    if parsed.type.get_field_index(name) < 0:
        return pa.nulls(len(parsed), pa.string())
    values = _child(parsed, name)
    delta_type = primitive_type_of(values.type)
    if delta_type is None:
        raise _wrong_kind(action, what, values.type, "a primitive type")
    return encode_partition_values(values, delta_type, column=name)


def _empty_structs(length: int) -> pa.Array:
    return pa.array([{}], pa.struct([])).take(pa.array(np.zeros(length, dtype=np.int64)))


def _map_value(maps: pa.MapArray, name: str) -> pa.Array:
    """The value under a key in each map; null where it is absent, the last one where it occurs twice."""
    offsets = maps.offsets.to_numpy()
    start, end = int(offsets[0]), int(offsets[-1])
    matches = pc.equal(maps.keys.slice(start, end - start).cast(pa.string()), name)
    items = maps.items.slice(start, end - start).cast(pa.string())
    if end - start == len(maps) and pc.all(matches, min_count=0).as_py() and not np.any(np.diff(offsets) != 1):
        return items
    positions = np.flatnonzero(matches.fill_null(False).to_numpy(zero_copy_only=False))
    rows = np.searchsorted(offsets - start, positions, side="right") - 1
    chosen = np.full(len(maps), -1, dtype=np.int64)
    chosen[rows] = positions
    return items.take(pa.array(chosen, mask=chosen < 0))
