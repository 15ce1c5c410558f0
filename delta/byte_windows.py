"""Bytes at many places of one long text, taken as words and compared at once."""

from __future__ import annotations

import threading

import numpy as np
import numpy.typing as npt

WORD = 8
_MOST_KEPT = 1 << 20  # words

Bytes = npt.NDArray[np.uint8]
Places = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]
Mask = npt.NDArray[np.bool_]


class Scratch(threading.local):
    """Tables of words that a thread fills again and again: fresh pages would cost more than the work in them."""

    def __init__(self) -> None:
        self._kept: dict[str, Words] = {}

    def table(self, purpose: str, rows: int, columns: int) -> Words:
        """A table with any content, which is overwritten by whoever asks for that purpose next in the same thread."""
        size = rows * columns
        if size > _MOST_KEPT:
            return np.empty((rows, columns), dtype=np.uint64)
        kept = self._kept.get(purpose)
        if kept is None or len(kept) < size:
            kept = self._kept[purpose] = np.empty(size, dtype=np.uint64)
        return kept[:size].reshape(rows, columns)


def words_at(data: Bytes, places: Places, count: int, out: Words | None = None) -> Words:
    """The ``count`` words of eight bytes from each place on, first byte lowest; shape (count, places).

    Places ascend. Bytes after the end of the text are zero.
    """
    width = count * WORD
    inside = int(np.searchsorted(places, len(data) - width, side="right"))
    if inside == len(places):
        found = _windows(data, width)[places]
    else:
        found = np.zeros(len(places), dtype=f"V{width}")
        if inside:
            found[:inside] = _windows(data, width)[places[:inside]]
        rows = found.view(np.uint8).reshape(len(places), width)
        for row in range(inside, len(places)):
            piece = data[int(places[row]) :]
            rows[row, : len(piece)] = piece
    words = np.empty((count, len(places)), dtype=np.uint64) if out is None else out
    words[:] = found.view("<u8").reshape(len(places), count).T
    return words


def _windows(data: Bytes, width: int) -> npt.NDArray[np.void]:
    """The ``width`` bytes from every place that has as many."""
    return np.ndarray(shape=(len(data) - width + 1,), dtype=f"V{width}", buffer=data, strides=(1,))


def other_than(words: Words, text: bytes) -> Mask | None:
    """Which columns of words do not begin with a text; None when all do."""
    other = None
    for number in range(-(-len(text) // WORD)):
        part = text[number * WORD : (number + 1) * WORD]
        word = words[number]
        if len(part) < WORD:
            word = word & np.uint64((1 << 8 * len(part)) - 1)
        here = word != np.uint64(int.from_bytes(part, "little"))
        if here.any():
            other = here if other is None else other | here
    return other


def other_texts_at(data: Bytes, places: Places, text: bytes) -> Mask | None:
    """At which places another text stands; None when it is that text at all of them. Places ascend."""
    return other_than(words_at(data, places, -(-len(text) // WORD)), text) if text else None


def from_byte(words: Words, place: int, count: int) -> list[Words]:
    """``count`` words that begin at a byte of the first ones; missing bytes are zero."""
    first, bits = divmod(8 * place, 8 * WORD)
    if not bits:
        return list(words[first : first + count])
    found = []
    for number in range(first, first + count):
        word = words[number] >> np.uint64(bits)
        if number + 1 < len(words):
            word |= words[number + 1] << np.uint64(8 * WORD - bits)
        found.append(word)
    return found
