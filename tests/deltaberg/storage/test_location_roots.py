"""Folders of many locations, and which places a policy lets pass: against plain Python, location by location."""

from __future__ import annotations

import os
import posixpath

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaberg.storage import LocationRefused, OutsideTarget
from deltaberg.storage.access_policy import AccessPolicy, store_of
from deltaberg.storage.location_roots import Roots, normal_places

SEGMENTS = st.sampled_from(["a", "b", "lake", "t", ".", "..", "", "...", "..a", ".a", "a..", "ü", "x y", "n\nl"])
LOCAL = st.lists(SEGMENTS, min_size=1, max_size=8).map(lambda parts: "/" + "/".join(parts))
URLS = st.tuples(
    st.sampled_from(["s3://lake", "s3://lake2", "gs://lake", "https://h"]),
    st.lists(st.sampled_from(["a", "b", "t"]), min_size=1),
).map(lambda found: "/".join((found[0], *found[1])))


@given(st.lists(LOCAL, max_size=20))
def test_local_places_are_what_the_file_system_takes_them_for(places: list[str]) -> None:
    wanted = [posixpath.normpath("/" + place.lstrip("/")) for place in places]
    assert normal_places(pa.array(places, pa.string())).to_pylist() == wanted


@given(st.lists(URLS, max_size=20))
def test_urls_stay_as_they_are(places: list[str]) -> None:
    assert normal_places(pa.array(places, pa.string())).to_pylist() == places


@given(
    st.lists(LOCAL.map(lambda folder: f"{folder}/f") | URLS, max_size=30),
    st.sampled_from(["/lake/t", "/a", "s3://lake/a", "s3://lake", "/lake/a/b"]),
)
def test_every_file_outside_is_counted_below_a_folder_that_holds_it_and_not_the_table(
    places: list[str], own: str
) -> None:
    roots = Roots(own=own)
    half = len(places) // 2
    roots.add(pa.array(places[:half], pa.string()))
    other = Roots(own=own)
    other.add(pa.array([*places[half:], None], pa.string()))
    roots.merge(other)
    outside = [
        place
        for place in (posixpath.normpath("/" + each.lstrip("/")) if each.startswith("/") else each for each in places)
        if not place.startswith(f"{own}/")
    ]
    named = roots.named()
    assert sum(files for _, files in named) == len(outside)
    for place in outside:
        assert any(place.startswith(folder) for folder, _ in named), (place, named)
    for folder, files in named:
        assert files <= sum(place.startswith(folder) for place in outside)
        assert folder.endswith("/")


@pytest.mark.parametrize(
    ("own", "places", "wanted"),
    [
        ("/wh/t", ["/wh/u/1", "/wh/u/d/2", "/wh/v/p=1/3"], [("/wh/u/", 2), ("/wh/v/p=1/", 1)]),
        ("/wh/t", ["/wh/loose", "/other/a/1", "/other/b/1"], [("/other/", 2), ("/wh/", 1)]),
        ("/wh/t", ["/wh/t/../u/1", "/wh/t/x/../1", "/wh/t2/1"], [("/wh/t2/", 1), ("/wh/u/", 1)]),
        ("s3://b/wh/t", ["s3://b/raw/x/1", "s3://b/raw/x/2", "s3://c/1", "/etc/passwd"],
         [("s3://b/raw/x/", 2), ("/etc/", 1), ("s3://c/", 1)]),
    ],
)  # fmt: skip
def test_folders_are_those_where_the_paths_part_from_the_table_s(
    own: str, places: list[str], wanted: list[tuple[str, int]]
) -> None:
    roots = Roots(own=own)
    roots.add(pa.array(places, pa.string()))
    assert roots.named() == wanted


def test_folders_are_bounded() -> None:
    roots = Roots(own="/t")
    roots.add(pa.array([f"/{number}/f" for number in range(5000)], pa.string()))
    assert len(roots.named()) == 1000
    assert roots.more == 4000
    assert roots.text().endswith("and more than 995 more folders")


@pytest.mark.parametrize(
    ("opened", "readable", "refused"),
    [
        ("/wh/t", ["/wh/t/f", "/etc/passwd"], ["s3://b/f", "http://h/f", "memory://m/f"]),
        ("s3://b/wh/t", ["s3://b/wh/t/f", "s3://b/x", "s3://b"], ["s3://b2/x", "s3://bb/x", "/etc/passwd", "gs://b/x", "s3://b@h/x"]),
        ("abfss://c@a.dfs.core.windows.net/t", ["abfs://c@a.dfs.core.windows.net/x"], ["abfss://d@a.dfs.core.windows.net/x"]),
        ("https://a.blob.core.windows.net/c/t", ["https://a.blob.core.windows.net/c/x"],
         ["https://a.blob.core.windows.net/d/x", "http://a.blob.core.windows.net/c/x", "https://b.blob.core.windows.net/c/x"]),
        ("https://s3.eu-west-1.amazonaws.com/b/t", ["https://s3.eu-west-1.amazonaws.com/b/x"],
         ["https://s3.eu-west-1.amazonaws.com/c/x"]),
        ("https://h/t", ["https://h/x"], ["https://h:444/x", "https://h.evil/x", "http://h/x"]),
    ],
)  # fmt: skip
def test_a_policy_reads_the_store_of_the_table(opened: str, readable: list[str], refused: list[str]) -> None:
    policy = AccessPolicy(stores=frozenset({store_of(opened)}))
    policy.require_all_readable(pa.array([*readable, None], pa.string()))
    for place in readable:
        policy.require_readable(place)
    for place in refused:
        assert not policy.reads(place)
        with pytest.raises(LocationRefused):
            policy.require_readable(place)
        with pytest.raises(LocationRefused):
            policy.require_all_readable(pa.array([*readable, None, place], pa.string()))


@given(st.lists(LOCAL | URLS, max_size=10))
def test_a_column_is_judged_as_its_places_are(places: list[str]) -> None:
    policy = AccessPolicy(stores=frozenset({"s3://lake"}), allowed=("/lake/t", "gs://lake/a", "/a"))
    refused = False
    try:
        policy.require_all_readable(pa.array(places, pa.string()))
    except LocationRefused:
        refused = True
    assert refused is any(not policy.reads(place) for place in places)


@given(LOCAL)
def test_nothing_is_written_outside_a_target(place: str) -> None:
    policy = AccessPolicy(stores=frozenset({""})).writing("/lake/t")
    really = os.path.normpath("/" + place.lstrip("/"))
    below = really.startswith("/lake/t/")
    try:
        policy.require_writable(place)
    except OutsideTarget:
        return
    assert below


@pytest.mark.parametrize(
    "place", ["s3://b/t", "s3://b/t/../x", "s3://b/t//x", "s3://b/tx/y", "s3://b2/t/x", "s3://b/t/./x", "/b/t/x"]
)
def test_keys_that_stores_may_normalise_are_not_written(place: str) -> None:
    with pytest.raises(OutsideTarget):
        AccessPolicy(stores=frozenset({"s3://b"})).writing("s3://b/t").require_writable(place)
    AccessPolicy(stores=frozenset({"s3://b"})).writing("s3://b/t/").require_writable("s3://b/t/x/y")
