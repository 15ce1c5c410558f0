"""Bring a target up to date with its source: each commit that the source has made since becomes a commit of the target.

The watermark says how far the target has come. It is committed with the files that it describes: in the summary of the
newest snapshot of an Iceberg target, in the ``txn`` action of a Delta target. It never is a time.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Final

from deltaberg.delta.errors import CorruptLog, VersionNotFound
from deltaberg.delta.table import DeltaTable
from deltaberg.errors import CommitStateUnknown, Conflict, DeltabergError, Interrupted, UsageError
from deltaberg.iceberg.errors import CorruptMetadata
from deltaberg.iceberg.table import Table
from deltaberg.migrate.convert import ConvertResult, convert
from deltaberg.migrate.engine import Progress
from deltaberg.migrate.files.rewrite import InThisProcess
from deltaberg.migrate.plan import check_request
from deltaberg.migrate.plan_report import Plan, items_of
from deltaberg.migrate.refusal import STOPS_AT_SOURCE, Refused, refused_by_source
from deltaberg.migrate.source import DeltaSource, IcebergSource, Source, TableFormat, naming_target
from deltaberg.migrate.target.drift import (
    Drift,
    DriftKind,
    files_missing,
    require_manifests,
    require_no_drift,
    require_not_deleted,
)
from deltaberg.migrate.target.existing_target import ExistingTarget, existing_target
from deltaberg.migrate.target.interrupted_conversion import what_stands
from deltaberg.migrate.target.locations import join
from deltaberg.migrate.target.orphans import delete_dead_runs, end_run, own_folders
from deltaberg.migrate.target.run_document import RunId, at_work, put_run_document
from deltaberg.migrate.target.target_root import target_root
from deltaberg.migrate.target.undo_storage import UndoStorage
from deltaberg.migrate.target.watermark import Watermark, describe_source, watermark_of
from deltaberg.migrate.to_delta.sync import DeltaSync
from deltaberg.migrate.to_delta.sync import design_increment as to_delta
from deltaberg.migrate.to_delta.writer import DeltaWriter, WrittenDelta
from deltaberg.migrate.to_iceberg.sync import design_increment as to_iceberg
from deltaberg.migrate.to_iceberg.sync import write_increment
from deltaberg.migrate.to_iceberg.writer import IcebergWriter, WrittenIceberg
from deltaberg.storage import NotFound, StorageError
from deltaberg.translate.findings import Finding
from deltaberg.translate.options import ConvertOptions

ATTEMPTS: Final = 5
"""The number of times that a sync continues where another one, which overtook it, has ended."""


class OnDrift(Enum):
    """What to do where a target cannot go on: raise Drift, or leave it as it is and say so."""

    FAIL = "fail"
    KEEP = "keep"


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncResult:
    """The result of a sync.

    created: the target was not there before, and ``conversion`` says how it was made. position: the source's version or
    snapshot id that the target holds now; before: the one that it held. commits: ``(source version or snapshot id, target
    version or snapshot id)``, oldest first; empty where there was nothing to do. drift: why the target was left as it is.
    """

    target: str
    target_metadata: str
    created: bool
    before: int | None
    watermark: int | None
    commits: tuple[tuple[int, int], ...]
    files: int
    rows: int
    rewritten_files: int
    plan: Plan
    conversion: ConvertResult | None = None
    drift: Drift | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "target": self.target,
            "target_metadata": self.target_metadata,
            "created": self.created,
            "before": self.before,
            "position": self.watermark,
            "commits": [{"source": source, "target": target} for source, target in self.commits],
            "files": self.files,
            "rows": self.rows,
            "rewritten_files": self.rewritten_files,
            "plan": self.plan.to_json(),
            "drift": None if self.drift is None else self.drift.kind.value,
        }


def sync(
    source: Source,
    *,
    to: TableFormat | str,
    target: str | None = None,
    options: ConvertOptions | None = None,
    squash: bool = False,
    on_drift: OnDrift | str = "fail",
    clock_ms: int | None = None,
    progress: Progress | None = None,
) -> SyncResult:
    """Commit to the target what the source has committed since the target's watermark; create the target if there is none.

    squash: one target commit for all source commits. options: of the conversion that created the target; None: as it was
    created. on_drift: what to do where the target cannot go on from its watermark.

    Raises Refused where a change cannot be carried, before anything is written; Drift, a Conflict, where the target or the
    source is not what the watermark says (exit 5). Interrupted, a KeyboardInterrupt, says what stands when one came. Leaves the target as it was when it fails.
    """
    root = target_root(source, target)
    job = _Sync(
        source=naming_target(source, root, writes=True),
        to=TableFormat(to),
        root=root,
        options=options,
        squash=squash,
        on_drift=_on_drift(on_drift),
        clock_ms=time.time_ns() // 1_000_000 if clock_ms is None else clock_ms,
        progress=progress,
    )
    for _ in range(ATTEMPTS):
        try:
            return job.run()
        except Conflict:
            # Another sync of the same source may have been faster: then there is less to do, or nothing.
            if not job.was_overtaken():
                raise
        except Interrupted:
            raise
        except KeyboardInterrupt as error:
            raise job.what_stands() from error
    return job.run()


def _on_drift(chosen: OnDrift | str) -> OnDrift:
    try:
        return OnDrift(chosen)
    except ValueError:
        known = " or ".join(each.value for each in OnDrift)
        raise UsageError(f"Cannot sync: there is no on_drift {chosen!r} (expected {known})") from None


@dataclass(slots=True, kw_only=True)
class _Sync:
    source: Source
    to: TableFormat
    root: str
    options: ConvertOptions | None
    squash: bool
    on_drift: OnDrift
    clock_ms: int
    progress: Progress | None
    _before: Watermark | None = None
    _run: RunId = field(default_factory=RunId)

    def run(self) -> SyncResult:
        check_request(self.source, self.to, self.options or ConvertOptions())
        try:
            return self._sync(watermark_of(self.source))
        except Drift as drift:
            if self.on_drift is not OnDrift.KEEP:
                raise
            return self._kept(drift)

    def _sync(self, watermark: Watermark) -> SyncResult:
        try:
            held = existing_target(self.source.storage, self.root, self.to)
        except (CorruptLog, CorruptMetadata, VersionNotFound, NotFound) as error:
            reason = f"its metadata is damaged: {error.message}"
            raise Drift(DriftKind.FILES_MISSING, self.root, reason, path=error.path) from error
        if held is None:
            require_not_deleted(self.source.storage, self.root, self.to)
            return self._create()
        self._before = before = require_no_drift(held, watermark, self.source, self.root)
        options = self._options(held)
        self._run = RunId()
        storage = UndoStorage(self.source.storage, self._run)
        if before.is_same_state(watermark) and self.to is TableFormat.ICEBERG:
            return self._result(held.metadata_location, before, watermark)
        try:
            with at_work(self._run):
                done = self._go_on(held, before, watermark, options, storage)
        except CommitStateUnknown:
            raise
        except STOPS_AT_SOURCE as error:
            storage.discard()
            if isinstance(error, NotFound) and error.path is not None and self._is_own(error.path):
                raise files_missing(self.root, error.path) from error
            if isinstance(error, Refused):
                raise
            made = refused_by_source(error, source=describe_source(self.source), to=self.to.value, location=self.root)
            raise Refused(made, cause=error) from error
        except BaseException:
            storage.discard()
            if storage.has_kept and not storage.undecided:
                with suppress(StorageError):
                    end_run(storage, self.root, self._run)
            raise
        if done.commits:
            self._clean(held, storage)
        return done

    def what_stands(self) -> Interrupted:
        """The error to raise in place of an interrupt."""
        watermark = watermark_of(self.source)
        return what_stands(self.source.storage, self.root, self.to, watermark, self._run, before=self._before)

    def _clean(self, held: ExistingTarget, storage: UndoStorage) -> None:
        """Behind a commit: end this run, and delete what runs left that died, none of which can commit any more. Where that
        fails, the next run does it."""
        committed = RunId.of_plan(held.plan_name)
        with suppress(StorageError):
            end_run(storage, self.root, self._run)
            delete_dead_runs(storage, self.root, self.to, committed=committed, now_ms=self.clock_ms, overtaken=True)

    def was_overtaken(self) -> bool:
        """Whether the target has moved on to a later state of the same source, and nobody else has committed to it."""
        try:
            held = existing_target(self.source.storage, self.root, self.to)
        except DeltabergError:
            return False
        if held is None or held.watermark is None or self._before is None or not held.untouched:
            return False
        return held.watermark != self._before and held.watermark.app_id == self._before.app_id

    def _create(self) -> SyncResult:
        made = convert(
            self.source,
            to=self.to,
            target=self.root,
            options=self.options,
            clock_ms=self.clock_ms,
            progress=self.progress,
        )
        return SyncResult(
            target=made.target,
            target_metadata=made.target_metadata,
            created=True,
            before=None,
            watermark=watermark_of(self.source).version,
            commits=made.commits,
            files=made.files,
            rows=made.rows,
            rewritten_files=made.rewritten_files,
            plan=made.plan,
            conversion=made,
        )

    def _is_own(self, path: str) -> bool:
        """Whether a file is the target's, and cannot be the source's."""
        return path.startswith(tuple(join(folder, "") for folder in own_folders(self.root, self.to)))

    def _kept(self, drift: Drift) -> SyncResult:
        """The target stays as it is."""
        held = None
        with suppress(DeltabergError):
            held = existing_target(self.source.storage, self.root, self.to)
        reached = None if held is None or held.watermark is None else held.watermark.version
        return SyncResult(
            target=self.root,
            target_metadata="" if held is None else held.metadata_location,
            created=False,
            before=reached,
            watermark=reached,
            commits=(),
            files=0,
            rows=0,
            rewritten_files=0,
            plan=self._plan(),
            drift=drift,
        )

    def _options(self, held: ExistingTarget) -> ConvertOptions:
        """The options that the target was made with. Raises Conflict where others are given."""
        made = ConvertOptions(**json.loads(held.options_text))
        return made if self.options is None else replace(self.options, history=made.history)

    def _go_on(
        self,
        held: ExistingTarget,
        before: Watermark,
        watermark: Watermark,
        options: ConvertOptions,
        storage: UndoStorage,
    ) -> SyncResult:
        findings: Sequence[Finding]
        write: Callable[[], WrittenIceberg | WrittenDelta] | None
        if isinstance(self.source, DeltaSource):
            findings, write = self._to_iceberg(self.source, held, before, watermark, options, storage)
        else:
            findings, write = self._to_delta(self.source, held, before, watermark, options, storage)
        made = self._plan(findings, options)
        if made.refused:
            raise Refused(made)
        if write is None:
            return self._result(held.metadata_location, before, watermark)
        put_run_document(storage, self.root, storage.run, self.to, goes_on=True)
        done = write()
        return replace(
            self._result(done.location, before, watermark),
            commits=done.commits,
            files=done.files,
            rows=done.rows,
            rewritten_files=done.rewritten_files,
            plan=made,
        )

    def _to_iceberg(
        self,
        source: DeltaSource,
        held: ExistingTarget,
        before: Watermark,
        watermark: Watermark,
        options: ConvertOptions,
        storage: UndoStorage,
    ) -> tuple[Sequence[Finding], Callable[[], WrittenIceberg]]:
        assert before.version is not None
        assert held.iceberg is not None
        require_manifests(held.iceberg, self.root)
        try:
            base = replace(source, snapshot=source.table.snapshot(version=before.version))
            increment = to_iceberg(source, base, Table.open(self.root, storage), options)
        except VersionNotFound as error:
            reason = f"the source's log no longer holds what came after {before.describe()}"
            raise Drift(DriftKind.HISTORY_GONE, self.root, reason) from error
        writer = IcebergWriter(
            source=source,
            design=increment.design,
            root=self.root,
            storage=storage,
            watermark=watermark,
            options_text=held.options_text,
            partition_timezone=options.partition_timezone,
            clock_ms=self.clock_ms,
            runner=InThisProcess(new_id=storage.run.new),
            run=storage.run,
        )
        return increment.design.findings, lambda: write_increment(increment, writer, squash=self.squash)

    def _to_delta(
        self,
        source: IcebergSource,
        held: ExistingTarget,
        before: Watermark,
        watermark: Watermark,
        options: ConvertOptions,
        storage: UndoStorage,
    ) -> tuple[Sequence[Finding], Callable[[], WrittenDelta] | None]:
        target = DeltaTable.open(self.root, storage).snapshot()
        increment = to_delta(source, target, before, options, self.root, squash=self.squash)
        writer = DeltaWriter(
            source=source,
            design=increment.design,
            root=self.root,
            storage=storage,
            watermark=watermark,
            options_text=held.options_text,
            clock_ms=self.clock_ms,
            plan_name=held.plan_name,
            runner=InThisProcess(new_id=storage.run.new),
            on_commit=storage.keep,
            run=storage.run,
        )
        if increment.is_empty:
            return increment.design.findings, None
        return increment.design.findings, DeltaSync(writer=writer, increment=increment).write

    def _plan(self, findings: Sequence[Finding] = (), options: ConvertOptions | None = None) -> Plan:
        return Plan(
            source=describe_source(self.source),
            target={"format": self.to.value, "location": self.root},
            items=items_of(findings, strict=options is not None and options.strict),
        )

    def _result(self, location: str, before: Watermark, watermark: Watermark) -> SyncResult:
        return SyncResult(
            target=self.root,
            target_metadata=location,
            created=False,
            before=before.version,
            watermark=watermark.version,
            commits=(),
            files=0,
            rows=0,
            rewritten_files=0,
            plan=self._plan(),
        )
