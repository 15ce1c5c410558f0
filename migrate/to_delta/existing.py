"""Decisions of a Delta target that a sync cannot change: mapping mode, physical names, partition columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from deltaberg.delta.errors import InvalidDeltaRequest
from deltaberg.delta.log.actions import Metadata
from deltaberg.delta.protocol.row_tracking import is_enabled
from deltaberg.delta.schema.column_mapping import NESTED_IDS, MappingMode
from deltaberg.delta.schema.schema import schema_to_json
from deltaberg.delta.schema.type_widening import TYPE_CHANGES
from deltaberg.delta.schema.types import ArrayType, DeltaType, MapType, StructField, StructType
from deltaberg.delta.snapshot import Snapshot
from deltaberg.iceberg.metadata.snapshot import Snapshot as IcebergSnapshot
from deltaberg.iceberg.schema import types as iceberg
from deltaberg.iceberg.schema.schema import Schema
from deltaberg.translate.field_ids import mapped_schema, paired_ids, physical_name
from deltaberg.translate.schema import DeltaSchemaTranslation

_KEPT: Final = (NESTED_IDS, "delta.generationExpression")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExistingDelta:
    """The decisions of a target. watermark: the source's snapshot that it holds, schema: of the source then.

    names: physical names by field id. partition_columns: their names in the target. tracks_rows: all its files have row
    ids, which are the source's.
    """

    snapshot: Snapshot
    watermark: IcebergSnapshot | None
    schema: Schema
    mode: MappingMode
    names: Mapping[int, str]
    partition_columns: tuple[str, ...]
    tracks_rows: bool

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
            tracks_rows=is_enabled(snapshot.protocol, snapshot.metadata),
        )


def _is_part(schema: Schema, field_id: int) -> bool:
    """Whether a field is the element of a list or a part of a map, which have no physical names."""
    parent = schema.parent_id(field_id)
    holder = None if parent is None else schema.find(parent)
    return holder is not None and isinstance(holder.type, (iceberg.ListType, iceberg.MapType))


def siblings(schema: Schema, column: iceberg.NestedField, parent: int | None) -> list[iceberg.NestedField]:
    """The other columns of a schema beside one, whose parent is ``parent``."""
    return [
        each
        for each in schema.all_fields()
        if each.field_id != column.field_id and schema.parent_id(each.field_id) == parent
    ]


def metadata_after(
    before: Metadata, translation: DeltaSchemaTranslation, properties: Mapping[str, str | None], *, last_column_id: int
) -> Metadata:
    """The metadata of the target's next version; ``before`` itself where nothing changes.

    translation: of the source's schema then. properties: what the configuration is to hold, None for a key that goes.
    Raises InvalidDeltaRequest where a partition column is gone.
    """
    schema = _with_history(translation.schema, before.schema)
    mapped = before.properties.column_mapping_mode != "none"
    names = {physical_name(each) if mapped else each.name: each.name for each in schema.fields}
    columns = []
    for name in before.partition_columns:
        physical = physical_name(before.schema.field(name)) if mapped else name
        if physical not in names:
            raise InvalidDeltaRequest(f"Cannot drop column {name}: the table is partitioned by it")
        columns.append(names[physical])
    configuration = {key: text for key, text in before.configuration.items() if properties.get(key, "") is not None}
    configuration |= {key: text for key, text in properties.items() if text is not None}
    if mapped:
        highest = max(last_column_id, before.properties.column_mapping_max_id or 0)
        configuration["delta.columnMapping.maxColumnId"] = str(highest)
    if schema == before.schema and configuration == before.configuration:
        return before
    value = {
        **before.to_json(),
        "schemaString": before.schema_string if schema == before.schema else schema_to_json(schema),
        "partitionColumns": columns,
        "configuration": configuration,
    }
    return Metadata.from_json(value)


def _with_history(after: StructType, before: StructType) -> StructType:
    """A schema whose fields keep what earlier versions noted about them: former types, ids of nested parts, generation."""
    known = {physical_name(each): each for each in before.fields}
    return StructType(fields=tuple(_field_with_history(each, known.get(physical_name(each))) for each in after.fields))


def _field_with_history(field: StructField, before: StructField | None) -> StructField:
    if before is None:
        return field
    metadata = dict(field.metadata)
    for key in _KEPT:
        if key in before.metadata:
            metadata.setdefault(key, before.metadata[key])
    changes = [*_list(before.metadata.get(TYPE_CHANGES))]
    changes += [each for each in _list(field.metadata.get(TYPE_CHANGES)) if each not in changes]
    if changes:
        metadata[TYPE_CHANGES] = changes
    return replace(field, type=_type_with_history(field.type, before.type), metadata=metadata)


def _type_with_history(kind: DeltaType, before: DeltaType) -> DeltaType:
    match kind, before:
        case StructType(), StructType():
            return _with_history(kind, before)
        case ArrayType(), ArrayType():
            return replace(kind, element_type=_type_with_history(kind.element_type, before.element_type))
        case MapType(), MapType():
            return replace(
                kind,
                key_type=_type_with_history(kind.key_type, before.key_type),
                value_type=_type_with_history(kind.value_type, before.value_type),
            )
        case _:
            return kind


def _list(value: object) -> list[object]:
    return list(value) if isinstance(value, (list, tuple)) else []
