"""Work on a stream of batches with every processor, in order and in bounded memory.

The kernels and readers of Arrow run outside the interpreter's lock, so threads suffice.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain, count
from threading import Condition
from typing import TypeVar

import pyarrow as pa

_AHEAD = 1
_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def processors() -> int:
    """How many threads are worth having: Arrow's count, which heeds OMP_NUM_THREADS (Spark sets it for its tasks)."""
    return max(1, int(pa.cpu_count()))


def in_order(work: Callable[[pa.RecordBatch], _Result], batches: Iterator[pa.RecordBatch]) -> Iterator[_Result]:
    """``work`` of each batch in the order of the batches; at most a few batches for each processor are held.

    Working threads take the batches from their source themselves, one thread at a time, so that none waits in a queue
    and no thread only feeds the others. A lone batch gets no thread.
    """
    first = next(batches, None)
    if first is None:
        return
    second = next(batches, None)
    if second is None:
        yield work(first)
        return
    source = _Turns(chain((first, second), batches))

    def work_on_next(turn: int) -> tuple[_Result] | None:
        batch = source.next_of(turn)
        return None if batch is None else (work(batch),)

    threads = processors()
    pending: deque[Future[tuple[_Result] | None]] = deque()
    pool = ThreadPoolExecutor(threads, thread_name_prefix="delta-log")
    try:
        for turn in count():
            pending.append(pool.submit(work_on_next, turn))
            if len(pending) > threads:
                done = pending.popleft().result()
                if done is None:
                    return
                yield done[0]
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


class _Turns:
    """A source of batches for several threads, which take theirs in the order of their turns, counted from 0."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self._changed = Condition()
        self._turn = 0

    def next_of(self, turn: int) -> pa.RecordBatch | None:
        """The batch of a turn, None where there are not so many. Every earlier turn must be taken, too."""
        with self._changed:
            self._changed.wait_for(lambda: self._turn == turn)
            try:
                return next(self._batches, None)
            finally:
                self._turn += 1
                self._changed.notify_all()


def ahead(items: Iterator[_Item]) -> Generator[_Item, None, None]:
    """The items in order, made one ahead by a thread of their own; an error that making one raises is raised in its
    turn.
    """
    pool = ThreadPoolExecutor(1, thread_name_prefix="delta-log-read")
    try:
        pending = deque(pool.submit(next, items, None) for _ in range(_AHEAD))
        while True:
            item = pending.popleft().result()
            if item is None:
                return
            pending.append(pool.submit(next, items, None))
            yield item
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
