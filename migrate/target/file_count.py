"""The number of a table's live files, as far as its metadata states it without listing them."""

from __future__ import annotations

from typing import Final

from deltaberg.iceberg.manifest.live_files import live_manifests
from deltaberg.iceberg.manifest.manifest_list import ManifestContent
from deltaberg.iceberg.snapshot_write.splits import listed_files
from deltaberg.migrate.source import DeltaSource, Source

DISTRIBUTE_FROM: Final = 200_000
"""With ``--engine spark``, the metadata of this many files is translated in tasks; fewer are done before a job has
started.
"""

_ONE_PART: Final = 1 << 62


def stated_files(source: Source) -> int:
    """About how many files the snapshot or version has; manifests and checkpoints without counts count as none."""
    if isinstance(source, DeltaSource):
        snapshot = source.snapshot
        parts = snapshot.checkpoint_parts(files_per_part=_ONE_PART)
        return sum(part.files or 0 for part in parts) + (0 if snapshot.tail is None else snapshot.tail.adds.num_rows)
    manifests = live_manifests(source.table, source.snapshot, ManifestContent.DATA)
    return sum(listed_files(manifest) or 0 for manifest in manifests)
