"""Every operation of a commit fails in every way: the table reads as before or as after, and the work can be done again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg.errors import NotATable
from deltaberg.iceberg.create_table import create_table
from deltaberg.iceberg.scan.scan import scan
from deltaberg.iceberg.schema.schema import Schema
from deltaberg.iceberg.schema.types import LongType, NestedField, StringType
from deltaberg.iceberg.table import Table
from deltaberg.storage import Storage, open_storage
from tests.fault_storage import Mode, survive_every_fault
from tests.independent_readers import pyiceberg

SCHEMA = Schema(
    schema_id=0,
    fields=(
        NestedField(field_id=1, name="id", required=False, type=LongType()),
        NestedField(field_id=2, name="s", required=False, type=StringType()),
    ),
)


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "s": [f"s{each}" for each in ids]})


def ids_found(root: str) -> list[int] | None:
    """What deltaberg and PyIceberg read; None for no table."""
    try:
        table = Table.open(root, open_storage())
    except NotATable:
        return None
    plan = scan(table)
    ours = sorted(pa.Table.from_batches(plan.batches(), plan.schema)["id"].to_pylist())
    assert sorted(pyiceberg(table.metadata_location, None)["id"].to_pylist()) == ours
    return ours


def create(storage: Storage, root: str, version: int, *files: Any) -> None:
    with create_table(storage, root, schema=SCHEMA, format_version=version) as transaction:
        if files:
            transaction.snapshot("append").add_files(list(files))
        transaction.commit()


def append(storage: Storage, root: str, *files: Any) -> None:
    with Table.open(root, storage).transaction() as transaction:
        transaction.snapshot("append").add_files(list(files))
        transaction.set_properties({"appended": "yes"})
        transaction.commit()


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("mode", Mode, ids=lambda mode: mode.name)
def test_of_a_creation(
    tmp_path: Path, data_files: Any, record_property: Callable[..., None], mode: Mode, version: int
) -> None:
    file = data_files.write(SCHEMA, rows(1, 2))
    faults = survive_every_fault(
        mode,
        str(tmp_path / "tables"),
        prepare=lambda root: None,
        work=lambda storage, root: create(storage, root, version, file),
        state=ids_found,
        after=[1, 2],
    )
    record_property(f"faults of an Iceberg creation, v{version}", faults)


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("mode", Mode, ids=lambda mode: mode.name)
def test_of_an_append(
    tmp_path: Path, data_files: Any, record_property: Callable[..., None], mode: Mode, version: int
) -> None:
    first, second = data_files.write(SCHEMA, rows(1, 2)), data_files.write(SCHEMA, rows(3))
    faults = survive_every_fault(
        mode,
        str(tmp_path / "tables"),
        prepare=lambda root: create(open_storage(), root, version, first),
        work=lambda storage, root: append(storage, root, second),
        state=ids_found,
        after=[1, 2, 3],
    )
    record_property(f"faults of an Iceberg append, v{version}", faults)
