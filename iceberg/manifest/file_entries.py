"""Bringing batches of file entries into the exact form of ``data_file_schema`` and checking them against a version's
rules.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.iceberg.errors import InvalidIcebergRequest
from deltaberg.iceberg.manifest.data_file import (
    ADDED,
    DATA,
    EQUALITY_DELETES,
    EXISTING,
    POSITION_DELETES,
    data_file_schema,
)
from deltaberg.iceberg.metadata.location import with_file_scheme
from deltaberg.iceberg.partition.partition_spec import PartitionSpec

_FORMATS = pa.array(["avro", "orc", "parquet", "puffin"])
_IDENTITY = pa.schema(
    [
        ("content", pa.int32()),
        ("file_path", pa.string()),
        ("spec_id", pa.int32()),
        ("sequence_number", pa.int64()),
        ("file_sequence_number", pa.int64()),
        ("content_offset", pa.int64()),
    ]
)
_DELETES_SINCE = 2
_VECTORS_SINCE = 3
_SCHEMES_SINCE = 4


def conformed(batch: pa.RecordBatch, spec: PartitionSpec, partition: pa.StructType) -> pa.RecordBatch:
    """The batch with every column of ``data_file_schema``: optional ones that are missing are null, ``status`` is added,
    ``content`` data, ``spec_id`` the spec's. Partition fields are matched by name.

    Raises InvalidIcebergRequest for a missing required column or one of another type.
    """
    schema = data_file_schema(partition)
    arrays = []
    for field in schema:
        at = batch.schema.get_field_index(field.name)
        if at >= 0:
            values = batch.column(at)
        elif field.name == "status":
            values = pa.repeat(pa.scalar(ADDED, pa.int32()), batch.num_rows)
        elif field.name == "content":
            values = pa.repeat(pa.scalar(DATA, pa.int32()), batch.num_rows)
        elif field.name == "spec_id":
            values = pa.repeat(pa.scalar(spec.spec_id, pa.int32()), batch.num_rows)
        elif field.name == "partition" and partition.num_fields == 0:
            values = pa.array([{}] * batch.num_rows, partition)
        elif field.nullable:
            values = pa.nulls(batch.num_rows, field.type)
        else:
            raise InvalidIcebergRequest(f"Cannot add files: the entries have no column {field.name}")
        if field.name == "partition":
            values = _partition(values, partition)
        if not field.nullable and values.null_count:
            raise InvalidIcebergRequest(f"Cannot add files: an entry has no {field.name}")
        arrays.append(_cast(values, field))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _cast(values: pa.Array, field: pa.Field) -> pa.Array:
    if values.type == field.type:
        return values
    try:
        return values.cast(field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidIcebergRequest(
            f"Cannot add files: column {field.name} is of type {values.type} (expected {field.type})"
        ) from error


def _partition(values: pa.Array, wanted: pa.StructType) -> pa.Array:
    if values.type == wanted:
        return values
    names = [field.name for field in wanted]
    if not pa.types.is_struct(values.type) or sorted(field.name for field in values.type) != sorted(names):
        raise InvalidIcebergRequest(
            f"Cannot add files: partition values are {values.type} (expected fields {', '.join(names) or 'none'})"
        )
    arrays = [_cast(pc.struct_field(values, field.name), field) for field in wanted]
    if not arrays:
        return pa.array([{}] * len(values), wanted)
    return pa.StructArray.from_arrays(arrays, fields=list(wanted), mask=values.is_null() if values.null_count else None)


def check_added(batch: pa.RecordBatch, format_version: int) -> None:
    """Raise InvalidIcebergRequest for files that a table of this version may not get.

    Delete files need version 2, deletion vectors version 3, and version 3 takes no new position delete files.
    """
    formats = batch.column("file_format")
    content = batch.column("content")
    unknown = pc.invert(pc.is_in(formats, _FORMATS))
    if _any(unknown):
        found = formats.filter(unknown)[0].as_py()
        raise InvalidIcebergRequest(f"Cannot add a file of format {found!r}: expected avro, orc, parquet or puffin")
    if _any(pc.or_(pc.less(content, DATA), pc.greater(content, EQUALITY_DELETES))):
        raise InvalidIcebergRequest("Cannot add a file: its content is not 0 (data), 1 or 2 (deletes)")
    if _any(pc.or_(pc.less(batch.column("record_count"), 0), pc.less(batch.column("file_size_in_bytes"), 0))):
        raise InvalidIcebergRequest("Cannot add a file: its record count or size is negative")
    puffin = pc.equal(formats, "puffin")
    positions = pc.equal(content, POSITION_DELETES)
    if _any(pc.and_not(puffin, positions)):
        raise InvalidIcebergRequest("Cannot add a puffin file as data: it can only hold deletion vectors")
    if not _any(pc.not_equal(content, DATA)):
        return
    if format_version < _DELETES_SINCE:
        raise InvalidIcebergRequest("Cannot add delete files to a version 1 table: they need format version 2")
    if _any(puffin):
        if format_version < _VECTORS_SINCE:
            raise InvalidIcebergRequest(
                f"Cannot add deletion vectors to a version {format_version} table: they need format version 3"
            )
        for name in ("referenced_data_file", "content_offset", "content_size_in_bytes"):
            if _any(pc.and_(puffin, pc.is_null(batch.column(name)))):
                raise InvalidIcebergRequest(f"Cannot add a deletion vector: its {name} is missing")
    if format_version >= _VECTORS_SINCE and _any(pc.and_not(positions, puffin)):
        raise InvalidIcebergRequest(
            f"Cannot add position delete files to a version {format_version} table: version 3 replaced them by "
            "deletion vectors"
        )
    equality = pc.equal(content, EQUALITY_DELETES)
    if _any(pc.and_(equality, pc.is_null(batch.column("equality_ids")))):
        raise InvalidIcebergRequest("Cannot add an equality delete file: its equality_ids are missing")


def with_schemes(batch: pa.RecordBatch, format_version: int) -> pa.RecordBatch:
    """The batch with local paths as version 4 needs them: a location without scheme would be a relative one."""
    if format_version < _SCHEMES_SINCE:
        return batch
    names = [name for name in ("file_path", "referenced_data_file") if batch.schema.get_field_index(name) >= 0]
    return with_columns(batch, {name: with_file_scheme(batch.column(name)) for name in names})


def identified(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The columns that say which files a batch means; optional ones that are missing are null."""
    if batch.schema.get_field_index("file_path") < 0:
        raise InvalidIcebergRequest("Cannot delete files: the entries have no column file_path")
    arrays = []
    for field in _IDENTITY:
        at = batch.schema.get_field_index(field.name)
        if at >= 0:
            arrays.append(_cast(batch.column(at), field))
        elif field.name == "content":
            arrays.append(pa.repeat(pa.scalar(DATA, pa.int32()), batch.num_rows))
        else:
            arrays.append(pa.nulls(batch.num_rows, field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=_IDENTITY)


def file_keys(batch: pa.RecordBatch) -> pa.Array:
    """The identity of each file of a batch: its path, with the blob's offset for a deletion vector."""
    paths, offsets = batch.column("file_path"), batch.column("content_offset")
    if offsets.null_count == batch.num_rows:
        return paths
    marked = pc.binary_join_element_wise(paths, offsets.cast(pa.string()), "\0")
    return pc.coalesce(marked, paths)


def with_columns(batch: pa.RecordBatch, columns: dict[str, pa.Array]) -> pa.RecordBatch:
    """The batch with some columns replaced."""
    arrays = [columns.get(field.name, batch.column(at)) for at, field in enumerate(batch.schema)]
    return pa.RecordBatch.from_arrays(arrays, schema=batch.schema)


def as_status(batch: pa.RecordBatch, status: int) -> pa.RecordBatch:
    """The batch with one status for every entry."""
    return with_columns(batch, {"status": pa.repeat(pa.scalar(status, pa.int32()), batch.num_rows)})


def unassigned_rows(batch: pa.RecordBatch) -> int:
    """How many rows of live data files have no row ids yet."""
    live = pc.and_(
        pc.is_in(batch.column("status"), pa.array([EXISTING, ADDED], pa.int32())),
        batch.column("first_row_id").is_null(),
    )
    return int(pc.sum(batch.column("record_count").filter(live), min_count=0).as_py())


def row_id_end(batch: pa.RecordBatch) -> int:
    """One more than the highest row id that the entries state; 0 when they state none."""
    ends = pc.max(pc.add(batch.column("first_row_id"), batch.column("record_count"))).as_py()
    return 0 if ends is None else int(ends)


def _any(mask: pa.Array) -> bool:
    return bool(pc.any(mask, min_count=0).as_py())
