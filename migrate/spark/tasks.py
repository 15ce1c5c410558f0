"""Run units of work in Spark tasks, one task for each, and bring small results and deltaberg's errors back.

A unit is any picklable value; ``work`` is a picklable callable of the package (a function of a module, or a frozen
dataclass with ``__call__``), called as ``work(unit, attempt)`` in a task. Its result is pickled and collected by the
driver, so it must be small: large results are staged in files (``staging``) and only named in the result.

A task may run more than once (retried after a crash, speculated): every attempt has a name of its own, which belongs
into the names of the files that it writes, and only the results of the attempts that Spark accepted come back.
"""

from __future__ import annotations

import gc
import pickle
import threading
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import pyarrow as pa

from deltaberg.errors import DeltabergError, EngineFailed
from deltaberg.migrate.spark.session import is_connect, reason, spark_errors
from deltaberg.migrate.spark.shipping import ship_package

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Unit = TypeVar("Unit")
Result = TypeVar("Result")
TaskProgress = Callable[[int, int], None]
"""Called with (finished tasks, all tasks) while a job runs."""

_POLL_SECONDS = 0.2
_SENT_WITH_THE_WORK = 4 << 20
"""Bytes of units that are sent to every task, which takes its own; more are dealt out by a shuffle."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One execution of one unit. unit: its number. name: unlike that of every other attempt; fit for a file name."""

    unit: int
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Done(Generic[Result]):
    """The accepted result of a unit, and the attempt that gave it."""

    attempt: Attempt
    result: Result


class SparkWork:
    """Runs units in tasks of one session. The package is shipped to the executors at first use where they lack it."""

    def __init__(self, session: SparkSession) -> None:
        self.session = session
        self._shipped = False

    def run(
        self,
        work: Callable[[Unit, Attempt], Result],
        units: Sequence[Unit],
        *,
        description: str,
        progress: TaskProgress | None = None,
    ) -> list[Done[Result]]:
        """The result of every unit, in the order of ``units``, each once.

        description: shown as the job's in the Spark UI. An interruption (Ctrl-C) cancels this job and no other.
        Raises the first error of the package that a task raised, fields and all, after the job has ended; EngineFailed
        where Spark gave the job up.
        """
        if not units:
            return []
        payloads = [pickle.dumps(unit) for unit in units]
        if sum(map(len, payloads)) <= _SENT_WITH_THE_WORK:
            # One number for each partition, and no shuffle: it would take longer than many a job.
            self._ship()
            numbers = self.session.range(0, len(units), 1, len(units))
            spread = numbers.mapInArrow(_in_tasks_of(work, payloads), RESULT_COLUMNS)
        else:
            spread = self.frame(units).mapInArrow(_in_tasks(work), RESULT_COLUMNS)
        collected = _Job(self.session, spread, description).collect(len(units), progress)
        return _accepted(collected, len(units))

    def frame(self, units: Sequence[Unit]) -> DataFrame:
        """Units as a frame, for jobs of several steps: ``units_in`` reads them in a task of their own."""
        self._ship()
        rows = [(number, pickle.dumps(unit)) for number, unit in enumerate(units)]
        # Connect has no such option, and warns the user about it.
        unchecked = {} if is_connect(self.session) else {"verifySchema": False}
        frame = self.session.createDataFrame(rows, "unit long, payload binary", **unchecked)
        # One row for each partition: as many ranges as there are numbers.
        return frame.repartitionByRange(max(1, len(rows)), "unit")

    def _ship(self) -> None:
        if not self._shipped:
            ship_package(self.session)
            self._shipped = True

    def collect(self, frame: DataFrame, *, description: str, progress: TaskProgress | None = None) -> list[Any]:
        """The results (``result_batch``) in a frame, in no order. Raises like ``run``."""
        tasks = int(self.session.conf.get("spark.sql.shuffle.partitions") or 1)
        collected = _Job(self.session, frame, description).collect(tasks, progress)
        return [_result(failed, payload) for _, _, failed, payload in collected]


RESULT_COLUMNS = "unit long, attempt string, failed boolean, payload binary"
RESULT_SCHEMA = pa.schema(
    [("unit", pa.int64()), ("attempt", pa.string()), ("failed", pa.bool_()), ("payload", pa.binary())]
)


def _in_tasks(
    work: Callable[[Unit, Attempt], Result],
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return run_batches(work, batches)

    return task


def _in_tasks_of(
    work: Callable[[Unit, Attempt], Result], payloads: Sequence[bytes]
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        numbers = (number for batch in batches for number in batch.column(0).to_pylist())
        units = (pa.record_batch([[number], [payloads[number]]], names=["unit", "payload"]) for number in numbers)
        return run_batches(work, units)

    return task


def run_batches(work: Callable[[Unit, Attempt], Result], batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The work of a task: units in, results out. An error of the package is a result too, so that Spark does not retry
    it.
    """
    _settle()
    for number, unit in units_in(batches):
        attempt = Attempt(unit=number, name=f"{number:06d}-{uuid.uuid4().hex}")
        try:
            result = result_batch(work(unit, attempt), attempt)
        except DeltabergError as error:
            result = failure_batch(failure_bytes(error), attempt)
        yield result


def _settle() -> None:
    """PySpark collects garbage after every task: modules are exempt, since they are never garbage."""
    if not gc.get_freeze_count():
        gc.freeze()


def units_in(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, Any]]:
    """The units of a frame, with their numbers."""
    for batch in batches:
        for number, payload in zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True):
            yield number, pickle.loads(payload)


def result_batch(result: object, attempt: Attempt) -> pa.RecordBatch:
    """A result on its way to the driver."""
    return _as_batch(attempt, False, pickle.dumps(result))


def failure_batch(failure: bytes, attempt: Attempt) -> pa.RecordBatch:
    """An error on its way to the driver, where it is raised again."""
    return _as_batch(attempt, True, failure)


def failure_bytes(error: DeltabergError) -> bytes:
    """An error as a value that may pass through other tasks before it becomes a result."""
    return pickle.dumps(_Failure.of(error))


def _as_batch(attempt: Attempt, failed: bool, payload: bytes) -> pa.RecordBatch:
    values = zip((attempt.unit, attempt.name, failed, payload), RESULT_SCHEMA, strict=True)
    return pa.RecordBatch.from_arrays([pa.array([value], field.type) for value, field in values], schema=RESULT_SCHEMA)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Failure:
    """An error of the package on its way to the driver."""

    kind: type[DeltabergError]
    fields: dict[str, Any]

    @classmethod
    def of(cls, error: DeltabergError) -> _Failure:
        return cls(kind=type(error), fields=dict(vars(error)))

    def error(self) -> DeltabergError:
        # Subclasses have signatures of their own: what was said is restored, not said again.
        made = self.kind.__new__(self.kind)
        Exception.__init__(made, self.fields.get("message", ""))
        vars(made).update(self.fields)
        return made


def _accepted(collected: Sequence[tuple[int, str, bool, bytes]], count: int) -> list[Done[Any]]:
    results: dict[int, Done[Any]] = {}
    for number, name, failed, payload in sorted(collected, key=lambda row: row[0]):
        results[number] = Done(attempt=Attempt(unit=number, name=name), result=_result(failed, payload))
    if len(collected) != count or len(results) != count:
        raise EngineFailed(f"Cannot use what Spark gave back: expected {count} results, found {len(collected)}")
    return list(results.values())


def _result(failed: bool, payload: bytes) -> Any:
    value = pickle.loads(payload)
    if failed:
        raise value.error()
    return value


def cancel_jobs(threads: Collection[int]) -> None:
    """Stop the jobs that some threads (by ident) wait for; there they raise EngineFailed."""
    for job, thread in list(_running.items()):
        if thread in threads:
            job.cancel()


class _Job:
    """One action of a session, watched from this thread while another one waits for it."""

    def __init__(self, session: SparkSession, frame: DataFrame, description: str) -> None:
        self._session, self._frame, self._description = session, frame, description
        self._group = f"deltaberg-{uuid.uuid4().hex}"
        self._rows: list[tuple[int, str, bool, bytes]] = []
        self._error: BaseException | None = None

    def collect(self, count: int, progress: TaskProgress | None) -> list[tuple[int, str, bool, bytes]]:
        thread = threading.Thread(target=self._collect, name=self._group, daemon=True)
        thread.start()
        _running[self] = threading.get_ident()
        try:
            while thread.is_alive():
                thread.join(_POLL_SECONDS)
                if progress is not None:
                    progress(min(self._finished_tasks(), count), count)
        except BaseException:
            self.cancel()
            thread.join(60)
            raise
        finally:
            del _running[self]
        if self._error is not None:
            raise EngineFailed(f"Spark gave the job up ({self._description}): {reason(self._error)}") from self._error
        return self._rows

    def _collect(self) -> None:
        try:
            if is_connect(self._session):
                self._session.addTag(self._group)
            else:
                self._session.sparkContext.setJobGroup(self._group, self._description, interruptOnCancel=True)
            self._rows = [(row[0], row[1], row[2], bytes(row[3])) for row in self._frame.collect()]
        except spark_errors() as error:
            self._error = error

    def _finished_tasks(self) -> int:
        """The progress of the stage that does the work, which is the last one of the group's newest job."""
        if is_connect(self._session):
            return 0
        tracker = self._session.sparkContext.statusTracker()
        done = 0
        for job in tracker.getJobIdsForGroup(self._group):
            info = tracker.getJobInfo(job)
            stages = sorted(info.stageIds) if info is not None else []
            stage = tracker.getStageInfo(stages[-1]) if stages else None
            done = max(done, 0 if stage is None else int(stage.numCompletedTasks))
        return done

    def cancel(self) -> None:
        with suppress(*spark_errors()):
            if is_connect(self._session):
                self._session.interruptTag(self._group)
            else:
                self._session.sparkContext.cancelJobGroup(self._group)


_running: dict[_Job, int] = {}
"""Jobs, and the threads that wait for them."""
