"""One table of the Delta core's own for each table feature, as facts: which features it declares, and how it comes to be.

``write`` makes four versions of few rows: two files, a third file (written after a change of the metadata where the
feature is about such), rows of the first file gone where the table may lose rows, and rows 6 and 7 compacted nowhere.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from deltaberg import delta
from deltaberg.bitmap import PositionBitmap
from deltaberg.delta.schema.column_mapping import ColumnMapping
from deltaberg.delta.schema.schema import schema_to_json
from deltaberg.delta.schema.types import (
    ArrayType,
    DeltaType,
    GeometryType,
    IntegerType,
    LongType,
    StringType,
    StructType,
    TimestampNtzType,
    VariantType,
)
from deltaberg.storage import open_storage

FIELDS = (
    delta.StructField(name="id", type=LongType()),
    delta.StructField(name="name", type=StringType()),
    delta.StructField(name="n", type=IntegerType()),
)
VERSIONS = ([1, 2, 3], [4, 5], [6, 7])
"""The ids of the three files."""

_CREATED_MS = 1_700_000_000_000
_VARIANT = pa.struct([pa.field("metadata", pa.binary(), nullable=False), pa.field("value", pa.binary())])
_SHREDDED = pa.struct([*_VARIANT, pa.field("typed_value", pa.int32())])
_NO_KEYS = b"\x01\x00\x00"
_POINT = b"\x01\x01\x00\x00\x00"

Values = Callable[[list[int]], pa.Array]


@dataclass(frozen=True, slots=True, kw_only=True)
class Extra:
    """A column beside those of ``FIELDS``. values: of a file with these ids. sql: a value for Spark to insert; None:
    Spark finds it itself. partition: its values are the log's, and stand in the files, too."""

    name: str
    type: DeltaType
    values: Values
    metadata: Mapping[str, object] = field(default_factory=dict)
    sql: str | None = None
    partition: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureTable:
    """declares: what the protocol must list. features: those that nothing in the metadata calls for. vouched: the rules
    about rows that this table's rows keep. breaks: SQL that the feature forbids, and what Spark says then. unread: what
    an engine says that does not read the table."""

    declares: tuple[str, ...]
    properties: Mapping[str, str] = field(default_factory=dict)
    mode: delta.MappingMode = delta.MappingMode.NONE
    features: tuple[str, ...] = ()
    domains: Mapping[str, str] = field(default_factory=dict)
    extra: tuple[Extra, ...] = ()
    field_metadata: Mapping[str, object] = field(default_factory=dict)
    vouched: tuple[str, ...] = ()
    widens: bool = False
    deletes: str = "file"
    breaks: tuple[str, str] | None = None
    unread: Mapping[str, str] = field(default_factory=dict)

    @property
    def left(self) -> list[int]:
        """The ids that ``write`` leaves."""
        gone = {"file": [1, 2, 3], "vector": [1], "nothing": []}[self.deletes]
        return [each for each in range(1, 8) if each not in gone]


def _lists(ids: list[int]) -> pa.Array:
    return pa.array([[each, None] for each in ids], pa.list_(pa.int32()))


def _variants(ids: list[int]) -> pa.Array:
    return pa.array([{"metadata": _NO_KEYS, "value": bytes([0x0C, each])} for each in ids], _VARIANT)


def _shredded(ids: list[int]) -> pa.Array:
    return pa.array([{"metadata": _NO_KEYS, "value": None, "typed_value": each} for each in ids], _SHREDDED)


LISTS = Extra(name="list", type=ArrayType(element_type=IntegerType()), values=_lists, sql="array(8, NULL)")
PART = Extra(
    name="part", type=IntegerType(), values=lambda ids: pa.array([7] * len(ids), pa.int32()), sql="8", partition=True
)
_IDENTITY = {"delta.identity.start": 1, "delta.identity.step": 1, "delta.identity.highWaterMark": 7}
ROW_TRACKING = {"delta.enableRowTracking": "true"}
NAME, ID = delta.MappingMode.NAME, delta.MappingMode.ID

TABLES: Mapping[str, FeatureTable] = {
    "plain": FeatureTable(declares=()),
    "append only": FeatureTable(
        declares=("appendOnly",),
        properties={"delta.appendOnly": "true"},
        deletes="nothing",
        breaks=("DELETE FROM {table} WHERE id = 1", "only allow appends"),
    ),
    "invariant": FeatureTable(
        declares=("invariants",),
        field_metadata={"delta.invariants": json.dumps({"expression": {"expression": "id > 0"}})},
        vouched=("invariants",),
        breaks=("INSERT INTO {table} (id) VALUES (-1)", "id > 0"),
    ),
    "constraint": FeatureTable(
        declares=("checkConstraints",),
        properties={"delta.constraints.positive": "id > 0"},
        vouched=("checkConstraints",),
        breaks=("INSERT INTO {table} (id) VALUES (-1)", "positive"),
    ),
    "change data feed": FeatureTable(declares=("changeDataFeed",), properties={"delta.enableChangeDataFeed": "true"}),
    "generated column": FeatureTable(
        declares=("generatedColumns",),
        extra=(
            Extra(
                name="twice",
                type=LongType(),
                values=lambda ids: pa.array([each * 2 for each in ids], pa.int64()),
                metadata={"delta.generationExpression": "id * 2"},
            ),
        ),
        vouched=("generatedColumns",),
        breaks=("INSERT INTO {table} (id, twice) VALUES (1, 5)", "Generated Column"),
    ),
    "name mapping": FeatureTable(declares=("columnMapping",), mode=NAME, extra=(LISTS,)),
    "id mapping": FeatureTable(declares=("columnMapping",), mode=ID, extra=(LISTS,)),
    "identity column": FeatureTable(
        declares=("identityColumns",),
        extra=(
            Extra(
                name="number",
                type=LongType(),
                values=lambda ids: pa.array(ids, pa.int64()),
                metadata={**_IDENTITY, "delta.identity.allowExplicitInsert": False},
            ),
        ),
        vouched=("identityColumns",),
        breaks=("INSERT INTO {table} (id, number) VALUES (1, 5)", "IDENTITY column"),
    ),
    "column default": FeatureTable(
        declares=("allowColumnDefaults",),
        extra=(
            Extra(
                name="word",
                type=StringType(),
                values=lambda ids: pa.array([f"w{each}" for each in ids]),
                metadata={"CURRENT_DEFAULT": "'none'"},
            ),
        ),
    ),
    "deletion vectors": FeatureTable(
        declares=("deletionVectors",), properties={"delta.enableDeletionVectors": "true"}, deletes="vector"
    ),
    "row tracking": FeatureTable(declares=("rowTracking", "domainMetadata"), properties=ROW_TRACKING),
    "timestamp without zone": FeatureTable(
        declares=("timestampNtz",),
        extra=(
            Extra(
                name="at",
                type=TimestampNtzType(),
                values=lambda ids: pa.array([each * 1_000_001 for each in ids], pa.timestamp("us")),
                sql="TIMESTAMP_NTZ'2024-01-01 00:00:00'",
            ),
        ),
    ),
    "metadata domain": FeatureTable(declares=("domainMetadata",), domains={"com.example.owner": '{"team":"data"}'}),
    "checkpoint v2": FeatureTable(declares=("v2Checkpoint",), properties={"delta.checkpointPolicy": "v2"}),
    "iceberg compatibility 1": FeatureTable(
        declares=("icebergCompatV1", "columnMapping"),
        properties={"delta.enableIcebergCompatV1": "true"},
        mode=NAME,
        extra=(PART,),
    ),
    "iceberg compatibility 2": FeatureTable(
        declares=("icebergCompatV2", "columnMapping"),
        properties={"delta.enableIcebergCompatV2": "true"},
        mode=NAME,
        extra=(LISTS, PART),
    ),
    "iceberg compatibility 3": FeatureTable(
        declares=("icebergCompatV3", "columnMapping", "rowTracking", "domainMetadata", "deletionVectors"),
        properties={**ROW_TRACKING, "delta.enableIcebergCompatV3": "true", "delta.enableDeletionVectors": "true"},
        mode=ID,
        extra=(LISTS, PART),
        deletes="vector",
    ),
    "clustering": FeatureTable(
        declares=("clustering", "domainMetadata"),
        domains={"delta.clustering": json.dumps({"clusteringColumns": [["id"]]})},
    ),
    "vacuum protocol check": FeatureTable(
        declares=("vacuumProtocolCheck",),
        features=("vacuumProtocolCheck",),
        unread={"deltalake": "features required: \\[VacuumProtocolCheck\\]"},
    ),
    "type widening": FeatureTable(
        declares=("typeWidening",),
        properties={"delta.enableTypeWidening": "true"},
        widens=True,
        unread={"deltalake": "features required: \\[TypeWidening\\]"},
    ),
    "variant": FeatureTable(
        declares=("variantType",),
        extra=(Extra(name="v", type=VariantType(), values=_variants, sql="parse_json('{\"a\":[1,null]}')"),),
        unread={"duckdb": "Unsupported Arrow type VARIANT"},
    ),
    "shredded variant": FeatureTable(
        declares=("variantType", "variantShredding"),
        properties={"delta.enableVariantShredding": "true"},
        extra=(Extra(name="v", type=VariantType(), values=_shredded, sql="parse_json('{\"a\":[1,null]}')"),),
        unread={
            "deltalake": "features required: \\[VariantShredding\\]",
            "duckdb": "Feature 'variantShredding' is not supported",
        },
    ),
    "in-commit timestamps": FeatureTable(
        declares=("inCommitTimestamp",), properties={"delta.enableInCommitTimestamps": "true"}
    ),
    "checkpoint protection": FeatureTable(
        declares=("checkpointProtection",),
        properties={"delta.requireCheckpointProtectionBeforeVersion": "1"},
        features=("checkpointProtection",),
    ),
    "materialized partition columns": FeatureTable(
        declares=("materializePartitionColumns",), features=("materializePartitionColumns",), extra=(PART,)
    ),
    "usage of column mapping": FeatureTable(
        declares=("columnMappingUsageTracking", "columnMapping"),
        properties={"delta.columnMapping.hasDroppedOrRenamed": "false"},
        mode=NAME,
        features=("columnMappingUsageTracking",),
    ),
    "geometry": FeatureTable(
        declares=("geospatial",),
        extra=(
            Extra(
                name="place",
                type=GeometryType(),
                values=lambda ids: pa.array([_POINT + bytes([each] + [0] * 15) for each in ids]),
            ),
        ),
        unread=dict.fromkeys(("deltalake", "duckdb"), "Unsupported Delta table type: 'geometry"),
    ),
    "collation": FeatureTable(
        declares=("collations", "domainMetadata"),
        extra=(
            Extra(
                name="word",
                type=StringType(collation="spark.UTF8_LCASE"),
                values=lambda ids: pa.array([f"W{each}" for each in ids]),
                sql="'x'",
            ),
        ),
    ),
}


def rows_here(folder: Path, version: int | None = None) -> pa.Table:
    """What the core itself reads, variants as JSON text."""
    found = delta.read(delta.DeltaTable.open(str(folder), open_storage()).snapshot(version))
    return pa.Table.from_batches(found.batches(), found.schema)


def write(folder: Path, table: FeatureTable) -> None:
    """The table's versions: created empty with its features, then the three files, and then what ``deletes`` says."""
    folder.mkdir(parents=True)
    storage = open_storage()
    with delta.create(storage, str(folder), metadata=_metadata(table), features=table.features) as transaction:
        for domain, configuration in table.domains.items():
            transaction.set_domain_metadata(domain, configuration)
        transaction.add_files([_file(folder, transaction, table, number) for number in (0, 1)])
        transaction.commit("CREATE TABLE", rules_guaranteed=table.vouched)
    opened = delta.DeltaTable.open(str(folder), storage)
    for feature in table.declares:
        assert opened.snapshot().protocol.supports(feature), feature
    with delta.begin_transaction(opened.snapshot()) as transaction:
        if table.widens:
            transaction.set_metadata(_widened(transaction.metadata))
        transaction.add_files([_file(folder, transaction, table, 2)])
        transaction.commit("WRITE", rules_guaranteed=table.vouched)
    if table.deletes != "nothing":
        with delta.begin_transaction(opened.snapshot()) as transaction:
            _delete(transaction, opened, with_vector=table.deletes == "vector")
            transaction.commit("DELETE", copies_rows=False, rules_guaranteed=table.vouched)
    transaction.checkpoint()


def _metadata(table: FeatureTable) -> delta.Metadata:
    first = replace(FIELDS[0], metadata=dict(table.field_metadata))
    extra = [delta.StructField(name=each.name, type=each.type, metadata=dict(each.metadata)) for each in table.extra]
    return delta.new_metadata(
        StructType(fields=(first, *FIELDS[1:], *extra)),
        table_id=str(uuid.uuid4()),
        created_time_ms=_CREATED_MS,
        configuration=table.properties,
        column_mapping=table.mode,
        partition_columns=[each.name for each in table.extra if each.partition],
    )


def _widened(metadata: delta.Metadata) -> delta.Metadata:
    change = {"delta.typeChanges": [{"fromType": "integer", "toType": "long"}]}
    fields = tuple(
        replace(each, type=LongType(), metadata=change) if each.name == "n" else each for each in metadata.schema.fields
    )
    schema = StructType(fields=fields)
    return replace(metadata, schema=schema, schema_string=schema_to_json(schema))


def _file(folder: Path, transaction: delta.Transaction, table: FeatureTable, number: int) -> pa.RecordBatch:
    ids, mapping = VERSIONS[number], transaction.column_mapping
    wide = any(each.name == "n" and isinstance(each.type, LongType) for each in mapping.schema.fields)
    columns = {
        "id": pa.array(ids, pa.int64()),
        "name": pa.array([f"n{each}" for each in ids]),
        "n": pa.array(ids, pa.int64() if wide else pa.int32()),
        **{each.name: each.values(ids) for each in table.extra},
    }
    fields = [_parquet_field(mapping, name, column.type) for name, column in columns.items()]
    arrays = [column.cast(each.type) for column, each in zip(columns.values(), fields, strict=True)]
    place = folder / f"{number}.parquet"
    pq.write_table(pa.table(arrays, schema=pa.schema(fields)), place)
    partition = {each.name: each.values(ids)[0].as_py() for each in table.extra if each.partition}
    physical = {mapping.physical_name(mapping.schema.field(name)): str(value) for name, value in partition.items()}
    key = mapping.physical_name(mapping.schema.field("id"))
    stats = {
        "num_records": len(ids),
        "min_values": {key: min(ids)},
        "max_values": {key: max(ids)},
        "null_count": {key: 0},
    }
    return pa.RecordBatch.from_pylist(
        [
            {
                "path": place.name,
                "partition_values": physical,
                "size": place.stat().st_size,
                "modification_time": _CREATED_MS,
                "data_change": True,
                "stats": stats,
            }
        ]
    )


def _parquet_field(mapping: ColumnMapping, name: str, kind: pa.DataType) -> pa.Field:
    column = mapping.schema.field(name)
    element = mapping.nested_ids(column).get("element")
    if element is not None:
        kind = pa.list_(pa.field("element", kind.value_type, metadata={"PARQUET:field_id": str(element)}))
    number = mapping.column_id(column)
    note = None if number is None else {"PARQUET:field_id": str(number)}
    return pa.field(mapping.physical_name(column), kind, metadata=note)


def _delete(transaction: delta.Transaction, opened: delta.DeltaTable, *, with_vector: bool) -> None:
    """The first file, or its first row."""
    live = pa.Table.from_batches(opened.snapshot().add_files())
    (first,) = live.filter(pa.compute.equal(live["path"], "0.parquet")).combine_chunks().to_batches()
    transaction.remove_files([first])
    if not with_vector:
        return
    (vector,) = transaction.write_deletion_vectors([(PositionBitmap.from_positions(np.array([0])).serialize(), 1)])
    at = first.schema.get_field_index("deletion_vector")
    described = {
        "storage_type": vector.storage_type,
        "path_or_inline_dv": vector.path_or_inline_dv,
        "offset": vector.offset,
        "size_in_bytes": vector.size_in_bytes,
        "cardinality": vector.cardinality,
    }
    described_field = first.schema.field(at)
    transaction.add_files([first.set_column(at, described_field, pa.array([described], described_field.type))])
