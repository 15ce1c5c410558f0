"""Puffin files: read by others, read from others, and the malformed twins."""

import json
import os

import lz4.frame
import numpy as np
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.table.deletion_vector import deletion_vectors_from_puffin_file
from pyiceberg.table.puffin import PuffinFile as TheirPuffinFile

from deltaberg.bitmap import PositionBitmap, frame, unframe
from deltaberg.iceberg.deletes.puffin import DELETION_VECTOR, THETA_SKETCH, PuffinFile, PuffinWriter
from deltaberg.iceberg.deletes.puffin_codec import compress, decompress
from deltaberg.iceberg.errors import CorruptMetadata, IcebergError, InvalidIcebergRequest, UnsupportedIcebergFeature
from deltaberg.storage import NotFound, open_storage

CONTENTS = [b"", b"a", b"hello" * 100, os.urandom(200_000), bytes(5_000_000)]


@pytest.mark.parametrize("data", CONTENTS, ids=len)
def test_our_frames_are_read_by_others_and_theirs_by_us(data):
    ours = compress("lz4", data)
    assert lz4.frame.decompress(ours) == data
    assert decompress("lz4", ours, "blob") == data
    if data:
        assert lz4.frame.get_frame_info(ours)["content_size"] == len(data)
        assert decompress("lz4", lz4.frame.compress(data, store_size=True, content_checksum=True), "blob") == data
    assert zstandard.decompress(compress("zstd", data)) == data
    assert decompress("zstd", zstandard.compress(data), "blob") == data


@settings(max_examples=50, deadline=None)
@given(st.binary(max_size=300))
def test_any_bytes_survive_both_codecs(data):
    for codec in ("lz4", "zstd"):
        assert decompress(codec, compress(codec, data), "blob") == data


@pytest.mark.parametrize("codec", ["lz4", "zstd"])
def test_damaged_frames_are_corrupt(codec):
    good = compress(codec, b"hello" * 1000)
    for bad in (b"", good[:5], good[:-3], b"XXXX" + good[4:], good[:-4] + b"\xff\xff\xff\xff"):
        if codec == "zstd" and bad == good[:-4] + b"\xff\xff\xff\xff":
            continue
        with pytest.raises(CorruptMetadata, match="Cannot decompress Puffin blob"):
            decompress(codec, bad, "blob")


def test_a_frame_without_a_content_size_is_corrupt():
    with pytest.raises(CorruptMetadata, match="plausible content size, found none"):
        decompress("lz4", lz4.frame.compress(b"abc", store_size=False), "blob")
    with pytest.raises(CorruptMetadata, match="plausible content size, found none"):
        decompress("zstd", zstandard.ZstdCompressor(write_content_size=False).compress(b"abc"), "blob")


def test_a_declared_size_is_not_believed():
    small = compress("lz4", b"abc")
    huge = small[:6] + (2**31).to_bytes(8, "little") + small[14:]
    with pytest.raises(CorruptMetadata, match="plausible content size"):
        decompress("lz4", huge, "blob")
    zipped = zstandard.compress(bytes(70_000))
    lying = zipped[:5] + (1 << 30).to_bytes(4, "little") + zipped[9:]
    with pytest.raises(CorruptMetadata):
        decompress("zstd", lying, "blob")


@pytest.mark.parametrize("call", [lambda: compress("gzip", b""), lambda: decompress("gzip", b"", "blob")])
def test_an_unknown_codec_is_refused(call):
    with pytest.raises(UnsupportedIcebergFeature, match="codec 'gzip'"):
        call()


def vector(*positions):
    return frame(PositionBitmap.from_positions(np.array(positions, dtype=np.int64)).serialize())


def written(folder, name="f.puffin", properties=None):
    storage = open_storage()
    with PuffinWriter(storage, f"{folder}/{name}", properties=properties) as writer:
        writer.add_deletion_vector(vector(1, 5), referenced_data_file="s3://é/a.parquet", cardinality=2)
        writer.add_deletion_vector(vector(2**40), referenced_data_file="s3://é/b.parquet", cardinality=1)
        writer.add(
            THETA_SKETCH,
            b"sketch" * 99,
            fields=[3],
            snapshot_id=7,
            sequence_number=8,
            properties={"ndv": "12"},
            compression_codec="zstd",
        )
        writer.add("unheard-of-v9", b"x" * 999, fields=[], snapshot_id=7, sequence_number=8, compression_codec="lz4")
    return writer


def test_blobs_come_back_with_their_entries(tmp_path):
    writer = written(tmp_path)
    file = PuffinFile.open(open_storage(), f"{tmp_path}/f.puffin")
    assert file.blobs == tuple(writer.blobs)
    assert file.size == writer.length == (tmp_path / "f.puffin").stat().st_size
    assert file.properties["created-by"].startswith("deltaberg ")
    first, second, sketch, unknown = file.blobs
    assert (first.type, first.offset, first.length) == (DELETION_VECTOR, 4, len(vector(1, 5)))
    assert second.properties == {"referenced-data-file": "s3://é/b.parquet", "cardinality": "1"}
    assert (first.fields, first.snapshot_id, first.sequence_number, first.compression_codec) == (
        (2147483645,),
        -1,
        -1,
        None,
    )
    assert PositionBitmap.deserialize(unframe(file.read(second))).to_positions().tolist() == [2**40]
    assert file.read(sketch) == b"sketch" * 99
    assert sketch.properties == {"ndv": "12"}
    assert (unknown.type, file.read(unknown)) == ("unheard-of-v9", b"x" * 999)


def test_pyiceberg_reads_our_deletion_vectors(tmp_path):
    storage = open_storage()
    with PuffinWriter(storage, f"{tmp_path}/f.puffin") as writer:
        writer.add_deletion_vector(vector(1, 5, 70_000), referenced_data_file="s3://a", cardinality=3)
        writer.add_deletion_vector(vector(0), referenced_data_file="s3://b", cardinality=1)
    theirs = deletion_vectors_from_puffin_file(TheirPuffinFile((tmp_path / "f.puffin").read_bytes()))
    found = {each.referenced_data_file: each.to_vector().to_pylist() for each in theirs}
    assert found == {"s3://a": [1, 5, 70_000], "s3://b": [0]}


def test_a_file_without_blobs_is_whole(tmp_path):
    with PuffinWriter(open_storage(), f"{tmp_path}/f.puffin", properties={}) as writer:
        pass
    file = PuffinFile.open(open_storage(), f"{tmp_path}/f.puffin")
    assert (file.blobs, file.properties, file.size) == ((), {}, writer.length)


def test_nothing_is_left_of_a_file_that_failed(tmp_path):
    with pytest.raises(InvalidIcebergRequest, match=r"its frame of 5 bytes says 16909060"):
        _add_broken(tmp_path)
    assert list(tmp_path.iterdir()) == []


def _add_broken(folder):
    with PuffinWriter(open_storage(), f"{folder}/f.puffin") as writer:
        writer.add_deletion_vector(b"\x01\x02\x03\x04\x05", referenced_data_file="s3://a", cardinality=1)


def file_of(payload, *, blobs=b"", flags=0, size=None):
    size = len(payload) if size is None else size
    return (
        b"PFA1"
        + blobs
        + b"PFA1"
        + payload
        + size.to_bytes(4, "little", signed=True)
        + flags.to_bytes(4, "little")
        + b"PFA1"
    )


def opened(folder, data):
    (folder / "f.puffin").write_bytes(data)
    return PuffinFile.open(open_storage(), f"{folder}/f.puffin")


def test_a_compressed_footer_is_read(tmp_path):
    payload = json.dumps({"blobs": [], "properties": {"k": "v" * 500}}).encode()
    for packed in (lz4.frame.compress(payload, store_size=True), compress("lz4", payload)):
        assert opened(tmp_path, file_of(packed, flags=1)).properties == {"k": "v" * 500}


def test_a_footer_larger_than_the_first_guess_is_read(tmp_path):
    payload = json.dumps({"blobs": [], "properties": {"k": "v" * 100_000}}).encode()
    assert len(opened(tmp_path, file_of(payload, blobs=bytes(50_000))).properties["k"]) == 100_000


def blob(**changes):
    known = {"type": "t", "fields": [1], "snapshot-id": 1, "sequence-number": 1, "offset": 4, "length": 10}
    return {key: value for key, value in (known | changes).items() if value is not None}


@pytest.mark.parametrize("missing", ["type", "fields", "snapshot-id", "sequence-number", "offset", "length"])
def test_a_blob_without_a_required_field_is_corrupt(tmp_path, missing):
    payload = json.dumps({"blobs": [blob(**{missing: None})]}).encode()
    with pytest.raises(CorruptMetadata, match=rf"\$\.blobs\[0\]\.{missing}") as caught:
        opened(tmp_path, file_of(payload, blobs=bytes(10)))
    assert caught.value.path == f"{tmp_path}/f.puffin"


@pytest.mark.parametrize("place", [{"offset": 3}, {"offset": 5}, {"length": 11}, {"length": 2**62}, {"offset": 2**62}])
def test_a_blob_outside_of_the_file_is_corrupt(tmp_path, place):
    payload = json.dumps({"blobs": [blob(**place)]}).encode()
    with pytest.raises(CorruptMetadata, match="expected a blob between bytes 4 and 14"):
        opened(tmp_path, file_of(payload, blobs=bytes(10)))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "expected at least 20 bytes, found 0"),
        (b"PFA1PFA1", "expected at least 20 bytes"),
        (b"XXXX" + file_of(b"{}")[4:], "expected the file to start with"),
        (file_of(b"{}")[:-1] + b"X", "expected the file to end with"),
        (file_of(b"{}", size=2**31 - 1), "footer payload size is invalid"),
        (file_of(b"{}", size=-1), "footer payload size is invalid"),
        (file_of(b"{}", size=1), "footer magic is invalid"),
        (file_of(b"{"), "Cannot read JSON"),
        (file_of(b"\xff\xff"), "not valid UTF-8"),
        (file_of(b"{}"), r"\$\.blobs"),
        (file_of(b'{"blobs": {}}'), r"\$\.blobs"),
        (file_of(b'{"blobs": []}', flags=1), "Cannot decompress Puffin footer"),
    ],
)
def test_a_malformed_file_is_corrupt_and_named(tmp_path, data, message):
    with pytest.raises(CorruptMetadata, match=message) as caught:
        opened(tmp_path, data)
    assert caught.value.path == f"{tmp_path}/f.puffin"
    assert caught.value.field


@pytest.mark.parametrize("flags", [2, 3, 1 << 31])
def test_unknown_flags_are_refused(tmp_path, flags):
    with pytest.raises(UnsupportedIcebergFeature, match="unknown flags"):
        opened(tmp_path, file_of(b'{"blobs": []}', flags=flags))


def test_a_file_that_is_gone_is_named(tmp_path):
    with pytest.raises(NotFound, match=r"f\.puffin"):
        PuffinFile.open(open_storage(), f"{tmp_path}/f.puffin")


@settings(max_examples=150, deadline=None)
@given(at=st.floats(0, 1, exclude_max=True), byte=st.integers(0, 255), keep=st.floats(0, 1))
def test_a_changed_or_shortened_file_is_read_or_refused(tmp_path_factory, at, byte, keep):
    folder = tmp_path_factory.mktemp("p")
    written(folder)
    data = bytearray((folder / "f.puffin").read_bytes())
    data[int(at * len(data))] = byte
    kept = max(1, int(keep * len(data))) if keep < 0.5 else len(data)
    assert _outcome(folder, bytes(data[:kept])) in (None, f"{folder}/f.puffin")


def _outcome(folder, data):
    """Read everything; the file that the error names, if there is one."""
    try:
        file = opened(folder, data)
        for each in file.blobs:
            file.read(each)
    except IcebergError as error:
        return error.path or "no file named"
    return None


def test_what_spark_wrote_is_read(shared):
    found = 0
    for path in sorted((shared / "corpus" / "iceberg").rglob("spark-*/**/*.puffin")):
        file = PuffinFile.open(open_storage(), str(path))
        for each in file.blobs:
            positions = PositionBitmap.deserialize(unframe(file.read(each), expected_size=each.length - 8))
            assert positions.cardinality == int(each.properties["cardinality"])
            found += 1
    assert found > 20
