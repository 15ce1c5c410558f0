"""A version checksum that contradicts the log is an error; one that is absent or unreadable is none."""

from __future__ import annotations

import json
from typing import Any

import pytest

from deltaberg.delta.errors import CorruptLog
from deltaberg.delta.snapshot import Snapshot
from deltaberg.delta.table import DeltaTable
from deltaberg.storage import open_storage

Log = Any


def read(log: Log) -> Snapshot:
    snapshot = DeltaTable.open(str(log.root), open_storage()).snapshot()
    list(snapshot.add_files())
    return snapshot


def checksum(log: Log, **changes: object) -> dict[str, object]:
    value = {
        "tableSizeBytes": 30,
        "numFiles": 2,
        "numMetadata": 1,
        "numProtocol": 1,
        "numDeletedRecordsOpt": 2,
        "numDeletionVectorsOpt": 1,
        "protocol": log.protocol()["protocol"],
        "metadata": log.metadata()["metaData"],
        **changes,
    }
    return {key: each for key, each in value.items() if each is not None}


@pytest.fixture
def table(log: Log) -> Log:
    log.create(log.add("a", size=10), log.add("b", size=20, deletionVector=log.vector()))
    return log


def test_a_checksum_that_agrees_is_silent(table: Log) -> None:
    table.write(f"{0:020d}.crc", json.dumps(checksum(table)))
    assert read(table).version == 0


def test_a_checksum_says_no_more_than_it_has(table: Log) -> None:
    table.write(f"{0:020d}.crc", json.dumps({"numFiles": 2, "setTransactions": [{"appId": "x", "version": 1}]}))
    assert read(table).version == 0


@pytest.mark.parametrize(
    "content",
    [b"", b"malformed", b"[]", b"{", b"\xff", b'{"numFiles":"two"}', b'{"protocol":{"minReaderVersion":"x"}}'],
)
def test_a_file_that_is_no_checksum_counts_as_absent(table: Log, content: bytes) -> None:
    table.write(f"{0:020d}.crc", content)
    assert read(table).version == 0


CONFIGURED = {"id": "11111111-2222-3333-4444-555555555555", "configuration": {"a": "b"}}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"numFiles": 3}, "differ in numFiles (checksum 3, log 2)"),
        ({"tableSizeBytes": 31}, "differ in tableSizeBytes (checksum 31, log 30)"),
        ({"numDeletionVectorsOpt": 0}, "differ in numDeletionVectorsOpt (checksum 0, log 1)"),
        ({"numDeletedRecordsOpt": 3}, "differ in numDeletedRecordsOpt (checksum 3, log 2)"),
        ({"protocol": {"minReaderVersion": 1, "minWriterVersion": 4}}, "differ in protocol"),
        ({"metadata": {"id": "other"}}, "differ in metadata.id (checksum 'other'"),
        ({"metadata": CONFIGURED}, "differ in metadata.configuration"),
    ],
)
def test_a_difference_names_the_file_and_the_field(table: Log, change: dict[str, object], message: str) -> None:
    path = table.write(f"{0:020d}.crc", json.dumps(checksum(table, **change)))
    with pytest.raises(CorruptLog, match="its checksum file and its log differ") as caught:
        read(table)
    assert message in str(caught.value)
    assert (caught.value.version, caught.value.path) == (0, str(path))


def test_the_checksum_of_another_version_does_not_matter(table: Log) -> None:
    table.write(f"{0:020d}.crc", json.dumps(checksum(table, numFiles=99)))
    table.commit(1, table.add("c"))
    assert read(table).version == 1


def test_the_order_of_features_does_not_matter(log: Log) -> None:
    features = ["v2Checkpoint", "deletionVectors"]
    log.commit(0, log.protocol(3, 7, readerFeatures=features, writerFeatures=features), log.metadata())
    protocol = log.protocol(3, 7, readerFeatures=features[::-1], writerFeatures=features[::-1])["protocol"]
    log.write(f"{0:020d}.crc", json.dumps({"numFiles": 0, "protocol": protocol}))
    assert read(log).version == 0


def test_a_lost_add_is_noticed(table: Log) -> None:
    table.write(f"{0:020d}.crc", json.dumps(checksum(table)))
    commit = table.folder / f"{0:020d}.json"
    lines = [line for line in commit.read_text().splitlines(keepends=True) if '"path": "a"' not in line]
    commit.write_text("".join(lines))
    with pytest.raises(CorruptLog, match="numFiles"):
        read(table)
