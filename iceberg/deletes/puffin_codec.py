"""The codecs of Puffin blobs and footers: a single LZ4 or Zstandard frame that says how long its content is."""

from __future__ import annotations

import struct
from typing import Final

import pyarrow as pa

from deltaberg.iceberg.errors import CorruptMetadata, UnsupportedIcebergFeature, corrupt_context
from deltaberg.iceberg.metadata.unpacked_size import PUFFIN

_LZ4_MAGIC: Final = 0x184D2204
_ZSTD_MAGIC: Final = 0xFD2FB528
_LZ4_RATIO: Final = 256
_CHUNK: Final = 1 << 20
_ARROW_NAMES: Final = {"lz4": "lz4", "zstd": "zstd"}


def decompress(codec: str, data: bytes, what: str) -> bytes:
    """The content of one frame. Raises CorruptMetadata, and UnsupportedIcebergFeature for an unknown codec.

    Memory grows only as content arrives, and never beyond what the frame declares.
    """
    if codec not in _ARROW_NAMES:
        raise _unknown(codec)
    size = _lz4_content_size(data) if codec == "lz4" else _zstd_content_size(data)
    if size is None or (codec == "lz4" and size > _LZ4_RATIO * len(data)):
        raise CorruptMetadata(
            f"Cannot decompress Puffin {what}: expected a single {codec} frame with a plausible content size, "
            f"found {'none' if size is None else size} in {len(data)} bytes",
            field=what,
        )
    with corrupt_context(field=what):
        PUFFIN.check(f"Cannot decompress Puffin {what}", packed=len(data), unpacked=size)
    parts, total = [], 0
    try:
        with pa.CompressedInputStream(pa.BufferReader(data), _ARROW_NAMES[codec]) as stream:
            while total <= size and (chunk := stream.read(min(_CHUNK, size - total + 1))):
                parts.append(chunk)
                total += len(chunk)
    except (pa.ArrowException, OSError) as error:
        reason = str(error).split("\n", maxsplit=1)[0]
        raise CorruptMetadata(
            f"Cannot decompress Puffin {what}: {codec} data is damaged ({reason})", field=what
        ) from error
    if total != size:
        raise CorruptMetadata(
            f"Cannot decompress Puffin {what}: its frame declares {size} bytes and holds "
            f"{'more' if total > size else total}",
            field=what,
        )
    return b"".join(parts)


def compress(codec: str, data: bytes) -> bytes:
    """One frame that says how long its content is."""
    if codec == "lz4":
        return _with_lz4_size(bytes(pa.Codec("lz4").compress(data, asbytes=True)), len(data))
    if codec == "zstd":
        return bytes(pa.Codec("zstd").compress(data, asbytes=True))
    raise _unknown(codec)


def _unknown(codec: str) -> UnsupportedIcebergFeature:
    return UnsupportedIcebergFeature(
        f"Cannot read or write Puffin blobs with codec {codec!r}: unknown (expected lz4 or zstd)",
        feature=f"puffin codec {codec}",
    )


def _lz4_content_size(data: bytes) -> int | None:
    """LZ4 frame format: magic, flags (bits 6-7 version 1, bit 3 content size), block descriptor, size (8 bytes)."""
    if len(data) < 15 or struct.unpack_from("<I", data)[0] != _LZ4_MAGIC or data[4] >> 6 != 1 or not data[4] & 0x08:
        return None
    return int(struct.unpack_from("<Q", data, 6)[0])


def _zstd_content_size(data: bytes) -> int | None:
    """RFC 8878, 3.1.1.1: magic, descriptor, window (unless single segment), dictionary id, content size."""
    if len(data) < 6 or struct.unpack_from("<I", data)[0] != _ZSTD_MAGIC:
        return None
    flag, single, dictionary = data[4] >> 6, data[4] >> 5 & 1, data[4] & 3
    width = (single, 2, 4, 8)[flag]
    start = 5 + (1 - single) + (0, 1, 2, 4)[dictionary]
    if width == 0 or start + width > len(data):
        return None
    return int.from_bytes(data[start : start + width], "little") + (256 if width == 2 else 0)


def _with_lz4_size(frame: bytes, size: int) -> bytes:
    """Put the content size, which Arrow leaves out, into a frame's header: flags, block descriptor, size, checksum."""
    if frame[4] & 0x08:
        return frame
    descriptor = bytes([frame[4] | 0x08, frame[5]]) + struct.pack("<Q", size)
    return frame[:4] + descriptor + bytes([_xxh32(descriptor) >> 8 & 0xFF]) + frame[7:]


def _xxh32(data: bytes) -> int:
    """xxHash-32 with seed 0 of fewer than 16 bytes (LZ4 frame format, "Header Checksum")."""
    value = 374761393 + len(data)
    whole = len(data) // 4 * 4
    for at in range(0, whole, 4):
        value = _rotate(value + struct.unpack_from("<I", data, at)[0] * 3266489917, 17) * 668265263
    for byte in data[whole:]:
        value = _rotate(value + byte * 374761393, 11) * 2654435761
    value &= 0xFFFFFFFF
    value = (value ^ value >> 15) * 2246822519 & 0xFFFFFFFF
    value = (value ^ value >> 13) * 3266489917 & 0xFFFFFFFF
    return value ^ value >> 16


def _rotate(value: int, bits: int) -> int:
    value &= 0xFFFFFFFF
    return value << bits | value >> 32 - bits
