"""The difference of two snapshots, from the manifests that they do not share (section "Snapshots").

Manifests that both list are not read, so that the cost is that of the change, except where a writer rewrote manifests.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.iceberg.deletes.delete_index import referenced_paths
from deltaberg.iceberg.manifest.live_files import live_entries, live_manifests
from deltaberg.iceberg.manifest.manifest_list import ManifestContent, ManifestFile
from deltaberg.iceberg.metadata.snapshot import Snapshot
from deltaberg.iceberg.table import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotChanges:
    """Data files by path. removed: of files that only the earlier snapshot has. touched: of files that both have and whose
    deletes differ; None where a delete file that came or went may concern any data file (equality deletes, and position
    deletes of several files). deletes: whether the later snapshot has deletes."""

    table: Table
    added: pa.Array = field(repr=False)
    removed: pa.Array = field(repr=False)
    deletes: bool
    touched: pa.Array | None = field(repr=False)
    _manifests: tuple[ManifestFile, ...] = field(repr=False)

    def added_files(self) -> Iterator[pa.RecordBatch]:
        """Files that only the later snapshot has: batches of ``data_file_schema``, each of one manifest."""
        if not len(self.added):
            return
        for manifest in self._manifests:
            for batch in live_entries(self.table, manifest):
                files = batch.filter(pc.is_in(batch.column("file_path"), value_set=self.added))
                if files.num_rows:
                    yield files

    @property
    def changes_nothing(self) -> bool:
        """Whether both snapshots have the same rows in the same files."""
        return not len(self.added) and not len(self.removed) and self.touched is not None and not len(self.touched)


def snapshot_changes(table: Table, before: Snapshot | None, after: Snapshot | None) -> SnapshotChanges:
    """Compare two snapshots of a table, of any two branches; None: no files. Raises the errors of reading manifests."""
    data_before, data_after = _apart(table, before, after, ManifestContent.DATA)
    former, present = _paths(table, data_before), _paths(table, data_after)
    added = present.filter(pc.invert(pc.is_in(present, value_set=former)))
    removed = former.filter(pc.invert(pc.is_in(former, value_set=present)))
    deletes = next(live_manifests(table, after, ManifestContent.DELETES), None) is not None
    touched = _touched(table, *_apart(table, before, after, ManifestContent.DELETES))
    if touched is not None:
        one_sided = pa.concat_arrays([added, removed])
        touched = touched.filter(pc.invert(pc.is_in(touched, value_set=one_sided)))
    return SnapshotChanges(
        table=table, added=added, removed=removed, deletes=deletes, touched=touched, _manifests=data_after
    )


def files_among(table: Table, snapshot: Snapshot, paths: pa.Array) -> Iterator[pa.RecordBatch]:
    """The live data files of a snapshot that have one of some paths, without their metrics."""
    if not len(paths):
        return
    left = len(paths)
    for manifest in live_manifests(table, snapshot, ManifestContent.DATA):
        for batch in live_entries(table, manifest, with_metrics=False):
            files = batch.filter(pc.is_in(batch.column("file_path"), value_set=paths))
            if files.num_rows:
                yield files
                left -= files.num_rows
        if left <= 0:
            return


def _apart(
    table: Table, before: Snapshot | None, after: Snapshot | None, content: ManifestContent
) -> tuple[tuple[ManifestFile, ...], tuple[ManifestFile, ...]]:
    """The manifests that only one of two snapshots lists."""
    old, new = (list(live_manifests(table, snapshot, content)) for snapshot in (before, after))
    old_paths, new_paths = ({each.manifest_path for each in manifests} for manifests in (old, new))
    return (
        tuple(each for each in old if each.manifest_path not in new_paths),
        tuple(each for each in new if each.manifest_path not in old_paths),
    )


def _paths(table: Table, manifests: Sequence[ManifestFile]) -> pa.Array:
    found = [
        batch.column("file_path")
        for manifest in manifests
        for batch in live_entries(table, manifest, with_metrics=False)
    ]
    return pa.concat_arrays([pa.array([], pa.string()), *found])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Deletes:
    """Delete entries: the identity of each, and the one data file that it is for, null where it may be for more."""

    keys: pa.Array
    files: pa.Array


def _touched(table: Table, before: Sequence[ManifestFile], after: Sequence[ManifestFile]) -> pa.Array | None:
    old, new = _deletes(table, before), _deletes(table, after)
    gone = old.files.filter(pc.invert(pc.is_in(old.keys, value_set=new.keys)))
    came = new.files.filter(pc.invert(pc.is_in(new.keys, value_set=old.keys)))
    files = pa.concat_arrays([gone, came])
    return None if files.null_count else pc.unique(files)


def _deletes(table: Table, manifests: Sequence[ManifestFile]) -> _Deletes:
    empty = pa.array([], pa.string())
    keys, files = [empty], [empty]
    for manifest in manifests:
        for batch in live_entries(table, manifest):
            offset = pc.fill_null(batch.column("content_offset"), -1).cast(pa.string())
            keys.append(pc.binary_join_element_wise(batch.column("file_path"), offset, "|"))
            files.append(referenced_paths(batch).cast(pa.string()))
    return _Deletes(keys=pa.concat_arrays(keys), files=pa.concat_arrays(files))
