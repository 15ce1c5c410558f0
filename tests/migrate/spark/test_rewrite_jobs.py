"""What a job promises when something goes wrong: dying workers, damaged files, interrupted and killed drivers."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltaberg.datafile.errors import DataFileError
from deltaberg.errors import Conflict, EngineFailed
from deltaberg.migrate.convert import ConvertResult, convert
from deltaberg.migrate.engine import LocalEngine
from deltaberg.migrate.files.rewrite import RewriteUnit
from deltaberg.migrate.files.rewrite_queue import combined
from deltaberg.migrate.refusal import Refused
from deltaberg.migrate.source import open_source
from deltaberg.migrate.spark import rewrite_files
from deltaberg.migrate.spark.tasks import Attempt, Done
from deltaberg.migrate.verify.verify import verify
from deltaberg.storage import open_storage
from deltaberg.translate.options import ConvertOptions

ROWS = pa.table({"id": list(range(40)), "s": [f"row {number}" for number in range(40)]})


class WorkerTrouble:
    """A Storage that does something in the process of a task, but not in the driver's.

    marker: made by the first task that meets the trouble. once: later attempts are spared.
    """

    def __init__(self, trouble: str, marker: Path, *, once: bool = True) -> None:
        self._real = open_storage()
        self._driver = os.getpid()
        self.trouble, self.marker, self.once = trouble, str(marker), once

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._real, name)

    def __getstate__(self) -> dict[str, Any]:
        return dict(self.__dict__)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    @contextmanager
    def create(self, location: str, *, durable: bool = False) -> Iterator[Any]:
        with self._real.create(location) as sink:
            yield sink
            if os.getpid() == self._driver or (self.once and os.path.exists(self.marker)):
                return
            if self.trouble == "dies":
                Path(self.marker).touch()
                os._exit(9)
            # Nobody ever writes into the pipe: the task stays here until it is killed.
            Path(self.marker).touch()
            os.mkfifo(f"{self.marker}-{os.getpid()}")
            Path(f"{self.marker}-{os.getpid()}").read_bytes()


@pytest.fixture(autouse=True)
def _send_the_storage_along() -> Iterator[None]:
    """Workers cannot import this module."""
    cloudpickle = pytest.importorskip("pyspark.cloudpickle")
    module = sys.modules[__name__]
    cloudpickle.register_pickle_by_value(module)
    yield
    cloudpickle.unregister_pickle_by_value(module)


@pytest.fixture
def source(tmp_path: Path, rewrite_cases: Any) -> Path:
    """A Delta table of four files whose field ids are not the table's: all are rewritten for Iceberg."""
    folder = tmp_path / "source"
    columns = [rewrite_cases.column("id", "long"), rewrite_cases.column("s", "string")]
    files = [
        rewrite_cases.delta_file(
            folder, rewrite_cases.with_ids(ROWS.slice(start, 10), {"id": 2, "s": 1}), f"{start}.parquet"
        )
        for start in range(0, 40, 10)
    ]
    rewrite_cases.delta_log(folder, columns, files)
    return folder


def run(
    spark: Any, source: Path, target: Path, *, storage: Any = None, progress: Any = None, **options: Any
) -> ConvertResult:
    return convert(
        open_source(str(source), storage or open_storage()),
        to="iceberg",
        target=str(target),
        options=ConvertOptions(**options),
        progress=progress,
        session=spark,
    )


def every_file(folder: Path) -> set[str]:
    """Hidden and unfinished ones included."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()} if folder.exists() else set()


def data_files_of(done: ConvertResult) -> set[str]:
    table = open_source(done.target, open_storage())
    return {row["path"] for row in _listed(table)}


def _listed(table: Any) -> list[dict[str, str]]:
    from deltaberg.iceberg.manifest.live_files import data_files

    return [
        {"path": path}
        for batch in data_files(table.table, table.snapshot)
        for path in batch.column("file_path").to_pylist()
    ]


def test_a_worker_that_dies_is_tried_again_and_leaves_nothing(
    spark: Any, source: Path, tmp_path: Path, difference: Any
) -> None:
    marker = tmp_path / "died"
    done = run(spark, source, tmp_path / "target", storage=WorkerTrouble("dies", marker))
    assert marker.exists(), "no worker died"
    assert (done.files, done.rows, done.rewritten_files) == (4, 40, 4)
    listed = data_files_of(done)
    assert {
        str(tmp_path / "target" / name) for name in every_file(tmp_path / "target") if name.startswith("data")
    } == listed
    read = pa.concat_tables([pq.read_table(place) for place in sorted(listed)])
    assert not difference(read, ROWS)


def test_workers_that_always_die_end_the_job_and_leave_nothing(spark: Any, source: Path, tmp_path: Path) -> None:
    trouble = WorkerTrouble("dies", tmp_path / "died", once=False)
    with pytest.raises(
        EngineFailed, match=r"Spark gave the job up \(deltaberg: rewrite 4 files .*Python worker"
    ) as caught:
        run(spark, source, tmp_path / "target", storage=trouble)
    assert "\n" not in str(caught.value)
    assert every_file(tmp_path / "target") == set()


def test_a_damaged_file_is_named_and_the_target_stays_as_it_was(spark: Any, source: Path, tmp_path: Path) -> None:
    damaged = source / "20.parquet"
    content = bytearray(damaged.read_bytes())
    content[4:40] = bytes(36)
    damaged.write_bytes(bytes(content))
    with pytest.raises(Refused) as caught:
        run(spark, source, tmp_path / "target")
    assert str(damaged) in str(caught.value)
    assert caught.value.path == str(damaged)
    assert "\n" not in str(caught.value)
    assert every_file(tmp_path / "target") == set()


def test_an_interruption_cancels_the_job_and_leaves_nothing(spark: Any, source: Path, tmp_path: Path) -> None:
    marker = tmp_path / "waiting"

    def interrupt(stage: str, done: int, total: int) -> None:
        if marker.exists():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(spark, source, tmp_path / "target", storage=WorkerTrouble("waits", marker, once=False), progress=interrupt)
    assert spark.range(3).count() == 3, "the session is still of use"
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()  # the tracker hears of the end of jobs from it
    assert list(spark.sparkContext.statusTracker().getActiveJobsIds()) == []
    assert not (tmp_path / "target" / "metadata").exists()
    again = run(spark, source, tmp_path / "target")
    assert again.rows == 40


class Killed(BaseException):
    """What nobody catches."""


class DyingDriver:
    """A Storage whose process is gone the moment before it commits: nothing is cleaned up after that."""

    def __init__(self) -> None:
        self._real = open_storage()
        self.dead = False

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._real, name)

    def __reduce__(self) -> Any:
        return open_storage, ()

    def put_if_absent(self, location: str, data: bytes) -> None:
        self.dead = True
        raise Killed

    def delete(self, location: str) -> None:
        if not self.dead:
            self._real.delete(location)

    def delete_folder(self, folder: str) -> None:
        if not self.dead:
            self._real.delete_folder(folder)


def test_after_a_driver_that_died_before_the_commit_a_rerun_converges(spark: Any, source: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    with pytest.raises(Killed):
        run(spark, source, target, storage=DyingDriver())
    left = {name for name in every_file(target) if name.startswith("data/")}
    assert len(left) == 4
    (target / "data" / "another.parquet").write_bytes(b"somebody else's")
    done = run(spark, source, target)
    assert not done.already_current
    assert done.rows == 40
    there = {str(target / name) for name in every_file(target) if name.startswith("data/")}
    assert there == data_files_of(done) | {str(target / "data" / "another.parquet")}
    assert run(spark, source, target).already_current


def test_what_another_run_wrote_is_not_touched_while_it_may_still_commit(
    spark: Any, source: Path, tmp_path: Path
) -> None:
    """Orphan files are deleted after a commit of one's own only: then the other run cannot commit any more."""
    target = tmp_path / "target"
    with pytest.raises(Killed):
        run(spark, source, target, storage=DyingDriver())
    left = {name for name in every_file(target) if name.startswith("data/")}

    class Losing(DyingDriver):
        def put_if_absent(self, location: str, data: bytes) -> None:
            raise Conflict("somebody was faster")

    with pytest.raises(Conflict):
        run(spark, source, target, storage=Losing())
    assert left <= every_file(target)


def test_the_other_engine_finds_the_target_current(spark: Any, source: Path, tmp_path: Path) -> None:
    assert not run(spark, source, tmp_path / "target").already_current
    options = ConvertOptions(engine="local")
    again = convert(
        open_source(str(source), open_storage()), to="iceberg", target=str(tmp_path / "target"), options=options
    )
    assert again.already_current


def test_progress_counts_bytes_up_to_all_of_them(spark: Any, source: Path, tmp_path: Path) -> None:
    told: list[tuple[str, int, int]] = []
    run(spark, source, tmp_path / "target", progress=lambda *each: told.append(each))
    assert ("write", 0, 4) in told
    assert told[-1] == ("write", 4, 4)
    assert any(stage.startswith("rewrite") for stage, _, _ in told)


class Answers:
    """Stands for ``SparkWork``: runs units here, in an order of its own, and answers in theirs."""

    session: Any = None

    def __init__(self, order: list[int], skipped: tuple[int, ...] = ()) -> None:
        self.order, self.skipped = order, skipped

    def run(self, work: Any, units: Any, **_: Any) -> list[Done[Any]]:
        answers: dict[int, Any] = {}
        failures = []
        for number in self.order:
            attempt = Attempt(unit=number, name=f"{number}-x")
            try:
                answers[number] = None if number in self.skipped else work(units[number], attempt)
            except DataFileError as error:
                failures.append(error)
        if failures:
            raise failures[0]
        return [Done(attempt=Attempt(unit=each, name=""), result=answers[each]) for each in sorted(answers)]


class TestAfterTheFirstError:
    @pytest.fixture
    def one_file_a_task(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(rewrite_files, "parallelism", lambda session: 2)
        monkeypatch.setattr(rewrite_files, "_TASK_BYTES", (1, 1))

    def converted(self, source: Path, target: Path, work: Any, monkeypatch: pytest.MonkeyPatch) -> ConvertResult:
        class Engine(LocalEngine):
            writes_before_plan = True

            def rewriting(self, storage: Any, progress: Any) -> Any:
                return rewrite_files.InSparkTasks(work=work, storage=storage, progress=lambda *_: None)

        made = Engine()
        monkeypatch.setattr("deltaberg.migrate.convert.engine_of", lambda *_: made)
        return run(None, source, target, engine="local")

    @pytest.mark.usefixtures("one_file_a_task")
    def test_other_tasks_stop(self, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        damaged = source / "20.parquet"
        damaged.write_bytes(damaged.read_bytes()[:4] + bytes(36) + damaged.read_bytes()[40:])
        begun: list[str] = []
        real = rewrite_files.RewriteTask._write

        def counted(self: Any, units: Any, attempt: Any) -> Any:
            begun.append(attempt.name)
            return real(self, units, attempt)

        monkeypatch.setattr(rewrite_files.RewriteTask, "_write", counted)
        with pytest.raises(Refused, match="file-unreadable"):
            self.converted(source, tmp_path / "target", Answers([2, 0, 1, 3]), monkeypatch)
        assert begun == ["2-x"]
        assert every_file(tmp_path / "target") == set()

    @pytest.mark.usefixtures("one_file_a_task")
    def test_a_part_that_is_missing_without_an_error_is_one(
        self, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The task that failed had another attempt, which did not."""
        with pytest.raises(EngineFailed, match=r"tasks stopped for an error .* run the conversion again"):
            self.converted(source, tmp_path / "target", Answers([0, 1, 2, 3], skipped=(1,)), monkeypatch)
        assert every_file(tmp_path / "target") == set()
        done = self.converted(source, tmp_path / "target", Answers([3, 1, 0, 2]), monkeypatch)
        assert (done.rows, done.rewritten_files) == (40, 4)


class TestTargetFileSize:
    """Small files of one partition become one; large ones are split."""

    @pytest.fixture
    def partitioned(self, tmp_path: Path, rewrite_cases: Any) -> Path:
        """Six files in two partitions, and one of more than three megabytes."""
        folder = tmp_path / "source"
        columns = [
            rewrite_cases.column("id", "long"),
            rewrite_cases.column("blob", "binary"),
            rewrite_cases.column("p", "string"),
        ]
        files = []
        for number in range(7):
            large = number == 6
            count = 300 if large else 2
            blobs = [os.urandom(12_000 if large else 10) for _ in range(count)]
            rows = pa.table(
                {"id": [number * 1000 + each for each in range(count)], "blob": pa.array(blobs, pa.binary())}
            )
            values = {"p": "large" if large else "ab"[number % 2]}
            stored = rewrite_cases.with_ids(rows, {"id": 2, "blob": 1})
            files.append(rewrite_cases.delta_file(folder, stored, f"{number}.parquet", partitionValues=values))
        rewrite_cases.delta_log(folder, columns, files, partition_columns=["p"])
        return folder

    @pytest.mark.parametrize("engine", ["local", "spark"])
    def test_files_of_a_partition_are_combined_and_split(
        self, engine: str, spark: Any, partitioned: Path, tmp_path: Path, independent: Any, difference: Any
    ) -> None:
        session = spark if engine == "spark" else None
        done = run(session, partitioned, tmp_path / "target", target_file_size=1 << 20, engine=engine)
        counts: dict[str, int] = {}
        for place in data_files_of(done):
            ids = {each // 1000 for each in pq.read_table(place, columns=["id"])["id"].to_pylist()}
            kind = "large" if 6 in ids else "ab"[min(ids) % 2]
            counts[kind] = counts.get(kind, 0) + 1
            if kind != "large":
                assert ids == ({0, 2, 4} if kind == "a" else {1, 3, 5})
        assert {key: counts[key] for key in "ab"} == {"a": 1, "b": 1}
        assert counts["large"] in (3, 4)
        assert done.rewritten_files == done.files == sum(counts.values())
        assert done.rows == 312
        report = verify(
            open_source(str(partitioned), open_storage()), open_source(done.target, open_storage()), rows=True
        )
        assert {check.name: check.equal for check in report.checks}["rows"], report.to_json()
        read = independent.read("pyiceberg", Path(done.target_metadata))
        assert sorted(set(read["p"].to_pylist())) == ["a", "b", "large"]
        assert read.num_rows == 312

    def test_sorted_files_are_not_combined(self) -> None:
        """Two sorted files one after the other are not sorted."""
        units = [iceberg_unit(10, order, "x") for order in (0, 0, 1, 1, 0)]
        assert [unit.files.num_rows for unit in combined(units, 1000)] == [1, 1, 3]

    def test_only_files_of_one_partition_are_combined(self) -> None:
        units = [iceberg_unit(10, 0, value) for value in ("x", "y", None, "x", "null")]
        assert sorted(unit.files.num_rows for unit in combined(units, 1000)) == [1, 1, 1, 2]

    def test_a_group_is_full_when_it_reaches_the_size(self) -> None:
        units = [iceberg_unit(400, 0, "x") for _ in range(7)]
        assert [unit.files.num_rows for unit in combined(units, 1000)] == [3, 3, 1]


def iceberg_unit(size: int, sort_order: int, partition: str | None) -> RewriteUnit:
    return RewriteUnit(
        files=pa.record_batch(
            {
                "spec_id": pa.array([0], pa.int32()),
                "sort_order_id": pa.array([sort_order], pa.int32()),
                "partition": pa.array([{"p": partition}], pa.struct([("p", pa.string())])),
                "file_size_in_bytes": pa.array([size]),
            }
        )
    )
