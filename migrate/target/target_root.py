"""The folder of a target table: where the user asked for it, never where only metadata puts it."""

from __future__ import annotations

import os
from typing import Final

from deltaberg.errors import UsageError
from deltaberg.iceberg.metadata.metadata_location import METADATA_FOLDER, is_metadata_file
from deltaberg.migrate.source import IcebergSource, Source, TableFormat
from deltaberg.migrate.target.locations import real_location
from deltaberg.storage import GuardedStorage, Storage, StorageError, canonical_location, guarded, refuse_credentials

ICEBERG_FOLDER: Final = "_iceberg"
"""Where the Iceberg table of a Delta table goes: VACUUM does not enter it."""

_LOG_FOLDER: Final = "_delta_log"


def usual_root(location: str, to: TableFormat) -> str:
    """Where the target of a table goes as far as the table's location tells: an Iceberg table may say that it is elsewhere."""
    folder = location.rstrip("/")
    if to is TableFormat.ICEBERG:
        return f"{folder}/{ICEBERG_FOLDER}"
    return folder.rpartition("/")[0].removesuffix(f"/{METADATA_FOLDER}") if is_metadata_file(folder) else folder


def target_root(source: Source, target: str | None) -> str:
    """The folder of the target table: ``target``, or the usual one below the location that the user typed.

    Raises UsageError where the metadata places an Iceberg table elsewhere and the user has chosen none, for a folder in
    which a cleaner of the source would delete the target, and for one inside a log or metadata folder of a table.
    """
    if target is not None:
        refuse_credentials(target)
    if isinstance(source, IcebergSource):
        root = target.rstrip("/") if target is not None else _iceberg_root(source)
        _refuse_inside_metadata(source.storage, root)
        return root
    own = source.snapshot.table_root.rstrip("/")
    if target is None:
        return f"{own}/{ICEBERG_FOLDER}"
    root = target.rstrip("/")
    below = root.removeprefix(own).strip("/").split("/") if f"{root}/".startswith(f"{own}/") else None
    _refuse_inside_metadata(source.storage, root)
    if below is not None and not any(part.startswith(("_", ".")) for part in below):
        raise UsageError(
            f"Cannot write the Iceberg table to {root}: VACUUM of the Delta table {own} deletes visible folders that it "
            f"does not know; leave --target out ({own}/{ICEBERG_FOLDER}) or choose a folder elsewhere"
        )
    return root


def _iceberg_root(source: IcebergSource) -> str:
    """The table's own folder, in the metadata's spelling where both mean one place."""
    stated, typed = source.table.metadata.location, source.folder
    place = source.storage.resolve(typed)
    try:
        claimed = source.storage.resolve(stated)
    except StorageError:
        claimed = stated
    if claimed.rstrip("/") == place.rstrip("/"):
        return real_location(source.storage, stated).rstrip("/")
    if _is_one_folder(claimed, place):
        return place.rstrip("/")
    if _is_relocated(source.storage, stated, claimed):
        return claimed.rstrip("/")
    raise UsageError(
        f"Cannot choose the folder of the Delta table: the metadata of {typed} places the table in {stated}, where nobody asked "
        f"to write; give --relocate {stated}={typed} if it was copied, or say with --target where to write"
    )


def _is_one_folder(one: str, other: str) -> bool:
    """Whether two local paths lead to one folder: symbolic links, ``..`` and the like."""
    return one.startswith("/") and other.startswith("/") and os.path.realpath(one) == os.path.realpath(other)


def _is_relocated(storage: Storage, stated: str, claimed: str) -> bool:
    """Whether the user said that the table is where ``claimed`` says."""
    try:
        moved = canonical_location(stated) != claimed
    except StorageError:
        moved = stated != claimed
    return moved or (isinstance(storage, GuardedStorage) and storage.relocates_to(claimed))


def _refuse_inside_metadata(storage: Storage, root: str) -> None:
    """Raise UsageError for a folder in a log or metadata folder of a table: engines take its files for their own."""
    # The target may be in another store than the source, and is the user's own word.
    storage = guarded(storage, [root])
    parts = storage.resolve(root).split("/")
    for place, part in enumerate(parts):
        if part == _LOG_FOLDER or (part == METADATA_FOLDER and _is_metadata_folder(storage, parts[: place + 1])):
            folder = "/".join(parts[: place + 1])
            kind = "the log of a Delta table" if part == _LOG_FOLDER else "the metadata of an Iceberg table"
            raise UsageError(
                f"Cannot write a table to {root}: {folder} is for {kind}; choose the folder of a table with --target "
                f"(such as {'/'.join(parts[:place]) or '/'})"
            )


def _is_metadata_folder(storage: Storage, parts: list[str]) -> bool:
    """Whether a folder called ``metadata`` is that of a table: below ``_iceberg``, or by what is in it."""
    if parts[-2:-1] == [ICEBERG_FOLDER]:
        return True
    try:
        return any(is_metadata_file(file.location) for file in storage.list("/".join(parts)))
    except StorageError:
        return False
