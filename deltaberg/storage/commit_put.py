"""The one put that makes a commit visible: sent once, and checked by a read where its answer is not clear.

A commit has three outcomes: it stands, it certainly does not, or the outcome is unknown. ``CommitIntent`` is noted
before the request; from then on nothing that the commit refers to may be deleted until ``put_commit`` knows that it
does not stand.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from enum import Enum
from typing import Protocol

from deltaberg.errors import CommitStateUnknown
from deltaberg.storage.errors import AlreadyExists, NotDurable, NotFound, NotSent, PermissionDenied, StorageError
from deltaberg.storage.protocol import Chunk, Storage


class PutContent(Protocol):
    """The content of a put: bytes that no other writer puts there, so that finding them proves whose they are."""

    @property
    def is_whole(self) -> bool:
        """Whether all of it was taken: before that, nothing has been sent."""
        ...

    def data(self) -> bytes | Iterator[Chunk]:
        """The content in the form that ``Storage.put_if_absent`` takes."""
        ...

    def stands_at(self, storage: Storage, location: str) -> bool:
        """Whether the file that is there is this content. Raises NotFound where none is."""
        ...


class WholeContent:
    """Content that is held in memory and compared byte for byte."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self.is_whole = True

    def data(self) -> bytes:
        return self._content

    def stands_at(self, storage: Storage, location: str) -> bool:
        return storage.head(location).size == len(self._content) and storage.get(location) == self._content


class CommitIntent:
    """Whether a commit may stand, for the transaction and for the storage that would take its files back.

    storage: told of it; None for a file that makes nothing visible.
    """

    def __init__(self, storage: Storage | None) -> None:
        self._storage = storage
        self.may_stand = False
        self.is_known = True

    @property
    def stands(self) -> bool:
        """Whether the commit certainly does not stand."""
        return self.may_stand and self.is_known

    def sent(self, location: str) -> None:
        """Note that the request is about to be sent."""
        self.may_stand, self.is_known = True, False
        if self._storage is not None:
            self._storage.commit_begins(location)

    def ended(self, location: str, *, stands: bool) -> None:
        """Note that the outcome is known."""
        if self._storage is not None:
            self._storage.commit_ends(location, stands=stands)
        self.may_stand, self.is_known = stands, True


class PutOutcome(Enum):
    """COMMITTED: the file is ours. TAKEN: another writer has it. ABSENT: nothing was written."""

    COMMITTED = "committed"
    TAKEN = "taken"
    ABSENT = "absent"


def put_commit(storage: Storage, location: str, content: PutContent, intent: CommitIntent) -> PutOutcome:
    """Write the file that makes a commit visible unless it exists; COMMITTED or TAKEN.

    A store may report failure, or its own repeated request as a collision, after the file was written; an interrupt may
    arrive before the answer. Then the file itself is read, once.

    Raises CommitStateUnknown where the outcome cannot be learnt, and StorageError where nothing was written. An interrupt
    is raised as it is, and ``intent`` says whether the commit may stand.
    """
    intent.sent(location)
    outcome = PutOutcome.COMMITTED
    try:
        storage.put_if_absent(location, content.data())
    except (StorageError, MemoryError) as error:
        outcome = _learnt(storage, location, content, error)
        _note(intent, location, outcome)
        if outcome is PutOutcome.ABSENT:
            raise
    except BaseException as error:
        # The intent stays as it is where this question fails, too.
        with suppress(CommitStateUnknown):
            _note(intent, location, _learnt(storage, location, content, error))
        raise
    else:
        _note(intent, location, outcome)
    return outcome


def _note(intent: CommitIntent, location: str, outcome: PutOutcome) -> None:
    intent.ended(location, stands=outcome is PutOutcome.COMMITTED)


def _learnt(storage: Storage, location: str, content: PutContent, failure: BaseException) -> PutOutcome:
    """The outcome of a request that failed. Raises CommitStateUnknown."""
    collided = isinstance(failure, AlreadyExists)
    if isinstance(failure, NotSent):
        return PutOutcome.ABSENT
    if not content.is_whole:
        return PutOutcome.TAKEN if collided else PutOutcome.ABSENT
    if isinstance(failure, NotDurable):
        raise _unknown(location, "the file is there and may be lost when the machine stops", failure) from failure
    try:
        return PutOutcome.COMMITTED if content.stands_at(storage, location) else PutOutcome.TAKEN
    except NotFound:
        if collided:
            return PutOutcome.TAKEN  # and rolled back since: ours would be there
        if isinstance(failure, PermissionDenied) or storage.resolve(location).startswith("/"):
            return PutOutcome.ABSENT
        # The request may still be on its way, so that the file is not there says nothing.
        reason = "the store failed and shows no such file yet"
    except StorageError as error:
        if isinstance(failure, PermissionDenied):
            return PutOutcome.ABSENT
        reason = f"the store failed and cannot be asked ({error.message})"
    raise _unknown(location, reason, failure) from failure


def _unknown(location: str, reason: str, failure: BaseException) -> CommitStateUnknown:
    said = failure.message if isinstance(failure, StorageError) else str(failure) or type(failure).__name__
    return CommitStateUnknown(
        f"Cannot tell whether the commit of {location} took place: {reason}: {said}; look whether the file is there "
        "before you repeat it, and delete nothing",
        path=location,
    )
