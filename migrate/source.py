"""Open a table of either format at one point of its history."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final
from urllib.parse import unquote

from deltaberg.delta.snapshot import Snapshot as DeltaSnapshot
from deltaberg.delta.table import DeltaTable
from deltaberg.errors import NotATable, UsageError
from deltaberg.iceberg.metadata.metadata_location import METADATA_FOLDER, is_metadata_file
from deltaberg.iceberg.metadata.snapshot import Snapshot as IcebergSnapshot
from deltaberg.iceberg.schema.read_schema import schema_at
from deltaberg.iceberg.schema.schema import Schema
from deltaberg.iceberg.table import Table as IcebergTable
from deltaberg.iceberg.table import table_folder
from deltaberg.storage import Storage, guarded, refuse_credentials
from deltaberg.storage.guarded_storage import with_target
from deltaberg.storage.location import scheme_of

_LOG_FOLDER: Final = "_delta_log"


class TableFormat(str, Enum):
    """The two formats, by the words the command line uses."""

    ICEBERG = "iceberg"
    DELTA = "delta"

    @property
    def other(self) -> TableFormat:
        return TableFormat.DELTA if self is TableFormat.ICEBERG else TableFormat.ICEBERG


@dataclass(frozen=True, slots=True, kw_only=True)
class Selector:
    """One state in a table's history; without any of these the newest one.

    version: a Delta version. snapshot_id, ref: an Iceberg snapshot, branch or tag. as_of_ms: either format, milliseconds since
    1970 UTC.
    """

    version: int | None = None
    snapshot_id: int | None = None
    ref: str | None = None
    as_of_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class IcebergSource:
    """An Iceberg table at one snapshot; ``snapshot`` is None for a table that has none yet.

    schema: in which the snapshot is read; not always the one that it was made under (``read_schema.schema_at``).
    """

    table: IcebergTable
    snapshot: IcebergSnapshot | None
    schema: Schema
    ref: str | None
    storage: Storage
    location: str

    @staticmethod
    def open(folder: str, storage: Storage, selector: Selector, *, location: str) -> IcebergSource:
        """folder: where the table is, as ``location`` says or as the store lists it. Raises as ``open_source`` does."""
        if selector.version is not None:
            raise UsageError(
                f"Cannot open version {selector.version} of {location}: it is an Iceberg table; choose with --snapshot-id "
                "or --ref"
            )
        table = IcebergTable.open(folder, storage)
        snapshot = table.snapshot_for(snapshot_id=selector.snapshot_id, ref=selector.ref, as_of_ms=selector.as_of_ms)
        return IcebergSource(
            table=table,
            snapshot=snapshot,
            schema=schema_at(table.metadata, snapshot=None if selector == Selector() else snapshot, ref=selector.ref),
            ref=selector.ref,
            storage=storage,
            location=location,
        )

    @property
    def format(self) -> TableFormat:
        return TableFormat.ICEBERG

    @property
    def folder(self) -> str:
        """The table's folder that the user typed; for a metadata file, the folder of the table that it is in; for a catalog's
        table, where the catalog has it."""
        if self.table.catalog is not None:
            return self.table.metadata.location.rstrip("/")
        location = self.location.rstrip("/") or "/"
        return table_folder(location) if is_metadata_file(location) else location

    @property
    def version(self) -> int | None:
        """The snapshot's id."""
        return None if self.snapshot is None else self.snapshot.snapshot_id

    @property
    def properties(self) -> Mapping[str, str]:
        return self.table.metadata.properties

    def with_storage(self, storage: Storage) -> IcebergSource:
        return replace(self, storage=storage, table=replace(self.table, storage=storage))


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaSource:
    """A Delta table at one version."""

    table: DeltaTable
    snapshot: DeltaSnapshot
    storage: Storage
    location: str

    @staticmethod
    def open(folder: str, storage: Storage, selector: Selector, *, location: str) -> DeltaSource:
        """folder: where the table is, as ``location`` says or as the store lists it. Raises as ``open_source`` does."""
        if selector.snapshot_id is not None or selector.ref is not None:
            what = f"snapshot {selector.snapshot_id}" if selector.snapshot_id is not None else f"ref {selector.ref}"
            raise UsageError(f"Cannot open {what} of {location}: it is a Delta table; choose with --version")
        table = DeltaTable.open(folder, storage)
        snapshot = table.snapshot(version=selector.version, as_of_ms=selector.as_of_ms)
        return DeltaSource(table=table, snapshot=snapshot, storage=storage, location=location)

    @property
    def format(self) -> TableFormat:
        return TableFormat.DELTA

    @property
    def folder(self) -> str:
        """The table's folder that the user typed."""
        return self.location.rstrip("/") or "/"

    @property
    def version(self) -> int:
        return self.snapshot.version

    @property
    def properties(self) -> Mapping[str, str]:
        return self.snapshot.metadata.configuration

    def with_storage(self, storage: Storage) -> DeltaSource:
        return replace(self, storage=storage)


Source = IcebergSource | DeltaSource

_SOURCES: Final[Mapping[TableFormat, type[IcebergSource] | type[DeltaSource]]] = {
    TableFormat.ICEBERG: IcebergSource,
    TableFormat.DELTA: DeltaSource,
}


def open_source(
    location: str,
    storage: Storage,
    *,
    version: int | None = None,
    snapshot_id: int | None = None,
    ref: str | None = None,
    as_of_ms: int | None = None,
    format: TableFormat | None = None,
    allow_locations: Iterable[str] = (),
    beside: Iterable[str] = (),
) -> Source:
    """The table at ``location`` (a folder or an Iceberg ``*.metadata.json``), at one point of its history.

    version: Delta only; snapshot_id, ref: Iceberg only; as_of_ms: either, milliseconds since 1970 UTC.
    format: which to take where both stand in one folder. allow_locations: prefixes of other stores below which the table's
    files may be. beside: other tables that the user named; their stores are read, too.

    The source's storage reads in the table's own store only; ``naming_target`` says where it may write.

    Raises NotATable where neither format's metadata stands, UsageError where both do and ``format`` is not given
    or where a selector belongs to the other format; LocationRefused where the metadata names another store.
    """
    refuse_credentials(location)
    storage = guarded(storage, [location, *beside], allow_locations=allow_locations)
    folder = location.rstrip("/") or location
    if not is_metadata_file(folder) and os.path.isfile(storage.resolve(location)):
        raise NotATable(
            f"Cannot open {location}: it is a file (expected a table's folder or an Iceberg *.metadata.json)"
        )
    try:
        found = _detect(folder, storage, format)
    except NotATable:
        listed = _as_listed(folder, storage)
        if listed is None:
            raise
        folder = location = listed
        found = _detect(folder, storage, format)
    selector = Selector(version=version, snapshot_id=snapshot_id, ref=ref, as_of_ms=as_of_ms)
    return _SOURCES[found].open(folder, storage, selector, location=location)


def naming_target(source: Source, root: str, *, writes: bool) -> Source:
    """The source with a storage that also reads the store of a target's folder, which the user named, and writes below
    the folder and nowhere else; without ``writes`` not at all.
    """
    return source.with_storage(with_target(source.storage, root, location=source.location, writes=writes))


def _as_listed(folder: str, storage: Storage) -> str | None:
    """The folder of a bucket whose key has ``%``, given with ``%25``, as other tools write URLs; None where it has no
    files.

    A key is first taken literally: only the store knows which of the two exists.
    """
    decoded = unquote(folder)
    if scheme_of(folder) in (None, "file") or decoded == folder:
        return None
    there = (f"{decoded}/{name}" for name in (_LOG_FOLDER, METADATA_FOLDER))
    return decoded if any(next(iter(storage.list(each)), None) is not None for each in there) else None


def _detect(folder: str, storage: Storage, preferred: TableFormat | None) -> TableFormat:
    if is_metadata_file(folder):
        return TableFormat.ICEBERG
    delta = next(iter(storage.list(f"{folder}/{_LOG_FOLDER}")), None) is not None
    iceberg = any(
        is_metadata_file(info.location)
        for place in (f"{folder}/{METADATA_FOLDER}", folder)
        for info in storage.list(place)
    )
    if delta and iceberg:
        if preferred is not None:
            return preferred
        raise UsageError(
            f"Cannot tell which table of {folder} is meant: it holds an Iceberg and a Delta table; choose with --format "
            "(verify: with --to, the format of the target)"
        )
    if not delta and not iceberg:
        raise NotATable(
            f"Cannot open {folder}: expected an Iceberg table (metadata/*.metadata.json) or a Delta table "
            f"({_LOG_FOLDER}/), found neither",
            path=folder,
        )
    return TableFormat.DELTA if delta else TableFormat.ICEBERG
