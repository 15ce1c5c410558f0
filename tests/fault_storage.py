"""A storage that fails at one chosen operation in one chosen way.

``for storage in every_fault(mode): ...`` runs through all operations: each storage fails at the next one, and the loop
ends behind the first storage whose fault was not reached. docs/reliability.md tells what has to hold after each.
"""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from enum import Enum
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from deltaberg.errors import CommitStateUnknown, DeltabergError
from deltaberg.storage import AlreadyExists, FileInfo, PermissionDenied, Storage, StorageError, open_storage
from deltaberg.storage.protocol import Chunk, Probe

T = TypeVar("T")
READS = ("get", "get_range", "head", "exists", "present", "list", "probe", "open")
WRITES = ("put", "put_if_absent", "create")
CHANGES = (*WRITES, "delete", "create_folders", "delete_folder", "delete_unfinished", "delete_abandoned")


class Killed(BaseException):
    """The process is gone: nothing that it would have done happens any more."""


class When(Enum):
    """BEFORE: instead of the operation. MIDWAY: part of the content was taken. AFTER: it is done, the answer is not."""

    BEFORE = "before"
    MIDWAY = "midway"
    AFTER = "after"


class Mode(Enum):
    """(when, what is raised, whether every later operation of this storage fails too)."""

    ERROR_BEFORE = (When.BEFORE, StorageError, False)
    ERROR_MIDWAY = (When.MIDWAY, StorageError, False)
    LOST_ANSWER = (When.AFTER, StorageError, False)
    DENIED = (When.BEFORE, PermissionDenied, False)
    TAKEN_AFTER = (When.AFTER, AlreadyExists, False)
    INTERRUPT_BEFORE = (When.BEFORE, KeyboardInterrupt, False)
    INTERRUPT_MIDWAY = (When.MIDWAY, KeyboardInterrupt, False)
    INTERRUPT_AFTER = (When.AFTER, KeyboardInterrupt, False)
    MEMORY_BEFORE = (When.BEFORE, MemoryError, False)
    MEMORY_MIDWAY = (When.MIDWAY, MemoryError, False)
    MEMORY_AFTER = (When.AFTER, MemoryError, False)
    GONE_BEFORE = (When.BEFORE, StorageError, True)
    GONE_AFTER = (When.AFTER, StorageError, True)
    KILLED_BEFORE = (When.BEFORE, Killed, True)
    KILLED_MIDWAY = (When.MIDWAY, Killed, True)
    KILLED_AFTER = (When.AFTER, Killed, True)

    @property
    def when(self) -> When:
        return self.value[0]

    @property
    def raised(self) -> type[BaseException]:
        return self.value[1]

    @property
    def lasts(self) -> bool:
        """Whether the store is out of reach from the fault on."""
        return self.value[2]

    def reaches(self, operation: str) -> bool:
        """Whether an operation can fail in this mode; after a read is the same as before it."""
        if self is Mode.TAKEN_AFTER:
            return operation == "put_if_absent"
        if self.when is When.MIDWAY:
            return operation in WRITES
        return operation in CHANGES or (self.when is When.BEFORE and operation in READS)

    def error(self, operation: str, location: str) -> BaseException:
        text = f"{self.name} at {operation}"
        return self.raised(text, path=location) if issubclass(self.raised, StorageError) else self.raised(text)


class FaultStorage:
    """Passes everything on to ``real`` until operation number ``at``, counted from 0 among those that ``mode`` reaches
    and ``only`` says yes to (operation and location).

    trace: (operation, location) of all operations. fired: that of the one that failed. Satisfies ``Storage``.
    """

    def __init__(
        self,
        mode: Mode | None = None,
        at: int = 0,
        *,
        real: Storage | None = None,
        only: Callable[[str, str], bool] = lambda operation, location: True,
    ) -> None:
        self._real = open_storage() if real is None else real
        self._mode, self._left, self._only = mode, at, only
        self._lock = threading.Lock()
        self.trace: list[tuple[str, str]] = []
        self.fired: tuple[str, str] | None = None

    def _falls(self, operation: str, location: str) -> bool:
        """Note an operation; whether it is the one that fails."""
        mode = self._mode
        with self._lock:
            self.trace.append((operation, location))
            if mode is None:
                return False
            if self.fired is not None:
                if mode.lasts:
                    raise StorageError(f"{mode.name}: nothing answers any more", path=location)
                return False
            if not mode.reaches(operation) or not self._only(operation, location):
                return False
            self._left -= 1
            if self._left >= 0:
                return False
            self.fired = (operation, location)
            return True

    def _call(self, operation: str, location: str, call: Callable[[], T]) -> T:
        falls = self._falls(operation, location)
        mode = self._mode
        if falls and mode is not None and mode.when is When.BEFORE:
            raise mode.error(operation, location)
        result = call()
        if falls and mode is not None:
            raise mode.error(operation, location)
        return result

    def resolve(self, location: str) -> str:
        return self._real.resolve(location)

    def resolve_many(self, locations: pa.Array) -> pa.Array:
        return self._real.resolve_many(locations)

    def get(self, location: str) -> bytes:
        return self._call("get", location, lambda: self._real.get(location))

    def get_range(self, location: str, start: int, length: int) -> bytes:
        return self._call("get_range", location, lambda: self._real.get_range(location, start, length))

    def head(self, location: str) -> FileInfo:
        return self._call("head", location, lambda: self._real.head(location))

    def exists(self, location: str) -> bool:
        return self._call("exists", location, lambda: self._real.exists(location))

    def present(self, locations: pa.Array) -> npt.NDArray[np.bool_]:
        return self._call("present", "", lambda: self._real.present(locations))

    def list(self, folder: str, *, start_after: str | None = None, recursive: bool = False) -> Iterator[FileInfo]:
        yield from self._call(
            "list", folder, lambda: self._real.list(folder, start_after=start_after, recursive=recursive)
        )

    def probe(self, folder: str, names: Sequence[str]) -> Probe | None:
        return self._call("probe", folder, lambda: self._real.probe(folder, names))

    def open(self, location: str) -> pa.NativeFile:
        return self._call("open", location, lambda: self._real.open(location))

    def create(self, location: str, *, durable: bool = False) -> AbstractContextManager[pa.NativeFile]:
        return self._created(location, durable)

    @contextmanager
    def _created(self, location: str, durable: bool) -> Iterator[pa.NativeFile]:
        mode = self._mode if self._falls("create", location) else None
        if mode is not None and mode.when is When.BEFORE:
            raise mode.error("create", location)
        with self._real.create(location, durable=durable) as sink:
            yield sink
            if mode is not None and mode.when is When.MIDWAY:
                self._leave_unfinished(location)
                raise mode.error("create", location)
        if mode is not None:
            raise mode.error("create", location)

    def put(self, location: str, data: bytes) -> None:
        self._write("put", location, data, self._real.put)

    def put_if_absent(self, location: str, data: bytes | Iterable[Chunk]) -> None:
        self._write("put_if_absent", location, data, self._real.put_if_absent)

    def _write(self, operation: str, location: str, data: Any, write: Callable[[str, Any], None]) -> None:
        mode = self._mode if self._falls(operation, location) else None
        if mode is not None and mode.when is When.MIDWAY:
            if not isinstance(data, bytes):
                next(iter(data), None)
            self._leave_unfinished(location)
        if mode is not None and mode.when is not When.AFTER:
            raise mode.error(operation, location)
        write(location, data)
        if mode is not None:
            raise mode.error(operation, location)

    def _leave_unfinished(self, location: str) -> None:
        """What a process that dies while it writes leaves in a local folder."""
        place = self._real.resolve(location)
        if self._mode is Mode.KILLED_MIDWAY and place.startswith("/"):
            folder = os.path.dirname(place)
            os.makedirs(folder, exist_ok=True)
            with open(os.path.join(folder, f".deltaberg-{_dead_process()}-{uuid.uuid4().hex}.tmp"), "wb") as file:
                file.write(b"half")

    def commit_begins(self, location: str) -> None:
        self._real.commit_begins(location)

    def commit_ends(self, location: str, *, stands: bool) -> None:
        self._real.commit_ends(location, stands=stands)

    def delete(self, location: str) -> None:
        self._call("delete", location, lambda: self._real.delete(location))

    def create_folders(self, location: str) -> tuple[str, ...]:
        return self._call("create_folders", location, lambda: self._real.create_folders(location))

    def delete_folder(self, folder: str) -> None:
        self._call("delete_folder", folder, lambda: self._real.delete_folder(folder))

    def delete_unfinished(self, folder: str) -> None:
        self._call("delete_unfinished", folder, lambda: self._real.delete_unfinished(folder))

    def delete_abandoned(self, folder: str) -> None:
        self._call("delete_abandoned", folder, lambda: self._real.delete_abandoned(folder))


@functools.cache
def _dead_process() -> str:
    """The mark of a process that has ended."""
    code = "from deltaberg.storage import process_mark; print(process_mark())"
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.strip()


def every_fault(
    mode: Mode,
    *,
    real: Callable[[], Storage] = open_storage,
    only: Callable[[str, str], bool] = lambda operation, location: True,
) -> Iterator[FaultStorage]:
    """One storage for each operation, until a caller's work gets to its end without reaching the fault."""
    at = 0
    while True:
        storage = FaultStorage(mode, at, real=real(), only=only)
        yield storage
        if storage.fired is None:
            return
        at += 1


Work = Callable[[Storage, str], None]
State = Callable[[str], object]


def files_below(root: str) -> set[str]:
    """Files below a local folder."""
    return {os.path.relpath(os.path.join(folder, name), root) for folder, _, names in os.walk(root) for name in names}


def survive_every_fault(
    mode: Mode, folder: str, *, prepare: Callable[[str], None], work: Work, state: State, after: object
) -> int:
    """Let ``work`` fail at each of its operations, on a table that ``prepare`` makes; how often it did.

    state: what readers find, compared with what they found before and with ``after``. A failure that is said for certain
    leaves no file; whatever else happened, the table reads as before or as after, and where it reads as before, the work
    can be done again.
    """
    faults = 0
    for storage in every_fault(mode):
        root = os.path.join(folder, f"t{faults}")
        prepare(root)
        before, files = state(root), files_below(root)
        raised: BaseException | None = None
        try:
            work(storage, root)
        except (DeltabergError, KeyboardInterrupt, MemoryError, Killed) as error:
            raised = error
        found = state(root)
        told = f"{mode.name} at {storage.fired} raised {raised!r}: found {found!r}"
        assert found in (before, after), told
        if raised is None or storage.fired is None:
            assert raised is None, told
            assert found == after, told
        certain = isinstance(raised, DeltabergError) and not isinstance(raised, CommitStateUnknown)
        if certain:
            assert found == before, told
        if found == before and not mode.lasts:
            assert certain or not isinstance(raised, DeltabergError), told
            assert files_below(root) == files, told
        if found == before:
            work(open_storage(), root)
            assert state(root) == after, told
        faults += storage.fired is not None
    assert faults
    return faults
