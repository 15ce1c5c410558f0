"""What a sync says of a target or a source that is not what the target's watermark says: by its kind, before anything is
written, and with ``on_drift="keep"`` without an error."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltaberg.errors import Conflict, UsageError
from deltaberg.iceberg.manifest.live_files import live_entries, live_manifests
from deltaberg.iceberg.manifest.manifest_list import ManifestContent
from deltaberg.iceberg.table import Table
from deltaberg.migrate.convert import convert
from deltaberg.migrate.source import TableFormat, open_source
from deltaberg.migrate.sync import SyncResult, sync
from deltaberg.migrate.target.drift import Drift, DriftKind
from deltaberg.storage import open_storage
from tests.migrate.conftest import OneTable
from tests.migrate.faults import iceberg

deltalake = pytest.importorskip("deltalake")
pytest.importorskip("pyiceberg")

FIRST = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "s": ["a", "b", None]})
SECOND = pa.table({"id": pa.array([4, 5], pa.int64()), "s": ["c", "d"]})


def files(*folders: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for folder in folders for path in folder.rglob("*") if path.is_file()}


def assert_drifts(run: Callable[..., SyncResult], kind: DriftKind, words: str, *folders: Path) -> None:
    """Named and exit 5; told to keep the target, it is kept; in either case nothing is written."""
    before = files(*folders)
    with pytest.raises(Drift, match=words) as caught:
        run()
    assert (caught.value.kind, caught.value.exit_code) == (kind, 5)
    assert str(caught.value).count(f": {kind.value}: ") == 1
    assert files(*folders) == before
    kept = run(on_drift="keep")
    assert (kept.created, kept.commits) == (False, ())
    assert kept.to_json()["drift"] == kind.value
    assert files(*folders) == before


class TestAnIcebergTarget:
    @pytest.fixture
    def table(self, tmp_path: Path) -> Path:
        """A Delta table of two versions, with an Iceberg target of the first."""
        folder = tmp_path / "table"
        deltalake.write_deltalake(str(folder), FIRST)
        assert self.sync(folder).created
        deltalake.write_deltalake(str(folder), SECOND, mode="append")
        return folder

    def sync(self, folder: Path, **chosen: Any) -> SyncResult:
        return sync(open_source(str(folder), open_storage(), format=TableFormat.DELTA), to="iceberg", **chosen)

    def target(self, folder: Path) -> Table:
        return Table.open(f"{folder}/_iceberg", open_storage())

    def test_that_somebody_else_committed_to(self, table: Path) -> None:
        with self.target(table).transaction() as transaction:
            other = transaction.snapshot("append").snapshot_id
            transaction.commit()
        words = f"somebody else has committed to it since version 0 .*: snapshot {other} \\(append\\)"
        assert_drifts(lambda **k: self.sync(table, **k), DriftKind.FOREIGN_COMMIT, words, table)

    def test_whose_files_were_compacted(self, table: Path) -> None:
        target = self.target(table)
        head = target.metadata.current_snapshot
        (manifest,) = live_manifests(target, head, ManifestContent.DATA)
        (entry,) = live_entries(target, manifest)
        place = f"{table}/compacted.parquet"
        shutil.copy(entry.column("file_path")[0].as_py(), place)
        names = [name for name in entry.schema.names if name in ("file_format", "record_count", "file_size_in_bytes")]
        columns = {name: entry.column(name) for name in names}
        with target.transaction() as transaction:
            builder = transaction.snapshot("replace")
            builder.delete_files(entry.select(["content", "file_path", "spec_id", "content_offset"]))
            added = {"file_path": pa.array([place]), "partition": entry.column("partition"), **columns}
            builder.add_files(pa.record_batch(added), 0)
            transaction.commit()
        words = r"compacted since version 0 .*, by snapshot \d+ \(replace\); compact the source instead"
        assert_drifts(lambda **k: self.sync(table, **k), DriftKind.COMPACTED, words, table)

    def test_whose_manifests_were_rewritten_goes_on(self, table: Path, iceberg_rows: Any) -> None:
        with self.target(table).transaction() as transaction:
            transaction.snapshot("replace")
            transaction.commit()
        done = self.sync(table)
        assert [version for version, _ in done.commits] == [1]
        assert sorted(iceberg_rows(done.target_metadata)["id"].to_pylist()) == [1, 2, 3, 4, 5]

    def test_that_was_set_back(self, table: Path) -> None:
        self.sync(table)
        target = self.target(table)
        first = min(target.metadata.snapshots, key=lambda each: each.sequence_number)
        with target.transaction() as transaction:
            transaction.rollback_to(first.snapshot_id).commit()
        words = f"it was set back to snapshot {first.snapshot_id}, with version 0 .*, and has snapshot"
        assert_drifts(lambda **k: self.sync(table, **k), DriftKind.TARGET_SET_BACK, words, table)

    def test_that_was_restored_from_a_backup_goes_on_from_there(self, table: Path, iceberg_rows: Any) -> None:
        backup = shutil.copytree(table / "_iceberg", table.parent / "backup")
        self.sync(table)
        shutil.rmtree(table / "_iceberg")
        shutil.move(backup, table / "_iceberg")
        done = self.sync(table)
        assert (done.before, [version for version, _ in done.commits]) == (0, [1])
        assert sorted(iceberg_rows(done.target_metadata)["id"].to_pylist()) == [1, 2, 3, 4, 5]

    def test_whose_manifest_is_missing(self, table: Path) -> None:
        head = self.target(table).metadata.current_snapshot
        (manifest,) = live_manifests(self.target(table), head, ManifestContent.DATA)
        Path(manifest.manifest_path).unlink()
        words = f"its file {manifest.manifest_path} is missing"
        assert_drifts(lambda **k: self.sync(table, **k), DriftKind.FILES_MISSING, words, table)

    def test_whose_metadata_was_cut(self, table: Path) -> None:
        place = table / "_iceberg" / "metadata" / "v1.metadata.json"
        place.write_bytes(place.read_bytes()[:100])
        words = "its metadata is damaged"
        assert_drifts(lambda **k: self.sync(table, **k), DriftKind.FILES_MISSING, words, table)

    def test_that_was_deleted(self, table: Path) -> None:
        shutil.rmtree(table / "_iceberg" / "metadata")
        words = r"there was a table, which plan-0-.*\.json tells of, and it is gone"
        assert_drifts(lambda **k: self.sync(table, **k), DriftKind.TARGET_DELETED, words, table)
        shutil.rmtree(table / "_iceberg")
        assert self.sync(table).created, "of a folder that is gone nothing is known"

    def test_that_another_tool_wrote(self, tmp_path: Path, table: Path) -> None:
        shutil.rmtree(table / "_iceberg")
        other = Path(iceberg(tmp_path, "other").removeprefix("file://"))
        transaction = Table.of_catalog(OneTable(str(other)), open_storage()).transaction()
        place = transaction.set_properties({"XTABLE_METADATA": "{}"}).commit().metadata_location
        root = other.parent.parent
        text = json.loads(Path(place.removeprefix("file://")).read_text())
        for each in (root / "metadata").glob("*.metadata.json"):
            each.unlink()
        (root / "metadata" / "v1.metadata.json").write_text(json.dumps(text))
        words = "it holds a table that Apache XTable wrote, and not deltaberg"
        assert_drifts(lambda **k: self.sync(table, target=str(root), **k), DriftKind.OTHER_TOOL, words, table, root)

    def test_whose_source_was_recreated(self, table: Path) -> None:
        kept = shutil.move(table / "_iceberg", table.parent / "kept")
        shutil.rmtree(table)
        deltalake.write_deltalake(str(table), FIRST)
        shutil.move(kept, table / "_iceberg")
        words = "the source was recreated, or is another table"
        assert_drifts(lambda **k: self.sync(table, **k), DriftKind.SOURCE_RECREATED, words, table)

    def test_whose_source_was_set_back(self, table: Path) -> None:
        self.sync(table)
        (table / "_delta_log" / f"{1:020}.json").unlink()
        words = "its log was set back to an earlier state, or has lost its end"
        assert_drifts(lambda **k: self.sync(table, **k), DriftKind.SOURCE_SET_BACK, words, table)

    def test_whose_source_was_set_back_and_went_on(self, table: Path) -> None:
        self.sync(table)
        (table / "_delta_log" / f"{1:020}.json").unlink()
        for _ in range(2):
            deltalake.write_deltalake(str(table), SECOND, mode="append")
        words = "the source has another past"
        assert_drifts(lambda **k: self.sync(table, **k), DriftKind.SOURCE_SET_BACK, words, table)

    def test_whose_sources_log_was_cleaned(self, table: Path) -> None:
        for _ in range(2):
            deltalake.write_deltalake(str(table), SECOND, mode="append")
        deltalake.DeltaTable(str(table)).create_checkpoint()
        for version in range(3):
            (table / "_delta_log" / f"{version:020}.json").unlink()
        words = "the source's log no longer holds what came after version 0"
        assert_drifts(lambda **k: self.sync(table, **k), DriftKind.HISTORY_GONE, words, table)

    def test_that_is_behind_is_not_written_by_convert_which_names_sync(self, table: Path) -> None:
        before = files(table)
        with pytest.raises(Conflict, match="it is behind; bring it up to date with deltaberg sync") as caught:
            convert(open_source(str(table), open_storage(), format=TableFormat.DELTA), to="iceberg")
        assert caught.value.exit_code == 5
        assert files(table) == before


class TestADeltaTarget:
    @pytest.fixture
    def place(self, tmp_path: Path, delete_from_iceberg: Any) -> str:
        """An Iceberg table whose Delta target ``target`` is behind it."""
        first = iceberg(tmp_path, "table")
        assert self.sync(first, tmp_path).created
        return str(delete_from_iceberg(first, {0: [0]}))

    def sync(self, place: str, folder: Path, **chosen: Any) -> SyncResult:
        source = open_source(place, open_storage(), format=TableFormat.ICEBERG)
        return sync(source, to="delta", target=f"{folder}/target", **chosen)

    def commit(self, folder: Path, *actions: dict[str, Any]) -> None:
        log = folder / "target" / "_delta_log"
        version = len(list(log.glob("*.json")))
        (log / f"{version:020}.json").write_text("\n".join(json.dumps(each) for each in actions))

    def listed(self, folder: Path) -> dict[str, Any]:
        lines = (folder / "target" / "_delta_log" / f"{0:020}.json").read_text().splitlines()
        return next(dict(json.loads(line)["add"]) for line in lines if "add" in json.loads(line))

    def test_that_somebody_else_committed_to(self, tmp_path: Path, place: str) -> None:
        removed = {"path": self.listed(tmp_path)["path"], "dataChange": True, "deletionTimestamp": 1}
        self.commit(tmp_path, {"commitInfo": {"operation": "DELETE", "timestamp": 1}}, {"remove": removed})
        words = r"somebody else has committed to it since snapshot \d+ .*: version 1 \(DELETE\)"
        assert_drifts(lambda **k: self.sync(place, tmp_path, **k), DriftKind.FOREIGN_COMMIT, words, tmp_path / "target")

    def test_whose_files_were_compacted(self, tmp_path: Path, place: str) -> None:
        add = self.listed(tmp_path)
        pq.write_table(FIRST, tmp_path / "target" / "compacted.parquet")
        size = (tmp_path / "target" / "compacted.parquet").stat().st_size
        self.commit(
            tmp_path,
            {"commitInfo": {"operation": "OPTIMIZE", "timestamp": 1}},
            {"remove": {"path": add["path"], "dataChange": False, "deletionTimestamp": 1}},
            {"add": {**add, "path": "compacted.parquet", "size": size, "dataChange": False}},
        )
        words = r"compacted since snapshot \d+ .*, by version 1 \(OPTIMIZE\); compact the source instead"
        assert_drifts(lambda **k: self.sync(place, tmp_path, **k), DriftKind.COMPACTED, words, tmp_path / "target")

    def test_that_a_vacuum_told_of_itself_goes_on(self, tmp_path: Path, place: str, delta_rows: Any) -> None:
        for name in ("VACUUM START", "VACUUM END"):
            self.commit(tmp_path, {"commitInfo": {"operation": name, "timestamp": 1}})
        assert [version for _, version in self.sync(place, tmp_path).commits] == [3]
        assert delta_rows(tmp_path / "target").num_rows == 4

    def test_whose_log_was_cut(self, tmp_path: Path, place: str) -> None:
        path = tmp_path / "target" / "_delta_log" / f"{0:020}.json"
        path.write_bytes(path.read_bytes()[:-40])
        words = "its metadata is damaged"
        assert_drifts(lambda **k: self.sync(place, tmp_path, **k), DriftKind.FILES_MISSING, words, tmp_path / "target")

    def test_that_was_deleted(self, tmp_path: Path, place: str) -> None:
        shutil.rmtree(tmp_path / "target" / "_delta_log")
        words = r"there was a table, which plan-\d+-.*\.json tells of, and it is gone"
        assert_drifts(lambda **k: self.sync(place, tmp_path, **k), DriftKind.TARGET_DELETED, words, tmp_path / "target")

    def test_that_another_tool_wrote(self, tmp_path: Path, place: str) -> None:
        shutil.rmtree(tmp_path / "target")
        deltalake.write_deltalake(f"{tmp_path}/target", FIRST)
        words = "it holds a table that somebody else wrote, and not deltaberg"
        assert_drifts(lambda **k: self.sync(place, tmp_path, **k), DriftKind.OTHER_TOOL, words, tmp_path / "target")

    def test_whose_source_is_another_table(self, tmp_path: Path, place: str) -> None:
        (tmp_path / "others").mkdir()
        other = iceberg(tmp_path / "others", "table")
        words = "the source was recreated, or is another table"
        assert_drifts(
            lambda **k: self.sync(other, tmp_path, **k), DriftKind.SOURCE_RECREATED, words, tmp_path / "target"
        )

    def test_whose_snapshot_has_expired(self, tmp_path: Path, place: str) -> None:
        table = Table.of_catalog(OneTable(place), open_storage())
        head = table.metadata.current_snapshot
        assert head is not None
        others = [each.snapshot_id for each in table.metadata.snapshots if each.snapshot_id != head.snapshot_id]
        later = table.transaction().remove_snapshots(others).commit().metadata_location
        words = rf"snapshot {head.parent_snapshot_id} .*has expired, or the source was set back to before it"
        assert_drifts(lambda **k: self.sync(later, tmp_path, **k), DriftKind.HISTORY_GONE, words, tmp_path / "target")

    def test_that_is_behind_is_not_written_by_convert_which_names_sync(self, tmp_path: Path, place: str) -> None:
        before = files(tmp_path / "target")
        source = open_source(place, open_storage(), format=TableFormat.ICEBERG)
        with pytest.raises(Conflict, match="it is behind; bring it up to date with deltaberg sync"):
            convert(source, to="delta", target=f"{tmp_path}/target")
        assert files(tmp_path / "target") == before


def test_another_word_for_what_to_do_is_refused(tmp_path: Path) -> None:
    deltalake.write_deltalake(f"{tmp_path}/table", FIRST)
    source = open_source(f"{tmp_path}/table", open_storage())
    with pytest.raises(UsageError, match=r"there is no on_drift 'retry' \(expected fail or keep\)"):
        sync(source, to="iceberg", on_drift="retry")
    assert not (tmp_path / "table" / "_iceberg").exists()


def test_the_result_of_a_sync_that_goes_on_has_no_drift(tmp_path: Path) -> None:
    deltalake.write_deltalake(f"{tmp_path}/table", FIRST)
    source = open_source(f"{tmp_path}/table", open_storage())
    assert sync(source, to="iceberg", on_drift="keep").to_json()["drift"] is None
    assert "drift" in {each.name for each in dataclasses.fields(SyncResult)}
