from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltaberg.cli.scan import column_names, columns_that_fit

KINDS = ["delta_folder", "iceberg_folder"]


@pytest.fixture(params=KINDS)
def folder(request: pytest.FixtureRequest) -> Path:
    made: Path = request.getfixturevalue(request.param)
    return made


def test_out_holds_all_rows_under_the_tables_names(
    command: Any, folder: Path, rows: pa.Table, tmp_path: Path, difference: Any
) -> None:
    outcome = command("scan", folder, "--out", tmp_path / "rows.parquet")
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out == f"4 rows written to {tmp_path}/rows.parquet\n"
    got = pq.read_table(tmp_path / "rows.parquet")
    wanted = rows if folder.name == "items" else rows.set_column(2, "part", pa.array(["x", "x", "y", None]))
    assert not difference(got, wanted)
    assert got.column_names == ["id", "name", "part"]


@pytest.mark.parametrize("name", ["rows.txt", "rows.csv", "rows.json", "rows.parquet.gz", "rows.", "rows.2024"])
def test_no_other_format_is_written_under_its_extension(
    command: Any, delta_folder: Path, tmp_path: Path, name: str
) -> None:
    out = tmp_path / name
    for place in (delta_folder, tmp_path / "nowhere"):
        outcome = command("scan", place, "--out", out)
        assert outcome.code == 2
        assert outcome.err.startswith(f"deltaberg: Cannot write {out}: --out writes Parquet, not ")
        assert f"name it {tmp_path}/{name.rpartition('.')[0]}.parquet, or " in outcome.err
        assert len(outcome.err.splitlines()) == 1
        assert not out.exists()


@pytest.mark.parametrize("name", ["rows", "rows.PARQUET", "rows.pq", "rows.parq", ".rows", "a.b/rows"])
def test_parquet_has_these_extensions_or_none(command: Any, delta_folder: Path, tmp_path: Path, name: str) -> None:
    assert command("scan", delta_folder, "--out", tmp_path / name).code == 0
    assert pq.read_table(tmp_path / name).num_rows == 4


def test_standard_output_is_no_parquet_file(
    command: Any, delta_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = command("scan", delta_folder, "--out", "-")
    assert (outcome.code, outcome.out) == (2, "")
    assert "leave --out out and take --json for rows on standard output" in outcome.err
    assert not (tmp_path / "-").exists()


@pytest.mark.parametrize("columns", ["", " ", "id,", ",", "id,,name"])
def test_columns_without_a_name_are_a_usage_error(command: Any, delta_folder: Path, columns: str) -> None:
    outcome = command("scan", delta_folder, "--columns", columns)
    assert (outcome.code, outcome.out) == (2, "")
    assert f"Cannot read the columns {columns!r}: expected names such as a,b" in outcome.err


def test_json_is_one_document_with_every_row(command: Any, folder: Path) -> None:
    document = command("scan", folder, "--json").document
    assert document["format"] == ("iceberg" if folder.name == "items" else "delta")
    assert document["location"] == str(folder)
    assert [column["name"] for column in document["columns"]] == ["id", "name", "part"]
    by_id = {row["id"]: row for row in document["rows"]}
    assert by_id[1] == {"id": 1, "name": "a", "part": "x"}
    assert by_id[2] == {"id": 2, "name": None, "part": "x"}
    assert by_id[3] == {"id": 3, "name": "ü", "part": "y"}
    assert by_id[4]["part"] is None


def test_json_of_no_rows_is_a_document_too(command: Any, folder: Path) -> None:
    assert command("scan", folder, "--limit", 0, "--json").document["rows"] == []


def test_json_with_out_counts_the_rows(command: Any, folder: Path, tmp_path: Path) -> None:
    document = command("scan", folder, "--out", tmp_path / "rows.parquet", "--json").document
    assert document["row_count"] == 4
    assert document["out"] == str(tmp_path / "rows.parquet")
    assert "rows" not in document


def test_columns_come_in_the_order_asked_for(command: Any, folder: Path) -> None:
    document = command("scan", folder, "--columns", "part, id", "--json").document
    assert {tuple(row) for row in document["rows"]} == {("part", "id")}


def test_limit_stops_early(command: Any, folder: Path) -> None:
    assert len(command("scan", folder, "--limit", 3, "--json").document["rows"]) == 3
    assert len(command("scan", folder, "--limit", 30, "--json").document["rows"]) == 4


def test_the_screen_shows_a_table_and_how_many_rows(command: Any, folder: Path) -> None:
    outcome = command("scan", folder, "--columns", "id,name")
    assert outcome.out.split()[:2] == ["id", "name"]
    assert outcome.err == "4 rows\n"


def test_the_screen_stops_after_twenty_rows_and_says_so(command: Any, tmp_path: Path) -> None:
    from deltalake import write_deltalake

    write_deltalake(tmp_path / "long", pa.table({"n": range(100)}))
    outcome = command("scan", tmp_path / "long")
    assert len(outcome.out.splitlines()) == 22
    assert outcome.err == "the first 20 rows: --limit N shows N, --out F.parquet writes all\n"
    assert len(command("scan", tmp_path / "long", "--limit", 50).out.splitlines()) == 52


def test_an_earlier_state_is_read_on_request(command: Any, delta_folder: Path, iceberg_folder: Path) -> None:
    assert len(command("scan", delta_folder, "--version", 0, "--json").document["rows"]) == 2
    first = command("history", iceberg_folder, "--json").document["entries"][-1]["version"]
    document = command("scan", iceberg_folder, "--snapshot-id", first, "--json").document
    assert document["version"] == first
    assert len(document["rows"]) == 2
    assert len(command("scan", iceberg_folder, "--ref", "main", "--json").document["rows"]) == 4
    assert len(command("scan", delta_folder, "--as-of", "2999-01-01", "--json").document["rows"]) == 4


def test_a_copied_table_is_read_where_it_is_now(command: Any, iceberg_folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(iceberg_folder, copy)
    shutil.rmtree(iceberg_folder)
    moved = command("scan", copy)
    assert moved.code == 2, "where its files are now is not guessed"
    assert f"relocate {iceberg_folder}={copy}" in moved.err.replace("file://", "")
    outcome = command("scan", copy, "--json", "--relocate", f"{iceberg_folder}={copy}")
    assert outcome.code == 0, outcome.err
    assert len(outcome.document["rows"]) == 4


def test_names_with_commas_are_quoted_as_in_csv() -> None:
    assert column_names('a,"b,c", d') == ("a", "b,c", "d")


@pytest.mark.parametrize(("width", "expected"), [(1, 1), (4, 1), (7, 1), (8, 2), (12, 2), (13, 3), (100, 3)])
def test_as_many_columns_as_fit_are_shown(width: int, expected: int) -> None:
    assert columns_that_fit(["a", "b", "cc"], [["1", "2", "3"]], width) == expected
