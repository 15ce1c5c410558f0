"""Reading Parquet data files exactly, in bounded memory, from any writer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from deltaberg.datafile.errors import DataFileError
from deltaberg.datafile.file_schema import FileField, NamedField
from deltaberg.datafile.parquet.parquet_footer import read_footer
from deltaberg.datafile.parquet.parquet_schema import parquet_fields
from deltaberg.datafile.projection import Match, Projection, ReadField
from deltaberg.errors import error_context
from deltaberg.storage import Storage

POSITION_COLUMN = "_pos"
_BATCH_BYTES = 64 << 20
_BUFFER_BYTES = 64 << 10


class ParquetSource:
    """One Parquet file, opened: its footer is read and checked, its columns are not.

    Use as a context manager, or let the last batch close it. Raises DataFileError naming the file for every defect
    inside it, and StorageError for a file that cannot be opened.
    """

    def __init__(self, storage: Storage, location: str, *, rebase_calendar: bool = True) -> None:
        """``rebase_calendar``: read dates and instants as Spark does where the footer says that they were written in
        the hybrid calendar (keys ``org.apache.spark.legacyDateTime`` and ``legacyINT96``); False takes the stored
        numbers as they are, as Iceberg's readers do.
        """
        self.location = location
        self._input = storage.open(location)
        try:
            with parquet_errors(location):
                self.footer = read_footer(self._input)
                self._file = pq.ParquetFile(
                    self._input,
                    metadata=self.footer.metadata,
                    buffer_size=_BUFFER_BYTES,
                    pre_buffer=isinstance(self._input, pa.PythonFile),
                    coerce_int96_timestamp_unit="us",
                    arrow_extensions_enabled=False,
                )
                self.fields: tuple[FileField, ...] = parquet_fields(
                    self.footer, self._file.schema_arrow, rebase_calendar=rebase_calendar
                )
        except BaseException:
            self.close()
            raise

    @property
    def num_rows(self) -> int:
        return self.footer.num_rows

    @property
    def row_group_rows(self) -> tuple[int, ...]:
        """Rows of each row group."""
        return tuple(self.footer.row_group_rows.tolist())

    @property
    def key_values(self) -> Mapping[bytes, bytes]:
        """The footer's key-value metadata."""
        return self.footer.key_values

    def iter_batches(
        self,
        fields: Sequence[ReadField],
        *,
        match: Match,
        batch_size: int = 65_536,
        name_mapping: tuple[NamedField, ...] | None = None,
        row_groups: Sequence[int] | None = None,
        positions: bool = False,
    ) -> Iterator[pa.RecordBatch]:
        """The declared columns in the file's order, at most ``batch_size`` rows at a time, no empty batches.

        ``row_groups``: only these, in this order. ``positions`` appends the int64 column ``_pos``: the row's place in
        the file, counted from 0 over all row groups.
        """
        with parquet_errors(self.location):
            projection = Projection(self.fields, fields, match=match, name_mapping=name_mapping)
        starts = np.concatenate(([0], np.cumsum(self.footer.row_group_rows)))
        groups = range(len(self.footer.row_group_rows)) if row_groups is None else row_groups
        rows = self._batch_rows(projection, batch_size)
        for run in _runs(groups, self.footer.row_group_rows, rows):
            at = int(starts[run[0]])
            end = int(starts[run[-1] + 1])
            for batch in self._read(run, projection, rows, end - at):
                with parquet_errors(self.location):
                    result = projection.apply(batch)
                if positions:
                    place = pa.array(np.arange(at, at + batch.num_rows, dtype=np.int64))
                    result = result.append_column(pa.field(POSITION_COLUMN, pa.int64(), nullable=False), place)
                at += batch.num_rows
                if batch.num_rows:
                    yield result

    def _batch_rows(self, projection: Projection, batch_size: int) -> int:
        """Fewer rows where they are long, so that a batch stays near 64 MiB. Checks the footer's counts on the way."""
        footer = self.footer
        repeated = np.array([repeats for _, repeats in footer.schema.leaves()], np.bool_)
        leaves = np.array(projection.leaves or (0,) * bool(len(repeated)), np.int64)
        flat = leaves[~repeated[leaves]]
        wrong = np.argwhere(footer.value_counts[:, flat] != footer.row_group_rows[:, None])
        if len(wrong):
            group, leaf = int(wrong[0][0]), int(flat[wrong[0][1]])
            raise DataFileError(
                f"Cannot read {self.location}: leaf column {leaf} of row group {group} has "
                f"{footer.value_counts[group, leaf]} values (expected {footer.row_group_rows[group]})",
                path=self.location,
            )
        total = sum(footer.memory_sizes[:, leaves].sum(axis=1).tolist())
        width = total // max(1, self.num_rows)
        return int(max(1, min(batch_size, _BATCH_BYTES // max(1, width))))

    def _read(self, run: list[int], projection: Projection, rows: int, expected: int) -> Iterator[pa.RecordBatch]:
        if not projection.leaves:
            for start in range(0, expected, rows):
                yield _columnless(min(rows, expected - start))
            return
        with parquet_errors(self.location):
            batches = self._file.reader.iter_batches(rows, run, column_indices=list(projection.leaves))
        seen = 0
        while True:
            with parquet_errors(self.location):
                batch = next(batches, None)
            if batch is None:
                break
            seen += batch.num_rows
            yield batch
        if seen != expected:
            raise DataFileError(
                f"Cannot read {self.location}: row groups {run} hold {seen} rows (expected {expected} by the footer)",
                path=self.location,
            )

    def close(self) -> None:
        self._input.close()

    def __enter__(self) -> ParquetSource:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _columnless(rows: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_struct_array(pa.array([{}] * rows, pa.struct([])))


def _runs(groups: Sequence[int], counts: np.ndarray[Any, np.dtype[np.int64]], rows: int) -> Iterator[list[int]]:
    """Consecutive row groups that together fill at most one batch: tiny ones are read at once."""
    run: list[int] = []
    total = 0
    for group in groups:
        count = int(counts[group])
        if run and (group != run[-1] + 1 or total + count > rows):
            yield run
            run, total = [], 0
        run.append(group)
        total += count
    if run:
        yield run


@contextmanager
def parquet_errors(location: str) -> Iterator[None]:
    """Translate the errors that pyarrow raises for a Parquet file, adding the file's name."""
    try:
        with error_context(path=location):
            yield
    except (pa.ArrowException, OSError, UnicodeDecodeError, OverflowError, MemoryError) as error:
        reason = str(error).split("\n", 1)[0].strip() or type(error).__name__
        raise DataFileError(
            f"Cannot read {location}: damaged or unreadable Parquet ({reason})", path=location
        ) from error
