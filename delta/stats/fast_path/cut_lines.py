"""Lines of one text cut at their commas, all at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from deltaberg.delta.stats.fast_path.byte_windows import WORD, Bytes, Places, Scratch, characters, other_texts_at
from deltaberg.delta.stats.fast_path.json_layout import Piece

_COMMA = ord(",")
_BLOCK_BYTES = 1 << 21  # of text that is worked on at once: about what the processor's caches hold
_RUN_BYTES = 256  # of constants compared at once

_SCRATCH = Scratch()


@dataclass(frozen=True, slots=True, kw_only=True)
class CutLines:
    """``bounds``: a column for each line, the place before its first piece and where each ends; until the next cut only.

    rows: the lines that have as many pieces as asked; None when all do.
    """

    data: Bytes
    bounds: Places
    rows: Places | None

    @property
    def lines(self) -> int:
        return int(self.bounds.shape[1])

    def starts(self, piece: int) -> Places:
        starts: Places = self.bounds[piece] + 1
        return starts

    def ends(self, piece: int) -> Places:
        ends: Places = self.bounds[piece + 1]
        return ends

    def samples(self, piece: int) -> tuple[bytes, ...]:
        """The piece in a few of the lines."""
        return tuple(
            self.data[self.bounds[piece, line] + 1 : self.bounds[piece + 1, line]].tobytes()
            for line in (0, self.lines // 2, self.lines - 1)
        )

    def blocks(self) -> Iterator[tuple[int, int]]:
        """Lines from and to, in blocks of text that the processor's caches hold."""
        return _blocks(len(self.data), self.lines)


def cut_lines(lines: pa.Array, pieces: int) -> CutLines | None:
    """The lines with so many pieces; None when they are less than half."""
    offsets, data = characters(lines)
    bounds = _SCRATCH.table("bounds", pieces + 1, len(lines)).view(np.int64)
    bounds[0], bounds[-1] = offsets[:-1], offsets[1:]
    bounds[0] -= 1
    if _find_commas(data, offsets, bounds[1:-1]):
        return CutLines(data=data, bounds=bounds, rows=None)
    commas = np.flatnonzero(data == _COMMA)
    first, beyond = np.searchsorted(commas, offsets[:-1]), np.searchsorted(commas, offsets[1:])
    rows = np.flatnonzero(beyond - first == pieces - 1)
    if 2 * len(rows) < len(lines):
        return None
    bounds = bounds[:, rows]
    bounds[1:-1] = commas[first[rows] + np.arange(pieces - 1)[:, None]]
    return CutLines(data=data, bounds=bounds, rows=rows)


def constant_pieces(cut: CutLines, layout: Sequence[Piece]) -> list[bool]:
    """Which pieces are the same in every line, as is usual for counts of nulls; neighbours are compared together."""
    constant = [False] * len(layout)
    maybe = [all(text == piece.whole for text in cut.samples(number)) for number, piece in enumerate(layout)]
    low = 0
    while low < len(layout):
        if not maybe[low]:
            low += 1
            continue
        high, size = low + 1, len(layout[low].whole)
        while high < len(layout) and maybe[high] and size + 1 + len(layout[high].whole) <= _RUN_BYTES:
            size += 1 + len(layout[high].whole)
            high += 1
        _mark_constant(cut, layout, low, high, constant)
        low = high
    return constant


def _mark_constant(cut: CutLines, layout: Sequence[Piece], low: int, high: int, constant: list[bool]) -> None:
    """Mark the pieces of a run that are the same in every line, halving it where they are not all."""
    text = b",".join(piece.whole for piece in layout[low:high])
    starts = cut.starts(low)
    if bool((cut.ends(high - 1) - starts == len(text)).all()) and other_texts_at(cut.data, starts, text) is None:
        constant[low:high] = [True] * (high - low)
    elif high - low > 1:
        middle = (low + high) // 2
        _mark_constant(cut, layout, low, middle, constant)
        _mark_constant(cut, layout, middle, high, constant)


def _find_commas(data: Bytes, offsets: npt.NDArray[np.int32], found: Places) -> bool:
    """Put the places of the commas of each line into a column of ``found``; whether every line has as many."""
    count, lines = found.shape
    longest = max(int(offsets[high] - offsets[low]) for low, high in _blocks(len(data), lines))
    is_comma = _SCRATCH.table("is comma", 1, -(-longest // WORD)).view(np.bool_)[0]
    for low, high in _blocks(len(data), lines):
        begin = int(offsets[low])
        text = data[begin : offsets[high]]
        commas = np.flatnonzero(np.equal(text, _COMMA, out=is_comma[: len(text)]))
        if len(commas) != count * (high - low):
            return False
        if count:
            commas += begin
            by_line = commas.reshape(high - low, count)
            if (by_line[:, 0] < offsets[low:high]).any() or (by_line[:, -1] >= offsets[low + 1 : high + 1]).any():
                return False
            found[:, low:high] = by_line.T
    return True


def _blocks(size: int, lines: int) -> Iterator[tuple[int, int]]:
    step = max(1, lines * _BLOCK_BYTES // max(1, size))
    for low in range(0, lines, step):
        yield low, min(low + step, lines)
