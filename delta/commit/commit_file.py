"""Putting ``N.json`` into the log exactly once (PROTOCOL "Creation of New Log Entries")."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from deltaberg.delta.errors import DeltaCommitStateUnknown
from deltaberg.errors import CommitStateUnknown
from deltaberg.storage.commit_put import CommitIntent, PutOutcome, put_commit
from deltaberg.storage.protocol import Chunk, Storage

_SMALL = 16 << 20


class CommitContent:
    """The bytes of a commit file, made as they are asked for; those of a small commit at once.

    ``pieces``: the first one is the first line. Raises the errors of making the first ones.
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
        """The content as ``Storage.put_if_absent`` takes it; that of a large commit can be read once."""
        return b"".join(self._begun) if self.is_whole else self._all()

    def stands_at(self, storage: Storage, location: str) -> bool:
        """Whether a file is this commit: it is as long, and its first line is the ``commitInfo``, with a unique
        transaction id.
        """
        if storage.head(location).size != self.size:
            return False
        return storage.get_range(location, 0, len(self.first_line)) == self.first_line

    def _all(self) -> Iterator[Chunk]:
        yield from self._begun
        self._begun.clear()
        yield from self._counted()

    def _counted(self) -> Iterator[Chunk]:
        for piece in self._rest:
            self.size += len(piece)
            yield piece
        self.is_whole = True


def put_version(storage: Storage, location: str, content: CommitContent, intent: CommitIntent) -> PutOutcome:
    """``put_commit`` of a commit file. Raises like ``put_commit``, and DeltaCommitStateUnknown."""
    try:
        return put_commit(storage, location, content, intent)
    except CommitStateUnknown as error:
        raise DeltaCommitStateUnknown(error.message, path=error.path) from error
