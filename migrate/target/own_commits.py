"""Which commits of a target are deltaberg's own, and which runs made them."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping

from deltaberg.delta.log.actions import CommitInfo
from deltaberg.delta.log.commit_reader import read_action_lines
from deltaberg.delta.log.log_path import LogFile, LogFileKind, parse_log_file
from deltaberg.delta.table import DeltaTable
from deltaberg.iceberg.metadata.metadata_location import MetadataName, is_metadata_file
from deltaberg.iceberg.table import Table
from deltaberg.migrate.target.run_document import RunId
from deltaberg.migrate.target.watermark import RUN_KEY, WATERMARK_KEY
from deltaberg.storage import Storage


def commit_note(storage: Storage, location: str, version: int) -> tuple[CommitInfo | None, bool]:
    """``commitInfo`` of a commit, and whether there is nothing else in it. Raises CorruptLog, NotFound."""
    found = storage.head(location)
    commit = LogFile(
        location=location, version=version, kind=LogFileKind.COMMIT, size=found.size, modified_ms=found.modified_ms
    )
    info, is_note = None, True
    for piece in read_action_lines(storage, [commit]):
        is_note = is_note and not len(piece.lines) and all(action.name == "commitInfo" for action in piece.small)
        info = info or next((CommitInfo(raw=each.body) for each in piece.small if each.name == "commitInfo"), None)
    return info, is_note


def sync_runs_of_delta(table: DeltaTable) -> tuple[RunId, ...] | None:
    """The syncs that committed to a Delta target, by the commits that are there; None where somebody else changed it.

    Version 0 is the target's own in any case; VACUUM's notes change nothing.
    """
    runs: dict[RunId, None] = {}
    for file in table.storage.list(table.log_folder):
        parsed = parse_log_file(file.location)
        if parsed is None or parsed.kind is not LogFileKind.COMMIT or parsed.version == 0:
            continue
        info, is_note = commit_note(table.storage, file.location, parsed.version)
        if info is not None and WATERMARK_KEY in info.raw:
            runs.update(dict.fromkeys(_run(info.raw)))
        elif not is_note:
            return None
    return tuple(runs)


def sync_runs_of_iceberg(table: Table) -> tuple[RunId, ...] | None:
    """The syncs that committed to an Iceberg target; None where somebody else changed it, be it only a property.

    Each commit of deltaberg's makes a snapshot current that says so, which no other metadata file has as the current one.
    """
    heads: set[int | None] = set()
    for file in table.storage.list(table.metadata_folder):
        name = MetadataName.parse(file.location.rpartition("/")[2])
        if not is_metadata_file(file.location) or (name is not None and name.version == 1 and not name.from_catalog):
            continue
        if name is None or name.from_catalog:
            return None
        metadata = Table.open(file.location, table.storage).metadata
        head = metadata.current_snapshot
        if head is None or head.snapshot_id in heads:
            return None
        heads.add(head.snapshot_id)
    if any(WATERMARK_KEY not in each.summary for each in table.metadata.snapshots):
        return None
    return tuple(dict.fromkeys(run for each in table.metadata.snapshots for run in _run(each.summary)))


def _run(stated: Mapping[str, object]) -> Iterator[RunId]:
    try:
        yield RunId(value=uuid.UUID(str(stated[RUN_KEY])))
    except (KeyError, ValueError):
        return
