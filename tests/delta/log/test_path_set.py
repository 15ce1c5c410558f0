"""A set of paths tells members from others exactly, whatever their fingerprints."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaberg.delta.log import path_set
from deltaberg.delta.log.path_set import PathSet

PATHS = st.text(alphabet="ab/=é", max_size=12)


@given(st.lists(PATHS, unique=True), st.lists(PATHS), st.integers(0, 3))
def test_it_holds_its_members_and_nothing_else(members: list[str], asked: list[str], skipped: int) -> None:
    found = PathSet(pa.array(members, pa.string())).holds(pa.array(asked, pa.string()).slice(skipped))
    assert found.tolist() == [path in set(members) for path in asked[skipped:]]


def test_paths_of_one_fingerprint_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = path_set.fingerprints
    monkeypatch.setattr(path_set, "fingerprints", lambda paths: plain(paths) % 2)
    found = PathSet(pa.array([f"part-{number}" for number in range(0, 40, 2)]))
    asked = pa.array([f"part-{number}" for number in range(60)])
    assert found.holds(asked).tolist() == [number < 40 and number % 2 == 0 for number in range(60)]


def test_what_differs_in_the_middle_alone_has_one_fingerprint_and_is_told_apart() -> None:
    start, end = "x" * 8, "y" * 80
    found = PathSet(pa.array([f"{start}one{end}", f"{start}two{end}"]))
    assert found.holds(pa.array([f"{start}two{end}", f"{start}six{end}", f"{start}one{end}"])).tolist() == [
        True,
        False,
        True,
    ]
