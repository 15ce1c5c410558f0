"""The updates of table metadata that a new snapshot brings: itself, and the branch that moves to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from deltaberg.iceberg.errors import InvalidIcebergRequest
from deltaberg.iceberg.metadata.metadata_update import (
    AddSnapshot,
    MetadataUpdate,
    SetSnapshotRef,
)
from deltaberg.iceberg.metadata.snapshot import Snapshot
from deltaberg.iceberg.metadata.snapshot_ref import RefType, SnapshotRef
from deltaberg.iceberg.snapshot_write.snapshot_builder import SnapshotBuilder


def snapshot_updates(
    builder: SnapshotBuilder, snapshot: Snapshot, refs: Mapping[str, SnapshotRef]
) -> list[MetadataUpdate]:
    added = AddSnapshot(snapshot=snapshot)
    branch = builder.request.branch
    if branch is None:
        return [added]
    known = refs.get(branch)
    if known is not None and known.type is RefType.TAG:
        raise InvalidIcebergRequest(f"Cannot commit to {branch}: it is a tag")
    moved = (
        SnapshotRef(snapshot_id=snapshot.snapshot_id, type=RefType.BRANCH)
        if known is None
        else replace(known, snapshot_id=snapshot.snapshot_id)
    )
    return [added, SetSnapshotRef(name=branch, ref=moved, logged_ms=snapshot.timestamp_ms)]
