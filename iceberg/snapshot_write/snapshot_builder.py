"""Building one snapshot: entries go to manifests as they come, the manifest list is written at each commit attempt.

Sections "Snapshots", "Manifest Lists", "First Row ID Assignment", "Sequence Numbers".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import count
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.iceberg.errors import IcebergConflict, InvalidIcebergRequest
from deltaberg.iceberg.manifest.data_file import DELETED, EXISTING
from deltaberg.iceberg.manifest.file_entries import as_status, identified, with_schemes
from deltaberg.iceberg.manifest.manifest_filter import FilesToDelete, FilteredManifest, as_deleted, filter_manifest
from deltaberg.iceberg.manifest.manifest_list import ManifestContent, ManifestFile
from deltaberg.iceberg.manifest.manifest_merging import by_spec, merge_bins, merge_manifests
from deltaberg.iceberg.manifest.rolling_manifests import ManifestFolder, NewManifest
from deltaberg.iceberg.metadata.snapshot import OPERATION, Operation, Snapshot
from deltaberg.iceberg.metadata.table_metadata import TableMetadata
from deltaberg.iceberg.metadata.table_properties import (
    MANIFEST_MERGE_ENABLED,
    MANIFEST_MIN_COUNT,
    bool_property,
    int_property,
)
from deltaberg.iceberg.partition.partition_spec import PartitionSpec
from deltaberg.iceberg.pending_files import PendingFiles
from deltaberg.iceberg.snapshot_write.added_files import (
    AddedFiles,
    AddedManifests,
    ManifestRecipe,
    ManifestRuns,
    conformed_entries,
)
from deltaberg.iceberg.snapshot_write.snapshot_manifests import SnapshotManifests
from deltaberg.iceberg.snapshot_write.snapshot_summary import FileCounts, SnapshotTally, SnapshotTotals

_Key: TypeAlias = tuple[str, int, int | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotRequest:
    """The values of a snapshot that a caller fixes; None: assigned at commit. ``branch`` None: no reference moves."""

    operation: Operation
    branch: str | None
    snapshot_id: int
    timestamp_ms: int
    sequence_number: int | None
    first_row_id: int | None
    summary: Mapping[str, str]
    merge_manifests: bool | None


class SnapshotBuilder:
    """The files of a new snapshot. Methods return the builder, so that calls can be chained.

    There are two ways to define what remains of the parent snapshot:

    - By default all of its manifests do. ``delete_files`` finds the given files in them and rewrites those manifests.
    - After ``keep_manifests`` or ``existing_files`` only what is named remains, nothing is looked up, and
      ``delete_files`` merely records the deletion. The commit then requires that the branch has not moved.

    Batches are of ``data_file_schema`` (missing optional columns are null). Raises InvalidIcebergRequest for files
    that the table's format version does not allow.
    """

    def __init__(
        self, request: SnapshotRequest, *, metadata: TableMetadata, folder: ManifestFolder, files: PendingFiles
    ) -> None:
        self.request = request
        self._staged = metadata
        self._folder = folder
        self._files = files
        self._tally = SnapshotTally()
        self._new: list[NewManifest] = []
        self._kept: list[ManifestFile] | None = None
        self._to_delete = FilesToDelete(takes_vectors_along=metadata.format_version >= 3)
        self._filtered: dict[_Key, FilteredManifest | None] = {}
        self._merged: dict[tuple[_Key, ...], tuple[NewManifest, ...]] = {}
        self._attempts = count()
        self._highest_sequence_number = 0
        self._vectors: list[pa.Array] = []
        self.adds_deletes = False

    @property
    def snapshot_id(self) -> int:
        """The id that the snapshot will have."""
        return self.request.snapshot_id

    @property
    def is_explicit(self) -> bool:
        """True when only what the caller names remains of the parent."""
        return self._kept is not None

    @property
    def is_pure_append(self) -> bool:
        """True when the snapshot only adds data files, which applies on top of anything."""
        return not (self.is_explicit or self._to_delete or self.adds_deletes)

    def add_files(
        self,
        batches: Iterable[pa.RecordBatch] | pa.RecordBatch,
        spec_id: int | None = None,
        *,
        keep_inherited: bool = False,
    ) -> SnapshotBuilder:
        """Add data files, delete files or deletion vectors under a partition spec (the default one).

        ``keep_inherited``: the data sequence numbers and first row ids in the batches are stored instead of being
        inherited from this snapshot.
        """
        with AddedFiles(self._staged, self._folder, self._spec(spec_id), keep_inherited=keep_inherited) as added:
            for batch in _each(batches):
                added.write(batch)
        self._vectors += added.vectors
        return self._take(added.written)

    def manifest_recipe(self, *, keep_inherited: bool = False) -> ManifestRecipe:
        """How to write manifests of added files in another process; ``add_manifests`` takes the result."""
        folder = self._folder
        return ManifestRecipe(
            metadata=self._staged,
            folder=folder.folder,
            snapshot_id=folder.snapshot_id,
            target_size=folder.target_size,
            codec=folder.codec,
            keep_inherited=keep_inherited,
        )

    def add_manifests(self, written: Iterable[AddedManifests]) -> SnapshotBuilder:
        """Add manifests that were written by this builder's recipe; from now on they are the transaction's to delete.

        Whether a data file is listed twice, or has two deletion vectors, is not checked: nothing is read.
        """
        for each in written:
            for location in each.locations:
                self._files.note(location)
            self._take(each)
        return self

    def _take(self, written: AddedManifests) -> SnapshotBuilder:
        self._new += written.manifests
        self._tally.absorb(written.tally)
        self._highest_sequence_number = max(self._highest_sequence_number, written.highest_sequence_number)
        self.adds_deletes = self.adds_deletes or written.adds_deletes
        return self

    def existing_files(
        self, batches: Iterable[pa.RecordBatch] | pa.RecordBatch, spec_id: int | None = None
    ) -> SnapshotBuilder:
        """Carry files of the parent over, with the snapshot ids, sequence numbers and row ids that they have."""
        self._kept = [] if self._kept is None else self._kept
        return self._write_as(EXISTING, batches, spec_id)

    def keep_manifests(self, manifests: Iterable[ManifestFile]) -> SnapshotBuilder:
        """Carry whole manifests of the parent over; none is a valid choice."""
        self._kept = [] if self._kept is None else self._kept
        self._kept.extend(manifests)
        return self

    def delete_files(self, batches: Iterable[pa.RecordBatch] | pa.RecordBatch) -> SnapshotBuilder:
        """Take files out of the snapshot; a deletion vector is identified by its path and offset."""
        if self.is_explicit:
            for batch in _each(batches):
                for spec_id in pc.unique(batch.column("spec_id")).to_pylist():
                    self._write_as(DELETED, batch.filter(pc.equal(batch.column("spec_id"), spec_id)), spec_id)
            return self
        for batch in _each(batches):
            self._to_delete.add(with_schemes(identified(batch), self._staged.format_version))
        return self

    def delete_everything(self) -> SnapshotBuilder:
        """Take all files of the parent out."""
        self._to_delete.everything = True
        return self

    def _write_as(
        self, status: int, batches: Iterable[pa.RecordBatch] | pa.RecordBatch, spec_id: int | None
    ) -> SnapshotBuilder:
        spec = self._spec(spec_id)
        with self._writers(spec) as writers:
            for batch in _each(batches):
                entries = conformed_entries(batch, spec, self._staged)
                if status == DELETED:
                    entries = as_deleted(entries, self.snapshot_id)
                    self._tally.remove(entries)
                else:
                    entries = as_status(entries, EXISTING)
                writers.write(entries)
        self._new += writers.finished
        return self

    def _spec(self, spec_id: int | None) -> PartitionSpec:
        return self._staged.spec if spec_id is None else self._staged.spec_by_id(spec_id)

    def _check_vectors(self) -> None:
        """Version 3 allows one deletion vector for a data file."""
        if not self._vectors:
            return
        counts = pc.value_counts(pa.chunked_array(self._vectors).combine_chunks())
        twice = counts.filter(pc.greater(counts.field("counts"), 1))
        if len(twice):
            raise InvalidIcebergRequest(
                f"Cannot add two deletion vectors for data file {twice[0].as_py()['values']}: merge them first"
            )

    def _check_operation(self) -> None:
        if self.request.operation is not Operation.APPEND:
            return
        if self.adds_deletes or self._to_delete or self._tally.removed != FileCounts():
            raise InvalidIcebergRequest(
                "Cannot commit an append: it adds delete files or removes files (use overwrite or delete)"
            )

    def _check_vectors_alone(
        self, written: tuple[ManifestFile, ...], manifests: SnapshotManifests, metadata: TableMetadata
    ) -> None:
        """Raise InvalidIcebergRequest when a data file that gets a deletion vector keeps an older one too."""
        if not self._vectors:
            return
        covered = pa.chunked_array(self._vectors).combine_chunks()
        seen = 0
        for batch in manifests.live_files((m for m in written if m.content is ManifestContent.DELETES), metadata):
            vectors = batch.filter(pc.is_valid(batch.column("content_offset"))).column("referenced_data_file")
            again = vectors.filter(pc.is_in(vectors, covered))
            seen += len(again)
            if seen > len(covered):
                raise InvalidIcebergRequest(
                    f"Cannot add a deletion vector for data file {again[-1].as_py()}: it has one already; "
                    "merge the two and delete the old one"
                )

    def _writers(self, spec: PartitionSpec) -> ManifestRuns:
        return ManifestRuns(self._folder, spec, self._staged)

    def produce(self, metadata: TableMetadata, manifests: SnapshotManifests, *, retried: bool) -> Snapshot:
        """Write the manifest list on top of ``metadata`` and describe the snapshot.

        ``manifests`` knows the manifests of the parent. Raises IcebergConflict when a file to delete is gone after
        a retry, InvalidIcebergRequest when it never was there.
        """
        self._check_vectors()
        self._check_operation()
        request = self.request
        version = metadata.format_version
        parent = self._parent(metadata)
        sequence_number = self._sequence_number(metadata)
        tally = self._tally.copy()
        before = () if parent is None else manifests.of(parent, metadata)
        carried, replaced = self._carried(before, metadata, manifests, tally, retried=retried)
        entries = [*self._new, *carried]
        if self._merges(metadata):
            entries = self._merge(entries, metadata)
        location = self._files.note(
            f"{self._folder.folder}/snap-{request.snapshot_id}-{next(self._attempts) + 1}-{self._folder.commit_uuid}.avro"
        )
        first_row_id = self._first_row_id(metadata)
        numbered, added_rows = _with_row_ids(entries, first_row_id, manifests, metadata)
        written = manifests.write(
            location,
            numbered,
            format_version=version,
            snapshot_id=request.snapshot_id,
            parent_snapshot_id=None if parent is None else parent.snapshot_id,
            sequence_number=sequence_number,
            first_row_id=first_row_id,
            codec=self._folder.codec,
        )
        self._check_vectors_alone(written, manifests, metadata)
        known = {manifest.manifest_path for manifest in before}
        kept = sum(manifest.manifest_path in known for manifest in written)
        summary = {
            OPERATION: request.operation.value,
            **tally.changes(),
            "manifests-created": str(len(written) - kept),
            "manifests-kept": str(kept),
            "manifests-replaced": str(replaced),
            **self._totals(parent, before, written, tally, manifests, metadata).entries(),
            **request.summary,
        }
        return Snapshot(
            snapshot_id=request.snapshot_id,
            timestamp_ms=request.timestamp_ms,
            parent_snapshot_id=None if parent is None else parent.snapshot_id,
            sequence_number=sequence_number,
            manifest_list=location,
            summary=summary,
            schema_id=metadata.current_schema_id,
            first_row_id=first_row_id,
            added_rows=added_rows,
        )

    def _parent(self, metadata: TableMetadata) -> Snapshot | None:
        if self.request.branch is None:
            return metadata.current_snapshot
        ref = metadata.refs.get(self.request.branch)
        # A branch that is not there yet starts at the current snapshot.
        return metadata.current_snapshot if ref is None else metadata.snapshot_by_id(ref.snapshot_id)

    def _sequence_number(self, metadata: TableMetadata) -> int:
        if metadata.format_version == 1:
            return 0
        requested = self.request.sequence_number
        number = metadata.last_sequence_number + 1 if requested is None else requested
        if self._highest_sequence_number > number:
            raise InvalidIcebergRequest(
                f"Cannot add files with sequence number {self._highest_sequence_number} to a snapshot of sequence "
                f"number {number}: files cannot be younger than the snapshot"
            )
        return number

    def _first_row_id(self, metadata: TableMetadata) -> int | None:
        if metadata.format_version < 3:
            return None
        requested = self.request.first_row_id
        return (metadata.next_row_id or 0) if requested is None else requested

    def _carried(
        self,
        before: tuple[ManifestFile, ...],
        metadata: TableMetadata,
        manifests: SnapshotManifests,
        tally: SnapshotTally,
        *,
        retried: bool,
    ) -> tuple[list[NewManifest], int]:
        """The manifests that remain of the parent's, and how many of them were rewritten."""
        if self._kept is not None:
            return [_kept(manifest) for manifest in self._kept], 0
        if not self._to_delete:
            return [_kept(manifest) for manifest in before], 0
        result: list[NewManifest] = []
        found: dict[ManifestContent, list[pa.Array]] = {content: [] for content in ManifestContent}
        replaced = 0
        for manifest in before:
            filtered = self._filter(manifest, manifests, metadata) if self._to_delete.may_be_in(manifest) else None
            if filtered is None:
                result.append(_kept(manifest))
                continue
            replaced += 1
            found[manifest.content].append(filtered.found)
            tally.absorb(filtered.removed)
            result += filtered.manifests
        if not self._to_delete.everything:
            self._check_found(found, retried=retried)
        return result, replaced

    def _filter(
        self, manifest: ManifestFile, manifests: SnapshotManifests, metadata: TableMetadata
    ) -> FilteredManifest | None:
        key = _rewritten_as(manifest)
        if key not in self._filtered:
            self._filtered[key] = filter_manifest(
                manifest, self._to_delete, folder=self._folder, storage=manifests.storage, metadata=metadata
            )
        return self._filtered[key]

    def _check_found(self, found: Mapping[ManifestContent, list[pa.Array]], *, retried: bool) -> None:
        for content, arrays in found.items():
            wanted = self._to_delete.wanted(content)
            seen = pa.chunked_array(arrays, pa.string()).combine_chunks()
            missing = wanted.filter(pc.invert(pc.is_in(wanted, seen)))
            if not len(missing):
                continue
            path = missing[0].as_py().partition("\0")[0]
            if retried:
                raise IcebergConflict(
                    f"Cannot commit: file {path}, which is to be deleted, was removed by another commit; "
                    "read the table again and repeat the change"
                )
            raise InvalidIcebergRequest(f"Cannot delete file {path}: the snapshot does not list it")

    def _merges(self, metadata: TableMetadata) -> bool:
        if self.request.merge_manifests is not None:
            return self.request.merge_manifests
        return not self.is_explicit and bool_property(metadata.properties, MANIFEST_MERGE_ENABLED, default=True)

    def _merge(self, entries: list[NewManifest], metadata: TableMetadata) -> list[NewManifest]:
        known = {entry.file.manifest_path: entry for entry in entries}
        min_count = int_property(metadata.properties, MANIFEST_MIN_COUNT, 100, low=1)
        result: list[NewManifest] = []
        for group in by_spec([entry.file for entry in entries]).values():
            for merged in merge_bins(group, target_size=self._folder.target_size, min_count=min_count):
                if len(merged) == 1:
                    result.append(known[merged[0].manifest_path])
                    continue
                key = tuple(_rewritten_as(manifest) for manifest in merged)
                if key not in self._merged:
                    self._merged[key] = merge_manifests(
                        merged, folder=self._folder, storage=self._files.storage, metadata=metadata
                    )
                result += self._merged[key]
        return result

    def _totals(
        self,
        parent: Snapshot | None,
        before: tuple[ManifestFile, ...],
        written: tuple[ManifestFile, ...],
        tally: SnapshotTally,
        manifests: SnapshotManifests,
        metadata: TableMetadata,
    ) -> SnapshotTotals:
        """The totals, from the parent's where these can be trusted, else by counting the live files."""
        known = SnapshotTotals() if parent is None else SnapshotTotals.of_summary(parent.summary)
        if known is not None and (parent is None or known.agrees_with(before)):
            totals = known.after(tally)
            if totals.agrees_with(written):
                return totals
        return SnapshotTotals.of_files(manifests.live_files(written, metadata))


def _each(batches: Iterable[pa.RecordBatch] | pa.RecordBatch) -> Iterable[pa.RecordBatch]:
    return (batches,) if isinstance(batches, pa.RecordBatch) else batches


def _rewritten_as(manifest: ManifestFile) -> _Key:
    """The numbers that a rewritten form of a manifest depends on: a retry may give the manifests of this commit other
    numbers.
    """
    return manifest.manifest_path, manifest.sequence_number, manifest.first_row_id


def _kept(manifest: ManifestFile) -> NewManifest:
    """A manifest of the parent; unassigned rows are only counted where it has no first row id yet."""
    return NewManifest(file=manifest, unassigned_rows=-1, row_id_end=0)


def _with_row_ids(
    entries: list[NewManifest], first_row_id: int | None, manifests: SnapshotManifests, metadata: TableMetadata
) -> tuple[list[ManifestFile], int | None]:
    """Every data manifest with a first row id, and how far the ids of this snapshot reach past ``first_row_id``.

    Ids that entries state are left alone: assignment starts behind them.
    """
    if first_row_id is None:
        return [entry.file for entry in entries], None
    free = max([first_row_id, *(entry.row_id_end for entry in entries)])
    result: list[ManifestFile] = []
    for entry in entries:
        file = entry.file
        if file.content is ManifestContent.DATA and file.first_row_id is None:
            rows = entry.unassigned_rows
            if rows < 0:
                file = manifests.counted(file, metadata)
                rows = (file.added_rows_count or 0) + (file.existing_rows_count or 0)
            file = replace(file, first_row_id=free)
            free += rows
        result.append(file)
    return result, free - first_row_id
