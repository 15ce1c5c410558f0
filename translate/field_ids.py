"""Field ids of a Delta schema: its own where column mapping gave it some, assigned ones elsewhere.

Delta: "Column Mapping" (``delta.columnMapping.id``, ``.physicalName``, ``.nested.ids``). Iceberg: "Column Projection",
"Reserved Field IDs".

A path is the tuple of physical names that leads to a field; list elements are ``element``, map parts ``key`` and
``value``. It identifies a field for good, since a rename leaves the physical name alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias

from deltaberg.delta import types as delta

Path: TypeAlias = tuple[str, ...]

ID_KEY: Final = "delta.columnMapping.id"
PHYSICAL_NAME_KEY: Final = "delta.columnMapping.physicalName"
NESTED_IDS_KEY: Final = "delta.columnMapping.nested.ids"


def physical_name(field: delta.StructField) -> str:
    """The name a field has in data files and statistics."""
    name = field.metadata.get(PHYSICAL_NAME_KEY)
    return name if isinstance(name, str) else field.name


def declared_ids(schema: delta.StructType) -> dict[Path, int]:
    """The ids that the schema itself states, nested ones included; empty without column mapping."""
    found: dict[Path, int] = {}
    for path, field in _struct_fields(schema, ()):
        field_id = field.metadata.get(ID_KEY)
        if isinstance(field_id, int):
            found[path] = field_id
        nested = field.metadata.get(NESTED_IDS_KEY)
        if isinstance(nested, Mapping):
            for key, nested_id in nested.items():
                steps = str(key).removeprefix(path[-1]).removeprefix(".")
                if steps and isinstance(nested_id, int):
                    found[(*path, *steps.split("."))] = nested_id
    return found


def assigned_ids(schema: delta.StructType, *, known: Mapping[Path, int], first_free: int = 1) -> dict[Path, int]:
    """An id for every path: the known one, else the next free one.

    known: ids that stay as they are (declared ones, or those of the last conversion). first_free: ids below it are
    never given out, since a dropped column may have had them. All fields of a struct get theirs before any of their
    parts, as Iceberg's reference implementation does.
    """
    free = max([first_free - 1, *known.values()]) + 1
    result: dict[Path, int] = {}
    for path in _breadth_first(schema):
        field_id = known.get(path)
        if field_id is None:
            field_id, free = free, free + 1
        result[path] = field_id
    return result


def _parts(kind: delta.DeltaType, path: Path) -> Iterator[tuple[Path, delta.DeltaType]]:
    match kind:
        case delta.StructType(fields=fields):
            for field in fields:
                yield (*path, physical_name(field)), field.type
        case delta.ArrayType(element_type=element):
            yield (*path, "element"), element
        case delta.MapType(key_type=key, value_type=value):
            yield (*path, "key"), key
            yield (*path, "value"), value


def _breadth_first(kind: delta.DeltaType, path: Path = ()) -> Iterator[Path]:
    parts = tuple(_parts(kind, path))
    for part, _ in parts:
        yield part
    for part, part_type in parts:
        yield from _breadth_first(part_type, part)


def _struct_fields(kind: delta.DeltaType, path: Path) -> Iterator[tuple[Path, delta.StructField]]:
    if isinstance(kind, delta.StructType):
        for field in kind.fields:
            yield (*path, physical_name(field)), field
            yield from _struct_fields(field.type, (*path, physical_name(field)))
    else:
        for part, part_type in _parts(kind, path):
            yield from _struct_fields(part_type, part)
