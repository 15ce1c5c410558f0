"""Commits and snapshots: operations, times and provenance.

Delta: "Commit Provenance Information". Iceberg: "Snapshots" (``operation`` and the optional summary fields).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

APPEND: Final = "append"
OVERWRITE: Final = "overwrite"
DELETE: Final = "delete"
REPLACE: Final = "replace"

SCHEMA_CHANGED: Final[tuple[str, Mapping[str, object]]] = ("REPLACE COLUMNS", {})
"""``operation`` and ``operationParameters`` of a Delta commit for a schema that changed without a snapshot."""

_REARRANGING: Final = frozenset(
    {"OPTIMIZE", "REORG", "COMPUTE STATS", "UPGRADE PROTOCOL", "ROW TRACKING BACKFILL", "ROW TRACKING UNBACKFILL"}
)


def delta_to_iceberg_operation(
    *, operation: str | None, added: int, removed: int, removed_rows: bool, data_change: bool
) -> str:
    """The Iceberg operation of a Delta commit, by what it did rather than by its name.

    added, removed: files. removed_rows: whether deletion vectors took rows from files that stay. data_change: whether
    any action says that rows changed.
    """
    if (not data_change and (added or removed)) or (operation or "").upper() in _REARRANGING:
        return REPLACE
    if removed == 0 and not removed_rows:
        return APPEND
    if added == 0:
        return DELETE
    return OVERWRITE


def iceberg_to_delta_operation(operation: str | None, *, first: bool) -> tuple[str, Mapping[str, object]]:
    """``operation`` and ``operationParameters`` of the Delta commit that stands for a snapshot."""
    match operation:
        case "append" | None:
            return "WRITE", {"mode": "Append", "partitionBy": "[]"} if not first else {"mode": "ErrorIfExists"}
        case "overwrite":
            return "WRITE", {"mode": "Overwrite"}
        case "delete":
            return "DELETE", {"predicate": "[]"}
        case "replace":
            return "OPTIMIZE", {"predicate": "[]"}
        case other:
            return other.upper(), {}
