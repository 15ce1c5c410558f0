"""Arguments and options that several commands share, declared once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import typer


@dataclass(slots=True)
class Invocation:
    """State of the call that ``main`` needs to report its outcome; filled while options are parsed."""

    verbose: bool = False
    json: bool = False


def _verbose(context: typer.Context, value: bool) -> bool:
    if value and isinstance(context.obj, Invocation):
        context.obj.verbose = True
    return value


def _json(context: typer.Context, value: bool) -> bool:
    if value and isinstance(context.obj, Invocation):
        context.obj.json = True
    return value


FormatName = Literal["iceberg", "delta"]

Table = Annotated[
    str, typer.Argument(help="A folder, an Iceberg *.metadata.json or a URL.", metavar="TABLE", show_default=False)
]
SourceTable = Annotated[str, typer.Argument(help="The table to convert.", metavar="SOURCE", show_default=False)]
ConfigFile = Annotated[
    str,
    typer.Argument(
        help="The tables: a YAML file (docs/publish.md), or XTable's.", metavar="CONFIG.yaml", show_default=False
    ),
]
To = Annotated[
    FormatName, typer.Option("--to", help="The format to convert to.", metavar="iceberg|delta", show_default=False)
]

Version = Annotated[int | None, typer.Option("--version", help="A Delta version.", metavar="N")]
SnapshotId = Annotated[int | None, typer.Option("--snapshot-id", help="An Iceberg snapshot.", metavar="ID")]
Ref = Annotated[str | None, typer.Option("--ref", help="An Iceberg branch or tag.", metavar="BRANCH-OR-TAG")]
AsOf = Annotated[
    str | None,
    typer.Option("--as-of", help="The state at a time, ISO 8601; UTC unless it has an offset.", metavar="TIMESTAMP"),
]
Relocate = Annotated[
    list[str] | None,
    typer.Option(
        "--relocate", help="Read files below OLD at NEW, where they were copied; may be repeated.", metavar="OLD=NEW"
    ),
]
AllowLocation = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-location",
        help="Allow files of the table below PREFIX in another store; may be repeated.",
        metavar="PREFIX",
    ),
]
Format = Annotated[
    FormatName | None,
    typer.Option("--format", help="The format to read where a folder holds both.", metavar="iceberg|delta"),
]
Json = Annotated[
    bool,
    typer.Option(
        "--json", help="Print one JSON document, and nothing else, on standard output.", callback=_json, is_eager=True
    ),
]
Verbose = Annotated[
    bool, typer.Option("--verbose", "-v", help="Show the traceback of an error.", callback=_verbose, is_eager=True)
]
