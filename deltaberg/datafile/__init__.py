"""Reading data files exactly: the columns that a table declares out of those that a file has."""

from deltaberg.datafile.errors import DataFileError
from deltaberg.datafile.file_schema import FileField, NamedField, file_fields
from deltaberg.datafile.parquet.parquet import POSITION_COLUMN, ParquetSource
from deltaberg.datafile.projection import Match, Projection, ReadField, project

__all__ = [
    "POSITION_COLUMN",
    "DataFileError",
    "FileField",
    "Match",
    "NamedField",
    "ParquetSource",
    "Projection",
    "ReadField",
    "file_fields",
    "project",
]
