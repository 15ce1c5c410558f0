"""What a conversion would do, and why: read-only."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from deltaberg.errors import Unsupported
from deltaberg.migrate.source import Source, TableFormat
from deltaberg.translate.options import ConvertOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanItem:
    """One fact about the source and what will be done about it.

    code: stable, documented in docs/codes.md. severity: ``info``, ``warning``, ``rewrite`` or ``refuse``.
    what: the column, property or feature it is about. files, rows: how much of the table it touches.
    """

    code: str
    severity: str
    what: str
    reason: str
    remedy: str
    files: int = 0
    rows: int = 0

    def to_json(self) -> dict[str, Any]:
        return {
            "code": self.code,
            "severity": self.severity,
            "what": self.what,
            "files": self.files,
            "rows": self.rows,
            "reason": self.reason,
            "remedy": self.remedy,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The whole decision.

    source, target: ``{"format", "location", "version" | "snapshot_id", ...}``; the target's carries what was
    chosen (format version, column mapping mode, table features).
    files, rows: live data files and the rows that a reader sees, deletes applied.
    shared_files: files both tables will list; rewritten_files: files that are written anew for the target.
    deletes: ``{"vectors", "position", "equality", "rows"}``.
    """

    source: dict[str, Any]
    target: dict[str, Any]
    items: tuple[PlanItem, ...] = ()
    files: int = 0
    rows: int = 0
    bytes: int = 0
    shared_files: int = 0
    rewritten_files: int = 0
    deletes: dict[str, int] = field(default_factory=dict)

    @property
    def refused(self) -> bool:
        """Whether the conversion cannot be done as asked (exit code 3)."""
        return any(item.severity == "refuse" for item in self.items)

    def to_json(self) -> dict[str, Any]:
        """The document that ``--json`` prints and that ``convert`` writes beside the target."""
        return {
            "source": self.source,
            "target": self.target,
            "refused": self.refused,
            "files": self.files,
            "rows": self.rows,
            "bytes": self.bytes,
            "shared_files": self.shared_files,
            "rewritten_files": self.rewritten_files,
            "deletes": self.deletes,
            "items": [item.to_json() for item in self.items],
        }


def plan(source: Source, *, to: TableFormat | str, options: ConvertOptions | None = None) -> Plan:
    """Decide for every property and every file what a conversion will do. Writes nothing.

    Raises UsageError where ``to`` is the source's own format or an option does not apply to it.
    """
    raise Unsupported(f"Cannot plan a conversion to {to}: nothing is carried yet")
