"""``deltaberg plan``: say what a conversion would do, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from deltaberg.cli import conversion_options as choices
from deltaberg.cli import options
from deltaberg.cli.progress import ProgressBar
from deltaberg.cli.selection import where
from deltaberg.errors import Unsupported

if TYPE_CHECKING:
    from rich.console import Console

    from deltaberg.migrate.files.footer_count import FooterCount
    from deltaberg.migrate.plan_report import Plan

_STYLES = {"info": "dim", "warning": "yellow", "rewrite": "cyan", "refuse": "bold red"}
_ORDER = ("refuse", "rewrite", "warning", "info")
_NAMES = {"iceberg": "Iceberg", "delta": "Delta"}


def plan(
    source: options.SourceTable,
    to: options.To,
    target: choices.Target = None,
    history: choices.History = "latest",
    format_version: choices.FormatVersion = None,
    strict: choices.Strict = False,
    deep: choices.Deep = False,
    column_mapping: choices.Mapping = "auto",
    derive_partition_columns: choices.DerivePartitions = False,
    former_names: choices.FormerNameChoice = "refuse",
    type_map: choices.TypeMappings = None,
    partition_timezone: choices.PartitionTimezone = "UTC",
    iceberg_compat: choices.IcebergCompat = "none",
    engine: choices.EngineChoice = "auto",
    target_file_size: choices.TargetFileSize = None,
    version: options.Version = None,
    snapshot_id: options.SnapshotId = None,
    ref: options.Ref = None,
    as_of: options.AsOf = None,
    relocate: options.Relocate = None,
    allow_location: options.AllowLocation = None,
    json: options.Json = False,
    verbose: options.Verbose = False,
) -> None:
    """Show what a conversion would do, and why.

    Lists what would be shared, translated, rewritten and refused. Writes nothing.

    Exit codes are those of deltaberg convert: 3 when it would be refused, 5 when the target holds another table or was changed.

    \b
    Example:
      deltaberg plan warehouse/flights --to iceberg --format-version 2
    """
    from deltaberg import api
    from deltaberg.cli.console import print_error, print_json, stdout

    chosen = choices.conversion(
        history=history,
        format_version=format_version,
        strict=strict,
        deep=deep,
        column_mapping=column_mapping,
        derive_partition_columns=derive_partition_columns,
        former_names=former_names,
        type_map=type_map,
        partition_timezone=partition_timezone,
        iceberg_compat=iceberg_compat,
        engine=engine,
        target_file_size=target_file_size,
    )
    with ProgressBar("plan") as progress:
        result = api.plan(
            source,
            to=to,
            target=target,
            options=chosen,
            progress=progress,
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
        print_json(result.to_json())
    else:
        show(result, stdout())
    if result.refused:
        print_error(refusal(result))
        raise typer.Exit(Unsupported.exit_code)


def show(result: Plan, out: Console) -> None:
    """The two states, the numbers of files where they were surveyed, then one block for each finding, the most severe
    first.
    """
    from rich.text import Text

    from deltaberg.cli.console import count, deletes, facts, plural, size

    out.print(Text.assemble((f"{table_name(result.source)}", "bold"), " → ", (f"{table_name(result.target)}", "bold")))
    measured = {
        "files": f"{plural(result.files, 'data file')}, {size(result.bytes)}, {plural(result.rows, 'row')}",
        "shared": f"{count(result.shared_files)} as they are",
        "rewritten": rewriting(result),
        "deletes": deletes(result.deletes) or "none",
        "footers": footers(result.footers),
    }
    out.print(
        facts(
            {
                "source": str(result.source.get("location", "")),
                "target": str(result.target["location"]),
                **(measured if result.measured else {}),
                **details(result.target),
            }
        )
    )
    items = sorted(result.items, key=lambda item: _ORDER.index(item.severity))
    if result.target.get("state") == "current":
        out.print(Text("  current already: nothing to write", style="green"))
    elif not items:
        out.print(Text("  nothing to report: everything is carried exactly", style="green"))
    for item in items:
        touched = f"  ({plural(item.files, 'file')})" if item.files else ""
        out.print()
        out.print(
            Text.assemble(
                (f"{item.severity:8}", _STYLES[item.severity]), (item.code, "bold"), f"  {item.what}{touched}"
            )
        )
        out.print(Text(f"        {item.reason}"), soft_wrap=False)
        if item.remedy:
            out.print(Text(f"        {item.remedy}", style="dim"))


def footers(found: FooterCount) -> str:
    """How many footers were read, how many were not, and why that suffices."""
    from deltaberg.cli.console import count

    if not found.files:
        return "none"
    parts = [f"{count(found.read)} of {count(found.files)} read"]
    if found.remembered:
        parts.append(f"{count(found.remembered)} known from an earlier run")
    if found.unread:
        parts.append(f"{count(found.unread)} not read")
    return f"{', '.join(parts)}: {found.reason}"


def rewriting(result: Plan) -> str:
    """How many files are rewritten, and how many bytes that reads and writes."""
    from deltaberg.cli.console import count, size

    if not result.rewritten_files:
        return "0"
    cost = result.cost
    reads, writes = size(cost["read_bytes"]), size(cost["write_bytes"])
    return f"{count(result.rewritten_files)}, about {reads} to read and {writes} to write"


def table_name(side: dict[str, Any]) -> str:
    """``Delta version 4``, ``Iceberg snapshot 77``, ``Iceberg v2``."""
    kind = str(side.get("format"))
    version = "snapshot " if kind == "iceberg" else "version "
    for key, word in (("version", version), ("snapshot_id", "snapshot "), ("format_version", "v")):
        if side.get(key) is not None:
            return f"{_NAMES.get(kind, kind)} {word}{side[key]}"
    return _NAMES.get(kind, kind)


def details(target: dict[str, Any]) -> dict[str, str]:
    """The choices for the target, in words."""
    shown = {}
    for key, value in target.items():
        if key in {"format", "location", "version", "snapshot_id", "format_version", "state"} or value in (
            None,
            "",
            [],
            {},
        ):
            continue
        if isinstance(value, bool):
            text = "yes" if value else "no"
        else:
            text = ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
        shown[key.replace("_", " ")] = text
    return shown


def refusal(result: Plan) -> str:
    """One line that names the findings that refuse."""
    refused = [item for item in result.items if item.severity == "refuse"]
    named = "; ".join(f"{item.code} ({item.what}): {item.reason}" for item in refused[:3])
    rest = f"; and {len(refused) - 3} more" if len(refused) > 3 else ""
    return f"Cannot convert {result.source.get('location', 'the table')} as asked: {named}{rest}"
