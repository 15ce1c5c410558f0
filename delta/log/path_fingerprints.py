"""Whether any path occurs twice among millions, in eight bytes a path. PROTOCOL "Action Reconciliation".

A fingerprint that occurs twice only raises a suspicion: the caller compares those paths themselves.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

_WORD = 8
_WORDS_FROM_THE_END = 9  # The part that distinguishes file names, a UUID and a suffix, is near the end.
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(29)


class PathFingerprints:
    """Fingerprints of all paths seen so far."""

    def __init__(self) -> None:
        self._parts: list[npt.NDArray[np.uint64]] = []

    def add(self, paths: pa.Array) -> None:
        """Remember the paths of a non-null string array."""
        self.append(fingerprints(paths))

    def append(self, found: npt.NDArray[np.uint64]) -> None:
        """Remember paths by their ``fingerprints``."""
        if len(found):
            self._parts.append(found)

    def repeated(self) -> npt.NDArray[np.uint64]:
        """The fingerprints that occur more than once, in ascending order."""
        return PathFingerprints.repeated_among([self])

    @staticmethod
    def joined(several: Iterable[PathFingerprints]) -> PathFingerprints:
        """The fingerprints of several collections as one."""
        together = PathFingerprints()
        together._parts = [part for each in several for part in each._parts]
        return together

    @staticmethod
    def all_of(several: Iterable[PathFingerprints]) -> npt.NDArray[np.uint64]:
        """All fingerprints of several collections, in ascending order."""
        every = np.concatenate([np.empty(0, dtype=np.uint64), *PathFingerprints.joined(several)._parts])
        every.sort()
        return every

    @staticmethod
    def repeated_among(several: Iterable[PathFingerprints]) -> npt.NDArray[np.uint64]:
        """``repeated`` for all paths of several collections."""
        every = PathFingerprints.all_of(several)
        return np.unique(every[1:][every[1:] == every[:-1]])


def fingerprints(paths: pa.Array) -> npt.NDArray[np.uint64]:
    """A number for each path, the same for the same path: its length, its first bytes and the bytes near its end."""
    offsets = np.frombuffer(paths.buffers()[1], dtype=np.int32)[paths.offset : paths.offset + len(paths) + 1]
    start = int(offsets[0])
    size = int(offsets[-1]) - start
    data = np.zeros(size + _WORD, dtype=np.uint8)  # the last word may reach over the end
    if size:
        data[:size] = np.frombuffer(paths.buffers()[2], dtype=np.uint8)[start : start + size]
    words = np.ndarray(shape=(size + 1,), dtype="<u8", buffer=data, strides=(1,))
    starts = offsets[:-1].astype(np.int64) - start
    lengths = offsets[1:].astype(np.int64) - offsets[:-1]
    first = words[starts]
    short = lengths < _WORD
    if short.any():
        kept = (np.uint64(1) << (lengths[short].astype(np.uint64) * np.uint64(8))) - np.uint64(1)
        first[short] &= kept
    result = _mixed(first, lengths.astype(np.uint64))
    long = starts[~short]
    ends = long + lengths[~short]
    tail = result[~short]
    for number in range(1, _WORDS_FROM_THE_END + 1):
        tail = _mixed(words[np.maximum(ends - number * _WORD, long)], tail)
    result[~short] = tail
    return result


def are_distinct(paths: pa.Array) -> bool:
    """Whether no path occurs twice, as far as fingerprints tell: False may mean that two paths share theirs."""
    found = np.sort(fingerprints(paths))
    return not bool((found[1:] == found[:-1]).any())


def paths_among(paths: pa.Array, suspects: npt.NDArray[np.uint64]) -> pa.Array:
    """The paths whose fingerprint is one of ``suspects``, which ascend."""
    found = fingerprints(paths)
    places = np.minimum(np.searchsorted(suspects, found), len(suspects) - 1)
    return paths.filter(pa.array(suspects[places] == found))


def first_repeated(paths: pa.Array) -> str | None:
    """A path that occurs more than once in an array; None when there is none."""
    counts = pc.value_counts(paths)
    repeated = counts.field("values").filter(pc.greater(counts.field("counts"), 1))
    return str(repeated[0]) if len(repeated) else None


def _mixed(words: npt.NDArray[np.uint64], state: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    state = (words ^ state) * _MULTIPLIER
    return state ^ (state >> _SHIFT)
