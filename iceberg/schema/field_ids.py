"""Fresh field ids for new columns: each field of a tree gets the next unused id."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from deltaberg.iceberg.schema.schema import Schema
from deltaberg.iceberg.schema.types import ListType, MapType, NestedField, StructType, Type


def with_fresh_ids(kind: Type, ids: Iterator[int]) -> Type:
    """A type whose fields take their ids from ``ids``: siblings first, then what is inside them."""
    match kind:
        case StructType():
            return replace(kind, fields=_siblings(kind.fields, ids))
        case ListType():
            return replace(kind, element=_siblings((kind.element,), ids)[0])
        case MapType():
            key, value = _siblings((kind.key, kind.value), ids)
            return replace(kind, key=key, value=value)
        case _:
            return kind


def _siblings(fields: tuple[NestedField, ...], ids: Iterator[int]) -> tuple[NestedField, ...]:
    numbered = [replace(nested, field_id=next(ids)) for nested in fields]
    return tuple(replace(nested, type=with_fresh_ids(nested.type, ids)) for nested in numbered)


def fresh_schema(schema: Schema, ids: Iterator[int]) -> Schema:
    """A schema with new ids throughout, identifier fields following their fields."""
    fields = _siblings(schema.fields, ids)
    renumbered = replace(schema, fields=fields, identifier_field_ids=())
    by_old_id = {
        old.field_id: new.field_id for old, new in zip(schema.all_fields(), renumbered.all_fields(), strict=True)
    }
    return replace(renumbered, identifier_field_ids=tuple(by_old_id[each] for each in schema.identifier_field_ids))
