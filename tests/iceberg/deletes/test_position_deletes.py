"""Position delete files: read once, kept within bounds, checked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg.datafile.errors import DataFileError
from deltaberg.iceberg.deletes import position_deletes
from deltaberg.iceberg.deletes.delete_index import FILE_PATH_ID
from deltaberg.iceberg.scan.scan import scan
from deltaberg.iceberg.schema.schema import Schema
from deltaberg.iceberg.schema.types import LongType, NestedField

SCHEMA = Schema(schema_id=0, fields=(NestedField(field_id=1, name="id", required=False, type=LongType()),))


@pytest.fixture
def stored(stored_table: Callable[..., Any]) -> Any:
    return stored_table(SCHEMA)


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The delete files that were opened, in order."""
    paths: list[str] = []
    original = position_deletes.ContentFile

    def counting(storage: Any, location: str, *args: Any, **options: Any) -> Any:
        paths.append(location)
        return original(storage, location, *args, **options)

    monkeypatch.setattr(position_deletes, "ContentFile", counting)
    return paths


def ids(stored: Any) -> list[int]:
    found: list[int] = scan(stored.open()).read_all()["id"].to_pylist()
    return found


def test_a_file_for_many_data_files_is_read_once(stored: Any, opened: list[str]) -> None:
    paths = [stored.data(pa.table({"id": [10 * i, 10 * i + 1]})) for i in range(5)]
    stored.position_deletes([(path, 1) for path in reversed(paths)])
    assert ids(stored) == [0, 10, 20, 30, 40]
    assert len(opened) == 1


def test_files_that_do_not_fit_are_read_again(stored: Any, opened: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [stored.data(pa.table({"id": [10 * i, 10 * i + 1]})) for i in range(3)]
    for position in (0, 1):
        stored.position_deletes([(path, position) for path in paths])
    monkeypatch.setattr(position_deletes, "_CACHED_POSITIONS", 1)
    assert ids(stored) == []
    assert len(opened) == 6


def test_a_file_whose_path_bounds_exclude_the_data_file_is_not_read(stored: Any, opened: list[str]) -> None:
    path = stored.data(pa.table({"id": [1, 2]}))
    elsewhere = {"lower_bounds": [(FILE_PATH_ID, b"/a")], "upper_bounds": [(FILE_PATH_ID, b"/b")]}
    stored.position_deletes([("/a/x", 0), ("/b/x", 0)], **elsewhere)
    around = {
        "lower_bounds": [(FILE_PATH_ID, path[:16].encode())],
        "upper_bounds": [(FILE_PATH_ID, (path[:15] + "\U0010ffff").encode())],
    }
    kept = stored.position_deletes([(path, 1)], **around)
    assert ids(stored) == [1]
    assert opened == [kept]


def test_many_positions_survive_batches(stored: Any) -> None:
    path = stored.data(pa.table({"id": list(range(200_000))}))
    stored.position_deletes([(path, position) for position in range(0, 200_000, 2)])
    assert ids(stored) == list(range(1, 200_000, 2))


@pytest.mark.parametrize("position", [-1, 2**63 - 1])
def test_a_position_that_is_none_is_refused(stored: Any, position: int) -> None:
    path = stored.data(pa.table({"id": [1]}))
    deletes = stored.position_deletes([(path, position)])
    with pytest.raises(DataFileError, match="is no row position") as caught:
        ids(stored)
    assert caught.value.path == deletes


def test_a_position_after_the_end_deletes_nothing(stored: Any) -> None:
    path = stored.data(pa.table({"id": [1]}))
    stored.position_deletes([(path, 5)])
    assert ids(stored) == [1]


@pytest.mark.parametrize("column", ["file_path", "pos"])
def test_a_null_or_an_absent_column_is_refused(stored: Any, column: str) -> None:
    path = stored.data(pa.table({"id": [1]}))
    deletes = stored.position_deletes([(path, 0)])
    whole = {"file_path": pa.array([path, path]), "pos": pa.array([0, 1], pa.int64())}
    damaged = {**whole, column: pa.nulls(2, whole[column].type)}
    for content in (damaged, {name: values for name, values in whole.items() if name != column}):
        stored.rewrite(deletes, pa.table(content), {"file_path": 2147483546, "pos": 2147483545})
        with pytest.raises(DataFileError, match=f"'{column}'") as caught:
            ids(stored)
        assert caught.value.path == deletes


def test_paths_from_before_version_4_get_the_scheme_of_the_table(
    stored_table: Callable[..., Any], tmp_path: Path
) -> None:
    stored = stored_table(SCHEMA, version=4, location=f"file:{tmp_path}/table")
    bare = stored.data(pa.table({"id": [1, 2, 3]})).removeprefix("file:")
    stored.entries[-1][2]["file_path"] = bare
    stored.position_deletes([(bare, 0), (f"file:{bare}", 1)])
    assert scan(stored.open(), columns=["id"], metadata_columns=["_file"]).read_all().to_pylist() == [
        {"id": 3, "_file": f"file:{bare}"}
    ]
