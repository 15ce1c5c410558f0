"""Relative locations, exactly as the text of version 4 has them."""

from __future__ import annotations

import pyarrow as pa
import pytest

from deltaberg.iceberg.metadata.location import (
    has_scheme,
    qualify_location,
    relativize_location,
    relativize_locations,
    resolve_location,
    resolve_locations,
    with_file_scheme,
)

RESOLVED = [
    ("s3://b/t", "data/x", "s3://b/t/data/x"),
    ("s3://b/t/", "data/x", "s3://b/t//data/x"),
    ("s3://b/t", "/data/x", "s3://b/t//data/x"),
    ("s3://b/t", "../x", "s3://b/t/../x"),
    ("s3://b/t", "hdfs://wh/x", "hdfs://wh/x"),
    ("s3://b/t", "file:/x", "file:/x"),
    ("s3://b/t", "a:b/x", "a:b/x"),
    ("s3://b/t", "1a:b/x", "s3://b/t/1a:b/x"),
]
RELATIVIZED = [
    ("s3://b/t", "s3://b/t/data/x", "data/x"),
    ("s3://b/t", "s3://b/t//data/x", "/data/x"),
    ("s3://b/t", "s3://b/table/x", "s3://b/table/x"),
    ("s3://b/t", "s3://b/t", "s3://b/t"),
    ("s3://b/t", "hdfs://b/t/x", "hdfs://b/t/x"),
    ("s3://b/t", "s3://b/t/a:b/x", "s3://b/t/a:b/x"),
    ("s3://b/t", "s3://b/t/", "s3://b/t/"),
]


@pytest.mark.parametrize(("table", "location", "absolute"), RESOLVED)
def test_relative_locations_are_joined_and_nothing_else(table: str, location: str, absolute: str) -> None:
    assert resolve_location(table, location) == absolute
    assert resolve_locations(table, pa.array([location, None])).to_pylist() == [absolute, None]


@pytest.mark.parametrize(("table", "location", "relative"), RELATIVIZED)
def test_only_what_is_below_the_table_becomes_relative(table: str, location: str, relative: str) -> None:
    assert relativize_location(table, location) == relative
    assert relativize_locations(table, pa.array([location, None])).to_pylist() == [relative, None]
    assert resolve_location(table, relative) == location


@pytest.mark.parametrize(
    ("location", "absolute"),
    [("s3://b", True), ("a+b-c.1:x", True), ("/a:b", False), ("data/x", False), ("1:x", False), ("", False)],
)
def test_a_scheme_makes_a_location_absolute(location: str, absolute: bool) -> None:
    assert has_scheme(location) is absolute


@pytest.mark.parametrize(
    ("table", "location", "qualified"),
    [
        ("hdfs://wh/db/t", "/wh/db/t/x", "hdfs://wh/db/t/x"),
        ("file:///wh/t", "/wh/t/data/x", "file:///wh/t/data/x"),
        ("file:/wh/t", "/wh/t/data/x", "file:/wh/t/data/x"),
        ("file:/wh/t", "/elsewhere/x", "file:/elsewhere/x"),
        ("s3://b/t", "s3://b/t/x", "s3://b/t/x"),
        ("/wh/t", "/wh/t/x", "/wh/t/x"),
    ],
)
def test_older_manifests_get_the_scheme_of_the_table(table: str, location: str, qualified: str) -> None:
    assert qualify_location(table, location) == qualified


def test_local_paths_become_file_urls() -> None:
    assert with_file_scheme(pa.array(["/a b/x", "s3://b/x", None])).to_pylist() == ["file:///a b/x", "s3://b/x", None]
