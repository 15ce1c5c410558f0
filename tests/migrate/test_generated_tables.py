"""Whatever schema, partition columns, values and deletes a table has: its target holds the same rows."""

from __future__ import annotations

import datetime as dt
import math
import tempfile
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from deltaberg.iceberg.create_table import create_table
from deltaberg.iceberg.partition.partition_spec import PartitionField, PartitionSpec
from deltaberg.iceberg.partition.transforms import parse_transform
from deltaberg.iceberg.schema.schema import Schema
from deltaberg.iceberg.schema.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    Type,
    arrow_type,
)
from deltaberg.iceberg.table import Table
from deltaberg.migrate.convert import convert
from deltaberg.migrate.verify.verify import verify
from deltaberg.storage import open_storage
from deltaberg.translate.options import ConvertOptions

pytest.importorskip("deltalake")
pytest.importorskip("pyiceberg")

EXAMPLES = settings(max_examples=12, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
UTC = dt.timezone.utc
FIRST, LAST = dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59, 999_999)
FLOATS = [0.0, -0.0, math.nan, math.inf, -math.inf, 1.5, -3.25]

TEXTS = st.one_of(
    st.sampled_from(
        ["", " ", "null", "__HIVE_DEFAULT_PARTITION__", "a/b", "%20", "=", "é\u0301", "😀", "\uffff", "x" * 40]
    ),
    st.text(st.characters(blacklist_categories=["Cs", "Cc"]), max_size=6),
)
MOMENTS = st.one_of(
    st.sampled_from([FIRST, LAST, dt.datetime(1969, 12, 31, 23, 59, 59, 999_999), dt.datetime(1582, 10, 10)]),
    st.datetimes(),
)
VALUES: dict[str, tuple[Type, st.SearchStrategy[Any]]] = {
    "boolean": (BooleanType(), st.booleans()),
    "int": (IntegerType(), st.one_of(st.sampled_from([-(2**31), 2**31 - 1, 0]), st.integers(-(2**31), 2**31 - 1))),
    "long": (LongType(), st.one_of(st.sampled_from([-(2**63), 2**63 - 1, 0]), st.integers(-(2**63), 2**63 - 1))),
    "float": (FloatType(), st.sampled_from([*FLOATS, 3.4028234663852886e38])),
    "double": (DoubleType(), st.one_of(st.sampled_from([*FLOATS, 5e-324, 1.7976931348623157e308, 0.1]), st.floats())),
    "decimal": (DecimalType(precision=9, scale=2), st.decimals(-9_999_999, 9_999_999, places=2)),
    "wide": (
        DecimalType(precision=38, scale=0),
        st.sampled_from([Decimal(10**38 - 1), Decimal(-(10**38 - 1)), Decimal(0)]),
    ),
    "string": (StringType(), TEXTS),
    "binary": (BinaryType(), st.binary(max_size=4)),
    "date": (DateType(), st.one_of(st.sampled_from([FIRST.date(), LAST.date()]), st.dates())),
    "timestamp": (TimestampType(), MOMENTS),
    "timestamptz": (TimestamptzType(), MOMENTS.map(lambda moment: moment.replace(tzinfo=UTC))),
}
PARTITIONS = ["boolean", "int", "long", "decimal", "string", "date", "timestamp", "timestamptz"]
TRANSFORMS = ["identity", "identity", "bucket[3]", "void"]


def _nested(draw: Any, kind: str, base: int) -> tuple[Type, st.SearchStrategy[Any]]:
    """A list, map or struct of a type; ids from ``base`` on."""
    inner, values = VALUES[kind]
    maybe = st.none() | values
    element = NestedField(field_id=base, name="element", required=False, type=inner)
    match draw(st.sampled_from(["list", "map", "struct"])):
        case "list":
            return ListType(element=element), st.lists(maybe, max_size=2)
        case "map":
            key = NestedField(field_id=base + 1, name="key", required=True, type=StringType())
            value = NestedField(field_id=base, name="value", required=False, type=inner)
            keys = st.text("abc", max_size=2)
            return MapType(key=key, value=value), st.dictionaries(keys, maybe, max_size=2).map(
                lambda pairs: list(pairs.items())
            )
        case _:
            field = NestedField(field_id=base, name="in ner", required=False, type=inner)
            items = NestedField(
                field_id=base + 1, name="items", required=False, type=ListType(element=_id(element, base + 2))
            )
            return StructType(fields=(field, items)), st.fixed_dictionaries(
                {"in ner": maybe, "items": st.none() | st.lists(maybe, max_size=2)}
            )


def _id(field: NestedField, field_id: int) -> NestedField:
    return NestedField(field_id=field_id, name=field.name, required=field.required, type=field.type)


@st.composite
def generated(draw: st.DrawFn) -> tuple[Schema, list[str], list[pa.Table]]:
    """A schema, the names of its partition columns, and up to three pieces of rows with one value of each of these."""
    fields, values = [NestedField(field_id=1, name="row", required=True, type=LongType())], {}
    kinds = draw(st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=4))
    for place, kind in enumerate(kinds):
        base = 10 * (place + 1)
        name = draw(st.sampled_from([f"c{place}", f"Col umn {place}", f"ü{place}"]))
        nested = draw(st.booleans()) and draw(st.booleans())
        made, strategy = _nested(draw, kind, base + 1) if nested else VALUES[kind]
        fields.append(NestedField(field_id=base, name=name, required=False, type=made))
        values[name] = st.none() | strategy
    partitions = [
        field.name
        for field, kind in zip(fields[1:], kinds, strict=True)
        if kind in PARTITIONS and field.type == VALUES[kind][0] and draw(st.booleans())
    ][:2]
    pieces, number = [], 0
    for _ in range(draw(st.integers(1, 3))):
        count = draw(st.integers(1, 4))
        shared = {name: draw(values[name]) for name in partitions}
        columns: dict[str, list[Any]] = {"row": list(range(number, number + count))}
        for name, strategy in values.items():
            columns[name] = [shared[name] if name in shared else draw(strategy) for _ in range(count)]
        number += count
        pieces.append(
            pa.table(
                [pa.array(columns[field.name], arrow_type(field.type)) for field in fields],
                schema=pa.schema(
                    [pa.field(field.name, arrow_type(field.type), not field.required) for field in fields]
                ),
            )
        )
    return Schema(schema_id=0, fields=tuple(fields)), partitions, pieces


def deleted(draw: Any, pieces: list[pa.Table]) -> dict[int, list[int]]:
    """Some rows of some pieces; never all of one."""
    chosen = {}
    for place, piece in enumerate(pieces):
        rows = draw(st.lists(st.integers(0, piece.num_rows - 1), unique=True, max_size=piece.num_rows - 1))
        if rows:
            chosen[place] = sorted(rows)
    return chosen


@EXAMPLES
@given(table=generated(), data=st.data(), version=st.sampled_from([2, 3]))
def test_iceberg_to_delta(
    table: tuple[Schema, list[str], list[pa.Table]],
    data: st.DataObject,
    version: int,
    write_iceberg_file: Any,
    delete_from_iceberg: Any,
    opened: Any,
    delta_rows: Any,
    difference: Callable[..., str],
) -> None:
    schema, partitions, pieces = table
    fields = [
        PartitionField(
            source_ids=(next(each.field_id for each in schema.fields if each.name == name),),
            field_id=1000 + place,
            name=f"{name}_p",
            transform=parse_transform(transform),
        )
        for place, name in enumerate(partitions)
        for transform in [data.draw(st.sampled_from(TRANSFORMS))]
        if transform == "identity" or not isinstance(_type(schema, name), BooleanType)
    ]
    spec = PartitionSpec(spec_id=0, fields=tuple(fields))
    with tempfile.TemporaryDirectory() as folder:
        root = f"{folder}/iceberg"
        with create_table(open_storage(), root, schema=schema, spec=spec, format_version=version) as transaction:
            entries = [write_iceberg_file(root, schema, piece, spec) for piece in pieces]
            transaction.snapshot("append").add_files(entries, 0)
            place = transaction.commit().metadata_location
        gone = deleted(data.draw, pieces)
        order = sorted(range(len(pieces)), key=lambda number: entries[number].column("file_path")[0].as_py())
        if gone:
            place = delete_from_iceberg(place, {order.index(number): rows for number, rows in gone.items()})
        wanted = pa.concat_tables(_left_over(pieces, gone))
        done = convert(opened(place), to="delta", target=f"{folder}/delta")
        assert done.rows == wanted.num_rows
        got = delta_rows(done.target)
        wrong = difference(got, wanted, signed_zero=True)
        assert not wrong, (wrong, [item.code for item in done.plan.items])
        report = verify(opened(place), opened(done.target), rows=True, bounds=True)
        assert report.equal, report.to_json()


def _left_over(pieces: list[pa.Table], gone: dict[int, list[int]]) -> list[pa.Table]:
    """The pieces without their deleted rows."""
    return [
        piece.take([row for row in range(piece.num_rows) if row not in gone.get(number, ())])
        for number, piece in enumerate(pieces)
    ]


def _type(schema: Schema, name: str) -> Type:
    return next(field.type for field in schema.fields if field.name == name)


@EXAMPLES
@given(table=generated(), data=st.data(), version=st.sampled_from([None, 2, 3]))
def test_delta_to_iceberg(
    table: tuple[Schema, list[str], list[pa.Table]],
    data: st.DataObject,
    version: int | None,
    delete_from_delta: Any,
    opened: Any,
    delta_rows: Any,
    iceberg_rows: Any,
    difference: Callable[..., str],
) -> None:
    import deltalake

    _, partitions, pieces = table
    # delta-rs writes the decimal -0.01 as the partition value "0.-1", which it cannot read itself.
    partitions = [name for name in partitions if not pa.types.is_decimal(pieces[0].schema.field(name).type)]
    # Nor does it declare the feature for a timestamp without zone that is nested.
    assume(not any(pa.types.is_nested(kind) and "timestamp[us]" in str(kind) for kind in pieces[0].schema.types))
    with tempfile.TemporaryDirectory() as folder:
        gone = deleted(data.draw, pieces)  # before delta-rs names its files, so that the draws do not depend on names
        root = Path(folder) / "delta"
        for piece in pieces:
            deltalake.write_deltalake(str(root), piece, partition_by=partitions, mode="append")
        live = sorted(pa.table(deltalake.DeltaTable(str(root)).get_add_actions())["path"].to_pylist())
        firsts = [_first_row(root, path) for path in live]
        places = [firsts.index(piece["row"][0].as_py()) for piece in pieces]
        if gone:
            delete_from_delta(root, {places[number]: rows for number, rows in gone.items()})
        wanted = _by_the_protocol(pa.concat_tables(_left_over(pieces, gone)), partitions)
        done = convert(opened(root), to="iceberg", options=ConvertOptions(format_version=version))
        assert Table.open(done.target, open_storage()).metadata.format_version == version or version is None
        assert done.rows == wanted.num_rows
        wrong = difference(iceberg_rows(done.target_metadata), wanted, signed_zero=True)
        assert not wrong, (wrong, [item.code for item in done.plan.items])
        report = verify(opened(root), opened(done.target), rows=True, bounds=True)
        assert report.equal, report.to_json()


def _first_row(root: Path, path: str) -> int:
    import urllib.parse

    import pyarrow.parquet as pq

    return int(pq.ParquetFile(root / urllib.parse.unquote(path)).read(["row"])["row"][0].as_py())


def _by_the_protocol(rows: pa.Table, partitions: list[str]) -> pa.Table:
    """An empty string as a partition value is null in Delta."""
    for place, name in enumerate(rows.column_names):
        if name in partitions and pa.types.is_string(rows[name].type):
            values = pa.array([value or None for value in rows[name].to_pylist()], pa.string())
            rows = rows.set_column(place, name, values)
    return rows
