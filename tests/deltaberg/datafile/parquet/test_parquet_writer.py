"""Written Parquet files: ids, physical forms, counts and bounds, and nothing left behind after a failure."""

from __future__ import annotations

import datetime as dt
import math
import os
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deltaberg.datafile import DataFileError, ParquetSource, ReadField, file_fields
from deltaberg.datafile.file_schema import walk
from deltaberg.datafile.parquet.parquet_writer import ParquetFileWriter, WrittenFiles, parquet_schema
from deltaberg.storage import Storage, StorageError, open_storage


def field(name: str, data_type: pa.DataType, number: int | None = None, **more: Any) -> ReadField:
    return ReadField(**{"name": name, "physical_name": name, "type": data_type, "field_id": number, **more})


POINT = pa.struct([("x", pa.float64()), ("n", pa.null())])
FIELDS = (
    field("id", pa.int64(), 1, nullable=False),
    field("s", POINT, 2, children=(field("x", pa.float64(), 3), field("n", pa.null(), 4))),
    field("l", pa.list_(pa.field("element", pa.int32())), 5, children=(field("element", pa.int32(), 6),)),
    field(
        "m", pa.map_(pa.string(), pa.int64()), 7,
        children=(field("key", pa.string(), 8, nullable=False), field("value", pa.int64(), 9)),
    ),
    field("void", pa.null(), 10),
    field("nothing", pa.struct([("n", pa.null())]), 11, children=(field("n", pa.null(), 12),)),
    field("shown", pa.decimal128(9, 2), 13, physical_name="col-9"),
    field("u", pa.binary(16), 14, kind="uuid"),
)  # fmt: skip
ROWS = [
    {
        "id": 2,
        "s": {"x": math.nan},
        "l": [1, None],
        "m": [("a", 1)],
        "col-9": Decimal("1.50"),
        "u": uuid.UUID(int=2).bytes,
    },
    {"id": 1, "s": None, "l": None, "m": None, "col-9": None, "u": None},
    {"id": 3, "s": {"x": 0.0}, "l": [], "m": [], "col-9": Decimal("-7.25"), "u": uuid.UUID(int=1).bytes},
    {"id": 4, "s": {"x": -0.0}, "l": [7], "m": [("b", None)], "col-9": None, "u": None},
]
BATCH = pa.schema(
    [
        ("id", pa.int64()), ("s", pa.struct([("x", pa.float64())])), ("l", pa.list_(pa.int32())),
        ("m", pa.map_(pa.string(), pa.int64())), ("col-9", pa.decimal128(9, 2)), ("u", pa.binary(16)),
    ]
)  # fmt: skip


@pytest.fixture
def storage() -> Storage:
    return open_storage()


def write(storage: Storage, folder: Path, schema: pa.Schema, *batches: pa.RecordBatch, **options: Any) -> WrittenFiles:
    with ParquetFileWriter(storage, lambda number: f"{folder}/{number}.parquet", schema, **options) as writer:
        for batch in batches:
            writer.write(batch)
        return writer.finish()


def test_files_carry_ids_and_leave_out_what_has_no_values(storage: Storage, tmp_path: Path) -> None:
    batch = pa.RecordBatch.from_pylist(ROWS, BATCH)
    written = write(storage, tmp_path, parquet_schema(FIELDS), batch, key_values={b"k": b"v"})
    assert written.files.to_pylist() == [
        {
            "location": f"{tmp_path}/0.parquet",
            "record_count": 4,
            "file_size_in_bytes": (tmp_path / "0.parquet").stat().st_size,
            "split_offsets": [4],
        }
    ]
    file = pq.ParquetFile(tmp_path / "0.parquet")
    columns = file_fields(file.schema_arrow)
    leaves = [each.field_id for each in walk(columns) if not each.children]
    found = [
        (leaf.path.replace(".list", "").replace(".key_value", ""), field_id, leaf.physical_type)
        for leaf, field_id in zip(map(file.schema.column, range(len(leaves))), leaves, strict=True)
    ]
    assert found == [
        ("id", 1, "INT64"),
        ("s.x", 3, "DOUBLE"),
        ("l.element", 6, "INT32"),
        ("m.key", 8, "BYTE_ARRAY"),
        ("m.value", 9, "INT64"),
        ("col-9", 13, "INT32"),
        ("u", 14, "FIXED_LEN_BYTE_ARRAY"),
    ]
    assert len(file.schema) == len(leaves)
    assert [column.field_id for column in columns] == [1, 2, 5, 7, 13, 14]
    assert file.metadata.metadata[b"k"] == b"v"
    assert str(file.schema.column(6).logical_type) == "UUID"
    back = [one for one in FIELDS if one.name not in ("void", "nothing")]
    with ParquetSource(storage, f"{tmp_path}/0.parquet") as source:
        (read,) = source.iter_batches(back, match="id")
    rows = read.to_pylist()
    assert [row["id"] for row in rows] == [2, 1, 3, 4]
    assert [row["shown"] for row in rows] == [Decimal("1.50"), None, Decimal("-7.25"), None]
    assert [row["m"] for row in rows] == [[("a", 1)], None, [], [("b", None)]]
    assert rows[1]["s"] is None
    assert rows[2]["s"] == {"x": 0.0, "n": None}


def test_counts_and_bounds_are_those_of_the_values(storage: Storage, tmp_path: Path) -> None:
    batch = pa.RecordBatch.from_pylist(ROWS, BATCH)
    written = write(storage, tmp_path, parquet_schema(FIELDS), batch.slice(0, 1), batch.slice(1))

    def facts(number: int) -> tuple[Any, ...]:
        leaf = written.leaf(number)
        assert leaf is not None
        arrays = leaf.value_count, leaf.null_count, leaf.nan_count, leaf.lower, leaf.upper
        return tuple(one[0].as_py() for one in arrays)

    assert facts(1) == (4, 0, None, 1, 4)
    assert facts(3) == (4, 1, 1, 0.0, 0.0)
    leaf = written.leaf(3)
    assert leaf is not None
    assert [math.copysign(1, bound[0].as_py()) for bound in (leaf.lower, leaf.upper)] == [-1, 1]
    assert facts(13) == (4, 2, None, Decimal("-7.25"), Decimal("1.50"))
    assert facts(14) == (4, 2, None, uuid.UUID(int=1).bytes, uuid.UUID(int=2).bytes)
    for below_a_list in (6, 8, 9):
        assert facts(below_a_list) == (None,) * 5
    group = pq.read_metadata(tmp_path / "0.parquet").row_group(0)
    assert [one.column_size[0].as_py() for one in written.leaves] == [
        group.column(index).total_compressed_size for index in range(group.num_columns)
    ]
    assert written.leaf(99) is None


@pytest.mark.parametrize(
    ("kind", "values", "lower", "upper"),
    [
        (pa.bool_(), [True, None, False], False, True),
        (pa.string(), ["b", "é", "", None], "", "é"),
        (pa.binary(), [b"\xff", b"\x00"], b"\x00", b"\xff"),
        (pa.binary(2), [b"zz", b"aa"], b"aa", b"zz"),
        (pa.date32(), [dt.date(9999, 12, 31), dt.date(1, 1, 1)], dt.date(1, 1, 1), dt.date(9999, 12, 31)),
        (
            pa.timestamp("us"),
            [dt.datetime(1, 1, 1), dt.datetime(9999, 1, 1)],
            dt.datetime(1, 1, 1),
            dt.datetime(9999, 1, 1),
        ),
        (pa.time64("us"), [dt.time(1), dt.time(0)], dt.time(0), dt.time(1)),
        (pa.decimal128(38, 0), [Decimal(10**37), Decimal(-1)], Decimal(-1), Decimal(10**37)),
        (pa.float32(), [math.inf, -math.inf, math.nan], -math.inf, math.inf),
        (pa.float64(), [math.nan, None], None, None),
        (pa.int32(), [None], None, None),
    ],
)
def test_bounds_of_every_type_are_exact(
    storage: Storage, tmp_path: Path, kind: pa.DataType, values: list[Any], lower: Any, upper: Any
) -> None:
    schema = parquet_schema([field("c", kind, 1)])
    batches = [pa.RecordBatch.from_arrays([pa.array([value], kind)], ["c"]) for value in values]
    (leaf,) = write(storage, tmp_path, schema, *batches).leaves
    assert (leaf.lower.type, leaf.upper.type) == (kind, kind)
    assert (leaf.lower[0].as_py(), leaf.upper[0].as_py()) == (lower, upper)
    assert leaf.value_count[0].as_py() == len(values)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(st.one_of(st.none(), st.floats()), max_size=6), max_size=4))
def test_float_metrics_hold_for_any_values(parts: list[list[float | None]]) -> None:
    schema = parquet_schema([field("c", pa.float64(), 1)])
    batches = [pa.RecordBatch.from_arrays([pa.array(part, pa.float64())], ["c"]) for part in parts]
    storage = open_storage()
    with ParquetFileWriter(storage, lambda number: f"memory://b/{number}", schema) as writer:
        for batch in batches:
            writer.write(batch)
        written = writer.finish()
    values = [value for part in parts for value in part]
    if not values:
        assert written.files.num_rows == 0
        return
    (leaf,) = written.leaves
    plain = [value for value in values if value is not None and not math.isnan(value)]
    assert leaf.null_count[0].as_py() == values.count(None)
    assert leaf.nan_count[0].as_py() == sum(value is not None and math.isnan(value) for value in values)
    if plain:
        order = lambda value: (value, math.copysign(1, value))  # noqa: E731
        assert repr(leaf.lower[0].as_py()) == repr(min(plain, key=order))
        assert repr(leaf.upper[0].as_py()) == repr(max(plain, key=order))
    else:
        assert leaf.lower[0].as_py() is None


def test_files_roll_at_the_target_size(storage: Storage, tmp_path: Path) -> None:
    schema = parquet_schema([field("b", pa.binary(), 1)])
    batches = [
        pa.RecordBatch.from_arrays([pa.array([os.urandom(1 << 10) for _ in range(32)], pa.binary())], ["b"])
        for _ in range(9)
    ]
    written = write(storage, tmp_path, schema, *batches, target_size=100 << 10, row_group_bytes=64 << 10)
    assert written.files["record_count"].to_pylist() == [128, 128, 32]
    assert [len(offsets) for offsets in written.files["split_offsets"].to_pylist()] == [2, 2, 1]
    assert [len(written.leaves[0].lower), written.leaves[0].value_count.to_pylist()] == [3, [128, 128, 32]]
    for location, offsets in zip(
        written.files["location"].to_pylist(), written.files["split_offsets"].to_pylist(), strict=True
    ):
        groups = pq.read_metadata(location)
        assert groups.num_row_groups == len(offsets)
        assert offsets == [groups.row_group(index).column(0).dictionary_page_offset for index in range(len(offsets))]


def test_without_rows_there_is_no_file(storage: Storage, tmp_path: Path) -> None:
    schema = parquet_schema([field("c", pa.int32(), 1)])
    written = write(storage, tmp_path, schema, pa.RecordBatch.from_arrays([pa.array([], pa.int32())], ["c"]))
    assert written.files.num_rows == 0
    assert [len(leaf.lower) for leaf in written.leaves] == [0]
    assert os.listdir(tmp_path) == []


def test_batches_are_matched_by_name_and_promoted(storage: Storage, tmp_path: Path) -> None:
    schema = parquet_schema([field("a", pa.int64(), 1), field("b", pa.string(), 2)])
    batch = pa.RecordBatch.from_pydict(
        {"extra": [0], "b": pa.array(["x"]).dictionary_encode(), "a": pa.array([1], pa.int8())}
    )
    write(storage, tmp_path, schema, batch)
    assert pq.read_table(tmp_path / "0.parquet").to_pylist() == [{"a": 1, "b": "x"}]
    with pytest.raises(DataFileError, match="Cannot read column 'a'"):
        write(storage, tmp_path, schema, pa.RecordBatch.from_pydict({"a": ["text"], "b": ["x"]}))


def test_after_a_failure_no_file_is_left_behind(storage: Storage, tmp_path: Path) -> None:
    schema = parquet_schema([field("b", pa.binary(), 1)])
    big = pa.RecordBatch.from_arrays([pa.array([os.urandom(1 << 10) for _ in range(70)], pa.binary())], ["b"])

    def fail() -> None:
        name = lambda number: f"{tmp_path}/{number}"  # noqa: E731
        with ParquetFileWriter(storage, name, schema, target_size=1, row_group_bytes=64 << 10) as writer:
            writer.write(big)
            writer.write(big)
            assert sorted(os.listdir(tmp_path)) == ["0", "1"]
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        fail()
    assert os.listdir(tmp_path) == []


def test_variants_are_annotated_wherever_they_stand(storage: Storage, tmp_path: Path) -> None:
    plain = pa.struct([("metadata", pa.binary()), ("value", pa.binary())])
    one = {"metadata": b"\x01\x00\x00", "value": b"\x0c\x07"}
    element = field("element", plain, 4, kind="variant")
    inner = pa.struct([("a", pa.int32()), ("w", plain)])
    fields = (
        field("id", pa.int64(), 1),
        field("v", plain, 2, kind="variant"),
        field("l", pa.list_(pa.field("element", plain)), 3, children=(element,)),
        field("s", inner, 5, children=(field("a", pa.int32(), 6), field("w", plain, 7, kind="variant"))),
        field("m", pa.map_(pa.string(), plain), 8,
              children=(field("key", pa.string(), 9, nullable=False), field("value", plain, 10, kind="variant"))),
        field("z", plain, 11, kind="variant"),
    )  # fmt: skip
    rows = [
        {"id": 1, "v": one, "l": [one, None], "s": {"a": 1, "w": one}, "m": [("k", one)], "z": None},
        {"id": 2, "v": None, "l": None, "s": None, "m": None, "z": one},
    ]
    schema = pa.schema([pa.field(each.name, each.type) for each in fields])
    written = write(storage, tmp_path, parquet_schema(fields), pa.RecordBatch.from_pylist(rows, schema))
    file = tmp_path / "0.parquet"
    assert written.files["file_size_in_bytes"].to_pylist() == [file.stat().st_size]
    text = str(pq.ParquetFile(file).schema)
    annotated = [line.strip() for line in text.splitlines() if "Variant(1)" in line]
    assert annotated == [
        "optional group field_id=2 v (Variant(1)) {",
        "optional group field_id=4 element (Variant(1)) {",
        "optional group field_id=7 w (Variant(1)) {",
        "optional group field_id=10 value (Variant(1)) {",
        "optional group field_id=11 z (Variant(1)) {",
    ]
    with ParquetSource(storage, str(file)) as source:
        (batch,) = source.iter_batches(fields, match="id")
    assert batch.to_pylist() == rows


def test_what_cannot_be_written_is_refused(storage: Storage, tmp_path: Path) -> None:
    with pytest.raises(DataFileError, match="it would have no columns"):
        ParquetFileWriter(storage, str, parquet_schema([field("v", pa.null(), 1)]))
    nulls = field("l", pa.list_(pa.null()), 1, children=(field("element", pa.null(), 2),))
    with pytest.raises(DataFileError, match="Cannot write column 'l'"):
        parquet_schema([nulls])
    required = parquet_schema([field("c", pa.int32(), 1, nullable=False)])
    with pytest.raises(DataFileError, match="Cannot read column 'c': a value is null"):
        write(storage, tmp_path, required, pa.RecordBatch.from_pydict({"c": pa.array([None], pa.int32())}))
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StorageError, match="a file stands where its folder should be"):
        write(storage, tmp_path / "file", required, pa.RecordBatch.from_pydict({"c": pa.array([1], pa.int32())}))
