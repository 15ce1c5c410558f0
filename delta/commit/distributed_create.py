"""New tables with more files than one commit should hold: version 1 is a checkpoint in parts, written by many
processes.

The log begins at version 1, as after a log clean-up (PROTOCOL "Metadata Cleanup", "Multi-part checkpoint"): version 0
never is a table. Only the checkpoint holds protocol, metadata and files, so a reader that ignores checkpoints finds no
table, never an empty or a half one. In order of time:

1. ``0.json`` is put if absent: a commitInfo and nothing else. It keeps other creators out and is no table to any
reader. 2. The parts of the files, written by any process; a checkpoint without all its parts counts for nothing. 3. The
part with protocol and metadata. From here on readers of checkpoints find the whole table.
4. ``1.json`` is put if absent: commitInfo and txn. From here on Spark finds it too, and writers can go on.
5. ``0.json`` is deleted and ``_last_checkpoint`` written.

The caller makes sure that a part has the same name and content at every attempt to write it.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.delta.checkpoint.checkpoint import checkpoint_state
from deltaberg.delta.checkpoint.checkpoint_columns import as_type
from deltaberg.delta.checkpoint.checkpoint_writer import WrittenCheckpoint, point_to, write_checkpoint_part
from deltaberg.delta.checkpoint.checksum_writer import CommittedState, write_checksum
from deltaberg.delta.commit.commit_file import CommitContent, put_version
from deltaberg.delta.commit.commit_info import commit_info
from deltaberg.delta.commit.commit_writer import action_line
from deltaberg.delta.commit.file_changes import ChangeTotals, conformed, require_counts_with_vectors
from deltaberg.delta.errors import DeltaConflict, InvalidDeltaRequest
from deltaberg.delta.log.actions import DomainMetadata, Metadata, Txn
from deltaberg.delta.log.add_file import table_add_schema
from deltaberg.delta.log.add_path import path_keys
from deltaberg.delta.log.log_path import LogFileKind, checkpoint_part_name, commit_name, log_folder, parse_log_file
from deltaberg.delta.log.path_fingerprints import fingerprints
from deltaberg.delta.protocol import row_tracking
from deltaberg.delta.protocol.iceberg_compat import active_version, check_adds, check_table
from deltaberg.delta.protocol.protocol import Protocol
from deltaberg.delta.protocol.required_protocol import protocol_of_new_table
from deltaberg.delta.protocol.writer_requirements import CommitShape, check_commit, require_writable
from deltaberg.delta.schema.column_mapping import ColumnMapping
from deltaberg.errors import error_context
from deltaberg.storage.commit_put import CommitIntent, PutOutcome
from deltaberg.storage.errors import NotFound, StorageError
from deltaberg.storage.protocol import Storage

FIRST_VERSION: Final = 1
_CLAIM: Final = "deltaberg.claim"
_LARGEST_CLAIM: Final = 1 << 20
_NOTHING: Mapping[str, object] = MappingProxyType({})

Words = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenPart:
    """One part of the checkpoint. highest_row_id: -1 for none. paths: a fingerprint of every path, ascending."""

    number: int
    totals: ChangeTotals
    highest_row_id: int
    paths: Words = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartsRecipe:
    """How to write the parts of a table's first checkpoint; can be pickled. parts: how many there are, from 1."""

    table_root: str
    protocol: Protocol
    metadata: Metadata
    parts: int
    rules_guaranteed: frozenset[str] = frozenset()

    def location(self, number: int) -> str:
        """Where a part stands."""
        return f"{log_folder(self.table_root)}/{checkpoint_part_name(FIRST_VERSION, number, self.parts)}"

    def write(
        self,
        storage: Storage,
        number: int,
        batches: Iterable[pa.RecordBatch],
        *,
        small: Callable[[WrittenPart], Iterable[tuple[str, Mapping[str, object]]]] | None = None,
    ) -> WrittenPart:
        """Write the part of some files: batches of ADD_SCHEMA as ``Transaction.add_files`` takes them.

        small: the non-file actions that stand in this part, asked for once its files are known. Raises InvalidDeltaRequest
        for files that the table cannot hold.
        """
        tally = _Tally(self)
        state = checkpoint_state(
            version=FIRST_VERSION,
            protocol=self.protocol,
            metadata=self.metadata,
            txns=(),
            domain_metadata=(),
            adds=tally.checked(batches),
        )
        with error_context(table=self.table_root):
            write_checkpoint_part(
                storage,
                self.location(number),
                state,
                small=lambda: () if small is None else tuple(small(tally.part(number))),
            )
        return tally.part(number)


class _Tally:
    """Checks and counts the files of one part while they stream by."""

    def __init__(self, recipe: PartsRecipe) -> None:
        self._recipe = recipe
        self._names = partition_names(recipe.protocol, recipe.metadata)
        self._compat = active_version(recipe.protocol, recipe.metadata)
        self._tracks_rows = row_tracking.is_supported(recipe.protocol, recipe.metadata)
        self._stats = table_add_schema(recipe.metadata, ColumnMapping.of(recipe.protocol, recipe.metadata)).field(
            "stats"
        )
        self._totals = ChangeTotals()
        self._highest = -1
        self._paths: list[Words] = []

    def checked(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if batch.num_rows:
                full = conformed(batch, self._names)
                require_counts_with_vectors(full)
                self._check(full)
                if self._tracks_rows:
                    (full,) = row_tracking.assign([full], mark=-1, version=FIRST_VERSION)
                self._totals += ChangeTotals.of(full)
                # Batches may lack what no file of theirs has, and those of a row group must be of one type.
                stats = as_type(full.column("stats"), self._stats.type, full.num_rows)
                full = full.set_column(full.schema.get_field_index("stats"), self._stats, stats)
                self._highest = max(self._highest, row_tracking.highest_id(full))
                self._paths.append(fingerprints(path_keys(full.column("path"))))
                yield full

    def part(self, number: int) -> WrittenPart:
        paths = np.concatenate([np.zeros(0, np.uint64), *self._paths])
        paths.sort()
        return WrittenPart(number=number, totals=self._totals, highest_row_id=self._highest, paths=paths)

    def _check(self, batch: pa.RecordBatch) -> None:
        vectors = batch.column("deletion_vector")
        shape = CommitShape(adds_rows=True, writes_vectors=vectors.null_count < len(vectors))
        check_commit(
            self._recipe.protocol, self._recipe.metadata, shape, rules_guaranteed=self._recipe.rules_guaranteed
        )
        if self._compat is not None:
            check_adds(self._compat, batch)
        ids = batch.column("base_row_id")
        if self._tracks_rows and ids.null_count:
            raise InvalidDeltaRequest(
                "Cannot write a part of a checkpoint: a file has no baseRowId (expected one for each: no other part is known)",
                path=batch.column("path")[pc.index(pc.is_null(ids), True).as_py()].as_py(),
                feature="rowTracking",
            )
        if not self._tracks_rows and ids.null_count < len(ids):
            raise InvalidDeltaRequest(
                "Cannot commit row ids: the protocol does not support rowTracking", feature="rowTracking"
            )


class TableInParts:
    """The creation of one table. ``begin``, then the parts 2 ... by ``recipe``, then ``commit``; else ``abandon``."""

    def __init__(
        self,
        storage: Storage,
        location: str,
        *,
        metadata: Metadata,
        parts: int,
        creation_lock: str,
        rules_guaranteed: Iterable[str] = (),
        protocol: Protocol | None = None,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        new_id: Callable[[], uuid.UUID] = uuid.uuid4,
    ) -> None:
        """parts: of the checkpoint, the first one, which ``commit`` writes, included. creation_lock: identifies the creation,
        so that it can be taken up again after a crash. protocol: None declares what the metadata uses.

        Raises InvalidDeltaRequest and UnsupportedDeltaFeature for metadata that deltaberg cannot write.
        """
        self._storage, self._now_ms, self._new_id, self._claim = storage, now_ms, new_id, creation_lock
        protocol = Protocol.from_json((protocol or protocol_of_new_table(metadata)).to_json())
        self.recipe = PartsRecipe(
            table_root=location.rstrip("/") or "/",
            protocol=protocol,
            metadata=metadata,
            parts=parts,
            rules_guaranteed=frozenset(rules_guaranteed),
        )
        with error_context(table=self.recipe.table_root):
            require_writable(protocol)
            ColumnMapping.of(protocol, metadata)
            check_table(protocol, metadata, replaced=None)
        self._log = log_folder(self.recipe.table_root)
        self._begun = False
        self._claimed = b""
        self._intent = CommitIntent(storage)

    def begin(self) -> None:
        """Keep other creators out. Raises DeltaConflict where a log exists (``recover`` cleans up after a crash)."""
        for found in self._storage.list(self._log):
            file = parse_log_file(found.location)
            if file is not None and file.kind is not LogFileKind.CHECKSUM:
                raise DeltaConflict(f"Cannot create a table: its log exists ({found.location})", path=found.location)
        info = {"timestamp": self._now_ms(), "operation": "CLAIM", _CLAIM: self._claim, "txnId": str(self._new_id())}
        content = _lines([("commitInfo", info)])
        self._claimed = content.first_line
        creation_lock = CommitIntent(None)
        try:
            outcome = put_version(self._storage, self._commit(0), content, creation_lock)
        except BaseException:
            self._begun = creation_lock.stands
            self.abandon()
            raise
        if outcome is PutOutcome.TAKEN:
            raise DeltaConflict("Cannot create a table: somebody else is creating one", path=self._commit(0))
        self._begun = True

    def commit(
        self,
        written: Sequence[WrittenPart],
        adds: Iterable[pa.RecordBatch],
        operation: str,
        *,
        parameters: Mapping[str, object] = _NOTHING,
        timestamp_ms: int | None = None,
        extra_info: Mapping[str, object] = _NOTHING,
        txns: Iterable[Txn] = (),
        reserved_row_ids: int = -1,
    ) -> WrittenPart:
        """Make the table visible and return its first part, which holds ``adds``, the files that no other part has.

        written: parts 2 and following, all of them. reserved_row_ids: as in ``Transaction.reserve_row_ids``. The caller
        checks the fingerprints beforehand for paths that are live twice.

        Raises DeltaConflict where another writer wrote version 1, InvalidDeltaRequest for a part that is missing;
        DeltaCommitStateUnknown when the outcome cannot be learnt.
        """
        recipe, storage = self.recipe, self._storage
        if sorted(part.number for part in written) != list(range(2, recipe.parts + 1)):
            raise InvalidDeltaRequest(
                f"Cannot commit: the parts of the checkpoint are {sorted(part.number for part in written)} "
                f"(expected 2 to {recipe.parts})"
            )
        self._require_creation_lock()
        timestamp = self._now_ms() if timestamp_ms is None else timestamp_ms
        transactions = tuple(txns)
        mark = max([reserved_row_ids, *(part.highest_row_id for part in written)])
        domains: list[DomainMetadata] = []
        tracks_rows = row_tracking.is_supported(recipe.protocol, recipe.metadata)

        def small(own: WrittenPart) -> Iterator[tuple[str, Mapping[str, object]]]:
            highest = max(mark, own.highest_row_id)
            if tracks_rows and highest >= 0:
                domains.append(row_tracking.high_water_mark_action(highest))
            yield "protocol", recipe.protocol.to_json()
            yield "metaData", recipe.metadata.to_json()
            for txn in transactions:
                yield "txn", txn.to_json()
            for domain in domains:
                yield "domainMetadata", domain.to_json()

        own = recipe.write(storage, 1, _numbered(adds, recipe, mark) if tracks_rows else adds, small=small)
        totals = sum((part.totals for part in written), own.totals)
        transaction_id = str(self._new_id())
        info = commit_info(
            operation=operation,
            parameters=parameters,
            metrics=_metrics(totals),
            timestamp_ms=timestamp,
            in_commit_timestamp_ms=None,
            read_version=None,
            blind_append=False,
            transaction_id=transaction_id,
            extra=extra_info,
        )
        content = _lines([("commitInfo", info), *(("txn", txn.to_json()) for txn in transactions)])
        location = self._commit(FIRST_VERSION)
        with error_context(table=recipe.table_root):
            # From here on others may use the table: only what certainly did not happen is rolled back.
            self._begun = False
            try:
                outcome = put_version(storage, location, content, self._intent)
            except BaseException:
                self._begun = not self._intent.may_stand
                raise
            if outcome is PutOutcome.TAKEN:
                raise DeltaConflict(f"Cannot commit version {FIRST_VERSION}: it exists already", path=location)
        actions = totals.files + 2 + len(transactions) + len(domains)
        self._finish(
            WrittenCheckpoint(
                version=FIRST_VERSION,
                size=actions,
                size_in_bytes=None,
                num_of_add_files=totals.files,
                parts=recipe.parts,
            )
        )
        write_checksum(
            storage,
            self._log,
            CommittedState(
                version=FIRST_VERSION,
                protocol=recipe.protocol,
                metadata=recipe.metadata,
                added=totals,
                removed=ChangeTotals(),
                txns=transactions,
                domain_metadata=tuple(domains),
                in_commit_timestamp_ms=None,
                transaction_id=transaction_id,
            ),
            first=True,
        )
        return own

    def _finish(self, last: WrittenCheckpoint) -> None:
        """The table stands; without these it only reads more slowly."""
        with suppress(StorageError, MemoryError):
            self._storage.delete(self._commit(0))
        with suppress(StorageError, MemoryError):
            point_to(self._storage, self._log, last)

    def abandon(self) -> bool:
        """Roll everything back, the part that made the table visible first; whether there was anything to roll back.

        Without effect after a commit, and where another process has taken the creation up. What cannot be deleted is
        left to ``recover``.
        """
        if not self._begun:
            return False
        self._begun = False
        with suppress(StorageError):
            if not self._is_claimed():
                return False
            _roll_back(self._storage, self._log)
        return True

    def _require_creation_lock(self) -> None:
        """Raise DeltaConflict where another process took this creation for dead and took its files over."""
        if not self._is_claimed():
            self._begun = False
            raise DeltaConflict(
                f"Cannot commit version {FIRST_VERSION}: another run of the same conversion has taken it up",
                path=self._commit(0),
            )

    def _is_claimed(self) -> bool:
        try:
            return self._storage.get(self._commit(0)).startswith(self._claimed)
        except NotFound:
            return False

    def _commit(self, version: int) -> str:
        return f"{self._log}/{commit_name(version)}"


def recover(storage: Storage, location: str, *, creation_lock: str) -> None:
    """Delete the files that a creation under this lock left when it died; a finished one is kept.

    Raises DeltaConflict where another creation holds the lock, which may still be at work.
    """
    if not is_claimed(storage, location, creation_lock=creation_lock):
        return
    log = log_folder(location.rstrip("/") or "/")
    place = f"{log}/{commit_name(0)}"
    if storage.exists(f"{log}/{commit_name(FIRST_VERSION)}"):
        storage.delete(place)
    else:
        _roll_back(storage, log)


def is_claimed(storage: Storage, location: str, *, creation_lock: str) -> bool:
    """Whether a creation under this lock is going on in a folder, or died there. Raises DeltaConflict for another's."""
    found = creation_lock_of(storage, location)
    if found is not None and found != creation_lock:
        place = f"{log_folder(location.rstrip('/') or '/')}/{commit_name(0)}"
        raise DeltaConflict(
            f"Cannot create a table: {place} says that another conversion began one; if none is running any more, delete "
            "that file and try again",
            path=place,
        )
    return found is not None


def creation_lock_of(storage: Storage, location: str) -> str | None:
    """The lock of the creation that is going on in a folder, or died there; None where there is none."""
    place = f"{log_folder(location.rstrip('/') or '/')}/{commit_name(0)}"
    try:
        if storage.head(place).size > _LARGEST_CLAIM:
            return None
        value = json.loads(storage.get(place).splitlines()[0])
        creation_lock = value["commitInfo"][_CLAIM]
    except (NotFound, ValueError, RecursionError, KeyError, IndexError, TypeError):
        return None
    return creation_lock if isinstance(creation_lock, str) else None


def partition_names(protocol: Protocol, metadata: Metadata) -> tuple[str, ...]:
    """Physical names of the partition columns, in the table's order."""
    mapping = ColumnMapping.of(protocol, metadata)
    return tuple(mapping.physical_name(metadata.schema.field(name)) for name in metadata.partition_columns)


def _roll_back(storage: Storage, log: str) -> None:
    """Delete the checkpoint of the first version, its first part first, and then the creation lock."""
    parts = []
    for info in storage.list(log):
        file = parse_log_file(info.location)
        if file is not None and file.kind is LogFileKind.CHECKPOINT_PART and file.version == FIRST_VERSION:
            parts.append((file.part or 0, info.location))
    for _, location in sorted(parts):
        storage.delete(location)
    storage.delete(f"{log}/{commit_name(0)}")


def _numbered(batches: Iterable[pa.RecordBatch], recipe: PartsRecipe, mark: int) -> Iterator[pa.RecordBatch]:
    """With row ids above all others where files have none."""
    names = partition_names(recipe.protocol, recipe.metadata)
    for batch in batches:
        if batch.num_rows:
            for done in row_tracking.assign([conformed(batch, names)], mark=mark, version=FIRST_VERSION):
                mark = max(mark, row_tracking.highest_id(done))
                yield done


def _metrics(totals: ChangeTotals) -> dict[str, str]:
    numbers = {"numFiles": totals.files, "numOutputBytes": totals.bytes, "numAddedFiles": totals.files}
    numbers |= {"numAddedBytes": totals.bytes, "numRemovedFiles": 0, "numDeletionVectorsAdded": totals.vectors}
    if totals.rows is not None:
        numbers["numOutputRows"] = totals.rows
    return {name: str(number) for name, number in numbers.items()}


def _lines(actions: Iterable[tuple[str, Mapping[str, object]]]) -> CommitContent:
    return CommitContent(action_line(name, body) for name, body in actions)
