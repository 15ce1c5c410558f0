"""Timestamps that an Iceberg table's files hold as INT96: shared where bounds prove them harmless, else rewritten."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltaberg.iceberg.create_table import create_table
from deltaberg.iceberg.manifest.data_file import BOUND_MAP
from deltaberg.iceberg.partition.partition_spec import UNPARTITIONED
from deltaberg.iceberg.schema.schema import Schema
from deltaberg.iceberg.schema.types import ListType, NestedField, TimestamptzType, Type
from deltaberg.migrate.convert import convert
from deltaberg.storage import open_storage
from deltaberg.translate.options import ConvertOptions

UTC = dt.timezone.utc
MODERN = [dt.datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC), dt.datetime(2024, 2, 29, tzinfo=UTC), None]
ANCIENT = [dt.datetime(1, 1, 1, tzinfo=UTC), dt.datetime(9999, 12, 31, 23, 59, 59, 999_999, UTC), None]


@pytest.fixture
def write(tmp_path: Path, write_iceberg_file: Any) -> Callable[..., str]:
    """``write(values)``: a table of one file with one column of INT96; ``bounds=False`` leaves them out."""

    def table(values: list[Any], *, kind: Type | None = None, bounds: bool = True) -> str:
        root = str(tmp_path / "iceberg")
        field = NestedField(field_id=1, name="at", required=False, type=kind or TimestamptzType())
        schema = Schema(schema_id=0, fields=(field,))
        plain = pa.timestamp("us", "UTC")
        rows = pa.table({"at": pa.array(values, pa.list_(plain) if kind else plain)})
        with create_table(open_storage(), root, schema=schema, spec=UNPARTITIONED, format_version=2) as transaction:
            entry = write_iceberg_file(root, schema, rows, UNPARTITIONED)
            path = entry.column("file_path")[0].as_py()
            pq.write_table(pq.read_table(path), path, use_deprecated_int96_timestamps=True)
            size = pa.array([Path(path).stat().st_size])
            entry = entry.set_column(entry.schema.get_field_index("file_size_in_bytes"), "file_size_in_bytes", size)
            for name in () if bounds and kind is None else ("lower_bounds", "upper_bounds"):
                entry = entry.set_column(entry.schema.get_field_index(name), name, pa.nulls(1, BOUND_MAP))
            transaction.snapshot("append").add_files([entry], 0)
            transaction.commit()
        assert "int96" in str(pq.ParquetFile(path).schema)
        return root

    return table


def outcome(
    root: str, target: Path, opened: Any, delta_rows: Any, **options: Any
) -> tuple[dict[str, str], int, list[Any]]:
    """Codes about INT96 with their severities, the files rewritten, and what delta-rs reads."""
    done = convert(opened(root), to="delta", target=str(target), options=ConvertOptions(**options))
    found = {item.code: item.severity for item in done.plan.items if item.code.startswith("int96")}
    return found, done.rewritten_files, delta_rows(done.target)["at"].to_pylist()


def test_with_bounds_in_range_the_file_is_shared(tmp_path: Path, write: Any, opened: Any, delta_rows: Any) -> None:
    root = write(MODERN)
    assert outcome(root, tmp_path / "a", opened, delta_rows) == ({"int96-timestamps": "warning"}, 0, MODERN)
    strict = outcome(root, tmp_path / "b", opened, delta_rows, strict=True)
    assert strict == ({"int96-timestamps": "rewrite"}, 1, MODERN)


@pytest.mark.parametrize(("values", "bounds"), [(ANCIENT, True), (ANCIENT, False), (MODERN, False)])
def test_otherwise_it_is_written_anew(
    tmp_path: Path, write: Any, opened: Any, delta_rows: Any, values: list[Any], bounds: bool
) -> None:
    found = outcome(write(values, bounds=bounds), tmp_path / "delta", opened, delta_rows)
    assert found == ({"int96-out-of-range": "rewrite"}, 1, values)


def test_lists_have_no_bounds(tmp_path: Path, write: Any, opened: Any, delta_rows: Any) -> None:
    element = NestedField(field_id=2, name="element", required=False, type=TimestamptzType())
    values = [ANCIENT, None, []]
    found = outcome(write(values, kind=ListType(element=element)), tmp_path / "delta", opened, delta_rows)
    assert found == ({"int96-out-of-range": "rewrite"}, 1, values)
