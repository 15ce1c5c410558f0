"""The schema string is read and written without loss; what the protocol does not define is refused by name."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaberg.delta.errors import CorruptLog, UnsupportedDeltaFeature
from deltaberg.delta.schema.schema import parse_schema, schema_to_json, walk_fields
from deltaberg.delta.schema.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DateType,
    DecimalType,
    DeltaType,
    DoubleType,
    FloatType,
    GeographyType,
    GeometryType,
    IntegerType,
    IntervalType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNtzType,
    TimestampType,
    VariantType,
    VoidType,
    arrow_schema,
    arrow_type,
    parse_type_name,
    type_name,
)

PRIMITIVES = [
    ("boolean", BooleanType(), pa.bool_()),
    ("byte", ByteType(), pa.int8()),
    ("short", ShortType(), pa.int16()),
    ("integer", IntegerType(), pa.int32()),
    ("long", LongType(), pa.int64()),
    ("float", FloatType(), pa.float32()),
    ("double", DoubleType(), pa.float64()),
    ("decimal(38,18)", DecimalType(precision=38, scale=18), pa.decimal128(38, 18)),
    ("string", StringType(), pa.string()),
    ("binary", BinaryType(), pa.binary()),
    ("date", DateType(), pa.date32()),
    ("timestamp", TimestampType(), pa.timestamp("us", "UTC")),
    ("timestamp_ntz", TimestampNtzType(), pa.timestamp("us")),
    ("void", VoidType(), pa.null()),
    ("geometry(OGC:CRS84)", GeometryType(crs="OGC:CRS84"), pa.binary()),
    ("geography(OGC:CRS84, SPHERICAL)", GeographyType(crs="OGC:CRS84", algorithm="SPHERICAL"), pa.binary()),
    ("interval year to month", IntervalType(text="year to month"), pa.int32()),
    ("interval day to second", IntervalType(text="day to second"), pa.int64()),
]


@pytest.mark.parametrize(("name", "delta_type", "arrow"), PRIMITIVES)
def test_every_primitive_type_has_one_name_and_one_arrow_type(
    name: str, delta_type: DeltaType, arrow: pa.DataType
) -> None:
    assert parse_type_name(name) == delta_type
    assert type_name(delta_type) == name
    assert arrow_type(delta_type) == arrow


def test_a_variant_is_a_struct_of_two_binaries() -> None:
    assert arrow_type(parse_type_name("variant")) == arrow_type(VariantType())
    assert arrow_type(VariantType()).names == ["metadata", "value"]


@pytest.mark.parametrize(
    "name",
    ["uuid", "decimal(39,0)", "decimal(5,6)", "decimal(0,0)", "interval fortnight", "", "decimal(1e1,0)", "struct"],
)
def test_a_type_that_nobody_defined_is_refused_by_name(name: str) -> None:
    with pytest.raises(UnsupportedDeltaFeature, match="defines no such type") as caught:
        parse_type_name(name)
    assert caught.value.feature == f"type {name}"
    assert caught.value.exit_code == 3


def test_parameters_may_have_blanks_around_them() -> None:
    assert parse_type_name("decimal( 10 , 2 )") == DecimalType(precision=10, scale=2)


def leaf_types() -> st.SearchStrategy[DeltaType]:
    return st.sampled_from([delta_type for _, delta_type, _ in PRIMITIVES])


def fields(types: st.SearchStrategy[DeltaType]) -> st.SearchStrategy[StructField]:
    metadata = st.dictionaries(
        st.text(max_size=5), st.none() | st.booleans() | st.integers() | st.text(max_size=5), max_size=2
    )
    return st.builds(StructField, name=st.text(max_size=5), type=types, nullable=st.booleans(), metadata=metadata)


def structs(types: st.SearchStrategy[DeltaType]) -> st.SearchStrategy[StructType]:
    unique = st.lists(fields(types), max_size=4, unique_by=lambda field: field.name)
    return st.builds(lambda found: StructType(fields=tuple(found)), unique)


def nested(types: st.SearchStrategy[DeltaType]) -> st.SearchStrategy[DeltaType]:
    return (
        structs(types)
        | st.builds(ArrayType, element_type=types, contains_null=st.booleans())
        | st.builds(MapType, key_type=types, value_type=types, value_contains_null=st.booleans())
    )


@given(structs(st.recursive(leaf_types(), nested, max_leaves=8)))
def test_what_is_written_is_read_back(schema: StructType) -> None:
    assert parse_schema(schema_to_json(schema)) == schema


def test_nested_types_keep_nullability_in_arrow() -> None:
    schema = StructType(
        fields=(
            StructField(name="a", type=ArrayType(element_type=LongType(), contains_null=False), nullable=False),
            StructField(
                name="m",
                type=MapType(
                    key_type=StringType(), value_type=StructType(fields=(StructField(name="x", type=ByteType()),))
                ),
            ),
        )
    )
    assert arrow_schema(schema) == pa.schema(
        [
            pa.field("a", pa.list_(pa.field("element", pa.int64(), nullable=False)), nullable=False),
            pa.field("m", pa.map_(pa.string(), pa.struct([("x", pa.int8())]))),
        ]
    )


def test_a_collation_is_known_by_its_path_and_kept() -> None:
    text = json.dumps(
        {
            "type": "struct",
            "fields": [
                {
                    "name": "c",
                    "type": {"type": "array", "elementType": "string", "containsNull": True},
                    "nullable": True,
                    "metadata": {"__COLLATIONS": {"c.element": "icu.UNICODE"}},
                }
            ],
        }
    )
    schema = parse_schema(text)
    assert schema.field("c").type == ArrayType(element_type=StringType(collation="icu.UNICODE"))
    assert json.loads(schema_to_json(schema)) == json.loads(text)


def test_fields_are_walked_through_arrays_and_maps() -> None:
    inner = StructType(fields=(StructField(name="x", type=LongType()),))
    schema = StructType(
        fields=(
            StructField(name="a", type=ArrayType(element_type=inner)),
            StructField(name="m", type=MapType(key_type=inner, value_type=inner)),
        )
    )
    assert [path for path, _ in walk_fields(schema)] == [
        ("a",),
        ("a", "element", "x"),
        ("m",),
        ("m", "key", "x"),
        ("m", "value", "x"),
    ]


def field_text(**changes: object) -> str:
    field = {"name": "f", "type": "long", "nullable": True, "metadata": {}, **changes}
    return json.dumps({"type": "struct", "fields": [field]})


TWO_OF_ONE_NAME = json.dumps({"type": "struct", "fields": json.loads(field_text())["fields"] * 2})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "schemaString is not JSON"),
        ('"long"', "schemaString is not a struct"),
        ('{"type":"struct"}', "has no list of fields"),
        ('{"type":"struct","fields":[5]}', "a field of schemaString is 5"),
        ('{"type":"struct","fields":[{"type":"long"}]}', "has no name"),
        ('{"type":"struct","fields":[{"name":"f"}]}', "schemaString.f has no type"),
        (field_text(type={"type": "array"}), "schemaString.f has no elementType"),
        (field_text(type={"type": "map", "keyType": "long"}), "schemaString.f has no valueType"),
        (field_text(type={"type": "set"}), "the type 'set'"),
        (field_text(type=5), "schemaString.f is 5"),
        (field_text(nullable="yes"), "nullable of schemaString.f is 'yes'"),
        (field_text(metadata=[]), "the metadata of schemaString.f"),
        (TWO_OF_ONE_NAME, "has the field 'f' twice"),
        ("[" * 100_000, "schemaString is not JSON"),
    ],
)
def test_a_malformed_schema_names_the_place(text: str, message: str) -> None:
    with pytest.raises(CorruptLog, match="Cannot read the table's schema") as caught:
        parse_schema(text)
    assert message in str(caught.value)


def test_an_unknown_type_names_its_column() -> None:
    with pytest.raises(UnsupportedDeltaFeature, match=r"'uuid'.*schemaString\.f\.element"):
        parse_schema(field_text(type={"type": "array", "elementType": "uuid", "containsNull": True}))


def test_a_user_defined_type_is_refused() -> None:
    with pytest.raises(UnsupportedDeltaFeature, match=r"user-defined type of schemaString\.f"):
        parse_schema(field_text(type={"type": "udt", "class": "x", "sqlType": "long"}))


def test_nesting_deeper_than_any_reader_goes_is_refused() -> None:
    deep: object = "long"
    for _ in range(300):
        deep = {"type": "array", "elementType": deep, "containsNull": True}
    with pytest.raises(CorruptLog, match="levels deep"):
        parse_schema(field_text(type=deep))


def test_collations_of_types_are_written_into_the_metadata_of_their_field() -> None:
    lists = ArrayType(element_type=MapType(key_type=StringType(collation="icu.UNICODE"), value_type=StringType()))
    inner = StructType(fields=(StructField(name="x", type=StringType(collation="spark.UTF8_LCASE")),))
    physical = {"delta.columnMapping.physicalName": "col-1"}
    schema = StructType(
        fields=(
            StructField(name="a", type=lists, metadata=physical),
            StructField(name="s", type=inner),
            StructField(name="plain", type=StringType()),
        )
    )
    text = schema_to_json(schema)
    a, s, plain = json.loads(text)["fields"]
    assert a["metadata"] == {**physical, "__COLLATIONS": {"col-1.element.key": "icu.UNICODE"}}
    assert s["metadata"] == plain["metadata"] == {}
    assert s["type"]["fields"][0]["metadata"] == {"__COLLATIONS": {"x": "spark.UTF8_LCASE"}}
    again = parse_schema(text)
    assert again.field("a").type == lists
    assert again.field("s").type.field("x").type == StringType(collation="spark.UTF8_LCASE")
    assert schema_to_json(again) == text


def test_collations_under_the_former_name_of_a_renamed_field_are_kept() -> None:
    metadata = {"delta.columnMapping.physicalName": "old", "__COLLATIONS": {"old": "icu.UNICODE"}}
    fields = [{"name": "new", "type": "string", "nullable": True, "metadata": metadata}]
    schema = parse_schema(json.dumps({"type": "struct", "fields": fields}))
    assert schema.field("new").type == StringType(collation="icu.UNICODE")
    assert json.loads(schema_to_json(schema))["fields"] == fields
