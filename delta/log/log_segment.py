"""Which files of the log rebuild a version: a checkpoint and the commits after it. Pure; PROTOCOL "Checkpoints"."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from deltaberg.delta.errors import CorruptLog, NotADeltaTable, VersionNotFound
from deltaberg.delta.log.log_path import LogFile, LogFileKind, commit_name


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A complete checkpoint: one file, or every part of a multi-part one in order."""

    version: int
    files: tuple[LogFile, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSegment:
    """The files to read for ``version``: ``deltas`` are commits and log compactions after the checkpoint, in order.

    ``commit`` is the version's own commit and ``checksum`` its ``.crc`` where they exist.
    """

    version: int
    checkpoint: Checkpoint | None
    deltas: tuple[LogFile, ...]
    commit: LogFile | None
    checksum: LogFile | None


def complete_checkpoints(files: Iterable[LogFile]) -> dict[int, Checkpoint]:
    """The checkpoint to use for each version that has a complete one.

    Readers must ignore multi-part checkpoints with missing parts. An empty file counts as no checkpoint, in every form:
    writers that fail leave such files, and Delta Spark and Delta Kernel ignore them. Of several checkpoints of one
    version any will do: V2 before classic before multi-part, and Parquet before JSON.
    """
    whole: dict[int, LogFile] = {}
    parts: dict[tuple[int, int], dict[int, LogFile]] = {}
    for file in files:
        if not file.size:
            continue
        if file.kind in (LogFileKind.CLASSIC_CHECKPOINT, LogFileKind.UUID_CHECKPOINT):
            known = whole.get(file.version)
            if known is None or _preference(file) > _preference(known):
                whole[file.version] = file
        elif file.kind is LogFileKind.CHECKPOINT_PART and file.part is not None and file.parts is not None:
            parts.setdefault((file.version, file.parts), {})[file.part] = file
    found = {
        version: Checkpoint(version=version, files=tuple(group[number] for number in sorted(group)))
        for (version, count), group in sorted(parts.items())
        if len(group) == count
    }
    found.update({version: Checkpoint(version=version, files=(file,)) for version, file in whole.items()})
    return found


def _preference(file: LogFile) -> tuple[bool, bool, str]:
    return file.kind is LogFileKind.UUID_CHECKPOINT, file.form == "parquet", file.name


def build_segment(files: Sequence[LogFile], *, version: int | None = None) -> LogSegment:
    """The segment for a version, or for the newest one.

    ``files`` must hold everything from the checkpoint on that is to be used. Raises NotADeltaTable when there is
    nothing, VersionNotFound for a version that never was or is no longer there, CorruptLog for a gap.
    """
    commits = {file.version: file for file in files if file.kind is LogFileKind.COMMIT}
    checkpoints = complete_checkpoints(files)
    if not commits and not checkpoints:
        raise NotADeltaTable("Cannot open the Delta table: its log holds no commit and no complete checkpoint")
    newest = max((*commits, *checkpoints))
    if version is None:
        _require_end(files, newest)
    target = newest if version is None else version
    if target > newest or target < 0:
        raise VersionNotFound(
            f"Cannot open version {target}: the table has no such version (the newest is {newest})", version=target
        )
    base = max((number for number in checkpoints if number <= target), default=None)
    deltas = _deltas(files, commits, -1 if base is None else base, target, checkpoints)
    return LogSegment(
        version=target,
        checkpoint=None if base is None else checkpoints[base],
        deltas=deltas,
        commit=commits.get(target),
        checksum=next((file for file in files if file.kind is LogFileKind.CHECKSUM and file.version == target), None),
    )


def _require_end(files: Sequence[LogFile], newest: int) -> None:
    """Raise CorruptLog for a log whose end is lost: a checkpoint or checksum is written after its version's commit."""
    last = max(files, key=lambda file: file.version if file.end_version is None else file.end_version)
    version = last.version if last.end_version is None else last.end_version
    if version > newest:
        raise CorruptLog(
            f"Cannot open the newest version: {commit_name(version)} is missing, although the log holds {last.name}; restore "
            f"the commit, or open version {newest}, the newest one that is whole",
            version=version,
            path=commit_name(version),
        )


def _deltas(
    files: Sequence[LogFile],
    commits: Mapping[int, LogFile],
    base: int,
    target: int,
    checkpoints: Mapping[int, Checkpoint],
) -> tuple[LogFile, ...]:
    """Commits base + 1 ... target; a log compaction stands in where a commit is missing.

    Commits go first because some writers put superseded actions into compactions, whose order then is lost.
    """
    compactions = [file for file in files if file.kind is LogFileKind.COMPACTION]
    chosen: list[LogFile] = []
    needed = base + 1
    while needed <= target:
        delta = commits.get(needed)
        if delta is None:
            delta = _bridge(compactions, needed, base, target)
            if delta is None or any(
                file.end_version is not None and file.end_version >= delta.version for file in chosen
            ):
                raise _missing(needed, base, target, commits, checkpoints)
            chosen = [file for file in chosen if file.version < delta.version]
        chosen.append(delta)
        needed = (delta.version if delta.end_version is None else delta.end_version) + 1
    return tuple(chosen)


def _bridge(compactions: Sequence[LogFile], needed: int, base: int, target: int) -> LogFile | None:
    """The compaction that covers a missing commit and reaches furthest."""
    fitting = [
        (file.end_version, file.version, file)
        for file in compactions
        if file.end_version is not None and base < file.version <= needed <= file.end_version <= target
    ]
    return max(fitting, key=lambda found: found[:2])[2] if fitting else None


def _missing(
    needed: int, base: int, target: int, commits: Mapping[int, LogFile], checkpoints: Mapping[int, Checkpoint]
) -> VersionNotFound | CorruptLog:
    if base < 0 and not any(number <= needed for number in commits) and checkpoints:
        oldest = min(checkpoints)
        return VersionNotFound(
            f"Cannot open version {target}: the log before version {oldest} was cleaned up", version=target
        )
    if base < 0 and needed == 0:
        return CorruptLog(
            f"Cannot open version {target}: {commit_name(0)} is missing and no complete checkpoint stands in for it",
            version=target,
            path=commit_name(0),
        )
    return CorruptLog(
        f"Cannot open version {target}: the log has a gap, commit {needed} ({commit_name(needed)}) is missing",
        version=target,
        path=commit_name(needed),
    )
