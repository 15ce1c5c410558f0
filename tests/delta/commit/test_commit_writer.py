"""Action lines: whatever a batch of ADD_SCHEMA holds, the reader of the log reads it back."""

from __future__ import annotations

import datetime as dt
import json
import tempfile
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deltaberg.delta.commit.commit_writer import action_line, add_lines, remove_lines
from deltaberg.delta.create_table import new_metadata
from deltaberg.delta.errors import DeltaError
from deltaberg.delta.log.add_file import table_add_schema
from deltaberg.delta.protocol.required_protocol import features_in_use, new_protocol
from deltaberg.delta.schema.column_mapping import ColumnMapping
from deltaberg.delta.schema.types import (
    BinaryType,
    BooleanType,
    ByteType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampNtzType,
    TimestampType,
)
from deltaberg.delta.table import DeltaTable
from deltaberg.storage import open_storage

SCHEMA = StructType(
    fields=(
        StructField(name="b", type=BooleanType()),
        StructField(name='by"te', type=ByteType()),
        StructField(name="long", type=LongType()),
        StructField(name="f", type=FloatType()),
        StructField(name="d", type=DoubleType()),
        StructField(name="dec", type=DecimalType(precision=38, scale=20)),
        StructField(name="s", type=StringType()),
        StructField(name="bin", type=BinaryType()),
        StructField(name="date", type=DateType()),
        StructField(name="ts", type=TimestampType()),
        StructField(
            name="nested",
            type=StructType(
                fields=(
                    StructField(name="x", type=LongType()),
                    StructField(
                        name="deep", type=StructType(fields=(StructField(name="ntz", type=TimestampNtzType()),))
                    ),
                )
            ),
        ),
        StructField(name="p", type=StringType()),
        StructField(name="p 2", type=LongType()),
    )
)
METADATA = new_metadata(
    SCHEMA,
    table_id="t",
    created_time_ms=1,
    partition_columns=("p", "p 2"),
    configuration={"delta.enableDeletionVectors": "true", "delta.enableRowTracking": "true"},
)
PROTOCOL = new_protocol(features_in_use(METADATA))
ADD_SCHEMA = table_add_schema(METADATA, ColumnMapping.of(PROTOCOL, METADATA))

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
LONG = st.integers(-(2**63), 2**63 - 1)
COUNT = st.integers(0, 2**62)


def maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(st.none(), strategy)


def timestamps(zone: dt.tzinfo | None) -> st.SearchStrategy[dt.datetime]:
    return st.datetimes(dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59, 999_999), timezones=st.just(zone))


BOUNDS = st.fixed_dictionaries(
    {
        "b": maybe(st.booleans()),
        'by"te': maybe(st.integers(-128, 127)),
        "long": maybe(LONG),
        "f": maybe(st.floats(width=32, allow_nan=False)),
        "d": maybe(st.floats(allow_nan=False)),
        "dec": maybe(st.decimals(Decimal(-(10**17)), Decimal(10**17), allow_nan=False, places=20)),
        "s": maybe(TEXT),
        "date": maybe(st.dates()),
        "ts": maybe(timestamps(dt.timezone.utc)),
        "nested": maybe(
            st.fixed_dictionaries(
                {"x": maybe(LONG), "deep": maybe(st.fixed_dictionaries({"ntz": maybe(timestamps(None))}))}
            )
        ),
    }
)
NULLS = st.fixed_dictionaries({"long": maybe(COUNT), "nested": maybe(st.fixed_dictionaries({"x": maybe(COUNT)}))})
STATS = st.fixed_dictionaries(
    {
        "num_records": maybe(COUNT),
        "tight_bounds": maybe(st.booleans()),
        "min_values": maybe(BOUNDS),
        "max_values": maybe(BOUNDS),
        "null_count": maybe(NULLS),
    }
)
VECTOR = st.fixed_dictionaries(
    {
        "storage_type": st.sampled_from(["u", "i", "p"]),
        "path_or_inline_dv": TEXT,
        "offset": maybe(st.integers(0, 2**31 - 1)),
        "size_in_bytes": st.integers(4, 2**31 - 1),
        "cardinality": COUNT,
    }
)
ADD = st.fixed_dictionaries(
    {
        "partition_values": st.fixed_dictionaries({"p": maybe(TEXT.filter(bool)), "p 2": maybe(LONG.map(str))}),
        "size": COUNT,
        "modification_time": COUNT,
        "data_change": st.booleans(),
        "stats": maybe(STATS),
        "deletion_vector": maybe(VECTOR),
        "base_row_id": maybe(COUNT),
        "default_row_commit_version": maybe(COUNT),
        "clustering_provider": maybe(TEXT),
        "tags": maybe(st.dictionaries(TEXT, TEXT, max_size=3).map(lambda tags: list(tags.items()))),
    }
)
PATHS = st.lists(
    TEXT.filter(lambda text: "\0" not in text).map(lambda text: "f" + quote(text)), max_size=8, unique=True
)


def committed(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """The rows after a commit was written and read."""
    lines = [
        action_line("protocol", PROTOCOL.to_json()),
        action_line("metaData", METADATA.to_json()),
        *add_lines([batch]),
    ]
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "_delta_log"
        log.mkdir()
        (log / f"{0:020d}.json").write_bytes(b"".join(lines))
        snapshot = DeltaTable.open(folder, open_storage()).snapshot()
        return [row for found in snapshot.add_files() for row in found.to_pylist()]


def meaning(row: Any) -> Any:
    """A row without what says nothing: null members, and structs that hold none other."""
    if isinstance(row, dict):
        kept = {key: meaning(value) for key, value in row.items()}
        return {key: value for key, value in kept.items() if value not in (None, {})}
    return row


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_what_is_written_is_read_back(data: st.DataObject) -> None:
    paths = data.draw(PATHS)
    adds = [{"path": path, **data.draw(ADD)} for path in paths]
    batch = pa.RecordBatch.from_pylist(adds, schema=ADD_SCHEMA)
    expected = sorted((meaning(row) for row in batch.to_pylist()), key=lambda row: row["path"])
    assert sorted((meaning(row) for row in committed(batch)), key=lambda row: row["path"]) == expected


def test_every_line_is_one_json_object() -> None:
    told = action_line("commitInfo", {"operation": "W\nX", "operationParameters": {"é": "\u2028"}})
    add = {"path": "a\nb", "partition_values": {"p": "x", "p 2": None}, "size": 1, "modification_time": 2}
    batch = pa.RecordBatch.from_pylist([{**add, "data_change": True}], schema=ADD_SCHEMA)
    content = b"".join([told, *add_lines([batch]), *remove_lines([batch], deletion_timestamp_ms=5, data_change=False)])
    assert "\u2028" in content.decode()
    info, added, removed = (json.loads(line) for line in content.split(b"\n")[:-1])
    assert info["commitInfo"]["operationParameters"] == {"é": "\u2028"}
    assert added == {
        "add": {
            "path": "a\nb",
            "partitionValues": {"p": "x", "p 2": None},
            "size": 1,
            "modificationTime": 2,
            "dataChange": True,
        }
    }
    assert removed == {
        "remove": {
            "path": "a\nb",
            "deletionTimestamp": 5,
            "dataChange": False,
            "extendedFileMetadata": True,
            "partitionValues": {"p": "x", "p 2": None},
            "size": 1,
        }
    }


@pytest.mark.parametrize("column", ["modification_time", "data_change"])
def test_a_required_member_that_is_null_is_named(column: str) -> None:
    add = {"path": "f", "partition_values": {}, "size": 1, "modification_time": 2, "data_change": True, column: None}
    with pytest.raises(DeltaError, match=f"Cannot write an add: {column} is null") as caught:
        b"".join(add_lines([pa.RecordBatch.from_pylist([add], schema=ADD_SCHEMA)]))
    assert caught.value.path == "f"


def test_large_batches_keep_their_order() -> None:
    count = 50_000
    batch = pa.RecordBatch.from_arrays(
        [
            pa.array([f"f{number}" for number in range(count)]),
            pa.array([{}] * count, ADD_SCHEMA.field("partition_values").type),
            pa.array(range(count), pa.int64()),
            *(pa.nulls(count, field.type) for field in list(ADD_SCHEMA)[3:]),
        ],
        schema=ADD_SCHEMA,
    )
    for name, value in (("modification_time", 1), ("data_change", True)):
        index = batch.schema.get_field_index(name)
        field = batch.schema.field(index)
        batch = batch.set_column(index, field, pa.repeat(pa.scalar(value, field.type), count))
    sizes = [json.loads(line)["add"]["size"] for line in b"".join(add_lines([batch])).splitlines()]
    assert sizes == list(range(count))
