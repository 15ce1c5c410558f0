"""Whether the readers of the other format find the same columns in a shared data file as the source's readers.

Iceberg: "Column Projection", Appendix A (Parquet). Delta: "Column Mapping", "Type Widening". A file's columns are
the tree that its footer states (``FileField``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.types as pt

from deltaberg.datafile import FileField
from deltaberg.datafile.file_schema import has_field_ids, is_list
from deltaberg.delta.schema import types as delta
from deltaberg.iceberg.schema import types as ice
from deltaberg.iceberg.schema.name_mapping import MappedField, NameMapping
from deltaberg.iceberg.schema.schema import Schema
from deltaberg.translate import codes
from deltaberg.translate.field_ids import Path, physical_name
from deltaberg.translate.findings import Code, Severity
from deltaberg.translate.type_changes import delta_can_widen, iceberg_can_promote
from deltaberg.translate.types import delta_to_iceberg_type, iceberg_to_delta_type

OTHER_COLUMN: Final = "the files have another column by its name"
_NAME_CODES: Final = (codes.FORMER_NAMES, codes.FIELD_IDS_DISAGREE)


@dataclass(frozen=True, slots=True, kw_only=True)
class SharingBlocker:
    """Why a file cannot be shared as it is: a code, and the column it is about (dotted logical name).

    detail: completes the code's reason.
    """

    code: Code
    column: str
    detail: str = ""


# A Delta table's files, to be read by Iceberg


def fields_by_path(
    fields: Sequence[FileField], schema: delta.StructType, ids: Mapping[Path, int], *, by_id: bool
) -> dict[Path, FileField]:
    """The field of the file that Delta's readers take for each path of the schema; paths that the file lacks are
    absent.

    by_id: column mapping mode ``id``; list elements and map parts are found by position.
    """
    found: dict[Path, FileField] = {}
    _hold_struct(schema, (), fields, ids, by_id, found)
    return found


def iceberg_blockers(
    fields: Sequence[FileField],
    schema: delta.StructType,
    ids: Mapping[Path, int],
    held: Mapping[Path, FileField],
    *,
    format_version: int,
    skip: Iterable[Path] = (),
) -> tuple[SharingBlocker, ...]:
    """Blockers that keep Iceberg's readers from reading a Delta table's file correctly.

    skip: top-level paths whose value is not taken from the file (partition columns under a name mapping).
    """
    skipped = frozenset(skip)
    result: list[SharingBlocker] = []
    with_ids = has_field_ids(fields)
    for path, name, kind in _delta_paths(schema):
        field = held.get(path)
        if field is None or path[:1] in skipped:
            continue
        if with_ids and field.field_id != ids[path]:
            nested = path[-1] in {"element", "key", "value"} and field.field_id is None
            result.append(
                SharingBlocker(code=codes.NESTED_IDS_MISSING if nested else codes.FIELD_IDS_FOREIGN, column=name)
            )
        elif not _is_nested(kind):
            code = _iceberg_type_blocker(field, kind, format_version)
            if code is not None:
                result.append(SharingBlocker(code=code, column=name))
    if with_ids:
        result.extend(_strangers(fields, ids, held))
    return tuple(dict.fromkeys(result))


def _strangers(
    fields: Sequence[FileField], ids: Mapping[Path, int], held: Mapping[Path, FileField]
) -> Iterator[SharingBlocker]:
    """Columns of the file that are not the table's, under an id that is."""
    own = {(field.first_leaf, field.last_leaf, field.name) for field in held.values()}
    taken = frozenset(ids.values())
    for field in fields:
        if field.field_id in taken and (field.first_leaf, field.last_leaf, field.name) not in own:
            yield SharingBlocker(code=codes.FIELD_IDS_FOREIGN, column=field.name)


def _hold_struct(
    kind: delta.StructType,
    path: Path,
    fields: Sequence[FileField],
    ids: Mapping[Path, int],
    by_id: bool,
    found: dict[Path, FileField],
) -> None:
    for column in kind.fields:
        below = (*path, physical_name(column))
        if by_id:
            match = next((each for each in fields if each.field_id == ids[below]), None)
        else:
            match = next((each for each in fields if each.name == below[-1]), None)
        if match is not None:
            _hold(column.type, below, match, ids, by_id, found)


def _hold(
    kind: delta.DeltaType,
    path: Path,
    field: FileField,
    ids: Mapping[Path, int],
    by_id: bool,
    found: dict[Path, FileField],
) -> None:
    found[path] = field
    match kind:
        case delta.StructType():
            _hold_struct(kind, path, field.children, ids, by_id, found)
        case delta.ArrayType(element_type=element) if len(field.children) == 1:
            _hold(element, (*path, "element"), field.children[0], ids, by_id, found)
        case delta.MapType(key_type=key, value_type=value) if len(field.children) == 2:
            _hold(key, (*path, "key"), field.children[0], ids, by_id, found)
            _hold(value, (*path, "value"), field.children[1], ids, by_id, found)


def _iceberg_type_blocker(field: FileField, kind: delta.DeltaType, format_version: int) -> Code | None:
    wanted = delta_to_iceberg_type(kind)
    if wanted is None or isinstance(wanted, (ice.VariantType, ice.UnknownType)):
        return None
    stored = _stored_as_iceberg(field.type, wanted)
    if stored is None:
        return codes.PHYSICAL_TYPE_FOREIGN
    if not iceberg_can_promote(stored, wanted, format_version=format_version):
        return codes.NARROW_TYPE
    return None


def _stored_as_iceberg(stored: pa.DataType, wanted: ice.Type) -> ice.Type | None:
    """The Iceberg type that a physical type is read as; None where Iceberg's readers do not know it for the column."""
    stored = _without_flavour(stored)
    if pt.is_timestamp(stored) and isinstance(wanted, (ice.TimestampType, ice.TimestamptzType)):
        zoned = isinstance(wanted, ice.TimestamptzType)
        return wanted if stored.unit in {"us", "ms"} and (stored.tz is not None) == zoned else None
    if pt.is_binary(stored) and isinstance(wanted, (ice.GeometryType, ice.GeographyType)):
        return wanted
    if pt.is_integer(stored) and pt.is_signed_integer(stored):
        return ice.LongType() if stored.bit_width == 64 else ice.IntegerType()
    if pt.is_decimal(stored):
        return ice.DecimalType(precision=stored.precision, scale=stored.scale)
    return _PLAIN.get(stored)


def _without_flavour(stored: pa.DataType) -> pa.DataType:
    """Arrow's writers note their own flavour of a type in a file's metadata; what the file holds is the plain type."""
    if pt.is_dictionary(stored):
        stored = stored.value_type
    if pt.is_string_view(stored) or pt.is_large_string(stored):
        return pa.string()
    if pt.is_binary_view(stored) or pt.is_large_binary(stored):
        return pa.binary()
    return stored


_PLAIN: Mapping[pa.DataType, ice.Type] = {
    pa.bool_(): ice.BooleanType(),
    pa.float32(): ice.FloatType(),
    pa.float64(): ice.DoubleType(),
    pa.string(): ice.StringType(),
    pa.binary(): ice.BinaryType(),
    pa.date32(): ice.DateType(),
}


def _delta_paths(kind: delta.DeltaType, path: Path = (), name: str = "") -> Iterator[tuple[Path, str, delta.DeltaType]]:
    match kind:
        case delta.StructType(fields=fields):
            parts = [(physical_name(each), each.name, each.type) for each in fields]
        case delta.ArrayType(element_type=element):
            parts = [("element", "element", element)]
        case delta.MapType(key_type=key, value_type=value):
            parts = [("key", "key", key), ("value", "value", value)]
        case _:
            return
    for physical, logical, below in parts:
        full = f"{name}.{logical}" if name else logical
        yield (*path, physical), full, below
        yield from _delta_paths(below, (*path, physical), full)


def _is_nested(kind: delta.DeltaType) -> bool:
    return isinstance(kind, (delta.StructType, delta.ArrayType, delta.MapType))


# An Iceberg table's files, to be read by Delta


def fields_by_id(fields: Sequence[FileField], schema: Schema, name_mapping: NameMapping | None) -> dict[int, FileField]:
    """The field of the file that Iceberg's readers take for each field id; ids that the file lacks are absent.

    A file without ids is read by the name mapping.
    """
    found: dict[int, FileField] = {}
    mapping = None if has_field_ids(fields) or name_mapping is None else name_mapping.fields
    _hold_iceberg(schema.fields, fields, mapping, has_field_ids(fields), found)
    return found


def names_in_file(schema: Schema, held: Mapping[int, FileField]) -> dict[int, str]:
    """The file's names of the struct fields that it holds, by field id."""
    return {field_id: field.name for field_id, field in held.items() if not _is_collection_part(schema, field_id)}


def name_obstacles(
    fields: Sequence[FileField],
    schema: Schema,
    held: Mapping[int, FileField],
    physical_names: Mapping[int, str],
) -> tuple[SharingBlocker, ...]:
    """Columns that a reader matching by physical name would not find, or would find another column for.

    physical_names: the name that the target gives each struct field, by field id.
    """
    code = codes.FORMER_NAMES if has_field_ids(fields) else codes.FIELD_IDS_DISAGREE
    result: list[SharingBlocker] = []
    for column, siblings in _struct_levels(schema.fields, fields, held):
        wanted, own = physical_names[column.field_id], held.get(column.field_id)
        named = next((each for each in siblings if each.name.lower() == wanted.lower()), None)
        if (own is not None and own.name != wanted) or (named is not None and named is not own):
            detail = OTHER_COLUMN if own is None else ""
            result.append(SharingBlocker(code=code, column=schema.full_name(column.field_id), detail=detail))
    return tuple(result)


def taken_names(
    fields: Sequence[FileField], schema: Schema, held: Mapping[int, FileField]
) -> Iterator[tuple[int, set[str]]]:
    """Every struct field with the names, in lower case, that the file gives to others beside it."""
    for column, siblings in _struct_levels(schema.fields, fields, held):
        own = held.get(column.field_id)
        yield column.field_id, {each.name.lower() for each in siblings if each is not own}


def delta_blockers(
    schema: Schema,
    held: Mapping[int, FileField],
    *,
    mapped: frozenset[int],
    partition_sources: frozenset[int],
    identity_sources: frozenset[int],
) -> tuple[SharingBlocker, ...]:
    """Further blockers that keep Delta's readers from reading an Iceberg table's file correctly.

    mapped: leaves that get another type. partition_sources: columns that become Delta partition columns, whose value
    is in the log. identity_sources: columns whose value in this file Iceberg's metadata states.
    """
    result: list[SharingBlocker] = []
    for column in schema.all_fields():
        name = schema.full_name(column.field_id)
        field = held.get(column.field_id)
        if column.field_id in partition_sources:
            continue
        if field is None:
            if schema.parent_id(column.field_id) is None or not _is_collection_part(schema, column.field_id):
                if column.field_id in identity_sources:
                    result.append(SharingBlocker(code=codes.COLUMN_NOT_IN_FILE, column=name))
                elif column.initial_default is not None and _parent_is_held(schema, held, column.field_id):
                    result.append(SharingBlocker(code=codes.INITIAL_DEFAULT, column=name))
            continue
        if column.field_id in mapped:
            result.append(SharingBlocker(code=codes.TYPE_MAPPED, column=name, detail=ice.type_name(column.type)))
        elif not ice.nested_fields(column.type):
            code = _delta_type_blocker(field, column.type)
            if code is not None:
                result.append(SharingBlocker(code=code, column=name))
    return tuple(result)


def effective_blockers(blockers: tuple[SharingBlocker, ...]) -> tuple[SharingBlocker, ...]:
    """The blockers that count for a file.

    A file that is rewritten for another reason gets the present names, so blockers about its names do not count.
    """
    others = tuple(each for each in blockers if each.code not in _NAME_CODES)
    return others if any(each.code.severity is Severity.REWRITE for each in others) else blockers


def narrower_types(schema: Schema, held: Mapping[int, FileField]) -> dict[int, delta.DeltaType]:
    """Leaves that the file holds in a type from which ``typeWidening`` leads to the column's, by field id."""
    result: dict[int, delta.DeltaType] = {}
    for column in schema.leaves():
        field, wanted = held.get(column.field_id), iceberg_to_delta_type(column.type)
        if field is None or wanted is None:
            continue
        stored = _stored_as_delta(field.type, wanted)
        if stored is not None and stored != wanted and delta_can_widen(stored, wanted):
            result[column.field_id] = stored
    return result


def _delta_type_blocker(field: FileField, kind: ice.Type) -> Code | None:
    wanted = iceberg_to_delta_type(kind)
    if wanted is None or isinstance(wanted, (delta.VariantType, delta.VoidType)):
        return None
    stored = _stored_as_delta(field.type, wanted)
    if stored is None:
        return codes.PHYSICAL_TYPE_FOREIGN
    return None if delta_can_widen(stored, wanted) else codes.NARROW_TYPE


def _stored_as_delta(stored: pa.DataType, wanted: delta.DeltaType) -> delta.DeltaType | None:
    stored = _without_flavour(stored)
    if pt.is_timestamp(stored) and isinstance(wanted, (delta.TimestampType, delta.TimestampNtzType)):
        zoned = isinstance(wanted, delta.TimestampType)
        return wanted if stored.unit in {"us", "ms"} and (stored.tz is not None) == zoned else None
    if pt.is_binary(stored) and isinstance(wanted, (delta.GeometryType, delta.GeographyType)):
        return wanted
    kind = _stored_as_iceberg(stored, ice.UnknownType())
    return None if kind is None else iceberg_to_delta_type(kind)


def _hold_iceberg(
    columns: Sequence[ice.NestedField],
    fields: Sequence[FileField],
    mapping: Sequence[MappedField] | None,
    with_ids: bool,
    found: dict[int, FileField],
) -> None:
    for column in columns:
        below: Sequence[MappedField] | None = None
        if with_ids:
            match = next((each for each in fields if each.field_id == column.field_id), None)
        else:
            mapped = next((each for each in mapping or () if each.field_id == column.field_id), None)
            names = mapped.names if mapped is not None else ()
            below = mapped.fields if mapped is not None else ()
            match = next((each for each in fields if each.name in names), None)
        if match is not None:
            _hold_iceberg_below(column, match, below, with_ids, found)


def _hold_iceberg_below(
    column: ice.NestedField,
    field: FileField,
    mapping: Sequence[MappedField] | None,
    with_ids: bool,
    found: dict[int, FileField],
) -> None:
    found[column.field_id] = field
    match column.type:
        case ice.StructType(fields=fields):
            _hold_iceberg(fields, field.children, mapping, with_ids, found)
        case ice.ListType() | ice.MapType():
            parts = ice.nested_fields(column.type)
            if len(parts) == len(field.children):
                for part, child in zip(parts, field.children, strict=True):
                    named = next((each for each in mapping or () if part.name in each.names), None)
                    _hold_iceberg_below(part, child, named.fields if named is not None else (), with_ids, found)


def _struct_levels(
    columns: Sequence[ice.NestedField], fields: Sequence[FileField], held: Mapping[int, FileField]
) -> Iterator[tuple[ice.NestedField, Sequence[FileField]]]:
    """Every struct field of the schema with the fields of the file that stand beside it."""
    for column in columns:
        yield column, fields
        field = held.get(column.field_id)
        if field is not None:
            yield from _levels_below(column.type, field, held)


def _levels_below(
    kind: ice.Type, field: FileField, held: Mapping[int, FileField]
) -> Iterator[tuple[ice.NestedField, Sequence[FileField]]]:
    if isinstance(kind, ice.StructType):
        yield from _struct_levels(kind.fields, field.children, held)
    elif is_list(field.type) or pt.is_map(field.type):
        for part, child in zip(ice.nested_fields(kind), field.children, strict=False):
            yield from _levels_below(part.type, child, held)


def _is_collection_part(schema: Schema, field_id: int) -> bool:
    """Whether a field is a list's element or a map's key or value."""
    parent = schema.parent_id(field_id)
    holder = schema.find(parent) if parent is not None else None
    return holder is not None and isinstance(holder.type, (ice.ListType, ice.MapType))


def _parent_is_held(schema: Schema, held: Mapping[int, FileField], field_id: int) -> bool:
    """A default below a struct that the file lacks is handled with the struct."""
    parent = schema.parent_id(field_id)
    return parent is None or parent in held
