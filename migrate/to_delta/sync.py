"""Bring a Delta target up to date with its Iceberg source: each new snapshot becomes a version, made from what it
changed.

The changes of a snapshot are the difference between its manifests and those of the snapshot before. A commit that
changes only data writes no ``metaData`` action, so that other writers do not conflict with it; the watermark is its
``txn`` action.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.delta.log.actions import Metadata
from deltaberg.delta.log.add_path import path_keys
from deltaberg.delta.protocol.protocol import Protocol
from deltaberg.delta.protocol.required_protocol import new_protocol, protocol_of_new_table
from deltaberg.delta.snapshot import Snapshot as DeltaSnapshot
from deltaberg.delta.table import DeltaTable
from deltaberg.delta.transaction import Transaction, begin_transaction
from deltaberg.errors import Conflict
from deltaberg.iceberg.deletes.resolved_deletes import ResolvedDeletes, resolve_deletes, resolve_matched
from deltaberg.iceberg.deletes.row_deletes import RowDeletes
from deltaberg.iceberg.metadata.snapshot import Snapshot
from deltaberg.iceberg.scan.scan_task import matched_batches
from deltaberg.iceberg.schema.schema import Schema
from deltaberg.iceberg.snapshot_write.snapshot_changes import SnapshotChanges, files_among, snapshot_changes
from deltaberg.iceberg.table import Table
from deltaberg.migrate.files.footers import FooterSampler
from deltaberg.migrate.files.outside_files import outside_of
from deltaberg.migrate.files.vector_copy import DeletionVector
from deltaberg.migrate.source import IcebergSource
from deltaberg.migrate.target.drift import Drift, DriftKind
from deltaberg.migrate.target.locations import real_locations
from deltaberg.migrate.target.watermark import RUN_KEY, WATERMARK_KEY, Watermark, schema_fingerprint
from deltaberg.migrate.to_delta.ancestry import Ancestry, line_of
from deltaberg.migrate.to_delta.design import DELETION_VECTORS_KEY, DeltaConversionPlan, design_delta_increment
from deltaberg.migrate.to_delta.existing import ExistingDelta, metadata_after
from deltaberg.migrate.to_delta.replay import DeltaReplay, DescribedFiles, exchange_files
from deltaberg.migrate.to_delta.survey import DeltaSurvey, examine_files
from deltaberg.migrate.to_delta.writer import DeltaWriter, WrittenDelta
from deltaberg.translate.data_files import encode_paths
from deltaberg.translate.operations import SCHEMA_CHANGED, iceberg_to_delta_operation
from deltaberg.translate.options import ConvertOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingSnapshot:
    """One target commit to make. snapshot: the state to reach, in ``schema``; before: the state that the target has then.
    changes: the difference between the two."""

    before: Snapshot | None
    snapshot: Snapshot | None
    schema: Schema
    changes: SnapshotChanges

    @property
    def repeats(self) -> bool:
        """Whether the snapshot is the one before, and only the schema or the properties have changed."""
        before = None if self.before is None else self.before.snapshot_id
        return before == (None if self.snapshot is None else self.snapshot.snapshot_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaIncrement:
    """The commits that a Delta target needs. metadata: of the table after each pending snapshot, in order."""

    design: DeltaConversionPlan
    pending: tuple[PendingSnapshot, ...]
    metadata: tuple[Metadata, ...]

    @property
    def is_empty(self) -> bool:
        """Whether the target is up to date."""
        return not self.pending


def design_increment(
    source: IcebergSource,
    target: DeltaSnapshot,
    watermark: Watermark,
    options: ConvertOptions,
    root: str,
    *,
    squash: bool,
) -> DeltaIncrement:
    """Decide how the snapshots after the watermark become versions. Read-only; refusals are findings of the design.

    Raises Conflict where the watermark's snapshot has expired.
    """
    table = source.table
    schema = next(
        (each for each in table.metadata.schemas if each.schema_id == watermark.schema_id), table.metadata.schema
    )
    pending = pending_snapshots(source, watermark, root, squash=squash)
    before = pending[0].before
    existing = ExistingDelta.of(target, before, schema)
    schemas = (schema, *(each.schema for each in pending))
    snapshots = tuple(each.snapshot for each in pending if each.snapshot is not None)
    ancestry = line_of(snapshots, schemas)

    def survey(source: IcebergSource, ancestry: Ancestry, deep: bool) -> DeltaSurvey:
        found = DeltaSurvey(footers=FooterSampler(source.storage, deep=True), outside=outside_of(source))
        for each in pending:
            for batch in each.changes.added_files():
                examine_files(found, source, ancestry.union, batch)
        return found

    design = design_delta_increment(source, options, root, existing=existing, ancestry=ancestry, survey_files=survey)
    metadata = []
    state = target.metadata
    for place, each in enumerate(pending):
        properties: dict[str, str | None] = {}
        if not each.repeats and each.changes.deletes:
            properties[DELETION_VECTORS_KEY] = "true"
        if place == len(pending) - 1:
            properties |= _carried_properties(state, design)
        translation = design.translations[place + 1]
        made = metadata_after(state, translation, properties, last_column_id=table.metadata.last_column_id)
        if made is not state:
            reached = watermark_at(watermark, each)
            made = replace(made, configuration={**made.configuration, WATERMARK_KEY: reached.to_text()})
        if made.description != design.description and place == len(pending) - 1:
            made = replace(made, description=design.description)
        metadata.append(made)
        state = made
    if pending[-1].repeats and len(pending) == 1 and metadata[0] is target.metadata:
        return DeltaIncrement(design=design, pending=(), metadata=())
    return DeltaIncrement(design=design, pending=pending, metadata=tuple(metadata))


def watermark_at(watermark: Watermark, pending: PendingSnapshot) -> Watermark:
    """The watermark of a target that holds a pending snapshot."""
    snapshot = pending.snapshot
    return replace(
        watermark,
        version=None if snapshot is None else snapshot.snapshot_id,
        schema_id=pending.schema.schema_id,
        fingerprint=schema_fingerprint(pending.schema),
    )


def _carried_properties(before: Metadata, design: DeltaConversionPlan) -> dict[str, str | None]:
    """The properties that the configuration takes over from the source, and None for those that the source no longer
    has.
    """
    gone = {
        key: None
        for key in before.configuration
        if key.startswith(("iceberg.", "deltaberg.iceberg.")) and key not in design.properties
    }
    return {**gone, **design.properties}


def pending_snapshots(
    source: IcebergSource, watermark: Watermark, root: str, *, squash: bool
) -> tuple[PendingSnapshot, ...]:
    """The commits that lead from the watermark to the source's state, oldest first.

    Where the source went back to an earlier snapshot, or to another line, the first commit leads to the newest snapshot that
    both lines have. Raises Drift where the watermark's snapshot has expired.
    """
    metadata = source.table.metadata
    before = None
    if watermark.version is not None:
        if not metadata.has_snapshot(watermark.version):
            reason = (
                f"snapshot {watermark.version} of {source.location}, which it holds, has expired, or the source was set back "
                "to before it, so that what came after it is not known"
            )
            raise Drift(DriftKind.HISTORY_GONE, root, reason)
        before = metadata.snapshot_by_id(watermark.version)
    head = source.snapshot
    steps: list[Snapshot | None]
    if squash or head is None:
        steps = [head]
    else:
        steps = _steps(source.table, before, head)
    schemas = [source.schema if each is None else metadata.schema_for(each) for each in steps]
    if squash or steps[-1] == before or schemas[-1].fields == source.schema.fields:
        schemas[-1] = source.schema
    else:
        # The schema was changed after the newest snapshot.
        steps, schemas = [*steps, steps[-1]], [*schemas, source.schema]
    result = []
    for snapshot, schema in zip(steps, schemas, strict=True):
        changes = snapshot_changes(source.table, before, snapshot)
        result.append(PendingSnapshot(before=before, snapshot=snapshot, schema=schema, changes=changes))
        before = snapshot
    return tuple(result)


def _steps(table: Table, before: Snapshot | None, head: Snapshot) -> list[Snapshot | None]:
    ancestry = list(table.metadata.ancestors(head.snapshot_id))
    former = {} if before is None else {each.snapshot_id: each for each in table.metadata.ancestors(before.snapshot_id)}
    newer: list[Snapshot | None] = []
    for each in ancestry:
        if each.snapshot_id in former:
            if before is not None and each.snapshot_id != before.snapshot_id:
                newer.append(each)
            break
        newer.append(each)
    if not newer:
        newer = [head]
    return list(reversed(newer))


@dataclass(slots=True, kw_only=True)
class DeltaSync:
    """Commits an increment to the target of a writer."""

    writer: DeltaWriter
    increment: DeltaIncrement
    _replay: DeltaReplay = field(init=False)

    def __post_init__(self) -> None:
        self._replay = DeltaReplay(self.writer)

    def write(self) -> WrittenDelta:
        """One version a pending snapshot. Committed versions stand even if the next one fails.

        Raises DeltaConflict where another writer commits meanwhile, Conflict where the target lacks a file.
        """
        commits: list[tuple[int, int]] = []
        for each, metadata in zip(self.increment.pending, self.increment.metadata, strict=True):
            commits.append((0 if each.snapshot is None else each.snapshot.snapshot_id, self._commit(each, metadata)))
        return self._replay.written(commits)

    def _commit(self, pending: PendingSnapshot, metadata: Metadata) -> int:
        writer, snapshot = self.writer, pending.snapshot
        base = DeltaTable.open(writer.root, writer.storage).snapshot()
        watermark = watermark_at(writer.watermark, pending)
        with begin_transaction(base, now_ms=lambda: writer.clock_ms, new_id=writer.run.new) as transaction:
            if metadata != base.metadata:
                transaction.set_metadata(metadata)
                protocol = protocol_of_new_table(metadata)
                if protocol.min_reader_version > transaction.protocol.min_reader_version:
                    transaction.set_protocol(_by_names(transaction.protocol))
            operation = iceberg_to_delta_operation(None if snapshot is None else snapshot.operation, first=False)
            if pending.repeats:
                operation = SCHEMA_CHANGED
            else:
                self._change_files(transaction, base, pending)
            commit = writer.commit_of(watermark, operation, timestamp_ms=self._timestamp_ms(pending))
            commit = replace(commit, extra_info={**commit.extra_info, RUN_KEY: str(writer.run.value)})
            version = commit.commit(transaction, expected_version=base.version + 1)
        self._replay.committed(transaction)
        return version

    def _timestamp_ms(self, pending: PendingSnapshot) -> int:
        if pending.snapshot is None or pending.repeats:
            return self.writer.source.table.metadata.last_updated_ms
        return pending.snapshot.timestamp_ms

    def _change_files(self, transaction: Transaction, base: DeltaSnapshot, pending: PendingSnapshot) -> None:
        snapshot = pending.snapshot
        changes = pending.changes
        changes_data = snapshot is None or snapshot.operation != "replace"
        if snapshot is not None and len(changes.added):
            for found in self._described(snapshot, changes.added_files()):
                self._replay.add(transaction, found, np.arange(len(found.keys)), snapshot, changes_data=changes_data)
        changed = {} if snapshot is None else self._changed(pending, changes)
        gone = self._keys_of(changes.removed)
        if len(gone) or changed:
            found_keys = exchange_files(transaction, base, gone, changed, changes_data=changes_data)
            self._require_all(found_keys, gone, changed)

    def _described(self, snapshot: Snapshot, batches: Iterable[pa.RecordBatch]) -> Iterator[DescribedFiles]:
        """Data files with their deletes."""
        table = self.writer.source.table
        deletes = RowDeletes(table, snapshot)
        for resolved in resolve_matched(table, deletes, matched_batches(batches, deletes.index)):
            yield self._replay.describe(resolved)

    def _changed(self, pending: PendingSnapshot, changes: SnapshotChanges) -> dict[str, DeletionVector | None]:
        """The new vectors of files that both snapshots have, by key in the target."""
        table, snapshot = self.writer.source.table, pending.snapshot
        assert snapshot is not None
        result: dict[str, DeletionVector | None] = {}
        if changes.touched is not None:
            for found in self._described(snapshot, files_among(table, snapshot, changes.touched)):
                result |= self._replay.vectors(found, np.arange(len(found.keys)))
            return result
        # A delete file may concern any data file: the deleted rows of all of them are compared.
        former = self._deleted_before(resolve_deletes(table, pending.before))
        for resolved in resolve_deletes(table, snapshot):
            found = self._replay.describe(resolved)
            rows = [
                row
                for row, (key, vector) in enumerate(zip(found.keys.to_pylist(), found.vectors.to_pylist(), strict=True))
                if key in former and former[key] != vector
            ]
            result |= self._replay.vectors(found, np.array(rows, dtype=np.int64))
        return result

    def _deleted_before(self, resolved: Iterable[ResolvedDeletes]) -> dict[str, str | None]:
        result: dict[str, str | None] = {}
        for each in resolved:
            found = self._replay.describe(each)
            result.update(zip(found.keys.to_pylist(), found.vectors.to_pylist(), strict=True))
        return result

    def _keys_of(self, paths: pa.Array) -> pa.Array:
        """The target's paths of the source's files that it shares."""
        locations = real_locations(self.writer.source.storage, paths)
        return path_keys(encode_paths(locations, self.writer.root))

    def _require_all(self, found: pa.Array, gone: pa.Array, changed: dict[str, DeletionVector | None]) -> None:
        wanted = pa.concat_arrays([gone.cast(pa.string()), pa.array(list(changed), pa.string())])
        missing = wanted.filter(pc.invert(pc.is_in(wanted, value_set=found)))
        if len(missing):
            raise Conflict(
                f"Cannot go on with {self.writer.root}: it does not list {missing[0].as_py()} under its own name, since the file "
                "was rewritten for the target or taken out of it; choose another --target",
                path=str(missing[0].as_py()),
            )


def _by_names(protocol: Protocol) -> Protocol:
    """The protocol with its features listed, so that readers that do not know one stop."""
    return new_protocol(protocol.features, by_name=True)
