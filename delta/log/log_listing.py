"""Listing the log: only as much of it as a version needs."""

from __future__ import annotations

from deltaberg.delta.checkpoint.last_checkpoint import LastCheckpoint, read_hint
from deltaberg.delta.errors import CorruptLog
from deltaberg.delta.log.log_path import (
    LAST_CHECKPOINT,
    LogFile,
    LogFileKind,
    checksum_name,
    classic_checkpoint_name,
    commit_name,
    first_name_of,
    parse_log_file,
)
from deltaberg.delta.log.log_segment import LogSegment, build_segment, complete_checkpoints
from deltaberg.storage.protocol import FileInfo, Storage

_COMMITS_PROBED = 200
_LOOK_AHEAD = 1000
_FOLDER_LAG_MS = 10_000


def list_log(storage: Storage, log_folder: str, *, start: int = 0) -> tuple[LogFile, ...]:
    """The files of versions from ``start`` on, by version."""
    listed = storage.list(log_folder, start_after=first_name_of(start) if start else None)
    return tuple(file for file in map(_log_file, listed) if file is not None and file.version >= start)


def find_segment(storage: Storage, log_folder: str, *, version: int | None = None) -> LogSegment:
    """The files that rebuild a version, or the newest one.

    With a usable ``_last_checkpoint`` the files after that version are asked for by name, or the listing begins there,
    so the commits before it cost nothing. Raises like ``build_segment``.
    """
    hint = read_hint(storage, log_folder)
    if hint is not None and (version is None or hint.version <= version):
        probed = _probed_segment(storage, log_folder, hint, version)
        if probed is not None:
            return probed
        if hint.version:
            files = list_log(storage, log_folder, start=hint.version)
            if any(version is None or number <= version for number in complete_checkpoints(files)):
                return build_segment(files, version=version)
    segment = build_segment(list_log(storage, log_folder), version=version)
    if hint is not None and version is None and hint.version > segment.version:
        raise CorruptLog(
            f"Cannot open the newest version: {LAST_CHECKPOINT} names version {hint.version}, and the log ends at version "
            f"{segment.version}; restore what is missing, or open version {segment.version}, the newest one that is whole",
            version=hint.version,
            path=f"{log_folder}/{LAST_CHECKPOINT}",
        )
    return segment


def _probed_segment(storage: Storage, log_folder: str, hint: LastCheckpoint, version: int | None) -> LogSegment | None:
    """The segment from the hinted checkpoint, without a listing; None where a listing is needed.

    A folder of the local file system is read as a whole to list any of it, so names are asked for instead: the files of
    the hinted checkpoint N, the commits N + 1, N + 2, ... and the checksum of the last. The protocol promises only that
    newer files may be listed from the hint, so only files that were seen are trusted:

    - Commits have successive versions (PROTOCOL "Delta Log Entries"), so those up to the first that is missing, K, are
      the log unless it has a gap. A gap shows in a commit beyond: ``_LOOK_AHEAD`` more are asked for, in the order of
      their versions, so that one committed meanwhile does not hide another. A version that is asked for needs only the
      commits up to it, which are all there.
    - Files beyond those would have been put there after K. The folder itself says when a name was last put into it: when
      that is later than all files that were found, by more than it takes to finish writing one, the log is listed.
    - A newer checkpoint and a log compaction hold nothing that the commits from N on do not hold, so they are not
      needed. For the sake of speed the log is listed when the hint is ``_COMMITS_PROBED`` behind or a newer classic
      checkpoint is there.
    """
    first = hint.version + 1
    last = first + _COMMITS_PROBED
    commits = [commit_name(number) for number in range(hint.version, last + _LOOK_AHEAD)]
    newer = [classic_checkpoint_name(number) for number in range(first, last)]
    if not hint.names:
        return None
    found = storage.probe(log_folder, [LAST_CHECKPOINT, *hint.names, *commits, *newer])
    if found is None:
        return None
    files = [file for file in map(_log_file, found.files) if file is not None]
    base = complete_checkpoints(files)
    after = [file.version for file in files if file.kind is LogFileKind.COMMIT and file.version > hint.version]
    newest = hint.version + sum(number == place for place, number in enumerate(after, first))
    target = newest if version is None else version
    if set(base) != {hint.version} or newest >= last or target > newest:
        return None
    if version is None:
        latest_ms = max(file.modified_ms for file in found.files)
        if any(number > newest for number in after) or found.changed_ms > latest_ms + _FOLDER_LAG_MS:
            return None
        # A checksum of a missing commit: a listing decides.
        beyond = storage.probe(log_folder, [checksum_name(newest + 1)])
        if beyond is None or beyond.files:
            return None
    checksum = storage.probe(log_folder, [checksum_name(target)])
    files += [file for file in map(_log_file, () if checksum is None else checksum.files) if file is not None]
    return build_segment(files, version=target)


def _log_file(file: FileInfo) -> LogFile | None:
    return parse_log_file(file.location, size=file.size, modified_ms=file.modified_ms)
