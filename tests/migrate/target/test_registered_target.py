"""An Iceberg target that was registered in a catalog and committed to there, opened by its folder afterwards."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg.migrate.convert import convert


@pytest.fixture
def target(tmp_path: Path, catalog: Any, write_delta: Any, opened: Any) -> tuple[Path, Any]:
    """The folder of a target, and the table that PyIceberg's catalog has of it."""
    source = opened(write_delta(pa.table({"id": [1, 2]})))
    done = convert(source, to="iceberg", target=str(tmp_path / "target"))
    return tmp_path / "target", catalog.register_table("n.target", done.target_metadata)


def test_what_the_catalog_committed_is_read(target: tuple[Path, Any], command: Any) -> None:
    folder, table = target
    for value in (3, 4):
        table.append(pa.table({"id": pa.array([value], pa.int64())}))
        assert sorted(path.name for path in (folder / "metadata").glob("v*.json")) == ["v1.metadata.json"]
        assert (folder / "metadata" / "version-hint.text").read_text() == "1"
        inspected = command("inspect", folder, "--json")
        assert inspected.code == 0, inspected.err
        assert inspected.document["rows"] == value
    converted = command("convert", folder.parent / "delta", "--to", "iceberg", "--target", folder)
    assert converted.code == 5
    assert "somebody else has committed to it" in converted.err


def test_commits_of_folder_and_catalog_side_by_side_are_refused(target: tuple[Path, Any], command: Any) -> None:
    folder, table = target
    table.append(pa.table({"id": pa.array([3], pa.int64())}))
    metadata = folder / "metadata"
    forked = json.loads((metadata / "v1.metadata.json").read_text())
    forked["metadata-log"] = [{"metadata-file": str(metadata / "v1.metadata.json"), "timestamp-ms": 1}]
    (metadata / "v2.metadata.json").write_text(json.dumps(forked))
    (metadata / "version-hint.text").write_text("2")
    committed = Path(table.metadata_location).name
    for verb, *rest in (("scan",), ("inspect",), ("plan", "--to", "delta"), ("convert", "--to", "delta")):
        refused = command(verb, folder, *rest)
        assert refused.code == 2
        assert (
            f"Cannot tell which metadata file of {metadata} is current: {committed} or v2.metadata.json" in refused.err
        )
        assert len(refused.err.splitlines()) == 1
    assert not (folder / "_delta_log").exists()
    converted = command("convert", folder.parent / "delta", "--to", "iceberg", "--target", folder)
    assert converted.code == 5
    assert "somebody else has committed to it" in converted.err
    assert command("inspect", metadata / committed, "--json").document["rows"] == 3


def test_a_table_that_was_dropped_and_created_again_in_its_catalog_is_not_read_as_the_old_one(
    tmp_path: Path, catalog: Any, command: Any
) -> None:
    rows = pa.table({"id": [1]})
    place = tmp_path / "warehouse" / "t"
    table = catalog.create_table("n.t", schema=rows.schema, location=str(place))
    for _ in range(3):
        table.append(rows)
    catalog.drop_table("n.t")
    again = catalog.create_table("n.t", schema=rows.schema, location=str(place))
    again.append(rows)
    refused = command("inspect", place)
    assert refused.code == 2
    assert Path(again.metadata_location).name in refused.err
    for _ in range(3):
        again.append(rows)
    assert command("inspect", place, "--json").document["rows"] == 4
    shutil.rmtree(place)
