"""The reference implementation reads what the Delta core writes with every feature, writes on, and the core reads that."""

from __future__ import annotations

import itertools
import json
import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltaberg import delta
from deltaberg.bitmap import PositionBitmap
from deltaberg.delta.schema import schema_to_json
from deltaberg.delta.types import IntegerType, LongType, StringType, TimestampNtzType
from deltaberg.storage import open_storage

_NAMES = itertools.count()
FIELDS = (
    delta.StructField(name="id", type=LongType()),
    delta.StructField(name="name", type=StringType()),
    delta.StructField(name="n", type=IntegerType()),
)
# The properties that switch a feature on, and the feature that the protocol must list then.
FEATURES: Mapping[str, tuple[dict[str, str], str | None]] = {
    "plain": ({}, None),
    "name-mapped": ({}, "columnMapping"),
    "id-mapped": ({}, "columnMapping"),
    "deletion-vectors": ({"delta.enableDeletionVectors": "true"}, "deletionVectors"),
    "row-tracking": ({"delta.enableRowTracking": "true"}, "rowTracking"),
    "in-commit-timestamps": ({"delta.enableInCommitTimestamps": "true"}, "inCommitTimestamp"),
    "v2-checkpoint": ({"delta.checkpointPolicy": "v2"}, "v2Checkpoint"),
    "clustering": ({}, "clustering"),
    "constraint": ({"delta.constraints.positive": "id > 0"}, "checkConstraints"),
    "change-data-feed": ({"delta.enableChangeDataFeed": "true"}, "changeDataFeed"),
    "widened": ({"delta.enableTypeWidening": "true"}, "typeWidening"),
    "timestamp-ntz": ({}, "timestampNtz"),
}


def data_file(folder: Path, ids: list[int], *, n: pa.DataType | None = None, ntz: bool = False) -> pa.RecordBatch:
    place = folder / f"{next(_NAMES)}.parquet"
    columns = {
        "id": pa.array(ids, pa.int64()),
        "name": pa.array([f"n{each}" for each in ids]),
        "n": pa.array(ids, n or pa.int32()),
    }
    if ntz:
        columns["at"] = pa.array([each * 1_000_001 for each in ids], pa.timestamp("us"))
    fields = [
        pa.field(name, column.type, metadata={"PARQUET:field_id": str(number)})
        for number, (name, column) in enumerate(columns.items(), start=1)
    ]
    pq.write_table(pa.table(list(columns.values()), schema=pa.schema(fields)), place)
    bounds = {"id": min(ids)}, {"id": max(ids)}
    stats = {"num_records": len(ids), "min_values": bounds[0], "max_values": bounds[1], "null_count": {"id": 0}}
    return pa.RecordBatch.from_pylist(
        [
            {
                "path": place.name,
                "partition_values": {},
                "size": place.stat().st_size,
                "modification_time": 1_700_000_000_000,
                "data_change": True,
                "stats": stats,
            }
        ]
    )


def rows_here(folder: Path) -> pa.Table:
    found = delta.read(delta.DeltaTable.open(str(folder), open_storage()).snapshot())
    return pa.Table.from_batches(found.batches(), found.schema)


def written(folder: Path, feature: str) -> None:
    """Three versions: two files, a third one, and rows of the first one gone."""
    folder.mkdir(parents=True)
    storage, mode = open_storage(), delta.MappingMode.NONE
    properties, declared = FEATURES[feature]
    if feature.endswith("-mapped"):
        mode = delta.MappingMode(feature.removesuffix("-mapped"))
    ntz = feature == "timestamp-ntz"
    fields = (*FIELDS, delta.StructField(name="at", type=TimestampNtzType())) if ntz else FIELDS
    metadata = delta.new_metadata(
        delta.StructType(fields=fields),
        table_id=str(uuid.uuid4()),
        created_time_ms=1_700_000_000_000,
        configuration=properties,
        column_mapping=mode,
    )
    vouched = ("checkConstraints",)
    with delta.create(storage, str(folder), metadata=metadata) as transaction:
        if feature == "clustering":
            transaction.set_domain_metadata("delta.clustering", json.dumps({"clusteringColumns": [["id"]]}))
        transaction.add_files([data_file(folder, [1, 2, 3], ntz=ntz), data_file(folder, [4, 5], ntz=ntz)])
        transaction.commit("CREATE TABLE", rules_checked=vouched)
    table = delta.DeltaTable.open(str(folder), storage)
    assert declared is None or table.snapshot().protocol.supports(declared)
    with delta.begin_transaction(table.snapshot()) as transaction:
        n = None
        if feature == "widened":
            n = pa.int64()
            change = {"delta.typeChanges": [{"fromType": "integer", "toType": "long"}]}
            schema = delta.StructType(fields=(*FIELDS[:2], replace(FIELDS[2], type=LongType(), metadata=change)))
            transaction.set_metadata(replace(transaction.metadata, schema=schema, schema_string=schema_to_json(schema)))
        transaction.add_files([data_file(folder, [6, 7], n=n, ntz=ntz)])
        transaction.commit("WRITE", rules_checked=vouched)
    with delta.begin_transaction(table.snapshot()) as transaction:
        live = pa.Table.from_batches(table.snapshot().add_files()).slice(0, 1).combine_chunks().to_batches()
        transaction.remove_files(live)
        if feature == "deletion-vectors":
            bitmap = PositionBitmap.from_positions(np.array([0]))
            (vector,) = transaction.write_deletion_vectors([(bitmap.serialize(), 1)])
            at = live[0].schema.get_field_index("deletion_vector")
            field = live[0].schema.field(at)
            described = {
                "storage_type": vector.storage_type,
                "path_or_inline_dv": vector.path_or_inline_dv,
                "offset": vector.offset,
                "size_in_bytes": vector.size_in_bytes,
                "cardinality": vector.cardinality,
            }
            transaction.add_files([live[0].set_column(at, field, pa.array([described], field.type))])
        transaction.commit("DELETE", copies_rows=False, rules_checked=vouched)
    transaction.checkpoint()


@pytest.mark.parametrize("feature", FEATURES)
def test_spark_reads_every_feature_and_writes_on(
    run: Any, query: Callable[[str], pa.Table], warehouse: Path, difference: Any, feature: str
) -> None:
    folder = warehouse / "delta_core" / feature
    written(folder, feature)
    table = f"delta.`{folder}`"
    here = rows_here(folder)
    left = [2, 3, 4, 5, 6, 7] if feature == "deletion-vectors" else [4, 5, 6, 7]
    assert sorted(here["id"].to_pylist()) == left
    assert not difference(here, query(f"SELECT * FROM {table}"))
    assert sorted(query(f"SELECT id FROM {table} VERSION AS OF 1")["id"].to_pylist()) == [1, 2, 3, 4, 5, 6, 7]
    more = ", TIMESTAMP_NTZ'2024-01-01 00:00:00'" if feature == "timestamp-ntz" else ""
    for statement in (
        f"INSERT INTO {table} VALUES (8, 'new', 8{more}), (9, NULL, NULL{more})",
        f"UPDATE {table} SET name = 'changed' WHERE id = 5",
        f"DELETE FROM {table} WHERE id IN (4, 8)",
        f"OPTIMIZE {table}",
    ):
        run(statement)
        assert not difference(rows_here(folder), query(f"SELECT * FROM {table}")), statement
    base = delta.DeltaTable.open(str(folder), open_storage()).snapshot()
    with delta.begin_transaction(base) as transaction:
        transaction.remove_files(base.add_files())
        transaction.commit("DELETE", copies_rows=False)
    assert query(f"SELECT * FROM {table}").num_rows == 0


def test_spark_keeps_the_rules_that_the_core_declares(run: Any, warehouse: Path) -> None:
    constrained, appended = warehouse / "delta_core" / "rules", warehouse / "delta_core" / "append_only"
    for folder, properties in (
        (constrained, {"delta.constraints.positive": "id > 0"}),
        (appended, {"delta.appendOnly": "true"}),
    ):
        folder.mkdir(parents=True)
        metadata = delta.new_metadata(
            delta.StructType(fields=FIELDS), table_id=str(uuid.uuid4()), created_time_ms=0, configuration=properties
        )
        with delta.create(open_storage(), str(folder), metadata=metadata) as transaction:
            transaction.add_files([data_file(folder, [1])])
            transaction.commit("CREATE TABLE", rules_checked=("checkConstraints",))
    with pytest.raises(Exception, match=r"CHECK constraint positive .*violated"):
        run(f"INSERT INTO delta.`{constrained}` VALUES (-1, 'x', 1)")
    with pytest.raises(Exception, match="append"):
        run(f"DELETE FROM delta.`{appended}` WHERE id = 1")
    run(f"INSERT INTO delta.`{constrained}` VALUES (2, 'x', 1)", f"INSERT INTO delta.`{appended}` VALUES (2, 'x', 1)")
    assert sorted(rows_here(constrained)["id"].to_pylist()) == [1, 2] == sorted(rows_here(appended)["id"].to_pylist())
