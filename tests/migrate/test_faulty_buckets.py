"""Commits to a bucket whose store loses answers, repeats requests, or ignores the condition of a conditional write."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest
from deltalake import write_deltalake

import deltaberg
from deltaberg.storage import AlreadyExists, ConditionIgnored, open_storage
from deltaberg.storage.errors import NotSent
from tests.fault_bucket import Fault, FaultyBuckets, faulty_buckets

ROWS = pa.table({"id": [1, 2, 3], "s": ["a", "b", None]})


@pytest.fixture(scope="module")
def server() -> Iterator[FaultyBuckets]:
    pytest.importorskip("moto")
    with faulty_buckets() as buckets:
        yield buckets


@pytest.fixture
def buckets(server: FaultyBuckets) -> Iterator[FaultyBuckets]:
    yield server
    server.fault, server.heeds_conditions = None, True
    server.fired.clear()


@pytest.fixture(params=["iceberg", "delta"])
def to(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def source(buckets: FaultyBuckets, to: str) -> str:
    """A table of the other format."""
    table = f"{buckets.bucket()}/source"
    write_deltalake(table, ROWS)
    if to == "iceberg":
        return table
    return deltaberg.convert(table, to="iceberg", target=table.replace("source", "second")).target


def is_commit(method: str, path: str) -> bool:
    return method == "PUT" and path.endswith(("/v1.metadata.json", f"/{0:020}.json"))


@pytest.mark.parametrize(
    ("status", "applied"),
    [(500, True), (503, True), (None, True), (500, False), (None, False)],
    ids=["500 applied", "503 applied", "closed applied", "500", "closed"],
)
def test_an_answer_that_is_lost_is_asked_for_again_and_the_commit_is_ours(
    buckets: FaultyBuckets,
    source: str,
    to: str,
    status: int | None,
    applied: bool,
    record_property: Callable[..., None],
) -> None:
    """The client repeats the request, and is told that the object exists: which it wrote itself."""
    target = f"{buckets.bucket()}/t"
    buckets.fault = Fault(is_commit, status, applied)
    done = deltaberg.convert(source, to=to, target=target)
    assert [path.rpartition("/")[2] for _, path in buckets.fired] == [done.target_metadata.rpartition("/")[2]]
    assert not done.already_current
    assert deltaberg.verify(source, target, rows=True).equal
    assert deltaberg.convert(source, to=to, target=target).already_current
    record_property(f"faults of a commit to a bucket, to {to}", 1)


def test_a_commit_that_is_denied_leaves_nothing(buckets: FaultyBuckets, source: str, to: str) -> None:
    target = f"{buckets.bucket()}/t"
    buckets.fault = Fault(is_commit, 403, applied=False, times=-1)
    with pytest.raises(deltaberg.DeltabergError, match="Cannot write"):
        deltaberg.convert(source, to=to, target=target)
    assert [file.location for file in open_storage().list(target, recursive=True)] == []
    buckets.fault = None
    assert not deltaberg.convert(source, to=to, target=target).already_current


class TestAStoreThatIgnoresTheCondition:
    def test_is_refused_before_anything_is_committed(self, buckets: FaultyBuckets, source: str, to: str) -> None:
        target = f"{buckets.bucket()}/t"
        buckets.heeds_conditions = False
        with pytest.raises(
            ConditionIgnored, match="two writers would overwrite each other; use a store with"
        ) as caught:
            deltaberg.convert(source, to=to, target=target)
        assert caught.value.exit_code == 1
        assert [file.location for file in open_storage().list(target, recursive=True)] == []

    def test_a_store_is_asked_once(self, buckets: FaultyBuckets) -> None:
        bucket = buckets.bucket()
        seen: list[str] = []

        def see(method: str, path: str) -> bool:
            seen.append(f"{method} {path.rpartition('/')[2][:6]}")
            return False

        buckets.fault = Fault(see, 500, applied=False)
        storage = open_storage()
        storage.put_if_absent(f"{bucket}/t/_delta_log/0.json", b"{}")
        assert seen == ["PUT probe-", "PUT probe-", "POST faulty", "PUT 0.json"]  # deleted in bulk
        seen.clear()
        open_storage().put_if_absent(f"{bucket}/t/_delta_log/1.json", b"{}")
        with pytest.raises(AlreadyExists):
            open_storage().put_if_absent(f"{bucket}/t/_delta_log/1.json", b"{}")
        assert seen == ["PUT 1.json", "PUT 1.json"]
        names = [file.location.removeprefix(bucket) for file in storage.list(bucket, recursive=True)]
        assert names == ["/t/_delta_log/0.json", "/t/_delta_log/1.json"]

    def test_a_question_without_an_answer_is_a_failure_and_no_unknown_outcome(
        self, buckets: FaultyBuckets, source: str, to: str
    ) -> None:
        target = f"{buckets.bucket()}/t"
        buckets.fault = Fault(lambda method, path: "/probe-" in path, 400, applied=False, times=-1)
        with pytest.raises(NotSent, match="Cannot write"):
            deltaberg.convert(source, to=to, target=target)
        assert [file.location for file in open_storage().list(target, recursive=True)] == []

    def test_an_answer_that_is_lost_while_it_is_asked_says_nothing(self, buckets: FaultyBuckets) -> None:
        bucket = buckets.bucket()
        buckets.fault = Fault(lambda method, path: "/probe-" in path, 500, applied=True)
        open_storage().put_if_absent(f"{bucket}/t/_delta_log/0.json", b"{}")
        assert json.loads(open_storage().get(f"{bucket}/t/_delta_log/0.json")) == {}
