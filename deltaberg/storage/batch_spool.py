"""Record batches put aside until they are needed, a few in memory and the rest in a temporary local file."""

from __future__ import annotations

import os
import tempfile
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

import pyarrow as pa

from deltaberg.storage.errors import StorageError

_IN_MEMORY_BYTES = 32 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stored:
    offset: int
    length: int
    schema: pa.Schema


class BatchSpool:
    """A list of record batches that takes about the same memory however long it gets; it can be read repeatedly.

    The file has no name, so nothing is left of it when the process ends; it is in the operating system's temporary
    folder. Raises StorageError where that is full.
    """

    def __init__(self, *, in_memory_bytes: int = _IN_MEMORY_BYTES) -> None:
        self._room = in_memory_bytes
        self._batches: list[pa.RecordBatch | _Stored] = []
        self._file: IO[bytes] | None = None
        self._end = 0
        self._schemas: list[pa.Schema] = []

    def __len__(self) -> int:
        return len(self._batches)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for each in self._batches:
            yield self._read(each) if isinstance(each, _Stored) else each

    def append(self, batch: pa.RecordBatch) -> None:
        size = batch.nbytes
        if size <= self._room or _has_dictionary(batch.schema):
            self._room -= size
            self._batches.append(batch)
            return
        self._room = 0
        data = batch.serialize()
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile(prefix="deltaberg-", buffering=0)  # noqa: SIM115 (closed with self)
                weakref.finalize(self, self._file.close)
            left = memoryview(data)
            while left:
                left = left[self._file.write(left) :]
        except OSError as error:
            raise StorageError(
                f"Cannot put {len(data)} bytes aside in {tempfile.gettempdir()}: {error.strerror or error}; "
                "set TMPDIR to a folder with room"
            ) from error
        self._batches.append(_Stored(offset=self._end, length=len(data), schema=self._schema(batch.schema)))
        self._end += len(data)

    def _read(self, stored: _Stored) -> pa.RecordBatch:
        assert self._file is not None
        try:
            data = os.pread(self._file.fileno(), stored.length, stored.offset)
        except OSError as error:
            raise StorageError(f"Cannot read what was put aside in {tempfile.gettempdir()}: {error}") from error
        return pa.ipc.read_record_batch(pa.py_buffer(data), stored.schema)

    def _schema(self, schema: pa.Schema) -> pa.Schema:
        """One object for equal schemas, of which there are few."""
        for known in self._schemas:
            if known.equals(schema, check_metadata=True):
                return known
        self._schemas.append(schema)
        return schema


def _has_dictionary(fields: pa.Schema | pa.DataType) -> bool:
    """Whether a column is dictionary-encoded at any depth: a batch alone does not say its dictionaries."""
    kinds = [field.type for field in fields] if isinstance(fields, pa.Schema) else [fields]
    return any(
        pa.types.is_dictionary(kind) or any(_has_dictionary(kind.field(index).type) for index in range(kind.num_fields))
        for kind in kinds
    )
