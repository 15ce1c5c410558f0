"""``rollback`` rolls back what deltaberg wrote, all of it and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import deltaberg
from deltaberg.delta.commit.distributed_create import TableInParts
from deltaberg.delta.create_table import new_metadata
from deltaberg.delta.schema.types import LongType, StructField, StructType
from deltaberg.errors import Conflict, NotATable
from deltaberg.migrate.convert import convert
from deltaberg.storage import open_storage
from deltaberg.translate.options import ConvertOptions
from tests.fault_storage import FaultStorage, Killed, Mode


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def folders(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_dir()}


@pytest.fixture
def table(tmp_path: Path, write_delta: Any, delete_from_delta: Any) -> Path:
    folder: Path = write_delta(pa.table({"id": [1, 2, 3], "s": ["a", "b", None]}), tmp_path / "table")
    write_delta(pa.table({"id": [4, 5], "s": ["c", "d"]}), folder)
    delete_from_delta(folder, {0: [0], 1: [1]})
    return folder


@pytest.fixture
def iceberg_table(tmp_path: Path, table: Path, opened: Any) -> Path:
    options = ConvertOptions(format_version=3, history="all")
    return Path(convert(opened(table), to="iceberg", target=str(tmp_path / "iceberg"), options=options).target)


@pytest.mark.parametrize("history", ["latest", "all"])
def test_an_iceberg_target_goes_and_the_source_is_as_before(table: Path, opened: Any, history: str) -> None:
    before, folders_before = files(table), folders(table)
    target = convert(opened(table), to="iceberg", options=ConvertOptions(history=history, format_version=3)).target
    written = files(table).keys() - before.keys()
    report = deltaberg.rollback(target)
    assert report.done
    assert {str(Path(each).relative_to(table)) for each in report.files} == written
    assert files(table) == before
    assert folders(table) == folders_before


@pytest.mark.parametrize("history", ["latest", "all"])
def test_a_delta_target_in_place_goes_and_the_source_is_as_before(
    iceberg_table: Path, opened: Any, history: str
) -> None:
    """The source is a table that deltaberg wrote, too: not a file of it may be taken for one of the target."""
    before, folders_before = files(iceberg_table), folders(iceberg_table)
    assert any("_deltaberg/plan-" in name for name in before)
    convert(opened(iceberg_table), to="delta", options=ConvertOptions(history=history))
    written = files(iceberg_table).keys() - before.keys()
    report = deltaberg.rollback(iceberg_table)
    assert (report.format, report.done) == ("delta", True)
    assert {str(Path(each).relative_to(iceberg_table)) for each in report.files} == written
    assert files(iceberg_table) == before
    assert folders(iceberg_table) == folders_before


def test_a_source_that_stands_in_the_folder_is_not_taken_from_under_a_target(iceberg_table: Path, opened: Any) -> None:
    convert(opened(iceberg_table), to="delta")
    before = files(iceberg_table)
    with pytest.raises(Conflict, match="the delta table there was made from it and would lose its source"):
        deltaberg.rollback(iceberg_table, format="iceberg")
    assert files(iceberg_table) == before
    assert deltaberg.rollback(iceberg_table).format == "delta"
    assert deltaberg.rollback(iceberg_table).format == "iceberg"
    assert files(iceberg_table) == {}


def test_it_shows_first_and_does_when_told(table: Path, opened: Any, command: Any) -> None:
    target = convert(opened(table), to="iceberg").target
    before = files(table)
    shown = command("rollback", target)
    assert shown.code == 0
    assert "the iceberg table made from version 2 of delta table" in shown.out
    assert f"  {target}/metadata/v1.metadata.json\n" in shown.out
    assert shown.out.endswith("nothing was removed; repeat with --yes\n")
    assert files(table) == before
    as_json = command("rollback", target, "--json").document
    assert as_json["done"] is False
    assert as_json["position"]["version"] == 2
    done = command("rollback", target, "--yes", "--json").document
    assert done == {**as_json, "done": True}
    assert not Path(target).exists()
    again = command("rollback", target)
    assert (again.code, again.err) == (1, f"deltaberg: Cannot roll back {target}: deltaberg wrote nothing there\n")


def test_the_table_of_a_source_is_not_a_target(table: Path, opened: Any) -> None:
    convert(opened(table), to="iceberg")
    before = files(table)
    with pytest.raises(NotATable, match=r"wrote nothing there; the table that it wrote stands in .*/table/_iceberg"):
        deltaberg.rollback(table)
    assert files(table) == before


def test_somebody_elses_commit_to_an_iceberg_target_is_not_lost(
    table: Path, opened: Any, delete_from_iceberg: Any, command: Any
) -> None:
    done = convert(opened(table), to="iceberg", options=ConvertOptions(format_version=2))
    delete_from_iceberg(done.target_metadata, {0: [0]})
    before = files(table)
    result = command("rollback", done.target, "--yes")
    assert result.code == 5
    assert result.err.startswith(f"deltaberg: Cannot roll back {done.target}: somebody else has committed to it")
    assert files(table) == before


def test_somebody_elses_commit_to_a_delta_target_is_not_lost(
    tmp_path: Path, iceberg_table: Path, opened: Any, delete_from_delta: Any, command: Any
) -> None:
    target = convert(opened(iceberg_table), to="delta", target=str(tmp_path / "target")).target
    delete_from_delta(Path(target), {0: [0]})
    before = files(Path(target))
    assert command("rollback", target, "--yes").code == 5
    assert files(Path(target)) == before


def test_a_table_that_another_writer_made_stays(table: Path, opened: Any) -> None:
    before = files(table)
    with pytest.raises(NotATable, match=r"deltaberg wrote nothing there$"):
        deltaberg.rollback(table)
    assert files(table) == before


def test_strangers_files_in_a_target_stay(tmp_path: Path, table: Path, opened: Any) -> None:
    target = tmp_path / "target"
    convert(opened(table), to="iceberg", target=str(target))
    notes = [target / "notes.txt", target / "metadata" / "notes.txt", target / "data" / "rewritten-notes.parquet"]
    for path in notes:
        path.parent.mkdir(exist_ok=True)
        path.write_text("mine")
    deltaberg.rollback(target)
    assert sorted(files(target)) == sorted(str(path.relative_to(target)) for path in notes)


@pytest.mark.parametrize("to", ["iceberg", "delta"])
def test_a_target_without_a_visible_table_is_cleared(
    tmp_path: Path, table: Path, iceberg_table: Path, opened: Any, to: str, command: Any
) -> None:
    source, commit = (table, "v1.metadata.json") if to == "iceberg" else (iceberg_table, f"{0:020}.json")
    storage = FaultStorage(
        Mode.KILLED_BEFORE, 0, only=lambda done, location: done == "put_if_absent" and location.endswith(commit)
    )
    target = tmp_path / "target"
    with pytest.raises(Killed):
        convert(opened(source, storage=storage), to=to, target=str(target))
    left = files(target)
    shown = command("rollback", target)
    assert shown.out.startswith(f"what unfinished conversions left: {len(left)} files would be removed from {target}\n")
    assert command("rollback", target, "--yes").code == 0
    assert not target.exists()


def test_a_creation_in_parts_that_died_is_cleared(tmp_path: Path) -> None:
    target = tmp_path / "target"
    schema = StructType(fields=(StructField(name="id", type=LongType()),))
    metadata = new_metadata(schema, table_id="t", created_time_ms=1)
    TableInParts(open_storage(), str(target), metadata=metadata, parts=2, creation_lock="one").begin()
    vectors = target / "_deltaberg" / "vectors-1" / "deletion_vector.bin"
    vectors.parent.mkdir(parents=True)
    vectors.write_bytes(b"")
    report = deltaberg.rollback(target)
    assert (report.format, len(report.files), report.watermark) == ("delta", 2, None)
    assert not target.exists()


def test_a_conversion_that_runs_keeps_its_files(tmp_path: Path, table: Path, opened: Any) -> None:
    target = tmp_path / "target"
    refused = []

    class Overtaken(FaultStorage):
        def put_if_absent(self, location: str, data: Any) -> None:
            with pytest.raises(
                Conflict, match=r"a conversion to it is running \(.*/_deltaberg/run-.*\.json\)"
            ) as error:
                deltaberg.rollback(target)
            refused.append(error.value.exit_code)
            super().put_if_absent(location, data)

    done = convert(opened(table, storage=Overtaken()), to="iceberg", target=str(target))
    assert refused == [5]
    assert Path(done.target_metadata).exists()


@pytest.mark.parametrize("at", range(12))
def test_a_rollback_that_dies_is_gone_on_with(table: Path, opened: Any, at: int) -> None:
    before = files(table)
    target = convert(opened(table), to="iceberg").target
    from deltaberg.migrate.rollback import rollback

    storage = FaultStorage(Mode.KILLED_BEFORE, at, only=lambda operation, _: operation in ("put", "delete"))
    died = False
    try:
        rollback(storage, target)
    except Killed:
        died = True
    assert died == (at < 9)
    if files(table) != before:
        deltaberg.rollback(target)
    assert files(table) == before
