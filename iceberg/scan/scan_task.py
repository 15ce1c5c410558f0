"""Data files as they are read one after the other: each with the deletes that apply to it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from deltaberg.iceberg.deletes.delete_index import DeleteIndex, DeleteMatches
from deltaberg.iceberg.manifest.live_files import data_files
from deltaberg.iceberg.manifest.manifest_entry import METRIC_MAPS
from deltaberg.iceberg.metadata.snapshot import Snapshot
from deltaberg.iceberg.table import Table

TASK_COLUMNS = [
    "file_path",
    "file_format",
    "spec_id",
    "partition",
    "record_count",
    "sequence_number",
    "first_row_id",
    "key_metadata",
]
_PLANNED_ROWS, _HELD_ROWS, _HELD_SLIM_ROWS = 16_384, 131_072, 1_048_576


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFileTask:
    """One data file to read, with its manifest entry. ``matches`` and ``row`` find its deletes."""

    file_path: str
    file_format: str
    spec_id: int
    partition: pa.StructScalar
    record_count: int
    sequence_number: int
    first_row_id: int | None
    key_metadata: bytes | None
    matches: DeleteMatches
    row: int


def plan_data_files(table: Table, snapshot: Snapshot | None, index: DeleteIndex) -> Iterator[DataFileTask]:
    """The live data files of a snapshot in manifest order, matched with their deletes."""
    for batch, matches in matched_data_files(table, snapshot, index, TASK_COLUMNS):
        yield from tasks(batch, matches)


def matched_data_files(
    table: Table, snapshot: Snapshot | None, index: DeleteIndex, columns: list[str] | None = None
) -> Iterator[tuple[pa.RecordBatch, DeleteMatches]]:
    """Batches of live data files (``columns`` of DATA_FILE_SCHEMA; None: all) with the deletes of each file.

    Several batches are matched at a time: the cost of one match grows with the number of delete entries. How many
    stays within bounds, since entries with all their metrics are large.
    """
    batches = data_files(table, snapshot, with_metrics=columns is None or not METRIC_MAPS.isdisjoint(columns))
    yield from matched_batches(batches, index, columns)


def matched_batches(
    batches: Iterable[pa.RecordBatch], index: DeleteIndex, columns: list[str] | None = None
) -> Iterator[tuple[pa.RecordBatch, DeleteMatches]]:
    """``matched_data_files`` for live data files that the caller lists."""
    waiting: list[pa.RecordBatch] = []
    rows = 0
    enough = min(max(_PLANNED_ROWS, index.entry_count), _HELD_ROWS if columns is None else _HELD_SLIM_ROWS)
    for batch in batches:
        waiting.append(batch if columns is None else batch.select(columns))
        rows += batch.num_rows
        if rows >= enough:
            yield from zip(waiting, index.match(waiting), strict=True)
            waiting, rows = [], 0
    yield from zip(waiting, index.match(waiting), strict=True)


def tasks(
    batch: pa.RecordBatch, matches: DeleteMatches, rows: npt.NDArray[np.int64] | None = None
) -> Iterator[DataFileTask]:
    """The tasks of some rows of a matched batch (None: all)."""
    chosen = np.arange(batch.num_rows) if rows is None else rows
    plain = batch.select([name for name in TASK_COLUMNS if name != "partition"])
    partitions = batch.column("partition")
    for row, values in zip(chosen.tolist(), plain.take(pa.array(chosen, pa.int64())).to_pylist(), strict=True):
        yield DataFileTask(partition=partitions[row], matches=matches, row=row, **values)
