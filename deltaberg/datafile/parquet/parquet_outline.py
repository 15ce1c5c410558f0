"""The parts of a Parquet footer that decide how its columns are read, without parsing the column chunks.

A footer begins with its schema and ends with its key-value metadata; only the row groups between them differ among the
files of one writer (parquet.thrift, ``FileMetaData``). Files whose footers begin and end with the same bytes have equal
columns, so these bytes are parsed once.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from deltaberg.datafile.parquet.parquet import parquet_errors
from deltaberg.datafile.parquet.parquet_footer import MAGIC, footer_bytes
from deltaberg.datafile.parquet.parquet_schema import LEGACY_DATETIME, LEGACY_INT96, SPARK_TIMEZONE, SPARK_VERSION
from deltaberg.datafile.parquet.thrift_compact import ThriftError, list_ends, read_integer
from deltaberg.storage import Storage

ARROW_SCHEMA: Final = b"ARROW:schema"
_MEANINGFUL: Final = (ARROW_SCHEMA, SPARK_VERSION, SPARK_TIMEZONE, LEGACY_DATETIME, LEGACY_INT96)
_SCHEMA, _ROW_GROUPS = 2, 4
_NUM_ROWS: Final = 0x16
"""The header of field 3, a 64-bit integer, behind field 2."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FooterForm:
    """The bytes that footers of equal columns share. head: up to the end of the schema. tail: from the end of the row
    groups. key_values: of those in the tail, the ones that change what the columns are.
    """

    head: bytes
    tail: bytes
    key_values: Mapping[bytes, bytes]

    @classmethod
    def of(cls, data: bytes) -> FooterForm | None:
        """The outline of a footer; None where its parts cannot be told apart. Raises Arrow's errors."""
        try:
            schema, groups = list_ends(data, _SCHEMA), list_ends(data, _ROW_GROUPS)
        except (ThriftError, IndexError):
            return None
        if not schema or not groups:
            return None
        outline = outline_of(data)
        return cls(head=data[: schema[-1][0]], tail=data[groups[-1][0] :], key_values=outline.key_values)

    def rows_of(self, data: bytes) -> int | None:
        """The rows of another file whose footer is of this form; None where it is not."""
        at = len(self.head)
        if not (data.startswith(self.head) and data.endswith(self.tail) and len(data) > at + len(self.tail)):
            return None
        rows = read_integer(data, at + 1) if data[at] == _NUM_ROWS else None
        return rows if rows is not None and rows >= 0 else None

    def has_columns_of(self, outline: Outline) -> bool:
        """Whether another footer, which may end otherwise, has the same columns."""
        return outline.data.startswith(self.head) and outline.key_values == self.key_values


@dataclass(frozen=True, slots=True, kw_only=True)
class Outline:
    """One footer. num_rows: None where its counts contradict each other. key_values: those that change what its columns
    are."""

    data: bytes
    num_rows: int | None
    key_values: Mapping[bytes, bytes]


def read_footer_bytes(storage: Storage, location: str) -> bytes:
    """The footer of one file. Raises DataFileError naming it, StorageError."""
    with storage.open(location) as file, parquet_errors(location):
        return footer_bytes(file)


def outline_of(data: bytes) -> Outline:
    """The outline in the bytes of a footer. Raises Arrow's errors."""
    found = pq.read_metadata(pa.BufferReader(MAGIC + data + struct.pack("<I", len(data)) + MAGIC))
    rows = sum(found.row_group(number).num_rows for number in range(found.num_row_groups))
    pairs = found.metadata or {}
    return Outline(
        data=data,
        num_rows=found.num_rows if rows == found.num_rows >= 0 else None,
        key_values={key: pairs[key] for key in _MEANINGFUL if key in pairs},
    )
