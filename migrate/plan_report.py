"""The plan report: what a conversion would do, and why."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from deltaberg.migrate.files.footer_count import FooterCount
from deltaberg.redaction import redacted, redacted_json
from deltaberg.translate.findings import Finding, Severity, merge


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanItem:
    """One fact about the source and its consequence.

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

    source, target: ``{"format", "location", "version" | "snapshot_id", ...}``; the target's has the choices (format
    version, column mapping mode, table features) and, in a plan of its own, its ``state``: ``new``, ``begun`` (a replay
    of the history that was interrupted) or ``current`` (nothing is to be written).
    measured: whether the files were surveyed; where they were not, the numbers mean nothing.
    files, rows: live data files and the rows that a reader sees, deletion vectors applied; the rows that position and
    equality deletes take are known only after reading them. With history, files of all versions and the rows in them.
    shared_files: files both tables will list; rewritten_files, rewritten_bytes: files that are rewritten for the
    target. deletes: ``{"vectors", "position", "equality", "rows"}``: delete files by kind, and the rows that vectors
    take. footers: how many were read, how many were not, and why that suffices.
    """

    source: dict[str, Any]
    target: dict[str, Any]
    items: tuple[PlanItem, ...] = ()
    files: int = 0
    rows: int = 0
    bytes: int = 0
    shared_files: int = 0
    rewritten_files: int = 0
    rewritten_bytes: int = 0
    deletes: dict[str, int] = field(default_factory=dict)
    measured: bool = True
    footers: FooterCount = field(default_factory=FooterCount)

    @property
    def refused(self) -> bool:
        """Whether the conversion cannot be done as asked (exit code 3)."""
        return any(item.severity == "refuse" for item in self.items)

    @property
    def cost(self) -> dict[str, int]:
        """The estimated cost of rewriting: files, and bytes of data files to read and to write.

        Files are written about as large as they were; deleted rows and another format make them smaller or larger.
        """
        return {
            "files": self.rewritten_files,
            "read_bytes": self.rewritten_bytes,
            "write_bytes": self.rewritten_bytes,
        }

    def to_json(self) -> dict[str, Any]:
        """The document that ``--json`` prints and that ``convert`` writes beside the target; no text of it holds a secret."""
        return {
            "source": redacted_json(self.source),
            "target": redacted_json(self.target),
            "refused": self.refused,
            "measured": self.measured,
            "files": self.files,
            "rows": self.rows,
            "bytes": self.bytes,
            "shared_files": self.shared_files,
            "rewritten_files": self.rewritten_files,
            "cost": self.cost,
            "deletes": self.deletes,
            "footers": self.footers.to_json(),
            "items": [item.to_json() for item in self.items],
        }


def items_of(findings: Iterable[Finding], *, strict: bool = False) -> tuple[PlanItem, ...]:
    """One item for equal findings, the most severe first."""
    merged = merge(findings)
    items = [
        PlanItem(
            code=finding.code.name,
            severity=finding.effective_severity(strict=strict).value,
            what=redacted(finding.what),
            reason=redacted(f"{finding.code.reason} ({finding.detail})" if finding.detail else finding.code.reason),
            remedy=redacted(finding.remedy if finding.remedy is not None else finding.code.remedy),
            files=finding.files,
            rows=finding.rows,
        )
        for finding in merged
    ]
    order = [severity.value for severity in reversed(Severity)]
    return tuple(sorted(items, key=lambda item: order.index(item.severity)))
