"""A storage that reads and writes only where a policy allows it, for every caller."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from deltaberg.storage.access_policy import AccessPolicy, allowed_prefixes, store_of
from deltaberg.storage.object_storage import ObjectStorage
from deltaberg.storage.protocol import Chunk, FileInfo, Probe, Storage


class GuardedStorage:
    """Passes to another storage the calls that ``policy`` allows. Satisfies ``Storage``; raises LocationRefused and
    OutsideTarget.
    """

    def __init__(self, storage: Storage, policy: AccessPolicy) -> None:
        self.unguarded = storage
        self.policy = policy

    def __reduce__(self) -> tuple[type[GuardedStorage], tuple[Storage, AccessPolicy]]:
        return GuardedStorage, (self.unguarded, self.policy)

    def relocates_to(self, place: str) -> bool:
        """Whether a resolved location is where the user says that files were moved to."""
        moved = self.unguarded.relocation_targets if isinstance(self.unguarded, ObjectStorage) else ()
        return any(place == folder or place.startswith(f"{folder}/") for folder in moved)

    def resolve(self, location: str) -> str:
        """Where a location is, whether it may be read or not: nothing is contacted."""
        return self.unguarded.resolve(location)

    def resolve_many(self, locations: pa.Array) -> pa.Array:
        """Raises LocationRefused where one may not be read."""
        places = self.unguarded.resolve_many(locations)
        self.policy.require_all_readable(places)
        return places

    def get(self, location: str) -> bytes:
        self._reads(location)
        return self.unguarded.get(location)

    def get_range(self, location: str, start: int, length: int) -> bytes:
        self._reads(location)
        return self.unguarded.get_range(location, start, length)

    def head(self, location: str) -> FileInfo:
        self._reads(location)
        return self.unguarded.head(location)

    def exists(self, location: str) -> bool:
        self._reads(location)
        return self.unguarded.exists(location)

    def present(self, locations: pa.Array) -> npt.NDArray[np.bool_]:
        self.resolve_many(locations)
        return self.unguarded.present(locations)

    def list(self, folder: str, *, start_after: str | None = None, recursive: bool = False) -> Iterator[FileInfo]:
        self._reads(folder)
        return self.unguarded.list(folder, start_after=start_after, recursive=recursive)

    def probe(self, folder: str, names: Sequence[str]) -> Probe | None:
        self._reads(folder)
        return self.unguarded.probe(folder, names)

    def open(self, location: str) -> pa.NativeFile:
        self._reads(location)
        return self.unguarded.open(location)

    def create(self, location: str, *, durable: bool = False) -> AbstractContextManager[pa.NativeFile]:
        self._writes(location)
        return self.unguarded.create(location, durable=durable)

    def put(self, location: str, data: bytes) -> None:
        self._writes(location)
        self.unguarded.put(location, data)

    def put_if_absent(self, location: str, data: bytes | Iterable[Chunk]) -> None:
        self._writes(location)
        self.unguarded.put_if_absent(location, data)

    def delete(self, location: str) -> None:
        self._writes(location)
        self.unguarded.delete(location)

    def create_folders(self, location: str) -> tuple[str, ...]:
        self._writes(location)
        return self.unguarded.create_folders(location)

    def delete_folder(self, folder: str) -> None:
        self.policy.require_folder_writable(self.resolve(folder))
        self.unguarded.delete_folder(folder)

    def delete_unfinished(self, folder: str) -> None:
        self.policy.require_folder_writable(self.resolve(folder))
        self.unguarded.delete_unfinished(folder)

    def delete_abandoned(self, folder: str) -> None:
        self.policy.require_folder_writable(self.resolve(folder))
        self.unguarded.delete_abandoned(folder)

    def commit_begins(self, location: str) -> None:
        self.unguarded.commit_begins(location)

    def commit_ends(self, location: str, *, stands: bool) -> None:
        self.unguarded.commit_ends(location, stands=stands)

    def _reads(self, location: str) -> None:
        self.policy.require_readable(self.resolve(location))

    def _writes(self, location: str) -> None:
        self.policy.require_writable(self.resolve(location))


def guarded(storage: Storage, locations: Iterable[str], *, allow_locations: Iterable[str] = ()) -> GuardedStorage:
    """The storage for tables that a user named: their stores may be read.

    allow_locations: prefixes of other stores that may be read too, as the user typed them; where the user relocated files
    to, they may be read as well. Raises StorageError for a text that is no location.
    """
    inner, known = (storage.unguarded, storage.policy) if isinstance(storage, GuardedStorage) else (storage, None)
    allowed = (*(() if known is None else known.allowed), *allowed_prefixes(allow_locations))
    if isinstance(inner, ObjectStorage):
        allowed = (*allowed, *inner.relocation_targets)
    stores = frozenset(store_of(inner.resolve(location)) for location in locations)
    return GuardedStorage(inner, AccessPolicy(stores=stores, allowed=tuple(dict.fromkeys(allowed))))


def with_target(storage: Storage, folder: str, *, location: str, writes: bool) -> GuardedStorage:
    """The storage of the table at ``location``, which also reads the store of a target's folder; it writes below that folder
    and nowhere else, or with ``writes`` off not at all."""
    own = storage if isinstance(storage, GuardedStorage) else guarded(storage, [location])
    place = own.resolve(folder)
    policy = own.policy.with_stores_of([place]).writing(*([place] if writes else []))
    return GuardedStorage(own.unguarded, policy)


def unguarded_places(storage: Storage, locations: pa.Array) -> pa.Array:
    """The locations of files, including those that may not be read, in order to name them. Nothing is contacted."""
    inner = storage.unguarded if isinstance(storage, GuardedStorage) else storage
    return inner.resolve_many(locations)
