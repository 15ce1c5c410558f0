"""What the column-wise encoder writes, fastavro reads back value by value."""

import io
import json

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deltaberg.iceberg.avro.container import read_header
from deltaberg.iceberg.avro.encoder import decimal_size
from deltaberg.iceberg.avro.reader import read_avro
from deltaberg.iceberg.avro.schema_json import avro_name, avro_schema_json
from deltaberg.iceberg.avro.writer import BLOCK_BYTES, AvroWriter
from deltaberg.iceberg.errors import InvalidIcebergRequest, UnsupportedIcebergFeature
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
    TimestamptzType,
    TimeType,
    UnknownType,
    UuidType,
    arrow_type,
)

SYNC = bytes(range(16))
INT = st.integers(-(2**31), 2**31 - 1)
LONG = st.integers(-(2**63), 2**63 - 1)


def field(field_id, kind, *, required=False, name=None):
    return NestedField(field_id=field_id, name=name or f"f{field_id}", required=required, type=kind)


def written(struct, rows, *, codec="deflate", slices=1):
    out = io.BytesIO()
    writer = AvroWriter(out, struct, name="entry", codec=codec, metadata={"k": "é"}, sync=SYNC)
    records = pa.array(rows, arrow_type(struct))
    step = -(-len(records) // slices) or 1
    for first in range(0, len(records), step):
        writer.write(records.slice(first, step))
    assert writer.length == len(out.getvalue())
    return out.getvalue()


NESTED = StructType(
    fields=(
        field(1, LongType(), required=True),
        field(2, IntegerType()),
        field(3, StringType()),
        field(4, BinaryType(), required=True),
        field(5, BooleanType()),
        field(6, DoubleType()),
        field(7, FloatType(), required=True),
        field(8, ListType(element=field(9, LongType(), required=True))),
        field(10, ListType(element=field(11, StringType()))),
        field(12, MapType(key=field(13, IntegerType(), required=True), value=field(14, LongType(), required=True))),
        field(15, MapType(key=field(16, IntegerType(), required=True), value=field(17, BinaryType(), required=True))),
        field(18, MapType(key=field(19, StringType(), required=True), value=field(20, IntegerType()))),
        field(21, StructType(fields=(field(22, IntegerType()), field(23, FixedType(length=3))))),
        field(24, StructType(fields=()), required=True),
        field(25, UnknownType()),
    )
)


def nullable(strategy):
    return st.one_of(st.none(), strategy)


ROW = st.fixed_dictionaries(
    {
        "f1": LONG,
        "f2": nullable(INT),
        "f3": nullable(st.text(max_size=30)),
        "f4": st.binary(max_size=80),
        "f5": nullable(st.booleans()),
        "f6": nullable(st.floats(allow_nan=False)),
        "f7": st.floats(width=32, allow_nan=False),
        "f8": nullable(st.lists(LONG, max_size=5)),
        "f10": nullable(st.lists(nullable(st.text(max_size=5)), max_size=4)),
        "f12": nullable(st.lists(st.tuples(INT, LONG), max_size=5)),
        "f15": nullable(st.lists(st.tuples(INT, st.binary(max_size=10)), max_size=5)),
        "f18": nullable(st.lists(st.tuples(st.text(max_size=5), nullable(INT)), max_size=3)),
        "f21": nullable(
            st.fixed_dictionaries({"f22": nullable(INT), "f23": nullable(st.binary(min_size=3, max_size=3))})
        ),
        "f24": st.just({}),
        "f25": st.none(),
    }
)


def as_fastavro(row):
    pairs = {"f12": ("f13", "f14"), "f15": ("f16", "f17"), "f18": ("f19", "f20")}
    return {
        name: None
        if value is None
        else [dict(zip(pairs[name], each, strict=True)) for each in value]
        if name in pairs
        else value
        for name, value in row.items()
    }


@settings(max_examples=80, deadline=None)
@given(rows=st.lists(ROW, max_size=12), slices=st.integers(1, 3))
def test_every_shape_of_value_comes_back_from_fastavro_and_from_our_own_reader(rows, slices):
    data = written(NESTED, rows, slices=slices)
    assert list(fastavro.reader(io.BytesIO(data))) == [as_fastavro(row) for row in rows]
    assert [row for part in read_avro(data, NESTED) for row in part.to_pylist()] == rows


@settings(max_examples=30, deadline=None)
@given(
    values=st.lists(
        st.one_of(LONG, st.sampled_from([2 ** (7 * k - 1) + d for k in range(1, 10) for d in (-1, 0)])), min_size=1
    )
)
def test_longs_of_every_width_are_exact(values):
    struct = StructType(fields=(field(1, LongType(), required=True),))
    assert [
        row["f1"] for row in fastavro.reader(io.BytesIO(written(struct, [{"f1": value} for value in values])))
    ] == values


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (DateType(), [-1, 0, 20_000]),
        (TimeType(), [0, 86_399_999_999]),
        (TimestamptzType(), [-1, 1_700_000_000_123_456]),
        (TimestampNsType(), [-1, 1_700_000_000_123_456_789]),
        (UuidType(), [bytes(range(16)), bytes(16)]),
        (FixedType(length=2), [b"ab", b"\x00\xff"]),
    ],
)
def test_temporal_and_fixed_values_come_back(kind, values):
    struct = StructType(fields=(field(1, kind, required=True), field(2, kind)))
    plain = pa.int32() if isinstance(kind, DateType) else pa.int64()
    target = arrow_type(kind)
    column = pa.array(values, target) if pa.types.is_fixed_size_binary(target) else pa.array(values, plain).view(target)
    padded = pa.concat_arrays([column.slice(1), pa.nulls(1, target)])
    records = pa.StructArray.from_arrays([column, padded], names=["f1", "f2"])
    out = io.BytesIO()
    AvroWriter(out, struct, name="r", codec="null", metadata={}, sync=SYNC).write(records)
    (part,) = read_avro(out.getvalue(), struct)
    assert part.field(0).equals(column)
    assert part.field(1).equals(padded)


@pytest.mark.parametrize("precision", [1, 2, 4, 9, 18, 19, 28, 38])
def test_decimals_take_the_fewest_bytes_that_hold_their_precision(precision):
    struct = StructType(fields=(field(1, DecimalType(precision=precision, scale=1 if precision > 1 else 0)),))
    top = 10**precision - 1
    unscaled = [top, -top, 0, 1, -1, None]
    words = [0 if each is None else each for each in unscaled]
    buffer = b"".join(each.to_bytes(16, "little", signed=True) for each in words)
    plain = pa.Array.from_buffers(arrow_type(struct.fields[0].type), 6, [None, pa.py_buffer(buffer)])
    column = plain.take(pa.array([0, 1, 2, 3, 4, None]))
    out = io.BytesIO()
    AvroWriter(out, struct, name="r", codec="null", metadata={}, sync=SYNC).write(
        pa.StructArray.from_arrays([column], names=["f1"])
    )
    assert (2 ** (8 * decimal_size(precision) - 1)) - 1 >= top > (
        2 ** (8 * (decimal_size(precision) - 1) - 1)
    ) - 1 or precision == 1
    assert [row["f1"] for row in fastavro.reader(io.BytesIO(out.getvalue()))] == column.to_pylist()
    (part,) = read_avro(out.getvalue(), struct)
    assert part.field(0).equals(column)


def test_large_batches_are_cut_into_blocks_of_moderate_size():
    struct = StructType(fields=(field(1, StringType(), required=True),))
    rows = [{"f1": f"{i:0200d}"} for i in range(20_000)]
    data = written(struct, rows)
    blocks = list(fastavro.block_reader(io.BytesIO(data)))
    assert len(blocks) == 32
    assert max(block.num_records * 202 for block in blocks) <= BLOCK_BYTES
    assert [row for block in blocks for row in block] == rows


def test_a_null_in_a_required_field_is_refused_by_name():
    struct = StructType(fields=(field(1, LongType(), required=True),))
    with pytest.raises(InvalidIcebergRequest, match=r"Cannot write Avro field f1: it is required \(field id 1\)"):
        written(struct, [{"f1": None}])


def test_an_unknown_codec_is_refused():
    with pytest.raises(UnsupportedIcebergFeature, match="'brotli'"):
        written(NESTED, [], codec="brotli")


def test_the_header_has_both_schemas_and_what_was_given():
    header = read_header(written(NESTED, []))
    assert header.codec == "deflate"
    assert header.text("k") == "é"
    assert json.loads(header.text("iceberg.schema"))["fields"][0] == {
        "id": 1,
        "name": "f1",
        "required": True,
        "type": "long",
    }
    assert json.loads(header.text("avro.schema"))["name"] == "entry"


def test_ids_stand_where_appendix_a_puts_them():
    fields = {each["name"]: each for each in avro_schema_json(NESTED, "entry")["fields"]}
    assert fields["f1"] == {"name": "f1", "type": "long", "field-id": 1}
    assert fields["f2"] == {"name": "f2", "type": ["null", "int"], "default": None, "field-id": 2}
    assert fields["f8"]["type"][1] == {"type": "array", "items": "long", "element-id": 9}
    assert fields["f10"]["type"][1]["items"] == ["null", "string"]
    pairs = fields["f15"]["type"][1]
    assert pairs["logicalType"] == "map"
    assert pairs["items"]["name"] == "k16_v17"
    assert [each["field-id"] for each in pairs["items"]["fields"]] == [16, 17]
    assert fields["f21"]["type"][1]["name"] == "r21"
    assert fields["f25"]["type"] == "null"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a", "a"),
        ("with space", "with_x20space"),
        ("1a", "_1a"),
        ("a.b", "a_x2Eb"),
        ("é", "_xE9"),
        ("\U0001f600", "_x1F600"),
        ("", "_"),
    ],
)
def test_names_that_avro_does_not_allow_are_spelt_out(name, expected):
    assert avro_name(name) == expected


def test_spelt_out_names_keep_the_original_and_never_clash():
    struct = StructType(
        fields=(
            field(1, LongType(), name="a b"),
            field(2, LongType(), name="a_x20b"),
            field(3, FixedType(length=2)),
            field(4, FixedType(length=2)),
            field(5, DecimalType(precision=5, scale=2)),
            field(6, DecimalType(precision=5, scale=2)),
        )
    )
    fields = avro_schema_json(struct, "r")["fields"]
    assert [each["name"] for each in fields] == ["a_x20b", "a_x20b_2", "f3", "f4", "f5", "f6"]
    assert [each.get("iceberg-field-name") for each in fields[:3]] == ["a b", "a_x20b", None]
    assert [each["type"][1]["name"] for each in fields[2:]] == ["fixed_2", "fixed_2_2", "decimal_5_2", "decimal_5_2_2"]
    fastavro.parse_schema(avro_schema_json(struct, "r"))
