"""A target knows which state of which history it holds: versions of one number and one table id can be two states."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg.delta.log.commit_fingerprint import commit_fingerprint
from deltaberg.delta.log.log_path import LogFile, LogFileKind, commit_name
from deltaberg.migrate.target.watermark import WATERMARK_KEY, Watermark, watermark_of
from deltaberg.storage import open_storage


def rows(*values: int) -> pa.Table:
    return pa.table({"id": pa.array(values, pa.int64())})


@pytest.fixture
def apart(tmp_path: Path, write_delta: Any) -> tuple[Path, Path]:
    """A Delta table and its copy, each with another second commit."""
    one = write_delta(rows(1, 2), tmp_path / "one")
    other = tmp_path / "other"
    shutil.copytree(one, other)
    write_delta(rows(3), one)
    write_delta(rows(4), other)
    return one, other


def commit_of(table: Path, version: int) -> Path:
    return table / "_delta_log" / commit_name(version)


@pytest.mark.parametrize("versions_ahead", [0, 1])
@pytest.mark.parametrize("history", ["latest", "all"])
def test_a_copy_that_went_apart_is_another_table(
    apart: tuple[Path, Path], command: Any, write_delta: Any, history: str, versions_ahead: int
) -> None:
    one, other = apart
    target = one.parent / "target"
    call = ("--to", "iceberg", "--target", target, "--history", history)
    assert command("convert", one, *call).code == 0
    assert "current already" in command("convert", one, *call).err + command("convert", one, *call).out
    for _ in range(versions_ahead):
        write_delta(rows(5), other)
    refused = command("convert", other, *call)
    assert refused.code == 5
    assert "the source has another past: the commit of that state is not the one" in refused.err
    assert "choose another --target" in refused.err
    assert command("convert", one, *call).code == 0


def test_two_versions_of_one_past_are_told_apart_by_their_numbers(
    apart: tuple[Path, Path], command: Any, write_delta: Any
) -> None:
    one, _ = apart
    assert command("convert", one, "--to", "iceberg").code == 0
    write_delta(rows(5), one)
    refused = command("convert", one, "--to", "iceberg")
    assert refused.code == 5
    assert "it is behind; bring it up to date with deltaberg sync" in refused.err


def test_a_log_that_was_set_back_is_told_of(apart: tuple[Path, Path], command: Any) -> None:
    one, _ = apart
    assert command("convert", one, "--to", "iceberg").code == 0
    commit_of(one, 1).unlink()
    refused = command("convert", one, "--to", "iceberg")
    assert refused.code == 5
    assert "which ends at version 0 now: its log was set back to an earlier state, or has lost its end" in refused.err


def test_a_log_that_was_set_back_and_went_on_has_another_past(
    apart: tuple[Path, Path], command: Any, write_delta: Any
) -> None:
    one, _ = apart
    assert command("convert", one, "--to", "iceberg").code == 0
    commit_of(one, 1).unlink()
    write_delta(rows(6), one)
    refused = command("convert", one, "--to", "iceberg")
    assert refused.code == 5
    assert "another past" in refused.err


def test_a_target_of_a_version_that_kept_no_fingerprint_is_read(apart: tuple[Path, Path], command: Any) -> None:
    one, other = apart
    target = one.parent / "target"
    assert command("convert", one, "--to", "iceberg", "--target", target).code == 0
    metadata = target / "metadata" / "v1.metadata.json"
    written = json.loads(metadata.read_text())
    for holder in (written["properties"], written["snapshots"][0]["summary"]):
        position = json.loads(holder[WATERMARK_KEY])
        assert len(position.pop("fingerprint")) == 64
        holder[WATERMARK_KEY] = json.dumps(position, separators=(",", ":"), sort_keys=True)
    metadata.write_text(json.dumps(written))
    for source in (one, other):
        again = command("convert", source, "--to", "iceberg", "--target", target, "--json")
        assert again.code == 0
        assert again.document["already_current"] is True


def test_a_commit_that_only_a_checkpoint_is_left_of_counts_as_the_one_that_was(
    apart: tuple[Path, Path], command: Any
) -> None:
    deltalake = pytest.importorskip("deltalake")
    one, _ = apart
    assert command("convert", one, "--to", "iceberg").code == 0
    deltalake.DeltaTable(one).create_checkpoint()
    for version in (0, 1):
        commit_of(one, version).unlink()
    again = command("convert", one, "--to", "iceberg", "--json")
    assert again.code == 0
    assert again.document["already_current"] is True


def test_the_iceberg_targets_of_two_copies_are_two_tables(apart: tuple[Path, Path], command: Any, opened: Any) -> None:
    """Written to one place one after the other, they are told apart by what is made from them in turn."""
    one, other = apart
    target, back = one.parent / "target", one.parent / "back"
    uuids = []
    for source in (one, other):
        shutil.rmtree(target, ignore_errors=True)
        assert command("convert", source, "--to", "iceberg", "--target", target).code == 0
        uuids.append(opened(target).table.metadata.table_uuid)
        made = command("convert", target, "--to", "delta", "--target", back)
        assert made.code == (0 if source == one else 5)
    assert uuids[0] != uuids[1]


def test_schemas_of_one_id_are_told_apart(tmp_path: Path, catalog: Any, command: Any) -> None:
    """Columns are added in two copies of an Iceberg table without a snapshot: both call their schema 1."""
    table = catalog.create_table("n.t", schema=rows().schema)
    table.append(rows(1))
    current = Path(table.metadata_location.removeprefix("file://"))
    metadata = json.loads(current.read_text())
    target = tmp_path / "target"
    for column, code in (("x", 0), ("x", 0), ("y", 5)):
        schema = metadata["schemas"][0]
        added = {"id": 2, "name": column, "type": "long", "required": False}
        changed = {**schema, "schema-id": 1, "fields": [*schema["fields"], added]}
        place = current.parent / f"00002-{column}.metadata.json"
        place.write_text(
            json.dumps({**metadata, "schemas": [schema, changed], "current-schema-id": 1, "last-column-id": 2})
        )
        done = command("convert", place, "--to", "delta", "--target", target)
        assert done.code == code, done.err
    assert "the schema 1 of that state is not the one" in done.err


def test_a_large_commit_is_told_apart_by_size_and_ends(tmp_path: Path) -> None:
    base = b"a" * (3 << 20)
    contents = [base, b"b" + base[1:], base[:-1] + b"b", base + b"a", base[: 1 << 20], base[: 1 << 19]]
    found = []
    for number, content in enumerate(contents):
        place = tmp_path / f"{number}.json"
        place.write_bytes(content)
        commit = LogFile(location=str(place), version=1, kind=LogFileKind.COMMIT, size=len(content))
        found.append(commit_fingerprint(open_storage(), commit))
    assert len(set(found)) == len(contents)


def test_the_position_is_read_as_it_was_written(apart: tuple[Path, Path], opened: Any) -> None:
    position = watermark_of(opened(apart[0]))
    assert position.fingerprint is not None
    assert Watermark.from_properties({WATERMARK_KEY: position.to_text()}) == position
    assert position.at(0).fingerprint is None
    assert position.at(1) == position
    other = watermark_of(opened(apart[1]))
    assert (other.uuid, other.version) == (position.uuid, position.version)
    assert not position.is_same_state(other)
