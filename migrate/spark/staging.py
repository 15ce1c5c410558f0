"""Files that tasks of one job leave for each other, in a folder of its own, which the driver deletes at the end.

Every attempt of a task writes under its own name, and only the files that accepted attempts name are read.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from deltaberg.bitmap import PositionBitmap
from deltaberg.migrate.files.rewrite import NO_DELETES
from deltaberg.migrate.files.rewrite_queue import Rewritten
from deltaberg.migrate.target.locations import join
from deltaberg.migrate.target.run_document import RunId
from deltaberg.migrate.target.undo_storage import UndoStorage
from deltaberg.storage import Storage, StorageError

STAGING_FOLDER: Final = "staging-"
"""The prefix of the folders' names. The folder of a dead job is deleted after the next conversion to the target."""

_DELETED: Final = "deleted_positions"
_PATH_SHARDS: Final = 64

Words = npt.NDArray[np.uint64]
Place = str | bytes
"""Where something is kept: a location, or the thing itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Staging:
    """The folder of one job, as tasks see it; can be pickled."""

    storage: Storage
    folder: str

    @classmethod
    def below(cls, storage: Storage, folder: str, run: RunId) -> Staging:
        """A new one, of a conversion; nothing is written yet."""
        return cls(storage=storage, folder=join(folder, f"{STAGING_FOLDER}{run.new().hex}"))

    def put(self, name: str, value: object) -> Place:
        """Keep a value; where it is."""
        location = join(self.folder, f"{name}.pickle")
        self.storage.put(location, pickle.dumps(value))
        return location

    def take(self, place: Place) -> Any:
        """A value that this job has put there."""
        assert isinstance(place, str)
        return pickle.loads(self.storage.get(place))

    def put_paths(self, name: str, fingerprints: Words) -> StagedPaths:
        """Keep ascending fingerprints of paths."""
        location = join(self.folder, f"{name}.paths")
        self.storage.put(location, fingerprints.astype("<u8").tobytes())
        return replace(_paths(fingerprints), place=location)

    def put_rows(self, name: str, batches: Sequence[pa.RecordBatch]) -> Place:
        """Keep batches of one schema."""
        location = join(self.folder, f"{name}.arrow")
        with self.storage.create(location) as sink, pa.ipc.new_stream(sink, batches[0].schema) as writer:
            for batch in batches:
                writer.write_batch(batch)
        return location

    def rows(self, place: Place) -> Iterator[pa.RecordBatch]:
        """Batches that were kept."""
        assert isinstance(place, str)
        with self.storage.open(place) as file, pa.ipc.open_stream(file) as reader:
            yield from reader

    def clear(self, recorded: UndoStorage | None = None) -> None:
        """Delete the folder with everything in it; what cannot be deleted is left."""
        storage = recorded or self.storage
        with suppress(StorageError):
            for file in list(storage.list(self.folder, recursive=True)):
                storage.delete(file.location)
            storage.delete_unfinished(self.folder)
            storage.delete_folder(self.folder)


@dataclass(frozen=True, slots=True, kw_only=True)
class Inline(Staging):
    """Keeps nothing in files: a value is its own place. For jobs that may not write."""

    @classmethod
    def of(cls, storage: Storage) -> Inline:
        """A staging that writes nothing, for a source that is only read."""
        return cls(storage=storage, folder="")

    def put(self, name: str, value: object) -> bytes:
        return pickle.dumps(value)

    def take(self, place: Place) -> Any:
        assert isinstance(place, bytes)
        return pickle.loads(place)

    def put_paths(self, name: str, fingerprints: Words) -> StagedPaths:
        return replace(_paths(fingerprints), place=fingerprints.astype("<u8").tobytes())

    def put_rows(self, name: str, batches: Sequence[pa.RecordBatch]) -> bytes:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batches[0].schema) as writer:
            for batch in batches:
                writer.write_batch(batch)
        kept: bytes = sink.getvalue().to_pybytes()
        return kept

    def rows(self, place: Place) -> Iterator[pa.RecordBatch]:
        with pa.ipc.open_stream(place) as reader:
            yield from reader

    def clear(self, recorded: UndoStorage | None = None) -> None:
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedPaths:
    """Ascending fingerprints of the paths of one part, eight bytes each. starts: where each 64th of the numbers begins."""

    place: Place
    starts: tuple[int, ...]

    @property
    def count(self) -> int:
        return self.starts[-1]


def _paths(fingerprints: Words) -> StagedPaths:
    edges = np.arange(_PATH_SHARDS, dtype=np.uint64) << np.uint64(64 - 6)
    return StagedPaths(place="", starts=(*np.searchsorted(fingerprints, edges).tolist(), len(fingerprints)))


def any_repeated(storage: Storage, staged: Sequence[StagedPaths], *, at_a_time: int = 1 << 25) -> bool:
    """Whether any fingerprint occurs twice, in one part or in two. at_a_time: how many are held."""
    total = sum(each.count for each in staged)
    shards = 1
    while shards < _PATH_SHARDS and total // shards > at_a_time:
        shards *= 2
    width = _PATH_SHARDS // shards
    for first in range(0, _PATH_SHARDS, width):
        parts = [_some(storage, each, each.starts[first], each.starts[first + width]) for each in staged]
        every = np.concatenate([np.zeros(0, np.uint64), *parts])
        every.sort()
        if bool((every[1:] == every[:-1]).any()):
            return True
    return False


def _some(storage: Storage, staged: StagedPaths, start: int, stop: int) -> Words:
    if start == stop:
        return np.zeros(0, np.uint64)
    if isinstance(staged.place, bytes):
        return np.frombuffer(staged.place, dtype="<u8")[start:stop]
    return np.frombuffer(storage.get_range(staged.place, 8 * start, 8 * (stop - start)), dtype="<u8")


class StagedRewrites:
    """Keeps the files that are to be rewritten for a later job; use as a context manager. Satisfies ``Rewrites``.

    ``locations``: the Arrow files, one for each schema that follows another; ``files``: how many files are in them.
    """

    def __init__(self, staging: Staging, name: str) -> None:
        self._staging, self._name = staging, name
        self._sink: AbstractContextManager[pa.NativeFile] | None = None
        self._writer: pa.RecordBatchWriter | None = None
        self._schema: pa.Schema | None = None
        self.locations: list[str] = []
        self.files = 0

    def add(self, files: pa.RecordBatch, deleted: Mapping[int, PositionBitmap] = NO_DELETES) -> Iterator[Rewritten]:
        """Keep files with the positions that are deleted from some of them, by row; nothing is done yet."""
        blobs = [deleted[row].serialize() if row in deleted else None for row in range(files.num_rows)]
        batch = files.append_column(_DELETED, pa.array(blobs, pa.large_binary()))
        if self._writer is None or batch.schema != self._schema:
            self._close(None)
            self._open(batch.schema)
        assert self._writer is not None
        self._writer.write_batch(batch)
        self.files += files.num_rows
        return iter(())

    def finish(self) -> Iterator[Rewritten]:
        """Does nothing here."""
        return iter(())

    def __enter__(self) -> StagedRewrites:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        self._close(error)

    def _open(self, schema: pa.Schema) -> None:
        location = join(self._staging.folder, f"{self._name}-rewrites-{len(self.locations)}.arrow")
        self._sink = self._staging.storage.create(location)
        self._writer = pa.ipc.new_stream(self._sink.__enter__(), schema)
        self._schema = schema
        self.locations.append(location)

    def _close(self, error: BaseException | None) -> None:
        sink, writer, self._sink, self._writer = self._sink, self._writer, None, None
        if sink is not None and writer is not None:
            if error is None:
                writer.close()
            sink.__exit__(None if error is None else type(error), error, None)


def staged_rewrites(
    staging: Staging, locations: Sequence[str]
) -> Iterator[tuple[pa.RecordBatch, dict[int, PositionBitmap]]]:
    """The files that ``StagedRewrites`` kept, in batches, with their deleted positions by row."""
    for location in locations:
        for batch in staging.rows(location):
            blobs = batch.column(_DELETED).to_pylist()
            deleted = {row: PositionBitmap.deserialize(blob) for row, blob in enumerate(blobs) if blob is not None}
            yield batch.drop_columns(_DELETED), deleted
