"""--derive-partition-columns end to end: DuckDB and delta-rs read the right value in every generated column."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg.iceberg.create_table import create_table
from deltaberg.iceberg.partition.partition_spec import PartitionField, PartitionSpec
from deltaberg.iceberg.partition.transforms import parse_transform
from deltaberg.iceberg.schema.schema import Schema
from deltaberg.iceberg.schema.types import (
    DateType,
    LongType,
    NestedField,
    StringType,
    TimestampType,
    TimestamptzType,
    Type,
)
from deltaberg.migrate.convert import convert
from deltaberg.migrate.verify.verify import verify
from deltaberg.storage import open_storage
from deltaberg.translate.options import ConvertOptions

pytest.importorskip("deltalake")

UTC = dt.timezone.utc
MOMENTS = [
    dt.datetime(1969, 12, 31, 23, 59, 59, 999_999),
    dt.datetime(1970, 1, 1),
    dt.datetime(1582, 10, 10, 12),
    dt.datetime(2024, 2, 29, 23, 30),
    dt.datetime(9999, 12, 31, 23, 59, 59, 999_999),
    None,
]
EPOCH = dt.datetime(1970, 1, 1)
OF_MOMENT = {
    "year": lambda at: at.year,
    "month": lambda at: at.year * 100 + at.month,
    "day": lambda at: at.date(),
    "hour": lambda at: (at - EPOCH) // dt.timedelta(hours=1),
}
NUMBERS = [-11, -10, -1, 0, 9, 10, None]
TEXTS = ["", "ab", "abc", "abcd", "日本語文", "a/b c", None]

CASES: list[tuple[str, Type, list[Any], list[Any]]] = [
    *(
        (
            name,
            kind,
            [None if at is None else shape(at) for at in MOMENTS],
            [None if at is None else of(at) for at in MOMENTS],
        )
        for name, of in OF_MOMENT.items()
        for kind, shape in (
            (TimestampType(), lambda at: at),
            (TimestamptzType(), lambda at: at.replace(tzinfo=UTC)),
            (DateType(), lambda at: at.date()),
        )
        if not (name == "hour" and isinstance(kind, DateType))
    ),
    ("truncate[10]", LongType(), NUMBERS, [None if n is None else n // 10 * 10 for n in NUMBERS]),
    ("truncate[3]", StringType(), TEXTS[1:], [None if text is None else text[:3] for text in TEXTS[1:]]),
]


@pytest.mark.parametrize(("transform", "kind", "values", "wanted"), CASES, ids=lambda case: str(case)[:24])
def test_generated_columns_hold_what_their_expressions_give(
    tmp_path: Path,
    write_iceberg_file: Any,
    opened: Any,
    delta_rows: Any,
    independent: Any,
    transform: str,
    kind: Type,
    values: list[Any],
    wanted: list[Any],
) -> None:
    column = NestedField(field_id=2, name="v", required=False, type=kind)
    schema = Schema(schema_id=0, fields=(NestedField(field_id=1, name="n", required=True, type=LongType()), column))
    part = PartitionField(source_ids=(2,), field_id=1000, name="hidden", transform=parse_transform(transform))
    spec = PartitionSpec(spec_id=0, fields=(part,))
    root = str(tmp_path / "iceberg")
    pieces = [_piece(number, value, kind) for number, value in enumerate(values)]
    with create_table(open_storage(), root, schema=schema, spec=spec, format_version=2) as transaction:
        transaction.snapshot("append").add_files([write_iceberg_file(root, schema, each, spec) for each in pieces], 0)
        transaction.commit()
    options = ConvertOptions(derive_partition_columns=True)
    done = convert(opened(root), to="delta", target=str(tmp_path / "delta"), options=options)
    (name,) = done.plan.target["partitioning"]
    field = opened(done.target).snapshot.metadata.schema.field(name)
    assert "v" in field.metadata["delta.generationExpression"]
    assert done.rewritten_files == 0
    for rows in (delta_rows(done.target), independent.read("duckdb-delta", Path(done.target))):
        assert isinstance(rows, pa.Table), rows
        found = sorted(zip(*(rows[each].to_pylist() for each in ("n", name, "v")), strict=True))
        assert found == list(zip(range(len(values)), wanted, values, strict=True))
    assert verify(opened(root), opened(done.target), rows=True, bounds=True).equal


def _piece(number: int, value: Any, kind: Type) -> pa.Table:
    types = {
        TimestampType: pa.timestamp("us"),
        TimestamptzType: pa.timestamp("us", "UTC"),
        DateType: pa.date32(),
        LongType: pa.int64(),
        StringType: pa.string(),
    }
    schema = pa.schema([pa.field("n", pa.int64(), nullable=False), ("v", types[type(kind)])])
    return pa.table([[number], [value]], schema=schema)
