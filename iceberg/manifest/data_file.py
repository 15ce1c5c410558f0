"""The entries of a manifest as Arrow: the form of "files" in every part of the package (Data File Fields).

A batch has the fields of ``manifest_entry`` and ``data_file`` side by side, everything inherited from the manifest
list already resolved. It always belongs to one manifest, hence to one partition spec: ``spec_id`` is constant and
``partition`` is typed by that spec.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

EXISTING: Final = 0
ADDED: Final = 1
DELETED: Final = 2
"""Values of ``status``."""

DATA: Final = 0
POSITION_DELETES: Final = 1
EQUALITY_DELETES: Final = 2
"""Values of ``content``."""

COUNT_MAP: Final = pa.map_(pa.int32(), pa.int64())
"""Field id to a count or a size in bytes."""

BOUND_MAP: Final = pa.map_(pa.int32(), pa.binary())
"""Field id to a bound in the binary single-value form (Appendix D)."""


def data_file_schema(partition: pa.StructType) -> pa.Schema:
    """The schema of a batch whose spec has the partition type ``partition`` (one field per partition field)."""
    return pa.schema(
        [
            pa.field("status", pa.int32(), nullable=False),
            pa.field("snapshot_id", pa.int64()),
            pa.field("sequence_number", pa.int64()),
            pa.field("file_sequence_number", pa.int64()),
            pa.field("content", pa.int32(), nullable=False),
            pa.field("file_path", pa.string(), nullable=False),
            pa.field("file_format", pa.string(), nullable=False),
            pa.field("spec_id", pa.int32(), nullable=False),
            pa.field("partition", partition, nullable=False),
            pa.field("record_count", pa.int64(), nullable=False),
            pa.field("file_size_in_bytes", pa.int64(), nullable=False),
            pa.field("column_sizes", COUNT_MAP),
            pa.field("value_counts", COUNT_MAP),
            pa.field("null_value_counts", COUNT_MAP),
            pa.field("nan_value_counts", COUNT_MAP),
            pa.field("lower_bounds", BOUND_MAP),
            pa.field("upper_bounds", BOUND_MAP),
            pa.field("key_metadata", pa.binary()),
            pa.field("split_offsets", pa.list_(pa.field("element", pa.int64(), nullable=False))),
            pa.field("equality_ids", pa.list_(pa.field("element", pa.int32(), nullable=False))),
            pa.field("sort_order_id", pa.int32()),
            pa.field("first_row_id", pa.int64()),
            pa.field("referenced_data_file", pa.string()),
            pa.field("content_offset", pa.int64()),
            pa.field("content_size_in_bytes", pa.int64()),
        ]
    )


DATA_FILE_SCHEMA: Final = data_file_schema(pa.struct([]))
"""The schema of a batch of an unpartitioned spec; with another spec only ``partition`` differs."""
