"""Taking files out of a snapshot: the manifests that list them are rewritten, all others are reused."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.iceberg.manifest.data_file import DELETED, EXISTING
from deltaberg.iceberg.manifest.file_entries import as_status, file_keys, with_columns
from deltaberg.iceberg.manifest.manifest_list import ManifestContent, ManifestFile
from deltaberg.iceberg.manifest.manifest_reader import read_manifest
from deltaberg.iceberg.manifest.rolling_manifests import ManifestFolder, NewManifest
from deltaberg.iceberg.metadata.table_metadata import TableMetadata
from deltaberg.iceberg.snapshot_write.snapshot_summary import SnapshotTally
from deltaberg.storage import Storage


@dataclass(slots=True)
class FilesToDelete:
    """The files to take out, as keys of ``file_entries.file_keys``; ``everything`` takes out all.

    ``takes_vectors_along``: the deletion vectors of data files that are taken out go too (version 3 has them).
    The sequence number and spec ranges, where all entries state them, show which manifests need not be read.
    """

    keys: dict[ManifestContent, list[pa.Array]] = field(
        default_factory=lambda: {ManifestContent.DATA: [], ManifestContent.DELETES: []}
    )
    spec_ids: set[int] | None = field(default_factory=set)
    everything: bool = False
    takes_vectors_along: bool = False
    _sequence_numbers: list[tuple[int, int]] | None = field(default_factory=list)

    def add(self, batch: pa.RecordBatch) -> None:
        """Take out the files of a batch."""
        if batch.num_rows == 0:
            return
        keys = file_keys(batch)
        data = pc.equal(batch.column("content"), 0)
        self.keys[ManifestContent.DATA].append(keys.filter(data))
        self.keys[ManifestContent.DELETES].append(keys.filter(pc.invert(data)))
        if batch.column("spec_id").null_count:
            self.spec_ids = None
        elif self.spec_ids is not None:
            self.spec_ids.update(pc.unique(batch.column("spec_id")).to_pylist())
        data_numbers, file_numbers = batch.column("sequence_number"), batch.column("file_sequence_number")
        if data_numbers.null_count or file_numbers.null_count or self._sequence_numbers is None:
            self._sequence_numbers = None
            return
        pairs = pa.table([data_numbers, file_numbers], names=["data", "file"]).group_by(["data", "file"]).aggregate([])
        self._sequence_numbers += zip(pairs["data"].to_pylist(), pairs["file"].to_pylist(), strict=True)

    def __bool__(self) -> bool:
        return self.everything or any(self._has(content) for content in ManifestContent)

    def _has(self, content: ManifestContent) -> bool:
        return any(len(array) for array in self.keys[content])

    def gone(self, batch: pa.RecordBatch, content: ManifestContent) -> pa.Array:
        """Which files of a batch are to be taken out."""
        if self.everything:
            return pa.array([True] * batch.num_rows, pa.bool_())
        listed = pc.is_in(file_keys(batch), self.wanted(content))
        if content is ManifestContent.DATA or not (self.takes_vectors_along and self._has(ManifestContent.DATA)):
            return listed
        vectors = pc.is_valid(batch.column("content_offset"))
        orphaned = pc.is_in(batch.column("referenced_data_file"), self.wanted(ManifestContent.DATA))
        return pc.or_(listed, pc.and_(vectors, orphaned))

    def wanted(self, content: ManifestContent) -> pa.Array:
        """The distinct keys of one kind."""
        return pc.unique(pa.chunked_array(self.keys[content], pa.string())).cast(pa.string())

    def may_be_in(self, manifest: ManifestFile) -> bool:
        """False only when a manifest cannot list any of the files."""
        if manifest.added_files_count == 0 and manifest.existing_files_count == 0:
            return False
        if self.everything:
            return True
        if self.spec_ids is not None and manifest.partition_spec_id not in self.spec_ids:
            return False
        if manifest.content is ManifestContent.DELETES and self.takes_vectors_along and self._has(ManifestContent.DATA):
            return True
        if not self._has(manifest.content):
            return False
        if self._sequence_numbers is None:
            return True
        # A live file's data sequence number is not below the manifest's lowest one, and the file came with the
        # manifest or before it.
        return any(
            manifest.min_sequence_number <= number and file_number <= manifest.sequence_number
            for number, file_number in self._sequence_numbers
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FilteredManifest:
    """The outcome for one manifest: its rewritten form, and the keys that were found in it."""

    manifests: tuple[NewManifest, ...]
    found: pa.Array
    removed: SnapshotTally


def filter_manifest(
    manifest: ManifestFile,
    to_delete: FilesToDelete,
    *,
    folder: ManifestFolder,
    storage: Storage,
    metadata: TableMetadata,
) -> FilteredManifest | None:
    """Rewrite a manifest without the doomed files, which stay in it as deleted entries; None when it has none of them."""
    if not any(True for _ in _gone(storage, manifest, metadata, to_delete)):
        return None
    found: list[pa.Array] = []
    removed = SnapshotTally()

    def entries() -> Iterator[pa.RecordBatch]:
        for batch in read_manifest(storage, manifest, metadata):
            live = batch.filter(pc.not_equal(batch.column("status"), DELETED))
            gone = to_delete.gone(live, manifest.content)
            dead = live.filter(gone)
            found.append(file_keys(dead))
            removed.remove(dead)
            yield as_status(live.filter(pc.invert(gone)), EXISTING)
            yield as_deleted(dead, folder.snapshot_id)

    written = folder.write_all(
        entries(),
        spec=metadata.spec_by_id(manifest.partition_spec_id),
        schemas=metadata.schemas_newest_first,
        content=manifest.content,
    )
    return FilteredManifest(
        manifests=written, found=pa.chunked_array(found, pa.string()).combine_chunks(), removed=removed
    )


def as_deleted(batch: pa.RecordBatch, snapshot_id: int) -> pa.RecordBatch:
    """Entries marked as deleted by a snapshot."""
    ids = pa.repeat(pa.scalar(snapshot_id, pa.int64()), batch.num_rows)
    return with_columns(as_status(batch, DELETED), {"snapshot_id": ids})


def _gone(
    storage: Storage, manifest: ManifestFile, metadata: TableMetadata, to_delete: FilesToDelete
) -> Iterator[pa.RecordBatch]:
    """The doomed files that a manifest lists."""
    for batch in read_manifest(storage, manifest, metadata):
        live = batch.filter(pc.not_equal(batch.column("status"), DELETED))
        dead = live.filter(to_delete.gone(live, manifest.content))
        if dead.num_rows:
            yield dead
