"""Write the Delta version that a design describes: one commit, made visible by one put-if-absent."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.delta.create_table import create_table, new_metadata
from deltaberg.delta.log.actions import Metadata, Txn
from deltaberg.delta.log.log_path import commit_name, log_folder
from deltaberg.delta.protocol.protocol import Protocol
from deltaberg.delta.protocol.required_protocol import protocol_of_new_table
from deltaberg.delta.schema.column_mapping import MappingMode
from deltaberg.delta.transaction import Transaction
from deltaberg.iceberg.deletes.resolved_deletes import DeletedByKey, resolve_deletes
from deltaberg.migrate.files.rewrite import InThisProcess, RewriteRunner
from deltaberg.migrate.files.rewrite_queue import RewriteQueue
from deltaberg.migrate.source import IcebergSource
from deltaberg.migrate.target.run_document import RunId
from deltaberg.migrate.target.watermark import OPTIONS_KEY, PLAN_KEY, TARGET_VERSION_KEY, WATERMARK_KEY, Watermark
from deltaberg.migrate.to_delta.design import DeltaConversionPlan
from deltaberg.migrate.to_delta.entries import HIDDEN_FOLDER, DeltaEntries
from deltaberg.storage import Storage
from deltaberg.translate.lineage import iceberg_to_delta_lineage_properties
from deltaberg.translate.operations import iceberg_to_delta_operation
from deltaberg.translate.schema import DeltaSchemaTranslation

RETENTION_KEY: Final = "delta.deletedFileRetentionDuration"
_RETENTION: Final = "interval 36500 days"
RULES_GUARANTEED: Final = ("generatedColumns",)
"""Derived columns hold the values of Iceberg's partition tuples."""

_NAMESPACE: Final = uuid.UUID("0d1f4f0c-6f0e-5d5a-9a43-5f4d7a0f9f3e")


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenDelta:
    """The commits that were made. commits: (snapshot id, version), oldest first. location: the newest commit file.

    checkpoint_failure: why the newest checkpoint that was due is not there; None where it is, or none was due.
    """

    commits: tuple[tuple[int, int], ...]
    location: str
    files: int
    rows: int
    rewritten_files: int
    checkpoint_failure: Exception | None = None


@dataclass(slots=True, kw_only=True)
class AddedSums:
    """Sums over the files that were added to a target. checkpoint_failure: as in ``WrittenDelta``."""

    files: int = 0
    rows: int = 0
    rewritten_files: int = 0
    checkpoint_failure: Exception | None = None

    def count(self, adds: pa.RecordBatch) -> None:
        """Add a batch of ADD_SCHEMA: the rows are those that a reader sees."""
        counts = pc.struct_field(adds.column("stats"), "num_records")
        deleted = pc.struct_field(adds.column("deletion_vector"), "cardinality")
        self.files += adds.num_rows
        self.rows += int((pc.sum(counts).as_py() or 0) - (pc.sum(deleted).as_py() or 0))
        self.rewritten_files += int(pc.sum(pc.starts_with(adds.column("path"), f"{HIDDEN_FOLDER}/")).as_py() or 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotCommit:
    """What the commit that stands for a snapshot says beside its files. reserved_row_ids: as in
    ``Transaction.reserve_row_ids``."""

    operation: str
    parameters: Mapping[str, object]
    timestamp_ms: int
    extra_info: Mapping[str, object]
    txn: Txn
    reserved_row_ids: int

    def commit(self, transaction: Transaction, *, expected_version: int) -> int:
        """Commit a transaction whose files are complete. Raises like ``Transaction.commit``."""
        transaction.reserve_row_ids(self.reserved_row_ids)
        transaction.set_txn(self.txn.app_id, self.txn.version, last_updated_ms=self.txn.last_updated)
        return transaction.commit(
            self.operation,
            parameters=self.parameters,
            timestamp_ms=self.timestamp_ms,
            extra_info=self.extra_info,
            rules_guaranteed=RULES_GUARANTEED,
            expected_version=expected_version,
        )


CreateDelta = Callable[[Metadata, SnapshotCommit], AddedSums]
"""Creates the target and commits its first version, with the files of the source's snapshot."""


def _nothing() -> None:
    """Ignores the commit: the default of ``on_commit``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaWriter:
    """Writes a design's snapshot into a new Delta table at ``root``.

    plan_name: the plan document, relative to it. runner: rewrites files; target_size: how large they should be. by_key:
    the rows that equality deletes delete, where tasks have resolved them. on_commit: called by ``write`` as soon as the
    version stands. run: whose names the new files get.
    """

    source: IcebergSource
    design: DeltaConversionPlan
    root: str
    storage: Storage
    watermark: Watermark
    options_text: str
    clock_ms: int
    plan_name: str | None = None
    runner: RewriteRunner = field(default_factory=InThisProcess)
    target_size: int | None = None
    by_key: Callable[[], AbstractContextManager[DeletedByKey | None]] = nullcontext
    on_commit: Callable[[], None] = _nothing
    run: RunId = field(default_factory=RunId)

    def write(self, create: CreateDelta, *, version: int = 0) -> WrittenDelta:
        """Commit the first version, which ``create`` makes visible with its files. version: its number.

        Raises DeltaConflict where a log appeared meanwhile; leaves nothing behind when it fails.
        """
        metadata = self.metadata(self.design.translation, self.watermark, version, created_ms=self.timestamp_ms)
        snapshot = self.source.snapshot
        operation = iceberg_to_delta_operation(None if snapshot is None else snapshot.operation, first=True)
        sums = create(metadata, self.commit_of(self.watermark, operation, timestamp_ms=self.timestamp_ms))
        return self.written(sums, ((self.watermark.version or 0, version),))

    def create_at_once(self, metadata: Metadata, said: SnapshotCommit) -> AddedSums:
        """Make the ``add`` actions of all files in this process, and commit them as version 0."""
        transaction, sums = self.create(metadata), AddedSums()
        for adds in self._adds(transaction):
            transaction.add_files([adds])
            sums.count(adds)
        said.commit(transaction, expected_version=0)
        self.on_commit()
        sums.checkpoint_failure = transaction.checkpoint_when_due().failure
        return sums

    def commit_of(
        self, watermark: Watermark, operation: tuple[str, Mapping[str, object]], *, timestamp_ms: int
    ) -> SnapshotCommit:
        """The commit of the version that holds the source at a watermark."""
        return SnapshotCommit(
            operation=operation[0],
            parameters=operation[1],
            timestamp_ms=timestamp_ms,
            extra_info={WATERMARK_KEY: watermark.to_json()},
            txn=Txn(app_id=watermark.app_id, version=watermark.version or 0, last_updated=self.clock_ms),
            reserved_row_ids=self.next_row_id - 1 if self.design.lineage else -1,
        )

    def written(self, sums: AddedSums, commits: Sequence[tuple[int, int]]) -> WrittenDelta:
        """What was committed; commits: as (snapshot id, version)."""
        return WrittenDelta(
            commits=tuple(commits),
            location=f"{log_folder(self.root)}/{commit_name(commits[-1][1])}",
            files=sums.files,
            rows=sums.rows,
            rewritten_files=sums.rewritten_files,
            checkpoint_failure=sums.checkpoint_failure,
        )

    def create(self, metadata: Metadata) -> Transaction:
        """Begin the first commit of the target."""
        return create_table(
            self.storage,
            self.root,
            metadata=metadata,
            protocol=self.protocol(metadata),
            now_ms=lambda: self.clock_ms,
            new_id=self.run.new,
        )

    def protocol(self, metadata: Metadata) -> Protocol:
        """The protocol of the target's first version, which every later one keeps."""
        return protocol_of_new_table(metadata, by_name=self.design.named_features)

    def metadata(
        self, translation: DeltaSchemaTranslation, watermark: Watermark, version: int, *, created_ms: int
    ) -> Metadata:
        """The metadata of one version of the target, which holds the source at ``position``."""
        design = self.design
        properties: dict[str, str] = {
            **design.properties,
            RETENTION_KEY: _RETENTION,
            WATERMARK_KEY: watermark.to_text(),
            OPTIONS_KEY: self.options_text,
            TARGET_VERSION_KEY: str(version),
        }
        if self.plan_name is not None:
            properties[PLAN_KEY] = self.plan_name
        if design.mode is not MappingMode.NONE:
            properties["delta.columnMapping.maxColumnId"] = str(self.source.table.metadata.last_column_id)
        if any(design.deletes.values()):
            properties["delta.enableDeletionVectors"] = "true"
        if design.lineage:
            properties |= iceberg_to_delta_lineage_properties()
        if len(design.ancestry.snapshots) > 1:
            properties["delta.enableInCommitTimestamps"] = "true"
        return new_metadata(
            translation.schema,
            table_id=str(uuid.uuid5(_NAMESPACE, f"{self.watermark.app_id}|{self.root}")),
            created_time_ms=created_ms,
            partition_columns=design.partition_names(translation),
            configuration=properties,
            column_mapping=design.mode,
            description=design.description,
        )

    @property
    def next_row_id(self) -> int:
        """The lowest row id that the source has not given out."""
        return self.source.table.metadata.next_row_id or 0

    @property
    def timestamp_ms(self) -> int:
        """When the source's snapshot was committed."""
        snapshot = self.source.snapshot
        return self.source.table.metadata.last_updated_ms if snapshot is None else snapshot.timestamp_ms

    def _adds(self, transaction: Transaction) -> Iterator[pa.RecordBatch]:
        snapshot = self.source.snapshot
        if snapshot is None:
            return
        entries = self.entries()
        with self.by_key() as by_key:
            resolved = resolve_deletes(self.source.table, snapshot, by_key=by_key)
            yield from entries.adds(resolved, snapshot, transaction, RewriteQueue(entries.rewriter()))

    def entries(self) -> DeltaEntries:
        return DeltaEntries(
            source=self.source,
            design=self.design,
            root=self.root,
            storage=self.storage,
            runner=self.runner,
            target_size=self.target_size,
        )
