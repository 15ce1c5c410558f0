"""The versions or snapshots of a table, and the version map where deltaberg wrote it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from deltaberg.errors import Unsupported
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


def history(source: Source) -> HistoryReport:
    """The commits of the table."""
    raise Unsupported("Cannot list history: nothing is read yet")
