"""Paths of file actions: URIs, relative to the table's root or absolute. PROTOCOL "Add File and Remove File".

A relative one may begin with ``../``, as a URI reference may: the file is beside the table then.
"""

from __future__ import annotations

import re
from urllib.parse import unquote_to_bytes

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.delta.errors import CorruptLog

# A scheme counts when a slash follows its colon; ``a:b`` is the name of a file.
_ABSOLUTE = r"^(?:/|[A-Za-z][A-Za-z0-9+.\-]*:/)"
_LOCAL_SPELLING = r"(?i)^file:(?:///+|//localhost/+|/)"
_UP = "../"
_ROOT = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*://[^/]*/|[A-Za-z][A-Za-z0-9+.\-]*:/|/")
_PERCENT = ord("%")
_HEX = np.full(256, 255, dtype=np.uint8)
_HEX[np.frombuffer(b"0123456789", dtype=np.uint8)] = np.arange(10)
_HEX[np.frombuffer(b"abcdef", dtype=np.uint8)] = np.arange(10, 16)
_HEX[np.frombuffer(b"ABCDEF", dtype=np.uint8)] = np.arange(10, 16)


def location_array(paths: pa.RecordBatch | pa.Array, table_root: str) -> pa.Array:
    """Absolute, decoded locations of a batch of ADD_SCHEMA or of its ``path`` column, ready for a Storage.

    Raises CorruptLog for a path whose escapes are not UTF-8.
    """
    texts = paths.column("path") if isinstance(paths, pa.RecordBatch) else paths
    decoded = decode_paths(texts)
    absolute = pc.match_substring_regex(texts, _ABSOLUTE)
    if pc.all(absolute, min_count=0).as_py():
        return decoded
    joined = _join(texts, decoded, _folder(table_root))
    if not pc.any(absolute, min_count=0).as_py():
        return joined
    return pc.if_else(absolute, decoded, joined)


def decode_path(path: str) -> str:
    """One path without its escapes; a ``%`` that two hexadecimal digits do not follow means itself."""
    if "%" not in path:
        return path
    try:
        return unquote_to_bytes(path).decode()
    except UnicodeDecodeError as error:
        raise _not_utf8(path) from error


def decode_paths(paths: pa.Array) -> pa.Array:
    """``decode_path`` for a string array, column-wise; nulls stay null."""
    if not pc.any(pc.match_substring(paths, "%"), min_count=0).as_py():
        return paths
    offsets, data = _string_buffers(paths)
    marks = np.flatnonzero(data == _PERCENT)
    inside = marks[marks + 2 < len(data)]
    high, low = _HEX[data[inside + 1]], _HEX[data[inside + 2]]
    # An escape may not run over the end of its own string.
    ends = offsets[1:][np.searchsorted(offsets[1:], inside, side="right")]
    escapes = inside[(high < 16) & (low < 16) & (inside + 2 < ends)]
    values = (_HEX[data[escapes + 1]] << 4) | _HEX[data[escapes + 2]]
    keep = np.ones(len(data), dtype=bool)
    keep[escapes + 1] = False
    keep[escapes + 2] = False
    decoded = data.copy()
    decoded[escapes] = values
    removed_before = np.zeros(len(data) + 1, dtype=np.int64)
    np.cumsum(~keep, out=removed_before[1:])
    new_offsets = (offsets - removed_before[offsets]).astype(np.int32)
    result = pa.Array.from_buffers(
        pa.string(),
        len(paths),
        [_validity(paths), pa.py_buffer(new_offsets), pa.py_buffer(decoded[keep])],
    )
    try:
        result.validate(full=True)
    except pa.ArrowInvalid as error:
        for path in paths.to_pylist():
            if path is not None:
                decode_path(path)
        raise CorruptLog(f"Cannot decode the paths of file actions: {error}") from error
    return result


def path_keys(paths: pa.Array) -> pa.Array:
    """Texts that are equal where two paths name one file: escapes decoded, one spelling of local absolute paths.

    Writers may spell the path of a file differently when they remove it.
    """
    decoded = decode_paths(paths)
    local = pc.match_substring_regex(decoded, _LOCAL_SPELLING)
    if not pc.any(local, min_count=0).as_py():
        return decoded
    return pc.replace_substring_regex(decoded, _LOCAL_SPELLING, "/", max_replacements=1)


def _folder(table_root: str) -> str:
    return table_root if table_root.endswith("/") else f"{table_root}/"


def _join(texts: pa.Array, decoded: pa.Array, folder: str) -> pa.Array:
    """The decoded paths below ``folder``, or below as many folders above it as the text begins with ``../``."""
    joined = pc.binary_join_element_wise(pa.scalar(folder), decoded, "")
    climbing = pc.starts_with(texts, _UP)
    while pc.any(climbing, min_count=0).as_py():
        folder = _parent(folder)
        texts, decoded = (pc.utf8_slice_codeunits(each, len(_UP)) for each in (texts, decoded))
        joined = pc.if_else(climbing, pc.binary_join_element_wise(pa.scalar(folder), decoded, ""), joined)
        climbing = pc.and_(climbing, pc.starts_with(texts, _UP))
    return joined


def _parent(folder: str) -> str:
    """The folder above, with its slash; the root of a store is its own (RFC 3986 section 5.2.4)."""
    root = _ROOT.match(folder)
    start = root.end() if root else 0
    return folder[:start] + "".join(folder[start:].rstrip("/").rpartition("/")[:2])


def _string_buffers(array: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Offsets, beginning at 0, and the bytes between the first and the last of a string array."""
    _, offset_buffer, data_buffer = array.buffers()
    offsets = np.frombuffer(offset_buffer, dtype=np.int32)[array.offset : array.offset + len(array) + 1].astype(
        np.int64
    )
    data = np.frombuffer(data_buffer, dtype=np.uint8)[offsets[0] : offsets[-1]]
    return offsets - offsets[0], data


def _validity(array: pa.Array) -> pa.Buffer | None:
    if array.null_count == 0:
        return None
    return pc.is_valid(array).buffers()[1]


def _not_utf8(path: str) -> CorruptLog:
    return CorruptLog(f"Cannot decode the path {path!r}: its escapes are not UTF-8", path=path)
