"""Putting ``N.json`` into the log exactly once (PROTOCOL "Creation of New Log Entries")."""

from __future__ import annotations

from enum import Enum

from deltaberg.delta.errors import DeltaCommitStateUnknown
from deltaberg.storage.errors import AlreadyExists, NotFound, PermissionDenied, StorageError
from deltaberg.storage.protocol import Storage


class PutOutcome(Enum):
    """COMMITTED: the version is ours. TAKEN: another writer has it."""

    COMMITTED = "committed"
    TAKEN = "taken"


def put_commit(storage: Storage, location: str, content: bytes) -> PutOutcome:
    """Write a commit file unless it exists.

    A store may report failure, or its own retried request as a collision, after the file was written; the file itself
    is asked then. Its first line is the ``commitInfo`` with a transaction id that nobody else has.

    Raises PermissionDenied where nothing was written, and DeltaCommitStateUnknown where that cannot be told.
    """
    try:
        storage.put_if_absent(location, content)
    except AlreadyExists:
        return PutOutcome.COMMITTED if _is_ours(storage, location, content) else PutOutcome.TAKEN
    except PermissionDenied:
        raise
    except StorageError as error:
        return _after_failure(storage, location, content, error)
    return PutOutcome.COMMITTED


def _after_failure(storage: Storage, location: str, content: bytes, failure: StorageError) -> PutOutcome:
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


def _is_ours(storage: Storage, location: str, content: bytes) -> bool:
    if storage.head(location).size != len(content):
        return False
    first_line = content[: content.index(b"\n") + 1]
    return storage.get_range(location, 0, len(first_line)) == first_line
