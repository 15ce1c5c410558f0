"""Versions by number and by time, in-commit timestamps where the table has them, and the history of commits."""

from __future__ import annotations

import os
from typing import Any

import pytest

from deltaberg.delta.errors import CorruptLog, InvalidDeltaRequest, VersionNotFound
from deltaberg.delta.table import DeltaTable
from deltaberg.storage import open_storage

Log = Any
WRITER = {"writer": 7, "writerFeatures": ["inCommitTimestamp"]}
ON = {"delta.enableInCommitTimestamps": "true"}


def table(log: Log) -> DeltaTable:
    return DeltaTable.open(str(log.root), open_storage())


def version_at(log: Log, as_of_ms: int) -> int:
    return table(log).snapshot(as_of_ms=as_of_ms).version


def commit(log: Log, version: int, modified_ms: int, *actions: Any, ict: int | None = None) -> None:
    info = {"timestamp": 7, "operation": f"OP {version}"} | ({} if ict is None else {"inCommitTimestamp": ict})
    path = log.commit(version, {"commitInfo": info}, *actions)
    os.utime(path, ns=(modified_ms * 1_000_000,) * 2)


def by_file_time(log: Log) -> None:
    commit(log, 0, 1000, log.protocol(), log.metadata())
    for version, modified in ((1, 2000), (2, 3000)):
        commit(log, version, modified, log.add(f"f{version}"))


@pytest.mark.parametrize(("as_of", "version"), [(1000, 0), (1999, 0), (2000, 1), (2999, 1), (3000, 2), (10**15, 2)])
def test_without_in_commit_timestamps_the_time_of_the_file_counts(log: Log, as_of: int, version: int) -> None:
    by_file_time(log)
    assert version_at(log, as_of) == version


def test_a_time_before_the_first_version_is_not_found(log: Log) -> None:
    by_file_time(log)
    with pytest.raises(
        VersionNotFound,
        match=r"as of 1970-01-01 00:00:00\.999 UTC: no version is that old \(the oldest .* is of 1970-01-01 00:00:01 UTC\)",
    ):
        version_at(log, 999)


def test_the_time_of_a_snapshot_is_that_of_its_commit(log: Log) -> None:
    by_file_time(log)
    assert [table(log).snapshot(version).timestamp_ms for version in range(3)] == [1000, 2000, 3000]


def test_file_times_that_go_backwards_follow_one_another(log: Log) -> None:
    for version, modified in enumerate([5000, 1000, 1000, 6000]):
        commit(log, version, modified, *([log.protocol(), log.metadata()] if version == 0 else []))
    assert [version_at(log, as_of) for as_of in (5000, 5001, 5002, 5999, 6000)] == [0, 1, 2, 2, 3]
    with pytest.raises(VersionNotFound):
        version_at(log, 4999)


def from_creation(log: Log) -> None:
    commit(log, 0, 9000, log.protocol(**WRITER), log.metadata(configuration=ON), ict=100)
    for version, ict in ((1, 200), (2, 300), (3, 400)):
        commit(log, version, 9000 - version, log.add(f"f{version}"), ict=ict)


@pytest.mark.parametrize(("as_of", "version"), [(100, 0), (199, 0), (200, 1), (399, 2), (400, 3), (9999, 3)])
def test_in_commit_timestamps_go_before_file_times(log: Log, as_of: int, version: int) -> None:
    from_creation(log)
    assert version_at(log, as_of) == version


def test_times_before_the_first_in_commit_timestamp_are_not_found(log: Log) -> None:
    from_creation(log)
    with pytest.raises(VersionNotFound, match=r"is of 1970-01-01 00:00:00\.100 UTC"):
        version_at(log, 99)
    assert table(log).snapshot(2).timestamp_ms == 300


def enabled_later(log: Log) -> None:
    commit(log, 0, 1000, log.protocol(), log.metadata())
    commit(log, 1, 2000, log.add("a"), ict=5)  # a stray one: it does not count
    enabled = {
        **ON,
        "delta.inCommitTimestampEnablementVersion": "2",
        "delta.inCommitTimestampEnablementTimestamp": "5000",
    }
    commit(log, 2, 3000, log.protocol(**WRITER), log.metadata(configuration=enabled), ict=5000)
    commit(log, 3, 4000, log.add("b"), ict=6000)


@pytest.mark.parametrize(
    ("as_of", "version"), [(1000, 0), (2000, 1), (4999, 1), (5000, 2), (5999, 2), (6000, 3), (9999, 3)]
)
def test_where_they_were_enabled_later_both_kinds_of_time_count_in_their_part(
    log: Log, as_of: int, version: int
) -> None:
    enabled_later(log)
    assert version_at(log, as_of) == version


def test_the_time_of_each_version_is_of_its_own_kind(log: Log) -> None:
    enabled_later(log)
    assert [table(log).snapshot(version).timestamp_ms for version in range(4)] == [1000, 2000, 5000, 6000]
    assert [entry.timestamp_ms for entry in table(log).history()] == [6000, 5000, 2000, 1000]


def test_a_commit_without_its_timestamp_is_named(log: Log) -> None:
    from_creation(log)
    commit(log, 4, 9000, log.add("x"))
    with pytest.raises(CorruptLog, match="the commit has no inCommitTimestamp") as caught:
        _ = table(log).snapshot().timestamp_ms
    assert caught.value.version == 4
    assert str(caught.value.path).endswith("4.json")


def test_only_what_can_be_rebuilt_is_found_by_time(log: Log) -> None:
    for version in range(5, 9):
        commit(log, version, version * 1000, log.add(f"f{version}"))
    log.checkpoint(6, log.protocol(), log.metadata(), log.add("old"))
    assert version_at(log, 6000) == 6
    assert version_at(log, 8000) == 8
    with pytest.raises(VersionNotFound, match="is of 1970-01-01 00:00:06 UTC"):
        version_at(log, 5999)


def test_a_version_whose_commit_is_gone_has_the_time_of_its_checkpoint(log: Log) -> None:
    path = log.checkpoint(6, log.protocol(), log.metadata())
    os.utime(path, ns=(7_000_000_000,) * 2)
    assert table(log).snapshot().timestamp_ms == 7000


def test_a_missing_in_commit_timestamp_is_taken_from_the_checksum_or_not_at_all(log: Log) -> None:
    log.checkpoint(6, log.protocol(**WRITER), log.metadata(configuration=ON))
    with pytest.raises(CorruptLog, match="its commit was cleaned up"):
        _ = table(log).snapshot().timestamp_ms
    log.write(f"{6:020d}.crc", '{"inCommitTimestampOpt":777}')
    assert table(log).snapshot().timestamp_ms == 777


def test_a_version_and_a_time_exclude_each_other(log: Log) -> None:
    by_file_time(log)
    with pytest.raises(InvalidDeltaRequest, match="both given"):
        table(log).snapshot(version=1, as_of_ms=5)


def test_history_lists_commits_newest_first(log: Log) -> None:
    by_file_time(log)
    found = table(log).history()
    assert [(entry.version, entry.operation, entry.timestamp_ms) for entry in found] == [
        (2, "OP 2", 3000),
        (1, "OP 1", 2000),
        (0, "OP 0", 1000),
    ]
    assert [entry.version for entry in table(log).history(limit=1)] == [2]


def test_changes_of_a_commit_are_its_own_actions(log: Log) -> None:
    log.create(log.add("a", partitionValues={"p": "x"}, stats='{"numRecords":3}'), partitionColumns=["p"])
    log.commit(
        1,
        {"commitInfo": {"operation": "DELETE", "operationMetrics": {"numDeletedRows": "1"}}},
        log.remove("a", partitionValues={"p": "x"}, size=10),
        log.add("b", partitionValues={"p": "y"}),
        {"cdc": {"path": "_change_data/c", "partitionValues": {"p": "x"}, "size": 5, "dataChange": False}},
        {"txn": {"appId": "app", "version": 1}},
        {"domainMetadata": {"domain": "d", "configuration": "", "removed": True}},
    )
    log.commit(2, log.metadata(partitionColumns=[]), log.add("c"))
    first, second, third = table(log).commits()
    assert (first.version, second.version, third.version) == (0, 1, 2)
    assert first.metadata is not None
    assert first.protocol is not None
    assert first.adds.to_pylist()[0]["stats"]["num_records"] == 3
    assert (second.metadata, second.protocol) == (None, None)
    assert [row["partition_values"] for row in second.adds.to_pylist()] == [{"p": "y"}]
    removed = second.removes.to_pylist()[0]
    assert (removed["path"], removed["partition_values"], removed["size"]) == ("a", {"p": "x"}, 10)
    assert second.change_files.to_pylist() == [{"path": "_change_data/c", "partition_values": {"p": "x"}, "size": 5}]
    assert second.txns[0].app_id == "app"
    assert second.domain_metadata[0].removed
    assert second.commit_info is not None
    assert second.commit_info.operation_metrics == {"numDeletedRows": "1"}
    assert third.metadata is not None
    assert third.adds.to_pylist()[0]["partition_values"] == {}
    assert table(log).changes(1).adds.to_pylist() == second.adds.to_pylist()
    assert table(log).snapshot(0).changes(1).adds.to_pylist() == second.adds.to_pylist()


def test_commits_begin_where_the_log_can_be_rebuilt(log: Log) -> None:
    for version in range(5, 9):
        commit(log, version, version * 1000, log.add(f"f{version}"))
    log.checkpoint(6, log.protocol(), log.metadata(), log.add("old"))
    assert [actions.version for actions in table(log).commits()] == [6, 7, 8]
    assert [actions.version for actions in table(log).commits(7, 7)] == [7]
    assert list(table(log).commits(9)) == []
    with pytest.raises(VersionNotFound, match="Cannot read commit 4"):
        list(table(log).commits(4))
    with pytest.raises(VersionNotFound, match="Cannot read commit 9"):
        table(log).snapshot().changes(9)


def test_a_commit_that_contradicts_itself_is_refused_alone_too(log: Log) -> None:
    log.create()
    log.commit(1, log.add("a"), log.add("a"))
    with pytest.raises(CorruptLog, match="an add of the same path twice"):
        table(log).changes(1)
