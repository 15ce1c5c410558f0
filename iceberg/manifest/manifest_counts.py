"""The values that a manifest list states about a manifest, added up while its entries pass ("Manifest Lists")."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.iceberg.manifest.data_file import ADDED, DELETED, EXISTING
from deltaberg.iceberg.manifest.manifest_list import UNASSIGNED_SEQUENCE_NUMBER, ManifestContent, ManifestFile
from deltaberg.iceberg.partition.partition_summary import PartitionSummary
from deltaberg.iceberg.schema.types import StructType

STATUSES: Final = (EXISTING, ADDED, DELETED)


class ManifestTally:
    """Counts of files and rows by status, the lowest sequence number of live files, partition summaries."""

    def __init__(self, partition: StructType) -> None:
        self.files = np.zeros(3, dtype=np.int64)
        self._rows = np.zeros(3, dtype=np.int64)
        self._summaries = [PartitionSummary(nested.type) for nested in partition.fields]
        self._lowest: int | None = None

    def add(self, batch: pa.RecordBatch, partition: pa.StructArray) -> None:
        """Count entries; ``partition`` has their tuples in the types of the manifest's spec."""
        status = batch.column("status")
        codes = status.to_numpy()
        self.files += np.bincount(codes, minlength=3)
        counts = batch.column("record_count").to_numpy()
        for code in STATUSES:
            self._rows[code] += int(counts[codes == code].sum())
        lowest = pc.min(batch.column("sequence_number").filter(pc.not_equal(status, DELETED))).as_py()
        if lowest is not None:
            self._lowest = lowest if self._lowest is None else min(self._lowest, lowest)
        for slot, summary in enumerate(self._summaries):
            summary.add(partition.field(slot))

    def describe(
        self, location: str, length: int, *, spec_id: int, content: ManifestContent, snapshot_id: int | None
    ) -> ManifestFile:
        """The manifest's entry, without the values that only the list assigns."""
        return ManifestFile(
            manifest_path=location,
            manifest_length=length,
            partition_spec_id=spec_id,
            content=content,
            sequence_number=UNASSIGNED_SEQUENCE_NUMBER,
            min_sequence_number=UNASSIGNED_SEQUENCE_NUMBER if self._lowest is None else self._lowest,
            added_snapshot_id=snapshot_id,
            added_files_count=int(self.files[ADDED]),
            existing_files_count=int(self.files[EXISTING]),
            deleted_files_count=int(self.files[DELETED]),
            added_rows_count=int(self._rows[ADDED]),
            existing_rows_count=int(self._rows[EXISTING]),
            deleted_rows_count=int(self._rows[DELETED]),
            partitions=tuple(summary.result() for summary in self._summaries),
        )
