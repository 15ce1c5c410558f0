"""``deltaberg convert``: write the table of the other format over the same data files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltaberg.cli import conversion_options as choices
from deltaberg.cli import options
from deltaberg.cli.selection import where

if TYPE_CHECKING:
    from deltaberg.migrate.convert import ConvertResult


def convert(
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
    clean: choices.Clean = False,
    allow_location: options.AllowLocation = None,
    json: options.Json = False,
    verbose: options.Verbose = False,
) -> None:
    """Write a table of the other format.

    Data files stay where they are; the source is not touched.

    Exit code 3, and nothing written, when something cannot be carried as asked: deltaberg plan says what. Of a history, the
    versions that were committed before stand.

    The next conversion removes the files of one that died, once they can never be committed; deltaberg rollback removes
    everything that was written.

    \b
    Example:
      deltaberg convert warehouse/flights --to iceberg
    """
    from deltaberg import api
    from deltaberg.cli.console import print_json
    from deltaberg.cli.progress import ProgressBar

    with ProgressBar("convert") as bar:
        result = api.convert(
            source,
            to=to,
            target=target,
            options=choices.conversion(
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
            ),
            progress=bar,
            clean=clean,
            **where(
                version=version,
                snapshot_id=snapshot_id,
                ref=ref,
                as_of=as_of,
                relocate=relocate,
                allow_location=allow_location,
            ),
        )
    warn(result)
    if json:
        print_json(result.to_json())
    else:
        show(result)


def warn(result: ConvertResult) -> None:
    """Write repairs, removed files and failures after the commit to standard error, one line each."""
    from deltaberg.cli.console import print_error, stderr

    err = stderr()
    for location in result.repaired:
        err.print(f"deltaberg: put right: {location}", soft_wrap=True)
    for location in result.removed:
        err.print(f"deltaberg: removed, left by an unfinished conversion: {location}", soft_wrap=True)
    for item in result.warnings:
        print_error(f"warning: {item.code}: {item.what}: {item.reason} {item.remedy}")


def show(result: ConvertResult) -> None:
    """The report of a conversion, with the warnings repeated."""
    from rich.text import Text

    from deltaberg.cli.console import facts, plural, stdout
    from deltaberg.cli.plan import table_name

    out = stdout()
    if result.already_current:
        out.print(
            Text(
                f"{table_name(result.plan.target)} at {result.target} is current already: nothing written", style="bold"
            )
        )
        return
    out.print(Text.assemble((table_name(result.plan.source), "bold"), " → ", (table_name(result.plan.target), "bold")))
    out.print(
        facts(
            {
                "written": result.target_metadata,
                "commits": f"{len(result.commits):,}",
                "files": f"{plural(result.files, 'data file')}, {result.rewritten_files:,} of them rewritten",
                "rows": f"{result.rows:,}",
            }
        )
    )
    for item in result.plan.items:
        if item.severity == "warning":
            out.print(Text.assemble(("  warning  ", "yellow"), (item.code, "bold"), f"  {item.what}: {item.reason}"))
