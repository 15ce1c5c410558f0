"""``deltaberg history``: what each writer notes is read, ids are never broken, and long histories take seconds."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg import api
from deltaberg.cli import console
from deltaberg.cli.console import print_rows
from deltaberg.errors import UsageError

IDS = [str(9_000_000_000_000_000_000 + number) for number in range(3)]


@pytest.fixture
def by_delta_rs(tmp_path: Path) -> Path:
    """A table that delta-rs wrote to, deleted from, updated, merged into, overwrote and restored."""
    deltalake = pytest.importorskip("deltalake")
    root = tmp_path / "t"
    rows = pa.table({"id": [1, 2, 3]})
    for _ in range(2):
        deltalake.write_deltalake(str(root), rows, mode="append")
    table = deltalake.DeltaTable(str(root))
    table.delete("id = 1")
    merge = table.merge(pa.table({"id": [3, 9]}), "s.id = t.id", source_alias="s", target_alias="t")
    merge.when_matched_update_all().when_not_matched_insert_all().execute()
    deltalake.write_deltalake(str(root), pa.table({"id": [5]}), mode="overwrite")
    deltalake.DeltaTable(str(root)).restore(1)
    return root


def test_what_delta_rs_counts_is_told(by_delta_rs: Path, command: Any) -> None:
    entries = command("history", by_delta_rs, "--json").document["entries"]
    told = [(each["operation"], each["added_files"], each["removed_files"], each["added_rows"]) for each in entries]
    assert told == [
        ("RESTORE", 2, 1, None),
        ("WRITE", 1, 1, 1),
        ("MERGE", 1, 1, 5),
        ("DELETE", 1, 2, None),
        ("WRITE", 1, 0, 3),
        ("WRITE", 1, 0, 3),
    ]
    stated = json.loads((by_delta_rs / "_delta_log" / f"{5:020}.json").read_text().splitlines()[0])["commitInfo"]
    assert abs(entries[0]["timestamp_ms"] - stated["timestamp"]) < 60_000


def test_a_limit_keeps_the_newest(by_delta_rs: Path, command: Any) -> None:
    report = command("history", by_delta_rs, "--limit", 2, "--json").document
    assert [each["version"] for each in report["entries"]] == [5, 4]
    assert report["entries"][0]["current"] is True
    lines = command("history", by_delta_rs, "--limit", 1).out.splitlines()
    assert len(lines) == 3
    assert command("history", by_delta_rs, "--limit", 0).code == 2
    with pytest.raises(UsageError, match="the limit is too small"):
        api.history(by_delta_rs, limit=0)


def test_a_commit_whose_information_is_not_the_first_line_is_read(by_delta_rs: Path, command: Any) -> None:
    commit = by_delta_rs / "_delta_log" / f"{5:020}.json"
    lines = commit.read_text().splitlines()
    for changed in (
        [*lines[1:], lines[0]],
        [" " + lines[0].replace('{"commitInfo":', '{ "commitInfo" : '), *lines[1:]],
    ):
        commit.write_text("\n".join(changed))
        assert command("history", by_delta_rs, "--json").document["entries"][0]["operation"] == "RESTORE"


def test_only_so_many_commits_are_read_as_are_listed(by_delta_rs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from deltaberg.delta import table

    read: list[int] = []
    real = table.commit_info_of

    def counted(storage: Any, commit: Any) -> Any:
        read.append(commit.version)
        return real(storage, commit)

    monkeypatch.setattr(table, "commit_info_of", counted)
    api.history(by_delta_rs, limit=2)
    assert read == [5, 4]


@pytest.mark.parametrize("width", [80, 100])
def test_ids_are_whole_on_a_narrow_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    columns = ["snapshot", "committed", "operation", "files +", "files -", "rows +", "refs", "from Iceberg snapshot"]
    rows = [
        [each, "2026-11-22 10:39:43.087 UTC", "overwrite", "1", "2", "1,000,000", "main, audit", each] for each in IDS
    ]
    print_rows(columns, rows, right=("snapshot",), whole=("snapshot", "from Iceberg snapshot"))
    printed = re.sub("\x1b\\[[0-9;]*m", "", capsys.readouterr().out)
    for each in IDS:
        assert printed.count(each) == 2
    assert max(map(len, printed.splitlines())) <= width


def test_rows_in_a_pipe_stand_in_columns(capsys: pytest.CaptureFixture[str]) -> None:
    print_rows(["id", "what"], [["7", "a"], ["1234", ""]], right=("id",))
    assert capsys.readouterr().out.splitlines() == ["  id   what", "───────────", "   7   a", "1234"]


def test_many_rows_are_not_laid_out(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Laying out 100,000 rows takes over a minute."""
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(console, "grid", None)
    print_rows(["n"], [[str(number)] for number in range(20_000)])
    assert len(capsys.readouterr().out.splitlines()) == 20_002
