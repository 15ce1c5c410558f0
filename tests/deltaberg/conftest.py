"""Parquet footers that no writer at hand makes: read one, change it, put it back."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

# Thrift compact types.
TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = range(1, 13)

Struct = dict[int, tuple[int, Any]]
"""A Thrift struct: field id to (compact type, value). A list is (element type, [values])."""


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def varint(self) -> int:
        number = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return number

    def zigzag(self) -> int:
        number = self.varint()
        return (number >> 1) ^ -(number & 1)

    def value(self, kind: int) -> Any:
        if kind in (TRUE, FALSE):
            return kind == TRUE
        if kind == BYTE:
            self.at += 1
            return self.data[self.at - 1]
        if kind in (I16, I32, I64):
            return self.zigzag()
        if kind == DOUBLE:
            self.at += 8
            return self.data[self.at - 8 : self.at]
        if kind == BINARY:
            length = self.varint()
            self.at += length
            return self.data[self.at - length : self.at]
        if kind == LIST:
            header = self.data[self.at]
            self.at += 1
            count = header >> 4 if header >> 4 < 15 else self.varint()
            return header & 15, [self.value(header & 15) for _ in range(count)]
        assert kind == STRUCT
        return self.struct()

    def struct(self) -> Struct:
        fields: Struct = {}
        last = 0
        while header := self.data[self.at]:
            self.at += 1
            kind = header & 15
            last = last + (header >> 4) if header >> 4 else self.zigzag()
            fields[last] = (kind, self.value(kind))
        self.at += 1
        return fields


def _varint(number: int) -> bytes:
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _write(kind: int, value: Any) -> bytes:
    if kind in (TRUE, FALSE):
        return bytes([TRUE if value else FALSE])
    if kind == BYTE:
        return bytes([value])
    if kind in (I16, I32, I64):
        return _varint((value << 1) ^ (value >> 63))
    if kind == DOUBLE:
        return bytes(value)
    if kind == BINARY:
        return _varint(len(value)) + value
    if kind == LIST:
        element, items = value
        head = bytes([len(items) << 4 | element]) if len(items) < 15 else bytes([0xF0 | element]) + _varint(len(items))
        return head + b"".join(_write(element, item) for item in items)
    out, last = bytearray(), 0
    for number, (field_kind, field) in sorted(value.items()):
        if field_kind in (TRUE, FALSE):
            field_kind = TRUE if field else FALSE
        step = number - last
        head = bytes([step << 4 | field_kind]) if 0 < step < 16 else bytes([field_kind]) + _write(I16, number)
        out += head + (b"" if field_kind in (TRUE, FALSE) else _write(field_kind, field))
        last = number
    return bytes(out) + b"\0"


EditFooter = Callable[[Path, Callable[[Struct], None]], None]


@pytest.fixture
def edit_footer() -> EditFooter:
    """``edit_footer(file, change)``: ``change`` gets the FileMetaData struct of parquet.thrift and alters it."""

    def edit(file: Path, change: Callable[[Struct], None]) -> None:
        data = file.read_bytes()
        (length,) = struct.unpack("<I", data[-8:-4])
        start = len(data) - 8 - length
        metadata = _Reader(data[start:-8]).struct()
        change(metadata)
        footer = _write(STRUCT, metadata)
        file.write_bytes(data[:start] + footer + struct.pack("<I", len(footer)) + b"PAR1")

    return edit
