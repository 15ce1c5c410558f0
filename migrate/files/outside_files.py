"""Files that a table's metadata names outside the table's own folder: counted by folder, with their findings.

They are only named here. Whether a place may be read is decided where it is read (``deltaberg.storage.access_policy``).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.delta.log.add_path import decode_paths
from deltaberg.iceberg.manifest.manifest_list import read_manifest_list
from deltaberg.iceberg.metadata.snapshot import Snapshot
from deltaberg.migrate.source import DeltaSource, IcebergSource, Source
from deltaberg.migrate.target.target_root import ICEBERG_FOLDER
from deltaberg.storage import GuardedStorage, Storage
from deltaberg.storage.guarded_storage import unguarded_places
from deltaberg.storage.location_roots import Roots
from deltaberg.translate.codes import OTHER_STORE, OUTSIDE_ALLOWED, OUTSIDE_FILES
from deltaberg.translate.findings import Finding

NAMED: Final = 20
"""The number of folders that get a finding of their own."""

_DV_UUID: Final = r"(?s).{20}$"


def own_folder(source: Source) -> str:
    """The folder whose files are the table's own, resolved. An Iceberg table in ``_iceberg`` belongs to the table around it,
    whose data files it lists."""
    folder = source.storage.resolve(source.folder).rstrip("/")
    return folder.removesuffix(f"/{ICEBERG_FOLDER}")


def outside_of(source: Source) -> Roots:
    """Counts nothing yet."""
    return Roots(own=own_folder(source))


def outside_findings(outside: Roots, storage: Storage) -> list[Finding]:
    """One finding for each of the folders with the most files, and one for the rest."""
    named = outside.named()
    found = []
    for folder, files in named[:NAMED]:
        code = OUTSIDE_FILES
        if isinstance(storage, GuardedStorage):
            readable = storage.policy.reads(f"{folder}x")
            code = OTHER_STORE if not readable else OUTSIDE_ALLOWED if storage.policy.allows(f"{folder}x") else code
        found.append(Finding(code=code, what=folder, files=files))
    rest = sum(files for _, files in named[NAMED:]) + outside.more
    if rest:
        count = f"{'more than ' if outside.more else ''}{len(named) - NAMED} more folders"
        found.append(Finding(code=OUTSIDE_FILES, what=f"and {count}", files=rest))
    return found


def count_files(outside: Roots, storage: Storage, locations: pa.Array) -> None:
    """Add files by the locations that the metadata gives them, whether they may be read or not."""
    outside.add(unguarded_places(storage, locations))


def count_metadata_files(outside: Roots, source: IcebergSource, snapshots: Iterable[Snapshot]) -> None:
    """Add the manifest lists, manifests and statistics files of an Iceberg table."""
    metadata = source.table.metadata
    places = [source.table.metadata_location]
    places.extend(each.statistics_path for each in metadata.statistics)
    places.extend(each.statistics_path for each in metadata.partition_statistics)
    for snapshot in snapshots:
        if snapshot.manifest_list is not None:
            places.append(snapshot.manifest_list)
        places.extend(manifest.manifest_path for manifest in read_manifest_list(source.storage, snapshot, metadata))
    count_files(outside, source.storage, pa.array(list(dict.fromkeys(places)), pa.string()))


def count_sidecars(outside: Roots, source: DeltaSource) -> None:
    """Add the sidecars of a Delta table's checkpoint."""
    count_files(outside, source.storage, pa.array(source.snapshot.sidecar_locations, pa.string()))


def count_vector_files(outside: Roots, source: DeltaSource, vectors: pa.Array) -> None:
    """Add the files of deletion vectors: those by absolute path, and those below the table whose prefix leads out of it.

    vectors: ADD_SCHEMA's ``deletion_vector``.
    """
    if vectors.null_count == len(vectors):
        return
    kinds, texts = pc.struct_field(vectors, "storage_type"), pc.struct_field(vectors, "path_or_inline_dv")
    absolute = decode_paths(texts.filter(pc.fill_null(pc.equal(kinds, "p"), False)))
    below = pc.replace_substring_regex(texts.filter(pc.fill_null(pc.equal(kinds, "u"), False)), _DV_UUID, "")
    leading_out = below.filter(pc.match_substring(below, ".."))
    root = source.snapshot.table_root
    climbing = pc.binary_join_element_wise(pa.scalar(f"{root}/"), leading_out, pa.scalar("/x"), "")
    # Several vectors share a file.
    places = pc.unique(pa.concat_arrays([absolute.cast(pa.string()), climbing.cast(pa.string())]))
    if len(places):
        count_files(outside, source.storage, places)
