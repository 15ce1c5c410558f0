"""Files of conversions that died before they were done: found by their run documents, deleted where that is safe.

The files of a conversion may be deleted once they can never be committed, because another conversion holds the target's
only first commit. Files of a conversion that may still be running are left to it. Files of conversions that are not
proven dead are deleted only by ``convert --clean`` and ``rollback``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Final

from deltaberg.delta.commit.distributed_create import creation_lock_of, recover
from deltaberg.delta.errors import VersionNotFound
from deltaberg.delta.log.log_path import log_folder
from deltaberg.delta.table import DeltaTable
from deltaberg.errors import NotATable
from deltaberg.iceberg.table import Table
from deltaberg.migrate.source import TableFormat
from deltaberg.migrate.target.locations import join
from deltaberg.migrate.target.own_files import files_of_table, own_files_of_log
from deltaberg.migrate.target.run_document import RunDocument, RunId, run_documents
from deltaberg.migrate.to_delta.entries import HIDDEN_FOLDER
from deltaberg.storage import Storage, StorageError

_LONG_AGO_MS: Final = 24 * 3600 * 1000
"""After which a conversion of another machine counts as dead."""


def own_folders(root: str, to: TableFormat) -> tuple[str, ...]:
    """The folders below a target's root in which files of a conversion stand whose names are its own."""
    if to is TableFormat.DELTA:
        return (join(root, HIDDEN_FOLDER),)
    return (join(root, HIDDEN_FOLDER), join(root, "data"), join(root, "metadata"))


def files_of_runs(storage: Storage, root: str, to: TableFormat, runs: Iterable[RunId]) -> Iterator[str]:
    """Locations of the files that conversions wrote under names of their own, run documents last."""
    known = tuple(runs)
    documents = {join(root, run.document_name) for run in known}
    for folder in own_folders(root, to):
        for file in list(storage.list(folder, recursive=True)):
            name = file.location[len(folder) :]
            if file.location not in documents and any(run.named(name) for run in known):
                yield file.location
    yield from sorted(documents)


def end_run(storage: Storage, root: str, run: RunId) -> None:
    """A conversion is done: delete its document. Where that fails, the next run does it."""
    _delete(storage, join(root, run.document_name))


def delete_dead_runs(
    storage: Storage,
    root: str,
    to: TableFormat,
    *,
    committed: RunId | None,
    now_ms: int,
    resumed: bool = False,
    overtaken: bool = False,
) -> list[str]:
    """Delete the files that dead conversions left beside a complete table; returns them without the run documents.

    committed: the conversion that made the table; resumed: whether several runs carried it on, one after the other.
    overtaken: whether the caller has just committed to the table, so that no earlier sync can do it any more. What cannot
    be deleted is left for the next time.
    """
    documents = run_documents(storage, root, to)
    dead = [each for each in documents if _is_dead(each, now_ms, overtaken=overtaken)]
    return _delete_runs(
        storage, root, to, dead, committed, with_committed=len(dead) == len(documents) and (resumed or bool(dead))
    )


def delete_all_runs(storage: Storage, root: str, to: TableFormat, *, committed: RunId | None) -> list[str]:
    """Delete the files of all conversions except those certain to be running; the caller states that the others are
    not.

    committed: as in ``delete_dead_runs``; None where there is no table.
    """
    creation_lock = creation_lock_of(storage, root) if to is TableFormat.DELTA and committed is None else None
    if creation_lock is not None:
        recover(storage, root, creation_lock=creation_lock)
    documents = run_documents(storage, root, to)
    dead = [each for each in documents if each.is_dead is not False]
    return _delete_runs(storage, root, to, dead, committed, with_committed=bool(dead) and len(dead) == len(documents))


def _delete_runs(
    storage: Storage,
    root: str,
    to: TableFormat,
    dead: list[RunDocument],
    committed: RunId | None,
    *,
    with_committed: bool,
) -> list[str]:
    """``with_committed``: also what runs of the conversion that made a Delta table wrote and no version lists."""
    removed: list[str] = []
    runs = dict.fromkeys(each.run for each in dead if to is TableFormat.DELTA or each.run != committed)
    if with_committed and committed is not None and to is TableFormat.DELTA:
        runs[committed] = None
    listed = _listed(storage, root, to, committed, runs) if runs else None
    if listed is not None:
        for run in runs:
            removed += delete_run(storage, root, to, run, kept=listed)
    for document in dead:
        if document.run == committed and to is TableFormat.ICEBERG:
            _delete(storage, document.location)
    delete_abandoned(storage, root, to)
    return removed


def _listed(
    storage: Storage, root: str, to: TableFormat, committed: RunId | None, runs: Iterable[RunId]
) -> frozenset[str] | None:
    """What must stay whatever its name: all that any version or snapshot of the table lists, since several runs may have
    carried one replay on under the same names, a sync may have died behind its commit, and the plan document. None where
    nothing may be deleted: a cleaner took commits away, so that nothing says what they listed, or files that are listed are
    not there under these very names."""
    if to is TableFormat.ICEBERG:
        return _listed_by_iceberg(storage, root, runs)
    if committed is None:
        return frozenset()
    there = {file.location for file in storage.list(join(root, HIDDEN_FOLDER), recursive=True)}
    try:
        listed = frozenset(own_files_of_log(DeltaTable.open(root, storage)))
    except VersionNotFound:
        return None
    plan = join(root, HIDDEN_FOLDER, "plan-")
    plans = {each for each in there if each.startswith(plan) and str(committed.value) in each}
    return listed | plans if listed <= there else None


def _listed_by_iceberg(storage: Storage, root: str, runs: Iterable[RunId]) -> frozenset[str]:
    """The files of some runs that the snapshots of an Iceberg table list; whether they do is a matter of their names, which
    nothing else has."""
    documents = join(root, HIDDEN_FOLDER, "")
    left = [each for each in files_of_runs(storage, root, TableFormat.ICEBERG, runs) if not each.startswith(documents)]
    if not left:
        return frozenset()
    try:
        table = Table.open(root, storage)
    except NotATable:
        return frozenset()
    listed = {path.rpartition("/")[2] for path in files_of_table(table)}
    return frozenset(each for each in left if each.rpartition("/")[2] in listed)


def delete_run(
    storage: Storage, root: str, to: TableFormat, run: RunId, *, kept: frozenset[str] = frozenset()
) -> list[str]:
    """Delete the files of one conversion whose names are its own, its document last, and the folders of its own that
    are empty then; returns the deleted files without the document.
    """
    removed: list[str] = []
    folders: set[str] = set()
    for location in files_of_runs(storage, root, to, (run,)):
        if location in kept:
            continue
        if not _delete(storage, location):
            return removed  # its document stays, so that the rest is found again
        removed.append(location)
        folder = location.rpartition("/")[0]
        if run.named(folder.rpartition("/")[2]):
            folders.add(folder)
    for folder in sorted(folders, reverse=True):
        with suppress(StorageError):
            storage.delete_unfinished(folder)
            storage.delete_folder(folder)
    return removed[:-1]


def delete_abandoned(storage: Storage, root: str, to: TableFormat) -> None:
    """Delete what processes left in a target's folders that died while they wrote a file."""
    folders = [*own_folders(root, to), *((log_folder(root),) if to is TableFormat.DELTA else ())]
    for folder in folders:
        with suppress(StorageError):
            storage.delete_abandoned(folder)


def _delete(storage: Storage, location: str) -> bool:
    try:
        storage.delete(location)
    except StorageError:
        return False
    return True


def _is_dead(document: RunDocument, now_ms: int, *, overtaken: bool) -> bool:
    """A sync may commit as long as the table is as the sync found it: of one that died, the store may still be carrying out
    the last request."""
    if document.goes_on and not overtaken:
        return False
    dead = document.is_dead
    return now_ms - document.written_ms > _LONG_AGO_MS if dead is None else dead
