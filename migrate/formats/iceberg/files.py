"""The live files of an Iceberg snapshot."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.iceberg.deletes.resolved_deletes import resolve_deletes
from deltaberg.iceberg.manifest.live_files import data_files, delete_files
from deltaberg.migrate.source import IcebergSource
from deltaberg.migrate.target.locations import real_locations


def listed_locations(source: IcebergSource) -> Iterator[pa.Array]:
    for batch in data_files(source.table, source.snapshot, with_metrics=False):
        yield batch.column("file_path")
    deletes = [batch.column("file_path") for batch in delete_files(source.table, source.snapshot)]
    if deletes:
        yield pc.unique(pa.concat_arrays(deletes))


def file_counts(source: IcebergSource) -> Iterator[pa.RecordBatch]:
    for resolved in resolve_deletes(source.table, source.snapshot):
        files = resolved.data_files
        deleted = pc.fill_null(pc.struct_field(resolved.vectors, "cardinality"), 0).to_numpy().copy()
        deleted[np.asarray(resolved.vectors.is_null())] = 0
        for row, positions in resolved.merged.items():
            deleted[row] = positions.cardinality
        yield pa.record_batch(
            {
                "location": real_locations(source.storage, files.column("file_path")),
                "rows": files.column("record_count"),
                "deleted": pa.array(deleted, pa.int64()),
            }
        )
