"""``deltaberg publish`` and ``deltaberg status`` as processes: exit codes, logs, signals, and being killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

deltalake = pytest.importorskip("deltalake")
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs SIGTERM and SIGKILL")

Difference = Callable[..., str]


def append(folder: Path, first: int) -> None:
    deltalake.write_deltalake(str(folder), pa.table({"id": [first, first + 1]}), mode="append")


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """Two tables, of which ``gone`` is not there."""
    append(tmp_path / "orders", 0)
    place = tmp_path / "tables.yaml"
    place.write_text("interval: 0.2\ndefaults: {to: iceberg}\ntables: [{source: orders}, {source: gone}]\n")
    return place


def command(*arguments: str | Path) -> list[str]:
    return [sys.executable, "-m", "deltaberg", *map(str, arguments)]


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*arguments), capture_output=True, text=True, check=False, timeout=300)


def rows_of_target(folder: Path) -> pa.Table:
    """What PyIceberg reads of the newest metadata file."""
    table = pytest.importorskip("pyiceberg.table")
    newest = max((folder / "_iceberg" / "metadata").glob("v*.metadata.json"), key=lambda each: int(each.name[1:-14]))
    return table.StaticTable.from_metadata(str(newest)).scan().to_arrow()


def rows_of_source(folder: Path) -> pa.Table:
    table = deltalake.DeltaTable(str(folder))
    return pa.table(deltalake.QueryBuilder().register("t", table).execute("SELECT * FROM t").read_all())


def test_one_round_says_what_was_done_and_fails_if_any_table_failed(config: Path) -> None:
    done = run("publish", config, "--once", "--json", "--log-format", "json")
    assert done.returncode == 1
    document = json.loads(done.stdout)
    assert [(each["name"], each["state"]) for each in document["tables"]] == [("orders", "created"), ("gone", "failed")]
    assert document["failed"] == ["gone"]
    assert document["tables"][1]["error"]["exit_code"] == 1
    logged = {each["name"]: each for each in map(json.loads, done.stderr.splitlines())}
    assert {name: each["level"] for name, each in logged.items()} == {"orders": "info", "gone": "error"}
    shown = run("status", config, "--json")
    assert shown.returncode == 1
    assert [(each["name"], each["state"]) for each in json.loads(shown.stdout)["tables"]] == [
        ("orders", "current"),
        ("gone", "failed"),
    ]


def test_text_is_one_line_a_table_and_success_is_exit_code_0(config: Path) -> None:
    config.write_text("tables: [{source: orders, to: iceberg, verify: rows}]\n")
    done = run("publish", config, "--once")
    assert (done.returncode, done.stdout) == (0, "")
    note, line = done.stderr.splitlines()
    assert note == (
        f"deltaberg: warning: {config}: line 1: tables[1].verify has no meaning here: nothing is compared; use deltaberg verify"
    )
    assert f" UTC orders: created at {config.parent}/orders/_iceberg in 1 commit, " in line
    shown = run("status", config)
    assert shown.returncode == 0
    assert shown.stdout.splitlines()[2].split() == ["orders", "0", "0", "none", "current"]


def test_validation_writes_nothing_and_fails_for_a_table_that_is_not_there(config: Path) -> None:
    before = sorted(config.parent.rglob("*"))
    done = run("publish", config, "--validate", "--json")
    assert done.returncode == 1
    assert [(each["name"], each["state"]) for each in json.loads(done.stdout)["tables"]] == [
        ("orders", "absent"),
        ("gone", "failed"),
    ]
    assert sorted(config.parent.rglob("*")) == before


def test_a_broken_file_is_a_usage_error_that_names_the_line(config: Path) -> None:
    config.write_text("tables:\n  - soruce: orders\n")
    done = run("publish", config, "--once")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"deltaberg: Cannot read {config}: line 2: unknown key tables[1].soruce (did you mean source?)\n"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--json",), "Cannot use --json: a publisher that goes on has no end to print"),
        (("--validate", "--once"), "Cannot use --validate with --once or --listen"),
        (("--interval", "0"), "Cannot use --interval 0: expected seconds above 0"),
        (("--listen", "0.0.0.0:1"), "Cannot listen on 0.0.0.0:1: only this machine may ask"),
    ],
)
def test_options_that_make_no_sense_are_usage_errors(config: Path, arguments: tuple[str, ...], message: str) -> None:
    done = run("publish", config, *arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert not (config.parent / "orders" / "_iceberg").exists()


def begun(config: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command("publish", config, "--log-format", "json"), stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    )


def until(process: subprocess.Popen[str], state: str) -> dict[str, Any]:
    """The first log line of a table in a state."""
    assert process.stderr is not None
    for line in process.stderr:
        said: dict[str, Any] = json.loads(line)
        if said["state"] == state:
            return said
    raise AssertionError(f"the publisher ended before anything was {state}")


def test_sigterm_ends_a_publisher_with_exit_code_0_and_its_lease(config: Path, difference: Difference) -> None:
    orders = config.parent / "orders"
    with begun(config) as process:
        until(process, "created")
        append(orders, 10)
        assert [each["source"] for each in until(process, "synced")["commits"]] == [1]
        append(orders, 20)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=120)
    assert process.returncode == 0
    (lease,) = (orders / "_iceberg" / "_deltaberg").glob("lease-iceberg-*.json")
    assert json.loads(lease.read_text())["state"] == "ended"
    assert run("publish", config, "--once").returncode == 1, "gone is still gone"
    assert not difference(rows_of_target(orders), rows_of_source(orders))


def test_a_publisher_that_is_killed_at_any_moment_is_followed_by_another_one(
    config: Path, difference: Difference
) -> None:
    """Each is killed when it has begun a commit, or not: the next one goes on, and nothing is there twice or missing."""
    config.write_text("interval: 0.05\nlease: 3600\ntables: [{source: orders, to: iceberg}]\n")
    orders = config.parent / "orders"
    assert run("publish", config, "--once").returncode == 0
    for first in (10, 20, 30):
        append(orders, first)
        with begun(config) as process:
            until(process, "synced")
            for more in range(4):
                append(orders, first + 2 * more)
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
    done = run("publish", config, "--once", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["tables"][0]["state"] in {"synced", "current"}
    assert not difference(rows_of_target(orders), rows_of_source(orders))
    entries = json.loads(run("history", f"{orders}/_iceberg", "--json").stdout)["entries"]
    newest = deltalake.DeltaTable(str(orders)).version()
    assert [each["other_version"] for each in entries] == list(range(newest, -1, -1)), "each commit once, in order"
