import io
import zlib

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaberg.iceberg.avro import codec as avro_codec
from deltaberg.iceberg.avro.codec import CODECS, compress, decompress
from deltaberg.iceberg.avro.container import (
    encode_block,
    encode_header,
    encode_long,
    read_blocks,
    read_header,
    read_long,
)
from deltaberg.iceberg.errors import CorruptMetadata, UnsupportedIcebergFeature
from deltaberg.iceberg.metadata.unpacked_size import UnpackLimit

SYNC = bytes(range(16))
SCHEMA = {"type": "record", "name": "r", "fields": [{"name": "a", "type": "long"}]}


def file(*blocks, codec="null"):
    header = encode_header({"avro.schema": b'"long"', "avro.codec": codec.encode()}, SYNC)
    return header + b"".join(encode_block(count, data, codec=codec, sync=SYNC) for count, data in blocks)


@given(st.integers(-(2**63), 2**63 - 1))
def test_a_long_comes_back(value):
    data = encode_long(value)
    assert read_long(memoryview(data + b"\xff"), 0, "x") == (value, len(data))


def test_a_long_whose_tenth_byte_has_bits_beyond_the_64th_loses_them_as_in_every_decoder():
    assert read_long(memoryview(bytes.fromhex("abc4a38396eec3909202")), 0, "x")[0] == -653171173268680982


@pytest.mark.parametrize("data", [b"", b"\x80", b"\xff" * 10, b"\xff" * 20])
def test_a_long_without_an_end_is_corrupt(data):
    with pytest.raises(CorruptMetadata, match="no integer stands"):
        read_long(memoryview(data), 0, "count")


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("data", [b"", b"a", bytes(range(256)) * 4000])
def test_every_codec_gives_back_what_it_took(codec, data):
    assert decompress(codec, compress(codec, data)) == data


@pytest.mark.parametrize("codec", ["null", "deflate", "bzip2", "xz"])
def test_another_library_reads_our_files_and_we_read_its(codec):
    rows = [{"a": i} for i in range(5000)]
    body = b"".join(encode_long(row["a"]) for row in rows)
    schema = str(SCHEMA).replace("'", '"').encode()
    ours = encode_header({"avro.schema": schema, "avro.codec": codec.encode()}, SYNC)
    ours += encode_block(len(rows), body, codec=codec, sync=SYNC)
    assert list(fastavro.reader(io.BytesIO(ours))) == rows
    theirs = io.BytesIO()
    fastavro.writer(theirs, SCHEMA, rows, codec=codec)
    header = read_header(theirs.getvalue())
    blocks = list(read_blocks(theirs.getvalue(), header))
    assert b"".join(block.data for block in blocks) == body
    assert sum(block.objects for block in blocks) == len(rows)


@pytest.mark.parametrize("codec", [codec for codec in CODECS if codec != "null"])
def test_damaged_and_truncated_blocks_are_corrupt(codec):
    data = compress(codec, bytes(range(256)) * 20)
    for broken in (data[: len(data) // 2], b"\x00\xff\x80" + data[3:] + b"", b"", bytes(len(data))):
        with pytest.raises(CorruptMetadata, match="Cannot decompress Avro block"):
            decompress(codec, broken)


def test_a_snappy_checksum_that_does_not_match_is_corrupt():
    with pytest.raises(CorruptMetadata, match="checksum does not match"):
        decompress("snappy", compress("snappy", b"abc")[:-1] + b"\x00")


def test_a_snappy_length_is_not_believed():
    with pytest.raises(CorruptMetadata, match="would exceed"):
        decompress("snappy", b"\xff\xff\xff\xff\x07" + b"abcdef")


@pytest.mark.parametrize("codec", [codec for codec in CODECS if codec not in ("null", "snappy")])
def test_a_block_that_expands_beyond_the_limit_is_refused(codec, monkeypatch):
    monkeypatch.setattr(avro_codec, "AVRO_BLOCK", UnpackLimit(free=1 << 16, most=1 << 16))
    monkeypatch.setattr(avro_codec, "_HARMLESS", 0)
    assert decompress(codec, compress(codec, bytes(1 << 16))) == bytes(1 << 16)
    with pytest.raises(CorruptMetadata, match="would exceed"):
        decompress(codec, compress(codec, bytes((1 << 20) + 1)))


def test_without_isal_deflate_is_zlibs(monkeypatch):
    monkeypatch.setattr(avro_codec, "_isal", None)
    data = compress("deflate", b"abc" * 1000)
    assert zlib.decompress(data, -15) == b"abc" * 1000


@pytest.mark.parametrize("call", [lambda: compress("lzo", b""), lambda: decompress("lzo", b"")])
def test_an_unknown_codec_is_refused_by_name(call):
    with pytest.raises(UnsupportedIcebergFeature, match="codec 'lzo'") as caught:
        call()
    assert caught.value.feature == "avro codec lzo"


def test_a_file_that_is_none_is_named_by_its_first_bytes():
    with pytest.raises(CorruptMetadata, match=r"expected it to start with b'Obj\\x01', found b'PAR1'"):
        read_header(b"PAR1....")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"Obj\x01", "no integer stands"),
        (b"Obj\x01\x00" + SYNC[:5], "ends before its sync marker"),
        (b"Obj\x01\x00" + SYNC, "no avro.schema"),
        (b"Obj\x01\x02\xfe\xff\xff\xff\x0f" + b"x" * 900, "claims 2147483647 bytes"),
        (b"Obj\x01\xfe\xff\xff\xff\x0f" + b"\x00" * 900, "claims 2147483647 entries"),
        (b"Obj\x01\x02\x01" + b"x" * 90, "claims -1 bytes"),
    ],
)
def test_a_broken_header_is_corrupt(data, message):
    with pytest.raises(CorruptMetadata, match=message):
        read_header(data)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: data[:-1], "bytes are left"),
        (lambda data: data[:-16] + bytes(16), "sync marker differs"),
        (lambda data: data + b"\x02\xfe\xff\xff\xff\x0f", "claims 1 objects in 2147483647 bytes"),
        (lambda data: data + b"\x01\x00" + SYNC, "claims -1 objects"),
        (lambda data: data + b"\x80", "no integer stands"),
    ],
)
def test_a_broken_block_is_corrupt(change, message):
    data = change(file((3, b"\x02\x04\x06")))
    with pytest.raises(CorruptMetadata, match=message):
        list(read_blocks(data, read_header(data)))


def test_header_entries_may_come_in_several_counted_and_sized_groups():
    one = b"\x01" + encode_long(30) + b"\x16avro.schema" + b'\x0c"long"'
    other = b"\x02\x02k\x02v\x00"
    header = read_header(b"Obj\x01" + one + other + SYNC)
    assert header.metadata == {"avro.schema": b'"long"', "k": b"v"}
    assert header.codec == "null"
    assert header.text("k") == "v"
    assert header.text("absent") is None


def test_a_header_value_that_is_not_text_is_corrupt_when_it_is_asked_for():
    header = read_header(encode_header({"avro.schema": b'"long"', "k": b"\xff"}, SYNC))
    with pytest.raises(CorruptMetadata, match="'k' is not UTF-8"):
        header.text("k")
