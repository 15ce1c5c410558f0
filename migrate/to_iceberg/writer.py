"""Write the Iceberg snapshot that a design describes: one new table, made visible by one put-if-absent."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from deltaberg.delta.schema.types import StructType, TimestampNtzType, TimestampType
from deltaberg.iceberg.create_table import create_table
from deltaberg.iceberg.runtime import Runtime
from deltaberg.iceberg.schema.name_mapping import NAME_MAPPING_PROPERTY
from deltaberg.iceberg.schema.schema import Schema
from deltaberg.iceberg.schema.types import arrow_type
from deltaberg.iceberg.snapshot_write.snapshot_builder import SnapshotBuilder
from deltaberg.iceberg.transaction import Transaction
from deltaberg.migrate.files.rewrite import DeltaRewriter, InThisProcess, RewriteRunner
from deltaberg.migrate.source import DeltaSource
from deltaberg.migrate.target.locations import join
from deltaberg.migrate.target.run_document import RunId
from deltaberg.migrate.target.watermark import (
    LINEAGE_KEY,
    OPTIONS_KEY,
    PLAN_KEY,
    RUN_KEY,
    SOURCE_VERSION_KEY,
    WATERMARK_KEY,
    Watermark,
)
from deltaberg.migrate.to_iceberg.deletes import PositionDeleteFiles, PuffinVectors
from deltaberg.migrate.to_iceberg.design import IcebergConversionPlan
from deltaberg.migrate.to_iceberg.entries import DeleteSink, IcebergEntries, Written
from deltaberg.storage import Storage
from deltaberg.translate.decimal_bounds import may_be_rounded
from deltaberg.translate.operations import APPEND, OVERWRITE
from deltaberg.translate.schema import IcebergSchemaTranslation

GC_ENABLED: Final = "gc.enabled"
_METRICS_KEY: Final = "write.metadata.metrics.column."
_NAMESPACE: Final = uuid.UUID("0d1f4f0c-6f0e-5d5a-9a43-5f4d7a0f9f3e")
_LONG_MAX: Final = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenIceberg:
    """The commits that were made. commits: (source version, snapshot id), oldest first. location: the metadata file."""

    commits: tuple[tuple[int, int], ...]
    location: str
    files: int
    rows: int
    rewritten_files: int


AddFiles = Callable[[SnapshotBuilder], Written]
"""Adds the files of a Delta version to a snapshot, and says what became of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IcebergWriter:
    """Writes a design's version into a new Iceberg table at ``root``.

    plan_name: the plan document, relative to it. runner: rewrites files; target_size: how large they should be. run:
    whose names the new files get.
    """

    source: DeltaSource
    design: IcebergConversionPlan
    root: str
    storage: Storage
    watermark: Watermark
    options_text: str
    partition_timezone: str
    clock_ms: int
    plan_name: str | None = None
    runner: RewriteRunner = field(default_factory=InThisProcess)
    target_size: int | None = None
    run: RunId = field(default_factory=RunId)

    def write(self, add_files: AddFiles, *, merge_manifests: bool | None = None) -> WrittenIceberg:
        """Commit the first snapshot, to which ``add_files`` adds the files. merge_manifests: as in ``SnapshotBuilder``.

        Raises IcebergConflict where a table appeared meanwhile.
        """
        with self.begin(self.design.translation.schema) as transaction:
            builder = self.snapshot(transaction, merge_manifests=merge_manifests)
            written = add_files(builder)
            table = transaction.commit(timestamp_ms=self.clock_ms)
        return WrittenIceberg(
            commits=((self.source.snapshot.version, builder.snapshot_id),),
            location=table.metadata_location,
            files=written.files,
            rows=written.rows,
            rewritten_files=written.rewritten,
        )

    def add_files(self, builder: SnapshotBuilder) -> Written:
        """Make the entries of all files in this process."""
        entries = self.all_entries()
        deletes = self.delete_sink(remembers=False)
        with deletes:
            found = entries.entries(self.design.reader.batches(), deletes)
            builder.add_files(found, keep_inherited=self.design.carries_lineage)
            builder.add_files(deletes.entries())
        return entries.written

    def snapshot(self, transaction: Transaction, *, merge_manifests: bool | None = None) -> SnapshotBuilder:
        """The first snapshot, without files yet."""
        design, version = self.design, self.source.snapshot.version
        return transaction.snapshot(
            OVERWRITE if design.vectors else APPEND,
            snapshot_id=snapshot_id_of(self.watermark, version),
            timestamp_ms=self.source.snapshot.timestamp_ms,
            sequence_number=self.sequence_number(version, design.totals.highest_commit_version),
            first_row_id=design.lineage.next_row_id if design.carries_lineage else None,
            summary=self.summary(version),
            merge_manifests=merge_manifests,
        )

    def summary(self, version: int) -> dict[str, str]:
        """The summary entries about the source in the snapshot that stands for a version: the watermark is committed
        with the files.
        """
        carried = {LINEAGE_KEY: "carried"} if self.design.carries_lineage else {}
        synced = {RUN_KEY: str(self.run.value)} if self.plan_name is None else {}
        position = self.watermark.at(version).to_text()
        return {SOURCE_VERSION_KEY: str(version), WATERMARK_KEY: position, **synced, **carried}

    def sequence_number(self, version: int, highest: int) -> int | None:
        """The sequence number of the snapshot that stands for a version; None in format version 1.

        It is the version plus 1, or ``highest`` of its files' row commit versions where these come from a table that
        had counted further, since no file is younger than its snapshot.
        """
        if self.design.format_version < 2:
            return None
        return max(version + 1, highest if self.design.carries_lineage else 0)

    def begin(self, schema: Schema) -> Transaction:
        """A new table with that schema; nothing is visible before the transaction is committed."""
        return create_table(
            self.storage,
            self.root,
            schema=schema,
            spec=self.design.spec,
            format_version=self.design.format_version,
            properties=self.properties(),
            uuid=str(uuid.uuid5(_NAMESPACE, f"{self.watermark.app_id}|{self.root}|{self.watermark.fingerprint or ''}")),
            timestamp_ms=self.clock_ms,
            last_column_id=self.design.last_column_id,
            runtime=Runtime(new_uuid=lambda: str(self.run.new())),
        )

    def properties(self) -> dict[str, str]:
        """The properties of the new table."""
        return {
            **self.design.properties,
            **{f"{_METRICS_KEY}{name}": "counts" for name in self._widened_columns()},
            NAME_MAPPING_PROPERTY: self.design.name_mapping.to_text(),
            GC_ENABLED: "false",
            WATERMARK_KEY: self.watermark.to_text(),
            OPTIONS_KEY: self.options_text,
            **({} if self.plan_name is None else {PLAN_KEY: self.plan_name}),
        }

    def _widened_columns(self) -> list[str]:
        """Columns whose bounds are not values that occur: Delta cuts timestamps to milliseconds, and decimals may be rounded.

        Engines answer MIN and MAX from bounds unless the table says that it keeps counts only.
        """
        return [
            leaf.name
            for leaf in self.design.translation.leaves
            if not leaf.in_collection
            and (isinstance(leaf.delta, (TimestampType, TimestampNtzType)) or may_be_rounded(arrow_type(leaf.iceberg)))
        ]

    def delete_sink(self, *, remembers: bool = True) -> DeleteSink:
        """Where the deletes of one snapshot are collected. remembers: whether the sink can tell where each one is."""
        kind = PuffinVectors if self.design.format_version >= 3 else PositionDeleteFiles
        spec_id = self.design.spec.spec_id
        folder = join(self.root, "data")
        return kind(self.storage, folder, spec_id=spec_id, new_id=self.run.new, remembers=remembers)

    def all_entries(self) -> IcebergEntries:
        """Makes entries from the files of the version."""
        return self.entries(self.source, self.design.schema, self.design.translation, keep_positions=False)

    def entries(
        self, source: DeltaSource, schema: StructType, translation: IcebergSchemaTranslation, *, keep_positions: bool
    ) -> IcebergEntries:
        """Makes entries from files that were written under a schema; ``source`` is a version with it."""
        rewriter = DeltaRewriter(
            source,
            translation.schema,
            storage=self.storage,
            folder=join(self.root, "data"),
            partition_timezone=self.partition_timezone,
            with_lineage=self.design.carries_lineage,
            runner=self.runner,
            target_size=self.target_size,
        )
        return IcebergEntries(
            source=source,
            schema=schema,
            translation=translation,
            spec=self.design.spec,
            rewriter=rewriter,
            rewritten=self.design.rewritten,
            without_row_ids=self.design.without_row_ids,
            lineage=self.design.carries_lineage,
            partition_timezone=self.partition_timezone,
            keep_positions=keep_positions,
        )


def snapshot_id_of(watermark: Watermark, version: int) -> int:
    """The snapshot id that stands for a version of a source: the same at every run, so that runs can be compared."""
    digest = hashlib.sha256(f"{watermark.app_id}|{version}".encode()).digest()
    return int.from_bytes(digest[:8], "big") & _LONG_MAX
