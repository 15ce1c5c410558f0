"""The reference implementation reads, out of manifests written here, the very entries that went in."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltaberg.iceberg.create_table import create_table
from deltaberg.iceberg.manifest.metrics import metric_map
from deltaberg.iceberg.partition.partition_spec import PartitionField, PartitionSpec
from deltaberg.iceberg.partition.transforms import IdentityTransform, parse_transform
from deltaberg.iceberg.schema.schema import Schema
from deltaberg.iceberg.schema.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestampType,
    TimestamptzType,
    Type,
    UuidType,
    arrow_type,
)
from deltaberg.storage import open_storage

# Name, type, a value, and how Spark shows the value in a partition tuple.
COLUMNS: tuple[tuple[str, Type, Any, Any], ...] = (
    ("id", LongType(), -(2**63), -(2**63)),
    ("with space", IntegerType(), 2**31 - 1, 2**31 - 1),
    ("é", StringType(), "é\U0001f600", "é\U0001f600"),
    ("1a", BooleanType(), True, True),
    ("real", DoubleType(), -1e300, -1e300),
    ("small", FloatType(), 0.5, 0.5),
    ("number", DecimalType(precision=38, scale=3), Decimal("-99999999999999999999999999999999999.999"), None),
    ("tiny", DecimalType(precision=3, scale=1), Decimal("-1.5"), Decimal("-1.5")),
    ("day", DateType(), date(1969, 12, 31), date(1969, 12, 31)),
    ("local", TimestampType(), datetime(2024, 2, 29, 1, 2, 3, 456789), datetime(2024, 2, 29, 1, 2, 3, 456789)),
    ("moment", TimestamptzType(), datetime(1969, 12, 31, 23, 59, 59, 999999, timezone.utc), None),
    ("key", UuidType(), bytes(range(16)), "00010203-0405-0607-0809-0a0b0c0d0e0f"),
    ("fixed", FixedType(length=3), b"\x00\xffa", b"\x00\xffa"),
    ("bytes", BinaryType(), b"\xff", b"\xff"),
)
SCHEMA = Schema(
    schema_id=0,
    fields=tuple(
        NestedField(field_id=i + 1, name=name, required=False, type=kind)
        for i, (name, kind, _, _) in enumerate(COLUMNS)
    ),
)
BUCKETED = ("id", "é", "day", "key", "tiny")
# Spark cannot show the identity of a uuid in its metadata tables, whoever wrote it; and Iceberg's Java library takes a
# fixed value in a manifest for one with a length before it, which Avro does not have.
SHOWN = tuple(each for each in COLUMNS if each[0] not in ("key", "fixed"))
SPEC = PartitionSpec(
    spec_id=0,
    fields=(
        *(
            PartitionField(source_ids=(i + 1,), field_id=1000 + i, name=name, transform=IdentityTransform())
            for i, (name, _, _, _) in enumerate(COLUMNS)
            if name not in ("key", "fixed")
        ),
        *(
            PartitionField(
                source_ids=(SCHEMA.find_by_name(name).field_id,),  # type: ignore[union-attr]
                field_id=1100 + i,
                name=f"{name} bucket",
                transform=parse_transform("bucket[16]"),
            )
            for i, name in enumerate(BUCKETED)
        ),
    ),
)


def entries(folder: Path) -> pa.RecordBatch:
    """Two files: one with a value in every column, one with nulls only."""
    (folder / "data").mkdir(parents=True)
    kinds = [arrow_type(nested.type) for nested in SCHEMA.fields]
    fields = [
        pa.field(nested.name, kind, metadata={"PARQUET:field_id": str(nested.field_id)})
        for nested, kind in zip(SCHEMA.fields, kinds, strict=True)
    ]
    full = pa.table(
        [pa.array([value], kind) for (_, _, value, _), kind in zip(COLUMNS, kinds, strict=True)],
        schema=pa.schema(fields),
    )
    empty = pa.table([pa.nulls(1, kind) for kind in kinds], schema=pa.schema(fields))
    partition = SPEC.arrow_partition_type(SCHEMA)
    tuples = []
    for i, rows in enumerate((full, empty)):
        pq.write_table(rows, folder / "data" / f"{i}.parquet")
        tuples.append(
            pa.StructArray.from_arrays(
                [
                    part.transform.apply(rows.column(part.source_id - 1).combine_chunks()).cast(
                        partition.field(slot).type
                    )
                    for slot, part in enumerate(SPEC.fields)
                ],
                fields=list(partition),
            )
        )
    bounds = metric_map(
        {1: pa.array([b"\x00" * 7 + b"\x80", None], pa.binary()), 300: pa.array([None, b"\xff"], pa.binary())}
    )
    return pa.record_batch(
        {
            "file_path": [str(folder / "data" / f"{i}.parquet") for i in range(2)],
            "file_format": ["parquet", "parquet"],
            "partition": pa.concat_arrays(tuples),
            "record_count": [1, 1],
            "file_size_in_bytes": [(folder / "data" / f"{i}.parquet").stat().st_size for i in range(2)],
            "value_counts": metric_map({1: pa.array([1, 1]), 200: pa.array([None, 2**40])}),
            "null_value_counts": metric_map({1: pa.array([0, 1])}),
            "lower_bounds": bounds,
            "split_offsets": pa.array([[4], None], pa.list_(pa.int64())),
            "sort_order_id": pa.array([0, None], pa.int32()),
        }
    )


@pytest.mark.parametrize("version", [1, 2, 3, "4-preview"])
def test_spark_sees_every_partition_value_and_metric(
    query: Callable[[str], pa.Table], warehouse: Path, version: int | str
) -> None:
    folder = warehouse / "manifests" / f"v{version}".replace("-", "_")
    made = entries(folder)
    table = create_table(open_storage(), str(folder), schema=SCHEMA, spec=SPEC, format_version=version).commit()
    transaction = table.transaction()
    transaction.snapshot("append").add_files([made])
    transaction.commit()
    name = f"ice.manifests.{folder.name}"
    rows = query(f"SELECT * FROM {name} ORDER BY id NULLS LAST")
    assert rows.num_rows == 2
    assert [rows["id"][0].as_py(), rows["é"][0].as_py(), rows["tiny"][0].as_py()] == [
        -(2**63),
        "é\U0001f600",
        Decimal("-1.5"),
    ]
    assert query(f"SELECT id FROM {name} WHERE `with space` = 2147483647").num_rows == 1
    assert query(f"SELECT id FROM {name} WHERE `é` IS NULL").num_rows == 1
    files = query(
        f"SELECT partition, value_counts, null_value_counts, lower_bounds, split_offsets, sort_order_id, "
        f"record_count, file_size_in_bytes "
        f"FROM {name}.files ORDER BY file_path"
    ).to_pylist()
    first, second = files
    for column, _, value, shown in SHOWN:
        found = first["partition"][column]
        if column == "moment":
            assert found.astimezone(timezone.utc) == value
        else:
            assert found == (value if shown is None else shown), column
    wanted = made.column("partition").to_pylist()
    for column in BUCKETED:
        assert first["partition"][f"{column} bucket"] == wanted[0][f"{column} bucket"]
    assert set(second["partition"].values()) == {None}
    assert dict(first["value_counts"]) == {1: 1}
    assert dict(second["value_counts"]) == {1: 1, 200: 2**40}
    assert dict(first["lower_bounds"]) == {1: b"\x00" * 7 + b"\x80"}
    assert dict(second["lower_bounds"]) == {300: b"\xff"}
    assert (first["split_offsets"], second["split_offsets"]) == ([4], None)
    summaries = query(f"SELECT partition_summaries FROM {name}.manifests").to_pylist()[0]["partition_summaries"]
    assert len(summaries) == len(SPEC.fields)
    assert {each["contains_null"] for each in summaries} == {True}
    assert summaries[1]["lower_bound"] == "2147483647"
