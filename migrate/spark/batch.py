"""Convert and verify many tables in one job: some at a time, each for itself, one broken table failing alone."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Final, Literal

from deltaberg.errors import Conflict, DeltabergError, Unsupported, UsageError, VerificationFailed, error_context
from deltaberg.keywords import check_keywords
from deltaberg.migrate.convert import ConvertResult, convert
from deltaberg.migrate.plan_report import Plan
from deltaberg.migrate.refusal import Refused
from deltaberg.migrate.source import Selector, Source, TableFormat
from deltaberg.migrate.spark.request_types import REQUEST_TYPES
from deltaberg.migrate.spark.session import spark_session
from deltaberg.migrate.spark.shipping import ship_package
from deltaberg.migrate.spark.tasks import SparkWork, cancel_jobs
from deltaberg.migrate.spark.verify_rows import spark_rows_check
from deltaberg.migrate.table_ref import TableRef
from deltaberg.migrate.target.target_root import target_root, usual_root
from deltaberg.migrate.verify.verify import VerifyReport, verify
from deltaberg.redaction import redacted
from deltaberg.storage import open_storage
from deltaberg.translate.options import ConvertOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Verification = Literal["none", "metadata", "rows"]
Status = Literal["converted", "current", "differs", "refused", "conflict", "failed"]

AT_ONCE: Final = 4
"""The number of tables that are converted at a time; their Spark jobs share the cluster."""

_CANCEL_SECONDS: Final = 0.5
_STATUS_OF_CODE: Final[Mapping[int, Status]] = {
    UsageError.exit_code: "refused",
    Unsupported.exit_code: "refused",
    VerificationFailed.exit_code: "differs",
    Conflict.exit_code: "conflict",
}
_WORST_FIRST: Final = (1, 5, 4, 3, 2)
"""Exit codes in the order in which one of them is the job's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRequest:
    """One table of a job. The fields are those of ``deltaberg.convert``.

    name: its name in the report. verify: which comparison follows. format: the source's, where a folder holds both.
    """

    name: str
    source: str
    to: TableFormat
    target: str | None = None
    options: ConvertOptions = field(default_factory=ConvertOptions)
    verify: Verification = "none"
    version: int | None = None
    snapshot_id: int | None = None
    ref: str | None = None
    as_of_ms: int | None = None
    relocate: Mapping[str, str] = field(default_factory=dict)
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    allow_locations: Sequence[str] = ()

    def __post_init__(self) -> None:
        check_keywords(
            "Cannot take on a table", {each.name: getattr(self, each.name) for each in fields(self)}, REQUEST_TYPES
        )
        object.__setattr__(self, "to", TableFormat(self.to))

    @property
    def target_place(self) -> str:
        """Where the target goes, as far as the request tells."""
        place = self.target or usual_root(self.source, self.to)
        return open_storage(relocate=self.relocate).resolve(place).rstrip("/")

    def open_source(self) -> Source:
        """Raises Refused, with a plan, for a source that cannot be opened, as ``deltaberg.convert`` does; else like
        ``open_source``."""
        return self.table_ref.open_to_convert(self.to, target=self.target)

    def open_target(self, location: str) -> Source:
        """The table that was made. Raises like ``open_source``."""
        return self.table_ref.newest_at(location, format=self.to).open(beside=[self.source])

    @property
    def table_ref(self) -> TableRef:
        """The source."""
        return TableRef(
            location=self.source,
            selector=Selector(version=self.version, snapshot_id=self.snapshot_id, ref=self.ref, as_of_ms=self.as_of_ms),
            relocate=self.relocate,
            storage_options=self.storage_options,
            allow_locations=tuple(self.allow_locations or ()),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TableOutcome:
    """The outcome of one table.

    status: ``converted``; ``current`` where the target held this state already; ``differs`` where verification found a
    difference; else why nothing was done. error, exit_code: the line and code of ``deltaberg convert`` or ``verify``.
    feature: the code of the plan's item that refuses, or another feature that cannot be carried. plan: where it
    refuses.
    """

    name: str
    source: str
    status: Status
    exit_code: int
    seconds: float
    result: ConvertResult | None = None
    verification: VerifyReport | None = None
    error: str | None = None
    feature: str | None = None
    plan: Plan | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "source": self.source,
            "status": self.status,
            "exit_code": self.exit_code,
            "seconds": round(self.seconds, 3),
            "error": self.error,
            "feature": self.feature,
            "plan": None if self.plan is None else self.plan.to_json(),
            "result": None if self.result is None else self.result.to_json(),
            "verification": None if self.verification is None else self.verification.to_json(),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ManyTables:
    """The outcomes in the order of the requests."""

    tables: tuple[TableOutcome, ...]

    @property
    def exit_code(self) -> int:
        """0 where every table is done; 1 where one failed, else 5, 4, 3 or 2, whichever comes first here."""
        codes = {table.exit_code for table in self.tables}
        return next((code for code in _WORST_FIRST if code in codes), 0)

    def to_json(self) -> dict[str, Any]:
        return {
            "exit_code": self.exit_code,
            "statuses": dict(Counter(table.status for table in self.tables)),
            "tables": [table.to_json() for table in self.tables],
        }

    def summary(self) -> str:
        """A line for each table, and one for all."""
        rows: list[tuple[str, ...]] = [("status", "table", "files", "rewritten", "rows", "seconds", "")]
        for table in self.tables:
            done = table.result
            numbers = ("", "", "") if done is None else (done.files, done.rewritten_files, done.rows)
            counts = [each if isinstance(each, str) else f"{each:,}" for each in numbers]
            rows.append((table.status, table.name, *counts, f"{table.seconds:.1f}", table.error or ""))
        widths = [max(len(row[place]) for row in rows) for place in range(6)]
        right = (False, False, True, True, True, True)
        lines = [
            "  ".join(
                [
                    *(
                        text.rjust(width) if to_right else text.ljust(width)
                        for text, width, to_right in zip(row, widths, right, strict=False)
                    ),
                    row[-1],
                ]
            ).rstrip()
            for row in rows
        ]
        statuses = Counter(table.status for table in self.tables)
        found = ", ".join(f"{count} {status}" for status, count in statuses.items())
        count = f"{len(self.tables)} table{'' if len(self.tables) == 1 else 's'}"
        return "\n".join([*lines, f"{count}: {found or 'nothing to do'}"])


TableDone = Callable[[TableOutcome], None]


def convert_many(
    session: SparkSession | None,
    requests: Sequence[TableRequest],
    *,
    at_once: int = AT_ONCE,
    on_done: TableDone | None = None,
) -> ManyTables:
    """Convert every table, ``at_once`` of them at a time, in Spark tasks; a failure of one table does not stop the
    others.

    session: None: the active one or a new one. on_done: called in this thread for each table when it is done. Raises
    UsageError where two requests have the same target or name, EngineUnavailable where there is no Spark. An
    interruption is passed on once the tables in work are stopped, their Spark jobs cancelled and their files rolled
    back; those not begun yet are left.
    """
    check_requests(requests)
    if at_once < 1:
        raise UsageError(f"Cannot work on {at_once} tables at a time: expected 1 or more")
    if not requests:
        return ManyTables(tables=())
    session = spark_session(session)
    # Once for all, before threads ask for it.
    ship_package(session)
    work = _Tables(session)
    threads: set[int] = set()
    pool = ThreadPoolExecutor(
        max_workers=at_once,
        thread_name_prefix="deltaberg-table",
        initializer=lambda: threads.add(threading.get_ident()),
    )
    futures: dict[Future[TableOutcome], int] = {}
    try:
        futures = {pool.submit(work.convert, request): place for place, request in enumerate(requests)}
        outcomes = _gather(futures, requests, on_done)
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        # A table between two jobs begins the next one before it is stopped.
        while running := [future for future in futures if not future.done()]:
            cancel_jobs(threads)
            wait(running, timeout=_CANCEL_SECONDS)
        raise
    pool.shutdown()
    return ManyTables(tables=tuple(outcomes[place] for place in range(len(requests))))


def check_requests(requests: Iterable[TableRequest]) -> None:
    """Raise UsageError where two requests would write the same table or have the same name."""
    names: set[str] = set()
    targets: dict[tuple[str, TableFormat], str] = {}
    for request in requests:
        if request.name in names:
            raise UsageError(f"Cannot tell two tables apart that are both called {request.name}: give them a name each")
        names.add(request.name)
        place = request.target_place, request.to
        other = targets.setdefault(place, request.name)
        if other != request.name:
            raise UsageError(
                f"Cannot write {request.name} and {other} to one {request.to.value} table ({place[0]}): give each a target"
            )


def _gather(
    futures: dict[Future[TableOutcome], int], requests: Sequence[TableRequest], on_done: TableDone | None
) -> dict[int, TableOutcome]:
    outcomes: dict[int, TableOutcome] = {}
    waiting = set(futures)
    while waiting:
        done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
        for future in sorted(done, key=futures.__getitem__):
            place = futures[future]
            error = future.exception()
            # Whatever the error is, the other tables go on.
            outcome = future.result() if error is None else _broken(requests[place], error)
            outcomes[place] = outcome
            if on_done is not None:
                on_done(outcome)
    return outcomes


def _broken(request: TableRequest, error: BaseException) -> TableOutcome:
    """An error that is no ``DeltabergError`` is a defect: it says which."""
    return TableOutcome(
        name=request.name,
        source=request.source,
        status="failed",
        exit_code=1,
        seconds=0.0,
        error=redacted(" ".join(f"{type(error).__name__}: {error}".split())),
    )


@dataclass(frozen=True, slots=True)
class _Tables:
    """The work of a thread on one table."""

    session: SparkSession

    def convert(self, request: TableRequest) -> TableOutcome:
        started = time.monotonic()
        result: ConvertResult | None = None
        report: VerifyReport | None = None
        error: DeltabergError | None = None
        try:
            with error_context(table=request.source):
                source = request.open_source()
                result = convert(
                    source,
                    to=request.to,
                    target=request.target,
                    options=request.options,
                    session=self.session,
                )
                if request.verify != "none":
                    report = self._verify(request, source)
        except DeltabergError as found:
            error = found
        status, code = _status(result, report, error)
        return TableOutcome(
            name=request.name,
            source=request.source,
            status=status,
            exit_code=code,
            seconds=time.monotonic() - started,
            result=result,
            verification=report,
            error=str(error) if error is not None else _difference(report),
            feature=None if error is None else error.feature,
            plan=error.plan if isinstance(error, Refused) else None,
        )

    def _verify(self, request: TableRequest, source: Source) -> VerifyReport:
        target = request.open_target(target_root(source, request.target))
        work = SparkWork(self.session)
        return verify(source, target, rows=request.verify == "rows", compare_rows=spark_rows_check(work))


def _status(
    result: ConvertResult | None, report: VerifyReport | None, error: DeltabergError | None
) -> tuple[Status, int]:
    if error is not None:
        return _STATUS_OF_CODE.get(error.exit_code, "failed"), error.exit_code
    if report is not None and not report.equal:
        return "differs", VerificationFailed.exit_code
    return ("current" if result is not None and result.already_current else "converted"), 0


def _difference(report: VerifyReport | None) -> str | None:
    failed = [check for check in report.checks if not check.equal] if report is not None else []
    first = next((line for check in failed for line in check.differences), "")
    return f"differs in {', '.join(check.name for check in failed)}: {first}" if failed else None
