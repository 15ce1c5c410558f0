"""Changes to a table that become visible together (section "Commit Conflict Resolution and Retry")."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import count
from types import TracebackType
from typing import TYPE_CHECKING

from deltaberg.errors import error_context
from deltaberg.iceberg.commit import commit_to_catalog, commit_to_folder, commit_waits, delete_trimmed_metadata
from deltaberg.iceberg.conflict_check import check_between
from deltaberg.iceberg.errors import IcebergConflict, InvalidIcebergRequest
from deltaberg.iceberg.manifest.rolling_manifests import ManifestFolder
from deltaberg.iceberg.metadata.metadata_builder import MetadataBuilder
from deltaberg.iceberg.metadata.metadata_update import (
    AddSchema,
    AddSnapshot,
    AddSortOrder,
    AddSpec,
    AssignUuid,
    MetadataUpdate,
    RemoveProperties,
    RemoveSnapshotRef,
    RemoveSnapshots,
    SetCurrentSchema,
    SetDefaultSpec,
    SetLocation,
    SetPartitionStatistics,
    SetProperties,
    SetSnapshotRef,
    SetStatistics,
    UpgradeFormatVersion,
)
from deltaberg.iceberg.metadata.snapshot import OPERATION, Operation
from deltaberg.iceberg.metadata.snapshot_ref import MAIN_BRANCH, RefType, SnapshotRef
from deltaberg.iceberg.metadata.statistics_file import PartitionStatisticsFile, StatisticsFile
from deltaberg.iceberg.metadata.table_metadata import TableMetadata
from deltaberg.iceberg.metadata.table_properties import (
    COMMIT_MAX_WAIT_MS,
    COMMIT_MIN_WAIT_MS,
    COMMIT_RETRIES,
    MANIFEST_TARGET_SIZE,
    METADATA_DELETE_OLD,
    METADATA_PATH,
    bool_property,
    int_property,
    manifest_codec,
)
from deltaberg.iceberg.metadata.table_requirement import (
    AssertCurrentSchemaId,
    AssertDefaultSortOrderId,
    AssertDefaultSpecId,
    AssertLastAssignedFieldId,
    AssertLastAssignedPartitionId,
    AssertRefSnapshotId,
    AssertTableUuid,
    TableRequirement,
)
from deltaberg.iceberg.partition.partition_spec import PartitionSpec
from deltaberg.iceberg.partition.sort_order import SortOrder
from deltaberg.iceberg.partition.spec_update import SpecUpdate
from deltaberg.iceberg.pending_files import PendingFiles
from deltaberg.iceberg.runtime import Runtime, snapshot_id_of
from deltaberg.iceberg.schema.format_version import requested_version
from deltaberg.iceberg.schema.schema import Schema
from deltaberg.iceberg.schema.schema_update import SchemaUpdate
from deltaberg.iceberg.schema.type_promotion import check_evolution
from deltaberg.iceberg.snapshot_write.snapshot_builder import SnapshotBuilder, SnapshotRequest
from deltaberg.iceberg.snapshot_write.snapshot_manifests import SnapshotManifests
from deltaberg.iceberg.snapshot_write.snapshot_updates import snapshot_updates
from deltaberg.storage import StorageError
from deltaberg.storage.commit_put import CommitIntent

if TYPE_CHECKING:
    from deltaberg.iceberg.table import Table

_LONG_MAX = 2**63 - 1


class Transaction:
    """A sequence of changes on top of one version of a table; ``commit`` makes all of them visible or none.

    Files are written as the changes are made and deleted again when the commit fails or the transaction is aborted
    (leave the ``with`` block without a commit). On a conflict the changes are applied to the table as it is then and
    tried again, as often as ``commit.retry.*`` says, unless they depend on what was changed.
    """

    def __init__(self, base: Table, *, creates: bool = False, runtime: Runtime | None = None) -> None:
        self._base = base
        self._creates = creates
        self._surroundings = Runtime() if runtime is None else runtime
        self._actions: list[MetadataUpdate | SnapshotBuilder] = []
        self._staged = base.metadata
        self._requirements: list[TableRequirement] = []
        self._files = PendingFiles(base.storage)
        self._numbers = count()
        self._snapshot_ids: set[int] = set()
        self._closed = False
        self._intent = CommitIntent(base.storage)
        if not creates and base.metadata.table_uuid is not None:
            self._requirements.append(AssertTableUuid(uuid=base.metadata.table_uuid))

    def __enter__(self) -> Transaction:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._closed:
            self.abort()

    @property
    def metadata(self) -> TableMetadata:
        """The table's metadata with the changes so far, snapshots not included."""
        return self._staged

    def _apply(self, *updates: MetadataUpdate) -> None:
        self._check_open()
        builder = MetadataBuilder(self._staged, now_ms=self._staged.last_updated_ms)
        for update in updates:
            builder.apply(update)
        self._staged = replace(
            builder.build(previous_location=None), last_updated_ms=self._base.metadata.last_updated_ms
        )
        self._actions += updates

    def _check_open(self) -> None:
        if self._closed:
            raise InvalidIcebergRequest("Cannot change the table: the transaction has ended")

    def require(self, requirement: TableRequirement) -> Transaction:
        """Commit only if the requirement still holds; otherwise the commit raises IcebergConflict."""
        self._requirements.append(requirement)
        return self

    def set_properties(self, updates: Mapping[str, str], *, remove: Iterable[str] = ()) -> Transaction:
        """Add, replace and remove table properties."""
        removals = tuple(remove)
        if updates:
            self._apply(SetProperties(updates=dict(updates)))
        if removals:
            self._apply(RemoveProperties(removals=removals))
        return self

    def set_location(self, location: str) -> Transaction:
        """Change where new files go."""
        self._apply(SetLocation(location=location))
        return self

    def upgrade(self, format_version: int | str) -> Transaction:
        """Upgrade to 2, 3 or ``4-preview``; the same version changes nothing."""
        version = format_version if format_version == self._staged.format_version else requested_version(format_version)
        if self._staged.table_uuid is None:
            self._apply(AssignUuid(uuid=self._surroundings.new_uuid()))
        self._apply(UpgradeFormatVersion(format_version=int(version)))
        return self

    def set_schema(self, schema: Schema, *, last_column_id: int | None = None) -> int:
        """Make a schema with explicit field ids current and return its schema id.

        A schema that the table has is used again; another one keeps its id if that is free. Raises
        InvalidIcebergRequest for a change that the specification forbids.
        """
        metadata = self._staged
        self._require_schema()
        known = next((each for each in metadata.schemas if each.same_fields(schema)), None)
        if known is not None:
            if known.schema_id != metadata.current_schema_id:
                self._apply(SetCurrentSchema(schema_id=known.schema_id))
            return known.schema_id
        check_evolution(metadata.schema, schema, format_version=metadata.format_version, spec=metadata.spec)
        taken = {each.schema_id for each in metadata.schemas}
        schema_id = schema.schema_id if schema.schema_id not in taken else max(taken) + 1
        highest = max(metadata.last_column_id, schema.highest_field_id, last_column_id or 0)
        self._apply(AddSchema(schema=replace(schema, schema_id=schema_id), last_column_id=highest))
        return schema_id

    def update_schema(self, change: Callable[[SchemaUpdate], object]) -> int:
        """Evolve the current schema by name, new fields under fresh ids, and return the new schema's id.

        ``change`` makes its changes on the SchemaUpdate that it is given.
        """
        update = SchemaUpdate(self._staged)
        change(update)
        return self.set_schema(update.schema(), last_column_id=update.last_column_id)

    def _require_schema(self) -> None:
        if not self._creates:
            base = self._base.metadata
            self._requirements += [
                AssertCurrentSchemaId(current_schema_id=base.current_schema_id),
                AssertLastAssignedFieldId(last_assigned_field_id=base.last_column_id),
            ]

    def set_spec(self, spec: PartitionSpec) -> int:
        """Make a partition spec with explicit field ids the default and return its spec id.

        A spec that agrees with one of the table's in sources, transforms and names is that one; another keeps its id if
        that is free.
        """
        metadata = self._staged
        if not self._creates:
            base = self._base.metadata
            self._requirements += [
                AssertLastAssignedPartitionId(last_assigned_partition_id=base.last_partition_id),
                AssertDefaultSpecId(default_spec_id=base.default_spec_id),
            ]
        # Writers must not add a spec where a compatible one exists, whatever ids its fields have.
        known = next((each for each in metadata.partition_specs if each.compatible(spec)), None)
        if known is not None:
            known.check(metadata.schema)
            if known.spec_id != metadata.default_spec_id:
                self._apply(SetDefaultSpec(spec_id=known.spec_id))
            return known.spec_id
        taken = {each.spec_id for each in metadata.partition_specs}
        spec_id = spec.spec_id if spec.spec_id not in taken else max(taken) + 1
        self._apply(AddSpec(spec=replace(spec, spec_id=spec_id)))
        return spec_id

    def update_spec(self, change: Callable[[SpecUpdate], object]) -> int:
        """Evolve the default partition spec by name and return the new spec's id."""
        update = SpecUpdate(self._staged)
        change(update)
        return self.set_spec(update.spec())

    def set_sort_order(self, order: SortOrder) -> int:
        """Make a sort order the default and return its id; one that the table has is used again."""
        metadata = self._staged
        if not self._creates:
            default = self._base.metadata.default_sort_order_id
            self._requirements.append(AssertDefaultSortOrderId(default_sort_order_id=default))
        known = next((each for each in metadata.sort_orders if each.same_fields(order)), None)
        if known is None:
            taken = {each.order_id for each in metadata.sort_orders} | {0}
            free = order.order_id not in taken
            known = replace(order, order_id=0 if order.is_unsorted else order.order_id if free else max(taken) + 1)
        self._apply(AddSortOrder(sort_order=known))
        return known.order_id

    def set_ref(
        self,
        name: str,
        snapshot_id: int,
        *,
        type: RefType = RefType.BRANCH,
        min_snapshots_to_keep: int | None = None,
        max_snapshot_age_ms: int | None = None,
        max_ref_age_ms: int | None = None,
    ) -> Transaction:
        """Create, move or re-configure a branch or tag; the snapshot may be one of this transaction."""
        self._require_ref(name)
        ref = SnapshotRef(
            snapshot_id=snapshot_id,
            type=type,
            min_snapshots_to_keep=min_snapshots_to_keep,
            max_snapshot_age_ms=max_snapshot_age_ms,
            max_ref_age_ms=max_ref_age_ms,
        )
        ref.check(name)
        update = SetSnapshotRef(name=name, ref=ref)
        if snapshot_id in self._snapshot_ids:
            self._check_open()
            self._actions.append(update)
        else:
            self._apply(update)
        return self

    def remove_ref(self, name: str) -> Transaction:
        """Remove a branch or tag."""
        self._require_ref(name)
        self._apply(RemoveSnapshotRef(name=name))
        return self

    def _require_ref(self, name: str) -> None:
        if not self._creates:
            found = self._base.metadata.refs.get(name)
            self._requirements.append(
                AssertRefSnapshotId(ref=name, snapshot_id=None if found is None else found.snapshot_id)
            )

    def rollback_to(self, snapshot_id: int, *, branch: str = MAIN_BRANCH) -> Transaction:
        """Move a branch back to one of its ancestors. Raises InvalidIcebergRequest when it is none."""
        ref = self._staged.ref(branch)
        if all(each.snapshot_id != snapshot_id for each in self._staged.ancestors(ref.snapshot_id)):
            raise InvalidIcebergRequest(
                f"Cannot roll {branch} back to snapshot {snapshot_id}: it is not an ancestor of snapshot "
                f"{ref.snapshot_id}"
            )
        self._require_ref(branch)
        self._apply(SetSnapshotRef(name=branch, ref=replace(ref, snapshot_id=snapshot_id)))
        return self

    def remove_snapshots(self, snapshot_ids: Iterable[int]) -> Transaction:
        """Expire snapshots from the metadata; none of their files is deleted."""
        self._apply(RemoveSnapshots(snapshot_ids=tuple(snapshot_ids)))
        return self

    def set_statistics(self, statistics: StatisticsFile) -> Transaction:
        """Register the statistics file of a snapshot."""
        self._apply(SetStatistics(statistics=statistics))
        return self

    def set_partition_statistics(self, statistics: PartitionStatisticsFile) -> Transaction:
        """Register the partition statistics file of a snapshot."""
        self._apply(SetPartitionStatistics(statistics=statistics))
        return self

    def snapshot(
        self,
        operation: Operation | str,
        *,
        branch: str | None = MAIN_BRANCH,
        snapshot_id: int | None = None,
        timestamp_ms: int | None = None,
        sequence_number: int | None = None,
        first_row_id: int | None = None,
        summary: Mapping[str, str] | None = None,
        merge_manifests: bool | None = None,
    ) -> SnapshotBuilder:
        """Begin a snapshot; its files are given to the builder that is returned.

        What is None is assigned at commit. ``branch`` None stages the snapshot without moving any branch;
        ``merge_manifests`` None does as the table's properties say. The snapshot is made under the schema and specs
        that are current now.
        """
        self._check_open()
        metadata = self._staged
        commit_uuid = self._surroundings.new_uuid()
        if snapshot_id is None:
            snapshot_id = snapshot_id_of(commit_uuid)
            while self._is_taken(snapshot_id):
                snapshot_id = snapshot_id_of(self._surroundings.new_uuid())
        elif self._is_taken(snapshot_id) or not 0 <= snapshot_id <= _LONG_MAX:
            raise InvalidIcebergRequest(f"Cannot use snapshot id {snapshot_id}: it is taken or not a positive long")
        self._snapshot_ids.add(snapshot_id)
        try:
            kind = Operation(operation)
        except ValueError as error:
            known = ", ".join(each.value for each in Operation)
            raise InvalidIcebergRequest(f"Cannot commit operation {operation}: expected {known}") from error
        request = SnapshotRequest(
            operation=kind,
            branch=branch,
            snapshot_id=snapshot_id,
            timestamp_ms=self._surroundings.now_ms() if timestamp_ms is None else timestamp_ms,
            sequence_number=sequence_number,
            first_row_id=first_row_id,
            summary={key: text for key, text in (summary or {}).items() if key != OPERATION},
            merge_manifests=merge_manifests,
        )
        folder = ManifestFolder(
            files=self._files,
            folder=self._manifest_folder(),
            commit_uuid=commit_uuid,
            format_version=metadata.format_version,
            snapshot_id=snapshot_id,
            target_size=int_property(metadata.properties, MANIFEST_TARGET_SIZE, 8 * 1024 * 1024, low=1),
            codec=manifest_codec(metadata.properties),
            numbers=self._numbers,
        )
        builder = SnapshotBuilder(request, metadata=metadata, folder=folder, files=self._files)
        self._actions.append(builder)
        return builder

    def _is_taken(self, snapshot_id: int) -> bool:
        return snapshot_id in self._snapshot_ids or self._staged.has_snapshot(snapshot_id)

    def _manifest_folder(self) -> str:
        metadata = self._staged
        if self._base.catalog is not None and METADATA_PATH in metadata.properties:
            return metadata.properties[METADATA_PATH].rstrip("/")
        return f"{metadata.location.rstrip('/')}/metadata"

    def commit(self, *, timestamp_ms: int | None = None) -> Table:
        """Make the changes visible and return the table as it is then; without changes, the table itself.

        ``timestamp_ms``: when, by the caller's clock. Raises IcebergConflict when another writer changed what the
        commit depends on or was faster at every attempt, IcebergCommitStateUnknown when the outcome cannot be learnt
        (no file is touched then), and any other error after the files that were written have been deleted.
        """
        self._check_open()
        if not self._actions and not self._creates:
            self._closed = True
            return self._base
        with error_context(table=self._base.metadata.location):
            try:
                return self._commit(timestamp_ms)
            except BaseException:
                self.abort()
                raise

    def abort(self) -> None:
        """End the transaction and delete the files that it wrote, unless a commit of it may stand."""
        self._closed = True
        if not self._intent.may_stand:
            self._files.delete_except(frozenset())

    def _commit(self, timestamp_ms: int | None) -> Table:
        properties = self._base.metadata.properties
        retries = int_property(properties, COMMIT_RETRIES, 4)
        waits = commit_waits(
            int_property(properties, COMMIT_MIN_WAIT_MS, 100), int_property(properties, COMMIT_MAX_WAIT_MS, 60_000)
        )
        base = self._base
        manifests = SnapshotManifests(base.storage)
        for attempt in range(retries + 1):
            if attempt > 0:
                self._surroundings.wait_ms(next(waits))
                base = self._refreshed(base)
            now = self._surroundings.now_ms() if timestamp_ms is None else timestamp_ms
            metadata, updates = self._produce(base, manifests, now, retried=attempt > 0)
            try:
                location = self._swap(base, metadata, updates)
            except IcebergConflict:
                if attempt == retries or self._creates:
                    raise
                continue
            return self._committed(base, metadata, location, manifests, updates)
        raise IcebergConflict("Cannot commit: other commits were faster every time")

    def _refreshed(self, base: Table) -> Table:
        """The table as it is now, if the changes still apply to it."""
        current = base.refresh()
        for requirement in self._requirements:
            requirement.check(current.metadata)
        if current.metadata.format_version != self._base.metadata.format_version:
            raise IcebergConflict("Cannot commit: the table's format version changed; read the table again")
        for action in self._actions:
            if isinstance(action, SnapshotBuilder):
                check_between(action, self._base.metadata, current.metadata)
        return current

    def _produce(
        self, base: Table, manifests: SnapshotManifests, now: int, *, retried: bool
    ) -> tuple[TableMetadata, list[MetadataUpdate]]:
        builder = MetadataBuilder(base.metadata, now_ms=now)
        updates: list[MetadataUpdate] = []
        previous = None if self._creates else base.metadata_location
        for action in self._actions:
            if isinstance(action, SnapshotBuilder):
                snapshot = action.produce(builder.heads(), manifests, retried=retried)
                made = snapshot_updates(action, snapshot, builder.refs)
            else:
                made = [action]
            for update in made:
                builder.apply(update)
            updates += made
        return builder.build(previous_location=previous), updates

    def _swap(self, base: Table, metadata: TableMetadata, updates: list[MetadataUpdate]) -> str:
        previous = None if self._creates else base.metadata_location
        if base.catalog is None:
            return commit_to_folder(base.storage, base.metadata_folder, previous, metadata, self._intent)
        return commit_to_catalog(
            base.storage,
            base.catalog,
            metadata.properties.get(METADATA_PATH, f"{metadata.location.rstrip('/')}/metadata"),
            previous,
            metadata,
            uuid=self._surroundings.new_uuid(),
            requirements=self._requirements,
            updates=updates,
            files=self._files,
            intent=self._intent,
        )

    def _committed(
        self,
        base: Table,
        metadata: TableMetadata,
        location: str,
        manifests: SnapshotManifests,
        updates: list[MetadataUpdate],
    ) -> Table:
        """The new table, after files of former attempts and trimmed metadata files have been deleted."""
        self._closed = True
        with suppress(StorageError, MemoryError):  # the commit stands, clean or not
            used = {location}
            for update in updates:
                if isinstance(update, AddSnapshot):
                    used.add(update.snapshot.manifest_list or "")
                    used.update(each.manifest_path for each in manifests.of(update.snapshot, metadata))
            self._files.delete_except(frozenset(used))
        if bool_property(metadata.properties, METADATA_DELETE_OLD, default=False):
            delete_trimmed_metadata(base.storage, base.metadata, metadata)
        return replace(base, metadata=metadata, metadata_location=location)
