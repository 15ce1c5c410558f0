"""A reader that skips files by their bounds finds every row that the table holds."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from deltaberg.migrate.convert import convert

table_of = pytest.importorskip("pyiceberg.table")
expressions = pytest.importorskip("pyiceberg.expressions")

UTC = dt.timezone.utc
CASES = {
    "a decimal that delta-rs states as a double": (
        pa.decimal128(38, 2),
        Decimal("12345678901234567.89"),
        Decimal("1.50"),
    ),
    "a decimal that delta-rs cuts to 64 bits": (pa.decimal128(38, 0), Decimal(10**20), Decimal(-(10**20))),
    "an exact decimal": (pa.decimal128(9, 2), Decimal("1234567.89"), Decimal("-1234567.89")),
    "a moment between milliseconds": (
        pa.timestamp("us", "UTC"),
        dt.datetime(2024, 1, 1, 0, 0, 0, 1_999, UTC),
        dt.datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC),
    ),
    "a long text": (pa.string(), "ü" * 60 + "\uffff", "\u0001" * 60),
    "infinities": (pa.float64(), float("inf"), float("-inf")),
    "zeros": (pa.float64(), 0.0, -0.0),
    "the ends of long": (pa.int64(), 2**63 - 1, -(2**63)),
    "far days": (pa.date32(), dt.date(9999, 12, 31), dt.date(1, 1, 1)),
}


@pytest.mark.parametrize("case", CASES)
def test_bounds_of_a_delta_table_enclose_the_values(case: str, write_delta: Any, opened: Any) -> None:
    kind, *values = CASES[case]
    folder = write_delta(pa.table({"v": pa.array(values, kind)}))
    metadata = convert(opened(folder), to="iceberg").target_metadata
    table = table_of.StaticTable.from_metadata(metadata)
    for value in values:
        literal = value.isoformat() if isinstance(value, dt.date) else value
        for found in (
            expressions.EqualTo("v", literal),
            expressions.And(expressions.GreaterThanOrEqual("v", literal), expressions.LessThanOrEqual("v", literal)),
        ):
            rows = table.scan(row_filter=found).to_arrow()["v"].to_pylist()
            assert value in rows, found
