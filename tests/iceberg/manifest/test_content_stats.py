"""Typed statistics of version 4: the id arithmetic of the text, and both directions without loss."""

import math
import struct
from datetime import date
from decimal import Decimal

import pyarrow as pa
import pytest

from deltaberg.iceberg.errors import CorruptMetadata
from deltaberg.iceberg.manifest.content_stats import (
    content_stats_type,
    metrics_from_stats,
    stats_from_metrics,
    stats_id,
)
from deltaberg.iceberg.manifest.data_file import DATA_FILE_SCHEMA
from deltaberg.iceberg.schema.schema import Schema
from deltaberg.iceberg.schema.types import (
    BinaryType,
    DateType,
    DecimalType,
    DoubleType,
    GeographyType,
    GeometryType,
    IntegerType,
    ListType,
    LongType,
    NestedField,
    StringType,
    StructType,
    UnknownType,
    UuidType,
    VariantType,
    arrow_type,
)


def field(field_id, kind, *, required=False, name=None):
    return NestedField(field_id=field_id, name=name or f"c{field_id}", required=required, type=kind)


SCHEMA = Schema(
    schema_id=0,
    fields=(
        field(1, LongType(), required=True),
        field(2, StringType()),
        field(3, DoubleType()),
        field(4, VariantType()),
        field(5, GeometryType()),
        field(6, GeographyType()),
        field(
            7,
            StructType(
                fields=(field(8, DateType()), field(9, ListType(element=field(10, IntegerType(), name="element"))))
            ),
        ),
        field(11, DecimalType(precision=9, scale=2)),
        field(12, UuidType()),
        field(13, BinaryType()),
        field(14, UnknownType()),
    ),
)


def ids(kind):
    return {each.name: each.field_id for each in kind.fields}


def test_ids_are_those_of_the_text():
    assert [stats_id(each) for each in (0, 2, 3, 999_949)] == [10_000, 10_400, 10_600, 199_999_800]
    assert stats_id(999_950) is None
    assert (stats_id(2147483540), stats_id(2147483539)) == (9200, 9000)


def test_every_type_has_the_members_that_the_table_gives_it():
    kind = content_stats_type(SCHEMA)
    members = {each.name: ids(each.type) for each in kind.fields}
    assert members["c1"] == {
        "lower_bound": 10_201,
        "upper_bound": 10_202,
        "tight_bounds": 10_203,
        "value_count": 10_204,
    }
    assert members["c2"] == {
        "lower_bound": 10_401,
        "upper_bound": 10_402,
        "tight_bounds": 10_403,
        "value_count": 10_404,
        "null_value_count": 10_405,
        "avg_value_size_in_bytes": 10_407,
    }
    assert members["c3"]["nan_value_count"] == 10_606
    assert "tight_bounds" not in members["c4"]
    assert members["c4"]["avg_value_size_in_bytes"] == 10_807
    assert "tight_bounds" not in members["c5"]
    assert set(members["c7"]) == {"value_count", "null_value_count"}
    assert members["c7.c8"]["lower_bound"] == 11_601
    assert set(members["c14"]) == {"value_count", "null_value_count"}
    assert members["_row_id"]["lower_bound"] == 9201
    assert members["_last_updated_sequence_number"]["value_count"] == 9004
    points = {each.name: ids(each.type) for each in next(f for f in kind.fields if f.name == "c5").type.fields[:2]}
    assert points["lower_bound"] == {"x": 11_010, "y": 11_011, "z": 11_012, "m": 11_013}
    assert points["upper_bound"] == {"x": 11_014, "y": 11_015, "z": 11_016, "m": 11_017}
    everything = [each.field_id for each in _walk(kind)]
    assert len(everything) == len(set(everything))


def _walk(kind):
    for each in kind.fields:
        yield each
        if isinstance(each.type, StructType):
            yield from _walk(each.type)


def test_fields_without_room_for_statistics_are_left_out():
    schema = Schema(schema_id=0, fields=(field(999_949, LongType()), field(999_950, LongType())))
    assert ids(content_stats_type(schema, [999_949, 999_950])) == {"c999949": 199_999_800}


def point(*values):
    return struct.pack(f"<{len(values)}d", *values)


VARIANT = b"\x01\x01\x00\x01$" + b"\x02\x01\x00\x00\x02\x0c\x07"
LOWER = {
    1: struct.pack("<q", -5),
    2: "é".encode(),
    3: struct.pack("<d", -0.0),
    4: VARIANT,
    5: point(1.0, 2.0),
    6: point(1.0, 2.0, math.nan, 4.0),
    8: struct.pack("<i", -1),
    10: struct.pack("<i", 3),
    11: b"\xff\x7f",
    12: bytes(range(16)),
    13: b"",
    2147483540: struct.pack("<q", 8),
}


def batch(**maps):
    length = len(next(iter(maps.values())))
    arrays = [
        pa.array([None if each is None else list(each.items()) for each in maps[each_field.name]], each_field.type)
        if each_field.name in maps
        else pa.nulls(length, each_field.type)
        for each_field in DATA_FILE_SCHEMA
    ]
    return pa.RecordBatch.from_arrays(arrays, names=DATA_FILE_SCHEMA.names)


MAPS = {
    "value_counts": [{1: 10, 2: 9, 7: 3}, {1: 5}],
    "null_value_counts": [{2: 1, 14: 10}, {}],
    "nan_value_counts": [{3: 2}, {}],
    "lower_bounds": [LOWER, {1: struct.pack("<i", 7)}],
    "upper_bounds": [{3: struct.pack("<d", 1.5), 5: point(3.0, 4.0, 5.0)}, {2: b"\xf4\x8f\xbf\xbf"}],
}


def test_what_the_maps_say_goes_into_typed_columns_and_back():
    kind, stats = stats_from_metrics(batch(**MAPS), SCHEMA)
    stats.validate(full=True)
    assert stats.type == arrow_type(kind)
    first = stats[0].as_py()
    assert first["c1"]["lower_bound"] == -5
    assert math.copysign(1, first["c3"]["lower_bound"]) == -1
    assert first["c4"]["lower_bound"] == {"metadata": VARIANT[:5], "value": VARIANT[5:]}
    assert first["c5"]["lower_bound"] == {"x": 1.0, "y": 2.0, "z": None, "m": None}
    assert first["c6"]["lower_bound"] == {"x": 1.0, "y": 2.0, "z": None, "m": 4.0}
    assert first["c7.c8"]["lower_bound"] == date(1969, 12, 31)
    assert first["c11"]["lower_bound"] == Decimal("-1.29")
    assert first["c1"]["tight_bounds"] is None
    full = content_stats_type(SCHEMA)
    members = {each.name: stats.field(i) for i, each in enumerate(kind.fields)}
    widened = pa.StructArray.from_arrays(
        [members.get(each.name, pa.nulls(2, arrow_type(each.type))) for each in full.fields],
        fields=list(arrow_type(full)),
    )
    back = {name: maps.to_pylist() for name, maps in metrics_from_stats(widened, SCHEMA).items()}
    wanted = {name: [sorted(each.items()) for each in maps] for name, maps in MAPS.items()}
    # A bound from before a promotion comes back at the present width.
    wanted["lower_bounds"][1] = [(1, struct.pack("<q", 7))]
    assert back == wanted


def test_statistics_of_fields_that_the_schema_lost_are_dropped():
    kind, stats = stats_from_metrics(batch(value_counts=[{1: 10, 99: 9}]), SCHEMA)
    assert [each.name for each in kind.fields] == ["c1"]
    assert stats.to_pylist()[0]["c1"]["value_count"] == 10


def test_files_without_any_statistics_have_an_empty_struct():
    kind, stats = stats_from_metrics(batch(value_counts=[None, {}]), SCHEMA)
    assert kind.fields == ()
    assert stats.to_pylist() == [{}, {}]


def test_nulls_at_any_depth_leave_keys_out():
    kind = arrow_type(content_stats_type(SCHEMA))
    stats = pa.array([None, {"c1": None}, {"c1": {"value_count": 3}}, {"c5": {"lower_bound": None}}], kind)
    found = metrics_from_stats(stats, SCHEMA)
    assert found["value_counts"].to_pylist() == [[], [], [(1, 3)], []]
    assert found["lower_bounds"].to_pylist() == [[]] * 4


def test_a_point_without_y_is_corrupt():
    kind = arrow_type(content_stats_type(SCHEMA))
    stats = pa.array([{"c5": {"lower_bound": {"x": 1.0, "y": None}}}], kind)
    with pytest.raises(CorruptMetadata, match="lacks x or y"):
        metrics_from_stats(stats, SCHEMA)


@pytest.mark.parametrize("data", [b"", b"\x01", b"\x01\x01\x00\x01$", b"\xc1\xff\xff\xff\xff"])
def test_a_variant_bound_without_a_value_is_corrupt(data):
    with pytest.raises(CorruptMetadata, match="does not end before the value"):
        stats_from_metrics(batch(lower_bounds=[{4: data}]), SCHEMA)
