"""The manifests of snapshots during a commit: those in the table, and those that the commit itself adds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.iceberg.manifest.data_file import ADDED, DELETED, EXISTING
from deltaberg.iceberg.manifest.manifest_list import COUNTS, ROW_COUNTS, ManifestFile, read_manifest_list
from deltaberg.iceberg.manifest.manifest_list_writer import write_manifest_list
from deltaberg.iceberg.manifest.manifest_reader import read_manifest
from deltaberg.iceberg.metadata.snapshot import Snapshot
from deltaberg.iceberg.metadata.table_metadata import TableMetadata
from deltaberg.storage import Storage


class SnapshotManifests:
    """Manifest lists by snapshot id, read or written once."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self._known: dict[int, tuple[ManifestFile, ...]] = {}

    def of(self, snapshot: Snapshot, metadata: TableMetadata) -> tuple[ManifestFile, ...]:
        """The manifests of a snapshot, with the counts that version 2 requires."""
        if snapshot.snapshot_id not in self._known:
            found = read_manifest_list(self.storage, snapshot, metadata)
            if metadata.format_version >= 2:
                found = tuple(self.counted(manifest, metadata) for manifest in found)
            self._known[snapshot.snapshot_id] = found
        return self._known[snapshot.snapshot_id]

    def counted(self, manifest: ManifestFile, metadata: TableMetadata) -> ManifestFile:
        """The manifest with its file and row counts, counted from its entries where a version 1 list left them out."""
        if all(getattr(manifest, name) is not None for name in (*COUNTS, *ROW_COUNTS)):
            return manifest
        files = np.zeros(3, np.int64)
        rows = np.zeros(3, np.int64)
        for batch in read_manifest(self.storage, manifest, metadata):
            status = batch.column("status").to_numpy()
            files += np.bincount(status, minlength=3)
            np.add.at(rows, status, batch.column("record_count").to_numpy())
        return replace(
            manifest,
            added_files_count=int(files[ADDED]),
            existing_files_count=int(files[EXISTING]),
            deleted_files_count=int(files[DELETED]),
            added_rows_count=int(rows[ADDED]),
            existing_rows_count=int(rows[EXISTING]),
            deleted_rows_count=int(rows[DELETED]),
        )

    def live_files(self, manifests: Iterable[ManifestFile], metadata: TableMetadata) -> Iterator[pa.RecordBatch]:
        """The live entries of manifests."""
        for manifest in manifests:
            for batch in read_manifest(self.storage, manifest, metadata):
                yield batch.filter(pc.not_equal(batch.column("status"), DELETED))

    def write(
        self,
        location: str,
        manifests: Iterable[ManifestFile],
        *,
        format_version: int,
        snapshot_id: int,
        parent_snapshot_id: int | None,
        sequence_number: int,
        first_row_id: int | None,
        codec: str,
    ) -> tuple[ManifestFile, ...]:
        """Write a manifest list and remember it under its snapshot."""
        written = write_manifest_list(
            self.storage,
            location,
            manifests,
            format_version=format_version,
            snapshot_id=snapshot_id,
            parent_snapshot_id=parent_snapshot_id,
            sequence_number=sequence_number,
            first_row_id=first_row_id,
            codec=codec,
        )
        self._known[snapshot_id] = written.manifests
        return written.manifests
