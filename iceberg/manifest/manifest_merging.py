"""Merging small manifests into ones of the target size, so that planning reads few files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.iceberg.manifest.data_file import ADDED, DELETED, EXISTING
from deltaberg.iceberg.manifest.file_entries import with_columns
from deltaberg.iceberg.manifest.manifest_list import UNASSIGNED_SEQUENCE_NUMBER, ManifestContent, ManifestFile
from deltaberg.iceberg.manifest.manifest_reader import read_manifest
from deltaberg.iceberg.manifest.rolling_manifests import ManifestFolder, NewManifest
from deltaberg.iceberg.metadata.table_metadata import TableMetadata
from deltaberg.storage import Storage

_NO_NUMBER: Final = pa.scalar(None, pa.int64())
# A new manifest is read with this row id, to distinguish ids that its entries state from those still to be assigned.
_OPEN_ROW_ID: Final = 1 << 62


def merge_bins(manifests: list[ManifestFile], *, target_size: int, min_count: int) -> list[list[ManifestFile]]:
    """Manifests of one spec and kind, newest first, in groups that each become one; a group of one stays as it is.

    Groups are filled from the oldest on, so that the newest one may be small. It is merged only once it has
    ``min_count`` manifests, which keeps frequent commits cheap.
    """
    bins: list[list[ManifestFile]] = []
    size = 0
    for manifest in reversed(manifests):
        if not bins or size + manifest.manifest_length > target_size:
            bins.append([])
            size = 0
        bins[-1].insert(0, manifest)
        size += manifest.manifest_length
    bins.reverse()
    if bins and len(bins[0]) < min_count:
        bins[:1] = [[manifest] for manifest in bins[0]]
    return bins


def merge_manifests(
    group: list[ManifestFile], *, folder: ManifestFolder, storage: Storage, metadata: TableMetadata
) -> tuple[NewManifest, ...]:
    """One manifest out of several. Entries that this snapshot added or deleted keep that status; deletions of
    former snapshots are dropped, and all other entries are existing."""

    def entries() -> Iterator[pa.RecordBatch]:
        for manifest in group:
            new = manifest.sequence_number == UNASSIGNED_SEQUENCE_NUMBER
            readable = replace(manifest, first_row_id=_OPEN_ROW_ID) if new else manifest
            for batch in read_manifest(storage, readable, metadata):
                yield _carried(batch, folder.snapshot_id, new=new)

    first = group[0]
    return folder.write_all(
        entries(),
        spec=metadata.spec_by_id(first.partition_spec_id),
        schemas=metadata.schemas_newest_first,
        content=first.content,
    )


def _carried(batch: pa.RecordBatch, snapshot_id: int, *, new: bool) -> pa.RecordBatch:
    status = batch.column("status")
    ours = pc.fill_null(pc.equal(batch.column("snapshot_id"), snapshot_id), False)
    dropped = pc.and_not(pc.equal(status, DELETED), ours)
    kept = pc.and_(pc.not_equal(status, EXISTING), ours)
    columns = {"status": pc.if_else(kept, status, pa.scalar(EXISTING, pa.int32()))}
    if new:
        added = pc.equal(status, ADDED)
        for name in ("sequence_number", "file_sequence_number"):
            values = batch.column(name)
            open_number = pc.and_(added, pc.equal(values, UNASSIGNED_SEQUENCE_NUMBER))
            columns[name] = pc.if_else(pc.fill_null(open_number, False), _NO_NUMBER, values)
        ids = batch.column("first_row_id")
        columns["first_row_id"] = pc.if_else(pc.fill_null(pc.less(ids, _OPEN_ROW_ID), False), ids, _NO_NUMBER)
    return with_columns(batch, columns).filter(pc.invert(dropped))


def by_spec(manifests: list[ManifestFile]) -> dict[tuple[ManifestContent, int], list[ManifestFile]]:
    """Manifests grouped by kind and spec, data first, each group in the order given."""
    groups: dict[tuple[ManifestContent, int], list[ManifestFile]] = {}
    for content in ManifestContent:
        for manifest in manifests:
            if manifest.content is content:
                groups.setdefault((content, manifest.partition_spec_id), []).append(manifest)
    return groups
