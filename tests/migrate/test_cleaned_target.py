"""A Delta target that a cleaner has been at is still deltaberg's own: VACUUM tells the log when it begins and ends."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

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
