"""Putting local files on disk (``fsync``): many at once, in time for the commit that refers to them."""

from __future__ import annotations

import errno
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

_AT_ONCE = 1024
_THREADS = 8  # file systems put files that are waiting together on disk together: a sixtieth of the time of one by one
_CANNOT = {errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EBADF}


class DiskSync:
    """Files and folders that were written and may not be on disk yet.

    later: ``flush`` puts them on disk, or their number does; else they are put there at once.
    """

    def __init__(self, *, later: bool) -> None:
        self._later = later
        self._lock = threading.Lock()
        self._files: dict[str, None] = {}
        self._folders: dict[str, None] = {}

    def add_file(self, path: str) -> None:
        """A file that has just appeared in its folder. Raises OSError."""
        with self._lock:
            self._files[path] = None
            self._folders[os.path.dirname(path)] = None
        if not self._later or len(self._files) >= _AT_ONCE:
            self.flush()

    def add_folder(self, folder: str) -> None:
        """A folder in which a name appeared. Raises OSError."""
        with self._lock:
            self._folders[folder] = None
        if not self._later:
            self.flush()

    def flush(self) -> None:
        """Put all of them on disk; one that is gone again needs nothing. Raises OSError."""
        with self._lock:
            files, folders = list(self._files), list(self._folders)
        if len(files) > 1:
            with ThreadPoolExecutor(min(_THREADS, len(files))) as pool:
                list(pool.map(sync_file, files))
        elif files:
            sync_file(files[0])
        for folder in folders:
            sync_folder(folder)
        with self._lock:
            for path in files:
                self._files.pop(path, None)
            for folder in folders:
                self._folders.pop(folder, None)


def sync_folder(folder: str) -> None:
    """Put the names in a folder on disk, where the user may. Raises OSError."""
    with suppress(FileNotFoundError, NotADirectoryError, PermissionError):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            sync_handle(handle)
        finally:
            os.close(handle)


def sync_file(path: str) -> None:
    """Put the content of a file on disk. Raises OSError."""
    with suppress(FileNotFoundError, NotADirectoryError):
        handle = os.open(path, os.O_RDONLY)
        try:
            sync_handle(handle)
        finally:
            os.close(handle)


def sync_handle(handle: int) -> None:
    """Put an open file or folder on disk; a file system without ``fsync`` is used as it is. Raises OSError."""
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in _CANNOT:
            raise
