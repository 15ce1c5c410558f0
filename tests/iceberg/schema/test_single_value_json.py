"""Defaults in their JSON form."""

from __future__ import annotations

import datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from deltaberg.iceberg.errors import CorruptMetadata, InvalidIcebergRequest
from deltaberg.iceberg.schema.single_value_json import (
    check_default,
    initial_default,
    scalar_from_json,
    scalar_to_json,
    write_default,
)
from deltaberg.iceberg.schema.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
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
    UuidType,
    VariantType,
    arrow_type,
)

UUID = "f79c3e09-677c-4bbd-a479-3f349cb785e7"


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (BooleanType(), True),
        (IntegerType(), -34),
        (LongType(), 2**62),
        (FloatType(), 1.5),
        (DoubleType(), 1.0),
        (DecimalType(precision=4, scale=2), "14.20"),
        (DecimalType(precision=9, scale=4), "-0.0001"),
        (DateType(), "2017-11-16"),
        (DateType(), "0001-01-01"),
        (DateType(), "+12345-01-31"),
        (DateType(), "-0005-03-01"),
        (TimeType(), "22:31:08.123456"),
        (TimeType(), "00:00:00"),
        (TimestampType(), "2017-11-16T22:31:08.123456"),
        (TimestampType(), "1969-12-31T23:59:59.999999"),
        (TimestamptzType(), "2017-11-16T22:31:08.123456+00:00"),
        (TimestampNsType(), "2017-11-16T22:31:08.123456789"),
        (TimestamptzNsType(), "1900-01-01T00:00:00.000000001+00:00"),
        (StringType(), "iceberg"),
        (UuidType(), UUID),
        (FixedType(length=4), "000102ff"),
        (BinaryType(), ""),
        (BinaryType(), "00ff"),
    ],
)
def test_single_values_come_back_as_they_were(kind: Type, value: object) -> None:
    scalar = scalar_from_json(value, kind)
    assert scalar.type == arrow_type(kind)
    assert scalar_to_json(scalar, kind) == value


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (DateType(), "2024-02-29", datetime.date(2024, 2, 29)),
        (TimestampType(), "2017-11-16T22:31", datetime.datetime(2017, 11, 16, 22, 31)),
        (
            TimestamptzType(),
            "1970-01-01T00:00:01Z",
            datetime.datetime(1970, 1, 1, 0, 0, 1, tzinfo=datetime.timezone.utc),
        ),
        (DecimalType(precision=4, scale=2), "14.20", Decimal("14.20")),
        (BinaryType(), "00FF", b"\x00\xff"),
        (DoubleType(), 3, 3.0),
    ],
)
def test_other_spellings_are_read(kind: Type, value: object, expected: object) -> None:
    assert scalar_from_json(value, kind).as_py() == expected


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (BooleanType(), 1),
        (IntegerType(), 2**31),
        (IntegerType(), True),
        (LongType(), 2**63),
        (LongType(), "1"),
        (FloatType(), 1e39),
        (DoubleType(), "1.0"),
        (DoubleType(), 10**400),
        (DecimalType(precision=4, scale=2), "14.2"),
        (DecimalType(precision=4, scale=2), "114.20"),
        (DecimalType(precision=4, scale=2), 14.2),
        (DecimalType(precision=4, scale=2), "NaN"),
        (DateType(), "2023-02-29"),
        (DateType(), "2023-13-01"),
        (DateType(), "16.11.2017"),
        (DateType(), "+999999999-01-01"),
        (TimeType(), "24:00:00"),
        (TimeType(), "22:31:08.1234567"),
        (TimestampType(), "2017-11-16T22:31:08+00:00"),
        (TimestampType(), "2017-11-16 22:31:08"),
        (TimestamptzType(), "2017-11-16T22:31:08"),
        (TimestamptzType(), "2017-11-16T22:31:08+01:00"),
        (TimestampNsType(), "9999-12-31T00:00:00"),
        (UuidType(), "f79c3e09"),
        (FixedType(length=4), "0001"),
        (BinaryType(), "0g"),
        (VariantType(), {}),
        (GeometryType(), "POINT (30 10)"),
    ],
)
def test_anything_else_is_corrupt_and_names_its_place(kind: Type, value: object) -> None:
    with pytest.raises(CorruptMetadata) as caught:
        scalar_from_json(value, kind, "$.x")
    assert caught.value.field == "$.x"


def part(field_id: int, name: str, kind: Type, **defaults: object) -> NestedField:
    return NestedField(field_id=field_id, name=name, required=False, type=kind, **defaults)  # type: ignore[arg-type]


def test_nested_values_have_their_forms() -> None:
    items = ListType(element=part(2, "element", DateType()))
    pairs = MapType(key=part(3, "key", StringType()), value=part(4, "value", items))
    row = StructType(fields=(part(5, "a", IntegerType()), part(6, "b", pairs)))
    value = {"5": 1, "6": {"keys": ["k", "l"], "values": [["2020-01-01", None], None]}}
    scalar = scalar_from_json(value, row)
    assert scalar.as_py() == {"a": 1, "b": [("k", [datetime.date(2020, 1, 1), None]), ("l", None)]}
    assert scalar_to_json(scalar, row) == value


@pytest.mark.parametrize("value", [{"keys": ["a"], "values": []}, {"keys": [None], "values": [1]}, {"keys": ["a"]}])
def test_a_map_needs_as_many_keys_as_values(value: object) -> None:
    kind = MapType(key=part(1, "key", StringType()), value=part(2, "value", IntegerType()))
    with pytest.raises(CorruptMetadata):
        scalar_from_json(value, kind)


def test_a_struct_takes_the_defaults_of_its_fields() -> None:
    point = StructType(
        fields=(
            part(2, "x", IntegerType(), initial_default=0, write_default=5),
            part(3, "y", IntegerType(), initial_default=1),
        )
    )
    filled = part(1, "point", point, initial_default={}, write_default={})
    assert initial_default(filled).as_py() == {"x": 0, "y": 1}
    assert write_default(filled).as_py() == {"x": 5, "y": None}
    empty = part(1, "point", point)
    assert initial_default(empty) == pa.scalar(None, arrow_type(point))


def test_a_struct_default_holds_no_values_of_its_own() -> None:
    point = part(1, "point", StructType(fields=(part(2, "x", IntegerType()),)))
    check_default({}, point, "$")
    with pytest.raises(CorruptMetadata, match=r"null or \{\}"):
        check_default({"2": 1}, point, "$")


def test_types_that_default_to_null_only_are_held_to_it() -> None:
    with pytest.raises(CorruptMetadata, match="has no other default"):
        check_default("POINT (30 10)", part(1, "g", GeometryType()), "$")


def test_json_has_no_nan() -> None:
    with pytest.raises(InvalidIcebergRequest, match="JSON has no such number"):
        scalar_to_json(pa.scalar(float("nan")), DoubleType())
