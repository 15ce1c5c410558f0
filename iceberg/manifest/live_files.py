"""The files of a snapshot as Arrow batches: the entries of its manifests that are not marked as deleted.

One batch at a time is in memory, so that a table of any size streams.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.iceberg.manifest.data_file import DELETED
from deltaberg.iceberg.manifest.manifest_list import ManifestContent, ManifestFile, read_manifest_list
from deltaberg.iceberg.manifest.manifest_reader import read_manifest
from deltaberg.iceberg.metadata.snapshot import Snapshot
from deltaberg.iceberg.table import Table


def data_files(table: Table, snapshot: Snapshot | None, *, with_metrics: bool = True) -> Iterator[pa.RecordBatch]:
    """The live data files of a snapshot in ``data_file_schema``, manifest by manifest; none without a snapshot.

    A batch belongs to one manifest, hence to one partition spec. with_metrics: False leaves the maps by column null,
    which is faster. Raises like ``read_manifest``.
    """
    return _live(table, snapshot, ManifestContent.DATA, with_metrics)


def delete_files(table: Table, snapshot: Snapshot | None) -> Iterator[pa.RecordBatch]:
    """``data_files`` for delete files and deletion vectors."""
    return _live(table, snapshot, ManifestContent.DELETES, with_metrics=True)


def live_manifests(table: Table, snapshot: Snapshot | None, content: ManifestContent) -> Iterator[ManifestFile]:
    """The manifests of a snapshot that may list live files, in the order of its manifest list."""
    if snapshot is None:
        return
    for manifest in read_manifest_list(table.storage, snapshot, table.metadata):
        # Counts of zero mean only deleted entries, and the list's counts are checked whenever a manifest is read.
        if manifest.content is content and not manifest.added_files_count == manifest.existing_files_count == 0:
            yield manifest


def live_entries(table: Table, manifest: ManifestFile, *, with_metrics: bool = True) -> Iterator[pa.RecordBatch]:
    """The live files of one manifest; no empty batches."""
    for batch in read_manifest(table.storage, manifest, table.metadata, with_metrics=with_metrics):
        live = pc.not_equal(batch.column("status"), DELETED)
        kept = batch.filter(live) if pc.any(pc.invert(live)).as_py() else batch
        if kept.num_rows:
            yield kept


def _live(
    table: Table, snapshot: Snapshot | None, content: ManifestContent, with_metrics: bool
) -> Iterator[pa.RecordBatch]:
    for manifest in live_manifests(table, snapshot, content):
        yield from live_entries(table, manifest, with_metrics=with_metrics)
