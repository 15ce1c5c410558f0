"""The tasks that resolve equality deletes: list the data files that have some, and find the deleted rows.

Keys that fit into a task's memory are held there, as the local engine does; the others are joined by Spark. Either way
a key is the bytes that ``DeleteColumns.keys`` makes of it, so both treat nulls, NaN and promoted types alike.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.bitmap import PositionBitmap
from deltaberg.errors import error_context
from deltaberg.iceberg.deletes.delete_groups import DeleteGroup, DeleteGroups, with_equality_deletes
from deltaberg.iceberg.deletes.delete_index import DeleteIndex, DeleteMatches
from deltaberg.iceberg.deletes.equality_deletes import EqualityFilter, KeySet
from deltaberg.iceberg.deletes.resolved_deletes import deleted_by_key, read_key_columns
from deltaberg.iceberg.manifest.data_file import EQUALITY_DELETES
from deltaberg.iceberg.manifest.live_files import delete_files, live_entries
from deltaberg.iceberg.manifest.manifest_list import ManifestFile
from deltaberg.iceberg.metadata.snapshot import Snapshot
from deltaberg.iceberg.scan.scan_task import TASK_COLUMNS, DataFileTask, tasks
from deltaberg.iceberg.table import Table
from deltaberg.migrate.spark.staged_positions import FileList, PositionsWriter
from deltaberg.migrate.spark.tasks import Attempt
from deltaberg.migrate.target.locations import join

KEY_SCHEMA: Final = pa.schema(
    [
        ("key", pa.binary()),
        ("sequence_number", pa.int64()),
        ("file", pa.int64()),
        ("position", pa.int64()),
        ("positions", pa.binary()),
    ]
)
"""Rows of data files. key: group and key; file: number of the list, then place in it, 32 bits each; positions: instead
of ``position``, all rows of a batch that share a key."""

_HOT_ROWS: Final = 256
"""From this number on, equal keys of one batch become one record: a key that most rows have must not make one task the
slowest.
"""

_GROUPS: Final = pa.list_(pa.field("element", pa.int32(), nullable=False))


@dataclass(frozen=True, slots=True, kw_only=True)
class EqualityTasks:
    """One resolution. folder: where tasks stage files. job: unlike that of any other resolution.

    held_keys: so many delete keys a task holds at once. list_rows, list_files: what one task reads at most, where
    files are small enough.
    """

    table: Table
    snapshot: Snapshot
    folder: str
    job: str
    held_keys: int
    list_rows: int
    list_files: int

    def list_data_files(self, manifest: ManifestFile, attempt: Attempt) -> tuple[FileList, ...]:
        """The data files of a manifest that have equality deletes, staged in lists. Raises the errors of reading it."""
        state = _state(self)
        slim = [each.select(TASK_COLUMNS) for each in live_entries(self.table, manifest, with_metrics=False)]
        lists: list[pa.RecordBatch] = []
        for batch, matches in zip(slim, state.index.match(slim), strict=True):
            lists.extend(self._lists(batch, matches, state.groups))
        if not lists:
            return ()
        location = join(self.folder, f"files-{attempt.name}.arrow")
        with self.table.storage.create(location) as sink, pa.ipc.new_file(sink, lists[0].schema) as writer:
            for each in lists:
                writer.write_batch(each)
        return tuple(
            FileList(
                manifest_path=manifest.manifest_path,
                location=location,
                batch=number,
                files=each.num_rows,
                rows=int(pc.sum(each.column("record_count")).as_py()),
                held=len(each.column("held").flatten()) > 0,
                joined=tuple(sorted(each.column("joined").flatten().unique().to_pylist())),
            )
            for number, each in enumerate(lists)
        )

    def _lists(self, batch: pa.RecordBatch, matches: DeleteMatches, groups: DeleteGroups) -> Iterator[pa.RecordBatch]:
        rows: list[int] = []
        held: list[list[int]] = []
        joined: list[list[int]] = []
        count = 0
        for task in tasks(batch, matches, with_equality_deletes(matches)):
            if rows and (count + task.record_count > self.list_rows or len(rows) >= self.list_files):
                yield _file_list(batch, rows, held, joined)
                rows, held, joined, count = [], [], [], 0
            small, large = self._split(groups.of(matches, task.row, task.sequence_number))
            rows.append(task.row)
            held.append(small)
            joined.append(large)
            count += task.record_count
        if rows:
            yield _file_list(batch, rows, held, joined)

    def _split(self, groups: Iterable[DeleteGroup]) -> tuple[list[int], list[int]]:
        """Numbers of the groups that a task holds together, and of the others."""
        small: list[int] = []
        large: list[int] = []
        total = 0
        for group in sorted(groups, key=lambda each: each.rows):
            total += group.rows
            (small if total <= self.held_keys else large).append(group.number)
        return small, large

    def find_held(self, files: FileList, attempt: Attempt) -> tuple[str, int]:
        """The rows of a list's files that held keys delete: where they are staged, and how many."""
        state = _state(self)
        batch = files.read(self.table.storage)
        location = join(self.folder, f"held-{attempt.name}.arrow")
        with self.table.storage.create(location) as sink:
            writer = PositionsWriter(sink)
            for task, numbers in _with_groups(batch, "held"):
                with error_context(table=self.table.location, version=self.snapshot.snapshot_id, path=task.file_path):
                    filters = [
                        EqualityFilter(
                            columns=group.columns(self.table.metadata),
                            keys=state.keys(group),
                            sequence_number=task.sequence_number,
                        )
                        for group in state.some(numbers)
                    ]
                    writer.add(task.row, deleted_by_key(self.table, task, filters))
            writer.close()
        return location, writer.rows

    def data_keys(self, number: int, files: FileList) -> Iterator[pa.RecordBatch]:
        """KEY_SCHEMA: the keys of a list's rows that joined keys may delete."""
        state = _state(self)
        for task, numbers in _with_groups(files.read(self.table.storage), "joined"):
            groups = state.some(numbers)
            wanted = [group.columns(self.table.metadata) for group in groups]
            with error_context(table=self.table.location, version=self.snapshot.snapshot_id, path=task.file_path):
                for positions, columns in read_key_columns(self.table, task, wanted) if groups else ():
                    at = 0
                    for group, each in zip(groups, wanted, strict=True):
                        keys = each.keys(columns[at : at + len(each.fields)], len(positions))
                        at += len(each.fields)
                        yield from _key_rows(
                            _of_group(keys, group), positions, task.sequence_number, number << 32 | task.row
                        )

    def delete_keys(self, group: int, start: int, stop: int) -> Iterator[tuple[pa.BinaryArray, int]]:
        """The keys of some delete files of a group, and the data sequence number at which they were deleted."""
        state = _state(self)
        (chosen,) = state.some([group])
        with error_context(table=self.table.location, version=self.snapshot.snapshot_id):
            for keys, number in chosen.key_batches(self.table.storage, self.table.metadata, entries=slice(start, stop)):
                yield _of_group(keys.unique(), chosen), number


def equality_index(table: Table, snapshot: Snapshot) -> DeleteIndex:
    """The equality deletes of a snapshot. Wherever it is made, places and groups are numbered alike."""
    unpartitioned = frozenset(spec.spec_id for spec in table.metadata.partition_specs if spec.is_unpartitioned)
    entries = (
        each.filter(pc.equal(each.column("content"), EQUALITY_DELETES)) for each in delete_files(table, snapshot)
    )
    return DeleteIndex(entries, unpartitioned_spec_ids=unpartitioned)


class _Resolution:
    """State that the tasks of one resolution share that follow each other in one process."""

    def __init__(self, work: EqualityTasks) -> None:
        self._work = work
        self.index = equality_index(work.table, work.snapshot)
        self.groups = DeleteGroups(self.index)
        self._keys: dict[int, KeySet] = {}
        self._held = 0

    def some(self, numbers: Iterable[int]) -> list[DeleteGroup]:
        return [self.groups.groups[number] for number in numbers]

    def keys(self, group: DeleteGroup) -> KeySet:
        """The key set of a group; the sets used longest ago are dropped for it."""
        found = self._keys.pop(group.number, None)
        if found is None:
            while self._keys and group.rows + self._held > self._work.held_keys:
                self._held -= len(self._keys.pop(next(iter(self._keys))))
            found = group.key_set(self._work.table.storage, self._work.table.metadata)
            self._held += len(found)
        self._keys[group.number] = found
        return found


_states: dict[str, _Resolution] = {}


def _state(work: EqualityTasks) -> _Resolution:
    """The state of this process. A worker process serves one task at a time, and its next task is often of the same
    job.
    """
    found = _states.get(work.job)
    if found is None:
        _states.clear()
        found = _states[work.job] = _Resolution(work)
    return found


def _file_list(
    batch: pa.RecordBatch, rows: list[int], held: list[list[int]], joined: list[list[int]]
) -> pa.RecordBatch:
    some = batch.take(pa.array(rows, pa.int64()))
    return some.append_column("held", pa.array(held, _GROUPS)).append_column("joined", pa.array(joined, _GROUPS))


def _with_groups(batch: pa.RecordBatch, kind: str) -> Iterator[tuple[DataFileTask, list[int]]]:
    """The files of a list and the numbers of their groups. A task's ``row`` is its place in the list."""
    no_matches = DeleteIndex((), unpartitioned_spec_ids=frozenset()).match([batch])[0]
    return zip(tasks(batch, no_matches), batch.column(kind).to_pylist(), strict=True)


def _of_group(keys: pa.BinaryArray, group: DeleteGroup) -> pa.BinaryArray:
    return pc.binary_join_element_wise(pa.scalar(struct.pack(">I", group.number)), keys, b"")


def _key_rows(keys: pa.BinaryArray, positions: pa.Array, sequence_number: int, file: int) -> Iterator[pa.RecordBatch]:
    """A record for each row, and one for all rows of a key that many rows of the batch have."""
    encoded = keys.dictionary_encode()
    codes = encoded.indices.to_numpy()
    hot = np.bincount(codes, minlength=len(encoded.dictionary)) >= _HOT_ROWS
    rare = np.flatnonzero(~hot[codes])
    if len(rare):
        yield _records(keys.take(pa.array(rare)), sequence_number, file, positions=positions.take(pa.array(rare)))
    places = positions.to_numpy()
    codes_of_hot = np.flatnonzero(hot)
    if len(codes_of_hot):
        blobs = [PositionBitmap.from_positions(places[codes == code]).serialize() for code in codes_of_hot.tolist()]
        yield _records(encoded.dictionary.take(pa.array(codes_of_hot)), sequence_number, file, blobs=blobs)


def _records(
    keys: pa.BinaryArray,
    sequence_number: int,
    file: int,
    *,
    positions: pa.Array | None = None,
    blobs: list[bytes] | None = None,
) -> pa.RecordBatch:
    count = len(keys)
    return pa.RecordBatch.from_arrays(
        [
            keys,
            pa.array(np.full(count, sequence_number, np.int64)),
            pa.array(np.full(count, file, np.int64)),
            pa.nulls(count, pa.int64()) if positions is None else positions.cast(pa.int64()),
            pa.nulls(count, pa.binary()) if blobs is None else pa.array(blobs, pa.binary()),
        ],
        schema=KEY_SCHEMA,
    )
