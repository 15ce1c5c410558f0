"""Write a Delta version's deletion vectors into an Iceberg table: Puffin files, or position delete files below v3."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from deltaberg.bitmap import frame
from deltaberg.datafile import ReadField
from deltaberg.datafile.parquet.parquet_writer import ParquetFileWriter, parquet_schema
from deltaberg.iceberg.deletes.delete_index import FILE_PATH_ID, POS_ID
from deltaberg.iceberg.deletes.puffin import PuffinWriter
from deltaberg.migrate.files.vector_copy import DeletionVector
from deltaberg.migrate.target.locations import join
from deltaberg.storage import Storage
from deltaberg.translate.deletes import position_delete_entries, vector_entries

_ROLL_BYTES: Final = 64 << 20
_ROLL_VECTORS: Final = 10_000
_TOGETHER: Final = 1_000
_POSITION_SCHEMA: Final = parquet_schema(
    (
        ReadField(name="file_path", physical_name="file_path", type=pa.string(), nullable=False, field_id=FILE_PATH_ID),
        ReadField(name="pos", physical_name="pos", type=pa.int64(), nullable=False, field_id=POS_ID),
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletePlace:
    """Where the deletes of a data file are: a Puffin file and the vector's offset in it, or a position delete file."""

    location: str
    offset: int | None


@dataclass(slots=True, kw_only=True)
class _Names:
    """Names of delete files, none like another, and those that were given out."""

    prefix: str
    new_id: Callable[[], uuid.UUID]
    given: list[str] = field(default_factory=list)

    def next(self, suffix: str) -> str:
        self.given.append(f"{self.prefix}{self.new_id()}-deletes.{suffix}")
        return self.given[-1]


@dataclass(slots=True, kw_only=True)
class _Pending:
    """Vectors of one Puffin file: which data files they belong to and where they are."""

    data_files: list[str] = field(default_factory=list)
    partitions: list[pa.StructArray] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    cardinalities: list[int] = field(default_factory=list)


class PuffinVectors:
    """Collects the vectors of a conversion in a few Puffin files; use as a context manager, then ask for ``entries``.

    When the body fails, none of the open file is left; finished ones are the caller's to delete.
    """

    def __init__(
        self,
        storage: Storage,
        folder: str,
        *,
        spec_id: int,
        name: str | None = None,
        new_id: Callable[[], uuid.UUID] = uuid.uuid4,
        remembers: bool = True,
    ) -> None:
        """name: begins the names of the files. remembers: whether ``places`` will be asked for."""
        self._storage, self._folder, self._spec_id = storage, folder, spec_id
        self._names = _Names(prefix="" if name is None else f"{name}-", new_id=new_id)
        self._writer: PuffinWriter | None = None
        self._pending = _Pending()
        self._entries: list[pa.RecordBatch] = []
        self._remembers = remembers
        self.places: dict[str, DeletePlace] = {}

    def add(self, data_file: str, partition: pa.StructArray, vector: DeletionVector) -> None:
        """One data file's vector; partition: its tuple, an array of one. ``places`` tells where it stands then."""
        if self._writer is None:
            self._writer = PuffinWriter(self._storage, join(self._folder, self._names.next("puffin")))
            self._writer.__enter__()
        blob = self._writer.add_deletion_vector(
            frame(vector.blob), referenced_data_file=data_file, cardinality=vector.cardinality
        )
        pending = self._pending
        pending.data_files.append(data_file)
        pending.partitions.append(partition)
        pending.offsets.append(blob.offset)
        pending.lengths.append(blob.length)
        pending.cardinalities.append(vector.cardinality)
        if self._remembers:
            self.places[data_file] = DeletePlace(location=self._writer.location, offset=blob.offset)
        if self._writer.length >= _ROLL_BYTES or len(pending.offsets) >= _ROLL_VECTORS:
            self._finish()

    @property
    def locations(self) -> tuple[str, ...]:
        """The files that were begun."""
        return tuple(join(self._folder, name) for name in self._names.given)

    def entries(self) -> Iterator[pa.RecordBatch]:
        """The delete entries of all vectors."""
        self._finish()
        yield from self._entries

    def __enter__(self) -> PuffinVectors:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if error is not None and self._writer is not None:
            self._writer.__exit__(kind, error, None)
            self._writer = None

    def _finish(self) -> None:
        writer, pending = self._writer, self._pending
        if writer is None:
            return
        self._writer, self._pending = None, _Pending()
        writer.__exit__(None, None, None)
        rows = len(pending.offsets)
        self._entries.append(
            vector_entries(
                data_files=pa.array(pending.data_files, pa.string()),
                partition=pa.concat_arrays(pending.partitions),
                spec_id=self._spec_id,
                locations=pa.repeat(pa.scalar(writer.location), rows),
                offsets=pa.array(pending.offsets, pa.int64()),
                lengths=pa.array(pending.lengths, pa.int64()),
                cardinalities=pa.array(pending.cardinalities, pa.int64()),
                file_sizes=pa.repeat(pa.scalar(writer.length, pa.int64()), rows),
            )
        )


class PositionDeleteFiles:
    """Collects deletes as position delete files, one for each data file, for format version 2."""

    def __init__(
        self,
        storage: Storage,
        folder: str,
        *,
        spec_id: int,
        name: str | None = None,
        new_id: Callable[[], uuid.UUID] = uuid.uuid4,
        remembers: bool = True,
    ) -> None:
        """name: begins the names of the files. remembers: whether ``places`` will be asked for."""
        self._storage, self._folder, self._spec_id = storage, folder, spec_id
        self._names = _Names(prefix="" if name is None else f"{name}-", new_id=new_id)
        self._entries: list[pa.RecordBatch] = []
        self._single: list[pa.RecordBatch] = []
        self._remembers = remembers
        self.places: dict[str, DeletePlace] = {}

    def add(self, data_file: str, partition: pa.StructArray, vector: DeletionVector) -> None:
        """One data file's deleted positions; partition: its tuple, an array of one."""
        positions = pa.array(vector.bitmap.to_positions())
        paths = pa.repeat(pa.scalar(data_file), len(positions))
        location = join(self._folder, self._names.next("parquet"))
        with ParquetFileWriter(self._storage, lambda _: location, _POSITION_SCHEMA) as writer:
            writer.write(pa.RecordBatch.from_arrays([paths, positions], schema=_POSITION_SCHEMA))
            written = writer.finish()
        if self._remembers:
            self.places[data_file] = DeletePlace(location=location, offset=None)
        self._single.append(
            position_delete_entries(
                data_files=pa.array([data_file], pa.string()),
                partition=partition,
                spec_id=self._spec_id,
                locations=written.files.column("location"),
                record_counts=written.files.column("record_count"),
                file_sizes=written.files.column("file_size_in_bytes"),
            )
        )
        if len(self._single) >= _TOGETHER:
            self._put_together()

    def _put_together(self) -> None:
        """One batch of many entries takes far less memory than a batch each."""
        if self._single:
            self._entries.extend(pa.Table.from_batches(self._single).combine_chunks().to_batches())
            self._single = []

    @property
    def locations(self) -> tuple[str, ...]:
        """The files that were begun."""
        return tuple(join(self._folder, name) for name in self._names.given)

    def entries(self) -> Iterator[pa.RecordBatch]:
        """The delete entries of all files."""
        self._put_together()
        yield from self._entries

    def __enter__(self) -> PositionDeleteFiles:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        return None
