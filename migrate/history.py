"""The versions or snapshots of a table, and the version map where deltaberg wrote it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Any

from deltaberg.errors import UsageError
from deltaberg.migrate.source import Source


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

    @staticmethod
    def of(source: Source, entries: Iterable[HistoryEntry], *, limit: int | None = None) -> HistoryReport:
        """The commits of a table; limit: only so many. Raises UsageError for a limit below 1, and the errors of reading them."""
        if limit is not None and limit < 1:
            raise UsageError(f"Cannot list {limit} commits: the limit is too small (expected 1 or more)")
        return HistoryReport(
            format=source.format.value, location=source.location, entries=tuple(islice(entries, limit))
        )


def stated_number(value: object) -> int | None:
    """Summaries and metrics are texts, and some writers put no numbers there."""
    text = str(value)
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else None
