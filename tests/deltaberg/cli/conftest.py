"""Small tables of both formats, written by other libraries."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

ROWS = {
    "id": pa.array([1, 2, 3, 4], pa.int64()),
    "name": pa.array(["a", None, "ü", ""], pa.string()),
    "part": pa.array(["x", "x", "y", None], pa.string()),
}


@pytest.fixture(scope="session")
def rows() -> pa.Table:
    return pa.table(ROWS)


@pytest.fixture
def delta_folder(tmp_path: Path, rows: pa.Table) -> Path:
    """A Delta table of two commits by delta-rs: versions 0 and 1."""
    from deltalake import write_deltalake

    folder = tmp_path / "orders"
    write_deltalake(folder, rows.slice(0, 2), partition_by=["part"])
    write_deltalake(folder, rows.slice(2), mode="append")
    return folder


@pytest.fixture
def iceberg_folder(tmp_path: Path, rows: pa.Table) -> Path:
    """An Iceberg table of two snapshots by PyIceberg."""
    return make_iceberg(tmp_path, rows, "items")


@pytest.fixture
def another_iceberg(tmp_path: Path, rows: pa.Table) -> Callable[[str], Path]:
    return lambda name: make_iceberg(tmp_path, rows, name)


def make_iceberg(root: Path, rows: pa.Table, name: str) -> Path:
    from pyiceberg.catalog.sql import SqlCatalog

    catalog = SqlCatalog("test", uri=f"sqlite:///{root / name}.db", warehouse=f"file://{root}")
    catalog.create_namespace("n")
    table = catalog.create_table(f"n.{name}", rows.schema, location=f"file://{root / name}")
    table.append(rows.slice(0, 2))
    table.append(rows.slice(2))
    catalog.close()
    return root / name
