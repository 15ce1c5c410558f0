"""``open_storage``: the Storage that both cores get, for local files and object stores alike."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.redaction import hide_options
from deltaberg.storage.local_files import LocalFiles
from deltaberg.storage.location import Relocation
from deltaberg.storage.presence import present_locally, present_remotely
from deltaberg.storage.protocol import Chunk, FileInfo, Probe, Storage

if TYPE_CHECKING:
    from deltaberg.storage.remote_objects import RemoteObjects

_NOTHING: Mapping[str, str] = MappingProxyType({})


def open_storage(*, relocate: Mapping[str, str] = _NOTHING, options: Mapping[str, str] = _NOTHING) -> Storage:
    """A Storage for local paths, ``file:`` URLs and every URL of obstore.

    ``relocate`` maps location prefixes to where they now are (``deltaberg.storage.location.Relocation``);
    ``options`` configures the object stores. Raises StorageError for a prefix that cannot be a location, UsageError for an
    option that no store knows.
    """
    if options:
        # Local files need none of it.
        from deltaberg.storage.store_options import check_options

        check_options(options)
    return ObjectStorage(Relocation(relocate), options)


class ObjectStorage:
    """Sends each location, once resolved, to the local file system or to its object store."""

    def __init__(self, relocation: Relocation, options: Mapping[str, str], *, commits_here: bool = True) -> None:
        """commits_here: False where another process commits the files written through this storage."""
        hide_options(options)
        self._relocation = relocation
        self._options = options
        self._local = LocalFiles(sync_later=commits_here)
        self._remote: RemoteObjects | None = None

    def __reduce__(self) -> tuple[Callable[[Relocation, Mapping[str, str]], ObjectStorage], tuple[Any, ...]]:
        """Another process opens stores of its own."""
        return _for_a_task, (self._relocation, dict(self._options))

    @property
    def relocation_targets(self) -> tuple[str, ...]:
        """Where the user says that files were moved to."""
        return self._relocation.targets

    def resolve(self, location: str) -> str:
        return self._relocation.resolve(location)

    def resolve_many(self, locations: pa.Array) -> pa.Array:
        return self._relocation.resolve_many(locations)

    def get(self, location: str) -> bytes:
        files, place = self._at(location)
        return files.get(place)

    def get_range(self, location: str, start: int, length: int) -> bytes:
        files, place = self._at(location)
        return files.get_range(place, start, length)

    def head(self, location: str) -> FileInfo:
        files, place = self._at(location)
        size, modified_ms = files.head(place)
        return FileInfo(location=location, size=size, modified_ms=modified_ms)

    def exists(self, location: str) -> bool:
        files, place = self._at(location)
        return files.exists(place)

    def present(self, locations: pa.Array) -> npt.NDArray[np.bool_]:
        places = self._relocation.resolve_many(locations)
        local = np.asarray(pc.starts_with(places, "/"))
        found = np.zeros(len(places), dtype=np.bool_)
        if local.any():
            found[local] = present_locally(self._local, places.filter(pa.array(local)))
        if not local.all():
            found[~local] = present_remotely(self._objects(), places.filter(pa.array(~local)))
        return found

    def list(self, folder: str, *, start_after: str | None = None, recursive: bool = False) -> Iterator[FileInfo]:
        files, place = self._at(folder)
        prefix = folder if folder.endswith("/") else folder + "/"
        for name, size, modified_ms in files.list(place, start_after=start_after, recursive=recursive):
            yield FileInfo(location=prefix + name, size=size, modified_ms=modified_ms)

    def probe(self, folder: str, names: Sequence[str]) -> Probe | None:
        files, place = self._at(folder)
        if not isinstance(files, LocalFiles):
            return None
        found = files.probe(place, names)
        if found is None:
            return None
        there, changed_ms = found
        prefix = folder if folder.endswith("/") else folder + "/"
        return Probe(
            files=tuple(
                FileInfo(location=prefix + name, size=size, modified_ms=modified_ms)
                for name, size, modified_ms in there
            ),
            changed_ms=changed_ms,
        )

    def open(self, location: str) -> pa.NativeFile:
        files, place = self._at(location)
        return files.open(place)

    def create(self, location: str, *, durable: bool = False) -> AbstractContextManager[pa.NativeFile]:
        files, place = self._at(location)
        return files.create(place, durable=durable)

    def put(self, location: str, data: bytes) -> None:
        files, place = self._at(location)
        files.put(place, data)

    def put_if_absent(self, location: str, data: bytes | Iterable[Chunk]) -> None:
        files, place = self._at(location)
        files.put_if_absent(place, data)

    def commit_begins(self, location: str) -> None:
        """Nothing is ever rolled back here."""

    def commit_ends(self, location: str, *, stands: bool) -> None:
        """Nothing is ever rolled back here."""

    def delete(self, location: str) -> None:
        files, place = self._at(location)
        files.delete(place)

    def create_folders(self, location: str) -> tuple[str, ...]:
        place = self.resolve(location)
        return self._local.create_folders(place) if place.startswith("/") else ()

    def delete_folder(self, folder: str) -> None:
        place = self.resolve(folder)
        if place.startswith("/"):
            self._local.delete_folder(place)

    def delete_unfinished(self, folder: str) -> None:
        files, place = self._at(folder)
        if isinstance(files, LocalFiles):
            files.delete_unfinished(place)

    def delete_abandoned(self, folder: str) -> None:
        files, place = self._at(folder)
        if isinstance(files, LocalFiles):
            files.delete_abandoned(place)

    def _at(self, location: str) -> tuple[LocalFiles | RemoteObjects, str]:
        place = self._relocation.resolve(location)
        return (self._local if place.startswith("/") else self._objects()), place

    def _objects(self) -> RemoteObjects:
        if self._remote is None:
            # obstore is loaded for URLs only: most commands touch local files and must start at once.
            from deltaberg.storage.remote_objects import RemoteObjects

            self._remote = RemoteObjects(self._options)
        return self._remote


def _for_a_task(relocation: Relocation, options: Mapping[str, str]) -> ObjectStorage:
    return ObjectStorage(relocation, options, commits_here=False)
