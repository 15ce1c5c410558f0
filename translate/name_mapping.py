"""The name mapping by which Iceberg readers find the columns of files that carry no field ids.

Iceberg: "Column Projection", "Name Mapping Serialization". The names are the physical ones of the Delta side.

Columns of a file that must not be read get an id that no field of the table has: partition columns, whose value in the
log counts and not the one in the file, and columns that are not the table's (change data feed). An entry without an id
says the same by the specification, but PyIceberg stops at such columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count

import pyarrow.types as pt

from deltaberg.datafile import FileField
from deltaberg.datafile.file_schema import is_list
from deltaberg.delta.schema import types as delta
from deltaberg.iceberg.schema.name_mapping import MappedField, NameMapping
from deltaberg.translate.field_ids import Path, physical_name


@dataclass(frozen=True, slots=True, kw_only=True)
class NameMappingTranslation:
    """last_id: the highest id in use, spare ones included; new columns must get higher ones."""

    mapping: NameMapping
    last_id: int


def delta_to_name_mapping(
    schema: delta.StructType,
    ids: Mapping[Path, int],
    *,
    hidden: Iterable[Path] = (),
    files: Iterable[Sequence[FileField]] = (),
    first_spare_id: int,
) -> NameMappingTranslation:
    """Every field's physical name with its id.

    hidden: paths whose value is not to be taken from files. files: the columns of files without ids, which may hold
    columns that are not the table's. first_spare_id: from here on no field of the table has an id.
    """
    builder = _Builder(ids=ids, hidden=frozenset(hidden), spare=count(first_spare_id))
    fields = builder.struct(schema, (), [tuple(each) for each in files])
    return NameMappingTranslation(mapping=NameMapping(fields=fields), last_id=next(builder.spare) - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Builder:
    ids: Mapping[Path, int]
    hidden: frozenset[Path]
    spare: Iterator[int]

    def struct(
        self, kind: delta.StructType, path: Path, files: Sequence[Sequence[FileField]]
    ) -> tuple[MappedField, ...]:
        result = []
        for column in kind.fields:
            name = physical_name(column)
            here = [each for fields in files for each in fields if each.name == name]
            result.append(self._field(name, column.type, (*path, name), here))
        own = {physical_name(column) for column in kind.fields}
        strangers = {each.name: each for fields in files for each in fields if each.name not in own}
        return (*result, *(self._stranger(name, each) for name, each in strangers.items()))

    def _field(self, name: str, kind: delta.DeltaType, path: Path, files: Sequence[FileField]) -> MappedField:
        if path in self.hidden:
            return self._stranger(name, files[0]) if files else MappedField(names=(name,), field_id=next(self.spare))
        return MappedField(names=(name,), field_id=self.ids[path], fields=self._parts(kind, path, files))

    def _parts(self, kind: delta.DeltaType, path: Path, files: Sequence[FileField]) -> tuple[MappedField, ...]:
        match kind:
            case delta.StructType():
                return self.struct(kind, path, [each.children for each in files])
            case delta.ArrayType(element_type=element):
                return (self._field("element", element, (*path, "element"), _children(files, 0)),)
            case delta.MapType(key_type=key, value_type=value):
                return (
                    self._field("key", key, (*path, "key"), _children(files, 0)),
                    self._field("value", value, (*path, "value"), _children(files, 1)),
                )
            case _:
                return ()

    def _stranger(self, name: str, field: FileField) -> MappedField:
        if is_list(field.type):
            names: tuple[str, ...] = ("element",)
        elif pt.is_map(field.type):
            names = ("key", "value")
        else:
            names = tuple(child.name for child in field.children)
        field_id = next(self.spare)
        children = tuple(self._stranger(below, child) for below, child in zip(names, field.children, strict=True))
        return MappedField(names=(name,), field_id=field_id, fields=children)


def _children(files: Sequence[FileField], place: int) -> list[FileField]:
    return [each.children[place] for each in files if len(each.children) > place]
