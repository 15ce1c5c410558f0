"""A target is written where the user asked for it: below what was typed, or where ``--target`` says; never by metadata alone."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import deltaberg
from deltaberg.errors import UsageError
from deltaberg.iceberg.create_table import create_table
from deltaberg.iceberg.schema.schema import Schema
from deltaberg.iceberg.schema.types import LongType, NestedField
from deltaberg.iceberg.table import Table
from deltaberg.migrate.source import TableFormat, naming_target, open_source
from deltaberg.migrate.spark.batch import TableRequest
from deltaberg.storage import LocationRefused, OutsideTarget, open_storage

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64())})


def files_below(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {
        str(path.relative_to(folder)): (path.stat().st_mtime_ns, path.read_bytes())
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.fixture
def original(tmp_path: Path, write_delta: Any) -> Path:
    """An Iceberg table, with absolute locations as every Iceberg table has."""
    source = write_delta(ROWS, tmp_path / "source")
    target = tmp_path / "original"
    deltaberg.convert(source, to="iceberg", target=target)
    return target


@pytest.fixture
def copy(original: Path) -> Path:
    return Path(shutil.copytree(original, original.parent / "copy"))


class TestACopiedTable:
    @pytest.mark.parametrize("name", ["", "metadata/v1.metadata.json", "metadata/"])
    def test_is_not_converted_into_the_original(self, name: str, original: Path, copy: Path, command: Any) -> None:
        place = f"{copy}/{name}" if name != "metadata/" else f"{copy}/"
        before = files_below(original), files_below(copy)
        for verb in ("plan", "convert"):
            outcome = command(verb, place, "--to", "delta")
            assert outcome.code == 2
            assert f"places the table in {original}" in outcome.err
            assert f"--relocate {original}={copy}" in outcome.err
            assert "--target" in outcome.err
        assert (files_below(original), files_below(copy)) == before

    def test_is_converted_where_a_relocation_says_that_it_is(
        self, original: Path, copy: Path, command: Any, delta_rows: Any
    ) -> None:
        before = files_below(original)
        done = command("convert", copy, "--to", "delta", "--relocate", f"{original}={copy}", "--json")
        assert done.code == 0, done.err
        assert done.document["target"] == str(copy)
        assert delta_rows(copy).sort_by("id").equals(ROWS)
        assert files_below(original) == before

    def test_is_converted_to_a_target_that_is_given(
        self, original: Path, copy: Path, command: Any, tmp_path: Path
    ) -> None:
        before = files_below(original), files_below(copy)
        done = command("convert", copy, "--to", "delta", "--target", tmp_path / "new", "--json")
        assert (done.code, done.document["target"]) == (0, str(tmp_path / "new"))
        assert (files_below(original), files_below(copy)) == before

    def test_of_a_job_over_many_tables_is_refused_alike(self, copy: Path) -> None:
        from deltaberg.migrate.convert import convert

        request = TableRequest(name="t", source=str(copy), to=TableFormat.DELTA)
        with pytest.raises(UsageError, match="where nobody asked to write"):
            convert(request.open_source(), to="delta", target=request.target)


class TestOnePlaceInSeveralSpellings:
    @pytest.mark.parametrize(
        "spelling",
        ["{0}", "{0}/", "{0}//", "file:{0}", "file://{0}", "file://{0}/", "FILE://{0}", "file://localhost{0}"],
    )
    def test_of_what_was_typed(self, spelling: str, original: Path) -> None:
        done = deltaberg.convert(spelling.format(original), to="delta")
        assert done.target == str(original)
        assert (original / "_delta_log" / "00000000000000000000.json").is_file()

    @pytest.mark.parametrize(
        "spelling",
        ["{0}/", "file:{0}", "file://{0}", "file://{0}/", "File:{0}", "{1}/x/../{2}", "{1}/./{2}"],
    )
    def test_of_what_the_metadata_says(self, spelling: str, original: Path) -> None:
        stated = spelling.format(original, original.parent, original.name)
        (original.parent / "x").mkdir()
        change_metadata(original, lambda metadata: metadata.update(location=stated))
        done = deltaberg.convert(original, to="delta")
        assert done.target == str(original)
        assert (original / "_delta_log" / "00000000000000000000.json").is_file()

    def test_relative_to_the_working_directory(self, original: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(original.parent)
        assert deltaberg.convert("./original/../original", to="delta").target == str(original)

    def test_by_a_symbolic_link(self, original: Path) -> None:
        link = original.parent / "link"
        link.symlink_to(original)
        done = deltaberg.convert(link, to="delta")
        assert os.path.realpath(done.target) == str(original)
        assert (original / "_delta_log" / "00000000000000000000.json").is_file()

    def test_by_a_metadata_file(self, original: Path) -> None:
        assert deltaberg.convert(original / "metadata/v1.metadata.json", to="delta").target == str(original)

    def test_of_another_case_is_another_place(self, original: Path) -> None:
        change_metadata(original, lambda metadata: metadata.update(location=str(original.parent / "ORIGINAL")))
        with pytest.raises(deltaberg.DeltabergError, match="ORIGINAL"):
            deltaberg.convert(original / "metadata/v1.metadata.json", to="delta")
        assert not (original.parent / "ORIGINAL").exists()


def change_metadata(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    path = folder / "metadata/v1.metadata.json"
    metadata = json.loads(path.read_text())
    change(metadata)
    path.write_text(json.dumps(metadata))


class TestHostileMetadata:
    @pytest.mark.parametrize("opened_by", ["folder", "file"])
    @pytest.mark.parametrize(
        "stated", ["{victim}", "{table}/../victim", "file:{victim}", "{table}/metadata/../../victim"]
    )
    def test_of_an_iceberg_location(self, stated: str, opened_by: str, original: Path, tmp_path: Path) -> None:
        victim = tmp_path / "victim"
        victim.mkdir()
        text = stated.format(victim=victim, table=original)
        # What an attacker needs so that the table opens: the same metadata there, or another folder for it.
        change_metadata(original, lambda metadata: metadata.update(location=text))
        metadata_of_victim = victim / "metadata/v1.metadata.json"
        metadata_of_victim.parent.mkdir()
        shutil.copy(original / "metadata/v1.metadata.json", metadata_of_victim)
        before = files_below(victim)
        with pytest.raises(UsageError, match="where nobody asked to write"):
            deltaberg.convert(original if opened_by == "folder" else original / "metadata/v1.metadata.json", to="delta")
        assert files_below(victim) == before

    @pytest.mark.parametrize(
        "key", ["write.metadata.path", "write.data.path", "write.object-storage.path", "write.folder-storage.path"]
    )
    def test_of_write_paths(self, key: str, original: Path, tmp_path: Path) -> None:
        victim = tmp_path / "victim"
        change_metadata(original, lambda metadata: metadata["properties"].update({key: str(victim)}))
        assert deltaberg.convert(original, to="delta").target == str(original)
        change_metadata(original, lambda metadata: metadata.update(location=str(victim)))
        with pytest.raises(deltaberg.DeltabergError):
            deltaberg.convert(original, to="delta", options=deltaberg.ConvertOptions(former_names="rewrite"))
        assert not victim.exists()

    def test_of_write_paths_that_a_delta_log_carries(self, tmp_path: Path, write_delta: Any) -> None:
        victim = tmp_path / "victim"
        source = write_delta(ROWS, tmp_path / "t")
        commit = source / "_delta_log" / "00000000000000000000.json"
        names = ("iceberg.write.metadata.path", "iceberg.write.data.path", "write.object-storage.path")
        carried = json.dumps(dict.fromkeys(names, str(victim)))
        changed = commit.read_text().replace('"configuration":{}', f'"configuration":{carried}')
        assert changed != commit.read_text()
        commit.write_text(changed)
        done = deltaberg.convert(source, to="iceberg")
        assert done.target_metadata.startswith(f"{source}/_iceberg/metadata/")
        assert not victim.exists()

    def test_of_a_link_in_the_table_s_folder(self, original: Path, tmp_path: Path) -> None:
        """An archive may bring symbolic links along."""
        victim = tmp_path / "victim"
        victim.mkdir()
        (original / "_delta_log").symlink_to(victim)
        with pytest.raises(OutsideTarget, match="it is not below the folder that was chosen") as caught:
            deltaberg.convert(original, to="delta")
        assert caught.value.exit_code == 2
        assert list(victim.iterdir()) == []


class TestTheStorageOfAConversion:
    """Whatever code asks for it."""

    WRITES: tuple[Callable[[Any, str], Any], ...] = (
        lambda storage, place: storage.put(place, b"x"),
        lambda storage, place: storage.put_if_absent(place, b"x"),
        lambda storage, place: storage.put_if_absent(place, iter([b"x"])),
        lambda storage, place: storage.create(place).__enter__(),
        lambda storage, place: storage.delete(place),
        lambda storage, place: storage.create_folders(place),
        lambda storage, place: storage.delete_unfinished(place),
    )

    @pytest.mark.parametrize("write", WRITES)
    @pytest.mark.parametrize(
        "place",
        ["{0}/victim/x", "{0}/original/x", "{0}/targetx/x", "{0}/target/../victim/x", "file:{0}/victim/x", "s3://b/x"],
    )
    def test_refuses_whatever_is_not_below_the_target(
        self, write: Callable[[Any, str], Any], place: str, original: Path, tmp_path: Path
    ) -> None:
        source = naming_target(open_source(str(original), open_storage()), str(tmp_path / "target"), writes=True)
        before = files_below(tmp_path)
        for storage in (source.storage, source.table.storage):  # type: ignore[union-attr]
            with pytest.raises(OutsideTarget, match="not below the folder that was chosen"):
                write(storage, place.format(tmp_path))
        assert files_below(tmp_path) == before
        assert not (tmp_path / "victim").exists()

    def test_writes_below_the_target(self, original: Path, tmp_path: Path) -> None:
        source = naming_target(open_source(str(original), open_storage()), f"file:{tmp_path}/new/target/", writes=True)
        source.storage.put(f"{tmp_path}/new/target/a/b", b"x")
        assert (tmp_path / "new/target/a/b").read_bytes() == b"x"
        source.storage.delete(f"{tmp_path}/new/target/a/b")
        source.storage.delete_folder(f"{tmp_path}/new/target/a")
        source.storage.delete_folder(f"{tmp_path}/new/target")
        source.storage.delete_folder(f"{tmp_path}/new")
        assert not (tmp_path / "new").exists()

    def test_of_a_plan_writes_nothing(self, original: Path, tmp_path: Path) -> None:
        source = naming_target(open_source(str(original), open_storage()), str(tmp_path / "target"), writes=False)
        with pytest.raises(OutsideTarget, match="expected nowhere"):
            source.storage.put(f"{tmp_path}/target/x", b"x")

    def test_goes_to_other_processes_with_its_policy(self, original: Path, tmp_path: Path) -> None:
        import pickle

        source = naming_target(open_source(str(original), open_storage()), str(tmp_path / "target"), writes=True)
        sent = pickle.loads(pickle.dumps(source.storage))
        with pytest.raises(OutsideTarget):
            sent.put(f"{tmp_path}/victim", b"x")
        with pytest.raises(LocationRefused):
            sent.get("s3://elsewhere/x")


class TestATargetInsideALogOrMetadataFolder:
    @pytest.mark.parametrize(
        "below",
        ["_delta_log", "_delta_log/", "_delta_log/x", "_iceberg/metadata", "_iceberg/metadata/x", "x/_delta_log"],
    )
    def test_of_the_source_is_a_usage_error(self, below: str, tmp_path: Path, write_delta: Any, command: Any) -> None:
        source = write_delta(ROWS, tmp_path / "t")
        for verb in ("plan", "convert"):
            outcome = command(verb, source, "--to", "iceberg", "--target", f"{source}/{below}")
            assert outcome.code == 2, outcome.err
            assert "is for the" in outcome.err
        assert sorted(path.name for path in source.iterdir() if path.is_dir()) == ["_delta_log"]

    @pytest.mark.parametrize("below", ["metadata", "metadata/x", "_delta_log"])
    def test_of_an_iceberg_table(self, below: str, original: Path, command: Any) -> None:
        before = files_below(original)
        outcome = command("convert", original, "--to", "delta", "--target", original / below)
        assert outcome.code == 2
        assert "Cannot write a table to" in outcome.err
        assert files_below(original) == before

    def test_of_some_other_table(self, original: Path, tmp_path: Path, write_delta: Any, command: Any) -> None:
        source = write_delta(ROWS, tmp_path / "t")
        outcome = command("convert", source, "--to", "iceberg", "--target", original / "metadata/new")
        assert outcome.code == 2

    def test_is_not_meant_by_a_folder_that_is_called_metadata_only(self, tmp_path: Path, write_delta: Any) -> None:
        source = write_delta(ROWS, tmp_path / "t")
        target = tmp_path / "metadata" / "t"
        assert deltaberg.convert(source, to="iceberg", target=target).target == str(target)


def test_a_table_of_a_catalog_is_written_where_the_catalog_has_it(tmp_path: Path, write_delta: Any) -> None:
    """The location of its metadata is the catalog's word."""
    from dataclasses import replace

    from deltaberg.migrate.target.target_root import target_root
    from tests.migrate.conftest import OneTable

    schema = Schema(schema_id=0, fields=(NestedField(field_id=1, name="id", type=LongType(), required=False),))
    table = create_table(open_storage(), str(tmp_path / "t"), schema=schema).commit()
    source = open_source(table.metadata_location, open_storage())
    owned = replace(source, table=replace(source.table, catalog=OneTable(table.metadata_location)))  # type: ignore[union-attr,arg-type,type-var]
    assert target_root(owned, None) == str(tmp_path / "t")
    assert Table.open(str(tmp_path / "t"), open_storage()).location == str(tmp_path / "t")
