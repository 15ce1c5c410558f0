"""What keeps a target from going on where it is: a change that neither the source's history nor deltaberg made.

Looked up before anything is written. Notes of VACUUM, and commits after which the same files hold the same rows (rewritten
manifests), are no drift.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from enum import Enum
from typing import Final

import pyarrow.compute as pc

from deltaberg.delta.errors import VersionNotFound
from deltaberg.delta.log.log_path import commit_name, log_folder
from deltaberg.delta.table import DeltaTable
from deltaberg.errors import Conflict
from deltaberg.iceberg.manifest.manifest_list import read_manifest_list
from deltaberg.iceberg.metadata.snapshot import Snapshot
from deltaberg.iceberg.snapshot_write.snapshot_changes import snapshot_changes
from deltaberg.iceberg.table import Table
from deltaberg.migrate.source import Source, TableFormat
from deltaberg.migrate.target.existing_target import ExistingTarget, require_same_past
from deltaberg.migrate.target.locations import join
from deltaberg.migrate.target.own_commits import commit_note
from deltaberg.migrate.target.run_document import RunId, run_documents
from deltaberg.migrate.target.watermark import WATERMARK_KEY, Watermark
from deltaberg.migrate.to_delta.entries import HIDDEN_FOLDER
from deltaberg.storage import NotFound, Storage

_OTHER_TOOLS: Final = {"XTABLE_METADATA": "Apache XTable", "delta-version": "Delta UniForm"}
"""By a property that the tool sets."""
_LARGEST_PLAN: Final = 1 << 26


class DriftKind(Enum):
    """What has drifted."""

    FOREIGN_COMMIT = "foreign-commit"
    COMPACTED = "target-compacted"
    OTHER_TOOL = "other-tool"
    TARGET_DELETED = "target-deleted"
    TARGET_SET_BACK = "target-set-back"
    FILES_MISSING = "target-files-missing"
    SOURCE_RECREATED = "source-recreated"
    SOURCE_SET_BACK = "source-set-back"
    HISTORY_GONE = "source-history-gone"


class Drift(Conflict):
    """A target cannot go on from its watermark; exit code 5. kind: what has drifted."""

    def __init__(self, kind: DriftKind, root: str, reason: str, *, path: str | None = None) -> None:
        super().__init__(
            f"Cannot go on with {root}: {kind.value}: {reason}; choose another --target, or leave this one as it is with "
            "--on-drift keep",
            path=path or root,
        )
        self.kind = kind


def require_not_deleted(storage: Storage, root: str, to: TableFormat) -> None:
    """Raise Drift where a folder without a table has the plan by which one was made, and no conversion is under way."""
    folder = join(root, HIDDEN_FOLDER)
    under_way = {each.run for each in run_documents(storage, root, to)}
    for file in storage.list(folder):
        name = file.location.rpartition("/")[2]
        run = RunId.of_plan(name)
        if run is None or run in under_way or file.size > _LARGEST_PLAN:
            continue
        try:
            made = json.loads(storage.get(file.location))["target"]["format"]
        except (NotFound, ValueError, KeyError, TypeError):
            continue
        if made == to.value:
            raise Drift(
                DriftKind.TARGET_DELETED,
                root,
                f"there was a table, which {name} tells of, and it is gone; to have it again, delete "
                f"{file.location} first",
                path=file.location,
            )


def require_no_drift(held: ExistingTarget, watermark: Watermark, source: Source, root: str) -> Watermark:
    """How far the target has come. Raises Drift where that is not a state that the source came from."""
    before = held.watermark
    if before is None:
        raise Drift(DriftKind.OTHER_TOOL, root, f"it holds a table that {_writer(held)} wrote, and not deltaberg")
    if before.app_id != watermark.app_id:
        raise Drift(
            DriftKind.SOURCE_RECREATED,
            root,
            f"it holds {before.describe()} (expected {watermark.describe()}): the source was recreated, or is another table",
        )
    if held.iceberg is not None:
        _require_own_iceberg(held.iceberg, before, root)
        try:
            if not before.is_same_state(watermark):
                require_same_past(before, watermark, source, root)
        except Conflict as error:
            raise Drift(DriftKind.SOURCE_SET_BACK, root, error.message) from error
        if (before.version or 0) > (watermark.version or 0):
            raise Drift(
                DriftKind.SOURCE_SET_BACK,
                root,
                f"it holds {before.describe()}, which is newer than {watermark.version}",
            )
    elif not held.untouched and not held.only_commit_info:
        raise _foreign_commits_of_delta(held, before, source.storage, root)
    return before


def require_manifests(table: Table, root: str) -> None:
    """Raise Drift unless the manifests of an Iceberg target's snapshot are there."""
    snapshot = table.metadata.current_snapshot
    if snapshot is None:
        return
    try:
        wanted = [each.manifest_path for each in read_manifest_list(table.storage, snapshot, table.metadata)]
    except NotFound as error:
        raise files_missing(root, snapshot.manifest_list or root) from error
    there = {file.location.rpartition("/")[2] for file in table.storage.list(table.metadata_folder)}
    for path in wanted:
        if path.rpartition("/")[2] not in there:
            raise files_missing(root, path)


def files_missing(root: str, path: str) -> Drift:
    """The drift of a target whose own file is not there."""
    return Drift(DriftKind.FILES_MISSING, root, f"its file {path} is missing", path=path)


def _writer(held: ExistingTarget) -> str:
    properties = {}
    if held.iceberg is not None:
        properties = dict(held.iceberg.metadata.properties)
    elif held.delta is not None:
        properties = dict(held.delta.metadata.configuration)
    return next((tool for key, tool in _OTHER_TOOLS.items() if key in properties), "somebody else")


def _require_own_iceberg(table: Table, before: Watermark, root: str) -> None:
    metadata = table.metadata
    head = metadata.current_snapshot
    line = list(metadata.ancestors(None if head is None else head.snapshot_id))
    others: list[Snapshot] = []
    for each in line:
        if WATERMARK_KEY in each.summary:
            break
        others.append(each)
    if head is None or len(others) == len(line):
        raise Drift(DriftKind.FOREIGN_COMMIT, root, f"its snapshot that held {before.describe()} is gone")
    own = line[len(others)]
    if others:
        compacted = all(each.operation == "replace" for each in others)
        if not (compacted and snapshot_changes(table, own, head).changes_nothing):
            raise _foreign(
                root, before, compacted, (f"snapshot {each.snapshot_id} ({each.operation})" for each in others)
            )
    known = {each.snapshot_id for each in line}
    for each in metadata.snapshots:
        stated = Watermark.from_properties(each.summary)
        if each.snapshot_id in known or stated is None or stated.app_id != before.app_id:
            continue
        if (stated.version or 0) > (before.version or 0):
            raise Drift(
                DriftKind.TARGET_SET_BACK,
                root,
                f"it was set back to snapshot {head.snapshot_id}, with {before.describe()}, and has snapshot "
                f"{each.snapshot_id} with version {stated.version} already; set its main branch to that one again",
            )


def _foreign_commits_of_delta(held: ExistingTarget, before: Watermark, storage: Storage, root: str) -> Drift:
    table = DeltaTable.open(root, storage)
    newest = table.snapshot().version
    own = newest
    while own >= 0:
        try:
            info, _ = commit_note(storage, f"{log_folder(root)}/{commit_name(own)}", own)
        except NotFound:
            return Drift(
                DriftKind.FOREIGN_COMMIT,
                root,
                f"commit {own} is gone from its log, so that it is not known who has changed it since {before.describe()}",
            )
        if info is not None and WATERMARK_KEY in info.raw:
            break
        own -= 1
    compacted, names = True, []
    try:
        for actions in table.commits(own + 1, newest):
            moves = (each.column("data_change") for each in (actions.adds, actions.removes) if each.num_rows)
            keeps_rows = all(not pc.any(pc.fill_null(each, True)).as_py() for each in moves)
            compacted = compacted and keeps_rows and actions.metadata is None and actions.protocol is None
            operation = None if actions.commit_info is None else actions.commit_info.operation
            names.append(f"version {actions.version} ({operation or 'without a name'})")
    except VersionNotFound:
        compacted = False
    return _foreign(root, before, compacted, iter(names))


def _foreign(root: str, before: Watermark, compacted: bool, commits: Iterator[str]) -> Drift:
    """compacted: whether the commits only moved rows from file to file."""
    named = list(commits)
    told = ", ".join(named[:3]) + (f" and {len(named) - 3} more" if len(named) > 3 else "")
    if compacted:
        reason = (
            f"the files of the target were compacted since {before.describe()}, by {told}; compact the source instead"
        )
        return Drift(DriftKind.COMPACTED, root, reason)
    return Drift(DriftKind.FOREIGN_COMMIT, root, f"somebody else has committed to it since {before.describe()}: {told}")
