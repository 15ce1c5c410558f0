"""The reader of a table, by its format."""

from __future__ import annotations

from deltaberg.migrate.formats.delta.reader import DeltaReader
from deltaberg.migrate.formats.iceberg.reader import IcebergReader
from deltaberg.migrate.formats.table_reader import TableReader
from deltaberg.migrate.source import DeltaSource, IcebergSource, Source


def reader_of(source: Source) -> TableReader:
    """The only place where a verb that reads depends on the format."""
    match source:
        case IcebergSource():
            return IcebergReader(source)
        case DeltaSource():
            return DeltaReader(source)
