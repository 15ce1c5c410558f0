"""What stands in the folder of a target already: nothing, this very position, or something that must not be touched."""

from __future__ import annotations

from dataclasses import dataclass

from deltaberg.delta.errors import CorruptLog, VersionNotFound
from deltaberg.delta.history import CommitActions
from deltaberg.delta.log_path import commit_name, log_folder
from deltaberg.delta.table import DeltaTable
from deltaberg.errors import Conflict, NotATable
from deltaberg.iceberg.table import Table
from deltaberg.migrate.position import OPTIONS_KEY, PLAN_KEY, POSITION_KEY, TARGET_VERSION_KEY, Position
from deltaberg.migrate.source import TableFormat
from deltaberg.storage import Storage


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldPosition:
    """The position of the table in a target folder.

    untouched: the newest commit there is deltaberg's own. position: None where deltaberg did not write the table.
    only_notes: what others committed after it changes nothing: VACUUM tells the log when it begins and when it ends.
    plan_name: the plan document it was written by, None where the table does not say.
    """

    position: Position | None
    options_text: str
    metadata_location: str
    untouched: bool
    plan_name: str | None
    only_notes: bool = False

    def require(self, position: Position, *, options_text: str, root: str) -> None:
        """Raise Conflict unless the target holds exactly this position and nobody has changed it."""
        if self.position is None:
            raise Conflict(f"Cannot write to {root}: it holds another table; choose another --target", path=root)
        if (self.position.format, self.position.uuid) != (position.format, position.uuid):
            raise Conflict(
                f"Cannot write to {root}: it holds {self.position.describe()} (expected {position.describe()}); "
                "choose another --target",
                path=root,
            )
        if not self.untouched and not self.only_notes:
            raise Conflict(
                f"Cannot use {root}: somebody else has committed to it since deltaberg wrote it; choose another --target",
                path=root,
            )
        if self.position != position:
            raise Conflict(
                f"Cannot write to {root}: it holds {self.position.describe()} (expected {position.describe()}); "
                "this state needs another --target",
                path=root,
            )
        if self.options_text != options_text:
            raise Conflict(
                f"Cannot write to {root}: it was converted with the options {self.options_text} "
                f"(expected {options_text}); choose another --target",
                path=root,
            )


def held_position(storage: Storage, root: str, format: TableFormat) -> HeldPosition | None:
    """What a table of the target's format in a folder holds; None where there is none. Raises what reading it raises."""
    return _of_iceberg(storage, root) if format is TableFormat.ICEBERG else _of_delta(storage, root)


def _of_iceberg(storage: Storage, root: str) -> HeldPosition | None:
    try:
        table = Table.open(root, storage)
    except NotATable:
        return None
    properties = table.metadata.properties
    snapshot = table.metadata.current_snapshot
    return HeldPosition(
        position=Position.from_properties(properties),
        options_text=properties.get(OPTIONS_KEY, "{}"),
        metadata_location=table.metadata_location,
        untouched=snapshot is not None and snapshot.summary.get(POSITION_KEY) == properties.get(POSITION_KEY),
        plan_name=properties.get(PLAN_KEY),
    )


def _of_delta(storage: Storage, root: str) -> HeldPosition | None:
    try:
        table = DeltaTable.open(root, storage)
    except NotATable:
        return None
    snapshot = table.snapshot()
    configuration = snapshot.metadata.configuration
    position = Position.from_properties(configuration)
    written = configuration.get(TARGET_VERSION_KEY, "")
    untouched = written == str(snapshot.version)
    return HeldPosition(
        position=position,
        options_text=configuration.get(OPTIONS_KEY, "{}"),
        metadata_location=f"{log_folder(root)}/{commit_name(snapshot.version)}",
        untouched=untouched,
        plan_name=configuration.get(PLAN_KEY),
        only_notes=not untouched and written.isdecimal() and _only_notes(table, int(written) + 1, snapshot.version),
    )


def _only_notes(table: DeltaTable, first: int, last: int) -> bool:
    """Whether these commits hold nothing but a ``commitInfo``; not where one of them has been cleaned up."""
    try:
        return all(_is_note(commit) for commit in table.commits(first, last))
    except (VersionNotFound, CorruptLog):
        return False


def _is_note(commit: CommitActions) -> bool:
    files = commit.adds.num_rows or commit.removes.num_rows or commit.change_files.num_rows
    return not (files or commit.metadata or commit.protocol or commit.txns or commit.domain_metadata)
