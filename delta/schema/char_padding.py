"""CHAR(n) columns: stored as written, read padded to n characters, as Spark does.

The schema's type is ``string``; the field's metadata keeps the SQL type, of the whole column when the CHAR is nested.
"""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.delta.schema.types import ArrayType, DeltaType, MapType, StructField, StructType

SQL_TYPE = "__CHAR_VARCHAR_TYPE_STRING"
_CHAR = re.compile(r"(?:char|character)\s*\(\s*(\d{1,9})\s*\)", re.IGNORECASE)
_FIELD = re.compile(r"\s*(?:`(?:[^`]|``)*`|[^:]*)\s*:")
_NESTED = re.compile(r"(array|map|struct)\s*<(.*)>", re.IGNORECASE | re.DOTALL)


def has_char(field: StructField) -> bool:
    """Whether a column holds a CHAR(n) anywhere."""
    text = field.metadata.get(SQL_TYPE)
    return isinstance(text, str) and _CHAR.search(text) is not None


def padded(values: pa.Array, field: StructField) -> pa.Array:
    """The values of a column with its CHAR(n) parts padded with spaces to n characters."""
    text = field.metadata.get(SQL_TYPE)
    return _padded(values, field.type, text.strip()) if isinstance(text, str) else values


def _padded(values: pa.Array, delta_type: DeltaType, sql: str) -> pa.Array:
    char = _CHAR.fullmatch(sql)
    if char is not None:
        return pc.utf8_rpad(values, int(char[1]), " ")
    nested = _NESTED.fullmatch(sql)
    if nested is None:
        return values
    parts = _split(nested[2])
    mask = pc.is_null(values) if values.null_count else None
    match nested[1].lower(), delta_type:
        case "array", ArrayType(element_type=element) if len(parts) == 1:
            offsets, below = values.offsets, _padded(values.values, element, parts[0])
            return pa.ListArray.from_arrays(_from_zero(offsets), _used(below, offsets), type=values.type, mask=mask)
        case "map", MapType(key_type=key, value_type=value) if len(parts) == 2:
            offsets = values.offsets
            keys, items = _padded(values.keys, key, parts[0]), _padded(values.items, value, parts[1])
            return pa.MapArray.from_arrays(
                _from_zero(offsets), _used(keys, offsets), _used(items, offsets), type=values.type, mask=mask
            )
        case "struct", StructType(fields=fields) if len(parts) == len(fields):
            children = [
                _padded(values.field(index), each.type, _FIELD.sub("", part, count=1).strip())
                for index, (each, part) in enumerate(zip(fields, parts, strict=True))
            ]
            return pa.StructArray.from_arrays(children, fields=list(values.type), mask=mask)
    return values


def _split(text: str) -> list[str]:
    """The comma-separated parts of a type's arguments, commas inside parentheses, brackets and backticks aside."""
    parts, start, depth, quoted = [], 0, 0, False
    for index, character in enumerate(text):
        if character == "`":
            quoted = not quoted
        elif not quoted:
            depth += (character in "(<") - (character in ")>")
            if character == "," and depth == 0:
                parts.append(text[start:index].strip())
                start = index + 1
    return [*parts, text[start:].strip()]


def _from_zero(offsets: pa.Array) -> pa.Array:
    return pc.subtract(offsets, offsets[0]) if len(offsets) else offsets


def _used(values: pa.Array, offsets: pa.Array) -> pa.Array:
    first, last = (offsets[0].as_py(), offsets[-1].as_py()) if len(offsets) else (0, 0)
    return values.slice(first, last - first)
