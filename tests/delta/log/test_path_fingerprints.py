"""Equal paths have equal fingerprints, and a repeated path among many is found."""

from __future__ import annotations

import uuid

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from deltaberg.delta.log.path_fingerprints import (
    PathFingerprints,
    are_distinct,
    fingerprints,
    first_repeated,
    paths_among,
)

TEXTS = st.lists(st.text(max_size=100), min_size=1, max_size=20)


@given(TEXTS, st.integers(0, 19))
def test_a_path_has_one_fingerprint_wherever_it_stands(paths: list[str], start: int) -> None:
    start %= len(paths)
    together = fingerprints(pa.array(paths, pa.string())[start:])
    assert list(together) == [fingerprints(pa.array([path]))[0] for path in paths[start:]]


@given(TEXTS)
def test_every_repeated_path_is_suspected(paths: list[str]) -> None:
    seen = PathFingerprints()
    for path in paths:
        seen.add(pa.array([path]))
    repeated = {path for path in paths if paths.count(path) > 1}
    suspects = seen.repeated()
    assert repeated <= set(paths_among(pa.array(paths), suspects).to_pylist() if len(suspects) else ())


def test_names_that_differ_have_different_fingerprints() -> None:
    rng = np.random.default_rng(1)
    names = [f"p={n % 10}/part-{n:05d}-{uuid.UUID(bytes=rng.bytes(16))}-c000.snappy.parquet" for n in range(50_000)]
    short = [str(n) for n in range(50_000)]
    seen = PathFingerprints()
    seen.add(pa.array(names))
    seen.add(pa.array(short))
    assert len(seen.repeated()) == 0
    assert len(PathFingerprints().repeated()) == 0


def test_the_repeated_path_is_named() -> None:
    assert first_repeated(pa.array(["a", "b", "a"])) == "a"
    assert first_repeated(pa.array(["a", "b"])) is None


@given(TEXTS)
def test_paths_that_are_distinct_by_their_fingerprints_are_distinct(paths: list[str]) -> None:
    assert not are_distinct(pa.array([*paths, paths[0]]))
    if are_distinct(pa.array(paths)):
        assert len(set(paths)) == len(paths)
