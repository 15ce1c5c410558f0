"""When a version was committed. PROTOCOL "In-Commit Timestamps"."""

from __future__ import annotations

from deltaberg.delta.actions import CommitInfo, Metadata
from deltaberg.delta.commit_json import read_action_lines
from deltaberg.delta.errors import CorruptLog
from deltaberg.delta.log_path import LogFile
from deltaberg.delta.log_segment import LogSegment
from deltaberg.delta.protocol import Protocol
from deltaberg.storage.protocol import Storage


def has_in_commit_timestamp(protocol: Protocol, metadata: Metadata, version: int) -> bool:
    """Whether the commit of a version carries its own timestamp, by the protocol and metadata in force."""
    properties = metadata.properties
    if not (protocol.supports("inCommitTimestamp") and properties.in_commit_timestamps):
        return False
    enabled_at = properties.in_commit_timestamp_enablement_version
    return enabled_at is None or version >= enabled_at


def in_commit_timestamp_of(storage: Storage, commit: LogFile) -> int:
    """``commitInfo.inCommitTimestamp`` of a commit. Raises CorruptLog naming the file when it has none."""
    for piece in read_action_lines(storage, [commit]):
        for action in piece.small:
            if action.name == "commitInfo":
                found = CommitInfo(raw=action.body).in_commit_timestamp
                if found is not None:
                    return found
    raise CorruptLog(
        "Cannot tell when the version was committed: the commit has no inCommitTimestamp",
        version=commit.version,
        path=commit.location,
    )


def commit_timestamp(storage: Storage, segment: LogSegment, protocol: Protocol, metadata: Metadata) -> int:
    """Milliseconds since 1970: the in-commit timestamp where the table has them, else the commit file's time.

    Raises CorruptLog when the commit is gone, so that only a checkpoint speaks for the version.
    """
    if segment.commit is None:
        raise CorruptLog(
            f"Cannot tell when version {segment.version} was committed: its commit was cleaned up",
            version=segment.version,
        )
    if has_in_commit_timestamp(protocol, metadata, segment.version):
        return in_commit_timestamp_of(storage, segment.commit)
    return segment.commit.modified_ms
