"""Where output goes: results to standard output, everything else to standard error; and how numbers are written."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from deltaberg.redaction import redacted_json
from deltaberg.timestamps import moment_text

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table

LONGEST_LINE = 1_000
LONGEST_VALUE = 200
# A pipe has no width: lines are not wrapped there, so that grep and awk see whole ones.
PIPE_WIDTH = 100_000
_LAID_OUT = 500


def stdout() -> Console:
    """Rich text for results; plain and wide where standard output is no terminal."""
    from rich.console import Console

    terminal = sys.stdout.isatty()
    return Console(highlight=False, soft_wrap=False, emoji=False, markup=False, width=None if terminal else PIPE_WIDTH)


def stderr() -> Console:
    """Rich text for progress and remarks."""
    from rich.console import Console

    return Console(stderr=True, highlight=False, emoji=False, markup=False)


def error_line(text: str) -> str:
    """The text of an error for standard error, where it may quote names and bytes of files: one line of printable
    characters.

    The line has LONGEST_LINE characters at most; long values lose their middle first.
    """
    line = "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)
    if len(line) > LONGEST_LINE:
        line = re.sub(rf"\S{{{LONGEST_VALUE + 1},}}", lambda found: _without_middle(found[0], LONGEST_VALUE), line)
    return _without_middle(line, LONGEST_LINE)


def print_error(text: str) -> None:
    """One line on standard error."""
    print(f"deltaberg: {error_line(text)}", file=sys.stderr)


def _without_middle(text: str, most: int) -> str:
    end = (most - 1) // 2
    return text if len(text) <= most else f"{text[: most - 1 - end]}…{text[-end:]}"


def print_rows(
    columns: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[str] = (), whole: Sequence[str] = ()
) -> None:
    """Print what ``grid`` makes of many rows. In a pipe, and for very many rows, lines keep their length and are
    written one by one, because laying them out takes long.
    """
    if sys.stdout.isatty() and len(rows) <= _LAID_OUT:
        table = grid(*columns, right=tuple(right), whole=tuple(whole))
        for row in rows:
            table.add_row(*row)
        stdout().print(table)
        return
    widths = [max(map(len, column)) for column in zip(columns, *rows, strict=True)]
    to_right = [name in right for name in columns]
    bar = "─" if (sys.stdout.encoding or "").lower().startswith("utf") else "-"
    rule = bar * (sum(widths) + 3 * (len(widths) - 1))
    sys.stdout.write(f"{_line(columns, widths, to_right)}\n{rule}\n")
    sys.stdout.writelines(f"{_line(row, widths, to_right)}\n" for row in rows)


def _line(cells: Sequence[str], widths: Sequence[int], to_right: Sequence[bool]) -> str:
    return "   ".join(
        cell.rjust(width) if right else cell.ljust(width)
        for cell, width, right in zip(cells, widths, to_right, strict=True)
    ).rstrip()


def grid(*columns: str, right: tuple[str, ...] = (), whole: tuple[str, ...] = ()) -> Table:
    """An airy table with a header line; nothing is cut off, long cells fold. ``right`` names right-aligned columns,
    ``whole`` those that never fold, such as numbers to copy.
    """
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(
            column,
            justify="right" if column in right else "left",
            overflow="fold",
            no_wrap=column in whole,
        )
    return table


def facts(rows: dict[str, str]) -> RenderableType:
    """Names and their values, without lines; empty values are left out."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    rows = {name: value for name, value in rows.items() if value}
    width = max(map(len, rows), default=0)
    if not sys.stdout.isatty():
        return Group(*(Text(f"  {name:{width}}  {value}") for name, value in rows.items()))
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True, min_width=width + 2)
    table.add_column(overflow="fold")
    for name, value in rows.items():
        table.add_row(f"  {name}", value)
    return table


def print_json(document: dict[str, Any]) -> None:
    """The one document of ``--json``; no text of it holds a secret."""
    sys.stdout.write(json.dumps(redacted_json(document), indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def count(number: int | None) -> str:
    return "unknown" if number is None else f"{number:,}"


def size(number: int) -> str:
    """Bytes in the unit that keeps it short."""
    value = float(number)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if value < 1024:
            return f"{value:,.0f} {unit}" if unit == "B" else f"{value:,.1f} {unit}"
        value /= 1024
    return f"{value:,.1f} PiB"


def moment(timestamp_ms: int | None) -> str:
    """UTC to the second, milliseconds only where there are any; nothing where there is no time."""
    return "" if timestamp_ms is None else moment_text(timestamp_ms)


def plural(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def deletes(counts: dict[str, int]) -> str:
    """``3 deletion vectors, 1 equality delete file (1,204 rows)``; empty when there are none."""
    nouns = {"vectors": "deletion vector", "position": "position delete file", "equality": "equality delete file"}
    parts = [plural(counts[kind], noun) for kind, noun in nouns.items() if counts.get(kind)]
    rows = counts.get("rows")
    return ", ".join(parts) + (f" ({plural(rows, 'row')})" if parts and rows else "")
