"""Findings of a translation about a source: a stable code, its severity, and the files and rows that it touches.

The codes themselves are data (``codes.py``); a finding is one occurrence of a code in one table.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum


class Severity(str, Enum):
    """How far a conversion can go in spite of a finding."""

    INFO = "info"
    WARNING = "warning"
    REWRITE = "rewrite"
    REFUSE = "refuse"

    @property
    def rank(self) -> int:
        return list(Severity).index(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    """One kind of finding, documented in docs/codes.md.

    name: stable, kebab-case. to: the target formats it can come up for. strict: its severity under ``--strict``
    where that differs. example: a source that has it.
    """

    name: str
    severity: Severity
    to: tuple[str, ...]
    reason: str
    remedy: str
    example: str
    strict: Severity | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One code in one table. what: the column, property, feature or group of files; detail: completes the code's
    reason.
    """

    code: Code
    what: str
    detail: str = ""
    files: int = 0
    rows: int = 0
    severity: Severity | None = None
    remedy: str | None = None

    def effective_severity(self, *, strict: bool = False) -> Severity:
        """The severity of this occurrence: its own, else the code's; ``strict`` may raise it."""
        plain = self.severity if self.severity is not None else self.code.severity
        if strict and self.code.strict is not None and self.code.strict.rank > plain.rank:
            return self.code.strict
        return plain

    def sized(self, *, files: int, rows: int) -> Finding:
        return replace(self, files=files, rows=rows)


def merge(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Equal findings once, most severe first, otherwise in the order of their coming."""
    seen: dict[tuple[str, str, str], Finding] = {}
    for finding in findings:
        key = (finding.code.name, finding.what, finding.detail)
        known = seen.get(key)
        seen[key] = (
            finding
            if known is None
            else replace(known, files=known.files + finding.files, rows=known.rows + finding.rows)
        )
    return tuple(sorted(seen.values(), key=lambda finding: -finding.effective_severity().rank))
