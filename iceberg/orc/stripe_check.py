"""Checks of an ORC stripe before Arrow's reader, which trusts it, reads it.

That reader allocates by the row count of the stripe, by the lengths in LENGTH streams and by dictionary sizes; a
damaged one makes it allocate without bound or write outside its memory. Here every such number is compared with the
bytes that are there.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from deltaberg.iceberg.orc.integers import Int64s, decode_integers
from deltaberg.iceberg.orc.tail import OrcKind, OrcStream, OrcStripe, OrcTail, StripeFooter, read_stream

# Two bytes of a run-length encoded bit or byte stream, and four of an integer stream, make at most this many values.
_VALUES_PER_BYTE = 1040
_TEXT = frozenset({OrcKind.STRING, OrcKind.VARCHAR, OrcKind.CHAR, OrcKind.BINARY})
_BINARY = frozenset({OrcKind.BINARY, OrcKind.GEOMETRY, OrcKind.GEOGRAPHY})
_MOST = 2**31 - 1


def check_stripe(
    file: pa.NativeFile,
    tail: OrcTail,
    stripe: OrcStripe,
    footer: StripeFooter,
    columns: Iterable[int],
    location: str,
) -> None:
    """Check the streams of some columns of a stripe. Raises ValueError with the reason, DataFileError."""
    check = _StripeCheck(file, tail, footer, location)
    for column in columns:
        check.column(column, stripe.row_count)


class _StripeCheck:
    def __init__(self, file: pa.NativeFile, tail: OrcTail, footer: StripeFooter, location: str) -> None:
        self._file, self._tail, self._footer, self._location = file, tail, footer, location

    def column(self, column: int, rows: int) -> None:
        """A column of which ``rows`` values are claimed, nulls included."""
        if rows > _MOST:
            raise ValueError(f"column {column} claims {rows} values")
        node = self._tail.types[column]
        nested = node.kind in {OrcKind.STRUCT, OrcKind.LIST, OrcKind.MAP}
        if not nested and node.kind not in _TEXT and node.kind not in _BINARY:
            # Numbers are allocated by the row: how many are null does not matter.
            has_nulls = self._footer.stream(column, OrcStream.PRESENT) is not None
            self._plausible(column, OrcStream.PRESENT if has_nulls else OrcStream.DATA, rows)
            return
        present = self._present(column, rows)
        if node.kind is OrcKind.STRUCT:
            for child in node.subtypes:
                self.column(child, present)
        elif node.kind in {OrcKind.LIST, OrcKind.MAP}:
            total = int(self._lengths(column, present).sum())
            for child in node.subtypes:
                self.column(child, total)
        else:
            self._text(column, present)

    def _present(self, column: int, rows: int) -> int:
        """How many of ``rows`` values are not null."""
        if self._footer.stream(column, OrcStream.PRESENT) is None:
            return rows
        data = self._stream(column, OrcStream.PRESENT)
        bits = np.unpackbits(_bytes_of_runs(data, (rows + 7) // 8))[:rows]
        return int(bits.sum())

    def _text(self, column: int, present: int) -> None:
        size = self._footer.encodings[column].dictionary_size
        if size is None:
            total, held = self._lengths(column, present).sum(), self._bound(column, OrcStream.DATA)
        else:
            self._plausible(column, OrcStream.DATA, present)
            total, held = self._lengths(column, size).sum(), self._bound(column, OrcStream.DICTIONARY_DATA)
        if int(total) > held:
            raise ValueError(f"the values of column {column} claim {int(total)} bytes, at most {held} are there")

    def _lengths(self, column: int, count: int) -> Int64s:
        self._plausible(column, OrcStream.LENGTH, count)
        data = self._stream(column, OrcStream.LENGTH) if count else b""
        version_2 = self._footer.encodings[column].run_length_v2
        lengths = decode_integers(data, count, signed=False, version_2=version_2)
        if count and (int(lengths.min()) < 0 or int(lengths.max()) > _MOST or int(lengths.sum()) > _MOST):
            raise ValueError(f"column {column} has lengths from {int(lengths.min())} to {int(lengths.max())}")
        return lengths

    def _plausible(self, column: int, kind: OrcStream, count: int) -> None:
        """A stream is long enough to hold ``count`` values."""
        place = self._footer.stream(column, kind)
        length = 0 if place is None else place.length
        if count <= length:
            return
        if place is None or count > _VALUES_PER_BYTE * len(self._stream(column, kind)):
            raise ValueError(f"column {column} claims {count} values, its {kind.name} stream cannot hold them")

    def _bound(self, column: int, kind: OrcStream) -> int:
        """The most bytes that a stream may inflate to."""
        place = self._footer.stream(column, kind)
        if place is None:
            return 0
        if not self._tail.compression:
            return place.length
        if place.length <= self._tail.block_size:
            return len(self._stream(column, kind))
        return (place.length // 4 + 1) * self._tail.block_size

    def _stream(self, column: int, kind: OrcStream) -> bytes:
        place = self._footer.stream(column, kind)
        return b"" if place is None else read_stream(self._file, self._tail, place, self._location)


def _bytes_of_runs(data: bytes, count: int) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    """ORC's byte run-length encoding: a control byte below 128 repeats one byte, above it counts literals."""
    out = bytearray()
    at = 0
    while len(out) < count:
        if at + 1 >= len(data):
            raise ValueError(f"a byte stream ends after {len(out)} of {count} bytes")
        control = data[at]
        if control < 128:
            out += data[at + 1 : at + 2] * (control + 3)
            at += 2
        else:
            literals = data[at + 1 : at + 1 + 256 - control]
            out += literals
            at += 1 + len(literals)
    return np.frombuffer(bytes(out[:count]), dtype=np.uint8)
