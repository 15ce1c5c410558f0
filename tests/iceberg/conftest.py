"""Iceberg tables laid down file by file, with whatever deletes a test needs."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from deltaberg.bitmap import PositionBitmap, frame
from deltaberg.iceberg.deletes.puffin import PuffinWriter
from deltaberg.iceberg.manifest.data_file import DATA, EQUALITY_DELETES, EXISTING, POSITION_DELETES, data_file_schema
from deltaberg.iceberg.manifest.manifest_list import ManifestContent
from deltaberg.iceberg.manifest.manifest_list_writer import write_manifest_list
from deltaberg.iceberg.manifest.manifest_writer import ManifestWriter
from deltaberg.iceberg.manifest.metrics import metric_map
from deltaberg.iceberg.metadata.snapshot import Snapshot
from deltaberg.iceberg.metadata.table_metadata import TableMetadata
from deltaberg.iceberg.partition.partition_spec import UNPARTITIONED, PartitionSpec
from deltaberg.iceberg.schema.schema import Schema
from deltaberg.iceberg.schema.single_value import encode_bounds, minimum_and_maximum
from deltaberg.iceberg.table import Table
from deltaberg.storage import open_storage

PATH_ID, POS_ID = 2147483546, 2147483545


def with_field_ids(rows: pa.Table, ids: Mapping[str, int]) -> pa.Table:
    """The table with Parquet field ids on those of its columns that ``ids`` names."""
    fields = [
        field.with_metadata({"PARQUET:field_id": str(ids[field.name])}) if field.name in ids else field
        for field in rows.schema
    ]
    return rows.cast(pa.schema(fields))


class StoredTable:
    """An Iceberg table that is written one file at a time. Partition values are given by name."""

    def __init__(
        self,
        folder: Path,
        *schemas: Schema,
        specs: Sequence[PartitionSpec] = (PartitionSpec(spec_id=0),),
        version: int = 2,
        properties: Mapping[str, str] | None = None,
        location: str | None = None,
    ) -> None:
        """``schemas``: oldest first, the last one is current. ``specs``: the last one is the default."""
        self.folder = folder
        self.location = str(folder) if location is None else location
        self.schemas, self.specs, self.version = schemas, tuple(specs), version
        self.properties = dict(properties or {})
        self.storage = open_storage(relocate={} if location is None else {location: str(folder)})
        self.entries: list[tuple[int, int, dict[str, Any]]] = []
        self._names = (f"{number:05}" for number in itertools.count())

    def data(
        self, rows: pa.Table, *, file_format: str = "parquet", ids: Mapping[str, int] | None = None, **entry: Any
    ) -> str:
        """A data file; by default columns have the ids of the current schema's columns of their names."""
        ids = {field.name: field.field_id for field in self.schemas[-1].fields} if ids is None else ids
        return self._file(DATA, rows, file_format, ids, entry)

    def position_deletes(self, pairs: Sequence[tuple[str, int]], *, file_format: str = "parquet", **entry: Any) -> str:
        """A position delete file of (data file, position) pairs."""
        rows = pa.table(
            {
                "file_path": pa.array([path for path, _ in pairs], pa.string()),
                "pos": pa.array([position for _, position in pairs], pa.int64()),
            }
        )
        return self._file(POSITION_DELETES, rows, file_format, {"file_path": PATH_ID, "pos": POS_ID}, entry)

    def equality_deletes(self, rows: pa.Table, equality_ids: Sequence[int], **entry: Any) -> str:
        """An equality delete file; columns have the ids of the newest columns of their names unless ``ids`` says."""
        ids = {field.name: field.field_id for schema in self.schemas for field in schema.fields}
        ids = entry.pop("ids", ids)
        return self._file(EQUALITY_DELETES, rows, "parquet", ids, {"equality_ids": list(equality_ids), **entry})

    def rewrite(self, path: str, rows: pa.Table, ids: Mapping[str, int]) -> None:
        """Put other rows into a Parquet file that is listed already."""
        pq.write_table(with_field_ids(rows, ids), self.storage.resolve(path))

    def vector(self, data_file: str, positions: Sequence[int], *, owner: str | None = None, **entry: Any) -> str:
        """A Puffin file with one deletion vector, whose footer says that it belongs to ``owner``."""
        bitmap = PositionBitmap.from_positions(np.array(positions, np.int64))
        path = f"{self.location}/data/{next(self._names)}.puffin"
        with PuffinWriter(self.storage, path) as writer:
            blob = writer.add_deletion_vector(
                frame(bitmap.serialize()), referenced_data_file=owner or data_file, cardinality=bitmap.cardinality
            )
        return self.vector_entry(path, data_file, blob.offset, blob.length, bitmap.cardinality, **entry)

    def bare_vector(self, data_file: str, data: bytes, cardinality: int, **entry: Any) -> str:
        """A deletion vector's bytes in a file that is no Puffin file."""
        path = f"{self.location}/data/{next(self._names)}.bin"
        self.storage.put(path, b"\x01" + data)
        return self.vector_entry(path, data_file, 1, len(data), cardinality, **entry)

    def vector_entry(self, path: str, data_file: str, offset: int, size: int, cardinality: int, **entry: Any) -> str:
        """The manifest entry of a deletion vector."""
        values = {
            "content": POSITION_DELETES,
            "file_path": path,
            "file_format": "puffin",
            "record_count": cardinality,
            "file_size_in_bytes": offset + size,
            "referenced_data_file": data_file,
            "content_offset": offset,
            "content_size_in_bytes": size,
        }
        return self._add(values | entry)

    def open(self) -> Table:
        """The table with one snapshot that holds every file so far."""
        known = tuple(reversed(self.schemas))
        manifests = []
        for spec in self.specs:
            schema = data_file_schema(spec.arrow_partition_type(known))
            for content in ManifestContent:
                rows = [
                    row
                    for spec_id, kind, row in self.entries
                    if spec_id == spec.spec_id and (kind == DATA) == (content is ManifestContent.DATA)
                ]
                if not rows:
                    continue
                with ManifestWriter(
                    self.storage,
                    f"{self.location}/metadata/{next(self._names)}-m0.avro",
                    format_version=min(self.version, 3),
                    spec=spec,
                    schemas=known,
                    content=content,
                    snapshot_id=1,
                ) as writer:
                    writer.write(pa.RecordBatch.from_pylist(rows, schema=schema))
                manifests.append(writer.manifest)
        location = f"{self.location}/metadata/{next(self._names)}-list.avro"
        first_row_id = 0 if self.version >= 3 else None
        write_manifest_list(
            self.storage,
            location,
            manifests,
            format_version=self.version,
            snapshot_id=1,
            parent_snapshot_id=None,
            sequence_number=9,
            first_row_id=first_row_id,
        )
        snapshot = Snapshot(
            snapshot_id=1,
            timestamp_ms=1,
            sequence_number=9,
            manifest_list=location,
            summary={"operation": "append"},
            schema_id=self.schemas[-1].schema_id,
            first_row_id=first_row_id,
            added_rows=None if first_row_id is None else 0,
        )
        metadata = TableMetadata(
            format_version=self.version,
            table_uuid="00000000-0000-0000-0000-000000000000",
            location=self.location,
            last_updated_ms=1,
            last_column_id=100,
            schemas=self.schemas,
            current_schema_id=self.schemas[-1].schema_id,
            partition_specs=self.specs,
            default_spec_id=self.specs[-1].spec_id,
            last_partition_id=2000,
            last_sequence_number=9,
            properties=self.properties,
            current_snapshot_id=1,
            snapshots=(snapshot,),
            next_row_id=first_row_id,
        )
        return Table(
            metadata=metadata, metadata_location=f"{self.location}/metadata/v1.metadata.json", storage=self.storage
        )

    def _file(
        self, content: int, rows: pa.Table, file_format: str, ids: Mapping[str, int], entry: dict[str, Any]
    ) -> str:
        path = f"{self.location}/data/{next(self._names)}.{file_format}"
        place = Path(self.storage.resolve(path))
        place.parent.mkdir(parents=True, exist_ok=True)
        match file_format:
            case "parquet":
                pq.write_table(with_field_ids(rows, ids), place)
            case "orc":
                orc.write_table(rows, place)
            case "avro":
                _write_avro(rows, ids, place)
        values = {
            "content": content,
            "file_path": path,
            "file_format": file_format,
            "record_count": rows.num_rows,
            "file_size_in_bytes": place.stat().st_size,
        }
        return self._add(values | entry)

    def _add(self, values: dict[str, Any]) -> str:
        values.setdefault("sequence_number", 1)
        values.setdefault("spec_id", self.specs[-1].spec_id)
        values.setdefault("partition", {})
        row = {"status": EXISTING, "snapshot_id": 1, "file_sequence_number": values["sequence_number"], **values}
        self.entries.append((row["spec_id"], row["content"], row))
        path = row["file_path"]
        assert isinstance(path, str)
        return path


_AVRO = {
    pa.int32(): "int",
    pa.int64(): "long",
    pa.float64(): "double",
    pa.string(): "string",
    pa.binary(): "bytes",
    pa.timestamp("us"): {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": False},
}


def _write_avro(rows: pa.Table, ids: Mapping[str, int], place: Path) -> None:
    fields = []
    for field in rows.schema:
        written: dict[str, Any] = {"name": field.name, "type": ["null", _AVRO[field.type]]}
        fields.append(written | ({"field-id": ids[field.name]} if field.name in ids else {}))
    schema = {"type": "record", "name": "table", "fields": fields}
    with place.open("wb") as file:
        fastavro.writer(file, fastavro.parse_schema(schema), rows.to_pylist(), codec="deflate", sync_interval=4000)


@pytest.fixture
def stored_table(tmp_path: Path) -> Callable[..., StoredTable]:
    """``stored_table(schema, specs=..., version=...)``: a table to lay down in an empty folder."""

    def make(*schemas: Schema, **options: Any) -> StoredTable:
        return StoredTable(tmp_path / "table", *schemas, **options)

    return make


class DataFiles:
    """Parquet data files in a folder, each described as an entry with the metrics that its rows have."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._names = itertools.count()

    def write(
        self, schema: Schema, rows: pa.Table, spec: PartitionSpec = UNPARTITIONED, /, **entry: Any
    ) -> pa.RecordBatch:
        """One file of rows that share a partition; ``entry`` replaces or adds columns of its entry."""
        self.folder.mkdir(parents=True, exist_ok=True)
        place = self.folder / f"{next(self._names):05}.parquet"
        ids = {field.name: field.field_id for field in schema.fields}
        # An unknown column is not stored; for the others the order of the file does not matter.
        stored = [name for name in rows.column_names if not pa.types.is_null(rows.schema.field(name).type)]
        pq.write_table(with_field_ids(rows.select(stored), ids), place)
        bounds: dict[str, dict[int, pa.Array]] = {"lower_bounds": {}, "upper_bounds": {}}
        counts: dict[str, dict[int, pa.Array]] = {"value_counts": {}, "null_value_counts": {}, "nan_value_counts": {}}
        for field in schema.fields:
            if field.name not in stored or pa.types.is_nested(rows.schema.field(field.name).type):
                continue
            values = rows[field.name].combine_chunks()
            low, high = minimum_and_maximum(values)
            bounds["lower_bounds"][field.field_id] = encode_bounds(pa.repeat(low, 1), field.type)
            bounds["upper_bounds"][field.field_id] = encode_bounds(pa.repeat(high, 1), field.type)
            counts["value_counts"][field.field_id] = pa.array([len(values)])
            counts["null_value_counts"][field.field_id] = pa.array([values.null_count])
            if pa.types.is_floating(values.type):
                nans = pc.sum(pc.is_nan(values), min_count=0).cast(pa.int64())
                counts["nan_value_counts"][field.field_id] = pa.array([nans.as_py()], pa.int64())
        first = rows.slice(0, 1)
        partition = {}
        for part in spec.fields:
            source = schema.find(part.source_id)
            assert source is not None
            partition[part.name] = part.transform.apply(first[source.name])[0].as_py()
        columns = {
            "file_path": [str(place)],
            "file_format": ["parquet"],
            "partition": pa.array([partition], spec.arrow_partition_type(schema)),
            "record_count": [rows.num_rows],
            "file_size_in_bytes": [place.stat().st_size],
            "spec_id": pa.array([spec.spec_id], pa.int32()),
            **{name: metric_map(arrays, length=1) for name, arrays in {**counts, **bounds}.items() if arrays},
            **{name: value if isinstance(value, pa.Array) else [value] for name, value in entry.items()},
        }
        return pa.record_batch(columns)


@pytest.fixture
def data_files(tmp_path: Path) -> DataFiles:
    """Data files in ``tmp_path/table/data``, with entries to add to a table."""
    return DataFiles(tmp_path / "table" / "data")
