"""ORC files: the columns that Arrow reads, and what it cannot read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import orc

from deltaberg.datafile.errors import DataFileError
from deltaberg.iceberg.orc.file import FIELD_ID_KEY, OrcFile
from deltaberg.iceberg.orc.tail import message, read_tail, rewritten_tail, type_message
from deltaberg.storage import Storage, open_storage

CODECS = ["uncompressed", "zlib", "snappy", "lz4", "zstd"]


@pytest.fixture
def storage() -> Storage:
    return open_storage()


def read(storage: Storage, path: Path, columns: list[int] | None = None) -> pa.Table:
    file = OrcFile(storage, str(path))
    batches = list(file.iter_batches(columns))
    schema = batches[0].schema if batches else file.schema
    table = pa.Table.from_batches(batches, schema=schema)
    table.validate(full=True)
    file.close()
    return table


def microseconds(nanoseconds: pa.Array) -> list[int | None]:
    return [None if value is None else value // 1000 for value in nanoseconds.cast(pa.int64()).to_pylist()]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("count", [0, 1, 5000])
def test_timestamps_agree_with_arrow_where_arrow_can_read_them(
    storage: Storage, tmp_path: Path, codec: str, count: int
) -> None:
    random = np.random.default_rng(count)
    anywhere = random.integers(-(2**62), 2**62, count)
    columns = {
        "any": anywhere,
        "milliseconds": anywhere // 10**6 * 10**6,
        "seconds": anywhere // 10**9 * 10**9,
        "steps": np.arange(count) * 1_000_001,
        "around 1970": random.integers(-3 * 10**9, 3 * 10**9, count),
        "constant": np.full(count, 12_345_678_900),
    }
    mask = random.random(count) < 0.3
    arrays = {name: pa.array(values, mask=mask).cast(pa.timestamp("ns")) for name, values in columns.items()}
    arrays |= {f"{name} UTC": values.cast(pa.timestamp("ns", tz="UTC")) for name, values in arrays.items()}
    path = tmp_path / "x.orc"
    orc.write_table(pa.table(arrays), path, compression=codec, stripe_size=1 << 16)
    found = read(storage, path)
    for name, values in arrays.items():
        column = found[name].combine_chunks() if count else pa.array([], found[name].type)
        assert column.type == pa.timestamp("us", tz=values.type.tz)
        assert column.cast(pa.int64()).to_pylist() == microseconds(values), name


def test_nested_timestamps_keep_their_places(storage: Storage, tmp_path: Path) -> None:
    stamps = pa.timestamp("ns")
    lists = pa.array([[1_000, None], None, [], [2_000, 3_000]], pa.list_(pa.int64())).cast(pa.list_(stamps))
    structs = pa.array(
        [{"t": 5_000, "a": "x"}, None, {"t": None, "a": None}, {"t": 7_000, "a": "y"}],
        pa.struct([("t", pa.int64()), ("a", pa.string())]),
    )
    structs = structs.cast(pa.struct([("t", stamps), ("a", pa.string())]))
    path = tmp_path / "x.orc"
    orc.write_table(pa.table({"l": lists, "s": structs}), path)
    found = read(storage, path)
    assert found["l"].combine_chunks().values.cast(pa.int64()).to_pylist() == [1, None, 2, 3]
    assert [None if v is None else len(v) for v in found["l"].to_pylist()] == [2, None, 0, 2]
    assert [None if v is None else v["a"] for v in found["s"].to_pylist()] == ["x", None, None, "y"]
    assert found["s"].combine_chunks().flatten()[0].cast(pa.int64()).to_pylist() == [5, None, None, 7]


def test_columns_are_told_apart_by_place_not_by_name(storage: Storage, tmp_path: Path) -> None:
    inner = pa.array([{"b": 1}, {"b": 2}], pa.struct([("b", pa.int64())]))
    path = tmp_path / "x.orc"
    orc.write_table(pa.table({"a": inner, "a.b": pa.array(["p", "q"]), "": pa.array([True, False])}), path)
    assert read(storage, path, [1]).to_pydict() == {"a.b": ["p", "q"]}
    assert read(storage, path, [2, 0]).to_pydict() == {"a": [{"b": 1}, {"b": 2}], "": [True, False]}
    assert read(storage, path, []).num_rows == 2


def test_types_are_those_of_the_file(storage: Storage, tmp_path: Path) -> None:
    table = pa.table(
        {
            "i8": pa.array([1, None], pa.int8()),
            "i16": pa.array([1, None], pa.int16()),
            "i32": pa.array([1, None], pa.int32()),
            "i64": pa.array([1, None], pa.int64()),
            "f": pa.array([1.5, None], pa.float32()),
            "d": pa.array([float("inf"), None], pa.float64()),
            "dec": pa.array([1, None], pa.decimal128(38, 3)),
            "date": pa.array([-1, None], pa.date32()),
            "bin": pa.array([b"\xff", None], pa.binary()),
            "m": pa.array([[("k", 1), ("", None)], None], pa.map_(pa.string(), pa.int32())),
        }
    )
    path = tmp_path / "x.orc"
    orc.write_table(table, path)
    found = read(storage, path)
    assert found.to_pydict() == table.to_pydict()
    assert [found.schema.field(name).type for name in table.column_names[:-1]] == [
        table.schema.field(name).type for name in table.column_names[:-1]
    ]


def with_attributes(path: Path, attributes: dict[int, dict[str, str]]) -> None:
    """Give the types of an uncompressed ORC file attributes, by column id, as Iceberg's writer does."""
    with pa.OSFile(str(path), "rb") as file:
        tail = read_tail(file, file.size(), str(path))
        head = file.read_at(tail.footer_offset, 0)
    types = []
    for column, node in enumerate(tail.types):
        body = type_message(node.kind, node.subtypes, node.field_names, precision=node.precision, scale=node.scale)
        for key, value in attributes.get(column, {}).items():
            body += message(7, message(1, key.encode()) + message(2, value.encode()))
        types.append(body)
    path.write_bytes(head + rewritten_tail(tail, tuple(types)))


def test_attributes_say_ids_and_iceberg_types(storage: Storage, tmp_path: Path) -> None:
    path = tmp_path / "x.orc"
    stamps = pa.array([1_234_567_891, None]).cast(pa.timestamp("ns"))
    table = pa.table(
        {
            "time": pa.array([86_399_999_999, None], pa.int64()),
            "uuid": pa.array([bytes(range(16)), None], pa.binary()),
            "fixed": pa.array([b"abc", None], pa.binary()),
            "nanos": stamps,
            "micros": stamps,
            "list": pa.array([[1], None], pa.list_(pa.int64())),
        }
    )
    orc.write_table(table, path, compression="uncompressed")
    with_attributes(
        path,
        {
            1: {"iceberg.id": "11", "iceberg.long-type": "TIME", "iceberg.required": "false"},
            2: {"iceberg.id": "12", "iceberg.binary-type": "UUID"},
            3: {"iceberg.id": "13", "iceberg.binary-type": "FIXED", "iceberg.length": "3"},
            4: {"iceberg.id": "14", "iceberg.timestamp-unit": "NANOS"},
            5: {"iceberg.id": "15", "iceberg.timestamp-unit": "MICROS", "iceberg.required": "true"},
            6: {"iceberg.id": "16"},
            7: {"iceberg.id": "17"},
        },
    )
    found = read(storage, path)
    types = [pa.time64("us"), pa.binary(16), pa.binary(3), pa.timestamp("ns"), pa.timestamp("us")]
    assert [field.type for field in found.schema][:5] == types
    assert [field.metadata[FIELD_ID_KEY] for field in found.schema] == [b"11", b"12", b"13", b"14", b"15", b"16"]
    assert found.schema.field("list").type.value_field.metadata == {FIELD_ID_KEY: b"17"}
    assert [field.nullable for field in found.schema] == [True, True, True, True, False, True]
    assert found["time"].cast(pa.int64()).to_pylist() == [86_399_999_999, None]
    assert found["uuid"].to_pylist() == [bytes(range(16)), None]
    assert found["nanos"].cast(pa.int64()).to_pylist() == [1_234_567_891, None]
    assert found["micros"].cast(pa.int64()).to_pylist() == [1_234_567, None]


@pytest.mark.parametrize(
    ("attributes", "reason"),
    [
        ({"iceberg.id": "x"}, "attribute iceberg.id of column b is 'x'"),
        ({"iceberg.binary-type": "FIXED"}, "attribute iceberg.length of column b is ''"),
        ({"iceberg.binary-type": "UUID"}, "widths must match"),
    ],
)
def test_attributes_that_contradict_the_column_are_refused(
    storage: Storage, tmp_path: Path, attributes: dict[str, str], reason: str
) -> None:
    path = tmp_path / "x.orc"
    orc.write_table(pa.table({"b": [b"abc"]}), path, compression="uncompressed")
    with_attributes(path, {1: attributes})
    with pytest.raises(DataFileError, match=reason):
        read(storage, path)


@pytest.mark.parametrize("zone", [b"EST", b"CET", b"UTC"])
def test_wall_clock_times_are_those_of_the_writers_zone(storage: Storage, tmp_path: Path, zone: bytes) -> None:
    path = tmp_path / "x.orc"
    # Arrow's own reader knows no daylight saving after 2037.
    values = pa.array(np.random.default_rng(0).integers(-(2**60), 2**61 - 2**58, 500) // 1000 * 1000)
    stamps = values.cast(pa.timestamp("ns"))
    orc.write_table(
        pa.table({"t": stamps, "z": values.cast(pa.timestamp("ns", tz="UTC"))}), path, compression="uncompressed"
    )
    path.write_bytes(path.read_bytes().replace(b"\x1a\x03GMT", b"\x1a\x03" + zone))
    wanted, found = orc.read_table(path), read(storage, path)
    for name in ("t", "z"):
        assert found[name].combine_chunks().cast(pa.int64()).to_pylist() == microseconds(wanted[name].combine_chunks())


def test_an_unknown_zone_is_refused(storage: Storage, tmp_path: Path) -> None:
    path = tmp_path / "x.orc"
    orc.write_table(pa.table({"t": pa.array([0]).cast(pa.timestamp("ns"))}), path, compression="uncompressed")
    path.write_bytes(path.read_bytes().replace(b"\x1a\x03GMT", b"\x1a\x03XYZ"))
    with pytest.raises(DataFileError, match="time zone"):
        read(storage, path)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damaged_files_are_read_or_refused_in_our_own_words(
    storage: Storage, tmp_path: Path, data: st.DataObject
) -> None:
    path = tmp_path / "x.orc"
    stamps = pa.array([1, None, 10**15], pa.int64()).cast(pa.timestamp("ns"))
    orc.write_table(pa.table({"t": stamps, "s": ["a", "b", None], "l": [[1], None, []]}), path, compression="zlib")
    whole = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(max(0, len(whole) - 400), len(whole) - 1))
        whole[place] = data.draw(st.integers(0, 255))
    path.write_bytes(bytes(whole[: data.draw(st.integers(len(whole) - 30, len(whole)))]))
    refused = None
    try:
        assert read(storage, path).num_columns <= 3
    except DataFileError as error:
        refused = error
    assert refused is None or (refused.path == str(path) and str(path) in str(refused))


@pytest.mark.parametrize("content", [b"", b"ORC", b"ORC" + bytes(100), b"\xff" * 300])
def test_what_is_not_orc_is_refused(storage: Storage, tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.orc"
    path.write_bytes(content)
    with pytest.raises(DataFileError, match="Cannot read ORC file"):
        read(storage, path)
