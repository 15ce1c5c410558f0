"""Write the Iceberg snapshot that a design describes: one new table, made visible by one put-if-absent."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.delta.char_padding import padded
from deltaberg.delta.deletion_vector import descriptors
from deltaberg.delta.partition_values import decode_partition_values
from deltaberg.delta.types import TimestampNtzType, TimestampType
from deltaberg.iceberg.create_table import create_table
from deltaberg.iceberg.name_mapping import NAME_MAPPING_PROPERTY
from deltaberg.iceberg.types import arrow_type
from deltaberg.migrate.delta_files import DeltaFiles
from deltaberg.migrate.iceberg_deletes import PositionDeleteFiles, PuffinVectors
from deltaberg.migrate.iceberg_target import IcebergDesign
from deltaberg.migrate.locations import join
from deltaberg.migrate.position import OPTIONS_KEY, POSITION_KEY, SOURCE_VERSION_KEY, Position
from deltaberg.migrate.rewrite import DeltaRewriter
from deltaberg.migrate.source import DeltaSource
from deltaberg.migrate.vector_copy import read_delta_vectors
from deltaberg.storage import Storage
from deltaberg.translate.data_files import delta_to_iceberg_files, written_to_iceberg_files
from deltaberg.translate.decimal_bounds import may_be_rounded
from deltaberg.translate.history import APPEND, OVERWRITE
from deltaberg.translate.schema import LeafPair

GC_ENABLED: Final = "gc.enabled"
_METRICS_KEY: Final = "write.metadata.metrics.column."
_NAMESPACE: Final = uuid.UUID("0d1f4f0c-6f0e-5d5a-9a43-5f4d7a0f9f3e")
_LONG_MAX: Final = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenIceberg:
    """What was committed. version: the snapshot id. location: the metadata file."""

    version: int
    location: str
    files: int
    rows: int
    rewritten_files: int


@dataclass(slots=True)
class _Count:
    files: int = 0
    rows: int = 0
    rewritten: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class IcebergWriter:
    """Writes a design's version into a new Iceberg table at ``root``."""

    source: DeltaSource
    design: IcebergDesign
    root: str
    storage: Storage
    position: Position
    options_text: str
    partition_timezone: str
    clock_ms: int
    count: _Count = field(default_factory=_Count)

    def write(self) -> WrittenIceberg:
        """Commit the first snapshot. Raises IcebergConflict where a table appeared meanwhile."""
        design, version = self.design, self.source.snapshot.version
        transaction = create_table(
            self.storage,
            self.root,
            schema=design.translation.schema,
            spec=design.spec,
            format_version=design.format_version,
            properties=self._properties(),
            uuid=str(uuid.uuid5(_NAMESPACE, f"{self.position.app_id}|{self.root}")),
            timestamp_ms=self.clock_ms,
            last_column_id=design.last_column_id,
        )
        with transaction:
            builder = transaction.snapshot(
                OVERWRITE if design.totals.vectors else APPEND,
                snapshot_id=snapshot_id_of(self.position, version),
                timestamp_ms=self.source.snapshot.timestamp_ms,
                sequence_number=version + 1 if design.format_version >= 2 else None,
                first_row_id=design.lineage.next_row_id if design.carries_lineage else None,
                summary={SOURCE_VERSION_KEY: str(version), POSITION_KEY: self.position.to_text()},
            )
            deletes = self._delete_sink()
            with deletes:
                builder.add_files(self._data_files(deletes), keep_inherited=design.carries_lineage)
                builder.add_files(deletes.entries())
            table = transaction.commit(timestamp_ms=self.clock_ms)
        return WrittenIceberg(
            version=builder.snapshot_id,
            location=table.metadata_location,
            files=self.count.files,
            rows=self.count.rows,
            rewritten_files=self.count.rewritten,
        )

    def _properties(self) -> dict[str, str]:
        return {
            **self.design.properties,
            **{f"{_METRICS_KEY}{name}": "counts" for name in self._widened_columns()},
            NAME_MAPPING_PROPERTY: self.design.name_mapping.to_text(),
            GC_ENABLED: "false",
            POSITION_KEY: self.position.to_text(),
            OPTIONS_KEY: self.options_text,
        }

    def _widened_columns(self) -> list[str]:
        """Columns whose bounds are not values that occur: Delta cuts timestamps to milliseconds, and decimals may be rounded.

        Engines answer MIN and MAX from bounds unless the table says that it keeps counts only.
        """
        return [
            leaf.name
            for leaf in self.design.translation.leaves
            if not leaf.in_collection
            and (
                isinstance(leaf.delta, (TimestampType, TimestampNtzType)) or may_be_rounded(arrow_type(leaf.iceberg))
            )
        ]

    def _delete_sink(self) -> PuffinVectors | PositionDeleteFiles:
        kind = PuffinVectors if self.design.format_version >= 3 else PositionDeleteFiles
        return kind(self.storage, join(self.root, "data"), spec_id=self.design.spec.spec_id)

    # Files

    def _data_files(self, deletes: PuffinVectors | PositionDeleteFiles) -> Iterator[pa.RecordBatch]:
        rewriter = self._rewriter()
        rewritten = pa.array(sorted(self.design.rewritten), pa.string())
        for batch in self.design.reader.batches():
            partition = self._partition(batch)
            anew = _mask(pc.is_in(batch.locations, value_set=rewritten))
            if not anew.all():
                yield self._shared(batch, partition, np.flatnonzero(~anew), deletes)
            if anew.any():
                yield from self._rewritten(rewriter, batch, partition, np.flatnonzero(anew))

    def _shared(
        self,
        batch: DeltaFiles,
        partition: pa.StructArray,
        kept: npt.NDArray[np.int64],
        deletes: PuffinVectors | PositionDeleteFiles,
    ) -> pa.RecordBatch:
        """Entries of files that both tables list; their vectors go to ``deletes``."""
        place = pa.array(kept)
        adds, locations = batch.adds.take(place), batch.locations.take(place)
        counts, tuples = batch.record_counts.take(place), partition.take(place)
        self._copy_vectors(adds, locations, counts, tuples, deletes)
        self.count.files += adds.num_rows
        self.count.rows += pc.sum(counts).as_py() - (
            pc.sum(pc.struct_field(adds.column("deletion_vector"), "cardinality")).as_py() or 0
        )
        lineage = None
        if self.design.carries_lineage:
            fresh = pa.array(sorted(self.design.fresh_rows), pa.string())
            lineage = pc.invert(pc.is_in(locations, value_set=fresh))
        return delta_to_iceberg_files(
            adds,
            locations=locations,
            record_counts=counts,
            partition=tuples,
            leaves=self._leaves(),
            spec_id=self.design.spec.spec_id,
            lineage=lineage,
        )

    def _copy_vectors(
        self,
        adds: pa.RecordBatch,
        locations: pa.Array,
        counts: pa.Array,
        partition: pa.StructArray,
        deletes: PuffinVectors | PositionDeleteFiles,
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

    def _rewritten(
        self, rewriter: DeltaRewriter, batch: DeltaFiles, partition: pa.StructArray, anew: npt.NDArray[np.int64]
    ) -> Iterator[pa.RecordBatch]:
        """Entries of files that were written for the target; files without live rows leave nothing."""
        types = {leaf.field_id: leaf.iceberg for leaf in self._leaves()}
        for row, written in rewriter.rewrite(batch.adds.take(pa.array(anew))):
            if not written.files.num_rows:
                continue
            self.count.files += 1
            self.count.rewritten += 1
            self.count.rows += pc.sum(written.files.column("record_count")).as_py()
            yield written_to_iceberg_files(
                written, types, partition=partition.slice(int(anew[row]), 1), spec_id=self.design.spec.spec_id
            )

    def _partition(self, batch: DeltaFiles) -> pa.StructArray:
        """The typed partition tuple of every file."""
        values = batch.adds.column("partition_values")
        wanted = arrow_type(self.design.spec.partition_type(self.design.translation.schema))
        arrays = []
        for place, name in enumerate(self.source.snapshot.metadata.partition_columns):
            column = self.design.schema.field(name)
            typed = decode_partition_values(
                pc.struct_field(values, [place]),
                column.type,
                column=name,
                partition_timezone=self.partition_timezone,
            )
            arrays.append(padded(typed, column).cast(wanted.field(place).type))
        if not arrays:
            return pa.StructArray.from_buffers(pa.struct([]), batch.adds.num_rows, [None])
        return pa.StructArray.from_arrays(arrays, fields=list(wanted))

    def _leaves(self) -> list[LeafPair]:
        """Leaves that have statistics: all but partition columns, which Delta keeps none of."""
        columns = set(self.source.snapshot.metadata.partition_columns)
        return [leaf for leaf in self.design.translation.leaves if len(leaf.path) > 1 or leaf.name not in columns]

    def _rewriter(self) -> DeltaRewriter:
        return DeltaRewriter(
            self.source,
            self.design.translation.schema,
            storage=self.storage,
            folder=join(self.root, "data"),
            partition_timezone=self.partition_timezone,
            with_lineage=self.design.carries_lineage,
        )


def snapshot_id_of(position: Position, version: int) -> int:
    """The snapshot id that stands for a version of a source: the same at every run, so that runs can be compared."""
    digest = hashlib.sha256(f"{position.app_id}|{version}".encode()).digest()
    return int.from_bytes(digest[:8], "big") & _LONG_MAX


def _mask(values: pa.Array) -> npt.NDArray[np.bool_]:
    return np.asarray(values.to_numpy(zero_copy_only=False), dtype=bool)
