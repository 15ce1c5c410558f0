"""Parquet files of the log, streamed: checkpoints and sidecars."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import islice

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from deltaberg.delta.errors import CorruptLog
from deltaberg.delta.log.parallel_batches import ahead, processors
from deltaberg.storage.errors import NotFound
from deltaberg.storage.protocol import Storage

BATCH_ROWS = 8192  # small enough that a batch stays in the processor's caches
TEXT_BATCH_ROWS = 16384  # texts are parsed a piece at a time, and every batch costs turns at the interpreter's lock
_BUFFER_BYTES = 1 << 20  # bytes of one request to a store
_LOCAL_BUFFER_BYTES = 1 << 16  # for each column that is open at once
_WORTH_A_THREAD = 4 << 20  # bytes of pages
_UNEVEN = 0.75  # of the bytes in one share: the other readers would only wait for it


class LogParquet:
    """An open Parquet file whose columns are actions."""

    def __init__(self, file: pq.ParquetFile, reopened: Callable[[ExitStack], pq.ParquetFile]) -> None:
        self._file = file
        self._reopened = reopened
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

    def batches(
        self, columns: Sequence[str], *, row_groups: Sequence[int] | None = None, rows: int = BATCH_ROWS
    ) -> Iterator[pa.RecordBatch]:
        """Batches of about so many rows of columns, named by dotted path, of all or some row groups.

        Arrow reads what is nested in one column with one thread, so the parts of a large file are dealt to several
        readers of the same rows.
        """
        shares = self._shares(columns)
        if len(shares) < 2:
            yield from self._read(self._file, columns, row_groups, rows)
            return
        with ExitStack() as files:
            parts = []
            for share in shares:
                part = ahead(self._read(self._reopened(files), share, row_groups, rows))
                files.callback(part.close)
                parts.append(part)
            yield from _joined(parts)

    def _read(
        self, file: pq.ParquetFile, columns: Sequence[str], row_groups: Sequence[int] | None, rows: int
    ) -> Iterator[pa.RecordBatch]:
        yield from file.iter_batches(batch_size=rows, columns=list(columns), row_groups=row_groups)

    def _shares(self, columns: Sequence[str]) -> list[list[str]]:
        """Members of actions, and columns of statistics, dealt out so that each share has about as many bytes.

        One share, or none, for a small file and where nearly all of them are of one column.
        """
        sizes: dict[str, int] = {}
        for group in range(self.num_row_groups):
            metadata = self._file.metadata.row_group(group)
            for index in range(metadata.num_columns):
                chunk = metadata.column(index)
                names = chunk.path_in_schema.split(".")
                path = ".".join(names[: 4 if "stats_parsed" in names[:2] else 2])
                if any(path == column or path.startswith(f"{column}.") for column in columns):
                    sizes[path] = sizes.get(path, 0) + chunk.total_uncompressed_size
        count = min(processors(), sum(sizes.values()) // _WORTH_A_THREAD, len(sizes))
        shares: list[list[str]] = [[] for _ in range(count)]
        totals = [0] * count
        for path in sorted(sizes, key=lambda path: (-sizes[path], path)) if count > 1 else ():
            smallest = totals.index(min(totals))
            shares[smallest].append(path)
            totals[smallest] += sizes[path]
        return shares if max(totals, default=0) <= _UNEVEN * sum(totals) else []


def _joined(parts: Sequence[Iterator[pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
    """Batches of the same rows from several readers as batches with the columns of all."""
    held = [batch for part in parts for batch in islice(part, 1)]
    while len(held) == len(parts):
        rows = min(batch.num_rows for batch in held)
        names = dict.fromkeys(name for batch in held for name in batch.schema.names)
        columns = [
            _union([batch.column(name).slice(0, rows) for batch in held if name in batch.schema.names])
            for name in names
        ]
        yield pa.record_batch(columns, names=list(names))
        held = [
            rest
            for batch, part in zip(held, parts, strict=True)
            for rest in ([batch.slice(rows)] if batch.num_rows > rows else islice(part, 1))
        ]
    if held:
        raise pa.ArrowInvalid("its columns have different numbers of rows")


def _union(arrays: Sequence[pa.Array]) -> pa.Array:
    """One struct with the members of all, which are null in the same rows."""
    if len(arrays) == 1:
        return arrays[0]
    names = dict.fromkeys(name for array in arrays for name in array.type.names)
    members = {
        name: _union([array.field(array.type.get_field_index(name)) for array in arrays if name in array.type.names])
        for name in names
    }
    mask = pc.is_null(arrays[0]) if arrays[0].null_count else None
    return pa.StructArray.from_arrays(list(members.values()), names=list(members), mask=mask)


@contextmanager
def open_log_parquet(storage: Storage, location: str, *, version: int) -> Iterator[LogParquet]:
    """A Parquet file of the log. Raises CorruptLog naming the file when it is missing or damaged, while reading, too."""

    def corrupt(reason: str) -> CorruptLog:
        return CorruptLog(f"Cannot read a checkpoint file: {reason}", version=version, path=location)

    def reopened(files: ExitStack) -> pq.ParquetFile:
        """Another reader of the file whose footer is known."""
        return files.enter_context(_parquet_file(files.enter_context(storage.open(location)), first.metadata))

    try:
        source = storage.open(location)
    except NotFound as error:
        raise corrupt("it is missing") from error
    try:
        with source, _parquet_file(source) as first:
            yield LogParquet(first, reopened)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise corrupt(f"it is no valid Parquet ({str(error).partition(chr(10))[0]})") from error


def _parquet_file(source: pa.NativeFile, metadata: pq.FileMetaData | None = None) -> pq.ParquetFile:
    return pq.ParquetFile(
        source,
        metadata=metadata,
        pre_buffer=False,
        buffer_size=_LOCAL_BUFFER_BYTES if isinstance(source, pa.OSFile) else _BUFFER_BYTES,
        coerce_int96_timestamp_unit="us",
    )
