"""The metadata tables of an Iceberg table, as Arrow: files, delete files, manifests, partitions, snapshots, history,
refs.

Column names are those of Iceberg's own metadata tables where these have them. Files stream; partitions are summed up
batch by batch; the others are as small as the metadata.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.iceberg.manifest.data_file import DATA, DATA_FILE_SCHEMA, EQUALITY_DELETES, POSITION_DELETES
from deltaberg.iceberg.manifest.live_files import data_files
from deltaberg.iceberg.manifest.live_files import delete_files as live_delete_files
from deltaberg.iceberg.manifest.manifest_list import read_manifest_list
from deltaberg.iceberg.metadata.snapshot import Snapshot
from deltaberg.iceberg.partition.partition_struct import PartitionStruct
from deltaberg.iceberg.schema.tuple_keys import tuple_keys
from deltaberg.iceberg.table import Table

_INSTANT = pa.timestamp("ms", tz="UTC")
_SUMMARIES = pa.list_(
    pa.struct(
        [
            pa.field("contains_null", pa.bool_(), nullable=False),
            pa.field("contains_nan", pa.bool_()),
            pa.field("lower_bound", pa.binary()),
            pa.field("upper_bound", pa.binary()),
        ]
    )
)
_MANIFESTS = pa.schema(
    [
        pa.field("content", pa.int32(), nullable=False),
        pa.field("path", pa.string(), nullable=False),
        pa.field("length", pa.int64(), nullable=False),
        pa.field("partition_spec_id", pa.int32(), nullable=False),
        pa.field("added_snapshot_id", pa.int64()),
        pa.field("sequence_number", pa.int64(), nullable=False),
        pa.field("min_sequence_number", pa.int64(), nullable=False),
        pa.field("added_files_count", pa.int32()),
        pa.field("existing_files_count", pa.int32()),
        pa.field("deleted_files_count", pa.int32()),
        pa.field("added_rows_count", pa.int64()),
        pa.field("existing_rows_count", pa.int64()),
        pa.field("deleted_rows_count", pa.int64()),
        pa.field("partition_summaries", _SUMMARIES),
        pa.field("first_row_id", pa.int64()),
    ]
)
_SNAPSHOTS = pa.schema(
    [
        pa.field("committed_at", _INSTANT, nullable=False),
        pa.field("snapshot_id", pa.int64(), nullable=False),
        pa.field("parent_id", pa.int64()),
        pa.field("sequence_number", pa.int64(), nullable=False),
        pa.field("operation", pa.string()),
        pa.field("manifest_list", pa.string()),
        pa.field("summary", pa.map_(pa.string(), pa.string())),
        pa.field("schema_id", pa.int32()),
        pa.field("first_row_id", pa.int64()),
        pa.field("added_rows", pa.int64()),
    ]
)
_HISTORY = pa.schema(
    [
        pa.field("made_current_at", _INSTANT, nullable=False),
        pa.field("snapshot_id", pa.int64(), nullable=False),
        pa.field("parent_id", pa.int64()),
        pa.field("is_current_ancestor", pa.bool_(), nullable=False),
    ]
)
_REFS = pa.schema(
    [
        pa.field("name", pa.string(), nullable=False),
        pa.field("type", pa.string(), nullable=False),
        pa.field("snapshot_id", pa.int64(), nullable=False),
        pa.field("max_reference_age_in_ms", pa.int64()),
        pa.field("min_snapshots_to_keep", pa.int32()),
        pa.field("max_snapshot_age_in_ms", pa.int64()),
    ]
)
_TOTALS = (
    "record_count",
    "file_count",
    "total_data_file_size_in_bytes",
    "position_delete_record_count",
    "position_delete_file_count",
    "equality_delete_record_count",
    "equality_delete_file_count",
)
_COMPACT_ROWS = 100_000


def files(table: Table, snapshot: Snapshot | None) -> pa.RecordBatchReader:
    """The live data files of a snapshot: DATA_FILE_SCHEMA without ``status``, partitions in the common struct."""
    return _file_reader(table, data_files(table, snapshot))


def delete_files(table: Table, snapshot: Snapshot | None) -> pa.RecordBatchReader:
    """The live delete files and deletion vectors of a snapshot, in the same columns."""
    return _file_reader(table, live_delete_files(table, snapshot))


def manifests(table: Table, snapshot: Snapshot | None) -> pa.Table:
    """The manifests of a snapshot in the order of its manifest list."""
    listed = () if snapshot is None else read_manifest_list(table.storage, snapshot, table.metadata)
    rows = []
    for manifest in listed:
        row = {name: getattr(manifest, name) for name in _MANIFESTS.names if hasattr(manifest, name)}
        row |= {
            "content": manifest.content.value,
            "path": manifest.manifest_path,
            "length": manifest.manifest_length,
            "partition_summaries": None
            if manifest.partitions is None
            else [
                {
                    "contains_null": summary.contains_null,
                    "contains_nan": summary.contains_nan,
                    "lower_bound": summary.lower_bound,
                    "upper_bound": summary.upper_bound,
                }
                for summary in manifest.partitions
            ],
        }
        rows.append(row)
    return pa.Table.from_pylist(rows, schema=_MANIFESTS)


def snapshots(table: Table) -> pa.Table:
    """Every snapshot that the metadata still has, in its order."""
    rows = [
        {
            "committed_at": each.timestamp_ms,
            "snapshot_id": each.snapshot_id,
            "parent_id": each.parent_snapshot_id,
            "sequence_number": each.sequence_number,
            "operation": each.operation,
            "manifest_list": each.manifest_list,
            "summary": list(each.summary.items()),
            "schema_id": each.schema_id,
            "first_row_id": each.first_row_id,
            "added_rows": each.added_rows,
        }
        for each in table.metadata.snapshots
    ]
    return pa.Table.from_pylist(rows, schema=_SNAPSHOTS)


def history(table: Table) -> pa.Table:
    """The snapshot log: which snapshot was current from when on, and whether it is an ancestor of the current one."""
    metadata = table.metadata
    ancestors = {each.snapshot_id for each in metadata.ancestors(metadata.current_snapshot_id)}
    parents = {each.snapshot_id: each.parent_snapshot_id for each in metadata.snapshots}
    rows = [
        {
            "made_current_at": entry.timestamp_ms,
            "snapshot_id": entry.snapshot_id,
            "parent_id": parents.get(entry.snapshot_id),
            "is_current_ancestor": entry.snapshot_id in ancestors,
        }
        for entry in metadata.snapshot_log
    ]
    return pa.Table.from_pylist(rows, schema=_HISTORY)


def refs(table: Table) -> pa.Table:
    """Branches and tags with their retention."""
    rows = [
        {
            "name": name,
            "type": ref.type.value.upper(),
            "snapshot_id": ref.snapshot_id,
            "max_reference_age_in_ms": ref.max_ref_age_ms,
            "min_snapshots_to_keep": ref.min_snapshots_to_keep,
            "max_snapshot_age_in_ms": ref.max_snapshot_age_ms,
        }
        for name, ref in table.metadata.refs.items()
    ]
    return pa.Table.from_pylist(rows, schema=_REFS)


def partitions(table: Table, snapshot: Snapshot | None) -> pa.Table:
    """Totals of the live files of a snapshot per spec and partition; deletion vectors count as position deletes.

    ``last_updated_at`` and ``last_updated_snapshot_id`` are of the newest snapshot that added a file of the partition,
    null when it has expired.
    """
    common = PartitionStruct(table.metadata)
    parts: list[pa.Table] = []
    rows = 0
    for batch in _all_files(table, snapshot):
        parts.append(_summed(_contributions(batch, common, table)))
        rows += parts[-1].num_rows
        if rows > _COMPACT_ROWS and len(parts) > 1:
            parts = [_summed(pa.concat_tables(parts))]
            rows = parts[0].num_rows
    schema = _contribution_schema(common)
    total = _summed(pa.concat_tables(parts)) if parts else schema.empty_table()
    return total.drop_columns(["key"])


def _all_files(table: Table, snapshot: Snapshot | None) -> Iterator[pa.RecordBatch]:
    yield from data_files(table, snapshot)
    yield from live_delete_files(table, snapshot)


def _file_reader(table: Table, batches: Iterator[pa.RecordBatch]) -> pa.RecordBatchReader:
    common = PartitionStruct(table.metadata)
    names = [name for name in DATA_FILE_SCHEMA.names if name != "status"]
    schema = pa.schema(
        [
            pa.field("partition", common.type, nullable=False) if name == "partition" else DATA_FILE_SCHEMA.field(name)
            for name in names
        ]
    )

    def rows() -> Iterator[pa.RecordBatch]:
        for batch in batches:
            arrays = [_common_partition(batch, common) if name == "partition" else batch.column(name) for name in names]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    return pa.RecordBatchReader.from_batches(schema, rows())


def _common_partition(batch: pa.RecordBatch, common: PartitionStruct) -> pa.StructArray:
    if not batch.num_rows:
        return pa.array([], common.type)
    return common.array(batch.column("spec_id")[0].as_py(), batch.column("partition"))


def _contribution_schema(common: PartitionStruct) -> pa.Schema:
    return pa.schema(
        [
            pa.field("key", pa.binary(), nullable=False),
            pa.field("partition", common.type, nullable=False),
            pa.field("spec_id", pa.int32(), nullable=False),
            *(pa.field(name, pa.int64(), nullable=False) for name in _TOTALS),
            pa.field("last_updated_at", _INSTANT),
            pa.field("last_updated_snapshot_id", pa.int64()),
        ]
    )


def _contributions(batch: pa.RecordBatch, common: PartitionStruct, table: Table) -> pa.Table:
    """One row per file: what it adds to the totals of its partition."""
    content = batch.column("content").to_numpy()
    records = batch.column("record_count").to_numpy()
    sizes = batch.column("file_size_in_bytes").to_numpy()
    kinds = {kind: content == kind for kind in (DATA, POSITION_DELETES, EQUALITY_DELETES)}
    times = _commit_times(table, batch.column("snapshot_id"))
    partition = batch.column("partition")
    columns: Sequence[pa.Array] = [
        tuple_keys([batch.column("spec_id"), *partition.flatten()], batch.num_rows),
        _common_partition(batch, common),
        batch.column("spec_id"),
        pa.array(np.where(kinds[DATA], records, 0)),
        pa.array(kinds[DATA].astype(np.int64)),
        pa.array(np.where(kinds[DATA], sizes, 0)),
        pa.array(np.where(kinds[POSITION_DELETES], records, 0)),
        pa.array(kinds[POSITION_DELETES].astype(np.int64)),
        pa.array(np.where(kinds[EQUALITY_DELETES], records, 0)),
        pa.array(kinds[EQUALITY_DELETES].astype(np.int64)),
        times,
        pc.if_else(times.is_valid(), batch.column("snapshot_id"), pa.scalar(None, pa.int64())),
    ]
    return pa.table(columns, schema=_contribution_schema(common))


def _commit_times(table: Table, snapshot_ids: pa.Array) -> pa.Array:
    known = table.metadata.snapshots
    places = pc.index_in(snapshot_ids, value_set=pa.array([each.snapshot_id for each in known], pa.int64()))
    return pa.array([each.timestamp_ms for each in known], pa.int64()).cast(_INSTANT).take(places)


def _summed(rows: pa.Table) -> pa.Table:
    """One row per key: sums of the totals, the newest update, the other columns from any row with the key."""
    rows = rows.combine_chunks()
    codes = _codes(rows["key"])
    _, first = np.unique(codes, return_index=True)
    updated = pc.fill_null(rows["last_updated_at"].cast(pa.int64()), np.iinfo(np.int64).min).to_numpy()
    order = np.lexsort((updated, codes))
    last = order[np.append(np.flatnonzero(np.diff(codes[order])), len(order) - 1)] if len(order) else first
    columns = {}
    for name in rows.column_names:
        if name in _TOTALS:
            sums = np.zeros(len(first), dtype=np.int64)
            np.add.at(sums, codes, rows[name].to_numpy())
            columns[name] = pa.chunked_array([pa.array(sums)])
        else:
            columns[name] = rows[name].take(pa.array(last if name.startswith("last_updated") else first))
    return pa.table(list(columns.values()), schema=rows.schema)


def _codes(keys: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    """Numbers for keys in the order of their first appearance."""
    encoded = pa.concat_arrays(keys.chunks).dictionary_encode() if keys.num_chunks else pa.array([]).dictionary_encode()
    return np.asarray(encoded.indices.to_numpy(), dtype=np.int64)
