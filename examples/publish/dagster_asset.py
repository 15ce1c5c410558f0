"""One published table as a Dagster asset, whose metadata says which commits it holds.

In a definitions file:

    @asset(name="orders_iceberg", deps=["orders"])
    def orders_iceberg() -> MaterializeResult:
        return MaterializeResult(metadata=materialize("/etc/deltaberg/tables.yaml", "orders"))
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from deltaberg import Publisher


def materialize(config: str, name: str) -> dict[str, Any]:
    """Bring one table of a configuration up to date; what Dagster shows of it."""
    whole = Publisher(config).config
    one = replace(whole, tables=tuple(table for table in whole.tables if table.name == name))
    if not one.tables:
        raise ValueError(f"no table of {config} has the name {name}")
    (outcome,) = Publisher(one).run_once().tables
    if outcome.failure is not None:
        raise RuntimeError(outcome.failure.message)
    return {
        "target": outcome.target,
        "position": str(outcome.position),
        "commits": len(outcome.commits),
        "seconds": round(outcome.seconds, 3),
    }
