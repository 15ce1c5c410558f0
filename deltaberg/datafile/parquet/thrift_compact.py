"""Thrift's compact protocol, as far as Parquet footers need it, for unchecked bytes.

A struct becomes a dict of field id to value, a list a list, a binary bytes. A length is accepted only where
as many bytes follow.
"""

from __future__ import annotations

from typing import Any

_MAX_DEPTH = 32
_MAX_ELEMENTS = 1 << 20
_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = 1, 2, 3, 7, 8, 9, 10, 12
_INTEGERS = frozenset((4, 5, 6))

Struct = dict[int, Any]


class ThriftError(ValueError):
    """The bytes are no compact Thrift."""


def read_struct(data: bytes) -> Struct:
    """The struct that ``data`` begins with. Raises ThriftError."""
    try:
        return _struct(data, 0, 0)[0]
    except IndexError as error:
        raise ThriftError("it ends in the middle of a value") from error


def read_integer(data: bytes, at: int) -> int | None:
    """The integer at a position; None where the data ends before it does. Raises ThriftError."""
    try:
        raw, _ = _varint(data, at)
    except IndexError:
        return None
    return (raw >> 1) ^ -(raw & 1)


def list_ends(data: bytes, number: int) -> list[tuple[int, int]]:
    """For each struct in the list that is field ``number`` of a struct: where it ends, and the id of its last field.

    The fields before that list must have ids below 16 more than the one before them, as writers make them.
    """
    at = found = 0
    while data[at]:
        header = data[at]
        found += header >> 4
        at += 1
        if found == number and header & 15 == _LIST:
            count = data[at] >> 4
            at += 1
            if count == 15:
                count, at = _varint(data, at)
            ends = []
            for _ in range(count):
                fields, at = _struct(data, at, 0)
                ends.append((at, max(fields, default=0)))
            return ends
        if header & 15 not in (_TRUE, _FALSE):
            _, at = _value(data, at, header & 15, 0)
    raise ThriftError(f"it has no list {number}")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    byte = data[at]
    if byte < 0x80:
        return byte, at + 1
    number = byte & 0x7F
    shift = 7
    while True:
        at += 1
        byte = data[at]
        number |= (byte & 0x7F) << shift
        if number >> 64:
            raise ThriftError("an integer has more than 64 bits")
        if byte < 0x80:
            return number, at + 1
        shift += 7


def _struct(data: bytes, at: int, depth: int) -> tuple[Struct, int]:
    if depth > _MAX_DEPTH:
        raise ThriftError(f"its values are nested more than {_MAX_DEPTH} deep")
    fields: Struct = {}
    number = 0
    while True:
        header = data[at]
        at += 1
        if header == 0:
            return fields, at
        kind = header & 15
        if header > 15:
            number += header >> 4
        else:
            raw, at = _varint(data, at)
            number = (raw >> 1) ^ -(raw & 1)
        if kind in _INTEGERS:
            raw, at = _varint(data, at)
            fields[number] = (raw >> 1) ^ -(raw & 1)
        elif kind <= _FALSE:
            fields[number] = kind == _TRUE
        else:
            fields[number], at = _value(data, at, kind, depth)


def _value(data: bytes, at: int, kind: int, depth: int) -> tuple[Any, int]:
    if kind in _INTEGERS:
        raw, at = _varint(data, at)
        return (raw >> 1) ^ -(raw & 1), at
    if kind == _BINARY:
        length, at = _varint(data, at)
        return data[at : _end(data, at, length)], at + length
    if kind == _STRUCT:
        return _struct(data, at, depth + 1)
    if kind in (_LIST, _SET):
        return _list(data, at, depth)
    if kind == _BYTE:
        return data[at], at + 1
    if kind in (_TRUE, _FALSE):
        return data[at] == _TRUE, at + 1
    if kind == _DOUBLE:
        return data[at : _end(data, at, 8)], at + 8
    raise ThriftError(f"a value has the unknown type {kind}")


def _list(data: bytes, at: int, depth: int) -> tuple[list[Any], int]:
    header = data[at]
    at += 1
    count, kind = header >> 4, header & 15
    if count == 15:
        count, at = _varint(data, at)
    # Every element takes a byte at least.
    _end(data, at, count)
    if count > _MAX_ELEMENTS:
        raise ThriftError(f"a list says that it has {count} elements")
    items = []
    for _ in range(count):
        item, at = _value(data, at, kind, depth)
        items.append(item)
    return items, at


def _end(data: bytes, at: int, length: int) -> int:
    if at + length > len(data):
        raise ThriftError(f"a value says that it has {length} bytes (expected at most {len(data) - at})")
    return at + length
