"""One commit: collect actions, check them, write the next version, retry behind faster writers.

PROTOCOL "Delta Log Entries" and "Requirements for Writers". The outcome has three names: a version is returned;
DeltaConflict and every other error mean that nothing was committed and the files that the transaction wrote are
deleted; DeltaCommitStateUnknown means that the outcome is unknown, and nothing is deleted.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.delta.checkpoint.checkpoint import checkpoint_snapshot, checkpoint_state, policy
from deltaberg.delta.checkpoint.checkpoint_writer import CheckpointKind, WrittenCheckpoint, write_checkpoint
from deltaberg.delta.checkpoint.checksum_writer import CommittedState, write_checksum
from deltaberg.delta.commit.commit_attempt import FIRST, LogPlace, PlannedCommit, has_in_commit_timestamps
from deltaberg.delta.commit.commit_file import put_version
from deltaberg.delta.commit.conflict_checker import Intent, Reads, check_conflict
from deltaberg.delta.commit.file_changes import FileChanges, conformed, require_counts_with_vectors
from deltaberg.delta.commit.live_file_checks import check_live_files
from deltaberg.delta.commit.metadata_change import check_metadata_change
from deltaberg.delta.deletion_vector.deletion_vector import DeletionVectorDescriptor
from deltaberg.delta.deletion_vector.deletion_vector_file import discard, write_deletion_vectors
from deltaberg.delta.errors import DeltaConflict, InvalidDeltaRequest
from deltaberg.delta.log.actions import DomainMetadata, Metadata, Txn
from deltaberg.delta.log.add_path import path_keys
from deltaberg.delta.log.log_path import commit_name, log_folder
from deltaberg.delta.protocol import row_tracking
from deltaberg.delta.protocol.iceberg_compat import active_version, check_adds, check_table
from deltaberg.delta.protocol.protocol import Protocol
from deltaberg.delta.protocol.required_protocol import features_in_use, protocol_of_new_table, upgraded_protocol
from deltaberg.delta.protocol.writer_requirements import check_commit, require_writable
from deltaberg.delta.schema.column_mapping import ColumnMapping
from deltaberg.delta.snapshot import Snapshot
from deltaberg.delta.table import DeltaTable
from deltaberg.errors import DeltabergError, error_context
from deltaberg.storage.commit_put import CommitIntent, PutOutcome
from deltaberg.storage.protocol import Storage

if TYPE_CHECKING:
    from typing_extensions import Self

_NOTHING: Mapping[str, object] = MappingProxyType({})
_ATTEMPTS = 50
MANY_FILES = 10_000
"""Files in one commit from which a checkpoint pays at once."""

_WRITABLE_DOMAINS = {"delta.clustering": "clustering"}


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointAttempt:
    """The outcome of a checkpoint; both fields are empty when none was due."""

    written: WrittenCheckpoint | None = None
    failure: Exception | None = None


class Transaction:
    """The actions of one commit on top of ``base``, or of a table's first commit where that is None.

    As a context manager it aborts at exit when nothing was committed.
    """

    def __init__(
        self,
        *,
        storage: Storage,
        table_root: str,
        base: Snapshot | None,
        protocol: Protocol,
        metadata: Metadata,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        new_id: Callable[[], uuid.UUID] = uuid.uuid4,
    ) -> None:
        self.storage = storage
        self.table_root = table_root
        self._base = base
        self._protocol, self._metadata = protocol, metadata
        self._now_ms, self._new_id = now_ms, new_id
        self._sets_protocol = self._sets_metadata = base is None
        self._files = FileChanges()
        self._txns: dict[str, Txn] = {}
        self._domains: dict[str, DomainMetadata] = {}
        self._reads = Reads.NOTHING
        self._reserved_row_ids = -1
        self._written: list[str] = []
        self._finished = False
        self._intent = CommitIntent(storage)
        self._plan: PlannedCommit | None = None
        self._committed: CommittedState | None = None

    @property
    def protocol(self) -> Protocol:
        """The protocol after the commit."""
        return self._protocol

    @property
    def metadata(self) -> Metadata:
        """The metadata after the commit."""
        return self._metadata

    @property
    def base(self) -> Snapshot | None:
        """The snapshot that the transaction was begun on."""
        return self._base

    @property
    def column_mapping(self) -> ColumnMapping:
        """The mapping after the commit."""
        return ColumnMapping.of(self._protocol, self._metadata)

    @property
    def partition_names(self) -> tuple[str, ...]:
        """Physical names of the partition columns, in the table's order: the members of ``partition_values``."""
        mapping = self.column_mapping
        return tuple(
            mapping.physical_name(self._metadata.schema.field(name)) for name in self._metadata.partition_columns
        )

    def set_metadata(self, metadata: Metadata) -> None:
        """Replace the table's metadata; features that it uses and the protocol lacks are added to the protocol.

        Raises InvalidDeltaRequest for a change that the protocol forbids.
        """
        if self._base is not None:
            check_metadata_change(self._base.metadata, metadata)
        self._metadata = metadata
        self._sets_metadata = True
        self._require_features(features_in_use(metadata, domains=self._domains))

    def set_protocol(self, protocol: Protocol) -> None:
        """Replace the protocol. Raises InvalidDeltaRequest where a feature of the table would be dropped."""
        for feature in self._protocol.features:
            if not protocol.supports(feature):
                raise InvalidDeltaRequest(
                    f"Cannot change the protocol: it would no longer support {feature} (features are never removed here)",
                    feature=feature,
                )
        require_writable(Protocol.from_json(protocol.to_json()))
        self._protocol = protocol
        self._sets_protocol = True

    def add_files(self, batches: Iterable[pa.RecordBatch], *, recommitted: bool = False) -> None:
        """Add files: batches of ADD_SCHEMA, of which path, partition_values, size, modification_time and data_change
        must be there. ``recommitted``: files that are live already with the same deletion vector, committed again with
        other statistics, tags or row ids.

        Raises InvalidDeltaRequest for a batch that cannot be committed to this table. A new file that is live already,
        and one committed again that is not, are refused by ``commit``.
        """
        names = self.partition_names
        target = self._files.recommitted if recommitted else self._files.adds
        for batch in batches:
            if batch.num_rows:
                full = conformed(batch, names)
                require_counts_with_vectors(full)
                target.append(full)

    def remove_files(self, batches: Iterable[pa.RecordBatch], *, data_change: bool = True) -> None:
        """Remove live files, given by the rows of their adds as ``Snapshot.add_files`` yields them.

        A file whose deletion vector changes is removed as it was and added as it is to be. ``commit`` refuses a file that
        is not live, or not with that deletion vector.
        """
        names = self.partition_names if self._base is None else _partition_names(self._base)
        for batch in batches:
            if batch.num_rows:
                self._files.remove(conformed(batch, names), data_change=data_change)
        self._reads = max(self._reads, Reads.REMOVED_FILES, key=list(Reads).index)

    def write_deletion_vectors(
        self, vectors: Iterable[tuple[bytes, int]], *, prefix: str = ""
    ) -> tuple[DeletionVectorDescriptor, ...]:
        """Write (magic and bitmap, cardinality) pairs to files of this transaction; see ``deletion_vector_file``."""
        written = write_deletion_vectors(self.storage, self.table_root, vectors, new_id=self._new_id, prefix=prefix)
        self._written.extend(written.locations)
        return written.descriptors

    def read_table(self) -> None:
        """State that the commit depends on all files of the table: any concurrent change of them is a conflict."""
        self._reads = Reads.WHOLE_TABLE

    def set_txn(self, app_id: str, version: int, *, last_updated_ms: int | None = None) -> None:
        """Record how far an application has come, atomically with the commit."""
        self._txns[app_id] = Txn(app_id=app_id, version=version, last_updated=last_updated_ms)

    def reserve_row_ids(self, mark: int) -> None:
        """State that every row id up to ``mark`` has been given out, whether or not a live file has it still."""
        self._reserved_row_ids = max(self._reserved_row_ids, mark)

    def set_domain_metadata(self, domain: str, configuration: str) -> None:
        """Set a metadata domain. Raises InvalidDeltaRequest for a system-controlled one that deltaberg does not own."""
        self._set_domain(DomainMetadata(domain=domain, configuration=configuration))

    def remove_domain_metadata(self, domain: str) -> None:
        """Remove a metadata domain; its last configuration is kept in the tombstone."""
        known = {} if self._base is None else self._base.domain_metadata
        before = known.get(domain)
        if before is None:
            raise InvalidDeltaRequest(f"Cannot remove the metadata domain {domain!r}: the table has none of that name")
        self._set_domain(DomainMetadata(domain=domain, configuration=before.configuration, removed=True))

    def commit(
        self,
        operation: str,
        *,
        parameters: Mapping[str, object] = _NOTHING,
        metrics: Mapping[str, str] | None = None,
        timestamp_ms: int | None = None,
        extra_info: Mapping[str, object] = _NOTHING,
        expected_version: int | None = None,
        copies_rows: bool | None = None,
        rules_guaranteed: Iterable[str] = (),
        attempts: int = _ATTEMPTS,
    ) -> int:
        """Write the next version and return its number.

        timestamp_ms: of the commit and of the removals, milliseconds since 1970; the clock's when None. An in-commit
        timestamp is made later than the one before. metrics: ``operationMetrics``, computed when None. extra_info: more
        members of ``commitInfo``. expected_version: commit as this version or not at all. copies_rows: whether added
        files repeat rows of removed ones, which matters to a change data feed; None assumes so when rows are added and
        removed. rules_guaranteed: features whose rules about rows (checkConstraints, invariants, generatedColumns,
        identityColumns) the caller guarantees.

        Raises DeltaConflict when a faster commit excludes this one, InvalidDeltaRequest and UnsupportedDeltaFeature for
        a commit that this table does not allow, DeltaCommitStateUnknown when the outcome cannot be learnt.
        """
        if self._finished:
            raise InvalidDeltaRequest("Cannot commit a transaction twice: begin another one")
        self._finished = True
        plan = PlannedCommit(
            base=self._base,
            protocol=self._protocol,
            metadata=self._metadata,
            sets_protocol=self._sets_protocol,
            sets_metadata=self._sets_metadata,
            files=self._files,
            txns=tuple(self._txns.values()),
            domains=tuple(self._domains.values()),
            reads_nothing=self._reads is Reads.NOTHING,
            reserved_row_ids=self._reserved_row_ids,
            timestamp_ms=self._now_ms() if timestamp_ms is None else timestamp_ms,
            operation=operation,
            parameters=parameters,
            metrics=metrics,
            extra_info=extra_info,
            transaction_id=str(self._new_id()),
        )
        try:
            with error_context(table=self.table_root):
                self._check(copies_rows, frozenset(rules_guaranteed))
                committed = self._put(plan, expected_version, attempts)
        except BaseException:
            if not self._intent.may_stand:
                discard(self.storage, self._written)
            raise
        self._plan, self._committed = plan, committed
        write_checksum(self.storage, log_folder(self.table_root), committed)
        return committed.version

    def abort(self) -> None:
        """Give up before the commit: the files that the transaction wrote are deleted. Without effect once a commit was
        tried.
        """
        if not self._finished:
            self._finished = True
            discard(self.storage, self._written)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Abort a transaction that was not committed."""
        self.abort()

    def checkpoint(self, *, kind: CheckpointKind | None = None) -> WrittenCheckpoint:
        """Checkpoint the version that was committed; ``kind`` None follows the table's policy.

        A table's first version is written from memory, without reading the log back.
        """
        plan, committed = self._plan, self._committed
        if plan is None or committed is None:
            raise InvalidDeltaRequest("Cannot checkpoint: the transaction has committed no version")
        if self._base is not None:
            snapshot = DeltaTable(self.table_root, self.storage).snapshot(committed.version)
            return checkpoint_snapshot(snapshot, now_ms=self._now_ms(), kind=kind, new_id=self._new_id)
        state = checkpoint_state(
            version=committed.version,
            protocol=committed.protocol,
            metadata=committed.metadata,
            txns=committed.txns,
            domain_metadata=committed.domain_metadata,
            adds=plan.adds(FIRST),
        )
        return write_checkpoint(
            self.storage,
            log_folder(self.table_root),
            state,
            kind=policy(self._protocol, self._metadata) if kind is None else kind,
            new_id=lambda: str(self._new_id()),
            now_ms=self._now_ms(),
        )

    def checkpoint_when_due(self, *, many_files: int = MANY_FILES) -> CheckpointAttempt:
        """Checkpoint the version that was committed if that is due: every ``delta.checkpointInterval`` versions, and
        after a commit of ``many_files``, whose JSON every reader would have to parse.

        The commit stands either way, so a failure is reported and not raised.
        """
        committed = self._committed
        if committed is None:
            raise InvalidDeltaRequest("Cannot checkpoint: the transaction has committed no version")
        interval = committed.metadata.properties.checkpoint_interval
        is_turn = committed.version > 0 and interval > 0 and committed.version % interval == 0
        if not is_turn and committed.added.files + committed.removed.files < many_files:
            return CheckpointAttempt()
        try:
            return CheckpointAttempt(written=self.checkpoint())
        except (DeltabergError, pa.ArrowException, MemoryError, OSError) as error:
            return CheckpointAttempt(failure=error)

    def _put(self, plan: PlannedCommit, expected_version: int | None, attempts: int) -> CommittedState:
        base = self._base
        place = FIRST
        if base is not None:
            stamped = has_in_commit_timestamps(self._protocol, self._metadata)
            place = LogPlace(
                version=base.version + 1,
                previous_timestamp_ms=base.timestamp_ms if stamped else None,
                high_water_mark=row_tracking.high_water_mark(base.domain_metadata.values()),
            )
        if expected_version is not None and expected_version != place.version:
            raise DeltaConflict(
                f"Cannot commit version {expected_version}: the transaction was begun on version {place.version - 1} "
                f"(expected {expected_version - 1})"
            )
        for _ in range(attempts):
            content, state = plan.content(place)
            outcome = put_version(self.storage, self._commit_location(place.version), content, self._intent)
            if outcome is PutOutcome.COMMITTED:
                return state
            if base is None or expected_version is not None:
                raise DeltaConflict(f"Cannot commit version {place.version}: it exists already", version=place.version)
            place = self._behind_winners(base, place)
        raise DeltaConflict(f"Cannot commit: {attempts} attempts found a faster writer each time; try again later")

    def _behind_winners(self, base: Snapshot, place: LogPlace) -> LogPlace:
        intent = Intent(
            reads=self._reads if not (self._sets_metadata or self._sets_protocol) else Reads.WHOLE_TABLE,
            added=self._files.added_keys(),
            removed=self._files.removed_keys(),
            txn_app_ids=frozenset(self._txns),
            domains=frozenset(self._domains),
        )
        while self.storage.exists(self._commit_location(place.version)):
            winner = base.changes(place.version)
            check_conflict(intent, winner)
            timestamp = None if winner.commit_info is None else winner.commit_info.in_commit_timestamp
            mark = row_tracking.high_water_mark(winner.domain_metadata)
            place = LogPlace(
                version=place.version + 1,
                previous_timestamp_ms=place.previous_timestamp_ms if timestamp is None else timestamp,
                high_water_mark=max(place.high_water_mark, mark),
            )
        return place

    def _check(self, copies_rows: bool | None, rules_guaranteed: frozenset[str]) -> None:
        require_writable(self._protocol)
        if self._base is not None:
            require_writable(self._base.protocol)
        ColumnMapping.of(self._protocol, self._metadata)
        check_table(self._protocol, self._metadata, replaced=None if self._base is None else self._base.metadata)
        self._files.check()
        if self._base is not None:
            check_live_files(self._base, self._files)
        shape = self._files.shape(copies_rows=copies_rows)
        check_commit(self._protocol, self._metadata, shape, rules_guaranteed=rules_guaranteed)
        compat = active_version(self._protocol, self._metadata)
        if compat is not None:
            for batch in self._files.all_adds:
                check_adds(compat, batch)
        self._check_row_tracking()

    def _check_row_tracking(self) -> None:
        files = self._files
        if not self._protocol.supports("rowTracking") and (files.adds.has_row_ids or files.recommitted.has_row_ids):
            raise InvalidDeltaRequest(
                "Cannot commit row ids: the protocol does not support rowTracking", feature="rowTracking"
            )
        base = self._base
        if (
            base is None
            or not row_tracking.is_enabled(self._protocol, self._metadata)
            or row_tracking.is_enabled(base.protocol, base.metadata)
        ):
            return
        touched = pa.concat_arrays([self._files.removed_keys(), self._files.added_keys()])
        for batch in base.add_files():
            bare = batch.filter(pc.is_null(batch.column("base_row_id")))
            left = bare.filter(pc.invert(pc.is_in(path_keys(bare.column("path")), touched)))
            if left.num_rows:
                raise InvalidDeltaRequest(
                    "Cannot enable row tracking: a live file has no baseRowId (expected it committed again first)",
                    path=left.column("path")[0].as_py(),
                    feature="rowTracking",
                )

    def _require_features(self, features: Iterable[str]) -> None:
        protocol = upgraded_protocol(self._protocol, features)
        if protocol is not self._protocol:
            if self._base is None and self._protocol.writer_features is None:
                # No version exists yet that could have used the features that the legacy versions imply.
                protocol = protocol_of_new_table(self._metadata, features)
            self._protocol = protocol
            self._sets_protocol = True

    def _set_domain(self, action: DomainMetadata) -> None:
        if action.is_system_controlled and action.domain not in _WRITABLE_DOMAINS:
            raise InvalidDeltaRequest(
                f"Cannot change the metadata domain {action.domain!r}: domains that begin with delta. are the system's"
            )
        self._domains[action.domain] = action
        self._require_features(("domainMetadata", *filter(None, (_WRITABLE_DOMAINS.get(action.domain),))))

    def _commit_location(self, version: int) -> str:
        return f"{log_folder(self.table_root)}/{commit_name(version)}"


def begin_transaction(
    snapshot: Snapshot,
    *,
    now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    new_id: Callable[[], uuid.UUID] = uuid.uuid4,
) -> Transaction:
    """Begin a commit on top of a snapshot. Raises UnsupportedDeltaFeature for a table that deltaberg cannot write."""
    require_writable(snapshot.protocol)
    return Transaction(
        storage=snapshot.storage,
        table_root=snapshot.table_root,
        base=snapshot,
        protocol=snapshot.protocol,
        metadata=snapshot.metadata,
        now_ms=now_ms,
        new_id=new_id,
    )


def _partition_names(snapshot: Snapshot) -> tuple[str, ...]:
    metadata, mapping = snapshot.metadata, snapshot.column_mapping
    return tuple(mapping.physical_name(metadata.schema.field(name)) for name in metadata.partition_columns)
