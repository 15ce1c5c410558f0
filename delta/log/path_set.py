"""Which of many paths are among many others, asked batch by batch. PROTOCOL "Action Reconciliation".

Arrow's look-up hashes all members again for every batch; here they are sorted by fingerprint once, and only where a
fingerprint is found are the paths themselves compared. Sixteen bytes a member beside the paths.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.delta.log.path_fingerprints import fingerprints


class PathSet:
    """A set of the paths of a non-null string array."""

    def __init__(self, members: pa.Array) -> None:
        found = fingerprints(members) if len(members) else np.empty(0, dtype=np.uint64)
        self._members = members
        self._order = np.argsort(found)
        self._sorted = found[self._order]
        self._shared = np.unique(self._sorted[1:][self._sorted[1:] == self._sorted[:-1]])

    def holds(self, paths: pa.Array) -> npt.NDArray[np.bool_]:
        """Whether each path of a non-null string array is a member."""
        result = np.zeros(len(paths), dtype=np.bool_)
        if not len(paths) or not len(self._sorted):
            return result
        found = fingerprints(paths)
        places = np.minimum(np.searchsorted(self._sorted, found), len(self._sorted) - 1)
        rows = np.flatnonzero(self._sorted[places] == found)
        if not len(rows):
            return result
        asked = paths.take(pa.array(rows))
        same = pc.equal(asked, self._members.take(pa.array(self._order[places[rows]])))
        result[rows] = same.to_numpy(zero_copy_only=False)
        if len(self._shared):
            # Other members share the fingerprint: only the slow look-up decides.
            unclear = np.isin(found[rows], self._shared) & ~result[rows]
            result[rows[unclear]] = pc.is_in(asked.filter(pa.array(unclear)), self._members).to_numpy(
                zero_copy_only=False
            )
        return result
