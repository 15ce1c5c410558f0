"""Work on a stream of batches by several threads: in order, lazily, with every error in its turn."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pyarrow as pa
import pytest

from deltaberg.delta.log import parallel_batches
from deltaberg.delta.log.parallel_batches import in_order

THREADS = 4


@pytest.fixture(autouse=True)
def several_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel_batches, "processors", lambda: THREADS)


def numbered(number: int) -> pa.RecordBatch:
    return pa.record_batch([pa.array([number])], names=["number"])


def number_of(batch: pa.RecordBatch) -> int:
    return int(batch.column("number")[0].as_py())


def batches(count: int, taken: list[int] | None = None) -> Iterator[pa.RecordBatch]:
    for number in range(count):
        if taken is not None:
            taken.append(number)
        yield numbered(number)


@pytest.mark.parametrize("count", [0, 1, 2, 3, THREADS, 50])
def test_results_come_in_the_order_of_their_batches(count: int) -> None:
    assert list(in_order(number_of, batches(count))) == list(range(count))


def test_a_result_that_is_late_is_waited_for() -> None:
    second_is_done = threading.Event()

    def work(batch: pa.RecordBatch) -> int:
        if number_of(batch) == 0:
            assert second_is_done.wait(30)
        elif number_of(batch) == 1:
            second_is_done.set()
        return number_of(batch)

    assert list(in_order(work, batches(10))) == list(range(10))


def test_batches_are_taken_only_a_few_ahead_of_who_reads() -> None:
    taken: list[int] = []
    results = in_order(number_of, batches(100, taken))
    assert [next(results) for _ in range(10)] == list(range(10))
    assert len(taken) <= 10 + THREADS
    results.close()  # type: ignore[attr-defined]
    assert len(taken) <= 10 + THREADS


def test_what_the_work_raises_comes_after_the_results_before_it() -> None:
    def work(batch: pa.RecordBatch) -> int:
        if number_of(batch) == 7:
            raise ValueError("the eighth")
        return number_of(batch)

    results = in_order(work, batches(20))
    assert [next(results) for _ in range(7)] == list(range(7))
    with pytest.raises(ValueError, match="the eighth"):
        next(results)


def test_what_the_source_raises_comes_after_the_results_before_it() -> None:
    def broken() -> Iterator[pa.RecordBatch]:
        yield from batches(5)
        raise OSError("the file ends here")

    results = in_order(number_of, broken())
    assert [next(results) for _ in range(5)] == list(range(5))
    with pytest.raises(OSError, match="the file ends here"):
        next(results)


def test_no_two_threads_take_from_the_source_at_once() -> None:
    inside = threading.Lock()

    def guarded() -> Iterator[pa.RecordBatch]:
        for batch in batches(200):
            assert inside.acquire(blocking=False)
            try:
                threading.Event().wait(0)  # lets other threads go on
            finally:
                inside.release()
            yield batch

    assert list(in_order(number_of, guarded())) == list(range(200))


def test_no_thread_is_left_when_the_reader_stops_early() -> None:
    before = threading.active_count()
    results = in_order(number_of, batches(100))
    assert next(results) == 0
    assert threading.active_count() > before
    results.close()  # type: ignore[attr-defined]
    assert threading.active_count() == before
