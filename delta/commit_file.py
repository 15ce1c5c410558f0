"""Putting ``N.json`` into the log exactly once (PROTOCOL "Creation of New Log Entries")."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum

from deltaberg.delta.errors import DeltaCommitStateUnknown
from deltaberg.storage.errors import AlreadyExists, NotFound, PermissionDenied, StorageError
from deltaberg.storage.protocol import Chunk, Storage

_SMALL = 16 << 20


class CommitContent:
    """The bytes of a commit file, made as they are asked for; those of a small commit at once.

    ``pieces``: the first one is the first line. Raises what making the first ones raises.
    """

    def __init__(self, pieces: Iterable[Chunk]) -> None:
        self._rest = iter(pieces)
        self._begun: list[Chunk] = []
        self.size = 0
        self.is_whole = False
        for piece in self._counted():
            self._begun.append(piece)
            if self.size >= _SMALL:
                break
        self.first_line = bytes(self._begun[0])

    def data(self) -> bytes | Iterator[Chunk]:
        """What ``Storage.put_if_absent`` takes; of a large commit it can be had once."""
        return b"".join(self._begun) if self.is_whole else self._all()

    def _all(self) -> Iterator[Chunk]:
        yield from self._begun
        self._begun.clear()
        yield from self._counted()

    def _counted(self) -> Iterator[Chunk]:
        for piece in self._rest:
            self.size += len(piece)
            yield piece
        self.is_whole = True


class PutOutcome(Enum):
    """COMMITTED: the version is ours. TAKEN: another writer has it."""

    COMMITTED = "committed"
    TAKEN = "taken"


def put_commit(storage: Storage, location: str, content: CommitContent) -> PutOutcome:
    """Write a commit file unless it exists.

    A store may report failure, or its own retried request as a collision, after the file was written; the file itself
    is asked then. Its first line is the ``commitInfo`` with a transaction id that nobody else has.

    Raises PermissionDenied and, where the content was not taken to its end, any error where nothing was written, and
    DeltaCommitStateUnknown where that cannot be told.
    """
    try:
        storage.put_if_absent(location, content.data())
    except AlreadyExists:
        is_ours = content.is_whole and _is_ours(storage, location, content)
        return PutOutcome.COMMITTED if is_ours else PutOutcome.TAKEN
    except PermissionDenied:
        raise
    except StorageError as error:
        if not content.is_whole:
            raise
        return _after_failure(storage, location, content, error)
    return PutOutcome.COMMITTED


def _after_failure(storage: Storage, location: str, content: CommitContent, failure: StorageError) -> PutOutcome:
    try:
        ours = _is_ours(storage, location, content)
    except NotFound:
        # The request may still be on its way, so that the file is not there says nothing.
        reason = "the store failed and shows no such file yet"
    except StorageError as error:
        reason = f"the store failed and cannot be asked ({error.message})"
    else:
        return PutOutcome.COMMITTED if ours else PutOutcome.TAKEN
    raise DeltaCommitStateUnknown(
        f"Cannot tell whether the commit took place: {reason}: {failure.message}; look for {location} before you retry "
        "and delete nothing",
        path=location,
    ) from failure


def _is_ours(storage: Storage, location: str, content: CommitContent) -> bool:
    if storage.head(location).size != content.size:
        return False
    return storage.get_range(location, 0, len(content.first_line)) == content.first_line
