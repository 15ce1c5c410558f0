"""Resolve the equality deletes of an Iceberg snapshot in a Spark job; no data file is rewritten.

    list the data files that have some     a task for each data manifest
    keys that fit into a task's memory     a task for each list of data files; only delete columns are read
    the others                             data rows and delete keys joined by key, newest delete first

Both ways give positions by data file, staged in the target's folder. A key that most rows have does not slow the join
down: its rows of one batch travel as one record.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from deltaberg.bitmap import PositionBitmap
from deltaberg.errors import DeltabergError
from deltaberg.iceberg.deletes.delete_groups import DeleteGroup, DeleteGroups
from deltaberg.iceberg.manifest.live_files import live_manifests
from deltaberg.iceberg.manifest.manifest_list import ManifestContent
from deltaberg.iceberg.metadata.snapshot import Snapshot
from deltaberg.iceberg.table import Table
from deltaberg.migrate.spark.equality_tasks import KEY_SCHEMA, EqualityTasks, equality_index
from deltaberg.migrate.spark.staged_positions import FileList, PositionsWriter, StagedList, StagedPositions
from deltaberg.migrate.spark.tasks import (
    RESULT_COLUMNS,
    Attempt,
    SparkWork,
    TaskProgress,
    failure_batch,
    failure_bytes,
    result_batch,
    units_in,
)
from deltaberg.migrate.target.locations import join

HELD_KEYS: Final = 2_000_000
"""The number of delete keys that a task holds in memory (about 200 bytes each while they are sorted)."""

LIST_ROWS: Final = 4_000_000
LIST_FILES: Final = 1024
"""The limit of what one task reads: the key columns of this many rows, or of this many files."""

_KEY_COLUMNS: Final = "key binary, sequence_number long, file long, position long, positions binary, failure binary"
_DELETE_COLUMNS: Final = "key binary, newest long, failure binary"
_DELETE_SCHEMA: Final = pa.schema([("key", pa.binary()), ("newest", pa.int64()), ("failure", pa.binary())])
_FAILED: Final = -1
_UNION_ROWS: Final = 4_000_000
"""The number of positions of one file that are held before they become part of its bitmap."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of what a task holds and reads."""

    held_keys: int = HELD_KEYS
    list_rows: int = LIST_ROWS
    list_files: int = LIST_FILES


def resolve_equality_deletes(
    work: SparkWork,
    table: Table,
    snapshot: Snapshot,
    *,
    folder: str,
    limits: Limits | None = None,
    progress: TaskProgress | None = None,
) -> StagedPositions:
    """The rows that the equality deletes of a snapshot delete, by data file, as ``resolve_deletes`` finds them by
    itself.

    folder: where tasks stage files; the caller deletes it. Raises the errors of reading the table, and EngineFailed.
    """
    limits = limits or Limits()
    job = EqualityTasks(
        table=table,
        snapshot=snapshot,
        folder=folder,
        job=uuid.uuid4().hex,
        held_keys=limits.held_keys,
        list_rows=limits.list_rows,
        list_files=limits.list_files,
    )
    groups = DeleteGroups(equality_index(table, snapshot)).groups
    if not groups:
        return StagedPositions(storage=table.storage, lists=(), rows=0)
    manifests = list(live_manifests(table, snapshot, ManifestContent.DATA))
    listed = work.run(
        job.list_data_files, manifests, description="deltaberg: data files with equality deletes", progress=progress
    )
    lists = [each for done in listed for each in done.result]
    found: dict[int, list[str]] = defaultdict(list)
    held = [number for number, each in enumerate(lists) if each.held]
    done = work.run(
        job.find_held,
        [lists[number] for number in held],
        description="deltaberg: rows that equality deletes delete",
        progress=progress,
    )
    rows = 0
    for number, each in zip(held, done, strict=True):
        location, count = each.result
        found[number].append(location)
        rows += count
    joined = [(number, each) for number, each in enumerate(lists) if each.joined]
    for number, location, count in _join(work, job, groups, joined, progress):
        found[number].append(location)
        rows += count
    return StagedPositions(
        storage=table.storage,
        lists=tuple(StagedList(files=each, positions=tuple(found[number])) for number, each in enumerate(lists)),
        rows=rows,
    )


def _join(
    work: SparkWork,
    job: EqualityTasks,
    groups: Sequence[DeleteGroup],
    lists: Sequence[tuple[int, FileList]],
    progress: TaskProgress | None,
) -> Iterator[tuple[int, str, int]]:
    """Number of a list, staged file, rows. Failures of tasks travel as records too: an outer join keeps them."""
    from pyspark.sql import functions as sql

    if not lists:
        return
    large = sorted({number for _, each in lists for number in each.joined})
    units = [(number, *part) for number in large for part in _parts(groups[number], job.list_rows, job.list_files)]
    data = work.frame(lists).mapInArrow(_in_data_tasks(job), _KEY_COLUMNS).alias("data")
    deletes = work.frame(units).mapInArrow(_in_delete_tasks(job), _DELETE_COLUMNS)
    newest = deletes.groupBy("key").agg(sql.max("newest").alias("newest"), sql.max("failure").alias("failure"))
    both = data.join(newest.alias("deletes"), sql.col("data.key") == sql.col("deletes.key"), "full_outer")
    failed = sql.coalesce(sql.col("data.failure"), sql.col("deletes.failure"))
    deleted = both.where((sql.col("newest") > sql.col("sequence_number")) | failed.isNotNull()).select(
        sql.coalesce(sql.col("file"), sql.lit(_FAILED)).alias("file"), "position", "positions", failed.alias("failure")
    )
    by_list = deleted.repartition(sql.shiftright("file", 32)).sortWithinPartitions("file")
    staged = by_list.mapInArrow(_in_staging_tasks(job), RESULT_COLUMNS)
    yield from work.collect(staged, description="deltaberg: equality deletes joined by key", progress=progress)


def _parts(group: DeleteGroup, rows: int, files: int) -> Iterator[tuple[int, int]]:
    """Ranges of a group's delete files, each for one task."""
    start = count = 0
    for place, size in enumerate(group.entries["record_count"].to_pylist()):
        if place > start and (count + size > rows or place - start >= files):
            yield start, place
            start, count = place, 0
        count += size
    yield start, group.entries.num_rows


Batches = Iterable[pa.RecordBatch]


def _in_data_tasks(job: EqualityTasks) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    def task(batches: Batches) -> Iterator[pa.RecordBatch]:
        for _, (number, files) in units_in(batches):
            try:
                for each in job.data_keys(number, files):
                    yield each.append_column("failure", pa.nulls(each.num_rows, pa.binary()))
            except DeltabergError as error:
                nothing = [pa.nulls(1, field.type) for field in KEY_SCHEMA]
                names = [*KEY_SCHEMA.names, "failure"]
                yield pa.RecordBatch.from_arrays([*nothing, pa.array([failure_bytes(error)], pa.binary())], names=names)

    return task


def _in_delete_tasks(job: EqualityTasks) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    def task(batches: Batches) -> Iterator[pa.RecordBatch]:
        for _, (group, start, stop) in units_in(batches):
            try:
                for keys, number in job.delete_keys(group, start, stop):
                    numbers = pa.array(np.full(len(keys), number, np.int64))
                    none = pa.nulls(len(keys), pa.binary())
                    yield pa.RecordBatch.from_arrays([keys, numbers, none], schema=_DELETE_SCHEMA)
            except DeltabergError as error:
                values = ([b"failed"], [None], [failure_bytes(error)])
                arrays = [pa.array(each, field.type) for each, field in zip(values, _DELETE_SCHEMA, strict=True)]
                yield pa.RecordBatch.from_arrays(arrays, schema=_DELETE_SCHEMA)

    return task


def _in_staging_tasks(job: EqualityTasks) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    def task(batches: Batches) -> Iterator[pa.RecordBatch]:
        attempt = Attempt(unit=0, name=uuid.uuid4().hex)
        rows = _FileRows(batches)
        for number, files in groupby(rows.by_file(), key=lambda each: each[0] >> 32):
            location = join(job.folder, f"joined-{number:06d}-{attempt.name}.arrow")
            with job.table.storage.create(location) as sink:
                writer = PositionsWriter(sink)
                for file, bitmap in files:
                    writer.add(file & 0xFFFFFFFF, bitmap)
                writer.close()
            yield result_batch((number, location, writer.rows), attempt)
        for failure in rows.failures:
            yield failure_batch(failure, attempt)

    return task


class _FileRows:
    """The deleted rows of a partition, which come sorted by file; failures come first and are put aside."""

    def __init__(self, batches: Batches) -> None:
        self._batches = batches
        self.failures: list[bytes] = []

    def by_file(self) -> Iterator[tuple[int, PositionBitmap]]:
        """Each file once, with all its deleted rows."""
        current, held = _FAILED, _Positions()
        for batch in self._batches:
            self.failures += batch.column("failure").drop_null().to_pylist()
            files = batch.column("file").to_numpy()
            edges = np.flatnonzero(np.diff(files, prepend=files[:1] - 1)) if len(files) else np.zeros(0, np.int64)
            for start, stop in zip(edges, [*edges[1:], len(files)], strict=True):
                file = int(files[start])
                if file != current:
                    if current != _FAILED:
                        yield current, held.bitmap()
                    current, held = file, _Positions()
                if file != _FAILED:
                    held.add(batch.slice(int(start), int(stop - start)))
        if current != _FAILED:
            yield current, held.bitmap()


class _Positions:
    """Positions of one file on their way into a bitmap."""

    def __init__(self) -> None:
        self._bitmap = PositionBitmap()
        self._waiting: list[npt.NDArray[np.int64]] = []
        self._count = 0

    def add(self, rows: pa.RecordBatch) -> None:
        single = rows.column("position").drop_null().to_numpy()
        self._waiting.append(single)
        self._count += len(single)
        for blob in rows.column("positions").drop_null().to_pylist():
            self._bitmap = self._bitmap.union(PositionBitmap.deserialize(blob))
        if self._count >= _UNION_ROWS:
            self.bitmap()

    def bitmap(self) -> PositionBitmap:
        if self._count:
            self._bitmap = self._bitmap.union(PositionBitmap.from_positions(np.concatenate(self._waiting)))
            self._waiting, self._count = [], 0
        return self._bitmap
