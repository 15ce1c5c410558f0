"""Checkpoint files (protocol, Checkpoints, Sidecar Files, Last Checkpoint File), streamed from batches."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum

import pyarrow as pa
import pyarrow.parquet as pq

from deltaberg.delta.checkpoint.checkpoint_columns import (
    REMOVE,
    SMALL_ACTIONS,
    AddColumn,
    non_file_action_values,
    remove_values,
)
from deltaberg.delta.checkpoint.last_checkpoint import hinted_version
from deltaberg.delta.checkpoint.last_checkpoint_checksum import last_checkpoint_checksum
from deltaberg.delta.log.log_path import LAST_CHECKPOINT, SIDECAR_FOLDER
from deltaberg.delta.log.parallel_batches import in_order
from deltaberg.storage.errors import StorageError
from deltaberg.storage.protocol import Storage

_GROUP_ROWS = 1 << 15
_SIDECAR_ROWS = 1 << 18
# A missing column counts as null, but Spark asks for these even where it reads nothing from them.
_V1_ACTIONS = ("txn", "metaData", "protocol", "domainMetadata")
_DICTIONARY = ["add.partitionValues.key_value.key", "remove.partitionValues.key_value.key"]


class CheckpointKind(Enum):
    """The layouts of a checkpoint that one process writes; multi-part ones are written by ``distributed_create`` alone."""

    CLASSIC = "n.checkpoint.parquet, V1 spec"
    V2_PARQUET = "n.checkpoint.u.parquet with sidecars"
    V2_JSON = "n.checkpoint.u.json with sidecars"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointState:
    """A version of a table as a checkpoint holds it.

    ``non_file_actions`` are (name, JSON body) pairs of protocol, metaData, txn and domainMetadata. ``adds`` yields batches
    of ADD_SCHEMA, ``tombstones`` the same with ``deletion_timestamp``; both are read once.
    """

    version: int
    non_file_actions: tuple[tuple[str, Mapping[str, object]], ...]
    adds: Iterable[pa.RecordBatch]
    tombstones: Iterable[pa.RecordBatch]
    add_column: AddColumn
    partition_values: Callable[[pa.RecordBatch], Mapping[str, pa.Array]]


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenCheckpoint:
    """The content of ``_last_checkpoint`` for the checkpoint that was written. parts: of a multi-part one."""

    version: int
    size: int
    size_in_bytes: int | None
    num_of_add_files: int
    parts: int | None = None

    def to_json(self) -> dict[str, object]:
        members: dict[str, object] = {
            "version": self.version,
            "size": self.size,
            **({} if self.parts is None else {"parts": self.parts}),
            **({} if self.size_in_bytes is None else {"sizeInBytes": self.size_in_bytes}),
            "numOfAddFiles": self.num_of_add_files,
        }
        return {**members, "checksum": last_checkpoint_checksum(members)}


@dataclass(slots=True)
class _Counts:
    actions: int = 0
    adds: int = 0


def write_checkpoint(
    storage: Storage,
    log_folder: str,
    state: CheckpointState,
    *,
    kind: CheckpointKind,
    new_id: Callable[[], str],
    now_ms: int,
) -> WrittenCheckpoint:
    """Write a checkpoint and, unless a newer one is on record there, ``_last_checkpoint``.

    ``new_id`` names the parts of a V2 checkpoint (UUIDs). The main file is written last, so a failure leaves nothing
    that a reader would use; sidecars that are left over are deleted. Raises StorageError.
    """
    prefix = f"{log_folder}/{state.version:020d}.checkpoint"
    if kind is CheckpointKind.CLASSIC:
        location, counts, sidecar_bytes = f"{prefix}.parquet", _Counts(), 0
        types = {name: SMALL_ACTIONS[name] for name in _V1_ACTIONS} | _file_types(state)
        with storage.create(location, durable=True) as sink, _writer(sink, types) as writer:
            for group in (_non_file_groups(state.non_file_actions, counts), _file_groups(state, counts)):
                for name, values in group:
                    writer.write_batch(_row_batch(name, values, types))
    else:
        sidecars, counts = _write_sidecars(storage, log_folder, state, new_id, now_ms)
        sidecar_bytes = sum(sidecar.size for sidecar in sidecars)
        location = f"{prefix}.{new_id()}.{'json' if kind is CheckpointKind.V2_JSON else 'parquet'}"
        actions = [
            ("checkpointMetadata", {"version": state.version, "tags": {}}),
            *state.non_file_actions,
            *(("sidecar", sidecar.to_json(now_ms)) for sidecar in sidecars),
        ]
        try:
            _write_manifest(storage, location, actions, _file_types(state), kind, counts)
        except BaseException:
            # Without the main file the sidecars belong to no checkpoint; it may be there in spite of the error.
            if not _may_stand(storage, location):
                _discard(storage, [f"{log_folder}/{SIDECAR_FOLDER}/{sidecar.name}" for sidecar in sidecars])
            raise
    last = WrittenCheckpoint(
        version=state.version,
        size=counts.actions,
        size_in_bytes=storage.head(location).size + sidecar_bytes,
        num_of_add_files=counts.adds,
    )
    point_to(storage, log_folder, last)
    return last


def write_checkpoint_part(
    storage: Storage,
    location: str,
    state: CheckpointState,
    *,
    small: Callable[[], tuple[tuple[str, Mapping[str, object]], ...]],
) -> None:
    """Write one file of a multi-part checkpoint: the files of ``state``, then the non-file actions, asked for once the files
    have passed. Nothing is there when it fails. Raises StorageError."""
    types = {name: SMALL_ACTIONS[name] for name in _V1_ACTIONS} | _file_types(state)
    counts = _Counts()
    with storage.create(location, durable=True) as sink, _writer(sink, types) as writer:
        for name, values in _file_groups(state, counts):
            writer.write_batch(_row_batch(name, values, types))
        for name, values in _non_file_groups(small(), counts):
            writer.write_batch(_row_batch(name, values, types))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sidecar:
    name: str
    size: int

    def to_json(self, now_ms: int) -> dict[str, object]:
        return {"path": self.name, "sizeInBytes": self.size, "modificationTime": now_ms, "tags": {}}


def _write_sidecars(
    storage: Storage, log_folder: str, state: CheckpointState, new_id: Callable[[], str], now_ms: int
) -> tuple[list[_Sidecar], _Counts]:
    counts, types = _Counts(), _file_types(state)
    sidecars: list[_Sidecar] = []
    groups = _file_groups(state, counts)
    pending = next(groups, None)
    try:
        while pending is not None:
            name = f"{new_id()}.parquet"
            location = f"{log_folder}/{SIDECAR_FOLDER}/{name}"
            rows = 0
            with storage.create(location, durable=True) as sink, _writer(sink, types) as writer:
                while pending is not None and rows < _SIDECAR_ROWS:
                    writer.write_batch(_row_batch(*pending, types))
                    rows += len(pending[1])
                    pending = next(groups, None)
            sidecars.append(_Sidecar(name=name, size=storage.head(location).size))
    except BaseException:
        _discard(storage, [f"{log_folder}/{SIDECAR_FOLDER}/{sidecar.name}" for sidecar in sidecars])
        raise
    return sidecars, counts


def _write_manifest(
    storage: Storage,
    location: str,
    actions: list[tuple[str, Mapping[str, object]]],
    file_types: Mapping[str, pa.DataType],
    kind: CheckpointKind,
    counts: _Counts,
) -> None:
    if kind is CheckpointKind.V2_JSON:
        lines = [json.dumps({name: body}, separators=(",", ":"), ensure_ascii=False) + "\n" for name, body in actions]
        counts.actions += len(lines)
        storage.put(location, "".join(lines).encode())
        return
    types = {**SMALL_ACTIONS, **file_types}
    with storage.create(location, durable=True) as sink, _writer(sink, types) as writer:
        for name, values in _non_file_groups(tuple(actions), counts):
            writer.write_batch(_row_batch(name, values, types))


def _file_types(state: CheckpointState) -> dict[str, pa.DataType]:
    return {"add": state.add_column.type, "remove": REMOVE}


def _non_file_groups(
    actions: tuple[tuple[str, Mapping[str, object]], ...], counts: _Counts
) -> Iterator[tuple[str, pa.Array]]:
    for name in dict(actions):
        bodies = [body for other, body in actions if other == name]
        counts.actions += len(bodies)
        yield name, non_file_action_values(name, bodies)


def _file_groups(state: CheckpointState, counts: _Counts) -> Iterator[tuple[str, pa.Array]]:
    def add_values(batch: pa.RecordBatch) -> pa.Array:
        return state.add_column.values(batch, state.partition_values(batch))

    for values in in_order(add_values, _rebatched(state.adds)):
        counts.actions += len(values)
        counts.adds += len(values)
        yield "add", values
    for batch in _rebatched(state.tombstones):
        counts.actions += batch.num_rows
        yield "remove", remove_values(batch)


def _rebatched(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Batches of about one row group each: small ones joined, large ones cut."""
    held: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        for start in range(0, batch.num_rows, _GROUP_ROWS):
            part = batch.slice(start, _GROUP_ROWS)
            if rows + part.num_rows > _GROUP_ROWS:
                yield pa.concat_batches(held)
                held, rows = [], 0
            held.append(part)
            rows += part.num_rows
    if held:
        yield pa.concat_batches(held)


def _row_batch(name: str, values: pa.Array, types: Mapping[str, pa.DataType]) -> pa.RecordBatch:
    """One row an action: its own column filled, the others null."""
    columns = [values if column == name else pa.nulls(len(values), kind) for column, kind in types.items()]
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(list(types.items())))


def _writer(sink: pa.NativeFile, types: Mapping[str, pa.DataType]) -> pq.ParquetWriter:
    return pq.ParquetWriter(
        sink,
        pa.schema(list(types.items())),
        compression="snappy",
        use_dictionary=[path for path in _DICTIONARY if path.split(".")[0] in types],
        store_schema=False,
    )


def point_to(storage: Storage, log_folder: str, last: WrittenCheckpoint) -> None:
    """Write ``_last_checkpoint`` unless a newer checkpoint is on record there."""
    known = hinted_version(storage, log_folder)
    if known is None or known <= last.version:
        content = json.dumps(last.to_json(), separators=(",", ":")).encode()
        storage.put(f"{log_folder}/{LAST_CHECKPOINT}", content)


def _may_stand(storage: Storage, location: str) -> bool:
    """Whether a file is there whose write reported an error; one in an object store may yet come."""
    try:
        return storage.exists(location) or not storage.resolve(location).startswith("/")
    except StorageError:
        return True


def _discard(storage: Storage, locations: list[str]) -> None:
    for location in locations:
        with suppress(StorageError):
            storage.delete(location)
