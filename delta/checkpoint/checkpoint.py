"""Checkpointing a version: the content and the layout of its checkpoint.

PROTOCOL "Checkpoints", "Checkpoint Specs"; the layout follows the table's properties delta.checkpointPolicy,
delta.checkpoint.writeStatsAsJson and delta.checkpoint.writeStatsAsStruct.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.delta.checkpoint.checkpoint_columns import AddColumn
from deltaberg.delta.checkpoint.checkpoint_writer import (
    CheckpointKind,
    CheckpointState,
    WrittenCheckpoint,
    write_checkpoint,
)
from deltaberg.delta.log.actions import DomainMetadata, Metadata, Txn
from deltaberg.delta.log.add_file import table_add_schema
from deltaberg.delta.protocol.protocol import Protocol
from deltaberg.delta.schema.column_mapping import ColumnMapping
from deltaberg.delta.schema.partition_values import decode_partition_values
from deltaberg.delta.schema.types import StructType, VariantType, arrow_type
from deltaberg.delta.snapshot import Snapshot

_INTERVAL = re.compile(r"\s*(?:interval\s+)?((?:\d+\s+[a-z]+\s*)+)", re.IGNORECASE)
_UNIT_MS = {"millisecond": 1, "second": 1000, "minute": 60_000, "hour": 3_600_000, "day": 86_400_000}
_UNIT_MS["week"] = 7 * _UNIT_MS["day"]


def checkpoint_snapshot(
    snapshot: Snapshot,
    *,
    now_ms: int,
    kind: CheckpointKind | None = None,
    new_id: Callable[[], uuid.UUID] = uuid.uuid4,
) -> WrittenCheckpoint:
    """Write a checkpoint of a snapshot; ``kind`` None follows the table's policy.

    Tombstones that have expired by ``now_ms`` are left out. Raises StorageError, and the errors of reading the log.
    """
    state = checkpoint_state(
        version=snapshot.version,
        protocol=snapshot.protocol,
        metadata=snapshot.metadata,
        txns=snapshot.txns.values(),
        domain_metadata=snapshot.domain_metadata.values(),
        adds=snapshot.add_files(),
        tombstones=_unexpired(snapshot, now_ms),
    )
    return write_checkpoint(
        snapshot.storage,
        snapshot.log_folder,
        state,
        kind=policy(snapshot.protocol, snapshot.metadata) if kind is None else kind,
        new_id=lambda: str(new_id()),
        now_ms=now_ms,
    )


def checkpoint_state(
    *,
    version: int,
    protocol: Protocol,
    metadata: Metadata,
    txns: Iterable[Txn],
    domain_metadata: Iterable[DomainMetadata],
    adds: Iterable[pa.RecordBatch],
    tombstones: Iterable[pa.RecordBatch] = (),
) -> CheckpointState:
    """The input of ``write_checkpoint``, from the parts of a version's state; removed domains are left out."""
    mapping = ColumnMapping.of(protocol, metadata)
    partitions = {
        mapping.physical_name(field): field for field in map(metadata.schema.field, metadata.partition_columns)
    }
    stats = table_add_schema(metadata, mapping).field("stats").type
    properties = metadata.properties

    def partition_values(batch: pa.RecordBatch) -> Mapping[str, pa.Array]:
        if not properties.write_stats_as_struct:
            return {}
        values = batch.column("partition_values")
        return {
            name: decode_partition_values(pc.struct_field(values, [index]), field.type, column=field.name)
            for index, (name, field) in enumerate(partitions.items())
        }

    return CheckpointState(
        version=version,
        non_file_actions=(
            ("protocol", protocol.to_json()),
            ("metaData", metadata.to_json()),
            *(("txn", txn.to_json()) for txn in txns),
            *(("domainMetadata", domain.to_json()) for domain in domain_metadata if not domain.removed),
        ),
        adds=adds,
        tombstones=tombstones,
        add_column=AddColumn(
            stats_as_json=properties.write_stats_as_json,
            stats_as_struct=properties.write_stats_as_struct,
            partition_types={name: arrow_type(field.type) for name, field in partitions.items()},
            bounds=_without_variants(stats.field("min_values").type, mapping.physical_schema),
            null_counts=stats.field("null_count").type,
        ),
        partition_values=partition_values,
    )


def policy(protocol: Protocol, metadata: Metadata) -> CheckpointKind:
    """The layout that the table asks for; V2 only where the protocol supports it."""
    wants_v2 = metadata.properties.checkpoint_policy == "v2" and protocol.supports("v2Checkpoint")
    return CheckpointKind.V2_PARQUET if wants_v2 else CheckpointKind.CLASSIC


def interval_ms(text: str) -> int | None:
    """A duration such as ``interval 1 week`` or ``36 hours`` in milliseconds; None for one that has no fixed length."""
    match = _INTERVAL.fullmatch(text)
    if match is None:
        return None
    words = match[1].lower().split()
    units = [word.removesuffix("s") for word in words[1::2]]
    if not all(unit in _UNIT_MS for unit in units):
        return None
    return sum(int(number) * _UNIT_MS[unit] for number, unit in zip(words[::2], units, strict=True))


def _unexpired(snapshot: Snapshot, now_ms: int) -> Iterator[pa.RecordBatch]:
    retention = interval_ms(snapshot.metadata.properties.deleted_file_retention)
    for batch in snapshot.remove_files():
        if retention is None:
            yield batch
            continue
        kept = batch.filter(pc.greater_equal(pc.fill_null(batch.column("deletion_timestamp"), 0), now_ms - retention))
        if kept.num_rows:
            yield kept


def _without_variants(kind: pa.StructType, schema: StructType) -> pa.StructType:
    """Bounds of variants are texts here and variants in a checkpoint's struct: they stay in the JSON."""
    fields = []
    for field in kind:
        delta_type = schema.field(field.name).type
        if isinstance(delta_type, StructType):
            fields.append(field.with_type(_without_variants(field.type, delta_type)))
        elif not isinstance(delta_type, VariantType):
            fields.append(field)
    return pa.struct(fields)
