"""The interface of a format to the verbs that read: everything that they ask of a table, in one list."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

import pyarrow as pa

from deltaberg.migrate.history import HistoryEntry
from deltaberg.migrate.inspection import Inspection
from deltaberg.migrate.verify.stated_bounds import StatedBounds, ValueRange
from deltaberg.migrate.verify.tables import ChosenOptions, ColumnFacts
from deltaberg.translate.field_ids import Path


class RowScan(Protocol):
    """Rows that can be read again and again."""

    @property
    def schema(self) -> pa.Schema: ...

    def batches(self) -> Iterator[pa.RecordBatch]: ...


class FileRows(Protocol):
    """Reads the rows of some files, as ``TableReader.rows`` does those of all."""

    def of(self, files: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Each file's rows with its place in the batch of ``listed_files``. Raises the errors of reading it."""
        ...


class TableReader(Protocol):
    """A table at one state. Every method raises the errors of reading the metadata (where there are rows, of the files, too)."""

    def inspect(self) -> Inspection:
        """From the metadata alone; no data file is opened."""
        ...

    def history(self, *, limit: int | None) -> Iterator[HistoryEntry]:
        """The commits, newest first. limit: no more will be asked for."""
        ...

    def scan(self, columns: Sequence[str] | None) -> RowScan:
        """The rows as ``deltaberg scan`` shows them. columns: None: all."""
        ...

    def stated_files(self) -> int:
        """About how many live files there are; manifests and checkpoints without counts count as none."""
        ...

    def column_facts(self, options: ChosenOptions) -> dict[tuple[str, ...], ColumnFacts]:
        """Every field by the names that lead to it, types in Iceberg's words (void columns left out)."""
        ...

    def derived_columns(self) -> frozenset[str]:
        """Columns whose values are generated from those of others."""
        ...

    def listed_locations(self) -> Iterator[pa.Array]:
        """Where the live files are by the metadata, data files first; those of deletes once each."""
        ...

    def file_counts(self) -> Iterator[pa.RecordBatch]:
        """``location``, ``rows`` (physical) and ``deleted`` of every live file."""
        ...

    def stated_bounds(self) -> Iterator[tuple[list[StatedBounds], Mapping[Path, ValueRange]]]:
        """The statistics of every file's columns by the metadata, and by the values. Reads all data."""
        ...

    def rows(self, names: list[str], options: ChosenOptions) -> Iterator[pa.RecordBatch]:
        """The rows, the named columns in that order, mapped types converted."""
        ...

    def listed_files(self) -> Iterator[pa.RecordBatch]:
        """The input of ``file_rows`` for every live file, in the order in which ``rows`` reads them."""
        ...

    def file_locations(self, files: pa.RecordBatch) -> pa.Array:
        """Where the files of a batch of ``listed_files`` really are."""
        ...

    def file_rows(self, names: list[str], options: ChosenOptions) -> FileRows:
        """A reader of files by batches of ``listed_files``; the deletes are read once."""
        ...
