"""Which files of a Delta version its own writers wrote, as far as the log proves it.

An ``add`` does not say who wrote its file. What proves it: a path below the table's folder and a name as Delta's writers give
(they hold a UUID), statistics with a row count, and a log that tells of no import since the file was written. The log
tells by the operation and engine of its commits where it still begins at version 0; where the first commits were cleaned
up, files older than the table's ``createdTime`` may have been imported (CONVERT TO DELTA).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.delta.log.actions import CommitInfo
from deltaberg.delta.log.commit_provenance import CommitProvenance, read_provenance
from deltaberg.delta.log.log_path import commit_name
from deltaberg.delta.schema.column_mapping import MappingMode
from deltaberg.delta.snapshot import Snapshot
from deltaberg.migrate.files.file_layout import FileLayout, in_parallel, threads_for
from deltaberg.migrate.files.provenance import UUID_PATTERN, Doubts, Provenance, name_pattern
from deltaberg.storage import NotFound, Storage
from deltaberg.translate.field_ids import Path, declared_ids

COMMITS_READ: Final = 256
"""In a longer log only the first commit and those after the checkpoint are read for their writer."""

CLOCKS_DIFFER_MS: Final = 60_000
"""A file's time is the store's, a commit's is its writer's."""

_SAME_COMMIT_MS: Final = 10_000
_NEVER: Final = np.iinfo(np.int64).max
_ALWAYS: Final = np.iinfo(np.int64).min

PART_NAME: Final = rf"(^|/)part-\d{{5,}}-{UUID_PATTERN}[.-]c\d{{3,}}(\.[a-z0-9]+)*\.parquet$"
"""Spark, Databricks and delta-rs; Spark names the files of plain Parquet folders so, too."""
ANY_WRITERS_NAME: Final = rf"(^|/)[\w.-]*{UUID_PATTERN}[\w.-]*\.parquet$"
_ELSEWHERE: Final = r"^/|^[A-Za-z][A-Za-z0-9+.-]*:|(^|/)\.\.?(/|$)"

_WRITES: Final = frozenset(
    {
        "COPY INTO",
        "CREATE OR REPLACE TABLE AS SELECT",
        "CREATE TABLE AS SELECT",
        "DELETE",
        "MERGE",
        "OPTIMIZE",
        "REORG",
        "REPLACE TABLE AS SELECT",
        "STREAMING UPDATE",
        "UPDATE",
        "WRITE",
    }
)
"""Operations that write the files they add."""
_IMPORTS: Final = frozenset({"ADD FILES", "CLONE", "CONVERT", "CONVERT TO DELTA", "FSCK", "MIGRATE"})
_SPARK: Final = ("Apache-Spark/", "Databricks-Runtime/")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaProvenance:
    """Evidence in the log of one version that concerns all its files.

    own_after_ms: files not dated later may have been imported. why: the reason. whole_log: every commit was read. ids:
    by physical path, those that column mapping declares; None without mapping. needs_ids: files are read by them.
    """

    own_after_ms: int
    why: str
    whole_log: bool
    ids: Mapping[Path, int] | None
    needs_ids: bool

    @classmethod
    def of(cls, snapshot: Snapshot) -> DeltaProvenance:
        """Read the evidence from the log. Raises StorageError."""
        storage, folder = snapshot.storage, snapshot.log_folder
        whole = snapshot.version < COMMITS_READ
        first_later = 0 if snapshot.segment.checkpoint is None else snapshot.segment.checkpoint.version + 1
        versions = range(snapshot.version + 1) if whole else [0, *range(max(1, first_later), snapshot.version + 1)]
        found = _read_all(storage, [f"{folder}/{commit_name(version)}" for version in versions])
        whole_log = whole and all(each is not None for each in found)
        latest, why = _ALWAYS, ""
        for each in found:
            doubt = None if each is None else doubt_of(each)
            if each is not None and doubt is not None and (until := _moment(each.info)) > latest:
                latest, why = until, doubt
        if not whole_log:
            created = snapshot.metadata.created_time
            created = _NEVER - CLOCKS_DIFFER_MS if created is None else created
            if created > latest:
                latest, why = created, "older than the table, and the log does not tell what its first commits did"
        mapping = snapshot.column_mapping
        return cls(
            own_after_ms=latest if latest == _ALWAYS else latest + CLOCKS_DIFFER_MS,
            why=why,
            whole_log=whole_log,
            ids=None if mapping.mode is MappingMode.NONE else declared_ids(mapping),
            needs_ids=mapping.mode is MappingMode.ID,
        )

    def describe(self, adds: pa.RecordBatch, locations: pa.Array) -> Provenance:
        """The provenance of a batch of ADD_SCHEMA."""
        paths = adds.column("path")
        doubts = Doubts(adds.num_rows)
        dated = pc.fill_null(adds.column("modification_time"), 0).to_numpy()
        doubts.add(self.why, (dated <= self.own_after_ms) & (self.own_after_ms != _ALWAYS))
        doubts.add("outside the table's folder", np.asarray(pc.match_substring_regex(paths, _ELSEWHERE)))
        name = ANY_WRITERS_NAME if self.whole_log else PART_NAME
        doubts.add("not named as Delta's writers do", ~np.asarray(pc.match_substring_regex(paths, name)))
        counts = pc.struct_field(adds.column("stats"), "num_records")
        doubts.add("without statistics", np.asarray(counts.is_null()))
        writers = name_pattern(locations)
        # Files of one commit: written within seconds, of one row commit version where the table tracks rows. Neither proves
        # it: two sessions may write at once, and a backfill gives files of all commits its own version.
        moment = pc.divide(pc.fill_null(adds.column("modification_time"), 0), _SAME_COMMIT_MS).cast(pa.string())
        commits = pc.fill_null(adds.column("default_row_commit_version"), -1).cast(pa.string())
        return Provenance(
            own=doubts.own,
            groups=pc.binary_join_element_wise(moment, commits, writers, "|"),
            writers=writers,
            exact=np.zeros(adds.num_rows, dtype=np.bool_),
            doubts=doubts.counts,
        )

    def contradicts(self, layout: FileLayout) -> bool:
        """Delta's writers give columns the ids that column mapping declares, and none without it."""
        if layout.fields is None:
            return False
        if self.ids is None:
            return layout.has_ids
        if self.needs_ids and layout.lacks_ids:
            return True
        declared = {path[0]: field_id for path, field_id in self.ids.items() if len(path) == 1}
        known = frozenset(self.ids.values())
        top = any(
            each.field_id is not None and each.name in declared and declared[each.name] != each.field_id
            for each in layout.fields
        )
        swapped = {each.field_id for each in layout.fields if each.name not in declared} & known
        return top or any(each is not None for each in swapped)


def doubt_of(commit: CommitProvenance) -> str | None:
    """Why a commit may have brought in files that it did not write; None where it did not."""
    info = commit.info
    if info is None:
        return "a commit does not say who made it"
    operation = info.operation or ""
    if operation.upper() in _IMPORTS:
        return f"imported by {operation}"
    if operation == "RESTORE" or (not commit.adds and operation not in _WRITES):
        return None  # what is restored was in the log before
    if operation not in _WRITES:
        return f"a commit of the unknown operation {operation!r} added files"
    return None if _known_writer(info) else f"{operation} by an unknown writer"


def _known_writer(info: CommitInfo) -> bool:
    engine = info.engine_info
    if engine is not None and engine.startswith(_SPARK):
        return True
    if engine is None and "clientVersion" not in info.raw:
        return "isBlindAppend" in info.raw  # Delta Spark before 1.1 did not name itself
    # delta-rs lets its user commit any file as WRITE; what it wrote itself it has counted.
    return (engine or str(info.raw.get("clientVersion"))).startswith("delta-rs") and bool(info.operation_metrics)


def _moment(info: CommitInfo | None) -> int:
    """When a commit was made: no file that it imports is newer."""
    if info is None:
        return _NEVER - CLOCKS_DIFFER_MS
    moments = [each for each in (info.timestamp, info.in_commit_timestamp) if each is not None]
    return min(max(moments), _NEVER - CLOCKS_DIFFER_MS) if moments else _NEVER - CLOCKS_DIFFER_MS


def _read_all(storage: Storage, locations: Iterable[str]) -> list[CommitProvenance | None]:
    def read(location: str) -> CommitProvenance | None:
        try:
            return read_provenance(storage, location)
        except NotFound:
            return None

    wanted = list(locations)
    return in_parallel(read, wanted, threads=threads_for(storage, wanted))
