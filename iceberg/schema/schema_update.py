"""Schema evolution by name (section "Schema Evolution"): every change yields the next schema of a table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import count

from deltaberg.iceberg.errors import InvalidIcebergRequest
from deltaberg.iceberg.metadata.table_metadata import TableMetadata
from deltaberg.iceberg.partition.transforms import VoidTransform
from deltaberg.iceberg.schema.field_ids import with_fresh_ids
from deltaberg.iceberg.schema.schema import Schema
from deltaberg.iceberg.schema.single_value_json import check_default
from deltaberg.iceberg.schema.type_promotion import check_promotion
from deltaberg.iceberg.schema.types import ListType, MapType, NestedField, StructType, Type, nested_fields

_Edit = Callable[[NestedField], NestedField | None]


class SchemaUpdate:
    """Changes on top of a table's current schema; ``schema()`` gives the result under a fresh id.

    Names are dotted paths into structs (``a.b``), list elements (``a.element``) and map values (``a.value``).
    Every method raises InvalidIcebergRequest for what the specification forbids, and returns the update itself.
    """

    def __init__(self, metadata: TableMetadata) -> None:
        self._metadata = metadata
        self._schema = metadata.schema
        self._last_column_id = metadata.last_column_id

    @property
    def last_column_id(self) -> int:
        """The highest id assigned so far."""
        return self._last_column_id

    def _next_ids(self) -> count[int]:
        return count(self._last_column_id + 1)

    def _found(self, name: str) -> NestedField:
        found = self._schema.find_by_name(name)
        if found is None:
            raise InvalidIcebergRequest(f"Cannot change column {name}: the schema has no such column")
        return found

    def _replace_fields(self, fields: tuple[NestedField, ...], identifiers: tuple[int, ...] | None = None) -> None:
        known = self._schema.identifier_field_ids if identifiers is None else identifiers
        self._schema = Schema(
            schema_id=self._schema.schema_id, fields=fields, identifier_field_ids=known, extra=self._schema.extra
        )
        self._last_column_id = max(self._last_column_id, self._schema.highest_field_id)

    def _edit(self, field_id: int, edit: _Edit) -> None:
        self._replace_fields(_edited(self._schema.fields, field_id, edit))

    def add_column(
        self,
        name: str,
        kind: Type,
        *,
        parent: str | None = None,
        doc: str | None = None,
        required: bool = False,
        default: object = None,
        allow_incompatible: bool = False,
    ) -> SchemaUpdate:
        """Add a column (to the struct ``parent``), every field in it under a fresh id.

        ``default`` is a JSON single value, for rows old and new. A required column without one breaks old rows and is
        refused unless ``allow_incompatible``.
        """
        if required and default is None and not allow_incompatible:
            raise InvalidIcebergRequest(
                f"Cannot add required column {name}: existing rows have no value for it; give a default (format "
                "version 3) or make it optional"
            )
        ids = self._next_ids()
        added = NestedField(field_id=next(ids), name=name, required=required, type=kind, doc=doc)
        added = replace(added, type=with_fresh_ids(kind, ids), initial_default=default, write_default=default)
        check_default(default, added, f"default of column {name}")
        if parent is None:
            self._replace_fields((*self._schema.fields, added))
            return self
        holder = _struct_holder(self._found(parent), parent)

        def append(nested: NestedField) -> NestedField:
            if not isinstance(nested.type, StructType):
                raise InvalidIcebergRequest(f"Cannot add column {name} to {parent}: it is not a struct")
            return replace(nested, type=replace(nested.type, fields=(*nested.type.fields, added)))

        self._edit(holder.field_id, append)
        return self

    def delete_column(self, name: str) -> SchemaUpdate:
        """Delete a column; its id is never used again."""
        found = self._found(name)
        parent_id = self._schema.parent_id(found.field_id)
        parent = None if parent_id is None else self._schema.find(parent_id)
        if parent is not None and isinstance(parent.type, (ListType, MapType)):
            raise InvalidIcebergRequest(f"Cannot delete {name}: a list or map cannot lose a part")
        gone = {found.field_id, *(nested.field_id for nested in _within(found))}
        self._check_unused(gone, name)
        self._edit(found.field_id, lambda nested: None)
        return self

    def _check_unused(self, gone: set[int], name: str) -> None:
        if gone & set(self._schema.identifier_field_ids):
            raise InvalidIcebergRequest(f"Cannot delete column {name}: it is an identifier field")
        for part in self._metadata.spec.fields:
            if gone & set(part.source_ids) and not isinstance(part.transform, VoidTransform):
                raise InvalidIcebergRequest(
                    f"Cannot delete column {name}: partition field {part.name} is made from it; "
                    "change the partition spec first"
                )
        for key in self._metadata.sort_order.fields:
            if gone & set(key.source_ids):
                raise InvalidIcebergRequest(f"Cannot delete column {name}: the sort order is made from it")

    def rename_column(self, name: str, new_name: str) -> SchemaUpdate:
        """Give a column another name under the same id."""
        found = self._found(name)
        parent_id = self._schema.parent_id(found.field_id)
        parent = None if parent_id is None else self._schema.find(parent_id)
        if parent is not None and not isinstance(parent.type, StructType):
            raise InvalidIcebergRequest(f"Cannot rename {name}: the parts of lists and maps have fixed names")
        self._edit(found.field_id, lambda nested: replace(nested, name=new_name))
        return self

    def update_type(self, name: str, kind: Type) -> SchemaUpdate:
        """Promote a column."""
        found = self._found(name)
        check_promotion(found, kind, format_version=self._metadata.format_version, name=name, spec=self._metadata.spec)
        self._edit(found.field_id, lambda nested: replace(nested, type=kind))
        return self

    def update_doc(self, name: str, doc: str | None) -> SchemaUpdate:
        """Change a column's comment."""
        self._edit(self._found(name).field_id, lambda nested: replace(nested, doc=doc))
        return self

    def update_write_default(self, name: str, default: object) -> SchemaUpdate:
        """Change the default (a JSON single value) for rows written from now on."""
        found = self._found(name)
        check_default(default, found, f"default of column {name}")
        self._edit(found.field_id, lambda nested: replace(nested, write_default=default))
        return self

    def make_optional(self, name: str) -> SchemaUpdate:
        """Allow nulls."""
        found = self._found(name)
        self._edit(found.field_id, lambda nested: replace(nested, required=False))
        return self

    def require(self, name: str, *, allow_incompatible: bool = False) -> SchemaUpdate:
        """Forbid nulls, which may not hold of rows that exist and is refused unless ``allow_incompatible``."""
        found = self._found(name)
        if not found.required and not allow_incompatible:
            raise InvalidIcebergRequest(f"Cannot require column {name}: existing rows may hold nulls")
        self._edit(found.field_id, lambda nested: replace(nested, required=True))
        return self

    def move_first(self, name: str) -> SchemaUpdate:
        """Make a column the first of its struct."""
        return self._move(name, lambda others: 0)

    def move_after(self, name: str, other: str) -> SchemaUpdate:
        """Put a column behind another one of the same struct."""
        return self._move(name, self._beside(name, other, 1))

    def move_before(self, name: str, other: str) -> SchemaUpdate:
        """Put a column in front of another one of the same struct."""
        return self._move(name, self._beside(name, other, 0))

    def _beside(self, name: str, other: str, offset: int) -> Callable[[list[NestedField]], int]:
        target = self._found(other)
        found = self._found(name)
        if target.field_id == found.field_id:
            raise InvalidIcebergRequest(f"Cannot move column {name}: it cannot go beside itself")
        if self._schema.parent_id(target.field_id) != self._schema.parent_id(found.field_id):
            raise InvalidIcebergRequest(f"Cannot move column {name} beside {other}: they are in different structs")
        return lambda others: [nested.field_id for nested in others].index(target.field_id) + offset

    def _move(self, name: str, place: Callable[[list[NestedField]], int]) -> SchemaUpdate:
        found = self._found(name)
        parent_id = self._schema.parent_id(found.field_id)

        def moved(fields: tuple[NestedField, ...]) -> tuple[NestedField, ...]:
            others = [nested for nested in fields if nested.field_id != found.field_id]
            others.insert(place(others), found)
            return tuple(others)

        if parent_id is None:
            self._replace_fields(moved(self._schema.fields))
            return self

        def edit(nested: NestedField) -> NestedField:
            if not isinstance(nested.type, StructType):
                raise InvalidIcebergRequest(f"Cannot move {name}: the parts of lists and maps have fixed places")
            return replace(nested, type=replace(nested.type, fields=moved(nested.type.fields)))

        self._edit(parent_id, edit)
        return self

    def set_identifier_fields(self, names: tuple[str, ...]) -> SchemaUpdate:
        """Declare which columns identify rows."""
        self._replace_fields(self._schema.fields, tuple(self._found(name).field_id for name in names))
        return self

    def schema(self) -> Schema:
        """The new schema: one that the table has already if the fields agree, else under the next unused id."""
        for known in self._metadata.schemas:
            if known.same_fields(self._schema):
                return known
        next_id = max(known.schema_id for known in self._metadata.schemas) + 1
        return replace(self._schema, schema_id=next_id)


def _edited(fields: tuple[NestedField, ...], field_id: int, edit: _Edit) -> tuple[NestedField, ...]:
    result = []
    for nested in fields:
        changed = edit(nested) if nested.field_id == field_id else _edited_within(nested, field_id, edit)
        if changed is not None:
            result.append(changed)
    return tuple(result)


def _edited_within(nested: NestedField, field_id: int, edit: _Edit) -> NestedField:
    match nested.type:
        case StructType():
            return replace(nested, type=replace(nested.type, fields=_edited(nested.type.fields, field_id, edit)))
        case ListType():
            (element,) = _edited((nested.type.element,), field_id, edit)
            return replace(nested, type=replace(nested.type, element=element))
        case MapType():
            key, value = _edited((nested.type.key, nested.type.value), field_id, edit)
            return replace(nested, type=replace(nested.type, key=key, value=value))
        case _:
            return nested


def _within(nested: NestedField) -> list[NestedField]:
    result = []
    for part in nested_fields(nested.type):
        result += [part, *_within(part)]
    return result


def _struct_holder(found: NestedField, name: str) -> NestedField:
    """The field whose struct takes new columns: a list stands for its element, a map for its value."""
    if isinstance(found.type, ListType):
        return found.type.element
    if isinstance(found.type, MapType):
        return found.type.value
    return found
