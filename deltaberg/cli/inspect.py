"""``deltaberg inspect``: describe a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltaberg.cli import options
from deltaberg.cli.selection import where
from deltaberg.redaction import redacted

if TYPE_CHECKING:
    from deltaberg.migrate.inspection import Inspection


def inspect(
    table: options.Table,
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
    """Describe a table from its metadata.

    Format, version, schema, partitioning, features, counts, deletes and size. No data file is opened.

    \b
    Example:
      deltaberg inspect warehouse/flights --as-of 2024-05-01
    """
    from deltaberg import api
    from deltaberg.cli.console import print_json

    inspection = api.inspect(
        table,
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
    if json:
        print_json(inspection.to_json())
    else:
        show(inspection)


def show(inspection: Inspection) -> None:
    """Facts first, then one line a column."""
    from rich.text import Text

    from deltaberg.cli.console import count, deletes, facts, grid, moment, plural, size, stdout

    out = stdout()
    iceberg = inspection.format == "iceberg"
    out.print(Text(inspection.location, style="bold"))
    at = (
        "no snapshot yet"
        if inspection.version is None
        else f"{'snapshot' if iceberg else 'version'} {inspection.version}"
    )
    when = moment(inspection.timestamp_ms)
    version_of_format = f"v{inspection.format_version}" if iceberg else f"({inspection.format_version})"
    out.print(
        facts(
            {
                "format": f"{'Iceberg' if iceberg else 'Delta'} {version_of_format}",
                "name": inspection.name or "",
                "state": f"{at}, {when}" if when else at,
                "partitioned by": ", ".join(inspection.partitioning) or "nothing",
                "features": ", ".join(inspection.features),
                "files": count(inspection.files),
                "rows": count(inspection.rows),
                "size": size(inspection.bytes),
                "deletes": deletes(inspection.deletes) or "none",
                "made from": _position(inspection),
                "uuid": inspection.uuid,
            }
        )
    )
    out.print()
    shown = [("column", [column.name for column in inspection.columns])]
    shown.append(("type", [column.type for column in inspection.columns]))
    shown.append(("null", ["yes" if column.nullable else "no" for column in inspection.columns]))
    if any(column.field_id is not None for column in inspection.columns):
        shown.insert(
            0, ("id", ["" if column.field_id is None else str(column.field_id) for column in inspection.columns])
        )
    if any(column.comment for column in inspection.columns):
        shown.append(("comment", [redacted(column.comment or "") for column in inspection.columns]))
    columns = grid(*(name for name, _ in shown), right=("id",))
    for row in zip(*(cells for _, cells in shown), strict=True):
        columns.add_row(*row)
    out.print(columns)
    if inspection.properties:
        out.print()
        out.print(Text("properties", style="bold"))
        out.print(facts(dict(sorted(inspection.properties.items()))))
    for item in inspection.warnings:
        out.print()
        out.print(Text(f"{item.severity}  {item.code}  {item.what}  ({plural(item.files, 'file')})", style="yellow"))
        out.print(Text(f"        {item.reason}"))


def _position(inspection: Inspection) -> str:
    return (
        "" if inspection.position is None else ", ".join(f"{key} {value}" for key, value in inspection.position.items())
    )
