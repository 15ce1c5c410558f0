"""The physical names of a Delta target's columns: those that the shared files use. Delta: "Column Mapping"."""

from __future__ import annotations

from collections.abc import Mapping, Set
from types import MappingProxyType

from deltaberg.iceberg.schema import Schema
from deltaberg.iceberg.types import ListType, MapType


def choose_physical_names(
    schema: Schema,
    bytes_by_name: Mapping[int, Mapping[str, int]],
    *,
    present: frozenset[int] | None,
    given: Mapping[int, str] = MappingProxyType({}),
    taken_in_files: Mapping[int, Set[str]] = MappingProxyType({}),
) -> dict[int, str]:
    """The name of every struct field by field id: the one that most bytes use.

    bytes_by_name: by field id, how many bytes of files use which name. present: ids of fields that keep their present
    name (partition columns); None: all do. given: other names for some of these. taken_in_files: by field id, names in
    lower case that files give to another column beside it. Two fields of one struct never share a name, whatever the case.
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
        if keeps and present is not None:
            wanted = given.get(column.field_id, wanted)
        # No file holds the column: whoever looks for its name must not find another one.
        elsewhere = present is not None and column.field_id not in present and not names
        siblings = taken.setdefault(parent, set())
        if wanted.lower() in siblings or (elsewhere and wanted.lower() in taken_in_files.get(column.field_id, ())):
            wanted = f"col-{column.field_id}"
        siblings.add(wanted.lower())
        result[column.field_id] = wanted
    return result
