"""Avro object container files: header, blocks, sync markers ("Object Container Files" of the Avro specification)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from deltaberg.iceberg.avro.codec import CODECS, compress, decompressor, unknown_codec
from deltaberg.iceberg.errors import CorruptMetadata
from deltaberg.iceberg.metadata.unpacked_size import UnpackLimit
from deltaberg.redaction import told_beginning

MAGIC: Final = b"Obj\x01"
SYNC_SIZE: Final = 16
_MAX_VARINT: Final = 10
_LONG_BITS: Final = (1 << 64) - 1
_MAX_HEADER_ENTRIES: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class AvroHeader:
    """The header of a file: its key-value metadata, the codec, and where the first block starts."""

    metadata: Mapping[str, bytes]
    codec: str
    sync: bytes
    size: int

    def text(self, key: str) -> str | None:
        """A metadata value as text, None when it is absent; CorruptMetadata when it is not UTF-8."""
        value = self.metadata.get(key)
        if value is None:
            return None
        try:
            return value.decode("utf-8")
        except UnicodeDecodeError as error:
            raise CorruptMetadata(f"Cannot read Avro header: value of {key!r} is not UTF-8", field=key) from error


class AvroBlock(NamedTuple):
    """One block: where it starts in the file, how many objects it claims to hold, and their bytes."""

    offset: int
    objects: int
    data: bytes


def read_header(data: bytes | memoryview) -> AvroHeader:
    """The header of a container file held in memory."""
    view = memoryview(data)
    if bytes(view[: len(MAGIC)]) != MAGIC:
        raise CorruptMetadata(
            f"Cannot read Avro file: expected it to start with {MAGIC!r}, found {told_beginning(bytes(view[: len(MAGIC)]))}",
            field="magic",
        )
    metadata: dict[str, bytes] = {}
    at = len(MAGIC)
    while True:
        count, at = read_long(view, at, "header")
        if count == 0:
            break
        if count < 0:
            _, at = read_long(view, at, "header")
            count = -count
        if len(metadata) + count > _MAX_HEADER_ENTRIES:
            raise CorruptMetadata(f"Cannot read Avro header: it claims {count} entries", field="header")
        for _ in range(count):
            key, at = _bytes(view, at, "header key")
            value, at = _bytes(view, at, "header value")
            metadata[key.decode("utf-8", "backslashreplace")] = value
    if at + SYNC_SIZE > len(view):
        raise CorruptMetadata("Cannot read Avro header: the file ends before its sync marker", field="sync")
    codec = metadata.get("avro.codec", b"null").decode("utf-8", "backslashreplace") or "null"
    if codec not in CODECS:
        raise unknown_codec(codec)
    if "avro.schema" not in metadata:
        raise CorruptMetadata("Cannot read Avro header: it has no avro.schema", field="avro.schema")
    return AvroHeader(metadata=metadata, codec=codec, sync=bytes(view[at : at + SYNC_SIZE]), size=at + SYNC_SIZE)


def read_blocks(
    data: bytes | memoryview, header: AvroHeader, *, limit: UnpackLimit | None = None
) -> Iterator[AvroBlock]:
    """The blocks in file order, decompressed one at a time. limit: of all of them together."""
    data = bytes(data)
    view = memoryview(data)
    unpack, sync, total = decompressor(header.codec), header.sync, len(data)
    at = header.size
    unpacked = 0
    # Some writers put every object into a block of its own, so this loop is kept short.
    while at < total:
        start = at
        if at + 3 <= total and data[at] < 0x80 and data[at + 1] >= 0x80 > data[at + 2]:
            # One byte of count and two of size: written out because it is the usual form of such small blocks.
            count, size = data[at] >> 1, (data[at + 1] & 0x7F | data[at + 2] << 7) >> 1
            count, size = (-1, -1) if (data[at] | data[at + 1]) & 1 else (count, size)
            at += 3
        else:
            count, at = read_long(view, at, "block")
            size, at = read_long(view, at, "block")
        end = at + size
        if count < 0 or size < 0 or end + SYNC_SIZE > total:
            raise CorruptMetadata(
                f"Cannot read Avro block at byte {start}: it claims {count} objects in {size} bytes, "
                f"but {max(total - at - SYNC_SIZE, 0)} bytes are left",
                field=f"byte {start}",
            )
        if data[end : end + SYNC_SIZE] != sync:
            raise CorruptMetadata(
                f"Cannot read Avro block at byte {start}: its sync marker differs from the header's",
                field=f"byte {end}",
            )
        block = unpack(view[at:end])
        if limit is not None:
            unpacked += len(block)
            limit.check("Cannot decompress Avro file", packed=total, unpacked=unpacked)
        yield AvroBlock(start, count, block)
        at = end + SYNC_SIZE


def encode_header(metadata: Mapping[str, bytes], sync: bytes) -> bytes:
    """A header; ``metadata`` has ``avro.schema`` and ``avro.codec`` among its keys, ``sync`` is 16 bytes."""
    parts = [MAGIC]
    if metadata:
        parts.append(encode_long(len(metadata)))
        for key, value in metadata.items():
            name = key.encode("utf-8")
            parts += [encode_long(len(name)), name, encode_long(len(value)), value]
    parts += [b"\x00", sync]
    return b"".join(parts)


def encode_block(count: int, data: bytes | memoryview, *, codec: str, sync: bytes) -> bytes:
    """One block of ``count`` objects whose encoding is ``data``."""
    body = compress(codec, data)
    return b"".join((encode_long(count), encode_long(len(body)), body, sync))


def encode_long(value: int) -> bytes:
    """An int or long: zigzag, then seven bits a byte, least significant first."""
    bits = (value << 1) ^ (value >> 63)
    out = bytearray()
    while bits > 0x7F:
        out.append(bits & 0x7F | 0x80)
        bits >>= 7
    out.append(bits)
    return bytes(out)


def read_long(view: memoryview, at: int, what: str) -> tuple[int, int]:
    """The int or long at a position and the position after it."""
    bits = shift = 0
    for byte in view[at : at + _MAX_VARINT]:
        at += 1
        if byte < 0x80:
            # Bits of a tenth byte beyond bit 63 are lost, as in every decoder; some writers set them.
            bits = (bits | byte << shift) & _LONG_BITS
            return (bits >> 1) ^ -(bits & 1), at
        bits |= (byte & 0x7F) << shift
        shift += 7
    raise CorruptMetadata(f"Cannot read Avro {what}: no integer stands before byte {at}", field=what)


def _bytes(view: memoryview, at: int, what: str) -> tuple[bytes, int]:
    size, at = read_long(view, at, what)
    if size < 0 or size > len(view) - at:
        raise CorruptMetadata(
            f"Cannot read Avro {what}: it claims {size} bytes at byte {at} of {len(view)}",
            field=what,
        )
    return bytes(view[at : at + size]), at + size
