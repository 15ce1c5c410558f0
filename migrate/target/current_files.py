"""Checks that the files of a target exist before the target is reported as current.

The metadata folder is listed once, the target's own vectors, delete files and rewritten files by the folders that they
are in; data files that both tables share are the source's, and ``verify`` checks them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import suppress

import pyarrow as pa

from deltaberg.delta.snapshot import Snapshot
from deltaberg.errors import Conflict
from deltaberg.iceberg.manifest.manifest_list import read_manifest_list
from deltaberg.iceberg.metadata.metadata_location import VERSION_HINT, MetadataName, join_location, read_version_hint
from deltaberg.iceberg.table import Table
from deltaberg.migrate.target.existing_target import ExistingTarget
from deltaberg.migrate.target.locations import join
from deltaberg.migrate.target.own_files import own_files_of_adds, own_files_of_snapshot
from deltaberg.storage import NotFound, Storage, StorageError


def require_files(storage: Storage, root: str, held: ExistingTarget) -> None:
    """Raise Conflict unless the files that the newest state of a target needs are there."""
    if held.iceberg is not None:
        _require_metadata(storage, root, held.iceberg)
        rewritten = _has_rewritten(storage, root, held)
        _require(storage, root, own_files_of_snapshot(held.iceberg, rewritten=rewritten))
    if held.delta is not None and _may_own_files(storage, root, held, held.delta):
        adds = held.delta.add_files(check_totals=False)
        _require(storage, root, (own_files_of_adds(batch, root) for batch in adds))


def repair_hint(storage: Storage, held: ExistingTarget) -> tuple[str, ...]:
    """Repair a missing or stale ``version-hint.text``; returns the location of a repaired one.

    It is only a hint, and the table can be read without it: where it cannot be written it stays as it is.
    """
    folder, _, name = held.metadata_location.rpartition("/")
    parsed = MetadataName.parse(name)
    if held.iceberg is None or parsed is None or parsed.from_catalog:
        return ()
    location = join_location(folder, VERSION_HINT)
    with suppress(StorageError):
        if read_version_hint(storage, folder) != str(parsed.version):
            storage.put(location, str(parsed.version).encode())
            return (location,)
    return ()


def _require_metadata(storage: Storage, root: str, table: Table) -> None:
    """Manifest lists of all snapshots and manifests of the newest by name and size, those of older ones by their number."""
    sizes = {file.location: file.size for file in storage.list(table.metadata_folder)}
    names = {location.rpartition("/")[2]: size for location, size in sizes.items()}
    snapshots = table.metadata.snapshots
    lists = [each.manifest_list for each in snapshots if each.manifest_list is not None]
    _refuse(root, [each for each in lists if each.rpartition("/")[2] not in names])
    snapshot = table.metadata.current_snapshot
    if snapshot is not None:
        manifests = read_manifest_list(storage, snapshot, table.metadata)
        _refuse(
            root,
            [each.manifest_path for each in manifests if names.get(_name(each.manifest_path)) != each.manifest_length],
        )
    written = sum(int(each.summary.get("manifests-created", "0")) for each in snapshots)
    there = sum(name.endswith(".avro") for name in names) - len(lists)
    if there < written:
        raise _incomplete(root, f"{written - there} of {written} manifests are missing in {table.metadata_folder}")


def _require(storage: Storage, root: str, found: Iterable[pa.Array]) -> None:
    locations = pa.chunked_array([pa.array([], pa.string()), *found]).unique()
    if len(locations):
        there = storage.present(locations)
        _refuse(root, locations.filter(pa.array(~there)).to_pylist())


def _refuse(root: str, missing: list[str]) -> None:
    if missing:
        more = f" and {len(missing) - 1:,} more are" if len(missing) > 1 else " is"
        raise _incomplete(root, f"{missing[0]}{more} missing or not whole", path=missing[0])


def _incomplete(root: str, what: str, *, path: str | None = None) -> Conflict:
    return Conflict(
        f"Cannot use {root}: the table there is damaged, {what} (expected the files that deltaberg wrote); put them back, "
        f"or take the table away with deltaberg rollback {root} and convert again",
        path=path,
    )


def _may_own_files(storage: Storage, root: str, held: ExistingTarget, snapshot: Snapshot) -> bool:
    return snapshot.protocol.supports("deletionVectors") or _has_rewritten(storage, root, held)


def _has_rewritten(storage: Storage, root: str, held: ExistingTarget) -> bool:
    """Whether the conversion rewrote data files, by its plan document; True where there is none."""
    if held.plan_name is None:
        return True
    try:
        return bool(json.loads(storage.get(join(root, held.plan_name)))["rewritten_files"])
    except (NotFound, ValueError, KeyError, TypeError):
        return True


def _name(location: str) -> str:
    return location.rpartition("/")[2]
