"""The snapshots of an Iceberg table."""

from __future__ import annotations

from collections.abc import Iterator

from deltaberg.migrate.history import HistoryEntry, stated_number
from deltaberg.migrate.source import IcebergSource
from deltaberg.migrate.target.watermark import SOURCE_VERSION_KEY


def entries(source: IcebergSource) -> Iterator[HistoryEntry]:
    """Every snapshot that has not expired, of every branch."""
    metadata = source.table.metadata
    refs: dict[int, list[str]] = {}
    for name, ref in metadata.refs.items():
        refs.setdefault(ref.snapshot_id, []).append(name)
    for snapshot in sorted(
        metadata.snapshots, key=lambda each: (each.sequence_number, each.timestamp_ms), reverse=True
    ):
        yield HistoryEntry(
            version=snapshot.snapshot_id,
            timestamp_ms=snapshot.timestamp_ms,
            operation=snapshot.operation or "unknown",
            current=snapshot.snapshot_id == metadata.current_snapshot_id,
            parent=snapshot.parent_snapshot_id,
            refs=tuple(sorted(refs.get(snapshot.snapshot_id, ()))),
            added_files=stated_number(snapshot.summary.get("added-data-files")),
            removed_files=stated_number(snapshot.summary.get("deleted-data-files")),
            added_rows=stated_number(snapshot.summary.get("added-records")),
            other_version=stated_number(snapshot.summary.get(SOURCE_VERSION_KEY)),
        )
