"""The members of nested struct arrays, for tables of thousands of columns."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa


class StructMembers:
    """The members of a struct array by path.

    Each struct is taken apart once: Arrow's functions take all members of a struct apart to return one, so that 2,000
    columns would take minutes.
    """

    def __init__(self, values: pa.StructArray) -> None:
        self._values = values
        self._structs: dict[tuple[str, ...], dict[str, pa.Array]] = {}

    def at(self, path: tuple[str, ...]) -> Any:
        """A member, null where an outer struct is; None where there is none of that name, or more than one."""
        return self._of(path[:-1]).get(path[-1])

    def _of(self, path: tuple[str, ...]) -> dict[str, pa.Array]:
        known = self._structs.get(path)
        if known is not None:
            return known
        found = self._structs[path] = {}
        values = self.at(path) if path else self._values
        if values is not None and pa.types.is_struct(values.type):
            names = Counter(field.name for field in values.type)
            for field, member in zip(values.type, values.flatten(), strict=True):
                if names[field.name] == 1:
                    found[field.name] = member
        return found
