"""A version of a table: its protocol, metadata and live files. PROTOCOL "Delta Table Specification"."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from deltaberg.delta.checkpoint.checkpoint_reader import CheckpointPart, CheckpointReader
from deltaberg.delta.checkpoint.checksum import ChecksumTotals, read_checksum
from deltaberg.delta.checkpoint.log_parquet import BATCH_ROWS
from deltaberg.delta.commit.in_commit_timestamp import commit_timestamp
from deltaberg.delta.errors import CorruptLog, DeltaError, VersionNotFound
from deltaberg.delta.history import CommitActions, read_commit
from deltaberg.delta.log.actions import DomainMetadata, Txn
from deltaberg.delta.log.add_file import add_rows_with_stats, table_add_schema
from deltaberg.delta.log.commit_fingerprint import commit_fingerprint
from deltaberg.delta.log.commit_reader import FileActions, LoggedAction, parse_file_actions, read_action_lines
from deltaberg.delta.log.log_path import LogFile, LogFileKind, commit_name
from deltaberg.delta.log.log_replay import (
    ReplayedFiles,
    reconcile_non_file_actions,
    replay_file_actions,
    table_state,
)
from deltaberg.delta.log.log_segment import LogSegment
from deltaberg.delta.log.parallel_batches import in_order
from deltaberg.delta.log.path_fingerprints import PathFingerprints, fingerprints, first_repeated, paths_among
from deltaberg.delta.schema.column_mapping import ColumnMapping
from deltaberg.delta.schema.schema import parse_schema
from deltaberg.delta.schema.type_widening import require_known_changes
from deltaberg.errors import error_context
from deltaberg.storage.errors import NotFound
from deltaberg.storage.protocol import Storage


class Snapshot:
    """One version of a table. Small facts are there at once; files are streamed when asked for.

    Opening reads the commits after the checkpoint and the non-file actions of the checkpoint. Raises CorruptLog for a
    broken log, UnsupportedDeltaFeature for a feature that the protocol needs and deltaberg lacks.

    A pickled snapshot leaves the file actions of those commits behind; they are read again when they are needed.
    """

    def __init__(self, storage: Storage, table_root: str, log_folder: str, segment: LogSegment) -> None:
        self.storage = storage
        self.table_root = table_root
        self.log_folder = log_folder
        self.segment = segment
        self.version = segment.version
        self._checkpoint = (
            None if segment.checkpoint is None else CheckpointReader(storage, log_folder, segment.checkpoint)
        )
        with error_context(table=table_root, version=self.version):
            self._load()

    def __getstate__(self) -> dict[str, object]:
        state = {name: value for name, value in vars(self).items() if name != "tail"}
        return {**state, "timestamp_ms": self.timestamp_ms}

    @cached_property
    def tail(self) -> ReplayedFiles | None:
        """The file actions of the commits after the checkpoint, reconciled; None where there are none."""
        with error_context(table=self.table_root, version=self.version):
            self._load()
        found: ReplayedFiles | None = vars(self)["tail"]
        return found

    def _load(self) -> None:
        base = () if self._checkpoint is None else self._checkpoint.non_file_actions()
        names: tuple[str, ...] | None = None
        while True:
            try:
                small, pieces, used = self._read_commits(base, names)
            except CorruptLog:
                self._refuse_if_unreadable(base)
                raise
            self._state = reconcile_non_file_actions(small)
            self.protocol, self.metadata = table_state(self._state, version=self.version)
            require_known_changes(self.metadata)
            self.column_mapping = ColumnMapping.of(self.protocol, self.metadata)
            self.add_schema = table_add_schema(self.metadata, self.column_mapping)
            self._partition_names = tuple(self.add_schema.field("partition_values").type.names)
            if not pieces or set(self._partition_names) <= set(used):
                break
            # A later commit changed the partition columns: read the values under their names.
            names = self._partition_names
        self.tail = replay_file_actions(pieces)
        checksum = self.segment.checksum
        self._checksum = None if checksum is None else read_checksum(self.storage, checksum)
        if self._checksum is not None:
            self._checksum.check_state(self.protocol, self.metadata)

    def _read_commits(
        self, base: Sequence[LoggedAction], names: tuple[str, ...] | None
    ) -> tuple[list[LoggedAction], list[FileActions], tuple[str, ...]]:
        small = list(base)
        pieces: list[FileActions] = []
        used = names
        for piece in read_action_lines(self.storage, self.segment.deltas):
            small.extend(piece.small)
            if len(piece.lines):
                if used is None:
                    used = _partition_names_of(small)
                pieces.append(parse_file_actions(piece, used))
        return small, pieces, used or ()

    def _refuse_if_unreadable(self, base: Sequence[LoggedAction]) -> None:
        """A value that looks malformed may belong to an unknown feature, so the protocol is checked first."""
        small = list(base)
        for piece in read_action_lines(self.storage, self.segment.deltas):
            small.extend(piece.small)
        with suppress(CorruptLog):
            table_state(reconcile_non_file_actions(small), version=self.version)

    @property
    def txns(self) -> Mapping[str, Txn]:
        """The newest ``txn`` of every application."""
        return self._state.txns

    @property
    def domain_metadata(self) -> Mapping[str, DomainMetadata]:
        """Every live metadata domain, understood or not."""
        return self._state.domain_metadata

    @cached_property
    def timestamp_ms(self) -> int:
        """When the version was committed, in milliseconds since 1970; see ``commit_timestamp``."""
        stated = None if self._checksum is None else self._checksum.in_commit_timestamp
        with error_context(table=self.table_root):
            return commit_timestamp(self.storage, self.segment, self.protocol, self.metadata, checksum_ms=stated)

    @cached_property
    def commit_fingerprint(self) -> str | None:
        """The fingerprint of the version's commit, which distinguishes it from another commit of that number; None
        where the log has lost the commit.
        """
        with suppress(NotFound):
            return None if self.segment.commit is None else commit_fingerprint(self.storage, self.segment.commit)
        return None

    def changes(self, version: int) -> CommitActions:
        """The actions of a later or earlier commit, read with the protocol and metadata of this version.

        Right for a commit that directly follows this version, or when nothing between changed either; the commit's own
        protocol and metadata count. Raises VersionNotFound when there is no such commit, CorruptLog when it is broken.
        """
        location = f"{self.log_folder}/{commit_name(version)}"
        with error_context(table=self.table_root, version=version):
            try:
                info = self.storage.head(location)
            except NotFound as error:
                raise VersionNotFound(f"Cannot read commit {version}: {location} is not there") from error
            commit = LogFile(
                location=location,
                version=version,
                kind=LogFileKind.COMMIT,
                size=info.size,
                modified_ms=info.modified_ms,
            )
            return read_commit(self.storage, commit, protocol=self.protocol, metadata=self.metadata)

    def add_files(self, *, check_totals: bool = True) -> Iterator[pa.RecordBatch]:
        """The live files, as batches of ``add_schema`` (ADD_SCHEMA), checkpoint first.

        Raises CorruptLog for a broken log, and after the last batch when a path was live twice or the version's
        checksum names other totals; the totals are not compared without ``check_totals``, for callers that have already
        passed the files on.
        """
        with error_context(table=self.table_root, version=self.version):
            totals, paths = ChecksumTotals(), PathFingerprints()
            for adds, found in in_order(self._with_fingerprints, self._live_rows()):
                totals = totals.plus(adds)
                paths.append(found)
                yield adds
            self._refuse_repeated_paths(paths)
            if self._checksum is not None and check_totals:
                self._checksum.check_files(totals)

    def live_names(self) -> Iterator[pa.RecordBatch]:
        """``path`` and ``deletion_vector`` of the live files, without the cost of reading their statistics."""
        with error_context(table=self.table_root, version=self.version):
            for rows in self._live_rows(names_only=True):
                yield rows.select(["path", "deletion_vector"])

    @property
    def sidecar_locations(self) -> tuple[str, ...]:
        """The files beside the checkpoint in which its file actions stand, by PROTOCOL "V2 Spec"."""
        return () if self._checkpoint is None else self._checkpoint.sidecar_locations()

    def checkpoint_parts(self, *, files_per_part: int) -> tuple[CheckpointPart, ...]:
        """The checkpoint's files in parts of about so many, which ``part_files`` reads one by one.

        With the adds of ``tail`` they are all files of the version. Only the footers are read.
        """
        with error_context(table=self.table_root, version=self.version):
            return () if self._checkpoint is None else self._checkpoint.parts(files_per_part=files_per_part)

    def part_files(self, part: CheckpointPart, tail: ReplayedFiles | None) -> Iterator[pa.RecordBatch]:
        """The live files of a part of the checkpoint, like ``add_files``; ``tail`` may be ``without_rows``.

        Contradictions that show only in all parts together are for ``check_parts``.
        """
        assert self._checkpoint is not None
        with error_context(table=self.table_root, version=self.version):
            rows = self._checkpoint.adds_of(part, self._partition_names)
            yield from self.with_stats(rows if tail is None else tail.drop_superseded(rows))

    def with_stats(self, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Batches of ``add_schema`` from live rows of the log, such as some of ``tail.adds``."""
        return in_order(lambda batch: add_rows_with_stats(batch, self.add_schema), rows)

    def checksum_difference(self, totals: ChecksumTotals) -> str | None:
        """The difference between the version's checksum file and the sums over all live files; None for no difference
        or no file.
        """
        found = None if self._checksum is None else self._checksum.difference(totals)
        return None if found is None else f"{found[0]}: checksum {found[1]}, log {found[2]}"

    def _with_fingerprints(self, rows: pa.RecordBatch) -> tuple[pa.RecordBatch, npt.NDArray[np.uint64]]:
        return add_rows_with_stats(rows, self.add_schema), fingerprints(rows.column("path"))

    def check_parts(self, totals: ChecksumTotals | None, *, repeated: bool) -> None:
        """The checks that ``add_files`` makes at its end, for files that were read in parts.

        totals: of all of them; None: they are not compared. repeated: whether some fingerprint of a path
        (``path_fingerprints``) occurred twice; then the log is read once more. Raises CorruptLog.
        """
        with error_context(table=self.table_root, version=self.version):
            if repeated:
                for _ in self.add_files(check_totals=False):
                    pass
            if self._checksum is not None and totals is not None:
                self._checksum.check_files(totals)

    def remove_files(self) -> Iterator[pa.RecordBatch]:
        """Tombstones: rows of ``file_actions.remove_rows``, expired ones included."""
        with error_context(table=self.table_root, version=self.version):
            if self._checkpoint is not None:
                rows = self._checkpoint.removes(self._partition_names)
                yield from rows if self.tail is None else self.tail.drop_superseded_tombstones(rows)
            if self.tail is not None:
                yield from self.tail.removes.to_batches()

    def _refuse_repeated_paths(self, paths: PathFingerprints) -> None:
        suspects = paths.repeated()
        if len(suspects) == 0:
            return
        found = [paths_among(rows.column("path"), suspects) for rows in self._live_rows()]
        twice = first_repeated(pa.concat_arrays(found))
        if twice is not None:
            raise CorruptLog(
                f"Cannot replay the log: {twice} is live twice (expected one add for each path)",
                version=self.version if self.segment.checkpoint is None else self.segment.checkpoint.version,
                path=twice,
            )

    def _live_rows(self, *, names_only: bool = False) -> Iterator[pa.RecordBatch]:
        if self._checkpoint is not None:
            rows = self._checkpoint.add_names() if names_only else self._checkpoint.adds(self._partition_names)
            yield from rows if self.tail is None else self.tail.drop_superseded(rows)
        if self.tail is not None:
            yield from self.tail.adds.to_batches(max_chunksize=BATCH_ROWS)


def _partition_names_of(actions: Sequence[LoggedAction]) -> tuple[str, ...]:
    """Names, logical and physical, that partition columns may have by the newest metadata so far."""
    for action in reversed(actions):
        if action.name == "metaData":
            columns = action.body.get("partitionColumns")
            names = [name for name in columns if isinstance(name, str)] if isinstance(columns, (list, tuple)) else []
            schema_string = action.body.get("schemaString")
            try:
                schema = parse_schema(schema_string) if isinstance(schema_string, str) else None
            except DeltaError:
                schema = None
            for field in () if schema is None else schema.fields:
                physical = field.metadata.get("delta.columnMapping.physicalName")
                if field.name in names and isinstance(physical, str):
                    names.append(physical)
            return tuple(dict.fromkeys(names))
    return ()
