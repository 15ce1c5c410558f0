"""The folder of a target table."""

from __future__ import annotations

from typing import Final

from deltaberg.errors import UsageError
from deltaberg.iceberg.metadata_location import METADATA_FOLDER, is_metadata_file
from deltaberg.migrate.locations import real_location
from deltaberg.migrate.source import IcebergSource, Source, TableFormat

ICEBERG_FOLDER: Final = "_iceberg"
"""Where the Iceberg table of a Delta table goes: VACUUM does not enter it."""


def usual_root(location: str, to: TableFormat) -> str:
    """Where the target of a table goes as far as the table's location tells: an Iceberg table may say that it is elsewhere."""
    folder = location.rstrip("/")
    if to is TableFormat.ICEBERG:
        return f"{folder}/{ICEBERG_FOLDER}"
    return folder.rpartition("/")[0].removesuffix(f"/{METADATA_FOLDER}") if is_metadata_file(folder) else folder


def target_root(source: Source, target: str | None) -> str:
    """The folder of the target table. Raises UsageError for one in which a cleaner of the source would delete it."""
    if isinstance(source, IcebergSource):
        return (target or real_location(source.storage, source.table.metadata.location)).rstrip("/")
    own = source.snapshot.table_root.rstrip("/")
    if target is None:
        return f"{own}/{ICEBERG_FOLDER}"
    root = target.rstrip("/")
    below = root.removeprefix(own).strip("/").split("/") if f"{root}/".startswith(f"{own}/") else None
    if below is not None and not any(part.startswith(("_", ".")) for part in below):
        raise UsageError(
            f"Cannot write the Iceberg table to {root}: VACUUM of the Delta table {own} deletes visible folders that it "
            f"does not know; leave --target out ({own}/{ICEBERG_FOLDER}) or choose a folder elsewhere"
        )
    return root
