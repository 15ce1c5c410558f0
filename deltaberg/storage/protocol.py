"""The one narrow interface through which both cores touch files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Chunk: TypeAlias = bytes | memoryview
"""A piece of a file's content."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileInfo:
    """One file as a listing or a head reports it; ``location`` can be given back to the same Storage."""

    location: str
    size: int
    modified_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """The named files that are in a folder, and when a name was last added to the folder or removed from it."""

    files: tuple[FileInfo, ...]
    changed_ms: int


class Storage(Protocol):
    """Files by location. A location is an absolute local path, ``file:`` URL or any URL that obstore understands.

    A location is final as it stands (nothing is percent-decoded but the path of a ``file:`` URL is taken
    literally, as Iceberg does; Delta decodes its ``add.path`` before it asks). ``--relocate`` is applied inside:
    callers pass what the metadata says; ``resolve`` tells where that really is.

    Raises NotFound, AlreadyExists, PermissionDenied (``deltaberg.storage.errors``) and nothing of a library's own.
    """

    def resolve(self, location: str) -> str:
        """Where a location really is: relocation applied; a local path without scheme, or the URL as given."""
        ...

    def resolve_many(self, locations: pa.Array) -> pa.Array:
        """``resolve`` for a string array, column-wise."""
        ...

    def get(self, location: str) -> bytes: ...

    def get_range(self, location: str, start: int, length: int) -> bytes:
        """Exactly ``length`` bytes from ``start``; a shorter file is a StorageError, never a short answer."""
        ...

    def head(self, location: str) -> FileInfo: ...

    def exists(self, location: str) -> bool: ...

    def present(self, locations: pa.Array) -> npt.NDArray[np.bool_]:
        """``exists`` for a string array without nulls; costs listings of folders rather than a request for each file."""
        ...

    def list(self, folder: str, *, start_after: str | None = None, recursive: bool = False) -> Iterator[FileInfo]:
        """Files under a folder in lexicographic order; nothing when the folder is absent.

        ``start_after``: a file name relative to the folder; only names greater than it are listed.
        """
        ...

    def probe(self, folder: str, names: Sequence[str]) -> Probe | None:
        """The files of a folder that have one of these names, asked for one after the other in this order.

        None where asking for many names costs more than listing: in an object store, and when the folder is absent.
        """
        ...

    def open(self, location: str) -> pa.NativeFile:
        """A seekable file for pyarrow's readers."""
        ...

    def create(self, location: str, *, durable: bool = False) -> AbstractContextManager[pa.NativeFile]:
        """A sink that streams; the file appears whole at exit and not at all when the body raises.

        durable: the file is on disk before it appears, for one that readers find by its name alone. Any other is on disk
        before the next file that ``put`` or ``put_if_absent`` writes appears, which is what refers to it.
        """
        ...

    def put(self, location: str, data: bytes) -> None:
        """Write a whole file, replacing one that is there; it is on disk before it appears."""
        ...

    def put_if_absent(self, location: str, data: bytes | Iterable[Chunk]) -> None:
        """Write a whole file atomically; AlreadyExists when another writer was faster. File and folder are on disk
        then.

        Raises ConditionIgnored where the store would replace a file that is there, NotDurable where the file stands but
        could not be put on disk.

        The pieces of an iterable are written as they come in the local file system. An object store takes a conditional
        write in one request, so they are all held in memory there. An error raised while a piece is made is passed on,
        and nothing is written then.
        """
        ...

    def commit_begins(self, location: str) -> None:
        """Noted before the request that makes a commit visible: written files may be part of a table from here on."""
        ...

    def commit_ends(self, location: str, *, stands: bool) -> None:
        """Noted when the outcome of that request is known."""
        ...

    def delete(self, location: str) -> None:
        """Delete a file; one that is not there is no error."""
        ...

    def create_folders(self, location: str) -> tuple[str, ...]:
        """Make the folders above a file; gives those that were not there, outermost first. None in an object store."""
        ...

    def delete_folder(self, folder: str) -> None:
        """Delete a folder that holds nothing; one that holds something, or is not there, is left and no error."""
        ...

    def delete_unfinished(self, folder: str) -> None:
        """Delete the half-written files of dead processes in a folder; no process may be writing there.

        An object store shows nothing of an upload that was not finished; its own life-cycle rules delete that.
        """
        ...

    def delete_abandoned(self, folder: str) -> None:
        """``delete_unfinished`` for a folder where others may be writing: only files of a process that has certainly died,
        or untouched for a day.
        """
        ...
