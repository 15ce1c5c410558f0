"""Committing a new metadata file: put-if-absent for file system tables, a pointer swap for those of a catalog.

Sections "File System Tables", "Metastore Tables", "Commit Conflict Resolution and Retry". There are three outcomes: the
new metadata file is current; it is not, because of a conflict or an error; or the outcome is unknown.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from deltaberg.errors import CommitStateUnknown, DeltabergError
from deltaberg.iceberg.catalog import CatalogCommit, CatalogTable
from deltaberg.iceberg.errors import IcebergCommitStateUnknown, IcebergConflict, InvalidIcebergRequest
from deltaberg.iceberg.metadata.metadata_location import (
    VERSION_HINT,
    MetadataName,
    catalog_metadata_name,
    file_system_metadata_name,
    join_location,
)
from deltaberg.iceberg.metadata.metadata_update import MetadataUpdate
from deltaberg.iceberg.metadata.table_metadata import TableMetadata
from deltaberg.iceberg.metadata.table_metadata_json import write_metadata
from deltaberg.iceberg.metadata.table_properties import metadata_is_gzipped
from deltaberg.iceberg.metadata.table_requirement import TableRequirement
from deltaberg.iceberg.pending_files import PendingFiles
from deltaberg.storage import Storage, StorageError
from deltaberg.storage.commit_put import CommitIntent, PutOutcome, WholeContent, put_commit


def file_system_version(base_location: str | None) -> int:
    """The version after that of a metadata file. Raises InvalidIcebergRequest for a name that belongs to a catalog."""
    if base_location is None:
        return 1
    name = base_location.rpartition("/")[2]
    parsed = MetadataName.parse(name)
    if parsed is None or parsed.from_catalog:
        raise InvalidIcebergRequest(
            f"Cannot commit to the table of {base_location}: its metadata files are named by a catalog, which alone can "
            "commit; open the table through that catalog"
        )
    return parsed.version + 1


def commit_to_folder(
    storage: Storage, folder: str, base_location: str | None, metadata: TableMetadata, intent: CommitIntent
) -> str:
    """Make metadata current in a metadata folder and return its location.

    A file with these very bytes is this commit: they name a manifest list that no other writer has, and without a new
    snapshot equal metadata is the same state.

    Raises IcebergConflict when the version exists, IcebergCommitStateUnknown when that cannot be learnt, and
    StorageError when the file was certainly not written.
    """
    version = file_system_version(base_location)
    gzip = metadata_is_gzipped(metadata.properties)
    location = join_location(folder, file_system_metadata_name(version, gzip=gzip))
    rival = join_location(folder, file_system_metadata_name(version, gzip=not gzip))
    if storage.exists(rival):
        raise _version_taken(rival)
    if _put(storage, location, write_metadata(metadata, gzip=gzip), intent) is PutOutcome.TAKEN:
        raise _version_taken(location)
    _write_hint(storage, folder, version)
    return location


def _version_taken(location: str) -> IcebergConflict:
    return IcebergConflict(f"Cannot commit {location}: another commit was faster", path=location)


def _put(storage: Storage, location: str, data: bytes, intent: CommitIntent) -> PutOutcome:
    try:
        return put_commit(storage, location, WholeContent(data), intent)
    except CommitStateUnknown as error:
        raise IcebergCommitStateUnknown(error.message, path=error.path) from error


def _write_hint(storage: Storage, folder: str, version: int) -> None:
    """Move the version hint; it is only a hint, and the commit stands without it."""
    try:
        storage.put(join_location(folder, VERSION_HINT), str(version).encode())
    except (StorageError, MemoryError):
        return


def commit_to_catalog(
    storage: Storage,
    catalog: CatalogTable,
    folder: str,
    base_location: str | None,
    metadata: TableMetadata,
    *,
    uuid: str,
    requirements: Sequence[TableRequirement],
    updates: Sequence[MetadataUpdate],
    files: PendingFiles,
    intent: CommitIntent,
) -> str:
    """Write a metadata file under a unique name and ask the catalog to make it current.

    Raises like ``CatalogTable.commit``; the file is noted among ``files``.
    """
    parsed = None if base_location is None else MetadataName.parse(base_location.rpartition("/")[2])
    version = 0 if base_location is None else (parsed.version if parsed is not None else 0) + 1
    gzip = metadata_is_gzipped(metadata.properties)
    location = files.note(join_location(folder, catalog_metadata_name(version, uuid, gzip=gzip)))
    # A unique name; the table's state is what the catalog's pointer says.
    if _put(storage, location, write_metadata(metadata, gzip=gzip), CommitIntent(None)) is PutOutcome.TAKEN:
        raise _version_taken(location)
    intent.sent(location)
    try:
        current = catalog.commit(
            CatalogCommit(
                expected=base_location,
                location=location,
                metadata=metadata,
                requirements=tuple(requirements),
                updates=tuple(updates),
            )
        )
    except CommitStateUnknown:
        raise
    except IcebergConflict as error:
        if not _points_here(catalog, location, error):
            intent.ended(location, stands=False)
            raise
        current = location
    except DeltabergError:
        intent.ended(location, stands=False)
        raise
    intent.ended(location, stands=True)
    return current


def _points_here(catalog: CatalogTable, location: str, conflict: IcebergConflict) -> bool:
    """Whether a catalog that reports a conflict has this very file: a client repeated a request whose answer was lost."""
    try:
        return catalog.current() == location
    except DeltabergError as error:
        raise IcebergCommitStateUnknown(
            f"Cannot tell whether the commit of {location} took place: the catalog reports a conflict "
            f"({conflict.message}) and cannot be asked whose ({error.message}); look whether it has that file, and "
            "delete nothing",
            path=location,
        ) from conflict


def commit_waits(shortest_ms: int, longest_ms: int) -> Iterator[float]:
    """Milliseconds to wait before each further attempt: growing, with a random share so that two writers do not collide
    again.
    """
    wait = float(shortest_ms)
    while True:
        yield random.uniform(wait / 2, wait)
        wait = min(wait * 2, float(longest_ms))


def delete_trimmed_metadata(storage: Storage, before: TableMetadata, after: TableMetadata) -> None:
    """Delete the metadata files that fell out of the metadata log. One that cannot be deleted does no harm."""
    kept = {entry.metadata_file for entry in after.metadata_log}
    for entry in before.metadata_log:
        if entry.metadata_file not in kept:
            try:
                storage.delete(entry.metadata_file)
            except StorageError:
                continue
