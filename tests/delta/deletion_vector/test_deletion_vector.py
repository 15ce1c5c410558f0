"""Deletion vector descriptors and the bytes they point to."""

from __future__ import annotations

import dataclasses
import struct
import uuid
import zlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deltaberg.bitmap import PositionBitmap
from deltaberg.delta.deletion_vector.deletion_vector import (
    DeletionVectorDescriptor,
    descriptors,
    inline_descriptor,
    read_blobs,
    read_deletion_vector,
)
from deltaberg.delta.deletion_vector.deletion_vector_file import write_deletion_vectors
from deltaberg.delta.errors import CorruptDeletionVector, DeltaError
from deltaberg.storage import open_storage
from deltaberg.storage.errors import StorageError

STORAGE = open_storage()
RELATIVE = DeletionVectorDescriptor(
    storage_type="u", path_or_inline_dv="ab^-aqEH.-t@S}K{vb[*k^", offset=4, size_in_bytes=40, cardinality=6
)
INLINE = DeletionVectorDescriptor(
    storage_type="i",
    path_or_inline_dv="wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L",
    offset=None,
    size_in_bytes=40,
    cardinality=6,
)


def blob(*positions: int) -> bytes:
    return PositionBitmap.from_positions(np.array(positions, dtype=np.int64)).serialize()


def test_the_protocols_relative_example_resolves_below_its_random_prefix() -> None:
    assert RELATIVE.location("s3://mytable") == (
        "s3://mytable/ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"
    )
    assert RELATIVE.unique_id == "uab^-aqEH.-t@S}K{vb[*k^@4"


def test_the_protocols_inline_example_holds_its_rows() -> None:
    bitmap = read_deletion_vector(STORAGE, "/nowhere", INLINE)
    assert bitmap.to_positions().tolist() == [3, 4, 7, 11, 18, 29]
    assert INLINE.unique_id == f"i{INLINE.path_or_inline_dv}"


def test_an_absolute_path_is_decoded_as_add_paths_are() -> None:
    vector = dataclasses.replace(RELATIVE, storage_type="p", path_or_inline_dv="s3://b/a%20b/dv.bin")
    assert vector.location("s3://mytable") == "s3://b/a b/dv.bin"


def test_several_vectors_share_a_file_and_read_back(tmp_path: Path) -> None:
    rows = [(0,), (1, 2, 2**33), tuple(range(1000))]
    written = write_deletion_vectors(
        STORAGE, str(tmp_path), [(blob(*r), len(r)) for r in rows], new_id=lambda: uuid.UUID(int=7), prefix="_x"
    )
    assert written.locations == (f"{tmp_path}/_x/deletion_vector_00000000-0000-0000-0000-000000000007.bin",)
    assert written.descriptors[0].offset == 1
    for each, expected in zip(written.descriptors, rows, strict=True):
        assert each.location(str(tmp_path)) == written.locations[0]
        assert read_deletion_vector(STORAGE, str(tmp_path), each).to_positions().tolist() == list(expected)


def test_no_vectors_make_no_file(tmp_path: Path) -> None:
    assert write_deletion_vectors(STORAGE, str(tmp_path), []).locations == ()
    assert list(tmp_path.iterdir()) == []


def test_blobs_come_back_in_the_order_asked_for_wherever_they_lie(tmp_path: Path) -> None:
    first = write_deletion_vectors(STORAGE, str(tmp_path), [(blob(i), 1) for i in range(5)])
    second = write_deletion_vectors(STORAGE, str(tmp_path), [(blob(i), 1) for i in range(5, 9)])
    inline = inline_descriptor(blob(9), 1)
    wanted = [second.descriptors[3], inline, *first.descriptors[::-1], second.descriptors[0]]
    assert read_blobs(STORAGE, str(tmp_path), wanted) == tuple(blob(i) for i in (8, 9, 4, 3, 2, 1, 0, 5))


def test_a_column_becomes_descriptors() -> None:
    column = pa.array(
        [dataclasses.asdict(RELATIVE), None, dataclasses.asdict(INLINE)],
        pa.struct(
            [
                ("storage_type", pa.string()),
                ("path_or_inline_dv", pa.string()),
                ("offset", pa.int32()),
                ("size_in_bytes", pa.int32()),
                ("cardinality", pa.int64()),
            ]
        ),
    )
    assert descriptors(column) == [RELATIVE, None, INLINE]


@settings(max_examples=50)
@given(st.sets(st.integers(0, 2**40), max_size=200))
def test_inline_vectors_round_trip(positions: set[int]) -> None:
    vector = inline_descriptor(blob(*sorted(positions)), len(positions))
    assert read_deletion_vector(STORAGE, "/nowhere", vector).to_positions().tolist() == sorted(positions)


class TestContradictionsAreNamed:
    @pytest.fixture
    def table(self, tmp_path: Path) -> tuple[str, DeletionVectorDescriptor, Path]:
        written = write_deletion_vectors(STORAGE, str(tmp_path), [(blob(1, 5), 2)])
        return str(tmp_path), written.descriptors[0], Path(written.locations[0])

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"cardinality": 3}, r"it deletes 2 rows \(expected the descriptor's cardinality 3\)"),
            ({"size_in_bytes": 30}, r"it says \d+ bytes \(expected 30 by the metadata\)"),
            ({"offset": None}, r"there is none at the place that the metadata gives"),
            ({"path_or_inline_dv": "x"}, "its name holds no UUID in Z85"),
            ({"path_or_inline_dv": '"' * 20}, "its name holds no UUID in Z85"),
        ],
    )
    def test_descriptor(
        self, table: tuple[str, DeletionVectorDescriptor, Path], change: dict[str, object], message: str
    ) -> None:
        root, vector, _ = table
        with pytest.raises(CorruptDeletionVector, match=message):
            read_deletion_vector(STORAGE, root, dataclasses.replace(vector, **change))  # type: ignore[arg-type]

    def test_checksum(self, table: tuple[str, DeletionVectorDescriptor, Path]) -> None:
        root, vector, file = table
        data = bytearray(file.read_bytes())
        data[-6] ^= 1
        file.write_bytes(data)
        with pytest.raises(CorruptDeletionVector, match=r"wrong CRC-32 \(expected [0-9a-f]{8}, found") as caught:
            read_deletion_vector(STORAGE, root, vector)
        assert caught.value.path == str(file)

    def test_file_version(self, table: tuple[str, DeletionVectorDescriptor, Path]) -> None:
        root, vector, file = table
        file.write_bytes(b"\x02" + file.read_bytes()[1:])
        with pytest.raises(CorruptDeletionVector, match=r"its first byte is 2 \(expected the format version 1\)"):
            read_deletion_vector(STORAGE, root, vector)

    def test_truncated_file(self, table: tuple[str, DeletionVectorDescriptor, Path]) -> None:
        root, vector, file = table
        file.write_bytes(file.read_bytes()[:-1])
        with pytest.raises(StorageError, match="truncated"):
            read_deletion_vector(STORAGE, root, vector)

    def test_missing_file(self, table: tuple[str, DeletionVectorDescriptor, Path]) -> None:
        root, vector, file = table
        file.unlink()
        with pytest.raises(StorageError, match="no such file") as caught:
            read_deletion_vector(STORAGE, root, vector)
        assert caught.value.path == str(file)

    @pytest.mark.parametrize("size", [2**31 - 1, 2**30])
    def test_hostile_size(self, table: tuple[str, DeletionVectorDescriptor, Path], size: int) -> None:
        root, vector, _ = table
        with pytest.raises((CorruptDeletionVector, StorageError)):
            read_deletion_vector(STORAGE, root, dataclasses.replace(vector, size_in_bytes=size))

    def test_inline_with_an_offset(self) -> None:
        with pytest.raises(CorruptDeletionVector, match=r"it is inline and has the offset 1 \(expected none\)"):
            read_deletion_vector(STORAGE, "/nowhere", dataclasses.replace(INLINE, offset=1))

    def test_inline_of_another_length(self) -> None:
        with pytest.raises(CorruptDeletionVector, match=r"it holds 40 bytes with padding \(expected 36"):
            read_deletion_vector(STORAGE, "/nowhere", dataclasses.replace(INLINE, size_in_bytes=36))

    @settings(max_examples=150)
    @given(data=st.data())
    def test_mutated_bytes_never_pass_and_never_escape_as_a_foreign_error(self, data: st.DataObject) -> None:
        good = blob(*data.draw(st.sets(st.integers(0, 2**34), min_size=1, max_size=50)))
        index = data.draw(st.integers(0, len(good) - 1))
        bad = bytearray(good)
        bad[index] ^= data.draw(st.integers(1, 255))
        vector = inline_descriptor(bytes(bad), PositionBitmap.deserialize(good).cardinality)
        try:
            bitmap = read_deletion_vector(STORAGE, "/nowhere", vector)
        except DeltaError:
            return
        assert bitmap.cardinality == vector.cardinality

    def test_the_frame_is_the_one_of_the_protocol(self, table: tuple[str, DeletionVectorDescriptor, Path]) -> None:
        _, vector, file = table
        inner = blob(1, 5)
        assert file.read_bytes() == (
            b"\x01" + struct.pack(">i", len(inner)) + inner + struct.pack(">I", zlib.crc32(inner))
        )
        assert (vector.offset, vector.size_in_bytes) == (1, len(inner))
