"""The commits of a Delta table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from deltaberg.delta.log.actions import CommitInfo
from deltaberg.migrate.history import HistoryEntry, stated_number
from deltaberg.migrate.source import DeltaSource
from deltaberg.migrate.target.watermark import WATERMARK_KEY

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


def entries(source: DeltaSource, limit: int | None) -> Iterator[HistoryEntry]:
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
    return next((number for name in names if (number := stated_number(metrics.get(name))) is not None), None)
