"""Lines of JSON that all have one layout, read column by column.

A writer gives every file's statistics the same keys in the same order, so a line is known once its values are: cut at
its commas, each piece is a constant, a value and a constant. Pieces are compared, and numbers read, a column at a time
at their places in the text, several times as fast as a parser goes through it. Nothing is assumed: a line that differs
in any constant byte, or whose values are not plain ones, goes the long way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.delta.byte_windows import (
    WORD,
    Bytes,
    Mask,
    Places,
    Scratch,
    Words,
    from_byte,
    other_texts_at,
    other_than,
    words_at,
)
from deltaberg.delta.json_layout import Piece, layout_of
from deltaberg.delta.json_numbers import (
    LONGEST,
    as_decimals,
    as_doubles,
    as_floats,
    as_integers,
    read_plain_numbers,
)

_NOT_PLAIN = r'["\\\x00-\x1f]'  # the end of a text, an escape, or a character that must be escaped
_NUMBER = r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?"
_SCALAR = rf"^(?:{_NUMBER}|true|false)$"
_COMMA, _QUOTE, _BACKSLASH, _MINUS, _POINT, _SLASH, _ZERO, _NINE = b',"\\-./09'
_LONGEST_ROW = 40  # bytes of texts of one length that are read as words
_BLOCK_BYTES = 1 << 20  # of text searched for commas at once: stays in the processor's caches
_RUN_BYTES = 256  # of constants compared at once

_SCRATCH = Scratch()

_Columns: TypeAlias = Mapping[tuple[str, ...], pa.Array]


def read_uniform_objects(
    lines: pa.Array, read_as: pa.StructType, read_others: Callable[[pa.Array], pa.Array | None]
) -> pa.StructArray | None:
    """One struct of ``read_as`` for each line, a text that may be a JSON object; members that a line lacks are null.

    Lines of another layout than most go to ``read_others``. None where that gives None, where too few lines share a
    layout, and where a value is not of its member's type.
    """
    for sample in dict.fromkeys((0, len(lines) // 2)):
        layout = layout_of(lines[sample].as_py(), read_as)
        if layout is None:
            continue
        try:
            found = _read(lines, layout, read_as)
            if found is None:
                continue
            columns, fits = found
            rows = len(lines) if fits is None else fits.true_count
            fast = _struct(read_as, columns, (), rows)
        except pa.ArrowInvalid:
            return None
        if fits is None:
            return fast
        others = read_others(lines.filter(pc.invert(fits)))
        return None if others is None else _interleaved(fast, others, fits)
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cut:
    """Lines cut at their commas. ``bounds``: a column for each line, the place before its first piece and where each ends.

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

    def text(self, piece: int, line: int) -> bytes:
        return self.data[self.bounds[piece, line] + 1 : self.bounds[piece + 1, line]].tobytes()


def _read(
    lines: pa.Array, layout: tuple[Piece, ...], read_as: pa.StructType
) -> tuple[dict[tuple[str, ...], pa.Array], pa.Array | None] | None:
    """The values that are asked for of the lines that have the layout, and which lines these are, None for all of them.

    None when it is less than half of them. Raises ArrowInvalid where a value is not of its member's type.
    """
    cut = _cut(lines, len(layout))
    if cut is None:
        return None
    wrong = np.zeros(cut.lines, dtype=np.bool_)
    columns: dict[tuple[str, ...], pa.Array] = {}
    constant = _constant_pieces(cut, layout)
    words, last = _words(cut, layout, constant)
    for number, piece in enumerate(layout):
        target = _type_at(read_as, piece.path)
        if target is not None and piece.is_text != pa.types.is_string(target):
            raise pa.ArrowInvalid(f"values of another kind than {target}")
        if not constant[number]:
            values = _values(cut, number, piece, words[number], last[number], target, wrong)
            if values is not None:
                columns[piece.path] = values
        elif target is not None:
            value = _of_type(pa.array([piece.sample]), target, is_text=piece.is_text)
            columns[piece.path] = pa.repeat(value[0], cut.lines)
    if cut.rows is None and not wrong.any():
        return columns, None
    kept = ~wrong
    fits = np.zeros(len(lines), dtype=np.bool_)
    fits[np.flatnonzero(kept) if cut.rows is None else cut.rows[kept]] = True
    if 2 * np.count_nonzero(fits) < len(lines):
        return None
    mask = pa.array(kept)
    return {path: column.filter(mask) for path, column in columns.items()}, pa.array(fits)


def _cut(lines: pa.Array, pieces: int) -> _Cut | None:
    """The lines with so many pieces; None when they are less than half."""
    offsets, data = _characters(lines)
    bounds = _SCRATCH.table("bounds", pieces + 1, len(lines)).view(np.int64)
    bounds[0], bounds[-1] = offsets[:-1], offsets[1:]
    bounds[0] -= 1
    if _find_commas(data, offsets, bounds[1:-1]):
        return _Cut(data=data, bounds=bounds, rows=None)
    commas = np.flatnonzero(data == _COMMA)
    first, beyond = np.searchsorted(commas, offsets[:-1]), np.searchsorted(commas, offsets[1:])
    rows = np.flatnonzero(beyond - first == pieces - 1)
    if 2 * len(rows) < len(lines):
        return None
    bounds = bounds[:, rows]
    bounds[1:-1] = commas[first[rows] + np.arange(pieces - 1)[:, None]]
    return _Cut(data=data, bounds=bounds, rows=rows)


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
    """Lines from and to, in blocks of a text that the processor's caches hold."""
    step = max(1, lines * _BLOCK_BYTES // max(1, size))
    for low in range(0, lines, step):
        yield low, min(low + step, lines)


def _constant_pieces(cut: _Cut, layout: tuple[Piece, ...]) -> list[bool]:
    """Which pieces are the same in every line, as is usual for counts of nulls; neighbours are compared together."""
    constant = [False] * len(layout)
    some = (0, cut.lines // 2, cut.lines - 1)
    maybe = [all(cut.text(number, line) == piece.whole for line in some) for number, piece in enumerate(layout)]
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


def _mark_constant(cut: _Cut, layout: tuple[Piece, ...], low: int, high: int, constant: list[bool]) -> None:
    """Mark the pieces of a run that are the same in every line, halving it where they are not all."""
    text = b",".join(piece.whole for piece in layout[low:high])
    starts = cut.starts(low)
    if bool((cut.ends(high - 1) - starts == len(text)).all()) and other_texts_at(cut.data, starts, text) is None:
        constant[low:high] = [True] * (high - low)
    elif high - low > 1:
        middle = (low + high) // 2
        _mark_constant(cut, layout, low, middle, constant)
        _mark_constant(cut, layout, middle, high, constant)


def _words(cut: _Cut, layout: tuple[Piece, ...], constant: list[bool]) -> tuple[list[Words], list[Bytes]]:
    """The first words of each piece, and the last byte of each line's piece; nothing of constant pieces.

    The words hold the constant before the value and, of a number or a text of one length, as much as some lines have.
    """
    some = (0, cut.lines // 2, cut.lines - 1)
    counts = []
    for number, piece in enumerate(layout):
        size = len(piece.before)
        lengths = {len(cut.text(number, line)) - size - len(piece.after) for line in some}
        if not piece.is_text:
            size += WORD if max(lengths) < WORD else LONGEST
        elif len(lengths) == 1 and max(lengths) <= _LONGEST_ROW:
            size += max(lengths)
        counts.append(0 if constant[number] else -(-size // WORD))
    words = np.split(_SCRATCH.table("words", sum(counts), cut.lines), np.cumsum(counts)[:-1])
    last = [
        np.empty(cut.lines if len(found) and layout[number].after else 0, np.uint8)
        for number, found in enumerate(words)
    ]
    for low, high in _blocks(len(cut.data), cut.lines):
        for number, found in enumerate(words):
            if len(found):
                words_at(cut.data, cut.bounds[number, low:high] + 1, len(found), found[:, low:high])
            if len(last[number]):
                last[number][low:high] = cut.data[cut.bounds[number + 1, low:high] - 1]
    return words, last


def _values(
    cut: _Cut, number: int, piece: Piece, words: Words, last: Bytes, target: pa.DataType | None, wrong: Mask
) -> pa.Array | None:
    """The values of a piece as ``target``, None where that is; lines with another constant or value become wrong."""
    starts = cut.starts(number) + len(piece.before)
    ends = cut.ends(number) - len(piece.after)
    short = starts > ends
    if short.any():
        wrong |= short
        starts = np.minimum(starts, ends)
    other = other_than(words, piece.before)
    if other is not None:
        wrong |= other
    if piece.after:
        wrong |= last != piece.after[-1]
        other = other_texts_at(cut.data, ends, piece.after[:-1])
        if other is not None:
            wrong |= other
    room = (len(words) * WORD - len(piece.before)) // WORD
    if not piece.is_text:
        return _scalars(cut.data, starts, ends, from_byte(words, len(piece.before), room), target, wrong)
    texts = _row_texts(words, len(piece.before), ends - starts)
    if texts is None:
        texts = _texts_at(cut.data, starts, ends)
    return _texts(texts, wrong, needed=target is not None)


def _row_texts(words: Words, place: int, lengths: Places) -> pa.Array | None:
    """Texts of one length that stand in the words from that byte on; None where they are not of one length."""
    length = int(lengths[0])
    if place + length > len(words) * WORD or (lengths != length).any():
        return None
    rows = np.stack(from_byte(words, place, -(-length // WORD)), axis=1) if length else words[:0].T
    data = np.ascontiguousarray(rows.view(np.uint8)[:, :length])
    offsets = np.arange(len(lengths) + 1, dtype=np.int32) * np.int32(length)
    return pa.Array.from_buffers(pa.binary(), len(lengths), [None, pa.py_buffer(offsets), pa.py_buffer(data)], 0)


def _texts(texts: pa.Array, wrong: Mask, *, needed: bool) -> pa.Array | None:
    characters = _characters(texts)[1]
    if characters.min(initial=ord(" ")) < ord(" ") or (characters == _QUOTE).any() or (characters == _BACKSLASH).any():
        wrong |= pc.match_substring_regex(texts, _NOT_PLAIN).to_numpy(zero_copy_only=False)
    return texts.cast(pa.string()) if needed else None  # refuses what is not UTF-8


def _scalars(
    data: Bytes, starts: Places, ends: Places, words: Sequence[Words], target: pa.DataType | None, wrong: Mask
) -> pa.Array | None:
    """Numbers and booleans; the few that are not plain are read from their texts."""
    values, plain = _plain_values(words, ends - starts, target)
    rest = np.flatnonzero(~(plain | wrong))
    if not len(rest):
        return None if target is None else _array(values, target)
    texts = _texts_at(data, starts[rest], ends[rest])
    odd = _not_scalar(texts)
    if odd is not None:
        wrong[rest[odd]] = True
        texts, rest = texts.filter(pa.array(~odd)), rest[~odd]
    if target is None:
        return None
    read = _of_type(texts, target, is_text=False)
    if pa.types.is_boolean(target):
        found = np.zeros(len(starts), dtype=np.bool_)
        found[rest] = read.to_numpy(zero_copy_only=False)
        return pa.array(found)
    rows = values.view(f"V{target.bit_width // 8}").reshape(-1)
    rows[rest] = np.frombuffer(read.buffers()[1], dtype=rows.dtype)[read.offset : read.offset + len(read)]
    return _array(values, target)


def _not_scalar(values: pa.Array) -> Mask | None:
    """Which values are no number and no boolean of JSON; None when all are numbers without exponents, or booleans."""
    offsets, data = _characters(values)
    if (offsets[:-1] < offsets[1:]).all() and _are_plain_numbers(offsets[:-1], offsets[1:], data):
        return None
    odd: Mask = pc.invert(pc.match_substring_regex(values, _SCALAR)).to_numpy(zero_copy_only=False)
    return odd if odd.any() else None


def _are_plain_numbers(starts: npt.NDArray[np.int32], ends: npt.NDArray[np.int32], data: Bytes) -> bool:
    """Whether all are numbers by JSON's grammar without exponent; each begins at its start and is not empty."""
    lowest, highest = data.min(), data.max()
    if lowest >= _ZERO and highest <= _NINE and len(data) == len(starts):
        return True  # single digits, as most counts are
    if lowest < _MINUS or highest > _NINE or (lowest < _ZERO and (data == _SLASH).any()):
        return False
    first = data[starts]
    if lowest < _ZERO:
        negative = first == _MINUS
        points = np.flatnonzero(data == _POINT)
        # Every minus begins a number, and every point has a number of its own with a digit before and after it.
        if (data == _MINUS).sum() != negative.sum():
            return False
        starts = starts + negative
        owners = np.arange(len(starts))
        if len(points) != len(starts):
            owners = np.searchsorted(ends, points, side="right")
            if (owners[1:] == owners[:-1]).any():
                return False
        if (starts >= ends).any() or (points <= starts[owners]).any() or (points + 1 >= ends[owners]).any():
            return False
        first = data[starts]
    leading_zero = starts[(first == _ZERO) & (ends - starts > 1)]
    return bool((data[leading_zero + 1] == _POINT).all())


def _plain_values(
    words: Sequence[Words], lengths: Places, target: pa.DataType | None
) -> tuple[npt.NDArray[np.generic], Mask]:
    """The plain numbers as the bytes of ``target``, and which of all these are."""
    if target is not None and pa.types.is_boolean(target):
        return np.empty(0), np.zeros(len(lengths), dtype=np.bool_)
    numbers = read_plain_numbers(words, lengths, points=target is None or not pa.types.is_integer(target))
    values: npt.NDArray[np.generic]
    if target is None:
        values = np.empty(0)
    elif pa.types.is_integer(target):
        values = as_integers(numbers, np.dtype(target.to_pandas_dtype()))
    elif pa.types.is_float64(target):
        values = as_doubles(numbers)
    elif pa.types.is_float32(target):
        values = as_floats(numbers)
    elif pa.types.is_decimal(target):
        values = as_decimals(numbers, precision=target.precision, scale=target.scale, words=target.bit_width // 64)
    else:
        raise pa.ArrowInvalid(f"values of another kind than {target}")
    return values, numbers.plain


def _array(values: npt.NDArray[np.generic], target: pa.DataType) -> pa.Array:
    return pa.Array.from_buffers(target, len(values), [None, pa.py_buffer(np.ascontiguousarray(values))], 0)


def _texts_at(data: Bytes, starts: Places, ends: Places) -> pa.Array:
    """The bytes from each start to its end as a binary array; both ascend."""
    offsets = np.empty(2 * len(starts) + 1, dtype=np.int32)
    offsets[:-1:2], offsets[1::2], offsets[-1] = starts, ends, ends[-1] if len(ends) else 0
    # Every other one is what stands between two of them.
    between = pa.Array.from_buffers(pa.binary(), 2 * len(starts), [None, pa.py_buffer(offsets), pa.py_buffer(data)], 0)
    return between.take(pa.array(np.arange(0, 2 * len(starts), 2)))


def _characters(values: pa.Array) -> tuple[npt.NDArray[np.int32], Bytes]:
    """Offsets from 0, and the bytes of a text or binary array without nulls."""
    _, offsets, data = values.buffers()
    ends = np.frombuffer(offsets, dtype=np.int32)[values.offset : values.offset + len(values) + 1]
    if data is None:
        return ends, np.empty(0, dtype=np.uint8)
    return ends - ends[0], np.frombuffer(data, dtype=np.uint8)[ends[0] : ends[-1]]


def _of_type(values: pa.Array, target: pa.DataType, *, is_text: bool) -> pa.Array:
    if is_text != pa.types.is_string(target):
        raise pa.ArrowInvalid(f"values of another kind than {target}")
    if is_text:
        return values.cast(target)
    texts = values.view(pa.string())
    if pa.types.is_boolean(target):
        true = pc.equal(texts, "true")
        if not pc.all(pc.or_(true, pc.equal(texts, "false")), min_count=0).as_py():
            raise pa.ArrowInvalid("values that are no booleans")
        return true
    if pa.types.is_decimal(target) and pc.any(pc.match_substring_regex(texts, "[eE]"), min_count=0).as_py():
        raise pa.ArrowInvalid("decimals with exponents")
    return texts.cast(target)


def _type_at(kind: pa.DataType, path: tuple[str, ...]) -> pa.DataType | None:
    for key in path:
        index = kind.get_field_index(key)
        if index < 0:
            return None
        kind = kind.field(index).type
    return kind


def _struct(kind: pa.StructType, columns: _Columns, path: tuple[str, ...], rows: int) -> pa.Array:
    """The struct at a path; null where the layout has nothing of it."""
    members = []
    for field in kind:
        inner = (*path, field.name)
        if inner in columns:
            members.append(columns[inner])
        elif pa.types.is_struct(field.type) and any(each[: len(inner)] == inner for each in columns):
            members.append(_struct(field.type, columns, inner, rows))
        else:
            members.append(pa.nulls(rows, field.type))
    return pa.StructArray.from_arrays(members, fields=list(kind))


def _interleaved(fast: pa.Array, others: pa.Array, fits: pa.Array) -> pa.Array:
    in_layout = fits.to_numpy(zero_copy_only=False)
    order = np.empty(len(fits), dtype=np.int64)
    order[in_layout] = np.arange(len(fast))
    order[~in_layout] = len(fast) + np.arange(len(others))
    return pa.concat_arrays([fast, others]).take(pa.array(order))
