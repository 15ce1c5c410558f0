"""``examples/publish`` does what it says: its configuration runs, its unit starts a command that there is, its tasks work."""

from __future__ import annotations

import importlib.util
import json
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest
import typer.main

from deltaberg import Publisher
from deltaberg.cli.main import app
from deltaberg.migrate.publish.config_file import parse_config

deltalake = pytest.importorskip("deltalake")
sql = pytest.importorskip("pyiceberg.catalog.sql")

EXAMPLES = Path(__file__).parent.parent.parent.parent / "examples" / "publish"
ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64())})


def module(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"examples_publish_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


@pytest.fixture
def config(tmp_path: Path) -> Iterator[Path]:
    """The example's configuration beside the two tables that it names."""
    deltalake.write_deltalake(f"{tmp_path}/lake/orders", ROWS)
    catalog = sql.SqlCatalog("t", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}/lake")
    catalog.create_namespace("n")
    catalog.create_table("n.visits", schema=ROWS.schema, location=f"file://{tmp_path}/lake/visits").append(ROWS)
    shutil.copy(EXAMPLES / "tables.yaml", tmp_path / "tables.yaml")
    yield tmp_path / "tables.yaml"
    catalog.close()


def test_the_configuration_publishes_both_ways(config: Path) -> None:
    report = Publisher(config).run_once()
    assert [(each.name, each.state) for each in report.tables] == [("orders", "created"), ("visits", "created")]
    table = deltalake.DeltaTable(f"{config.parent}/lake/visits_delta")
    assert (
        deltalake.QueryBuilder().register("t", table).execute("SELECT count(*) AS n FROM t").read_all()["n"][0].as_py()
        == 3
    )


def test_the_airflow_task_gives_the_report_and_fails_with_the_tables_that_failed(config: Path) -> None:
    publish = module("airflow_task").publish
    report = publish(str(config))
    assert json.loads(json.dumps(report))["failed"] == []
    shutil.rmtree(config.parent / "lake" / "visits")
    with pytest.raises(RuntimeError, match=r"^1 of 2 tables failed: visits: Cannot open "):
        publish(str(config))


def test_the_dagster_asset_brings_one_table_up_to_date(config: Path) -> None:
    materialize: Any = module("dagster_asset").materialize
    assert materialize(str(config), "orders")["commits"] == 1
    deltalake.write_deltalake(f"{config.parent}/lake/orders", ROWS, mode="append")
    again = materialize(str(config), "orders")
    assert (again["position"], again["commits"]) == ("1", 1)
    assert not (config.parent / "lake" / "visits_delta").exists()
    with pytest.raises(ValueError, match="has the name nothing"):
        materialize(str(config), "nothing")


@pytest.mark.parametrize(("file", "pattern"), [
    ("deltaberg-publish.service", r"^ExecStart=(.*)$"), ("Containerfile", r"^ENTRYPOINT (.*)$"),
])  # fmt: skip
def test_the_command_that_is_started_exists_with_its_options(file: str, pattern: str) -> None:
    (line,) = re.findall(pattern, (EXAMPLES / file).read_text(encoding="utf-8"), re.MULTILINE)
    words = json.loads(line) if line.startswith("[") else shlex.split(line)
    assert words[0].rpartition("/")[2] == "deltaberg"
    command = typer.main.get_command(app).commands[words[1]]
    with command.make_context("publish", words[2:], resilient_parsing=False) as context:
        assert context.params["config"] == "/etc/deltaberg/tables.yaml"
        assert context.params["listen"] == "127.0.0.1:9400"
        assert not context.params["once"]


def test_the_configurations_in_the_documentation_are_ones() -> None:
    text = (EXAMPLES.parent.parent / "docs" / "publish.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    assert len(blocks) == 2
    for block in blocks:
        assert parse_config(block.encode(), "/conf/tables.yaml", environment={"LAKE_SECRET": "x"}).tables
