"""Deletes as positions: vectors that can be copied are named, everything else is merged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from deltaberg.iceberg.deletes import resolved_deletes
from deltaberg.iceberg.deletes.resolved_deletes import VECTOR_TYPE, resolve_deletes
from deltaberg.iceberg.manifest.data_file import DATA_FILE_SCHEMA
from deltaberg.iceberg.schema.schema import Schema
from deltaberg.iceberg.schema.types import LongType, NestedField, StringType

ID = NestedField(field_id=1, name="id", required=False, type=LongType())
NAME = NestedField(field_id=2, name="name", required=False, type=StringType())


@pytest.fixture
def stored(stored_table: Callable[..., Any]) -> Any:
    return stored_table(Schema(schema_id=0, fields=(ID, NAME)), version=3)


def people(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "name": [f"n{each}" for each in ids]})


def resolved(stored: Any) -> tuple[list[Any], dict[int, list[int]]]:
    """The vectors of all data files, and the merged positions by place of the data file."""
    table = stored.open()
    (only,) = resolve_deletes(table, table.metadata.current_snapshot)
    assert only.data_files.schema.names == DATA_FILE_SCHEMA.names
    assert only.vectors.type == VECTOR_TYPE
    only.vectors.validate(full=True)
    return only.vectors.to_pylist(), {row: bitmap.to_positions().tolist() for row, bitmap in only.merged.items()}


def test_a_table_without_deletes_has_none(stored: Any) -> None:
    stored.data(people(1))
    stored.data(people(2))
    assert resolved(stored) == ([None, None], {})


def test_no_snapshot_has_no_files(stored: Any) -> None:
    assert list(resolve_deletes(stored.open(), None)) == []


def test_a_lone_vector_is_named_not_read(stored: Any) -> None:
    stored.data(people(1))
    path = stored.data(people(1, 2, 3))
    vector = stored.bare_vector(path, b"never read", 2)
    place = {"location": vector, "offset": 1, "size": 10, "cardinality": 2}
    assert resolved(stored) == ([None, place], {})


def test_position_deletes_are_merged_and_cut_at_the_end_of_the_file(stored: Any) -> None:
    path = stored.data(people(1, 2, 3))
    other = stored.data(people(4))
    stored.position_deletes([(path, 2), (other, 7)])
    stored.position_deletes([(path, 0), (path, 2), (path, 3)], referenced_data_file=path)
    assert resolved(stored) == ([None, None], {0: [0, 2]})


def test_a_vector_is_merged_with_equality_deletes_that_reach_rows(stored: Any) -> None:
    one, two = stored.data(people(1, 2, 3)), stored.data(people(4, 5))
    stored.vector(one, [1])
    vector = stored.vector(two, [0])
    stored.equality_deletes(pa.table({"id": [1, 2, 9]}), [1], sequence_number=2)
    vectors, merged = resolved(stored)
    assert merged == {0: [0, 1]}
    assert vectors[0] is None
    assert vectors[1]["location"] == vector


def test_equality_deletes_read_only_their_columns(stored: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    stored.data(people(1, 2, 3))
    stored.equality_deletes(pa.table({"id": [3]}), [1], sequence_number=2)
    asked: list[list[str]] = []
    original = resolved_deletes.ContentFile

    class Watched(original):  # type: ignore[valid-type, misc]
        def iter_batches(self, fields: Any, **options: Any) -> Any:
            asked.append([field.name for field in fields])
            return super().iter_batches(fields, **options)

    monkeypatch.setattr(resolved_deletes, "ContentFile", Watched)
    assert resolved(stored) == ([None], {0: [2]})
    assert asked == [["id"]]
