"""Writing deletion vector files: several vectors in each (PROTOCOL "Deletion Vector File Storage Format")."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass

import pyarrow as pa

from deltaberg.bitmap import frame
from deltaberg.delta.deletion_vector import z85
from deltaberg.delta.deletion_vector.deletion_vector import FILE_VERSION, DeletionVectorDescriptor
from deltaberg.delta.errors import InvalidDeltaRequest
from deltaberg.storage.errors import StorageError
from deltaberg.storage.protocol import Storage

_ROLL_BYTES = 1 << 26
_LARGEST_BLOB = (1 << 31) - 1 - _ROLL_BYTES  # offsets and sizes are 32-bit


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenVectors:
    """One descriptor a vector, in the order given, and the files that were made."""

    descriptors: tuple[DeletionVectorDescriptor, ...]
    locations: tuple[str, ...]


def write_deletion_vectors(
    storage: Storage,
    table_root: str,
    vectors: Iterable[tuple[bytes, int]],
    *,
    new_id: Callable[[], uuid.UUID] = uuid.uuid4,
    prefix: str = "",
) -> WrittenVectors:
    """Write (magic and bitmap, cardinality) pairs and return their descriptors of storage type ``u``.

    The bytes are copied as they are, so those of an Iceberg deletion vector serve unchanged. ``prefix`` is the folder
    under the table root (the protocol's random prefix). Files roll at 64 MiB. Raises StorageError, after deleting
    what was written.
    """
    descriptors: list[DeletionVectorDescriptor] = []
    locations: list[str] = []
    pending = iter(vectors)
    vector = next(pending, None)
    try:
        while vector is not None:
            name = new_id()
            location = f"{table_root}/{prefix}/" if prefix else f"{table_root}/"
            location += f"deletion_vector_{name}.bin"
            locations.append(location)
            with storage.create(location) as sink:
                sink.write(bytes([FILE_VERSION]))
                offset = 1
                while vector is not None and offset < _ROLL_BYTES:
                    descriptors.append(_descriptor(f"{prefix}{z85.encode(name.bytes)}", offset, *vector))
                    offset += _write_frame(sink, vector[0])
                    vector = next(pending, None)
    except BaseException:
        discard(storage, locations)
        raise
    return WrittenVectors(descriptors=tuple(descriptors), locations=tuple(locations))


def discard(storage: Storage, locations: Iterable[str]) -> None:
    """Delete files that no commit refers to; one that cannot be deleted is left to the table's own cleaner."""
    for location in locations:
        with suppress(StorageError):
            storage.delete(location)


def _descriptor(name: str, offset: int, blob: bytes, cardinality: int) -> DeletionVectorDescriptor:
    if len(blob) > _LARGEST_BLOB:
        raise InvalidDeltaRequest(
            f"Cannot write a deletion vector of {len(blob)} bytes: the protocol's sizes are 32-bit "
            f"(expected at most {_LARGEST_BLOB})"
        )
    return DeletionVectorDescriptor(
        storage_type="u", path_or_inline_dv=name, offset=offset, size_in_bytes=len(blob), cardinality=cardinality
    )


def _write_frame(sink: pa.NativeFile, blob: bytes) -> int:
    data = frame(blob)
    sink.write(data)
    return len(data)
