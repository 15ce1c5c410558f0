"""The codecs of Avro's object container files: null, deflate, snappy, zstandard, bzip2, xz.

Blocks come from other writers: none may expand beyond what ``unpacked_size.AVRO_BLOCK`` says, whatever its header promises.
"""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa

from deltaberg.iceberg.errors import CorruptMetadata, UnsupportedIcebergFeature
from deltaberg.iceberg.metadata.unpacked_size import AVRO_BLOCK

_isal: Any
try:
    from isal import isal_zlib as _isal
except ImportError:  # a platform without ISA-L: zlib is slower and makes the same format
    _isal = None

CODECS: Final = ("null", "deflate", "snappy", "zstandard", "bzip2", "xz")
_RAW_DEFLATE: Final = -15
# Deflate makes at most 1032 bytes out of one: a block of this size may be unpacked before its ratio is checked.
_HARMLESS: Final = AVRO_BLOCK.most // 1032
_XZ_MEMORY: Final = 128 << 20
# ISA-L starts up more slowly than zlib and overtakes it at about this size.
_SMALL: Final = 2048
_inflate: Any = _isal or zlib
_INFLATE_ERRORS: tuple[type[Exception], ...] = (zlib.error, _inflate.error)


def decompress(codec: str, block: bytes | memoryview) -> bytes:
    """The bytes of one block. CorruptMetadata when it is damaged or too large, Unsupported for an unknown codec."""
    return decompressor(codec)(block)


def decompressor(codec: str) -> Callable[[bytes | memoryview], bytes]:
    """``decompress`` for many blocks of one codec."""
    found = _DECOMPRESSORS.get(codec)
    if found is None:
        raise unknown_codec(codec)
    return found


def compress(codec: str, block: bytes | memoryview) -> bytes:
    """One block, compressed. Deflate runs at ISA-L's level 1 (about five times zlib's speed) where it is there."""
    if codec == "null":
        return bytes(block)
    if codec == "deflate":
        if _isal is not None:
            return bytes(_isal.compress(block, 1, _RAW_DEFLATE))
        deflater = zlib.compressobj(1, zlib.DEFLATED, _RAW_DEFLATE)
        return deflater.compress(block) + deflater.flush()
    if codec == "snappy":
        return bytes(pa.Codec("snappy").compress(block, asbytes=True)) + zlib.crc32(block).to_bytes(4, "big")
    if codec == "zstandard":
        return bytes(pa.Codec("zstd").compress(block, asbytes=True))
    if codec == "bzip2":
        return bz2.compress(block)
    if codec == "xz":
        return lzma.compress(block)
    raise unknown_codec(codec)


def unknown_codec(codec: str) -> UnsupportedIcebergFeature:
    """The error for a codec that the Avro specification does not have."""
    return UnsupportedIcebergFeature(
        f"Cannot read or write Avro blocks with codec {codec!r}: unknown (expected one of {', '.join(CODECS)})",
        feature=f"avro codec {codec}",
    )


def _deflate(block: bytes | memoryview) -> bytes:
    size = len(block)
    if size > _HARMLESS:
        return _stream(lambda: _inflate.decompressobj(_RAW_DEFLATE), block, "deflate", _INFLATE_ERRORS)
    try:
        data: bytes = (zlib if size < _SMALL else _inflate).decompress(block, _RAW_DEFLATE)
    except _INFLATE_ERRORS as error:
        raise CorruptMetadata(f"Cannot decompress Avro block: deflate data is damaged ({error})") from error
    if len(data) > AVRO_BLOCK.free:
        AVRO_BLOCK.check(_what("deflate"), packed=size, unpacked=len(data))
    return data


def _bzip2(block: bytes | memoryview) -> bytes:
    return _stream(bz2.BZ2Decompressor, block, "bzip2", (OSError, ValueError, EOFError))


def _xz(block: bytes | memoryview) -> bytes:
    errors = (lzma.LZMAError, EOFError, MemoryError)
    return _stream(lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, _XZ_MEMORY), block, "xz", errors)


def _stream(make: Any, block: bytes | memoryview, codec: str, errors: tuple[type[Exception], ...]) -> bytes:
    try:
        stream = make()
        data = stream.decompress(block, AVRO_BLOCK.of(len(block)))
        if not stream.eof:
            # At the limit, or the input stopped before the end of the stream: one more byte tells them apart.
            more = stream.decompress(b"", 1) if codec != "deflate" else stream.decompress(stream.unconsumed_tail, 1)
            if more:
                raise AVRO_BLOCK.exceeded(_what(codec), len(block))
    except errors as error:
        raise CorruptMetadata(f"Cannot decompress Avro block: {codec} data is damaged ({error})") from error
    if not stream.eof:
        raise CorruptMetadata(f"Cannot decompress Avro block: {codec} data ends too early")
    return bytes(data)


def _snappy(block: bytes | memoryview) -> bytes:
    size, shift = 0, 0
    for byte in bytes(block[:5]):
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    # No snappy element makes more than 64 bytes out of 3.
    if size > min(AVRO_BLOCK.most, len(block) * 32):
        raise AVRO_BLOCK.exceeded(_what("snappy"), len(block))
    body, crc = bytes(block[:-4]), bytes(block[-4:])
    try:
        data = bytes(pa.Codec("snappy").decompress(body, size, asbytes=True)) if size or len(body) != 1 else b""
    except (pa.ArrowException, OSError) as error:
        raise CorruptMetadata(f"Cannot decompress Avro block: snappy data is damaged ({error})") from error
    if zlib.crc32(data).to_bytes(4, "big") != crc:
        raise CorruptMetadata("Cannot decompress Avro block: snappy checksum does not match")
    return data


def _zstandard(block: bytes | memoryview) -> bytes:
    if not block:
        raise CorruptMetadata("Cannot decompress Avro block: zstandard data ends too early")
    parts, total = [], 0
    try:
        with pa.CompressedInputStream(pa.BufferReader(pa.py_buffer(block)), "zstd") as stream:
            while chunk := stream.read(1 << 20):
                parts.append(chunk)
                total += len(chunk)
                AVRO_BLOCK.check(_what("zstandard"), packed=len(block), unpacked=total)
    except (pa.ArrowException, OSError) as error:
        raise CorruptMetadata(f"Cannot decompress Avro block: zstandard data is damaged ({error})") from error
    return b"".join(parts)


def _what(codec: str) -> str:
    return f"Cannot decompress Avro block of {codec} data"


_DECOMPRESSORS: Final[dict[str, Callable[[bytes | memoryview], bytes]]] = {
    "null": bytes,
    "deflate": _deflate,
    "snappy": _snappy,
    "zstandard": _zstandard,
    "bzip2": _bzip2,
    "xz": _xz,
}
