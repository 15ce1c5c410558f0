"""Tables that delta-rs and PyIceberg write, rows deleted from them, and the rows that these two read from targets."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltaberg.bitmap import PositionBitmap, frame
from deltaberg.delta.table import DeltaTable
from deltaberg.delta.transaction import begin_transaction
from deltaberg.iceberg.catalog import CatalogCommit
from deltaberg.iceberg.deletes.puffin import PuffinWriter
from deltaberg.iceberg.manifest.data_file import POSITION_DELETES
from deltaberg.iceberg.manifest.live_files import data_files
from deltaberg.iceberg.manifest.metrics import metric_map
from deltaberg.iceberg.partition.partition_spec import PartitionSpec
from deltaberg.iceberg.schema.schema import Schema
from deltaberg.iceberg.schema.single_value import encode_bounds, minimum_and_maximum
from deltaberg.iceberg.schema.types import ListType, MapType, NestedField, StructType, arrow_type, nested_fields
from deltaberg.iceberg.table import Table
from deltaberg.migrate.source import Source, open_source
from deltaberg.storage import open_storage

POSITION_DELETE_SCHEMA = pa.schema(
    [
        pa.field("file_path", pa.string(), nullable=False, metadata={"PARQUET:field_id": "2147483546"}),
        pa.field("pos", pa.int64(), nullable=False, metadata={"PARQUET:field_id": "2147483545"}),
    ]
)

Opened = Callable[..., Source]
Rows = Callable[[Any], pa.Table]
WriteDelta = Callable[..., Path]
DeleteRows = Callable[..., None]
Positions = Mapping[int, list[int]]


@pytest.fixture(scope="session")
def opened() -> Opened:
    """``opened(folder_or_metadata_file, version=..., storage=...)``: the table as a source."""

    def source(place: Path | str, *, storage: Any = None, **where: Any) -> Source:
        return open_source(str(place), storage or open_storage(), **where)

    return source


@pytest.fixture(scope="session")
def delta_rows() -> Rows:
    """What delta-rs reads from a table's folder."""
    deltalake = pytest.importorskip("deltalake")

    def read(folder: Path | str) -> pa.Table:
        table = deltalake.DeltaTable(str(folder))
        return pa.table(deltalake.QueryBuilder().register("t", table).execute("SELECT * FROM t").read_all())

    return read


@pytest.fixture(scope="session")
def iceberg_rows() -> Rows:
    """What PyIceberg reads from a metadata file."""
    table = pytest.importorskip("pyiceberg.table")

    def read(metadata: Path | str) -> pa.Table:
        return table.StaticTable.from_metadata(str(metadata)).scan().to_arrow()

    return read


@pytest.fixture
def write_delta(tmp_path: Path) -> WriteDelta:
    """``write_delta(rows, partition_by=[...])``: delta-rs writes (or appends to) a table; its folder."""
    deltalake = pytest.importorskip("deltalake")

    def write(rows: pa.Table, folder: Path | None = None, **options: Any) -> Path:
        folder = folder or tmp_path / "delta"
        deltalake.write_deltalake(str(folder), rows, **{"mode": "append", **options})
        return folder

    return write


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Any]:
    """PyIceberg's own catalog, with a namespace ``n``."""
    sql = pytest.importorskip("pyiceberg.catalog.sql")
    made = sql.SqlCatalog("t", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}/warehouse")
    made.create_namespace("n")
    yield made
    made.close()


@pytest.fixture(scope="session")
def delete_from_delta() -> DeleteRows:
    """``delete_from_delta(folder, {0: [1, 2]})``: rows 1 and 2 of the first live file (by path) get deleted by a vector."""
    return _delete_from_delta


def _delete_from_delta(folder: Path, positions: Positions, *, cardinality: int | None = None) -> None:
    snapshot = DeltaTable.open(str(folder), open_storage()).snapshot()
    transaction = begin_transaction(snapshot)
    properties = {**snapshot.metadata.configuration, "delta.enableDeletionVectors": "true"}
    if properties != snapshot.metadata.configuration:
        transaction.set_metadata(_with_configuration(snapshot.metadata, properties))
    live = pa.Table.from_batches(list(snapshot.add_files())).sort_by("path").combine_chunks().to_batches()[0]
    for file, places in positions.items():
        add = live.slice(file, 1)
        bitmap = PositionBitmap.from_positions(np.array(places, np.int64))
        (vector,) = transaction.write_deletion_vectors([(bitmap.serialize(), bitmap.cardinality)])
        place = add.schema.get_field_index("deletion_vector")
        described = {
            "storage_type": vector.storage_type,
            "path_or_inline_dv": vector.path_or_inline_dv,
            "offset": vector.offset,
            "size_in_bytes": vector.size_in_bytes,
            "cardinality": vector.cardinality if cardinality is None else cardinality,
        }
        transaction.remove_files([add])
        wanted = add.schema.field(place)
        transaction.add_files([add.set_column(place, wanted, pa.array([described], wanted.type))])
    transaction.commit("DELETE")


def _with_configuration(metadata: Any, configuration: Mapping[str, str]) -> Any:
    import dataclasses

    return dataclasses.replace(metadata, configuration=configuration)


@pytest.fixture(scope="session")
def delete_from_iceberg() -> DeleteRows:
    """``delete_from_iceberg(metadata_file, {0: [1, 2]})``: rows 1 and 2 of the first live file (by path) get deleted, by a
    position delete file, or by a vector in a table of version 3; the new metadata file."""
    return _delete_from_iceberg


@pytest.fixture(scope="session")
def write_iceberg_file() -> Callable[..., pa.RecordBatch]:
    """``write_iceberg_file(root, schema, rows, spec)``: a Parquet file of rows that share a partition; its entry, with the
    bounds of its flat columns."""
    return _write_iceberg_file


def _write_iceberg_file(root: str, schema: Schema, rows: pa.Table, spec: PartitionSpec) -> pa.RecordBatch:
    place = Path(root) / "data" / f"{uuid.uuid4()}.parquet"
    place.parent.mkdir(parents=True, exist_ok=True)
    stored = pa.schema([_with_ids(field) for field in schema.fields])
    pq.write_table(rows.cast(stored), place)
    lower, upper, nulls = {}, {}, {}
    for field in schema.fields:
        if nested_fields(field.type):
            continue
        values = rows[field.name].combine_chunks()
        low, high = minimum_and_maximum(values)
        lower[field.field_id] = encode_bounds(pa.repeat(low, 1), field.type)
        upper[field.field_id] = encode_bounds(pa.repeat(high, 1), field.type)
        nulls[field.field_id] = pa.array([values.null_count])
    partition = {}
    for part in spec.fields:
        source = schema.find(part.source_id)
        assert source is not None
        partition[part.name] = part.transform.apply(rows[source.name].combine_chunks().slice(0, 1))[0].as_py()
    columns = {
        "file_path": pa.array([str(place)]),
        "file_format": pa.array(["parquet"]),
        "partition": pa.array([partition], spec.arrow_partition_type(schema)),
        "record_count": pa.array([rows.num_rows]),
        "file_size_in_bytes": pa.array([place.stat().st_size]),
        "spec_id": pa.array([spec.spec_id], pa.int32()),
        "null_value_counts": metric_map(nulls, length=1),
        "lower_bounds": metric_map(lower, length=1),
        "upper_bounds": metric_map(upper, length=1),
    }
    return pa.record_batch(columns)


def _with_ids(field: NestedField) -> pa.Field:
    """The Arrow field with Parquet field ids at every depth."""
    kind = field.type
    match kind:
        case StructType(fields=fields):
            stored = pa.struct([_with_ids(each) for each in fields])
        case ListType(element=element):
            stored = pa.list_(_with_ids(element))
        case MapType(key=key, value=value):
            stored = pa.map_(_with_ids(key), _with_ids(value))
        case _:
            stored = arrow_type(kind)
    return pa.field(field.name, stored, not field.required, {"PARQUET:field_id": str(field.field_id)})


class OneTable:
    """A catalog of the one table whose current metadata file is ``place``; it takes every commit."""

    def __init__(self, place: str) -> None:
        self.place = place

    def current(self) -> str:
        return self.place

    def commit(self, commit: CatalogCommit) -> str:
        self.place = commit.location
        return self.place


def _delete_from_iceberg(place: str, positions: Positions) -> str:
    storage = open_storage()
    by_version = Path(place).name.startswith("v")
    table = Table.open(place, storage) if by_version else Table.of_catalog(OneTable(place), storage)
    batches = list(data_files(table, table.metadata.current_snapshot))
    live = sorted(
        (
            (batch.column("file_path")[row].as_py(), batch.column("spec_id")[row].as_py(), batch.slice(row, 1))
            for batch in batches
            for row in range(batch.num_rows)
        ),
        key=lambda file: file[0],
    )
    write = _vector_entry if table.metadata.format_version >= 3 else _position_delete_entry
    with table.transaction() as transaction:
        builder = transaction.snapshot("delete")
        for file, places in positions.items():
            path, spec_id, entry = live[file]
            written = write(storage, table.location, path, places)
            columns = {
                "content": pa.array([POSITION_DELETES], pa.int32()),
                "record_count": pa.array([len(places)], pa.int64()),
                "spec_id": pa.array([spec_id], pa.int32()),
                "partition": entry.column("partition"),
                **written,
            }
            builder.add_files(pa.record_batch(columns), spec_id)
        return transaction.commit().metadata_location


def _position_delete_entry(storage: Any, root: str, path: str, places: list[int]) -> dict[str, pa.Array]:
    location = f"{root}/data/{uuid.uuid4()}-deletes.parquet"
    rows = pa.table([[path] * len(places), sorted(places)], schema=POSITION_DELETE_SCHEMA)
    pq.write_table(rows, storage.resolve(location))
    return {
        "file_path": pa.array([location]),
        "file_format": pa.array(["parquet"]),
        "file_size_in_bytes": pa.array([Path(storage.resolve(location)).stat().st_size]),
    }


def _vector_entry(storage: Any, root: str, path: str, places: list[int]) -> dict[str, pa.Array]:
    location = f"{root}/data/{uuid.uuid4()}.puffin"
    bitmap = PositionBitmap.from_positions(np.array(places, np.int64))
    with PuffinWriter(storage, location) as writer:
        blob = writer.add_deletion_vector(
            frame(bitmap.serialize()), referenced_data_file=path, cardinality=bitmap.cardinality
        )
    return {
        "file_path": pa.array([location]),
        "file_format": pa.array(["puffin"]),
        "file_size_in_bytes": pa.array([Path(storage.resolve(location)).stat().st_size]),
        "referenced_data_file": pa.array([path]),
        "content_offset": pa.array([blob.offset], pa.int64()),
        "content_size_in_bytes": pa.array([blob.length], pa.int64()),
    }
