"""Work on a stream of batches with every processor, in order and in bounded memory."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

import pyarrow as pa

_AHEAD = 2
_Result = TypeVar("_Result")


def in_order(work: Callable[[pa.RecordBatch], _Result], batches: Iterator[pa.RecordBatch]) -> Iterator[_Result]:
    """``work`` of each batch in the order of the batches; at most a few batches for each processor are held.

    The kernels of Arrow run outside the interpreter's lock, so threads suffice. A lone batch gets none.
    """
    first = next(batches, None)
    if first is None:
        return
    second = next(batches, None)
    if second is None:
        yield work(first)
        return
    threads = os.cpu_count() or 1
    pending: deque[Future[_Result]] = deque()
    pool = ThreadPoolExecutor(threads, thread_name_prefix="delta-log")
    try:
        pending.extend((pool.submit(work, first), pool.submit(work, second)))
        for batch in batches:
            pending.append(pool.submit(work, batch))
            if len(pending) >= threads * _AHEAD:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
