"""The versions or snapshots of a table, and the version map where deltaberg wrote it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from deltaberg.delta.log.actions import CommitInfo
from deltaberg.errors import UsageError
from deltaberg.migrate.source import DeltaSource, IcebergSource, Source
from deltaberg.migrate.target.watermark import SOURCE_VERSION_KEY, WATERMARK_KEY

# By Delta Spark, then by delta-rs; both have names of their own for the counts of a MERGE.
_ADDED_FILES: Final = (
    "numAddedFiles",
    "numTargetFilesAdded",
    "numRestoredFiles",
    "numFiles",
    "num_added_files",
    "num_target_files_added",
    "numFilesAdded",
    "numRestoredFile",
)
_REMOVED_FILES: Final = (
    "numRemovedFiles",
    "numTargetFilesRemoved",
    "num_removed_files",
    "num_target_files_removed",
    "numFilesRemoved",
    "numRemovedFile",
)
_ADDED_ROWS: Final = ("numOutputRows", "num_added_rows", "num_output_rows")


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryEntry:
    """One commit. ``other_version``: the commit of the other format that it was made from, where there is one.

    version: Delta version or Iceberg snapshot id; refs: branches and tags that point at it; current: the state
    that a reader gets by default.
    """

    version: int
    timestamp_ms: int
    operation: str
    current: bool = False
    parent: int | None = None
    refs: tuple[str, ...] = ()
    added_files: int | None = None
    removed_files: int | None = None
    added_rows: int | None = None
    other_version: int | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "version": self.version,
            "timestamp_ms": self.timestamp_ms,
            "operation": self.operation,
            "current": self.current,
            "parent": self.parent,
            "refs": list(self.refs),
            "added_files": self.added_files,
            "removed_files": self.removed_files,
            "added_rows": self.added_rows,
            "other_version": self.other_version,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryReport:
    """All commits that the metadata still lists, newest first."""

    format: str
    location: str
    entries: tuple[HistoryEntry, ...]

    def to_json(self) -> dict[str, Any]:
        return {
            "format": self.format,
            "location": self.location,
            "entries": [entry.to_json() for entry in self.entries],
        }


def history(source: Source, *, limit: int | None = None) -> HistoryReport:
    """The commits of the table, newest first; limit: their number at most. Raises like reading the metadata."""
    if limit is not None and limit < 1:
        raise UsageError(f"Cannot list {limit} commits: the limit is too small (expected 1 or more)")
    entries = _iceberg_entries(source) if isinstance(source, IcebergSource) else _delta_entries(source, limit)
    return HistoryReport(format=source.format.value, location=source.location, entries=tuple(islice(entries, limit)))


def _iceberg_entries(source: IcebergSource) -> Iterator[HistoryEntry]:
    """Every snapshot that has not expired, of every branch."""
    metadata = source.table.metadata
    refs: dict[int, list[str]] = {}
    for name, ref in metadata.refs.items():
        refs.setdefault(ref.snapshot_id, []).append(name)
    for snapshot in sorted(
        metadata.snapshots, key=lambda each: (each.sequence_number, each.timestamp_ms), reverse=True
    ):
        yield HistoryEntry(
            version=snapshot.snapshot_id,
            timestamp_ms=snapshot.timestamp_ms,
            operation=snapshot.operation or "unknown",
            current=snapshot.snapshot_id == metadata.current_snapshot_id,
            parent=snapshot.parent_snapshot_id,
            refs=tuple(sorted(refs.get(snapshot.snapshot_id, ()))),
            added_files=_number(snapshot.summary.get("added-data-files")),
            removed_files=_number(snapshot.summary.get("deleted-data-files")),
            added_rows=_number(snapshot.summary.get("added-records")),
            other_version=_number(snapshot.summary.get(SOURCE_VERSION_KEY)),
        )


def _delta_entries(source: DeltaSource, limit: int | None) -> Iterator[HistoryEntry]:
    """Every commit that is still in the log."""
    newest = None
    for commit in source.table.history(limit=limit, opened=source.snapshot):
        newest = commit.version if newest is None else newest
        metrics = commit.operation_metrics
        yield HistoryEntry(
            version=commit.version,
            timestamp_ms=commit.timestamp_ms,
            operation=commit.operation or "unknown",
            current=commit.version == newest,
            parent=commit.version - 1 if commit.version else None,
            added_files=_first_number(metrics, *_ADDED_FILES),
            removed_files=_first_number(metrics, *_REMOVED_FILES),
            added_rows=_first_number(metrics, *_ADDED_ROWS),
            other_version=None if commit.commit_info is None else _source_version(commit.commit_info),
        )


def _source_version(info: CommitInfo) -> int | None:
    """The snapshot that a commit of deltaberg's was made from."""
    position = info.raw.get(WATERMARK_KEY)
    version = position.get("version") if isinstance(position, dict) else None
    return version if isinstance(version, int) else None


def _first_number(metrics: Mapping[str, object], *names: str) -> int | None:
    return next((number for name in names if (number := _number(metrics.get(name))) is not None), None)


def _number(value: object) -> int | None:
    """Summaries and metrics are texts, and some writers put no numbers there."""
    text = str(value)
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else None
