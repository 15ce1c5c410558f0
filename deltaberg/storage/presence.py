"""Which of many files are there: local folders are read, listings of an object store are searched.

A listing gives a thousand names for one request, so a folder is listed as long as it does not hold far more than what
is asked for; the rest is searched in the folders below, and in the end asked for by name. No more than one piece of a
listing is in memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.storage.errors import PermissionDenied
from deltaberg.storage.local_files import LocalFiles

Mask = npt.NDArray[np.bool_]
_Rows = npt.NDArray[np.int64]

FEW: Final = 16
"""Up to so many files are asked for by name rather than listed."""
WASTE: Final = 10
"""A listing is given up once it has named so many times the number of wanted files (and ``SPARE`` more)."""
SPARE: Final = 10_000

_NAMES_AT_ONCE: Final = 65_536
_THREADS: Final = 16
_BUCKET: Final = r"^([^:]+://[^/]*/).*"
_NO_KEY: Final = r"^[^:]+://[^/]*/?$|^[^:]+://.*(//|/\.\.?/|/\.\.?$|/$|[\x00-\x1f])"


class Objects(Protocol):
    """The operations of an object store that this module needs."""

    def lists(self, url: str) -> bool:
        """Whether the store of a URL can be listed at all."""
        ...

    def names(self, folder: str) -> Iterator[tuple[str, ...]]:
        """Names below a folder at any depth, relative to it, in pieces and in no particular order."""
        ...

    def exists(self, url: str) -> bool: ...


def present_locally(files: LocalFiles, paths: pa.Array) -> Mask:
    """Whether a regular file stands at each absolute path. Raises StorageError for a folder that may not be read."""
    found = np.zeros(len(paths), dtype=np.bool_)
    folders = pc.replace_substring_regex(paths, r"[^/]*$", "").dictionary_encode()
    order = np.argsort(folders.indices.to_numpy(), kind="stable")
    starts = np.searchsorted(folders.indices.to_numpy()[order], np.arange(len(folders.dictionary) + 1))
    names = pc.replace_substring_regex(paths, r"(?s)^.*/", "")
    for place, folder in enumerate(folders.dictionary.to_pylist()):
        for start in range(starts[place], starts[place + 1], _NAMES_AT_ONCE):
            rows = order[start : min(start + _NAMES_AT_ONCE, starts[place + 1])]
            found[rows] = files.present(folder, names.take(pa.array(rows)).to_pylist())
    return found


def present_remotely(objects: Objects, urls: pa.Array) -> Mask:
    """Whether an object stands at each URL. Raises StorageError for a store that does not answer or a URL without a key."""
    found = np.zeros(len(urls), dtype=np.bool_)
    # The store is asked for those that it cannot have, and says why.
    odd = np.asarray(pc.match_substring_regex(urls, _NO_KEY))
    _by_name(objects, urls, np.flatnonzero(odd), found)
    buckets = pc.replace_substring_regex(urls, _BUCKET, r"\1").dictionary_encode()
    of_bucket = buckets.indices.to_numpy()
    for place, bucket in enumerate(buckets.dictionary.to_pylist()):
        rows = np.flatnonzero((of_bucket == place) & ~odd)
        if len(rows) and objects.lists(bucket + "x"):
            _by_listing(objects, urls, rows, found)
        else:
            _by_name(objects, urls, rows, found)
    return found


def _by_name(objects: Objects, urls: pa.Array, rows: _Rows, found: Mask) -> None:
    if len(rows):
        with ThreadPoolExecutor(max_workers=_THREADS) as pool:
            found[rows] = list(pool.map(objects.exists, urls.take(pa.array(rows)).to_pylist()))


def _by_listing(objects: Objects, urls: pa.Array, rows: _Rows, found: Mask) -> None:
    """Which objects of one bucket are there."""
    if len(rows) <= FEW:
        _by_name(objects, urls, rows, found)
        return
    wanted = urls.take(pa.array(rows))
    folder = _common_folder(wanted)
    relative = pc.binary_replace_slice(wanted.cast(pa.binary()), 0, len(folder.encode()) + 1, b"").cast(pa.string())
    here, left = np.zeros(len(rows), dtype=np.bool_), SPARE + WASTE * len(rows)
    try:
        for names in objects.names(folder):
            here |= np.asarray(pc.is_in(relative, value_set=pa.array(names, pa.string())))
            left -= len(names)
            if left < 0 or here.all():
                break
    except PermissionDenied:  # one may be allowed to read objects and not to list them
        _by_name(objects, urls, rows, found)
        return
    found[rows] = here
    if left >= 0 or here.all():
        return
    unseen = np.flatnonzero(~here)
    rest = relative.take(pa.array(unseen))
    deeper = np.asarray(pc.match_substring(rest, "/"))
    _by_name(objects, urls, rows[unseen[~deeper]], found)
    below = pc.replace_substring_regex(rest, r"(?s)/.*$", "").dictionary_encode().indices.to_numpy()
    for place in np.unique(below[deeper]):
        _by_listing(objects, urls, rows[unseen[deeper & (below == place)]], found)


def _common_folder(urls: pa.Array) -> str:
    """The deepest folder above all of them. A prefix that the first and the last in order share, all share."""
    ends = pc.min_max(urls).as_py()
    first, last = ends["min"].split("/")[:-1], ends["max"].split("/")[:-1]
    shared = next((place for place, (one, other) in enumerate(zip(first, last, strict=False)) if one != other), None)
    return "/".join(first[: min(len(first), len(last)) if shared is None else shared])
