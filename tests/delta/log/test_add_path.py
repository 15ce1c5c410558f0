"""Paths of file actions: URIs, decoded once, relative to the table unless absolute."""

from __future__ import annotations

from urllib.parse import quote

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaberg.delta.errors import CorruptLog
from deltaberg.delta.log.add_path import decode_path, decode_paths, location_array, path_keys

ROOT = "/warehouse/t"


@pytest.mark.parametrize(
    ("path", "location"),
    [
        ("part-0.parquet", "/warehouse/t/part-0.parquet"),
        ("p=a%20b/part.parquet", "/warehouse/t/p=a b/part.parquet"),
        ("p=50%2525/x", "/warehouse/t/p=50%25/x"),
        ("p=../x", "/warehouse/t/p=../x"),
        ("../x/a%20b", "/warehouse/x/a b"),
        ("../../x", "/x"),
        ("../../../x", "/x"),
        ("%2E%2E/x", "/warehouse/t/../x"),
        ("..x/y", "/warehouse/t/..x/y"),
        ("ts=2024-01-01 10:00:00/x", "/warehouse/t/ts=2024-01-01 10:00:00/x"),
        ("a:b", "/warehouse/t/a:b"),
        ("p=ünï/x", "/warehouse/t/p=ünï/x"),
        ("100%", "/warehouse/t/100%"),
        ("100%zz/%4", "/warehouse/t/100%zz/%4"),
        ("/abs/with%20space/p@%23h", "/abs/with space/p@#h"),
        ("file:/abs/x%25y", "file:/abs/x%y"),
        ("file:///abs/x", "file:///abs/x"),
        ("s3://bucket/a%2Bb/c+d", "s3://bucket/a+b/c+d"),
        ("abfss://c@a.dfs.core.windows.net/x", "abfss://c@a.dfs.core.windows.net/x"),
    ],
)
@pytest.mark.parametrize("root", [ROOT, ROOT + "/"])
def test_a_path_becomes_one_location(path: str, location: str, root: str) -> None:
    together = location_array(pa.array([path, "other%20one", path]), root).to_pylist()
    assert together == [location, "/warehouse/t/other one", location]


@pytest.mark.parametrize(
    ("root", "path", "location"),
    [
        ("s3://b/w/t", "../x", "s3://b/w/x"),
        ("s3://b/w/t", "../../../x", "s3://b/x"),
        ("file:/w/t", "../x", "file:/w/x"),
        ("file:/w/t", "../../../x", "file:/x"),
        ("file:///w/t", "../../x", "file:///x"),
        ("/w/ü/日", "../../a%20b", "/w/a b"),
    ],
)
def test_a_path_may_lead_out_of_the_table_but_not_out_of_its_store(root: str, path: str, location: str) -> None:
    assert location_array(pa.array([path, "in/x", None]), root).to_pylist() == [location, f"{root}/in/x", None]


def test_the_paths_of_a_batch_are_taken_from_its_column() -> None:
    batch = pa.record_batch({"path": pa.array(["a%20b"])})
    assert location_array(batch, "s3://b/t").to_pylist() == ["s3://b/t/a b"]


@given(st.lists(st.none() | st.text(alphabet="ab%2F0é/ €", max_size=8), max_size=6), st.integers(0, 3))
def test_a_column_is_decoded_as_each_of_its_paths(paths: list[str | None], start: int) -> None:
    def one(path: str | None) -> str | None:
        return None if path is None else decode_path(path)

    try:
        wanted = [one(path) for path in paths[start:]]
    except CorruptLog:
        with pytest.raises(CorruptLog):
            decode_paths(pa.array(paths, pa.string())[start:])
        return
    decoded = decode_paths(pa.array(paths, pa.string())[start:])
    decoded.validate(full=True)
    assert decoded.to_pylist() == wanted


@given(st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=12))
def test_what_is_quoted_is_decoded(name: str) -> None:
    assert decode_paths(pa.array([quote(name)])).to_pylist() == [name]


def test_escapes_that_are_not_utf8_name_the_path() -> None:
    with pytest.raises(CorruptLog, match="Cannot decode the path 'a%FFb': its escapes are not UTF-8") as caught:
        decode_paths(pa.array(["fine%20", "a%FFb"]))
    assert caught.value.path == "a%FFb"


def test_spellings_of_one_file_have_one_key() -> None:
    spellings = ["/a/b c", "/a/b%20c", "file:/a/b%20c", "file:///a/b c", "FILE://localhost/a/b%20c"]
    assert set(path_keys(pa.array(spellings)).to_pylist()) == {"/a/b c"}
    assert len(set(path_keys(pa.array(["a/b", "/a/b", "s3://a/b", "file:/A/b"])).to_pylist())) == 4
