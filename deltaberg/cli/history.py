"""``deltaberg history``: the commits of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from deltaberg.cli import options
from deltaberg.cli.selection import where

if TYPE_CHECKING:
    from deltaberg.migrate.history import HistoryEntry, HistoryReport


Limit = Annotated[
    int | None, typer.Option("--limit", help="Only the newest N commits.", metavar="N", min=1, show_default=False)
]


def history(
    table: options.Table,
    limit: Limit = None,
    relocate: options.Relocate = None,
    allow_location: options.AllowLocation = None,
    format: options.Format = None,
    json: options.Json = False,
    verbose: options.Verbose = False,
) -> None:
    """List the commits of a table.

    Versions or snapshots, newest first; where deltaberg wrote the table, with the source commit of each.

    \b
    Example:
      deltaberg history warehouse/flights
    """
    from deltaberg import api
    from deltaberg.cli.console import print_json

    report = api.history(table, limit=limit, **where(relocate=relocate, allow_location=allow_location, format=format))
    if json:
        print_json(report.to_json())
    else:
        show(report)


def show(report: HistoryReport) -> None:
    """One line a commit."""
    from deltaberg.cli.console import moment, print_rows

    iceberg = report.format == "iceberg"
    mapped = any(entry.other_version is not None for entry in report.entries)
    other = "Delta version" if iceberg else "Iceberg snapshot"
    optional = [("refs", iceberg), (f"from {other}", mapped)]
    numbers = ("snapshot" if iceberg else "version", "files +", "files -", "rows +", f"from {other}")
    headers = [numbers[0], "committed", "operation", *numbers[1:4], *(name for name, there in optional if there)]
    rows: list[list[str]] = []
    for entry in report.entries:
        cells = {"refs": ", ".join(_marks(entry)), f"from {other}": _number(entry.other_version)}
        rows.append(
            [
                str(entry.version),
                moment(entry.timestamp_ms),
                entry.operation,
                _number(entry.added_files, grouped=True),
                _number(entry.removed_files, grouped=True),
                _number(entry.added_rows, grouped=True),
                *(cells[name] for name, there in optional if there),
            ]
        )
    print_rows(headers, rows, right=numbers, whole=(numbers[0], f"from {other}"))


def _marks(entry: HistoryEntry) -> list[str]:
    return [*entry.refs, *(["(current)"] if entry.current and not entry.refs else [])]


def _number(value: int | None, *, grouped: bool = False) -> str:
    return "" if value is None else f"{value:,}" if grouped else str(value)
