"""Many tables kept up to date by one loop: who is due, who is at work, and when each has its next turn.

The loop is one thread, which alone changes what is known of the tables; turns run in a few others. What comes from outside
(a turn that is done, a wish that a table be looked at now, the wish to stop) arrives in one inbox, into which a signal
handler may put, too.
"""

from __future__ import annotations

import heapq
import os
import queue
import random
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from deltaberg.errors import UsageError
from deltaberg.keywords import nearest
from deltaberg.migrate.publish.config import PublishedTable, PublisherConfig
from deltaberg.migrate.publish.config_file import read_config
from deltaberg.migrate.publish.table_job import GOOD, Failure, TableJob, TurnOutcome

_HEARTBEAT_S: Final = 5.0
_SPREAD: Final = 0.1

Observer = Callable[[TurnOutcome], None]
"""Told of every turn that came to an end, in the thread of the loop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishReport:
    """What came of one round: an outcome for each table, in the order of the configuration; not_run: after a stop."""

    tables: tuple[TurnOutcome, ...]
    not_run: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def failed(self) -> tuple[TurnOutcome, ...]:
        return tuple(each for each in self.tables if each.state == "failed")

    def to_json(self) -> dict[str, Any]:
        return {
            "tables": [each.to_json() for each in self.tables],
            "failed": [each.name for each in self.failed],
            "not_run": list(self.not_run),
            "notes": list(self.notes),
        }


@dataclass(slots=True, kw_only=True)
class TableRecord:
    """What is known of a table between its turns, for the schedule and for those who watch."""

    job: TableJob
    due: float = 0.0
    running: bool = False
    again: bool = False
    failures_in_row: int = 0
    last: TurnOutcome | None = None
    last_error: Failure | None = None
    last_success_ms: int | None = None
    failures: Counter[str] = field(default_factory=Counter)
    commits: int = 0
    syncs: int = 0
    sync_seconds: float = 0.0

    @property
    def table(self) -> PublishedTable:
        return self.job.table


@dataclass(frozen=True, slots=True, kw_only=True)
class _Message:
    kind: Literal["done", "wanted", "stop"]
    name: str = ""
    future: Future[TurnOutcome] | None = None


class Publisher:
    """Keeps the tables of a configuration up to date: once, or until it is told to stop.

    config: a ``PublisherConfig``, or where its file is. observer: told of every turn's outcome.
    """

    def __init__(
        self,
        config: PublisherConfig | str | os.PathLike[str],
        *,
        observer: Observer | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        wall_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        chance: random.Random | None = None,
    ) -> None:
        self.config = config if isinstance(config, PublisherConfig) else read_config(config)
        self._observer = observer
        self._monotonic, self._wall_ms = monotonic, wall_ms
        self._chance = chance or random.Random()
        self._records = {
            table.name: TableRecord(
                job=TableJob(
                    table=table,
                    lease_s=self.config.lease_s,
                    recheck_s=self.config.recheck_s,
                    monotonic=monotonic,
                    wall_ms=wall_ms,
                )
            )
            for table in self.config.tables
        }
        self._inbox: queue.SimpleQueue[_Message] = queue.SimpleQueue()
        self._alive_at = monotonic()
        self._stopping = False

    def run_once(self) -> PublishReport:
        """Give every table one turn. A table that fails is in the report, and does not keep the others from theirs."""
        ran = self._loop(once=True)
        tables = tuple(ran[name] for name in self._records if name in ran)
        return PublishReport(
            tables=tables, not_run=tuple(name for name in self._records if name not in ran), notes=self.config.notes
        )

    def run(self) -> None:
        """Give each table its turn at its interval, until ``stop``."""
        self._loop(once=False)

    def stop(self) -> None:
        """Begin nothing more, finish what is at work, and return from ``run``. May be called by a signal handler."""
        self._inbox.put(_Message(kind="stop"))

    def wants(self, name: str) -> None:
        """Give a table a turn now. Raises UsageError for a name that is not known. May be called by any thread."""
        if name not in self._records:
            raise UsageError(f"Cannot sync {name}: no table has this name ({nearest(name, self._records)})")
        self._inbox.put(_Message(kind="wanted", name=name))

    @property
    def records(self) -> Mapping[str, TableRecord]:
        """To be looked at, by any thread."""
        return self._records

    def now_ms(self) -> int:
        """What time it is, to say how long ago something was."""
        return self._wall_ms()

    @property
    def is_alive(self) -> bool:
        """Whether the loop goes round, and nobody told it to stop."""
        return not self._stopping and self._monotonic() - self._alive_at < 6 * _HEARTBEAT_S

    def _loop(self, *, once: bool) -> dict[str, TurnOutcome]:
        self._stopping = False
        outcomes: dict[str, TurnOutcome] = {}
        ready: deque[str] = deque(self._records)
        waiting: list[tuple[float, str]] = []
        at_work = 0
        pool = ThreadPoolExecutor(max_workers=self.config.concurrency, thread_name_prefix="deltaberg-publish")
        try:
            while True:
                self._alive_at = now = self._monotonic()
                while waiting and waiting[0][0] <= now:
                    due, name = heapq.heappop(waiting)
                    if due == self._records[name].due and not self._records[name].running:
                        ready.append(name)
                while ready and at_work < self.config.concurrency and not self._stopping:
                    self._begin(pool, ready.popleft())
                    at_work += 1
                if not at_work and (self._stopping or (once and not ready)):
                    return outcomes
                message = self._next_message(waiting)
                if message is None:
                    continue
                if message.kind == "stop":
                    self._stopping = True
                elif message.kind == "wanted":
                    record = self._records[message.name]
                    if record.running:
                        record.again = True
                    elif message.name not in ready:
                        record.due = -1.0
                        ready.append(message.name)
                else:
                    at_work -= 1
                    outcomes[message.name] = self._ended(message)
                    record = self._records[message.name]
                    if not once:
                        heapq.heappush(waiting, (record.due, message.name))
        finally:
            self._stopping = True
            pool.shutdown(wait=True, cancel_futures=True)

    def _begin(self, pool: ThreadPoolExecutor, name: str) -> None:
        record = self._records[name]
        record.running, record.again = True, False
        future = pool.submit(record.job.turn)
        future.add_done_callback(lambda done: self._inbox.put(_Message(kind="done", name=name, future=done)))

    def _next_message(self, waiting: list[tuple[float, str]]) -> _Message | None:
        wait_s = _HEARTBEAT_S if not waiting else min(_HEARTBEAT_S, max(0.0, waiting[0][0] - self._monotonic()))
        try:
            return self._inbox.get(timeout=wait_s)
        except queue.Empty:
            return None

    def _ended(self, message: _Message) -> TurnOutcome:
        """Note what came of a turn, and when the next one is due."""
        record = self._records[message.name]
        assert message.future is not None
        # A defect of ours in one table must not end the others: it is reported with this one.
        error = message.future.exception()
        if error is None:
            outcome = message.future.result()
        else:
            table = record.table
            outcome = TurnOutcome(
                name=table.name,
                state="failed",
                source=table.source,
                to=table.to.value,
                target=table.target,
                position=record.job.position,
                failure=Failure.of(error),
            )
        record.running = False
        self._note(record, outcome)
        pause = self._pause_s(record)
        record.due = self._monotonic() + (0.0 if record.again else pause)
        if self._observer is not None:
            self._observer(outcome)
        return outcome

    def _note(self, record: TableRecord, outcome: TurnOutcome) -> None:
        record.last = outcome
        if outcome.state in GOOD:
            record.failures_in_row, record.last_error = 0, None
            record.last_success_ms = self._wall_ms()
        elif outcome.failure is not None:
            record.failures_in_row += 1
            record.last_error = outcome.failure
            record.failures[outcome.failure.code] += 1
        if outcome.state in {"synced", "created", "current"}:
            record.commits += len(outcome.commits)
            record.syncs += 1
            record.sync_seconds += outcome.seconds

    def _pause_s(self, record: TableRecord) -> float:
        """Until the next turn: the interval, a little more or less so that tables spread out; after failures twice as long
        each time, of which chance takes up to a half."""
        interval = record.table.interval_s
        if not record.failures_in_row:
            return interval * self._chance.uniform(1 - _SPREAD, 1 + _SPREAD)
        longest = max(interval, self.config.max_backoff_s)
        return min(longest, interval * 2.0 ** min(record.failures_in_row, 30)) * self._chance.uniform(0.5, 1.0)


def with_interval(config: PublisherConfig, interval_s: float) -> PublisherConfig:
    """The same, with one interval for all tables."""
    return replace(config, tables=tuple(replace(table, interval_s=interval_s) for table in config.tables))
