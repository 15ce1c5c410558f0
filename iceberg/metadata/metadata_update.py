"""Single changes of table metadata, in the set and JSON form of the REST catalog.

A commit is a sequence of updates; ``metadata_builder`` applies them to the metadata that is current at each attempt.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from deltaberg.iceberg.metadata.encryption_key import EncryptionKey
from deltaberg.iceberg.metadata.snapshot import Snapshot
from deltaberg.iceberg.metadata.snapshot_ref import SnapshotRef
from deltaberg.iceberg.metadata.statistics_file import PartitionStatisticsFile, StatisticsFile
from deltaberg.iceberg.partition.partition_spec import PartitionSpec
from deltaberg.iceberg.partition.sort_order import SortOrder
from deltaberg.iceberg.schema.schema import Schema


@dataclass(frozen=True, slots=True, kw_only=True)
class UpgradeFormatVersion:
    """To a higher version; the same one changes nothing."""

    format_version: int

    def to_json(self) -> dict[str, object]:
        return {"action": "upgrade-format-version", "format-version": self.format_version}


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignUuid:
    """The UUID of a version 1 table that has none yet."""

    uuid: str

    def to_json(self) -> dict[str, object]:
        return {"action": "assign-uuid", "uuid": self.uuid}


@dataclass(frozen=True, slots=True, kw_only=True)
class SetLocation:
    """Where new files go; files that exist stay where they are."""

    location: str

    def to_json(self) -> dict[str, object]:
        return {"action": "set-location", "location": self.location}


@dataclass(frozen=True, slots=True, kw_only=True)
class SetProperties:
    """Properties added or replaced."""

    updates: Mapping[str, str] = field(hash=False)

    def to_json(self) -> dict[str, object]:
        return {"action": "set-properties", "updates": dict(self.updates)}


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveProperties:
    """Properties removed; those that are not set are ignored."""

    removals: tuple[str, ...]

    def to_json(self) -> dict[str, object]:
        return {"action": "remove-properties", "removals": list(self.removals)}


@dataclass(frozen=True, slots=True, kw_only=True)
class AddSchema:
    """A schema under its own id, made current when asked."""

    schema: Schema
    last_column_id: int
    make_current: bool = True

    def to_json(self) -> list[dict[str, object]]:
        added: dict[str, object] = {
            "action": "add-schema",
            "schema": self.schema.to_json(),
            "last-column-id": self.last_column_id,
        }
        return [added, SetCurrentSchema(schema_id=self.schema.schema_id).to_json()] if self.make_current else [added]


@dataclass(frozen=True, slots=True, kw_only=True)
class SetCurrentSchema:
    """A schema that the table has."""

    schema_id: int

    def to_json(self) -> dict[str, object]:
        return {"action": "set-current-schema", "schema-id": self.schema_id}


@dataclass(frozen=True, slots=True, kw_only=True)
class AddSpec:
    """A partition spec under its own id, made the default when asked."""

    spec: PartitionSpec
    make_default: bool = True

    def to_json(self) -> list[dict[str, object]]:
        added: dict[str, object] = {"action": "add-spec", "spec": self.spec.to_json()}
        return [added, SetDefaultSpec(spec_id=self.spec.spec_id).to_json()] if self.make_default else [added]


@dataclass(frozen=True, slots=True, kw_only=True)
class SetDefaultSpec:
    """A partition spec that the table has."""

    spec_id: int

    def to_json(self) -> dict[str, object]:
        return {"action": "set-default-spec", "spec-id": self.spec_id}


@dataclass(frozen=True, slots=True, kw_only=True)
class AddSortOrder:
    """A sort order under its own id, made the default."""

    sort_order: SortOrder

    def to_json(self) -> list[dict[str, object]]:
        return [
            {"action": "add-sort-order", "sort-order": self.sort_order.to_json()},
            {"action": "set-default-sort-order", "sort-order-id": self.sort_order.order_id},
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class AddSnapshot:
    """A snapshot whose manifest list is written; no reference points to it yet."""

    snapshot: Snapshot

    def to_json(self) -> dict[str, object]:
        return {"action": "add-snapshot", "snapshot": self.snapshot.to_json(3)}


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveSnapshots:
    """Snapshots expired from the metadata; references to them go too."""

    snapshot_ids: tuple[int, ...]

    def to_json(self) -> dict[str, object]:
        return {"action": "remove-snapshots", "snapshot-ids": list(self.snapshot_ids)}


@dataclass(frozen=True, slots=True, kw_only=True)
class SetSnapshotRef:
    """A branch or tag created, moved or given another retention.

    ``logged_ms`` is when ``main`` moved, as the snapshot log tells it; None: when the metadata is written.
    """

    name: str
    ref: SnapshotRef
    logged_ms: int | None = None

    def to_json(self) -> dict[str, object]:
        return {"action": "set-snapshot-ref", "ref-name": self.name, **self.ref.to_json()}


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveSnapshotRef:
    """A branch or tag removed; its snapshots stay."""

    name: str

    def to_json(self) -> dict[str, object]:
        return {"action": "remove-snapshot-ref", "ref-name": self.name}


@dataclass(frozen=True, slots=True, kw_only=True)
class SetStatistics:
    """The statistics file of a snapshot, replacing one that it has."""

    statistics: StatisticsFile

    def to_json(self) -> dict[str, object]:
        return {
            "action": "set-statistics",
            "snapshot-id": self.statistics.snapshot_id,
            "statistics": self.statistics.to_json(),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveStatistics:
    """The statistics file of a snapshot forgotten."""

    snapshot_id: int

    def to_json(self) -> dict[str, object]:
        return {"action": "remove-statistics", "snapshot-id": self.snapshot_id}


@dataclass(frozen=True, slots=True, kw_only=True)
class SetPartitionStatistics:
    """The partition statistics file of a snapshot, replacing one that it has."""

    statistics: PartitionStatisticsFile

    def to_json(self) -> dict[str, object]:
        return {"action": "set-partition-statistics", "partition-statistics": self.statistics.to_json()}


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovePartitionStatistics:
    """The partition statistics file of a snapshot forgotten."""

    snapshot_id: int

    def to_json(self) -> dict[str, object]:
        return {"action": "remove-partition-statistics", "snapshot-id": self.snapshot_id}


@dataclass(frozen=True, slots=True, kw_only=True)
class AddEncryptionKey:
    """A key kept for others; nothing here encrypts."""

    key: EncryptionKey

    def to_json(self) -> dict[str, object]:
        return {"action": "add-encryption-key", "encryption-key": self.key.to_json()}


MetadataUpdate: TypeAlias = (
    UpgradeFormatVersion
    | AssignUuid
    | SetLocation
    | SetProperties
    | RemoveProperties
    | AddSchema
    | SetCurrentSchema
    | AddSpec
    | SetDefaultSpec
    | AddSortOrder
    | AddSnapshot
    | RemoveSnapshots
    | SetSnapshotRef
    | RemoveSnapshotRef
    | SetStatistics
    | RemoveStatistics
    | SetPartitionStatistics
    | RemovePartitionStatistics
    | AddEncryptionKey
)


def updates_to_json(updates: tuple[MetadataUpdate, ...]) -> list[dict[str, object]]:
    """The update list of a REST commit."""
    result: list[dict[str, object]] = []
    for update in updates:
        value = update.to_json()
        result.extend(value if isinstance(value, list) else [value])
    return result
