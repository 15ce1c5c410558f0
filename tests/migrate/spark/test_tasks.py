"""Units of work in tasks: one task for each, results in order, our own errors whole."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deltaberg.errors import EngineFailed
from deltaberg.iceberg.errors import CorruptMetadata
from deltaberg.migrate.spark.tasks import Attempt, SparkWork, cancel_jobs
from deltaberg.storage import NotFound


@pytest.fixture(autouse=True)
def _send_this_module_along() -> Iterator[None]:
    """Workers cannot import it."""
    cloudpickle = pytest.importorskip("pyspark.cloudpickle")
    module = sys.modules[__name__]
    cloudpickle.register_pickle_by_value(module)
    yield
    cloudpickle.unregister_pickle_by_value(module)


def partition(unit: int, attempt: Attempt) -> tuple[int, int, str]:
    from pyspark import TaskContext

    return unit, TaskContext.get().partitionId(), attempt.name


def missing(unit: int, attempt: Attempt) -> int:
    if unit == 2:
        raise NotFound("Cannot read /x: no such file", path="/x")
    return unit


def corrupt(unit: int, attempt: Attempt) -> int:
    raise CorruptMetadata("Cannot read it", field="$.a[1]", path="/m.json", version=unit, table="/t")


def defect(unit: int, attempt: Attempt) -> int:
    return unit // 0


def test_every_unit_is_a_task_of_its_own_and_results_are_in_order(spark: Any) -> None:
    done = SparkWork(spark).run(partition, list(range(100, 119)), description="partitions")
    assert [each.result[0] for each in done] == list(range(100, 119))
    assert len({each.result[1] for each in done}) == 19
    assert [each.attempt.unit for each in done] == list(range(19))
    assert [each.attempt.name for each in done] == [each.result[2] for each in done]
    assert len({each.attempt.name for each in done}) == 19


def test_without_units_nothing_runs(spark: Any) -> None:
    assert SparkWork(spark).run(partition, [], description="nothing") == []


def test_an_error_of_the_package_comes_back_as_it_was(spark: Any) -> None:
    work = SparkWork(spark)
    with pytest.raises(NotFound, match=r"^Cannot read /x: no such file$") as caught:
        work.run(missing, [1, 2, 3], description="missing")
    assert caught.value.path == "/x"
    with pytest.raises(CorruptMetadata) as other:
        work.run(corrupt, [7], description="corrupt")
    assert str(other.value) == "Cannot read it [table /t, version 7, file /m.json, field $.a[1]]"


def test_a_defect_is_one_line_that_names_the_job(spark: Any) -> None:
    with pytest.raises(EngineFailed, match=r"^Spark gave the job up \(divide\): .*ZeroDivisionError") as caught:
        SparkWork(spark).run(defect, [1], description="divide")
    assert "\n" not in str(caught.value)


def test_progress_ends_with_all_tasks_or_before(spark: Any) -> None:
    told: list[tuple[int, int]] = []
    SparkWork(spark).run(partition, list(range(4)), description="told", progress=lambda *each: told.append(each))
    assert told
    assert all(0 <= done <= count == 4 for done, count in told)
    assert told == sorted(told)


def wait_for_a_writer(unit: tuple[str, str], attempt: Attempt) -> None:
    """Says that it has begun, then waits for a pipe that nobody writes to."""
    begun, never = unit
    Path(begun).write_text("begun", encoding="utf-8")
    Path(never).read_text(encoding="utf-8")


def test_a_job_is_cancelled_from_another_thread_and_no_other_job_is(spark: Any, tmp_path: Path) -> None:
    pipes = {name: (str(tmp_path / f"{name}-begun"), str(tmp_path / f"{name}-never")) for name in ("one", "other")}
    for pipe in (pipe for pair in pipes.values() for pipe in pair):
        os.mkfifo(pipe)
    ended: dict[str, BaseException | None] = {}

    def run(name: str) -> None:
        try:
            SparkWork(spark).run(wait_for_a_writer, [pipes[name]], description=name)
        except EngineFailed as error:
            ended[name] = error
        else:
            ended[name] = None

    threads = {name: threading.Thread(target=run, args=(name,), daemon=True) for name in pipes}
    for name, thread in threads.items():
        thread.start()
        assert Path(pipes[name][0]).read_text(encoding="utf-8") == "begun"
    cancel_jobs({threads["one"].ident or 0})
    threads["one"].join(120)
    assert isinstance(ended["one"], EngineFailed)
    assert "cancel" in str(ended["one"])
    assert threads["other"].is_alive()
    Path(pipes["other"][1]).write_text("go on", encoding="utf-8")
    threads["other"].join(120)
    assert ended["other"] is None
