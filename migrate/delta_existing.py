"""What a Delta target has decided already, which a sync cannot change: mapping mode, physical names, partition columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from deltaberg.delta.column_mapping import MappingMode
from deltaberg.delta.snapshot import Snapshot
from deltaberg.delta.type_widening import TYPE_CHANGES
from deltaberg.delta.types import DeltaType, StructType
from deltaberg.iceberg.schema import Schema
from deltaberg.iceberg.snapshot import Snapshot as IcebergSnapshot
from deltaberg.iceberg.types import ListType, MapType
from deltaberg.translate.field_ids import Path, mapped_schema, paired_ids, physical_name


@dataclass(frozen=True, slots=True, kw_only=True)
class ExistingDelta:
    """The decisions of a target. watermark: the source's snapshot that it holds, schema: of the source then.

    names: physical names by field id. partition_columns: their names in the target.
    """

    snapshot: Snapshot
    watermark: IcebergSnapshot | None
    schema: Schema
    mode: MappingMode
    names: Mapping[int, str]
    partition_columns: tuple[str, ...]

    @staticmethod
    def of(snapshot: Snapshot, watermark: IcebergSnapshot | None, schema: Schema) -> ExistingDelta:
        """Read from the target's metadata. schema: the source's, at the watermark: both have the same column names."""
        ids = paired_ids(mapped_schema(snapshot.column_mapping), schema)
        return ExistingDelta(
            snapshot=snapshot,
            watermark=watermark,
            schema=schema,
            mode=snapshot.column_mapping.mode,
            names={field_id: path[-1] for path, field_id in ids.items() if not _is_part(schema, field_id)},
            partition_columns=snapshot.metadata.partition_columns,
        )


def _is_part(schema: Schema, field_id: int) -> bool:
    """Whether a field is the element of a list or a part of a map, which have no physical names."""
    parent = schema.parent_id(field_id)
    holder = None if parent is None else schema.find(parent)
    return holder is not None and isinstance(holder.type, (ListType, MapType))
