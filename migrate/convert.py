"""Carry out a plan: one state of the source, or its whole history, becomes a table of the other format."""

from __future__ import annotations

import json
import time
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from deltaberg.delta.log.log_path import commit_name, log_folder
from deltaberg.errors import CommitStateUnknown, Conflict
from deltaberg.migrate.engine import Engine, Progress, Splits
from deltaberg.migrate.engine_choice import engine_of
from deltaberg.migrate.plan import PreparedPlan, check_request, nothing_to_do, prepare
from deltaberg.migrate.plan_report import Plan, PlanItem, items_of
from deltaberg.migrate.refusal import STOPS_AT_SOURCE, Refused, refused_by_source
from deltaberg.migrate.source import DeltaSource, IcebergSource, Source, TableFormat, naming_target
from deltaberg.migrate.target.current_files import repair_hint, require_files
from deltaberg.migrate.target.existing_target import ExistingTarget, existing_target
from deltaberg.migrate.target.interrupted_conversion import what_stands
from deltaberg.migrate.target.interrupted_create import clear_interrupted_create
from deltaberg.migrate.target.locations import join
from deltaberg.migrate.target.orphans import delete_all_runs, delete_dead_runs, end_run
from deltaberg.migrate.target.run_document import RunId, at_work, put_run_document
from deltaberg.migrate.target.target_root import target_root
from deltaberg.migrate.target.target_state import InterruptedConversion, options_text, plan_prefix, target_state
from deltaberg.migrate.target.undo_storage import UndoStorage
from deltaberg.migrate.target.watermark import Watermark, describe_source, watermark_of
from deltaberg.migrate.to_delta.design import DeltaConversionPlan
from deltaberg.migrate.to_delta.entries import HIDDEN_FOLDER
from deltaberg.migrate.to_delta.writer import DeltaWriter, WrittenDelta
from deltaberg.migrate.to_iceberg.design import IcebergConversionPlan
from deltaberg.migrate.to_iceberg.writer import IcebergWriter, WrittenIceberg
from deltaberg.storage import StorageError
from deltaberg.translate import codes
from deltaberg.translate.findings import Finding
from deltaberg.translate.options import ConvertOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertResult:
    """The result of a conversion.

    target: folder of the target table; target_metadata: the metadata file (Iceberg) or commit file (Delta) that made it
    visible. already_current: the target already held this state and nothing was written. commits: ``(source version or
    snapshot id, target version or snapshot id)``, oldest first. warnings: failures after the commit, which stands;
    coded like a plan's items. repaired: files of the target that were missing or stale and were put right. removed:
    files of conversions that had died, which were deleted.
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
    """Write the target table. Data files stay where they are, except those that the plan marks as rewritten.

    target: a folder; by default ``<table>/_iceberg`` for a Delta source, the table's own folder (``_delta_log``) for an
    Iceberg source. clock_ms: the time to record as now; the machine's by default. session: runs the work in Spark, as
    ``engine="spark"`` does with the active session or a new one. clean: first delete the files that other conversions
    to this target left, except those certain to be running; files of conversions that are proven dead are deleted in
    any case.

    Raises Refused where the plan refuses or where reading the source stops, Conflict where the target holds another
    table or was changed by another writer. Leaves nothing half-written behind when it fails: a history that is replayed
    into a Delta table keeps the versions that are committed by then, and the next call continues after them. Raises
    Interrupted, a KeyboardInterrupt that says how much of the target stands, on Ctrl-C.
    """
    options = options or ConvertOptions()
    if session is not None:
        options = replace(options, engine="spark")
    root = target_root(source, target)
    job = _Conversion(
        source=naming_target(source, root, writes=True),
        to=TableFormat(to),
        root=root,
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
        raise what_stands(source.storage, job.root, job.to, watermark_of(source), job.run_id) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class _Conversion:
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
        watermark = watermark_of(self.source)
        if self.to is TableFormat.DELTA:
            clear_interrupted_create(self.source.storage, self.root, watermark, options_text(self.options))
        removed = self._clean() if self.clean else []
        state = target_state(self.source, self.to, self.root, self.options)
        begun = state.begun
        if state.existing is not None and begun is None:
            return self._already_there(state.existing, removed)
        engine = engine_of(self.options.engine, self.session)
        # A run that continues a replay names its files as the first one did, so that all are found by the name of its plan.
        names = None if begun is None else RunId.of_plan(begun.plan_name)
        storage = UndoStorage(self.source.storage, names or self.run_id)
        try:
            if engine.writes_before_plan:
                put_run_document(storage, self.root, self.run_id, self.to)
            with engine.splits_of(
                self.source, self.options, target=(storage, self.root), progress=self.progress
            ) as splits:
                prepared = prepare(
                    self.source, to=self.to, options=self.options, splits=splits, root=self.root, progress=self.progress
                )
                prepared = replace(prepared, plan=self._placed(prepared.plan, begun))
                if prepared.plan.refused:
                    raise Refused(prepared.plan)
                result = self._write(prepared, watermark, storage, begun, engine, splits)
        except CommitStateUnknown:
            raise
        except Conflict:
            if not storage.has_written(f"{log_folder(self.root)}/{commit_name(0)}"):
                _roll_back(storage, begun)
            raise
        except Refused:
            _roll_back(storage, begun)
            raise
        except STOPS_AT_SOURCE as error:
            _roll_back(storage, begun)
            made = refused_by_source(error, source=describe_source(self.source), to=self.to.value, location=self.root)
            raise Refused(made, cause=error) from error
        except BaseException:
            _roll_back(storage, begun)
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

    def _clean(self) -> list[str]:
        storage = self.source.storage
        existing = existing_target(storage, self.root, self.to)
        committed = None if existing is None else RunId.of_plan(existing.plan_name)
        return delete_all_runs(storage, self.root, self.to, committed=committed)

    def _already_there(self, existing: ExistingTarget, removed: list[str]) -> ConvertResult:
        storage = self.source.storage
        require_files(storage, self.root, existing)
        repaired = repair_hint(storage, existing)
        with suppress(StorageError):
            committed = RunId.of_plan(existing.plan_name)
            removed += delete_dead_runs(storage, self.root, self.to, committed=committed, now_ms=self.clock_ms)
        return ConvertResult(
            plan=nothing_to_do(self.source, self.to, self.root),
            target=self.root,
            target_metadata=existing.metadata_location,
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
        watermark: Watermark,
        storage: UndoStorage,
        begun: InterruptedConversion | None,
        engine: Engine,
        splits: Splits,
    ) -> ConvertResult:
        made = prepared.plan
        self.progress("write", 0, made.files)
        put_run_document(storage, self.root, self.run_id, self.to)
        if begun is None:
            plan_name = f"{plan_prefix(watermark)}{self.run_id.value}.json"
            document = json.dumps(made.to_json(), indent=1, ensure_ascii=False)
            storage.put(join(self.root, plan_name), document.encode())
            done = self._write_table(prepared.design, watermark, storage, plan_name, None, engine, splits)
        else:
            got_to = (begun.snapshot_id, begun.schema_id)
            done = self._write_table(prepared.design, watermark, storage, begun.plan_name, got_to, engine, splits)
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

    def _placed(self, plan: Plan, begun: InterruptedConversion | None) -> Plan:
        """The plan with where the target is, as ``deltaberg plan`` says it."""
        state = "new" if begun is None else "begun"
        return replace(plan, target={**plan.target, "location": self.root, "state": state})

    def _write_table(
        self,
        design: DeltaConversionPlan | IcebergConversionPlan,
        watermark: Watermark,
        storage: UndoStorage,
        plan_name: str,
        after: tuple[int, int | None] | None,
        engine: Engine,
        splits: Splits,
    ) -> WrittenDelta | WrittenIceberg:
        runner = engine.rewriting(storage, self.progress)
        if isinstance(design, DeltaConversionPlan):
            assert isinstance(self.source, IcebergSource)
            folder = join(self.root, HIDDEN_FOLDER)
            by_key = partial(engine.deleted_by_key, self.source, folder, storage, self.progress)
            delta = DeltaWriter(
                source=self.source,
                design=design,
                root=self.root,
                storage=storage,
                watermark=watermark,
                options_text=options_text(self.options),
                clock_ms=self.clock_ms,
                plan_name=plan_name,
                runner=runner,
                target_size=self.options.target_file_size,
                by_key=by_key if design.keys_in_tasks else nullcontext,
                on_commit=storage.keep,
                run=storage.run,
            )
            return splits.write_delta(delta, after=after)
        assert isinstance(self.source, DeltaSource)
        writer = IcebergWriter(
            source=self.source,
            design=design,
            root=self.root,
            storage=storage,
            watermark=watermark,
            options_text=options_text(self.options),
            partition_timezone=self.options.partition_timezone,
            clock_ms=self.clock_ms,
            plan_name=plan_name,
            runner=runner,
            target_size=self.options.target_file_size,
            run=storage.run,
        )
        return splits.write_iceberg(writer)


def _roll_back(storage: UndoStorage, begun: InterruptedConversion | None) -> None:
    """Delete the written files, unless a version stands: others may have built on it, or continue the same replay with
    files of the same names. The next run continues, too.
    """
    if begun is None and not storage.has_kept:
        storage.discard()


def _warnings(done: WrittenDelta | WrittenIceberg) -> tuple[PlanItem, ...]:
    if isinstance(done, WrittenIceberg) or done.checkpoint_failure is None:
        return ()
    what = f"version {done.commits[-1][1]}"
    detail = " ".join(str(done.checkpoint_failure).split())
    return items_of([Finding(code=codes.CHECKPOINT_NOT_WRITTEN, what=what, detail=detail)])


def _silent(stage: str, done: int, total: int) -> None:
    """Reports no progress."""
