"""Work on a stream of batches with every processor, in order and in bounded memory.

The kernels and readers of Arrow run outside the interpreter's lock, so threads suffice.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
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

    A lone batch gets no thread.
    """
    first = next(batches, None)
    if first is None:
        return
    second = next(batches, None)
    if second is None:
        yield work(first)
        return
    threads = processors()
    pending: deque[Future[_Result]] = deque()
    pool = ThreadPoolExecutor(threads, thread_name_prefix="delta-log")
    try:
        pending.extend((pool.submit(work, first), pool.submit(work, second)))
        for batch in batches:
            pending.append(pool.submit(work, batch))
            if len(pending) >= threads + _AHEAD:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def ahead(items: Iterator[_Item]) -> Generator[_Item, None, None]:
    """The same items, made by a thread of its own that is an item ahead; what it raises is raised in its turn."""
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
