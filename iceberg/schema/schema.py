"""A table's schema: its fields by id and by name (section "Schemas and Data Types", JSON in Appendix C)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from deltaberg.iceberg.errors import CorruptMetadata, InvalidIcebergRequest
from deltaberg.iceberg.schema.json_object import JsonObject
from deltaberg.iceberg.schema.single_value_json import check_default
from deltaberg.iceberg.schema.types import (
    MAX_FIELD_ID,
    DoubleType,
    FloatType,
    ListType,
    MapType,
    NestedField,
    PrimitiveType,
    StructType,
    UnknownType,
    arrow_field,
    field_to_json,
    nested_fields,
    parse_struct_fields,
    walk,
)

_KEYS = frozenset({"type", "schema-id", "fields", "identifier-field-ids"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """The fields of a table under one schema id.

    Raises InvalidIcebergRequest when ids repeat or are out of range, when two fields of one struct share a name,
    or when an identifier field is not a required primitive outside lists and maps.
    """

    schema_id: int
    fields: tuple[NestedField, ...]
    identifier_field_ids: tuple[int, ...] = ()
    extra: Mapping[str, object] = field(default_factory=dict, hash=False, compare=False, repr=False)
    _by_id: dict[int, NestedField] = field(init=False, hash=False, compare=False, repr=False)
    _parents: dict[int, int] = field(init=False, hash=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        by_id: dict[int, NestedField] = {}
        parents: dict[int, int] = {}
        _index(self.fields, None, by_id, parents)
        object.__setattr__(self, "_by_id", by_id)
        object.__setattr__(self, "_parents", parents)
        for field_id in self.identifier_field_ids:
            self._check_identifier(field_id)

    def _check_identifier(self, field_id: int) -> None:
        found = self._by_id.get(field_id)
        if found is None:
            raise InvalidIcebergRequest(
                f"Cannot use identifier field {field_id}: schema {self.schema_id} has no such field"
            )
        if not isinstance(found.type, PrimitiveType) or isinstance(found.type, (FloatType, DoubleType)):
            raise InvalidIcebergRequest(
                f"Cannot use identifier field {self.full_name(field_id)}: it must be a primitive, not float or double"
            )
        at: int | None = field_id
        while at is not None:
            if not self._by_id[at].required or isinstance(self._by_id[at].type, (ListType, MapType)):
                raise InvalidIcebergRequest(
                    f"Cannot use identifier field {self.full_name(field_id)}: it must be required, "
                    "in required structs, outside lists and maps"
                )
            at = self._parents.get(at)

    def find(self, field_id: int) -> NestedField | None:
        """The field with an id, at any depth; None when there is none."""
        return self._by_id.get(field_id)

    def find_by_name(self, name: str) -> NestedField | None:
        """The field with a dotted name; a field whose own name holds the dots comes first."""
        return _find_by_name(self.fields, name)

    def parent_id(self, field_id: int) -> int | None:
        """The id of the field that holds a field; None for a column."""
        return self._parents.get(field_id)

    def full_name(self, field_id: int) -> str:
        """The dotted name of a field (``a.element.b``); KeyError when the id is not there."""
        names = [self._by_id[field_id].name]
        at = self._parents.get(field_id)
        while at is not None:
            names.append(self._by_id[at].name)
            at = self._parents.get(at)
        return ".".join(reversed(names))

    def within_collection(self, field_id: int) -> bool:
        """True for a field that is, or is inside, a list element, map key or map value."""
        at = self._parents.get(field_id)
        while at is not None:
            if isinstance(self._by_id[at].type, (ListType, MapType)):
                return True
            at = self._parents.get(at)
        return False

    def leaves(self) -> tuple[NestedField, ...]:
        """Fields without parts (primitives and variants), at any depth, in declaration order."""
        return tuple(
            nested for nested in walk(self.fields) if not isinstance(nested.type, (StructType, ListType, MapType))
        )

    def all_fields(self) -> tuple[NestedField, ...]:
        """Every field at any depth, parents first."""
        return tuple(self._by_id.values())

    @property
    def highest_field_id(self) -> int:
        """The highest id in use; 0 for a schema without fields."""
        return max(self._by_id, default=0)

    def arrow_schema(self) -> pa.Schema:
        """The columns in Arrow, each with its ``PARQUET:field_id``."""
        return pa.schema([arrow_field(nested, with_field_id=True) for nested in self.fields])

    def same_fields(self, other: Schema) -> bool:
        """True when only the schema id may differ."""
        return self.fields == other.fields and set(self.identifier_field_ids) == set(other.identifier_field_ids)

    def to_json(self) -> dict[str, object]:
        """The schema object of Appendix C."""
        result: dict[str, object] = {"type": "struct", "schema-id": self.schema_id}
        if self.identifier_field_ids:
            result["identifier-field-ids"] = list(self.identifier_field_ids)
        result["fields"] = [field_to_json(nested) for nested in self.fields]
        return {**result, **self.extra}

    @classmethod
    def from_json(cls, value: object, path: str = "$", *, default_schema_id: int = 0) -> Schema:
        """Parse a schema object; ``schema-id`` is optional in version 1. Raises CorruptMetadata."""
        node = JsonObject(value, path)
        kind = node.optional_text("type")
        if kind not in (None, "struct"):
            raise CorruptMetadata(f'Cannot read {node.at("type")}: expected "struct", found "{kind}"', field=path)
        schema_id = node.optional_integer("schema-id")
        try:
            schema = cls(
                schema_id=default_schema_id if schema_id is None else schema_id,
                fields=parse_struct_fields(node),
                identifier_field_ids=node.integers("identifier-field-ids"),
                extra=node.extra(_KEYS),
            )
        except InvalidIcebergRequest as error:
            raise CorruptMetadata(f"Cannot read {path}: {error.message}", field=path) from error
        for nested in schema.all_fields():
            name = f"{path}: field {nested.field_id} ({nested.name})"
            check_default(nested.initial_default, nested, f"{name} initial-default")
            check_default(nested.write_default, nested, f"{name} write-default")
        return schema


def _index(
    fields: tuple[NestedField, ...], parent: int | None, by_id: dict[int, NestedField], parents: dict[int, int]
) -> None:
    names: set[str] = set()
    for nested in fields:
        if not 0 <= nested.field_id <= MAX_FIELD_ID:
            raise InvalidIcebergRequest(f"Cannot use field id {nested.field_id}: ids go from 0 to {MAX_FIELD_ID}")
        if nested.field_id in by_id:
            raise InvalidIcebergRequest(
                f"Cannot use field id {nested.field_id} for {nested.name}: {by_id[nested.field_id].name} has it already"
            )
        if nested.name in names:
            raise InvalidIcebergRequest(f"Cannot use the name {nested.name} twice in one struct")
        if nested.required and isinstance(nested.type, UnknownType):
            raise InvalidIcebergRequest(f"Cannot use column {nested.name}: a column of type unknown must be optional")
        names.add(nested.name)
        by_id[nested.field_id] = nested
        if parent is not None:
            parents[nested.field_id] = parent
        _index(nested_fields(nested.type), nested.field_id, by_id, parents)


def _find_by_name(fields: tuple[NestedField, ...], name: str) -> NestedField | None:
    for nested in fields:
        if nested.name == name:
            return nested
    for nested in fields:
        if name.startswith(f"{nested.name}."):
            found = _find_by_name(nested_fields(nested.type), name[len(nested.name) + 1 :])
            if found is not None:
                return found
    return None


def find_in(schemas: tuple[Schema, ...], field_id: int) -> NestedField | None:
    """The field with an id in the first schema that has it (source columns outlive their schema)."""
    for schema in schemas:
        found = schema.find(field_id)
        if found is not None:
            return found
    return None
