"""One comparison of two tables and what it found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

SHOWN: Final = 5
"""So many differences are named; the rest is more of the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One comparison. ``differences`` holds up to a few lines that name what differs."""

    name: str
    equal: bool
    compared: int
    differences: tuple[str, ...] = ()

    @staticmethod
    def of(name: str, compared: int, differences: list[str]) -> Check:
        """Equal where nothing differs."""
        return Check(name=name, equal=not differences, compared=compared, differences=tuple(differences[:SHOWN]))

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "equal": self.equal,
            "compared": self.compared,
            "differences": list(self.differences),
        }
