"""A commit that was asked for, and the bytes it comes to at a given place in the log."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pyarrow as pa

from deltaberg.delta import row_tracking
from deltaberg.delta.actions import DomainMetadata, Metadata, Txn
from deltaberg.delta.checksum_writer import CommittedState
from deltaberg.delta.commit_info import commit_info
from deltaberg.delta.commit_writer import CommitWriter
from deltaberg.delta.file_changes import FileChanges
from deltaberg.delta.protocol import Protocol
from deltaberg.delta.snapshot import Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPlace:
    """Where in the log an attempt goes, and what the version before it left.

    ``previous_timestamp_ms``: its in-commit timestamp, or its file's time where these begin with this commit;
    ``high_water_mark``: the highest row id ever assigned.
    """

    version: int
    previous_timestamp_ms: int | None
    high_water_mark: int


FIRST = LogPlace(version=0, previous_timestamp_ms=None, high_water_mark=-1)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedCommit:
    """Everything that does not depend on the place: an attempt behind a faster writer writes the rest anew."""

    base: Snapshot | None
    protocol: Protocol
    metadata: Metadata
    sets_protocol: bool
    sets_metadata: bool
    files: FileChanges
    txns: tuple[Txn, ...]
    domains: tuple[DomainMetadata, ...]
    reads_nothing: bool
    reserved_row_ids: int
    timestamp_ms: int
    operation: str
    parameters: Mapping[str, object]
    metrics: Mapping[str, str] | None
    extra_info: Mapping[str, object]
    transaction_id: str

    def content(self, place: LogPlace) -> tuple[bytes, CommittedState]:
        """The commit file, ``commitInfo`` first, and what the table is once it is there."""
        metadata, timestamp_ms = self.metadata, self.timestamp_ms
        in_commit_timestamp: int | None = None
        if has_in_commit_timestamps(self.protocol, metadata):
            if place.previous_timestamp_ms is not None:
                timestamp_ms = max(timestamp_ms, place.previous_timestamp_ms + 1)
            in_commit_timestamp = timestamp_ms
            if self.base is not None and not has_in_commit_timestamps(self.base.protocol, self.base.metadata):
                metadata = _with_enablement(metadata, place.version, timestamp_ms)
        adds = self.adds(place)
        domains = [*self.domains, *self._row_id_domain(place, adds)]
        writer = CommitWriter()
        writer.action(
            "commitInfo",
            commit_info(
                operation=self.operation,
                parameters=self.parameters,
                metrics=self.files.metrics() if self.metrics is None else self.metrics,
                timestamp_ms=timestamp_ms,
                in_commit_timestamp_ms=in_commit_timestamp,
                read_version=None if self.base is None else self.base.version,
                blind_append=self.reads_nothing and not self.sets_metadata and not self.files.removes,
                transaction_id=self.transaction_id,
                extra=self.extra_info,
            ),
        )
        if self.sets_protocol:
            writer.action("protocol", self.protocol.to_json())
        if self.sets_metadata:
            writer.action("metaData", metadata.to_json())
        for domain in domains:
            writer.action("domainMetadata", domain.to_json())
        for txn in self.txns:
            writer.action("txn", txn.to_json())
        for removed in self.files.removes:
            writer.removes(removed.batch, deletion_timestamp_ms=timestamp_ms, data_change=removed.data_change)
        for batch in adds:
            writer.adds(batch)
        for batch in self.files.change_files:
            writer.change_files(batch)
        state = CommittedState(
            version=place.version,
            protocol=self.protocol,
            metadata=metadata,
            added=self.files.added(),
            removed=self.files.removed(),
            txns=self.txns,
            domain_metadata=tuple(domains),
            in_commit_timestamp_ms=in_commit_timestamp,
            transaction_id=self.transaction_id,
        )
        return writer.content(), state

    def adds(self, place: LogPlace) -> list[pa.RecordBatch]:
        """The files to add, with row ids where the table must have them: above all that were ever given out."""
        adds = list(self.files.all_adds)
        if not adds or not row_tracking.is_supported(self.protocol, self.metadata):
            return adds
        return list(row_tracking.assign(adds, mark=self._mark(place, adds), version=place.version))

    def _mark(self, place: LogPlace, adds: Iterable[pa.RecordBatch]) -> int:
        return max([place.high_water_mark, self.reserved_row_ids, *map(row_tracking.highest_id, adds)])

    def _row_id_domain(self, place: LogPlace, adds: Iterable[pa.RecordBatch]) -> list[DomainMetadata]:
        if not row_tracking.is_supported(self.protocol, self.metadata):
            return []
        mark = self._mark(place, adds)
        return [row_tracking.high_water_mark_action(mark)] if mark > place.high_water_mark else []


def has_in_commit_timestamps(protocol: Protocol, metadata: Metadata) -> bool:
    """Whether commits carry their own timestamps under this protocol and metadata."""
    return protocol.supports("inCommitTimestamp") and metadata.properties.in_commit_timestamps


def _with_enablement(metadata: Metadata, version: int, timestamp_ms: int) -> Metadata:
    configuration = {
        **metadata.configuration,
        "delta.inCommitTimestampEnablementVersion": str(version),
        "delta.inCommitTimestampEnablementTimestamp": str(timestamp_ms),
    }
    return dataclasses.replace(metadata, configuration=configuration)
