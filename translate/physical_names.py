"""The physical names of a Delta target's columns: those that the shared files use. Delta: "Column Mapping"."""

from __future__ import annotations

from collections.abc import Mapping

from deltaberg.iceberg.schema import Schema
from deltaberg.iceberg.types import ListType, MapType


def choose_physical_names(
    schema: Schema, bytes_by_name: Mapping[int, Mapping[str, int]], *, present: frozenset[int] | None
) -> dict[int, str]:
    """The name of every struct field by field id: the one that most bytes use.

    bytes_by_name: by field id, how many bytes of files use which name. present: ids of fields that keep their present
    name (partition columns); None: all do. Two fields of one struct never share a name, whatever the case.
    """
    result: dict[int, str] = {}
    taken: dict[int | None, set[str]] = {}
    for column in schema.all_fields():
        parent = schema.parent_id(column.field_id)
        holder = schema.find(parent) if parent is not None else None
        if holder is not None and isinstance(holder.type, (ListType, MapType)):
            continue
        names = bytes_by_name.get(column.field_id, {})
        keeps = present is None or column.field_id in present or not names
        wanted = column.name if keeps else max(names, key=lambda name: (names[name], name == column.name))
        siblings = taken.setdefault(parent, set())
        if wanted.lower() in siblings:
            wanted = f"col-{column.field_id}"
        siblings.add(wanted.lower())
        result[column.field_id] = wanted
    return result
