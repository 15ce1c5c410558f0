"""How a target stands to its source: how far each has come, and what lies between. Nothing is written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from deltaberg.delta.log.log_path import commit_name
from deltaberg.errors import DeltabergError, error_context
from deltaberg.iceberg.metadata.snapshot import Snapshot
from deltaberg.migrate.plan import plan
from deltaberg.migrate.publish.config import PublishedTable
from deltaberg.migrate.publish.lease import LeaseDocument, read_lease
from deltaberg.migrate.publish.table_job import Failure, opened
from deltaberg.migrate.source import DeltaSource, IcebergSource, Source
from deltaberg.migrate.target.existing_target import ExistingTarget, existing_target
from deltaberg.migrate.target.target_root import target_root
from deltaberg.migrate.target.watermark import Watermark, watermark_of
from deltaberg.storage import NotFound, open_storage

Stands = Literal["current", "behind", "absent", "drifted", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableStanding:
    """One table, as ``status`` shows it.

    head: the source's version or snapshot id; watermark: the one that the target holds. lag_commits: source commits that the
    target lacks; lag_seconds: the age of the oldest of them; None where that is not known. worker: who has the table's lease.
    error: why it cannot be said, or why the last sync failed where that is still so.
    """

    name: str
    source: str
    to: str
    target: str | None
    state: Stands
    head: int | None = None
    watermark: int | None = None
    lag_commits: int | None = None
    lag_seconds: float | None = None
    worker: str | None = None
    last: Mapping[str, Any] | None = None
    error: Failure | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "source": self.source,
            "to": self.to,
            "target": self.target,
            "state": self.state,
            "head": self.head,
            "watermark": self.watermark,
            "lag_commits": self.lag_commits,
            "lag_seconds": None if self.lag_seconds is None else round(self.lag_seconds, 3),
            "worker": self.worker,
            "last": None if self.last is None else dict(self.last),
            "error": None if self.error is None else self.error.to_json(),
        }


def standing_of(table: PublishedTable, *, now_ms: int) -> TableStanding:
    """Where a table stands; one that cannot be read says so, and nothing is raised."""
    try:
        with error_context(table=table.source):
            return _standing(table, now_ms)
    except DeltabergError as error:
        return _failed(table, error)


def validated(table: PublishedTable, *, now_ms: int) -> TableStanding:
    """The same after planning: a table whose target is not there yet is ``failed`` where its conversion would be refused."""
    stands = standing_of(table, now_ms=now_ms)
    if stands.state != "absent":
        return stands
    try:
        with error_context(table=table.source):
            source = opened(table, open_storage(relocate=table.relocate, options=table.storage_options))
            made = plan(source, to=table.to, target=table.target, options=table.options)
    except DeltabergError as error:
        return _failed(table, error)
    refused = next((item for item in made.items if item.severity == "refuse"), None)
    if refused is None:
        return stands
    error_of = Failure(
        type="Refused",
        code=refused.code,
        message=f"Cannot convert {table.source}: {refused.what}: {refused.reason}",
        exit_code=3,
    )
    return TableStanding(
        name=table.name,
        source=table.source,
        to=table.to.value,
        target=stands.target,
        state="failed",
        head=stands.head,
        error=error_of,
    )


def _failed(table: PublishedTable, error: DeltabergError) -> TableStanding:
    return TableStanding(
        name=table.name,
        source=table.source,
        to=table.to.value,
        target=table.target,
        state="failed",
        error=Failure.of(error),
    )


def _standing(table: PublishedTable, now_ms: int) -> TableStanding:
    storage = open_storage(relocate=table.relocate, options=table.storage_options)
    source = opened(table, storage)
    root = target_root(source, table.target)
    held = existing_target(storage, root, table.to)
    lease = read_lease(storage, root, table.to)
    head = watermark_of(source)
    state = _state(held, head)
    commits, since_ms = (0, None) if state == "current" else _lag(source, None if held is None else held.watermark)
    return TableStanding(
        name=table.name,
        source=table.source,
        to=table.to.value,
        target=root,
        state=state,
        head=head.version,
        watermark=None if held is None or held.watermark is None else held.watermark.version,
        lag_commits=commits,
        lag_seconds=0.0 if state == "current" else None if since_ms is None else max(0.0, (now_ms - since_ms) / 1000),
        worker=lease.owner if lease is not None and lease.is_held else None,
        last=None if lease is None else lease.outcome,
        error=_last_error(lease),
    )


def _state(held: ExistingTarget | None, head: Watermark) -> Stands:
    if held is None:
        return "absent"
    mark = held.watermark
    if mark is None or mark.app_id != head.app_id or not (held.untouched or held.only_commit_info):
        return "drifted"
    return "current" if mark.is_same_state(head) else "behind"


def _last_error(lease: LeaseDocument | None) -> Failure | None:
    """Of the last sync, where no later one succeeded; what is not as it is written here is left out."""
    error = None if lease is None or lease.outcome is None else lease.outcome.get("error")
    if not isinstance(error, dict):
        return None
    return Failure(
        type=str(error.get("type")),
        code=str(error.get("code")),
        message=str(error.get("message")),
        exit_code=error["exit_code"] if isinstance(error.get("exit_code"), int) else 1,
    )


def _lag(source: Source, mark: Watermark | None) -> tuple[int | None, int | None]:
    """How many commits come after a watermark, and when the first of them was committed, in milliseconds."""
    if isinstance(source, DeltaSource):
        return _delta_lag(source, mark)
    return _iceberg_lag(source, mark)


def _delta_lag(source: DeltaSource, mark: Watermark | None) -> tuple[int | None, int | None]:
    newest = source.snapshot.version
    first = 0 if mark is None else (mark.version or 0) + 1
    if mark is not None and mark.version is None:
        return None, None
    if first > newest:
        return None, None
    try:
        return newest - first + 1, source.storage.head(f"{source.table.log_folder}/{commit_name(first)}").modified_ms
    except NotFound:
        return newest - first + 1, None


def _iceberg_lag(source: IcebergSource, mark: Watermark | None) -> tuple[int | None, int | None]:
    if source.snapshot is None:
        return None, None
    new: list[Snapshot] = []
    for each in source.table.metadata.ancestors(source.snapshot.snapshot_id):
        if mark is not None and each.snapshot_id == mark.version:
            break
        new.append(each)
    else:
        if mark is not None and mark.version is not None:
            return None, None  # the watermark is no ancestor of the head
    return len(new), new[-1].timestamp_ms if new else None
