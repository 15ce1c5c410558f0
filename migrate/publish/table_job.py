"""One table's turn: look whether its source has moved on, and if so bring its target up to date under a lease."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, Literal

from deltaberg.errors import DeltabergError, error_context
from deltaberg.migrate.publish.config import PublishedTable
from deltaberg.migrate.publish.head import Look, look_at
from deltaberg.migrate.publish.lease import Lease
from deltaberg.migrate.refusal import Refused
from deltaberg.migrate.source import Source, open_source
from deltaberg.migrate.sync import SyncResult, sync
from deltaberg.migrate.target.target_root import target_root
from deltaberg.redaction import redacted
from deltaberg.storage import Storage, open_storage

State = Literal["unchanged", "current", "synced", "created", "held", "failed"]
GOOD: Final = frozenset({"unchanged", "current", "synced", "created"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why a table's turn failed. code: of the plan where the plan refuses, the error's own kind where it has one, else its class."""

    type: str
    code: str
    message: str
    exit_code: int

    @staticmethod
    def of(error: BaseException) -> Failure:
        kind = type(error).__name__
        if not isinstance(error, DeltabergError):
            text = " ".join(f"{kind}: {error}".split())
            return Failure(type=kind, code="defect", message=redacted(f"a defect in deltaberg: {text}"), exit_code=1)
        code = kind
        if isinstance(error, Refused):
            code = next((item.code for item in error.plan.items if item.severity == "refuse"), kind)
        elif isinstance(said := getattr(error, "kind", None), Enum):
            code = str(said.value)
        return Failure(type=kind, code=code, message=redacted(str(error)), exit_code=error.exit_code)

    def to_json(self) -> dict[str, Any]:
        return {"type": self.type, "code": self.code, "message": self.message, "exit_code": self.exit_code}


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnOutcome:
    """What came of one turn.

    state: ``unchanged`` (the source shows nothing new), ``current`` (the target has it all), ``synced``, ``created``,
    ``held`` (another publisher has the lease: owner) or ``failed``. commits: of the source and the target, oldest first.
    lag_commits: how many source commits were new when the turn began, where that is known.
    """

    name: str
    state: State
    source: str
    to: str
    target: str | None = None
    before: int | None = None
    position: int | None = None
    commits: tuple[tuple[int, int], ...] = ()
    seconds: float = 0.0
    lag_commits: int | None = None
    moved_ms: int | None = None
    owner: str | None = None
    failure: Failure | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "state": self.state,
            "source": self.source,
            "to": self.to,
            "target": self.target,
            "before": self.before,
            "position": self.position,
            "commits": [{"source": source, "target": target} for source, target in self.commits],
            "seconds": round(self.seconds, 3),
            **({"owner": self.owner} if self.owner is not None else {}),
            **({"error": self.failure.to_json()} if self.failure is not None else {}),
        }


def opened(table: PublishedTable, storage: Storage) -> Source:
    """The newest state of a table that is to be published."""
    return open_source(
        table.source,
        storage,
        ref=table.ref,
        format=table.to.other,
        allow_locations=table.allow_locations,
        beside=() if table.target is None else (table.target,),
    )


@dataclass(slots=True, kw_only=True)
class TableJob:
    """A table with what is kept of it between its turns. One thread at a time takes a turn.

    synced: how the source looked before the last sync that succeeded, at ``checked`` by ``monotonic``. latest: how it looked
    last. behind_since_ms: when the source committed the first of what the target lacks, as far as looks have shown.
    """

    table: PublishedTable
    lease_s: float
    recheck_s: float
    monotonic: Callable[[], float]
    wall_ms: Callable[[], int]
    storage: Storage = field(init=False)
    synced: Look | None = None
    latest: Look | None = None
    checked: float = 0.0
    position: int | None = None
    behind_since_ms: int | None = None
    _lease: Lease | None = None

    def __post_init__(self) -> None:
        self.storage = open_storage(relocate=self.table.relocate, options=self.table.storage_options)

    def turn(self) -> TurnOutcome:
        """Raises what looking, opening and ``sync`` raise."""
        begun = self.monotonic()
        with error_context(table=self.table.source):
            look = look_at(self.storage, self.table.source, self.table.to.other, earlier=self.synced)
            self.latest = look
            if look == self.synced and begun - self.checked < self.recheck_s:
                return self._outcome("unchanged", begun, lag_commits=0)
            if self.behind_since_ms is None and look.files:
                # What was committed before the first look may be in the target: it is not known yet.
                self.behind_since_ms = self.wall_ms() if self.synced is None else look.moved_ms
            source = opened(self.table, self.storage)
            root = target_root(source, self.table.target)
            lease = self._lease or Lease(
                self.storage, root, self.table.to, term_s=self.lease_s, monotonic=self.monotonic
            )
            self._lease = lease
            other = lease.take()
            if other is not None:
                return self._outcome("held", begun, target=root, owner=other.owner)
            done = self._synced(source, lease)
            lag = None if self.synced is None else look.commits_since(self.synced)
            self.synced, self.checked, self.position = look, begun, done.watermark
            self.behind_since_ms = None
        return self._outcome(
            "created" if done.created else "synced" if done.commits else "current",
            begun,
            target=done.target,
            before=done.before,
            commits=done.commits,
            lag_commits=len(done.commits) if lag is None else lag,
            moved_ms=look.moved_ms,
        )

    @property
    def lag_commits(self) -> int | None:
        """How many commits the source was ahead at the last look; None where that was never known."""
        if self.synced is None or self.latest is None:
            return None
        return self.latest.commits_since(self.synced)

    def lag_seconds(self, now_ms: int) -> float | None:
        """How long the target has lacked something; None where it was never known."""
        if self.behind_since_ms is not None:
            return max(0.0, (now_ms - self.behind_since_ms) / 1000)
        return None if self.synced is None else 0.0

    def _synced(self, source: Source, lease: Lease) -> SyncResult:
        """Leaves what came of it in the lease's file, where ``status`` finds it."""
        said: Mapping[str, Any] = {}
        try:
            with lease.kept():
                done = sync(
                    source,
                    to=self.table.to,
                    target=self.table.target,
                    options=self.table.options,
                    squash=self.table.squash,
                )
            said = {"state": "synced" if done.commits else "current", "position": done.watermark}
            return done
        except DeltabergError as error:
            said = {"state": "failed", "error": Failure.of(error).to_json()}
            raise
        finally:
            lease.end({**said, "at_ms": self.wall_ms()} if said else None)

    def _outcome(self, state: State, begun: float, **more: Any) -> TurnOutcome:
        return TurnOutcome(
            name=self.table.name,
            state=state,
            source=self.table.source,
            to=self.table.to.value,
            position=self.position,
            seconds=self.monotonic() - begun,
            **more,
        )
