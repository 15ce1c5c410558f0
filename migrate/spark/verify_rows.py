"""Compare the rows of two tables as multisets in Spark tasks; the driver sees sums, never rows (except the few that it
shows).

Every row has two hashes of 64 bits under two keys drawn for this comparison, and what is compared is the number of rows
and the sums of both, modulo 2**64 each: order does not matter, a row that occurs twice counts twice. Two tables that
differ by accident have equal sums once in 2**128 comparisons. Sums are made for every file, too: where a file that both
tables list has equal sums, its rows are not read again in the search for the rows that differ.
"""

from __future__ import annotations

import itertools
import secrets
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from deltaberg.errors import error_context
from deltaberg.migrate.formats.reader_of import reader_of
from deltaberg.migrate.formats.table_reader import FileRows
from deltaberg.migrate.source import Source
from deltaberg.migrate.spark.session import parallelism
from deltaberg.migrate.spark.tasks import Attempt, Done, SparkWork, TaskProgress
from deltaberg.migrate.verify.check import Check
from deltaberg.migrate.verify.row_hash import USUAL_KEY, Hashes, HashKey, column_hashes, row_hashes
from deltaberg.migrate.verify.rows import (
    SHOWN_ROWS,
    Sums,
    common_columns,
    differing_sums,
    multiset_difference,
    shown_rows,
)
from deltaberg.migrate.verify.tables import ChosenOptions

TASK_BYTES: Final = 256 << 20
TASK_FILES: Final = 1024
"""The limit of what one task reads: the bytes and the number of its files."""

_WAVE_TASKS: Final = 256
"""The number of results and units that the driver holds at a time, or a few for each core of the cluster."""

_BUCKETS: Final = 1 << 14
_COLLECTED_ROWS: Final = 1 << 22
"""The number of row hashes of each side that the driver compares one by one, those of a few buckets that differ."""

_WANTED_HASHES: Final = 1 << 17

_PLACE_KEYS: Final = (USUAL_KEY, HashKey(salt=0x2545F4914F6CDD1D, base=0x9E6C63D0676A9A99))
_FILE: Final = np.dtype((np.void, 40))

Unit = tuple[bytes, ...]
"""Batches of ``TableReader.listed_files``, each as an Arrow stream."""

Chosen = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSums:
    """The sums of one task's files: live rows and both sums by file, sums of columns by name for all of them."""

    rows: npt.NDArray[np.int64]
    totals: npt.NDArray[np.uint64]
    columns: tuple[dict[str, int], dict[str, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowTasks:
    """The work of tasks on the files of one of the tables. job: unique to a comparison and a side."""

    source: Source
    names: tuple[str, ...]
    options: ChosenOptions
    keys: tuple[HashKey, HashKey]
    job: str

    def sums(self, unit: Unit, attempt: Attempt) -> FileSums:
        """The sums of the files of a unit."""
        count = sum(files.num_rows for files in _read(unit))
        rows, totals = np.zeros(count, np.int64), np.zeros((count, 2), np.uint64)
        sums = (Sums(), Sums())
        for place, batch in self._rows(unit):
            rows[place] += batch.num_rows
            for lane, key in enumerate(self.keys):
                before = sums[lane].total
                sums[lane].add(self._hashes(batch, key), batch.num_rows, key)
                total = int(totals[place, lane]) + sums[lane].total - before
                totals[place, lane] = np.uint64(total % 2**64)
        return FileSums(rows=rows, totals=totals, columns=(sums[0].columns, sums[1].columns))

    def buckets(self, unit: Unit, attempt: Attempt) -> tuple[npt.NDArray[np.int64], Hashes]:
        """Rows and sums of their hashes by ``hash % _BUCKETS``."""
        counts = np.zeros(_BUCKETS, np.int64)
        sums = np.zeros(_BUCKETS, np.uint64)
        for each in self._row_hashes(unit):
            bucket = (each % np.uint64(_BUCKETS)).astype(np.int64)
            counts += np.bincount(bucket, minlength=_BUCKETS)
            np.add.at(sums, bucket, each)
        return counts, sums

    def row_hashes(self, unit: tuple[Unit, npt.NDArray[np.bool_]], attempt: Attempt) -> Hashes:
        """The hashes that fall into some buckets."""
        files, wanted = unit
        found = [np.zeros(0, np.uint64)]
        for each in self._row_hashes(files):
            found.append(each[wanted[(each % np.uint64(_BUCKETS)).astype(np.int64)]])
        return np.concatenate(found)

    def shown(self, unit: tuple[Unit, Hashes], attempt: Attempt) -> list[str]:
        """The first rows with a wanted hash."""
        files, wanted = unit
        return shown_rows(((batch, self._hashes(batch, USUAL_KEY)) for _, batch in self._rows(files)), wanted)

    def _rows(self, unit: Unit) -> Iterator[tuple[int, pa.RecordBatch]]:
        first = 0
        with error_context(table=self.source.location):
            for files in _read(unit):
                for place, batch in _reader(self).of(files):
                    yield first + place, batch
                first += files.num_rows

    def _row_hashes(self, unit: Unit) -> Iterator[Hashes]:
        for _, batch in self._rows(unit):
            yield row_hashes(self._hashes(batch, USUAL_KEY), batch.num_rows)

    def _hashes(self, batch: pa.RecordBatch, key: HashKey) -> dict[str, Hashes]:
        return {name: column_hashes(batch.column(place), key) for place, name in enumerate(self.names)}


_readers: dict[str, FileRows] = {}


def _reader(work: RowTasks) -> FileRows:
    """The reader of this process: the delete entries of a snapshot are read once for consecutive tasks."""
    found = _readers.get(work.job)
    if found is None:
        _readers.clear()
        found = _readers[work.job] = reader_of(work.source).file_rows(list(work.names), work.options)
    return found


@dataclass(slots=True, kw_only=True)
class _Side:
    """One of the tables, and what is known of its files: arrays by the order in which they are listed."""

    tasks: RowTasks
    work: SparkWork
    progress: TaskProgress | None
    sums: tuple[Sums, Sums] = field(default_factory=lambda: (Sums(), Sums()))
    files: FileArrays = field(default_factory=lambda: FileArrays.of([]))

    def add_up(self) -> None:
        """Read everything once."""
        found: list[FileArrays] = []
        for units in _waves(self._units(), self._wave()):
            done = self._run(self.tasks.sums, units, "rows added up")
            for unit, each in zip(units, done, strict=True):
                locations = [reader_of(self.tasks.source).file_locations(files) for files in _read(unit)]
                for lane, columns in enumerate(each.result.columns):
                    self.sums[lane].add_sums(each.result.rows, each.result.totals[:, lane], columns)
                found.append(FileArrays.of_task(locations, each.result))
        self.files = FileArrays.of(found)

    def bucket_sums(self, chosen: Chosen) -> tuple[npt.NDArray[np.int64], Hashes]:
        counts, sums = np.zeros(_BUCKETS, np.int64), np.zeros(_BUCKETS, np.uint64)
        for units in _waves(self._units(chosen), self._wave()):
            for each in self._run(self.tasks.buckets, units, "differing rows looked for"):
                counts += each.result[0]
                sums += each.result[1]
        return counts, sums

    def row_hashes(self, chosen: Chosen, buckets: npt.NDArray[np.bool_]) -> Hashes:
        found = [np.zeros(0, np.uint64)]
        for units in _waves(self._units(chosen), self._wave()):
            done = self._run(self.tasks.row_hashes, [(unit, buckets) for unit in units], "differing rows looked for")
            found += [each.result for each in done]
        result = np.concatenate(found)
        result.sort()
        return result

    def shown(self, chosen: Chosen, wanted: Hashes) -> list[str]:
        """The first rows with a wanted hash; no more files are read than that takes."""
        shown: list[str] = []
        if not len(wanted):
            return shown
        for units in _waves(self._units(chosen), 2 * parallelism(self.work.session)):
            done = self._run(self.tasks.shown, [(unit, wanted) for unit in units], "differing rows read")
            shown += [row for each in done for row in each.result]
            if len(shown) >= SHOWN_ROWS:
                break
        return shown[:SHOWN_ROWS]

    def _wave(self) -> int:
        """Enough tasks for every core of a large cluster, few enough for the driver."""
        return max(_WAVE_TASKS, 4 * parallelism(self.work.session))

    def _run(self, task: Callable[[Any, Attempt], Any], units: Sequence[Any], what: str) -> list[Done[Any]]:
        return self.work.run(
            task, units, description=f"deltaberg: {what} ({self.tasks.source.location})", progress=self.progress
        )

    def _units(self, chosen: Chosen | None = None) -> Iterator[Unit]:
        """The files for each task, in the order of the listing; only the chosen ones."""
        waiting: list[bytes] = []
        at = size = count = 0
        for batch in reader_of(self.tasks.source).listed_files():
            wanted = batch if chosen is None else batch.filter(pa.array(chosen[at : at + batch.num_rows]))
            at += batch.num_rows
            for piece, piece_size in _pieces(wanted):
                if waiting and (size + piece_size > TASK_BYTES or count + piece.num_rows > TASK_FILES):
                    yield tuple(waiting)
                    waiting, size, count = [], 0, 0
                waiting.append(_ipc(piece))
                size += piece_size
                count += piece.num_rows
        if waiting:
            yield tuple(waiting)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileArrays:
    """Files as the driver keeps them, 40 bytes each. places: two hashes of where each is; totals: its two sums."""

    places: npt.NDArray[np.uint64]
    rows: npt.NDArray[np.int64]
    totals: npt.NDArray[np.uint64]

    @classmethod
    def of_task(cls, locations: Sequence[pa.Array], found: FileSums) -> FileArrays:
        lanes = [np.concatenate([column_hashes(each, key) for each in locations]) for key in _PLACE_KEYS]
        return cls(places=np.stack(lanes, axis=1), rows=found.rows, totals=found.totals)

    @classmethod
    def of(cls, parts: Sequence[FileArrays]) -> FileArrays:
        return cls(
            places=np.concatenate([np.zeros((0, 2), np.uint64), *(each.places for each in parts)]),
            rows=np.concatenate([np.zeros(0, np.int64), *(each.rows for each in parts)]),
            totals=np.concatenate([np.zeros((0, 2), np.uint64), *(each.totals for each in parts)]),
        )

    def unlike(self, other: FileArrays) -> Chosen:
        """Which files the other table does not have, or not with the same rows."""
        mine, theirs = (
            np.column_stack([each.places, each.rows.astype(np.uint64), each.totals]).view(_FILE).ravel()
            for each in (self, other)
        )
        return ~np.isin(mine, theirs)


def spark_rows_check(
    work: SparkWork, *, progress: TaskProgress | None = None
) -> Callable[[Source, Source, ChosenOptions], Check]:
    """``rows_check`` in Spark tasks, with the words of the local check."""

    def check(source: Source, target: Source, options: ChosenOptions) -> Check:
        return _rows_check(work, source, target, options, progress)

    return check


def _rows_check(
    work: SparkWork, source: Source, target: Source, options: ChosenOptions, progress: TaskProgress | None
) -> Check:
    names = tuple(common_columns(source, target, options))
    keys = (_new_key(), _new_key())
    left, right = (
        _Side(
            tasks=RowTasks(source=each, names=names, options=options, keys=keys, job=uuid.uuid4().hex),
            work=work,
            progress=progress,
        )
        for each in (source, target)
    )
    for side in (left, right):
        side.add_up()
    rows = left.sums[0].rows
    if rows == right.sums[0].rows and all(
        one.total == two.total for one, two in zip(left.sums, right.sums, strict=True)
    ):
        return Check.of("rows", rows, [])
    differences = max((differing_sums(*lane, names) for lane in zip(left.sums, right.sums, strict=True)), key=len)
    return Check.of("rows", rows, [*differences, *_differing_rows(left, right)])


def _differing_rows(left: _Side, right: _Side) -> list[str]:
    """A few rows that only one side has. Files that both have with equal sums are not read again."""
    chosen = left.files.unlike(right.files), right.files.unlike(left.files)
    (left_counts, left_sums), (right_counts, right_sums) = left.bucket_sums(chosen[0]), right.bucket_sums(chosen[1])
    differing = np.flatnonzero((left_counts != right_counts) | (left_sums != right_sums))
    # As many buckets as the driver can hold; a single bucket that is too large is held all the same.
    held = np.cumsum(np.maximum(left_counts, right_counts)[differing]) <= _COLLECTED_ROWS
    held[:1] = True
    buckets = np.zeros(_BUCKETS, bool)
    buckets[differing[held]] = True
    one, two = left.row_hashes(chosen[0], buckets), right.row_hashes(chosen[1], buckets)
    only_left, only_right = multiset_difference(one, two), multiset_difference(two, one)
    return [
        *(f"only in the source: {row}" for row in left.shown(chosen[0], only_left[:_WANTED_HASHES])),
        *(f"only in the target: {row}" for row in right.shown(chosen[1], only_right[:_WANTED_HASHES])),
    ]


def _new_key() -> HashKey:
    return HashKey(salt=secrets.randbits(64), base=secrets.randbits(64) | 1)


def _waves(units: Iterator[Unit], size: int) -> Iterator[list[Unit]]:
    while wave := list(itertools.islice(units, size)):
        yield wave


def _pieces(files: pa.RecordBatch) -> Iterator[tuple[pa.RecordBatch, int]]:
    """Parts of a batch that are about as large as a task's work at most, with their sizes in bytes."""
    sizes = files.column("size").to_numpy()
    number = np.cumsum(sizes) // TASK_BYTES * files.num_rows + np.arange(files.num_rows) // TASK_FILES
    edges = [*np.flatnonzero(np.diff(number, prepend=-1)).tolist(), files.num_rows]
    for start, stop in itertools.pairwise(edges):
        yield files.slice(start, stop - start), int(sizes[start:stop].sum())


def _ipc(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def _read(unit: Unit) -> list[pa.RecordBatch]:
    found = []
    for data in unit:
        with pa.ipc.open_stream(data) as stream:
            found += list(stream)
    return found
