"""Equality deletes become deletion vectors: whatever came in which order, under which spec, with which nulls.

What is deleted is worked out row by row from the specification ("Scan Planning"); where DuckDB reads the source, it
has to agree. delta-rs reads the targets.
"""

from __future__ import annotations

import math
import tempfile
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deltaberg.iceberg.create_table import create_table
from deltaberg.iceberg.manifest.data_file import EQUALITY_DELETES, POSITION_DELETES
from deltaberg.iceberg.partition.partition_spec import UNPARTITIONED, PartitionField, PartitionSpec
from deltaberg.iceberg.partition.transforms import parse_transform
from deltaberg.iceberg.schema.schema import Schema
from deltaberg.iceberg.schema.types import DoubleType, IntegerType, LongType, NestedField, StringType
from deltaberg.iceberg.table import Table
from deltaberg.migrate.convert import convert
from deltaberg.migrate.refusal import Refused
from deltaberg.migrate.sync import sync
from deltaberg.migrate.verify.verify import verify
from deltaberg.storage import open_storage

pytest.importorskip("deltalake")

SCHEMA = Schema(
    schema_id=0,
    fields=(
        NestedField(field_id=1, name="row", required=True, type=LongType()),
        NestedField(field_id=2, name="a", required=False, type=IntegerType()),
        NestedField(field_id=3, name="b", required=False, type=StringType()),
        NestedField(field_id=4, name="p", required=False, type=IntegerType()),
        NestedField(field_id=5, name="x", required=False, type=DoubleType()),
    ),
)
ARROW = pa.schema(
    [
        pa.field("row", pa.int64(), nullable=False),
        ("a", pa.int32()),
        ("b", pa.string()),
        ("p", pa.int32()),
        ("x", pa.float64()),
    ]
)
IDS = {"row": 1, "a": 2, "b": 3, "p": 4, "x": 5}
BY_P = PartitionSpec(
    spec_id=0,
    fields=(PartitionField(source_ids=(4,), field_id=1000, name="p", transform=parse_transform("identity")),),
)
EXAMPLES = settings(max_examples=30, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))

A = st.sampled_from([None, 0, 1, 2])
B = st.sampled_from([None, "", "k", "l"])
P = st.sampled_from([None, 0, 1])
X = st.sampled_from([None, 0.0, -0.0, math.nan, 1.5])


@dataclass(kw_only=True)
class Model:
    """A table as the specification sees it: rows with the sequence number and partition of their file."""

    root: str
    sequence: int = 0
    number: int = 0
    files: list[tuple[int, str, tuple[Any, ...], list[dict[str, Any]]]] = field(default_factory=list)
    deleted: set[int] = field(default_factory=set)

    def append(
        self, write: Callable[..., pa.RecordBatch], spec: PartitionSpec, drawn: list[tuple[Any, ...]], p: Any
    ) -> None:
        rows = []
        for a, b, x, own in drawn:
            rows.append({"row": self.number, "a": a, "b": b, "p": p if spec.fields else own, "x": x})
            self.number += 1
        entry = write(self.root, SCHEMA, pa.Table.from_pylist(rows, ARROW), spec)
        self._commit("append", entry, spec)
        path = entry.column("file_path")[0].as_py()
        self.files.append((self.sequence, path, (spec.spec_id, p) if spec.fields else (), rows))

    def delete_equal(self, spec: PartitionSpec, p: Any, columns: list[str], keys: list[dict[str, Any]]) -> None:
        """Delete what equals one of the keys from files of lower sequence numbers: of the partition, or of all."""
        place = Path(self.root) / "data" / f"{uuid.uuid4()}-equality.parquet"
        stored = pa.schema(
            [
                ARROW.field(name).with_nullable(True).with_metadata({"PARQUET:field_id": str(IDS[name])})
                for name in columns
            ]
        )
        pq.write_table(pa.Table.from_pylist(keys, stored), place)
        ids = [IDS[name] for name in columns]
        self._commit("delete", self._delete_entry(place, EQUALITY_DELETES, len(keys), spec, p, equality_ids=ids), spec)
        for sequence, _, partition, rows in self.files:
            if sequence < self.sequence and (not spec.fields or partition == (spec.spec_id, p)):
                for row in rows:
                    if any(all(_same(row[name], key[name]) for name in columns) for key in keys):
                        self.deleted.add(row["row"])

    def delete_positions(self, file: int, positions: list[int], specs: dict[int, PartitionSpec]) -> None:
        _, path, partition, rows = self.files[file]
        spec, p = (specs[partition[0]], partition[1]) if partition else (specs[1], None)
        place = Path(self.root) / "data" / f"{uuid.uuid4()}-positions.parquet"
        schema = pa.schema(
            [
                pa.field("file_path", pa.string(), nullable=False, metadata={"PARQUET:field_id": "2147483546"}),
                pa.field("pos", pa.int64(), nullable=False, metadata={"PARQUET:field_id": "2147483545"}),
            ]
        )
        pq.write_table(pa.table([[path] * len(positions), sorted(positions)], schema=schema), place)
        self._commit("delete", self._delete_entry(place, POSITION_DELETES, len(positions), spec, p), spec)
        self.deleted.update(rows[position]["row"] for position in positions)

    def rows(self) -> pa.Table:
        live = [row for *_, rows in self.files for row in rows if row["row"] not in self.deleted]
        return pa.Table.from_pylist(live, ARROW)

    def _delete_entry(
        self,
        place: Path,
        content: int,
        count: int,
        spec: PartitionSpec,
        p: Any,
        *,
        equality_ids: list[int] | None = None,
    ) -> pa.RecordBatch:
        return pa.record_batch(
            {
                "content": pa.array([content], pa.int32()),
                "file_path": pa.array([str(place)]),
                "file_format": pa.array(["parquet"]),
                "partition": pa.array([{"p": p} if spec.fields else {}], spec.arrow_partition_type(SCHEMA)),
                "record_count": pa.array([count]),
                "file_size_in_bytes": pa.array([place.stat().st_size]),
                "spec_id": pa.array([spec.spec_id], pa.int32()),
                "equality_ids": pa.array([equality_ids], pa.list_(pa.field("element", pa.int32(), nullable=False))),
            }
        )

    def _commit(self, operation: str, entry: pa.RecordBatch, spec: PartitionSpec) -> None:
        with Table.open(self.root, open_storage()).transaction() as transaction:
            transaction.snapshot(operation).add_files(entry, spec.spec_id)
            self.sequence = transaction.commit().metadata.last_sequence_number


def _same(value: Any, key: Any) -> bool:
    """Null equals null; NaN equals NaN; the two zeros differ (section "Equality Delete Files")."""
    if value is None or key is None:
        return value is key
    if isinstance(value, float):
        return math.isnan(value) == math.isnan(key) and (
            math.isnan(value) or (value == key and math.copysign(1, value) == math.copysign(1, key))
        )
    return bool(value == key)


def new_table(root: str) -> dict[int, PartitionSpec]:
    """A table of version 2 with two specs: by ``p``, and none."""
    with create_table(open_storage(), root, schema=SCHEMA, spec=BY_P, format_version=2) as transaction:
        transaction.commit()
    plain = PartitionSpec(spec_id=1, fields=UNPARTITIONED.fields)
    with Table.open(root, open_storage()).transaction() as transaction:
        assert transaction.set_spec(plain) == 1
        transaction.commit()
    return {0: BY_P, 1: plain}


ROWS = st.lists(st.tuples(A, B, X, P), min_size=1, max_size=4)
KEYS: dict[str, st.SearchStrategy[Any]] = {"a": A, "b": B, "x": st.sampled_from([None, math.nan, 1.5]), "p": P}


@st.composite
def steps(draw: st.DrawFn) -> list[tuple[Any, ...]]:
    """What happens to a table: appends and deletes in any order, an append first."""
    made: list[tuple[Any, ...]] = [("append", draw(st.integers(0, 1)), draw(P), draw(ROWS))]
    for _ in range(draw(st.integers(1, 5))):
        match draw(st.sampled_from(["append", "equal", "equal", "positions"])):
            case "append":
                made.append(("append", draw(st.integers(0, 1)), draw(P), draw(ROWS)))
            case "equal":
                columns = draw(st.lists(st.sampled_from(sorted(KEYS)), min_size=1, max_size=3, unique=True))
                keys = draw(
                    st.lists(st.fixed_dictionaries({name: KEYS[name] for name in columns}), min_size=1, max_size=3)
                )
                made.append(("equal", draw(st.integers(0, 1)), draw(P), columns, keys))
            case _:
                appended = [step for step in made if step[0] == "append"]
                file = draw(st.integers(0, len(appended) - 1))
                rows = range(len(appended[file][3]))
                made.append(("positions", file, draw(st.lists(st.sampled_from(rows), min_size=1, unique=True))))
    return made


@EXAMPLES
@given(made=steps())
def test_rows_are_those_that_the_specification_leaves(
    made: list[tuple[Any, ...]],
    write_iceberg_file: Any,
    opened: Any,
    delta_rows: Any,
    difference: Any,
    independent: Any,
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = f"{folder}/iceberg"
        specs, model = new_table(root), Model(root=root)
        for step in made:
            match step:
                case ("append", spec, p, rows):
                    model.append(write_iceberg_file, specs[spec], rows, p)
                case ("equal", spec, p, columns, keys):
                    model.delete_equal(specs[spec], p, columns, keys)
                case (_, file, positions):
                    model.delete_positions(file, positions, specs)
        wanted = model.rows()
        source = opened(root)
        done = convert(source, to="delta", target=f"{folder}/delta")
        assert done.rows == wanted.num_rows
        assert done.rewritten_files == 0
        found = difference(delta_rows(done.target), wanted, signed_zero=True)
        assert not found, found
        report = verify(source, opened(done.target), rows=True, bounds=True)
        assert report.equal, report.to_json()
        back = convert(opened(done.target), to="iceberg", target=f"{folder}/back")
        found = difference(independent.read("pyiceberg", back.target_metadata), wanted, signed_zero=True)
        assert not found, found


@settings(EXAMPLES, max_examples=10)
@given(made=steps(), stops=st.lists(st.booleans(), min_size=6, max_size=6))
def test_a_target_that_follows_has_the_rows_that_the_specification_leaves(
    made: list[tuple[Any, ...]],
    stops: list[bool],
    write_iceberg_file: Any,
    opened: Any,
    delta_rows: Any,
    difference: Any,
) -> None:
    """Synchronised after some of the steps, each of the others made up for by the next."""
    with tempfile.TemporaryDirectory() as folder:
        root, target = f"{folder}/iceberg", f"{folder}/delta"
        specs, model = new_table(root), Model(root=root)
        for number, step in enumerate(made):
            match step:
                case ("append", spec, p, rows):
                    model.append(write_iceberg_file, specs[spec], rows, p)
                case ("equal", spec, p, columns, keys):
                    model.delete_equal(specs[spec], p, columns, keys)
                case (_, file, positions):
                    model.delete_positions(file, positions, specs)
            if number == 0 or stops[number] or number == len(made) - 1:
                specs_in_use = {each[1] for each in made[: number + 1] if each[0] == "append"}
                if specs_in_use == {0, 1} and made[0][1] == 0:
                    # Files of the other spec have no value for the target's partition column.
                    with pytest.raises(Refused, match="change-not-followed: partition columns"):
                        sync(opened(root), to="delta", target=target)
                    return
                sync(opened(root), to="delta", target=target)
                found = difference(delta_rows(target), model.rows(), signed_zero=True)
                assert not found, found
        assert verify(opened(root), opened(target), rows=True, bounds=True).equal


def test_duckdb_reads_the_same_rows_from_the_source(
    tmp_path: Path, write_iceberg_file: Any, opened: Any, delta_rows: Any, difference: Any, independent: Any
) -> None:
    """Deletes of the whole table, one of them older than half of the files, a null key, two columns at once.

    Those of one partition are left out: DuckDB applies them to all partitions.
    """
    root = str(tmp_path / "iceberg")
    specs, model = new_table(root), Model(root=root)
    rows = [(1, "k", 1.5, 0), (2, "k", None, 0), (None, "l", 1.5, 1), (0, None, 2.5, None)]
    model.append(write_iceberg_file, specs[0], rows, 0)
    model.append(write_iceberg_file, specs[0], rows, 1)
    model.delete_equal(specs[1], None, ["a"], [{"a": 1}, {"a": None}])
    model.append(write_iceberg_file, specs[0], rows, 0)
    model.delete_equal(specs[1], None, ["a", "b"], [{"a": 2, "b": "k"}])
    model.append(write_iceberg_file, specs[1], rows, None)
    model.delete_positions(2, [0], specs)
    wanted = model.rows()
    assert wanted.num_rows == 16 - 4 - 3 - 1
    source = opened(root)
    got = independent.read("duckdb-iceberg", Path(source.table.metadata_location))
    assert not difference(got, wanted), difference(got, wanted)
    done = convert(source, to="delta", target=str(tmp_path / "delta"))
    assert not difference(delta_rows(done.target), wanted)
    assert {item.code for item in done.plan.items} >= {"equality-deletes-resolved", "position-deletes-merged"}
    assert done.plan.deletes == {"vectors": 0, "position": 1, "equality": 2, "rows": 0}
