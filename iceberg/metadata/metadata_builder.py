"""Applies updates to table metadata, keeping every rule that readers check."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from deltaberg.iceberg.errors import InvalidIcebergRequest
from deltaberg.iceberg.metadata.encryption_key import EncryptionKey
from deltaberg.iceberg.metadata.location import qualify_location
from deltaberg.iceberg.metadata.metadata_update import (
    AddEncryptionKey,
    AddSchema,
    AddSnapshot,
    AddSortOrder,
    AddSpec,
    AssignUuid,
    MetadataUpdate,
    RemovePartitionStatistics,
    RemoveProperties,
    RemoveSnapshotRef,
    RemoveSnapshots,
    RemoveStatistics,
    SetCurrentSchema,
    SetDefaultSpec,
    SetLocation,
    SetPartitionStatistics,
    SetProperties,
    SetSnapshotRef,
    SetStatistics,
    UpgradeFormatVersion,
)
from deltaberg.iceberg.metadata.snapshot import Snapshot, SnapshotLogEntry
from deltaberg.iceberg.metadata.snapshot_ref import MAIN_BRANCH, SnapshotRef
from deltaberg.iceberg.metadata.table_metadata import MetadataLogEntry, TableMetadata, map_locations
from deltaberg.iceberg.metadata.table_properties import metadata_versions_kept
from deltaberg.iceberg.partition.partition_spec import PartitionSpec
from deltaberg.iceberg.partition.sort_order import SortOrder
from deltaberg.iceberg.schema.format_version import check_schema_version, check_upgrade
from deltaberg.iceberg.schema.schema import Schema


class MetadataBuilder:
    """Table metadata in the making; ``build`` gives the new version. Raises InvalidIcebergRequest."""

    def __init__(self, base: TableMetadata, *, now_ms: int) -> None:
        self._base = base
        self._now_ms = now_ms
        self.format_version = base.format_version
        self.table_uuid = base.table_uuid
        self.location = base.location
        self.stores_location = base.stores_location
        self.properties = dict(base.properties)
        self.schemas: dict[int, Schema] = {schema.schema_id: schema for schema in base.schemas}
        self.current_schema_id = base.current_schema_id
        self.last_column_id = base.last_column_id
        self.specs: dict[int, PartitionSpec] = {spec.spec_id: spec for spec in base.partition_specs}
        self.default_spec_id = base.default_spec_id
        self.last_partition_id = base.last_partition_id
        self.sort_orders: dict[int, SortOrder] = {order.order_id: order for order in base.sort_orders}
        self.default_sort_order_id = base.default_sort_order_id
        self.snapshots: dict[int, Snapshot] = {snapshot.snapshot_id: snapshot for snapshot in base.snapshots}
        self.snapshot_log = list(base.snapshot_log)
        self.refs: dict[str, SnapshotRef] = dict(base.refs)
        self.current_snapshot_id = base.current_snapshot_id
        self.last_sequence_number = base.last_sequence_number
        self.next_row_id = base.next_row_id
        self.statistics = {item.snapshot_id: item for item in base.statistics}
        self.partition_statistics = {item.snapshot_id: item for item in base.partition_statistics}
        self.encryption_keys: dict[str, EncryptionKey] = {key.key_id: key for key in base.encryption_keys}

    def apply(self, update: MetadataUpdate) -> None:
        """Apply one update on top of those before it."""
        match update:
            case UpgradeFormatVersion():
                self._upgrade(update.format_version)
            case AssignUuid():
                if self.table_uuid not in (None, update.uuid):
                    raise InvalidIcebergRequest(f"Cannot give the table UUID {update.uuid}: it has {self.table_uuid}")
                self.table_uuid = update.uuid
            case SetLocation():
                self.location = update.location
                self.stores_location = True
            case SetProperties():
                self.properties.update(update.updates)
            case RemoveProperties():
                for key in update.removals:
                    self.properties.pop(key, None)
            case AddSchema():
                self._add_schema(update)
            case SetCurrentSchema():
                self._known(update.schema_id in self.schemas, f"schema {update.schema_id}")
                self.current_schema_id = update.schema_id
            case AddSpec():
                self._add_spec(update)
            case SetDefaultSpec():
                self._known(update.spec_id in self.specs, f"partition spec {update.spec_id}")
                self.default_spec_id = update.spec_id
            case AddSortOrder():
                update.sort_order.check(self.schemas[self.current_schema_id])
                self.sort_orders[update.sort_order.order_id] = update.sort_order
                self.default_sort_order_id = update.sort_order.order_id
            case AddSnapshot():
                self._add_snapshot(update.snapshot)
            case RemoveSnapshots():
                self._remove_snapshots(update.snapshot_ids)
            case SetSnapshotRef():
                self._set_ref(update)
            case RemoveSnapshotRef():
                if self.refs.pop(update.name, None) is not None and update.name == MAIN_BRANCH:
                    self.current_snapshot_id = None
                    self.snapshot_log.clear()
            case SetStatistics():
                self.statistics[update.statistics.snapshot_id] = update.statistics
            case RemoveStatistics():
                self.statistics.pop(update.snapshot_id, None)
            case SetPartitionStatistics():
                self.partition_statistics[update.statistics.snapshot_id] = update.statistics
            case RemovePartitionStatistics():
                self.partition_statistics.pop(update.snapshot_id, None)
            case AddEncryptionKey():
                self.encryption_keys[update.key.key_id] = update.key

    @staticmethod
    def _known(found: bool, what: str) -> None:
        if not found:
            raise InvalidIcebergRequest(f"Cannot change the table: it has no {what}")

    def _upgrade(self, version: int) -> None:
        if version == self.format_version:
            return
        check_upgrade(self.format_version, version, self.location)
        self.format_version = version
        if version >= 3 and self.next_row_id is None:
            # Snapshots from before the upgrade keep having no row ids.
            self.next_row_id = 0

    def _add_schema(self, update: AddSchema) -> None:
        schema = update.schema
        check_schema_version(schema, self.format_version)
        known = self.schemas.get(schema.schema_id)
        if known is not None and not known.same_fields(schema):
            raise InvalidIcebergRequest(f"Cannot add schema {schema.schema_id}: the table has another one with this id")
        if update.last_column_id < schema.highest_field_id:
            raise InvalidIcebergRequest(
                f"Cannot add schema {schema.schema_id}: last column id {update.last_column_id} is below its highest "
                f"field id {schema.highest_field_id}"
            )
        self.schemas.setdefault(schema.schema_id, schema)
        self.last_column_id = max(self.last_column_id, update.last_column_id)
        if update.make_current:
            self.current_schema_id = schema.schema_id

    def _add_spec(self, update: AddSpec) -> None:
        spec = update.spec
        known = self.specs.get(spec.spec_id)
        if known is not None and known != spec:
            raise InvalidIcebergRequest(
                f"Cannot add partition spec {spec.spec_id}: the table has another one with this id"
            )
        spec.check(self.schemas[self.current_schema_id])
        self.specs.setdefault(spec.spec_id, spec)
        self.last_partition_id = max(self.last_partition_id, spec.last_assigned_id)
        if update.make_default:
            self.default_spec_id = spec.spec_id

    def _add_snapshot(self, snapshot: Snapshot) -> None:
        what = f"Cannot add snapshot {snapshot.snapshot_id}"
        if snapshot.snapshot_id in self.snapshots:
            raise InvalidIcebergRequest(f"{what}: the table has a snapshot with this id")
        if self.format_version >= 2:
            if snapshot.sequence_number <= self.last_sequence_number:
                raise InvalidIcebergRequest(
                    f"{what}: its sequence number {snapshot.sequence_number} is not above the last one "
                    f"{self.last_sequence_number}"
                )
            self.last_sequence_number = snapshot.sequence_number
        if self.format_version >= 3:
            if snapshot.first_row_id is None or snapshot.added_rows is None or self.next_row_id is None:
                raise InvalidIcebergRequest(f"{what}: version 3 needs its first row id and added rows")
            if snapshot.first_row_id < self.next_row_id:
                raise InvalidIcebergRequest(
                    f"{what}: its first row id {snapshot.first_row_id} is below the table's next row id "
                    f"{self.next_row_id}"
                )
            self.next_row_id = snapshot.first_row_id + snapshot.added_rows
        self.snapshots[snapshot.snapshot_id] = snapshot

    def _set_ref(self, update: SetSnapshotRef) -> None:
        update.ref.check(update.name)
        snapshot = self.snapshots.get(update.ref.snapshot_id)
        if snapshot is None:
            raise InvalidIcebergRequest(
                f"Cannot set reference {update.name}: the table has no snapshot {update.ref.snapshot_id}"
            )
        known = self.refs.get(update.name)
        if known is not None and known.type is not update.ref.type:
            raise InvalidIcebergRequest(
                f"Cannot set reference {update.name} as a {update.ref.type.value}: it is a {known.type.value}"
            )
        self.refs[update.name] = update.ref
        if update.name == MAIN_BRANCH and self.current_snapshot_id != snapshot.snapshot_id:
            self.current_snapshot_id = snapshot.snapshot_id
            logged = self._now_ms if update.logged_ms is None else update.logged_ms
            if self.snapshot_log:
                # Readers refuse a log that runs backwards; the snapshot itself keeps its own time.
                logged = max(logged, self.snapshot_log[-1].timestamp_ms)
            self.snapshot_log.append(SnapshotLogEntry(snapshot_id=snapshot.snapshot_id, timestamp_ms=logged))

    def _remove_snapshots(self, snapshot_ids: tuple[int, ...]) -> None:
        gone = set(snapshot_ids)
        if self.current_snapshot_id in gone:
            raise InvalidIcebergRequest(f"Cannot remove snapshot {self.current_snapshot_id}: it is the current one")
        for snapshot_id in gone:
            self._known(snapshot_id in self.snapshots, f"snapshot {snapshot_id}")
            del self.snapshots[snapshot_id]
            self.statistics.pop(snapshot_id, None)
            self.partition_statistics.pop(snapshot_id, None)
        self.refs = {name: ref for name, ref in self.refs.items() if ref.snapshot_id not in gone}

    def _trimmed_snapshot_log(self) -> tuple[SnapshotLogEntry, ...]:
        """The log from after the last entry whose snapshot is gone."""
        last_gone = max(
            (at for at, entry in enumerate(self.snapshot_log) if entry.snapshot_id not in self.snapshots), default=-1
        )
        return tuple(self.snapshot_log[last_gone + 1 :])

    def heads(self) -> TableMetadata:
        """The metadata with no other snapshots than those that references point to: the ones that the next snapshot can
        build on.
        """
        heads = {ref.snapshot_id for ref in self.refs.values()}
        return replace(
            self._changed(self.snapshots[snapshot_id] for snapshot_id in heads),
            snapshot_log=(),
            metadata_log=(),
            statistics=(),
            partition_statistics=(),
        )

    def _changed(self, snapshots: Iterable[Snapshot]) -> TableMetadata:
        """The base with these snapshots and whatever was changed, but for its logs and statistics."""
        return replace(
            self._base,
            format_version=self.format_version,
            table_uuid=self.table_uuid,
            location=self.location,
            properties=self.properties,
            schemas=tuple(self.schemas.values()),
            current_schema_id=self.current_schema_id,
            last_column_id=self.last_column_id,
            partition_specs=tuple(self.specs.values()),
            default_spec_id=self.default_spec_id,
            last_partition_id=self.last_partition_id,
            sort_orders=tuple(self.sort_orders.values()),
            default_sort_order_id=self.default_sort_order_id,
            snapshots=tuple(snapshots),
            refs=self.refs,
            current_snapshot_id=self.current_snapshot_id,
            last_sequence_number=self.last_sequence_number,
            next_row_id=self.next_row_id,
        )

    def build(self, *, previous_location: str | None) -> TableMetadata:
        """The new metadata; ``previous_location`` is the file of the base, None for a table that is being created."""
        base = self._base
        log = list(base.metadata_log)
        if previous_location is not None:
            log.append(MetadataLogEntry(metadata_file=previous_location, timestamp_ms=base.last_updated_ms))
        kept = metadata_versions_kept(self.properties)
        snapshot_log = self._trimmed_snapshot_log()
        times = [self._now_ms]
        if previous_location is not None:
            times.append(base.last_updated_ms)
        if snapshot_log:
            times.append(snapshot_log[-1].timestamp_ms)
        built = replace(
            self._changed(self.snapshots.values()),
            stores_location=self.stores_location,
            last_updated_ms=max(times),
            snapshot_log=snapshot_log,
            metadata_log=tuple(log[max(0, len(log) - kept) :]),
            statistics=tuple(self.statistics.values()),
            partition_statistics=tuple(self.partition_statistics.values()),
            encryption_keys=tuple(self.encryption_keys.values()),
        )
        if self.format_version >= 4 and base.format_version < 4:
            # Version 4 would read a location without scheme as relative to the table.
            built = map_locations(built, lambda location: qualify_location(base.location, location))
        return built
