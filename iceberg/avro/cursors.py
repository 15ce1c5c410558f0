"""Many positions in one buffer of Avro data, read in lockstep: the primitive steps of the columnar decoder.

A cursor is a byte position at which a value starts. Each step takes an int64 array of positions and gives the values and
the positions after them, so its cost is a few NumPy operations whatever the number of cursors. No byte outside the buffer
is ever read; a position that would leave it is a CorruptMetadata.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from deltaberg.iceberg.errors import CorruptMetadata

Positions: TypeAlias = npt.NDArray[np.int64]
Words: TypeAlias = npt.NDArray[np.uint64]

# Beyond the end a step reads zeros; two words are the most that one step looks ahead.
_PADDING: Final = 32
_U = np.uint64
_HIGH_BITS: Final = _U(0x8080808080808080)
_LOW_BITS: Final = _U(0x7F7F7F7F7F7F7F7F)
# (1 << 8k) * this has k + 1 in its top byte: the length of a varint whose last byte is the k-th.
_LENGTHS: Final = _U(0x0102030405060708)
_ONE: Final = _U(1)


class Cursors:
    """A buffer made of parts, and the words that start at each of its bytes."""

    def __init__(self, parts: Iterable[bytes]) -> None:
        padded = b"".join((*parts, bytes(_PADDING)))
        self.size = len(padded) - _PADDING
        self.view = memoryview(padded)[: self.size]
        self.buffer = pa.py_buffer(padded)
        self.bytes = np.frombuffer(padded, dtype=np.uint8)
        self.words: Words = np.ndarray(shape=(len(padded) - 7,), dtype="<u8", buffer=padded, strides=(1,))

    def check(self, at: Positions, what: str) -> None:
        """Refuse positions after the end of the buffer."""
        if len(at) and int(at.max()) > self.size:
            raise CorruptMetadata(f"Cannot read Avro field {what}: the data ends before it", field=what)

    def longs(self, at: Positions, what: str) -> tuple[npt.NDArray[np.int64], Positions]:
        """An int or long at every cursor."""
        self.check(at, what)
        first = self.bytes[at]
        if len(first) and int(first.max()) < 0x80:
            return ((first >> 1) ^ -(first & 1)).view(np.int8).astype(np.int64), at + 1
        bits, size = self._varints(at, what)
        values = (bits >> _ONE).view(np.int64) ^ -(bits & _ONE).view(np.int64)
        return values, at + size

    def lengths(self, at: Positions, what: str) -> tuple[Positions, Positions]:
        """A length prefix at every cursor, not negative and not reaching beyond the buffer."""
        values, at = self.longs(at, what)
        low, high = int(values.min(initial=0)), int(values.max(initial=0))
        if low < 0 or high > self.size or bool((values + at > self.size).any()):
            raise CorruptMetadata(f"Cannot read Avro field {what}: it claims more bytes than there are", field=what)
        return values, at

    def skip_longs(self, at: Positions, what: str) -> Positions:
        """Step over an int or long at every cursor."""
        self.check(at, what)
        last = ~self.words[at] & _HIGH_BITS
        if len(last) and int(last.min()) == 0:
            return self.longs(at, what)[1]
        last &= -last
        return at + _varint_sizes(last)

    def skip_long_pairs(self, at: Positions, what: str) -> Positions:
        """Step over two ints or longs at every cursor."""
        self.check(at, what)
        last = ~self.words[at] & _HIGH_BITS
        last ^= last & -last
        if len(last) and int(last.min()) == 0:
            return self.skip_longs(self.skip_longs(at, what), what)
        last &= -last
        return at + _varint_sizes(last)

    def small(self, at: Positions, what: str) -> npt.NDArray[np.uint8]:
        """One byte at every cursor."""
        self.check(at + 1, what)
        return self.bytes[at]

    def _varints(self, at: Positions, what: str) -> tuple[Words, Positions]:
        """The 64 bits of a varint at every cursor before zigzag, and its size in bytes."""
        words = self.words[at]
        last = ~words & _HIGH_BITS
        if len(last) and int(last.min()) == 0:
            return self._long_varints(at, words, last, what)
        last &= -last
        size = _varint_sizes(last)
        words &= (last - _ONE) & _LOW_BITS
        return _compress(words, int(size.max(initial=1))), size

    def _long_varints(self, at: Positions, words: Words, last: Words, what: str) -> tuple[Words, Positions]:
        """``_varints`` for cursors of which some have a varint of nine or ten bytes."""
        long = last == 0
        tail = self.words[at + 8]
        ninth, tenth = tail & _U(0xFF), (tail >> _U(8)) & _U(0xFF)
        extended = long & (ninth >= _U(0x80))
        if bool((extended & (tenth >= _U(0x80))).any()):
            raise CorruptMetadata(f"Cannot read Avro field {what}: an integer exceeds 64 bits", field=what)
        last &= -last
        keep = np.where(long, _LOW_BITS, (last - _ONE) & _LOW_BITS)
        bits = _compress(words & keep, 8)
        bits |= np.where(long, (ninth & _U(0x7F)) << _U(56), _U(0))
        # As in every decoder, bits of a tenth byte beyond bit 63 are lost; some writers set them.
        bits |= np.where(extended, tenth << _U(63), _U(0))
        size = np.where(long, np.where(extended, 10, 9), _varint_sizes(last)).astype(np.int64)
        self.check(at + size, what)
        return bits, size


def _varint_sizes(last: Words) -> Positions:
    """Sizes from words with only the top bit of the last byte set (0 for an all-zero word)."""
    return (((last >> _U(7)) * _LENGTHS) >> _U(56)).view(np.int64)


def _compress(words: Words, size: int) -> Words:
    """Squeeze out the top bit of each byte of words that hold at most ``size`` groups of seven bits."""
    if size > 1:
        words = (words & _U(0x007F007F007F007F)) | ((words & _U(0x7F007F007F007F00)) >> _ONE)
    if size > 2:
        words = (words & _U(0x00003FFF00003FFF)) | ((words & _U(0x3FFF00003FFF0000)) >> _U(2))
    if size > 4:
        words = (words & _U(0x000000000FFFFFFF)) | ((words & _U(0x0FFFFFFF00000000)) >> _U(4))
    return words
