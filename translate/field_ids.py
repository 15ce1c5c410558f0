"""Field ids of a Delta schema: its own where column mapping gave it some, assigned ones elsewhere.

Delta: "Column Mapping" (``delta.columnMapping.id``, ``.physicalName``, ``.nested.ids``). Iceberg: "Column Projection",
"Reserved Field IDs".

A path is the tuple of physical names that leads to a field; list elements are ``element``, map parts ``key`` and
``value``. It identifies a field permanently, since a rename leaves the physical name alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final, TypeAlias

from deltaberg.delta.schema import types as delta
from deltaberg.delta.schema.column_mapping import COLUMN_ID, NESTED_IDS, PHYSICAL_NAME, ColumnMapping, MappingMode
from deltaberg.iceberg.schema import types as iceberg
from deltaberg.iceberg.schema.schema import Schema

Path: TypeAlias = tuple[str, ...]

_MAPPING_KEYS: Final = frozenset({COLUMN_ID, PHYSICAL_NAME, NESTED_IDS})


def physical_name(field: delta.StructField) -> str:
    """The name a field has in data files and statistics."""
    name = field.metadata.get(PHYSICAL_NAME)
    return name if isinstance(name, str) else field.name


def mapped_schema(mapping: ColumnMapping) -> delta.StructType:
    """The table's schema, its fields' mapping metadata only where the mode gives it a meaning.

    A table that gave up column mapping keeps the metadata and must not be read by it.
    """
    if mapping.mode is not MappingMode.NONE:
        return mapping.schema
    stripped = _without_mapping(mapping.schema)
    assert isinstance(stripped, delta.StructType)
    return stripped


def declared_ids(mapping: ColumnMapping) -> dict[Path, int]:
    """The ids that the table itself states, nested ones included; empty in mode none."""
    if mapping.mode is MappingMode.NONE:
        return {}
    found: dict[Path, int] = {}
    for path, field in _struct_fields(mapping.schema, ()):
        field_id = mapping.column_id(field)
        if field_id is not None:
            found[path] = field_id
        for steps, nested_id in mapping.nested_ids(field).items():
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


def paired_ids(schema: delta.StructType, translated: Schema) -> dict[Path, int]:
    """The ids that a Delta schema's fields have in the Iceberg schema that was made of it, by their names there.

    Fields that the Iceberg schema leaves out have none.
    """
    found: dict[Path, int] = {}
    _pair(schema, iceberg.StructType(fields=translated.fields), (), found)
    return found


def _pair(kind: delta.DeltaType, other: iceberg.Type, path: Path, found: dict[Path, int]) -> None:
    match kind, other:
        case delta.StructType(fields=fields), iceberg.StructType(fields=others):
            by_name = {each.name: each for each in others}
            for field in fields:
                twin = by_name.get(field.name)
                if twin is not None:
                    here = (*path, physical_name(field))
                    found[here] = twin.field_id
                    _pair(field.type, twin.type, here, found)
        case delta.ArrayType(element_type=element), iceberg.ListType(element=twin):
            found[(*path, "element")] = twin.field_id
            _pair(element, twin.type, (*path, "element"), found)
        case delta.MapType(key_type=key, value_type=value), iceberg.MapType(key=first, value=second):
            found[(*path, "key")], found[(*path, "value")] = first.field_id, second.field_id
            _pair(key, first.type, (*path, "key"), found)
            _pair(value, second.type, (*path, "value"), found)
        case _:
            pass


def _without_mapping(kind: delta.DeltaType) -> delta.DeltaType:
    match kind:
        case delta.StructType(fields=fields):
            return delta.StructType(
                fields=tuple(
                    replace(
                        each,
                        type=_without_mapping(each.type),
                        metadata={key: value for key, value in each.metadata.items() if key not in _MAPPING_KEYS},
                    )
                    for each in fields
                )
            )
        case delta.ArrayType(element_type=element):
            return replace(kind, element_type=_without_mapping(element))
        case delta.MapType(key_type=key, value_type=value):
            return replace(kind, key_type=_without_mapping(key), value_type=_without_mapping(value))
        case _:
            return kind


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
