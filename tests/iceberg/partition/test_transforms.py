"""Transforms: the specification's examples, values before 1970, nulls, and PyIceberg as an independent judge."""

from __future__ import annotations

import datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaberg.iceberg.errors import CorruptMetadata, InvalidIcebergRequest, UnsupportedIcebergFeature
from deltaberg.iceberg.partition.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    UnknownTransform,
    VoidTransform,
    YearTransform,
    check_transform,
    parse_transform,
)
from deltaberg.iceberg.schema.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    GeometryType,
    IntegerType,
    LongType,
    StringType,
    TimestampNsType,
    TimestampType,
    TimeType,
    Type,
    UnknownType,
    VariantType,
    arrow_type,
    type_to_json,
)

EPOCH = datetime.datetime(1970, 1, 1)


@pytest.mark.parametrize(
    ("text", "transform"),
    [
        ("identity", IdentityTransform()),
        ("bucket[16]", BucketTransform(num_buckets=16)),
        ("truncate[20]", TruncateTransform(width=20)),
        ("year", YearTransform()),
        ("month", MonthTransform()),
        ("day", DayTransform()),
        ("hour", HourTransform()),
        ("void", VoidTransform()),
        ("zorder[1, 2]", UnknownTransform(text="zorder[1, 2]")),
        ("bucket", UnknownTransform(text="bucket")),
    ],
)
def test_transforms_read_and_write_their_names(text: str, transform: Transform) -> None:
    assert parse_transform(text) == transform
    assert str(transform) == text


@pytest.mark.parametrize(
    "text", ["bucket[0]", "bucket[-1]", "truncate[0]", "bucket[2147483648]", "truncate[99999999999]", 5]
)
def test_a_senseless_parameter_is_corrupt(text: object) -> None:
    with pytest.raises(CorruptMetadata):
        parse_transform(text, "$.partition-specs[0].fields[0].transform")


@pytest.mark.parametrize(
    ("width", "values", "kind", "expected"),
    [
        (10, [1, -1, -10, -11, None], pa.int32(), [0, -10, -10, -20, None]),
        (10, [2**62, -(2**62)], pa.int64(), [4611686018427387900, -4611686018427387910]),
        (50, [Decimal("10.65"), Decimal("-0.05")], pa.decimal128(9, 2), [Decimal("10.50"), Decimal("-0.50")]),
        (3, ["iceberg", "é\U0001f600ab", "", None], pa.string(), ["ice", "é\U0001f600a", "", None]),
        (3, [b"\x01\x02\x03\x04", b"\xff"], pa.binary(), [b"\x01\x02\x03", b"\xff"]),
    ],
)
def test_truncate_floors_numbers_and_cuts_the_rest(
    width: int, values: list[object], kind: pa.DataType, expected: list[object]
) -> None:
    assert TruncateTransform(width=width).apply(pa.array(values, kind)).to_pylist() == expected


@given(st.integers(1, 2**31 - 1), st.lists(st.integers(-(10**38) + 1, 10**38 - 1) | st.none()))
def test_wide_decimals_floor_exactly(width: int, values: list[int | None]) -> None:
    array = pa.array([None if value is None else Decimal(value) for value in values], pa.decimal128(38, 0))
    found = TruncateTransform(width=width).apply(array)
    expected = [None if value is None else value - value % width for value in values]
    low, high = -(2**127), 2**127
    for value, wanted, scalar in zip(values, expected, found, strict=True):
        if value is None:
            assert not scalar.is_valid
        elif wanted is not None and low <= wanted < high and abs(wanted) < 10**38:
            assert int(scalar.as_py()) == wanted


@pytest.mark.parametrize(
    ("moment", "year", "month", "day", "hour"),
    [
        (datetime.datetime(2017, 11, 16, 22, 31, 8), 47, 574, 17486, 419686),
        (datetime.datetime(1970, 1, 1), 0, 0, 0, 0),
        (datetime.datetime(1969, 12, 31, 23, 59, 59, 999999), -1, -1, -1, -1),
        (datetime.datetime(1969, 1, 1), -1, -12, -365, -8760),
        (datetime.datetime(1, 1, 1), -1969, -23628, -719162, -17259888),
        (datetime.datetime(9999, 12, 31, 23), 8029, 96359, 2932896, 70389527),
    ],
)
@pytest.mark.parametrize("kind", [pa.timestamp("us"), pa.timestamp("us", tz="UTC")])
def test_times_before_1970_are_floored(
    moment: datetime.datetime, year: int, month: int, day: int, hour: int, kind: pa.DataType
) -> None:
    micros = (moment - EPOCH) // datetime.timedelta(microseconds=1)
    array = pa.array([micros, None], pa.int64()).view(kind)
    assert YearTransform().apply(array).to_pylist() == [year, None]
    assert MonthTransform().apply(array).to_pylist() == [month, None]
    assert DayTransform().apply(array).to_pylist() == [(EPOCH + datetime.timedelta(days=day)).date(), None]
    assert HourTransform().apply(array).to_pylist() == [hour, None]
    days = pa.array([day], pa.int32()).view(pa.date32())
    assert YearTransform().apply(days).to_pylist() == [year]
    assert MonthTransform().apply(days).to_pylist() == [month]


def test_nanoseconds_are_floored_too() -> None:
    array = pa.array([-1, 0, 86_400 * 10**9], pa.int64()).view(pa.timestamp("ns"))
    assert DayTransform().apply(array).cast(pa.int32()).to_pylist() == [-1, 0, 1]
    assert HourTransform().apply(array).to_pylist() == [-1, 0, 24]
    assert YearTransform().apply(array).to_pylist() == [-1, 0, 0]


def test_a_time_whose_result_does_not_fit_is_refused() -> None:
    array = pa.array([2**62], pa.int64()).view(pa.timestamp("s"))
    with pytest.raises(InvalidIcebergRequest, match="32-bit range"):
        HourTransform().apply(array)


def test_buckets_are_never_negative() -> None:
    found = BucketTransform(num_buckets=2**31 - 1).apply(pa.array([34, -653330422, None], pa.int64()))
    assert found.to_pylist()[0] == 2017239379 % (2**31 - 1)
    assert found.to_pylist()[2] is None
    assert all(value is None or value >= 0 for value in found.to_pylist())


@pytest.mark.parametrize(
    "transform",
    [BucketTransform(num_buckets=7), TruncateTransform(width=3), YearTransform(), DayTransform(), VoidTransform()],
)
@pytest.mark.parametrize("shape", ["slice", "chunks", "dictionary", "empty"])
def test_any_shape_of_arrow_array_is_taken(transform: Transform, shape: str) -> None:
    kind = pa.string() if isinstance(transform, TruncateTransform) else pa.date32()
    values = (
        pa.array(["abcd", None, "x"], kind) if kind == pa.string() else pa.array([1, None, -5], pa.int32()).view(kind)
    )
    plain = transform.apply(values).to_pylist()
    given_shape: dict[str, pa.Array | pa.ChunkedArray] = {
        "slice": pa.concat_arrays([values, values]).slice(2, 3),
        "chunks": pa.chunked_array([values.slice(0, 1), values.slice(1)]),
        "dictionary": values.dictionary_encode(),
        "empty": values.slice(0, 0),
    }
    found = transform.apply(given_shape[shape]).to_pylist()
    expected = {"slice": [plain[2], plain[0], plain[1]], "empty": []}.get(shape, plain)
    assert found == expected


@pytest.mark.parametrize(
    ("transform", "source", "result"),
    [
        (IdentityTransform(), StringType(), StringType()),
        (BucketTransform(num_buckets=4), LongType(), IntegerType()),
        (TruncateTransform(width=4), DecimalType(precision=9, scale=2), DecimalType(precision=9, scale=2)),
        (YearTransform(), DateType(), IntegerType()),
        (DayTransform(), TimestampType(), DateType()),
        (HourTransform(), TimestampNsType(), IntegerType()),
        (VoidTransform(), StringType(), StringType()),
        (UnknownTransform(text="x"), LongType(), StringType()),
    ],
)
def test_result_types(transform: Transform, source: Type, result: Type) -> None:
    assert transform.accepts(source)
    assert transform.result_type(source) == result
    if not isinstance(transform, UnknownTransform):
        found = transform.apply(pa.nulls(2, arrow_type(source)))
        assert found.type == arrow_type(result)
        assert found.null_count == 2


@pytest.mark.parametrize(
    ("transform", "source"),
    [
        (IdentityTransform(), GeometryType()),
        (IdentityTransform(), VariantType()),
        (BucketTransform(num_buckets=4), DoubleType()),
        (BucketTransform(num_buckets=4), BooleanType()),
        (BucketTransform(num_buckets=4), UnknownType()),
        (TruncateTransform(width=4), DateType()),
        (HourTransform(), DateType()),
        (YearTransform(), TimeType()),
        (DayTransform(), StringType()),
    ],
)
def test_sources_that_the_table_of_transforms_does_not_list_are_refused(transform: Transform, source: Type) -> None:
    with pytest.raises(InvalidIcebergRequest, match="is not defined for"):
        check_transform(transform, source, "p")


def test_an_unknown_transform_is_kept_but_never_applied() -> None:
    with pytest.raises(UnsupportedIcebergFeature, match="'zorder'") as caught:
        UnknownTransform(text="zorder").apply(pa.array([1]))
    assert caught.value.feature == "transform zorder"


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("bucket[7]", LongType()),
        ("bucket[1000]", StringType()),
        ("bucket[5]", DecimalType(precision=38, scale=10)),
        ("bucket[16]", DateType()),
        ("bucket[16]", TimestampType()),
        ("bucket[3]", BinaryType()),
        ("truncate[13]", LongType()),
        ("truncate[4]", StringType()),
        ("truncate[100]", DecimalType(precision=20, scale=3)),
        ("year", TimestampType()),
        ("month", DateType()),
        ("day", TimestampType()),
        ("hour", TimestampType()),
    ],
)
def test_pyiceberg_transforms_the_same(name: str, source: Type) -> None:
    from pyiceberg.transforms import parse_transform as judge
    from pyiceberg.types import IcebergType

    random = np.random.default_rng(7)
    kind = arrow_type(source)
    if isinstance(source, (StringType, BinaryType)):
        values = [f"{random.integers(0, 10**9)}é"[: random.integers(0, 12)] for _ in range(200)]
        array = pa.array(values).cast(kind)
    elif isinstance(source, DecimalType):
        array = pa.array(
            [Decimal(int(random.integers(-(10**15), 10**15))).scaleb(-source.scale) for _ in range(200)], kind
        )
    else:
        width = "int32" if isinstance(source, DateType) else "int64"
        high = 40_000 if isinstance(source, DateType) else 10**15
        array = pa.array(random.integers(-high, high, 200).astype(width)).view(kind)
    theirs = judge(name).transform(IcebergType.handle_primitive_type(str(type_to_json(source)), None))
    plain = (
        array.view(pa.int32() if isinstance(source, DateType) else pa.int64()) if pa.types.is_temporal(kind) else array
    )
    expected = [theirs(value) for value in plain.to_pylist()]
    found = parse_transform(name).apply(array)
    found = found.cast(pa.int32()) if pa.types.is_date32(found.type) else found
    assert found.to_pylist() == expected
