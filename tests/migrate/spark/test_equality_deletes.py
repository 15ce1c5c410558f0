"""What tasks find of equality deletes is what the table itself finds, whatever the keys, the scopes and the schemas."""

from __future__ import annotations

import itertools
import json
import pickle
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deltaberg.datafile.errors import DataFileError
from deltaberg.errors import EngineFailed
from deltaberg.iceberg.deletes.delete_groups import DeleteGroup
from deltaberg.iceberg.deletes.resolved_deletes import resolve_deletes
from deltaberg.iceberg.manifest.live_files import delete_files
from deltaberg.iceberg.partition.partition_spec import PartitionField, PartitionSpec
from deltaberg.iceberg.partition.transforms import IdentityTransform, parse_transform
from deltaberg.iceberg.schema.schema import Schema
from deltaberg.iceberg.schema.types import (
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    Type,
)
from deltaberg.iceberg.table import Table
from deltaberg.migrate.spark import equality_deletes, equality_tasks
from deltaberg.migrate.spark.equality_deletes import Limits, resolve_equality_deletes
from deltaberg.migrate.spark.equality_tasks import EqualityTasks
from deltaberg.migrate.spark.staged_positions import FileList, StagedPositions
from deltaberg.migrate.spark.tasks import SparkWork
from deltaberg.storage import open_storage

Found = list[tuple[list[str], list[Any], dict[int, list[int]]]]


def _joined(
    _: Any, job: EqualityTasks, groups: Sequence[Any], lists: Sequence[tuple[int, FileList]], __: Any
) -> Iterator[tuple[int, str, int]]:
    """What Spark's join does, row by row."""
    newest: dict[bytes, int] = {}
    for group in sorted({number for _, each in lists for number in each.joined}):
        for part in equality_deletes._parts(groups[group], 2, 1):
            for keys, number in job.delete_keys(group, *part):
                for key in keys.to_pylist():
                    newest[key] = max(number, newest.get(key, number))
    rows = [row for number, each in lists for batch in job.data_keys(number, each) for row in batch.to_pylist()]
    deleted = [row for row in rows if newest.get(row["key"], -1) > row["sequence_number"]]
    deleted.sort(key=lambda row: row["file"])
    schema = pa.schema(
        [("file", pa.int64()), ("position", pa.int64()), ("positions", pa.binary()), ("failure", pa.binary())]
    )
    batches = [
        pa.RecordBatch.from_pylist([{"failure": None, **row} for row in deleted[start : start + 3]], schema=schema)
        for start in range(0, len(deleted), 3)
    ]
    for batch in equality_deletes._in_staging_tasks(job)(batches):
        yield pickle.loads(batch.column("payload")[0].as_py())


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch, in_this_process: Any) -> Any:
    monkeypatch.setattr(equality_deletes, "_join", _joined)
    monkeypatch.setattr(equality_tasks, "_HOT_ROWS", 2)
    return in_this_process


def plain(resolved: Any) -> Found:
    return [
        (
            each.data_files["file_path"].to_pylist(),
            each.vectors.to_pylist(),
            {row: bitmap.to_positions().tolist() for row, bitmap in each.merged.items()},
        )
        for each in resolved
    ]


def found_by_tasks(work: Any, table: Table, folder: str, limits: Limits) -> tuple[Found, StagedPositions]:
    snapshot = table.metadata.current_snapshot
    assert snapshot is not None
    staged = resolve_equality_deletes(work, table, snapshot, folder=folder, limits=limits)
    staged = pickle.loads(pickle.dumps(staged))
    return plain(resolve_deletes(table, snapshot, by_key=staged.reader())), staged


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """A column of the generated tables before and after its type was promoted, its name changed or it was dropped."""

    field_id: int
    old: tuple[str, Type, pa.DataType] | None
    new: tuple[str, Type, pa.DataType] | None
    values: tuple[Any, ...]

    def field(self, *, newest: bool) -> NestedField | None:
        chosen = self.new if newest else self.old
        return (
            None
            if chosen is None
            else NestedField(field_id=self.field_id, name=chosen[0], required=False, type=chosen[1])
        )


NAN, OTHER_NAN = (float(np.array(bits, np.uint64).view(np.float64)) for bits in (0x7FF8 << 48, 0xFFF8 << 48 | 5))
LONG, INT, TEXT = ("k", LongType(), pa.int64()), ("k", IntegerType(), pa.int32()), ("t", StringType(), pa.string())
SHORT_DECIMAL = ("d", DecimalType(precision=5, scale=2), pa.decimal128(5, 2))
LONG_DECIMAL = ("d", DecimalType(precision=9, scale=2), pa.decimal128(9, 2))
KEYS = (
    Key(field_id=1, old=INT, new=LONG, values=(None, 0, 2**31 - 1)),
    Key(
        field_id=2,
        old=("f", FloatType(), pa.float32()),
        new=("f", DoubleType(), pa.float64()),
        values=(None, 0.0, -0.0, NAN, OTHER_NAN, 1.5),
    ),
    Key(field_id=3, old=("s", StringType(), pa.string()), new=TEXT, values=(None, "", "a", "ab", "é")),
    Key(field_id=4, old=SHORT_DECIMAL, new=LONG_DECIMAL, values=(None, Decimal("0.00"), Decimal("1.50"))),
    Key(field_id=5, old=("gone", LongType(), pa.int64()), new=None, values=(None, 7, 8)),
    Key(
        field_id=6, old=("p", StringType(), pa.string()), new=("p", StringType(), pa.string()), values=(None, "x", "y")
    ),
    Key(field_id=7, old=None, new=("late", LongType(), pa.int64()), values=(None, 3)),
)
SCHEMAS = tuple(
    Schema(
        schema_id=number,
        fields=tuple(field for key in KEYS if (field := key.field(newest=bool(number))) is not None),
    )
    for number in (0, 1)
)
BY_TEXT = PartitionField(source_ids=(6,), field_id=1000, name="p", transform=IdentityTransform())
BY_BUCKET = PartitionField(source_ids=(1,), field_id=1001, name="b", transform=parse_transform("bucket[2]"))
SPECS = (
    PartitionSpec(spec_id=0),
    PartitionSpec(spec_id=1, fields=(BY_TEXT,)),
    PartitionSpec(spec_id=2, fields=(BY_TEXT, BY_BUCKET)),
)
PARTS = ({}, {"p": [None, "x", "y"]}, {"p": [None, "x"], "b": [0, 1]})


def _rows(draw: st.DrawFn, keys: Sequence[Key], *, newest: bool, most: int) -> tuple[pa.Table, dict[str, int]]:
    count = draw(st.integers(1, most))
    columns, ids = {}, {}
    for key in keys:
        name, _, kind = (key.new if newest and key.new else key.old) or key.new or LONG
        columns[name] = pa.array([draw(st.sampled_from(key.values)) for _ in range(count)], kind)
        ids[name] = key.field_id
    return pa.table(columns), ids


def _place(draw: st.DrawFn) -> dict[str, Any]:
    spec = draw(st.sampled_from([0, 0, 1, 1, 2]))
    partition = {name: draw(st.sampled_from(values)) for name, values in PARTS[spec].items()}
    return {"spec_id": spec, "partition": partition, "sequence_number": draw(st.integers(1, 3))}


@st.composite
def stored(draw: st.DrawFn) -> Callable[..., Any]:
    """A table to lay down in a folder."""
    steps: list[tuple[str, list[Any], dict[str, Any]]] = []
    for _ in range(draw(st.integers(1, 4))):
        newest = draw(st.booleans())
        held = [key for key in KEYS if (key.new if newest else key.old) is not None and draw(st.integers(0, 5))]
        rows, ids = _rows(draw, held or KEYS[:1], newest=newest, most=8)
        steps.append(("data", [rows], {"ids": ids, **_place(draw)}))
    for _ in range(draw(st.integers(2, 6))):
        some = draw(st.sampled_from([KEYS[:1], KEYS[:2], KEYS]))
        keys = draw(st.lists(st.sampled_from(some), min_size=1, max_size=2, unique_by=lambda key: key.field_id))
        rows, ids = _rows(draw, keys, newest=draw(st.booleans()), most=4)
        steps.append(("equality_deletes", [rows, [key.field_id for key in keys]], {"ids": ids, **_place(draw)}))

    def lay_down(stored_table: Any, folder: str) -> Any:
        made = stored_table(Path(folder), *SCHEMAS, specs=SPECS, version=2)
        for kind, values, entry in steps:
            getattr(made, kind)(*values, **entry)
        return made

    return lay_down


@settings(max_examples=100, suppress_health_check=list(HealthCheck))
@given(
    table=stored(),
    limits=st.builds(
        Limits, held_keys=st.sampled_from([0, 2, 5, 1000]), list_rows=st.integers(1, 20), list_files=st.integers(1, 3)
    ),
)
def test_tasks_find_what_the_table_finds(
    table: Callable[..., Any], limits: Limits, in_process: Any, stored_table: Any
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        opened = table(stored_table, folder).open()
        expected = plain(resolve_deletes(opened, opened.metadata.current_snapshot))
        assert found_by_tasks(in_process, opened, f"{folder}/staging", limits)[0] == expected


@settings(max_examples=3, suppress_health_check=list(HealthCheck))
@given(table=stored(), held_keys=st.sampled_from([0, 3]))
def test_spark_joins_what_the_table_finds(
    table: Callable[..., Any], held_keys: int, spark: Any, stored_table: Any
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        opened = table(stored_table, folder).open()
        expected = plain(resolve_deletes(opened, opened.metadata.current_snapshot))
        limits = Limits(held_keys=held_keys, list_rows=5, list_files=1)
        assert found_by_tasks(SparkWork(spark), opened, f"{folder}/staging", limits)[0] == expected


CORPUS = [
    "equality_deletes-warehouse-mydb-mytable",
    "equality_deletes-warehouse-mydb-mytable_partitioned",
    "spark-del_equality_added_column",
    "spark-del_equality_dropped_column",
    "spark-del_equality_nested_key",
    "spark-del_equality_types",
    "spark-del_equality_v2",
    "spark-del_equality_v3",
    "spark-del_mixed",
    "spark-del_mixed_v3",
]


@pytest.mark.parametrize("name", CORPUS)
@pytest.mark.parametrize("held_keys", [0, 1000])
def test_tables_that_other_engines_wrote(
    name: str, held_keys: int, shared: Path, tmp_path: Path, in_process: Any, opened: Any
) -> None:
    folder = shared / "corpus" / "iceberg" / name
    case = json.loads((folder / "case.json").read_text(encoding="utf-8"))
    storage = open_storage(relocate={case["location"]: str(folder / "table")})
    source = opened(folder / "table" / case["metadata"], storage=storage)
    expected = plain(resolve_deletes(source.table, source.snapshot))
    found, staged = found_by_tasks(in_process, source.table, str(tmp_path), Limits(held_keys=held_keys, list_files=1))
    assert found == expected
    assert staged.rows > 0


def test_a_corrupt_file_is_named_by_the_job_that_joins(one_key: Any, tmp_path: Path, spark: Any) -> None:
    table = one_key.open()
    batch = next(iter(resolve_deletes(table, table.metadata.current_snapshot))).data_files
    deletes = next(iter(delete_files(table, table.metadata.current_snapshot)))
    for path in (batch["file_path"][0].as_py(), deletes["file_path"][0].as_py()):
        whole = Path(path).read_bytes()
        Path(path).write_bytes(whole[:-9])
        with pytest.raises(DataFileError) as raised:
            found_by_tasks(SparkWork(spark), table, str(tmp_path / "staging"), Limits(held_keys=0))
        assert raised.value.path == path
        assert raised.value.table == table.location
        Path(path).write_bytes(whole)


ID = NestedField(field_id=1, name="id", required=False, type=LongType())


@pytest.fixture
def one_key(tmp_path: Path, stored_table: Any) -> Any:
    """A file of rows 0 to 999 of which nine in ten have one key, and a delete of that key."""
    made = stored_table(tmp_path / "table", Schema(schema_id=0, fields=(ID,)))
    made.data(pa.table({"id": [0 if row % 10 else row for row in range(1000)]}), sequence_number=1)
    made.equality_deletes(pa.table({"id": [0, 10, 20]}), [1], sequence_number=2)
    return made


def test_the_rows_of_a_hot_key_travel_as_one_record(one_key: Any, tmp_path: Path, in_process: Any) -> None:
    table = one_key.open()
    limits = Limits(held_keys=0)
    expected = plain(resolve_deletes(table, table.metadata.current_snapshot))
    found, staged = found_by_tasks(in_process, table, str(tmp_path / "staging"), limits)
    assert found == expected
    assert staged.rows == len(expected[0][2][0]) == 903
    job = EqualityTasks(
        table=table,
        snapshot=table.metadata.current_snapshot,
        folder="",
        job="hot",
        held_keys=0,
        list_rows=10,
        list_files=1,
    )
    (records,) = [sum(batch.num_rows for batch in job.data_keys(0, each.files)) for each in staged.lists]
    assert records == 100


@pytest.mark.parametrize("held_keys", [0, 1000])
def test_only_newer_deletes_reach_a_file(tmp_path: Path, stored_table: Any, in_process: Any, held_keys: int) -> None:
    """Of one key the newest delete counts."""
    made = stored_table(tmp_path / "table", Schema(schema_id=0, fields=(ID,)))
    made.data(pa.table({"id": [1, 2, 3, 4]}), sequence_number=2)
    made.data(pa.table({"id": [1, 2, 3, 4]}), sequence_number=3)
    for ids, number in (([1, 4], 1), ([2], 2), ([3, 4], 3), ([2], 2)):
        made.equality_deletes(pa.table({"id": ids}), [1], sequence_number=number)
    table = made.open()
    found, staged = found_by_tasks(in_process, table, str(tmp_path / "staging"), Limits(held_keys=held_keys))
    assert [positions for _, _, positions in found] == [{0: [2, 3]}]
    assert staged.rows == 2


def test_key_sets_make_room_for_each_other(
    tmp_path: Path, stored_table: Any, in_process: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three partitions of two keys each, of which a task holds four: coming back to the first reads it again."""
    made = stored_table(tmp_path / "table", *SCHEMAS[:1], specs=SPECS[:2], version=2)
    rows = pa.table({"k": pa.array([0, 1], pa.int32())})
    for part in ("x", "y", None, "x"):
        made.data(rows, ids={"k": 1}, spec_id=1, partition={"p": part}, sequence_number=1)
    for part in ("x", "y", None):
        made.equality_deletes(rows, [1], ids={"k": 1}, spec_id=1, partition={"p": part}, sequence_number=2)
    read: list[int] = []
    whole = DeleteGroup.key_set

    def watched(group: DeleteGroup, *places: Any) -> Any:
        read.append(group.number)
        return whole(group, *places)

    monkeypatch.setattr(DeleteGroup, "key_set", watched)
    _, staged = found_by_tasks(in_process, made.open(), str(tmp_path / "staging"), Limits(held_keys=4))
    assert staged.rows == 8
    assert len(read) == 4
    assert read[0] == read[3]


def test_a_missing_list_is_an_error_and_never_a_file_without_deletes(
    one_key: Any, tmp_path: Path, in_process: Any
) -> None:
    table = one_key.open()
    _, staged = found_by_tasks(in_process, table, str(tmp_path / "staging"), Limits())
    with pytest.raises(EngineFailed, match="no task looked at its equality deletes"):
        list(resolve_deletes(table, table.metadata.current_snapshot, by_key=staged.reader(manifests=())))


@pytest.mark.parametrize("held_keys", [0, 1000])
def test_a_corrupt_data_file_is_named(one_key: Any, tmp_path: Path, in_process: Any, held_keys: int) -> None:
    table = one_key.open()
    path = Path(next(iter(resolve_deletes(table, table.metadata.current_snapshot))).data_files["file_path"][0].as_py())
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(DataFileError) as raised:
        found_by_tasks(in_process, table, str(tmp_path / "staging"), Limits(held_keys=held_keys))
    assert raised.value.path == str(path)
    assert raised.value.table == table.location


def test_a_table_without_equality_deletes_stages_nothing(tmp_path: Path, stored_table: Any, in_process: Any) -> None:
    made = stored_table(tmp_path / "table", Schema(schema_id=0, fields=(ID,)))
    path = made.data(pa.table({"id": [1, 2]}))
    made.position_deletes([(path, 1)])
    found, staged = found_by_tasks(in_process, made.open(), str(tmp_path / "staging"), Limits())
    assert found[0][2] == {0: [1]}
    assert staged.lists == ()
    assert not (tmp_path / "staging").exists()


def test_lists_are_cut_where_a_task_would_read_too_much(tmp_path: Path, stored_table: Any, in_process: Any) -> None:
    made = stored_table(tmp_path / "table", Schema(schema_id=0, fields=(ID,)))
    for start in range(5):
        made.data(pa.table({"id": [start] * (start + 1)}), sequence_number=1)
    made.equality_deletes(pa.table({"id": [3]}), [1], sequence_number=2)
    _, staged = found_by_tasks(in_process, made.open(), str(tmp_path / "staging"), Limits(list_rows=6, list_files=2))
    assert [(each.files.files, each.files.rows) for each in staged.lists] == [(2, 3), (1, 3), (1, 4), (1, 5)]
    assert list(itertools.chain.from_iterable(each.positions for each in staged.lists))
