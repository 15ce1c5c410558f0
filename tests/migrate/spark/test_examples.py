"""The examples for Spark do what they say: the notebook's saved outputs are what its cells print, the entry script works."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg.batch_file import read_tables

EXAMPLES = Path(__file__).parent.parent.parent.parent / "examples"
NOTEBOOK = json.loads((EXAMPLES / "notebook.ipynb").read_text(encoding="utf-8"))
CODE = [cell for cell in NOTEBOOK["cells"] if cell["cell_type"] == "code"]


def printed(cell: dict[str, Any]) -> str:
    return "".join("".join(output["text"]) for output in cell["outputs"] if output["output_type"] == "stream")


def shown(cell: dict[str, Any]) -> str | None:
    """The value of the last line, as the notebook shows it."""
    results = [output["data"]["text/plain"] for output in cell["outputs"] if output["output_type"] == "execute_result"]
    return "".join(results[0]) if results else None


def test_the_list_of_tables_in_the_documentation_is_one() -> None:
    text = (EXAMPLES.parent / "docs" / "spark.md").read_text(encoding="utf-8")
    (listed,) = re.findall(r"```json\n(.*?)```", text, re.DOTALL)
    names = [(each.name, each.to.value, each.verify) for each in read_tables(listed)]
    assert names == [
        ("s3://lake/sales/orders", "delta", "rows"),
        ("visits", "delta", "rows"),
        ("s3://lake/old/events", "iceberg", "none"),
    ]


def test_the_notebook_ran_from_top_to_bottom() -> None:
    assert [cell["execution_count"] for cell in CODE] == list(range(1, len(CODE) + 1))
    assert not [output for cell in CODE for output in cell["outputs"] if output["output_type"] == "error"]
    assert not [cell for cell in CODE if "/home" in printed(cell) or "/tmp" in printed(cell)]
    assert "converted  visits" in printed(CODE[-2])


def test_its_cells_still_print_what_it_shows(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("deltalake")
    pytest.importorskip("pyiceberg")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    assert "".join(CODE[-1]["source"]) == "spark.stop()"
    for cell in CODE[:-1]:
        *lines, last = "".join(cell["source"]).split("\n")
        value = shown(cell) is not None
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec("\n".join(lines if value else [*lines, last]), names)
            result = eval(last, names) if value else None
        assert out.getvalue() == printed(cell)
        assert (repr(result) if value else None) == shown(cell)


@pytest.fixture(scope="module")
def script() -> Any:
    spec = importlib.util.spec_from_file_location("spark_submit_job", EXAMPLES / "spark_submit_job.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_entry_script_converts_a_list_and_reports(
    script: Any, spark: Any, tmp_path: Path, write_delta: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_delta(pa.table({"id": [1, 2, 3]}), tmp_path / "orders")
    tables = tmp_path / "tables.json"
    tables.write_text(
        json.dumps(
            {
                "defaults": {"to": "iceberg", "verify": "rows"},
                "tables": [{"name": "orders", "source": str(folder)}, {"name": "gone", "source": str(tmp_path / "no")}],
            }
        ),
        encoding="utf-8",
    )
    report = tmp_path / "report.json"
    assert script.main([str(tables), "--report", str(report), "--at-once", "1"]) == 3
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("converted: orders (")
    assert lines[1].startswith("refused: gone (")
    assert lines[-1] == "2 tables: 1 converted, 1 refused"
    document = json.loads(report.read_text(encoding="utf-8"))
    assert [(each["name"], each["status"]) for each in document["tables"]] == [
        ("orders", "converted"),
        ("gone", "refused"),
    ]
    assert document["tables"][0]["verification"]["equal"] is True
    assert script.main(["--source", str(folder), "--to", "iceberg"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "1 table: 1 current"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (lambda _: [], "give either a list of tables, or --source and --to"),
        (lambda _: ["x.json", "--source", "/x", "--to", "delta"], "give either a list"),
        (lambda _: ["--source", "/x"], "give either a list"),
    ],
)
def test_wrong_arguments_are_refused(
    script: Any,
    arguments: Callable[[Path], list[str]],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(script, "spark_session", lambda: None)
    with pytest.raises(SystemExit) as left:
        script.main(arguments(tmp_path))
    assert left.value.code == 2
    assert message in capsys.readouterr().err


def test_a_list_that_is_not_there_or_wrong_is_one_line(
    script: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(script, "spark_session", lambda: None)
    assert script.main([str(tmp_path / "none.json")]) == 1
    (tmp_path / "wrong.json").write_text('[{"source": "/x"}]', encoding="utf-8")
    assert script.main([str(tmp_path / "wrong.json")]) == 2
    one, two = capsys.readouterr().err.splitlines()
    assert "none.json" in one
    assert two.startswith("deltaberg: Cannot read ")
    assert two.endswith("wrong.json, table 1: to is missing")
