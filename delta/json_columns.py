"""JSON text, column-wise: an Arrow array of values becomes a string array of JSON texts, null where the value is null.

The log holds JSON in two places: the action lines themselves, and the statistics that an action carries as JSON
*inside* a JSON string. ``PLAIN`` writes the first form, ``EMBEDDED`` the second with every quote already escaped,
because escaping a million finished texts costs more than writing them.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

_NEEDS_ESCAPE = r'["\\\x00-\x1f]'
_CONTROL = r"[\x00-\x1f]"
_SHORT_ESCAPES = {"\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_FIRST_DAY, _LAST_DAY = -719162, 2932896  # 0001-01-01 and 9999-12-31: four-digit years only
_DAY_US = 86_400_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonColumns:
    """Writers of JSON text; ``embedded`` ones for text that stands inside a JSON string."""

    embedded: bool

    @property
    def quote(self) -> str:
        return '\\"' if self.embedded else '"'

    def key(self, name: str) -> str:
        """One member's name with its quotes and colon, as a scalar."""
        text = pa.array([name], pa.string())
        return str(self.string(text)[0].as_py()) + ":"

    def string(self, values: pa.Array) -> pa.Array:
        """Quoted and escaped strings."""
        text = _escaped(values)
        if self.embedded:
            text = _escaped(text)
        return pc.binary_join_element_wise(self.quote, text, self.quote, "")

    def scalar(self, values: pa.Array) -> pa.Array | None:
        """The JSON form of a column of numbers, strings, dates or times; None for a type that has no such form.

        NaN and the infinities are strings, as Spark writes them. Decimals keep every digit and no exponent.
        Dates and timestamps outside the years 1 to 9999 become null: readers disagree about their spelling.
        Timestamps are in UTC, with milliseconds where that is exact for the column and microseconds otherwise.
        """
        kind = values.type
        if pa.types.is_boolean(kind) or pa.types.is_integer(kind):
            return pc.cast(values, pa.string())
        if pa.types.is_floating(kind):
            return self._floating(values)
        if pa.types.is_decimal(kind):
            return _decimal_text(values)
        if pa.types.is_string(kind) or pa.types.is_large_string(kind):
            return self.string(pc.cast(values, pa.string()))
        if pa.types.is_date32(kind):
            return self._quoted(pc.cast(_between(values, _FIRST_DAY, _LAST_DAY), pa.string()))
        if pa.types.is_timestamp(kind):
            return self._timestamp(values)
        return None

    def members(self, fields: Sequence[tuple[str, pa.Array]], *, nulls: bool = False) -> pa.Array | None:
        """The inside of an object, ``"a":1,"b":2``, from texts that are JSON already.

        A null text leaves its member out, or with ``nulls`` writes ``null``; a row without members is the empty
        string. None when there are no fields.
        """
        parts = []
        for name, texts in fields:
            if nulls and texts.null_count:
                texts = pc.fill_null(texts, "null")
            parts.append(pc.binary_join_element_wise(self.key(name), texts, ""))
        if not parts:
            return None
        if all(part.null_count for part in parts):
            # Arrow's join drops a row altogether when every value of it is skipped.
            empty = functools.reduce(pc.and_, [pc.is_null(part) for part in parts])
            parts[0] = pc.if_else(empty, "", parts[0])
        return parts[0] if len(parts) == 1 else pc.binary_join_element_wise(*parts, ",", null_handling="skip")

    def object(self, fields: Sequence[tuple[str, pa.Array]], *, rows: int, nulls: bool = False) -> pa.Array:
        """An object per row, never null; see ``members``."""
        inside = self.members(fields, nulls=nulls)
        if inside is None:
            return pa.repeat(pa.scalar("{}"), rows)
        return pc.binary_join_element_wise("{", inside, "}", "")

    def string_map(self, values: pa.Array) -> pa.Array:
        """Objects from a ``map<string, string>`` column; null values are written as ``null``."""
        keys, items = values.keys, values.items
        texts = pc.binary_join_element_wise(self.string(keys), pc.fill_null(self.string(items), "null"), ":")
        lists = pa.ListArray.from_arrays(values.offsets, texts)
        joined = pc.binary_join_element_wise("{", pc.binary_join(lists, ","), "}", "")
        return _where(pc.is_valid(values), joined)

    def _quoted(self, texts: pa.Array) -> pa.Array:
        return pc.binary_join_element_wise(self.quote, texts, self.quote, "")

    def _floating(self, values: pa.Array) -> pa.Array:
        text = pc.cast(values, pa.string())
        whole = pc.invert(pc.match_substring_regex(text, "[.en]"))  # 1250 -> 1250.0: some readers tell the two apart
        if pc.any(whole).as_py():
            text = pc.if_else(whole, pc.binary_join_element_wise(text, ".0", ""), text)
        special = pc.invert(pc.is_finite(values))
        if pc.any(special).as_py():
            name = pc.case_when(
                pc.make_struct(pc.is_nan(values), pc.greater(values, 0)), "NaN", "Infinity", "-Infinity"
            )
            text = pc.if_else(special, self._quoted(name), text)
        return text

    def _timestamp(self, values: pa.Array) -> pa.Array:
        zoned = values.type.tz is not None
        naive = pc.cast(values, pa.timestamp(values.type.unit)).cast(pa.timestamp("us"))
        naive = _between(naive, _FIRST_DAY * _DAY_US, (_LAST_DAY + 1) * _DAY_US - 1)
        ticks = naive.cast(pa.int64())
        thousandths = pc.multiply(pc.divide(ticks, 1000), 1000)
        if pc.all(pc.equal(ticks, thousandths)).as_py() is not False:
            naive = naive.cast(pa.timestamp("ms"))
        text = pc.binary_replace_slice(pc.cast(naive, pa.string()).cast(pa.binary()), 10, 11, b"T").cast(pa.string())
        return pc.binary_join_element_wise(self.quote, text, ("Z" if zoned else "") + self.quote, "")


PLAIN = JsonColumns(embedded=False)
EMBEDDED = JsonColumns(embedded=True)


def _where(condition: pa.Array, values: pa.Array) -> pa.Array:
    return pc.if_else(condition, values, pa.scalar(None, values.type))


def _between(values: pa.Array, low: int, high: int) -> pa.Array:
    """Values whose physical number lies in [low, high]; null elsewhere."""
    physical = values.cast(pa.int32() if pa.types.is_date32(values.type) else pa.int64())
    inside = pc.and_(pc.greater_equal(physical, low), pc.less_equal(physical, high))
    return values if pc.all(inside).as_py() is not False else _where(inside, values)


def _escaped(values: pa.Array) -> pa.Array:
    """The inside of JSON strings (RFC 8259, section 7)."""
    if not pc.any(pc.match_substring_regex(values, _NEEDS_ESCAPE)).as_py():
        return values
    text = pc.replace_substring(pc.replace_substring(values, "\\", "\\\\"), '"', '\\"')
    if pc.any(pc.match_substring_regex(text, _CONTROL)).as_py():
        for code in range(0x20):
            text = pc.replace_substring(text, chr(code), _SHORT_ESCAPES.get(chr(code), f"\\u{code:04x}"))
    return text


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
