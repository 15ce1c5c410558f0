"""A Delta table: the way to its versions and its history."""

from __future__ import annotations

from collections.abc import Iterator

from deltaberg.delta.commit.in_commit_timestamp import first_in_commit_timestamp, in_commit_timestamp_of
from deltaberg.delta.errors import InvalidDeltaRequest, NotADeltaTable, VersionNotFound
from deltaberg.delta.history import CommitActions, CommitSummary, commit_info_of, read_commit
from deltaberg.delta.log.log_listing import find_segment, list_log
from deltaberg.delta.log.log_path import LAST_CHECKPOINT, LogFile, LogFileKind, commit_name, log_folder, parse_log_file
from deltaberg.delta.log.log_segment import build_segment
from deltaberg.delta.snapshot import Snapshot
from deltaberg.delta.time_travel import available_commits, version_as_of
from deltaberg.errors import error_context
from deltaberg.storage.protocol import Storage


class DeltaTable:
    """A table by the location of its folder. The log is not read before it is needed."""

    def __init__(self, location: str, storage: Storage) -> None:
        self.location = location.rstrip("/") or "/"
        self.storage = storage
        self.log_folder = log_folder(self.location)

    @staticmethod
    def open(location: str, storage: Storage) -> DeltaTable:
        """The table in a folder. Raises NotADeltaTable when the folder has no log."""
        table = DeltaTable(location, storage)
        # Listing is the last resort: the log of an old table is long.
        usual = (LAST_CHECKPOINT, commit_name(0))
        if not any(storage.exists(f"{table.log_folder}/{name}") for name in usual) and not any(
            parse_log_file(file.location) for file in storage.list(table.log_folder)
        ):
            raise NotADeltaTable(
                f"Cannot open {location}: no Delta log found (expected {table.log_folder})", table=location
            )
        return table

    def snapshot(self, version: int | None = None, as_of_ms: int | None = None) -> Snapshot:
        """The newest version, a version by number, or the newest one committed at or before a time.

        Raises VersionNotFound, CorruptLog and UnsupportedDeltaFeature; InvalidDeltaRequest for both at once.
        """
        with error_context(table=self.location):
            if as_of_ms is None:
                return self._snapshot_of(version)
            if version is not None:
                raise InvalidDeltaRequest("Cannot open the table: version and as_of_ms are both given (expected one)")
            return self._snapshot_as_of(as_of_ms)

    def changes(self, version: int) -> CommitActions:
        """The actions of a commit. Raises VersionNotFound when it is gone, else like ``snapshot``."""
        return next(self.commits(version, version))

    def commits(self, start: int | None = None, end: int | None = None) -> Iterator[CommitActions]:
        """The actions of each commit from ``start`` to ``end``, both included.

        By default from the oldest version that can still be rebuilt to the newest. Raises VersionNotFound when a commit
        of the range is gone, CorruptLog for a broken one.
        """
        with error_context(table=self.location):
            files = list_log(self.storage, self.log_folder)
            commits = {file.version: file for file in files if file.kind is LogFileKind.COMMIT}
            last = max(commits, default=-1) if end is None else end
            if start is None:
                start = next((commit.version for commit in available_commits(files, newest=last)), last + 1)
            for version in range(start, last + 1):
                if version not in commits:
                    raise VersionNotFound(f"Cannot read commit {version}: it is not in the log", version=version)
            if start > last:
                return
            before = self._state_before(start)
            protocol, metadata = (None, None) if before is None else (before.protocol, before.metadata)
            for version in range(start, last + 1):
                actions = read_commit(self.storage, commits[version], protocol=protocol, metadata=metadata)
                protocol, metadata = actions.protocol or protocol, actions.metadata or metadata
                yield actions

    def history(self, *, limit: int | None = None, opened: Snapshot | None = None) -> tuple[CommitSummary, ...]:
        """The commits that are still there, newest first; limit: only so many of them.

        opened: a version that is at hand; where it is the newest one, that need not be opened again. Raises CorruptLog
        for a broken commit.
        """
        with error_context(table=self.location):
            commits = sorted(self._commit_files(), key=lambda file: file.version, reverse=True)
            known = opened is not None and bool(commits) and opened.version == commits[0].version
            newest = opened if opened is not None and known else self._snapshot_of(None)
            first_in_commit = first_in_commit_timestamp(newest.protocol, newest.metadata)
            return tuple(self._summary(commit, first_in_commit) for commit in commits[:limit])

    def _summary(self, commit: LogFile, first_in_commit: int | None) -> CommitSummary:
        info = commit_info_of(self.storage, commit)
        timestamp_ms = commit.modified_ms
        if first_in_commit is not None and commit.version >= first_in_commit:
            stated = None if info is None else info.in_commit_timestamp
            timestamp_ms = in_commit_timestamp_of(self.storage, commit) if stated is None else stated
        return CommitSummary(version=commit.version, timestamp_ms=timestamp_ms, commit_info=info)

    def _commit_files(self) -> list[LogFile]:
        return [file for file in list_log(self.storage, self.log_folder) if file.kind is LogFileKind.COMMIT]

    def _state_before(self, version: int) -> Snapshot | None:
        """The version before a commit, or the commit's own where its checkpoint is the oldest; None when neither is."""
        for candidate in (version - 1, version) if version else ():
            try:
                return self._snapshot_of(candidate)
            except VersionNotFound:
                continue
        return None

    def _snapshot_of(self, version: int | None) -> Snapshot:
        segment = find_segment(self.storage, self.log_folder, version=version)
        return Snapshot(self.storage, self.location, self.log_folder, segment)

    def _snapshot_as_of(self, as_of_ms: int) -> Snapshot:
        files = list_log(self.storage, self.log_folder)
        newest = Snapshot(self.storage, self.location, self.log_folder, build_segment(files))
        version = version_as_of(
            available_commits(files, newest=newest.version),
            as_of_ms,
            first_in_commit=first_in_commit_timestamp(newest.protocol, newest.metadata),
            enablement_ms=newest.metadata.properties.in_commit_timestamp_enablement_timestamp_ms,
            in_commit_timestamp=lambda commit: in_commit_timestamp_of(self.storage, commit),
        )
        if version == newest.version:
            return newest
        return Snapshot(self.storage, self.location, self.log_folder, build_segment(files, version=version))
