"""A log that has lost its last commits shows it by what was written after them; older rows are not taken for the newest."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from deltaberg.delta.errors import CorruptLog
from deltaberg.delta.log.log_path import checksum_name, classic_checkpoint_name, commit_name
from deltaberg.delta.table import DeltaTable
from deltaberg.storage import open_storage

deltalake = pytest.importorskip("deltalake")
pa = pytest.importorskip("pyarrow")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """The log of a table of versions 0 to 3 by delta-rs."""
    for value in range(4):
        deltalake.write_deltalake(str(tmp_path / "t"), pa.table({"id": [value]}), mode="append")
    return tmp_path / "t" / "_delta_log"


def newest(log: Path) -> int:
    return DeltaTable.open(str(log.parent), open_storage()).snapshot().version


@pytest.mark.parametrize(
    ("left", "with_hint"),
    [
        (checksum_name(4), False),
        (checksum_name(4), True),
        ("00000000000000000002.00000000000000000004.compacted.json", False),
        ("00000000000000000004.checkpoint.0000000001.0000000002.parquet", False),
    ],
)
def test_what_only_follows_a_commit_shows_that_it_is_missing(
    log: Path, left: str, with_hint: bool, command: Any
) -> None:
    if with_hint:
        deltalake.DeltaTable(str(log.parent)).create_checkpoint()
    assert newest(log) == 3
    (log / left).write_text("{}")
    with pytest.raises(CorruptLog, match=f"{commit_name(4)} is missing, although the log holds {left}"):
        newest(log)
    assert DeltaTable.open(str(log.parent), open_storage()).snapshot(version=3).version == 3
    refused = command("convert", log.parent, "--to", "iceberg")
    assert refused.code == 3
    assert "open version 3, the newest one that is whole" in refused.err


def test_a_hint_beyond_the_end_of_the_log_shows_that_its_end_is_missing(log: Path) -> None:
    table = deltalake.DeltaTable(str(log.parent))
    table.create_checkpoint()
    assert json.loads((log / "_last_checkpoint").read_text())["version"] == 3
    (log / classic_checkpoint_name(3)).unlink()
    assert newest(log) == 3
    (log / commit_name(3)).unlink()
    with pytest.raises(CorruptLog, match="_last_checkpoint names version 3, and the log ends at version 2"):
        newest(log)
    assert DeltaTable.open(str(log.parent), open_storage()).snapshot(version=2).version == 2


def test_what_belongs_to_commits_that_are_there_or_were_cleaned_up_is_no_contradiction(log: Path) -> None:
    deltalake.DeltaTable(str(log.parent)).create_checkpoint()
    for version in (0, 3):
        (log / checksum_name(version)).write_text("{}")
    for version in range(4):
        (log / commit_name(version)).unlink()
    assert newest(log) == 3
