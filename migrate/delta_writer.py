"""Write the Delta version that a design describes: one commit, made visible by one put-if-absent."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.datafile.parquet_writer import WrittenFiles
from deltaberg.delta.actions import Metadata
from deltaberg.delta.create_table import create_table, new_metadata
from deltaberg.delta.log_path import commit_name, log_folder
from deltaberg.delta.partition_values import encode_partition_values
from deltaberg.delta.transaction import Transaction
from deltaberg.iceberg.partition_spec import PartitionSpec
from deltaberg.iceberg.resolved_deletes import ResolvedDeletes, resolve_deletes
from deltaberg.migrate.delta_target import DeltaDesign, observe
from deltaberg.migrate.locations import join
from deltaberg.migrate.position import OPTIONS_KEY, POSITION_KEY, TARGET_VERSION_KEY, Position
from deltaberg.migrate.rewrite import IcebergRewriter
from deltaberg.migrate.source import IcebergSource
from deltaberg.migrate.vector_copy import Vector, read_puffin_vectors
from deltaberg.storage import Storage
from deltaberg.translate.data_files import encode_paths, iceberg_to_delta_adds, written_to_iceberg_files
from deltaberg.translate.deletes import descriptor_column
from deltaberg.translate.field_ids import physical_name
from deltaberg.translate.history import iceberg_to_delta_operation
from deltaberg.translate.lineage import iceberg_to_delta_lineage_properties
from deltaberg.translate.schema import LeafPair
from deltaberg.translate.types import delta_to_iceberg_type

HIDDEN_FOLDER: Final = "_deltaberg"
"""Where deletion vectors and rewritten files go: neither format's cleaner enters it."""

RETENTION_KEY: Final = "delta.deletedFileRetentionDuration"
_RETENTION: Final = "interval 36500 days"
_VOUCHED: Final = ("generatedColumns",)
"""Derived columns hold what Iceberg's partition tuples say."""

_NAMESPACE: Final = uuid.UUID("0d1f4f0c-6f0e-5d5a-9a43-5f4d7a0f9f3e")


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenDelta:
    """What was committed. commits: (snapshot id, version), oldest first. location: the newest commit file."""

    commits: tuple[tuple[int, int], ...]
    location: str
    files: int
    rows: int
    rewritten_files: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaWriter:
    """Writes a design's snapshot into a new Delta table at ``root``."""

    source: IcebergSource
    design: DeltaDesign
    root: str
    storage: Storage
    position: Position
    options_text: str
    clock_ms: int

    def write(self) -> WrittenDelta:
        """Commit version 0. Raises DeltaConflict where a log appeared meanwhile; leaves nothing behind when it fails."""
        transaction = create_table(
            self.storage,
            self.root,
            metadata=self._metadata(),
            now_ms=lambda: self.clock_ms,
        )
        files = rows = rewritten = 0
        for adds in self._adds(transaction):
            transaction.add_files([adds])
            files += adds.num_rows
            counts = pc.struct_field(adds.column("stats"), "num_records")
            deleted = pc.struct_field(adds.column("deletion_vector"), "cardinality")
            rows += (pc.sum(counts).as_py() or 0) - (pc.sum(deleted).as_py() or 0)
            rewritten += pc.sum(pc.starts_with(adds.column("path"), f"{HIDDEN_FOLDER}/")).as_py() or 0
        if self.design.lineage:
            transaction.reserve_row_ids(self._next_row_id() - 1)
        snapshot = self.source.snapshot
        transaction.set_txn(self.position.app_id, self.position.version or 0, last_updated_ms=self.clock_ms)
        operation, parameters = iceberg_to_delta_operation(None if snapshot is None else snapshot.operation, first=True)
        version = transaction.commit(
            operation,
            parameters=parameters,
            timestamp_ms=self._timestamp_ms(),
            extra_info={POSITION_KEY: self.position.to_json()},
            rules_checked=_VOUCHED,
            expected_version=0,
        )
        return WrittenDelta(
            commits=((self.position.version or 0, version),),
            location=f"{log_folder(self.root)}/{commit_name(version)}",
            files=files,
            rows=rows,
            rewritten_files=rewritten,
        )

    def _metadata(self) -> Metadata:
        properties: dict[str, str] = {
            **self.design.properties,
            RETENTION_KEY: _RETENTION,
            "delta.columnMapping.maxColumnId": str(self.source.table.metadata.last_column_id),
            POSITION_KEY: self.position.to_text(),
            OPTIONS_KEY: self.options_text,
            TARGET_VERSION_KEY: "0",
        }
        if self.design.mode.value == "none":
            del properties["delta.columnMapping.maxColumnId"]
        if self._has_deletes():
            properties["delta.enableDeletionVectors"] = "true"
        if self.design.lineage:
            properties |= iceberg_to_delta_lineage_properties()
        return new_metadata(
            self.design.delta_schema,
            table_id=str(uuid.uuid5(_NAMESPACE, f"{self.position.app_id}|{self.root}")),
            created_time_ms=self._timestamp_ms(),
            partition_columns=self.design.partitioning.names,
            configuration=properties,
            column_mapping=self.design.mode,
            description=self.design.description,
        )

    def _timestamp_ms(self) -> int:
        snapshot = self.source.snapshot
        return self.source.table.metadata.last_updated_ms if snapshot is None else snapshot.timestamp_ms

    def _has_deletes(self) -> bool:
        return any(self.design.deletes.values())

    def _next_row_id(self) -> int:
        return self.source.table.metadata.next_row_id or 0

    # Files

    def _adds(self, transaction: Transaction) -> Iterator[pa.RecordBatch]:
        rewriter = self._rewriter()
        for resolved in resolve_deletes(self.source.table, self.source.snapshot):
            files = resolved.data_files
            locations, facts = observe(self.design.survey, self.source, files)
            spec = self.source.table.metadata.spec_by_id(files.column("spec_id")[0].as_py())
            anew = np.array([(int(each), spec.spec_id) in self.design.rewritten for each in facts], dtype=bool)
            vectors = self._vectors(resolved)
            kept = np.flatnonzero(~anew)
            if len(kept):
                yield self._shared(transaction, files, locations, spec, vectors, kept)
            if anew.any():
                yield from self._rewritten(rewriter, files, spec, vectors, np.flatnonzero(anew))

    def _vectors(self, resolved: ResolvedDeletes) -> dict[int, Vector]:
        """The deletion vector of every file that has deleted rows, by row of the batch."""
        rows = np.flatnonzero(resolved.vectors.is_valid().to_numpy(zero_copy_only=False)).tolist()
        counts = resolved.data_files.column("record_count")
        copied = read_puffin_vectors(self.source.storage, resolved.vectors, rows, counts)
        found = dict(zip(rows, copied, strict=True))
        found.update({row: Vector.of(bitmap) for row, bitmap in resolved.merged.items()})
        return {row: vector for row, vector in found.items() if vector.cardinality}

    def _shared(
        self,
        transaction: Transaction,
        files: pa.RecordBatch,
        locations: pa.Array,
        spec: PartitionSpec,
        vectors: dict[int, Vector],
        kept: npt.NDArray[np.int64],
    ) -> pa.RecordBatch:
        """``add`` actions of files that both tables list."""
        place = {int(row): index for index, row in enumerate(kept)}
        chosen = [(place[row], vector) for row, vector in sorted(vectors.items()) if row in place]
        descriptors = transaction.write_deletion_vectors(
            ((vector.blob, vector.cardinality) for _, vector in chosen), prefix=HIDDEN_FOLDER
        )
        some = files.take(pa.array(kept))
        return iceberg_to_delta_adds(
            some,
            paths=encode_paths(locations.take(pa.array(kept)), self.root),
            partition_values=self._partition_values(some, spec),
            modification_times=self._modification_times(some),
            leaves=self._stats_leaves(),
            deletion_vectors=descriptor_column(descriptors, [row for row, _ in chosen], len(kept)),
            lineage=self.design.lineage,
        )

    def _rewritten(
        self,
        rewriter: IcebergRewriter,
        files: pa.RecordBatch,
        spec: PartitionSpec,
        vectors: dict[int, Vector],
        anew: npt.NDArray[np.int64],
    ) -> Iterator[pa.RecordBatch]:
        """``add`` actions of files that were written for the target; files without live rows leave nothing."""
        some = files.take(pa.array(anew))
        deleted = {index: vectors[int(row)].bitmap for index, row in enumerate(anew) if int(row) in vectors}
        for row, written in rewriter.rewrite(some, deleted):
            if written.files.num_rows:
                yield self._add_of(written, some.slice(row, 1), spec)

    def _add_of(self, written: WrittenFiles, file: pa.RecordBatch, spec: PartitionSpec) -> pa.RecordBatch:
        leaves = [_as_written(leaf) for leaf in self._stats_leaves()]
        types = {leaf.field_id: leaf.iceberg for leaf in leaves}
        files = written_to_iceberg_files(written, types, partition=file.column("partition"), spec_id=spec.spec_id)
        return iceberg_to_delta_adds(
            files,
            paths=encode_paths(files.column("file_path"), self.root),
            partition_values=self._partition_values(file, spec),
            modification_times=self._modification_times(file),
            leaves=leaves,
        )

    def _partition_values(self, files: pa.RecordBatch, spec: PartitionSpec) -> pa.StructArray:
        """The texts to log, by physical name."""
        partition = files.column("partition")
        fields = {field.name: field for field in self.design.delta_schema.fields}
        arrays, names = [], []
        for column in self.design.partitioning.columns:
            field = fields[column.name]
            values = pc.struct_field(partition, column.field_names[spec.spec_id])
            arrays.append(encode_partition_values(values, field.type, column=column.name))
            names.append(physical_name(field))
        for derived in self.design.partitioning.derived:
            values = derived.values(pc.struct_field(partition, derived.field_names[spec.spec_id]))
            arrays.append(encode_partition_values(values, derived.type, column=derived.name))
            names.append(physical_name(fields[derived.name]))
        if not arrays:
            return pa.StructArray.from_buffers(pa.struct([]), files.num_rows, [None])
        return pa.StructArray.from_arrays(arrays, names=names)

    def _modification_times(self, files: pa.RecordBatch) -> pa.Array:
        """When the snapshot that added each file was committed; this snapshot's time where that one has expired."""
        snapshots = self.source.table.metadata.snapshots
        times = pa.array([each.timestamp_ms for each in snapshots], pa.int64())
        ids = pa.array([each.snapshot_id for each in snapshots], pa.int64())
        found = pc.index_in(files.column("snapshot_id"), value_set=ids)
        return pc.fill_null(times.take(found), self._timestamp_ms())

    def _stats_leaves(self) -> list[LeafPair]:
        """Leaves that have statistics: all but partition columns."""
        sources = {column.source_id for column in self.design.partitioning.columns}
        return [leaf for leaf in self.design.translation.leaves if leaf.field_id not in sources]

    def _rewriter(self) -> IcebergRewriter:
        return IcebergRewriter(
            self.source,
            self.design.schema,
            storage=self.storage,
            folder=join(self.root, HIDDEN_FOLDER),
            physical_names=self.design.physical_names,
            type_mappings=self.design.type_mappings,
            with_lineage=self.design.lineage,
        )


def _as_written(leaf: LeafPair) -> LeafPair:
    """The leaf in a rewritten file, where a mapped type is the target's."""
    kind = delta_to_iceberg_type(leaf.delta) if leaf.mapped else None
    return leaf if kind is None else replace(leaf, iceberg=kind, mapped=False)
