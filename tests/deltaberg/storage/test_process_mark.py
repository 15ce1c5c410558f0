"""A process can be told to have died, and one that runs never is."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from deltaberg.storage import is_dead, open_storage, process_mark
from deltaberg.storage.process_mark import PROCESS_MARK

PRINT = "from deltaberg.storage import process_mark; print(process_mark(), flush=True)"


@pytest.fixture(scope="module")
def dead() -> str:
    return subprocess.run([sys.executable, "-c", PRINT], check=True, capture_output=True, text=True).stdout.strip()


def test_this_process_lives() -> None:
    assert re.fullmatch(PROCESS_MARK, process_mark())
    assert is_dead(process_mark()) is False


def test_a_process_is_dead_when_it_has_ended_and_not_before() -> None:
    code = f"{PRINT}; import sys; sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        mark = process.stdout.readline().strip()
        assert is_dead(mark) is False
    assert is_dead(mark) is True


def test_another_process_of_the_same_number_is_another_one(dead: str) -> None:
    machine, _, begun = dead.split("-")
    if begun == "0":
        pytest.skip("this system does not say when a process began")
    assert is_dead(f"{machine}-{os.getpid():x}-{begun}") is True


@pytest.mark.parametrize("mark", ["", "x", "0" * 12 + "-1-1", "a-b"])
def test_of_another_machine_nothing_is_known(mark: str) -> None:
    assert is_dead(mark) is None


class TestStagedFiles:
    def staged(self, folder: Path, mark: str, *, age_s: float = 0) -> Path:
        path = folder / f".deltaberg-{mark}{'0' * 32}.tmp"
        path.write_bytes(b"half")
        os.utime(path, (time.time() - age_s, time.time() - age_s))
        return path

    def test_only_what_the_dead_left_goes(self, tmp_path: Path, dead: str) -> None:
        own = self.staged(tmp_path, f"{process_mark()}-", age_s=90_000)
        other_machine = self.staged(tmp_path, "0123456789ab-1-1-")
        unknown = self.staged(tmp_path, "")
        gone = self.staged(tmp_path, f"{dead}-")
        long_ago = self.staged(tmp_path, "ba9876543210-1-1-", age_s=90_000)
        stranger = tmp_path / ".deltaberg-notes.tmp"
        stranger.write_text("mine")
        open_storage().delete_abandoned(str(tmp_path))
        assert {path.name for path in tmp_path.iterdir()} == {
            path.name for path in (own, other_machine, unknown, stranger)
        }
        assert not gone.exists()
        assert not long_ago.exists()

    def test_a_file_that_is_being_written_says_whose_it_is(self, tmp_path: Path) -> None:
        storage = open_storage()
        with storage.create(str(tmp_path / "a")) as sink:
            sink.write(b"1")
            (name,) = os.listdir(tmp_path)
            assert name.startswith(f".deltaberg-{process_mark()}-")
            storage.delete_abandoned(str(tmp_path))
            assert os.listdir(tmp_path) == [name]
        assert os.listdir(tmp_path) == ["a"]
