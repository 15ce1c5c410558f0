"""How many footers a survey read, how many it did not, and why that suffices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class FooterCount:
    """files: Parquet files of the table. read: footers read. remembered: known from an earlier run. unread: files that
    footers of their group stand for. reason: why that suffices."""

    files: int = 0
    read: int = 0
    remembered: int = 0
    unread: int = 0
    reason: str = ""

    def more(self, *, read: int, remembered: int = 0) -> FooterCount:
        """After some more files were looked at."""
        return replace(self, read=self.read + read, remembered=self.remembered + remembered)

    def at_the_end(self, *, files: int, unread: int, doubts: Mapping[str, int]) -> FooterCount:
        """After all files went by. doubts: why files are not proven to be the table's own."""
        return replace(self, files=files, unread=unread, reason=_reason(files, unread, doubts))

    def plus(self, other: FooterCount) -> FooterCount:
        """Of two parts of a table."""
        unread = self.unread + other.unread
        reasons = [each.reason for each in (self, other) if each.reason and bool(each.unread) == bool(unread)]
        return FooterCount(
            files=self.files + other.files,
            read=self.read + other.read,
            remembered=self.remembered + other.remembered,
            unread=unread,
            reason=max(reasons, key=len, default=""),
        )

    def to_json(self) -> dict[str, Any]:
        """As in the plan."""
        return {
            "files": self.files,
            "read": self.read,
            "remembered": self.remembered,
            "unread": self.unread,
            "reason": self.reason,
        }


def _reason(files: int, unread: int, doubts: Mapping[str, int]) -> str:
    if not files:
        return ""
    others = f" (files that may be imported: {'; '.join(sorted(doubts))})" if doubts else ""
    if unread:
        return f"the table's own writers wrote the others, and footers of each of their commits agree{others}"
    return f"every file was looked at{others}"
