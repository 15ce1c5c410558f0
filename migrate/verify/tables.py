"""A common view of the columns of tables of either format, to compare them, and the options that change values."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace

from deltaberg.delta.schema.column_mapping import MappingMode
from deltaberg.iceberg.schema import types as ice
from deltaberg.iceberg.schema.schema import Schema
from deltaberg.migrate.source import Source
from deltaberg.migrate.target.watermark import OPTIONS_KEY
from deltaberg.translate.schema import iceberg_to_delta_schema
from deltaberg.translate.types import delta_to_iceberg_type


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnFacts:
    """One field at any depth. field_id: None where the table has none of its own."""

    name: str
    type: str
    required: bool
    field_id: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenOptions:
    """The options of a target's conversion that change values, from its own properties."""

    type_mappings: Mapping[str, str]
    partition_timezone: str
    derives: bool = False

    @staticmethod
    def of(target: Source) -> ChosenOptions:
        """Raises nothing: a text that is not deltaberg's counts as no choice."""
        try:
            chosen = json.loads(target.properties.get(OPTIONS_KEY, "{}"))
        except ValueError:
            chosen = {}
        mappings = chosen.get("type_mappings", {}) if isinstance(chosen, dict) else {}
        timezone = chosen.get("partition_timezone", "UTC") if isinstance(chosen, dict) else "UTC"
        return ChosenOptions(
            type_mappings=mappings if isinstance(mappings, dict) else {},
            partition_timezone=timezone if isinstance(timezone, str) else "UTC",
            derives=isinstance(chosen, dict) and chosen.get("derive_partition_columns") is True,
        )


def column_facts(schema: Schema, *, with_ids: bool, nested_ids: bool) -> dict[tuple[str, ...], ColumnFacts]:
    """Every field by the names that lead to it (void columns left out).

    with_ids: whether the table has field ids of its own; nested_ids: also for what lists and maps are made of.
    """
    result: dict[tuple[str, ...], ColumnFacts] = {}
    for field in schema.all_fields():
        if isinstance(field.type, ice.UnknownType):
            continue
        own = with_ids and (nested_ids or not _is_part(schema, field.field_id))
        kind = "nested" if ice.nested_fields(field.type) else ice.type_name(field.type)
        result[field_path(schema, field)] = ColumnFacts(
            name=schema.full_name(field.field_id),
            type=kind,
            required=field.required,
            field_id=field.field_id if own else None,
        )
    return result


def mapped_types(schema: Schema, type_mappings: Mapping[str, str]) -> Schema:
    """With the types that ``--map`` chose, so that both sides of a mapped column say the same."""
    if not type_mappings:
        return schema
    leaves = iceberg_to_delta_schema(schema, mode=MappingMode.ID, type_mappings=type_mappings).leaves
    changed = {leaf.field_id: delta_to_iceberg_type(leaf.delta) for leaf in leaves if leaf.mapped}
    return Schema(schema_id=schema.schema_id, fields=tuple(_retyped(field, changed) for field in schema.fields))


def _retyped(field: ice.NestedField, changed: Mapping[int, ice.Type | None]) -> ice.NestedField:
    kind = field.type
    match kind:
        case ice.StructType(fields=fields):
            return replace(field, type=replace(kind, fields=tuple(_retyped(each, changed) for each in fields)))
        case ice.ListType(element=element):
            return replace(field, type=replace(kind, element=_retyped(element, changed)))
        case ice.MapType(key=key, value=value):
            return replace(field, type=replace(kind, key=_retyped(key, changed), value=_retyped(value, changed)))
        case _:
            return replace(field, type=changed.get(field.field_id) or kind, initial_default=None, write_default=None)


def field_path(schema: Schema, field: ice.NestedField) -> tuple[str, ...]:
    """The names that lead to a field, outermost first; a name may hold dots."""
    names = [field.name]
    parent = schema.parent_id(field.field_id)
    while parent is not None:
        holder = schema.find(parent)
        assert holder is not None
        names.append(holder.name)
        parent = schema.parent_id(parent)
    return tuple(reversed(names))


def _is_part(schema: Schema, field_id: int) -> bool:
    parent = schema.parent_id(field_id)
    holder = schema.find(parent) if parent is not None else None
    return holder is not None and isinstance(holder.type, (ice.ListType, ice.MapType))
