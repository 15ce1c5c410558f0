"""Reading checkpoints of every kind: classic, multi-part and V2, in Parquet and JSON, with sidecars.

PROTOCOL "Checkpoints", "Checkpoint Specs" and "Checkpoint Schema". Parquet is streamed: memory does not grow with the
number of files in the table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.delta.checkpoint.log_parquet import BATCH_ROWS, TEXT_BATCH_ROWS, open_log_parquet
from deltaberg.delta.errors import CorruptLog
from deltaberg.delta.log.actions import Sidecar
from deltaberg.delta.log.add_path import decode_path
from deltaberg.delta.log.commit_reader import (
    SMALL_ACTIONS,
    FileActions,
    LoggedAction,
    non_file_action_of,
    parse_file_actions,
    read_action_lines,
)
from deltaberg.delta.log.file_actions import add_rows, remove_rows
from deltaberg.delta.log.log_path import SIDECAR_FOLDER, LogFile, LogFileKind
from deltaberg.delta.log.log_segment import Checkpoint
from deltaberg.errors import error_context
from deltaberg.storage.protocol import Storage

_FOOTERS_AT_A_TIME = 16
_ADD_MEMBERS = (
    "path",
    "partitionValues",
    "size",
    "modificationTime",
    "dataChange",
    "deletionVector",
    "baseRowId",
    "defaultRowCommitVersion",
    "clusteringProvider",
    "tags",
    "stats_parsed",
    "stats",
)
_NAME_MEMBERS = ("path", "size", "deletionVector")
_REMOVE_MEMBERS = (
    "path",
    "deletionTimestamp",
    "dataChange",
    "extendedFileMetadata",
    "partitionValues",
    "size",
    "deletionVector",
    "baseRowId",
    "defaultRowCommitVersion",
    "tags",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointPart:
    """Some of the adds of a checkpoint: those in row groups of one Parquet file, or (None) all of a JSON file.

    files: how many they are by the footer; None where it does not say.
    """

    version: int
    location: str
    row_groups: tuple[int, ...] | None
    files: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _AddGroup:
    """A row group with adds. files: how many by the footer; None where it does not say. rows: of the row group."""

    number: int
    files: int | None
    rows: int

    @property
    def most(self) -> int:
        return self.rows if self.files is None else self.files


class CheckpointReader:
    """One checkpoint. Non-file actions are read once; file actions are streamed again for every caller."""

    def __init__(self, storage: Storage, log_folder: str, checkpoint: Checkpoint) -> None:
        self._storage = storage
        self._log_folder = log_folder
        self._checkpoint = checkpoint
        self._small: tuple[LoggedAction, ...] | None = None
        self._groups: dict[str, Sequence[_AddGroup]] = {}

    def __getstate__(self) -> dict[str, object]:
        return {**vars(self), "_small": None, "_groups": {}}

    @property
    def version(self) -> int:
        return self._checkpoint.version

    def non_file_actions(self) -> tuple[LoggedAction, ...]:
        """All actions but file actions. Raises CorruptLog naming the file that is missing, damaged or contradictory."""
        if self._small is None:
            found: list[LoggedAction] = []
            for file in self._checkpoint.files:
                with error_context(version=self.version, path=file.location):
                    if file.form == "json":
                        for piece in read_action_lines(self._storage, [file]):
                            found.extend(piece.small)
                    else:
                        found.extend(self._non_file_of_parquet(file.location))
            self._check_v2(found)
            self._small = tuple(found)
        return self._small

    def adds(self, partition_names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Rows of ``file_actions.add_rows``, a batch at a time."""
        return self._rows("add", partition_names)

    def add_names(self) -> Iterator[pa.RecordBatch]:
        """The rows of ``adds`` for their path and deletion vector alone; nothing else of them is to be relied on."""
        return self._rows("add", (), names_only=True)

    def removes(self, partition_names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Tombstones: rows of ``file_actions.remove_rows``, a batch at a time."""
        return self._rows("remove", partition_names)

    def parts(self, *, files_per_part: int) -> tuple[CheckpointPart, ...]:
        """The adds in parts: row groups that follow each other, put together up to so many files.

        Only footers are read. A JSON file is one part. Raises CorruptLog like ``adds``.
        """
        sidecars = self.sidecar_locations()
        own = [file for file in self._checkpoint.files if not sidecars]
        for file in self._checkpoint.files if sidecars else ():
            self._refuse_rows(file, "add")
        groups = self._groups_of([*(file.location for file in own if file.form == "parquet"), *sidecars])
        found: list[CheckpointPart] = []
        for file in own:
            if file.form == "json":
                found.append(CheckpointPart(version=self.version, location=file.location, row_groups=None, files=None))
            else:
                found += self._parts_of(file.location, groups[file.location], files_per_part)
        for location in sidecars:
            found += self._parts_of(location, groups[location], files_per_part)
        return tuple(found)

    def adds_of(self, part: CheckpointPart, partition_names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The rows of ``adds`` that stand in a part."""
        if part.row_groups is not None:
            return self._rows_of_parquet(part.location, "add", partition_names, row_groups=part.row_groups)
        (file,) = (file for file in self._checkpoint.files if file.location == part.location)
        return self._rows_of_file(file, "add", partition_names)

    def _groups_of(self, locations: Sequence[str]) -> dict[str, Sequence[_AddGroup]]:
        """The row groups of Parquet files that hold adds, by location; every footer is read once."""
        unread = [location for location in locations if location not in self._groups]
        with ThreadPoolExecutor(_FOOTERS_AT_A_TIME, thread_name_prefix="delta-log-footers") as pool:
            self._groups.update(zip(unread, pool.map(self._add_groups, unread), strict=True))
        return self._groups

    def _add_groups(self, location: str) -> Sequence[_AddGroup]:
        with (
            error_context(version=self.version, path=location),
            open_log_parquet(self._storage, location, version=self.version) as parquet,
        ):
            if not parquet.members("add"):
                return ()
            groups = [
                _AddGroup(
                    number=number,
                    files=parquet.values_of("add.path", row_groups=[number]),
                    rows=parquet.rows_of(number),
                )
                for number in range(parquet.num_row_groups)
            ]
        return tuple(group for group in groups if group.files != 0)

    def _parts_of(self, location: str, groups: Sequence[_AddGroup], files_per_part: int) -> Iterator[CheckpointPart]:
        chosen: list[_AddGroup] = []
        for group in groups:
            if chosen and sum(each.most for each in chosen) + group.most > files_per_part:
                yield self._part(location, chosen)
                chosen = []
            chosen.append(group)
        if chosen:
            yield self._part(location, chosen)

    def _part(self, location: str, groups: Sequence[_AddGroup]) -> CheckpointPart:
        known = [group.files for group in groups]
        return CheckpointPart(
            version=self.version,
            location=location,
            row_groups=tuple(group.number for group in groups),
            files=None if None in known else sum(count or 0 for count in known),
        )

    def _refuse_rows(self, file: LogFile, action: Literal["add", "remove"]) -> None:
        """File actions stand in sidecars or in the checkpoint itself, not in both."""
        for rows in self._rows_of_file(file, action, ()):
            if rows.num_rows:
                raise CorruptLog(
                    f"Cannot read the checkpoint: it has {action} actions itself and in sidecars (expected one place)",
                    version=self.version,
                    path=file.location,
                )

    def _check_v2(self, small: Sequence[LoggedAction]) -> None:
        """PROTOCOL "V2 Spec": one checkpointMetadata, of this version; V1 checkpoints have none and no sidecars."""
        versions = [action.body.get("version") for action in small if action.name == "checkpointMetadata"]
        has_sidecars = any(action.name == "sidecar" for action in small)
        first = self._checkpoint.files[0]
        is_v2 = first.kind is LogFileKind.UUID_CHECKPOINT or has_sidecars
        if (is_v2 or versions) and versions != [self.version]:
            raise CorruptLog(
                f"Cannot read the checkpoint: its checkpointMetadata names the versions {versions} "
                f"(expected one, {self.version})",
                version=self.version,
                path=first.location,
            )
        if has_sidecars and first.kind is LogFileKind.CHECKPOINT_PART:
            raise CorruptLog(
                "Cannot read the checkpoint: a multi-part checkpoint has sidecars",
                version=self.version,
                path=first.location,
            )

    def _rows(
        self, action: Literal["add", "remove"], partition_names: Sequence[str], *, names_only: bool = False
    ) -> Iterator[pa.RecordBatch]:
        sidecars = self.sidecar_locations()
        for file in self._checkpoint.files:
            if sidecars:
                self._refuse_rows(file, action)
            else:
                yield from self._rows_of_file(file, action, partition_names, names_only=names_only)
        for location in sidecars:
            yield from self._rows_of_parquet(location, action, partition_names, names_only=names_only)

    def _rows_of_file(
        self,
        file: LogFile,
        action: Literal["add", "remove"],
        partition_names: Sequence[str],
        *,
        names_only: bool = False,
    ) -> Iterator[pa.RecordBatch]:
        if file.form == "parquet":
            yield from self._rows_of_parquet(file.location, action, partition_names, names_only=names_only)
            return
        with error_context(version=self.version, path=file.location):
            for piece in read_action_lines(self._storage, [file]):
                yield _of_kind(parse_file_actions(piece, partition_names), action)

    def sidecar_locations(self) -> tuple[str, ...]:
        """Where the sidecars are; none for a checkpoint without them. Raises CorruptLog like ``non_file_actions``."""
        locations: dict[str, None] = {}
        for action in self.non_file_actions():
            if action.name == "sidecar":
                with error_context(version=self.version, path=action.location):
                    path = Sidecar.from_json(action.body).path
                    location = self._sidecar_location(path)
                    if location in locations:
                        raise CorruptLog(f"Cannot read the checkpoint: it names the sidecar {path} twice")
                    locations[location] = None
        return tuple(locations)

    def _sidecar_location(self, path: str) -> str:
        decoded = decode_path(path)
        if "/" in decoded:
            return decoded if decoded.startswith("/") or ":/" in decoded else f"{self._log_folder}/{decoded}"
        return f"{self._log_folder}/{SIDECAR_FOLDER}/{decoded}"

    def _non_file_of_parquet(self, location: str) -> Iterator[LoggedAction]:
        with (
            error_context(version=self.version, path=location),
            open_log_parquet(self._storage, location, version=self.version) as parquet,
        ):
            present = [name for name in SMALL_ACTIONS if parquet.members(name)]
            for group in range(parquet.num_row_groups):
                names = parquet.actions_with_values(group, present)
                for batch in parquet.batches(names, row_groups=[group]) if names else ():
                    for name in batch.schema.names:
                        column = batch.column(name)
                        for body in column.filter(pc.is_valid(column)).to_pylist(maps_as_pydicts="lossy"):
                            yield non_file_action_of(name, body, version=self.version, location=location)

    def _rows_of_parquet(
        self,
        location: str,
        action: Literal["add", "remove"],
        partition_names: Sequence[str],
        *,
        row_groups: Sequence[int] | None = None,
        names_only: bool = False,
    ) -> Iterator[pa.RecordBatch]:
        rows = add_rows if action == "add" else remove_rows
        members: Sequence[str] = _ADD_MEMBERS if action == "add" else _REMOVE_MEMBERS
        if names_only:
            members = _NAME_MEMBERS
        with (
            error_context(version=self.version, path=location),
            open_log_parquet(self._storage, location, version=self.version) as parquet,
        ):
            present = parquet.members(action)
            columns = [f"{action}.{name}" for name in members if name in present]
            if (
                action == "add"
                and partition_names
                and "partitionValues" not in present
                and "partitionValues_parsed" in present
            ):
                columns.append("add.partitionValues_parsed")
            parsed = parquet.values_of("add.stats_parsed.numRecords")
            if "add.stats" in columns and parsed is not None and parsed == parquet.values_of("add.stats"):
                columns.remove("add.stats")  # as many structs as texts, and structs need no parsing
            size = TEXT_BATCH_ROWS if "add.stats" in columns else BATCH_ROWS
            for batch in parquet.batches(columns, row_groups=row_groups, rows=size) if columns else ():
                structs = batch.column(action)
                structs = structs.filter(pc.is_valid(structs)) if structs.null_count else structs
                if len(structs):
                    yield _validated(rows(structs, partition_names))


def _validated(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Parquet promises that texts are UTF-8, so any other bytes are damage. Texts of statistics are checked later."""
    (rows.drop_columns("stats") if "stats" in rows.schema.names else rows).validate(full=True)
    return rows


def _of_kind(actions: FileActions, action: Literal["add", "remove"]) -> pa.RecordBatch:
    return actions.adds if action == "add" else actions.removes
