"""The changes that a commit may make to live files (PROTOCOL "Add File and Remove File", "Action Reconciliation").

A remove of a file that is not live changes nothing for readers, and an add of one that is live replaces its entry in
the log; but both would make the totals of a checksum wrong, and no table may have a path that is live with two deletion
vectors. So the actions of a transaction must match the live files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.delta.commit.file_changes import FileChanges
from deltaberg.delta.errors import InvalidDeltaRequest
from deltaberg.delta.log.add_path import path_keys
from deltaberg.delta.log.file_actions import file_keys
from deltaberg.delta.log.path_fingerprints import PathFingerprints, paths_among
from deltaberg.delta.snapshot import Snapshot

_NO_KEYS = pa.array([], pa.string())


def check_live_files(base: Snapshot, files: FileChanges) -> None:
    """Raise InvalidDeltaRequest for a removed or recommitted file that is not live, and for a new one that is and stays.

    Of the table's files only paths and deletion vectors are read.
    """
    named = PathFingerprints.all_of(
        [files.adds.fingerprints, files.recommitted.fingerprints, files.removed_fingerprints]
    )
    if len(named) == 0:
        return
    live_paths, live_files = _live(base, named)
    for batch in files.all_removes:
        path = _first_outside(batch, live_files)
        if path is not None:
            raise InvalidDeltaRequest(
                f"Cannot remove a file that is not live{_with_this_vector(path, live_paths)} in version {base.version}; "
                "give the rows of its add",
                path=path,
            )
    for batch in files.recommitted:
        path = _first_outside(batch, live_files)
        if path is not None:
            raise InvalidDeltaRequest(
                f"Cannot commit a file again that is not live{_with_this_vector(path, live_paths)} in version "
                f"{base.version}; add it as a new one",
                path=path,
            )
    if len(live_paths):
        removed = list(_path_keys(files.all_removes))
        for batch in files.adds:
            keys = path_keys(batch.column("path"))
            known = keys.filter(pc.is_in(keys, live_paths))
            for each in removed:
                known = known.filter(pc.invert(pc.is_in(known, each)))
            if len(known):
                raise InvalidDeltaRequest(
                    f"Cannot add a file that is live in version {base.version} already: remove it in the same commit, or "
                    "commit it again with recommitted=True",
                    path=known[0].as_py(),
                )


def _live(base: Snapshot, named: np.ndarray) -> tuple[pa.Array, pa.Array]:
    """The keys of the live files whose path may be among those named: by path, and by path and deletion vector."""
    by_path, by_file = [_NO_KEYS], [_NO_KEYS]
    for rows in base.live_names():
        paths = path_keys(rows.column("path"))
        found = paths_among(paths, named)
        if len(found):
            some = rows.filter(pc.is_in(paths, found))
            keys, logical = file_keys(some)
            by_path.append(keys)
            by_file.append(logical)
    return pa.concat_arrays(by_path), pa.concat_arrays(by_file)


def _first_outside(batch: pa.RecordBatch, live: pa.Array) -> str | None:
    keys, logical = file_keys(batch)
    outside = keys.filter(pc.invert(pc.is_in(logical, live)))
    return str(outside[0]) if len(outside) else None


def _path_keys(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Array]:
    return (path_keys(batch.column("path")) for batch in batches)


def _with_this_vector(path: str, live_paths: pa.Array) -> str:
    return " with this deletion vector" if pc.is_in(pa.scalar(path), live_paths).as_py() else ""
