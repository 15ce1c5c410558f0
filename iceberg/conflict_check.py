"""Whether a snapshot still applies after others were committed (section "Commit Conflict Resolution and Retry")."""

from __future__ import annotations

from deltaberg.iceberg.errors import IcebergConflict
from deltaberg.iceberg.metadata.snapshot import Operation
from deltaberg.iceberg.metadata.table_metadata import TableMetadata
from deltaberg.iceberg.snapshot_write.snapshot_builder import SnapshotBuilder


def check_between(builder: SnapshotBuilder, before: TableMetadata, after: TableMetadata) -> None:
    """Raise IcebergConflict when a commit to the branch between two versions conflicts with the snapshot.

    An append of data files applies on top of anything. A snapshot that deletes or replaces rows applies on top of
    appends only: another change may have touched the same rows. Explicitly named manifests apply to no other parent at
    all.
    """
    branch = builder.request.branch
    if builder.is_pure_append or branch is None:
        return
    old, new = before.refs.get(branch), after.refs.get(branch)
    old_id = None if old is None else old.snapshot_id
    if new is None or new.snapshot_id == old_id:
        return
    if builder.is_explicit:
        raise IcebergConflict(f"Cannot commit: branch {branch} moved to snapshot {new.snapshot_id}")
    for snapshot in after.ancestors(new.snapshot_id):
        if snapshot.snapshot_id == old_id:
            return
        if snapshot.operation != Operation.APPEND.value:
            raise IcebergConflict(
                f"Cannot commit: snapshot {snapshot.snapshot_id} ({snapshot.operation}) changed branch {branch} "
                "meanwhile; read the table again and repeat the change"
            )
    if old_id is not None:
        raise IcebergConflict(f"Cannot commit: branch {branch} was rolled back from snapshot {old_id} meanwhile")
