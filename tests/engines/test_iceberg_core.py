"""The reference implementation reads what the Iceberg core writes in every format version, and writes on."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltaberg.bitmap import PositionBitmap, frame
from deltaberg.iceberg.create_table import create_table
from deltaberg.iceberg.metadata.snapshot_ref import RefType
from deltaberg.iceberg.partition.partition_spec import PartitionField, PartitionSpec
from deltaberg.iceberg.partition.transforms import BucketTransform, IdentityTransform
from deltaberg.iceberg.scan.scan import scan
from deltaberg.iceberg.schema.schema import Schema
from deltaberg.iceberg.schema.types import LongType, NestedField, StringType
from deltaberg.iceberg.table import Table
from deltaberg.storage import open_storage

SCHEMA = Schema(
    schema_id=0,
    fields=(
        NestedField(field_id=1, name="id", required=False, type=LongType()),
        NestedField(field_id=2, name="p", required=False, type=StringType()),
    ),
)
SPEC = PartitionSpec(
    spec_id=0,
    fields=(
        PartitionField(source_ids=(1,), field_id=1000, name="id_bucket_4", transform=BucketTransform(num_buckets=4)),
        PartitionField(source_ids=(2,), field_id=1001, name="p", transform=IdentityTransform()),
    ),
)
VERSIONS = [1, 2, 3, "4-preview"]
_NAMES = itertools.count()


def data_file(folder: Path, spec: PartitionSpec, ids: list[int], p: str | None) -> pa.RecordBatch:
    """One data file; all its ids fall into the bucket of the first one."""
    folder.mkdir(parents=True, exist_ok=True)
    place = folder / f"{next(_NAMES)}.parquet"
    fields = [
        pa.field(name, kind, metadata={"PARQUET:field_id": field_id})
        for name, kind, field_id in (("id", pa.int64(), "1"), ("p", pa.string(), "2"))
    ]
    rows = pa.table([pa.array(ids, pa.int64()), pa.array([p] * len(ids), pa.string())], schema=pa.schema(fields))
    pq.write_table(rows, place)
    partition = {
        part.name: part.transform.apply(
            rows[SCHEMA.fields[part.source_id - 1].name].slice(0, 1).combine_chunks()
        ).to_pylist()[0]
        for part in spec.fields
    }
    return pa.record_batch(
        {
            "file_path": [str(place)],
            "file_format": ["parquet"],
            "spec_id": pa.array([spec.spec_id], pa.int32()),
            "partition": pa.array([partition], spec.arrow_partition_type(SCHEMA)),
            "record_count": [len(ids)],
            "file_size_in_bytes": [place.stat().st_size],
        }
    )


def deletion_vector(data: pa.RecordBatch, *positions: int) -> pa.RecordBatch:
    """A deletion vector for a data file, in a Puffin file of its own."""
    path = data["file_path"][0].as_py()
    blob = frame(PositionBitmap.from_positions(pa.array(positions, pa.int64()).to_numpy()).serialize())
    footer = (
        f'{{"blobs":[{{"type":"deletion-vector-v1","fields":[2147483645],"snapshot-id":-1,"sequence-number":-1,'
        f'"offset":4,"length":{len(blob)},"properties":{{"referenced-data-file":"{path}",'
        f'"cardinality":"{len(positions)}"}}}}]}}'
    ).encode()
    place = Path(path).with_suffix(".puffin")
    place.write_bytes(b"PFA1" + blob + b"PFA1" + footer + len(footer).to_bytes(4, "little") + b"\0" * 4 + b"PFA1")
    return pa.record_batch(
        {
            "content": pa.array([1], pa.int32()),
            "file_path": [str(place)],
            "file_format": ["puffin"],
            "partition": data["partition"],
            "record_count": [len(positions)],
            "file_size_in_bytes": [place.stat().st_size],
            "referenced_data_file": [path],
            "content_offset": [4],
            "content_size_in_bytes": [len(blob)],
        }
    )


def committed(table: Table, operation: str, *, add: Any = (), delete: Any = (), **options: Any) -> Table:
    transaction = table.transaction()
    builder = transaction.snapshot(operation, **options).add_files(add)
    if len(delete):
        builder.delete_files(delete)
    return transaction.commit()


def ids_here(location: str, **options: Any) -> list[int]:
    table = Table.open(location, open_storage())
    found = scan(table, **options)
    return sorted(pa.Table.from_batches(found.batches(), found.schema)["id"].to_pylist())


def ids_of(rows: pa.Table) -> list[int]:
    return sorted(rows["id"].to_pylist())


@pytest.fixture
def folder(warehouse: Path, request: pytest.FixtureRequest) -> Path:
    """Where the hadoop catalog ``ice`` expects the table ``ice.core.t<N>``."""
    return warehouse / "core" / f"t{next(_NAMES)}"


@pytest.mark.parametrize("version", VERSIONS)
def test_spark_reads_every_snapshot_and_writes_on(
    spark: Any, query: Callable[[str], pa.Table], folder: Path, version: int | str
) -> None:
    name = f"ice.core.{folder.name}"
    table = create_table(
        open_storage(),
        str(folder),
        schema=SCHEMA,
        spec=SPEC,
        format_version=version,
        properties={"commit.manifest.min-count-to-merge": "3"},
    ).commit()
    one, two = data_file(folder / "data", SPEC, [1, 1, 1], "a b"), data_file(folder / "data", SPEC, [2], None)
    table = committed(table, "append", add=[one, two], snapshot_id=101)
    table = committed(table, "append", add=data_file(folder / "data", SPEC, [3], ""), snapshot_id=102)
    table = committed(table, "overwrite", add=data_file(folder / "data", SPEC, [4], "c%"), delete=two, snapshot_id=103)
    table = table.transaction().set_ref("kept", 102, type=RefType.TAG).commit()
    assert ids_of(query(f"SELECT * FROM {name}")) == [1, 1, 1, 3, 4]
    assert ids_of(query(f"SELECT * FROM {name} VERSION AS OF 101")) == [1, 1, 1, 2]
    assert ids_of(query(f"SELECT * FROM {name} VERSION AS OF 'kept'")) == [1, 1, 1, 2, 3]
    assert ids_of(query(f"SELECT * FROM {name} WHERE p = 'c%'")) == [4]
    summaries = query(f"SELECT snapshot_id, summary['total-records'] AS total FROM {name}.snapshots").to_pylist()
    assert {row["snapshot_id"]: row["total"] for row in summaries} == {101: "4", 102: "5", 103: "5"}
    if version == "4-preview":
        # The catalog's folder has no scheme, and what Spark would write there nobody could read as version 4.
        return
    spark.sql(f"INSERT INTO {name} VALUES (5, 'new'), (6, 'new')")
    spark.sql(f"DELETE FROM {name} WHERE id = 1")
    spark.sql(f"ALTER TABLE {name} ADD COLUMN extra INT")
    assert ids_here(str(folder)) == [3, 4, 5, 6]
    table = Table.open(str(folder), open_storage())
    table = committed(table, "append", add=data_file(folder / "data", SPEC, [7], "z"))
    assert ids_of(query(f"SELECT * FROM {name}")) == [3, 4, 5, 6, 7] == ids_here(str(folder))


@pytest.mark.parametrize("version", [3, "4-preview"])
def test_spark_agrees_on_row_lineage_and_deletion_vectors(
    query: Callable[[str], pa.Table], folder: Path, version: int | str
) -> None:
    name = f"ice.core.{folder.name}"
    table = create_table(open_storage(), str(folder), schema=SCHEMA, spec=SPEC, format_version=version).commit()
    transaction = table.transaction()
    builder = transaction.snapshot("append", sequence_number=10, first_row_id=0)
    first = data_file(folder / "data", SPEC, [1, 1, 1], "a")
    builder.add_files(
        [
            first.append_column("first_row_id", pa.array([70])).append_column("sequence_number", pa.array([4])),
            data_file(folder / "data", SPEC, [2, 2], "b")
            .append_column("first_row_id", pa.array([20]))
            .append_column("sequence_number", pa.array([10])),
        ],
        keep_inherited=True,
    )
    table = transaction.commit()
    table = committed(table, "append", add=data_file(folder / "data", SPEC, [3], "c"))
    table = committed(table, "delete", add=deletion_vector(first, 1))
    rows = query(f"SELECT id, _row_id, _last_updated_sequence_number AS seq FROM {name}").to_pylist()
    assert sorted((row["id"], row["_row_id"], row["seq"]) for row in rows) == [
        (1, 70, 4),
        (1, 72, 4),
        (2, 20, 10),
        (2, 21, 10),
        (3, 73, 11),
    ]
    assert ids_here(str(folder)) == [1, 1, 2, 2, 3]


def test_spark_follows_an_upgrade_and_partition_evolution(query: Callable[[str], pa.Table], folder: Path) -> None:
    name = f"ice.core.{folder.name}"
    table = create_table(open_storage(), str(folder), schema=SCHEMA, format_version=1).commit()
    table = committed(table, "append", add=data_file(folder / "data", PartitionSpec(spec_id=0), [1, 2], "a"))
    transaction = table.transaction().upgrade(2)
    transaction.update_spec(lambda update: update.add_field("id", BucketTransform(num_buckets=4)))
    table = transaction.commit()
    table = committed(table, "append", add=data_file(folder / "data", table.metadata.spec, [3], "b"))
    transaction = table.transaction().upgrade(3)
    transaction.update_spec(lambda update: update.remove_field("id_bucket_4").add_field("p"))
    transaction.update_schema(lambda update: update.add_column("n", LongType(), default=7))
    table = transaction.commit()
    table = committed(table, "append", add=data_file(folder / "data", table.metadata.spec, [4], "c"))
    rows = query(f"SELECT * FROM {name}").to_pylist()
    assert sorted((row["id"], row["p"], row["n"]) for row in rows) == [
        (1, "a", 7),
        (2, "a", 7),
        (3, "b", 7),
        (4, "c", 7),
    ]
    found = query(f"SELECT id, _row_id FROM {name}").to_pylist()
    mine = scan(table, with_lineage=True)
    ours = pa.Table.from_batches(mine.batches(), mine.schema).select(["id", "_row_id"]).to_pylist()
    assert sorted((row["id"], row["_row_id"]) for row in found) == sorted((row["id"], row["_row_id"]) for row in ours)
