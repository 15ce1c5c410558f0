"""Tables that PyIceberg writes, read as PyIceberg reads them, at every snapshot."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg.iceberg.scan.scan import scan
from deltaberg.iceberg.schema.read_schema import schema_at
from deltaberg.iceberg.table import Table
from deltaberg.storage import open_storage

pyiceberg_types = pytest.importorskip("pyiceberg.types")
pyiceberg_sql = pytest.importorskip("pyiceberg.catalog.sql")
pyiceberg_transforms = pytest.importorskip("pyiceberg.transforms")
Difference = Callable[..., str]


POINT = pa.struct([("x", pa.float64()), ("tags", pa.list_(pa.string()))])


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Any]:
    made = pyiceberg_sql.SqlCatalog("t", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}/warehouse")
    made.create_namespace("n")
    yield made
    made.close()


def rows(start: int, count: int) -> pa.Table:
    numbers = range(start, start + count)
    moments = [dt.datetime(1969, 12, 31, 23, tzinfo=dt.timezone.utc) + dt.timedelta(minutes=37 * i) for i in numbers]
    return pa.table(
        {
            "id": pa.array(numbers, pa.int32()),
            "text": pa.array([None if i % 7 == 0 else f"t{i % 5}" for i in numbers], pa.string()),
            "price": pa.array([Decimal(i) / 4 for i in numbers], pa.decimal128(9, 2)),
            "moment": pa.array(moments, pa.timestamp("us", tz="UTC")),
            "point": pa.array([None if i % 11 == 0 else {"x": i / 3, "tags": [str(i), None]} for i in numbers], POINT),
        }
    )


def agree(table: Any, difference: Difference) -> None:
    ours = Table.open(table.metadata_location, open_storage())
    wrong = difference(scan(ours).read_all(), table.scan().to_arrow())
    assert not wrong, wrong
    for snapshot in ours.metadata.snapshots:
        got = scan(ours, snapshot=snapshot, schema=schema_at(ours.metadata, snapshot=snapshot)).read_all()
        wrong = difference(got, table.scan(snapshot_id=snapshot.snapshot_id).to_arrow())
        assert not wrong, f"{snapshot.snapshot_id}: {wrong}"


@pytest.mark.parametrize("version", ["1", "2"])
def test_schema_and_partition_evolution(catalog: Any, difference: Difference, version: str) -> None:
    table = catalog.create_table("n.t", schema=rows(0, 1).schema, properties={"format-version": version})
    agree(table, difference)
    table.append(rows(0, 12))
    with table.update_schema() as update:
        update.rename_column("text", "words")
        update.add_column("added", pyiceberg_types.LongType())
        update.update_column("id", pyiceberg_types.LongType())
        update.rename_column("point.x", "easting")
    with table.update_spec() as update:
        update.add_field("words", pyiceberg_transforms.IdentityTransform(), "w")
        update.add_field("added", pyiceberg_transforms.IdentityTransform(), "a")
    evolved = rows(12, 12).rename_columns(["id", "words", "price", "moment", "point"])
    points = [None if i % 3 == 0 else {"easting": float(i), "tags": []} for i in range(12)]
    kind = pa.struct([("easting", pa.float64()), ("tags", pa.list_(pa.string()))])
    evolved = evolved.set_column(4, "point", pa.array(points, kind)).set_column(0, "id", evolved["id"].cast(pa.int64()))
    table.append(evolved.append_column("added", pa.array(range(12), pa.int64())))
    with table.update_spec() as update:
        update.remove_field("w")
        update.add_field("id", pyiceberg_transforms.IdentityTransform(), "i")
    table.append(evolved.append_column("added", pa.array([None] * 12, pa.int64())))
    table.delete("words = 't1'")
    with table.update_schema() as update:
        update.delete_column("price")
    agree(table, difference)


def test_overwrites_and_a_rollback(catalog: Any, difference: Difference) -> None:
    table = catalog.create_table("n.t", schema=rows(0, 1).schema)
    for start in (0, 10, 20):
        table.append(rows(start, 10))
    table.overwrite(rows(100, 5), overwrite_filter="id < 15")
    agree(table, difference)
    first = table.metadata.snapshots[0].snapshot_id
    table.manage_snapshots().create_tag(first, "first").create_branch(first, "again").commit()
    ours = Table.open(table.metadata_location, open_storage())
    for ref in ("first", "again"):
        snapshot = ours.snapshot_for(ref=ref)
        got = scan(ours, snapshot=snapshot, schema=schema_at(ours.metadata, snapshot=snapshot, ref=ref)).read_all()
        assert not difference(got, rows(0, 10))
