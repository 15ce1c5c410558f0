"""``publish`` of tables in buckets: the lease is a conditional put, its age a difference of the store's own times."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest

from deltaberg import Publisher
from deltaberg.migrate.publish.config_file import parse_config
from deltaberg.migrate.publish.lease import Lease, read_lease
from deltaberg.migrate.source import TableFormat
from deltaberg.storage import open_storage
from tests.buckets import buckets

deltalake = pytest.importorskip("deltalake")
pytest.importorskip("moto.server")


@pytest.fixture(scope="module")
def bucket() -> Iterator[Callable[[], str]]:
    """``bucket()``: the URL of a new one."""
    with buckets() as create:
        yield create


def test_a_table_in_a_bucket_is_published_under_a_lease(bucket: Callable[[], str]) -> None:
    source = f"{bucket()}/orders"
    deltalake.write_deltalake(source, pa.table({"id": [1, 2]}))
    text = f"tables: [{{source: '{source}', to: iceberg, storage_options: {{aws_secret_access_key: '${{KEY}}'}}}}]"
    publisher = Publisher(parse_config(text.encode(), "/conf/tables.yaml", environment={"KEY": "secret"}))
    assert [each.state for each in publisher.run_once().tables] == ["created"]
    deltalake.write_deltalake(source, pa.table({"id": [3]}), mode="append")
    report = publisher.run_once()
    assert [(each.state, each.position) for each in report.tables] == [("synced", 1)]
    assert [each.state for each in publisher.run_once().tables] == ["unchanged"]
    lease = read_lease(open_storage(), f"{source}/_iceberg", TableFormat.ICEBERG)
    assert lease is not None
    assert (lease.is_held, lease.outcome is not None and lease.outcome["position"]) == (False, 1)


def test_a_lease_in_a_bucket_is_one_owners_and_passes_on(bucket: Callable[[], str]) -> None:
    root = f"{bucket()}/target"
    now = [0.0]
    mine = Lease(open_storage(), root, TableFormat.DELTA, term_s=60, mark="000000000000-1-1", monotonic=lambda: now[0])
    other = Lease(open_storage(), root, TableFormat.DELTA, term_s=60, monotonic=lambda: now[0])
    assert mine.take() is None
    held = other.take()
    assert held is not None
    assert held.owner == mine.owner
    now[0] = 20.0
    assert mine.renew()
    now[0] = 44.0
    assert mine.is_held
    assert other.take() is not None
    now[0] = 90.0
    assert other.take() is None
    assert not mine.renew()
