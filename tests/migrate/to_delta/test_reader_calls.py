"""What each call of a Delta reader makes of a target whose columns have, or have not, their names in the files.

docs/names.md has the table of this run. A call may stop; none may give other rows than the source's.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg import api
from deltaberg.delta.table import DeltaTable
from deltaberg.iceberg.partition.partition_spec import UNPARTITIONED, PartitionSpec
from deltaberg.iceberg.schema.schema import Schema
from deltaberg.iceberg.schema.types import StringType
from deltaberg.migrate.convert import convert
from deltaberg.storage import open_storage
from deltaberg.translate.options import ConvertOptions
from tests.migrate.to_delta.test_evolved_iceberg import ID_KEY, WITH_STRUCT, Growing, partitioned

pytest.importorskip("deltalake")

PAGE = Path(__file__).resolve().parents[3] / "docs" / "names.md"
CALLS = {
    "DuckDB `delta_scan`": "duckdb-delta",
    "delta-rs `QueryBuilder`": "deltalake",
    "delta-rs `to_pandas`": "deltalake-to_pandas",
    "delta-rs `to_pyarrow_table`": "deltalake-to_pyarrow_table",
    "delta-rs `to_pyarrow_dataset`": "deltalake-to_pyarrow_dataset",
    "DataFusion `register_table`": "datafusion-delta",
    "Polars `scan_delta`": "polars-delta",
    "Polars `read_delta`": "polars-read_delta",
}
ENGINES = ("duckdb", "deltalake", "datafusion", "polars")


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A table of one file, and what became of its columns afterwards. rows: as they read then."""

    schema: Schema
    written: list[dict[str, Any]]
    change: Callable[[Any], object] | None
    rows: list[dict[str, Any]]
    reader_version: int
    spec: PartitionSpec = UNPARTITIONED


def dropped_and_added(columns: Any) -> None:
    columns.delete_column("k")
    columns.add_column("k", StringType())


PAIRS = [{"id": 1, "k": 10}, {"id": 2, "k": 10}]
PLACES = [{"id": 1, "place": {"town": "x"}, "text": "a"}, {"id": 2, "place": None, "text": None}]
CASES: Mapping[str, Case] = {
    "nothing": Case(schema=ID_KEY, written=PAIRS, change=None, rows=PAIRS, reader_version=2),
    "a column renamed": Case(
        schema=ID_KEY,
        written=PAIRS,
        change=lambda columns: columns.rename_column("id", "key"),
        rows=[{"key": row["id"], "k": 10} for row in PAIRS],
        reader_version=3,
    ),
    "... to another case": Case(
        schema=ID_KEY,
        written=PAIRS,
        change=lambda columns: columns.rename_column("id", "ID"),
        rows=[{"ID": row["id"], "k": 10} for row in PAIRS],
        reader_version=3,
    ),
    "... in a struct": Case(
        schema=WITH_STRUCT,
        written=PLACES,
        change=lambda columns: columns.rename_column("place.town", "city"),
        rows=[{"id": 1, "place": {"city": "x"}, "text": "a"}, {"id": 2, "place": None, "text": None}],
        reader_version=3,
    ),
    "dropped, added again": Case(
        schema=ID_KEY,
        written=PAIRS,
        change=dropped_and_added,
        rows=[{"id": row["id"], "k": None} for row in PAIRS],
        reader_version=3,
    ),
    "partition column renamed": Case(
        schema=ID_KEY,
        written=PAIRS,
        change=lambda columns: columns.rename_column("k", "key"),
        rows=[{"id": row["id"], "key": 10} for row in PAIRS],
        reader_version=2,
        spec=partitioned(0, (2, "identity", "k")),
    ),
}


@pytest.fixture(scope="session")
def seen() -> dict[str, dict[str, str]]:
    """By call and case: ``equal`` or ``stops``; filled by the tests of this file."""
    return {}


def made(case: Case, root: Path, write: Any) -> Growing:
    table = Growing(str(root), case.schema, case.spec, 2, write)
    table.append(case.written)
    change = case.change
    if change is not None:
        table.change(lambda each: each.update_schema(change))
    return table


@pytest.mark.parametrize("name", CASES)
def test_no_call_of_a_reader_gives_other_rows(
    name: str,
    tmp_path: Path,
    write_iceberg_file: Any,
    opened: Any,
    independent: Any,
    difference: Any,
    seen: dict[str, dict[str, str]],
) -> None:
    case = CASES[name]
    table = made(case, tmp_path / "table", write_iceberg_file)
    done = convert(opened(table.root), to="delta")
    assert (done.files, done.rewritten_files) == (1, 0)
    protocol = DeltaTable.open(done.target, open_storage()).snapshot().protocol
    listed = ("columnMapping",) if case.reader_version == 3 else None
    assert (protocol.min_reader_version, protocol.reader_features) == (case.reader_version, listed)
    wrong = []
    for call, reader in CALLS.items():
        got = independent.read(reader, Path(done.target))
        if not isinstance(got, str):
            text = difference(got, pa.Table.from_pylist(case.rows, pa.schema([got.field(key) for key in case.rows[0]])))
            if text:
                wrong.append(f"{call}: {text}")
        elif "DeltaProtocolError" not in got:
            wrong.append(got)
        seen.setdefault(call, {})[name] = "stops" if isinstance(got, str) else "equal"
    assert not wrong, "; ".join(wrong)


def test_the_page_has_what_this_run_saw(seen: dict[str, dict[str, str]]) -> None:
    if {name for results in seen.values() for name in results} != CASES.keys():
        pytest.skip("only a part of the tables was read")
    lines = [f"| call | {' | '.join(CASES)} |", "|---|" + "---|" * len(CASES)]
    lines += [f"| {call} | {' | '.join(results[name] for name in CASES)} |" for call, results in seen.items()]
    text = PAGE.read_text(encoding="utf-8")
    (spark,) = re.findall(r"^\| Spark .*$", text, re.MULTILINE) or ["| Spark | " + "equal | " * len(CASES)]
    table = "\n".join([*lines, spark.strip()])
    if os.environ.get("DELTABERG_WRITE_DOCS"):
        text = re.sub(r"(?s)<!-- calls -->.*<!-- /calls -->", f"<!-- calls -->\n{table}\n<!-- /calls -->", text)
        PAGE.write_text(text, encoding="utf-8")
    if any(version(each) not in text for each in ENGINES):
        pytest.skip("the page was made with other versions of the engines")
    assert f"<!-- calls -->\n{table}\n<!-- /calls -->" in text, "run with DELTABERG_WRITE_DOCS=1"


def test_files_outside_the_targets_folder_stop_the_calls_that_take_no_such_path(
    tmp_path: Path, write_iceberg_file: Any, opened: Any, independent: Any
) -> None:
    table = made(CASES["nothing"], tmp_path / "table", write_iceberg_file)
    done = convert(opened(table.root), to="delta", target=str(tmp_path / "target"))
    for call in ("to_pandas", "to_pyarrow_table", "to_pyarrow_dataset"):
        got = independent.read(f"deltalake-{call}", Path(done.target))
        assert isinstance(got, str)
        assert "%2E%2E/table/data/" in got


@pytest.mark.parametrize("history", ["latest", "all"])
def test_files_that_are_shared_under_several_names_are_not_read_by_present_names(
    history: Any, tmp_path: Path, write_iceberg_file: Any, opened: Any, independent: Any
) -> None:
    """``trust-ids``: the newest files have every column under its name, and so has the first version of the history."""
    table = made(CASES["nothing"], tmp_path / "table", write_iceberg_file)
    table.change(lambda each: each.update_schema(lambda columns: columns.rename_column("id", "key")))
    table.append([{"key": number, "k": 11} for number in range(5000)])
    options = ConvertOptions(former_names="trust-ids", history=history)
    done = convert(opened(table.root), to="delta", options=options)
    newest = DeltaTable.open(done.target, open_storage()).snapshot()
    assert [field.metadata["delta.columnMapping.physicalName"] for field in newest.metadata.schema.fields] == [
        "key",
        "k",
    ]
    for number in range(newest.version + 1):
        protocol = DeltaTable.open(done.target, open_storage()).snapshot(version=number).protocol
        assert "columnMapping" in (protocol.reader_features or ())
        got = independent.read("deltalake-to_pandas", Path(done.target), number)
        assert isinstance(got, str)
        assert "DeltaProtocolError" in got


def test_a_column_that_was_dropped_and_added_again_is_refused_by_the_name_that_another_has(
    tmp_path: Path, write_iceberg_file: Any, independent: Any, opened: Any, difference: Any
) -> None:
    """With files of both times no physical name is right in both; writing the older ones anew makes it so."""
    table = made(CASES["dropped, added again"], tmp_path / "table", write_iceberg_file)
    table.append([{"id": 3, "k": "x"}])
    (item,) = (each for each in api.plan(table.root, to="delta").items if each.code == "former-names")
    assert (item.severity, item.what, item.files) == ("refuse", "k", 1)
    assert item.reason.endswith("(the files have another column by its name)")
    done = convert(opened(table.root), to="delta", options=ConvertOptions(former_names="rewrite"))
    assert (done.files, done.rewritten_files) == (2, 1)
    wanted = pa.table({"id": [1, 2, 3], "k": [None, None, "x"]})
    for call in ("duckdb-delta", "deltalake", "deltalake-to_pandas"):
        got = independent.read(call, Path(done.target))
        assert not isinstance(got, str), got
        assert not difference(got, wanted), call
