"""Which metrics a table keeps, by its properties."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pytest

from deltaberg.iceberg.errors import CorruptMetadata, InvalidIcebergRequest
from deltaberg.iceberg.manifest.data_file import DATA_FILE_SCHEMA
from deltaberg.iceberg.manifest.metrics_config import Keep, MetricsConfig, MetricsMode
from deltaberg.iceberg.schema.schema import Schema
from deltaberg.iceberg.schema.types import BinaryType, LongType, NestedField, StringType, StructType

SCHEMA = Schema(
    schema_id=0,
    fields=(
        NestedField(field_id=1, name="id", required=False, type=LongType()),
        NestedField(field_id=2, name="s", required=False, type=StringType()),
        NestedField(
            field_id=3,
            name="st",
            required=False,
            type=StructType(fields=(NestedField(field_id=4, name="b", required=False, type=BinaryType()),)),
        ),
    ),
)


def entry(upper: Mapping[int, bytes] | None) -> pa.RecordBatch:
    counts = {1: 5, 2: 5, 4: 5}
    row = {
        "status": 1,
        "content": 0,
        "file_path": "/x",
        "file_format": "parquet",
        "spec_id": 0,
        "partition": {},
        "record_count": 5,
        "file_size_in_bytes": 1,
        "column_sizes": counts,
        "value_counts": counts,
        "null_value_counts": counts,
        "nan_value_counts": {},
        "lower_bounds": None if upper is None else dict(upper),
        "upper_bounds": None if upper is None else dict(upper),
    }
    rows = [row, {**row, "lower_bounds": None, "upper_bounds": None, "value_counts": None}]
    pairs = [
        {k: list(v.items()) if isinstance(v, dict) and k != "partition" else v for k, v in r.items()} for r in rows
    ]
    return pa.RecordBatch.from_pylist(pairs, schema=DATA_FILE_SCHEMA)


def kept(batch: pa.RecordBatch, name: str) -> list[dict[int, object] | None]:
    return [None if value is None else dict(value) for value in batch.column(name).to_pylist()]


LONG = {1: b"\1" + b"\0" * 7, 2: b"a" * 20, 4: b"\xff" * 20}


def applied(properties: Mapping[str, str]) -> pa.RecordBatch:
    return MetricsConfig.of(properties, SCHEMA).apply(entry(LONG), SCHEMA)


def test_text_and_binary_are_cut_at_16_by_default() -> None:
    batch = applied({})
    assert kept(batch, "lower_bounds") == [{1: LONG[1], 2: b"a" * 16, 4: b"\xff" * 16}, None]
    assert kept(batch, "upper_bounds") == [{1: LONG[1], 2: b"a" * 15 + b"b"}, None]
    assert kept(batch, "value_counts") == [{1: 5, 2: 5, 4: 5}, None]


def test_full_changes_nothing() -> None:
    assert applied({"write.metadata.metrics.default": "full"}).equals(entry(LONG))


def test_counts_drops_the_bounds_and_none_everything_but_sizes() -> None:
    batch = applied(
        {
            "write.metadata.metrics.default": "none",
            "write.metadata.metrics.column.id": "counts",
            "write.metadata.metrics.column.st.b": "truncate(2)",
        }
    )
    assert kept(batch, "value_counts") == [{1: 5, 4: 5}, None]
    assert kept(batch, "null_value_counts") == [{1: 5, 4: 5}, {1: 5, 4: 5}]
    assert kept(batch, "lower_bounds") == [{4: b"\xff\xff"}, None]
    assert kept(batch, "upper_bounds") == [{}, None]
    assert kept(batch, "column_sizes") == [{1: 5, 2: 5, 4: 5}] * 2


def test_only_the_first_columns_keep_metrics_unless_a_default_is_set() -> None:
    config = MetricsConfig.of({"write.metadata.metrics.max-inferred-column-defaults": "1"}, SCHEMA)
    assert [config.mode(field_id).keep for field_id in (1, 2, 4)] == [Keep.TRUNCATED, Keep.NONE, Keep.NONE]
    explicit = MetricsConfig.of(
        {"write.metadata.metrics.max-inferred-column-defaults": "1", "write.metadata.metrics.default": "counts"}, SCHEMA
    )
    assert explicit.mode(4) == MetricsMode(keep=Keep.COUNTS)


@pytest.mark.parametrize("text", ["truncate", "truncate(0)", "truncate(-1)", "all", ""])
def test_a_mode_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(InvalidIcebergRequest, match=r"expected none, counts, truncate\(length\) or full"):
        MetricsConfig.of({"write.metadata.metrics.default": text}, SCHEMA)


def test_a_bound_that_is_no_text_is_corrupt() -> None:
    batch = entry({2: b"\xff" * 30})
    with pytest.raises(CorruptMetadata, match="not valid UTF-8"):
        MetricsConfig.of({}, SCHEMA).apply(batch, SCHEMA)
