"""The columns of a data file, as a tree with names, ids and the physical leaves that each column covers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.types as pt

from deltaberg.datafile.errors import DataFileError
from deltaberg.datafile.hybrid_calendar import HybridCalendar

PARQUET_FIELD_ID = b"PARQUET:field_id"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileField:
    """One column of a file. ``children``: the fields of a struct; one, for a list; key and value, for a map.

    ``first_leaf`` and ``last_leaf`` (exclusive) count the physical columns of the file. ``calendar`` is set where
    dates and instants are not written in the proleptic Gregorian calendar.
    """

    name: str
    type: pa.DataType
    nullable: bool = True
    field_id: int | None = None
    children: tuple[FileField, ...] = ()
    first_leaf: int = 0
    last_leaf: int = 0
    calendar: HybridCalendar | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedField:
    """Names that stand for a field id in files without ids (Iceberg, "Column Projection", name mapping).

    Children of a list are named ``element``, of a map ``key`` and ``value``, whatever names the file uses.
    """

    names: tuple[str, ...]
    field_id: int | None
    children: tuple[NamedField, ...] = ()


def is_list(data_type: pa.DataType) -> bool:
    return bool(
        pt.is_list(data_type)
        or pt.is_large_list(data_type)
        or pt.is_fixed_size_list(data_type)
        or pt.is_list_view(data_type)
        or pt.is_large_list_view(data_type)
    )


def child_fields(data_type: pa.DataType) -> tuple[pa.Field, ...]:
    """The Arrow fields below a nested type, in the order of ``FileField.children``; none for a primitive."""
    if isinstance(data_type, pa.BaseExtensionType):
        return child_fields(data_type.storage_type)
    if pt.is_struct(data_type):
        return tuple(data_type.field(index) for index in range(data_type.num_fields))
    if pt.is_map(data_type):
        return data_type.key_field, data_type.item_field
    if is_list(data_type):
        return (data_type.value_field,)
    return ()


def file_fields(schema: pa.Schema, *, id_key: bytes = PARQUET_FIELD_ID) -> tuple[FileField, ...]:
    """The tree of an Arrow schema; field ids come from the metadata key ``id_key`` of each field.

    Raises DataFileError for an id that is no number.
    """
    fields: list[FileField] = []
    leaf = 0
    for field in schema:
        fields.append(_file_field(field, leaf, id_key))
        leaf = fields[-1].last_leaf
    return tuple(fields)


def _file_field(field: pa.Field, first_leaf: int, id_key: bytes) -> FileField:
    children: list[FileField] = []
    leaf = first_leaf
    below = child_fields(field.type)
    for child in below:
        children.append(_file_field(child, leaf, id_key))
        leaf = children[-1].last_leaf
    return FileField(
        name=field.name,
        type=field.type,
        nullable=field.nullable,
        field_id=_field_id(field, id_key),
        children=tuple(children),
        first_leaf=first_leaf,
        last_leaf=leaf if below else first_leaf + 1,
    )


def _field_id(field: pa.Field, id_key: bytes) -> int | None:
    text = (field.metadata or {}).get(id_key)
    if text is None:
        return None
    try:
        number = int(text)
    except ValueError as error:
        raise DataFileError(
            f"Cannot read column {field.name!r}: its field id is {text!r} (expected a number)"
        ) from error
    return number if number >= 0 else None


def walk(fields: Iterable[FileField]) -> Iterator[FileField]:
    """Every field of the tree, parents first."""
    for field in fields:
        yield field
        yield from walk(field.children)


def has_field_ids(fields: Iterable[FileField]) -> bool:
    return any(field.field_id is not None for field in walk(fields))


def with_name_mapping(fields: tuple[FileField, ...], mapping: tuple[NamedField, ...]) -> tuple[FileField, ...]:
    """The fields with the ids that a name mapping gives to those that have none."""
    by_name = {name: mapped for mapped in mapping for name in mapped.names}
    return tuple(_with_mapped(field, by_name.get(field.name)) for field in fields)


def _with_mapped(field: FileField, mapped: NamedField | None) -> FileField:
    if mapped is None:
        return field
    if is_list(field.type):
        names: tuple[str, ...] = ("element",)
    elif pt.is_map(field.type):
        names = ("key", "value")
    else:
        names = tuple(child.name for child in field.children)
    by_name = {name: below for below in mapped.children for name in below.names}
    children = tuple(_with_mapped(child, by_name.get(name)) for name, child in zip(names, field.children, strict=True))
    own = field.field_id if field.field_id is not None else mapped.field_id
    return replace(field, field_id=own, children=children)
