"""What is written with each feature is read equal by delta-rs and DuckDB; where one of them refuses the feature, that is
listed, and a refusal that ends fails the test."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltaberg.bitmap import PositionBitmap
from deltaberg.delta.create_table import create_table, new_metadata
from deltaberg.delta.scan import scan
from deltaberg.delta.schema.column_mapping import ColumnMapping, MappingMode
from deltaberg.delta.schema.partition_values import encode_partition_values
from deltaberg.delta.schema.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DateType,
    DecimalType,
    DeltaType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNtzType,
    TimestampType,
    arrow_type,
)
from deltaberg.delta.table import DeltaTable
from deltaberg.delta.transaction import Transaction, begin_transaction
from deltaberg.storage import open_storage

STORAGE = open_storage()
NESTED = StructType(fields=(StructField(name="x", type=LongType()), StructField(name="y", type=StringType())))
COLUMNS: Mapping[str, tuple[DeltaType, list[object]]] = {
    "id": (LongType(), [1, 2, 3, 4]),
    "byte": (ByteType(), [-128, 127, None, 0]),
    "short": (ShortType(), [-32768, 32767, None, 0]),
    "int": (IntegerType(), [-(2**31), 2**31 - 1, None, 0]),
    "float": (FloatType(), [0.1, -0.0, None, math.inf]),
    "double": (DoubleType(), [0.1, 1e300, None, -math.inf]),
    "decimal": (DecimalType(precision=38, scale=9), [Decimal("1E-9"), Decimal("12345678901234567890.5"), None, 0]),
    "text": (StringType(), ['é\n"', "", None, "z" * 100]),
    "blob": (BinaryType(), [b"\x00\xff", b"", None, b"z"]),
    "flag": (BooleanType(), [True, False, None, True]),
    "day": (DateType(), [dt.date(1, 1, 1), dt.date(9999, 12, 31), None, dt.date(1969, 12, 31)]),
    "at": (
        TimestampType(),
        [
            dt.datetime(1900, 1, 1, 0, 0, 0, 1, dt.timezone.utc),
            dt.datetime(2262, 4, 12, tzinfo=dt.timezone.utc),
            None,
            None,
        ],
    ),
    "list": (ArrayType(element_type=IntegerType()), [[1, None], [], None, [2]]),
    "map": (MapType(key_type=StringType(), value_type=LongType()), [[("k", 1)], [], None, [("l", None)]]),
    "struct": (NESTED, [{"x": 1, "y": "a"}, {"x": None, "y": None}, {"x": 3, "y": "c"}, {"x": 4, "y": ""}]),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    configuration: Mapping[str, str] = field(default_factory=dict)
    mode: MappingMode = MappingMode.NONE
    features: tuple[str, ...] = ()
    columns: tuple[str, ...] = tuple(COLUMNS)
    extra: Mapping[str, tuple[DeltaType, list[object]]] = field(default_factory=dict)
    deleted: tuple[int, ...] = ()
    checkpoint: bool = False
    refused_by: tuple[str, ...] = ()


DVS = {"delta.enableDeletionVectors": "true"}
ROW_TRACKING = {"delta.enableRowTracking": "true"}
V3 = {**ROW_TRACKING, "delta.enableIcebergCompatV3": "true"}
FEATURES = {
    "none": Feature(),
    "checkpoint": Feature(checkpoint=True),
    "struct statistics": Feature(
        configuration={"delta.checkpoint.writeStatsAsStruct": "true", "delta.checkpoint.writeStatsAsJson": "false"},
        checkpoint=True,
    ),
    "v2Checkpoint": Feature(configuration={"delta.checkpointPolicy": "v2"}, checkpoint=True),
    "columnMapping by name": Feature(mode=MappingMode.NAME),
    "columnMapping by id": Feature(mode=MappingMode.ID, checkpoint=True),
    "deletionVectors": Feature(configuration=DVS, deleted=(0, 3), checkpoint=True),
    "deletionVectors and columnMapping": Feature(configuration=DVS, mode=MappingMode.ID, deleted=(1,)),
    "rowTracking": Feature(configuration=ROW_TRACKING, checkpoint=True),
    "inCommitTimestamp": Feature(configuration={"delta.enableInCommitTimestamps": "true"}),
    "timestampNtz": Feature(
        extra={"ntz": (TimestampNtzType(), [dt.datetime(2024, 1, 1, 0, 0, 0, 1), None, dt.datetime(1, 1, 2), None])}
    ),
    "appendOnly": Feature(configuration={"delta.appendOnly": "true"}),
    "changeDataFeed": Feature(configuration={"delta.enableChangeDataFeed": "true"}),
    "clustering": Feature(features=("clustering", "domainMetadata")),
    "icebergCompatV2": Feature(configuration={"delta.enableIcebergCompatV2": "true"}, mode=MappingMode.NAME),
    "icebergCompatV3": Feature(configuration={**V3, **DVS}, mode=MappingMode.ID, deleted=(2,)),
    "allowColumnDefaults": Feature(features=("allowColumnDefaults",)),
    "vacuumProtocolCheck": Feature(features=("vacuumProtocolCheck",), refused_by=("deltalake",)),
    "typeWidening": Feature(configuration={"delta.enableTypeWidening": "true"}, refused_by=("deltalake",)),
}


def column_fields(mapping: ColumnMapping, struct: StructType, types: pa.StructType) -> list[pa.Field]:
    """Arrow fields as a Parquet file of the table has them: physical names and ids at every level."""
    found = []
    for each in struct.fields:
        kind = types.field(each.name).type
        if isinstance(each.type, StructType):
            kind = pa.struct(column_fields(mapping, each.type, kind))
        number = mapping.column_id(each)
        note = None if number is None else {"PARQUET:field_id": str(number)}
        found.append(pa.field(mapping.physical_name(each), kind, metadata=note))
    return found


def data_file(transaction: Transaction, root: Path, name: str, rows: pa.Table) -> pa.RecordBatch:
    mapping = transaction.column_mapping
    fields = column_fields(mapping, mapping.schema, pa.struct(list(rows.schema)))
    columns = []
    for column, each in zip(rows.columns, fields, strict=True):
        values = column.combine_chunks()
        if pa.types.is_struct(values.type):
            values = pa.StructArray.from_arrays(values.flatten(), fields=list(each.type), mask=values.is_null())
        columns.append(values)
    pq.write_table(pa.Table.from_arrays(columns, schema=pa.schema(fields)), root / name)
    return pa.RecordBatch.from_arrays(
        [
            pa.array([name]),
            pa.array([{}], pa.struct([])),
            pa.array([(root / name).stat().st_size]),
            pa.array([1]),
            pa.array([True]),
            pa.array([{"num_records": rows.num_rows}]),
        ],
        names=["path", "partition_values", "size", "modification_time", "data_change", "stats"],
    )


def with_vector(transaction: Transaction, batch: pa.RecordBatch, positions: tuple[int, ...]) -> pa.RecordBatch:
    blob = PositionBitmap.from_positions(np.array(positions)).serialize()
    (vector,) = transaction.write_deletion_vectors([(blob, len(positions))])
    body = {
        "storage_type": vector.storage_type,
        "path_or_inline_dv": vector.path_or_inline_dv,
        "offset": vector.offset,
        "size_in_bytes": vector.size_in_bytes,
        "cardinality": vector.cardinality,
    }
    return batch.append_column("deletion_vector", pa.array([body]))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "table"
    folder.mkdir()
    return folder


@pytest.mark.parametrize("engine", ["deltalake", "duckdb"])
@pytest.mark.parametrize("name", FEATURES)
def test_engines_read_what_is_written(root: Path, engines, difference, name: str, engine: str) -> None:
    feature = FEATURES[name]
    chosen = {**{column: COLUMNS[column] for column in feature.columns}, **feature.extra}
    schema = StructType(fields=tuple(StructField(name=column, type=kind) for column, (kind, _) in chosen.items()))
    rows = pa.table({column: pa.array(values, arrow_type(kind)) for column, (kind, values) in chosen.items()})
    metadata = new_metadata(
        schema,
        table_id="11111111-2222-3333-4444-555555555555",
        created_time_ms=1,
        configuration=feature.configuration,
        column_mapping=feature.mode,
    )
    create = create_table(STORAGE, str(root), metadata=metadata, features=feature.features)
    create.add_files([data_file(create, root, "first.parquet", rows)])
    create.commit("WRITE")
    second = begin_transaction(DeltaTable.open(str(root), STORAGE).snapshot())
    file = data_file(second, root, "second.parquet", rows)
    second.add_files([with_vector(second, file, feature.deleted) if feature.deleted else file])
    second.commit("WRITE")
    if feature.checkpoint:
        second.checkpoint()
        for version in range(2):
            (root / "_delta_log" / f"{version:020d}.json").unlink()
            (root / "_delta_log" / f"{version:020d}.crc").unlink()
    kept = [row for row in range(4) if row not in feature.deleted]
    expected = pa.concat_tables([rows, rows.take(kept)])
    plan = scan(DeltaTable.open(str(root), STORAGE).snapshot())
    assert difference(pa.Table.from_batches(plan.batches()), expected) == ""
    if engine in feature.refused_by:
        with pytest.raises(pytest.fail.Exception, match=f"{engine} cannot read"):
            engines.rows(engine, root)
        return
    assert difference(engines.rows(engine, root), expected) == ""


PARTITIONS: Mapping[str, tuple[DeltaType, list[object]]] = {
    "byte": (ByteType(), [-128, None]),
    "short": (ShortType(), [-32768, None]),
    "int": (IntegerType(), [2**31 - 1, None]),
    "long": (LongType(), [-(2**63), None]),
    "float": (FloatType(), [0.1, None]),
    "double": (DoubleType(), [1e300, None]),
    "decimal": (DecimalType(precision=38, scale=9), [Decimal("0.000000001"), None]),
    "text": (StringType(), ["a b/c%d=é", None]),
    "flag": (BooleanType(), [True, None]),
    "day": (DateType(), [dt.date(1, 1, 1), dt.date(9999, 12, 31)]),
    "at": (TimestampType(), [dt.datetime(2024, 1, 1, 0, 0, 0, 123456, dt.timezone.utc), None]),
    "ntz": (TimestampNtzType(), [dt.datetime(2024, 1, 1, 0, 0, 0, 5), None]),
}


@pytest.mark.parametrize("engine", ["deltalake", "duckdb"])
@pytest.mark.parametrize("mode", [MappingMode.NONE, MappingMode.ID])
def test_engines_read_partition_values_of_every_type(
    root: Path, engines, difference, engine: str, mode: MappingMode
) -> None:
    schema = StructType(
        fields=(
            StructField(name="id", type=LongType()),
            *(StructField(name=column, type=kind) for column, (kind, _) in PARTITIONS.items()),
        )
    )
    metadata = new_metadata(
        schema,
        table_id="11111111-2222-3333-4444-555555555555",
        created_time_ms=1,
        partition_columns=tuple(PARTITIONS),
        column_mapping=mode,
    )
    create = create_table(STORAGE, str(root), metadata=metadata)
    typed = {column: pa.array(values, arrow_type(kind)) for column, (kind, values) in PARTITIONS.items()}
    texts = {
        column: encode_partition_values(typed[column], kind, column=column) for column, (kind, _) in PARTITIONS.items()
    }
    note = None if mode is MappingMode.NONE else {"PARQUET:field_id": "1"}
    rows = pa.table([pa.array([7], pa.int64())], schema=pa.schema([pa.field("id", pa.int64(), metadata=note)]))
    for index in range(2):
        pq.write_table(rows, root / f"{index}.parquet")
        values = {column: text[index].as_py() for column, text in texts.items()}
        create.add_files(
            [
                pa.RecordBatch.from_arrays(
                    [
                        pa.array([f"{index}.parquet"]),
                        pa.array([values], pa.struct([(column, pa.string()) for column in values])),
                        pa.array([(root / f"{index}.parquet").stat().st_size]),
                        pa.array([1]),
                        pa.array([True]),
                        pa.array([{"num_records": 1}]),
                    ],
                    names=["path", "partition_values", "size", "modification_time", "data_change", "stats"],
                )
            ]
        )
    create.commit("WRITE")
    create.checkpoint()
    expected = pa.table({"id": pa.array([7, 7], pa.int64()), **typed})
    plan = scan(DeltaTable.open(str(root), STORAGE).snapshot())
    assert difference(pa.Table.from_batches(plan.batches()), expected) == ""
    assert difference(engines.rows(engine, root), expected) == ""
