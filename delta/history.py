"""The commits of a table: writer, operation and time, and the actions of each. PROTOCOL "Commit Provenance
Information".
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from deltaberg.delta.errors import CorruptLog
from deltaberg.delta.log.actions import CommitInfo, DomainMetadata, Metadata, Txn
from deltaberg.delta.log.add_file import add_rows_with_stats, table_add_schema
from deltaberg.delta.log.commit_reader import LoggedAction, no_file_actions, parse_file_actions, read_action_lines
from deltaberg.delta.log.log_path import LogFile
from deltaberg.delta.log.log_replay import reconcile_non_file_actions, replay_file_actions
from deltaberg.delta.protocol.protocol import Protocol
from deltaberg.delta.schema.column_mapping import ColumnMapping
from deltaberg.errors import error_context
from deltaberg.storage.errors import NotFound
from deltaberg.storage.protocol import Storage

_FIRST_BYTES: Final = 1 << 16
_INFO: Final = re.compile(rb'\s*\{\s*"commitInfo"\s*:')


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitActions:
    """The actions of one commit. ``metadata`` and ``protocol`` are None where it left them as they were.

    ``adds`` are rows of the table's ADD_SCHEMA in force after the commit, ``removes`` rows of
    ``file_actions.remove_rows``, ``change_files`` of ``file_actions.change_file_rows``. ``modified_ms`` is the time of
    the commit file, milliseconds since 1970.
    """

    version: int
    modified_ms: int
    adds: pa.RecordBatch = field(repr=False)
    removes: pa.RecordBatch = field(repr=False)
    change_files: pa.RecordBatch = field(repr=False)
    metadata: Metadata | None
    protocol: Protocol | None
    txns: tuple[Txn, ...]
    domain_metadata: tuple[DomainMetadata, ...]
    commit_info: CommitInfo | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitSummary:
    """One line of the history. ``timestamp_ms`` as ``Snapshot.timestamp_ms`` has it."""

    version: int
    timestamp_ms: int
    commit_info: CommitInfo | None

    @property
    def operation(self) -> str | None:
        return None if self.commit_info is None else self.commit_info.operation

    @property
    def operation_metrics(self) -> Mapping[str, object]:
        return {} if self.commit_info is None else self.commit_info.operation_metrics


def read_commit(
    storage: Storage, commit: LogFile, *, protocol: Protocol | None, metadata: Metadata | None
) -> CommitActions:
    """The actions of a commit; ``protocol`` and ``metadata`` are those in force before it.

    Raises CorruptLog when the commit contradicts itself, or when neither it nor the log before it has protocol and
    metadata.
    """
    with error_context(version=commit.version, path=commit.location):
        pieces = list(read_action_lines(storage, [commit]))
        small = [action for piece in pieces for action in piece.small]
        state = reconcile_non_file_actions(small)
        own_protocol = None if state.protocol is None else Protocol.from_json(state.protocol.body)
        own_metadata = None if state.metadata is None else Metadata.from_json(state.metadata.body)
        protocol, metadata = own_protocol or protocol, own_metadata or metadata
        if protocol is None or metadata is None:
            raise CorruptLog("Cannot read the commit: the log has no protocol or no metaData up to it")
        schema = table_add_schema(metadata, ColumnMapping.of(protocol, metadata))
        names = schema.field("partition_values").type.names
        files = [parse_file_actions(piece, names) for piece in pieces if len(piece.lines)]
        replay_file_actions(files)  # refuses contradictions
        files = files or [no_file_actions(names)]
        return CommitActions(
            version=commit.version,
            modified_ms=commit.modified_ms,
            adds=add_rows_with_stats(pa.concat_batches([each.adds for each in files]), schema),
            removes=pa.concat_batches([each.removes for each in files]),
            change_files=pa.concat_batches([each.change_files for each in files]),
            metadata=own_metadata,
            protocol=own_protocol,
            txns=tuple(state.txns.values()),
            domain_metadata=tuple(
                DomainMetadata.from_json(action.body) for action in small if action.name == "domainMetadata"
            ),
            commit_info=_commit_info(small),
        )


def commit_info_of(storage: Storage, commit: LogFile) -> CommitInfo | None:
    """``commitInfo`` of a commit; None when it has none. Raises CorruptLog for a commit that cannot be read."""
    with error_context(version=commit.version, path=commit.location):
        found = _first_line_info(storage, commit)
        if found is not None:
            return found
        for piece in read_action_lines(storage, [commit]):
            found = _commit_info(list(piece.small))
            if found is not None:
                return found
    return None


def _first_line_info(storage: Storage, commit: LogFile) -> CommitInfo | None:
    """``commitInfo`` where it is the first line, as with all known writers; no other line is read."""
    whole = commit.size <= _FIRST_BYTES
    try:
        data = storage.get(commit.location) if whole else storage.get_range(commit.location, 0, _FIRST_BYTES)
    except NotFound:
        return None
    line, end, _ = data.partition(b"\n")
    if not _INFO.match(line) or not (end or whole):
        return None
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    body = value.get("commitInfo")
    return CommitInfo(raw=body) if len(value) == 1 and isinstance(body, dict) else None


def _commit_info(small: list[LoggedAction]) -> CommitInfo | None:
    return next((CommitInfo(raw=action.body) for action in small if action.name == "commitInfo"), None)
