"""Variants: every type of the binary encoding, shredded or not, and nothing foreign out of broken ones."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import math
import random
import struct
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deltaberg.datafile import DataFileError, ParquetSource, ReadField
from deltaberg.datafile.variant.variant import to_json, variants_to_json
from deltaberg.datafile.variant.variant_metadata import field_names
from deltaberg.datafile.variant.variant_shredding import unshredded
from deltaberg.storage import open_storage

EMPTY = b"\x01\x00\x00"


def metadata(*names: str, width: int = 1) -> bytes:
    content = [name.encode() for name in names]
    offsets = [sum(map(len, content[:index])) for index in range(len(content) + 1)]
    numbers = [len(names), *offsets]
    return bytes([1 | (width - 1) << 6]) + b"".join(n.to_bytes(width, "little") for n in numbers) + b"".join(content)


def primitive(number: int, data: bytes = b"") -> bytes:
    return bytes([number << 2]) + data


def array(*items: bytes, width: int = 1, large: bool = False) -> bytes:
    offsets = [sum(map(len, items[:index])) for index in range(len(items) + 1)]
    head = bytes([3 | (width - 1) << 2 | large << 4]) + len(items).to_bytes(4 if large else 1, "little")
    return head + b"".join(o.to_bytes(width, "little") for o in offsets) + b"".join(items)


def an_object(fields: dict[int, bytes], width: int = 1, id_width: int = 1, large: bool = False) -> bytes:
    items = list(fields.values())
    offsets = [sum(map(len, items[:index])) for index in range(len(items) + 1)]
    head = bytes([2 | (width - 1) << 2 | (id_width - 1) << 4 | large << 6])
    return b"".join(
        (
            head,
            len(items).to_bytes(4 if large else 1, "little"),
            *(number.to_bytes(id_width, "little") for number in fields),
            *(offset.to_bytes(width, "little") for offset in offsets),
            *items,
        )
    )


def micros(moment: dt.datetime) -> bytes:
    return struct.pack("<q", (moment - dt.datetime(1970, 1, 1)) // dt.timedelta(microseconds=1))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (primitive(0), "null"),
        (primitive(1), "true"),
        (primitive(2), "false"),
        (primitive(3, b"\x80"), "-128"),
        (primitive(4, b"\xff\x7f"), "32767"),
        (primitive(5, b"\x00\x00\x00\x80"), "-2147483648"),
        (primitive(6, b"\xff" * 7 + b"\x7f"), "9223372036854775807"),
        (primitive(7, struct.pack("<d", 1.0)), "1.0"),
        (primitive(7, struct.pack("<d", -0.0)), "-0.0"),
        (primitive(7, struct.pack("<d", 0.001)), "0.001"),
        (primitive(7, struct.pack("<d", 0.0001)), "1.0E-4"),
        (primitive(7, struct.pack("<d", 9_999_999.5)), "9999999.5"),
        (primitive(7, struct.pack("<d", 1e7)), "1.0E7"),
        (primitive(7, struct.pack("<d", 1.25e300)), "1.25E300"),
        (primitive(7, struct.pack("<d", 5e-324)), "5.0E-324"),
        (primitive(7, struct.pack("<d", 1234567.0)), "1234567.0"),
        (primitive(7, struct.pack("<d", math.nan)), '"NaN"'),
        (primitive(7, struct.pack("<d", math.inf)), '"Infinity"'),
        (primitive(7, struct.pack("<d", -math.inf)), '"-Infinity"'),
        (primitive(8, b"\x02" + struct.pack("<i", -125)), "-1.25"),
        (primitive(8, b"\x02" + struct.pack("<i", 100)), "1"),
        (primitive(8, b"\x03" + struct.pack("<i", -5)), "-0.005"),
        (primitive(8, b"\x00" + struct.pack("<i", 100)), "100"),
        (primitive(9, b"\x12" + struct.pack("<q", 10**18 - 1)), "0.999999999999999999"),
        (primitive(10, b"\x26" + (10**38 - 1).to_bytes(16, "little")), "0." + "9" * 38),
        (primitive(10, b"\x00" + (-(10**38) + 1).to_bytes(16, "little", signed=True)), "-" + "9" * 38),
        (primitive(11, struct.pack("<i", 0)), '"1970-01-01"'),
        (primitive(11, struct.pack("<i", -719_162)), '"0001-01-01"'),
        (primitive(11, struct.pack("<i", -719_528)), '"0000-01-01"'),
        (primitive(11, struct.pack("<i", -719_529)), '"-0001-12-31"'),
        (primitive(11, struct.pack("<i", 2_932_897)), '"+10000-01-01"'),
        (primitive(12, micros(dt.datetime(2024, 2, 29, 1, 2, 3, 450_000))), '"2024-02-29 01:02:03.45+00:00"'),
        (primitive(12, micros(dt.datetime(1969, 12, 31, 23, 59, 59, 999_999))), '"1969-12-31 23:59:59.999999+00:00"'),
        (primitive(13, micros(dt.datetime(2024, 2, 29))), '"2024-02-29 00:00:00"'),
        (primitive(14, struct.pack("<f", 0.1)), "0.1"),
        (primitive(14, struct.pack("<f", 16_777_216.0)), "1.6777216E7"),
        (primitive(14, struct.pack("<f", math.nan)), '"NaN"'),
        (primitive(15, b"\x02\0\0\0\x00\xff"), '"AP8="'),
        (primitive(15, b"\x00\0\0\0"), '""'),
        (primitive(16, b"\x03\0\0\0\xc3\xa9\x0a"), '"é\\n"'),
        (primitive(17, struct.pack("<q", 86_399_999_999)), '"23:59:59.999999"'),
        (primitive(17, struct.pack("<q", 0)), '"00:00:00"'),
        (primitive(18, struct.pack("<q", 1)), '"1970-01-01 00:00:00.000000001+00:00"'),
        (primitive(19, struct.pack("<q", -1)), '"1969-12-31 23:59:59.999999999"'),
        (primitive(20, bytes(range(16))), '"00010203-0405-0607-0809-0a0b0c0d0e0f"'),
        (b"\x01", '""'),
        (bytes([63 << 2 | 1]) + b"x" * 63, '"' + "x" * 63 + '"'),
        (array(), "[]"),
        (array(primitive(0), array(primitive(1))), "[null,[true]]"),
        (array(*[primitive(0)] * 300, width=2, large=True), "[" + ",".join(["null"] * 300) + "]"),
        (array(primitive(1), width=4, large=True), "[true]"),
        (array(primitive(1), width=3), "[true]"),
    ],
)
def test_every_type_has_its_text(value: bytes, text: str) -> None:
    assert to_json(EMPTY, value) == text
    json.loads(text)


@pytest.mark.parametrize("width", [1, 2, 3, 4])
@pytest.mark.parametrize("large", [False, True])
def test_objects_of_every_width_are_read(width: int, large: bool) -> None:
    names = metadata("a", 'é"', "", width=width)
    value = an_object({0: primitive(1), 2: primitive(2), 1: array(primitive(0))}, width, width, large)
    assert to_json(names, value) == '{"a":true,"":false,"é\\"":[null]}'
    assert to_json(names, an_object({})) == "{}"


def test_values_of_an_object_may_stand_in_any_order() -> None:
    value = bytes([2, 2, 0, 1, 1, 0, 3]) + primitive(2) + primitive(3, b"\x05")
    assert to_json(metadata("a", "b"), value) == '{"a":5,"b":false}'


def test_field_names_are_told_in_any_order_and_width() -> None:
    assert field_names(metadata()) == ()
    assert field_names(metadata("b", "a", "b", width=3)) == ("b", "a", "b")
    sorted_flag = metadata("a", "b")
    assert field_names(bytes([sorted_flag[0] | 0x10]) + sorted_flag[1:]) == ("a", "b")
    assert len(field_names(metadata(*map(str, range(1000)), width=2))) == 1000


@pytest.mark.parametrize(
    ("names", "value", "message"),
    [
        (EMPTY, b"", "begins at byte 0 of 0"),
        (EMPTY, primitive(21), "primitive type 21"),
        (EMPTY, primitive(63), "primitive type 63"),
        (EMPTY, primitive(6, b"\0"), "ends at byte 9"),
        (EMPTY, primitive(16, b"\xff\xff\xff\xff"), "ends at byte 4294967300"),
        (EMPTY, primitive(16, b"\x01"), "ends at byte 6"),
        (EMPTY, primitive(16, b"\x01\0\0\0\xff"), "not UTF-8"),
        (EMPTY, b"\x05\xff", "not UTF-8"),
        (EMPTY, b"\x09a", "ends at byte 3"),
        (EMPTY, primitive(0) + b"x", "1 bytes follow"),
        (EMPTY, primitive(8, b"\x27" + bytes(4)), "scale 39"),
        (EMPTY, primitive(10, b"\x00" + (10**38).to_bytes(16, "little")), "at most 38 digits"),
        (EMPTY, primitive(17, struct.pack("<q", 86_400_000_000)), "microseconds after midnight"),
        (EMPTY, primitive(17, struct.pack("<q", -1)), "microseconds after midnight"),
        (EMPTY, bytes([3 | 1 << 4]) + b"\xff\xff\xff\xff", "ends at byte 4294967"),
        (EMPTY, bytes([3, 2, 0, 0, 1]) + primitive(0), "overlap"),
        (EMPTY, bytes([3, 1, 5, 6]) + primitive(0), "ends at byte"),
        (EMPTY, bytes([3, 1, 0, 0]), "leads outside"),
        (EMPTY, bytes([2, 1, 7, 0, 1]) + primitive(0), "field id 7"),
        (metadata("a", "a"), an_object({0: primitive(0), 1: primitive(0)}), "a field twice"),
        (b"", an_object({0: primitive(0)}), "version nothing"),
        (b"\x02\x00\x00", an_object({0: primitive(0)}), "version 2"),
        (b"\xc1\xff\xff\xff\xff", an_object({0: primitive(0)}), "4294967295 field names"),
        (b"\x01\x01\x00\x05a", an_object({0: primitive(0)}), "lead outside"),
        (b"\x01\x02\x00\x02\x01ab", an_object({0: primitive(0)}), "not in ascending order"),
        (b"\x01\x01\x00\x01\xff", an_object({0: primitive(0)}), "field name is not UTF-8"),
    ],
)
def test_malformed_variants_are_refused_with_a_reason(names: bytes, value: bytes, message: str) -> None:
    with pytest.raises(DataFileError, match=message) as raised:
        to_json(names, value)
    assert str(raised.value).startswith("Cannot read a Variant: ")


def test_nesting_without_end_is_refused() -> None:
    value = primitive(0)
    for _ in range(300):
        value = array(value, width=4)
    assert to_json(EMPTY, value) == "[" * 300 + "null" + "]" * 300
    for _ in range(300):
        value = array(value, width=4)
    with pytest.raises(DataFileError, match="nested more than 400 deep"):
        to_json(EMPTY, value)


def test_values_shared_to_multiply_without_end_are_refused() -> None:
    value = array(primitive(0))
    for _ in range(40):
        # Two elements, both at offset 0: the text would double with every level.
        value = bytes([3 | 1 << 2, 2]) + struct.pack("<HHH", 0, 0, len(value)) + value
    with pytest.raises(DataFileError, match="overlap"):
        to_json(EMPTY, value)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(max_size=70),
    lambda below: st.lists(below, max_size=4) | st.dictionaries(st.text(max_size=3), below, max_size=4),
    max_leaves=12,
)


def names_of(value: Any) -> set[str]:
    if isinstance(value, dict):
        return set(value).union(*map(names_of, value.values()))
    return set().union(*map(names_of, value)) if isinstance(value, list) else set()


def encoded(value: Any, ids: dict[str, int]) -> bytes:
    if value is None or isinstance(value, bool):
        return primitive(0 if value is None else 1 if value else 2)
    if isinstance(value, int):
        return primitive(6, struct.pack("<q", value))
    if isinstance(value, str):
        data = value.encode()
        return (
            bytes([len(data) << 2 | 1]) + data if len(data) < 64 else primitive(16, struct.pack("<I", len(data)) + data)
        )
    if isinstance(value, list):
        return array(*(encoded(item, ids) for item in value), width=4)
    return an_object({ids[name]: encoded(value[name], ids) for name in sorted(value, key=str.encode)}, 4, 4)


@settings(max_examples=150)
@given(json_values)
def test_json_comes_back_as_it_went_in(value: Any) -> None:
    names = sorted(names_of(value))
    text = to_json(metadata(*names, width=4), encoded(value, {name: n for n, name in enumerate(names)}))
    assert json.loads(text) == value


@settings(max_examples=300)
@given(json_values, st.randoms(use_true_random=False))
def test_damaged_variants_are_refused_or_still_json(value: Any, chance: random.Random) -> None:
    names = sorted(names_of(value))
    dictionary = bytearray(metadata(*names, width=4))
    data = bytearray(encoded(value, {name: n for n, name in enumerate(names)}))
    for _ in range(2):
        target = chance.choice([dictionary, data])
        target[chance.randrange(len(target))] = chance.randrange(256)
    with contextlib.suppress(DataFileError):
        json.loads(to_json(bytes(dictionary), bytes(data)))


def test_a_column_of_variants_keeps_its_nulls() -> None:
    texts = variants_to_json(pa.array([EMPTY, EMPTY, None]), pa.array([primitive(0), None, None], pa.binary()))
    assert texts.to_pylist() == ["null", None, None]


GROUP = pa.struct([("value", pa.binary()), ("typed_value", pa.int64())])


def test_shredded_primitives_are_put_together() -> None:
    names = pa.array([EMPTY] * 4)
    value = pa.array([None, primitive(0), b"\x0dn/a", None], pa.binary())
    typed = pa.array([34, None, None, None], pa.int64())
    whole = unshredded(names, value, typed)
    # Missing where a value is required is the Variant null.
    assert variants_to_json(names, whole).to_pylist() == ["34", "null", '"n/a"', "null"]
    assert whole[0].as_py() == primitive(6, struct.pack("<q", 34))


@pytest.mark.parametrize(
    ("kind", "item", "expected"),
    [
        (pa.bool_(), True, primitive(1)),
        (pa.bool_(), False, primitive(2)),
        (pa.int8(), -1, primitive(3, b"\xff")),
        (pa.int16(), 5, primitive(4, b"\x05\0")),
        (pa.int32(), 5, primitive(5, b"\x05\0\0\0")),
        (pa.int64(), 5, primitive(6, b"\x05" + bytes(7))),
        (pa.float64(), 1.5, primitive(7, struct.pack("<d", 1.5))),
        (pa.float32(), 1.5, primitive(14, struct.pack("<f", 1.5))),
        (pa.decimal128(9, 2), Decimal("-1.25"), primitive(8, b"\x02" + struct.pack("<i", -125))),
        (pa.decimal128(18, 3), Decimal("1.250"), primitive(9, b"\x03" + struct.pack("<q", 1250))),
        (pa.decimal128(38, 0), Decimal(-(10**37)), primitive(10, b"\x00" + (-(10**37)).to_bytes(16, "little", signed=True))),
        (pa.date32(), dt.date(1970, 1, 3), primitive(11, b"\x02\0\0\0")),
        (pa.timestamp("us", "UTC"), 7, primitive(12, b"\x07" + bytes(7))),
        (pa.timestamp("us"), 7, primitive(13, b"\x07" + bytes(7))),
        (pa.timestamp("ns", "UTC"), 7, primitive(18, b"\x07" + bytes(7))),
        (pa.timestamp("ns"), 7, primitive(19, b"\x07" + bytes(7))),
        (pa.time64("us"), 7, primitive(17, b"\x07" + bytes(7))),
        (pa.binary(), b"\xff", primitive(15, b"\x01\0\0\0\xff")),
        (pa.string(), "é", b"\x09\xc3\xa9"),
        (pa.string(), "x" * 64, primitive(16, b"\x40\0\0\0" + b"x" * 64)),
        (pa.binary(16), bytes(range(16)), primitive(20, bytes(range(16)))),
    ],
)  # fmt: skip
def test_every_shredded_type_becomes_its_variant_type(kind: pa.DataType, item: Any, expected: bytes) -> None:
    typed = pa.array([None, None, item, None], kind).slice(1)
    whole = unshredded(pa.array([EMPTY] * 3), pa.array([primitive(0), None, primitive(1)]), typed)
    assert whole.to_pylist() == [primitive(0), expected, primitive(1)]


@pytest.mark.parametrize("kind", [pa.uint8(), pa.timestamp("ms"), pa.binary(4), pa.time32("ms"), pa.decimal256(50, 1)])
def test_shredding_as_other_types_is_refused(kind: pa.DataType) -> None:
    with pytest.raises(DataFileError, match="which the specification does not list"):
        unshredded(pa.array([EMPTY]), None, pa.nulls(1, kind))


def test_shredded_objects_and_arrays_of_objects_are_put_together() -> None:
    names = metadata("a", "b", "extra", "z")
    field = pa.struct([("value", pa.binary()), ("typed_value", pa.string())])
    element = pa.struct([("value", pa.binary()), ("typed_value", pa.struct([("z", GROUP)]))])
    kind = pa.struct([("b", field), ("a", pa.struct([("value", pa.binary()), ("typed_value", pa.list_(element))]))])
    rows: list[tuple[bytes | None, Any, str]] = [
        (None, {"b": {"typed_value": "x"}, "a": {}}, '{"b":"x"}'),
        (None, {"b": {}, "a": {}}, "{}"),
        (an_object({2: primitive(1)}), {"b": {"value": primitive(0)}, "a": {}}, '{"b":null,"extra":true}'),
        (b"\x05s", None, '"s"'),
        (None, None, "null"),
        (
            None,
            {
                "b": {},
                "a": {
                    "typed_value": [
                        {"typed_value": {"z": {"typed_value": 1}}},
                        {"value": primitive(2)},
                        {"value": an_object({2: primitive(0)}), "typed_value": {"z": {}}},
                        {"value": primitive(0)},
                    ]
                },
            },
            '{"a":[{"z":1},false,{"extra":null},null]}',
        ),
        (None, {"b": {}, "a": {"typed_value": []}}, '{"a":[]}'),
    ]
    dictionaries = pa.array([names] * len(rows))
    whole = unshredded(
        dictionaries, pa.array([row[0] for row in rows], pa.binary()), pa.array([row[1] for row in rows], kind)
    )
    assert variants_to_json(dictionaries, whole).to_pylist() == [row[2] for row in rows]


@settings(max_examples=60)
@given(st.lists(st.dictionaries(st.sampled_from("abcd"), json_values, max_size=4), max_size=5))
def test_shredding_and_putting_together_changes_nothing(values: list[dict[str, Any]]) -> None:
    names = sorted(set().union("abcd", *map(names_of, values)))
    ids = {name: number for number, name in enumerate(names)}
    text = pa.struct([("value", pa.binary()), ("typed_value", pa.string())])
    number = pa.struct([("value", pa.binary()), ("typed_value", pa.int64())])

    def part(value: dict[str, Any], name: str, kind: type) -> dict[str, Any]:
        if name not in value:
            return {}
        item = value[name]
        return {"typed_value": item} if type(item) is kind else {"value": encoded(item, ids)}

    typed = pa.array(
        [{"a": part(value, "a", str), "c": part(value, "c", int)} for value in values],
        pa.struct([("a", text), ("c", number)]),
    )
    rest = [{name: item for name, item in value.items() if name not in "ac"} for value in values]
    dictionaries = pa.array([metadata(*names, width=4)] * len(values), pa.binary())
    whole = unshredded(
        dictionaries, pa.array([encoded(item, ids) if item else None for item in rest], pa.binary()), typed
    )
    assert [json.loads(item) for item in variants_to_json(dictionaries, whole).to_pylist()] == values


@pytest.mark.parametrize(
    ("value", "typed", "message"),
    [
        (primitive(0), pa.array([1]), "both value and typed_value"),
        (primitive(0), pa.array([{"a": {"typed_value": 1}}], pa.struct([("a", GROUP)])), "value is no object"),
        (
            an_object({0: primitive(0)}),
            pa.array([{"a": {"typed_value": 1}}], pa.struct([("a", GROUP)])),
            "'a' is both in value and in typed_value",
        ),
        (None, pa.array([{"b": {"typed_value": 1}}], pa.struct([("b", GROUP)])), "'b' is not in its metadata"),
        (None, pa.array([{"a": 1}]), "'a' is int64 .expected a group"),
        (None, pa.array([[1]]), "elements of a shredded array are int64"),
        (None, pa.array([{"a": {"x": 1}}]), r"fields \['x'\]"),
        (
            bytes([2, 2, 0, 0, 0, 0, 1]) + primitive(0),
            pa.array([{"a": {}}], pa.struct([("a", GROUP)])),
            "overlap",
        ),
        (
            bytes([2 | 1 << 6]) + b"\xff\xff\xff\xff",
            pa.array([{"a": {}}], pa.struct([("a", GROUP)])),
            "4294967295 fields",
        ),
    ],
)
def test_shredding_that_contradicts_itself_is_refused(value: bytes | None, typed: pa.Array, message: str) -> None:
    with pytest.raises(DataFileError, match=message):
        unshredded(pa.array([metadata("a")]), pa.array([value], pa.binary()), typed)


PLAIN = pa.struct([pa.field("metadata", pa.binary(), False), pa.field("value", pa.binary(), False)])


def variant_field(name: str, kind: pa.DataType) -> ReadField:
    return ReadField(name=name, physical_name=name, type=kind, kind="variant")


def test_variant_columns_are_read_as_text_or_whole_anywhere_in_a_row(tmp_path: Path) -> None:
    one, two = {"value": primitive(1), "metadata": EMPTY}, {"value": b"\x05x", "metadata": EMPTY}
    stored = pa.struct([("value", pa.binary()), ("metadata", pa.binary())])
    shredded = pa.struct([("metadata", pa.binary()), ("value", pa.binary()), ("typed_value", pa.int64())])
    table = pa.table(
        {
            "v": pa.array([one, None, two], stored),
            "l": pa.array([[one, None], None, []], pa.list_(pa.field("element", stored))),
            "w": pa.array([{"metadata": EMPTY, "typed_value": 5}, None, {"metadata": EMPTY}], shredded),
        }
    )
    pq.write_table(table, tmp_path / "f")

    def read(kind: pa.DataType) -> list[dict[str, Any]]:
        element = variant_field("element", kind)
        items = ReadField(name="l", physical_name="l", type=pa.list_(pa.field("element", kind)), children=(element,))
        with ParquetSource(open_storage(), f"{tmp_path}/f") as source:
            (batch,) = source.iter_batches([variant_field("v", kind), items, variant_field("w", kind)], match="name")
        batch.validate(full=True)
        rows: list[dict[str, Any]] = batch.to_pylist()
        return rows

    assert read(pa.string()) == [
        {"v": "true", "l": ["true", None], "w": "5"},
        {"v": None, "l": None, "w": None},
        {"v": '"x"', "l": [], "w": "null"},
    ]
    five = {"metadata": EMPTY, "value": primitive(6, b"\x05" + bytes(7))}
    assert read(PLAIN) == [
        {"v": one, "l": [one, None], "w": five},
        {"v": None, "l": None, "w": None},
        {"v": two, "l": [], "w": {"metadata": EMPTY, "value": primitive(0)}},
    ]


def test_malformed_variants_name_the_file_and_the_column(tmp_path: Path) -> None:
    broken = pa.array([{"metadata": EMPTY, "value": b"\xfc"}], PLAIN)
    pq.write_table(pa.table({"v": broken, "n": [1]}), tmp_path / "f")
    for name, message in (("v", "primitive type 63"), ("n", "it is no Variant group")):
        with ParquetSource(open_storage(), f"{tmp_path}/f") as source:
            with pytest.raises(DataFileError, match=rf"Cannot read column '{name}': .*{message}") as raised:
                list(source.iter_batches([variant_field(name, pa.string())], match="name"))
            assert str(tmp_path / "f") in str(raised.value)


@pytest.mark.parametrize(
    "case", ["delta/spark-variant", "delta/spark-variant_shredded", "iceberg/spark-types_variant_v3"]
)
def test_text_is_what_spark_writes(shared: Path, case: str) -> None:
    folder = shared / "corpus" / case
    wanted = set(pq.read_table(folder / "expected.parquet", columns=["v"])["v"].to_pylist())
    found: set[str | None] = set()
    for file in sorted((folder / "table").rglob("*.parquet")):
        if "_delta_log" in file.parts or "metadata" in file.parts:
            continue
        with ParquetSource(open_storage(), str(file)) as source:
            for batch in source.iter_batches([variant_field("v", pa.string())], match="name"):
                found.update(batch["v"].to_pylist())
    assert wanted - {None} <= found
