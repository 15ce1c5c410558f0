"""Parquet files of the log, streamed: checkpoints and sidecars."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.parquet as pq

from deltaberg.delta.errors import CorruptLog
from deltaberg.storage.errors import NotFound
from deltaberg.storage.protocol import Storage

BATCH_ROWS = 8192  # small enough that a batch's text stays in the processor's caches
_BUFFER_BYTES = 1 << 20


class LogParquet:
    """An open Parquet file whose columns are actions."""

    def __init__(self, file: pq.ParquetFile) -> None:
        self._file = file
        self.schema: pa.Schema = file.schema_arrow

    @property
    def num_row_groups(self) -> int:
        return int(self._file.num_row_groups)

    def members(self, action: str) -> tuple[str, ...]:
        """The fields of an action's column; none when the file has no such column. Raises CorruptLog for no struct."""
        index = self.schema.get_field_index(action)
        if index < 0:
            return ()
        kind = self.schema.field(index).type
        if not pa.types.is_struct(kind):
            raise CorruptLog(
                f"Cannot read a checkpoint file: its column {action} is of type {kind} (expected a struct)"
            )
        return tuple(field.name for field in kind)

    def actions_with_values(self, row_group: int, actions: Sequence[str]) -> tuple[str, ...]:
        """The actions that the footer does not say to be all null in a row group."""
        metadata = self._file.metadata.row_group(row_group)
        found: set[str] = set()
        for index in range(metadata.num_columns):
            chunk = metadata.column(index)
            action = chunk.path_in_schema.partition(".")[0]
            if action in actions and action not in found:
                statistics = chunk.statistics
                known = statistics is not None and statistics.has_null_count
                if not known or statistics.null_count < chunk.num_values:
                    found.add(action)
        return tuple(action for action in actions if action in found)

    def values_of(self, column: str, *, row_groups: Sequence[int] | None = None) -> int | None:
        """How many values a leaf column holds by the footer, in all or some row groups; None where it does not say."""
        total = 0
        for group in range(self.num_row_groups) if row_groups is None else row_groups:
            metadata = self._file.metadata.row_group(group)
            for index in range(metadata.num_columns):
                chunk = metadata.column(index)
                if chunk.path_in_schema == column:
                    statistics = chunk.statistics
                    if statistics is None or not statistics.has_null_count:
                        return None
                    total += chunk.num_values - statistics.null_count
                    break
            else:
                return None
        return total

    def rows_of(self, row_group: int) -> int:
        """The rows of a row group."""
        return int(self._file.metadata.row_group(row_group).num_rows)

    def batches(self, columns: Sequence[str], *, row_groups: Sequence[int] | None = None) -> Iterator[pa.RecordBatch]:
        """Batches of columns, named by dotted prefix, of all or some row groups."""
        yield from self._file.iter_batches(batch_size=BATCH_ROWS, columns=list(columns), row_groups=row_groups)


@contextmanager
def open_log_parquet(storage: Storage, location: str, *, version: int) -> Iterator[LogParquet]:
    """A Parquet file of the log. Raises CorruptLog naming the file when it is missing or damaged, while reading, too."""

    def corrupt(reason: str) -> CorruptLog:
        return CorruptLog(f"Cannot read a checkpoint file: {reason}", version=version, path=location)

    try:
        source = storage.open(location)
    except NotFound as error:
        raise corrupt("it is missing") from error
    try:
        with (
            source,
            pq.ParquetFile(
                source, pre_buffer=False, buffer_size=_BUFFER_BYTES, coerce_int96_timestamp_unit="us"
            ) as file,
        ):
            yield LogParquet(file)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise corrupt(f"it is no valid Parquet ({str(error).partition(chr(10))[0]})") from error
