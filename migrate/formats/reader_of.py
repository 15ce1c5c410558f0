"""Which reader a table has."""

from __future__ import annotations

from deltaberg.migrate.formats.delta.reader import DeltaReader
from deltaberg.migrate.formats.iceberg.reader import IcebergReader
from deltaberg.migrate.formats.table_reader import TableReader
from deltaberg.migrate.source import DeltaSource, IcebergSource, Source


def reader_of(source: Source) -> TableReader:
    """The one place that asks of which format a table is that is read."""
    match source:
        case IcebergSource():
            return IcebergReader(source)
        case DeltaSource():
            return DeltaReader(source)
