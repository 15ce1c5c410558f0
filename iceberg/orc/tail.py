"""The tail of an ORC file and of its stripes: types with their attributes, stripe places, stream lengths.

ORC v1 specification, "File Tail" and "Stripes": PostScript, Footer and StripeFooter are protocol buffers; all but
the PostScript are compressed in chunks. Only the fields that reading a file by field id needs are decoded.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

import pyarrow as pa

from deltaberg.datafile.errors import DataFileError
from deltaberg.iceberg.metadata.unpacked_size import ORC_TAIL
from deltaberg.iceberg.orc.compression import compress_footer, decompress
from deltaberg.iceberg.orc.integers import read_varint


class OrcKind(IntEnum):
    """``Type.Kind`` of the ORC specification."""

    BOOLEAN = 0
    BYTE = 1
    SHORT = 2
    INT = 3
    LONG = 4
    FLOAT = 5
    DOUBLE = 6
    STRING = 7
    BINARY = 8
    TIMESTAMP = 9
    LIST = 10
    MAP = 11
    STRUCT = 12
    UNION = 13
    DECIMAL = 14
    DATE = 15
    VARCHAR = 16
    CHAR = 17
    TIMESTAMP_INSTANT = 18
    GEOMETRY = 19
    GEOGRAPHY = 20


class OrcStream(IntEnum):
    """The ``Stream.Kind`` values that are read."""

    PRESENT = 0
    DATA = 1
    LENGTH = 2
    DICTIONARY_DATA = 3
    SECONDARY = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class OrcType:
    """One node of the type tree; its place in ``OrcTail.types`` is the ORC column id."""

    kind: OrcKind
    subtypes: tuple[int, ...]
    field_names: tuple[str, ...]
    precision: int
    scale: int
    attributes: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class OrcStripe:
    offset: int
    index_length: int
    data_length: int
    footer_length: int
    row_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OrcStreamPlace:
    """Where one stream of one column stands in the file."""

    kind: int
    column: int
    offset: int
    length: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OrcEncoding:
    """How one column is encoded in a stripe: ``run_length_v2`` for its integers, ``dictionary_size`` None without one."""

    run_length_v2: bool
    dictionary_size: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StripeFooter:
    """``encodings`` by column id."""

    streams: tuple[OrcStreamPlace, ...]
    encodings: tuple[OrcEncoding, ...]
    writer_timezone: str

    def stream(self, column: int, kind: OrcStream) -> OrcStreamPlace | None:
        """The stream of a kind of a column; None where it has none."""
        return next((each for each in self.streams if each.column == column and each.kind == kind), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class OrcTail:
    """``footer`` and ``postscript`` are the raw (uncompressed) messages; ``footer_offset`` is where the footer begins."""

    types: tuple[OrcType, ...]
    stripes: tuple[OrcStripe, ...]
    row_count: int
    compression: int
    block_size: int
    footer: bytes
    postscript: bytes
    footer_offset: int


_TAIL_GUESS = 1 << 16
_WIRE_VARINT, _WIRE_64, _WIRE_BYTES, _WIRE_32 = 0, 1, 2, 5


def read_tail(file: pa.NativeFile, size: int, location: str) -> OrcTail:
    """The file tail; DataFileError when it is not there, cut short or contradicts itself."""
    if size < 4:
        raise DataFileError(f"Cannot read ORC file {location}: {size} bytes are too few for a file tail", path=location)
    guess = _read_at(file, max(0, size - _TAIL_GUESS), min(size, _TAIL_GUESS), location)
    script_length = guess[-1]
    if script_length + 1 > size:
        raise _corrupt(location, f"a postscript of {script_length} bytes does not fit into {size}")
    script = guess[-1 - script_length : -1]
    fields = dict(_fields(script, location, "PostScript"))
    if fields.get(8000) != b"ORC":
        raise _corrupt(location, "the postscript lacks the magic 'ORC'")
    footer_length, metadata_length = _int(fields.get(1, 0)), _int(fields.get(5, 0))
    compression, block_size = _int(fields.get(2, 0)), _int(fields.get(3, 256 * 1024))
    end = size - 1 - script_length
    if footer_length + metadata_length > end:
        raise _corrupt(
            location, f"footer and metadata of {footer_length + metadata_length} bytes do not fit into {end}"
        )
    footer_offset = end - footer_length
    in_guess = footer_offset - (size - len(guess))
    packed = (
        guess[in_guess : in_guess + footer_length]
        if in_guess >= 0
        else _read_at(file, footer_offset, footer_length, location)
    )
    footer = decompress(packed, compression, block_size, location, limit=ORC_TAIL)
    types: list[OrcType] = []
    stripes: list[OrcStripe] = []
    row_count = 0
    for number, value in _fields(footer, location, "Footer"):
        if number == 3:
            stripes.append(_stripe(_bytes(value, location), location))
        elif number == 4:
            types.append(_type(_bytes(value, location), location))
        elif number == 6:
            row_count = _int(value)
        elif number == 10:
            raise DataFileError(f"Cannot read ORC file {location}: it is encrypted", path=location)
    _check_tree(types, location)
    for stripe in stripes:
        if stripe.offset + stripe.index_length + stripe.data_length + stripe.footer_length > footer_offset:
            raise _corrupt(location, f"the stripe at {stripe.offset} runs into the footer at {footer_offset}")
    return OrcTail(
        types=tuple(types),
        stripes=tuple(stripes),
        row_count=row_count,
        compression=compression,
        block_size=block_size,
        footer=footer,
        postscript=script,
        footer_offset=footer_offset,
    )


def read_stripe_footer(file: pa.NativeFile, tail: OrcTail, stripe: OrcStripe, location: str) -> StripeFooter:
    """The streams of a stripe in the order in which they stand there, and the writer's time zone."""
    offset = stripe.offset + stripe.index_length + stripe.data_length
    packed = _read_at(file, offset, stripe.footer_length, location)
    raw = decompress(packed, tail.compression, tail.block_size, location, limit=ORC_TAIL)
    lengths: list[tuple[int, int, int]] = []
    encodings: list[OrcEncoding] = []
    zone = ""
    for number, value in _fields(raw, location, "StripeFooter"):
        if number == 1:
            stream = dict(_fields(_bytes(value, location), location, "Stream"))
            lengths.append((_int(stream.get(1, 0)), _int(stream.get(2, 0)), _int(stream.get(3, 0))))
        elif number == 2:
            encodings.append(_encoding(_bytes(value, location), location))
        elif number == 3:
            zone = _text(_bytes(value, location), location)
    places = []
    at = stripe.offset
    for kind, column, length in lengths:
        if column >= len(tail.types) or at + length > offset:
            raise _corrupt(location, f"stream {kind} of column {column} runs out of the stripe at {stripe.offset}")
        places.append(OrcStreamPlace(kind=kind, column=column, offset=at, length=length))
        at += length
    if len(encodings) != len(tail.types):
        raise _corrupt(location, f"a stripe has {len(encodings)} column encodings (expected {len(tail.types)})")
    return StripeFooter(streams=tuple(places), encodings=tuple(encodings), writer_timezone=zone)


def read_stream(file: pa.NativeFile, tail: OrcTail, place: OrcStreamPlace, location: str) -> bytes:
    """The uncompressed bytes of one stream."""
    return decompress(_read_at(file, place.offset, place.length, location), tail.compression, tail.block_size, location)


def rewritten_tail(tail: OrcTail, types: tuple[bytes, ...]) -> bytes:
    """Footer, postscript and length byte of the same file with other ``Type`` messages, one for each column id."""
    footer = bytearray()
    written = False
    for number, wire, start, end in _raw_fields(tail.footer, "", "Footer"):
        if number == 4:
            if not written:
                footer += b"".join(message(4, body) for body in types)
                written = True
            continue
        footer += _varint(number << 3 | wire) + tail.footer[start:end]
    packed = compress_footer(bytes(footer), tail.compression, tail.block_size)
    script = bytearray()
    for number, wire, start, end in _raw_fields(tail.postscript, "", "PostScript"):
        body = _varint(len(packed)) if number == 1 else tail.postscript[start:end]
        script += _varint(number << 3 | wire) + body
    return packed + bytes(script) + bytes([len(script)])


def type_message(kind: int, subtypes: tuple[int, ...], names: tuple[str, ...], *, precision: int, scale: int) -> bytes:
    """A ``Type`` message without attributes."""
    out = _varint(1 << 3) + _varint(kind)
    if subtypes:
        out += message(2, b"".join(_varint(child) for child in subtypes))
    out += b"".join(message(3, name.encode()) for name in names)
    if precision or scale:
        out += _varint(5 << 3) + _varint(precision) + _varint(6 << 3) + _varint(scale)
    return out


def message(number: int, body: bytes) -> bytes:
    """A length-delimited field of a protocol buffer."""
    return _varint(number << 3 | _WIRE_BYTES) + _varint(len(body)) + body


def _type(raw: bytes, location: str) -> OrcType:
    kind = precision = scale = 0
    subtypes: list[int] = []
    names: list[str] = []
    attributes: dict[str, str] = {}
    for number, value in _fields(raw, location, "Type"):
        match number:
            case 1:
                kind = _int(value)
            case 2 if isinstance(value, bytes):
                subtypes.extend(_packed(value, location))
            case 2:
                subtypes.append(_int(value))
            case 3:
                names.append(_text(_bytes(value, location), location))
            case 5:
                precision = _int(value)
            case 6:
                scale = _int(value)
            case 7:
                pair = dict(_fields(_bytes(value, location), location, "StringPair"))
                key, text = pair.get(1, b""), pair.get(2, b"")
                attributes[_text(_bytes(key, location), location)] = _text(_bytes(text, location), location)
            case _:
                pass
    try:
        known = OrcKind(kind)
    except ValueError:
        raise DataFileError(f"Cannot read ORC file {location}: type kind {kind} is unknown", path=location) from None
    return OrcType(
        kind=known,
        subtypes=tuple(subtypes),
        field_names=tuple(names),
        precision=precision,
        scale=scale,
        attributes=attributes,
    )


def _stripe(raw: bytes, location: str) -> OrcStripe:
    fields = dict(_fields(raw, location, "StripeInformation"))
    return OrcStripe(
        offset=_int(fields.get(1, 0)),
        index_length=_int(fields.get(2, 0)),
        data_length=_int(fields.get(3, 0)),
        footer_length=_int(fields.get(4, 0)),
        row_count=_int(fields.get(5, 0)),
    )


def _encoding(raw: bytes, location: str) -> OrcEncoding:
    fields = dict(_fields(raw, location, "ColumnEncoding"))
    kind = _int(fields.get(1, 0))
    if kind > 3:
        raise _corrupt(location, f"column encoding {kind} is unknown")
    return OrcEncoding(run_length_v2=kind >= 2, dictionary_size=_int(fields.get(2, 0)) if kind & 1 else None)


def _check_tree(types: list[OrcType], location: str) -> None:
    """Every column but the root has one parent that comes before it (ORC numbers columns in pre-order)."""
    if not types or types[0].kind is not OrcKind.STRUCT:
        raise _corrupt(location, "the root type is not a struct")
    seen = {0}
    for column, node in enumerate(types):
        children = {OrcKind.LIST: 1, OrcKind.MAP: 2, OrcKind.STRUCT: len(node.field_names)}.get(node.kind)
        if node.kind is OrcKind.UNION:
            children = len(node.subtypes)
        if node.kind is OrcKind.DECIMAL and not (0 <= node.scale <= (node.precision or 38) <= 38):
            raise _corrupt(location, f"column {column} is a decimal({node.precision}, {node.scale})")
        if len(node.subtypes) != (children or 0):
            raise _corrupt(location, f"column {column} of kind {node.kind.name} has {len(node.subtypes)} subtypes")
        for child in node.subtypes:
            if child <= column or child >= len(types) or child in seen:
                raise _corrupt(location, f"column {column} cannot have column {child} as a child")
            seen.add(child)
    if len(seen) != len(types):
        raise _corrupt(location, f"{len(types) - len(seen)} types have no parent")


def _fields(raw: bytes, location: str, what: str) -> Iterator[tuple[int, int | bytes]]:
    for number, wire, start, end in _raw_fields(raw, location, what):
        if wire == _WIRE_VARINT:
            yield number, read_varint(raw, start)[0]
        elif wire == _WIRE_BYTES:
            _, body = read_varint(raw, start)
            yield number, raw[body:end]
        else:
            yield number, int.from_bytes(raw[start:end], "little")


def _raw_fields(raw: bytes, location: str, what: str) -> Iterator[tuple[int, int, int, int]]:
    """(field number, wire type, start of the value, end of the value); a bytes value starts with its length."""
    at, size = 0, len(raw)
    try:
        while at < size:
            tag, at = read_varint(raw, at)
            number, wire = tag >> 3, tag & 7
            start = at
            if wire == _WIRE_VARINT:
                _, at = read_varint(raw, at)
            elif wire == _WIRE_BYTES:
                length, at = read_varint(raw, at)
                at += length
            elif wire == _WIRE_64:
                at += 8
            elif wire == _WIRE_32:
                at += 4
            else:
                raise ValueError(f"wire type {wire}")
            if at > size:
                raise ValueError("a field runs out of the message")
            yield number, wire, start, at
    except ValueError as error:
        raise _corrupt(location, f"{what} is not a protocol buffer ({error})") from error


def _packed(raw: bytes, location: str) -> list[int]:
    out = []
    at = 0
    try:
        while at < len(raw):
            value, at = read_varint(raw, at)
            out.append(value)
    except ValueError as error:
        raise _corrupt(location, f"a packed list is cut short ({error})") from error
    return out


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def _int(value: int | bytes) -> int:
    return value if isinstance(value, int) else 0


def _bytes(value: int | bytes, location: str) -> bytes:
    if isinstance(value, bytes):
        return value
    raise _corrupt(location, f"a message was expected, the number {value} found")


def _text(raw: bytes, location: str) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise _corrupt(location, f"a name is not UTF-8 ({error})") from error


def _read_at(file: pa.NativeFile, offset: int, length: int, location: str) -> bytes:
    try:
        data: bytes = file.read_at(length, offset)
    except (pa.ArrowException, OSError) as error:
        raise DataFileError(f"Cannot read ORC file {location}: {error}", path=location) from error
    if len(data) != length:
        raise _corrupt(location, f"{length} bytes expected at {offset}, {len(data)} found")
    return data


def _corrupt(location: str, reason: str) -> DataFileError:
    return DataFileError(f"Cannot read ORC file {location}: {reason}", path=location)
