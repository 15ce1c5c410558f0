"""``Publisher``: every table has its turn, whatever becomes of the others, and independent readers find its rows."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg import Publisher
from deltaberg.errors import Conflict, UsageError
from deltaberg.iceberg.table import Table
from deltaberg.migrate.publish.config import PublishedTable, PublisherConfig
from deltaberg.migrate.publish.lease import Lease
from deltaberg.migrate.publish.standing import TableStanding, standing_of, validated
from deltaberg.migrate.publish.table_job import TurnOutcome
from deltaberg.migrate.source import TableFormat
from deltaberg.storage import open_storage

deltalake = pytest.importorskip("deltalake")

Difference = Callable[..., str]
Rows = Callable[[Any], pa.Table]


def rows(first: int, count: int = 3) -> pa.Table:
    return pa.table(
        {"id": pa.array(range(first, first + count), pa.int64()), "v": [f"v {each}" for each in range(count)]}
    )


def append(folder: Path, first: int) -> None:
    deltalake.write_deltalake(str(folder), rows(first), mode="append")


def to_iceberg(folder: Path, **more: Any) -> PublishedTable:
    return PublishedTable(name=folder.name, source=str(folder), to=TableFormat.ICEBERG, **more)


def config(*tables: PublishedTable, **more: Any) -> PublisherConfig:
    return PublisherConfig(tables=tables, concurrency=2, **more)


def states(publisher: Publisher) -> dict[str, str]:
    return {each.name: each.state for each in publisher.run_once().tables}


def standing(table: PublishedTable) -> TableStanding:
    return standing_of(table, now_ms=time.time_ns() // 1_000_000)


def newest(folder: Path) -> str:
    """The metadata file of the Iceberg target."""
    return Table.open(f"{folder}/_iceberg", open_storage()).metadata_location


@pytest.fixture
def tables(tmp_path: Path) -> list[Path]:
    folders = [tmp_path / name for name in ("one", "two", "three")]
    for place, folder in enumerate(folders):
        append(folder, place * 100)
    return folders


def test_every_table_is_created_then_brought_up_to_date_then_left_alone(
    tables: list[Path], iceberg_rows: Rows, delta_rows: Rows, difference: Difference
) -> None:
    publisher = Publisher(config(*map(to_iceberg, tables)))
    assert set(states(publisher).values()) == {"created"}
    append(tables[1], 500)
    append(tables[1], 600)
    report = publisher.run_once()
    assert [each.state for each in report.tables] == ["unchanged", "synced", "unchanged"]
    assert [source for source, _ in report.tables[1].commits] == [1, 2]
    assert set(states(publisher).values()) == {"unchanged"}
    assert set(states(Publisher(config(*map(to_iceberg, tables)))).values()) == {"current"}
    for folder in tables:
        assert not difference(iceberg_rows(newest(folder)), delta_rows(folder))


def test_an_iceberg_table_that_pyiceberg_writes_is_published_to_delta(
    catalog: Any, tmp_path: Path, delta_rows: Rows, difference: Difference
) -> None:
    table = catalog.create_table("n.t", schema=rows(0).schema)
    table.append(rows(0))
    folder = Path(table.location().removeprefix("file://"))
    wanted = PublishedTable(name="t", source=str(folder), to=TableFormat.DELTA, target=f"{tmp_path}/target")
    publisher = Publisher(config(wanted))
    assert states(publisher) == {"t": "created"}
    assert states(publisher) == {"t": "unchanged"}
    table.append(rows(10))
    table.delete("id = 11")
    report = publisher.run_once()
    assert [source for source, _ in report.tables[0].commits] == [
        each.snapshot_id for each in table.metadata.snapshots[1:]
    ]
    assert not difference(delta_rows(f"{tmp_path}/target"), table.scan().to_arrow())
    assert standing(wanted).state == "current"


class Recording:
    """A storage that says what was asked of it."""

    def __init__(self) -> None:
        self._storage = open_storage()
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._storage, name)
        if not callable(value):
            return value

        def call(*arguments: Any, **more: Any) -> Any:
            self.calls.append(name)
            return value(*arguments, **more)

        return call


def test_a_poll_that_finds_nothing_is_one_listing(tables: list[Path], catalog: Any, tmp_path: Path) -> None:
    table = catalog.create_table("n.t", schema=rows(0).schema)
    table.append(rows(0))
    folder = table.location().removeprefix("file://")
    there = PublishedTable(name="t", source=folder, to=TableFormat.DELTA, target=f"{tmp_path}/target")
    publisher = Publisher(config(to_iceberg(tables[0]), there))
    publisher.run_once()
    for record in publisher.records.values():
        record.job.storage = recording = Recording()
        assert record.job.turn().state == "unchanged"
        assert recording.calls == ["list"]


def test_a_table_that_is_broken_fails_alone_and_is_well_again_when_it_is_mended(tables: list[Path]) -> None:
    commit = tables[1] / "_delta_log" / "00000000000000000000.json"
    whole = commit.read_bytes()
    commit.write_bytes(b"{")
    publisher = Publisher(config(*map(to_iceberg, tables), to_iceberg(tables[0].parent / "nowhere")))
    report = publisher.run_once()
    assert [each.state for each in report.tables] == ["created", "failed", "created", "failed"]
    assert [each.name for each in report.failed] == ["two", "nowhere"]
    document = report.to_json()
    assert document["failed"] == ["two", "nowhere"]
    assert document["tables"][1]["error"]["message"].startswith("Cannot")
    assert str(tables[1]) in document["tables"][1]["error"]["message"]
    commit.write_bytes(whole)
    assert states(publisher)["two"] == "created"


def test_a_defect_in_one_table_is_reported_with_it_and_ends_no_other(
    tables: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    publisher = Publisher(config(*map(to_iceberg, tables)))
    job = publisher.records["two"].job

    def broken(*_: Any, **__: Any) -> Any:
        raise ZeroDivisionError("by nought")

    monkeypatch.setattr(job.storage, "list", broken, raising=False)
    report = publisher.run_once()
    assert [each.state for each in report.tables] == ["created", "failed", "created"]
    failure = report.tables[1].failure
    assert failure is not None
    assert (failure.code, failure.message) == ("defect", "a defect in deltaberg: ZeroDivisionError: by nought")


def test_a_target_that_somebody_else_committed_to_is_a_conflict_and_stays(
    tables: list[Path], delete_from_iceberg: Callable[..., str]
) -> None:
    wanted = to_iceberg(tables[0])
    publisher = Publisher(config(wanted))
    publisher.run_once()
    (tables[0] / "_iceberg" / "data").mkdir(exist_ok=True)
    foreign = delete_from_iceberg(newest(tables[0]), {0: [0]})
    append(tables[0], 100)
    assert standing(wanted).state == "drifted"
    failure = publisher.run_once().tables[0].failure
    assert failure is not None
    assert failure.exit_code == 5
    assert newest(tables[0]) == foreign
    said = standing(wanted)
    assert said.error is not None
    assert said.error.message == failure.message


def test_a_target_that_is_gone_is_found_gone_when_it_is_checked_again(tables: list[Path]) -> None:
    import shutil

    now = [0.0]
    publisher = Publisher(config(to_iceberg(tables[0]), recheck_s=100.0), monotonic=lambda: now[0])
    assert states(publisher) == {"one": "created"}
    shutil.rmtree(tables[0] / "_iceberg")
    now[0] = 99.0
    assert states(publisher) == {"one": "unchanged"}
    now[0] = 101.0
    assert states(publisher) == {"one": "created"}


def test_a_log_that_was_set_back_is_noticed_although_nothing_was_added(tables: list[Path]) -> None:
    append(tables[0], 10)
    publisher = Publisher(config(to_iceberg(tables[0])))
    assert states(publisher) == {"one": "created"}
    (tables[0] / "_delta_log" / "00000000000000000001.json").unlink()
    report = publisher.run_once()
    assert report.tables[0].failure is not None
    assert report.tables[0].failure.exit_code == 5
    assert publisher.run_once().failed, "and stays noticed"


def test_a_table_that_another_publisher_works_on_is_left_to_it(tables: list[Path]) -> None:
    other = Lease(open_storage(), f"{tables[0]}/_iceberg", TableFormat.ICEBERG, term_s=3600)
    assert other.take() is None
    publisher = Publisher(config(*map(to_iceberg, tables)))
    report = publisher.run_once()
    assert [each.state for each in report.tables] == ["held", "created", "created"]
    assert report.tables[0].owner == other.owner
    assert standing(to_iceberg(tables[0])).worker == other.owner
    other.end()
    assert states(publisher)["one"] == "created"


def test_a_lease_passes_on_within_its_term_when_its_owner_is_gone(tables: list[Path]) -> None:
    """The owner was on another machine, so nothing but time tells that it is gone."""
    gone = Lease(open_storage(), f"{tables[0]}/_iceberg", TableFormat.ICEBERG, term_s=60, mark="000000000000-1-1")
    assert gone.take() is None
    now = [0.0]
    publisher = Publisher(config(to_iceberg(tables[0])), monotonic=lambda: now[0])
    assert states(publisher) == {"one": "held"}
    now[0] = 44.0
    assert states(publisher) == {"one": "held"}
    now[0] = 46.0
    assert states(publisher) == {"one": "created"}


@contextmanager
def running(publisher: Publisher) -> Iterator[None]:
    thread = threading.Thread(target=publisher.run)
    thread.start()
    try:
        yield
    finally:
        publisher.stop()
        thread.join(60)
        assert not thread.is_alive()


def test_publishers_that_share_tables_make_each_commit_once_while_a_writer_goes_on(
    tables: list[Path], iceberg_rows: Rows, delta_rows: Rows, difference: Difference
) -> None:
    wanted = config(*(to_iceberg(folder, interval_s=0.02) for folder in tables))
    seen: list[TurnOutcome] = []
    wrote = threading.Event()

    def note(outcome: TurnOutcome) -> None:
        seen.append(outcome)
        wrote.set()

    publishers = [Publisher(wanted, observer=note) for _ in range(2)]
    with running(publishers[0]), running(publishers[1]):
        for first in range(1000, 1012):
            append(tables[first % 3], first * 10)
            wrote.wait(30)
            wrote.clear()
    assert set(states(Publisher(wanted)).values()) <= {"current", "synced"}
    for folder in tables:
        assert not difference(iceberg_rows(newest(folder)), delta_rows(folder))
        made = [source for each in seen if each.name == folder.name for source, _ in each.commits]
        assert len(made) == len(set(made)), "no source commit was made twice"
        versions = [
            int(each.summary["deltaberg.source.version"])
            for each in Table.open(f"{folder}/_iceberg", open_storage()).metadata.snapshots
        ]
        assert versions == sorted(set(versions))
        assert versions == list(range(versions[0], 5))
    assert not [each for each in seen if each.state == "failed"]


def test_a_wish_gives_a_table_its_turn_long_before_it_is_due(tables: list[Path]) -> None:
    seen: dict[str, threading.Event] = {state: threading.Event() for state in ("created", "synced")}

    def note(outcome: TurnOutcome) -> None:
        if outcome.state in seen:
            seen[outcome.state].set()

    publisher = Publisher(config(to_iceberg(tables[0], interval_s=3600)), observer=note)
    with running(publisher):
        assert seen["created"].wait(60)
        append(tables[0], 10)
        publisher.wants("one")
        assert seen["synced"].wait(60)
    with pytest.raises(UsageError, match=r"Cannot sync onne: no table has this name \(did you mean one\?\)"):
        publisher.wants("onne")


def test_after_failures_a_table_waits_twice_as_long_each_time_and_not_longer_than_is_set(tmp_path: Path) -> None:
    publisher = Publisher(
        config(to_iceberg(tmp_path / "nowhere", interval_s=10), max_backoff_s=100),
        monotonic=lambda: 0.0,
        chance=random.Random(7),
    )
    pauses = []
    for _ in range(6):
        publisher.run_once()
        pauses.append(publisher.records["nowhere"].due)
    longest = [20, 40, 80, 100, 100, 100]
    assert all(most / 2 <= pause <= most for pause, most in zip(pauses, longest, strict=True)), pauses
    assert len(set(pauses)) == len(pauses), "chance keeps publishers from trying at the same moments"


def test_two_hundred_tables_have_their_turn_in_one_round(
    tmp_path: Path, iceberg_rows: Rows, delta_rows: Rows, difference: Difference
) -> None:
    folders = [tmp_path / f"t{place}" for place in range(200)]
    for place, folder in enumerate(folders):
        append(folder, place)
    publisher = Publisher(config(*map(to_iceberg, folders)))
    report = publisher.run_once()
    assert [each.name for each in report.tables] == [folder.name for folder in folders]
    assert {each.state for each in report.tables} == {"created"}
    assert set(states(publisher).values()) == {"unchanged"}
    for folder in folders[::50]:
        assert not difference(iceberg_rows(newest(folder)), delta_rows(folder))


def test_the_standing_says_how_far_a_target_has_come_and_writes_nothing(tables: list[Path]) -> None:
    wanted = to_iceberg(tables[0])
    before = sorted(tables[0].rglob("*"))
    absent = standing(wanted)
    assert (absent.state, absent.head, absent.watermark, absent.lag_commits) == ("absent", 0, None, 1)
    assert validated(wanted, now_ms=0).state == "absent"
    assert sorted(tables[0].rglob("*")) == before
    Publisher(config(wanted)).run_once()
    current = standing(wanted)
    assert (current.state, current.watermark, current.lag_commits, current.lag_seconds) == ("current", 0, 0, 0.0)
    assert current.last is not None
    assert current.last["state"] == "synced"
    append(tables[0], 10)
    append(tables[0], 20)
    log = tables[0] / "_delta_log"
    oldest = (log / "00000000000000000001.json").stat().st_mtime_ns // 1_000_000
    behind = standing_of(wanted, now_ms=oldest + 5_000)
    assert (behind.state, behind.head, behind.watermark, behind.lag_commits) == ("behind", 2, 0, 2)
    assert behind.lag_seconds == 5.0


def test_the_standing_of_an_iceberg_source_counts_its_snapshots(catalog: Any, tmp_path: Path) -> None:
    table = catalog.create_table("n.t", schema=rows(0).schema)
    table.append(rows(0))
    folder = table.location().removeprefix("file://")
    wanted = PublishedTable(name="t", source=folder, to=TableFormat.DELTA, target=f"{tmp_path}/target")
    Publisher(config(wanted)).run_once()
    table.append(rows(10))
    table.append(rows(20))
    first, second = (each for each in table.metadata.snapshots[1:])
    behind = standing_of(wanted, now_ms=first.timestamp_ms + 7_000)
    assert (behind.state, behind.head, behind.lag_commits) == ("behind", second.snapshot_id, 2)
    assert behind.lag_seconds == 7.0


def test_validation_names_a_table_whose_conversion_would_be_refused(catalog: Any, tmp_path: Path) -> None:
    from pyiceberg.schema import Schema
    from pyiceberg.types import NestedField, UUIDType

    table = catalog.create_table("n.t", schema=Schema(NestedField(1, "u", UUIDType())))
    folder = table.location().removeprefix("file://")
    wanted = PublishedTable(name="t", source=folder, to=TableFormat.DELTA, target=f"{tmp_path}/target")
    found = validated(wanted, now_ms=0)
    assert found.state == "failed"
    assert found.error is not None
    assert (found.error.type, found.error.exit_code) == ("Refused", 3)
    assert not (tmp_path / "target").exists()


def test_a_rollback_takes_the_lease_with_it_but_not_while_a_publisher_is_at_work(tables: list[Path]) -> None:
    import deltaberg

    before = sorted(tables[0].rglob("*"))
    Publisher(config(to_iceberg(tables[0]))).run_once()
    target = f"{tables[0]}/_iceberg"
    lease = Lease(open_storage(), target, TableFormat.ICEBERG, term_s=3600)
    assert lease.take() is None
    with pytest.raises(Conflict, match=r"Cannot roll back .*: a publisher is at work on it .*; wait for its end"):
        deltaberg.rollback(target)
    lease.end()
    deltaberg.rollback(target)
    assert sorted(tables[0].rglob("*")) == before
