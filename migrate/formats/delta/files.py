"""The live files of a Delta version."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.delta.deletion_vector.deletion_vector import descriptors
from deltaberg.delta.log.add_path import location_array
from deltaberg.migrate.source import DeltaSource
from deltaberg.migrate.to_iceberg.source_files import DeltaFileReader


def file_counts(source: DeltaSource) -> Iterator[pa.RecordBatch]:
    for batch in DeltaFileReader(source, deep=False).located():
        yield pa.record_batch({"location": batch.locations, "rows": batch.record_counts, "deleted": batch.deleted})


def listed_locations(source: DeltaSource) -> Iterator[pa.Array]:
    root, vectors = source.snapshot.table_root, []
    for batch in source.snapshot.live_names():
        yield location_array(batch.column("path"), root)
        column = batch.column("deletion_vector")
        stored = pc.fill_null(pc.not_equal(pc.struct_field(column, "storage_type"), "i"), False)
        if pc.any(stored, min_count=0).as_py():
            vectors.append(_one_a_file(column.filter(stored)))
    if vectors:
        one_a_file = _one_a_file(pa.concat_arrays(vectors))
        yield pa.array([each.location(root) for each in descriptors(one_a_file) if each is not None], pa.string())


def _one_a_file(vectors: pa.StructArray) -> pa.StructArray:
    """The first vector of each file that holds some."""
    kind, name = (pc.struct_field(vectors, field) for field in ("storage_type", "path_or_inline_dv"))
    files = pc.binary_join_element_wise(kind, name, "").dictionary_encode()
    _, first = np.unique(files.indices.to_numpy(), return_index=True)
    return vectors.take(pa.array(first))
