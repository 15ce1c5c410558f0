"""Writing version checksums, ``N.crc`` (PROTOCOL "Version Checksum File"), each from the one before.

Where the version before has none, none is written: a whole table is summed up only when it is checkpointed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from deltaberg.delta.commit.file_changes import ChangeTotals
from deltaberg.delta.log.actions import DomainMetadata, Metadata, Txn
from deltaberg.delta.log.log_path import checksum_name
from deltaberg.delta.protocol.protocol import Protocol
from deltaberg.storage.errors import AlreadyExists, StorageError
from deltaberg.storage.protocol import Storage


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedState:
    """The state that a commit that has just succeeded left."""

    version: int
    protocol: Protocol
    metadata: Metadata
    added: ChangeTotals
    removed: ChangeTotals
    txns: tuple[Txn, ...]
    domain_metadata: tuple[DomainMetadata, ...]
    in_commit_timestamp_ms: int | None
    transaction_id: str


def write_checksum(storage: Storage, log_folder: str, state: CommittedState, *, first: bool | None = None) -> bool:
    """Write the checksum of a committed version if the one before has one; whether it was written.

    first: the state has no version before it; None: where it is version 0.
    Nothing is raised: the commit stands without the file, which readers may not ask for. A
    checksum of another transaction, which was rolled back, is replaced.
    """
    before: Mapping[str, object] = {}
    begins = state.version == 0 if first is None else first
    if not begins:
        try:
            found = json.loads(storage.get(f"{log_folder}/{checksum_name(state.version - 1)}"))
        except (StorageError, MemoryError, ValueError, RecursionError):
            return False
        if not isinstance(found, dict) or not all(_is_count(found.get(key)) for key in ("numFiles", "tableSizeBytes")):
            return False
        before = found
    location = f"{log_folder}/{checksum_name(state.version)}"
    with suppress(StorageError, MemoryError):  # the file cannot be written
        content = json.dumps(_members(state, before, first=begins), separators=(",", ":"), ensure_ascii=False).encode()
        try:
            storage.put_if_absent(location, content)
        except AlreadyExists:
            if not _is_strange(storage.get(location), state.transaction_id):
                return False
            storage.delete(location)
            storage.put_if_absent(location, content)
        return True
    return False


def _is_strange(content: bytes, transaction_id: str) -> bool:
    """Whether a checksum states another transaction than the commit that stands: its own commit was rolled back."""
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        return False
    return isinstance(found, dict) and found.get("txnId", transaction_id) != transaction_id


def _members(state: CommittedState, before: Mapping[str, object], *, first: bool) -> dict[str, object]:
    members: dict[str, object] = {
        "txnId": state.transaction_id,
        "tableSizeBytes": _number(before, "tableSizeBytes") + state.added.bytes - state.removed.bytes,
        "numFiles": _number(before, "numFiles") + state.added.files - state.removed.files,
        "numMetadata": 1,
        "numProtocol": 1,
    }
    if state.in_commit_timestamp_ms is not None:
        members["inCommitTimestampOpt"] = state.in_commit_timestamp_ms
    for key, identity, actions in (
        ("setTransactions", "appId", state.txns),
        ("domainMetadata", "domain", state.domain_metadata),
    ):
        merged = _merged(before, key, identity, [action.to_json() for action in actions], first=first)
        if merged is not None:
            members[key] = merged
    members["metadata"] = state.metadata.to_json()
    members["protocol"] = state.protocol.to_json()
    if state.protocol.supports("deletionVectors"):
        counts = {
            "numDeletedRecordsOpt": state.added.deleted_rows - state.removed.deleted_rows,
            "numDeletionVectorsOpt": state.added.vectors - state.removed.vectors,
        }
        if first or all(_is_count(before.get(key)) for key in counts):
            members.update({key: _number(before, key) + change for key, change in counts.items()})
    return members


def _merged(
    before: Mapping[str, object], key: str, identity: str, changes: Iterable[Mapping[str, object]], *, first: bool
) -> list[Mapping[str, object]] | None:
    """The live actions of a kind after the commit; None where the version before does not list its own."""
    listed = [] if first else before.get(key)
    if not isinstance(listed, list) or not all(isinstance(each, dict) and identity in each for each in listed):
        return None
    live = {each[identity]: each for each in (*listed, *changes)}
    return [each for each in live.values() if each.get("removed") is not True]


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _number(members: Mapping[str, object], key: str) -> int:
    value = members.get(key, 0)
    return value if isinstance(value, int) else 0
