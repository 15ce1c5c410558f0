"""Roll back what deltaberg wrote: the metadata of a target, the files that it wrote for it, and the files of dead
conversions.

Never a file of a source, and none that deltaberg did not write: files go by the name that the conversion gave them, the few
whose names the formats fix (``v1.metadata.json``, ``N.json``) only where all commits of the table are deltaberg's own. The
table is made invisible first, and a run document tells of the rest as long as it is there, so that a rollback that was
cut short can be repeated.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from deltaberg.delta.commit.distributed_create import FIRST_VERSION, creation_lock_of
from deltaberg.delta.log.log_path import (
    LAST_CHECKPOINT,
    SIDECAR_FOLDER,
    LogFileKind,
    commit_name,
    log_folder,
    parse_log_file,
)
from deltaberg.delta.table import DeltaTable
from deltaberg.errors import Conflict, NotATable, UsageError
from deltaberg.iceberg.metadata.metadata_location import VERSION_HINT, MetadataName, is_metadata_file
from deltaberg.migrate.publish.lease import lease_files, read_lease
from deltaberg.migrate.source import TableFormat
from deltaberg.migrate.target.existing_target import ExistingTarget, existing_target
from deltaberg.migrate.target.interrupted_create import VECTORS_FOLDER
from deltaberg.migrate.target.locations import join
from deltaberg.migrate.target.orphans import delete_abandoned, files_of_runs, own_folders
from deltaberg.migrate.target.own_commits import sync_runs_of_delta, sync_runs_of_iceberg
from deltaberg.migrate.target.run_document import RunDocument, RunId, put_run_document, run_documents
from deltaberg.migrate.target.target_root import ICEBERG_FOLDER
from deltaberg.migrate.to_delta.entries import HIDDEN_FOLDER
from deltaberg.storage import Storage, StorageError, is_dead


@dataclass(frozen=True, slots=True, kw_only=True)
class RollbackReport:
    """The files that a rollback deletes, or deleted.

    target: the folder. format: of the table there. watermark: the source state that it held; None where no table is
    visible and only files of conversions are left. files: in the order of their deletion. done: whether they are
    deleted. unsure: run documents of conversions that may still be running.
    """

    target: str
    format: str
    watermark: dict[str, Any] | None
    files: tuple[str, ...]
    unsure: tuple[str, ...]
    done: bool

    def to_json(self) -> dict[str, Any]:
        return {
            "target": self.target,
            "format": self.format,
            "position": self.watermark,
            "files": list(self.files),
            "unsure": list(self.unsure),
            "done": self.done,
        }


def rollback(
    storage: Storage, target: str, *, format: TableFormat | None = None, dry_run: bool = False
) -> RollbackReport:
    """Roll back what deltaberg wrote to a folder; ``dry_run``: name the files and delete nothing. No other process may
    write there meanwhile.

    format: of the target, where conversions to both wrote to the folder. Raises Conflict where another writer committed
    to the table or a conversion still runs, NotATable where deltaberg wrote nothing.
    """
    root = target.rstrip("/") or "/"
    chosen = _chosen(storage, root, format)
    runs = run_documents(storage, root, chosen)
    for document in runs:
        if document.is_dead is False:
            raise Conflict(
                f"Cannot roll back {root}: a conversion to it is running ({document.location}); wait for its end",
                path=document.location,
            )
    lease = read_lease(storage, root, chosen)
    if lease is not None and lease.is_held and is_dead(lease.process) is False:
        raise Conflict(
            f"Cannot roll back {root}: a publisher is at work on it ({lease.owner}); wait for its end", path=root
        )
    if _is_made_from(storage, root, chosen.other, chosen):
        raise Conflict(
            f"Cannot roll back the {chosen.value} table at {root}: the {chosen.other.value} table there was made from it "
            "and would lose its source; roll that one back first",
            table=root,
        )
    held = _held(storage, root, chosen)
    committed = () if held is None else _own_runs(storage, root, held)
    own = dict.fromkeys([*committed, *(each.run for each in runs)])
    fixed = tuple(_fixed_files(storage, root, chosen, held))
    files = (*fixed, *_named_files(storage, root, chosen, own, runs))
    if not files:
        raise _nothing_there(storage, root)
    files = (*files, *(file.location for _, file in lease_files(storage, root, chosen)))
    if not dry_run:
        for run in committed:
            put_run_document(storage, root, run, chosen)
        for location in files:
            storage.delete(location)
        for run in own:
            storage.delete(join(root, run.document_name))
        _delete_folders(storage, root, chosen, files)
    return RollbackReport(
        target=root,
        format=chosen.value,
        watermark=None if held is None or held.watermark is None else held.watermark.to_json(),
        files=files,
        unsure=tuple(each.location for each in runs if each.is_dead is None),
        done=not dry_run,
    )


def _chosen(storage: Storage, root: str, format: TableFormat | None) -> TableFormat:
    """The format whose target the folder is."""
    if is_metadata_file(root):
        raise UsageError(f"Cannot roll back {root}: it is a file (expected the folder of a target)")
    if format is not None:
        return format
    found = [each for each in TableFormat if _wrote(storage, root, each)]
    if len(found) > 1:
        found = [each for each in found if _is_made_from(storage, root, each, each.other)] or found
    if len(found) > 1:
        raise UsageError(
            f"Cannot roll back {root}: deltaberg wrote tables of both formats there; say which one with --format"
        )
    if not found:
        raise _nothing_there(storage, root)
    return found[0]


def _wrote(storage: Storage, root: str, format: TableFormat) -> bool:
    return (
        _held(storage, root, format) is not None
        or bool(run_documents(storage, root, format))
        or (format is TableFormat.DELTA and creation_lock_of(storage, root) is not None)
    )


def _held(storage: Storage, root: str, format: TableFormat) -> ExistingTarget | None:
    """The watermark of the table in the folder; None where there is no table, or one that is not deltaberg's, which
    stays.
    """
    second = join(log_folder(root), commit_name(FIRST_VERSION))
    if format is TableFormat.DELTA and creation_lock_of(storage, root) is not None and not storage.exists(second):
        return None
    held = existing_target(storage, root, format)
    return None if held is None or held.watermark is None else held


def _is_made_from(storage: Storage, root: str, made: TableFormat, source: TableFormat) -> bool:
    """Whether the target of one format in a folder was made from the target of the other one there."""
    one, other = _held(storage, root, made), _held(storage, root, source)
    if one is None or one.watermark is None or other is None:
        return False
    if other.iceberg is not None:
        return one.watermark.uuid == other.iceberg.metadata.table_uuid
    return other.delta is not None and one.watermark.uuid == other.delta.metadata.id


def _nothing_there(storage: Storage, root: str) -> NotATable:
    below = join(root, ICEBERG_FOLDER)
    there = any(True for _ in storage.list(join(below, HIDDEN_FOLDER)))
    hint = f"; the table that it wrote stands in {below}" if there else ""
    return NotATable(f"Cannot roll back {root}: deltaberg wrote nothing there{hint}", table=root)


def _own_runs(storage: Storage, root: str, held: ExistingTarget) -> tuple[RunId, ...]:
    """The conversion that made a table, and the syncs since. Raises Conflict where somebody else has committed to it."""
    run = RunId.of_plan(held.plan_name)
    syncs = None
    if held.iceberg is not None:
        syncs = sync_runs_of_iceberg(held.iceberg)
    elif held.delta is not None:
        syncs = sync_runs_of_delta(DeltaTable.open(root, storage))
    if not held.untouched or syncs is None:
        raise Conflict(
            f"Cannot roll back {root}: somebody else has committed to it since deltaberg wrote it; what was written since "
            "would be lost: take the table away by hand if that is meant",
            table=root,
        )
    if run is None:
        raise Conflict(
            f"Cannot roll back {root}: it does not say which files were written for it (property deltaberg.plan); take the "
            "table away by hand",
            table=root,
        )
    return (run, *syncs)


def _fixed_files(storage: Storage, root: str, format: TableFormat, held: ExistingTarget | None) -> Iterator[str]:
    """Files whose names the formats fix, in the order in which they go: from the first on no reader finds half a table.

    A log loses what tells of its newest version first and its oldest commit last, so that it is whole at every moment; so do
    the metadata files of a table.
    """
    if format is TableFormat.ICEBERG:
        if held is not None:
            folder = held.metadata_location.rpartition("/")[0]
            yield from (each for each in (join(folder, VERSION_HINT),) if storage.exists(each))
            named = ((MetadataName.parse(file.location.rpartition("/")[2]), file) for file in storage.list(folder))
            versions = {file.location: name.version for name, file in named if name is not None}
            yield from sorted(versions, key=lambda location: -versions[location])
        return
    log = log_folder(root)
    if held is None and creation_lock_of(storage, root) is None:
        return
    files = list(storage.list(log, recursive=True))
    parsed = sorted(
        (file for file in map(parse_log_file, (each.location for each in files)) if file is not None),
        key=lambda file: (file.kind is LogFileKind.COMMIT, -file.version, file.part or 0),
    )
    yield from (each.location for each in files if each.location == join(log, LAST_CHECKPOINT))
    yield from (file.location for file in parsed)
    yield from (each.location for each in files if each.location.startswith(join(log, SIDECAR_FOLDER, "")))


def _named_files(
    storage: Storage, root: str, format: TableFormat, runs: Iterable[RunId], documents: tuple[RunDocument, ...]
) -> Iterator[str]:
    """Files that are there under names of a conversion's own; vectors that many processes wrote have a folder's instead."""
    if format is TableFormat.DELTA:
        vectors = join(root, HIDDEN_FOLDER, VECTORS_FOLDER)
        for file in list(storage.list(join(root, HIDDEN_FOLDER), recursive=True)):
            if file.location.startswith(vectors):
                yield file.location
    there = {each.location for each in documents}
    for location in files_of_runs(storage, root, format, runs):
        if location in there or not location.rpartition("/")[2].startswith("run-"):
            yield location


def _delete_folders(storage: Storage, root: str, format: TableFormat, files: tuple[str, ...]) -> None:
    """The folders that are empty now, innermost first; a folder that holds anything else stays."""
    delete_abandoned(storage, root, format)
    folders = {location.rpartition("/")[0] for location in files} | set(own_folders(root, format))
    if format is TableFormat.DELTA:
        folders.add(log_folder(root))
    for folder in sorted(folders, key=len, reverse=True):
        with suppress(StorageError):
            storage.delete_folder(folder)
    with suppress(StorageError):
        storage.delete_folder(root)
