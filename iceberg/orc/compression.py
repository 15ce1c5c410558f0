"""ORC's chunked compression (ORC v1 specification, "Compression")."""

from __future__ import annotations

import zlib

import pyarrow as pa

from deltaberg.datafile.errors import DataFileError
from deltaberg.iceberg.metadata.unpacked_size import UnpackLimit

_CODECS = {2: "snappy", 4: "lz4", 5: "zstd", 6: "brotli"}
_LZ4_FRAME_HEADER = bytes.fromhex("04224d18607073")
_NONE, _ZLIB = 0, 1
# The largest length that a chunk header can state.
_LARGEST_BLOCK = 1 << 23


def decompress(
    packed: bytes, compression: int, block_size: int, location: str, *, limit: UnpackLimit | None = None
) -> bytes:
    """Undo ORC's chunking: a three-byte little-endian header says the length and whether the chunk is stored as is.

    limit: of all chunks together; each holds a block at most.
    """
    if compression == _NONE:
        return packed
    if block_size > _LARGEST_BLOCK:
        raise _corrupt(location, f"a block size of {block_size} bytes (expected at most {_LARGEST_BLOCK})")
    out = []
    total = 0
    at, end = 0, len(packed)
    while at < end:
        if at + 3 > end:
            raise _corrupt(location, "a compressed chunk has no header")
        header = int.from_bytes(packed[at : at + 3], "little")
        at += 3
        length = header >> 1
        if at + length > end:
            raise _corrupt(location, f"a compressed chunk of {length} bytes is cut short")
        chunk = packed[at : at + length]
        at += length
        out.append(chunk if header & 1 else _inflate(chunk, compression, block_size, location))
        total += len(out[-1])
        if limit is not None and total > limit.of(len(packed)):
            raise _corrupt(location, limit.exceeded("its metadata", len(packed)).message)
    return b"".join(out)


def compress_footer(raw: bytes, compression: int, block_size: int) -> bytes:
    """A message as stored (not deflated) chunks, which every reader of a compressed file accepts."""
    if compression == _NONE:
        return raw
    step = max(1, min(block_size, 1 << 22))
    chunks = [raw[at : at + step] for at in range(0, len(raw), step)]
    return b"".join((len(chunk) << 1 | 1).to_bytes(3, "little") + chunk for chunk in chunks)


def _inflate(chunk: bytes, compression: int, block_size: int, location: str) -> bytes:
    try:
        if compression == _ZLIB:
            engine = zlib.decompressobj(-15)
            out = engine.decompress(chunk, block_size)
            if engine.unconsumed_tail:
                raise _corrupt(location, f"a chunk inflates beyond the block size of {block_size} bytes")
            return out
        name = _CODECS.get(compression)
        if name is None:
            raise DataFileError(
                f"Cannot read ORC file {location}: compression kind {compression} is not supported", path=location
            )
        return _codec_decompress(name, chunk, block_size)
    except (zlib.error, pa.ArrowException, OSError, ValueError) as error:
        raise _corrupt(location, f"a chunk does not decompress ({error})") from error


def _codec_decompress(name: str, chunk: bytes, block_size: int) -> bytes:
    """A chunk of unknown inflated size, never more than ``block_size`` bytes."""
    if name == "snappy":
        size = _snappy_size(chunk)
        if size > block_size:
            raise ValueError(f"a chunk inflates to {size} bytes, more than the block size {block_size}")
        return bytes(pa.Codec(name).decompress(chunk, size, asbytes=True))
    if name == "lz4":
        # ORC stores bare LZ4 blocks; inside a frame (LZ4 frame format) a block needs no stored inflated size.
        chunk = _LZ4_FRAME_HEADER + len(chunk).to_bytes(4, "little") + chunk + bytes(4)
    with pa.CompressedInputStream(pa.py_buffer(chunk), name) as stream:
        out: bytes = stream.read(block_size + 1)
    if len(out) > block_size:
        raise ValueError(f"a chunk inflates beyond the block size of {block_size} bytes")
    return out


def _snappy_size(chunk: bytes) -> int:
    """The inflated size, which starts a snappy block as a varint."""
    size = 0
    for place, byte in enumerate(chunk[:5]):
        size |= (byte & 127) << 7 * place
        if byte < 128:
            return size
    raise ValueError("a snappy block does not say its size")


def _corrupt(location: str, reason: str) -> DataFileError:
    return DataFileError(f"Cannot read ORC file {location}: {reason}", path=location)
