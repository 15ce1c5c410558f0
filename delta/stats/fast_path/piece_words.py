"""The values of pieces of many lines as words, taken while the text is in the processor's caches.

Every call into NumPy costs the threads that read side by side a turn at the interpreter's lock, so pieces of one shape
are read together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from deltaberg.delta.stats.fast_path.byte_windows import WORD, Mask, Scratch, Words, words_at, words_of
from deltaberg.delta.stats.fast_path.cut_lines import CutLines
from deltaberg.delta.stats.fast_path.json_layout import Piece

_LONGEST_ROW = 40  # bytes of texts of one length that are read as words

_SCRATCH = Scratch()


@dataclass(frozen=True, slots=True, kw_only=True)
class PieceWords:
    """Pieces of one shape. ``words``: the first ones of each value, shape (pieces, words, lines); until the next call.

    kind: the kind that the caller expects.
    """

    pieces: tuple[int, ...]
    kind: str
    words: Words


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shape:
    """first: the word in which the value begins, counted from the piece; count: words that its value is read as."""

    kind: str
    first: int
    span: int
    count: int


def piece_words(
    cut: CutLines, layout: Sequence[Piece], kinds: Sequence[str | None], wrong: Mask, *, longest_number: int
) -> list[PieceWords]:
    """The words of all pieces that have a kind ("text", or one of numbers); pieces of one shape are put together.

    Lines of which a piece has another text before its value, or ends otherwise, become ``wrong``. Numbers are one or
    two words, texts as many as they are long, and none where they are not of one length.
    """
    shapes: dict[_Shape, list[int]] = {}
    for number, kind in enumerate(kinds):
        if kind is not None:
            shapes.setdefault(_shape(cut, number, layout[number], kind, longest_number), []).append(number)
    table = _SCRATCH.table("words", sum(shape.count * len(found) for shape, found in shapes.items()), cut.lines)
    groups: list[_Group] = []
    for shape, numbers in shapes.items():
        rows = shape.count * len(numbers)
        groups.append(_Group(cut, layout, shape, numbers, table[:rows]))
        table = table[rows:]
    closed = np.array([n for n, kind in enumerate(kinds) if kind is not None and layout[n].after], dtype=np.intp)
    closings = np.array([layout[number].after[-1] for number in closed], dtype=np.uint8)[:, None]
    for low, high in cut.blocks():
        for group in groups:
            group.read(low, high, wrong)
        other = cut.data[cut.bounds[closed + 1, low:high] - 1] != closings
        if other.any():
            wrong[low:high] |= other.any(axis=0)
    return [group.found_so_far for group in groups]


class _Group:
    """Pieces of one shape."""

    def __init__(
        self, cut: CutLines, layout: Sequence[Piece], shape: _Shape, numbers: Sequence[int], table: Words
    ) -> None:
        self._cut = cut
        self._shape = shape
        self._numbers = np.array(numbers, dtype=np.intp)
        self._known = min(shape.first + 1, shape.span)
        texts = [words_of(layout[number].before, self._known) for number in numbers]
        self._expected, self._filled = (np.stack(each)[:, :, None] for each in zip(*texts, strict=True))
        self._bits = np.array([8 * (len(layout[number].before) % WORD) for number in numbers], np.uint64)[:, None]
        self.found_so_far = PieceWords(
            pieces=tuple(numbers), kind=shape.kind, words=table.reshape(len(numbers), shape.count, cut.lines)
        )

    def read(self, low: int, high: int, wrong: Mask) -> None:
        shape, into = self._shape, self.found_so_far.words
        places = self._cut.bounds[self._numbers, low:high] + 1
        # Word by word, they can be worked on many at a time.
        found = np.ascontiguousarray(words_at(self._cut.data, places, shape.span).swapaxes(1, 2))
        other = (found[:, : self._known] ^ self._expected) & self._filled
        if other.any():
            wrong[low:high] |= other.any(axis=(0, 1))
        for number in range(shape.count):
            word = np.right_shift(found[:, shape.first + number], self._bits, out=into[:, number, low:high])
            if shape.first + number + 1 < shape.span:
                # A shift by all bits of a word leaves nothing.
                word |= found[:, shape.first + number + 1] << (np.uint64(8 * WORD) - self._bits)


def _shape(cut: CutLines, number: int, piece: Piece, kind: str, longest_number: int) -> _Shape:
    before = len(piece.before)
    lengths = {len(text) - before - len(piece.after) for text in cut.samples(number)}
    if not piece.is_text:
        size = WORD if max(lengths) < WORD else longest_number
    else:
        size = max(0, *lengths) if len(lengths) == 1 and max(lengths) <= _LONGEST_ROW else 0
    return _Shape(kind=kind, first=before // WORD, span=max(1, -(-(before + size) // WORD)), count=-(-size // WORD))
