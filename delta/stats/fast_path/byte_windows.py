"""Bytes at many places of one long text, taken as words and compared at once."""

from __future__ import annotations

import threading

import numpy as np
import numpy.typing as npt
import pyarrow as pa

WORD = 8
_MOST_KEPT = 1 << 21  # words

Bytes = npt.NDArray[np.uint8]
Places = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]
Mask = npt.NDArray[np.bool_]


class Scratch(threading.local):
    """Tables of words that a thread fills again and again: fresh pages would cost more than the work in them."""

    def __init__(self) -> None:
        self._kept: dict[str, Words] = {}

    def table(self, purpose: str, rows: int, columns: int) -> Words:
        """A table with any content, which the next caller in the same thread overwrites."""
        size = rows * columns
        if size > _MOST_KEPT:
            return np.empty((rows, columns), dtype=np.uint64)
        kept = self._kept.get(purpose)
        if kept is None or len(kept) < size:
            kept = self._kept[purpose] = np.empty(size, dtype=np.uint64)
        return kept[:size].reshape(rows, columns)


def characters(values: pa.Array) -> tuple[npt.NDArray[np.int32], Bytes]:
    """Offsets from 0, and the bytes of a text or binary array without nulls."""
    _, offsets, data = values.buffers()
    ends = np.frombuffer(offsets, dtype=np.int32)[values.offset : values.offset + len(values) + 1]
    if data is None:
        return ends, np.empty(0, dtype=np.uint8)
    return ends - ends[0], np.frombuffer(data, dtype=np.uint8)[ends[0] : ends[-1]]


def words_at(data: Bytes, places: Places, count: int) -> Words:
    """The ``count`` words of eight bytes from each place on, first byte lowest; shape (*places.shape, count).

    Places ascend in the last dimension. Bytes after the end of the text are zero.
    """
    width = count * WORD
    last = len(data) - width
    if not places.size or places[..., -1].max() <= last:
        found = _windows(data, width)[places]
    else:
        inside = places <= last
        found = np.zeros(places.shape, dtype=f"V{width}")
        if last >= 0:
            found[inside] = _windows(data, width)[places[inside]]
        rows = found.view(np.uint8).reshape(*places.shape, width)
        for place in zip(*np.nonzero(~inside), strict=True):
            piece = data[int(places[place]) :]
            rows[place][: len(piece)] = piece
    words: Words = found.view("<u8").reshape(*places.shape, count)
    return words


def _windows(data: Bytes, width: int) -> npt.NDArray[np.void]:
    """The ``width`` bytes from every place that has as many."""
    return np.ndarray(shape=(max(0, len(data) - width + 1),), dtype=f"V{width}", buffer=data, strides=(1,))


def words_of(text: bytes, count: int) -> tuple[Words, Words]:
    """A text as so many words, and the bits of them that it fills."""
    words, filled = (
        np.frombuffer(each.ljust(count * WORD, b"\0"), dtype="<u8") for each in (text, b"\xff" * len(text))
    )
    return words, filled


def other_texts_at(data: Bytes, places: Places, text: bytes) -> Mask | None:
    """The places that hold another text; None when all of them hold the given one. Places ascend."""
    if not text:
        return None
    expected, filled = words_of(text, -(-len(text) // WORD))
    other = (words_at(data, places, len(expected)) ^ expected) & filled
    if not other.any():
        return None
    return np.asarray(other.any(axis=-1))
