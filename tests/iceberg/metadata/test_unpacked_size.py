"""Small files that unpack to very much are refused in one line, in bounded memory; what tables hold is not."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from deltaberg.datafile.errors import DataFileError
from deltaberg.iceberg.avro.codec import decompress
from deltaberg.iceberg.avro.container import encode_header, encode_long, read_blocks, read_header
from deltaberg.iceberg.deletes.puffin_codec import compress as puffin_compress
from deltaberg.iceberg.deletes.puffin_codec import decompress as puffin_decompress
from deltaberg.iceberg.errors import CorruptMetadata
from deltaberg.iceberg.metadata.table_metadata_json import read_metadata
from deltaberg.iceberg.metadata.unpacked_size import AVRO_BLOCK, MANIFEST_LIST, ORC_TAIL, PUFFIN, RATIO
from deltaberg.iceberg.orc import compression as orc_compression

MIB = 1 << 20
UNPACKED = 768 * MIB
MOST_MEMORY = 512 * MIB
SYNC = bytes(range(16))
MEASURED = """
import re, sys
from deltaberg.cli.main import run
from deltaberg.cli.options import Invocation
code = run(sys.argv[1:], Invocation())
# Not ru_maxrss, which a process takes over from the one that started it.
peak = re.search(r"VmHWM:\\s*(\\d+) kB", open("/proc/self/status").read())
print(code, int(peak[1]) << 10)
"""


def raw_deflate() -> bytes:
    """Zeros; every full flush begins a piece that stands on its own."""
    engine = zlib.compressobj(9, zlib.DEFLATED, -15)
    piece = engine.compress(bytes(MIB)) + engine.flush(zlib.Z_FULL_FLUSH)
    return piece * (UNPACKED // MIB) + engine.flush(zlib.Z_FINISH)


def streamed(engine: bz2.BZ2Compressor | lzma.LZMACompressor) -> bytes:
    zeros = bytes(8 * MIB)
    return b"".join(engine.compress(zeros) for _ in range(24)) + engine.flush()


BOMBS: dict[str, Callable[[], bytes]] = {
    "deflate": raw_deflate,
    "bzip2": lambda: streamed(bz2.BZ2Compressor()),
    "xz": lambda: streamed(lzma.LZMACompressor(preset=0)),
    "zstandard": lambda: bytes(pa.Codec("zstd").compress(bytes(64 * MIB), asbytes=True)) * (UNPACKED // (64 * MIB)),
}


def gzipped(content: bytes, times: int) -> bytes:
    """Members one after the other are one file."""
    return gzip.compress(content, mtime=0) * times


def run_measured(*arguments: object) -> tuple[int, int, str]:
    """Exit code, peak memory in bytes, and what was said."""
    command = [sys.executable, "-c", MEASURED, *map(str, arguments)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    code, peak = done.stdout.split("\n")[-2].split()
    return int(code), int(peak), done.stderr


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """An Iceberg table; its newest metadata file."""
    import deltalake

    import deltaberg

    deltalake.write_deltalake(str(tmp_path / "t"), pa.table({"id": [1, 2]}))
    return Path(deltaberg.convert(tmp_path / "t", to="iceberg").target_metadata)


def manifest_list_of(metadata: Path) -> Path:
    return Path(json.loads(metadata.read_text())["snapshots"][-1]["manifest-list"].removeprefix("file://"))


def with_blocks(file: Path, codec: str, blocks: list[bytes]) -> None:
    """Give an Avro file other blocks, of 1,000 entries each."""
    header = dict(read_header(file.read_bytes()).metadata, **{"avro.codec": codec.encode()})
    body = b"".join(encode_long(1000) + encode_long(len(each)) + each + SYNC for each in blocks)
    file.write_bytes(encode_header(header, SYNC) + body)


@pytest.mark.parametrize("codec", BOMBS)
def test_a_block_of_a_manifest_list(codec: str, table: Path) -> None:
    bomb = BOMBS[codec]()
    assert len(bomb) * RATIO < 192 * MIB, "it packs no better than tables do"
    with_blocks(manifest_list_of(table), codec, [bomb])
    code, peak, said = run_measured("scan", table)
    assert (code, said.count("\n")) == (1, 1)
    assert f"Avro block of {codec} data: {len(bomb):,} bytes would exceed" in said
    assert peak < MOST_MEMORY


@pytest.mark.parametrize("content", [b" ", b"{},"], ids=["blanks", "objects"])
def test_gzipped_metadata(content: bytes, table: Path) -> None:
    table.write_bytes(gzipped(content * (16 * MIB // len(content)), UNPACKED // (16 * MIB)))
    code, peak, said = run_measured("inspect", table)
    assert (code, said.count("\n")) == (1, 1)
    assert "Cannot read gzipped metadata" in said
    assert "would exceed" in said
    assert peak < MOST_MEMORY


def test_as_much_gzipped_metadata_as_any_ratio_may_give(table: Path) -> None:
    document = b'{"format-version":2,"x":[' + b"{}," * (8 * MIB // 3 - 20) + b"0]}"
    table.write_bytes(gzipped(document, 1))
    code, peak, said = run_measured("inspect", table)
    assert (code, said.count("\n")) == (1, 1)
    assert "would exceed" not in said
    assert peak < MOST_MEMORY


def test_metadata_of_many_schemas_is_read(table: Path) -> None:
    """Equal texts pack best of what is real, and hundreds of megabytes may be."""
    document = json.loads(table.read_text())
    fields = [{"id": n + 2, "name": f"column_{n}", "required": False, "type": "string"} for n in range(50)]
    ids = document["schemas"][0]["fields"]
    document["schemas"] += [{"type": "struct", "schema-id": n, "fields": ids + fields} for n in range(1, 3500)]
    document["last-column-id"] = 60
    text = json.dumps(document).encode()
    packed = gzipped(text, 1)
    assert len(text) > 11 * MIB
    assert len(text) / len(packed) > 100
    assert len(read_metadata(packed).schemas) == 3500


def test_blocks_and_blobs_below_the_limits_are_read() -> None:
    zeros = bytes(AVRO_BLOCK.free)
    for codec, packed in (
        ("deflate", zlib.compress(zeros, 9)[2:-4]),
        ("bzip2", bz2.compress(zeros)),
        ("xz", lzma.compress(zeros)),
        ("zstandard", bytes(pa.Codec("zstd").compress(zeros, asbytes=True))),
    ):
        assert decompress(codec, packed) == zeros
    blob = bytes(PUFFIN.free)
    assert puffin_decompress("zstd", puffin_compress("zstd", blob), "blob") == blob
    with pytest.raises(CorruptMetadata, match=r"Puffin blob: .* would exceed"):
        puffin_decompress("zstd", puffin_compress("zstd", blob + b"\0"), "blob")


def test_all_blocks_of_a_file_have_a_limit_only_where_they_are_held_together() -> None:
    block = bytes(pa.Codec("zstd").compress(bytes(15 * MIB), asbytes=True))
    header = encode_header({"avro.schema": b'"long"', "avro.codec": b"zstandard"}, SYNC)
    data = header + (encode_long(15 * MIB) + encode_long(len(block)) + block + SYNC) * 4
    assert sum(each.objects for each in read_blocks(data, read_header(data))) == 60 * MIB
    with pytest.raises(CorruptMetadata, match=r"Cannot decompress Avro file: [\d,]+ bytes would exceed"):
        list(read_blocks(data, read_header(data), limit=MANIFEST_LIST))


def test_the_metadata_of_an_orc_file() -> None:
    engine = zlib.compressobj(9, zlib.DEFLATED, -15)
    chunk = engine.compress(bytes(4 * MIB)) + engine.flush()
    packed = ((len(chunk) << 1).to_bytes(3, "little") + chunk) * 8
    with pytest.raises(DataFileError, match="would exceed"):
        orc_compression.decompress(packed, 1, 4 * MIB, "f.orc", limit=ORC_TAIL)
    assert len(orc_compression.decompress(packed, 1, 4 * MIB, "f.orc")) == 32 * MIB
    with pytest.raises(DataFileError, match="a block size of 1073741824 bytes"):
        orc_compression.decompress(packed, 1, 1 << 30, "f.orc")
