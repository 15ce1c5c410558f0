"""Asking for the files after the hinted checkpoint by name finds what a listing finds, or leaves it to the listing."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from deltaberg.delta.errors import CorruptLog, VersionNotFound
from deltaberg.delta.log.log_listing import find_segment
from deltaberg.delta.log.log_path import commit_name
from deltaberg.delta.log.log_segment import LogSegment
from deltaberg.storage import open_storage
from deltaberg.storage.protocol import Probe

UUID = "80a083e8-7026-4e79-81be-64bd76c43a11"


class Listing:
    """A storage that counts listings, cannot probe when told so, and runs a hook before each probe."""

    def __init__(self, *, probes: bool = True) -> None:
        self._real = open_storage()
        self._probes = probes
        self.listings = 0
        self.meanwhile: Callable[[str], None] = lambda name: None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def list(self, *arguments: Any, **options: Any) -> Any:
        self.listings += 1
        return self._real.list(*arguments, **options)

    def probe(self, folder: str, names: Sequence[str]) -> Probe | None:
        if not self._probes:
            return None
        files: list[Any] = []
        changed = 0
        for name in names:  # one by one, so that somebody may write between two of them
            self.meanwhile(name)
            found = self._real.probe(folder, [name])
            assert found is not None
            files += found.files
            changed = found.changed_ms
        return Probe(files=tuple(files), changed_ms=changed)


class Log:
    """A log folder of files that nobody reads."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()

    def put(self, *names: str) -> None:
        for name in names:
            (self.folder / name).write_bytes(b"-")

    def commits(self, start: int, end: int) -> None:
        self.put(*(commit_name(number) for number in range(start, end + 1)))

    def checkpoint(self, version: int) -> None:
        self.put(f"{version:020d}.checkpoint.parquet")

    def hint(self, version: int, **members: object) -> None:
        (self.folder / "_last_checkpoint").write_text(json.dumps({"version": version, "size": 1, **members}))

    def aged(self) -> None:
        """As if all was written long ago, one file after the other."""
        for number, path in enumerate(sorted(self.folder.iterdir())):
            os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))
        os.utime(self.folder, (1_700_100_000, 1_700_100_000))

    def segment(self, version: int | None = None, *, listings: int = 0) -> LogSegment:
        """What is found; the same as without probing, after so many listings."""
        storage = Listing()
        error: Exception | None = None
        found: LogSegment | None = None
        try:
            found = find_segment(storage, str(self.folder), version=version)  # type: ignore[arg-type]
        except (CorruptLog, VersionNotFound) as raised:
            error = raised
        listed: LogSegment | None = None
        refused: Exception | None = None
        try:
            listed = find_segment(Listing(probes=False), str(self.folder), version=version)  # type: ignore[arg-type]
        except (CorruptLog, VersionNotFound) as expected:
            refused = expected
        assert str(error) == str(refused)
        if error is not None:
            raise error
        assert found == listed
        assert storage.listings == listings
        assert found is not None
        return found


@pytest.fixture
def log(tmp_path: Path) -> Log:
    log = Log(tmp_path / "_delta_log")
    log.commits(0, 20)
    log.checkpoint(10)
    log.hint(10)
    return log


def test_a_short_tail_is_found_without_a_listing(log: Log) -> None:
    log.put(f"{20:020d}.crc", f"{15:020d}.crc")
    found = log.segment()
    assert found.version == 20
    assert found.checkpoint is not None
    assert found.checkpoint.version == 10
    assert [file.version for file in found.deltas] == list(range(11, 21))
    assert found.commit is not None
    assert found.commit.version == 20
    assert found.checksum is not None
    assert found.checksum.version == 20


@pytest.mark.parametrize("version", [10, 11, 20])
def test_a_version_after_the_checkpoint_is_found_without_a_listing(log: Log, version: int) -> None:
    found = log.segment(version)
    assert (found.version, len(found.deltas)) == (version, version - 10)


def test_a_version_before_the_checkpoint_is_listed(log: Log) -> None:
    assert log.segment(9, listings=1).checkpoint is None


def test_a_checkpoint_without_its_commit_is_enough(log: Log) -> None:
    for number in range(21):
        (log.folder / commit_name(number)).unlink()
    found = log.segment()
    assert (found.version, found.commit, found.deltas) == (10, None, ())


def test_a_version_beyond_the_newest_is_refused(log: Log) -> None:
    with pytest.raises(VersionNotFound, match=r"no such version \(the newest is 20\)"):
        log.segment(21)


@pytest.mark.parametrize("gap", [1, 5, 500, 5000])
def test_a_gap_after_the_checkpoint_is_found(log: Log, gap: int) -> None:
    log.commits(21 + gap, 21 + gap)
    log.aged()
    with pytest.raises(CorruptLog, match="the log has a gap, commit 21"):
        log.segment()
    assert log.segment(20).version == 20


@pytest.mark.parametrize("gap", [1, 5, 500])
def test_a_gap_right_behind_the_checkpoint_is_found(tmp_path: Path, gap: int) -> None:
    log = Log(tmp_path / "_delta_log")
    log.checkpoint(10)
    log.hint(10)
    log.commits(11 + gap, 12 + gap)
    with pytest.raises(CorruptLog, match="the log has a gap, commit 11"):
        log.segment()


def test_a_compaction_still_stands_in_for_missing_commits(log: Log) -> None:
    log.put(f"{12:020d}.{18:020d}.compacted.json")
    for number in range(13, 16):
        (log.folder / commit_name(number)).unlink()
    assert [file.end_version for file in log.segment(listings=1).deltas] == [None, 18, None, None]


def test_a_hint_that_is_far_behind_is_listed(log: Log) -> None:
    log.commits(21, 400)
    log.checkpoint(399)
    found = log.segment(listings=1)
    assert found.checkpoint is not None
    assert (found.checkpoint.version, len(found.deltas)) == (399, 1)


def test_a_newer_checkpoint_than_the_hinted_is_used(log: Log) -> None:
    log.checkpoint(18)
    found = log.segment(listings=1)
    assert found.checkpoint is not None
    assert found.checkpoint.version == 18


def test_a_newer_checkpoint_whose_commits_are_gone_is_used(log: Log) -> None:
    log.checkpoint(9_000)
    log.aged()
    assert log.segment(listings=1).version == 9_000


def test_a_folder_that_changed_after_the_newest_commit_is_listed(log: Log) -> None:
    log.aged()
    assert log.segment(listings=1).version == 20


def test_a_hint_to_an_empty_checkpoint_is_listed(log: Log) -> None:
    (log.folder / f"{10:020d}.checkpoint.parquet").write_bytes(b"")
    found = log.segment(listings=2)
    assert found.checkpoint is None
    assert len(found.deltas) == 21


def test_a_hint_to_a_checkpoint_that_is_gone_is_listed(log: Log) -> None:
    (log.folder / f"{10:020d}.checkpoint.parquet").unlink()
    assert log.segment(listings=2).checkpoint is None


def test_the_parts_that_the_hint_counts_must_be_there(log: Log) -> None:
    (log.folder / f"{10:020d}.checkpoint.parquet").unlink()
    names = [f"{10:020d}.checkpoint.{part:010d}.{3:010d}.parquet" for part in (1, 2, 3)]
    log.put(*names)
    log.hint(10, parts=3)
    found = log.segment()
    assert found.checkpoint is not None
    assert [file.name for file in found.checkpoint.files] == names
    (log.folder / names[1]).unlink()
    assert log.segment(listings=2).checkpoint is None


@pytest.mark.parametrize("form", ["json", "parquet"])
def test_a_v2_checkpoint_is_found_by_the_name_in_the_hint(log: Log, form: str) -> None:
    (log.folder / f"{10:020d}.checkpoint.parquet").unlink()
    name = f"{10:020d}.checkpoint.{UUID}.{form}"
    log.put(name)
    log.hint(10, v2Checkpoint={"path": name})
    found = log.segment()
    assert found.checkpoint is not None
    assert found.checkpoint.files[0].name == name
    log.hint(10)  # without the name only a listing finds it
    assert log.segment(listings=1).checkpoint == found.checkpoint


@pytest.mark.parametrize(
    "members",
    [
        {"parts": 0},
        {"parts": True},
        {"parts": "3"},
        {"parts": 10**12},
        {"v2Checkpoint": {}},
        {"v2Checkpoint": "x"},
        {"v2Checkpoint": {"path": f"../{10:020d}.checkpoint.{UUID}.json"}},
        {"v2Checkpoint": {"path": f"{11:020d}.checkpoint.{UUID}.json"}},
        {"v2Checkpoint": {"path": commit_name(10)}},
    ],
)
def test_a_hint_that_names_no_checkpoint_file_is_listed(log: Log, members: dict[str, object]) -> None:
    log.hint(10, **members)
    found = log.segment(listings=1)
    assert found.checkpoint is not None
    assert found.checkpoint.version == 10


@pytest.mark.parametrize("committed", [1, 2, 7])
@pytest.mark.parametrize("asked", [5, 20, 21, 22, 300])
def test_commits_made_while_names_are_asked_for_leave_no_gap(log: Log, committed: int, asked: int) -> None:
    storage = Listing()

    def commit(name: str) -> None:
        if name == commit_name(asked):
            log.commits(21, 20 + committed)

    storage.meanwhile = commit
    found = find_segment(storage, str(log.folder))  # type: ignore[arg-type]
    assert found.version in (20, 20 + committed)
    assert [file.version for file in found.deltas] == list(range(11, found.version + 1))


def test_a_folder_with_the_name_of_a_commit_is_no_commit(log: Log) -> None:
    (log.folder / commit_name(21)).mkdir()
    assert log.segment().version == 20
