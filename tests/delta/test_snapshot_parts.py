"""Parts of a version: together with the tail of the log they are the version, read in any process."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deltaberg.delta.checkpoint.checkpoint import checkpoint_snapshot
from deltaberg.delta.checkpoint.checkpoint_writer import CheckpointKind
from deltaberg.delta.checkpoint.checksum import ChecksumTotals
from deltaberg.delta.errors import CorruptLog, DeltaError
from deltaberg.delta.snapshot import Snapshot
from deltaberg.delta.table import DeltaTable
from deltaberg.storage import open_storage

Log = Any
CORPUS = Path(__file__).resolve().parents[3] / "shared" / "corpus" / "delta"
CASES = sorted(path.parent.name for path in CORPUS.glob("*/case.json"))


def opened(root: Path) -> Snapshot:
    return DeltaTable.open(str(root), open_storage()).snapshot()


def rows(batches: Any) -> list[dict[str, Any]]:
    return [row for batch in batches for row in batch.to_pylist(maps_as_pydicts="lossy")]


def texts(found: list[dict[str, Any]]) -> list[str]:
    """The rows to compare: NaN is NaN."""
    return [repr(row) for row in found]


def in_parts(snapshot: Snapshot, files_per_part: int) -> list[dict[str, Any]]:
    """The files as another process reads them, which gets the tail's keys but not its rows."""
    elsewhere: Snapshot = pickle.loads(pickle.dumps(snapshot))
    assert "tail" not in vars(elsewhere)
    keys = None if snapshot.tail is None else pickle.loads(pickle.dumps(snapshot.tail.without_rows()))
    found = []
    for part in pickle.loads(pickle.dumps(snapshot.checkpoint_parts(files_per_part=files_per_part))):
        batches = list(elsewhere.part_files(part, keys))
        assert all(batch.schema.equals(snapshot.add_schema) for batch in batches)
        found += rows(batches)
    assert "tail" not in vars(elsewhere)
    if snapshot.tail is not None:
        found += rows(elsewhere.with_stats(iter(snapshot.tail.adds.to_batches())))
    return found


@pytest.mark.skipif(not CASES, reason="../shared is absent")
@pytest.mark.parametrize("name", CASES)
def test_the_parts_of_every_corpus_table_are_the_table(name: str) -> None:
    try:
        snapshot = opened(CORPUS / name / "table")
        whole = rows(snapshot.add_files())
    except DeltaError as error:
        pytest.skip(f"the table itself is refused: {error}")
    assert texts(in_parts(snapshot, 1)) == texts(whole)
    assert texts(in_parts(snapshot, 1_000_000)) == texts(whole)


STEPS = st.lists(
    st.lists(
        st.tuples(st.sampled_from("abcd"), st.sampled_from(["add", "remove", "vector"])),
        max_size=3,
        unique_by=lambda step: step[0],
    ),
    min_size=1,
    max_size=5,
)


@given(steps=STEPS, checkpoint=st.integers(0, 4), kind=st.sampled_from(CheckpointKind))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=40)
def test_the_parts_of_any_log_are_its_files(
    steps: list[list[tuple[str, str]]],
    checkpoint: int,
    kind: CheckpointKind,
    tmp_path_factory: pytest.TempPathFactory,
    log: Log,
) -> None:
    fresh = type(log)(tmp_path_factory.mktemp("parts"))
    features = {
        "readerFeatures": ["v2Checkpoint", "deletionVectors"],
        "writerFeatures": ["v2Checkpoint", "deletionVectors"],
    }
    fresh.commit(0, fresh.protocol(3, 7, **features), fresh.metadata())
    live: dict[str, str | None] = {}
    for version, actions in enumerate(steps, start=1):
        lines: list[dict[str, object]] = [{"commitInfo": {}}]
        for path, what in actions:
            if path in live and (what != "add" or live[path] is not None):
                vector = live.pop(path)
                lines.append(fresh.remove(path, **({} if vector is None else {"deletionVector": fresh.vector(vector)})))
            if what != "remove":
                name = f"v{version}" if what == "vector" else None
                lines.append(fresh.add(path, **({} if name is None else {"deletionVector": fresh.vector(name)})))
                live[path] = name
        fresh.commit(version, *lines)
        if version == checkpoint:
            checkpoint_snapshot(opened(fresh.root), now_ms=0, kind=kind)
    snapshot = opened(fresh.root)
    for files_per_part in (1, 100):
        assert in_parts(snapshot, files_per_part) == rows(snapshot.add_files())
    assert {row["path"] for row in in_parts(snapshot, 1)} == set(live)


def test_row_groups_are_put_together_up_to_so_many_files(log: Log) -> None:
    log.create()
    place = log.checkpoint(1, log.protocol(), log.metadata(), *(log.add(f"f{number}") for number in range(10)))
    pq.write_table(pq.read_table(place), place, row_group_size=2)
    log.commit(1, {"commitInfo": {}})
    snapshot = opened(log.root)
    parts = snapshot.checkpoint_parts(files_per_part=5)
    # The first row group holds protocol and metadata.
    assert [(part.row_groups, part.files) for part in parts] == [((1, 2), 4), ((3, 4), 4), ((5,), 2)]
    assert [row["path"] for row in in_parts(snapshot, 5)] == [f"f{number}" for number in range(10)]


def test_row_groups_without_statistics_are_read_all_the_same(log: Log) -> None:
    log.create()
    place = log.checkpoint(1, log.protocol(), log.metadata(), *(log.add(f"f{number}") for number in range(4)))
    pq.write_table(pq.read_table(place), place, row_group_size=2, write_statistics=False)
    log.commit(1, {"commitInfo": {}})
    snapshot = opened(log.root)
    assert [part.files for part in snapshot.checkpoint_parts(files_per_part=2)] == [None, None, None]
    assert len(in_parts(snapshot, 2)) == 4


def test_adds_in_a_checkpoint_and_in_its_sidecar_are_refused(log: Log) -> None:
    features = {"readerFeatures": ["v2Checkpoint"], "writerFeatures": ["v2Checkpoint"]}
    log.commit(0, log.protocol(3, 7, **features), log.metadata())
    sidecar = log.checkpoint(1, log.add("a"), name="_sidecars/s.parquet")
    described = {"sidecar": {"path": "s.parquet", "sizeInBytes": sidecar.stat().st_size, "modificationTime": 1}}
    name = f"{1:020d}.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.json"
    small = [{"checkpointMetadata": {"version": 1}}, log.protocol(3, 7, **features), log.metadata(), described]
    log.write(name, "".join(json.dumps(action) + "\n" for action in [*small, log.add("b")]))
    with pytest.raises(CorruptLog, match="add actions itself and in sidecars"):
        opened(log.root).checkpoint_parts(files_per_part=1)


def test_a_path_that_is_live_in_two_parts_is_refused_once_all_are_read(log: Log) -> None:
    log.create()
    log.checkpoint(1, log.protocol(), log.metadata(), log.add("a"), log.add("a"))
    log.commit(1, {"commitInfo": {}})
    snapshot = opened(log.root)
    snapshot.check_parts(ChecksumTotals(num_files=2), repeated=False)
    with pytest.raises(CorruptLog, match="a is live twice"):
        snapshot.check_parts(ChecksumTotals(num_files=2), repeated=True)


def test_totals_of_the_parts_are_compared_with_the_checksum(log: Log) -> None:
    log.create(log.add("a"))
    log.write(f"{0:020d}.crc", json.dumps({"tableSizeBytes": 10, "numFiles": 1, "numMetadata": 1, "numProtocol": 1}))
    snapshot = opened(log.root)
    snapshot.check_parts(ChecksumTotals(num_files=1, size_in_bytes=10), repeated=False)
    with pytest.raises(CorruptLog, match="differ in numFiles"):
        snapshot.check_parts(ChecksumTotals(num_files=2, size_in_bytes=10), repeated=False)


def test_a_pickled_version_reads_its_tail_again_when_it_is_asked_for_files(log: Log) -> None:
    log.create(log.add("a"))
    snapshot = opened(log.root)
    copy: Snapshot = pickle.loads(pickle.dumps(snapshot))
    assert copy.timestamp_ms == snapshot.timestamp_ms
    assert rows(copy.add_files()) == rows(snapshot.add_files())
    log.write(f"{0:020d}.json", "broken")
    with pytest.raises(CorruptLog):
        list(pickle.loads(pickle.dumps(snapshot)).add_files())
