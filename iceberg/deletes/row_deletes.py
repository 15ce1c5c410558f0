"""The deletes of a snapshot, brought together per data file: which of its rows are deleted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from deltaberg.bitmap import PositionBitmap
from deltaberg.iceberg.deletes.delete_index import DeleteIndex
from deltaberg.iceberg.deletes.deletion_vectors import DeletionVectors
from deltaberg.iceberg.deletes.equality_deletes import EqualityDeletes, EqualityFilter
from deltaberg.iceberg.deletes.position_deletes import PositionDeletes
from deltaberg.iceberg.manifest.live_files import delete_files
from deltaberg.iceberg.metadata.snapshot import Snapshot
from deltaberg.iceberg.scan.scan_task import DataFileTask
from deltaberg.iceberg.table import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class FileDeletes:
    """The deletes of one data file: positions (of a vector or of delete files) and keys."""

    positions: PositionBitmap | None
    equality: tuple[EqualityFilter, ...]

    def deleted(self, positions: pa.Array, key_columns: Sequence[pa.Array]) -> npt.NDArray[np.bool_] | None:
        """For consecutive rows, whether each is deleted; None where the file has no deletes at all.

        ``positions``: their places in the file. ``key_columns``: the delete columns of every filter, one after the
        other.
        """
        if self.positions is None and not self.equality:
            return None
        count = len(positions)
        mask = np.zeros(count, dtype=bool)
        if not count:
            return mask
        if self.positions is not None:
            mask |= self.positions.mask(positions[0].as_py(), count)
        at = 0
        for each in self.equality:
            width = len(each.columns.fields)
            mask |= each.deleted(key_columns[at : at + width], count)
            at += width
        return mask


class RowDeletes:
    """Every delete of a snapshot. The entries are read at once, delete files when a data file needs them."""

    def __init__(
        self, table: Table, snapshot: Snapshot | None, *, entries: Iterable[pa.RecordBatch] | None = None
    ) -> None:
        """entries: the live delete entries that count; None: all of the snapshot's."""
        metadata, storage = table.metadata, table.storage
        unpartitioned = frozenset(spec.spec_id for spec in metadata.partition_specs if spec.is_unpartitioned)
        self.index = DeleteIndex(
            delete_files(table, snapshot) if entries is None else entries, unpartitioned_spec_ids=unpartitioned
        )
        self.vectors = DeletionVectors(storage, metadata.location, self.index)
        self.position_deletes = PositionDeletes(storage, metadata, self.index)
        self.equality_deletes = EqualityDeletes(storage, metadata, self.index)

    def of(self, task: DataFileTask) -> FileDeletes:
        """The deletes of one data file. Raises CorruptMetadata, DataFileError."""
        return FileDeletes(
            positions=self.positions(task),
            equality=self.equality_deletes.filters(task.matches, task.row, task.sequence_number),
        )

    def positions(self, task: DataFileTask) -> PositionBitmap | None:
        """The positions deleted from one data file; no equality delete is read. Raises like ``of``."""
        place = self.vectors.place(task.matches, task.row)
        if place is not None:
            return self.vectors.read(place)
        return self.position_deletes.deleted(task.file_path, task.matches, task.row)
