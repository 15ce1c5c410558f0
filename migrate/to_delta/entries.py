"""Turn data files of Iceberg snapshots into ``add`` actions: shared files, rewritten ones, their deletion vectors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.datafile.parquet.parquet_writer import WrittenFiles
from deltaberg.delta.deletion_vector.deletion_vector import DeletionVectorDescriptor
from deltaberg.delta.schema.partition_values import encode_partition_values
from deltaberg.iceberg.deletes.resolved_deletes import ResolvedDeletes
from deltaberg.iceberg.metadata.snapshot import Snapshot
from deltaberg.iceberg.partition.partition_spec import PartitionSpec
from deltaberg.migrate.files.rewrite import IcebergRewriter, InThisProcess, RewriteRunner
from deltaberg.migrate.files.rewrite_queue import Rewrites, Rewritten
from deltaberg.migrate.files.vector_copy import DeletionVector, read_puffin_vectors
from deltaberg.migrate.source import IcebergSource
from deltaberg.migrate.target.locations import join
from deltaberg.migrate.to_delta.design import DeltaConversionPlan
from deltaberg.migrate.to_delta.survey import observe
from deltaberg.storage import Storage
from deltaberg.translate.data_files import encode_paths, iceberg_to_delta_adds, written_to_iceberg_files
from deltaberg.translate.deletes import descriptor_column
from deltaberg.translate.field_ids import physical_name
from deltaberg.translate.schema import LeafPair
from deltaberg.translate.types import delta_to_iceberg_type

HIDDEN_FOLDER: Final = "_deltaberg"
"""Where deletion vectors and rewritten files go: neither format's cleaner enters it."""

Rows = npt.NDArray[np.int64]


class VectorSink(Protocol):
    """Writes deletion vectors of a table, as a ``Transaction`` does."""

    def write_deletion_vectors(
        self, vectors: Iterable[tuple[bytes, int]], *, prefix: str = ""
    ) -> tuple[DeletionVectorDescriptor, ...]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFiles:
    """One batch of live data files of a snapshot, all of one partition spec.

    locations: where they really are. anew: which of them are rewritten.
    """

    resolved: ResolvedDeletes
    spec: PartitionSpec
    locations: pa.Array
    anew: npt.NDArray[np.bool_]

    @property
    def files(self) -> pa.RecordBatch:
        return self.resolved.data_files


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaEntries:
    """Makes ``add`` actions of the columns that a design has, for the table at ``root``."""

    source: IcebergSource
    design: DeltaConversionPlan
    root: str
    storage: Storage
    runner: RewriteRunner = field(default_factory=InThisProcess)
    target_size: int | None = None

    def observe(self, resolved: ResolvedDeletes) -> SourceFiles:
        """The locations of a batch's files and what becomes of them."""
        files = resolved.data_files
        locations, layout = observe(self.design.footers, self.source, files)
        spec = self.source.table.metadata.spec_by_id(files.column("spec_id")[0].as_py())
        anew = np.array([(int(each), spec.spec_id) in self.design.rewritten for each in layout], dtype=bool)
        return SourceFiles(resolved=resolved, spec=spec, locations=locations, anew=anew)

    def adds(
        self, resolved: Iterable[ResolvedDeletes], snapshot: Snapshot, sink: VectorSink, queue: Rewrites
    ) -> Iterator[pa.RecordBatch]:
        """``add`` actions of data files and of what becomes of those that ``queue`` takes, as they come."""
        for each in resolved:
            found = self.observe(each)
            kept, anew = np.flatnonzero(~found.anew), np.flatnonzero(found.anew)
            if len(kept):
                yield self.shared(found, kept, snapshot, sink)
            if len(anew):
                vectors = self.vectors(found, anew)
                deleted = {index: vectors[row].bitmap for index, row in enumerate(anew.tolist()) if row in vectors}
                yield from self.rewritten_entries(queue.add(found.files.take(pa.array(anew)), deleted), snapshot)
        yield from self.rewritten_entries(queue.finish(), snapshot)

    def rewritten_entries(self, done: Iterator[Rewritten], snapshot: Snapshot) -> Iterator[pa.RecordBatch]:
        """``add`` actions of rewritten files; those without live rows leave nothing."""
        for each in done:
            if each.written.files.num_rows:
                yield self.rewritten(each.written, each.sources, snapshot)

    def vectors(self, found: SourceFiles, wanted: Rows) -> dict[int, DeletionVector]:
        """The deletion vector of every wanted file that has deleted rows, by row of the batch."""
        resolved, chosen = found.resolved, set(wanted.tolist())
        valid = np.flatnonzero(resolved.vectors.is_valid().to_numpy(zero_copy_only=False)).tolist()
        rows = [row for row in valid if row in chosen]
        copied = read_puffin_vectors(
            self.source.storage, resolved.vectors, rows, resolved.data_files.column("record_count")
        )
        result = dict(zip(rows, copied, strict=True))
        result.update({row: DeletionVector.of(bitmap) for row, bitmap in resolved.merged.items() if row in chosen})
        return {row: vector for row, vector in result.items() if vector.cardinality}

    def shared(self, found: SourceFiles, kept: Rows, snapshot: Snapshot, sink: VectorSink) -> pa.RecordBatch:
        """``add`` actions of the files in rows ``kept``, which both tables list; their vectors are written."""
        place = {int(row): index for index, row in enumerate(kept)}
        vectors = {place[row]: vector for row, vector in self.vectors(found, kept).items()}
        descriptors = write_vectors(sink, vectors, len(kept))
        some = found.files.take(pa.array(kept))
        return iceberg_to_delta_adds(
            some,
            paths=encode_paths(found.locations.take(pa.array(kept)), self.root),
            partition_values=self._partition_values(some, found.spec),
            modification_times=self._modification_times(some, snapshot),
            leaves=self._stats_leaves(),
            deletion_vectors=descriptors,
            lineage=self.design.lineage,
        )

    def rewritten(self, written: WrittenFiles, sources: pa.RecordBatch, snapshot: Snapshot) -> pa.RecordBatch:
        """``add`` actions of files that were written for the target in place of ``sources``, which share a partition."""
        leaves = [_as_written(leaf) for leaf in self._stats_leaves()]
        types = {leaf.field_id: leaf.iceberg for leaf in leaves}
        first, count = sources.slice(0, 1), written.files.num_rows
        spec = self.source.table.metadata.spec_by_id(first.column("spec_id")[0].as_py())
        times = self._modification_times(sources, snapshot)
        same = pa.repeat(pa.scalar(0), count)
        files = written_to_iceberg_files(
            written, types, partition=first.column("partition").take(same), spec_id=spec.spec_id
        )
        return iceberg_to_delta_adds(
            files,
            paths=encode_paths(files.column("file_path"), self.root),
            partition_values=self._partition_values(first, spec).take(same),
            modification_times=pa.repeat(pc.max(times), count),
            leaves=leaves,
        )

    def rewriter(self) -> IcebergRewriter:
        return IcebergRewriter(
            self.source,
            self.design.schema,
            storage=self.storage,
            folder=join(self.root, HIDDEN_FOLDER),
            physical_names=self.design.physical_names,
            type_mappings=self.design.type_mappings,
            with_lineage=self.design.lineage,
            runner=self.runner,
            target_size=self.target_size,
        )

    def _partition_values(self, files: pa.RecordBatch, spec: PartitionSpec) -> pa.StructArray:
        """The texts to log, by physical name."""
        partition = files.column("partition")
        fields = {physical_name(field): field for field in self.design.delta_schema.fields}
        arrays, names = [], []
        for column in self.design.partitioning.columns:
            field = fields[self.design.physical_names[column.source_id]]
            values = pc.struct_field(partition, column.field_names[spec.spec_id])
            arrays.append(encode_partition_values(values, field.type, column=column.name))
            names.append(physical_name(field))
        for derived in self.design.partitioning.derived:
            values = derived.values(pc.struct_field(partition, derived.field_names[spec.spec_id]))
            arrays.append(encode_partition_values(values, derived.type, column=derived.name))
            names.append(derived.name)
        if not arrays:
            return pa.StructArray.from_buffers(pa.struct([]), files.num_rows, [None])
        return pa.StructArray.from_arrays(arrays, names=names)

    def _modification_times(self, files: pa.RecordBatch, snapshot: Snapshot) -> pa.Array:
        """When the snapshot that added each file was committed; this snapshot's time where that one has expired."""
        snapshots = self.source.table.metadata.snapshots
        times = pa.array([each.timestamp_ms for each in snapshots], pa.int64())
        ids = pa.array([each.snapshot_id for each in snapshots], pa.int64())
        found = pc.index_in(files.column("snapshot_id"), value_set=ids)
        return pc.fill_null(times.take(found), snapshot.timestamp_ms)

    def _stats_leaves(self) -> list[LeafPair]:
        """Leaves that have statistics: all but partition columns."""
        sources = {column.source_id for column in self.design.partitioning.columns}
        return [leaf for leaf in self.design.leaves if leaf.field_id not in sources]


def write_vectors(sink: VectorSink, vectors: Mapping[int, DeletionVector], length: int) -> pa.StructArray:
    """Write vectors by row; ADD_SCHEMA's ``deletion_vector`` of a batch of ``length`` files."""
    rows = sorted(vectors)
    pairs = ((vectors[row].blob, vectors[row].cardinality) for row in rows)
    return descriptor_column(sink.write_deletion_vectors(pairs, prefix=HIDDEN_FOLDER), rows, length)


def _as_written(leaf: LeafPair) -> LeafPair:
    """The leaf in a rewritten file, where a mapped type is the target's."""
    kind = delta_to_iceberg_type(leaf.delta) if leaf.mapped else None
    return leaf if kind is None else replace(leaf, iceberg=kind, mapped=False)
