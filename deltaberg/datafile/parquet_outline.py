"""What of a Parquet footer decides how its columns are read, without a look at any column chunk.

A footer's schema stands before everything else that differs from file to file, so files of one writer begin their footers
with the same bytes. Whether two files have equal columns is seen by comparing those bytes; they need not be understood
once more.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from deltaberg.datafile.parquet import parquet_errors
from deltaberg.datafile.parquet_footer import MAGIC, footer_bytes
from deltaberg.datafile.parquet_schema import LEGACY_DATETIME, LEGACY_INT96, SPARK_TIMEZONE, SPARK_VERSION
from deltaberg.datafile.thrift_compact import ThriftError, list_ends
from deltaberg.storage import Storage

ARROW_SCHEMA: Final = b"ARROW:schema"
_MEANINGFUL: Final = (ARROW_SCHEMA, SPARK_VERSION, SPARK_TIMEZONE, LEGACY_DATETIME, LEGACY_INT96)
_SCHEMA_FIELD: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Outline:
    """One footer. key_values: those that change what its columns are. num_rows: None where its counts contradict each
    other."""

    data: bytes
    num_rows: int | None
    key_values: Mapping[bytes, bytes]

    def schema_bytes(self) -> bytes | None:
        """What the footer begins with, up to the end of its schema; None where that is not told so easily."""
        try:
            ends = list_ends(self.data, _SCHEMA_FIELD)
        except (ThriftError, IndexError):
            return None
        return self.data[: ends[-1][0]] if ends else None

    def has_columns_of(self, schema_bytes: bytes, key_values: Mapping[bytes, bytes]) -> bool:
        """Whether its columns are those of another footer with these ``schema_bytes`` and ``key_values``."""
        return self.data.startswith(schema_bytes) and self.key_values == key_values


def read_outline(storage: Storage, location: str) -> Outline:
    """Of one file. Raises DataFileError naming it, StorageError."""
    with storage.open(location) as file, parquet_errors(location):
        data = footer_bytes(file)
        found = pq.read_metadata(pa.BufferReader(MAGIC + data + struct.pack("<I", len(data)) + MAGIC))
        rows = sum(found.row_group(number).num_rows for number in range(found.num_row_groups))
        pairs = found.metadata or {}
        return Outline(
            data=data,
            num_rows=found.num_rows if rows == found.num_rows >= 0 else None,
            key_values={key: pairs[key] for key in _MEANINGFUL if key in pairs},
        )
