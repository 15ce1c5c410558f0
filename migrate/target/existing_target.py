"""A target's folder before a conversion: nothing, this very state, or a table that must not be touched."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from deltaberg.delta.errors import CorruptLog
from deltaberg.delta.log.commit_fingerprint import commit_fingerprint
from deltaberg.delta.log.log_path import LogFile, LogFileKind, commit_name, log_folder
from deltaberg.delta.snapshot import Snapshot
from deltaberg.delta.table import DeltaTable
from deltaberg.errors import Conflict, NotATable
from deltaberg.iceberg.errors import AmbiguousMetadata
from deltaberg.iceberg.metadata.snapshot import Snapshot as IcebergSnapshot
from deltaberg.iceberg.metadata.table_metadata import TableMetadata
from deltaberg.iceberg.table import Table
from deltaberg.migrate.source import DeltaSource, Source, TableFormat
from deltaberg.migrate.target.own_commits import commit_note
from deltaberg.migrate.target.watermark import OPTIONS_KEY, PLAN_KEY, TARGET_VERSION_KEY, WATERMARK_KEY, Watermark
from deltaberg.storage import NotFound, Storage


@dataclass(frozen=True, slots=True, kw_only=True)
class ExistingTarget:
    """The watermark of the table in a target folder, and who has committed to it since.

    untouched: the newest commit there is deltaberg's own. watermark: None where deltaberg did not write the table.
    only_commit_info: the later commits of others change nothing, such as the two by which VACUUM logs its start and
    end. missing_commits: the first and last version since then whose commits are gone, where the remaining ones change
    nothing. plan_name: the plan document of the conversion that wrote the table, None where it is unknown. iceberg,
    delta: the table, one of the two.
    """

    watermark: Watermark | None
    options_text: str
    metadata_location: str
    untouched: bool
    plan_name: str | None
    only_commit_info: bool = False
    missing_commits: tuple[int, int] | None = None
    iceberg: Table | None = field(default=None, repr=False)
    delta: Snapshot | None = field(default=None, repr=False)

    def require(self, watermark: Watermark, *, options_text: str, root: str, source: Source | None = None) -> None:
        """Raise Conflict unless the target holds exactly this state and no other writer has changed it.

        source: at that state; with it the message distinguishes a source with another past from one at another state.
        """
        if self.watermark is None:
            raise Conflict(f"Cannot write to {root}: it holds another table; choose another --target", path=root)
        if (self.watermark.format, self.watermark.uuid) != (watermark.format, watermark.uuid):
            raise Conflict(
                f"Cannot write to {root}: it holds {self.watermark.describe()} (expected {watermark.describe()}); "
                "choose another --target",
                path=root,
            )
        if not self.untouched and not self.only_commit_info and self.missing_commits is None:
            raise Conflict(
                f"Cannot use {root}: somebody else has committed to it since deltaberg wrote it; choose another --target",
                path=root,
            )
        if not self.watermark.is_same_state(watermark):
            require_same_past(self.watermark, watermark, source, root)
            if _is_behind(self.watermark, watermark, source):
                raise Conflict(
                    f"Cannot write to {root}: it holds {self.watermark.describe()} (expected {watermark.describe()}): it is "
                    f"behind; bring it up to date with deltaberg sync, or choose another --target",
                    path=root,
                )
            raise Conflict(
                f"Cannot write to {root}: it holds {self.watermark.describe()} (expected {watermark.describe()}); "
                "this state needs another --target",
                path=root,
            )
        if self.options_text != options_text:
            raise Conflict(
                f"Cannot write to {root}: it was converted with the options {self.options_text} "
                f"(expected {options_text}); choose another --target",
                path=root,
            )
        if self.missing_commits is not None:
            first, last = self.missing_commits
            gone = f"commit {first}" if first == last else f"commits {first} to {last}"
            raise Conflict(
                f"Cannot tell whether {root} is as deltaberg wrote it: the clean-up of its log took {gone} away, which may "
                "have been VACUUM's notes or changes; compare the rows with deltaberg verify SOURCE TARGET --rows, and "
                "to have it anew choose another --target or delete this one first",
                path=root,
            )


def _is_behind(held: Watermark, watermark: Watermark, source: Source | None) -> bool:
    """Whether the source came through what the target holds, and went on; None for a source tells nothing."""
    if isinstance(source, DeltaSource):
        return held.version is not None and watermark.version is not None and held.version < watermark.version
    if source is None or watermark.version is None:
        return False
    line = source.table.metadata.ancestors(watermark.version)
    return held.version is None or any(each.snapshot_id == held.version for each in line)


def require_same_past(held: Watermark, watermark: Watermark, source: Source | None, root: str) -> None:
    """Raise Conflict where the source no longer has the state that the target was made from, or another one in its place."""
    if replace(watermark, fingerprint=held.fingerprint) == held:
        raise _another_past(held, root)
    if not isinstance(source, DeltaSource) or held.version is None or watermark.version is None:
        return
    location = f"{source.table.log_folder}/{commit_name(held.version)}"
    try:
        size = source.storage.head(location).size
        commit = LogFile(location=location, version=held.version, kind=LogFileKind.COMMIT, size=size)
        then = commit_fingerprint(source.storage, commit)
    except NotFound:
        if held.version > watermark.version and source.table.snapshot().version < held.version:
            raise Conflict(
                f"Cannot write to {root}: it holds {held.describe()}, which ends at version {watermark.version} now: "
                "its log was set back to an earlier state, or has lost its end; choose another --target, or delete this "
                "one first to have the table as it is now",
                path=root,
            ) from None
        return
    if held.fingerprint is not None and held.fingerprint != then:
        raise _another_past(held, root)


def _another_past(held: Watermark, root: str) -> Conflict:
    other = "the commit" if held.format is TableFormat.DELTA else f"the schema {held.schema_id}"
    return Conflict(
        f"Cannot write to {root}: it holds {held.describe()}, and the source has another past: {other} of that state is "
        "not the one that the target was made from (the table was copied and both went on, or its metadata was restored "
        "or written once more); choose another --target, or delete this one first",
        path=root,
    )


def existing_target(storage: Storage, root: str, format: TableFormat) -> ExistingTarget | None:
    """The table of the target's format in a folder; None where there is none. Raises the errors of reading it."""
    return _of_iceberg(storage, root) if format is TableFormat.ICEBERG else _of_delta(storage, root)


def _of_iceberg(storage: Storage, root: str) -> ExistingTarget | None:
    try:
        table = Table.open(root, storage)
    except NotATable:
        return None
    except AmbiguousMetadata as error:
        raise Conflict(
            f"Cannot use {root}: somebody else has committed to it since deltaberg wrote it: {error.message}; to write the "
            "table once more, choose another --target",
            path=root,
        ) from error
    metadata = table.metadata
    properties, head = metadata.properties, metadata.current_snapshot
    own = _own_snapshot(metadata, head)
    return ExistingTarget(
        watermark=iceberg_watermark(metadata, head),
        options_text=properties.get(OPTIONS_KEY, "{}"),
        metadata_location=table.metadata_location,
        untouched=own is not None and head is not None and own.snapshot_id == head.snapshot_id,
        plan_name=properties.get(PLAN_KEY),
        iceberg=table,
    )


def _of_delta(storage: Storage, root: str) -> ExistingTarget | None:
    try:
        table = DeltaTable.open(root, storage)
    except NotATable:
        return None
    snapshot = table.snapshot()
    configuration = snapshot.metadata.configuration
    stated = Watermark.from_properties(configuration)
    since = _Since() if stated is None else _since(table, snapshot.version, _last_stated(configuration))
    return ExistingTarget(
        watermark=delta_watermark(snapshot),
        options_text=configuration.get(OPTIONS_KEY, "{}"),
        metadata_location=f"{log_folder(root)}/{commit_name(snapshot.version)}",
        untouched=since.untouched,
        plan_name=configuration.get(PLAN_KEY),
        only_commit_info=since.only_commit_info,
        missing_commits=since.missing_commits,
        delta=snapshot,
    )


def iceberg_watermark(metadata: TableMetadata, snapshot: IcebergSnapshot | None) -> Watermark | None:
    """The state of its source that an Iceberg snapshot holds; None where deltaberg did not make the table."""
    if WATERMARK_KEY not in metadata.properties:
        return None
    own = _own_snapshot(metadata, snapshot)
    return Watermark.from_properties(metadata.properties if own is None else own.summary)


def _own_snapshot(metadata: TableMetadata, snapshot: IcebergSnapshot | None) -> IcebergSnapshot | None:
    """The newest snapshot that deltaberg made, up to ``snapshot``."""
    line = metadata.ancestors(None if snapshot is None else snapshot.snapshot_id)
    return next((each for each in line if WATERMARK_KEY in each.summary), None)


def delta_watermark(snapshot: Snapshot) -> Watermark | None:
    """The state of its source that a Delta version holds; None where deltaberg did not make the table.

    The ``txn`` action names the snapshot, which most commits change; the metadata names the schema.
    """
    stated = Watermark.from_properties(snapshot.metadata.configuration)
    if stated is None:
        return None
    txn = snapshot.txns.get(stated.app_id)
    if txn is None or (stated.version is None and not txn.version):
        return stated
    return stated.at(txn.version)


def _last_stated(configuration: Mapping[str, str]) -> int:
    """The version of deltaberg's newest commit that changed the metadata; most change only data."""
    text = configuration.get(TARGET_VERSION_KEY, "0")
    return int(text) if text.isdecimal() else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Since:
    """The later commits of others, as ``only_commit_info`` and ``missing_commits`` of ``ExistingTarget``."""

    untouched: bool = False
    only_commit_info: bool = False
    missing_commits: tuple[int, int] | None = None


def _since(table: DeltaTable, newest: int, first: int) -> _Since:
    """Look at the commits from the newest one back to deltaberg's own last one, which is ``first`` or one after it."""
    gone: list[int] = []
    for version in range(newest, first, -1):
        try:
            info, is_note = commit_note(table.storage, f"{table.log_folder}/{commit_name(version)}", version)
        except CorruptLog:
            return _Since()
        except NotFound:
            gone.append(version)
            continue
        if info is not None and WATERMARK_KEY in info.raw:
            first = version
            break
        if not is_note:
            return _Since()
    missing = (min(gone), max(gone)) if gone else None
    return _Since(untouched=newest == first, only_commit_info=newest > first and not gone, missing_commits=missing)
