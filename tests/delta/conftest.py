"""Tables written in tests, and the rows that other engines read from them."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest


class ReadByEngines:
    """DuckDB and delta-rs in the process of the independent readers."""

    NAMES: ClassVar = {"duckdb": "duckdb-delta", "deltalake": "deltalake"}

    def __init__(self, independent: Any) -> None:
        self._independent = independent

    def rows(self, engine: str, table: Path | str, version: int | None = None) -> pa.Table:
        """What the engine reads. Fails the test with the engine's words when it cannot."""
        found = self._independent.read(self.NAMES[engine], table, version)
        if isinstance(found, str):
            pytest.fail(f"{engine} cannot read {table}: {found}")
        return found


@pytest.fixture(scope="session")
def engines(independent: Any) -> ReadByEngines:
    """``engines.rows("deltalake" | "duckdb", folder, version)``."""
    return ReadByEngines(independent)


MakeFile = Callable[..., pa.RecordBatch]


@pytest.fixture
def data_file(tmp_path: Path) -> MakeFile:
    """``data_file(rows, partition={"p": "1"}, ...)``: write a Parquet file below ``tmp_path / "table"`` and return the
    batch of ADD_SCHEMA that adds it, with exact statistics of its flat columns."""

    def write(
        rows: pa.Table,
        *,
        partition: Mapping[str, str | None] | None = None,
        path: str | None = None,
        stats: bool = True,
        data_change: bool = True,
    ) -> pa.RecordBatch:
        name = path or f"part-{uuid.uuid4()}.parquet"
        file = tmp_path / "table" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(rows, file)
        partition = partition or {}
        values = pa.array([dict(partition)], pa.struct([(key, pa.string()) for key in partition]))
        return pa.RecordBatch.from_arrays(
            [
                pa.array([name]),
                values,
                pa.array([file.stat().st_size]),
                pa.array([1_700_000_000_000]),
                pa.array([data_change]),
                _stats(rows) if stats else pa.nulls(1, pa.struct([("num_records", pa.int64())])),
            ],
            names=["path", "partition_values", "size", "modification_time", "data_change", "stats"],
        )

    return write


def _stats(rows: pa.Table) -> pa.Array:
    flat = [name for name in rows.column_names if not pa.types.is_nested(rows.schema.field(name).type)]
    bounded = [
        name
        for name in flat
        if not (pa.types.is_binary(rows.schema.field(name).type) or pa.types.is_null(rows.schema.field(name).type))
    ]
    low = pa.StructArray.from_arrays([pa.array([pc.min(rows[n]).as_py()], rows[n].type) for n in bounded], bounded)
    high = pa.StructArray.from_arrays([pa.array([pc.max(rows[n]).as_py()], rows[n].type) for n in bounded], bounded)
    nulls = pa.StructArray.from_arrays([pa.array([rows[n].null_count]) for n in flat], flat)
    return pa.StructArray.from_arrays(
        [pa.array([rows.num_rows]), low, high, nulls], names=["num_records", "min_values", "max_values", "null_count"]
    )


_TEXTS = pa.map_(pa.string(), pa.string())
_VECTOR = pa.struct(
    [
        ("storageType", pa.string()),
        ("pathOrInlineDv", pa.string()),
        ("offset", pa.int32()),
        ("sizeInBytes", pa.int32()),
        ("cardinality", pa.int64()),
    ]
)
CHECKPOINT_COLUMNS: Mapping[str, pa.StructType] = {
    "protocol": pa.struct(
        [
            ("minReaderVersion", pa.int32()),
            ("minWriterVersion", pa.int32()),
            ("readerFeatures", pa.list_(pa.string())),
            ("writerFeatures", pa.list_(pa.string())),
        ]
    ),
    "metaData": pa.struct(
        [
            ("id", pa.string()),
            ("format", pa.struct([("provider", pa.string()), ("options", _TEXTS)])),
            ("schemaString", pa.string()),
            ("partitionColumns", pa.list_(pa.string())),
            ("configuration", _TEXTS),
            ("createdTime", pa.int64()),
        ]
    ),
    "txn": pa.struct([("appId", pa.string()), ("version", pa.int64()), ("lastUpdated", pa.int64())]),
    "domainMetadata": pa.struct([("domain", pa.string()), ("configuration", pa.string()), ("removed", pa.bool_())]),
    "add": pa.struct(
        [
            ("path", pa.string()),
            ("partitionValues", _TEXTS),
            ("size", pa.int64()),
            ("modificationTime", pa.int64()),
            ("dataChange", pa.bool_()),
            ("stats", pa.string()),
            ("tags", _TEXTS),
            ("deletionVector", _VECTOR),
            ("baseRowId", pa.int64()),
        ]
    ),
    "remove": pa.struct(
        [
            ("path", pa.string()),
            ("deletionTimestamp", pa.int64()),
            ("dataChange", pa.bool_()),
            ("deletionVector", _VECTOR),
        ]
    ),
    "sidecar": pa.struct([("path", pa.string()), ("sizeInBytes", pa.int64()), ("modificationTime", pa.int64())]),
    "checkpointMetadata": pa.struct([("version", pa.int64()), ("tags", _TEXTS)]),
}


def _with_pairs(value: object, target: pa.DataType) -> object:
    """Maps as lists of pairs, which Arrow asks for."""
    if isinstance(value, Mapping) and pa.types.is_map(target):
        return list(value.items())
    if isinstance(value, Mapping):
        return {field.name: _with_pairs(value.get(field.name), field.type) for field in target}
    return value


class LogFolder:
    """The log of a table that a test writes line by line, without deltaberg's writer."""

    SCHEMA = (
        '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}},'
        '{"name":"p","type":"string","nullable":true,"metadata":{}}]}'
    )

    def __init__(self, root: Path) -> None:
        self.root = root
        self.folder = root / "_delta_log"
        self.folder.mkdir(parents=True)

    def commit(self, version: int, *actions: Mapping[str, object] | str) -> Path:
        """Write ``N.json``; an action is an object or a line as it is."""
        lines = [action if isinstance(action, str) else json.dumps(action) for action in actions]
        return self.write(f"{version:020d}.json", "".join(f"{line}\n" for line in lines))

    def write(self, name: str, content: str | bytes) -> Path:
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def create(self, *actions: Mapping[str, object] | str, **metadata: object) -> None:
        """Write ``0.json`` with a protocol and a metaData action before the given ones."""
        self.commit(0, self.protocol(), self.metadata(**metadata), *actions)

    def checkpoint(
        self,
        version: int,
        *actions: Mapping[str, object],
        name: str | None = None,
        stats_parsed: pa.DataType | None = None,
    ) -> Path:
        """Write actions as a Parquet checkpoint with the protocol's columns, one row each; ``name`` for other layouts."""
        columns = {
            kind: CHECKPOINT_COLUMNS[kind] for kind in dict.fromkeys(kind for action in actions for kind in action)
        }
        if stats_parsed is not None:
            columns["add"] = pa.struct([*columns["add"], ("stats_parsed", stats_parsed)])
        table = pa.table(
            {
                kind: pa.array([_with_pairs(action.get(kind), target) for action in actions], target)
                for kind, target in columns.items()
            }
        )
        path = self.folder / (name or f"{version:020d}.checkpoint.parquet")
        path.parent.mkdir(exist_ok=True)
        pq.write_table(table, path)
        return path

    @staticmethod
    def protocol(reader: int = 1, writer: int = 2, **features: list[str]) -> dict[str, object]:
        return {"protocol": {"minReaderVersion": reader, "minWriterVersion": writer, **features}}

    @classmethod
    def metadata(cls, **changes: object) -> dict[str, object]:
        body: dict[str, object] = {
            "id": "11111111-2222-3333-4444-555555555555",
            "format": {"provider": "parquet", "options": {}},
            "schemaString": cls.SCHEMA,
            "partitionColumns": [],
            "configuration": {},
        }
        return {"metaData": {**body, **changes}}

    @staticmethod
    def add(path: str, **changes: object) -> dict[str, object]:
        body = {"path": path, "partitionValues": {}, "size": 10, "modificationTime": 1, "dataChange": True}
        return {"add": {**body, **changes}}

    @staticmethod
    def remove(path: str, **changes: object) -> dict[str, object]:
        return {"remove": {"path": path, "deletionTimestamp": 1, "dataChange": True, **changes}}

    @staticmethod
    def vector(name: str = "a", offset: int | None = 1, cardinality: int = 2) -> dict[str, object]:
        body: dict[str, object] = {"storageType": "u", "pathOrInlineDv": f"{name:a>20}", "sizeInBytes": 34}
        return {**body, "cardinality": cardinality, **({} if offset is None else {"offset": offset})}


@pytest.fixture
def log(tmp_path: Path) -> LogFolder:
    """An empty log; ``log.create(...)``, ``log.commit(1, log.add("f"))``, ``log.checkpoint(...)`` fill it."""
    return LogFolder(tmp_path / "logged")
