"""The physical names of a Delta target's columns: those that the shared files use. Delta: "Column Mapping"."""

from __future__ import annotations

from collections.abc import Mapping, Set
from itertools import chain, count
from types import MappingProxyType

from deltaberg.iceberg.schema.schema import Schema
from deltaberg.iceberg.schema.types import ListType, MapType


def choose_physical_names(
    schema: Schema,
    bytes_by_name: Mapping[int, Mapping[str, int]],
    *,
    present: frozenset[int] | None,
    given: Mapping[int, str] = MappingProxyType({}),
    taken_in_files: Mapping[int, Set[str]] = MappingProxyType({}),
    shared_under_any_name: bool = False,
) -> dict[int, str]:
    """The name of every struct field by field id: the one that most bytes use.

    bytes_by_name: by field id, how many bytes of files use which name. present: ids of fields that keep their present
    name (partition columns); None: all do. given: other names for some of these. taken_in_files: by field id, names in
    lower case that files give to another column beside it. shared_under_any_name: files are shared that have a column
    under another name than this one, since readers go by id; no file may then have another column under it, of which
    readers may see the type before they see the id.

    Two fields of one struct never share a name, regardless of case; nor does one that no file holds have a name that a
    file gives to another.
    """
    result: dict[int, str] = {}
    taken: dict[int | None, set[str]] = {}
    for column in schema.all_fields():
        parent = schema.parent_id(column.field_id)
        holder = schema.find(parent) if parent is not None else None
        if holder is not None and isinstance(holder.type, (ListType, MapType)):
            continue
        names = bytes_by_name.get(column.field_id, {})
        siblings = taken.setdefault(parent, set())
        strangers = {*siblings, *taken_in_files.get(column.field_id, ())}
        avoided = siblings
        if present is None or column.field_id in present:
            wanted = [column.name if present is None else given.get(column.field_id, column.name)]
        else:
            wanted = sorted(names, key=lambda name: (names[name], name == column.name), reverse=True) or [column.name]
            if shared_under_any_name or not names:
                avoided = strangers
            else:
                del wanted[1:]  # files with another name are not shared
        name = next((each for each in wanted if each.lower() not in avoided), None)
        result[column.field_id] = name if name is not None else _unused(f"col-{column.field_id}", strangers)
        siblings.add(result[column.field_id].lower())
    return result


def _unused(name: str, avoided: Set[str]) -> str:
    """A name that nothing has, as readers compare them."""
    numbered = (f"{name}-{number}" for number in count(2))
    return next(each for each in chain((name,), numbered) if each.lower() not in avoided)
