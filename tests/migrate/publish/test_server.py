"""What a publisher answers over HTTP: metrics that Prometheus reads, its health, and wishes from those who have the token."""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

from deltaberg.errors import UsageError
from deltaberg.migrate.publish.config import PublishedTable, PublisherConfig
from deltaberg.migrate.publish.publisher import Publisher
from deltaberg.migrate.publish.server import CannotListen, listen_address, serving
from deltaberg.migrate.source import TableFormat

deltalake = pytest.importorskip("deltalake")


@pytest.fixture
def publisher(tmp_path: Path) -> Publisher:
    """Of a table that was published and one that is not there, whose name has a quote."""
    deltalake.write_deltalake(f"{tmp_path}/one", pa.table({"id": [1, 2]}))
    made = Publisher(
        PublisherConfig(
            tables=(
                PublishedTable(name="one", source=f"{tmp_path}/one", to=TableFormat.ICEBERG),
                PublishedTable(name='no "where"', source=f"{tmp_path}/nowhere", to=TableFormat.ICEBERG),
            )
        ),
        wall_ms=lambda: 1_700_000_000_500,
    )
    made.run_once()
    return made


@contextmanager
def answering(publisher: Publisher, token: str | None = "a token") -> Iterator[str]:
    with serving(publisher, ("127.0.0.1", 0), token=token) as port:
        yield f"http://127.0.0.1:{port}"


def ask(url: str, *, token: str | None = None, post: bool = False) -> tuple[int, str]:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    request = urllib.request.Request(url, headers=headers, method="POST" if post else "GET")
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_metrics_are_lines_that_prometheus_reads(publisher: Publisher) -> None:
    with answering(publisher) as url:
        status, text = ask(f"{url}/metrics?name=any")
    assert status == 200
    samples = [line for line in text.splitlines() if not line.startswith("#")]
    label = r'[a-z]+="(?:[^"\\]|\\.)*"'
    assert all(re.fullmatch(rf"deltaberg_[a-z_]+(?:\{{{label}(?:,{label})*\}})? [0-9.e+-]+", line) for line in samples)
    for line in (
        "deltaberg_tables 2",
        'deltaberg_up{table="one"} 1',
        'deltaberg_up{table="no \\"where\\""} 0',
        'deltaberg_lag_commits{table="one"} 0',
        'deltaberg_lag_seconds{table="one"} 0',
        'deltaberg_last_success_timestamp_seconds{table="one"} 1700000000.5',
        'deltaberg_failures_total{table="no \\"where\\"",code="NotATable"} 1',
        'deltaberg_commits_total{table="one"} 1',
        'deltaberg_sync_duration_seconds_count{table="one"} 1',
    ):
        assert line in samples
    named = re.findall(r"^# TYPE (\S+)", text, re.MULTILINE)
    assert len(named) == len(set(named))
    assert not [line for line in samples if "where" in line and "lag" in line], "what is not known is not stated"


def test_lag_shows_what_a_source_has_that_its_target_lacks(publisher: Publisher, tmp_path: Path) -> None:
    target = tmp_path / "one" / "_iceberg"
    target.rename(tmp_path / "aside")
    (tmp_path / "one" / "_iceberg").write_bytes(b"in the way")
    for _ in range(3):
        deltalake.write_deltalake(f"{tmp_path}/one", pa.table({"id": [3]}), mode="append")
    publisher.run_once()
    with answering(publisher) as url:
        lines = ask(f"{url}/metrics")[1].splitlines()
    assert 'deltaberg_lag_commits{table="one"} 3' in lines
    assert 'deltaberg_up{table="one"} 0' in lines
    (seconds,) = (line for line in lines if line.startswith('deltaberg_lag_seconds{table="one"}'))
    assert float(seconds.split()[-1]) >= 0


def test_health_names_the_tables_that_fail_and_says_when_the_publisher_has_stopped(publisher: Publisher) -> None:
    with answering(publisher) as url:
        status, text = ask(f"{url}/health")
    assert (status, json.loads(text)) == (503, {"status": "stopping", "tables": 2, "failing": ['no "where"']})
    publisher._stopping = False
    with answering(publisher) as url:
        assert ask(f"{url}/health")[0] == 200


@pytest.mark.parametrize(
    ("path", "token", "expected"),
    [
        ("/sync/one", "a token", (202, {"table": "one"})),
        ("/sync/no%20%22where%22", "a token", (202, {"table": 'no "where"'})),
        (
            "/sync/two",
            "a token",
            (404, {"error": 'Cannot sync two: no table has this name (expected one of no "where", one)'}),
        ),
        ("/sync/one", "another", (401, {"error": "expected the header Authorization: Bearer TOKEN"})),
        ("/sync/one", None, (401, {"error": "expected the header Authorization: Bearer TOKEN"})),
        ("/one", "a token", (404, {"error": "expected POST /sync/NAME"})),
    ],
)
def test_a_wish_needs_the_token_and_a_name(
    publisher: Publisher, path: str, token: str | None, expected: tuple[int, dict[str, str]]
) -> None:
    with answering(publisher) as url:
        status, text = ask(url + path, token=token, post=True)
    assert (status, json.loads(text)) == expected


def test_without_a_token_nobody_may_wish(publisher: Publisher) -> None:
    with answering(publisher, token=None) as url:
        status, text = ask(f"{url}/sync/one", token="", post=True)
    assert status == 403
    assert json.loads(text) == {"error": "no token is set: set DELTABERG_PUBLISH_TOKEN where publish runs"}


@pytest.mark.parametrize("text", ["0.0.0.0:80", "10.0.0.1:80", "example.org:80", "[::]:80"])
def test_an_address_that_others_can_reach_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"only this machine may ask \(expected 127\.0\.0\.1:PORT\)"):
        listen_address(text)


@pytest.mark.parametrize("text", ["80", ":80", "127.0.0.1", "127.0.0.1:x", "127.0.0.1:70000"])
def test_an_address_is_host_and_port(text: str) -> None:
    with pytest.raises(UsageError, match=r"expected HOST:PORT, such as 127\.0\.0\.1:9400"):
        listen_address(text)


def test_an_address_that_is_taken_is_named(publisher: Publisher) -> None:
    with (
        serving(publisher, ("127.0.0.1", 0), token=None) as port,
        pytest.raises(CannotListen, match=f"Cannot listen on 127.0.0.1:{port}: "),
        serving(publisher, ("127.0.0.1", port), token=None),
    ):
        pass
