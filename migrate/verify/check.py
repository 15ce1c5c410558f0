"""One comparison of two tables and what it found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

SHOWN: Final = 5
"""The number of differences that are named; the rest is counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One comparison. ``differences`` holds a few lines that name what differs, and where there is more, one that counts it."""

    name: str
    equal: bool
    compared: int
    differences: tuple[str, ...] = ()

    @staticmethod
    def of(name: str, compared: int, differences: Sequence[str], *, total: int | None = None) -> Check:
        """Equal where nothing differs. total: how many differences there are, where not all are given."""
        shown = differences[:SHOWN]
        more = (len(differences) if total is None else total) - len(shown)
        return Check(
            name=name,
            equal=not differences,
            compared=compared,
            differences=(*shown, *([f"and {more:,} more"] if more else [])),
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "equal": self.equal,
            "compared": self.compared,
            "differences": list(self.differences),
        }


def shares(*counts: int) -> tuple[int, ...]:
    """How many differences of several kinds are named, SHOWN in all: none of a kind is hidden behind those of another."""
    named = [0] * len(counts)
    while sum(named) < min(SHOWN, sum(counts)):
        for place, count in enumerate(counts):
            if named[place] < count and sum(named) < SHOWN:
                named[place] += 1
    return tuple(named)
