"""Name mappings: field ids for data files that have none (sections "Column Projection", "Name Mapping Serialization")."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from deltaberg.iceberg.errors import CorruptMetadata
from deltaberg.iceberg.schema.json_object import JsonObject, as_list, as_text, parse_json
from deltaberg.iceberg.schema.schema import Schema
from deltaberg.iceberg.schema.types import NestedField, nested_fields

NAME_MAPPING_PROPERTY = "schema.name-mapping.default"
_KEYS = frozenset({"names", "field-id", "fields"})
_MAX_DEPTH = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class MappedField:
    """The names under which files hold a field; without ``field_id`` they are to be ignored."""

    names: tuple[str, ...]
    field_id: int | None = None
    fields: tuple[MappedField, ...] = ()
    extra: Mapping[str, object] = field(default_factory=dict, hash=False, compare=False, repr=False)

    def find(self, name: str) -> MappedField | None:
        """The child that a name in a file stands for."""
        return _find(self.fields, name)

    def to_json(self) -> dict[str, object]:
        """The field mapping object."""
        result: dict[str, object] = {"names": list(self.names)}
        if self.field_id is not None:
            result["field-id"] = self.field_id
        if self.fields:
            result["fields"] = [child.to_json() for child in self.fields]
        return {**result, **self.extra}


@dataclass(frozen=True, slots=True, kw_only=True)
class NameMapping:
    """The mapping of a table's columns."""

    fields: tuple[MappedField, ...]

    def find(self, name: str) -> MappedField | None:
        """The column that a name in a file stands for; dots in it are literal."""
        return _find(self.fields, name)

    def to_text(self) -> str:
        """The JSON text of the table property."""
        return json.dumps([child.to_json() for child in self.fields], ensure_ascii=False, separators=(",", ":"))

    @classmethod
    def from_text(cls, text: str, path: str = f"property {NAME_MAPPING_PROPERTY}") -> NameMapping:
        """Parse the table property; a name that maps to two fields of one level is corrupt. Raises CorruptMetadata."""
        try:
            value = parse_json(text.encode("utf-8", "surrogatepass"))
        except CorruptMetadata as error:
            raise CorruptMetadata(f"Cannot read {path}: {error.message}", field=path) from error
        return cls(fields=_parse_level(value, path, 0))

    @classmethod
    def of(cls, schema: Schema) -> NameMapping:
        """The mapping that gives every field of a schema its present name."""
        return cls(fields=tuple(_of(nested) for nested in schema.fields))


def _find(fields: tuple[MappedField, ...], name: str) -> MappedField | None:
    return next((child for child in fields if name in child.names), None)


def _of(nested: NestedField) -> MappedField:
    return MappedField(
        names=(nested.name,),
        field_id=nested.field_id,
        fields=tuple(_of(child) for child in nested_fields(nested.type)),
    )


def _parse_level(value: object, path: str, depth: int) -> tuple[MappedField, ...]:
    if depth > _MAX_DEPTH:
        raise CorruptMetadata(f"Cannot read {path}: mappings are nested more than {_MAX_DEPTH} deep", field=path)
    result = []
    seen: set[str] = set()
    for position, item in enumerate(as_list(value, path)):
        node = JsonObject(item, f"{path}[{position}]")
        node.raw("names")
        names = tuple(as_text(name, at) for name, at in node.items("names"))
        twice = next((name for name in names if name in seen), None)
        if twice is not None:
            raise CorruptMetadata(f"Cannot read {node.at('names')}: the name {twice!r} is mapped twice", field=path)
        seen.update(names)
        children = _parse_level(node.raw("fields"), node.at("fields"), depth + 1) if node.has("fields") else ()
        result.append(
            MappedField(
                names=names,
                field_id=node.optional_integer("field-id", low=0),
                fields=children,
                extra=node.extra(_KEYS),
            )
        )
    return tuple(result)
