"""Equality deletes brought together by the keys they share, to be resolved file by file in other processes.

A group is the delete entries of which ``EqualityDeletes`` makes one set of keys: the same scope, the same partition in
it, the same delete columns. Groups are numbered alike wherever the same delete entries were read in the same order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from deltaberg.errors import error_context
from deltaberg.iceberg.deletes.delete_index import DeleteIndex, DeleteMatches, Scope
from deltaberg.iceberg.deletes.equality_deletes import DeleteColumns, KeySet, delete_columns, read_delete_keys
from deltaberg.iceberg.metadata.table_metadata import TableMetadata
from deltaberg.storage.protocol import Storage


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteGroup:
    """Delete entries with one set of keys.

    newest: the highest data sequence number among them: no data file at or above it loses a row. rows: keys in the
    files, repeated ones counted. entries: ENTRY_SCHEMA.
    """

    number: int
    field_ids: tuple[int, ...]
    newest: int
    rows: int
    entries: pa.Table

    def key_batches(
        self, storage: Storage, metadata: TableMetadata, *, entries: slice = slice(None)
    ) -> Iterator[tuple[pa.BinaryArray, int]]:
        """Deleted keys and the data sequence number of their delete. Raises CorruptMetadata, DataFileError."""
        columns = delete_columns(metadata, self.field_ids)
        for entry in self.entries.to_pylist()[entries]:
            with error_context(path=entry["file_path"]):
                for keys in read_delete_keys(storage, metadata, entry, columns):
                    yield keys, entry["sequence_number"]

    def key_set(self, storage: Storage, metadata: TableMetadata) -> KeySet:
        """All keys in memory."""
        keys, numbers = [], []
        for each, number in self.key_batches(storage, metadata):
            keys.append(each)
            numbers.append(np.full(len(each), number, np.int64))
        return KeySet(keys, numbers)

    def columns(self, metadata: TableMetadata) -> DeleteColumns:
        return delete_columns(metadata, self.field_ids)


class DeleteGroups:
    """The groups of all equality deletes of an index."""

    def __init__(self, index: DeleteIndex) -> None:
        self._index = index
        self._of_run: dict[tuple[Scope, int], tuple[DeleteGroup, ...]] = {}
        groups: list[DeleteGroup] = []
        for scope in (Scope.EQUALITY, Scope.GLOBAL_EQUALITY):
            entries = index.entries(scope)
            start = 0
            while start < entries.num_rows:
                _, stop = index.run(scope, start)
                run = _of_one_run(entries.slice(start, stop - start), len(groups))
                self._of_run[scope, start] = tuple(run)
                groups.extend(run)
                start = stop
        self.groups = tuple(groups)

    def of(self, matches: DeleteMatches, row: int, sequence_number: int) -> tuple[DeleteGroup, ...]:
        """The groups that may delete rows of the data file in a row of a matched batch."""
        found: list[DeleteGroup] = []
        for scope, ranges in ((Scope.EQUALITY, matches.equality), (Scope.GLOBAL_EQUALITY, matches.global_equality)):
            if ranges.stop[row] > ranges.start[row]:
                start, _ = self._index.run(scope, int(ranges.start[row]))
                found += (each for each in self._of_run[scope, start] if each.newest > sequence_number)
        return tuple(found)


def with_equality_deletes(matches: DeleteMatches) -> npt.NDArray[np.int64]:
    """The rows of a matched batch whose data files have equality deletes."""
    return np.flatnonzero((matches.equality.counts + matches.global_equality.counts) > 0)


def _of_one_run(entries: pa.Table, first: int) -> Sequence[DeleteGroup]:
    places: dict[tuple[int, ...], list[int]] = {}
    for place, field_ids in enumerate(entries["equality_ids"].to_pylist()):
        places.setdefault(tuple(sorted(set(field_ids))), []).append(place)
    found = []
    for number, (field_ids, rows) in enumerate(places.items(), first):
        some = entries.take(pa.array(rows, pa.int64()))
        found.append(
            DeleteGroup(
                number=number,
                field_ids=field_ids,
                newest=int(some["sequence_number"].to_numpy().max()),
                rows=int(some["record_count"].to_numpy().sum()),
                entries=some,
            )
        )
    return found
