"""Row ids: assigned once, never twice, and kept where they were given."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaberg.delta.create_table import create_table, new_metadata
from deltaberg.delta.errors import CorruptLog, InvalidDeltaRequest
from deltaberg.delta.log.actions import DomainMetadata
from deltaberg.delta.protocol import row_tracking
from deltaberg.delta.schema.types import LongType, StructField, StructType
from deltaberg.delta.snapshot import Snapshot
from deltaberg.delta.table import DeltaTable
from deltaberg.delta.transaction import begin_transaction
from deltaberg.storage import open_storage

STORAGE = open_storage()
SCHEMA = StructType(fields=(StructField(name="id", type=LongType()),))
ENABLED = {"delta.enableRowTracking": "true"}
MakeFile = Callable[..., pa.RecordBatch]


def files(counts: list[int | None], ids: list[int | None] | None = None) -> pa.RecordBatch:
    size = len(counts)
    return pa.RecordBatch.from_arrays(
        [
            pa.array([f"f{number}" for number in range(size)]),
            pa.array([{"num_records": count} for count in counts], pa.struct([("num_records", pa.int64())])),
            pa.array(ids or [None] * size, pa.int64()),
            pa.nulls(size, pa.int64()),
        ],
        names=["path", "stats", "base_row_id", "default_row_commit_version"],
    )


@given(
    st.lists(st.lists(st.tuples(st.integers(0, 100), st.booleans()), max_size=8), max_size=4), st.integers(-1, 10**6)
)
def test_assigned_ranges_never_overlap(batches: list[list[tuple[int, bool]]], mark: int) -> None:
    made = [
        files(
            [count for count, _ in each],
            [10**9 + number if given_ else None for number, (_, given_) in enumerate(each)],
        )
        for each in batches
        if each
    ]
    assigned = list(row_tracking.assign(made, mark=mark, version=7))
    taken: set[int] = set()
    for before, after in zip(made, assigned, strict=True):
        for row, was in zip(after.to_pylist(), before.to_pylist(), strict=True):
            assert row["default_row_commit_version"] == 7
            if was["base_row_id"] is not None:
                assert row["base_row_id"] == was["base_row_id"]
                continue
            ids = range(row["base_row_id"], row["base_row_id"] + row["stats"]["num_records"])
            assert row["base_row_id"] > mark
            assert taken.isdisjoint(ids)
            taken.update(ids)
    fresh = list(taken)
    assert not fresh or max(fresh) == mark + len(fresh)


def test_the_highest_id_counts_the_rows() -> None:
    assert row_tracking.highest_id(files([3, 5], [10, 2])) == 12
    assert row_tracking.highest_id(files([3])) == -1


def test_a_file_without_count_cannot_get_ids() -> None:
    with pytest.raises(InvalidDeltaRequest, match="the file has no numRecords") as caught:
        list(row_tracking.assign([files([1, None])], mark=0, version=1))
    assert caught.value.path == "f1"


def test_ids_run_out() -> None:
    with pytest.raises(InvalidDeltaRequest, match="they would pass 9223372036854775807"):
        list(row_tracking.assign([files([10])], mark=2**63 - 5, version=1))


@pytest.mark.parametrize(
    ("configuration", "expected"),
    [('{"rowIdHighWaterMark":41,"domainName":"delta.rowTracking"}', 41), ('{"rowIdHighWaterMark":-1}', -1)],
)
def test_the_high_water_mark_is_read(configuration: str, expected: int) -> None:
    domain = DomainMetadata(domain="delta.rowTracking", configuration=configuration)
    assert row_tracking.high_water_mark([DomainMetadata(domain="x", configuration=""), domain]) == expected


def test_without_its_domain_nothing_was_assigned() -> None:
    gone = DomainMetadata(domain="delta.rowTracking", configuration='{"rowIdHighWaterMark":9}', removed=True)
    assert row_tracking.high_water_mark([gone]) == -1


@pytest.mark.parametrize(
    "configuration",
    ["", "[]", "{}", '{"rowIdHighWaterMark":"9"}', '{"rowIdHighWaterMark":true}', '{"rowIdHighWaterMark":-2}'],
)
def test_a_configuration_that_says_no_number_is_corrupt(configuration: str) -> None:
    with pytest.raises(CorruptLog, match=r"Cannot read the domain delta\.rowTracking"):
        row_tracking.high_water_mark([DomainMetadata(domain="delta.rowTracking", configuration=configuration)])


class TestCommits:
    @pytest.fixture
    def root(self, tmp_path: Path) -> Path:
        return tmp_path / "table"

    def make(self, root: Path, configuration: dict[str, str], *files: pa.RecordBatch) -> None:
        metadata = new_metadata(SCHEMA, table_id="t", created_time_ms=1, configuration=configuration)
        create = create_table(STORAGE, str(root), metadata=metadata)
        create.add_files(files)
        create.commit("WRITE")

    def newest(self, root: Path) -> Snapshot:
        return DeltaTable.open(str(root), STORAGE).snapshot()

    def ids(self, root: Path) -> dict[str, tuple[int | None, int | None]]:
        return {
            row["path"]: (row["base_row_id"], row["default_row_commit_version"])
            for batch in self.newest(root).add_files()
            for row in batch.to_pylist()
        }

    def mark(self, root: Path) -> int:
        return row_tracking.high_water_mark(self.newest(root).domain_metadata.values())

    def test_ids_given_by_the_caller_stay_and_lift_the_mark(self, root: Path, data_file: MakeFile) -> None:
        one = data_file(pa.table({"id": [1, 2]}), path="a")
        one = one.append_column("base_row_id", pa.array([100])).append_column(
            "default_row_commit_version", pa.array([7])
        )
        self.make(root, ENABLED, one, data_file(pa.table({"id": [3]}), path="b"))
        assert self.ids(root) == {"a": (100, 7), "b": (102, 0)}
        assert self.mark(root) == 102
        after = begin_transaction(self.newest(root))
        after.add_files([data_file(pa.table({"id": [4]}), path="c")])
        after.commit("WRITE")
        assert self.ids(root)["c"] == (103, 1)

    def test_a_commit_without_new_ids_leaves_the_mark_alone(self, root: Path, data_file: MakeFile) -> None:
        self.make(root, ENABLED, data_file(pa.table({"id": [1]})))
        transaction = begin_transaction(self.newest(root))
        transaction.remove_files(transaction.base.add_files())  # type: ignore[union-attr]
        transaction.commit("DELETE")
        log = (root / "_delta_log" / f"{1:020d}.json").read_text()
        assert "domainMetadata" not in log
        assert json.loads(log.splitlines()[1])["remove"]["baseRowId"] == 0

    def test_while_it_is_suspended_none_are_assigned(self, root: Path, data_file: MakeFile) -> None:
        metadata = new_metadata(
            SCHEMA, table_id="t", created_time_ms=1, configuration={"delta.rowTrackingSuspended": "true"}
        )
        create = create_table(STORAGE, str(root), metadata=metadata, features=["rowTracking", "domainMetadata"])
        create.add_files([data_file(pa.table({"id": [1]}), path="a")])
        create.commit("WRITE")
        assert self.ids(root) == {"a": (None, None)}

    def test_backfill_then_enable(self, root: Path, data_file: MakeFile) -> None:
        self.make(root, {}, data_file(pa.table({"id": [1, 2]}), path="a"), data_file(pa.table({"id": [3]}), path="b"))
        enabled = new_metadata(SCHEMA, table_id="t", created_time_ms=1, configuration=ENABLED)
        early = begin_transaction(self.newest(root))
        early.set_metadata(enabled)
        with pytest.raises(InvalidDeltaRequest, match="a live file has no baseRowId"):
            early.commit("SET TBLPROPERTIES")
        backfill = begin_transaction(self.newest(root))
        backfill.set_metadata(enabled)
        backfill.add_files(self.newest(root).add_files(), recommitted=True)
        backfill.commit("ROW TRACKING BACKFILL")
        assert self.ids(root) == {"a": (0, 1), "b": (2, 1)}
        assert self.mark(root) == 2
        assert json.loads((root / "_delta_log" / f"{1:020d}.crc").read_text())["numFiles"] == 2
