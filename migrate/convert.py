"""Carry out a plan: one state of the source, or its whole history, becomes a table of the other format."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from deltaberg.errors import Unsupported
from deltaberg.migrate.plan import Plan
from deltaberg.migrate.source import Source, TableFormat
from deltaberg.translate.options import ConvertOptions

Progress = Callable[[str, int, int], None]
"""Called with (stage, done, total); total 0 where it is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertResult:
    """What a conversion did.

    target: folder of the target table; target_metadata: the metadata file (Iceberg) or commit file (Delta) that
    made it visible. already_current: the target already held this position and nothing was written.
    commits: ``(source version or snapshot id, target version or snapshot id)``, oldest first.
    """

    plan: Plan
    target: str
    target_metadata: str
    already_current: bool
    commits: tuple[tuple[int, int], ...]
    files: int
    rows: int
    rewritten_files: int

    def to_json(self) -> dict[str, Any]:
        return {
            "target": self.target,
            "target_metadata": self.target_metadata,
            "already_current": self.already_current,
            "commits": [{"source": source, "target": target} for source, target in self.commits],
            "files": self.files,
            "rows": self.rows,
            "rewritten_files": self.rewritten_files,
            "plan": self.plan.to_json(),
        }


def convert(
    source: Source,
    *,
    to: TableFormat | str,
    target: str | None = None,
    options: ConvertOptions | None = None,
    clock_ms: int | None = None,
    progress: Progress | None = None,
) -> ConvertResult:
    """Write the target table. Data files stay where they are, but for those that the plan marks as rewritten.

    target: a folder; by default ``<table>/_iceberg`` for a Delta source, the table's own folder (``_delta_log``)
    for an Iceberg source. clock_ms: the time to record as now; the machine's by default.

    Raises Unsupported where the plan refuses, before anything is written; Conflict where the target holds
    another table or was changed by somebody else; leaves nothing half-written behind when it fails.
    """
    raise Unsupported(f"Cannot convert to {to}: nothing is carried yet")
