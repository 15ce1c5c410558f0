"""``deltaberg sync``: bring a target up to date with what its source has committed since."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from deltaberg.cli import conversion_options as choices
from deltaberg.cli import options
from deltaberg.cli.selection import where

if TYPE_CHECKING:
    from deltaberg.migrate.sync import SyncResult

Squash = Annotated[bool, typer.Option("--squash", help="Make one target commit for all source commits that are new.")]

OnDrift = Annotated[
    Literal["fail", "keep"],
    typer.Option("--on-drift", help="A target that cannot go on: exit code 5, or left as it is with exit code 0."),
]


def sync(
    source: options.SourceTable,
    to: options.To,
    target: choices.Target = None,
    squash: Squash = False,
    on_drift: OnDrift = "fail",
    version: options.Version = None,
    snapshot_id: options.SnapshotId = None,
    ref: options.Ref = None,
    as_of: options.AsOf = None,
    relocate: options.Relocate = None,
    allow_location: options.AllowLocation = None,
    json: options.Json = False,
    verbose: options.Verbose = False,
) -> None:
    """Bring a table of the other format up to date.

    Creates the target if there is none, as deltaberg convert does. Otherwise each source commit since the last sync becomes
    one target commit, made from what that commit changed, with its time and operation; the options are those that the target
    was created with.

    Exit code 3, and nothing written, when a change cannot be carried; 5 when the target or the source is not what the last
    sync left.

    \b
    Example:
      deltaberg sync warehouse/flights --to iceberg
    """
    from deltaberg import api
    from deltaberg.cli.console import print_json
    from deltaberg.cli.convert import warn
    from deltaberg.cli.progress import ProgressBar

    with ProgressBar("sync") as bar:
        result = api.sync(
            source,
            to=to,
            target=target,
            squash=squash,
            on_drift=on_drift,
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
    if result.conversion is not None:
        warn(result.conversion)
    if json:
        print_json(result.to_json())
    else:
        show(result)


def show(result: SyncResult) -> None:
    """What was committed, in a few lines; one line where there was nothing to do."""
    from rich.text import Text

    from deltaberg.cli.console import facts, plural, stdout
    from deltaberg.cli.convert import show as show_conversion
    from deltaberg.cli.plan import table_name

    out = stdout()
    if result.conversion is not None:
        show_conversion(result.conversion)
        return
    name = table_name(result.plan.source)
    if result.drift is not None:
        out.print(Text(f"{result.target} is left as it is ({result.drift.kind.value}): {result.drift.message}"))
        return
    if not result.commits:
        out.print(Text(f"{result.target} is up to date with {name}: nothing written", style="bold"))
        return
    out.print(Text.assemble((name, "bold"), " → ", (table_name(result.plan.target), "bold")))
    out.print(
        facts(
            {
                "written": result.target_metadata,
                "from": str(result.before),
                "to": str(result.watermark),
                "commits": f"{len(result.commits):,}",
                "files": f"{plural(result.files, 'data file')} added, {result.rewritten_files:,} of them rewritten",
            }
        )
    )
    for item in result.plan.items:
        if item.severity == "warning":
            out.print(Text.assemble(("  warning  ", "yellow"), (item.code, "bold"), f"  {item.what}: {item.reason}"))
