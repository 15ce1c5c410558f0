"""Live files, batch by batch: ``add`` actions (ADD_SCHEMA) and data files (DATA_FILE_SCHEMA) into each other.

Delta: "Add File". Iceberg: "Data File Fields". Values that need a storage (locations) or a decision (partition values,
deletion vectors) are passed as arrays aligned with the batch.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.datafile.parquet.parquet_writer import WrittenFiles
from deltaberg.delta.log.file_actions import DELETION_VECTOR, STRING_MAP
from deltaberg.iceberg.manifest.data_file import ADDED, DATA, data_file_schema
from deltaberg.iceberg.schema import types as ice
from deltaberg.translate.schema import LeafPair
from deltaberg.translate.statistics import (
    delta_to_iceberg_metrics,
    iceberg_to_delta_stats,
    written_to_iceberg_metrics,
)

_TOP_FOLDER = re.compile(r"/|[A-Za-z][A-Za-z0-9+.\-]*://[^/]*/")
_URI_SAFE = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~!$&'()*+,;=:@/")


def delta_to_iceberg_files(
    adds: pa.RecordBatch,
    *,
    locations: pa.Array,
    record_counts: pa.Array,
    partition: pa.StructArray,
    leaves: Iterable[LeafPair],
    spec_id: int,
    lineage: pa.Array | None = None,
) -> pa.RecordBatch:
    """Data files of status ADDED.

    locations: where the files are. record_counts: physical rows. partition: the typed tuple of every file.
    lineage: for which files row ids and commit versions are carried (bool); None carries none.
    """
    rows = adds.num_rows
    metrics = delta_to_iceberg_metrics(adds.column("stats"), leaves, record_counts=record_counts)
    no_long = pa.nulls(rows, pa.int64())
    first_row_id = sequence_number = no_long
    if lineage is not None:
        first_row_id = pc.if_else(lineage, adds.column("base_row_id"), pa.scalar(None, pa.int64()))
        sequence_number = pc.if_else(lineage, adds.column("default_row_commit_version"), pa.scalar(None, pa.int64()))
    columns = {
        "status": pa.repeat(pa.scalar(ADDED, pa.int32()), rows),
        "sequence_number": sequence_number,
        "content": pa.repeat(pa.scalar(DATA, pa.int32()), rows),
        "file_path": locations,
        "file_format": pa.repeat(pa.scalar("parquet"), rows),
        "spec_id": pa.repeat(pa.scalar(spec_id, pa.int32()), rows),
        "partition": partition,
        "record_count": record_counts,
        "file_size_in_bytes": adds.column("size"),
        "value_counts": metrics.value_counts,
        "null_value_counts": metrics.null_value_counts,
        "lower_bounds": metrics.lower_bounds,
        "upper_bounds": metrics.upper_bounds,
        "first_row_id": first_row_id,
    }
    return _batch(columns, data_file_schema(partition.type), rows)


def written_to_iceberg_files(
    written: WrittenFiles, types: Mapping[int, ice.Type], *, partition: pa.StructArray, spec_id: int
) -> pa.RecordBatch:
    """Data files of status ADDED for files that deltaberg wrote. types: of the leaves, by field id."""
    rows = written.files.num_rows
    metrics = written_to_iceberg_metrics(written, types)
    columns = {
        "status": pa.repeat(pa.scalar(ADDED, pa.int32()), rows),
        "content": pa.repeat(pa.scalar(DATA, pa.int32()), rows),
        "file_path": written.files.column("location"),
        "file_format": pa.repeat(pa.scalar("parquet"), rows),
        "spec_id": pa.repeat(pa.scalar(spec_id, pa.int32()), rows),
        "partition": partition,
        "record_count": written.files.column("record_count"),
        "file_size_in_bytes": written.files.column("file_size_in_bytes"),
        "value_counts": metrics.value_counts,
        "null_value_counts": metrics.null_value_counts,
        "nan_value_counts": metrics.nan_value_counts,
        "lower_bounds": metrics.lower_bounds,
        "upper_bounds": metrics.upper_bounds,
        "split_offsets": written.files.column("split_offsets"),
    }
    schema = data_file_schema(partition.type)
    cast = {name: array.cast(schema.field(name).type) for name, array in columns.items()}
    return _batch(cast, schema, rows)


def iceberg_to_delta_adds(
    files: pa.RecordBatch,
    *,
    paths: pa.Array,
    partition_values: pa.StructArray,
    modification_times: pa.Array,
    leaves: Iterable[LeafPair],
    deletion_vectors: pa.StructArray | None = None,
    lineage: bool = False,
) -> pa.RecordBatch:
    """``add`` actions.

    paths: as logged (``encode_paths``). partition_values: texts by physical name. modification_times: milliseconds.
    deletion_vectors: ADD_SCHEMA's structs, null for files without deletes. lineage: whether row ids are carried.
    """
    rows = files.num_rows
    stats = iceberg_to_delta_stats(files, leaves)
    no_long = pa.nulls(rows, pa.int64())
    columns = {
        "path": paths,
        "partition_values": partition_values,
        "size": files.column("file_size_in_bytes"),
        "modification_time": modification_times,
        "data_change": pa.repeat(pa.scalar(True), rows),
        "stats": stats,
        "deletion_vector": deletion_vectors if deletion_vectors is not None else pa.nulls(rows, DELETION_VECTOR),
        "base_row_id": files.column("first_row_id") if lineage else no_long,
        "default_row_commit_version": files.column("sequence_number") if lineage else no_long,
        "clustering_provider": pa.nulls(rows, pa.string()),
        "tags": pa.nulls(rows, STRING_MAP),
    }
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def encode_paths(locations: pa.Array, table_root: str) -> pa.Array:
    """``add.path`` of locations: relative to the table's folder where they are on the same disk or in the same bucket,
    else absolute; URI-encoded.

    A file outside the folder is reached by ``../``. Spark spells an absolute path differently when it removes the file
    (``/a`` becomes ``file:///a``), readers that compare spellings then still see it; its writer of deletion vectors
    fails on absolute paths; and DuckDB takes those with a scheme for relative ones. ``../`` is read and written by all
    of them.
    """
    folder = table_root if table_root.endswith("/") else f"{table_root}/"
    top = top_folder(folder)
    relative, below, up = locations, pc.starts_with(locations, folder), ""
    inside = below
    while True:
        relative = pc.if_else(inside, _prefixed(up, pc.utf8_slice_codeunits(locations, len(folder))), relative)
        if folder == top or pc.all(below, min_count=0).as_py():
            break
        folder, up = f"{folder[:-1].rpartition('/')[0]}/", f"{up}../"
        inside = pc.and_(pc.invert(below), pc.starts_with(locations, folder))
        below = pc.or_(below, inside)
    return _protect_colon(encode_uri(relative), below)


def top_folder(folder: str) -> str:
    """``/`` of a disk, ``s3://bucket/`` of a store: what no ``../`` leaves (RFC 3986 section 5.2.4)."""
    found = _TOP_FOLDER.match(folder)
    return found.group() if found else folder


def _prefixed(prefix: str, texts: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(pa.scalar(prefix), texts, "") if prefix else texts


def encode_uri(texts: pa.Array) -> pa.Array:
    """Percent-encoding of everything that a URI's path may not hold; non-ASCII letters stay, as Spark leaves them.

    ``%`` itself is encoded, so decoding always gives the text back.
    """
    result = texts
    for char in sorted(_special_characters(texts), key=lambda each: each != "%"):
        result = pc.replace_substring(result, char, f"%{ord(char):02X}")
    return result


def _special_characters(texts: pa.Array) -> set[str]:
    """The distinct ASCII characters of all texts that a URI's path may not hold."""
    if not len(texts):
        return set()
    data = np.frombuffer(b"".join(buffer for buffer in texts.buffers()[2:] if buffer is not None), np.uint8)
    present = np.flatnonzero(np.bincount(data, minlength=256)[:128])
    return {chr(code) for code in present} - _URI_SAFE


def _protect_colon(paths: pa.Array, relative: pa.Array) -> pa.Array:
    """A relative path whose first segment holds a colon would be read as a scheme."""
    risky = pc.and_(relative, pc.match_substring_regex(paths, r"^[^/]*:"))
    return pc.if_else(risky, pc.replace_substring(paths, ":", "%3A"), paths)


def _batch(columns: dict[str, pa.Array], schema: pa.Schema, rows: int) -> pa.RecordBatch:
    arrays = [columns[field.name] if field.name in columns else pa.nulls(rows, field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
