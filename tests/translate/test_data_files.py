from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaberg.delta.log.add_path import location_array
from deltaberg.translate.data_files import encode_paths

segment = st.text(st.characters(codec="utf-8", exclude_characters="\0/"), min_size=1, max_size=12).filter(
    lambda text: text not in {".", ".."}
)


@pytest.mark.parametrize(
    ("location", "path"),
    [
        ("/w/t/data/a.parquet", "data/a.parquet"),
        ("/w/t/p=a b/50%/x.parquet", "p=a%20b/50%25/x.parquet"),
        ("/w/t/p=50%25/x.parquet", "p=50%2525/x.parquet"),
        ("/w/t/a:b.parquet", "a%3Ab.parquet"),
        ("/w/t/d/a:b.parquet", "d/a:b.parquet"),
        ("/w/t/ü/日本.parquet", "ü/日本.parquet"),
        ("/w/other/x y.parquet", "../other/x%20y.parquet"),
        ("/w/t2/x.parquet", "../t2/x.parquet"),
        ("/w/a:b.parquet", "../a:b.parquet"),
        ("/far/50%/x.parquet", "../../far/50%25/x.parquet"),
        ("/x.parquet", "../../x.parquet"),
        ("s3://bucket/a b.parquet", "s3://bucket/a%20b.parquet"),
    ],
)
def test_a_path_is_relative_below_the_table_and_encoded(location: str, path: str) -> None:
    assert encode_paths(pa.array([location]), "/w/t").to_pylist() == [path]


@given(
    parts=st.lists(st.lists(segment, min_size=1, max_size=3), min_size=1, max_size=4),
    inside=st.booleans(),
)
def test_a_reader_gets_back_the_location_whatever_it_is_called(parts: list[list[str]], inside: bool) -> None:
    root = "/w/t"
    locations = pa.array([f"{root if inside else '/elsewhere'}/{'/'.join(each)}" for each in parts])
    paths = encode_paths(locations, root)
    assert location_array(paths, root).to_pylist() == locations.to_pylist()


@pytest.mark.parametrize(
    ("location", "path"),
    [
        ("s3://bucket/w/t/x.parquet", "x.parquet"),
        ("s3://bucket/w/t2/x.parquet", "../t2/x.parquet"),
        ("s3://bucket/a b/50%/x.parquet", "../../a%20b/50%25/x.parquet"),
        ("s3://bucket/x.parquet", "../../x.parquet"),
        ("s3://other/w/t/x.parquet", "s3://other/w/t/x.parquet"),
        ("s3://bucket2/x.parquet", "s3://bucket2/x.parquet"),
        ("gs://bucket/w/t/x.parquet", "gs://bucket/w/t/x.parquet"),
        ("/w/t/x.parquet", "/w/t/x.parquet"),
    ],
)
@pytest.mark.parametrize("root", ["s3://bucket/w/t", "s3://bucket/w/t/"])
def test_a_path_is_relative_in_the_same_bucket_and_absolute_in_another(root: str, location: str, path: str) -> None:
    paths = encode_paths(pa.array([location]), root)
    assert paths.to_pylist() == [path]
    assert location_array(paths, root).to_pylist() == [location]


@pytest.mark.parametrize("root", ["s3://bucket", "s3://bucket/", "abfss://box@account.dfs.core.windows.net/"])
def test_a_table_can_stand_at_the_top_of_a_bucket(root: str) -> None:
    top = root.rstrip("/")
    locations = pa.array([f"{top}/x.parquet", f"{top}/a/x.parquet", "s3://bucket2/x.parquet"])
    assert encode_paths(locations, root).to_pylist() == ["x.parquet", "a/x.parquet", "s3://bucket2/x.parquet"]


@given(st.lists(st.lists(st.sampled_from(["w", "t", "a b", "50%"]), min_size=1, max_size=4), max_size=5))
def test_every_place_on_a_disk_is_reached_from_the_table(parts: list[list[str]]) -> None:
    locations = pa.array([f"/{'/'.join(each)}/x.parquet" for each in parts], pa.string())
    paths = encode_paths(locations, "/w/t")
    assert not any(path.startswith("/") for path in paths.to_pylist())
    assert location_array(paths, "/w/t").to_pylist() == locations.to_pylist()
