"""Replaying the log: the newest action wins. PROTOCOL "Action Reconciliation".

The commits after a checkpoint are reconciled among themselves; a checkpoint's files then only have to be asked whether
a later commit mentions them, so they stream by.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.delta.checkpoint.log_parquet import BATCH_ROWS
from deltaberg.delta.errors import CorruptLog
from deltaberg.delta.log.actions import DomainMetadata, Metadata, Txn
from deltaberg.delta.log.commit_reader import FileActions, LoggedAction
from deltaberg.delta.log.file_actions import file_keys
from deltaberg.delta.log.path_fingerprints import are_distinct
from deltaberg.delta.log.path_set import PathSet
from deltaberg.delta.protocol.protocol import Protocol
from deltaberg.errors import error_context


@dataclass(frozen=True, slots=True, kw_only=True)
class NonFileState:
    """The newest of each non-file action, as logged, and every live transaction and metadata domain."""

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
        """Only the keys, which suffice to tell which files of a checkpoint are still live."""
        return replace(self, adds=self.adds.slice(0, 0), removes=self.removes.slice(0, 0))

    def drop_superseded(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The adds of a checkpoint that no later commit touches.

        Raises CorruptLog when a file is live in the checkpoint and, with another deletion vector, in a later commit.
        """
        paths, logical_files = self._sets()
        live_paths = PathSet(self.live_paths)

        def kept(rows: pa.RecordBatch) -> pa.RecordBatch:
            keys, files = file_keys(rows)
            mentioned = paths.holds(keys)
            if not mentioned.any():
                return rows
            gone = mentioned if files is keys and logical_files is paths else logical_files.holds(files)
            twice = live_paths.holds(keys) & ~gone
            if twice.any():
                raise _live_twice(rows.column("path")[int(np.argmax(twice))].as_py())
            return rows.filter(pa.array(~gone))

        return _gathered(map(kept, batches), BATCH_ROWS // 2)

    def drop_superseded_tombstones(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The removes of a checkpoint whose logical file no later commit mentions."""
        _, logical_files = self._sets()
        kept = (rows.filter(pa.array(~logical_files.holds(file_keys(rows)[1]))) for rows in batches)
        return _gathered(kept, BATCH_ROWS // 2)

    def _sets(self) -> tuple[PathSet, PathSet]:
        paths = PathSet(self.paths)
        return paths, paths if self.logical_files is self.paths else PathSet(self.logical_files)


def _gathered(batches: Iterable[pa.RecordBatch], enough: int) -> Iterator[pa.RecordBatch]:
    """Batches of one schema joined until they have ``enough`` rows; each batch costs those who read it something."""
    waiting: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        if not batch.num_rows:
            continue
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


def reconcile_non_file_actions(actions: Iterable[LoggedAction]) -> NonFileState:
    """Replay non-file actions in the order of the log.

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
    return NonFileState(
        protocol=newest.get(("protocol", "")),
        metadata=newest.get(("metaData", "")),
        txns=txns,
        domain_metadata={name: domain for name, domain in domains.items() if not domain.removed},
    )


def table_state(state: NonFileState, *, version: int) -> tuple[Protocol, Metadata]:
    """Protocol and metadata of a version. Raises CorruptLog when the log has none, and the errors of parsing them."""
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
    adds = pa.Table.from_batches([piece.adds for piece in pieces])
    removes = pa.Table.from_batches([piece.removes for piece in pieces])
    versions = np.concatenate([*(piece.add_versions for piece in pieces), *(piece.remove_versions for piece in pieces)])
    is_add = np.arange(len(versions)) < adds.num_rows
    (add_paths, add_files), (remove_paths, remove_files) = file_keys(adds), file_keys(removes)
    paths, path_codes = _encoded(add_paths, remove_paths)
    logical_files, file_codes = paths, path_codes
    if add_files is not add_paths or remove_files is not remove_paths:
        logical_files, file_codes = _encoded(add_files, remove_files)
    # A log compaction may hold several removes of one path, with different deletion vectors.
    _refuse_repeats(paths, path_codes[is_add], versions[is_add], "an add of the same path twice")
    _refuse_repeats(logical_files, file_codes, versions, "two actions for the same file")

    order = np.argsort(versions, kind="stable")
    newest = np.empty(len(logical_files), dtype=np.int64)
    newest[file_codes[order]] = order  # of repeated positions the last assignment, the newest action, stays
    latest = newest[file_codes] == np.arange(len(versions))
    live = np.flatnonzero(latest & is_add)
    live_paths, counts = np.unique(path_codes[live], return_counts=True)
    if len(live_paths) < len(live):
        raise _live_twice(paths[int(live_paths[np.argmax(counts)])].as_py())
    return ReplayedFiles(
        adds=_kept(adds, latest[: adds.num_rows]),
        removes=_kept(removes, latest[adds.num_rows :]),
        paths=paths,
        logical_files=logical_files,
        live_paths=paths.take(pa.array(live_paths)),
    )


def _encoded(first: pa.Array, second: pa.Array) -> tuple[pa.Array, np.ndarray]:
    """Distinct keys of two columns, and the number of each row's key, the rows of the first column first."""
    columns = [column for column in (_plain(first), _plain(second)) if len(column)]
    keys = columns[0] if len(columns) == 1 else pa.concat_arrays(columns)
    if are_distinct(keys):
        return keys, np.arange(len(keys))
    encoded = pc.dictionary_encode(keys)
    return encoded.dictionary, encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)


def _kept(rows: pa.Table, mask: np.ndarray) -> pa.Table:
    return rows if mask.all() else rows.filter(pa.array(mask))


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
