"""Deletion vectors are checked against their manifest entry, their frame and the Puffin footer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from deltaberg.bitmap import PositionBitmap, frame
from deltaberg.errors import DeltabergError
from deltaberg.iceberg.deletes.deletion_vectors import VectorPlace, read_deletion_vector
from deltaberg.iceberg.deletes.puffin import PuffinWriter
from deltaberg.iceberg.errors import CorruptMetadata, UnsupportedIcebergFeature
from deltaberg.iceberg.scan.scan import scan
from deltaberg.iceberg.schema.schema import Schema
from deltaberg.iceberg.schema.types import LongType, NestedField
from deltaberg.storage import StorageError

SCHEMA = Schema(schema_id=0, fields=(NestedField(field_id=1, name="id", required=False, type=LongType()),))


@pytest.fixture
def stored(stored_table: Callable[..., Any]) -> Any:
    return stored_table(SCHEMA, version=3)


@pytest.fixture
def data_file(stored: Any) -> str:
    path = stored.data(pa.table({"id": list(range(10))}))
    assert isinstance(path, str)
    return path


def bitmap(*positions: int) -> PositionBitmap:
    return PositionBitmap.from_positions(np.array(positions, np.int64))


def ids(stored: Any) -> list[int]:
    found: list[int] = scan(stored.open()).read_all()["id"].to_pylist()
    return found


def refused(stored: Any) -> DeltabergError:
    with pytest.raises(DeltabergError) as caught:
        ids(stored)
    return caught.value


def test_several_vectors_share_a_file(stored: Any, data_file: str) -> None:
    other = stored.data(pa.table({"id": [20, 21]}))
    path = f"{stored.location}/data/shared.puffin"
    with PuffinWriter(stored.storage, path) as writer:
        for owner, positions in ((data_file, (0, 9)), (other, (1,))):
            vector = bitmap(*positions)
            blob = writer.add_deletion_vector(
                frame(vector.serialize()), referenced_data_file=owner, cardinality=vector.cardinality
            )
            stored.vector_entry(path, owner, blob.offset, blob.length, vector.cardinality)
    assert ids(stored) == [*range(1, 9), 20]


def test_a_bare_vector_of_a_released_writer_is_read(stored: Any, data_file: str) -> None:
    stored.bare_vector(data_file, frame(bitmap(1, 2).serialize()), 2)
    assert ids(stored) == [0, 3, 4, 5, 6, 7, 8, 9]


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda data: data[:4] + b"\x00" + data[5:], "CRC-32"),
        (lambda data: data[:-1] + bytes([data[-1] ^ 1]), "CRC-32"),
        (lambda data: bytes([data[0] ^ 1]) + data[1:], "it says"),
        (lambda data: frame(b"\x00" + data[5:-4]), "wrong magic bytes"),
        (lambda data: frame(data[4:-5]), "it ends at byte"),
        (lambda data: data[:7], "cannot be a vector"),
    ],
)
def test_a_damaged_vector_is_refused(
    stored: Any, data_file: str, damage: Callable[[bytes], bytes], reason: str
) -> None:
    path = stored.bare_vector(data_file, damage(frame(bitmap(1, 2).serialize())), 2)
    error = refused(stored)
    assert isinstance(error, CorruptMetadata)
    assert error.path == path
    assert reason in error.message
    assert data_file in error.message


def test_a_cardinality_that_differs_is_refused(stored: Any, data_file: str) -> None:
    stored.vector(data_file, [1, 2], record_count=3)
    error = refused(stored)
    assert isinstance(error, CorruptMetadata)
    assert error.field == "record_count"
    assert "it has 2 positions (expected 3 by its manifest entry)" in error.message


def test_a_vector_of_another_data_file_is_refused(stored: Any, data_file: str) -> None:
    stored.vector(data_file, [1, 2], owner="/somewhere/else.parquet")
    error = refused(stored)
    assert isinstance(error, CorruptMetadata)
    assert error.field == "referenced-data-file"
    assert "it belongs to /somewhere/else.parquet" in error.message


def test_an_entry_that_is_not_in_the_footer_is_refused(stored: Any, data_file: str) -> None:
    path = f"{stored.location}/data/sketch.puffin"
    with PuffinWriter(stored.storage, path) as writer:
        data = frame(bitmap(1).serialize())
        blob = writer.add("sketch", data, fields=(1,), snapshot_id=1, sequence_number=1)
    stored.vector_entry(path, data_file, blob.offset, blob.length, 1)
    error = refused(stored)
    assert isinstance(error, CorruptMetadata)
    assert "the footer has no such blob" in error.message


def test_a_size_beyond_the_file_is_refused_without_allocating_it(stored: Any, data_file: str) -> None:
    stored.bare_vector(data_file, frame(bitmap(1).serialize()), 1, content_size_in_bytes=2**40)
    assert isinstance(refused(stored), StorageError)


def test_two_vectors_of_one_data_file_are_refused(stored: Any, data_file: str) -> None:
    stored.vector(data_file, [1])
    stored.vector(data_file, [2])
    error = refused(stored)
    assert isinstance(error, CorruptMetadata)
    assert f"Cannot apply deletes to {data_file}: expected at most one deletion vector, found 2" in error.message


@pytest.mark.parametrize("field", ["referenced_data_file", "content_offset", "content_size_in_bytes"])
def test_an_entry_that_lacks_what_a_vector_needs_is_refused(stored: Any, data_file: str, field: str) -> None:
    path = stored.vector(data_file, [1], **{field: None})
    error = refused(stored)
    assert isinstance(error, CorruptMetadata)
    assert error.path == path
    assert field in str(error)


def test_an_encrypted_vector_is_refused_by_name(stored: Any, data_file: str) -> None:
    stored.vector(data_file, [1], key_metadata=b"k")
    error = refused(stored)
    assert isinstance(error, UnsupportedIcebergFeature)
    assert error.feature == "encryption"


def test_positions_of_64_bits_are_kept(stored: Any, data_file: str) -> None:
    far = bitmap(3, 2**32 + 7, 2**40)
    path = f"{stored.location}/data/far.bin"
    stored.storage.put(path, frame(far.serialize()))
    place = VectorPlace(
        location=path, offset=0, size=len(frame(far.serialize())), cardinality=3, referenced_data_file=data_file
    )
    assert read_deletion_vector(stored.storage, place) == far
