"""``deltaberg scan``: the rows of a table."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from deltaberg.cli import options
from deltaberg.cli.selection import where
from deltaberg.errors import UsageError

if TYPE_CHECKING:
    from deltaberg.table_scan import TableScan

ROWS_ON_SCREEN = 20
WIDEST_CELL = 60
COLUMN_GAP = 3
PARQUET_EXTENSIONS = ("", ".parquet", ".parq", ".pq")

Out = Annotated[str | None, typer.Option("--out", help="Write all rows to this Parquet file.", metavar="F.parquet")]
Limit = Annotated[
    int | None,
    typer.Option("--limit", help=f"At most N rows; on the screen {ROWS_ON_SCREEN} unless given.", metavar="N", min=0),
]
Columns = Annotated[str | None, typer.Option("--columns", help="Only these columns, by name.", metavar="A,B")]


def scan(
    table: options.Table,
    out: Out = None,
    limit: Limit = None,
    columns: Columns = None,
    version: options.Version = None,
    snapshot_id: options.SnapshotId = None,
    ref: options.Ref = None,
    as_of: options.AsOf = None,
    relocate: options.Relocate = None,
    allow_location: options.AllowLocation = None,
    format: options.Format = None,
    json: options.Json = False,
    verbose: options.Verbose = False,
) -> None:
    """Read the rows of a table, with deletes applied.

    Rows come in no particular order. Variant is written as JSON text, geometry and geography as WKB, uuid as 16 bytes.

    Exit code 2 when F has the extension of a format other than Parquet, or is - (standard output).

    \b
    Example:
      deltaberg scan warehouse/flights --columns origin,dest --out flights.parquet
    """
    from deltaberg import api

    if out is not None:
        check_extension(out)
    wanted = limit if limit is not None or out is not None or json else ROWS_ON_SCREEN + 1
    selected = api.scan(
        table,
        columns=None if columns is None else column_names(columns),
        limit=wanted,
        **where(
            version=version,
            snapshot_id=snapshot_id,
            ref=ref,
            as_of=as_of,
            relocate=relocate,
            allow_location=allow_location,
            format=format,
        ),
    )
    if out is not None:
        write(selected, out, json=json)
    elif json:
        write_json(selected)
    else:
        show(selected, at_most=limit)


def check_extension(out: str) -> None:
    """Raise UsageError for a file name whose extension is not Parquet's."""
    if out == "-":
        raise UsageError(
            "Cannot write -: --out writes a Parquet file, which needs a place to be written to; give a file name, or leave "
            "--out out and take --json for rows on standard output"
        )
    extension = os.path.splitext(out)[1]
    if extension.lower() not in PARQUET_EXTENSIONS:
        raise UsageError(
            f"Cannot write {out}: --out writes Parquet, not {extension[1:] or extension!r}; "
            f"name it {os.path.splitext(out)[0]}.parquet, or leave --out out and take --json"
        )


def column_names(text: str) -> tuple[str, ...]:
    """The names in ``a,b``; a name that holds a comma is quoted as in CSV: ``a,"b,c"``. Raises UsageError for an empty one."""
    import csv

    names = tuple(next(csv.reader([text], skipinitialspace=True), ()))
    if not names or "" in names:
        raise UsageError(
            f"Cannot read the columns {text!r}: expected names such as a,b; leave --columns out for all of them"
        )
    return names


def write(selected: TableScan, out: str, *, json: bool) -> None:
    """Stream all rows into a Parquet file and report their number."""
    from deltaberg.cli.console import plural, print_json
    from deltaberg.cli.progress import ProgressBar
    from deltaberg.storage import absolute_location, open_storage

    location = absolute_location(out)
    with ProgressBar("scan") as bar:
        rows = selected.write_parquet(location, open_storage(), progress=lambda done: bar("rows", done, 0))
    if json:
        print_json({**selected.describe(), "out": location, "row_count": rows})
    else:
        print(f"{plural(rows, 'row')} written to {out}")


def write_json(selected: TableScan) -> None:
    """The document of ``TableScan.to_json``, row by row, so that memory does not grow with the table."""
    import json

    from deltaberg.row_json import row_objects

    head = json.dumps(selected.describe(), indent=2, ensure_ascii=False)
    sys.stdout.write(head[: head.rindex("\n}")] + ',\n  "rows": [')
    separator = "\n    "
    for batch in selected.batches():
        for row in row_objects(batch):
            sys.stdout.write(separator + json.dumps(row, ensure_ascii=False, allow_nan=False))
            separator = ",\n    "
    sys.stdout.write("\n  ]\n}\n" if separator.startswith(",") else "]\n}\n")


def show(selected: TableScan, *, at_most: int | None) -> None:
    """Rows on the screen: a table of as many columns as fit, and whether there is more."""
    import pyarrow.types as pt

    from deltaberg.cli.console import grid, plural, stdout
    from deltaberg.row_json import row_objects

    out = stdout()
    rows = [row for batch in selected.batches() for row in row_objects(batch)]
    shown = rows if at_most is not None else rows[:ROWS_ON_SCREEN]
    texts = [[cell(value) for value in row.values()] for row in shown]
    fitting = columns_that_fit(selected.schema.names, texts, out.width)
    fields = list(selected.schema)[:fitting]
    numbers = [f.name for f in fields if pt.is_integer(f.type) or pt.is_floating(f.type) or pt.is_decimal(f.type)]
    table = grid(*(field.name for field in fields), right=tuple(numbers))
    for row in texts:
        table.add_row(*row[:fitting])
    out.print(table)
    hidden = len(selected.schema) - fitting
    remarks = [f"{plural(hidden, 'more column')}: --columns picks some, --json shows all"] if hidden else []
    if len(shown) < len(rows):
        remarks.append(f"the first {plural(len(shown), 'row')}: --limit N shows N, --out F.parquet writes all")
    else:
        remarks.append(plural(len(shown), "row"))
    print("; ".join(remarks), file=sys.stderr)


def columns_that_fit(names: list[str], rows: list[list[str]], width: int) -> int:
    """How many columns, from the left, stand side by side in ``width`` characters; one at least."""
    from rich.cells import cell_len

    used = 0
    for index, name in enumerate(names):
        used += max([cell_len(name), *(min(cell_len(row[index]), WIDEST_CELL) for row in rows)]) + COLUMN_GAP
        if used > width and index:
            return index
    return len(names)


def cell(value: object) -> str:
    """A value of ``row_json`` as it stands in a table."""
    if isinstance(value, str):
        return value
    import json

    return json.dumps(value, ensure_ascii=False)
