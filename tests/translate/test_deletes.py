from __future__ import annotations

import pyarrow as pa

from deltaberg.delta.deletion_vector.deletion_vector import DeletionVectorDescriptor
from deltaberg.iceberg.deletes.delete_index import FILE_PATH_ID
from deltaberg.iceberg.manifest.file_entries import check_added
from deltaberg.iceberg.manifest.metrics import metric
from deltaberg.translate.deletes import FRAME_BYTES, descriptor_column, position_delete_entries, vector_entries


def test_iceberg_counts_the_frame_that_delta_leaves_out() -> None:
    assert FRAME_BYTES == 8


def test_only_files_with_a_vector_have_a_descriptor() -> None:
    descriptor = DeletionVectorDescriptor(
        storage_type="u", path_or_inline_dv="_deltaberg" + "x" * 20, offset=1, size_in_bytes=36, cardinality=2
    )
    made = descriptor_column([descriptor], [1], 3).to_pylist()
    assert made[0] is None
    assert made[2] is None
    assert made[1] == {
        "storage_type": "u",
        "path_or_inline_dv": "_deltaberg" + "x" * 20,
        "offset": 1,
        "size_in_bytes": 36,
        "cardinality": 2,
    }


def test_a_vector_has_the_partition_of_its_data_file() -> None:
    partition = pa.array([{"p": 1}, {"p": None}], pa.struct([("p", pa.int32())]))
    made = vector_entries(
        data_files=pa.array(["/d/a.parquet", "/d/b.parquet"]),
        partition=partition,
        spec_id=3,
        locations=pa.array(["/d/x.puffin"] * 2),
        offsets=pa.array([4, 50]),
        lengths=pa.array([44, 46]),
        cardinalities=pa.array([2, 3]),
        file_sizes=pa.array([500, 500]),
    )
    check_added(made, 3)
    assert made.column("partition").equals(partition)
    assert made.column("referenced_data_file").to_pylist() == ["/d/a.parquet", "/d/b.parquet"]
    assert made.column("record_count").to_pylist() == [2, 3]
    assert set(made.column("spec_id").to_pylist()) == {3}


def test_a_position_delete_file_names_its_data_file_by_equal_bounds() -> None:
    made = position_delete_entries(
        data_files=pa.array(["/d/a.parquet"]),
        partition=pa.array([{}], pa.struct([])),
        spec_id=0,
        locations=pa.array(["/d/x-deletes.parquet"]),
        record_counts=pa.array([2]),
        file_sizes=pa.array([500]),
    )
    check_added(made, 2)
    for bound in ("lower_bounds", "upper_bounds"):
        assert metric(made.column(bound), FILE_PATH_ID).to_pylist() == [b"/d/a.parquet"]
