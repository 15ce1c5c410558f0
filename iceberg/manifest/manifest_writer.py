"""Writing manifests of any version out of ``data_file_schema`` batches (section "Manifests")."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from types import TracebackType
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.iceberg.avro.container import SYNC_SIZE
from deltaberg.iceberg.avro.writer import AvroWriter
from deltaberg.iceberg.errors import InvalidIcebergRequest
from deltaberg.iceberg.manifest.data_file import ADDED, DATA
from deltaberg.iceberg.manifest.manifest_counts import STATUSES, ManifestTally
from deltaberg.iceberg.manifest.manifest_entry import BLOCK_SIZE_DEFAULT, entry_type
from deltaberg.iceberg.manifest.manifest_list import RELATIVE_LOCATIONS, ManifestContent, ManifestFile
from deltaberg.iceberg.manifest.manifest_parquet import ParquetManifestWriter
from deltaberg.iceberg.metadata.location import resolve_locations
from deltaberg.iceberg.partition.partition_spec import PartitionField, PartitionSpec
from deltaberg.iceberg.schema.schema import Schema
from deltaberg.iceberg.schema.types import NestedField, StructType, arrow_type
from deltaberg.storage.protocol import Storage

PARQUET_MANIFESTS: Final = 4
"""The first format version whose manifests are Parquet files, as released software writes them."""

_KINDS: Final = {ManifestContent.DATA: "data", ManifestContent.DELETES: "deletes"}


class ManifestWriter:
    """Writes one manifest; use as a context manager, then ask for ``manifest``.

    ``schemas``: the table's schemas, the current one first. ``snapshot_id`` is stored in entries that have none.
    Batches are of ``data_file_schema`` with the spec's partition fields. Sequence numbers and first row ids are
    stored as they are: null in an added entry means that it is inherited when the manifest is read. ``codec`` is
    Avro's; Parquet manifests (version 4) are gzipped.

    Nothing is visible at ``location`` before the context ends, and nothing at all when it ends with an error.
    """

    def __init__(
        self,
        storage: Storage,
        location: str,
        *,
        format_version: int,
        spec: PartitionSpec,
        schemas: Schema | Iterable[Schema],
        content: ManifestContent,
        snapshot_id: int | None,
        codec: str = "deflate",
        sync: bytes | None = None,
    ) -> None:
        if content is ManifestContent.DELETES and format_version < 2:
            raise InvalidIcebergRequest(
                f"Cannot write manifest {location}: format version 1 has no delete files (expected 2 or higher)"
            )
        self.location = location
        self.format_version = format_version
        self.spec = spec
        self.content = content
        self.snapshot_id = snapshot_id
        self._schemas = (schemas,) if isinstance(schemas, Schema) else tuple(schemas)
        self._codec = codec
        self._sync = os.urandom(SYNC_SIZE) if sync is None else sync
        self._output = storage.create(location)
        self._open: _OpenManifest | None = None
        self._manifest: ManifestFile | None = None

    def __enter__(self) -> ManifestWriter:
        self._sink = self._output.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        if error is None:
            manifest = self._opened(None)
            if isinstance(manifest.writer, ParquetManifestWriter):
                manifest.writer.close()
            self._manifest = manifest.tally.describe(
                self.location,
                manifest.writer.length,
                spec_id=self.spec.spec_id,
                content=self.content,
                snapshot_id=self.snapshot_id,
            )
        return self._output.__exit__(kind, error, trace)

    @property
    def length(self) -> int:
        """Bytes written so far."""
        return 0 if self._open is None else self._open.writer.length

    @property
    def entries(self) -> int:
        """Entries written so far."""
        return 0 if self._open is None else int(self._open.tally.files.sum())

    @property
    def manifest(self) -> ManifestFile:
        """The finished manifest as the manifest list describes it.

        Its sequence number is UNASSIGNED_SEQUENCE_NUMBER until a manifest list is written, and so is the lowest one
        where every live entry inherits it.
        """
        if self._manifest is None:
            raise InvalidIcebergRequest(f"Cannot describe manifest {self.location}: it is not finished")
        return self._manifest

    def write(self, batch: pa.RecordBatch) -> None:
        """Append entries. Raises InvalidIcebergRequest for entries that this manifest may not hold."""
        if batch.num_rows == 0:
            return
        self._check(batch)
        manifest = self._opened(batch)
        columns = {name: batch.column(name) for name in batch.schema.names}
        columns["partition"] = self._partition(columns["partition"], manifest.partition)
        columns["file_format"] = pc.ascii_upper(columns["file_format"])
        if self.snapshot_id is not None:
            columns["snapshot_id"] = pc.fill_null(columns["snapshot_id"], self.snapshot_id)
        if self.format_version == 1:
            if columns["snapshot_id"].null_count:
                raise self._refused("format version 1 needs the snapshot id of every entry")
            size = pa.scalar(BLOCK_SIZE_DEFAULT, pa.int64())
            columns["block_size_in_bytes"] = pa.repeat(size, batch.num_rows)
        if self.content is ManifestContent.DELETES:
            columns["first_row_id"] = pa.nulls(batch.num_rows, pa.int64())
        manifest.tally.add(batch, columns["partition"])
        manifest.writer.write(_entries(columns, manifest.type))

    def _opened(self, batch: pa.RecordBatch | None) -> _OpenManifest:
        """The manifest, begun with the first batch: its partition values show their types."""
        if self._open is None:
            tuples = None if batch is None else batch.column("partition").type
            partition = _partition_type(self.spec, self._schemas, tuples)
            self._open = _OpenManifest(self, partition)
        return self._open

    def writer_for(self, kind: StructType) -> AvroWriter | ParquetManifestWriter:
        """A new file of entries of a type."""
        properties = _properties(self.format_version, self.spec, self._schemas[0], self.content)
        if self.format_version >= PARQUET_MANIFESTS:
            return ParquetManifestWriter(self._sink, kind, metadata=properties)
        return AvroWriter(
            self._sink, kind, name="manifest_entry", codec=self._codec, metadata=properties, sync=self._sync
        )

    def _check(self, batch: pa.RecordBatch) -> None:
        status = batch.column("status")
        if not pc.all(pc.is_in(status, pa.array(STATUSES, pa.int32()))).as_py():
            raise self._refused("an entry's status is not 0, 1 or 2")
        data = pc.equal(batch.column("content"), DATA)
        if not pc.all(pc.equal(data, self.content is ManifestContent.DATA)).as_py():
            raise self._refused(f"it holds {_KINDS[self.content]}, found entries of the other kind")
        # Writers before file_sequence_number was defined left it out permanently, so its absence is carried on.
        unnumbered = pc.and_(pc.not_equal(status, ADDED), pc.is_null(batch.column("sequence_number")))
        if self.format_version >= 2 and pc.any(unnumbered).as_py():
            raise self._refused("an existing or deleted entry has no sequence number")
        if self.format_version == 2 and batch.column("content_offset").null_count < batch.num_rows:
            raise self._refused("deletion vectors need format version 3, found 2")
        paths = batch.column("file_path")
        # Resolving changes nothing but relative locations.
        if self.format_version >= RELATIVE_LOCATIONS and not resolve_locations("", paths).equals(paths):
            raise self._refused("version 4 reads a location without scheme as relative; give absolute ones")

    def _partition(self, tuples: pa.StructArray, partition: StructType) -> pa.StructArray:
        wanted = arrow_type(partition)
        if tuples.type.num_fields != wanted.num_fields:
            raise self._refused(
                f"partition spec {self.spec.spec_id} has {wanted.num_fields} fields, found {tuples.type.num_fields}"
            )
        if wanted.num_fields == 0:
            return tuples
        try:
            arrays = [tuples.field(i).cast(wanted.field(i).type) for i in range(wanted.num_fields)]
        except pa.ArrowException as error:
            reason = str(error).split("\n", maxsplit=1)[0]
            raise self._refused(f"partition values of type {tuples.type} do not fit its spec ({reason})") from error
        return pa.StructArray.from_arrays(arrays, fields=list(wanted))

    def _refused(self, reason: str) -> InvalidIcebergRequest:
        return InvalidIcebergRequest(f"Cannot write manifest {self.location}: {reason}")


class _OpenManifest:
    """A manifest under way: the types of its partition tuples and entries, its file, its counts."""

    def __init__(self, manifest: ManifestWriter, partition: StructType) -> None:
        self.partition = partition
        self.type = entry_type(manifest.format_version, partition)
        self.tally = ManifestTally(partition)
        self.writer = manifest.writer_for(self.type)


def _partition_type(spec: PartitionSpec, schemas: tuple[Schema, ...], tuples: pa.DataType | None) -> StructType:
    """The partition type of a manifest whose tuples come in Arrow type ``tuples``: that of the newest schema, or of the
    newest one that agrees with the values (a replaced table may give the id of a source column to another type)."""
    if tuples is None or tuples.num_fields != len(spec.fields):
        return spec.partition_type(schemas)
    fields = [_partition_field(part, schemas, tuples.field(i).type) for i, part in enumerate(spec.fields)]
    return StructType(fields=tuple(fields))


def _partition_field(part: PartitionField, schemas: tuple[Schema, ...], found: pa.DataType) -> NestedField:
    sources = [schema.find(part.source_id) for schema in schemas]
    results = [part.result_type(source.type) for source in sources if source is not None] or [part.result_type(None)]
    kind = next((result for result in results if arrow_type(result) == found), results[0])
    return NestedField(field_id=part.field_id, name=part.name, required=False, type=kind)


def _properties(version: int, spec: PartitionSpec, schema: Schema, content: ManifestContent) -> dict[str, str]:
    properties = {
        "schema": json.dumps(schema.to_json(), separators=(",", ":")),
        "schema-id": str(schema.schema_id),
        "partition-spec": json.dumps(spec.fields_to_json(), separators=(",", ":")),
        "partition-spec-id": str(spec.spec_id),
        "format-version": str(version),
    }
    return properties if version == 1 else {**properties, "content": _KINDS[content]}


def _entries(columns: dict[str, pa.Array], kind: StructType) -> pa.StructArray:
    """The nested structs of ``manifest_entry`` out of flat columns; a field without a column is null."""
    length = len(columns["status"])
    arrays: list[pa.Array] = []
    for nested in kind.fields:
        if isinstance(nested.type, StructType) and nested.name == "data_file":
            arrays.append(_entries(columns, nested.type))
        elif nested.name in columns:
            arrays.append(columns[nested.name])
        else:
            arrays.append(pa.nulls(length, arrow_type(nested.type)))
    return pa.StructArray.from_arrays(arrays, names=[nested.name for nested in kind.fields])
