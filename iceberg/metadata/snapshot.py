"""Snapshots and the log of which one was current (section "Snapshots", JSON in Appendix C)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from deltaberg.iceberg.schema.json_object import JsonObject, as_text, rejected

OPERATION = "operation"
_KEYS = frozenset(
    {
        "snapshot-id",
        "parent-snapshot-id",
        "sequence-number",
        "timestamp-ms",
        "manifest-list",
        "manifests",
        "summary",
        "schema-id",
        "first-row-id",
        "added-rows",
        "key-id",
    }
)
_LOG_KEYS = frozenset({"snapshot-id", "timestamp-ms"})


class Operation(Enum):
    """The kind of change that a snapshot made to the table."""

    APPEND = "append"
    REPLACE = "replace"
    OVERWRITE = "overwrite"
    DELETE = "delete"


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The state of a table at one commit.

    ``summary`` holds every entry of the summary map, ``operation`` included; it is empty where a version 1 writer
    left it out. Exactly one of ``manifest_list`` and ``manifests`` (version 1 only) is set.
    """

    snapshot_id: int
    timestamp_ms: int
    parent_snapshot_id: int | None = None
    sequence_number: int = 0
    manifest_list: str | None = None
    manifests: tuple[str, ...] | None = None
    summary: Mapping[str, str] = field(default_factory=dict, hash=False)
    schema_id: int | None = None
    first_row_id: int | None = None
    added_rows: int | None = None
    key_id: str | None = None
    extra: Mapping[str, object] = field(default_factory=dict, hash=False, compare=False, repr=False)

    @property
    def operation(self) -> str | None:
        """The summary's operation; None where a version 1 writer left it out."""
        return self.summary.get(OPERATION)

    def to_json(self, format_version: int) -> dict[str, object]:
        """The snapshot object of Appendix C as a format version writes it."""
        result: dict[str, object] = {}
        if format_version >= 2:
            result["sequence-number"] = self.sequence_number
        result["snapshot-id"] = self.snapshot_id
        if self.parent_snapshot_id is not None:
            result["parent-snapshot-id"] = self.parent_snapshot_id
        result["timestamp-ms"] = self.timestamp_ms
        if self.summary:
            result["summary"] = dict(self.summary)
        if self.manifest_list is not None:
            result["manifest-list"] = self.manifest_list
        if self.manifests is not None:
            result["manifests"] = list(self.manifests)
        if self.schema_id is not None:
            result["schema-id"] = self.schema_id
        if self.first_row_id is not None:
            result["first-row-id"] = self.first_row_id
        if self.added_rows is not None:
            result["added-rows"] = self.added_rows
        if self.key_id is not None:
            result["key-id"] = self.key_id
        return {**result, **self.extra}

    @classmethod
    def from_json(cls, value: object, path: str = "$") -> Snapshot:
        """Parse a snapshot object of any version. Raises CorruptMetadata."""
        node = JsonObject(value, path)
        manifest_list = node.optional_text("manifest-list")
        manifests = tuple(as_text(item, at) for item, at in node.items("manifests")) if node.has("manifests") else None
        if manifest_list is None and manifests is None:
            raise rejected(node.at("manifest-list"), "a manifest list (or, in version 1, a list of manifests)", None)
        first_row_id = node.optional_long("first-row-id", low=0)
        added_rows = node.optional_long("added-rows", low=0)
        if first_row_id is not None and added_rows is None:
            raise rejected(node.at("added-rows"), "a row count, which must stand beside first-row-id", None)
        summary = node.text_map("summary")
        if node.has("summary") and OPERATION not in summary:
            raise rejected(node.at("summary"), "a summary with an operation", summary)
        return cls(
            snapshot_id=node.snapshot_id("snapshot-id"),
            timestamp_ms=node.long("timestamp-ms"),
            parent_snapshot_id=node.optional_snapshot_id("parent-snapshot-id"),
            sequence_number=node.optional_long("sequence-number", low=0) or 0,
            manifest_list=manifest_list,
            manifests=None if manifest_list is not None else manifests,
            summary=summary,
            schema_id=node.optional_integer("schema-id"),
            first_row_id=first_row_id,
            added_rows=added_rows,
            key_id=node.optional_text("key-id"),
            extra=node.extra(_KEYS),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotLogEntry:
    """From ``timestamp_ms`` on, ``snapshot_id`` was the current snapshot."""

    snapshot_id: int
    timestamp_ms: int
    extra: Mapping[str, object] = field(default_factory=dict, hash=False, compare=False, repr=False)

    def to_json(self) -> dict[str, object]:
        """The log entry object of Appendix C."""
        return {"snapshot-id": self.snapshot_id, "timestamp-ms": self.timestamp_ms, **self.extra}

    @classmethod
    def from_json(cls, value: object, path: str) -> SnapshotLogEntry:
        """Parse a log entry. Raises CorruptMetadata."""
        node = JsonObject(value, path)
        return cls(
            snapshot_id=node.snapshot_id("snapshot-id"),
            timestamp_ms=node.long("timestamp-ms"),
            extra=node.extra(_LOG_KEYS),
        )
