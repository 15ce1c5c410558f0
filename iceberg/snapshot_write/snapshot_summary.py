"""Snapshot summaries (Appendix F, "Optional Snapshot Summary Fields"): the files and rows that a commit added and
removed, and the totals.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, fields
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.iceberg.manifest.data_file import DATA, EQUALITY_DELETES, POSITION_DELETES
from deltaberg.iceberg.manifest.manifest_list import ManifestContent, ManifestFile

_PUFFIN: Final = "puffin"
_THE_ONE_PARTITION: Final = pa.table({})
TOTAL_KEYS: Final = (
    "total-data-files",
    "total-delete-files",
    "total-records",
    "total-files-size",
    "total-position-deletes",
    "total-equality-deletes",
)


@dataclass(slots=True)
class FileCounts:
    """Counts over data and delete files."""

    data_files: int = 0
    records: int = 0
    size: int = 0
    delete_files: int = 0
    position_delete_files: int = 0
    deletion_vectors: int = 0
    equality_delete_files: int = 0
    position_deletes: int = 0
    equality_deletes: int = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Count the files of a batch, whatever their status.

        A deletion vector counts its blob's size, since several share a file.
        """
        content = batch.column("content")
        counts = batch.column("record_count")
        vectors = pc.and_(
            pc.equal(content, POSITION_DELETES), pc.equal(pc.utf8_lower(batch.column("file_format")), _PUFFIN)
        )
        sizes = pc.if_else(
            pc.fill_null(pc.and_(vectors, pc.is_valid(batch.column("content_size_in_bytes"))), False),
            batch.column("content_size_in_bytes"),
            batch.column("file_size_in_bytes"),
        )
        self.size += _sum(sizes)
        is_data = pc.equal(content, DATA)
        data = _count(is_data)
        self.data_files += data
        self.records += _sum(counts.filter(is_data))
        if data == batch.num_rows:
            return
        equality = pc.equal(content, EQUALITY_DELETES)
        dvs = _count(vectors)
        equalities = _count(equality)
        positions = batch.num_rows - data - equalities
        self.delete_files += positions + equalities
        self.deletion_vectors += dvs
        self.position_delete_files += positions - dvs
        self.equality_delete_files += equalities
        self.position_deletes += _sum(counts.filter(pc.equal(content, POSITION_DELETES)))
        self.equality_deletes += _sum(counts.filter(equality))


@dataclass(slots=True)
class SnapshotTally:
    """The files and rows that one snapshot adds and removes."""

    added: FileCounts = field(default_factory=FileCounts)
    removed: FileCounts = field(default_factory=FileCounts)
    partitions: dict[int, pa.Table] = field(default_factory=dict)

    def copy(self) -> SnapshotTally:
        """An independent tally with the same counts."""
        return SnapshotTally(deepcopy(self.added), deepcopy(self.removed), dict(self.partitions))

    def add(self, batch: pa.RecordBatch) -> None:
        """Files that the snapshot adds."""
        self.added.add(batch)
        self._touch(batch)

    def remove(self, batch: pa.RecordBatch) -> None:
        """Files that the snapshot removes."""
        self.removed.add(batch)
        self._touch(batch)

    def absorb(self, other: SnapshotTally) -> None:
        """Add the counts of another tally."""
        for mine, theirs in ((self.added, other.added), (self.removed, other.removed)):
            for each in fields(FileCounts):
                setattr(mine, each.name, getattr(mine, each.name) + getattr(theirs, each.name))
        for spec_id, partitions in other.partitions.items():
            self._unite(spec_id, partitions)

    def _unite(self, spec_id: int, seen: pa.Table) -> None:
        known = self.partitions.get(spec_id)
        if known is not None:
            seen = pa.concat_tables([known, seen.cast(known.schema)])
        if seen.num_columns == 0:
            # Files of an unpartitioned spec share the one partition.
            self.partitions[spec_id] = _THE_ONE_PARTITION
        elif seen.num_rows == 1:
            self.partitions[spec_id] = seen
        else:
            self.partitions[spec_id] = seen.group_by(seen.column_names).aggregate([])

    def _touch(self, batch: pa.RecordBatch) -> None:
        if batch.num_rows == 0:
            return
        spec_id = batch.column("spec_id")[0].as_py()
        tuples = batch.column("partition")
        columns = [tuples.field(position) for position in range(tuples.type.num_fields)]
        columns = [pa.nulls(len(each), pa.int8()) if pa.types.is_null(each.type) else each for each in columns]
        self._unite(spec_id, pa.table(columns, names=[str(position) for position in range(len(columns))]))

    @property
    def changed_partitions(self) -> int:
        """How many partitions have files added or removed."""
        return sum(distinct.num_rows or 1 for distinct in self.partitions.values())

    def changes(self) -> dict[str, str]:
        """The summary entries of added and removed files and rows; zeros are left out."""
        added, removed = self.added, self.removed
        entries = {
            "added-data-files": added.data_files,
            "deleted-data-files": removed.data_files,
            "added-delete-files": added.delete_files,
            "removed-delete-files": removed.delete_files,
            "added-position-delete-files": added.position_delete_files,
            "removed-position-delete-files": removed.position_delete_files,
            "added-dvs": added.deletion_vectors,
            "removed-dvs": removed.deletion_vectors,
            "added-equality-delete-files": added.equality_delete_files,
            "removed-equality-delete-files": removed.equality_delete_files,
            "added-records": added.records,
            "deleted-records": removed.records,
            "added-files-size": added.size,
            "removed-files-size": removed.size,
            "added-position-deletes": added.position_deletes,
            "removed-position-deletes": removed.position_deletes,
            "added-equality-deletes": added.equality_deletes,
            "removed-equality-deletes": removed.equality_deletes,
        }
        result = {key: str(value) for key, value in entries.items() if value}
        result["changed-partition-count"] = str(self.changed_partitions)
        return result


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotTotals:
    """The live files of a snapshot."""

    data_files: int = 0
    delete_files: int = 0
    records: int = 0
    size: int = 0
    position_deletes: int = 0
    equality_deletes: int = 0

    @classmethod
    def of_summary(cls, summary: Mapping[str, str]) -> SnapshotTotals | None:
        """The totals that a summary states; None unless it states them all as whole numbers."""
        texts = [summary.get(key, "") for key in TOTAL_KEYS]
        if not all(text.isdecimal() for text in texts):
            return None
        data_files, delete_files, records, size, positions, equalities = (int(text) for text in texts)
        return cls(
            data_files=data_files,
            delete_files=delete_files,
            records=records,
            size=size,
            position_deletes=positions,
            equality_deletes=equalities,
        )

    @classmethod
    def of_files(cls, batches: Iterable[pa.RecordBatch]) -> SnapshotTotals:
        """Count live files one by one."""
        tally = FileCounts()
        for batch in batches:
            tally.add(batch)
        return cls(
            data_files=tally.data_files,
            delete_files=tally.delete_files,
            records=tally.records,
            size=tally.size,
            position_deletes=tally.position_deletes,
            equality_deletes=tally.equality_deletes,
        )

    def after(self, tally: SnapshotTally) -> SnapshotTotals:
        """The totals once a snapshot's changes are made."""
        added, removed = tally.added, tally.removed
        return SnapshotTotals(
            data_files=self.data_files + added.data_files - removed.data_files,
            delete_files=self.delete_files + added.delete_files - removed.delete_files,
            records=self.records + added.records - removed.records,
            size=self.size + added.size - removed.size,
            position_deletes=self.position_deletes + added.position_deletes - removed.position_deletes,
            equality_deletes=self.equality_deletes + added.equality_deletes - removed.equality_deletes,
        )

    def agrees_with(self, manifests: Iterable[ManifestFile]) -> bool:
        """True when files and rows match the manifests' own counts, where these are stated."""
        if min(self.size, self.position_deletes, self.equality_deletes) < 0:
            return False
        live = {ManifestContent.DATA: [0, 0], ManifestContent.DELETES: [0, 0]}
        for manifest in manifests:
            counts = (
                manifest.added_files_count,
                manifest.existing_files_count,
                manifest.added_rows_count,
                manifest.existing_rows_count,
            )
            if any(count is None for count in counts):
                return False
            files = (manifest.added_files_count or 0) + (manifest.existing_files_count or 0)
            rows = (manifest.added_rows_count or 0) + (manifest.existing_rows_count or 0)
            live[manifest.content][0] += files
            live[manifest.content][1] += rows
        deletes = self.position_deletes + self.equality_deletes
        return [self.data_files, self.records] == live[ManifestContent.DATA] and [
            self.delete_files,
            deletes,
        ] == live[ManifestContent.DELETES]

    def entries(self) -> dict[str, str]:
        """The totals as summary entries."""
        values = (
            self.data_files,
            self.delete_files,
            self.records,
            self.size,
            self.position_deletes,
            self.equality_deletes,
        )
        return {key: str(value) for key, value in zip(TOTAL_KEYS, values, strict=True)}


def _sum(values: pa.Array) -> int:
    return int(pc.sum(values, min_count=0).as_py())


def _count(mask: pa.Array) -> int:
    return int(pc.sum(mask, min_count=0).as_py())
