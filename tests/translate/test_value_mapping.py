from __future__ import annotations

import datetime as dt
import uuid
from typing import Any

import pyarrow as pa
import pytest

from deltaberg.iceberg.schema import types as ice
from deltaberg.iceberg.schema.types import arrow_type
from deltaberg.translate.value_mapping import convert_columns

ID = uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7")


def convert(kind: Any, values: list[Any], target: str) -> list[Any]:
    name = {
        ice.UuidType: "uuid",
        ice.FixedType: "fixed",
        ice.TimeType: "time",
        ice.TimestampNsType: "timestamp_ns",
        ice.TimestamptzNsType: "timestamptz_ns",
    }[type(kind)]
    column = ice.NestedField(field_id=1, name="a", required=False, type=kind)
    batch = pa.record_batch({"a": pa.array(values, arrow_type(kind))})
    return convert_columns(batch, [column], {name: target}).column("a").to_pylist()  # type: ignore[no-any-return]


def test_a_uuid_is_its_canonical_text_or_its_bytes() -> None:
    assert convert(ice.UuidType(), [ID.bytes, None], "string") == [str(ID), None]
    assert convert(ice.UuidType(), [ID.bytes], "binary") == [ID.bytes]


def test_fixed_bytes_keep_their_length() -> None:
    assert convert(ice.FixedType(length=3), [b"\x00\xff\x10", None], "binary") == [b"\x00\xff\x10", None]
    assert convert(ice.FixedType(length=3), [b"\x00\xff\x10"], "string") == ["00FF10"]


def test_a_time_of_day_is_microseconds_or_text() -> None:
    assert convert(ice.TimeType(), [dt.time(1, 2, 3, 45), None], "long") == [3_723_000_045, None]
    assert convert(ice.TimeType(), [dt.time(1, 2, 3, 45)], "string") == ["01:02:03.000045"]


@pytest.mark.parametrize(("nanos", "micros"), [(1_001, 1), (1_999, 1), (-1, -1), (-1_000, -1), (-1_001, -2), (0, 0)])
def test_nanoseconds_are_cut_downwards(nanos: int, micros: int) -> None:
    got = convert(ice.TimestampNsType(), [nanos], "timestamp_ntz")
    assert got == [dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=micros)]
    assert convert(ice.TimestampNsType(), [nanos], "long") == [nanos]


def test_values_inside_structs_lists_and_maps_are_converted_too() -> None:
    part = ice.NestedField(field_id=2, name="element", required=False, type=ice.UuidType())
    key = ice.NestedField(field_id=3, name="key", required=True, type=ice.StringType())
    value = ice.NestedField(field_id=4, name="value", required=False, type=ice.UuidType())
    inner = ice.NestedField(field_id=5, name="x", required=False, type=ice.UuidType())
    kinds = {
        "l": ice.ListType(element=part),
        "m": ice.MapType(key=key, value=value),
        "s": ice.StructType(fields=(inner,)),
    }
    columns = [
        ice.NestedField(field_id=10 + place, name=name, required=False, type=kind)
        for place, (name, kind) in enumerate(kinds.items())
    ]
    rows = pa.record_batch(
        {
            "l": pa.array([[ID.bytes, None], None, []], arrow_type(kinds["l"])),
            "m": pa.array([[("k", ID.bytes)], None, [("n", None)]], arrow_type(kinds["m"])),
            "s": pa.array([{"x": ID.bytes}, None, {"x": None}], arrow_type(kinds["s"])),
        }
    )
    for batch in (rows, pa.concat_batches([rows, rows]).slice(3)):
        got = convert_columns(batch, columns, {"uuid": "string"}).to_pydict()
        assert got == {
            "l": [[str(ID), None], None, []],
            "m": [[("k", str(ID))], None, [("n", None)]],
            "s": [{"x": str(ID)}, None, {"x": None}],
        }
