"""Tables of many files whose cost is all metadata: every data file is a hard link to one small Parquet file.

Ten columns with statistics and one partition column; the statistics differ from file to file and are not those of the
rows, since no benchmark here reads rows. Delta: one commit, a checkpoint, ``_last_checkpoint``. Iceberg: format version 2,
written by PyIceberg, ten thousand files an append.
"""

from __future__ import annotations

import datetime as dt
import json
import os
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.conversions import to_bytes
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import (
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestamptzType,
)

DAYS = 100
ROWS_PER_FILE = 1_000
FIRST_DAY = dt.date(2024, 1, 1)
EPOCH_DAY = (FIRST_DAY - dt.date(1970, 1, 1)).days

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "quantity", IntegerType(), required=False),
    NestedField(3, "price", DecimalType(12, 2), required=False),
    NestedField(4, "amount", DoubleType(), required=False),
    NestedField(5, "customer", StringType(), required=False),
    NestedField(6, "product", StringType(), required=False),
    NestedField(7, "shipped", DateType(), required=False),
    NestedField(8, "created", TimestamptzType(), required=False),
    NestedField(9, "paid", BooleanType(), required=False),
    NestedField(10, "note", StringType(), required=False),
    NestedField(11, "day", DateType(), required=False),
)
DELTA_TYPES = [
    "long",
    "integer",
    "decimal(12,2)",
    "double",
    "string",
    "string",
    "date",
    "timestamp",
    "boolean",
    "string",
    "date",
]


def file_name(index: int, *, iceberg: bool) -> str:
    """Relative to the table's folder, as Spark names the files of a table of either format."""
    digits = f"{index:032x}"
    unique = "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
    day = f"day={FIRST_DAY + dt.timedelta(days=index % DAYS)}"
    if iceberg:
        return f"data/{day}/{index % 100_000:05d}-7-{unique}-00001.parquet"
    return f"{day}/part-{index % 100_000:05d}-{unique}.c000.snappy.parquet"


def bounds(index: int) -> list[tuple[object, object]]:
    """Lower and upper bound of the ten columns in file ``index``, as Python values."""
    low = index * ROWS_PER_FILE
    created = dt.datetime(2024, 1, 1, tzinfo=dt.timezone.utc) + dt.timedelta(seconds=index)
    shipped = FIRST_DAY + dt.timedelta(days=index % 365)
    return [
        (low, low + ROWS_PER_FILE - 1),
        (1, 1 + index % 99),
        (Decimal(index % 1_000) / 100, Decimal(100_000 + index % 1_000) / 100),
        (index / 7, index / 7 + 1_000.5),
        (f"customer-{index % 5000:05d}", f"customer-{index % 5000:05d}z"),
        ("anvil", "zither"),
        (shipped, shipped + dt.timedelta(days=30)),
        (created, created + dt.timedelta(hours=1)),
        (False, True),
        (f"a note {index % 10}", f"the note {index % 10}"),
    ]


def write_data_files(folder: Path, files: int, *, iceberg: bool) -> int:
    """Link every data file of the table, with field ids where it is Iceberg's; gives the size of one."""
    columns = [pa.nulls(ROWS_PER_FILE, field.type) for field in SCHEMA.as_arrow() if field.name != "day"]
    one = folder / "one.parquet"
    folder.mkdir(parents=True)
    schema = pa.schema(
        [
            f.with_metadata({"PARQUET:field_id": str(i + 1)} if iceberg else {})
            for i, f in enumerate(SCHEMA.as_arrow())
            if f.name != "day"
        ]
    )
    pq.write_table(pa.table(columns, schema=schema), one)
    for day in range(DAYS):
        (folder / file_name(day, iceberg=iceberg)).parent.mkdir(parents=True)
    # A file system has a limit of links to one file; a new original every so often stays below it.
    for index in range(files):
        path = folder / file_name(index, iceberg=iceberg)
        if index % 10_000 == 0:
            path.write_bytes(one.read_bytes())
            original = path
        else:
            os.link(original, path)
    one.unlink()
    return original.stat().st_size


def write_delta(folder: Path, files: int) -> None:
    """A Delta table of version 0: the commit and a checkpoint of it."""
    size = write_data_files(folder, files, iceberg=False)
    log = folder / "_delta_log"
    log.mkdir()
    fields = [
        {"name": field.name, "type": kind, "nullable": True, "metadata": {}}
        for field, kind in zip(SCHEMA.fields, DELTA_TYPES, strict=True)
    ]
    protocol = {"minReaderVersion": 1, "minWriterVersion": 2}
    metadata = {
        "id": "6c7b1f7c-2f0e-4f0e-9f0e-1d2c3b4a5968",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": fields}),
        "partitionColumns": ["day"],
        "configuration": {},
        "createdTime": 1_704_067_200_000,
    }
    with (log / f"{0:020d}.json").open("w") as commit:
        engine = "Apache-Spark/3.5.3 Delta-Lake/3.3.0"
        info = {"timestamp": 1_704_067_200_000, "operation": "WRITE", "engineInfo": engine}
        commit.write(json.dumps({"commitInfo": info}) + "\n")
        commit.write(json.dumps({"protocol": protocol}) + "\n" + json.dumps({"metaData": metadata}) + "\n")
        for index in range(files):
            commit.write(json.dumps({"add": add_action(index, size)}) + "\n")
    add = pa.struct(
        [
            ("path", pa.string()),
            ("partitionValues", pa.map_(pa.string(), pa.string())),
            ("size", pa.int64()),
            ("modificationTime", pa.int64()),
            ("dataChange", pa.bool_()),
            ("stats", pa.string()),
        ]
    )
    schema = pa.schema(
        [
            pa.field("protocol", pa.struct([("minReaderVersion", pa.int32()), ("minWriterVersion", pa.int32())])),
            pa.field(
                "metaData",
                pa.struct(
                    [
                        ("id", pa.string()),
                        (
                            "format",
                            pa.struct([("provider", pa.string()), ("options", pa.map_(pa.string(), pa.string()))]),
                        ),
                        ("schemaString", pa.string()),
                        ("partitionColumns", pa.list_(pa.string())),
                        ("configuration", pa.map_(pa.string(), pa.string())),
                        ("createdTime", pa.int64()),
                    ]
                ),
            ),
            pa.field("add", add),
            pa.field(
                "remove",
                pa.struct([("path", pa.string()), ("deletionTimestamp", pa.int64()), ("dataChange", pa.bool_())]),
            ),
            pa.field("txn", pa.struct([("appId", pa.string()), ("version", pa.int64())])),
        ]
    )
    empty_maps = {**metadata, "format": {"provider": "parquet", "options": []}, "configuration": []}
    with pq.ParquetWriter(log / f"{0:020d}.checkpoint.parquet", schema) as writer:
        writer.write_table(pa.Table.from_pylist([{"protocol": protocol}, {"metaData": empty_maps}], schema=schema))
        for start in range(0, files, 50_000):
            actions = [add_action(index, size) for index in range(start, min(start + 50_000, files))]
            for action in actions:
                action["partitionValues"] = list(action["partitionValues"].items())
            writer.write_table(pa.Table.from_pylist([{"add": action} for action in actions], schema=schema))
    (log / "_last_checkpoint").write_text(json.dumps({"version": 0, "size": files + 2}))


def add_action(index: int, size: int) -> dict[str, object]:
    """One ``add`` with its statistics as delta-rs and Spark write them."""
    names = [field.name for field in SCHEMA.fields[:10]]
    pairs = [(delta_value(low), delta_value(high)) for low, high in bounds(index)]
    stats = {
        "numRecords": ROWS_PER_FILE,
        "minValues": {name: low for name, (low, _) in zip(names, pairs, strict=True) if name != "paid"},
        "maxValues": {name: high for name, (_, high) in zip(names, pairs, strict=True) if name != "paid"},
        "nullCount": dict.fromkeys(names, index % 3),
    }
    return {
        "path": file_name(index, iceberg=False),
        "partitionValues": {"day": str(FIRST_DAY + dt.timedelta(days=index % DAYS))},
        "size": size,
        "modificationTime": 1_704_067_200_000 + index,
        "dataChange": True,
        "stats": json.dumps(stats, separators=(",", ":")),
    }


def delta_value(value: object) -> object:
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, dt.datetime):
        return value.strftime("%Y-%m-%dT%H:%M:%S.000Z")
    return str(value) if isinstance(value, dt.date) else value


def write_iceberg(folder: Path, files: int) -> None:
    """An Iceberg table of format version 2."""
    size = write_data_files(folder, files, iceberg=True)
    table = iceberg_catalog(folder).create_table(
        "bench.orders",
        SCHEMA,
        location=f"file://{folder}",
        partition_spec=PartitionSpec(
            PartitionField(source_id=11, field_id=1000, transform=IdentityTransform(), name="day")
        ),
    )
    for start in range(0, files, 10_000):
        with table.transaction() as transaction, transaction.update_snapshot().fast_append() as append:
            for data_file in data_files(folder, range(start, min(start + 10_000, files)), size):
                append.append_data_file(data_file)


def iceberg_catalog(folder: Path) -> SqlCatalog:
    catalog = SqlCatalog(
        "bench", uri=f"sqlite:///{folder.parent / (folder.name + '.db')}", warehouse=f"file://{folder.parent}"
    )
    catalog.create_namespace_if_not_exists("bench")
    return catalog


def data_files(folder: Path, indexes: range, size: int) -> Iterator[DataFile]:
    """PyIceberg's entries for the files, with every metric of the ten columns."""
    leaves = SCHEMA.fields[:10]
    for index in indexes:
        pairs = list(zip(leaves, bounds(index), strict=True))
        yield DataFile.from_args(
            content=DataFileContent.DATA,
            file_path=f"file://{folder}/{file_name(index, iceberg=True)}",
            file_format=FileFormat.PARQUET,
            partition=Record(EPOCH_DAY + index % DAYS),
            record_count=ROWS_PER_FILE,
            file_size_in_bytes=size,
            column_sizes={leaf.field_id: 1_000 for leaf in leaves},
            value_counts={leaf.field_id: ROWS_PER_FILE for leaf in leaves},
            null_value_counts={leaf.field_id: index % 3 for leaf in leaves},
            nan_value_counts={4: 0},
            lower_bounds={leaf.field_id: to_bytes(leaf.field_type, iceberg_value(low)) for leaf, (low, _) in pairs},
            upper_bounds={leaf.field_id: to_bytes(leaf.field_type, iceberg_value(high)) for leaf, (_, high) in pairs},
            split_offsets=[4],
            sort_order_id=0,
            spec_id=0,
        )


def iceberg_value(value: object) -> object:
    if isinstance(value, dt.datetime):
        return int((value - dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)).total_seconds() * 1_000_000)
    if isinstance(value, dt.date):
        return (value - dt.date(1970, 1, 1)).days
    if isinstance(value, Decimal):
        return value.quantize(Decimal("0.01"))
    return value
