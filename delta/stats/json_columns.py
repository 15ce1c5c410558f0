"""JSON text, column-wise: an Arrow array of values becomes a column of JSON texts.

The log holds JSON in two places: the action lines themselves, and the statistics that an action carries as JSON
*inside* a JSON string. ``PLAIN`` writes the first form, ``EMBEDDED`` the second with every quote already escaped,
because escaping a million finished texts costs more than writing them.

A column of texts is kept as the pieces that make it up (``JsonText``) until the whole text is needed: nested objects
would copy every character once a level otherwise.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_SHORT_ESCAPES = {"\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_NEEDS_ESCAPE = np.zeros(256, np.bool_)
_NEEDS_ESCAPE[:0x20] = True
_NEEDS_ESCAPE[[ord('"'), ord("\\")]] = True
_FIRST_DAY, _LAST_DAY = -719162, 2932896  # 0001-01-01 and 9999-12-31: four-digit years only
_DAY_US = 86_400_000_000
_NULL = pa.scalar(None, pa.string())


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonText:
    """A column of texts: constants and string arrays to be written one after the other in every row.

    Only a text of a single array may have nulls.
    """

    pieces: tuple[str | pa.Array, ...]
    rows: int

    @property
    def has_nulls(self) -> bool:
        return any(not isinstance(piece, str) and piece.null_count > 0 for piece in self.pieces)

    @property
    def is_null(self) -> bool:
        """Whether every row is null."""
        return (
            any(not isinstance(piece, str) and piece.null_count == self.rows for piece in self.pieces) and self.rows > 0
        )

    def array(self) -> pa.Array:
        """The texts as one string array."""
        match self.pieces:
            case [pa.Array() as only]:
                return only
            case [str() as constant]:
                return pa.repeat(pa.scalar(constant), self.rows)
        return pc.binary_join_element_wise(*self.pieces, "")

    def between(self, before: str, after: str) -> JsonText:
        """The column with constants around each text; nulls stay null."""
        wrapped = JsonText(pieces=_merged((before, *self.pieces, after)), rows=self.rows)
        return of_array(wrapped.array()) if self.has_nulls else wrapped

    def where(self, valid: pa.Array) -> JsonText:
        """The column with null where ``valid`` is false."""
        if pc.all(valid).as_py() is not False:
            return self
        return of_array(pc.if_else(valid, self.array(), _NULL))


def of_array(texts: pa.Array) -> JsonText:
    """Texts that are JSON already."""
    return JsonText(pieces=(texts,), rows=len(texts))


def constant(text: str, rows: int) -> JsonText:
    """One text for every row."""
    return JsonText(pieces=(text,), rows=rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonColumns:
    """Writers of JSON text; ``embedded`` ones for text that stands inside a JSON string."""

    embedded: bool

    @property
    def quote(self) -> str:
        return '\\"' if self.embedded else '"'

    def key(self, name: str) -> str:
        """One member's name with its quotes and colon."""
        text = _escape_text(_escape_text(name)) if self.embedded else _escape_text(name)
        return f"{self.quote}{text}{self.quote}:"

    def string(self, values: pa.Array) -> JsonText:
        """Quoted and escaped strings."""
        text = _escaped(values)
        if self.embedded:
            text = _escaped(text)
        return of_array(text).between(self.quote, self.quote)

    def scalar(self, values: pa.Array) -> JsonText | None:
        """The JSON form of a column of numbers, strings, dates or times; None for a type that has no such form.

        NaN and the infinities are strings, as Spark writes them. Decimals keep every digit and no exponent.
        Dates and timestamps outside the years 1 to 9999 become null: readers disagree about their spelling.
        Timestamps are in UTC, with milliseconds where that is exact for the column and microseconds otherwise.
        """
        kind = values.type
        if pa.types.is_boolean(kind) or pa.types.is_integer(kind):
            return of_array(pc.cast(values, pa.string()))
        if pa.types.is_floating(kind):
            return of_array(self._floating(values))
        if pa.types.is_decimal(kind):
            return of_array(_decimal_text(values))
        if pa.types.is_string(kind) or pa.types.is_large_string(kind):
            return self.string(pc.cast(values, pa.string()))
        if pa.types.is_date32(kind):
            return self._quoted(pc.cast(_between(values, _FIRST_DAY, _LAST_DAY), pa.string()))
        if pa.types.is_timestamp(kind):
            return self._timestamp(values)
        return None

    def object(self, fields: Sequence[tuple[str, JsonText]], *, rows: int, nulls: bool = False) -> JsonText:
        """An object per row, never null, from texts of its members.

        A null text leaves its member out, or with ``nulls`` writes ``null``. Members that are always there come first.
        """
        sure: list[str | pa.Array] = []
        unsure: list[pa.Array] = []
        for name, text in fields:
            if text.has_nulls and nulls:
                text = of_array(pc.fill_null(text.array(), "null"))
            if text.has_nulls:
                unsure.append(pc.binary_join_element_wise(self.key(name), *text.pieces, ""))
            else:
                sure.extend((("," if sure else "") + self.key(name), *text.pieces))
        if sure:
            tail = [pc.fill_null(pc.binary_join_element_wise(",", text, ""), "") for text in unsure]
            return JsonText(pieces=_merged(("{", *sure, *tail, "}")), rows=rows)
        return of_array(_joined(unsure, rows)).between("{", "}")

    def string_map(self, values: pa.Array) -> JsonText:
        """Objects from a ``map<string, string>`` column; null values are written as ``null``."""
        keys, items = self.string(values.keys), self.string(values.items)
        texts = pc.binary_join_element_wise(keys.array(), pc.fill_null(items.array(), "null"), ":")
        lists = pa.ListArray.from_arrays(values.offsets, texts)
        return of_array(pc.binary_join(lists, ",")).between("{", "}").where(pc.is_valid(values))

    def _quoted(self, texts: pa.Array) -> JsonText:
        return of_array(texts).between(self.quote, self.quote)

    def _floating(self, values: pa.Array) -> pa.Array:
        text = pc.cast(values, pa.string())
        # 1250 becomes 1250.0: some readers distinguish the two.
        whole = pc.equal(pc.floor(values), values)
        if pc.any(whole).as_py():
            whole = pc.and_not(whole, pc.match_substring_regex(text, "[.en]"))
            text = pc.if_else(whole, pc.binary_join_element_wise(text, ".0", ""), text)
        special = pc.invert(pc.is_finite(values))
        if pc.any(special).as_py():
            name = pc.case_when(
                pc.make_struct(pc.is_nan(values), pc.greater(values, 0)), "NaN", "Infinity", "-Infinity"
            )
            text = pc.if_else(special, self._quoted(name).array(), text)
        return text

    def _timestamp(self, values: pa.Array) -> JsonText:
        zoned = values.type.tz is not None
        naive = pc.cast(values, pa.timestamp(values.type.unit)).cast(pa.timestamp("us"))
        naive = _between(naive, _FIRST_DAY * _DAY_US, (_LAST_DAY + 1) * _DAY_US - 1)
        ticks = naive.cast(pa.int64())
        thousandths = pc.multiply(pc.divide(ticks, 1000), 1000)
        if pc.all(pc.equal(ticks, thousandths)).as_py() is not False:
            naive = naive.cast(pa.timestamp("ms"))
        text = pc.binary_replace_slice(pc.cast(naive, pa.string()).cast(pa.binary()), 10, 11, b"T").cast(pa.string())
        return of_array(text).between(self.quote, ("Z" if zoned else "") + self.quote)


PLAIN = JsonColumns(embedded=False)
EMBEDDED = JsonColumns(embedded=True)


def _merged(pieces: tuple[str | pa.Array, ...]) -> tuple[str | pa.Array, ...]:
    """Neighbouring constants made one."""
    merged: list[str | pa.Array] = []
    for piece in pieces:
        if isinstance(piece, str) and merged and isinstance(merged[-1], str):
            merged[-1] += piece
        elif not isinstance(piece, str) or piece:
            merged.append(piece)
    return tuple(merged)


def _joined(members: list[pa.Array], rows: int) -> pa.Array:
    """Members that may be null, separated by commas; the empty string in a row that has none."""
    if not members:
        return pa.repeat(pa.scalar(""), rows)
    # Arrow's join drops a row altogether when every value of it is skipped.
    empty = functools.reduce(pc.and_, [pc.is_null(member) for member in members])
    first = pc.if_else(empty, "", members[0])
    if len(members) == 1:
        return first
    return pc.binary_join_element_wise(first, *members[1:], ",", null_handling="skip")


def _between(values: pa.Array, low: int, high: int) -> pa.Array:
    """Values whose physical number lies in [low, high]; null elsewhere."""
    physical = values.cast(pa.int32() if pa.types.is_date32(values.type) else pa.int64())
    inside = pc.and_(pc.greater_equal(physical, low), pc.less_equal(physical, high))
    return values if pc.all(inside).as_py() is not False else pc.if_else(inside, values, pa.scalar(None, values.type))


def _escape_text(text: str) -> str:
    return str(_escaped(pa.array([text], pa.string()))[0].as_py())


def _escaped(values: pa.Array) -> pa.Array:
    """The inside of JSON strings (RFC 8259, section 7)."""
    if not _needs_escape(values):
        return values
    text = pc.replace_substring(pc.replace_substring(values, "\\", "\\\\"), '"', '\\"')
    if pc.any(pc.match_substring_regex(text, r"[\x00-\x1f]")).as_py():
        for code in range(0x20):
            text = pc.replace_substring(text, chr(code), _SHORT_ESCAPES.get(chr(code), f"\\u{code:04x}"))
    return text


def _needs_escape(values: pa.Array) -> bool:
    """Whether a byte of the column's text, or of a null's neighbour, has to be escaped."""
    _, offsets, data = values.buffers()
    if offsets is None or data is None:
        return False
    ends = memoryview(offsets).cast("i")
    content = np.frombuffer(data, np.uint8)[ends[values.offset] : ends[values.offset + len(values)]]
    return bool(_NEEDS_ESCAPE[content].any())


def _decimal_text(values: pa.Array) -> pa.Array:
    """Every digit of a decimal, never an exponent: some readers of statistics know only plain notation."""
    text = pc.cast(values, pa.string())
    if not pc.any(pc.match_substring(text, "E")).as_py():
        return text
    scale = values.type.scale
    wide = values.cast(pa.decimal128(38, scale))
    unscaled = pa.Array.from_buffers(
        pa.decimal128(38, 0), len(wide), wide.buffers(), null_count=wide.null_count, offset=wide.offset
    )
    digits = pc.utf8_ltrim(pc.cast(unscaled, pa.string()), "-")
    digits = pc.utf8_lpad(digits, scale + 1, "0")
    sign = pc.if_else(pc.less(unscaled, pa.scalar(0, unscaled.type)), "-", "")
    whole = pc.utf8_slice_codeunits(digits, 0, -scale)
    return pc.binary_join_element_wise(
        pc.binary_join_element_wise(sign, whole, ""), pc.utf8_slice_codeunits(digits, -scale), "."
    )
