"""Whatever file of a table is damaged: the right rows, or an error of our own that says which file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deltaberg.errors import DeltabergError
from deltaberg.iceberg.deletes.resolved_deletes import resolve_deletes
from deltaberg.iceberg.scan.scan import scan
from deltaberg.iceberg.schema.schema import Schema
from deltaberg.iceberg.schema.types import LongType, NestedField, StringType

SCHEMA = Schema(
    schema_id=0,
    fields=(
        NestedField(field_id=1, name="id", required=False, type=LongType()),
        NestedField(field_id=2, name="name", required=False, type=StringType()),
    ),
)


@pytest.fixture
def table(stored_table: Callable[..., Any]) -> Any:
    stored = stored_table(SCHEMA, version=3)
    for file_format in ("parquet", "avro"):
        rows = pa.table({"id": list(range(50)), "name": [f"n{i}" for i in range(50)]})
        path = stored.data(rows, file_format=file_format)
        stored.position_deletes([(path, i) for i in range(5)])
    stored.vector(path, [7, 8], sequence_number=2)
    stored.equality_deletes(pa.table({"id": [10, 11]}), [1], sequence_number=3)
    return stored.open()


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_damaged_file_is_named_or_does_not_matter(table: Any, data: st.DataObject) -> None:
    files = sorted(path for path in Path(table.location).rglob("*") if path.is_file())
    damaged = data.draw(st.sampled_from(files))
    whole = damaged.read_bytes()
    content = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    damaged.write_bytes(bytes(content[: data.draw(st.one_of(st.just(len(content)), st.integers(0, len(content))))]))
    error: DeltabergError | None = None
    try:
        scan(table, with_lineage=True).read_all().validate(full=True)
        list(resolve_deletes(table, table.metadata.current_snapshot))
    except DeltabergError as found:
        error = found
    finally:
        damaged.write_bytes(whole)
    assert error is None or (error.path is not None and "\n" not in str(error))


def test_a_file_that_is_gone_is_named(table: Any) -> None:
    for path in sorted(each for each in Path(table.location).rglob("*") if each.is_file()):
        content = path.read_bytes()
        path.unlink()
        with pytest.raises(DeltabergError) as caught:
            scan(table).read_all()
        path.write_bytes(content)
        assert str(path) in str(caught.value)
