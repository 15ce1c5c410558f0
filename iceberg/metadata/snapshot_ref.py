"""Branches and tags (section "Snapshot References")."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from deltaberg.iceberg.errors import InvalidIcebergRequest
from deltaberg.iceberg.schema.json_object import JsonObject, rejected

MAIN_BRANCH = "main"
_KEYS = frozenset({"snapshot-id", "type", "min-snapshots-to-keep", "max-snapshot-age-ms", "max-ref-age-ms"})


class RefType(Enum):
    """A branch moves with commits, a tag stays."""

    BRANCH = "branch"
    TAG = "tag"


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotRef:
    """A named snapshot with its retention policy; ages are in milliseconds."""

    snapshot_id: int
    type: RefType
    min_snapshots_to_keep: int | None = None
    max_snapshot_age_ms: int | None = None
    max_ref_age_ms: int | None = None
    extra: Mapping[str, object] = field(default_factory=dict, hash=False, compare=False, repr=False)

    def check(self, name: str) -> None:
        """Raise InvalidIcebergRequest for a retention that this kind of reference cannot have."""
        kept = (self.min_snapshots_to_keep, self.max_snapshot_age_ms)
        if self.type is RefType.TAG and any(value is not None for value in kept):
            raise InvalidIcebergRequest(f"Cannot set snapshot retention on tag {name}: only branches have it")
        if name == MAIN_BRANCH and self.type is RefType.TAG:
            raise InvalidIcebergRequest("Cannot use the name main for a tag: it is the main branch")
        if any(value is not None and value <= 0 for value in (*kept, self.max_ref_age_ms)):
            raise InvalidIcebergRequest(f"Cannot set retention on reference {name}: numbers must be positive")

    def to_json(self) -> dict[str, object]:
        """The reference object of the ``refs`` map."""
        result: dict[str, object] = {"snapshot-id": self.snapshot_id, "type": self.type.value}
        if self.min_snapshots_to_keep is not None:
            result["min-snapshots-to-keep"] = self.min_snapshots_to_keep
        if self.max_snapshot_age_ms is not None:
            result["max-snapshot-age-ms"] = self.max_snapshot_age_ms
        if self.max_ref_age_ms is not None:
            result["max-ref-age-ms"] = self.max_ref_age_ms
        return {**result, **self.extra}

    @classmethod
    def from_json(cls, value: object, path: str) -> SnapshotRef:
        """Parse a reference. Raises CorruptMetadata."""
        node = JsonObject(value, path)
        kind = node.text("type")
        if kind not in ("branch", "tag"):
            raise rejected(node.at("type"), '"branch" or "tag"', kind)
        return cls(
            snapshot_id=node.snapshot_id("snapshot-id"),
            type=RefType(kind),
            min_snapshots_to_keep=node.optional_integer("min-snapshots-to-keep"),
            max_snapshot_age_ms=node.optional_long("max-snapshot-age-ms"),
            max_ref_age_ms=node.optional_long("max-ref-age-ms"),
            extra=node.extra(_KEYS),
        )
