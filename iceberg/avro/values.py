"""Readers of Avro's scalar types, each giving the Arrow type of the Iceberg type that was asked for (Appendix A).

A reader knows three ways through the data: ``read`` (values of all cursors as one Arrow array), ``skip`` (only the
positions after them) and ``walk`` (one value, in plain Python, for the few places where there is only one cursor).
Cursors are always in ascending order, which lets binary values be cut out of the buffer without copying them first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from deltaberg.iceberg.avro.container import read_long
from deltaberg.iceberg.avro.cursors import Cursors, Positions
from deltaberg.iceberg.errors import CorruptMetadata

FromLongs: TypeAlias = Callable[[npt.NDArray[np.int64]], pa.Array]
FromBinary: TypeAlias = Callable[[pa.Array], pa.Array]


class Reader(Protocol):
    """A way through values of one Avro type. ``what`` names the field in messages."""

    @property
    def what(self) -> str: ...

    @property
    def longs(self) -> int:
        """How many varints a value consists of; 0 when it is not made of a fixed number of them alone."""
        ...

    def read(self, cursors: Cursors, at: Positions) -> tuple[pa.Array, Positions]: ...

    def skip(self, cursors: Cursors, at: Positions) -> Positions: ...

    def walk(self, view: memoryview, at: int) -> int: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class NullReader:
    """``null``: nothing is stored."""

    what: str
    type: pa.DataType
    longs: int = 0

    def read(self, cursors: Cursors, at: Positions) -> tuple[pa.Array, Positions]:
        return pa.nulls(len(at), self.type), at

    def skip(self, cursors: Cursors, at: Positions) -> Positions:
        return at

    def walk(self, view: memoryview, at: int) -> int:
        return at


@dataclass(frozen=True, slots=True, kw_only=True)
class BooleanReader:
    """``boolean``: one byte, 0 or 1."""

    what: str
    longs: int = 0

    def read(self, cursors: Cursors, at: Positions) -> tuple[pa.Array, Positions]:
        values = cursors.small(at, self.what)
        if len(values) and int(values.max()) > 1:
            raise CorruptMetadata(f"Cannot read Avro field {self.what}: a boolean is neither 0 nor 1", field=self.what)
        return pa.array(values.astype(np.bool_)), at + 1

    def skip(self, cursors: Cursors, at: Positions) -> Positions:
        cursors.check(at + 1, self.what)
        return at + 1

    def walk(self, view: memoryview, at: int) -> int:
        return _bounded(view, at, 1, self.what)


@dataclass(frozen=True, slots=True, kw_only=True)
class LongReader:
    """``int``, ``long`` and ``enum``: a zigzag varint."""

    what: str
    convert: FromLongs
    longs: int = 1

    def read(self, cursors: Cursors, at: Positions) -> tuple[pa.Array, Positions]:
        values, at = cursors.longs(at, self.what)
        return _converted(self.convert, values, self.what), at

    def skip(self, cursors: Cursors, at: Positions) -> Positions:
        return cursors.skip_longs(at, self.what)

    def walk(self, view: memoryview, at: int) -> int:
        return read_long(view, at, self.what)[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedReader:
    """``fixed``, ``float`` and ``double``: a known number of bytes."""

    what: str
    size: int
    convert: FromBinary
    longs: int = 0

    def read(self, cursors: Cursors, at: Positions) -> tuple[pa.Array, Positions]:
        end = self.skip(cursors, at)
        if self.size == 0:
            cells = np.zeros(0, dtype=np.uint8)
        else:
            cells = cursors.bytes[at[:, None] + np.arange(self.size)].ravel()
        values = pa.Array.from_buffers(pa.binary(self.size), len(at), [None, pa.py_buffer(cells)])
        return _converted(self.convert, values, self.what), end

    def skip(self, cursors: Cursors, at: Positions) -> Positions:
        end = at + self.size
        cursors.check(end, self.what)
        return end

    def walk(self, view: memoryview, at: int) -> int:
        return _bounded(view, at, self.size, self.what)


@dataclass(frozen=True, slots=True, kw_only=True)
class BytesReader:
    """``bytes`` and ``string``: a length and that many bytes."""

    what: str
    convert: FromBinary
    longs: int = 0

    def read(self, cursors: Cursors, at: Positions) -> tuple[pa.Array, Positions]:
        sizes, start = cursors.lengths(at, self.what)
        end = start + sizes
        if len(at) == 0:
            return _converted(self.convert, pa.array([], pa.binary()), self.what), end
        # Values and the gaps between them tile the buffer, so they are one array over it; the values are its even items.
        edges = np.empty(2 * len(at), dtype=np.int32)
        edges[0::2], edges[1::2] = start, end
        tiles = pa.Array.from_buffers(pa.binary(), 2 * len(at) - 1, [None, pa.py_buffer(edges), cursors.buffer])
        values = tiles.take(pa.array(np.arange(0, 2 * len(at), 2, dtype=np.int32)))
        return _converted(self.convert, values, self.what), end

    def skip(self, cursors: Cursors, at: Positions) -> Positions:
        sizes, start = cursors.lengths(at, self.what)
        return start + sizes

    def walk(self, view: memoryview, at: int) -> int:
        size, at = read_long(view, at, self.what)
        return _bounded(view, at, size, self.what)


def _bounded(view: memoryview, at: int, size: int, what: str) -> int:
    if size < 0 or size > len(view) - at:
        raise CorruptMetadata(f"Cannot read Avro field {what}: it claims more bytes than there are", field=what)
    return at + size


def _converted(convert: Callable[..., pa.Array], values: object, what: str) -> pa.Array:
    try:
        return convert(values)
    except pa.ArrowException as error:
        reason = str(error).split("\n", maxsplit=1)[0]
        raise CorruptMetadata(f"Cannot read Avro field {what}: a value is invalid ({reason})", field=what) from error
