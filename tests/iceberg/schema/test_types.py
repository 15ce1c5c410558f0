"""Types: canonical JSON forms, tolerant reading, refusal of everything else."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaberg.iceberg.errors import CorruptMetadata
from deltaberg.iceberg.schema.types import (
    DEFAULT_CRS,
    EDGE_ALGORITHMS,
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    GeographyType,
    GeometryType,
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
    Type,
    UnknownType,
    UuidType,
    VariantType,
    arrow_type,
    parse_type,
    type_name,
    type_to_json,
)

PLAIN = {
    "boolean": BooleanType(),
    "int": IntegerType(),
    "long": LongType(),
    "float": FloatType(),
    "double": DoubleType(),
    "date": DateType(),
    "time": TimeType(),
    "timestamp": TimestampType(),
    "timestamptz": TimestamptzType(),
    "timestamp_ns": TimestampNsType(),
    "timestamptz_ns": TimestamptzNsType(),
    "string": StringType(),
    "uuid": UuidType(),
    "binary": BinaryType(),
    "unknown": UnknownType(),
    "variant": VariantType(),
}
V3 = {"timestamp_ns", "timestamptz_ns", "unknown", "variant"}

primitives = st.one_of(
    st.sampled_from(list(PLAIN.values())),
    st.integers(1, 38).flatmap(
        lambda precision: st.builds(DecimalType, precision=st.just(precision), scale=st.integers(0, precision))
    ),
    st.builds(FixedType, length=st.integers(1, 2**31 - 1)),
    st.builds(GeometryType, crs=st.sampled_from([DEFAULT_CRS, "srid:4326", "projjson:crs_property"])),
    st.builds(
        GeographyType, crs=st.sampled_from([DEFAULT_CRS, "srid:4326"]), algorithm=st.sampled_from(EDGE_ALGORITHMS)
    ),
)
ids = st.integers(0, 2147483447)


def nested(children: st.SearchStrategy[Type]) -> st.SearchStrategy[Type]:
    known = children.filter(lambda kind: not isinstance(kind, UnknownType))
    part = st.builds(
        NestedField, field_id=ids, name=st.text(min_size=1, max_size=4), required=st.booleans(), type=known
    )
    element = st.builds(NestedField, field_id=ids, name=st.just("element"), required=st.just(False), type=children)
    key = st.builds(NestedField, field_id=ids, name=st.just("key"), required=st.just(True), type=known)
    value = st.builds(NestedField, field_id=ids, name=st.just("value"), required=st.just(False), type=children)
    return st.one_of(
        st.builds(StructType, fields=st.lists(part, max_size=3).map(tuple)),
        st.builds(ListType, element=element),
        st.builds(MapType, key=key, value=value),
    )


types = st.recursive(primitives, nested, max_leaves=6)


@pytest.mark.parametrize("text", PLAIN)
def test_a_plain_type_reads_and_writes_its_name(text: str) -> None:
    assert parse_type(text) == PLAIN[text]
    assert type_to_json(PLAIN[text]) == text
    assert PLAIN[text].min_version == (3 if text in V3 else 1)


@pytest.mark.parametrize(
    ("text", "kind", "canonical"),
    [
        ("decimal(9,2)", DecimalType(precision=9, scale=2), "decimal(9, 2)"),
        ("decimal( 38 , 38 )", DecimalType(precision=38, scale=38), "decimal(38, 38)"),
        ("fixed[16]", FixedType(length=16), "fixed[16]"),
        ("fixed[ 16 ]", FixedType(length=16), "fixed[16]"),
        ("geometry", GeometryType(), "geometry(OGC:CRS84)"),
        ("geometry( srid:4326 )", GeometryType(crs="srid:4326"), "geometry(srid:4326)"),
        ("geography", GeographyType(), "geography(OGC:CRS84, spherical)"),
        ("geography(EPSG:4326)", GeographyType(crs="EPSG:4326"), "geography(EPSG:4326, spherical)"),
        (
            "geography(srid:4326,KARNEY)",
            GeographyType(crs="srid:4326", algorithm="karney"),
            "geography(srid:4326, karney)",
        ),
    ],
)
def test_parameters_may_have_spaces_around_them(text: str, kind: Type, canonical: str) -> None:
    assert parse_type(text) == kind
    assert type_to_json(kind) == canonical


@given(types)
def test_every_type_survives_its_json_form(kind: Type) -> None:
    assert parse_type(type_to_json(kind)) == kind
    assert type_name(kind)
    assert isinstance(arrow_type(kind), pa.DataType)


@pytest.mark.parametrize(
    "value",
    [
        "integer",
        "LONG",
        "decimal(39, 2)",
        "decimal(0, 0)",
        "decimal(5, 6)",
        "decimal(5, -1)",
        "decimal(99999999999999999999, 1)",
        "fixed[0]",
        "fixed[2147483648]",
        "fixed[-1]",
        "geography(srid:4326, euclid)",
        "geometry()",
        "",
        7,
        None,
        [],
        {"type": "set"},
        {"type": "list", "element-id": 1, "element": "int"},
        {"type": "list", "element-id": "1", "element-required": True, "element": "int"},
        {"type": "map", "key-id": 1, "key": "int", "value-id": 2, "value": "int"},
        {"type": "struct"},
        {"type": "struct", "fields": {}},
        {"type": "list", "element-id": 1, "element-required": True, "element": "unknown"},
        {"type": "struct", "fields": [{"id": 1, "name": "a", "required": True, "type": "unknown"}]},
        {"type": "struct", "fields": [{"id": 1, "name": "a", "required": 1, "type": "int"}]},
        {"type": "struct", "fields": [{"id": 1.0, "name": "a", "required": True, "type": "int"}]},
        {"type": "struct", "fields": [{"id": -1, "name": "a", "required": True, "type": "int"}]},
        {"type": "struct", "fields": [{"id": 1, "name": "\ud800", "required": True, "type": "int"}]},
    ],
)
def test_what_no_specification_defines_is_refused_with_its_place(value: object) -> None:
    with pytest.raises(CorruptMetadata) as caught:
        parse_type(value, "$.schemas[1].fields[3].type")
    assert caught.value.field is not None
    assert caught.value.field.startswith("$.schemas[1].fields[3].type")


def test_types_nested_beyond_reason_are_refused() -> None:
    value: object = "int"
    for _ in range(5000):
        value = {"type": "list", "element-id": 1, "element-required": True, "element": value}
    with pytest.raises(CorruptMetadata, match="nested more than 100 deep"):
        parse_type(value)


def test_unknown_fields_of_types_survive() -> None:
    value = {
        "type": "struct",
        "fields": [
            {"id": 1, "name": "a", "required": True, "type": "int", "color": "red"},
            {
                "id": 2,
                "name": "b",
                "required": False,
                "type": {"type": "list", "element-id": 3, "element-required": True, "element": "int", "x": 1},
            },
        ],
        "y": [2],
    }
    assert type_to_json(parse_type(value)) == value


def test_arrow_types_are_those_that_values_are_handled_in() -> None:
    kind = parse_type(
        {
            "type": "struct",
            "fields": [
                {"id": 1, "name": "ts", "required": False, "type": "timestamptz_ns"},
                {"id": 2, "name": "u", "required": True, "type": "uuid"},
                {"id": 3, "name": "v", "required": False, "type": "variant"},
                {"id": 4, "name": "n", "required": False, "type": "unknown"},
            ],
        }
    )
    assert arrow_type(kind) == pa.struct(
        [
            pa.field("ts", pa.timestamp("ns", tz="UTC")),
            pa.field("u", pa.binary(16), nullable=False),
            pa.field("v", pa.struct([pa.field("metadata", pa.binary(), False), pa.field("value", pa.binary(), False)])),
            pa.field("n", pa.null()),
        ]
    )
