"""Which files below its own folder a target lists: rewritten data files, deletion vectors, delete files."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.delta.commit.distributed_create import FIRST_VERSION
from deltaberg.delta.deletion_vector.deletion_vector import descriptors
from deltaberg.delta.errors import VersionNotFound
from deltaberg.delta.log.add_path import location_array
from deltaberg.delta.table import DeltaTable
from deltaberg.iceberg.manifest.live_files import data_files, delete_files, live_entries
from deltaberg.iceberg.manifest.manifest_list import read_manifest_list
from deltaberg.iceberg.table import Table
from deltaberg.migrate.target.locations import join
from deltaberg.migrate.to_delta.entries import HIDDEN_FOLDER


def own_files_of_adds(adds: pa.RecordBatch, root: str) -> pa.Array:
    """Locations, of rows of ADD_SCHEMA of the Delta table at ``root``."""
    folder = join(root, HIDDEN_FOLDER, "")
    paths = location_array(adds, root)
    vectors = adds.column("deletion_vector")
    stored = vectors.filter(pc.fill_null(pc.not_equal(pc.struct_field(vectors, "storage_type"), "i"), False))
    places = dict.fromkeys(each.location(root) for each in descriptors(stored) if each is not None)
    every = pa.concat_arrays([paths.cast(pa.string()), pa.array(list(places), pa.string())])
    return every.filter(pc.starts_with(every, folder))


def own_files_of_log(table: DeltaTable) -> Iterator[str]:
    """Locations, of every version of a Delta table, of which one made in parts begins with its checkpoint. Raises
    VersionNotFound where commits are gone."""
    try:
        for actions in table.commits(0):
            if actions.adds.num_rows:
                yield from own_files_of_adds(actions.adds, table.location).to_pylist()
    except VersionNotFound:
        snapshot = table.snapshot()
        if snapshot.version != FIRST_VERSION:
            raise
        for adds in snapshot.add_files(check_totals=False):
            yield from own_files_of_adds(adds, table.location).to_pylist()


def files_of_table(table: Table) -> Iterator[str]:
    """Locations of all files that any snapshot of an Iceberg table needs, data files of the target's source included: manifest
    lists, manifests, what these list as live, and statistics."""
    metadata = table.metadata
    yield from (each.statistics_path for each in metadata.statistics)
    yield from (each.statistics_path for each in metadata.partition_statistics)
    read: set[str] = set()
    for snapshot in metadata.snapshots:
        if snapshot.manifest_list is not None:
            yield snapshot.manifest_list
        for manifest in read_manifest_list(table.storage, snapshot, metadata):
            if manifest.manifest_path in read:
                continue
            read.add(manifest.manifest_path)
            yield manifest.manifest_path
            for batch in live_entries(table, manifest, with_metrics=False):
                yield from batch.column("file_path").to_pylist()


def own_files_of_snapshot(table: Table, *, rewritten: bool) -> Iterator[pa.Array]:
    """Locations, of the current snapshot of an Iceberg table; ``rewritten``: data files, too."""
    folder = join(table.location, "data", "")
    snapshot = table.metadata.current_snapshot
    kinds = [delete_files(table, snapshot)]
    if rewritten:
        kinds.append(data_files(table, snapshot, with_metrics=False))
    for batches in kinds:
        for batch in batches:
            paths = batch.column("file_path").unique()
            yield paths.filter(pc.starts_with(paths, folder))
