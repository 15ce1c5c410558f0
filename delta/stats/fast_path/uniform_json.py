"""Lines of JSON that all have one layout, read column by column.

A writer gives every file's statistics the same keys in the same order, so a line is known once its values are: cut at
its commas, each piece is a constant, a value and a constant. Pieces are compared, and numbers read, a column at a time
at their places in the text, several times as fast as a parser goes through it. Nothing is assumed: a line that differs
in any constant byte, or whose values are not plain ones, is parsed one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.delta.stats.fast_path.byte_windows import Bytes, Mask, Places, Words, characters, other_texts_at
from deltaberg.delta.stats.fast_path.cut_lines import CutLines, constant_pieces, cut_lines
from deltaberg.delta.stats.fast_path.json_layout import Piece, layout_of
from deltaberg.delta.stats.fast_path.json_numbers import (
    LONGEST,
    PlainNumbers,
    as_decimals,
    as_doubles,
    as_floats,
    as_integers,
    read_plain_numbers,
)
from deltaberg.delta.stats.fast_path.piece_words import PieceWords, piece_words

_NOT_PLAIN = r'["\\\x00-\x1f]'  # the end of a text, an escape, or a character that must be escaped
_NUMBER = r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?"
_SCALAR = rf"^(?:{_NUMBER}|true|false)$"
_QUOTE, _BACKSLASH, _MINUS, _POINT, _SLASH, _ZERO, _NINE = b'"\\-./09'
_NONE = np.empty(0, dtype=np.intp)
_TOGETHER = 1 << 15  # numbers read at once: their words stay in the processor's caches

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


def _read(
    lines: pa.Array, layout: tuple[Piece, ...], read_as: pa.StructType
) -> tuple[dict[tuple[str, ...], pa.Array], pa.Array | None] | None:
    """The values that are asked for of the lines that have the layout, and which lines these are, None for all of them.

    None when it is less than half of them. Raises ArrowInvalid where a value is not of its member's type.
    """
    cut = cut_lines(lines, len(layout))
    if cut is None:
        return None
    targets = [_type_at(read_as, piece.path) for piece in layout]
    for piece, target in zip(layout, targets, strict=True):
        if target is not None and piece.is_text != pa.types.is_string(target):
            raise pa.ArrowInvalid(f"values of another kind than {target}")
    wrong = np.zeros(cut.lines, dtype=np.bool_)
    columns: dict[tuple[str, ...], pa.Array] = {}
    constant = constant_pieces(cut, layout)
    for piece, target, same in zip(layout, targets, constant, strict=True):
        if same and target is not None:
            value = _of_type(pa.array([piece.sample]), target, is_text=piece.is_text)
            columns[piece.path] = pa.repeat(value[0], cut.lines)
    kinds = [
        None if same else _kind(piece, target) for piece, target, same in zip(layout, targets, constant, strict=True)
    ]
    for group in piece_words(cut, layout, kinds, wrong, longest_number=LONGEST):
        values = (
            _texts_of(group, cut, layout, targets, wrong)
            if group.kind == "text"
            else _scalars(group, cut, layout, targets, wrong)
        )
        for number, column in values:
            if column is not None:
                columns[layout[number].path] = column
    if cut.rows is None and not wrong.any():
        return columns, None
    kept = ~wrong
    fits = np.zeros(len(lines), dtype=np.bool_)
    fits[np.flatnonzero(kept) if cut.rows is None else cut.rows[kept]] = True
    if 2 * np.count_nonzero(fits) < len(lines):
        return None
    mask = pa.array(kept)
    return {path: column.filter(mask) for path, column in columns.items()}, pa.array(fits)


def _kind(piece: Piece, target: pa.DataType | None) -> str:
    """The members that are read in one way."""
    if piece.is_text:
        return "text"
    return "integer" if target is not None and pa.types.is_integer(target) else "number"


def _places(cut: CutLines, layout: Sequence[Piece], numbers: Sequence[int], wrong: Mask) -> tuple[Places, Places]:
    """Where the values of pieces begin and end, shape (pieces, lines); lines with another text behind one are wrong."""
    rows = np.array(numbers, dtype=np.intp)
    before, after = (
        np.array([len(text) for text in texts], dtype=np.int64)[:, None]
        for texts in ([layout[number].before for number in numbers], [layout[number].after for number in numbers])
    )
    starts, ends = cut.bounds[rows] + (before + 1), cut.bounds[rows + 1] - after
    short = starts > ends
    if short.any():
        wrong |= short.any(axis=0)
        np.minimum(starts, ends, out=starts)
    for number, end in zip(numbers, ends, strict=True):
        other = other_texts_at(cut.data, end, layout[number].after[:-1])  # the last byte was compared already
        if other is not None:
            wrong |= other
    return starts, ends


def _texts_of(
    group: PieceWords, cut: CutLines, layout: Sequence[Piece], targets: Sequence[pa.DataType | None], wrong: Mask
) -> Iterator[tuple[int, pa.Array | None]]:
    """The texts of pieces, by number of the piece; None where there is no target."""
    for number, words in zip(group.pieces, group.words, strict=True):
        (starts,), (ends,) = _places(cut, layout, (number,), wrong)
        texts = _row_texts(words, ends - starts)
        if texts is None:
            texts = _texts_at(cut.data, starts, ends)
        _check_plain(texts, wrong)
        yield number, None if targets[number] is None else texts.cast(pa.string())  # refuses what is not UTF-8


def _row_texts(words: Words, lengths: Places) -> pa.Array | None:
    """Texts of one length that stand in the words, shape (words, texts); None where they are not of one length."""
    length = int(lengths[0])
    if length > words.shape[0] * words.itemsize or (lengths != length).any():
        return None
    rows = np.ascontiguousarray(words.T)
    data = np.ascontiguousarray(rows.view(np.uint8).reshape(len(lengths), -1)[:, :length])
    offsets = np.arange(len(lengths) + 1, dtype=np.int32) * np.int32(length)
    return pa.Array.from_buffers(pa.binary(), len(lengths), [None, pa.py_buffer(offsets), pa.py_buffer(data)], 0)


def _check_plain(texts: pa.Array, wrong: Mask) -> None:
    """Marks lines whose text is not a plain JSON text as wrong."""
    data = characters(texts)[1]
    if data.min(initial=ord(" ")) < ord(" ") or (data == _QUOTE).any() or (data == _BACKSLASH).any():
        wrong |= pc.match_substring_regex(texts, _NOT_PLAIN).to_numpy(zero_copy_only=False)


def _scalars(
    group: PieceWords, cut: CutLines, layout: Sequence[Piece], targets: Sequence[pa.DataType | None], wrong: Mask
) -> Iterator[tuple[int, pa.Array | None]]:
    """Numbers and booleans of pieces, by number of the piece, None where there is no target; the few that are not plain
    are read from their texts."""
    step = max(1, _TOGETHER // cut.lines)
    for low in range(0, len(group.pieces), step):
        pieces, words = group.pieces[low : low + step], group.words[low : low + step]
        starts, ends = _places(cut, layout, pieces, wrong)
        numbers = read_plain_numbers(list(words.transpose(1, 0, 2)), ends - starts, points=group.kind == "number")
        values = [_values(numbers.row(row), targets[number]) for row, number in enumerate(pieces)]
        done = bool((numbers.plain | wrong).all())
        for row, number in enumerate(pieces):
            rest = _NONE if done else np.flatnonzero(~(numbers.plain[row] | wrong))
            yield number, _with_rest(values[row], rest, targets[number], cut.data, starts[row], ends[row], wrong)


def _with_rest(
    values: npt.NDArray[np.generic],
    rest: npt.NDArray[np.intp],
    target: pa.DataType | None,
    data: Bytes,
    starts: Places,
    ends: Places,
    wrong: Mask,
) -> pa.Array | None:
    """The values as a column, those of the rows of ``rest`` read from their texts."""
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
    offsets, data = characters(values)
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


def _values(numbers: PlainNumbers, target: pa.DataType | None) -> npt.NDArray[np.generic]:
    """The plain numbers as the bytes of ``target``; those that do not fit, and every boolean, are made not plain."""
    if target is None:
        return np.empty(0)
    if pa.types.is_boolean(target):
        numbers.plain[:] = False
        return np.empty(0)
    if pa.types.is_integer(target):
        return as_integers(numbers, np.dtype(target.to_pandas_dtype()))
    if pa.types.is_float64(target):
        return as_doubles(numbers)
    if pa.types.is_float32(target):
        return as_floats(numbers)
    if pa.types.is_decimal(target):
        return as_decimals(numbers, precision=target.precision, scale=target.scale, words=target.bit_width // 64)
    raise pa.ArrowInvalid(f"values of another kind than {target}")


def _array(values: npt.NDArray[np.generic], target: pa.DataType) -> pa.Array:
    return pa.Array.from_buffers(target, len(values), [None, pa.py_buffer(np.ascontiguousarray(values))], 0)


def _texts_at(data: Bytes, starts: Places, ends: Places) -> pa.Array:
    """The bytes from each start to its end as a binary array; both ascend."""
    offsets = np.empty(2 * len(starts) + 1, dtype=np.int32)
    offsets[:-1:2], offsets[1::2], offsets[-1] = starts, ends, ends[-1] if len(ends) else 0
    # Every other one is the text between two of them.
    between = pa.Array.from_buffers(pa.binary(), 2 * len(starts), [None, pa.py_buffer(offsets), pa.py_buffer(data)], 0)
    return between.take(pa.array(np.arange(0, 2 * len(starts), 2)))


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
