"""``deltaberg status``: how far the targets of a configuration have come."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from deltaberg.cli import options
from deltaberg.errors import UsageError

if TYPE_CHECKING:
    from rich.table import Table as Grid

    from deltaberg.migrate.publish.config import PublisherConfig
    from deltaberg.migrate.publish.standing import TableStanding

Watch = Annotated[
    float | None, typer.Option("--watch", help="Show it again every so often, until Ctrl-C.", metavar="SECONDS")
]
_COLUMNS = ("table", "head", "watermark", "lag", "state", "last error")
_STYLES = {"current": "green", "behind": "yellow", "absent": "yellow", "drifted": "bold red", "failed": "bold red"}


def status(
    config: options.ConfigFile, watch: Watch = None, json: options.Json = False, verbose: options.Verbose = False
) -> None:
    """How far published tables have come.

    For each table: the newest version or snapshot of the source (head), the one that the target holds (watermark), how many
    commits lie between and how old the first of them is, and the last error. Nothing is written.

    Exit code 1 if any table cannot be read, or its target was changed by somebody else.

    \b
    Example:
      deltaberg status tables.yaml
    """
    from deltaberg.cli.console import print_json
    from deltaberg.migrate.publish.config_file import read_config

    tables = read_config(config)
    if watch is not None:
        if json or not watch > 0:
            raise UsageError("Cannot use --watch so: expected seconds above 0, and not with --json")
        _watch(tables, watch)
        return
    found = _standings(tables)
    if json:
        print_json({"tables": [each.to_json() for each in found]})
    else:
        show(found)
    if any(each.state in {"failed", "drifted"} for each in found):
        raise typer.Exit(1)


def _standings(config: PublisherConfig) -> list[TableStanding]:
    import time
    from concurrent.futures import ThreadPoolExecutor
    from functools import partial

    from deltaberg.migrate.publish.standing import standing_of

    with ThreadPoolExecutor(max_workers=config.concurrency) as pool:
        return list(pool.map(partial(standing_of, now_ms=time.time_ns() // 1_000_000), config.tables))


def show(found: Sequence[TableStanding]) -> None:
    """A line a table."""
    from deltaberg.cli.console import print_rows

    print_rows(_COLUMNS, [_cells(each) for each in found], right=("head", "watermark"), whole=("head", "watermark"))


def _watch(config: PublisherConfig, seconds: float) -> None:
    import time

    from rich.live import Live

    from deltaberg.cli.console import stdout

    with Live(_grid(_standings(config)), console=stdout(), screen=False, auto_refresh=False) as live:
        while True:
            time.sleep(seconds)
            live.update(_grid(_standings(config)), refresh=True)


def _grid(found: Sequence[TableStanding]) -> Grid:
    from rich.text import Text

    from deltaberg.cli.console import grid

    table = grid(*_COLUMNS, right=("head", "watermark"), whole=("head", "watermark"))
    for each in found:
        cells = _cells(each)
        table.add_row(
            *(
                Text(cell, style=_STYLES[each.state] if name == "state" else "")
                for name, cell in zip(_COLUMNS, cells, strict=True)
            )
        )
    return table


def _cells(stands: TableStanding) -> tuple[str, ...]:
    from deltaberg.cli.console import error_line, plural

    lag = ""
    if stands.lag_commits is not None:
        age = "" if not stands.lag_seconds else f", {_age(stands.lag_seconds)}"
        lag = "none" if stands.state == "current" else f"{plural(stands.lag_commits, 'commit')}{age}"
    return (
        stands.name,
        "" if stands.head is None else str(stands.head),
        "" if stands.watermark is None else str(stands.watermark),
        lag,
        stands.state if stands.worker is None else f"{stands.state}, at work",
        "" if stands.error is None else error_line(stands.error.message),
    )


def _age(seconds: float) -> str:
    """In the unit that keeps it short."""
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:,.1f} {unit}"
    return f"{seconds:.0f} s"
