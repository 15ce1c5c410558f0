"""Deleted positions by data file, staged in Arrow files by tasks and read back by the writer of deletes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from deltaberg.bitmap import PositionBitmap
from deltaberg.errors import EngineFailed
from deltaberg.storage import Storage

POSITIONS_SCHEMA = pa.schema([pa.field("place", pa.int32(), False), pa.field("positions", pa.large_binary(), False)])
"""place: of the data file in its list. positions: ``PositionBitmap.serialize``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileList:
    """Data files of one manifest that have equality deletes: one record batch of an Arrow file.

    rows: physical ones in these files. held: some of their deletes fit into a task's memory. joined: numbers of the groups
    of deletes that do not.
    """

    manifest_path: str
    location: str
    batch: int
    files: int
    rows: int
    held: bool
    joined: tuple[int, ...]

    def read(self, storage: Storage) -> pa.RecordBatch:
        with storage.open(self.location) as file, pa.ipc.open_file(file) as reader:
            return reader.get_batch(self.batch)


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedList:
    """A list of data files and the Arrow files (POSITIONS_SCHEMA) that say what is deleted from them."""

    files: FileList
    positions: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedPositions:
    """The rows that the equality deletes of a snapshot delete. lists: in the order of its manifests. rows: deleted by
    key.
    """

    storage: Storage
    lists: tuple[StagedList, ...]
    rows: int

    def reader(self, manifests: Collection[str] | None = None) -> PositionReader:
        """The positions for one pass over the data files of the snapshot, or of some of its manifests (by path)."""
        lists = (
            self.lists if manifests is None else [each for each in self.lists if each.files.manifest_path in manifests]
        )
        return PositionReader(self.storage, lists)


class PositionReader:
    """A ``DeletedByKey`` that holds the positions of one list at a time, where files are asked for in manifest order."""

    def __init__(self, storage: Storage, lists: Sequence[StagedList]) -> None:
        self._storage = storage
        self._waiting = iter(lists)
        self._held: dict[str, list[PositionBitmap]] = {}

    def positions(self, file_path: str) -> PositionBitmap:
        """The positions deleted from a data file that the tasks resolved. Raises EngineFailed for another one,
        StorageError.
        """
        while file_path not in self._held:
            each = next(self._waiting, None)
            if each is None:
                raise EngineFailed(
                    f"Cannot tell which rows of {file_path} are deleted: no task looked at its equality deletes "
                    "(expected every data file that has some); run the conversion again",
                    path=file_path,
                )
            self._load(each)
        found = self._held[file_path]
        result = found.pop()
        if not found:
            del self._held[file_path]
        return result

    def _load(self, each: StagedList) -> None:
        paths = each.files.read(self._storage).column("file_path").to_pylist()
        bitmaps = [PositionBitmap() for _ in paths]
        for location in each.positions:
            for place, bitmap in read_positions(self._storage, location):
                bitmaps[place] = bitmaps[place].union(bitmap)
        for path, bitmap in zip(paths, bitmaps, strict=True):
            self._held.setdefault(path, []).append(bitmap)


class PositionsWriter:
    """Writes POSITIONS_SCHEMA, a few files at a time. Use as a context manager around a sink."""

    _ENOUGH_BYTES = 4 << 20

    def __init__(self, sink: pa.NativeFile) -> None:
        self._writer = pa.ipc.new_file(sink, POSITIONS_SCHEMA)
        self._places: list[int] = []
        self._blobs: list[bytes] = []
        self._bytes = 0
        self.rows = 0

    def add(self, place: int, positions: PositionBitmap) -> None:
        """Write the positions deleted from one data file; nothing is written for none."""
        if not positions.cardinality:
            return
        self.rows += positions.cardinality
        self._places.append(place)
        self._blobs.append(positions.serialize())
        self._bytes += len(self._blobs[-1])
        if self._bytes >= self._ENOUGH_BYTES:
            self._flush()

    def close(self) -> None:
        self._flush()
        self._writer.close()

    def _flush(self) -> None:
        if self._places:
            self._writer.write_batch(pa.record_batch([self._places, self._blobs], schema=POSITIONS_SCHEMA))
        self._places, self._blobs, self._bytes = [], [], 0


def read_positions(storage: Storage, location: str) -> Iterator[tuple[int, PositionBitmap]]:
    """Places and positions, batch by batch."""
    with storage.open(location) as file, pa.ipc.open_file(file) as reader:
        for number in range(reader.num_record_batches):
            batch = reader.get_batch(number)
            for place, blob in zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True):
                yield place, PositionBitmap.deserialize(blob)
