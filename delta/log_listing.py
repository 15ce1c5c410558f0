"""Listing the log: only as much of it as a version needs."""

from __future__ import annotations

from deltaberg.delta.last_checkpoint import hinted_version
from deltaberg.delta.log_path import LogFile, first_name_of, parse_log_file
from deltaberg.delta.log_segment import LogSegment, build_segment, complete_checkpoints
from deltaberg.storage.protocol import Storage


def list_log(storage: Storage, log_folder: str, *, start: int = 0) -> tuple[LogFile, ...]:
    """The files of versions from ``start`` on, by version."""
    listed = storage.list(log_folder, start_after=first_name_of(start) if start else None)
    parsed = (parse_log_file(file.location, size=file.size, modified_ms=file.modified_ms) for file in listed)
    return tuple(file for file in parsed if file is not None and file.version >= start)


def find_segment(storage: Storage, log_folder: str, *, version: int | None = None) -> LogSegment:
    """The files that rebuild a version, or the newest one.

    With a usable ``_last_checkpoint`` the listing begins at that version, so the commits before it cost nothing. Raises
    like ``build_segment``.
    """
    hint = hinted_version(storage, log_folder)
    if hint and (version is None or hint <= version):
        files = list_log(storage, log_folder, start=hint)
        if any(version is None or number <= version for number in complete_checkpoints(files)):
            return build_segment(files, version=version)
    return build_segment(list_log(storage, log_folder), version=version)
