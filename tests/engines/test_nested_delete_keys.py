"""Equality deletes on a field of a struct: the specification's rows and Spark's, which the plan's note is about."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import deltaberg
from deltaberg.iceberg.manifest.data_file import EQUALITY_DELETES
from deltaberg.iceberg.table import Table
from deltaberg.storage import open_storage


def test_spark_keeps_a_row_whose_struct_is_null_where_the_specification_deletes_it(
    run: Any, query: Any, warehouse: Path, tmp_path: Path
) -> None:
    run(
        "CREATE TABLE ice.keys.nested (id BIGINT, place STRUCT<town: STRING>) USING iceberg",
        "INSERT INTO ice.keys.nested VALUES (1, NULL), (2, named_struct('town', CAST(NULL AS STRING))), "
        "(3, named_struct('town', 'x'))",
    )
    folder = warehouse / "keys" / "nested"
    table = Table.open(str(folder), open_storage())
    town = next(each for each in table.metadata.schema.all_fields() if each.name == "town")
    place = next(each for each in table.metadata.schema.fields if each.name == "place")
    inner = pa.field("town", pa.string(), metadata={"PARQUET:field_id": str(town.field_id)})
    outer = pa.field("place", pa.struct([inner]), metadata={"PARQUET:field_id": str(place.field_id)})
    file = folder / "data" / f"{uuid.uuid4()}-deletes.parquet"
    pq.write_table(pa.table([pa.array([{"town": None}], outer.type)], schema=pa.schema([outer])), file)
    entry = pa.record_batch(
        {
            "content": pa.array([EQUALITY_DELETES], pa.int32()),
            "file_path": pa.array([str(file)]),
            "file_format": pa.array(["parquet"]),
            "partition": pa.array([{}], pa.struct([])),
            "record_count": pa.array([1]),
            "file_size_in_bytes": pa.array([file.stat().st_size]),
            "spec_id": pa.array([0], pa.int32()),
            "equality_ids": pa.array([[town.field_id]], pa.list_(pa.field("element", pa.int32(), nullable=False))),
        }
    )
    with table.transaction() as transaction:
        transaction.snapshot("delete").add_files(entry, 0)
        transaction.commit()
    # The first query of the table, and of all columns: later ones of others were seen to delete other rows.
    by_spark = query("SELECT * FROM ice.keys.nested ORDER BY id")["id"].to_pylist()
    done = deltaberg.convert(folder, to="delta", target=tmp_path / "target")
    assert "equality-deletes-nested" in {item.code for item in done.plan.items}
    assert query(f"SELECT id FROM delta.`{done.target}`")["id"].to_pylist() == [3]
    assert by_spark == [1, 3], "if Spark goes by the field, too, take the note back"
