"""Who works on a target: a lease beside it, in the store that holds it, so that publishers share tables without a service.

``_deltaberg/lease-<format>-<N>.json`` of the highest N says who. To take a lease is to put N + 1 where there is none, so of several
that try one succeeds; the holder puts its own file again and again, which the store dates. Nobody's clock is compared with
another's: how old a lease is, is the difference of two times of the store (a file that is put now, and the lease's), or what
has passed on the monotonic clock of the one who waits while the lease stayed as it was.

Of a term T, the holder counts on its lease for T/2 since it *began* to renew it, by its monotonic clock, and renews each T/6;
others take a lease over that has not been renewed for 3T/4. So a paused holder has stopped counting on its lease before anyone takes it over, and
that of a dead one passes on within T. Where it can be seen that the holder's process has died, it passes on at once.

Highest numbers are never deleted: a lease that ends says so in its file. Should two work at once all the same, the commits
decide, each put only if it is absent: the lease spares work, it is not what makes a sync safe.
"""

from __future__ import annotations

import json
import re
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final

from deltaberg.migrate.source import TableFormat
from deltaberg.migrate.target.locations import join
from deltaberg.migrate.to_delta.entries import HIDDEN_FOLDER
from deltaberg.storage import AlreadyExists, FileInfo, NotFound, Storage, StorageError, is_dead, process_mark

_NAME: Final = re.compile(r"lease-(?P<format>[a-z]+)-(?P<number>[0-9]{1,18})\.json")
_LARGEST: Final = 1 << 16
_HELD: Final = "held"
_ENDED: Final = "ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseDocument:
    """What the newest lease of a target says. outcome: of the last work, as its holder described it."""

    number: int
    owner: str
    process: str
    state: str
    term_s: float
    outcome: Mapping[str, Any] | None
    modified_ms: int

    @property
    def is_held(self) -> bool:
        return self.state == _HELD


def read_lease(storage: Storage, root: str, format: TableFormat) -> LeaseDocument | None:
    """The newest lease beside a target; None where there is none. One listing and one GET."""
    for _ in range(3):
        found = lease_files(storage, root, format)
        if not found:
            return None
        number, file = found[-1]
        try:
            return _parsed(storage.get(file.location), number, file)
        except NotFound:
            continue  # a newer one took its place
    return None


def lease_files(storage: Storage, root: str, format: TableFormat) -> list[tuple[int, FileInfo]]:
    """Their numbers and files, the newest last; there is one but while a lease passes on."""
    found = []
    first = f"lease-{format.value}-"
    for file in storage.list(join(root, HIDDEN_FOLDER), start_after=first):
        name = file.location.rpartition("/")[2]
        if not name.startswith(first):
            break
        match = _NAME.fullmatch(name)
        if match is not None and file.size <= _LARGEST:
            found.append((int(match["number"]), file))
    return sorted(found, key=lambda each: each[0])


def _parsed(data: bytes, number: int, file: FileInfo) -> LeaseDocument:
    """A file that is not what is written here is a lease of somebody unknown, which ends as any other does."""
    try:
        value = json.loads(data)
        outcome = value.get("outcome")
        return LeaseDocument(
            number=number,
            owner=str(value["owner"]),
            process=str(value["process"]),
            state=_ENDED if value["state"] == _ENDED else _HELD,
            term_s=min(max(float(value["term_s"]), 0.0), 86_400.0),
            outcome=outcome if isinstance(outcome, dict) else None,
            modified_ms=file.modified_ms,
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return LeaseDocument(
            number=number, owner="", process="", state=_HELD, term_s=60.0, outcome=None, modified_ms=file.modified_ms
        )


class Lease:
    """The wish for one target's lease, kept as long as the publisher lives: what was seen of others counts the next time.

    monotonic, mark: the clock and process of the holder; tests replace them.
    """

    def __init__(
        self,
        storage: Storage,
        root: str,
        format: TableFormat,
        *,
        term_s: float,
        monotonic: Callable[[], float] = time.monotonic,
        mark: str | None = None,
    ) -> None:
        self._storage, self._root, self._format, self._term_s = storage, root, format, term_s
        self._monotonic = monotonic
        self._process = process_mark() if mark is None else mark
        self._owner = f"{self._process}-{uuid.uuid4().hex[:8]}"
        self._number: int | None = None
        self._counts_until = 0.0
        self._seen: tuple[int, int, float] | None = None
        self._writing = threading.Lock()

    @property
    def is_held(self) -> bool:
        """Whether the holder may count on it at this moment."""
        return self._number is not None and self._monotonic() < self._counts_until

    @property
    def owner(self) -> str:
        return self._owner

    def take(self) -> LeaseDocument | None:
        """Take the lease; None when it is held now, else the lease of the one who has it."""
        newest = read_lease(self._storage, self._root, self._format)
        if newest is not None and newest.is_held and not self._has_ended(newest):
            return newest
        number = 1 if newest is None else newest.number + 1
        begun = self._monotonic()
        try:
            self._storage.put_if_absent(self._location(number), self._content(_HELD, None))
        except AlreadyExists:
            return read_lease(self._storage, self._root, self._format)
        found = lease_files(self._storage, self._root, self._format)
        if found and found[-1][0] > number:
            # What was read as the newest was long gone: others went on behind it.
            self._storage.delete(self._location(number))
            return read_lease(self._storage, self._root, self._format)
        for older, file in found:
            if older < number:
                with suppress(StorageError):
                    self._storage.delete(file.location)
        self._number, self._counts_until = number, begun + self._term_s / 2
        return None

    def renew(self) -> bool:
        """Keep the lease; False when it is lost. One that was not renewed in time is lost, whoever has it now."""
        with self._writing:
            if not self.is_held or self._number is None:
                return False
            begun, until = self._monotonic(), self._counts_until
            self._storage.put(self._location(self._number), self._content(_HELD, None))
            found = lease_files(self._storage, self._root, self._format)
            if self._monotonic() >= until or not found or found[-1][0] != self._number:
                self._number = None
                return False
            self._counts_until = begun + self._term_s / 2
            return True

    def end(self, outcome: Mapping[str, Any] | None = None) -> None:
        """Let others have it, and leave the outcome of the work for them to see. Nothing where it is lost."""
        with self._writing:
            if self.is_held and self._number is not None:
                self._storage.put(self._location(self._number), self._content(_ENDED, outcome))
            self._number = None

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Meanwhile the lease, which was taken, is renewed."""
        done = threading.Event()

        def renew() -> None:
            while not done.wait(self._term_s / 6):
                try:
                    if not self.renew():
                        return
                except StorageError:
                    continue  # it counts until its time is over, and may be renewed until then

        keeper = threading.Thread(target=renew, name="deltaberg-lease", daemon=True)
        keeper.start()
        try:
            yield
        finally:
            done.set()
            keeper.join()

    def _has_ended(self, other: LeaseDocument) -> bool:
        """Whether somebody else's lease is over: its process is dead, or it was not renewed for three quarters of its term."""
        if is_dead(other.process):
            return True
        now, enough_s = self._monotonic(), other.term_s * 3 / 4
        seen = self._seen
        if seen is None or seen[:2] != (other.number, other.modified_ms):
            self._seen = seen = (other.number, other.modified_ms, now)
        return now - seen[2] >= enough_s or self._store_time_ms() - other.modified_ms >= enough_s * 1000

    def _store_time_ms(self) -> int:
        """What time it is in the store: a file that is put now says so."""
        location = join(self._root, HIDDEN_FOLDER, f"clock-{uuid.uuid4().hex}.json")
        self._storage.put(location, b"{}")
        try:
            return self._storage.head(location).modified_ms
        finally:
            self._storage.delete(location)

    def _location(self, number: int) -> str:
        return join(self._root, HIDDEN_FOLDER, f"lease-{self._format.value}-{number}.json")

    def _content(self, state: str, outcome: Mapping[str, Any] | None) -> bytes:
        content = {"owner": self._owner, "process": self._process, "state": state, "term_s": self._term_s}
        return json.dumps({**content, **({"outcome": outcome} if outcome else {})}).encode()
