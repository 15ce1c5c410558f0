"""``deltaberg rollback``: roll back what deltaberg wrote to a target."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from deltaberg.cli import options
from deltaberg.cli.selection import prefixes

if TYPE_CHECKING:
    from deltaberg.migrate.rollback import RollbackReport

TargetFolder = Annotated[
    str, typer.Argument(help="The folder that a conversion wrote to.", metavar="TARGET", show_default=False)
]
Yes = Annotated[bool, typer.Option("--yes", help="Delete the files; without it, they are only listed.")]


def rollback(
    target: TargetFolder,
    yes: Yes = False,
    format: options.Format = None,
    relocate: options.Relocate = None,
    json: options.Json = False,
    verbose: options.Verbose = False,
) -> None:
    """Roll back what convert wrote to a target.

    Removes the target's metadata, the files that were written for it, and files of unfinished conversions; data files of
    the source and files that deltaberg did not write are never touched. No other process may write to the target meanwhile.

    Exit code 5, and nothing removed, when another writer has committed to the target, or a conversion to it is running.

    \b
    Example:
      deltaberg rollback warehouse/flights/_iceberg --yes
    """
    from deltaberg import api
    from deltaberg.cli.console import print_json

    report = api.rollback(target, dry_run=not yes, format=format, relocate=prefixes(relocate or ()))
    if json:
        print_json(report.to_json())
    else:
        show(report)


def show(report: RollbackReport) -> None:
    """The files, one a line, and whether they are gone."""
    from rich.text import Text

    from deltaberg.cli.console import plural, stdout

    out = stdout()
    held = report.watermark
    what = (
        "what unfinished conversions left" if held is None else f"the {report.format} table made from {_source(held)}"
    )
    verb = "removed" if report.done else "would be removed"
    out.print(Text(f"{what}: {plural(len(report.files), 'file')} {verb} from {report.target}", style="bold"))
    for location in report.files:
        out.print(Text(f"  {location}"))
    for location in report.unsure:
        out.print(Text(f"  may still be running on another machine: {location}", style="yellow"))
    if not report.done:
        out.print("nothing was removed; repeat with --yes")


def _source(position: dict[str, object]) -> str:
    what = "version" if position["format"] == "delta" else "snapshot"
    return f"{what} {position['version']} of {position['format']} table {position['uuid']}"
