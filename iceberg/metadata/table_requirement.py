"""The requirements that a table must still meet for a commit to apply (section "Commit Conflict Resolution and Retry").

The set and the JSON form are those of the REST catalog, so that a catalog can check them itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn, TypeAlias

from deltaberg.iceberg.errors import IcebergConflict
from deltaberg.iceberg.metadata.table_metadata import TableMetadata


def _changed(what: str, expected: object, found: object) -> NoReturn:
    raise IcebergConflict(
        f"Cannot commit: {what} changed since the table was read (expected {expected}, found {found}); "
        "read the table again and repeat the change"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AssertTableUuid:
    """The table has this UUID."""

    uuid: str

    def check(self, metadata: TableMetadata) -> None:
        if (metadata.table_uuid or "").lower() != self.uuid.lower():
            _changed("the table's UUID", self.uuid, metadata.table_uuid)

    def to_json(self) -> dict[str, object]:
        return {"type": "assert-table-uuid", "uuid": self.uuid}


@dataclass(frozen=True, slots=True, kw_only=True)
class AssertRefSnapshotId:
    """A branch or tag is at a snapshot; None: it does not exist."""

    ref: str
    snapshot_id: int | None

    def check(self, metadata: TableMetadata) -> None:
        found = metadata.refs.get(self.ref)
        found_id = None if found is None else found.snapshot_id
        if found_id != self.snapshot_id:
            _changed(f"reference {self.ref}", self.snapshot_id, found_id)

    def to_json(self) -> dict[str, object]:
        return {"type": "assert-ref-snapshot-id", "ref": self.ref, "snapshot-id": self.snapshot_id}


@dataclass(frozen=True, slots=True, kw_only=True)
class AssertLastAssignedFieldId:
    """No column id was assigned in between."""

    last_assigned_field_id: int

    def check(self, metadata: TableMetadata) -> None:
        if metadata.last_column_id != self.last_assigned_field_id:
            _changed("the last column id", self.last_assigned_field_id, metadata.last_column_id)

    def to_json(self) -> dict[str, object]:
        return {"type": "assert-last-assigned-field-id", "last-assigned-field-id": self.last_assigned_field_id}


@dataclass(frozen=True, slots=True, kw_only=True)
class AssertCurrentSchemaId:
    """The current schema has not changed."""

    current_schema_id: int

    def check(self, metadata: TableMetadata) -> None:
        if metadata.current_schema_id != self.current_schema_id:
            _changed("the current schema", self.current_schema_id, metadata.current_schema_id)

    def to_json(self) -> dict[str, object]:
        return {"type": "assert-current-schema-id", "current-schema-id": self.current_schema_id}


@dataclass(frozen=True, slots=True, kw_only=True)
class AssertLastAssignedPartitionId:
    """No partition field id was assigned in between."""

    last_assigned_partition_id: int

    def check(self, metadata: TableMetadata) -> None:
        if metadata.last_partition_id != self.last_assigned_partition_id:
            _changed("the last partition field id", self.last_assigned_partition_id, metadata.last_partition_id)

    def to_json(self) -> dict[str, object]:
        return {
            "type": "assert-last-assigned-partition-id",
            "last-assigned-partition-id": self.last_assigned_partition_id,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class AssertDefaultSpecId:
    """The default partition spec has not changed."""

    default_spec_id: int

    def check(self, metadata: TableMetadata) -> None:
        if metadata.default_spec_id != self.default_spec_id:
            _changed("the default partition spec", self.default_spec_id, metadata.default_spec_id)

    def to_json(self) -> dict[str, object]:
        return {"type": "assert-default-spec-id", "default-spec-id": self.default_spec_id}


@dataclass(frozen=True, slots=True, kw_only=True)
class AssertDefaultSortOrderId:
    """The default sort order has not changed."""

    default_sort_order_id: int

    def check(self, metadata: TableMetadata) -> None:
        if metadata.default_sort_order_id != self.default_sort_order_id:
            _changed("the default sort order", self.default_sort_order_id, metadata.default_sort_order_id)

    def to_json(self) -> dict[str, object]:
        return {"type": "assert-default-sort-order-id", "default-sort-order-id": self.default_sort_order_id}


@dataclass(frozen=True, slots=True, kw_only=True)
class AssertProperty:
    """A table property has a value; None: it is not set. Not part of the REST set: checked here only."""

    key: str
    value: str | None

    def check(self, metadata: TableMetadata) -> None:
        found = metadata.properties.get(self.key)
        if found != self.value:
            _changed(f"property {self.key}", self.value, found)

    def to_json(self) -> dict[str, object] | None:
        return None


TableRequirement: TypeAlias = (
    AssertTableUuid
    | AssertRefSnapshotId
    | AssertLastAssignedFieldId
    | AssertCurrentSchemaId
    | AssertLastAssignedPartitionId
    | AssertDefaultSpecId
    | AssertDefaultSortOrderId
    | AssertProperty
)
