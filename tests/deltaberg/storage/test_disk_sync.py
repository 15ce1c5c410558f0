"""Local files are on disk before the commit that refers to them appears, and the commit is before it is called done."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

import deltaberg
from deltaberg.delta.checkpoint.checkpoint_writer import CheckpointKind
from deltaberg.delta.table import DeltaTable
from deltaberg.delta.transaction import begin_transaction
from deltaberg.errors import CommitStateUnknown
from deltaberg.storage import NotDurable, StorageError, disk_sync, open_storage
from deltaberg.storage.commit_put import CommitIntent, WholeContent, put_commit


class Disk:
    """What was put on disk, by inode, and what was there when a name appeared."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.synced: list[int] = []
        self.appeared: list[tuple[str, frozenset[int]]] = []
        self.fails: Callable[[int], bool] = lambda handle: False
        patch.setattr(os, "fsync", self._sync)
        for name in ("link", "replace"):
            patch.setattr(os, name, self._noting(getattr(os, name)))

    def _sync(self, handle: int) -> None:
        if self.fails(handle):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        self.synced.append(os.fstat(handle).st_ino)

    def _noting(self, call: Callable[..., None]) -> Callable[..., None]:
        def noted(source: str, target: str) -> None:
            inode = os.stat(source).st_ino
            self.appeared.append((str(target), frozenset(self.synced) | ({-1} if inode in self.synced else set())))
            call(source, target)

        return noted

    def at(self, end: str) -> frozenset[int]:
        """What was on disk when the one file with that ending appeared; -1 for the content of the file itself."""
        (found,) = [synced for place, synced in self.appeared if place.endswith(end)]
        return found


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


def inodes(*paths: Path) -> set[int]:
    return {path.stat().st_ino for path in paths}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A Delta table of two versions."""
    folder = tmp_path / "source"
    for ids in ([1, 2, 3], [4]):
        write_deltalake(str(folder), pa.table({"id": ids}), mode="append")
    return folder


@pytest.mark.parametrize("to", ["iceberg", "delta"])
def test_everything_that_a_commit_refers_to_is_on_disk_before_it(
    tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch, to: str
) -> None:
    if to == "delta":
        source = Path(deltaberg.convert(str(source), to="iceberg", target=str(tmp_path / "second")).target)
    disk, target = Disk(monkeypatch), tmp_path / "made" / "target"
    done = deltaberg.convert(str(source), to=to, target=str(target))
    commit = Path(done.target_metadata)
    before = [path for path in target.rglob("*") if path.is_file() and path.suffix not in {".crc", ".text"}]
    before.remove(commit)
    assert before
    folders = [tmp_path, target.parent, *(path for path in (target, *target.rglob("*")) if path.is_dir())]
    at_commit = disk.at(commit.name)
    assert inodes(*before) <= at_commit
    assert inodes(*folders) - inodes(commit.parent) <= at_commit
    assert -1 in at_commit
    assert commit.parent.stat().st_ino in disk.synced[disk.synced.index(commit.stat().st_ino) :]


def test_a_checkpoint_is_on_disk_before_readers_can_find_it(source: Path, disk: Disk) -> None:
    for kind, end in (
        (CheckpointKind.CLASSIC, "2.checkpoint.parquet"),
        (CheckpointKind.V2_PARQUET, ".parquet"),
        (CheckpointKind.V2_JSON, ".json"),
    ):
        transaction = begin_transaction(DeltaTable.open(str(source), open_storage()).snapshot())
        transaction.commit("NOTHING")
        disk.appeared.clear()
        transaction.checkpoint(kind=kind)
        (made,) = [
            synced for place, synced in disk.appeared if ".checkpoint." in os.path.basename(place) and end in place
        ]
        assert -1 in made
        hint = disk.at("_last_checkpoint")
        assert inodes(*(source / "_delta_log").glob("*.checkpoint.*"), *source.glob("_delta_log/_sidecars/*")) <= hint


def test_files_that_wait_are_put_on_disk_together_and_those_that_are_gone_are_not_missed(
    tmp_path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk_sync, "_AT_ONCE", 10)
    storage = open_storage()
    for number in range(25):
        with storage.create(f"{tmp_path}/{number}") as sink:
            sink.write(b"x")
    assert len(set(disk.synced) & inodes(*tmp_path.iterdir())) == 20
    storage.delete(f"{tmp_path}/24")
    storage.put_if_absent(f"{tmp_path}/commit", b"x")
    assert inodes(*tmp_path.iterdir()) <= set(disk.synced)


def test_a_task_puts_its_files_on_disk_itself(tmp_path: Path, disk: Disk) -> None:
    """Its storage came from another process, which alone commits."""
    import pickle

    storage = pickle.loads(pickle.dumps(open_storage()))
    with storage.create(f"{tmp_path}/new/file") as sink:
        sink.write(b"x")
    assert inodes(tmp_path, tmp_path / "new", tmp_path / "new" / "file") <= set(disk.synced)


def test_a_disk_that_cannot_keep_what_a_commit_needs_stops_the_commit(tmp_path: Path, disk: Disk) -> None:
    storage = open_storage()
    with storage.create(f"{tmp_path}/part") as sink:
        sink.write(b"x")
    disk.fails = lambda handle: True
    intent = CommitIntent(storage)
    with pytest.raises(StorageError, match=f"Cannot write {tmp_path}/commit: Input/output error"):
        put_commit(storage, f"{tmp_path}/commit", WholeContent(b"mine"), intent)
    assert not intent.may_stand
    assert not (tmp_path / "commit").exists()


def test_a_commit_that_may_be_lost_in_a_power_failure_is_not_called_done(tmp_path: Path, disk: Disk) -> None:
    folder = tmp_path.stat().st_ino
    disk.fails = lambda handle: os.fstat(handle).st_ino == folder
    storage = open_storage()
    with pytest.raises(NotDurable, match=r"Cannot put .*commit on disk: Input/output error"):
        storage.put_if_absent(f"{tmp_path}/commit", b"mine")
    (tmp_path / "commit").unlink()
    intent = CommitIntent(storage)
    with pytest.raises(CommitStateUnknown, match="the file is there and may be lost when the machine stops"):
        put_commit(storage, f"{tmp_path}/commit", WholeContent(b"mine"), intent)
    assert intent.may_stand


@pytest.mark.parametrize("number", [errno.EINVAL, errno.ENOTSUP])
def test_a_file_system_that_knows_no_fsync_is_used_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def sync(handle: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", sync)
    storage = open_storage()
    with storage.create(f"{tmp_path}/part") as sink:
        sink.write(b"x")
    storage.put_if_absent(f"{tmp_path}/commit", b"x")
    assert (tmp_path / "commit").read_bytes() == b"x"


def test_a_full_disk_is_a_failure_and_leaves_nothing(
    tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch, command: Any
) -> None:
    real = os.link

    def full(place: str, target: str) -> None:
        if target.endswith((".metadata.json", f"{0:020}.json")):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(place, target)

    second = deltaberg.convert(str(source), to="iceberg", target=str(tmp_path / "second")).target
    monkeypatch.setattr(os, "link", full)
    for to, place in (("iceberg", str(source)), ("delta", second)):
        target = tmp_path / f"to-{to}"
        outcome = command("convert", place, "--to", to, "--target", target)
        assert outcome.code == 1
        assert "No space left on device" in outcome.err
        assert "Cannot tell" not in outcome.err
        assert not target.exists()
