"""Parquet data files: every way of storing a value, in bounded batches, and nothing foreign out of broken ones."""

from __future__ import annotations

import datetime as dt
import random
import struct
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltaberg.datafile import POSITION_COLUMN, DataFileError, ParquetSource, ReadField
from deltaberg.storage import NotFound, Storage, open_storage

EditFooter = Callable[[Path, Callable[[dict[int, Any]], None]], None]
I32, I64, BINARY, LIST, STRUCT, TRUE = 5, 6, 8, 9, 12, 1
TZ = dt.timezone.utc


@pytest.fixture
def storage() -> Storage:
    return open_storage()


def field(name: str, kind: pa.DataType, **more: Any) -> ReadField:
    return ReadField(**{"name": name, "type": kind, "physical_name": name, **more})


def read(storage: Storage, path: Path, *fields: ReadField, rebase: bool = True, **options: Any) -> pa.Table:
    with ParquetSource(storage, str(path), rebase_calendar=rebase) as source:
        batches = list(source.iter_batches(fields, match="name", **options))
    for batch in batches:
        batch.validate(full=True)
    return pa.Table.from_batches(batches) if batches else pa.table({})


def numbers(path: Path, rows: int, row_group_size: int, **options: Any) -> None:
    table = pa.table({"n": pa.array(range(rows), pa.int64()), "s": [str(n) for n in range(rows)]})
    pq.write_table(table, path, row_group_size=row_group_size, **options)


def test_rows_come_in_batches_of_at_most_the_asked_size_with_their_positions(storage: Storage, tmp_path: Path) -> None:
    numbers(tmp_path / "f", 1000, 300)
    with ParquetSource(storage, f"{tmp_path}/f") as source:
        assert source.num_rows == 1000
        assert source.row_group_rows == (300, 300, 300, 100)
        batches = list(source.iter_batches([field("n", pa.int64())], match="name", batch_size=128, positions=True))
    assert max(batch.num_rows for batch in batches) <= 128
    table = pa.Table.from_batches(batches)
    assert table.column_names == ["n", POSITION_COLUMN]
    assert table["n"].to_pylist() == list(range(1000))
    assert table[POSITION_COLUMN].to_pylist() == list(range(1000))


@pytest.mark.parametrize("groups", [[0], [3], [1, 3], [0, 1, 3, 5], [9], [5, 4], []])
def test_positions_count_the_row_groups_that_are_skipped(storage: Storage, tmp_path: Path, groups: list[int]) -> None:
    numbers(tmp_path / "f", 95, 10)
    table = read(storage, tmp_path / "f", field("n", pa.int64()), row_groups=groups, positions=True, batch_size=17)
    expected = [row for group in groups for row in range(group * 10, min(95, group * 10 + 10))]
    if not expected:
        assert table.num_rows == 0
        return
    assert table["n"].to_pylist() == expected
    assert table[POSITION_COLUMN].to_pylist() == expected


def test_many_small_row_groups_are_read_together(storage: Storage, tmp_path: Path) -> None:
    numbers(tmp_path / "f", 1000, 7)
    with ParquetSource(storage, f"{tmp_path}/f") as source:
        batches = list(source.iter_batches([field("n", pa.int64())], match="name", batch_size=500, positions=True))
    assert len(batches) <= 5
    assert pa.Table.from_batches(batches)[POSITION_COLUMN].to_pylist() == list(range(1000))


def test_without_columns_of_the_file_the_rows_are_still_counted(storage: Storage, tmp_path: Path) -> None:
    numbers(tmp_path / "f", 25, 10)
    table = read(storage, tmp_path / "f", field("new", pa.int32(), default=pa.scalar(3)), positions=True, batch_size=4)
    assert table["new"].to_pylist() == [3] * 25
    assert table[POSITION_COLUMN].to_pylist() == list(range(25))
    with ParquetSource(storage, f"{tmp_path}/f") as source:
        assert sum(batch.num_rows for batch in source.iter_batches([], match="name")) == 25


def test_only_the_bytes_of_asked_columns_are_read(storage: Storage, tmp_path: Path) -> None:
    random_bytes = random.Random(3).randbytes
    wide = pa.table({"n": range(1000), "big": [random_bytes(1000) for _ in range(1000)]})
    pq.write_table(wide, tmp_path / "f")
    data = bytearray((tmp_path / "f").read_bytes())
    chunk = pq.read_metadata(tmp_path / "f").row_group(0).column(1)
    start = chunk.dictionary_page_offset or chunk.data_page_offset
    data[start : start + chunk.total_compressed_size] = bytes(chunk.total_compressed_size)
    (tmp_path / "f").write_bytes(data)
    assert read(storage, tmp_path / "f", field("n", pa.int64()))["n"].to_pylist() == list(range(1000))
    with pytest.raises(DataFileError, match="damaged or unreadable Parquet"):
        read(storage, tmp_path / "f", field("big", pa.binary()))


def test_repeated_long_values_make_batches_of_fewer_rows(storage: Storage, tmp_path: Path) -> None:
    pq.write_table(pa.table({"b": ["x" * 100_000] * 3000}), tmp_path / "f", compression="zstd")
    assert (tmp_path / "f").stat().st_size < 100_000
    with ParquetSource(storage, f"{tmp_path}/f") as source:
        rows = [batch.num_rows for batch in source.iter_batches([field("b", pa.string())], match="name")]
    assert max(rows) < 1000
    assert sum(rows) == 3000


def test_long_values_make_batches_of_fewer_rows(storage: Storage, tmp_path: Path) -> None:
    pq.write_table(
        pa.table({"b": [random.Random(n).randbytes(1 << 20) for n in range(100)]}), tmp_path / "f", use_dictionary=False
    )
    with ParquetSource(storage, f"{tmp_path}/f") as source:
        sizes = [batch.nbytes for batch in source.iter_batches([field("b", pa.binary())], match="name")]
    assert max(sizes) <= 80 << 20


def test_a_batch_outlives_its_source(storage: Storage, tmp_path: Path) -> None:
    numbers(tmp_path / "f", 10, 10)
    with ParquetSource(storage, f"{tmp_path}/f") as source:
        batch = next(source.iter_batches([field("s", pa.string())], match="name"))
    (tmp_path / "f").unlink()
    assert batch["s"].to_pylist() == [str(n) for n in range(10)]


@pytest.mark.parametrize("codec", ["none", "snappy", "gzip", "brotli", "lz4", "zstd"])
@pytest.mark.parametrize("pages", ["1.0", "2.0"])
def test_every_codec_and_page_version_is_read(storage: Storage, tmp_path: Path, codec: str, pages: str) -> None:
    numbers(tmp_path / "f", 1000, 400, compression=codec, data_page_version=pages)
    assert read(storage, tmp_path / "f", field("s", pa.string()))["s"].to_pylist() == [str(n) for n in range(1000)]


def test_the_lz4_codec_of_hadoop_is_read(storage: Storage, shared: Path) -> None:
    folder = shared / "corpus" / "delta" / "spark-parquet_codec_lz4"
    wanted = pq.read_table(folder / "expected.parquet", columns=["name"])["name"].to_pylist()
    files = sorted((folder / "table").rglob("*.parquet"))
    found = [value for file in files for value in read(storage, file, field("name", pa.string()))["name"].to_pylist()]
    assert sorted(map(str, found)) == sorted(map(str, wanted))


@pytest.mark.parametrize("encoding", ["PLAIN", "DELTA_BINARY_PACKED", "BYTE_STREAM_SPLIT"])
def test_every_encoding_of_numbers_is_read(storage: Storage, tmp_path: Path, encoding: str) -> None:
    numbers(tmp_path / "f", 500, 500, use_dictionary=False, column_encoding={"n": encoding, "s": "DELTA_BYTE_ARRAY"})
    table = read(storage, tmp_path / "f", field("n", pa.int64()), field("s", pa.string()))
    assert table["n"].to_pylist() == list(range(500))
    assert table["s"].to_pylist() == [str(n) for n in range(500)]


EDGES = [
    dt.datetime(1, 1, 1), dt.datetime(1582, 10, 4, 23, 59, 59, 999_999), dt.datetime(1677, 9, 21),
    dt.datetime(1969, 12, 31, 23, 59, 59, 999_999), dt.datetime(2262, 4, 12), dt.datetime(9999, 12, 31, 23, 59, 59, 999_999),
    None,
]  # fmt: skip


def julian(moment: dt.datetime) -> bytes:
    days, rest = divmod(moment - dt.datetime(1970, 1, 1), dt.timedelta(days=1))
    return struct.pack("<QI", rest // dt.timedelta(microseconds=1) * 1000, days + 2_440_588)


def as_int96(metadata: dict[int, Any]) -> None:
    """Say that the only column, fixed 12-byte values, is INT96."""
    element = metadata[2][1][1][1]
    element[1] = (I32, 3)
    element.pop(2, None)
    for group in metadata[4][1][1]:
        chunk = group[1][1][1][0][3][1]
        chunk[1] = (I32, 3)
        chunk.pop(12, None)


@pytest.mark.parametrize("zone", [None, "UTC"])
def test_int96_is_exact_from_year_1_to_9999(
    storage: Storage, tmp_path: Path, edit_footer: EditFooter, zone: str | None
) -> None:
    stored = pa.array([None if edge is None else julian(edge) for edge in EDGES], pa.binary(12))
    pq.write_table(pa.table({"t": stored}), tmp_path / "f", store_schema=False, use_dictionary=False)
    edit_footer(tmp_path / "f", as_int96)
    table = read(storage, tmp_path / "f", field("t", pa.timestamp("us", zone)))
    wanted = [edge and (edge.replace(tzinfo=TZ) if zone else edge) for edge in EDGES]
    assert table["t"].to_pylist() == wanted


def test_int96_below_lists_and_structs_is_exact(storage: Storage, tmp_path: Path) -> None:
    kind = pa.list_(pa.field("element", pa.struct([("t", pa.timestamp("us"))])))
    rows = [[{"t": edge} for edge in EDGES], None, []]
    pq.write_table(
        pa.table({"l": pa.array(rows, kind)}), tmp_path / "f", use_deprecated_int96_timestamps=True, store_schema=False
    )
    inner = field("t", pa.timestamp("us"))
    element = field("element", kind.value_type, children=(inner,))
    assert read(storage, tmp_path / "f", field("l", kind, children=(element,)))["l"].to_pylist() == rows


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
@pytest.mark.parametrize(("stored", "declared"), [("UTC", "UTC"), (None, "UTC"), ("UTC", None), (None, None)])
def test_timestamps_of_any_unit_mean_what_the_table_declares(
    storage: Storage, tmp_path: Path, unit: str, stored: str | None, declared: str | None
) -> None:
    moment = dt.datetime(1969, 7, 20, 20, 17, 40, 123_000)
    column = pa.array([moment, None], pa.timestamp(unit)).cast(pa.int64()).cast(pa.timestamp(unit, stored))
    pq.write_table(pa.table({"t": column}), tmp_path / "f", version="2.6", store_schema=False)
    found = read(storage, tmp_path / "f", field("t", pa.timestamp("us", declared)))["t"].to_pylist()
    assert found == [moment.replace(tzinfo=TZ) if declared else moment, None]


def test_nanoseconds_that_microseconds_cannot_hold_are_refused(storage: Storage, tmp_path: Path) -> None:
    pq.write_table(pa.table({"t": pa.array([1], pa.timestamp("ns"))}), tmp_path / "f", version="2.6")
    with pytest.raises(DataFileError, match="Cannot read column 't': a value does not fit") as raised:
        read(storage, tmp_path / "f", field("t", pa.timestamp("us")))
    assert str(tmp_path / "f") in str(raised.value)
    found = read(storage, tmp_path / "f", field("t", pa.timestamp("ns")))
    assert found["t"].cast(pa.int64()).to_pylist() == [1]


@pytest.mark.parametrize("as_integer", [True, False])
@pytest.mark.parametrize(("precision", "scale"), [(1, 0), (9, 9), (10, 2), (18, 6), (19, 0), (38, 10), (38, 38)])
def test_decimals_of_any_physical_form_are_exact(
    storage: Storage, tmp_path: Path, precision: int, scale: int, as_integer: bool
) -> None:
    digits = "9" * precision
    values = [Decimal(f"{digits}E-{scale}"), Decimal(f"-{digits}E-{scale}"), None, Decimal(f"0E-{scale}")]
    column = pa.array(values, pa.decimal128(precision, scale))
    pq.write_table(pa.table({"d": column}), tmp_path / "f", store_decimal_as_integer=as_integer, store_schema=False)
    assert read(storage, tmp_path / "f", field("d", pa.decimal128(precision, scale)))["d"].to_pylist() == values


def test_decimals_in_variable_binary_are_read(storage: Storage, tmp_path: Path, edit_footer: EditFooter) -> None:
    stored = [b"\x01", b"\xff", b"\x7f\xff\xff", b"\x00" * 15 + b"\x02", None]
    pq.write_table(pa.table({"d": pa.array(stored, pa.binary())}), tmp_path / "f", store_schema=False)

    def decimal(metadata: dict[int, Any]) -> None:
        metadata[2][1][1][1].update({6: (I32, 5), 7: (I32, 2), 8: (I32, 20)})
        for group in metadata[4][1][1]:
            group[1][1][1][0][3][1].pop(12, None)

    edit_footer(tmp_path / "f", decimal)
    found = read(storage, tmp_path / "f", field("d", pa.decimal128(20, 2)))["d"].to_pylist()
    assert found == [Decimal("0.01"), Decimal("-0.01"), Decimal("83886.07"), Decimal("0.02"), None]


def test_unsigned_integers_are_read_where_they_fit(storage: Storage, tmp_path: Path) -> None:
    table = pa.table(
        {
            "u8": pa.array([255], pa.uint8()), "u16": pa.array([65_535], pa.uint16()),
            "u32": pa.array([2**32 - 1], pa.uint32()), "u64": pa.array([2**63], pa.uint64()),
        }
    )  # fmt: skip
    pq.write_table(table, tmp_path / "f", version="2.6", store_schema=False)
    fields = field("u8", pa.int32()), field("u16", pa.int32()), field("u32", pa.int64())
    assert read(storage, tmp_path / "f", *fields).to_pylist() == [{"u8": 255, "u16": 65_535, "u32": 2**32 - 1}]
    for name, kind in (("u32", pa.int32()), ("u64", pa.int64())):
        with pytest.raises(DataFileError, match=f"Cannot read column '{name}': a value does not fit"):
            read(storage, tmp_path / "f", field(name, kind))


def test_arrow_types_that_a_writer_remembered_do_not_matter(storage: Storage, tmp_path: Path) -> None:
    table = pa.table(
        {
            "d": pa.array(["a", None, "a"]).dictionary_encode(),
            "l": pa.array(["x", None, "y"], pa.large_string()),
            "v": pa.array([b"x", None, b"y"], pa.binary_view()),
            "z": pa.array([0, 1, None], pa.timestamp("us", "Asia/Tokyo")),
            "u": pa.array([bytes(range(16)), None, bytes(16)], pa.uuid()),
            "n": pa.nulls(3),
            "ll": pa.array([[1], None, []], pa.large_list(pa.int64())),
        }
    )
    pq.write_table(table, tmp_path / "f")
    element = field("element", pa.int64())
    fields = (
        field("d", pa.string()), field("l", pa.string()), field("v", pa.binary()), field("z", pa.timestamp("us", "UTC")),
        field("u", pa.binary(16)), field("n", pa.int32()),
        field("ll", pa.list_(pa.field("element", pa.int64())), children=(element,)),
    )  # fmt: skip
    rows = read(storage, tmp_path / "f", *fields).to_pylist()
    assert [row["d"] for row in rows] == ["a", None, "a"]
    assert [row["l"] for row in rows] == ["x", None, "y"]
    assert [row["v"] for row in rows] == [b"x", None, b"y"]
    assert [row["z"] and row["z"].microsecond for row in rows] == [0, 1, None]
    assert [row["u"] for row in rows] == [bytes(range(16)), None, bytes(16)]
    assert [row["n"] for row in rows] == [None] * 3
    assert [row["ll"] for row in rows] == [[1], None, []]


def test_legacy_calendars_are_rebased_by_the_footers_word(storage: Storage, tmp_path: Path) -> None:
    keys = {
        "org.apache.spark.version": "3.5.0", "org.apache.spark.legacyDateTime": "",
        "org.apache.spark.timeZone": "America/Los_Angeles",
    }  # fmt: skip
    day = -719_164
    table = pa.table(
        {
            "d": pa.array([day, 0], pa.int32()).cast(pa.date32()),
            "t": pa.array([day * 86_400_000_000, 0], pa.int64()).cast(pa.timestamp("us", "UTC")),
            "n": pa.array([day * 86_400_000_000, 0], pa.int64()).cast(pa.timestamp("us")),
        },
    ).replace_schema_metadata(keys)
    pq.write_table(table, tmp_path / "f")
    fields = field("d", pa.date32()), field("t", pa.timestamp("us", "UTC")), field("n", pa.timestamp("us"))
    numbers = {"d": pa.int32(), "t": pa.int64(), "n": pa.int64()}

    def stored(**options: Any) -> dict[str, int]:
        found = read(storage, tmp_path / "f", *fields, **options)
        return {name: found[name].cast(kind).to_pylist()[0] for name, kind in numbers.items()}

    assert stored() == {
        "d": day + 2,
        # Spark's table of this zone: two days, less the 422 seconds between local mean time and its standard time.
        "t": day * 86_400_000_000 + (2 * 86_400 - 422) * 1_000_000,
        "n": day * 86_400_000_000,
    }
    assert stored(rebase=False) == {"d": day, "t": day * 86_400_000_000, "n": day * 86_400_000_000}
    pq.write_table(
        table.replace_schema_metadata({**keys, "org.apache.spark.timeZone": "Nowhere/At_All"}), tmp_path / "f"
    )
    with pytest.raises(DataFileError, match="legacy calendar in the time zone 'Nowhere/At_All'"):
        stored()
    assert stored(rebase=False)["d"] == day


def test_column_names_with_dots_and_repeats_are_told_apart(storage: Storage, tmp_path: Path) -> None:
    kind = pa.struct([("b", pa.int32())])
    arrays = [pa.array([{"b": 1}], kind), pa.array([2], pa.int32()), pa.array([3], pa.int32())]
    pq.write_table(pa.Table.from_arrays(arrays, ["a", "a.b", 'c d`"é']), tmp_path / "f")
    fields = (
        field("a.b", pa.int32()), field("a", kind, children=(field("b", pa.int32()),)), field("c d`\"é", pa.int32()),
    )  # fmt: skip
    assert read(storage, tmp_path / "f", *fields).to_pylist() == [{"a.b": 2, "a": {"b": 1}, 'c d`"é': 3}]


def test_a_remote_file_is_read_like_a_local_one(storage: Storage, tmp_path: Path) -> None:
    numbers(tmp_path / "f", 1000, 100)
    storage.put("memory://bucket/f", (tmp_path / "f").read_bytes())
    with ParquetSource(storage, "memory://bucket/f") as source:
        table = pa.Table.from_batches(source.iter_batches([field("n", pa.int64())], match="name", row_groups=[2, 7]))
    assert table["n"].to_pylist() == [*range(200, 300), *range(700, 800)]


def test_a_missing_file_is_not_found(storage: Storage, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no such file"):
        ParquetSource(storage, f"{tmp_path}/absent")


def test_row_counts_that_the_pages_do_not_bear_out_are_refused(
    storage: Storage, tmp_path: Path, edit_footer: EditFooter
) -> None:
    for rows in (5, 11, 1 << 40):
        numbers(tmp_path / "f", 10, 10)

        def change(metadata: dict[int, Any], rows: int = rows) -> None:
            metadata[3] = (I64, rows)
            metadata[4][1][1][0][3] = (I64, rows)

        edit_footer(tmp_path / "f", change)
        for fields in ([field("n", pa.int64())], []):
            with pytest.raises(DataFileError, match=f"10 values .expected {rows}"):
                read(storage, tmp_path / "f", *fields)


def test_damaged_files_are_our_own_error_or_read_as_they_are(storage: Storage, tmp_path: Path) -> None:
    table = pa.table(
        {
            "n": pa.array(range(200), pa.int64()),
            "s": [f"text {n}" for n in range(200)],
            "l": pa.array([[n] * (n % 4) for n in range(200)], pa.list_(pa.int32())),
        }
    )
    pq.write_table(table, tmp_path / "good", row_group_size=70, compression="zstd")
    good = (tmp_path / "good").read_bytes()
    chance = random.Random(11)
    fields = (
        field("n", pa.int64()), field("s", pa.string()),
        field("l", pa.list_(pa.field("element", pa.int32())), children=(field("element", pa.int32()),)),
    )  # fmt: skip
    messages = []
    for _ in range(300):
        data = bytearray(good)
        for _ in range(chance.randint(1, 4)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        if chance.random() < 0.3:
            data = data[: chance.randrange(len(data))]
        (tmp_path / "f").write_bytes(data)
        try:
            read(storage, tmp_path / "f", *fields)
        except DataFileError as error:
            messages.append(str(error))
    assert len(messages) > 100
    assert all(str(tmp_path / "f") in message and "\n" not in message for message in messages)
