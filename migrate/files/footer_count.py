"""How many footers a survey read, how many it did not, and why that suffices."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class FooterCount:
    """files: Parquet files of the table. read: footers read. remembered: known from an earlier run. unread: files that
    footers of their group stand for. doubts: why files were not taken for the table's own."""

    files: int = 0
    read: int = 0
    remembered: int = 0
    unread: int = 0
    doubts: frozenset[str] = frozenset()

    @property
    def reason(self) -> str:
        """Why it suffices."""
        if not self.files:
            return ""
        others = f" (files that may not be its own: {'; '.join(sorted(self.doubts))})" if self.doubts else ""
        if self.unread:
            return f"the table's own writers wrote the others, and footers of each of their commits agree{others}"
        return f"every file was looked at{others}"

    def more(self, *, read: int, remembered: int = 0) -> FooterCount:
        """The count after some more files were sampled."""
        return replace(self, read=self.read + read, remembered=self.remembered + remembered)

    def plus(self, other: FooterCount) -> FooterCount:
        """The count of two parts of a table."""
        return FooterCount(
            files=self.files + other.files,
            read=self.read + other.read,
            remembered=self.remembered + other.remembered,
            unread=self.unread + other.unread,
            doubts=self.doubts | other.doubts,
        )

    def to_json(self) -> dict[str, Any]:
        """The count in the form of a plan."""
        return {
            "files": self.files,
            "read": self.read,
            "remembered": self.remembered,
            "unread": self.unread,
            "reason": self.reason,
        }
