"""An Iceberg table at one version of its metadata."""

from __future__ import annotations

from dataclasses import dataclass, replace

from deltaberg.errors import error_context
from deltaberg.iceberg.catalog import CatalogTable
from deltaberg.iceberg.errors import (
    CorruptMetadata,
    IcebergError,
    InvalidIcebergRequest,
    NotAnIcebergTable,
    UnsupportedIcebergFeature,
)
from deltaberg.iceberg.metadata.metadata_location import METADATA_FOLDER, find_metadata, is_metadata_file, join_location
from deltaberg.iceberg.metadata.snapshot import Snapshot
from deltaberg.iceberg.metadata.table_metadata import TableMetadata
from deltaberg.iceberg.metadata.table_metadata_json import read_metadata
from deltaberg.iceberg.runtime import Runtime
from deltaberg.iceberg.schema.schema import Schema
from deltaberg.iceberg.transaction import Transaction
from deltaberg.storage import NotFound, Storage, StorageError

WRITE_METADATA_PATH = "write.metadata.path"
ENCRYPTION_KEY_ID = "encryption.key-id"


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """The metadata of a table, the file it stands in, and the storage through which its files are read.

    Every location in the metadata goes to ``storage`` as it stands; relocation happens there.
    """

    metadata: TableMetadata
    metadata_location: str
    storage: Storage
    catalog: CatalogTable | None = None

    @classmethod
    def of_catalog(cls, catalog: CatalogTable, storage: Storage) -> Table:
        """Open a table that a catalog points to; its commits go through the catalog. Raises like ``open``."""
        location = catalog.current()
        if location is None:
            raise NotAnIcebergTable("Cannot open the table: the catalog has none of this name")
        return replace(cls.open(location, storage), catalog=catalog)

    @classmethod
    def open(cls, location: str, storage: Storage) -> Table:
        """Open a table by its folder or by one of its metadata files.

        Raises NotAnIcebergTable, CorruptMetadata, UnsupportedIcebergFeature (format version, encryption) and
        InvalidIcebergRequest when the table was copied without a relocation: its metadata would lead to the
        files of the original.
        """
        location = location.rstrip("/") or location
        with error_context(table=location):
            if is_metadata_file(location):
                metadata_location = location
            else:
                metadata_location = find_metadata(storage, location)
            try:
                data = storage.get(metadata_location)
            except NotFound as error:
                raise NotAnIcebergTable(
                    f"Cannot open {location}: there is no metadata file {metadata_location}", path=metadata_location
                ) from error
            metadata = read_metadata(data, table_location=table_folder(metadata_location), path=metadata_location)
            _check_encryption(metadata)
            _check_place(metadata, metadata_location, data, storage)
            return cls(metadata=metadata, metadata_location=metadata_location, storage=storage)

    @property
    def location(self) -> str:
        """The table's base location, with which the locations of its files start."""
        return self.metadata.location

    @property
    def metadata_folder(self) -> str:
        """The folder in which the metadata file stands, and in which the next one is committed."""
        return self.metadata_location.rpartition("/")[0]

    def refresh(self) -> Table:
        """The table as it is now. Raises like ``open``, and CorruptMetadata when another table took its place."""
        if self.catalog is not None:
            current = Table.of_catalog(self.catalog, self.storage)
        else:
            current = Table.open(find_metadata(self.storage, table_folder(self.metadata_location)), self.storage)
        mine, now = self.metadata.table_uuid, current.metadata.table_uuid
        if mine is not None and now is not None and mine.lower() != now.lower():
            raise CorruptMetadata(
                f"Cannot read {current.metadata_location}: the table's UUID changed from {mine} to {now}; "
                "another table took its place"
            )
        return current

    def transaction(self, runtime: Runtime | None = None) -> Transaction:
        """Begin changes to the table."""
        return Transaction(self, runtime=runtime)

    def snapshot_for(
        self, snapshot_id: int | None = None, ref: str | None = None, as_of_ms: int | None = None
    ) -> Snapshot | None:
        """The snapshot with an id, of a branch or tag, or current at a time; by default the current one.

        None only for a table without a current snapshot. Raises InvalidIcebergRequest when there is no such snapshot
        or more than one choice is given, UnsupportedIcebergFeature when it is encrypted.
        """
        if sum(choice is not None for choice in (snapshot_id, ref, as_of_ms)) > 1:
            raise InvalidIcebergRequest(
                "Cannot choose a snapshot: give only one of snapshot id, branch or tag, and time"
            )
        with error_context(table=self.location):
            if snapshot_id is not None:
                snapshot: Snapshot | None = self.metadata.snapshot_by_id(snapshot_id)
            elif ref is not None:
                snapshot = self.metadata.snapshot_by_id(self.metadata.ref(ref).snapshot_id)
            elif as_of_ms is not None:
                snapshot = self.metadata.snapshot_as_of(as_of_ms)
            else:
                snapshot = self.metadata.current_snapshot
            if snapshot is not None and snapshot.key_id is not None:
                raise _encrypted(f"snapshot {snapshot.snapshot_id} has the key {snapshot.key_id}")
            return snapshot

    def schema_for(self, snapshot: Snapshot | None) -> Schema:
        """The schema to read a snapshot with: the one it was made under (the current one for the current snapshot)."""
        if snapshot is not None and snapshot.snapshot_id == self.metadata.current_snapshot_id:
            return self.metadata.schema
        return self.metadata.schema_for(snapshot)


def table_folder(metadata_location: str) -> str:
    """The folder of the table that a metadata file belongs to: the one above ``metadata``."""
    folder, _, name = metadata_location.rpartition("/")[0].rpartition("/")
    return folder if name == METADATA_FOLDER else metadata_location.rpartition("/")[0]


def _encrypted(reason: str) -> UnsupportedIcebergFeature:
    return UnsupportedIcebergFeature(
        f"Cannot read an encrypted table: {reason}; table encryption is not supported", feature="table encryption"
    )


def _check_encryption(metadata: TableMetadata) -> None:
    if ENCRYPTION_KEY_ID in metadata.properties:
        raise _encrypted(f"property {ENCRYPTION_KEY_ID} is set")
    snapshot = metadata.current_snapshot
    if snapshot is not None and snapshot.key_id is not None:
        raise _encrypted(f"snapshot {snapshot.snapshot_id} has the key {snapshot.key_id}")


def _store(place: str) -> str:
    """Scheme and authority of a resolved location; empty for a local path."""
    scheme, separator, rest = place.partition("://")
    return f"{scheme}://{rest.partition('/')[0]}" if separator else ""


def _check_place(metadata: TableMetadata, metadata_location: str, data: bytes, storage: Storage) -> None:
    """Refuse a table whose metadata file is elsewhere than its location says, unless the same file is there too."""
    folder, _, name = metadata_location.rpartition("/")
    if folder.rpartition("/")[2] != METADATA_FOLDER or WRITE_METADATA_PATH in metadata.properties:
        return
    opened = table_folder(metadata_location)
    try:
        claimed, place = (storage.resolve(each).rstrip("/") for each in (metadata.location, opened))
        if claimed == place:
            return
        # Another store is not asked: it may not exist, and the request may take long to fail.
        near = _store(claimed) == _store(place)
        if near and storage.get(join_location(metadata.location, f"{METADATA_FOLDER}/{name}")) == data:
            return
    except (StorageError, IcebergError):
        pass
    raise InvalidIcebergRequest(
        f"Cannot open the table in {opened}: its metadata places it in {metadata.location}; if it was copied, "
        f"relocate {metadata.location}={opened}",
        path=metadata_location,
    )
