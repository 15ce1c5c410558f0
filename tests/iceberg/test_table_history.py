"""Whatever is committed in whatever order: the live files, their numbers and the totals are those of a plain model."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace

import pyarrow as pa
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from deltaberg.iceberg.create_table import create_table
from deltaberg.iceberg.manifest.live_files import data_files
from deltaberg.iceberg.metadata.snapshot_ref import RefType
from deltaberg.iceberg.partition.partition_spec import PartitionField, PartitionSpec
from deltaberg.iceberg.partition.transforms import IdentityTransform
from deltaberg.iceberg.schema.schema import Schema
from deltaberg.iceberg.schema.types import LongType, NestedField
from deltaberg.iceberg.table import Table
from deltaberg.storage import open_storage

SCHEMA = Schema(
    schema_id=0,
    fields=tuple(
        NestedField(field_id=number, name=name, required=False, type=LongType())
        for number, name in ((1, "a"), (2, "b"))
    ),
)
SPECS = (
    PartitionSpec(spec_id=0),
    PartitionSpec(
        spec_id=1,
        fields=(PartitionField(source_ids=(1,), field_id=1000, name="a", transform=IdentityTransform()),),
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """What the model knows of a live file; ``first_row_id`` None: not checked yet."""

    rows: int
    spec_id: int
    sequence_number: int
    snapshot_id: int
    first_row_id: int | None = None


class TableHistory(RuleBasedStateMachine):
    """Commits of every kind, some of them on top of a version that is no longer current."""

    @initialize(version=st.sampled_from([1, 2, 3]), merge=st.integers(1, 4), size=st.sampled_from([1, 1 << 20]))
    def create(self, version: int, merge: int, size: int) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.version = version
        properties = {
            "commit.manifest.min-count-to-merge": str(merge),
            "commit.manifest.target-size-bytes": str(size),
            "commit.retry.min-wait-ms": "0",
        }
        self.table = create_table(
            open_storage(), f"{self.folder.name}/t", schema=SCHEMA, format_version=version, properties=properties
        ).commit()
        self.stale = self.table
        self.files: dict[str, File] = {}
        self.tags: dict[str, dict[str, File]] = {}
        self.names = 0
        self.row_ids: dict[str, int] = {}

    def teardown(self) -> None:
        if hasattr(self, "folder"):
            self.folder.cleanup()

    def batch(self, rows: list[int], spec_id: int) -> tuple[pa.RecordBatch, list[str]]:
        paths = [f"/data/{self.names + number}" for number in range(len(rows))]
        self.names += len(rows)
        partition = pa.array(
            [{"a": number} if spec_id else {} for number in rows], SPECS[spec_id].arrow_partition_type(SCHEMA)
        )
        columns = {
            "file_path": pa.array(paths, pa.string()),
            "file_format": pa.array(["parquet"] * len(rows), pa.string()),
            "spec_id": pa.array([spec_id] * len(rows), pa.int32()),
            "partition": partition,
            "record_count": pa.array(rows, pa.int64()),
            "file_size_in_bytes": pa.array(rows, pa.int64()),
        }
        return pa.record_batch(columns), paths

    def numbers(self) -> tuple[int, int]:
        snapshot = self.table.metadata.current_snapshot
        assert snapshot is not None
        return snapshot.sequence_number, snapshot.snapshot_id

    def added(self, paths: list[str], rows: list[int], spec_id: int) -> None:
        sequence_number, snapshot_id = self.numbers()
        for path, count in zip(paths, rows, strict=True):
            self.files[path] = File(
                rows=count, spec_id=spec_id, sequence_number=sequence_number, snapshot_id=snapshot_id
            )

    @rule(rows=st.lists(st.integers(0, 5), max_size=4), spec_id=st.integers(0, 1), on_stale=st.booleans())
    def append(self, rows: list[int], spec_id: int, on_stale: bool) -> None:
        base = self.stale if on_stale and self.stale.metadata.format_version == self.version else self.table
        if spec_id and len(base.metadata.partition_specs) == 1:
            spec_id = 0
        batch, paths = self.batch(rows, spec_id)
        transaction = base.transaction()
        transaction.snapshot("append").add_files(batch, spec_id)
        self.table = transaction.commit()
        self.added(paths, rows, spec_id)

    @precondition(lambda self: self.files)
    @rule(data=st.data(), rows=st.lists(st.integers(1, 5), max_size=2))
    def overwrite(self, data: st.DataObject, rows: list[int]) -> None:
        gone = data.draw(st.lists(st.sampled_from(sorted(self.files)), min_size=1, max_size=4, unique=True))
        batch, paths = self.batch(rows, 0)
        transaction = self.table.transaction()
        builder = transaction.snapshot("overwrite").add_files(batch, 0)
        builder.delete_files(pa.record_batch({"file_path": pa.array(gone, pa.string())}))
        self.table = transaction.commit()
        for path in gone:
            del self.files[path]
        self.added(paths, rows, 0)

    @precondition(lambda self: self.files)
    @rule()
    def delete_everything(self) -> None:
        transaction = self.table.transaction()
        transaction.snapshot("delete").delete_everything()
        self.table = transaction.commit()
        self.files = {}

    @rule()
    def two_at_once(self) -> None:
        transaction = self.table.transaction()
        first, one = self.batch([1], 0)
        second, two = self.batch([2, 3], 0)
        transaction.snapshot("append", snapshot_id=10_000 + self.names).add_files(first, 0)
        transaction.snapshot("append").add_files(second, 0)
        self.table = transaction.commit()
        sequence_number, snapshot_id = self.numbers()
        self.added(two, [2, 3], 0)
        self.files[one[0]] = File(
            rows=1,
            spec_id=0,
            sequence_number=max(0, sequence_number - 1),
            snapshot_id=self.table.metadata.snapshots[-2].snapshot_id,
        )
        assert snapshot_id == self.table.metadata.snapshots[-1].snapshot_id

    @rule()
    def partition(self) -> None:
        transaction = self.table.transaction()
        transaction.set_spec(SPECS[1])
        self.table = transaction.commit()

    @precondition(lambda self: self.version < 3)
    @rule()
    def upgrade(self) -> None:
        self.version += 1
        self.table = self.table.transaction().upgrade(self.version).commit()

    @rule()
    def remember_this_version(self) -> None:
        self.stale = self.table

    @precondition(lambda self: self.table.metadata.current_snapshot_id is not None)
    @rule(name=st.sampled_from(["x", "y"]))
    def tag(self, name: str) -> None:
        current = self.table.metadata.current_snapshot_id
        assert current is not None
        self.table = self.table.transaction().set_ref(name, current, type=RefType.TAG).commit()
        self.tags[name] = dict(self.files)

    @invariant()
    def live_files_are_those_of_the_model(self) -> None:
        if not hasattr(self, "table"):
            return
        table = Table.open(self.table.location, open_storage())
        assert table.metadata == self.table.metadata
        self.compare(table, self.files, current=True)
        for name, files in self.tags.items():
            self.compare(table, files, ref=name)

    def compare(self, table: Table, files: dict[str, File], *, ref: str | None = None, current: bool = False) -> None:
        snapshot = table.snapshot_for(ref=ref)
        rows = [row for batch in data_files(table, snapshot) for row in batch.to_pylist()]
        found = {
            row["file_path"]: File(
                rows=row["record_count"],
                spec_id=row["spec_id"],
                sequence_number=row["sequence_number"],
                snapshot_id=row["snapshot_id"],
            )
            for row in rows
        }
        assert len(found) == len(rows)
        assert found == {path: replace(file, first_row_id=None) for path, file in files.items()}
        if snapshot is None:
            return
        if current:
            assert snapshot.summary["total-data-files"] == str(len(files))
            assert snapshot.summary["total-records"] == str(sum(file.rows for file in files.values()))
            assert snapshot.summary["total-files-size"] == snapshot.summary["total-records"]
        if snapshot.first_row_id is not None:
            self.check_row_ids(table, rows, current=current)

    def check_row_ids(self, table: Table, rows: list[dict[str, int]], *, current: bool) -> None:
        """Disjoint ranges below next-row-id, which no later commit on main changes."""
        taken: set[int] = set()
        for row in rows:
            ids = range(row["first_row_id"], row["first_row_id"] + row["record_count"])
            assert not taken & set(ids)
            taken |= set(ids)
            if current:
                known = self.row_ids.setdefault(str(row["file_path"]), row["first_row_id"])
                assert known == row["first_row_id"]
        assert table.metadata.next_row_id is not None
        assert all(row_id < table.metadata.next_row_id for row_id in taken)


TestTableHistory = TableHistory.TestCase
TestTableHistory.settings = settings(max_examples=25, stateful_step_count=15, deadline=None)
