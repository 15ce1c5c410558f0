"""Rewrite files in the tasks of a cluster: the same readers and writers as locally, many files at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from deltaberg.bitmap import PositionBitmap
from deltaberg.datafile.parquet.parquet_writer import WrittenFiles
from deltaberg.errors import DeltabergError, EngineFailed
from deltaberg.migrate.files.rewrite import NEEDED_COLUMNS, FileRewrite, RewriteUnit
from deltaberg.migrate.spark.session import parallelism
from deltaberg.migrate.spark.tasks import Attempt, SparkWork
from deltaberg.migrate.target.locations import join
from deltaberg.migrate.target.undo_storage import UndoStorage
from deltaberg.storage import Storage, StorageError

WAVE_BYTES: Final = 1 << 40
"""The limit of what one Spark job rewrites, which bounds the driver's memory."""

_TASK_BYTES: Final = (16 << 20, 512 << 20)
_TASKS_PER_CORE: Final = 4
_FAILED: Final = "failed"
"""A file that tells tasks which begin later that one has met an error, so that they need not do their part any more."""

JOB_FOLDER: Final = "rewritten-"
"""The prefix of the folders in which the tasks of a job write."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InSparkTasks:
    """Gives units to tasks, about as many bytes to each.

    storage: the driver's, which rolls back what failed. progress: called with (bytes of source files done, all bytes).
    """

    work: SparkWork
    storage: UndoStorage
    progress: Callable[[int, int], None]

    @property
    def wave_bytes(self) -> int:
        return WAVE_BYTES

    def run(self, rewrite: FileRewrite, units: Sequence[RewriteUnit]) -> Iterator[WrittenFiles]:
        """Raises the first error of a task, naming its file; nothing of the job is left behind then."""
        if not units:
            return
        total = sum(unit.size for unit in units)
        files = sum(unit.files.num_rows for unit in units)
        tasks = task_units(units, total, parallelism(self.work.session))
        folder = join(rewrite.target.folder, f"{JOB_FOLDER}{self.storage.run.new().hex}")
        for unit in units:
            if unit.location is not None:
                self.storage.create_folders(unit.location)
                self.storage.adopt(unit.location)
        self.storage.create_folders(join(folder, "x"))
        accepted: set[str] = set()
        try:
            done = self.work.run(
                RewriteTask(rewrite=rewrite, folder=folder),
                tasks,
                description=f"deltaberg: rewrite {files} files ({total >> 20} MiB) to {rewrite.target.folder}",
                progress=lambda finished, count: self.progress(total * finished // count, total),
            )
            results = [each.result for each in done if each.result is not None]
            if len(results) < len(done):
                raise EngineFailed(
                    f"Cannot rewrite files to {rewrite.target.folder}: tasks stopped for an error that another attempt of "
                    "the same task did not meet; run the conversion again"
                )
            accepted = _locations(results)
        finally:
            discard_attempts(self.storage, folder, accepted)
        for location in accepted:
            self.storage.adopt(location)
        for result in results:
            yield from result


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteTask:
    """The work of a task on its units. None once another task has met an error: the job's outcome is that error."""

    rewrite: FileRewrite
    folder: str

    def __call__(self, units: tuple[SentUnit, ...], attempt: Attempt) -> list[WrittenFiles] | None:
        target = self.rewrite.target
        failed = join(self.folder, _FAILED)
        if target.storage.exists(failed):
            return None
        try:
            return self._write(units, attempt)
        except DeltabergError:
            target.storage.put(failed, b"")
            raise

    def _write(self, units: tuple[SentUnit, ...], attempt: Attempt) -> list[WrittenFiles]:
        target = self.rewrite.target
        written = []
        for index, sent in enumerate(units):
            written.append(target.write_unit(self.rewrite, sent.unit(), self.folder, f"{attempt.name}-{index}"))
        return written


@dataclass(frozen=True, slots=True, kw_only=True)
class SentUnit:
    """A unit on its way to a task. files: Arrow IPC. deleted: bitmaps as both formats store them."""

    files: bytes
    deleted: dict[int, bytes]
    location: str | None

    @classmethod
    def of(cls, unit: RewriteUnit) -> SentUnit:
        needed = unit.files.select([name for name in unit.files.schema.names if name in NEEDED_COLUMNS])
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, needed.schema) as stream:
            stream.write_batch(needed)
        deleted = {row: bitmap.serialize() for row, bitmap in unit.deleted.items()}
        return cls(files=sink.getvalue().to_pybytes(), deleted=deleted, location=unit.location)

    def unit(self) -> RewriteUnit:
        with pa.ipc.open_stream(self.files) as stream:
            (files,) = stream
        deleted = {row: PositionBitmap.deserialize(data) for row, data in self.deleted.items()}
        return RewriteUnit(files=files, deleted=deleted, location=self.location)


def task_units(units: Sequence[RewriteUnit], total: int, cores: int) -> list[tuple[SentUnit, ...]]:
    """The units of each task, in order: a few tasks for every core, none of them tiny, none huge but for one file."""
    least, most = _TASK_BYTES
    wanted = min(max(total // max(1, cores * _TASKS_PER_CORE), least), most)
    tasks: list[tuple[SentUnit, ...]] = []
    mine: list[SentUnit] = []
    size = 0
    for unit in units:
        mine.append(SentUnit.of(unit))
        size += unit.size
        if size >= wanted:
            tasks.append(tuple(mine))
            mine, size = [], 0
    return [*tasks, tuple(mine)] if mine else tasks


def discard_attempts(storage: Storage, folder: str, accepted: set[str]) -> None:
    """Delete what attempts wrote that did not count, and the folder when nothing is left in it."""
    with suppress(StorageError):
        for file in list(storage.list(folder)):
            if file.location not in accepted:
                storage.delete(file.location)
        storage.delete_unfinished(folder)
        storage.delete_folder(folder)


def _locations(results: Sequence[Sequence[WrittenFiles]]) -> set[str]:
    return {
        str(location)
        for result in results
        for written in result
        for location in written.files.column("location").to_pylist()
    }
