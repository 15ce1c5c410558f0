"""Turn ``add`` actions of one schema into entries of an Iceberg table: shared files, rewritten ones, their deletes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.delta.deletion_vector.deletion_vector import descriptors
from deltaberg.delta.log.file_actions import DELETION_VECTOR
from deltaberg.delta.schema.char_padding import padded
from deltaberg.delta.schema.partition_values import decode_partition_values
from deltaberg.delta.schema.types import StructType
from deltaberg.iceberg.partition.partition_spec import PartitionSpec
from deltaberg.iceberg.schema.types import arrow_type
from deltaberg.migrate.files.rewrite import DeltaRewriter
from deltaberg.migrate.files.rewrite_queue import RewriteQueue, Rewrites, Rewritten
from deltaberg.migrate.files.vector_copy import read_delta_vectors
from deltaberg.migrate.source import DeltaSource
from deltaberg.migrate.to_iceberg.deletes import PositionDeleteFiles, PuffinVectors
from deltaberg.migrate.to_iceberg.source_files import DeltaFiles
from deltaberg.translate.data_files import delta_to_iceberg_files, written_to_iceberg_files
from deltaberg.translate.schema import IcebergSchemaTranslation, LeafPair

DeleteSink = PuffinVectors | PositionDeleteFiles


@dataclass(slots=True, kw_only=True)
class Written:
    """The result for the files: sums, and the new locations of rewritten files by their former ones."""

    files: int = 0
    rows: int = 0
    rewritten: int = 0
    places: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class IcebergEntries:
    """Makes entries from files of one Delta schema.

    source: a version with that schema. rewritten: locations of files to rewrite; without_row_ids: of files whose row
    ids are not carried, and lineage whether those of others are. keep_positions: rewritten files keep deleted rows,
    so that their deletion vectors still fit.
    """

    source: DeltaSource
    schema: StructType
    translation: IcebergSchemaTranslation
    spec: PartitionSpec
    rewriter: DeltaRewriter
    rewritten: frozenset[str]
    without_row_ids: frozenset[str]
    lineage: bool
    partition_timezone: str
    keep_positions: bool = False
    written: Written = field(default_factory=Written)

    def entries(
        self, batches: Iterator[DeltaFiles], deletes: DeleteSink, *, queue: Rewrites | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Entries of status ADDED for every file; its deletion vector goes to ``deletes``. queue: takes the files that
        are rewritten; None: they are rewritten in between.
        """
        rewritten = pa.array(sorted(self.rewritten), pa.string())
        queue = RewriteQueue(self.rewriter) if queue is None else queue
        for batch in batches:
            partition = self._partition(batch.adds)
            anew = _mask(pc.is_in(batch.locations, value_set=rewritten))
            if not anew.all():
                yield self._shared(batch, partition, np.flatnonzero(~anew), deletes)
            if anew.any() and self.keep_positions:
                yield from self._one_for_one(batch, partition, np.flatnonzero(anew), deletes)
            elif anew.any():
                yield from self._rewritten(queue.add(batch.adds.filter(pa.array(anew))))
        yield from self._rewritten(queue.finish())

    def rewrite(self, adds: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Entries of files that are all rewritten, from their ``add`` actions."""
        queue = RewriteQueue(self.rewriter)
        for batch in adds:
            yield from self._rewritten(queue.add(batch))
        yield from self._rewritten(queue.finish())

    def copy_vectors(self, batch: DeltaFiles, deletes: DeleteSink) -> None:
        """Write only the deletion vectors, of files that the table has already."""
        locations = pa.array([self.written.places.get(each, each) for each in batch.locations.to_pylist()], pa.string())
        self._copy_vectors(batch.adds, locations, batch.record_counts, self._partition(batch.adds), deletes)

    def _shared(
        self, batch: DeltaFiles, partition: pa.StructArray, kept: npt.NDArray[np.int64], deletes: DeleteSink
    ) -> pa.RecordBatch:
        """Entries of files that both tables list."""
        place = pa.array(kept)
        adds, locations = batch.adds.take(place), batch.locations.take(place)
        counts, tuples = batch.record_counts.take(place), partition.take(place)
        self._copy_vectors(adds, locations, counts, tuples, deletes)
        self.written.files += adds.num_rows
        self.written.rows += pc.sum(counts).as_py() - (
            pc.sum(pc.struct_field(adds.column("deletion_vector"), "cardinality")).as_py() or 0
        )
        lineage = None
        if self.lineage:
            fresh = pa.array(sorted(self.without_row_ids), pa.string())
            lineage = pc.invert(pc.is_in(locations, value_set=fresh))
        return delta_to_iceberg_files(
            adds,
            locations=locations,
            record_counts=counts,
            partition=tuples,
            leaves=self._leaves(),
            spec_id=self.spec.spec_id,
            lineage=lineage,
        )

    def _copy_vectors(
        self,
        adds: pa.RecordBatch,
        locations: pa.Array,
        counts: pa.Array,
        partition: pa.StructArray,
        deletes: DeleteSink,
    ) -> None:
        rows = np.flatnonzero(_mask(adds.column("deletion_vector").is_valid()))
        if not len(rows):
            return
        place = pa.array(rows)
        wanted = [each for each in descriptors(adds.column("deletion_vector").take(place)) if each is not None]
        snapshot = self.source.snapshot
        vectors = read_delta_vectors(self.source.storage, snapshot.table_root, wanted, counts.take(place).to_pylist())
        names = locations.take(place).to_pylist()
        for row, name, vector in zip(rows.tolist(), names, vectors, strict=True):
            if vector.cardinality:
                deletes.add(name, partition.slice(row, 1), vector)

    def _rewritten(self, done: Iterator[Rewritten]) -> Iterator[pa.RecordBatch]:
        """Entries of files that were written for the target; files without live rows leave nothing."""
        types = {leaf.field_id: leaf.iceberg for leaf in self._leaves()}
        for each in done:
            count = each.written.files.num_rows
            if count:
                self.written.files += count
                self.written.rewritten += count
                self.written.rows += pc.sum(each.written.files.column("record_count")).as_py()
                tuples = self._partition(each.sources.slice(0, 1)).take(pa.repeat(pa.scalar(0), count))
                yield written_to_iceberg_files(each.written, types, partition=tuples, spec_id=self.spec.spec_id)

    def _one_for_one(
        self, batch: DeltaFiles, partition: pa.StructArray, anew: npt.NDArray[np.int64], deletes: DeleteSink
    ) -> Iterator[pa.RecordBatch]:
        """Entries of rewritten files that keep their deleted rows, which are deleted again in the new files."""
        types = {leaf.field_id: leaf.iceberg for leaf in self._leaves()}
        some = batch.adds.take(pa.array(anew))
        for row, written in self.rewriter.rewrite(_without_vectors(some)):
            if not written.files.num_rows:
                continue
            place = int(anew[row])
            location = str(written.files.column("location")[0])
            self.written.places[str(batch.locations[place])] = location
            self.written.files += 1
            self.written.rewritten += 1
            self.written.rows += pc.sum(written.files.column("record_count")).as_py()
            tuples, counts = partition.slice(place, 1), batch.record_counts.slice(place, 1)
            self._copy_vectors(some.slice(row, 1), pa.array([location]), counts, tuples, deletes)
            yield written_to_iceberg_files(written, types, partition=tuples, spec_id=self.spec.spec_id)

    def _partition(self, adds: pa.RecordBatch) -> pa.StructArray:
        """The typed partition tuple of every file."""
        values = adds.column("partition_values")
        wanted = arrow_type(self.spec.partition_type(self.translation.schema))
        arrays = []
        for place, name in enumerate(self.source.snapshot.metadata.partition_columns):
            column = self.schema.field(name)
            typed = decode_partition_values(
                pc.struct_field(values, [place]),
                column.type,
                column=name,
                partition_timezone=self.partition_timezone,
            )
            arrays.append(padded(typed, column).cast(wanted.field(place).type))
        if not arrays:
            return pa.StructArray.from_buffers(pa.struct([]), adds.num_rows, [None])
        return pa.StructArray.from_arrays(arrays, fields=list(wanted))

    def _leaves(self) -> list[LeafPair]:
        """Leaves that have statistics: all but partition columns, which Delta keeps none of."""
        columns = set(self.source.snapshot.metadata.partition_columns)
        return [leaf for leaf in self.translation.leaves if len(leaf.path) > 1 or leaf.name not in columns]


def _without_vectors(adds: pa.RecordBatch) -> pa.RecordBatch:
    place = adds.schema.get_field_index("deletion_vector")
    return adds.set_column(place, adds.schema.field(place), pa.nulls(adds.num_rows, DELETION_VECTOR))


def _mask(values: pa.Array) -> npt.NDArray[np.bool_]:
    return np.asarray(values.to_numpy(zero_copy_only=False), dtype=bool)
