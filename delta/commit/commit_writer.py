"""The lines of a commit file (protocol, Delta Log Entries and Actions), written column-wise for file actions."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.delta.errors import DeltaError
from deltaberg.delta.log.parallel_batches import in_order
from deltaberg.delta.stats.json_columns import EMBEDDED, PLAIN, JsonText, constant, of_array
from deltaberg.delta.stats.stats_json import record_count_text, stats_text

_SLICE_BYTES = 1 << 27  # text made at once; Arrow's string columns end at 2 GiB
_SLICE_ROWS = 1 << 14
_LEAF_BYTES = 64  # a name, a number and the punctuation between them

_Members: TypeAlias = list[tuple[str, JsonText]]


def action_line(name: str, body: Mapping[str, object]) -> bytes:
    """The line of a non-file action, from the JSON object that stands under its name."""
    text = json.dumps({name: body}, separators=(",", ":"), ensure_ascii=False)
    return text.encode("utf-8", "surrogatepass") + b"\n"


def add_lines(batches: Iterable[pa.RecordBatch]) -> Iterator[memoryview]:
    """``add`` lines of batches of ADD_SCHEMA, many at a time. Raises DeltaError where a required member is null."""
    return _lines(batches, "add", _add_members)


def remove_lines(
    batches: Iterable[pa.RecordBatch], *, deletion_timestamp_ms: int, data_change: bool
) -> Iterator[memoryview]:
    """``remove`` lines for files whose live ``add`` is given as batches of ADD_SCHEMA."""
    return _lines(batches, "remove", lambda part: _remove_members(part, deletion_timestamp_ms, data_change))


def _lines(
    batches: Iterable[pa.RecordBatch], name: str, members: Callable[[pa.RecordBatch], _Members]
) -> Iterator[memoryview]:
    def text(part: pa.RecordBatch) -> memoryview:
        body = PLAIN.object(members(part), rows=part.num_rows)
        return _text_bytes(body.between("{" + PLAIN.key(name), "}\n").array())

    return in_order(text, (part for batch in batches for part in _slices(batch)))


def _add_members(batch: pa.RecordBatch) -> _Members:
    fields = [
        *_identity_members(batch),
        ("modificationTime", _required(batch, "modification_time")),
        ("dataChange", _required(batch, "data_change")),
    ]
    stats = batch.column("stats")
    if stats.null_count < len(stats):
        fields.append(("stats", stats_text(stats, EMBEDDED).between('"', '"')))
    fields.extend(_tag_member(batch))
    fields.extend(_deletion_vector_member(batch))
    fields.extend(_row_tracking_members(batch))
    provider = batch.column("clustering_provider")
    if provider.null_count < len(provider):
        fields.append(("clusteringProvider", PLAIN.string(provider)))
    return fields


def _remove_members(batch: pa.RecordBatch, deletion_timestamp_ms: int, data_change: bool) -> _Members:
    path, partition_values, size = _identity_members(batch)
    fields = [
        path,
        ("deletionTimestamp", _constant(str(deletion_timestamp_ms), batch)),
        ("dataChange", _constant("true" if data_change else "false", batch)),
        ("extendedFileMetadata", _constant("true", batch)),
        partition_values,
        size,
        ("stats", record_count_text(batch.column("stats"), EMBEDDED).between('"', '"')),
    ]
    fields.extend(_tag_member(batch))
    fields.extend(_deletion_vector_member(batch))
    fields.extend(_row_tracking_members(batch))
    return fields


def _identity_members(batch: pa.RecordBatch) -> _Members:
    values = batch.column("partition_values")
    columns = [(field.name, PLAIN.string(pc.struct_field(values, index))) for index, field in enumerate(values.type)]
    return [
        ("path", _required(batch, "path")),
        ("partitionValues", PLAIN.object(columns, rows=batch.num_rows, nulls=True)),
        ("size", _required(batch, "size")),
    ]


def _tag_member(batch: pa.RecordBatch) -> Iterator[tuple[str, JsonText]]:
    tags = batch.column("tags")
    if tags.null_count < len(tags):
        yield "tags", PLAIN.string_map(tags)


def _deletion_vector_member(batch: pa.RecordBatch) -> Iterator[tuple[str, JsonText]]:
    vectors = batch.column("deletion_vector")
    if vectors.null_count == len(vectors):
        return
    fields = []
    for name, column in (
        ("storageType", "storage_type"),
        ("pathOrInlineDv", "path_or_inline_dv"),
        ("offset", "offset"),
        ("sizeInBytes", "size_in_bytes"),
        ("cardinality", "cardinality"),
    ):
        text = PLAIN.scalar(pc.struct_field(vectors, column))
        assert text is not None
        fields.append((name, text))
    yield "deletionVector", PLAIN.object(fields, rows=len(vectors)).where(pc.is_valid(vectors))


def _row_tracking_members(batch: pa.RecordBatch) -> Iterator[tuple[str, JsonText]]:
    for name, column in (("baseRowId", "base_row_id"), ("defaultRowCommitVersion", "default_row_commit_version")):
        values = batch.column(column)
        if values.null_count < len(values):
            yield name, of_array(pc.cast(values, pa.string()))


def _required(batch: pa.RecordBatch, column: str) -> JsonText:
    values = batch.column(column)
    if values.null_count:
        row = pc.index(pc.is_null(values), True).as_py()
        path = batch.column("path")[row].as_py()
        raise DeltaError(f"Cannot write an add: {column} is null (the protocol requires it)", path=path)
    text = PLAIN.scalar(values)
    assert text is not None
    return text


def _constant(text: str, batch: pa.RecordBatch) -> JsonText:
    return constant(text, batch.num_rows)


def _slices(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Parts of a batch whose text stays far below what one Arrow string column can hold."""
    rows = batch.num_rows
    if not rows:
        return
    width = _LEAF_BYTES * _leaves(batch.schema) + 2 * batch.nbytes // rows
    step = max(1, min(_SLICE_ROWS, _SLICE_BYTES // width))
    for start in range(0, rows, step):
        yield batch.slice(start, step)


def _leaves(fields: pa.Schema | pa.StructType) -> int:
    return sum(_leaves(field.type) if pa.types.is_struct(field.type) else 1 for field in fields)


def _text_bytes(lines: pa.Array) -> memoryview:
    """The characters of a string array without nulls, one after the other."""
    _, offsets, data = lines.buffers()
    ends = memoryview(offsets).cast("i")
    return memoryview(data)[ends[lines.offset] : ends[lines.offset + len(lines)]]
