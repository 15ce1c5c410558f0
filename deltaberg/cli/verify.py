"""``deltaberg verify``: compare two tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from deltaberg.cli import options
from deltaberg.cli.selection import where
from deltaberg.errors import VerificationFailed
from deltaberg.redaction import redacted

if TYPE_CHECKING:
    from deltaberg.migrate.verify.verify import VerifyReport

EngineName = Literal["local", "spark"]
TargetTable = Annotated[str, typer.Argument(help="The table made from it.", metavar="TARGET", show_default=False)]
Rows = Annotated[bool, typer.Option("--rows", help="Compare the content too, row for row.")]
Bounds = Annotated[bool, typer.Option("--bounds", help="Check the statistics against the data files.")]
Engine = Annotated[
    EngineName,
    typer.Option("--engine", help="Where rows are read: in this process or in Spark tasks.", metavar="local|spark"),
]
TargetFormat = Annotated[
    options.FormatName | None,
    typer.Option("--to", help="The target's format, where a folder holds both.", metavar="iceberg|delta"),
]


def verify(
    source: options.SourceTable,
    target: TargetTable,
    rows: Rows = False,
    bounds: Bounds = False,
    engine: Engine = "local",
    to: TargetFormat = None,
    version: options.Version = None,
    snapshot_id: options.SnapshotId = None,
    ref: options.Ref = None,
    as_of: options.AsOf = None,
    relocate: options.Relocate = None,
    allow_location: options.AllowLocation = None,
    json: options.Json = False,
    verbose: options.Verbose = False,
) -> None:
    """Compare two tables.

    Schema, files, counts and bounds are compared; with --rows the content too, in Spark tasks with --engine spark. Without
    --rows no data file is opened: facts that only footers show are not compared.

    Exit code 4 when the tables differ, or when a file that one of them lists is missing.

    \b
    Example:
      deltaberg verify warehouse/flights warehouse/flights/_iceberg --rows
    """
    from deltaberg import api
    from deltaberg.cli.console import print_error, print_json
    from deltaberg.cli.progress import ProgressBar

    with ProgressBar("verify") as bar:
        report = api.verify(
            source,
            target,
            to=to,
            rows=rows,
            bounds=bounds,
            engine=engine,
            progress=bar,
            **where(
                version=version,
                snapshot_id=snapshot_id,
                ref=ref,
                as_of=as_of,
                relocate=relocate,
                allow_location=allow_location,
            ),
        )
    if json:
        print_json(report.to_json())
    else:
        show(report)
    if not report.equal:
        print_error(redacted(difference(report)))
        raise typer.Exit(VerificationFailed.exit_code)


def show(report: VerifyReport) -> None:
    """One line a check, with its differences below it."""
    from rich.text import Text

    from deltaberg.cli.console import stdout
    from deltaberg.cli.plan import table_name

    out = stdout()
    width = max((len(check.name) for check in report.checks), default=0)
    for check in report.checks:
        mark = ("equal ", "green") if check.equal else ("DIFFER", "bold red")
        out.print(Text.assemble("  ", mark, f"  {check.name:{width}}  ", (f"{check.compared:,} compared", "dim")))
        for line in check.differences:
            out.print(Text(redacted(f"            {line}")))
    if report.equal:
        out.print(Text(f"{table_name(report.source)} and {table_name(report.target)} are equal", style="bold green"))


def difference(report: VerifyReport) -> str:
    """One line that names the checks that failed and the first difference."""
    failed = [check for check in report.checks if not check.equal]
    first = next((line for check in failed for line in check.differences), "")
    return (
        f"{report.source.get('location')} and {report.target.get('location')} differ in {', '.join(c.name for c in failed)}"
        + (f": {first}" if first else "")
    )
