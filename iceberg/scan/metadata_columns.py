"""Columns that describe a row instead of belonging to it (section "Reserved Field IDs")."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from deltaberg.iceberg.metadata.table_metadata import TableMetadata
from deltaberg.iceberg.partition.partition_struct import PartitionStruct
from deltaberg.iceberg.scan.scan_task import DataFileTask
from deltaberg.iceberg.schema.types import NestedField
from deltaberg.iceberg.snapshot_write.row_lineage import (
    LAST_UPDATED_SEQUENCE_NUMBER,
    LINEAGE_FIELDS,
    ROW_ID,
    last_updated_sequence_numbers,
    row_ids,
)

FILE = "_file"
POSITION = "_pos"
DELETED = "_deleted"
SPEC_ID = "_spec_id"
PARTITION = "_partition"
_TYPES = {
    FILE: pa.field(FILE, pa.string(), nullable=False),
    POSITION: pa.field(POSITION, pa.int64(), nullable=False),
    DELETED: pa.field(DELETED, pa.bool_(), nullable=False),
    SPEC_ID: pa.field(SPEC_ID, pa.int32(), nullable=False),
    ROW_ID.name: pa.field(ROW_ID.name, pa.int64()),
    LAST_UPDATED_SEQUENCE_NUMBER.name: pa.field(LAST_UPDATED_SEQUENCE_NUMBER.name, pa.int64()),
}
METADATA_COLUMNS = (*_TYPES, PARTITION)
"""The names that a scan can be asked for."""


def metadata_column_field(metadata: TableMetadata, name: str) -> pa.Field:
    """The Arrow field of a metadata column; ``_partition`` has the partition fields of all specs."""
    if name == PARTITION:
        return pa.field(PARTITION, PartitionStruct(metadata).type, nullable=False)
    return _TYPES[name]


class MetadataColumns:
    """The metadata columns of one data file."""

    def __init__(self, metadata: TableMetadata, task: DataFileTask, names: Sequence[str]) -> None:
        self._task = task
        self._names = tuple(names)
        self.stored_fields: tuple[NestedField, ...] = tuple(field for field in LINEAGE_FIELDS if field.name in names)
        self._partition = (
            PartitionStruct(metadata).scalars(task.spec_id, task.partition) if PARTITION in names else None
        )
        self._partition_type = PartitionStruct(metadata).type if PARTITION in names else None

    def arrays(
        self, positions: pa.Array, stored: Sequence[pa.Array], deleted: npt.NDArray[np.bool_] | None
    ) -> list[pa.Array]:
        """One array per name. ``stored``: what the file holds for ``stored_fields``; ``deleted``: None is no row."""
        lineage = dict(zip((field.name for field in self.stored_fields), stored, strict=True))
        return [self._array(name, positions, lineage.get(name), deleted) for name in self._names]

    def _array(
        self, name: str, positions: pa.Array, stored: pa.Array | None, deleted: npt.NDArray[np.bool_] | None
    ) -> pa.Array:
        task, count = self._task, len(positions)
        if name == POSITION:
            return positions
        if name == DELETED:
            return pa.array(np.zeros(count, dtype=bool) if deleted is None else deleted)
        if name == ROW_ID.name:
            return row_ids(stored, positions, task.first_row_id)
        if name == LAST_UPDATED_SEQUENCE_NUMBER.name:
            return last_updated_sequence_numbers(stored, task.sequence_number, task.first_row_id)
        if name == PARTITION:
            return self._partitions(count)
        value = task.file_path if name == FILE else task.spec_id
        return pa.repeat(pa.scalar(value, _TYPES[name].type), count)

    def _partitions(self, count: int) -> pa.Array:
        kind = self._partition_type
        if not self._partition or kind is None:
            return pa.StructArray.from_buffers(pa.struct([]), count, [None])
        columns = [pa.repeat(scalar, count) for scalar in self._partition]
        return pa.StructArray.from_arrays(columns, fields=list(kind))
