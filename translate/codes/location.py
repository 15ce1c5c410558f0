"""Codes about where a table's files are: beside its own folder, or in another store."""

from __future__ import annotations

from typing import Final

from deltaberg.translate.findings import Code, Severity

_BOTH: Final = ("iceberg", "delta")

OUTSIDE_FILES: Final = Code(
    name="files-outside-table",
    severity=Severity.WARNING,
    to=_BOTH,
    reason="The metadata names files that are not below the table's own folder; they are read with your credentials, "
    "and the target names them as well.",
    remedy="Make sure that the table may use that folder, and confirm it with --allow-location PREFIX; otherwise "
    "--strict refuses the files.",
    example="a shallow clone, a table after add_files, `../` in a path",
    strict=Severity.REFUSE,
)
OUTSIDE_ALLOWED: Final = Code(
    name="files-where-allowed",
    severity=Severity.INFO,
    to=_BOTH,
    reason="The metadata names files that are not below the table's own folder, where --allow-location or --relocate "
    "allows them.",
    remedy="Nothing to do.",
    example="a shallow clone, converted with --allow-location and the folder of its origin",
)
OTHER_STORE: Final = Code(
    name="files-in-another-store",
    severity=Severity.REFUSE,
    to=_BOTH,
    reason="The metadata names files in another store than the table's own (another bucket or host, local files of a "
    "table in a bucket), or a URL with credentials in it. Nothing of that store was contacted.",
    remedy="Name the store with --allow-location PREFIX if the files belong to the table, or say with --relocate "
    "OLD=NEW where they are.",
    example="a table in s3://lake whose log names file:/etc/passwd",
)
