"""Plain numbers of JSON read from their places in one long text, all of a column at once.

A number of at most sixteen characters is two words of eight bytes: a few operations on words check its grammar, take
the point out and make its digits an integer. A number that is longer or has an exponent is not plain and left to the
caller.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from deltaberg.delta.stats.fast_path.byte_windows import WORD, Mask, Places, Words

LONGEST = 2 * WORD  # characters of a plain number
_MINUS, _ZERO = (np.uint64(byte) for byte in b"-0")
_FIRST_BYTE, _WORD_BITS = np.uint64(0xFF), np.uint64(8 * WORD)
_EXACT_DOUBLE = np.uint64(1 << 53)
_POWERS = 10 ** np.arange(19, dtype=np.int64)
_DOUBLE_POWERS = 10.0 ** np.arange(19)  # exact, as all up to 10**22 are


def _each_byte(value: int) -> np.uint64:
    return np.uint64(int.from_bytes(bytes([value]) * WORD, "little"))


_LOW_BITS = _each_byte(0x7F)
_HIGH_BITS = _each_byte(0x80)
_ZEROS = _each_byte(ord("0"))
_POINTS = _each_byte(ord("."))
_BEYOND_NINE = _each_byte(0x80 - 10)
_SEVEN, _EIGHT, _SIXTEEN, _THIRTY_TWO = (np.uint64(bits) for bits in (7, 8, 16, 32))
_BIT_OF_DOUBLE, _EXPONENT_OF_BYTE_0 = np.int64(52), np.int64(1023)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainNumbers:
    """Numbers as digits: the value is ``digits / 10 ** fraction``, negative where said.

    plain: which of the texts are such numbers; the others' values mean nothing. whole: digits before the point.
    """

    digits: Words
    fraction: Places
    whole: Places
    negative: Mask
    plain: Mask

    def row(self, number: int) -> PlainNumbers:
        """One of several columns that were read together; what is made not plain in it is so in all of them."""
        return PlainNumbers(
            digits=self.digits[number],
            fraction=self.fraction[number],
            whole=self.whole[number],
            negative=self.negative[number],
            plain=self.plain[number],
        )


def read_plain_numbers(words: Sequence[Words], lengths: Places, *, points: bool) -> PlainNumbers:
    """The numbers of so many characters that begin one or two words. Without ``points`` only integers are plain.

    Words and lengths may be several columns at once, shape (columns, numbers).
    """
    room = len(words) * WORD
    negative = (words[0] & _FIRST_BYTE) == _MINUS
    if negative.any():
        words = [np.where(negative, without, word) for without, word in zip(_shifted(words), words, strict=True)]
        lengths = lengths - negative
    plain = (lengths >= 1) & (lengths + negative <= room)
    if not plain.all():
        lengths = np.clip(lengths, 0, room)
    first = words[0] & _FIRST_BYTE
    # The last digit becomes the highest byte; what stands behind the number falls off, zero bytes come before it.
    words = _aligned(words, lengths)
    if points:
        words, fraction = _without_points(words, plain)
        pointed = fraction > 0
        count = lengths - pointed
        whole = count - fraction
    else:
        fraction, whole, count = np.zeros(lengths.shape, dtype=np.int64), lengths, lengths
    digits = None
    odd = None
    for word, zeros in zip(words, _zeros(len(words), count), strict=True):
        value = word ^ zeros
        beyond = value | (value + _BEYOND_NINE)
        odd = beyond if odd is None else odd | beyond
        eight = _eight_digits(value)
        digits = eight if digits is None else digits * np.uint64(10**WORD) + eight
    assert digits is not None
    assert odd is not None
    plain &= (odd & _HIGH_BITS) == 0
    plain &= (whole == 1) | ((first != _ZERO) & (whole > 1))
    return PlainNumbers(digits=digits, fraction=fraction, whole=whole, negative=negative, plain=plain)


def as_integers(numbers: PlainNumbers, kind: np.dtype[np.signedinteger]) -> npt.NDArray[np.signedinteger]:
    """The integers; those beyond the type's range are made not plain."""
    if kind.itemsize < WORD:
        largest = np.uint64(np.iinfo(kind).max)
        numbers.plain[numbers.digits > largest + numbers.negative] = False
    values = numbers.digits.view(np.int64)
    if numbers.negative.any():
        values = np.where(numbers.negative, -values, values)
    return values.astype(kind, copy=False)


def as_doubles(numbers: PlainNumbers) -> npt.NDArray[np.float64]:
    """The nearest doubles: one division of two exact doubles rounds rightly. Numbers that need more are not plain."""
    numbers.plain[numbers.digits > _EXACT_DOUBLE] = False
    values = numbers.digits.astype(np.float64)
    if numbers.fraction.any():
        values /= _DOUBLE_POWERS[numbers.fraction]
    if numbers.negative.any():
        np.negative(values, out=values, where=numbers.negative)
    return values


def as_floats(numbers: PlainNumbers) -> npt.NDArray[np.float32]:
    """The nearest floats. Doubles half-way between two floats may have been rounded to there: they are not plain."""
    doubles = as_doubles(numbers)
    below = doubles.view(np.uint64) & np.uint64((1 << 29) - 1)
    numbers.plain[below == np.uint64(1 << 28)] = False
    return doubles.astype(np.float32)


def as_decimals(numbers: PlainNumbers, *, precision: int, scale: int, words: int) -> Places:
    """Decimals as integers of so many words of eight bytes, lowest first; shape (numbers, words).

    Those that do not fit the precision, have more digits after the point, or need more than one word are not plain.
    """
    numbers.plain[(numbers.fraction > scale) | (numbers.whole + scale >= len(_POWERS))] = False
    missing = np.clip(scale - numbers.fraction, 0, len(_POWERS) - 1)
    values = numbers.digits.view(np.int64) * _POWERS[missing]
    if precision < len(_POWERS):
        numbers.plain[values >= _POWERS[precision]] = False
    if numbers.negative.any():
        values = np.where(numbers.negative, -values, values)
    found = np.empty((len(values), words), dtype=np.int64)
    found[:, 0] = values
    found[:, 1:] = (values >> 63)[:, None]
    return found


def _shifted(words: Sequence[Words]) -> list[Words]:
    """The bytes without the first."""
    shifted: list[Words] = [word >> _EIGHT for word in words]
    for number, following in enumerate(words[1:]):
        shifted[number] |= following << np.uint64(56)
    return shifted


def _missing_bits(count: int, lengths: Places) -> Words:
    return (np.int64(count * WORD) - lengths).view(np.uint64) << np.uint64(3)


def _aligned(words: Sequence[Words], lengths: Places) -> list[Words]:
    """The first ``lengths`` bytes moved to the end of the words. A shift by all bits of a word leaves nothing."""
    bits = _missing_bits(len(words), lengths)
    if len(words) == 1:
        return [words[0] << bits]
    first, second = words
    return [first << bits, (second << bits) | (first >> (_WORD_BITS - bits)) | (first << (bits - _WORD_BITS))]


def _zeros(count: int, lengths: Places) -> list[Words]:
    """The digit zero in each of the last ``lengths`` bytes of the words."""
    bits = _missing_bits(count, lengths)
    if count == 1:
        return [_ZEROS << bits]
    return [_ZEROS << bits, _ZEROS << (np.maximum(bits, _WORD_BITS) - _WORD_BITS)]


def _eight_digits(values: Words) -> Words:
    """Eight digits, the first in the lowest byte, as an integer: neighbours are joined three times."""
    pairs = (values * np.uint64((10 << 8) + 1)) >> _EIGHT
    fours = ((pairs & np.uint64(0x00FF00FF00FF00FF)) * np.uint64((100 << 16) + 1)) >> _SIXTEEN
    joined: Words = ((fours & np.uint64(0x0000FFFF0000FFFF)) * np.uint64((10000 << 32) + 1)) >> _THIRTY_TWO
    return joined


def _without_points(words: Sequence[Words], plain: Mask) -> tuple[list[Words], Places]:
    """The words without the point that a number may have, and how many digits follow it, 0 where there is none."""
    count = len(words)
    found = list(words)
    fraction = np.zeros(plain.shape, dtype=np.int64)
    anywhere: Mask | None = None
    for number, word in enumerate(words):
        point = _points(word)
        here = point != 0
        if not here.any():
            continue
        if anywhere is not None:
            plain &= ~(anywhere & here)
        anywhere = here
        plain &= (point & (point - np.uint64(1))) == 0
        below = (point >> _SEVEN) - np.uint64(1)
        above = ~((below << _EIGHT) | _FIRST_BYTE)
        shifted = (word & above) | ((word & below) << _EIGHT)
        behind = np.int64((count - number) * WORD - 1) - _byte_number(point)
        if number:
            shifted |= words[0] >> np.uint64(56)
        if here.all():
            found[number], fraction = shifted, behind
            if number:
                found[0] = words[0] << _EIGHT
        else:
            found[number] = np.where(here, shifted, found[number])
            fraction = np.where(here, behind, fraction)
            if number:
                found[0] = np.where(here, words[0] << _EIGHT, found[0])
        plain &= (behind > 0) | ~here
    return found, fraction


def _points(word: Words) -> Words:
    """The highest bit of every byte that is a point."""
    other = word ^ _POINTS
    marked: Words = ~(((other & _LOW_BITS) + _LOW_BITS) | other | _LOW_BITS)
    return marked


def _byte_number(marked: Words) -> Places:
    """The number of the one byte whose highest bit is set."""
    exponent = (marked.astype(np.float64).view(np.int64) >> _BIT_OF_DOUBLE) - _EXPONENT_OF_BYTE_0
    return exponent >> np.int64(3)
