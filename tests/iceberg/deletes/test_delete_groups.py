"""Groups of equality deletes: what the resolver of a table makes one set of keys of, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from deltaberg.bitmap import PositionBitmap
from deltaberg.errors import DeltabergError
from deltaberg.iceberg.deletes import equality_deletes
from deltaberg.iceberg.deletes.delete_groups import DeleteGroups, with_equality_deletes
from deltaberg.iceberg.deletes.resolved_deletes import deleted_by_key, resolve_deletes
from deltaberg.iceberg.deletes.row_deletes import RowDeletes
from deltaberg.iceberg.partition.partition_spec import PartitionField, PartitionSpec
from deltaberg.iceberg.partition.transforms import IdentityTransform
from deltaberg.iceberg.scan.scan_task import matched_data_files, tasks
from deltaberg.iceberg.schema.schema import Schema
from deltaberg.iceberg.schema.types import LongType, NestedField, StringType

ID = NestedField(field_id=1, name="id", required=False, type=LongType())
PART = NestedField(field_id=2, name="p", required=False, type=StringType())
BY_PART = PartitionSpec(
    spec_id=1, fields=(PartitionField(source_ids=(2,), field_id=1000, name="p", transform=IdentityTransform()),)
)


@pytest.fixture
def stored(stored_table: Callable[..., Any]) -> Any:
    """Two partitions with deletes of their own, deletes of the whole table, by one key and by two."""
    made = stored_table(Schema(schema_id=0, fields=(ID, PART)), specs=(PartitionSpec(spec_id=0), BY_PART))
    for part in ("a", "b", "c"):
        rows = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "p": [part] * 3})
        made.data(rows, spec_id=1, partition={"p": part}, sequence_number=1)
    for part, ids, number in (("a", [1], 2), ("a", [2], 3), ("b", [3], 2)):
        made.equality_deletes(
            pa.table({"id": pa.array(ids, pa.int64())}), [1], spec_id=1, partition={"p": part}, sequence_number=number
        )
    made.equality_deletes(pa.table({"id": pa.array([2], pa.int64()), "p": ["b"]}), [2, 1], spec_id=0, sequence_number=4)
    made.equality_deletes(pa.table({"id": pa.array([9], pa.int64())}), [1], spec_id=0, sequence_number=1)
    return made


def test_deletes_of_one_partition_and_one_set_of_columns_are_one_group(stored: Any) -> None:
    table = stored.open()
    groups = DeleteGroups(RowDeletes(table, table.metadata.current_snapshot).index).groups
    assert [each.number for each in groups] == list(range(len(groups)))
    found = sorted((each.field_ids, each.newest, each.rows, each.entries.num_rows) for each in groups)
    assert found == [((1,), 1, 1, 1), ((1,), 2, 1, 1), ((1,), 3, 2, 2), ((1, 2), 4, 1, 1)]


def test_a_data_file_has_the_groups_that_are_newer_than_itself(stored: Any) -> None:
    table = stored.open()
    deletes = RowDeletes(table, table.metadata.current_snapshot)
    groups = DeleteGroups(deletes.index)
    newest = {}
    for batch, matches in matched_data_files(table, table.metadata.current_snapshot, deletes.index):
        for task in tasks(batch, matches, with_equality_deletes(matches)):
            found = groups.of(matches, task.row, task.sequence_number)
            newest[task.partition["p"].as_py()] = [(each.field_ids, each.newest) for each in found]
    assert newest == {
        "a": [((1,), 3), ((1, 2), 4)],
        "b": [((1,), 2), ((1, 2), 4)],
        "c": [((1, 2), 4)],
    }


def test_the_keys_of_the_groups_of_a_file_delete_what_the_table_deletes(stored: Any) -> None:
    table = stored.open()
    snapshot = table.metadata.current_snapshot
    deletes = RowDeletes(table, snapshot)
    groups = DeleteGroups(deletes.index)
    sets = {each.number: each.key_set(table.storage, table.metadata) for each in groups.groups}
    for batch, matches in matched_data_files(table, snapshot, deletes.index):
        for task in tasks(batch, matches, with_equality_deletes(matches)):
            filters = [
                equality_deletes.EqualityFilter(
                    columns=each.columns(table.metadata), keys=sets[each.number], sequence_number=task.sequence_number
                )
                for each in groups.of(matches, task.row, task.sequence_number)
            ]
            whole = deletes.equality_deletes.filters(matches, task.row, task.sequence_number)
            assert deleted_by_key(table, task, filters) == deleted_by_key(table, task, whole)


class Elsewhere:
    """What somebody else found, and which files were asked for."""

    def __init__(self, found: dict[str, list[int]]) -> None:
        self.found, self.asked = found, list[str]()

    def positions(self, file_path: str) -> PositionBitmap:
        self.asked.append(file_path)
        if file_path not in self.found:
            raise DeltabergError(f"Cannot tell what is deleted from {file_path}")
        return PositionBitmap.from_positions(pa.array(self.found[file_path], pa.int64()).to_numpy())


def test_deletes_resolved_elsewhere_are_taken_as_they_are_and_no_key_is_read(
    stored: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = stored.open()
    snapshot = table.metadata.current_snapshot
    expected = [
        (each.data_files["file_path"].to_pylist(), dict(each.merged)) for each in resolve_deletes(table, snapshot)
    ]
    assert {row: bitmap.to_positions().tolist() for row, bitmap in expected[0][1].items()} == {0: [0, 1], 1: [1, 2]}
    elsewhere = Elsewhere({path: [] for path in expected[0][0]})
    elsewhere.found |= {expected[0][0][row]: bitmap.to_positions().tolist() for row, bitmap in expected[0][1].items()}

    def never(*_: Any, **__: Any) -> Any:
        raise AssertionError("a key was read")

    monkeypatch.setattr(equality_deletes, "read_delete_keys", never)
    found = [
        (each.data_files["file_path"].to_pylist(), dict(each.merged))
        for each in resolve_deletes(table, snapshot, by_key=elsewhere)
    ]
    assert found == expected
    assert elsewhere.asked == expected[0][0]


def test_a_file_that_nobody_looked_at_elsewhere_is_an_error(stored: Any) -> None:
    table = stored.open()
    with pytest.raises(DeltabergError, match="Cannot tell what is deleted from"):
        list(resolve_deletes(table, table.metadata.current_snapshot, by_key=Elsewhere({})))
