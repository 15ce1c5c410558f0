"""Hundreds of files that were registered at once, the last by another writer: no footer that is not read decides a row."""

from __future__ import annotations

import datetime as dt
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltaberg.migrate.convert import convert
from deltaberg.migrate.plan import plan
from deltaberg.migrate.source import open_source
from deltaberg.storage import open_storage
from deltaberg.translate.options import ConvertOptions

FILES = 300
OLD_DATE = dt.date(1500, 3, 1)
LEGACY = {
    b"org.apache.spark.version": b"3.5.1",
    b"org.apache.spark.legacyDateTime": b"",
    b"org.apache.spark.timeZone": b"UTC",
}

Register = Callable[[pa.Table], str]


def linked_files(folder: Path, rows: pa.Table, odd: pa.Table) -> list[str]:
    """As many files of equal content as it takes, and one that differs."""
    folder.mkdir(parents=True, exist_ok=True)
    first = folder / f"part-{0:05}.parquet"
    pq.write_table(rows, first, store_schema=False)
    places = [folder / f"part-{number:05}.parquet" for number in range(1, FILES)]
    for place in places[:-1]:
        os.link(first, place)
    pq.write_table(odd, places[-1], store_schema=False)
    return [str(each) for each in (first, *places)]


def sorted_rows(table: pa.Table, names: list[str]) -> list[tuple[Any, ...]]:
    rows = zip(*(table.column(name).to_pylist() for name in names), strict=True)
    return sorted(rows, key=repr)


@pytest.fixture
def registered(tmp_path: Path) -> Register:
    """``registered(odd)``: an Iceberg table in which PyIceberg registered all files at once, the last of them ``odd``; its
    newest metadata file. Column 1 may also be called ``key`` in files."""
    pytest.importorskip("pyiceberg")
    catalog_type = pytest.importorskip("pyiceberg.catalog.sql").SqlCatalog

    def register(odd: pa.Table) -> str:
        usual = pa.table({"id": pa.array([1], pa.int64()), "day": pa.array([dt.date(2024, 1, 1)])})
        catalog = catalog_type("c", uri="sqlite:///:memory:", warehouse=f"file://{tmp_path}/warehouse")
        catalog.create_namespace("n")
        table = catalog.create_table("n.t", schema=usual.schema)
        places = linked_files(tmp_path / "elsewhere", usual, usual)
        table.add_files(places)
        mapping = json.loads(table.properties["schema.name-mapping.default"])
        mapping[0]["names"] = ["id", "key"]
        with table.transaction() as changes:
            changes.set_properties({"schema.name-mapping.default": json.dumps(mapping)})
        # PyIceberg would refuse some of what other importers register.
        pq.write_table(odd, places[-1])
        return str(table.metadata_location)

    return register


class TestOfIceberg:
    @pytest.mark.parametrize("name", ["key", "ID"])
    def test_a_column_under_another_name_reads_the_same_from_delta(
        self, name: str, tmp_path: Path, registered: Register, iceberg_rows: Any, delta_rows: Any
    ) -> None:
        """By an alias of the name mapping, or by no name that it has."""
        odd = pa.table({name: pa.array([7], pa.int64()), "day": pa.array([dt.date(2024, 1, 2)])})
        metadata = registered(odd)
        usual = [(1, dt.date(2024, 1, 1))] * (FILES - 1)
        wanted = sorted([*usual, (7 if name == "key" else None, dt.date(2024, 1, 2))], key=repr)
        if name == "key":  # PyIceberg stops at a column that the mapping lacks; Iceberg leaves it out
            assert sorted_rows(iceberg_rows(metadata), ["id", "day"]) == wanted
        done = convert(open_source(metadata, open_storage()), to="delta", target=str(tmp_path / "delta"))
        assert sorted_rows(delta_rows(tmp_path / "delta"), ["id", "day"]) == wanted
        assert done.plan.footers.to_json() == {
            "files": FILES,
            "read": FILES,
            "remembered": 0,
            "unread": 0,
            "reason": done.plan.footers.reason,
        }
        assert "name mapping" in done.plan.footers.reason

    def test_a_file_in_the_legacy_calendar_is_found(self, tmp_path: Path, registered: Register) -> None:
        odd = pa.table({"id": pa.array([7], pa.int64()), "day": pa.array([OLD_DATE])}).replace_schema_metadata(LEGACY)
        made = plan(open_source(registered(odd), open_storage()), to="delta")
        assert [(item.code, item.files) for item in made.items if "calendar" in item.code] == [("legacy-calendar", 1)]


def with_ids(rows: pa.Table, *ids: int) -> pa.Table:
    """As old pyarrow wrote: ids by position."""
    fields = [
        field.with_metadata({b"PARQUET:field_id": str(each).encode()})
        for field, each in zip(rows.schema, ids, strict=True)
    ]
    return rows.cast(pa.schema(fields))


class TestOfDelta:
    @pytest.fixture
    def converted(self, tmp_path: Path) -> Path:
        """A Delta table that ``convert_to_deltalake`` made of a folder; in its last file columns stand in another order and
        have ids by position."""
        deltalake = pytest.importorskip("deltalake")
        folder = tmp_path / "table"
        usual = pa.table({"a": pa.array([1], pa.int64()), "b": pa.array([2], pa.int64())})
        odd = with_ids(pa.table({"b": pa.array([20], pa.int64()), "a": pa.array([10], pa.int64())}), 1, 2)
        linked_files(folder, usual, odd)
        deltalake.convert_to_deltalake(str(folder))
        return folder

    def test_foreign_ids_do_not_swap_columns(
        self, tmp_path: Path, converted: Path, opened: Any, delta_rows: Any, iceberg_rows: Any
    ) -> None:
        wanted = sorted_rows(delta_rows(converted), ["a", "b"])
        assert wanted[-1] == (10, 20)
        done = convert(opened(converted), to="iceberg", target=str(tmp_path / "iceberg"))
        assert sorted_rows(iceberg_rows(done.target_metadata), ["a", "b"]) == wanted
        assert (done.plan.footers.read, done.plan.footers.unread) == (FILES, 0)
        assert done.rewritten_files == 1

    def test_the_plan_says_that_they_were_imported(self, converted: Path, command: Any) -> None:
        done = command("plan", str(converted), "--to", "iceberg")
        assert done.code == 0
        said = " ".join(done.out.split())
        assert f"{FILES} of {FILES} read: every file was looked at" in said
        assert "imported by CONVERT" in said


class TestOfTheirOwnWriters:
    """A table that its own engine wrote costs a few footers of each commit."""

    def test_of_a_delta_table(self, tmp_path: Path, opened: Any, delta_rows: Any, iceberg_rows: Any) -> None:
        deltalake = pytest.importorskip("deltalake")
        folder = tmp_path / "own"
        rows = pa.table({"p": pa.array(range(320), pa.int64()), "a": pa.array(range(320), pa.int64())})
        deltalake.write_deltalake(str(folder), rows, partition_by=["p"])
        done = convert(opened(folder), to="iceberg", target=str(tmp_path / "iceberg"))
        found = done.plan.footers
        assert (found.files, found.doubts) == (320, frozenset())
        assert 256 + 2 <= found.read <= 256 + 6
        assert found.unread == 320 - found.read
        assert sorted_rows(iceberg_rows(done.target_metadata), ["p", "a"]) == sorted_rows(
            delta_rows(folder), ["p", "a"]
        )

    def test_strict_reads_them_all(self, tmp_path: Path, opened: Any) -> None:
        deltalake = pytest.importorskip("deltalake")
        rows = pa.table({"p": pa.array(range(300), pa.int64()), "a": pa.array(range(300), pa.int64())})
        deltalake.write_deltalake(str(tmp_path / "own"), rows, partition_by=["p"])
        made = plan(opened(tmp_path / "own"), to="iceberg", options=ConvertOptions(strict=True))
        assert (made.footers.read, made.footers.unread) == (300, 0)

    def test_of_an_iceberg_table(self, tmp_path: Path, catalog: Any, opened: Any) -> None:
        from pyiceberg.transforms import IdentityTransform

        rows = pa.table({"p": pa.array(range(300), pa.int64()), "a": pa.array(range(300), pa.int64())})
        table = catalog.create_table("n.own", schema=rows.schema)
        with table.update_spec() as spec:
            spec.add_field("p", IdentityTransform(), "p")
        table.append(rows)
        made = plan(opened(table.metadata_location), to="delta")
        assert (made.footers.files, made.footers.read, made.footers.unread) == (300, 258, 42)
