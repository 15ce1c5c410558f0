"""A commit that was asked for, and the bytes it comes to at a given place in the log, streamed."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from deltaberg.delta.checkpoint.checksum_writer import CommittedState
from deltaberg.delta.commit.commit_file import CommitContent
from deltaberg.delta.commit.commit_info import commit_info
from deltaberg.delta.commit.commit_writer import action_line, add_lines, remove_lines
from deltaberg.delta.commit.file_changes import FileChanges
from deltaberg.delta.log.actions import DomainMetadata, Metadata, Txn
from deltaberg.delta.protocol import row_tracking
from deltaberg.delta.protocol.protocol import Protocol
from deltaberg.delta.snapshot import Snapshot
from deltaberg.storage.protocol import Chunk


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPlace:
    """The place of an attempt in the log, and the state that the version before it left.

    ``previous_timestamp_ms``: its in-commit timestamp, or its file's time where these begin with this commit;
    ``high_water_mark``: the highest row id ever assigned.
    """

    version: int
    previous_timestamp_ms: int | None
    high_water_mark: int


FIRST = LogPlace(version=0, previous_timestamp_ms=None, high_water_mark=-1)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedCommit:
    """The content that does not depend on the version; an attempt after a faster commit makes the rest again."""

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

    def content(self, place: LogPlace) -> tuple[CommitContent, CommittedState]:
        """The commit file, ``commitInfo`` first, and the state of the table after it."""
        metadata, timestamp_ms = self.metadata, self.timestamp_ms
        in_commit_timestamp: int | None = None
        if has_in_commit_timestamps(self.protocol, metadata):
            if place.previous_timestamp_ms is not None:
                timestamp_ms = max(timestamp_ms, place.previous_timestamp_ms + 1)
            in_commit_timestamp = timestamp_ms
            if self.base is not None and not has_in_commit_timestamps(self.base.protocol, self.base.metadata):
                metadata = _with_enablement(metadata, place.version, timestamp_ms)
        domains = [*self.domains, *self._row_id_domain(place)]
        info = commit_info(
            operation=self.operation,
            parameters=self.parameters,
            metrics=self.files.metrics() if self.metrics is None else self.metrics,
            timestamp_ms=timestamp_ms,
            in_commit_timestamp_ms=in_commit_timestamp,
            read_version=None if self.base is None else self.base.version,
            blind_append=self.reads_nothing and not self.sets_metadata and not any(self.files.removes),
            transaction_id=self.transaction_id,
            extra=self.extra_info,
        )
        small: list[tuple[str, Mapping[str, object]]] = [("commitInfo", info)]
        if self.sets_protocol:
            small.append(("protocol", self.protocol.to_json()))
        if self.sets_metadata:
            small.append(("metaData", metadata.to_json()))
        small.extend(("domainMetadata", domain.to_json()) for domain in domains)
        small.extend(("txn", txn.to_json()) for txn in self.txns)
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
        return CommitContent(self._lines(small, place, timestamp_ms)), state

    def _lines(
        self, small: Iterable[tuple[str, Mapping[str, object]]], place: LogPlace, timestamp_ms: int
    ) -> Iterator[Chunk]:
        for name, body in small:
            yield action_line(name, body)
        for data_change, removed in self.files.removes:
            yield from remove_lines(removed, deletion_timestamp_ms=timestamp_ms, data_change=data_change)
        yield from add_lines(self.adds(place))

    def adds(self, place: LogPlace) -> Iterator[pa.RecordBatch]:
        """The files to add, with row ids where the table must have them: above all that were ever given out."""
        if not row_tracking.is_supported(self.protocol, self.metadata):
            return self.files.all_adds
        return row_tracking.assign(self.files.all_adds, mark=self._mark(place), version=place.version)

    def _mark(self, place: LogPlace) -> int:
        """The highest row id that is taken before the commit gives out its own."""
        given = (self.files.adds.highest_row_id, self.files.recommitted.highest_row_id)
        return max(place.high_water_mark, self.reserved_row_ids, *given)

    def _row_id_domain(self, place: LogPlace) -> list[DomainMetadata]:
        if not row_tracking.is_supported(self.protocol, self.metadata):
            return []
        mark = self._mark(place) + self.files.adds.rows_without_ids + self.files.recommitted.rows_without_ids
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
