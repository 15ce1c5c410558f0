"""Writing manifests of any version out of ``data_file_schema`` batches (sections "Manifests", "Manifest Lists").

While the entries pass, what the manifest list says about them is added up: counts, the lowest sequence number and
the summary of each partition field.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from types import TracebackType
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.iceberg.avro_container import SYNC_SIZE
from deltaberg.iceberg.avro_writer import AvroWriter
from deltaberg.iceberg.data_file import ADDED, DATA, DELETED, EXISTING
from deltaberg.iceberg.errors import InvalidIcebergRequest
from deltaberg.iceberg.manifest_entry import BLOCK_SIZE_DEFAULT, entry_type
from deltaberg.iceberg.manifest_list import UNASSIGNED_SEQUENCE_NUMBER, ManifestContent, ManifestFile
from deltaberg.iceberg.manifest_parquet import ParquetManifestWriter
from deltaberg.iceberg.partition_spec import PartitionSpec
from deltaberg.iceberg.partition_summary import PartitionSummary
from deltaberg.iceberg.schema import Schema
from deltaberg.iceberg.types import StructType, arrow_type
from deltaberg.storage.protocol import Storage

PARQUET_MANIFESTS: Final = 4
"""The first format version whose manifests are Parquet files, as released software writes them."""

_STATUSES: Final = (EXISTING, ADDED, DELETED)
_KINDS: Final = {ManifestContent.DATA: "data", ManifestContent.DELETES: "deletes"}


class ManifestWriter:
    """Writes one manifest; use as a context manager, then ask for ``manifest``.

    ``schemas``: the table's schemas, the current one first. ``snapshot_id`` is stored in added entries that have
    none. Batches are of ``data_file_schema`` with the spec's partition type. Their sequence numbers and first row ids
    are stored as they are: null in an added entry means that it is inherited when the manifest is read. ``codec`` is
    Avro's; Parquet manifests (version 4) are gzipped. Nothing is visible at ``location`` before the context ends, and nothing at all when it ends with an error.
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
        known = (schemas,) if isinstance(schemas, Schema) else tuple(schemas)
        if content is ManifestContent.DELETES and format_version < 2:
            raise InvalidIcebergRequest(
                "Cannot write a manifest of delete files in format version 1: it has no deletes"
            )
        self.location = location
        self.format_version = format_version
        self.spec = spec
        self.content = content
        self.snapshot_id = snapshot_id
        self.partition = spec.partition_type(known)
        self.type = entry_type(format_version, self.partition)
        self.summaries = [PartitionSummary(nested.type) for nested in self.partition.fields]
        self.files = np.zeros(3, dtype=np.int64)
        self.rows = np.zeros(3, dtype=np.int64)
        self.min_sequence_number: int | None = None
        self._manifest: ManifestFile | None = None
        self._output = storage.create(location)
        self._codec = codec
        self._sync = os.urandom(SYNC_SIZE) if sync is None else sync
        self._properties = _properties(format_version, spec, known[0], content)

    def __enter__(self) -> ManifestWriter:
        self._sink = self._output.__enter__()
        try:
            self._writer = self._open_writer()
        except BaseException as error:
            self._output.__exit__(type(error), error, error.__traceback__)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        if error is None:
            if isinstance(self._writer, ParquetManifestWriter):
                self._writer.close()
            self._manifest = self._described(self._writer.length)
        return self._output.__exit__(kind, error, trace)

    def _open_writer(self) -> AvroWriter | ParquetManifestWriter:
        if self.format_version >= PARQUET_MANIFESTS:
            return ParquetManifestWriter(self._sink, self.type, metadata=self._properties)
        return AvroWriter(
            self._sink,
            self.type,
            name="manifest_entry",
            codec=self._codec,
            metadata=self._properties,
            sync=self._sync,
        )

    @property
    def length(self) -> int:
        """Bytes written so far."""
        return self._writer.length

    @property
    def entries(self) -> int:
        """Entries written so far."""
        return int(self.files.sum())

    @property
    def manifest(self) -> ManifestFile:
        """What the manifest list says about the finished manifest.

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
        status = batch.column("status")
        self._check(batch, status)
        columns = {name: batch.column(name) for name in batch.schema.names}
        partition = self._partition(columns["partition"])
        columns["partition"] = partition
        columns["file_format"] = pc.ascii_upper(columns["file_format"])
        if self.snapshot_id is not None:
            columns["snapshot_id"] = pc.fill_null(columns["snapshot_id"], self.snapshot_id)
        if self.format_version == 1:
            if columns["snapshot_id"].null_count:
                raise InvalidIcebergRequest("Cannot write a manifest of format version 1: an entry has no snapshot id")
            size = pa.scalar(BLOCK_SIZE_DEFAULT, pa.int64())
            columns["block_size_in_bytes"] = pa.repeat(size, batch.num_rows)
        if self.content is ManifestContent.DELETES:
            columns["first_row_id"] = pa.nulls(batch.num_rows, pa.int64())
        self._add_up(status, columns["record_count"], columns["sequence_number"])
        for slot, summary in enumerate(self.summaries):
            summary.add(partition.field(slot))
        self._writer.write(_entries(columns, self.type))

    def _check(self, batch: pa.RecordBatch, status: pa.Array) -> None:
        where = f"Cannot write to manifest {self.location}"
        if not pc.all(pc.is_in(status, pa.array(_STATUSES, pa.int32()))).as_py():
            raise InvalidIcebergRequest(f"{where}: an entry's status is not 0, 1 or 2")
        data = pc.equal(batch.column("content"), DATA)
        expected = self.content is ManifestContent.DATA
        if not pc.all(pc.equal(data, expected)).as_py():
            raise InvalidIcebergRequest(f"{where}: it holds {_KINDS[self.content]}, found entries of the other kind")
        if self.format_version == 1:
            return
        old = pc.not_equal(status, ADDED)
        # Writers before file_sequence_number was defined left it out for good, so its absence is carried on.
        if pc.any(pc.and_(old, pc.is_null(batch.column("sequence_number")))).as_py():
            raise InvalidIcebergRequest(f"{where}: an existing or deleted entry has no sequence number")
        if self.format_version == 2 and batch.column("content_offset").null_count < batch.num_rows:
            raise InvalidIcebergRequest(f"{where}: deletion vectors need format version 3, found 2")

    def _partition(self, tuples: pa.StructArray) -> pa.StructArray:
        wanted = arrow_type(self.partition)
        if tuples.type.num_fields != wanted.num_fields:
            raise InvalidIcebergRequest(
                f"Cannot write to manifest {self.location}: its spec has {wanted.num_fields} partition fields, "
                f"found {tuples.type.num_fields}"
            )
        if wanted.num_fields == 0:
            return tuples
        try:
            arrays = [tuples.field(i).cast(wanted.field(i).type) for i in range(wanted.num_fields)]
        except pa.ArrowException as error:
            raise InvalidIcebergRequest(
                f"Cannot write to manifest {self.location}: partition values of type {tuples.type} "
                f"do not fit its spec ({str(error).splitlines()[0]})"
            ) from error
        return pa.StructArray.from_arrays(arrays, fields=list(wanted))

    def _add_up(self, status: pa.Array, record_count: pa.Array, sequence_number: pa.Array) -> None:
        codes = status.to_numpy()
        self.files += np.bincount(codes, minlength=3)
        counts = record_count.to_numpy()
        for code in _STATUSES:
            self.rows[code] += int(counts[codes == code].sum())
        lowest = pc.min(sequence_number.filter(pc.not_equal(status, DELETED))).as_py()
        if lowest is not None:
            self.min_sequence_number = (
                lowest if self.min_sequence_number is None else min(self.min_sequence_number, lowest)
            )

    def _described(self, length: int) -> ManifestFile:
        lowest = self.min_sequence_number
        return ManifestFile(
            manifest_path=self.location,
            manifest_length=length,
            partition_spec_id=self.spec.spec_id,
            content=self.content,
            sequence_number=UNASSIGNED_SEQUENCE_NUMBER,
            min_sequence_number=UNASSIGNED_SEQUENCE_NUMBER if lowest is None else lowest,
            added_snapshot_id=self.snapshot_id,
            added_files_count=int(self.files[ADDED]),
            existing_files_count=int(self.files[EXISTING]),
            deleted_files_count=int(self.files[DELETED]),
            added_rows_count=int(self.rows[ADDED]),
            existing_rows_count=int(self.rows[EXISTING]),
            deleted_rows_count=int(self.rows[DELETED]),
            partitions=tuple(summary.result() for summary in self.summaries),
        )


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
