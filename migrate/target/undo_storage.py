"""A storage that records the files that are written through it, so that a failed job can roll all of them back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from deltaberg.migrate.target.run_document import RunId
from deltaberg.storage import FileInfo, Storage, StorageError
from deltaberg.storage.protocol import Chunk, Probe


class UndoStorage:
    """Passes everything on to another storage. Satisfies ``Storage``. run: whose names the files have."""

    def __init__(self, storage: Storage, run: RunId | None = None) -> None:
        self._storage = storage
        self.run = RunId() if run is None else run
        self._written: dict[str, None] = {}
        self._known_folders: set[str] = set()
        self._made_folders: list[str] = []
        self._undecided: set[str] = set()
        self.has_kept = False

    def __reduce__(self) -> tuple[type[UndoStorage], tuple[Storage, RunId]]:
        """Another process records what it writes itself."""
        return UndoStorage, (self._storage, self.run)

    def adopt(self, location: str) -> None:
        """Count a file that another process wrote as written through this storage."""
        self._written[location] = None

    def discard(self) -> None:
        """Delete every file that was written and is still there, and the folders that were made for them and are empty
        now; what cannot be deleted is left.

        A write that reported an error may have been done all the same, so its file goes, too; but for
        ``put_if_absent``, where the file may be another writer's. Without effect while a commit may stand.
        """
        if self._undecided:
            return
        for location in reversed(list(self._written)):
            with suppress(StorageError):
                self._storage.delete(location)
        self._written.clear()
        for folder in reversed(self._made_folders):
            with suppress(StorageError):
                self._storage.delete_folder(folder)
        self._known_folders.clear()
        self._made_folders.clear()

    def keep(self) -> None:
        """Keep the files written so far, also after ``discard``: they are committed, and others may build on them."""
        self._written.clear()
        self._made_folders.clear()
        self.has_kept = True

    @property
    def undecided(self) -> tuple[str, ...]:
        """The files of commits that may stand or not: then all files that they refer to have to stay."""
        return tuple(sorted(self._undecided))

    def commit_begins(self, location: str) -> None:
        self._undecided.add(location)
        self._storage.commit_begins(location)

    def commit_ends(self, location: str, *, stands: bool) -> None:
        """Files written until a commit that stands are never rolled back."""
        self._storage.commit_ends(location, stands=stands)
        if stands:
            self.keep()
        self._undecided.discard(location)

    def has_written(self, location: str) -> bool:
        """Whether a file was written and not deleted since."""
        return location in self._written

    def resolve(self, location: str) -> str:
        return self._storage.resolve(location)

    def resolve_many(self, locations: pa.Array) -> pa.Array:
        return self._storage.resolve_many(locations)

    def get(self, location: str) -> bytes:
        return self._storage.get(location)

    def get_range(self, location: str, start: int, length: int) -> bytes:
        return self._storage.get_range(location, start, length)

    def head(self, location: str) -> FileInfo:
        return self._storage.head(location)

    def exists(self, location: str) -> bool:
        return self._storage.exists(location)

    def present(self, locations: pa.Array) -> npt.NDArray[np.bool_]:
        return self._storage.present(locations)

    def list(self, folder: str, *, start_after: str | None = None, recursive: bool = False) -> Iterator[FileInfo]:
        return self._storage.list(folder, start_after=start_after, recursive=recursive)

    def probe(self, folder: str, names: Sequence[str]) -> Probe | None:
        return self._storage.probe(folder, names)

    def open(self, location: str) -> pa.NativeFile:
        return self._storage.open(location)

    def create(self, location: str, *, durable: bool = False) -> AbstractContextManager[pa.NativeFile]:
        return self._recorded(location, durable)

    @contextmanager
    def _recorded(self, location: str, durable: bool) -> Iterator[pa.NativeFile]:
        self._will_write(location)
        with self._storage.create(location, durable=durable) as sink:
            yield sink

    def put(self, location: str, data: bytes) -> None:
        self._will_write(location)
        self._storage.put(location, data)

    def put_if_absent(self, location: str, data: bytes | Iterable[Chunk]) -> None:
        self.create_folders(location)
        self._storage.put_if_absent(location, data)
        self._written[location] = None

    def delete(self, location: str) -> None:
        self._storage.delete(location)
        self._written.pop(location, None)

    def create_folders(self, location: str) -> tuple[str, ...]:
        """Also records the folders, so that they are deleted with their files."""
        folder = location.rpartition("/")[0]
        if folder in self._known_folders:
            return ()
        made = self._storage.create_folders(location)
        self._made_folders.extend(made)
        self._known_folders.add(folder)
        return made

    def delete_folder(self, folder: str) -> None:
        self._storage.delete_folder(folder)
        self._known_folders.discard(folder)

    def delete_unfinished(self, folder: str) -> None:
        self._storage.delete_unfinished(folder)

    def delete_abandoned(self, folder: str) -> None:
        self._storage.delete_abandoned(folder)

    def _will_write(self, location: str) -> None:
        self.create_folders(location)
        self._written[location] = None
