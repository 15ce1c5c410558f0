"""Taking files out of a snapshot: the manifests that list them are rewritten, all others are reused."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.iceberg.data_file import DELETED, EXISTING
from deltaberg.iceberg.file_entries import as_status, file_keys, with_columns
from deltaberg.iceberg.manifest_list import ManifestContent, ManifestFile
from deltaberg.iceberg.manifest_reader import read_manifest
from deltaberg.iceberg.rolling_manifests import ManifestFolder, NewManifest
from deltaberg.iceberg.snapshot_summary import SnapshotTally
from deltaberg.iceberg.table_metadata import TableMetadata
from deltaberg.storage import Storage


@dataclass(slots=True)
class Doomed:
    """The files to take out, as keys of ``file_entries.file_keys``; ``everything`` takes out all.

    The sequence number and spec ranges, where all entries state them, tell which manifests need not be read.
    """

    keys: dict[ManifestContent, list[pa.Array]] = field(
        default_factory=lambda: {ManifestContent.DATA: [], ManifestContent.DELETES: []}
    )
    spec_ids: set[int] | None = field(default_factory=set)
    everything: bool = False
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
        return self.everything or any(len(array) for arrays in self.keys.values() for array in arrays)

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
        if not any(len(array) for array in self.keys[manifest.content]):
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
    """What became of one manifest: its rewritten form, and the keys that were found in it."""

    manifests: tuple[NewManifest, ...]
    found: pa.Array
    removed: SnapshotTally


def filter_manifest(
    manifest: ManifestFile, doomed: Doomed, *, folder: ManifestFolder, storage: Storage, metadata: TableMetadata
) -> FilteredManifest | None:
    """Rewrite a manifest without the doomed files, which stay in it as deleted entries; None when it has none of them."""
    keys = None if doomed.everything else doomed.wanted(manifest.content)
    if keys is not None and not _lists_any(storage, manifest, metadata, keys):
        return None
    found: list[pa.Array] = []
    removed = SnapshotTally()

    def entries() -> Iterator[pa.RecordBatch]:
        for batch in read_manifest(storage, manifest, metadata):
            live = batch.filter(pc.not_equal(batch.column("status"), DELETED))
            names = file_keys(live)
            gone = pa.array([True] * live.num_rows) if keys is None else pc.is_in(names, keys)
            found.append(names.filter(gone))
            dead = live.filter(gone)
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


def _lists_any(storage: Storage, manifest: ManifestFile, metadata: TableMetadata, keys: pa.Array) -> bool:
    for batch in read_manifest(storage, manifest, metadata):
        live = batch.filter(pc.not_equal(batch.column("status"), DELETED))
        if pc.any(pc.is_in(file_keys(live), keys), min_count=0).as_py():
            return True
    return False
