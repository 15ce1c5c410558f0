"""Deletion vectors and delete files as entries of the other format's metadata.

Delta: "Deletion Vectors". Iceberg: "Deletion Vectors", "Position Delete Files". Both store the same bytes for a vector;
Delta counts magic and bitmap, Iceberg the length before and the checksum behind them, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from deltaberg.delta.deletion_vector.deletion_vector import DeletionVectorDescriptor
from deltaberg.delta.log.file_actions import DELETION_VECTOR
from deltaberg.iceberg.deletes.delete_index import FILE_PATH_ID, PUFFIN
from deltaberg.iceberg.manifest.data_file import ADDED, POSITION_DELETES, data_file_schema
from deltaberg.iceberg.manifest.metrics import metric_map
from deltaberg.translate import codes
from deltaberg.translate.findings import Code

FRAME_BYTES = 8
"""The bytes that Iceberg's ``content_size_in_bytes`` counts beyond Delta's ``sizeInBytes``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRule:
    """One row of docs/deletes.md. target: the table that it becomes part of; code: the finding in the plan."""

    source: str
    target: str
    becomes: str
    code: Code


DELETE_RULES: Final[tuple[DeleteRule, ...]] = (
    DeleteRule(
        source="Delta deletion vector",
        target="Iceberg version 3",
        becomes="a deletion vector in a Puffin file, its bytes copied",
        code=codes.DELETION_VECTORS,
    ),
    DeleteRule(
        source="Delta deletion vector",
        target="Iceberg version 2",
        becomes="position delete files",
        code=codes.DELETION_VECTORS_TO_POSITIONS,
    ),
    DeleteRule(
        source="Delta deletion vector", target="Iceberg version 1", becomes="refused", code=codes.DELETES_NEED_VERSION_2
    ),
    DeleteRule(
        source="Iceberg deletion vector",
        target="Delta",
        becomes="a deletion vector in a `.bin` file, its bytes copied",
        code=codes.DELETION_VECTORS,
    ),
    DeleteRule(
        source="Iceberg position deletes",
        target="Delta",
        becomes="one deletion vector for each data file, all delete files merged",
        code=codes.POSITION_DELETES,
    ),
    DeleteRule(
        source="Iceberg equality deletes",
        target="Delta",
        becomes="deletion vectors, found by reading the key columns",
        code=codes.EQUALITY_DELETES,
    ),
    DeleteRule(
        source="Iceberg equality deletes on a field of a struct that may be null",
        target="Delta",
        becomes="the same, by the specification: a null struct has null fields, which a key of null deletes (Spark keeps such rows)",
        code=codes.EQUALITY_DELETES_NESTED,
    ),
    DeleteRule(
        source="Iceberg deletes of positions after the end of the file",
        target="Delta",
        becomes="left out: they delete nothing",
        code=codes.POSITION_DELETES,
    ),
    DeleteRule(
        source="Delta deletion vector of more rows than the file has",
        target="Iceberg",
        becomes="refused",
        code=codes.VECTOR_EXCEEDS_FILE,
    ),
)


def descriptor_column(
    descriptors: Sequence[DeletionVectorDescriptor], rows: Sequence[int], length: int
) -> pa.StructArray:
    """ADD_SCHEMA's ``deletion_vector`` of a batch of ``length`` files, of which those in ``rows`` have a vector."""
    place = np.full(length, -1, dtype=np.int64)
    place[np.asarray(rows, dtype=np.int64)] = np.arange(len(rows))
    values = pa.array(
        [
            {
                "storage_type": each.storage_type,
                "path_or_inline_dv": each.path_or_inline_dv,
                "offset": each.offset,
                "size_in_bytes": each.size_in_bytes,
                "cardinality": each.cardinality,
            }
            for each in descriptors
        ],
        DELETION_VECTOR,
    )
    return values.take(pa.array(place, mask=place < 0))


def vector_entries(
    *,
    data_files: pa.Array,
    partition: pa.StructArray,
    spec_id: int,
    locations: pa.Array,
    offsets: pa.Array,
    lengths: pa.Array,
    cardinalities: pa.Array,
    file_sizes: pa.Array,
) -> pa.RecordBatch:
    """Delete entries for deletion vectors in Puffin files, one a data file, each with its data file's partition."""
    rows = len(data_files)
    columns = {
        **_delete_columns(data_files, partition, spec_id),
        "file_path": locations,
        "file_format": pa.repeat(pa.scalar(PUFFIN), rows),
        "record_count": cardinalities,
        "file_size_in_bytes": file_sizes,
        "content_offset": offsets,
        "content_size_in_bytes": lengths,
    }
    return _entries(columns, partition, rows)


def position_delete_entries(
    *,
    data_files: pa.Array,
    partition: pa.StructArray,
    spec_id: int,
    locations: pa.Array,
    record_counts: pa.Array,
    file_sizes: pa.Array,
) -> pa.RecordBatch:
    """Delete entries for Parquet position delete files that each name one data file."""
    paths = data_files.cast(pa.binary())
    columns = {
        **_delete_columns(data_files, partition, spec_id),
        "file_path": locations,
        "file_format": pa.repeat(pa.scalar("parquet"), len(data_files)),
        "record_count": record_counts,
        "file_size_in_bytes": file_sizes,
        "lower_bounds": metric_map({FILE_PATH_ID: paths}),
        "upper_bounds": metric_map({FILE_PATH_ID: paths}),
    }
    return _entries(columns, partition, len(data_files))


def _delete_columns(data_files: pa.Array, partition: pa.StructArray, spec_id: int) -> dict[str, pa.Array]:
    rows = len(data_files)
    return {
        "status": pa.repeat(pa.scalar(ADDED, pa.int32()), rows),
        "content": pa.repeat(pa.scalar(POSITION_DELETES, pa.int32()), rows),
        "spec_id": pa.repeat(pa.scalar(spec_id, pa.int32()), rows),
        "partition": partition,
        "referenced_data_file": data_files,
    }


def _entries(columns: dict[str, pa.Array], partition: pa.StructArray, rows: int) -> pa.RecordBatch:
    schema = data_file_schema(partition.type)
    arrays = [columns[field.name] if field.name in columns else pa.nulls(rows, field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
