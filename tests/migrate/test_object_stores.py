"""Tables in S3 buckets, both ways: the target in its source's folder, in another one and in another bucket, as others read it."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from typing import Any
from urllib.request import Request, urlopen

import pyarrow as pa
import pytest
from deltalake import write_deltalake

import deltaberg
from deltaberg.storage import open_storage

ROWS = (
    pa.table({"id": [1, 2, 3], "p": ["a b", "ü%", "x"]}),
    pa.table({"id": [4, 5, 6], "p": ["a b", None, "%20"]}),
)
WANTED = pa.concat_tables(ROWS)


@pytest.fixture(scope="module")
def bucket() -> Iterator[Callable[[], str]]:
    """``bucket()``: the URL of a new one, in a server of this process that behaves like S3, conditional writes included."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    endpoint, numbers = f"http://{host}:{port}", itertools.count()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {
            "AWS_ENDPOINT_URL": endpoint,
            "AWS_ALLOW_HTTP": "true",
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }.items():
            patch.setenv(name, value)

        def create() -> str:
            name = f"bucket-{next(numbers)}"
            with urlopen(Request(f"{endpoint}/{name}", method="PUT")):
                return f"s3://{name}"

        yield create
    server.stop()


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
    deltaberg.convert(iceberg_source, to="delta", target=target)
    assert deltaberg.verify(iceberg_source, target, to="delta", rows=True).equal
    source = iceberg_source.partition("/warehouse")[0]
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
