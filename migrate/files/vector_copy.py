"""Read deletion vectors out of one format's container, checked, so that their bytes can go into the other's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from deltaberg.bitmap import FRAME_BYTES, MAGIC, CorruptBitmap, PositionBitmap, unframe
from deltaberg.delta.deletion_vector.deletion_vector import DeletionVectorDescriptor, parse_blob, read_blobs
from deltaberg.delta.errors import CorruptDeletionVector
from deltaberg.errors import error_context
from deltaberg.iceberg.errors import CorruptMetadata
from deltaberg.storage import Storage

_NEAR = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionVector:
    """One deletion vector. blob: magic and bitmap."""

    blob: bytes
    cardinality: int

    @staticmethod
    def of(bitmap: PositionBitmap) -> DeletionVector:
        return DeletionVector(blob=bitmap.serialize(), cardinality=bitmap.cardinality)

    @property
    def bitmap(self) -> PositionBitmap:
        return PositionBitmap.deserialize(self.blob)


def read_delta_vectors(
    storage: Storage, table_root: str, wanted: Sequence[DeletionVectorDescriptor], record_counts: Sequence[int]
) -> list[DeletionVector]:
    """The vectors of Delta descriptors, in order. record_counts: physical rows of the data files.

    Bytes in the portable layout are copied as they are; the older native one is rewritten.
    Raises CorruptDeletionVector naming the vector, also where it reaches beyond its file; StorageError.
    """
    result: list[DeletionVector] = []
    blobs = read_blobs(storage, table_root, wanted)
    for descriptor, blob, record_count in zip(wanted, blobs, record_counts, strict=True):
        bitmap = parse_blob(blob, descriptor)
        if bitmap.last is not None and bitmap.last >= record_count:
            raise CorruptDeletionVector(
                f"Cannot copy the deletion vector {descriptor.unique_id:.60}: it deletes row {bitmap.last} "
                f"(expected rows below {record_count}, the number in the file)"
            )
        portable = blob[: len(MAGIC)] == MAGIC
        result.append(
            DeletionVector(blob=bytes(blob), cardinality=bitmap.cardinality) if portable else DeletionVector.of(bitmap)
        )
    return result


def read_puffin_vectors(
    storage: Storage, vectors: pa.StructArray, rows: Sequence[int], record_counts: pa.Array
) -> list[DeletionVector]:
    """The vectors in some rows of ``resolve_deletes``' ``vectors``, in order.

    record_counts: physical rows of the data files. The bytes are copied as they are, after length, checksum, format,
    cardinality and range were checked. Raises CorruptMetadata naming the file, StorageError.
    """
    chosen = vectors.take(pa.array(rows, pa.int64())).to_pylist()
    by_file: dict[str, list[int]] = {}
    for place, vector in enumerate(chosen):
        by_file.setdefault(vector["location"], []).append(place)
    framed: dict[int, bytes] = {}
    for location, places in by_file.items():
        framed.update(_read_file(storage, location, places, chosen))
    limits = record_counts.take(pa.array(rows, pa.int64())).to_pylist()
    return [
        _checked(framed[place], vector, limit) for place, (vector, limit) in enumerate(zip(chosen, limits, strict=True))
    ]


def _read_file(storage: Storage, location: str, places: list[int], vectors: list[dict[str, int]]) -> dict[int, bytes]:
    """The blobs of one Puffin file; those that lie close together are read at once."""
    result: dict[int, bytes] = {}
    run: list[int] = []
    for place in sorted(places, key=lambda each: vectors[each]["offset"]):
        if run and vectors[place]["offset"] - _end(vectors[run[-1]]) > _NEAR:
            result.update(_read_run(storage, location, run, vectors))
            run = []
        run.append(place)
    result.update(_read_run(storage, location, run, vectors))
    return result


def _read_run(storage: Storage, location: str, run: list[int], vectors: list[dict[str, int]]) -> dict[int, bytes]:
    start = vectors[run[0]]["offset"]
    length = max(_end(vectors[place]) for place in run) - start
    data = storage.get_range(location, start, length)
    return {place: data[vectors[place]["offset"] - start : _end(vectors[place]) - start] for place in run}


def _end(vector: dict[str, int]) -> int:
    return vector["offset"] + vector["size"]


def _checked(framed: bytes, vector: dict[str, object], record_count: int) -> DeletionVector:
    location = str(vector["location"])
    with error_context(path=location):
        try:
            blob = unframe(framed, expected_size=len(framed) - FRAME_BYTES)
            bitmap = PositionBitmap.deserialize(blob)
        except CorruptBitmap as error:
            raise CorruptMetadata(
                f"Cannot copy the deletion vector at byte {vector['offset']} of {location}: {error.message}",
                path=location,
                field="content_offset",
            ) from error
        if bitmap.cardinality != vector["cardinality"]:
            raise CorruptMetadata(
                f"Cannot copy the deletion vector at byte {vector['offset']} of {location}: it has "
                f"{bitmap.cardinality} positions (expected {vector['cardinality']} by its manifest entry)",
                path=location,
                field="record_count",
            )
    if bitmap.last is not None and bitmap.last >= record_count:
        positions = bitmap.to_positions()
        bitmap = PositionBitmap.from_positions(positions[positions < record_count])  # beyond the end nothing is deleted
        return DeletionVector.of(bitmap)
    return DeletionVector(blob=bytes(blob), cardinality=bitmap.cardinality)
