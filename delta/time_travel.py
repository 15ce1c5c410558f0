"""The version that was current at a time. PROTOCOL "Recommendations for Readers of Tables with In-Commit Timestamps"."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from deltaberg.delta.errors import VersionNotFound
from deltaberg.delta.log.log_path import LogFile, LogFileKind
from deltaberg.delta.log.log_segment import complete_checkpoints
from deltaberg.timestamps import moment_text


def available_commits(files: Sequence[LogFile], *, newest: int) -> tuple[LogFile, ...]:
    """The commits of every version that can still be rebuilt, oldest first, up to ``newest`` without a gap."""
    commits = {file.version: file for file in files if file.kind is LogFileKind.COMMIT}
    run: list[LogFile] = []
    version = newest
    while version in commits:
        run.append(commits[version])
        version -= 1
    run.reverse()
    if not run or run[0].version == 0:
        return tuple(run)
    bases = [number for number in complete_checkpoints(files) if number >= run[0].version - 1]
    return tuple(commit for commit in run if bases and commit.version >= min(bases))


def version_as_of(
    commits: Sequence[LogFile],
    as_of_ms: int,
    *,
    first_in_commit: int | None,
    enablement_ms: int | None,
    in_commit_timestamp: Callable[[LogFile], int],
) -> int:
    """The newest version committed at or before ``as_of_ms`` (milliseconds since 1970).

    ``commits`` are those of versions that can be rebuilt; ``first_in_commit`` is the first version with an in-commit
    timestamp, ``enablement_ms`` that timestamp where older versions have none. File times that go backwards are taken
    to follow one another by a millisecond, as the reference implementation does. Raises VersionNotFound when every
    version is later.
    """
    if first_in_commit is not None and (enablement_ms is None or as_of_ms >= enablement_ms):
        timed = [commit for commit in commits if commit.version >= first_in_commit]
        position = _last_at_or_before(timed, as_of_ms, in_commit_timestamp)
        if position is None:
            raise _too_early(as_of_ms, in_commit_timestamp(timed[0]) if timed else None)
        return timed[position].version
    by_file_time = [commit for commit in commits if first_in_commit is None or commit.version < first_in_commit]
    previous: int | None = None
    found: int | None = None
    for commit in by_file_time:
        previous = commit.modified_ms if previous is None else max(commit.modified_ms, previous + 1)
        if previous > as_of_ms:
            break
        found = commit.version
    if found is None:
        raise _too_early(as_of_ms, by_file_time[0].modified_ms if by_file_time else None)
    return found


def _last_at_or_before(commits: Sequence[LogFile], as_of_ms: int, timestamp_of: Callable[[LogFile], int]) -> int | None:
    """Halving: in-commit timestamps increase, and each costs reading a commit."""
    low, high = 0, len(commits)
    while low < high:
        middle = (low + high) // 2
        if timestamp_of(commits[middle]) <= as_of_ms:
            low = middle + 1
        else:
            high = middle
    return low - 1 if low else None


def _too_early(as_of_ms: int, oldest_ms: int | None) -> VersionNotFound:
    oldest = (
        "none can be rebuilt" if oldest_ms is None else f"the oldest that can be rebuilt is of {moment_text(oldest_ms)}"
    )
    return VersionNotFound(f"Cannot open the table as of {moment_text(as_of_ms)}: no version is that old ({oldest})")
