"""Replaying the log: the newest action wins. PROTOCOL "Action Reconciliation".

The commits after a checkpoint are reconciled among themselves; a checkpoint's files then only have to be asked whether
a later commit mentions them, so they stream by.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.delta.actions import DomainMetadata, Metadata, Txn
from deltaberg.delta.commit_json import FileActions, LoggedAction
from deltaberg.delta.errors import CorruptLog
from deltaberg.delta.file_actions import file_keys
from deltaberg.delta.log_parquet import BATCH_ROWS
from deltaberg.delta.protocol import Protocol
from deltaberg.errors import error_context

_KEYS_PER_ROW = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallState:
    """The newest of each small action, as logged, and every live transaction and metadata domain."""

    protocol: LoggedAction | None
    metadata: LoggedAction | None
    txns: Mapping[str, Txn]
    domain_metadata: Mapping[str, DomainMetadata]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedFiles:
    """The file actions of the commits after a checkpoint, reconciled.

    ``adds`` are live, ``removes`` tombstones; ``paths`` and ``logical_files`` are the keys of everything mentioned.
    """

    adds: pa.Table
    removes: pa.Table
    paths: pa.Array = field(repr=False)
    logical_files: pa.Array = field(repr=False)
    live_paths: pa.Array = field(repr=False)

    def without_rows(self) -> ReplayedFiles:
        """Only the keys: enough to say which files of a checkpoint are still live."""
        return replace(self, adds=self.adds.slice(0, 0), removes=self.removes.slice(0, 0))

    def keep_unmentioned(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The adds of a checkpoint that no later commit touches.

        Raises CorruptLog when a file is live in the checkpoint and, with another deletion vector, in a later commit.
        """
        return self._filtered(batches, self._unmentioned_adds)

    def keep_unmentioned_tombstones(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The removes of a checkpoint whose logical file no later commit mentions."""
        return self._filtered(batches, self._unmentioned_removes)

    def _filtered(
        self, batches: Iterable[pa.RecordBatch], keep: Callable[[pa.RecordBatch], pa.RecordBatch]
    ) -> Iterator[pa.RecordBatch]:
        # Each look-up hashes all keys again, so many keys are looked for in many rows at once.
        for rows in _gathered(batches, len(self.paths) // _KEYS_PER_ROW):
            kept = keep(rows)
            for start in range(0, kept.num_rows, BATCH_ROWS):
                yield kept.slice(start, BATCH_ROWS)

    def _unmentioned_adds(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        paths, logical_files = file_keys(rows)
        mentioned = pc.is_in(paths, self.paths)
        if not pc.any(mentioned, min_count=0).as_py():
            return rows
        gone = pc.is_in(logical_files, self.logical_files)
        twice = pc.and_not(pc.is_in(paths, self.live_paths), gone)
        if pc.any(twice, min_count=0).as_py():
            raise _live_twice(rows.column("path").filter(twice)[0].as_py())
        return rows.filter(pc.invert(gone))

    def _unmentioned_removes(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        return rows.filter(pc.invert(pc.is_in(file_keys(rows)[1], self.logical_files)))


def _gathered(batches: Iterable[pa.RecordBatch], enough: int) -> Iterator[pa.RecordBatch]:
    """Batches of one schema joined until they have ``enough`` rows."""
    waiting: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        if waiting and not batch.schema.equals(waiting[0].schema):
            yield pa.concat_batches(waiting)
            waiting, rows = [], 0
        waiting.append(batch)
        rows += batch.num_rows
        if rows >= enough:
            yield waiting[0] if len(waiting) == 1 else pa.concat_batches(waiting)
            waiting, rows = [], 0
    if waiting:
        yield pa.concat_batches(waiting)


def reconcile_small_actions(actions: Iterable[LoggedAction]) -> SmallState:
    """Replay small actions in the order of the log.

    Raises CorruptLog naming version and file when one commit, or a checkpoint, has two that reconcile with each other.
    """
    newest: dict[tuple[str, str], LoggedAction] = {}
    txns: dict[str, Txn] = {}
    domains: dict[str, DomainMetadata] = {}
    for action in actions:
        with error_context(version=action.version, path=action.location):
            match action.name:
                case "protocol" | "metaData":
                    key = ""
                case "txn":
                    txn = Txn.from_json(action.body)
                    key = txn.app_id
                    txns[key] = txn
                case "domainMetadata":
                    domain = DomainMetadata.from_json(action.body)
                    key = domain.domain
                    domains[key] = domain
                case _:
                    continue
            known = newest.get((action.name, key))
            if known is not None and known.version == action.version:
                of = f" of {key!r}" if key else ""
                raise CorruptLog(f"Cannot read the log: it has two {action.name} actions{of} (expected one)")
            newest[action.name, key] = action
    return SmallState(
        protocol=newest.get(("protocol", "")),
        metadata=newest.get(("metaData", "")),
        txns=txns,
        domain_metadata={name: domain for name, domain in domains.items() if not domain.removed},
    )


def table_state(state: SmallState, *, version: int) -> tuple[Protocol, Metadata]:
    """Protocol and metadata of a version. Raises CorruptLog when the log has none, and what their parsers raise."""
    for name, action in (("protocol", state.protocol), ("metaData", state.metadata)):
        if action is None:
            raise CorruptLog(f"Cannot open version {version}: the log has no {name} action", version=version)
    assert state.protocol is not None
    assert state.metadata is not None
    with error_context(version=state.protocol.version, path=state.protocol.location):
        protocol = Protocol.from_json(state.protocol.body)
        protocol.require_readable()
    with error_context(version=state.metadata.version, path=state.metadata.location):
        metadata = Metadata.from_json(state.metadata.body)
    return protocol, metadata


def replay_file_actions(pieces: Sequence[FileActions]) -> ReplayedFiles | None:
    """Reconcile the file actions of commits; None when there are none.

    Raises CorruptLog naming version and path when one commit adds a file twice, removes it twice, or adds and removes
    the same logical file, and when a file ends up live twice with different deletion vectors.
    """
    if not any(piece.adds.num_rows or piece.removes.num_rows for piece in pieces):
        return None
    adds = pa.Table.from_batches([piece.adds for piece in pieces]).combine_chunks()
    removes = pa.Table.from_batches([piece.removes for piece in pieces]).combine_chunks()
    versions = np.concatenate([*(piece.add_versions for piece in pieces), *(piece.remove_versions for piece in pieces)])
    is_add = np.arange(len(versions)) < adds.num_rows
    (add_paths, add_files), (remove_paths, remove_files) = file_keys(adds), file_keys(removes)
    paths, path_codes = _encoded(add_paths, remove_paths)
    logical_files, file_codes = _encoded(add_files, remove_files)
    # A log compaction may hold several removes of one path, with different deletion vectors.
    _refuse_repeats(paths, path_codes[is_add], versions[is_add], "an add of the same path twice")
    _refuse_repeats(logical_files, file_codes, versions, "two actions for the same file")

    order = np.argsort(versions, kind="stable")
    newest = np.empty(len(logical_files), dtype=np.int64)
    newest[file_codes[order]] = order  # of repeated positions the last assignment, the newest action, stays
    latest = newest[file_codes] == np.arange(len(versions))
    live, dead = np.flatnonzero(latest & is_add), np.flatnonzero(latest & ~is_add) - adds.num_rows
    live_paths, counts = np.unique(path_codes[live], return_counts=True)
    if len(live_paths) < len(live):
        raise _live_twice(paths[int(live_paths[np.argmax(counts)])].as_py())
    return ReplayedFiles(
        adds=adds.take(pa.array(live)),
        removes=removes.take(pa.array(dead)),
        paths=paths,
        logical_files=logical_files,
        live_paths=paths.take(pa.array(live_paths)),
    )


def _encoded(first: pa.Array, second: pa.Array) -> tuple[pa.Array, np.ndarray]:
    """Distinct keys of two columns, and the number of each row's key, the rows of the first column first."""
    encoded = pc.dictionary_encode(pa.concat_arrays([_plain(first), _plain(second)]))
    return encoded.dictionary, encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)


def _plain(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    if not isinstance(column, pa.ChunkedArray):
        return column
    combined = column.combine_chunks()
    return combined if isinstance(combined, pa.Array) else pa.concat_arrays(combined.chunks)


def _refuse_repeats(keys: pa.Array, codes: np.ndarray, versions: np.ndarray, what: str) -> None:
    order = np.lexsort((versions, codes))
    same = (np.diff(codes[order]) == 0) & (np.diff(versions[order]) == 0)
    if same.any():
        row = int(order[np.flatnonzero(same)[0]])
        path = keys[int(codes[row])].as_py().partition("\0")[0]
        version = int(versions[row])
        raise CorruptLog(f"Cannot replay the log: commit {version} has {what} ({path})", version=version, path=path)


def _live_twice(path: str) -> CorruptLog:
    return CorruptLog(
        f"Cannot replay the log: {path} is live twice, with different deletion vectors "
        "(expected a remove of the former with the add of the latter)",
        path=path,
    )
