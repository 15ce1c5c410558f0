"""Carry out a plan: one state of the source, or its whole history, becomes a table of the other format."""

from __future__ import annotations

import json
import time
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from deltaberg.delta.log_path import commit_name, log_folder
from deltaberg.errors import CommitStateUnknown, Conflict
from deltaberg.migrate.delta_entries import HIDDEN_FOLDER
from deltaberg.migrate.delta_replay import DeltaReplay
from deltaberg.migrate.delta_target import DeltaDesign
from deltaberg.migrate.delta_writer import DeltaWriter, WrittenDelta
from deltaberg.migrate.engine import Engine, LocalEngine, PartsOfSource, Progress, engine_of
from deltaberg.migrate.held_files import repair_hint, require_files
from deltaberg.migrate.held_position import HeldPosition, held_position
from deltaberg.migrate.iceberg_replay import IcebergReplay
from deltaberg.migrate.iceberg_target import IcebergDesign
from deltaberg.migrate.iceberg_writer import IcebergWriter, WrittenIceberg
from deltaberg.migrate.interrupted import what_stands
from deltaberg.migrate.leftovers import delete_all_runs, delete_dead_runs, end_run
from deltaberg.migrate.locations import join
from deltaberg.migrate.plan import PreparedPlan, check_request, describe_source, prepare
from deltaberg.migrate.plan_document import Plan, PlanItem, items_of
from deltaberg.migrate.position import Position, position_of
from deltaberg.migrate.recording_storage import RecordingStorage
from deltaberg.migrate.refusal import STOPS_AT_SOURCE, Refused, refused_by_source
from deltaberg.migrate.run_document import RunId, at_work, put_run_document
from deltaberg.migrate.source import DeltaSource, IcebergSource, Source, TableFormat
from deltaberg.migrate.target_root import target_root
from deltaberg.migrate.unfinished_creation import clear_unfinished
from deltaberg.storage import StorageError
from deltaberg.translate import codes
from deltaberg.translate.findings import Finding
from deltaberg.translate.options import ConvertOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertResult:
    """What a conversion did.

    target: folder of the target table; target_metadata: the metadata file (Iceberg) or commit file (Delta) that
    made it visible. already_current: the target already held this position and nothing was written.
    commits: ``(source version or snapshot id, target version or snapshot id)``, oldest first. warnings: what went wrong
    after the commit, which stands; coded like a plan's items. repaired: files of the target that were missing or stale and
    were put right. removed: files of conversions that had died, which were deleted.
    """

    plan: Plan
    target: str
    target_metadata: str
    already_current: bool
    commits: tuple[tuple[int, int], ...]
    files: int
    rows: int
    rewritten_files: int
    warnings: tuple[PlanItem, ...] = ()
    repaired: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "target": self.target,
            "target_metadata": self.target_metadata,
            "already_current": self.already_current,
            "commits": [{"source": source, "target": target} for source, target in self.commits],
            "files": self.files,
            "rows": self.rows,
            "rewritten_files": self.rewritten_files,
            "warnings": [item.to_json() for item in self.warnings],
            "repaired": list(self.repaired),
            "removed": list(self.removed),
            "plan": self.plan.to_json(),
        }


def convert(
    source: Source,
    *,
    to: TableFormat | str,
    target: str | None = None,
    options: ConvertOptions | None = None,
    clock_ms: int | None = None,
    progress: Progress | None = None,
    session: SparkSession | None = None,
    clean: bool = False,
) -> ConvertResult:
    """Write the target table. Data files stay where they are, but for those that the plan marks as rewritten.

    target: a folder; by default ``<table>/_iceberg`` for a Delta source, the table's own folder (``_delta_log``)
    for an Iceberg source. clock_ms: the time to record as now; the machine's by default. session: runs the work in
    Spark, as ``engine="spark"`` does with the active session or a new one. clean: first delete what other conversions to
    this target left, but for those that surely run still; what is proven to be left is deleted without being asked.

    Raises Refused where the plan refuses or where reading the source stops, Conflict where the target holds another table
    or was changed by somebody else. Leaves nothing half-written behind when it fails: a history that is replayed into a
    Delta table keeps the versions that are committed by then, and the next call goes on behind them. Interrupted, which is a
    KeyboardInterrupt, says what stands when one came.
    """
    options = options or ConvertOptions()
    if session is not None:
        options = replace(options, engine="spark")
    job = _Job(
        source=source,
        to=TableFormat(to),
        root=target_root(source, target),
        options=options,
        clock_ms=time.time_ns() // 1_000_000 if clock_ms is None else clock_ms,
        progress=progress or _silent,
        session=session,
        clean=clean,
    )
    try:
        with at_work(job.run_id):
            return job.run()
    except KeyboardInterrupt as error:
        raise what_stands(source.storage, job.root, job.to, position_of(source), job.run_id) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class _Begun:
    """A replay that was interrupted: the snapshot and schema it got to, and its plan document."""

    snapshot_id: int
    schema_id: int | None
    plan_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    source: Source
    to: TableFormat
    root: str
    options: ConvertOptions
    clock_ms: int
    progress: Progress
    session: SparkSession | None
    clean: bool = False
    run_id: RunId = field(default_factory=RunId)

    def run(self) -> ConvertResult:
        check_request(self.source, self.to, self.options)
        position = position_of(self.source)
        if self.to is TableFormat.DELTA:
            clear_unfinished(self.source.storage, self.root, position, self._options_text())
        removed = self._clean() if self.clean else []
        held = held_position(self.source.storage, self.root, self.to)
        begun = None if held is None else self._interrupted(held, position)
        if held is not None and begun is None:
            return self._already_there(held, position, removed)
        engine = engine_of(self.options.engine, self.session)
        # What carries a replay on names its files as that did, so that they all are found by the name of its plan.
        names = None if begun is None else RunId.of_plan(begun.plan_name)
        storage = RecordingStorage(self.source.storage, names or self.run_id)
        try:
            if type(engine) is not LocalEngine:
                put_run_document(storage, self.root, self.run_id, self.to)  # tasks may write before there is a plan
            with engine.parts_of(
                self.source, self.options, target=(storage, self.root), progress=self.progress
            ) as parts:
                prepared = prepare(self.source, to=self.to, options=self.options, parts=parts, root=self.root)
                if prepared.plan.refused:
                    raise Refused(prepared.plan)
                result = self._write(prepared, position, storage, begun, engine, parts)
        except CommitStateUnknown:
            raise
        except Conflict:
            if not storage.has_written(f"{log_folder(self.root)}/{commit_name(0)}"):
                _take_back(storage, begun)
            raise
        except Refused:
            _take_back(storage, begun)
            raise
        except STOPS_AT_SOURCE as error:
            _take_back(storage, begun)
            made = refused_by_source(error, source=describe_source(self.source), to=self.to.value)
            raise Refused(made, cause=error) from error
        except BaseException:
            _take_back(storage, begun)
            raise
        with suppress(StorageError):
            end_run(storage, self.root, self.run_id)
            removed += delete_dead_runs(
                storage,
                self.root,
                self.to,
                committed=storage.run,
                now_ms=self.clock_ms,
                resumed=begun is not None,
            )
        return replace(result, removed=tuple(removed))

    def _interrupted(self, held: HeldPosition, position: Position) -> _Begun | None:
        """How far a replay of this very position got before it was killed; None where none was."""
        if self.options.history != "all" or self.to is not TableFormat.DELTA or held.position is None:
            return None
        if held.position.version is None or held.plan_name is None:
            return None
        if replace(held.position, version=position.version, schema_id=position.schema_id) != position:
            return None
        if held.position == position or not held.untouched or held.options_text != self._options_text():
            return None
        if not held.plan_name.startswith(_plan_prefix(position)):
            return None
        known = self.source.storage.exists(join(self.root, held.plan_name))
        if not known:
            return None
        return _Begun(snapshot_id=held.position.version, schema_id=held.position.schema_id, plan_name=held.plan_name)

    def _clean(self) -> list[str]:
        storage = self.source.storage
        held = held_position(storage, self.root, self.to)
        committed = None if held is None else RunId.of_plan(held.plan_name)
        return delete_all_runs(storage, self.root, self.to, committed=committed)

    def _already_there(self, held: HeldPosition, position: Position, removed: list[str]) -> ConvertResult:
        held.require(position, options_text=self._options_text(), root=self.root)
        storage = self.source.storage
        require_files(storage, self.root, held)
        repaired = repair_hint(storage, held)
        with suppress(StorageError):
            committed = RunId.of_plan(held.plan_name)
            removed += delete_dead_runs(storage, self.root, self.to, committed=committed, now_ms=self.clock_ms)
        made = Plan(source=describe_source(self.source), target={"format": self.to.value, "location": self.root})
        return ConvertResult(
            plan=made,
            target=self.root,
            target_metadata=held.metadata_location,
            already_current=True,
            commits=(),
            files=0,
            rows=0,
            rewritten_files=0,
            repaired=repaired,
            removed=tuple(removed),
        )

    def _write(
        self,
        prepared: PreparedPlan,
        position: Position,
        storage: RecordingStorage,
        begun: _Begun | None,
        engine: Engine,
        parts: PartsOfSource | None,
    ) -> ConvertResult:
        made = replace(prepared.plan, target={**prepared.plan.target, "location": self.root})
        self.progress("write", 0, made.files)
        put_run_document(storage, self.root, self.run_id, self.to)
        if begun is None:
            plan_name = f"{_plan_prefix(position)}{self.run_id.value}.json"
            document = json.dumps(made.to_json(), indent=1, ensure_ascii=False)
            storage.put(join(self.root, plan_name), document.encode())
            done = self._write_table(prepared.design, position, storage, plan_name, None, engine, parts)
        else:
            got_to = (begun.snapshot_id, begun.schema_id)
            done = self._write_table(prepared.design, position, storage, begun.plan_name, got_to, engine, parts)
        self.progress("write", made.files, made.files)
        return ConvertResult(
            plan=made,
            target=self.root,
            target_metadata=done.location,
            already_current=False,
            commits=done.commits,
            files=done.files,
            rows=done.rows,
            rewritten_files=done.rewritten_files,
            warnings=_warnings(done),
        )

    def _write_table(
        self,
        design: DeltaDesign | IcebergDesign,
        position: Position,
        storage: RecordingStorage,
        plan_name: str,
        after: tuple[int, int | None] | None,
        engine: Engine,
        parts: PartsOfSource | None,
    ) -> WrittenDelta | WrittenIceberg:
        runner = engine.rewriting(storage, self.progress)
        if isinstance(design, DeltaDesign):
            assert isinstance(self.source, IcebergSource)
            folder = join(self.root, HIDDEN_FOLDER)
            by_key = partial(engine.deleted_by_key, self.source, folder, storage, self.progress)
            delta = DeltaWriter(
                source=self.source,
                design=design,
                root=self.root,
                storage=storage,
                position=position,
                options_text=self._options_text(),
                clock_ms=self.clock_ms,
                plan_name=plan_name,
                runner=runner,
                target_size=self.options.target_file_size,
                by_key=by_key if design.keys_in_tasks else nullcontext,
                on_commit=storage.keep,
                run=storage.run,
            )
            if parts is not None:
                return parts.write_delta(delta)
            return delta.write() if len(design.line.snapshots) < 2 else DeltaReplay(delta).write(after=after)
        assert isinstance(self.source, DeltaSource)
        writer = IcebergWriter(
            source=self.source,
            design=design,
            root=self.root,
            storage=storage,
            position=position,
            options_text=self._options_text(),
            partition_timezone=self.options.partition_timezone,
            clock_ms=self.clock_ms,
            plan_name=plan_name,
            runner=runner,
            target_size=self.options.target_file_size,
            run=storage.run,
        )
        if parts is not None:
            return parts.write_iceberg(writer)
        return writer.write() if design.eras is None else IcebergReplay(writer).write()

    def _options_text(self) -> str:
        """The choices that differ from the defaults, as they are kept with the target; who did the work is none."""
        usual = ConvertOptions()
        chosen = {
            each.name: getattr(self.options, each.name)
            for each in fields(ConvertOptions)
            if each.name != "engine" and getattr(self.options, each.name) != getattr(usual, each.name)
        }
        return json.dumps(chosen, sort_keys=True, default=dict)


def _take_back(storage: RecordingStorage, begun: _Begun | None) -> None:
    """Delete what was written, unless a version stands: others may have built on it, or go on with the same replay and
    with files of the same names. The next run goes on, too."""
    if begun is None and not storage.has_kept:
        storage.discard()


def _plan_prefix(position: Position) -> str:
    """What the names of plan documents begin with, relative to the target; the rest is each conversion's own."""
    return f"{HIDDEN_FOLDER}/plan-{0 if position.version is None else position.version}-"


def _warnings(done: WrittenDelta | WrittenIceberg) -> tuple[PlanItem, ...]:
    if isinstance(done, WrittenIceberg) or done.checkpoint_failure is None:
        return ()
    what = f"version {done.commits[-1][1]}"
    detail = " ".join(str(done.checkpoint_failure).split())
    return items_of([Finding(code=codes.CHECKPOINT_NOT_WRITTEN, what=what, detail=detail)])


def _silent(stage: str, done: int, total: int) -> None:
    """No progress wanted."""
