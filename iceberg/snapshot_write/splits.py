"""Parts of a snapshot's data files, to be read in several processes at once.

A part is some data manifests with the delete manifests that can touch their files; it is small, can be pickled, and is
read without the rest of the snapshot. All parts together are the snapshot.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.errors import error_context
from deltaberg.iceberg.deletes.delete_index import PUFFIN, partition_keys, referenced_paths
from deltaberg.iceberg.deletes.row_deletes import RowDeletes
from deltaberg.iceberg.manifest.data_file import EQUALITY_DELETES
from deltaberg.iceberg.manifest.live_files import live_entries, live_manifests
from deltaberg.iceberg.manifest.manifest_list import FieldSummary, ManifestContent, ManifestFile
from deltaberg.iceberg.metadata.snapshot import Snapshot
from deltaberg.iceberg.metadata.table_metadata import TableMetadata
from deltaberg.iceberg.partition.partition_spec import PartitionSpec
from deltaberg.iceberg.schema.single_value import decode_bounds
from deltaberg.iceberg.schema.types import DoubleType, FloatType, Type, UnknownType, UuidType
from deltaberg.iceberg.table import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotSplit:
    """manifests: of data files, in the order of the manifest list. deletes: manifests whose files can touch theirs."""

    manifests: tuple[ManifestFile, ...]
    deletes: tuple[ManifestFile, ...]

    @property
    def files(self) -> int | None:
        """Live data files as the manifest list counts them; None where it does not."""
        counts = [listed_files(manifest) for manifest in self.manifests]
        return None if None in counts else sum(count or 0 for count in counts)


def listed_files(manifest: ManifestFile) -> int | None:
    """The live files of a manifest as its list counts them; None where it does not."""
    added, existing = manifest.added_files_count, manifest.existing_files_count
    return None if added is None or existing is None else added + existing


def snapshot_splits(
    table: Table, snapshot: Snapshot | None, *, files_per_part: int, every_delete: bool = False
) -> tuple[SnapshotSplit, ...]:
    """The parts of a snapshot, in the order of its manifest list; only the list is read.

    files_per_part: manifests that follow each other are put together up to so many files; a manifest that counts no
    files stands alone. every_delete: each part gets all delete manifests, even those that cannot touch it by what the
    list says of their sequence numbers, specs and partition values.
    """
    with error_context(table=table.location, version=None if snapshot is None else snapshot.snapshot_id):
        data = list(live_manifests(table, snapshot, ManifestContent.DATA))
        deletes = tuple(live_manifests(table, snapshot, ManifestContent.DELETES))
        return tuple(
            SnapshotSplit(
                manifests=group,
                deletes=deletes
                if every_delete
                else tuple(
                    delete for delete in deletes if any(may_touch(delete, each, table.metadata) for each in group)
                ),
            )
            for group in _groups(data, files_per_part)
        )


def split_data_files(table: Table, part: SnapshotSplit, *, with_metrics: bool = True) -> Iterator[pa.RecordBatch]:
    """The live data files of a part, like ``live_files.data_files``."""
    for manifest in part.manifests:
        yield from live_entries(table, manifest, with_metrics=with_metrics)


def split_deletes(table: Table, part: SnapshotSplit) -> RowDeletes:
    """The deletes of a part's data files, not read yet."""
    return RowDeletes(table, None, entries=_relevant_entries(table, part))


def may_touch(delete: ManifestFile, data: ManifestFile, metadata: TableMetadata) -> bool:
    """False only where no file of the delete manifest can delete rows of a file of the data manifest (sections "Scan
    Planning", "Manifest Lists")."""
    if delete.sequence_number < data.min_sequence_number:
        return False
    spec = metadata.spec_by_id(delete.partition_spec_id)
    if spec.is_unpartitioned:
        return True  # an equality delete there is one of the whole table
    if delete.partition_spec_id != data.partition_spec_id:
        return False
    if delete.partitions is None or data.partitions is None:
        return True
    kinds = _field_types(spec, metadata)
    if not len(kinds) == len(delete.partitions) == len(data.partitions):
        return True
    return all(
        _may_share(kind, one, other) for kind, one, other in zip(kinds, delete.partitions, data.partitions, strict=True)
    )


def _groups(manifests: Sequence[ManifestFile], files_per_part: int) -> Iterator[tuple[ManifestFile, ...]]:
    group: list[ManifestFile] = []
    files = 0
    for manifest in manifests:
        listed = listed_files(manifest)
        if group and (listed is None or files + listed > files_per_part):
            yield tuple(group)
            group, files = [], 0
        group.append(manifest)
        files += files_per_part if listed is None else listed
    if group:
        yield tuple(group)


def _field_types(spec: PartitionSpec, metadata: TableMetadata) -> tuple[Type, ...]:
    return tuple(field.type for field in spec.partition_type(metadata.schemas_newest_first).fields)


def _may_share(kind: Type, one: FieldSummary, other: FieldSummary) -> bool:
    """Whether a value of a partition field may stand in both manifests."""
    floating = isinstance(kind, (FloatType, DoubleType))
    if one.contains_null and other.contains_null:
        return True
    if floating and one.contains_nan is not False and other.contains_nan is not False:
        return True
    if isinstance(kind, (UnknownType, UuidType)):
        return True  # writers disagree about the order of uuids
    mine, theirs = (_range(kind, each.lower_bound, each.upper_bound) for each in (one, other))
    if mine is None or theirs is None:
        # Bounds are left out where all values are null or NaN, and by some writers altogether.
        return any(
            found is None and not each.contains_null and each.contains_nan is not True
            for found, each in ((mine, one), (theirs, other))
        )
    return bool(mine[0] <= theirs[1] and theirs[0] <= mine[1])


@lru_cache(maxsize=4096)
def _range(kind: Type, lower: bytes | None, upper: bytes | None) -> tuple[Any, Any] | None:
    if lower is None or upper is None:
        return None
    low, high = decode_bounds(pa.array([lower, upper], pa.binary()), kind).to_pylist()
    return low, high


def _relevant_entries(table: Table, part: SnapshotSplit) -> Iterator[pa.RecordBatch]:
    """The live delete entries of a part that name one of its files, or none but a partition that it has."""
    if not part.deletes:
        return
    seen_paths, seen_partitions = [], []
    for batch in split_data_files(table, part, with_metrics=False):
        seen_paths.append(batch.column("file_path").cast(pa.binary()))
        seen_partitions.append(pc.unique(partition_keys(batch)))
    if not seen_paths:
        return
    paths = pa.concat_arrays(seen_paths)
    partitions = pc.unique(pa.concat_arrays(seen_partitions))
    unpartitioned = pa.array(
        [spec.spec_id for spec in table.metadata.partition_specs if spec.is_unpartitioned], pa.int32()
    )
    for manifest in part.deletes:
        for batch in live_entries(table, manifest):
            referenced = referenced_paths(batch)
            everywhere = pc.and_(
                pc.equal(batch.column("content"), EQUALITY_DELETES),
                pc.is_in(batch.column("spec_id"), value_set=unpartitioned),
            )
            by_partition = pc.or_(everywhere, pc.is_in(partition_keys(batch), value_set=partitions))
            named = pc.is_valid(referenced)
            # A vector without the path that it must name is kept: building the index refuses it.
            wanted = pc.if_else(named, pc.is_in(referenced, value_set=paths), by_partition)
            nameless_vector = pc.and_(pc.equal(batch.column("file_format"), PUFFIN), pc.invert(named))
            kept = batch.filter(pc.or_(wanted, nameless_vector))
            if kept.num_rows:
                yield kept
