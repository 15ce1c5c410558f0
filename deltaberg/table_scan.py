"""The rows of a table of either format, streamed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from deltaberg.errors import UsageError, error_context
from deltaberg.migrate.formats.reader_of import reader_of
from deltaberg.migrate.source import Source
from deltaberg.row_json import row_objects
from deltaberg.storage import Storage


@dataclass(frozen=True, slots=True, kw_only=True)
class TableScan:
    """One scan, not yet begun.

    schema: names as in the table; variant is string (JSON text), geometry and geography are binary (WKB), uuid is
    fixed-size binary of 16. version: Delta version or Iceberg snapshot id; None for an Iceberg table without snapshot.
    """

    format: str
    location: str
    version: int | None
    schema: pa.Schema
    limit: int | None = None
    _open: Callable[[], Iterator[pa.RecordBatch]] = field(repr=False)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows in no particular order; each call reads the table again."""
        left = self.limit
        with error_context(table=self.location, version=self.version):
            if left == 0:
                return
            for batch in self._open():
                if left is None:
                    yield batch
                    continue
                yield batch.slice(0, left)
                left -= min(left, batch.num_rows)
                if not left:
                    return

    def read_all(self) -> pa.Table:
        """Every row in memory."""
        return pa.Table.from_batches(self.batches(), schema=self.schema)

    def write_parquet(self, out: str, storage: Storage, *, progress: Callable[[int], None] | None = None) -> int:
        """Stream the rows into one Parquet file, which appears whole or not at all; returns the number of rows.

        ``progress`` is called with the number of rows written so far.
        """
        rows = 0
        with storage.create(out) as sink, pq.ParquetWriter(sink, self.schema, compression="zstd") as writer:
            for batch in self.batches():
                writer.write_batch(batch)
                rows += batch.num_rows
                if progress is not None:
                    progress(rows)
        return rows

    def describe(self) -> dict[str, Any]:
        """A description of the scan: the part of the JSON document before the rows."""
        return {
            "format": self.format,
            "location": self.location,
            "version": self.version,
            "columns": [{"name": column.name, "type": str(column.type)} for column in self.schema],
        }

    def to_json(self) -> dict[str, Any]:
        """The description and every row as an object (``deltaberg.row_json`` says how values are written)."""
        rows = [row for batch in self.batches() for row in row_objects(batch)]
        return {**self.describe(), "rows": rows}


def scan_source(source: Source, *, columns: Iterable[str] | None = None, limit: int | None = None) -> TableScan:
    """A scan of an opened table. Raises UsageError for columns that are not there and a negative limit."""
    if limit is not None and limit < 0:
        raise UsageError(f"Cannot limit a scan to {limit} rows: expected 0 or more")
    wanted = None if columns is None else tuple(columns)
    rows = reader_of(source).scan(wanted)
    return TableScan(
        format=source.format.value,
        location=source.location,
        version=source.version,
        schema=rows.schema,
        limit=limit,
        _open=rows.batches,
    )
