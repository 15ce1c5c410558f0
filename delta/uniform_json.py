"""Lines of JSON that all have one layout, read column by column.

A writer gives every file's statistics the same keys in the same order, so a line is known once its values are: cut at
its commas, each piece is a constant, a value and a constant. Arrow cuts and compares columns of pieces several times
as fast as it parses JSON. Nothing is assumed: a line that differs in any constant byte, or whose values are not plain
ones, goes the long way.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv

_KEY = r'\s*"[^"\\]*"\s*:\s*'
_PIECE = re.compile(rf'(\s*\{{?(?:{_KEY}\{{)*{_KEY})("[^"\\]*"|[^"{{}}\[\]:,\s]+)([\s}}]*)')
_NOT_PLAIN = r"[\\\x00-\x1f]"  # an escape, or a character that would end a line here
_NUMBER = r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?"
_SCALAR = rf"^(?:{_NUMBER}|true|false)$"
_TO_THE_END = (1 << 31) - 1
_MINUS, _POINT, _SLASH, _ZERO, _NINE = b"-./09"

_Columns: TypeAlias = Mapping[tuple[str, ...], pa.Array]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Piece:
    """One value in every line: its keys, outermost first, and the constant texts around it, quotes included."""

    path: tuple[str, ...]
    before: bytes
    sample: bytes
    after: bytes
    is_text: bool

    @property
    def whole(self) -> bytes:
        """The piece of the line that the layout was taken from."""
        return self.before + self.sample + self.after


def read_uniform_objects(
    lines: pa.Array, read_as: pa.StructType, read_others: Callable[[pa.Array], pa.Array | None]
) -> pa.StructArray | None:
    """One struct of ``read_as`` for each line, a text that may be a JSON object; members that a line lacks are null.

    Lines of another layout than most go to ``read_others``. None where that gives None, where too few lines share a
    layout, and where a value is not of its member's type.
    """
    for sample in dict.fromkeys((0, len(lines) // 2)):
        layout = _layout(lines[sample].as_py(), read_as)
        if layout is None:
            continue
        try:
            found = _read(lines, layout)
            if found is None:
                continue
            columns, fits = found
            rows = len(lines) if fits is None else fits.true_count
            fast = _struct(read_as, _typed(columns, layout, read_as, rows), (), rows)
        except pa.ArrowInvalid:
            return None
        if fits is None:
            return fast
        others = read_others(lines.filter(pc.invert(fits)))
        return None if others is None else _interleaved(fast, others, fits)
    return None


def _layout(line: str, read_as: pa.StructType) -> tuple[_Piece, ...] | None:
    """How a line is put together; None for one that is no object of plain values or has other nesting than asked."""
    try:
        paths = tuple(_paths(json.loads(line, object_pairs_hook=_unique), ()))
    except (ValueError, RecursionError):
        return None
    texts = line.split(",")
    if len(paths) != len(texts) or any(_nested(read_as, path) for path in paths):
        return None
    pieces = []
    for path, text in zip(paths, texts, strict=True):
        match = _PIECE.fullmatch(text)
        if match is None or match[2] == "null":
            return None
        before, value, after = match.groups()
        quote = '"' if value.startswith('"') else ""
        pieces.append(
            _Piece(
                path=path,
                before=(before + quote).encode(),
                sample=value.strip(quote).encode() if quote else value.encode(),
                after=(quote + after).encode(),
                is_text=quote == '"',
            )
        )
    return tuple(pieces)


def _unique(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("a key occurs twice")
    return members


def _paths(value: object, path: tuple[str, ...]) -> list[tuple[str, ...]]:
    """The paths of an object's values in their order; objects must not be empty."""
    if not isinstance(value, dict):
        if isinstance(value, list) or not path:
            raise ValueError("no object of plain values")
        return [path]
    if not value:
        raise ValueError("an empty object")
    return [each for key, member in value.items() for each in _paths(member, (*path, key))]


def _nested(kind: pa.DataType, path: tuple[str, ...]) -> bool:
    """Whether a value at that path stands where an object is asked for, or the other way round."""
    for key in path:
        if not pa.types.is_struct(kind):
            return True
        index = kind.get_field_index(key)
        if index < 0:
            return False
        kind = kind.field(index).type
    return bool(pa.types.is_struct(kind))


def _read(
    lines: pa.Array, layout: tuple[_Piece, ...]
) -> tuple[dict[tuple[str, ...], pa.Array], pa.Array | None] | None:
    """The bytes of every value of the lines that have the layout, one value for all where they are the same, and which
    lines these are, None for all of them.

    None when it is less than half of them.
    """
    plain = _plain_lines(lines)
    cut = _cut(lines if plain is None else lines.filter(plain), len(layout))
    if cut is None:
        return None
    table, skipped = cut
    rows: list[pa.Array] = []
    columns: dict[tuple[str, ...], pa.Array] = {}
    for piece, whole in zip(layout, table.columns, strict=True):
        if _is_constant(whole, piece.whole):
            columns[piece.path] = pa.array([piece.sample])
            continue
        rest = pc.binary_replace_slice(whole, 0, len(piece.before), b"")
        rows.append(pc.starts_with(whole, piece.before))
        if piece.after:
            rows.append(pc.ends_with(rest, piece.after))
            rest = pc.binary_replace_slice(rest, -len(piece.after), _TO_THE_END, b"")
        columns[piece.path] = rest
        odd = _with_quotes(rest) if piece.is_text else _not_scalar(rest)
        if odd is not None:
            rows.append(pc.invert(odd))
    wrong = [each for each in rows if each.true_count < len(each)]
    fits = None
    if wrong:
        fits = functools.reduce(pc.and_, wrong)
        columns = {path: column if len(column) == 1 else column.filter(fits) for path, column in columns.items()}
    whole_batch = _rows_of(lines, plain, skipped, fits)
    if whole_batch is not None and 2 * whole_batch.true_count < len(lines):
        return None
    return columns, whole_batch


def _is_constant(values: pa.Array, text: bytes) -> bool:
    """Whether every value is that text, as is usual for counts of nulls."""
    offsets, _ = _characters(values)
    return bool(offsets[-1] == len(text) * len(values)) and pc.equal(values, text).true_count == len(values)


def _plain_lines(lines: pa.Array) -> pa.Array | None:
    """Lines without escapes and control characters; None when all are."""
    _, offsets, data = lines.buffers()
    ends = np.frombuffer(offsets, dtype=np.int32)[lines.offset : lines.offset + len(lines) + 1]
    characters = np.frombuffer(data, dtype=np.uint8)[ends[0] : ends[-1]]
    if characters.min(initial=ord(" ")) >= ord(" ") and not (characters == ord("\\")).any():
        return None
    return pc.invert(pc.match_substring_regex(lines, _NOT_PLAIN))


def _cut(lines: pa.Array, pieces: int) -> tuple[pa.RecordBatch, list[int]] | None:
    """Lines cut at their commas, and the numbers of those that have another number of pieces and are left out."""
    if len(lines) == 0:
        return None
    names = [str(number) for number in range(pieces)]
    skipped: list[int] = []

    def skip(row: pcsv.InvalidRow) -> str:
        skipped.append(row.number - 1)
        return "skip"

    data = pc.binary_join_element_wise(lines, "\n", "")
    _, offsets, values = data.buffers()
    ends = np.frombuffer(offsets, dtype=np.int32)[data.offset : data.offset + len(data) + 1]
    start, size = int(ends[0]), int(ends[-1] - ends[0])
    table = pcsv.read_csv(
        pa.BufferReader(values.slice(start, size)),
        read_options=pcsv.ReadOptions(use_threads=False, block_size=size + 1, column_names=names),
        parse_options=pcsv.ParseOptions(quote_char=False, escape_char=False, invalid_row_handler=skip),
        convert_options=pcsv.ConvertOptions(column_types=dict.fromkeys(names, pa.binary()), null_values=[]),
    )
    if table.num_rows + len(skipped) != len(lines) or table.num_rows <= len(skipped):
        return None
    return table.to_batches()[0], skipped


def _rows_of(lines: pa.Array, plain: pa.Array | None, skipped: list[int], fits: pa.Array | None) -> pa.Array | None:
    """Which of the lines are left after each of three selections, the next among what the one before left."""
    if plain is None and not skipped and fits is None:
        return None
    left = np.arange(len(lines)) if plain is None else np.flatnonzero(plain.to_numpy(zero_copy_only=False))
    left = np.delete(left, skipped)
    if fits is not None:
        left = left[fits.to_numpy(zero_copy_only=False)]
    mask = np.zeros(len(lines), dtype=np.bool_)
    mask[left] = True
    return pa.array(mask)


def _with_quotes(texts: pa.Array) -> pa.Array | None:
    """Which texts hold a quote, so are more than one text; None when none does."""
    if not (_characters(texts)[1] == ord('"')).any():
        return None
    return pc.match_substring(texts, b'"')


def _not_scalar(values: pa.Array) -> pa.Array | None:
    """Which values are no number and no boolean of JSON; None when all are plain numbers, as they mostly are."""
    offsets, data = _characters(values)
    if (offsets[:-1] < offsets[1:]).all() and _are_plain_numbers(offsets[:-1], offsets[1:], data):
        return None
    odd = pc.invert(pc.match_substring_regex(values, _SCALAR))
    return odd if pc.any(odd, min_count=0).as_py() else None


def _are_plain_numbers(starts: np.ndarray, ends: np.ndarray, data: np.ndarray) -> bool:
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


def _characters(values: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Offsets from 0, and the bytes of a binary array without nulls."""
    _, offsets, data = values.buffers()
    ends = np.frombuffer(offsets, dtype=np.int32)[values.offset : values.offset + len(values) + 1]
    if data is None:
        return ends, np.empty(0, dtype=np.uint8)
    return ends - ends[0], np.frombuffer(data, dtype=np.uint8)[ends[0] : ends[-1]]


def _typed(
    columns: _Columns, layout: Sequence[_Piece], read_as: pa.StructType, rows: int
) -> dict[tuple[str, ...], pa.Array]:
    """The columns that are asked for with the type asked for. Raises ArrowInvalid where a value is none of it."""
    typed = {}
    for piece in layout:
        target = _type_at(read_as, piece.path)
        if target is not None:
            values = _of_type(columns[piece.path], target, is_text=piece.is_text)
            typed[piece.path] = pa.repeat(values[0], rows) if len(values) == 1 else values
    return typed


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
