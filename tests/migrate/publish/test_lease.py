"""A target's lease: one owner at a time, and it passes on when the owner is gone, by the store's times and one's own clock."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from deltaberg.migrate.publish.lease import Lease, read_lease
from deltaberg.migrate.source import TableFormat
from deltaberg.storage import open_storage

ELSEWHERE = "000000000000-1-1"
"""The mark of a process of which nobody here can tell whether it lives."""
TERM = 60.0


class Clock:
    """A monotonic clock that goes on when it is told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "target"


def lease(root: Path, clock: Clock | None = None, *, mark: str | None = None) -> Lease:
    return Lease(open_storage(), str(root), TableFormat.DELTA, term_s=TERM, monotonic=clock or Clock(), mark=mark)


def files(root: Path) -> list[str]:
    return sorted(path.name for path in (root / "_deltaberg").iterdir())


def set_age(root: Path, seconds: float) -> None:
    """Make the newest lease as old as that, by the store's own time."""
    folder = root / "_deltaberg"
    (folder / "now").touch()
    now = (folder / "now").stat().st_mtime
    (folder / "now").unlink()
    place = max(folder.glob("lease-*.json"))
    os.utime(place, (now - seconds, now - seconds))


def test_a_lease_that_is_held_is_nobody_elses_until_it_ends(root: Path) -> None:
    mine, other = lease(root), lease(root)
    assert mine.take() is None
    held = other.take()
    assert held is not None
    assert (held.owner, held.is_held) == (mine.owner, True)
    mine.end({"state": "synced"})
    document = read_lease(open_storage(), str(root), TableFormat.DELTA)
    assert document is not None
    assert (document.is_held, document.outcome) == (False, {"state": "synced"})
    assert other.take() is None
    assert other.is_held
    assert files(root) == ["lease-delta-2.json"]


def test_of_many_that_try_at_once_one_has_it(root: Path) -> None:
    leases = [lease(root) for _ in range(8)]
    start = threading.Barrier(len(leases))
    others: list[object] = [None] * len(leases)

    def take(place: int) -> None:
        start.wait()
        others[place] = leases[place].take()

    threads = [threading.Thread(target=take, args=(place,)) for place in range(len(leases))]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert sum(each.is_held for each in leases) == 1
    assert sum(other is None for other in others) == 1


def test_a_holder_that_renews_keeps_it_beyond_its_term(root: Path) -> None:
    clock = Clock()
    mine = lease(root, clock, mark=ELSEWHERE)
    mine.take()
    other = lease(root, clock)
    for _ in range(20):
        clock.now += TERM / 6
        assert mine.renew()
        assert other.take() is not None
    assert mine.is_held


@pytest.mark.parametrize(("age", "passes"), [(TERM * 0.74, False), (TERM * 0.76, True)])
def test_a_lease_passes_on_three_quarters_of_its_term_after_it_was_renewed_by_the_stores_time(
    root: Path, age: float, passes: bool
) -> None:
    lease(root, mark=ELSEWHERE).take()
    set_age(root, age)
    other = lease(root)
    assert (other.take() is None) is passes
    assert other.is_held is passes


def test_a_lease_whose_store_says_nonsense_passes_on_by_the_clock_of_the_one_who_waits(root: Path) -> None:
    """A store whose time was set back dates leases into the future: what stays as it is for long enough has ended."""
    lease(root, mark=ELSEWHERE).take()
    set_age(root, -3600)
    clock = Clock()
    other = lease(root, clock)
    assert other.take() is not None
    clock.now += TERM * 0.74
    assert other.take() is not None
    clock.now += TERM * 0.02
    assert other.take() is None


def test_a_holder_that_was_paused_stops_counting_on_it_before_anybody_takes_it_over(root: Path) -> None:
    clock = Clock()
    mine = lease(root, clock, mark=ELSEWHERE)
    mine.take()
    clock.now += TERM / 2
    assert not mine.is_held
    assert not mine.renew()
    other = lease(root, clock)
    assert other.take() is not None, "there is a quarter of the term between"
    set_age(root, TERM)
    assert other.take() is None
    mine.end({"state": "synced"})
    document = read_lease(open_storage(), str(root), TableFormat.DELTA)
    assert document is not None
    assert (document.owner, document.is_held) == (other.owner, True), "who has lost it changes nothing"


def test_what_was_read_long_ago_takes_no_lease_from_those_who_went_on(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between reading lease 1 and putting lease 2, others took 2 and 3 and deleted what came before."""
    lease(root, mark=ELSEWHERE).take()
    set_age(root, TERM)
    slow, fast, last = lease(root), lease(root), lease(root)
    storage = slow._storage
    put = storage.put_if_absent

    def put_late(location: str, data: bytes) -> None:
        assert fast.take() is None
        fast.end()
        assert last.take() is None
        put(location, data)

    monkeypatch.setattr(storage, "put_if_absent", put_late)
    held = slow.take()
    assert held is not None
    assert (held.owner, slow.is_held, last.is_held) == (last.owner, False, True)
    assert files(root) == ["lease-delta-3.json"]


def test_a_lease_file_that_is_no_lease_ends_like_any_other(root: Path) -> None:
    (root / "_deltaberg").mkdir(parents=True)
    (root / "_deltaberg" / "lease-delta-7.json").write_bytes(b"\xff{")
    other = lease(root)
    assert other.take() is not None
    set_age(root, 60)
    assert other.take() is None
    assert files(root) == ["lease-delta-8.json"]


HOLDER = """
import sys, time
from deltaberg.migrate.publish.lease import Lease
from deltaberg.migrate.source import TableFormat
from deltaberg.storage import open_storage
lease = Lease(open_storage(), sys.argv[1], TableFormat.DELTA, term_s=3600)
assert lease.take() is None
print("taken", flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")
def test_the_lease_of_a_killed_process_passes_on_at_once_where_its_death_can_be_seen(root: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(root)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "taken\n"
        other = lease(root)
        assert other.take() is not None
        os.kill(holder.pid, signal.SIGKILL)
        holder.wait()
    assert other.take() is None
