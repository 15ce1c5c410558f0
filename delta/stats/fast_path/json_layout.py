"""The layout of one line of JSON: values between constant texts, separated by its commas."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

_KEY = r'\s*"[^"\\]*"\s*:\s*'
_PIECE = re.compile(rf'(\s*\{{?(?:{_KEY}\{{)*{_KEY})("[^"\\]*"|[^"{{}}\[\]:,\s]+)([\s}}]*)')


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
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


def layout_of(line: str, read_as: pa.StructType) -> tuple[Piece, ...] | None:
    """The layout of a line; None for one that is no object of plain values or has other nesting than asked."""
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
            Piece(
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
