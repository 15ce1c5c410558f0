"""When a version was committed. PROTOCOL "In-Commit Timestamps"."""

from __future__ import annotations

from deltaberg.delta.errors import CorruptLog
from deltaberg.delta.history import commit_info_of
from deltaberg.delta.log.actions import Metadata
from deltaberg.delta.log.log_path import LogFile
from deltaberg.delta.log.log_segment import LogSegment
from deltaberg.delta.protocol.protocol import Protocol
from deltaberg.storage.protocol import Storage


def first_in_commit_timestamp(protocol: Protocol, metadata: Metadata) -> int | None:
    """The first version whose commit carries its own timestamp; None when the table has none in force."""
    properties = metadata.properties
    if not (protocol.supports("inCommitTimestamp") and properties.in_commit_timestamps):
        return None
    return properties.in_commit_timestamp_enablement_version or 0


def in_commit_timestamp_of(storage: Storage, commit: LogFile) -> int:
    """``commitInfo.inCommitTimestamp`` of a commit. Raises CorruptLog naming the file when it has none."""
    info = commit_info_of(storage, commit)
    found = None if info is None else info.in_commit_timestamp
    if found is None:
        raise CorruptLog(
            "Cannot tell when the version was committed: the commit has no inCommitTimestamp "
            "(expected one in commitInfo, as the table has in-commit timestamps)",
            version=commit.version,
            path=commit.location,
        )
    return found


def commit_timestamp(
    storage: Storage, segment: LogSegment, protocol: Protocol, metadata: Metadata, *, checksum_ms: int | None
) -> int:
    """Milliseconds since 1970: the in-commit timestamp where the table has them, else the commit file's time.

    When the commit was cleaned up, the checksum's (``checksum_ms``) stands in for the former and the checkpoint file's
    time for the latter. Raises CorruptLog when nothing says the in-commit timestamp.
    """
    first = first_in_commit_timestamp(protocol, metadata)
    if first is not None and segment.version >= first:
        if segment.commit is not None:
            return in_commit_timestamp_of(storage, segment.commit)
        if checksum_ms is not None:
            return checksum_ms
        raise CorruptLog(
            f"Cannot tell when version {segment.version} was committed: its commit was cleaned up",
            version=segment.version,
        )
    if segment.commit is not None:
        return segment.commit.modified_ms
    files = segment.deltas if segment.checkpoint is None else segment.checkpoint.files
    return max(file.modified_ms for file in files)
