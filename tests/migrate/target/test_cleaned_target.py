"""A Delta target that a cleaner has been at is still deltaberg's own: VACUUM tells the log when it begins and ends."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from deltaberg.errors import Conflict
from deltaberg.migrate.convert import ConvertResult, convert


@pytest.fixture
def target(tmp_path: Path, catalog: Any, opened: Any) -> tuple[Path, Any]:
    rows = pa.table({"id": [1, 2, 3]})
    table = catalog.create_table("n.cleaned", schema=rows.schema)
    table.append(rows)
    source = opened(table.metadata_location)
    target = tmp_path / "target"
    convert(source, to="delta", target=str(target))
    return target, source


def again(target: Path, source: Any) -> ConvertResult:
    return convert(source, to="delta", target=str(target))


def commit(target: Path, version: int, *actions: dict[str, Any]) -> Path:
    path = target / "_delta_log" / f"{version:020}.json"
    path.write_text("".join(json.dumps(action) + "\n" for action in actions), encoding="utf-8")
    return path


NOTE = {"commitInfo": {"timestamp": 0, "operation": "VACUUM START", "operationParameters": {}}}


def test_a_vacuum_is_no_commit_of_somebody_else(target: tuple[Path, Any]) -> None:
    for version in (1, 2):
        commit(target[0], version, NOTE)
        done = again(*target)
        assert done.already_current
        assert done.target_metadata.endswith(f"{version:020}.json")


@pytest.mark.parametrize(
    "action",
    [
        {"txn": {"appId": "stream", "version": 1}},
        {"domainMetadata": {"domain": "somebody", "configuration": "{}", "removed": False}},
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {"add": {"path": "x.parquet", "partitionValues": {}, "size": 1, "modificationTime": 0, "dataChange": True}},
        {"remove": {"path": "x.parquet", "deletionTimestamp": 0, "dataChange": True}},
    ],
    ids=lambda action: next(iter(action)),
)
def test_any_other_action_is(target: tuple[Path, Any], action: dict[str, Any]) -> None:
    commit(target[0], 1, NOTE)
    commit(target[0], 2, NOTE, action)
    with pytest.raises(Conflict, match="somebody else has committed to it"):
        again(*target)


@pytest.mark.parametrize(
    ("gone", "said"), [(range(3), "commits 1 to 2"), (range(2), "commit 1"), (range(4), "commits 1 to 3")]
)
def test_what_the_clean_up_of_the_log_took_away_is_said_to_be_unknown(
    target: tuple[Path, Any], gone: range, said: str, command: Any
) -> None:
    """A checkpoint holds the same whether the commits before it were VACUUM's notes or changes to properties and back."""
    folder, source = target
    for version in (1, 2, 3):
        commit(folder, version, NOTE)
    DeltaTable(folder).create_checkpoint()
    for version in gone:
        (folder / "_delta_log" / f"{version:020}.json").unlink()
    before = sorted(path.name for path in (folder / "_delta_log").iterdir())
    outcome = command("convert", source.location, "--to", "delta", "--target", folder)
    assert outcome.code == 5
    assert f"the clean-up of its log took {said} away, which may have been VACUUM's notes or changes" in outcome.err
    assert "deltaberg verify SOURCE TARGET --rows" in outcome.err
    assert len(outcome.err.splitlines()) == 1
    assert sorted(path.name for path in (folder / "_delta_log").iterdir()) == before
    assert command("verify", source.location, folder, "--rows").code == 0


def test_a_change_that_is_left_in_the_log_is_told_of_though_others_were_taken_away(target: tuple[Path, Any]) -> None:
    folder, _ = target
    commit(folder, 1, NOTE)
    commit(folder, 2, NOTE, {"txn": {"appId": "stream", "version": 1}})
    DeltaTable(folder).create_checkpoint()
    for version in (0, 1):
        (folder / "_delta_log" / f"{version:020}.json").unlink()
    with pytest.raises(Conflict, match="somebody else has committed to it"):
        again(*target)


def test_a_clean_up_that_left_what_was_committed_since_changes_nothing(target: tuple[Path, Any]) -> None:
    folder, _ = target
    commit(folder, 1, NOTE)
    DeltaTable(folder).create_checkpoint()
    (folder / "_delta_log" / f"{0:020}.json").unlink()
    assert again(*target).already_current
