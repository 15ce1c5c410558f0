"""The columnar decoder against fastavro: same bytes, same values, whichever way entries are found."""

import copy
import io
import json
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deltaberg.iceberg.avro import reader as avro_reader
from deltaberg.iceberg.avro.container import encode_block, encode_header, encode_long
from deltaberg.iceberg.avro.reader import Anchor, read_avro
from deltaberg.iceberg.errors import CorruptMetadata
from deltaberg.iceberg.schema.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampNsType,
    TimestampType,
    TimestamptzNsType,
    TimestamptzType,
    TimeType,
    UnknownType,
    UuidType,
    VariantType,
)

SYNC = bytes(range(16))
LANDMARK = Anchor(field_id=1, text=b"", next_id=2, next_values=(b"avro", b"orc", b"parquet"))
INT = st.integers(-(2**31), 2**31 - 1)
LONG = st.integers(-(2**63), 2**63 - 1)


def field(field_id, kind, name=None, *, required=False):
    return NestedField(field_id=field_id, name=name or f"f{field_id}", required=required, type=kind)


def record(*fields, name="r"):
    return {
        "type": "record",
        "name": name,
        "fields": [{"name": f"n{field_id}", "type": kind, "field-id": field_id} for field_id, kind in fields],
    }


def written(schema, rows, *, sync_interval=2000):
    """A file of rows that fastavro encoded, in blocks of about ``sync_interval`` bytes."""
    parsed = fastavro.parse_schema(copy.deepcopy(schema))
    data = encode_header({"avro.schema": json.dumps(schema).encode()}, SYNC)
    block, objects = io.BytesIO(), 0
    for row in rows:
        fastavro.schemaless_writer(block, parsed, row)
        objects += 1
        if block.tell() >= sync_interval:
            data += encode_block(objects, block.getvalue(), codec="null", sync=SYNC)
            block, objects = io.BytesIO(), 0
    return data + encode_block(objects, block.getvalue(), codec="null", sync=SYNC)


def read(data, *fields, anchor=None):
    parts = list(read_avro(data, StructType(fields=fields), anchor=anchor))
    for part in parts:
        part.validate(full=True)
    return [row for part in parts for row in part.to_pylist()]


def one(avro, value, wanted):
    """A single value written as ``avro`` and read as ``wanted``."""
    (row,) = read(written(record((1, avro), (2, "int")), [{"n1": value, "n2": 0}]), field(1, wanted))
    return row["f1"]


@pytest.mark.parametrize(
    ("avro", "value", "wanted", "expected"),
    [
        ("boolean", True, BooleanType(), True),
        ("int", -(2**31), IntegerType(), -(2**31)),
        ("int", 2**31 - 1, LongType(), 2**31 - 1),
        ("long", -(2**63), LongType(), -(2**63)),
        ("long", 5, IntegerType(), 5),
        ("float", 0.5, FloatType(), 0.5),
        ("float", 0.5, DoubleType(), 0.5),
        ("double", -1e300, DoubleType(), -1e300),
        ("string", "é\U0001f600", StringType(), "é\U0001f600"),
        ("bytes", b"\x00\xff", BinaryType(), b"\x00\xff"),
        ("string", "ab", BinaryType(), b"ab"),
        ("int", 19_000, DateType(), date(1970, 1, 1) + timedelta(19_000)),
        ({"type": "int", "logicalType": "date"}, date(1969, 12, 31), DateType(), date(1969, 12, 31)),
        ({"type": "int", "logicalType": "date"}, date(2024, 2, 29), TimestampType(), datetime(2024, 2, 29)),
        (
            {"type": "long", "logicalType": "time-micros"},
            1,
            TimeType(),
            (datetime.min + timedelta(microseconds=1)).time(),
        ),
        ({"type": "long"}, -1, TimestampType(), datetime(1970, 1, 1) - timedelta(microseconds=1)),
        (
            {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": True},
            -1,
            TimestamptzType(),
            datetime(1970, 1, 1, tzinfo=timezone.utc) - timedelta(microseconds=1),
        ),
        ({"type": "long", "logicalType": "timestamp-millis"}, 7, TimestampType(), datetime(1970, 1, 1, 0, 0, 0, 7000)),
        ({"type": "fixed", "name": "x", "size": 3}, b"abc", FixedType(length=3), b"abc"),
        ({"type": "fixed", "name": "x", "size": 16, "logicalType": "none"}, bytes(16), UuidType(), bytes(16)),
        (
            {"type": "string", "logicalType": "uuid"},
            "f79c3e09-677c-4bbd-a479-3f349cb785e7",
            UuidType(),
            bytes.fromhex("f79c3e09677c4bbda4793f349cb785e7"),
        ),
        (["null", "int"], None, IntegerType(), None),
        (["int", "null"], 3, IntegerType(), 3),
        ("null", None, LongType(), None),
        (["null"], None, LongType(), None),
        ("long", 3, UnknownType(), None),
        (["null", "string"], "x", UnknownType(), None),
    ],
)
def test_a_value_is_read_as_the_type_it_may_have_now(avro, value, wanted, expected):
    assert one(avro, value, wanted) == expected


@pytest.mark.parametrize("size", [1, 5, 9, 16, 20])
@pytest.mark.parametrize("unscaled", [0, -1, 127, -128])
def test_decimals_of_any_stored_width_are_exact(size, unscaled):
    data = unscaled.to_bytes(size, "big", signed=True)
    fixed = {"type": "fixed", "name": "d", "size": size}
    assert one(fixed, data, DecimalType(precision=38, scale=2)) == Decimal(unscaled).scaleb(-2)
    assert one("bytes", data, DecimalType(precision=9, scale=2)) == Decimal(unscaled).scaleb(-2)


def test_the_widest_decimals_are_exact():
    for unscaled in (10**38 - 1, -(10**38) + 1):
        data = unscaled.to_bytes(16, "big", signed=True)
        assert one("bytes", data, DecimalType(precision=38, scale=0)) == Decimal(unscaled)


@pytest.mark.parametrize(
    ("avro", "value", "wanted", "message"),
    [
        ("long", 2**31, IntegerType(), "a value is invalid"),
        ("string", "x", LongType(), "expected long, found string"),
        ("double", 1.0, FloatType(), "expected float, found double"),
        ("long", 1, DoubleType(), "expected double, found long"),
        ("bytes", b"\xff", StringType(), "a value is invalid"),
        ("bytes", b"abcd", FixedType(length=3), "a value is invalid"),
        ("bytes", b"", DecimalType(precision=9, scale=0), "a decimal has no bytes"),
        ("bytes", (10**9).to_bytes(5, "big"), DecimalType(precision=9, scale=0), "a value is invalid"),
        ("bytes", (2**127).to_bytes(17, "big"), DecimalType(precision=38, scale=0), "exceeds 16 bytes"),
        ({"type": "fixed", "name": "x", "size": 4}, b"abcd", FixedType(length=3), r"found fixed\[4\]"),
        ({"type": "int", "logicalType": "date"}, 1, TimestamptzType(), r"expected timestamptz, found int \(date\)"),
        ({"type": "long", "logicalType": "timestamp-micros"}, 1, TimestampNsType(), "expected timestamp_ns"),
        ({"type": "long", "logicalType": "timestamp-nanos"}, 1, TimestamptzType(), "expected timestamptz"),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 3},
            Decimal("0.001"),
            DecimalType(precision=9, scale=2),
            "expected decimal",
        ),
        (["string", "long"], 1, LongType(), "found union of string, long"),
        (
            {"type": "array", "items": "int"},
            [1],
            MapType(key=field(5, IntegerType()), value=field(6, LongType())),
            "expected map",
        ),
    ],
)
def test_a_value_that_is_not_of_the_wanted_type_is_corrupt_and_its_field_is_named(avro, value, wanted, message):
    with pytest.raises(CorruptMetadata, match=message) as caught:
        one(avro, value, wanted)
    assert caught.value.field == "n1"


def test_nanoseconds_keep_their_last_digit():
    nanos = {"type": "long", "logicalType": "timestamp-nanos", "adjust-to-utc": True}
    header = encode_header({"avro.schema": json.dumps(record((1, nanos), (2, "long"))).encode()}, SYNC)
    body = encode_long(1_700_000_000_123_456_789) + encode_long(-1)
    (part,) = read_avro(
        header + encode_block(1, body, codec="null", sync=SYNC),
        StructType(fields=(field(1, TimestamptzNsType()), field(2, TimestampNsType()))),
    )
    assert part.field(0).cast(pa.int64()).to_pylist() == [1_700_000_000_123_456_789]
    assert part.field(1).cast(pa.int64()).to_pylist() == [-1]


def test_a_date_promoted_to_nanoseconds_is_midnight():
    data = written(record((1, {"type": "int", "logicalType": "date"})), [{"n1": 1}])
    (part,) = read_avro(data, StructType(fields=(field(1, TimestampNsType()),)))
    assert part.field(0).cast(pa.int64()).to_pylist() == [86_400_000_000_000]


def test_fields_are_found_by_id_whatever_their_names_and_order_are():
    schema = {
        "type": "record",
        "name": "r",
        "fields": [
            {"name": "b", "type": "string", "field-id": 2},
            {"name": "no_id", "type": {"type": "array", "items": "int"}},
            {"name": "unknown", "type": {"type": "map", "values": ["null", "double"]}, "field-id": 99},
            {
                "name": "choice",
                "type": ["int", "string", {"type": "enum", "name": "e", "symbols": ["X", "Y"]}],
                "field-id": 98,
            },
            {"name": "a", "type": ["null", "long"], "field-id": 1},
        ],
    }
    rows = [
        {
            "b": f"x{i}",
            "no_id": [1, 2][: i % 3],
            "unknown": {"k": None, "l": 1.5},
            "choice": [3, "s", "Y"][i % 3],
            "a": i or None,
        }
        for i in range(100)
    ]
    got = read(written(schema, rows), field(1, LongType()), field(3, StringType()), field(2, StringType()))
    assert got == [{"f1": row["a"], "f3": None, "f2": row["b"]} for row in rows]


def test_two_fields_with_one_id_are_corrupt():
    data = written(
        {
            "type": "record",
            "name": "r",
            "fields": [{"name": "a", "type": "int", "field-id": 1}, {"name": "b", "type": "int", "field-id": 1}],
        },
        [{"a": 1, "b": 2}],
    )
    with pytest.raises(CorruptMetadata, match="field id 1 occurs twice"):
        read(data, field(1, IntegerType()))


def test_nested_types_come_back_with_their_nulls():
    inner = record((2, ["null", "int"]), (3, {"type": "array", "items": ["null", "string"], "element-id": 4}), name="i")
    pairs = {"type": "array", "logicalType": "map", "items": record((6, "int"), (7, ["null", "bytes"]), name="p")}
    schema = record(
        (1, ["null", inner]), (5, ["null", pairs]), (8, {"type": "map", "values": "long", "key-id": 9, "value-id": 10})
    )
    rows = [
        {
            "n1": None if i % 5 == 0 else {"n2": i or None, "n3": [None, f"v{i}"][: i % 3]},
            "n5": None if i % 7 == 0 else [{"n6": k, "n7": None if k % 2 else bytes([k])} for k in range(i % 9)],
            "n8": {f"k{k}": k for k in range(i % 3)},
        }
        for i in range(200)
    ]
    struct = StructType(fields=(field(2, IntegerType()), field(3, ListType(element=field(4, StringType(), "element")))))
    mapped = MapType(key=field(6, IntegerType(), "key", required=True), value=field(7, BinaryType(), "value"))
    text = MapType(
        key=field(9, StringType(), "key", required=True), value=field(10, LongType(), "value", required=True)
    )
    got = read(written(schema, rows), field(1, struct), field(5, mapped), field(8, text))
    assert got == [
        {
            "f1": None if row["n1"] is None else {"f2": row["n1"]["n2"], "f3": row["n1"]["n3"]},
            "f5": None if row["n5"] is None else [(each["n6"], each["n7"]) for each in row["n5"]],
            "f8": list(row["n8"].items()),
        }
        for row in rows
    ]


@pytest.mark.parametrize("count", [1, 3, 100])
def test_plain_fixed_values_may_have_a_length_before_them_as_icebergs_java_library_writes_them(count):
    fixed = {"type": "fixed", "name": "x", "size": 3}
    schema = record(
        (0, "int"),
        (1, ["null", fixed]),
        (2, {"type": "fixed", "name": "u", "size": 2, "logicalType": "decimal", "precision": 4, "scale": 0}),
    )
    header = encode_header({"avro.schema": json.dumps(schema).encode()}, SYNC)
    wanted = (field(0, IntegerType()), field(1, FixedType(length=3)), field(2, DecimalType(precision=4, scale=0)))
    rows = [{"f0": i, "f1": None if i % 4 == 3 else b"ab%c" % i, "f2": Decimal(i)} for i in range(count)]
    for prefix in (b"", b"\x06"):
        body = b"".join(
            encode_long(row["f0"])
            + (b"\x00" if row["f1"] is None else b"\x02" + prefix + row["f1"])
            + bytes([0, row["f0"]])
            for row in rows
        )
        assert read(header + encode_block(count, body, codec="null", sync=SYNC), *wanted) == rows
        with pytest.raises(CorruptMetadata):
            read(header + encode_block(count, body + b"\x01", codec="null", sync=SYNC), *wanted)


def test_a_variants_parts_are_found_by_name():
    variant = {"type": "record", "name": "v", "fields": [{"name": n, "type": "bytes"} for n in ("value", "metadata")]}
    rows = [{"n1": {"metadata": b"\x01\x00", "value": b"\x0c"}}]
    assert read(written(record((1, variant)), rows), field(1, VariantType())) == [{"f1": rows[0]["n1"]}]
    with pytest.raises(CorruptMetadata, match="needs metadata and value"):
        read(written(record((1, record((5, "bytes"), name="v"))), [{"n1": {"n5": b""}}]), field(1, VariantType()))


def test_array_blocks_may_be_split_and_carry_their_size():
    header = encode_header(
        {"avro.schema": json.dumps(record((1, {"type": "array", "items": "long", "element-id": 2}))).encode()}, SYNC
    )
    row = encode_long(2) + b"\x02\x04" + encode_long(-1) + encode_long(1) + b"\x06" + b"\x00"
    data = header + encode_block(2, row + b"\x00", codec="null", sync=SYNC)
    assert read(data, field(1, ListType(element=field(2, LongType(), "element")))) == [{"f1": [1, 2, 3]}, {"f1": []}]


def entry_rows(draw_rows, prefix):
    return [
        {
            "n0": i % 3,
            "n9": row["optional"],
            "n1": f"{prefix}{row['name']}",
            "n2": row["format"],
            "n3": None if row["counts"] is None else [{"n4": k, "n5": v} for k, v in row["counts"]],
            "n6": [{"n7": k, "n8": v} for k, v in row["bounds"]],
        }
        for i, row in enumerate(draw_rows)
    ]


ENTRY = record(
    (0, "int"),
    (9, ["null", "long"]),
    (1, "string"),
    (2, "string"),
    (3, ["null", {"type": "array", "logicalType": "map", "items": record((4, "int"), (5, "long"), name="a")}]),
    (6, {"type": "array", "logicalType": "map", "items": record((7, "int"), (8, "bytes"), name="b")}),
)
WANTED = (
    field(0, IntegerType()),
    field(9, LongType()),
    field(1, StringType()),
    field(2, StringType()),
    field(
        3,
        MapType(key=field(4, IntegerType(), "key", required=True), value=field(5, LongType(), "value", required=True)),
    ),
    field(
        6,
        MapType(
            key=field(7, IntegerType(), "key", required=True), value=field(8, BinaryType(), "value", required=True)
        ),
    ),
)


def as_read(rows):
    return [
        {
            "f0": row["n0"],
            "f9": row["n9"],
            "f1": row["n1"],
            "f2": row["n2"],
            "f3": None if row["n3"] is None else [(each["n4"], each["n5"]) for each in row["n3"]],
            "f6": [(each["n7"], each["n8"]) for each in row["n6"]],
        }
        for row in rows
    ]


@settings(max_examples=60, deadline=None)
@given(
    rows=st.lists(
        st.fixed_dictionaries(
            {
                "optional": st.one_of(st.none(), LONG),
                "name": st.text(max_size=20),
                "format": st.sampled_from(["parquet", "PARQUET", "Orc", "avro", "other"]),
                "counts": st.one_of(st.none(), st.lists(st.tuples(INT, LONG), max_size=5)),
                # Bounds that look like the landmark itself.
                "bounds": st.lists(
                    st.tuples(
                        INT,
                        st.one_of(
                            st.binary(max_size=12), st.just(b"s3://b/t/x"), st.just(b"\x14s3://b/t/x\x0eparquet")
                        ),
                    ),
                    max_size=3,
                ),
            }
        ),
        min_size=1,
        max_size=40,
    ),
    prefix=st.sampled_from(["s3://b/t/data/", "/t/", "", "x"]),
    sync_interval=st.sampled_from([1, 200, 100_000]),
    few=st.sampled_from([0, 24]),
)
def test_every_way_to_find_entries_gives_the_same_rows(rows, prefix, sync_interval, few, monkeypatch_module):
    monkeypatch_module.setattr(avro_reader, "_FEW", few)
    made = entry_rows(rows, prefix)
    data = written(ENTRY, made, sync_interval=sync_interval)
    assert read(data, *WANTED, anchor=LANDMARK) == as_read(made)


@pytest.fixture(scope="module")
def monkeypatch_module():
    with pytest.MonkeyPatch.context() as patch:
        yield patch


@pytest.mark.parametrize("text", [b"", b"s3://b/t/", b"gs://elsewhere/"])
def test_many_entries_in_one_block_are_guessed_without_walking(monkeypatch, text):
    monkeypatch.setattr(avro_reader, "_walk", None)
    rows = [
        {
            "optional": i * 10**12 or None,
            "name": f"p={i % 7}/{i}.parquet",
            "format": "PARQUET",
            "counts": [(1, i), (200, -i)],
            "bounds": [(1, b"s3://b/t/data/p=0/0.parquet"), (2, b"")][: i % 3],
        }
        for i in range(3000)
    ]
    made = entry_rows(rows, "s3://b/t/data/")
    anchor = Anchor(field_id=1, text=text, next_id=2, next_values=(b"parquet",))
    assert read(written(ENTRY, made, sync_interval=10**9), *WANTED, anchor=anchor) == as_read(made)


def test_entries_of_many_groups_come_back_in_order(monkeypatch):
    monkeypatch.setattr(avro_reader, "GROUP_ENTRIES", 50)
    monkeypatch.setattr(avro_reader, "_LARGE", 0)
    rows = [{"optional": i, "name": str(i), "format": "orc", "counts": None, "bounds": []} for i in range(1000)]
    made = entry_rows(rows, "s3://b/t/")
    for sync_interval in (1, 700, 10**9):
        assert read(written(ENTRY, made, sync_interval=sync_interval), *WANTED, anchor=LANDMARK) == as_read(made)


@pytest.mark.parametrize("count", [1, 30, 3000])
def test_a_block_whose_entries_do_not_fill_it_exactly_is_corrupt(count):
    rows = [{"optional": i, "name": str(i), "format": "orc", "counts": [(1, 2)], "bounds": []} for i in range(count)]
    body = b"".join(_encoded(row) for row in entry_rows(rows, "s3://b/t/"))
    header = encode_header({"avro.schema": json.dumps(ENTRY).encode()}, SYNC)
    for objects, data in (
        (count, body + b"\x00"),
        (count, body[:-1]),
        (count + 1, body),
        (max(count - 1, 1), body + body[:9]),
    ):
        with pytest.raises(CorruptMetadata):
            read(header + encode_block(objects, data, codec="null", sync=SYNC), *WANTED, anchor=LANDMARK)


def _encoded(row):
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(copy.deepcopy(ENTRY)), row)
    return out.getvalue()


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"\x02\xfe\xff\xff\xff\x0f", "claims more bytes"),
        (b"\x02\x01", "claims more bytes"),
        (b"\x04", "chooses a branch"),
        (b"\x01", "chooses a branch"),
    ],
)
def test_a_hostile_length_or_branch_is_corrupt_and_allocates_nothing(body, message):
    header = encode_header({"avro.schema": json.dumps(record((1, ["null", "bytes"]))).encode()}, SYNC)
    with pytest.raises(CorruptMetadata, match=message) as caught:
        read(header + encode_block(1, body, codec="null", sync=SYNC), field(1, BinaryType()))
    assert caught.value.field == "n1"


@pytest.mark.parametrize(
    "body", [encode_long(2**40), encode_long(2**31), encode_long(-(2**40)) + b"\x00", encode_long(-(2**63)) + b"\x00"]
)
@pytest.mark.parametrize("items", ["long", "null"])
def test_a_hostile_item_count_is_corrupt(body, items):
    schema = record((1, {"type": "array", "items": items, "element-id": 2}))
    header = encode_header({"avro.schema": json.dumps(schema).encode()}, SYNC)
    with pytest.raises(CorruptMetadata, match="more items than there are bytes"):
        read(
            header + encode_block(1, body, codec="null", sync=SYNC),
            field(1, ListType(element=field(2, LongType(), "element"))),
        )


@pytest.mark.parametrize("objects", [2**40, 5])
def test_a_block_cannot_hold_more_entries_than_bytes(objects):
    header = encode_header({"avro.schema": json.dumps(record((1, "null"))).encode()}, SYNC)
    with pytest.raises(CorruptMetadata, match=r"objects cannot stand in 1 bytes"):
        read(header + encode_block(objects, b"\x00", codec="null", sync=SYNC), field(1, LongType()))


@pytest.mark.parametrize("schema", ['"long"', '{"type": "array", "items": "int"}'])
def test_a_file_of_something_else_than_records_is_refused(schema):
    with pytest.raises(CorruptMetadata, match="expected records"):
        read(encode_header({"avro.schema": schema.encode()}, SYNC), field(1, LongType()))
