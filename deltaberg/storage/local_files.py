"""Files of the local file system, under every name that it allows."""

from __future__ import annotations

import errno
import os
import re
import stat
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress

import pyarrow as pa

from deltaberg.storage.disk_sync import DiskSync, sync_file, sync_folder, sync_handle
from deltaberg.storage.errors import AlreadyExists, NotDurable, NotFound, PermissionDenied, StorageError
from deltaberg.storage.process_mark import PROCESS_MARK, is_dead, process_mark
from deltaberg.storage.protocol import Chunk

_STAGED_PREFIX, _STAGED_SUFFIX = ".deltaberg-", ".tmp"
_STAGED = re.compile(rf"\.deltaberg-(?:(?P<mark>{PROCESS_MARK})-)?[0-9a-f]{{32}}\.tmp")
_LONG_AGO_S = 24 * 3600


class LocalFiles:
    """The operations of ``Storage`` on absolute local paths.

    obstore's own local store cannot name every file (control characters, ``name#1``), so the operating system is
    asked directly. Whole files become visible at once: they are staged under a hidden name in the same folder and
    moved, or, for ``put_if_absent``, hard-linked, which fails when the name is taken. They are put on disk as
    ``Storage`` says; sync_later: those that a later file of this process refers to, together with it.
    """

    def __init__(self, *, sync_later: bool = True) -> None:
        self._sync = DiskSync(later=sync_later)

    def get(self, path: str) -> bytes:
        with _told("read", path):
            _require_file("read", path)
            with open(path, "rb") as file:
                return file.read()

    def get_range(self, path: str, start: int, length: int) -> bytes:
        with _told("read", path):
            _require_file("read", path)
            with open(path, "rb") as file:
                size = os.fstat(file.fileno()).st_size
                if start < 0 or length < 0 or start + length > size:
                    raise _outside(path, start, length, size)
                file.seek(start)
                data = file.read(length)
        if len(data) != length:
            raise _outside(path, start, length, start + len(data))
        return data

    def head(self, path: str) -> tuple[int, int]:
        """Size in bytes and time of the last change in milliseconds since 1970."""
        with _told("read", path):
            found = _require_file("read", path)
        return found.st_size, found.st_mtime_ns // 1_000_000

    def exists(self, path: str) -> bool:
        with _told("read", path):
            try:
                return stat.S_ISREG(os.stat(path).st_mode)
            except (FileNotFoundError, NotADirectoryError):
                return False

    def list(self, folder: str, *, start_after: str | None, recursive: bool) -> Iterator[tuple[str, int, int]]:
        """(name relative to the folder, size, modified_ms) in the order of the names' code points.

        Names that are not UTF-8 are left out: no location can say them.
        """
        with _told("list", folder):
            yield from _walk(folder, "", start_after, recursive, ())

    def probe(self, folder: str, names: Sequence[str]) -> tuple[tuple[tuple[str, int, int], ...], int] | None:
        """(name, size, modified_ms) of those files that are in a folder, asked for in this order, and when the folder
        changed in milliseconds since 1970; None when it is absent.

        A name that is not there costs a microsecond: much less than an entry of a listing that it spares.
        """
        found = []
        with _told("list", folder):
            try:
                handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            except FileNotFoundError:
                return None
            try:
                for name in names:
                    if not os.access(name, os.F_OK, dir_fd=handle):
                        continue
                    with suppress(FileNotFoundError):
                        there = os.stat(name, dir_fd=handle)
                        if stat.S_ISREG(there.st_mode):
                            found.append((name, there.st_size, there.st_mtime_ns // 1_000_000))
                changed = os.fstat(handle).st_mtime_ns // 1_000_000
            finally:
                os.close(handle)
        return tuple(found), changed

    def present(self, folder: str, names: Sequence[str]) -> tuple[bool, ...]:
        """Whether a regular file of each name stands in a folder; none does in one that is not there."""
        with _told("list", folder):
            try:
                handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            except (FileNotFoundError, NotADirectoryError):
                return (False,) * len(names)
            try:
                return tuple(_is_regular(name, handle) for name in names)
            finally:
                os.close(handle)

    def open(self, path: str) -> pa.NativeFile:
        with _told("read", path):
            _require_file("read", path)
            return pa.OSFile(path, "rb")

    @contextmanager
    def create(self, path: str, *, durable: bool = False) -> Iterator[pa.NativeFile]:
        staged = self._stage(path)
        try:
            with _told("write", path):
                sink = pa.OSFile(staged, "wb")
            with _told("write", path):
                with sink:
                    yield sink
                if durable:
                    sync_file(staged)
                os.replace(staged, path)
                self._sync.add_file(path)
        except BaseException:
            _discard(staged)
            raise

    def put(self, path: str, data: bytes) -> None:
        staged = self._stage(path)
        try:
            with _told("write", path):
                self._sync.flush()
                _write(staged, data)
                os.replace(staged, path)
                self._sync.add_folder(os.path.dirname(path))
        except BaseException:
            _discard(staged)
            raise

    def put_if_absent(self, path: str, data: bytes | Iterable[Chunk]) -> None:
        staged = self._stage(path)
        try:
            with _told("write", path):
                if os.path.lexists(path):
                    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
                self._sync.flush()
                _write(staged, data)
                try:
                    os.link(staged, path)
                except OSError as error:
                    if error.errno in _NO_HARD_LINKS:
                        raise _no_hard_links(path) from error
                    raise
            try:
                sync_folder(os.path.dirname(path))
            except OSError as error:
                raise NotDurable(
                    f"Cannot put {path} on disk: {error.strerror or error}; it may be lost when the machine stops",
                    path=path,
                ) from error
        finally:
            _discard(staged)

    def delete(self, path: str) -> None:
        with _told("delete", path), suppress(FileNotFoundError, NotADirectoryError):
            os.unlink(path)

    def create_folders(self, path: str) -> tuple[str, ...]:
        """Make the folders above a path; those that were not there, outermost first."""
        missing = []
        folder = os.path.dirname(path)
        with _told("write", path):
            while not os.path.isdir(folder):
                missing.append(folder)
                folder = os.path.dirname(folder)
            for each in reversed(missing):
                os.makedirs(each, exist_ok=True)
                self._sync.add_folder(os.path.dirname(each))
        return tuple(reversed(missing))

    def delete_folder(self, path: str) -> None:
        """Delete an empty folder; any other is left."""
        try:
            with _told("delete", path):
                os.rmdir(path)
        except NotFound:
            return
        except StorageError:
            if os.path.isdir(path) and os.listdir(path):
                return
            raise

    def delete_unfinished(self, path: str) -> None:
        """Delete all staged files of a folder, of every process."""
        for name in self._staged(path):
            _discard(os.path.join(path, name))

    def delete_abandoned(self, path: str) -> None:
        """Delete the staged files whose processes have died; where that cannot be determined, those untouched for a
        day.
        """
        for name in self._staged(path):
            staged = _STAGED.fullmatch(name)
            if staged is not None and _is_abandoned(os.path.join(path, name), staged["mark"]):
                _discard(os.path.join(path, name))

    def _staged(self, path: str) -> tuple[str, ...]:
        with _told("list", path):
            names = os.listdir(path) if os.path.isdir(path) else []
        return tuple(name for name in names if name.startswith(_STAGED_PREFIX) and name.endswith(_STAGED_SUFFIX))

    def _stage(self, path: str) -> str:
        if not os.path.basename(path):
            raise StorageError(f"Cannot write {path!r}: it names a folder (expected a file)", path=path)
        self.create_folders(path)
        folder = os.path.dirname(path)
        return os.path.join(folder, f"{_STAGED_PREFIX}{process_mark()}-{uuid.uuid4().hex}{_STAGED_SUFFIX}")


def _walk(
    folder: str, prefix: str, start_after: str | None, recursive: bool, parents: tuple[tuple[int, int], ...]
) -> Iterator[tuple[str, int, int]]:
    try:
        here = os.stat(folder)
        with os.scandir(folder) as scan:
            if start_after is None or recursive:
                entries = list(scan)
            else:  # a long log must not cost more than its end
                entries = [entry for entry in scan if entry.name > start_after]
    except FileNotFoundError:
        return
    identity = (here.st_dev, here.st_ino)
    if identity in parents:
        raise StorageError(f"Cannot list {folder}: a symbolic link leads back to a folder above it", path=folder)
    keyed = []
    for entry in entries:
        name = entry.name
        if not name.isprintable() and not _is_utf8(name):
            continue
        if name.startswith(_STAGED_PREFIX) and name.endswith(_STAGED_SUFFIX):
            continue
        is_folder = entry.is_dir()
        if not is_folder or recursive:
            keyed.append((prefix + name + "/" * is_folder, entry))
    keyed.sort(key=lambda item: item[0])
    for name, entry in keyed:
        if name.endswith("/"):
            if start_after is None or name > start_after or start_after.startswith(name):
                yield from _walk(entry.path, name, start_after, recursive, (*parents, identity))
        elif start_after is None or name > start_after:
            try:
                found = entry.stat()
            except FileNotFoundError:
                continue
            if stat.S_ISREG(found.st_mode):
                yield name, found.st_size, found.st_mtime_ns // 1_000_000


def _is_utf8(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_regular(name: str, folder: int) -> bool:
    try:
        return stat.S_ISREG(os.stat(name, dir_fd=folder).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False


def _require_file(verb: str, path: str) -> os.stat_result:
    found = os.stat(path)
    if not stat.S_ISREG(found.st_mode):
        kind = "a folder" if stat.S_ISDIR(found.st_mode) else "not a regular file"
        raise StorageError(f"Cannot {verb} {path}: it is {kind} (expected a file)", path=path)
    return found


def _write(path: str, data: bytes | Iterable[Chunk]) -> None:
    with open(path, "xb") as file:
        if isinstance(data, bytes):
            file.write(data)
        else:
            file.writelines(data)
        file.flush()
        sync_handle(file.fileno())


def _is_abandoned(staged: str, mark: str | None) -> bool:
    dead = None if mark is None else is_dead(mark)
    if dead is not None:
        return dead
    try:
        return time.time() - os.stat(staged).st_mtime > _LONG_AGO_S
    except OSError:
        return False


def _discard(staged: str) -> None:
    with suppress(OSError):
        os.unlink(staged)


def _outside(path: str, start: int, length: int, size: int) -> StorageError:
    return StorageError(
        f"Cannot read {length} bytes from byte {start} of {path}: the file has {size} bytes; it is truncated or the "
        "metadata points outside it",
        path=path,
    )


_NO_HARD_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK, errno.EXDEV}


@contextmanager
def _told(verb: str, path: str) -> Iterator[None]:
    """Translate an error of the operating system."""
    try:
        yield
    except (FileNotFoundError, NotADirectoryError) as error:
        if verb == "list":
            raise StorageError(f"Cannot list {path}: it is not a folder", path=path) from error
        if verb == "write" and isinstance(error, NotADirectoryError):
            raise _not_a_folder(path) from error
        raise NotFound(f"Cannot {verb} {path}: no such file", path=path) from error
    except FileExistsError as error:
        if os.path.lexists(path):
            raise AlreadyExists(f"Cannot {verb} {path}: the file exists already", path=path) from error
        raise _not_a_folder(path) from error
    except PermissionError as error:
        raise PermissionDenied(f"Cannot {verb} {path}: permission denied", path=path) from error
    except OSError as error:
        raise StorageError(f"Cannot {verb} {path}: {error.strerror or error}", path=path) from error


def _not_a_folder(path: str) -> StorageError:
    return StorageError(f"Cannot write {path}: a file stands where its folder should be", path=path)


def _no_hard_links(path: str) -> StorageError:
    return StorageError(
        f"Cannot write {path} atomically: its file system has no hard links, which a safe commit needs; "
        "use another file system or an object store",
        path=path,
    )
