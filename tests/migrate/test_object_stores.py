"""Tables in S3 buckets, both ways: the target in its source's folder, in another one and in another bucket, as others read it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

import deltaberg
from deltaberg.iceberg.manifest.live_files import data_files
from deltaberg.iceberg.table import Table
from deltaberg.storage import open_storage
from tests.buckets import buckets

ROWS = (
    pa.table({"id": [1, 2, 3], "p": ["a b", "ü%", "x"]}),
    pa.table({"id": [4, 5, 6], "p": ["a b", None, "%20"]}),
)
WANTED = pa.concat_tables(ROWS)


@pytest.fixture(scope="module")
def bucket() -> Iterator[Callable[[], str]]:
    """``bucket()``: the URL of a new one."""
    with buckets() as create:
        yield create


@pytest.fixture(scope="module")
def reader(bucket: Any, reader_process: Any) -> Iterator[Any]:
    """A process that was started with the keys of these buckets."""
    process = reader_process()
    yield process
    process.stop()


@pytest.fixture
def delta_source(bucket: Callable[[], str]) -> str:
    """Partitioned by a column with the values that break paths; two versions."""
    table = f"{bucket()}/the source/t"
    for rows in ROWS:
        write_deltalake(table, rows, mode="append", partition_by=["p"])
    return table


@pytest.fixture
def iceberg_source(delta_source: str) -> str:
    """An Iceberg table whose data files stand in another folder of its bucket."""
    target = delta_source.replace("the source/t", "warehouse/a table")
    return str(deltaberg.convert(delta_source, to="iceberg", target=target).target_metadata)


@pytest.mark.parametrize("place", ["inside", "elsewhere", "another bucket"])
def test_an_iceberg_target_in_a_bucket_is_read_by_all(
    place: str, delta_source: str, bucket: Callable[[], str], reader: Any, difference: Any
) -> None:
    targets = {"inside": f"{delta_source}/_iceberg", "elsewhere": delta_source.replace("the source", "other")}
    target = targets.get(place) or f"{bucket()}/t"
    result = deltaberg.convert(delta_source, to="iceberg", target=target)
    assert deltaberg.verify(delta_source, target, rows=True).equal
    for engine in ("pyiceberg", "duckdb-iceberg"):
        got = reader.read(engine, result.target_metadata)
        assert not isinstance(got, str), got
        assert not difference(got, WANTED), engine


@pytest.mark.parametrize("place", ["inside", "elsewhere"])
def test_a_delta_target_in_the_same_bucket_lists_its_files_by_relative_paths(
    place: str, iceberg_source: str, reader: Any, difference: Any
) -> None:
    """DuckDB reads no absolute one; Spark would need the scheme that the table happened to be converted under."""
    folder = iceberg_source.rpartition("/metadata/")[0]
    target = folder if place == "inside" else folder.replace("warehouse/a table", "far/away/t")
    deltaberg.convert(iceberg_source, to="delta", target=target)
    assert deltaberg.verify(iceberg_source, target, to="delta", rows=True).equal
    up = "../../" if place == "inside" else "../../../"
    commit = open_storage().get(f"{target}/_delta_log/00000000000000000000.json").decode()
    paths = [json.loads(line)["add"]["path"] for line in commit.splitlines() if line.startswith('{"add"')]
    assert len(paths) == 6
    assert {path.partition("p=")[0] for path in paths} == {f"{up}the%20source/t/"}
    for engine in ("deltalake", "duckdb-delta"):
        got = reader.read(engine, target)
        assert not isinstance(got, str), got
        assert not difference(got, WANTED), engine


def test_a_delta_target_in_another_bucket_stops_the_readers_that_know_one_bucket_a_table(
    iceberg_source: str, bucket: Callable[[], str], reader: Any
) -> None:
    """The protocol allows absolute paths, and there is no other way to say it; docs/compatibility.md tells of it."""
    target = f"{bucket()}/t"
    source = iceberg_source.partition("/warehouse")[0]
    said = [("files-in-another-bucket", "warning", f"{source}/", 6)]
    assert elsewhere(deltaberg.plan(iceberg_source, to="delta", target=target)) == said
    done = deltaberg.convert(iceberg_source, to="delta", target=target)
    assert elsewhere(done.plan) == said
    assert deltaberg.verify(iceberg_source, target, to="delta", rows=True).equal
    for engine, words in (
        (
            "duckdb-delta",
            (f"cannot answer SELECT * FROM delta_scan('{target}'): HTTPException", f"'{target}/{source}/"),
        ),
        (
            "deltalake",
            (f"cannot answer SELECT * FROM DeltaTable('{target}')", f"No suitable object store found for {source}/"),
        ),
    ):
        stopped = reader.read(engine, target)
        assert isinstance(stopped, str)
        assert all(each in stopped for each in words), stopped


def elsewhere(plan: Any) -> list[tuple[str, str, str, int | None]]:
    items = (item for item in plan.items if item.code == "files-in-another-bucket")
    return [(item.code, item.severity, item.what, item.files) for item in items]


def test_a_plan_says_which_files_are_in_another_bucket_than_its_target(
    iceberg_source: str, bucket: Callable[[], str], command: Any
) -> None:
    other = f"{bucket()}/t"
    folder = iceberg_source.rpartition("/metadata/")[0]
    for target in (None, folder, folder.replace("warehouse", "far")):
        assert elsewhere(deltaberg.plan(iceberg_source, to="delta", target=target)) == []
    outcome = command("plan", iceberg_source, "--to", "delta", "--target", other, "--strict", "--json")
    assert outcome.code == 3
    assert outcome.document["target"]["location"] == other
    refused = {each["code"]: each for each in outcome.document["items"] if each["severity"] == "refuse"}
    assert refused.keys() == {"files-in-another-bucket", "files-outside-table"}
    item = refused["files-in-another-bucket"]
    assert item["files"] == 6
    assert "delta-rs and DuckDB stop" in item["reason"]
    assert "Choose a --target in the bucket of the data files" in item["remedy"]
    assert f"the target is in {other.removesuffix('t')}" in item["reason"]


def test_a_table_over_two_buckets_has_an_item_for_the_one_that_is_not_the_targets(
    iceberg_source: str, bucket: Callable[[], str], tmp_path: Path
) -> None:
    storage = open_storage()
    table = Table.open(iceberg_source, storage)
    far = bucket()
    batch = next(iter(data_files(table, table.metadata.current_snapshot)))
    path = batch.column("file_path")[0].as_py()
    storage.put(f"{far}/copy.parquet", storage.get(path))
    moved = batch.slice(0, 1).set_column(
        batch.schema.get_field_index("file_path"), "file_path", pa.array([f"{far}/copy.parquet"])
    )
    with table.transaction() as transaction:
        transaction.snapshot("append").add_files([moved], moved.column("spec_id")[0].as_py())
        transaction.commit()
    folder = iceberg_source.rpartition("/metadata/")[0]
    own = folder.partition("/warehouse")[0]
    (refused,) = deltaberg.plan(folder, to="delta").items
    assert (refused.code, refused.severity) == ("files-in-another-store", "refuse")
    assert f"1 file below {far}/" in refused.reason
    allowed = [far]
    assert elsewhere(deltaberg.plan(folder, to="delta", allow_locations=allowed))[0][2:] == (f"{far}/", 1)
    assert elsewhere(deltaberg.plan(folder, to="delta", target=f"{far}/t"))[0][2:] == (f"{own}/", 6)
    local = deltaberg.plan(folder, to="delta", target=str(tmp_path / "t"), allow_locations=allowed)
    assert [each[2:] for each in elsewhere(local)] == sorted([(f"{far}/", 1), (f"{own}/", 6)])


def test_a_percent_sign_in_a_key_is_taken_as_the_store_has_it(bucket: Callable[[], str]) -> None:
    """delta-rs decodes the URL of a table, so ``a%25b`` is the key ``a%b`` to it and ``a%25b`` as it stands to obstore."""
    root = bucket()
    write_deltalake(f"{root}/a%25b", ROWS[0])
    listed = [info.location for info in open_storage().list(f"{root}/a%b/_delta_log")]
    assert listed == [f"{root}/a%b/_delta_log/{0:020}.json"]
    for url in (f"{root}/a%b", f"{root}/a%25b"):
        found = deltaberg.inspect(url)
        assert (found.location, found.rows) == (f"{root}/a%b", 3)
    write_deltalake(f"{root}/a%2525b", pa.concat_tables(ROWS))
    assert (deltaberg.inspect(f"{root}/a%25b").location, deltaberg.inspect(f"{root}/a%25b").rows) == (
        f"{root}/a%25b",
        6,
    )
    with pytest.raises(deltaberg.NotATable, match="a%25c"):
        deltaberg.inspect(f"{root}/a%25c")
    done = deltaberg.convert(f"{root}/a%b", to="iceberg")
    assert done.target.startswith(f"{root}/a%b/")
    assert deltaberg.inspect(done.target).rows == 3
