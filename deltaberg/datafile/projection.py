"""Reading the columns that a table declares out of the columns that a file has.

Iceberg's section "Column Projection" and Delta's section "Column Mapping": fields are found by id or by physical
name, promoted exactly, and filled with their default or null where the file lacks them. List elements, map keys and map
values are found by position, whatever their names and ids.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from deltaberg.datafile.errors import DataFileError
from deltaberg.datafile.file_schema import (
    FileField,
    NamedField,
    file_fields,
    has_field_ids,
    is_list,
    walk,
    with_name_mapping,
)
from deltaberg.datafile.promotion import Convert, NotPromotable, promotion
from deltaberg.datafile.variant.variant import variants_to_json
from deltaberg.datafile.variant.variant_shredding import unshredded

Match = Literal["id", "name"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadField:
    """One column to read, or one field below it.

    ``type`` is the result's type, nested types included. ``children``: the fields of a struct; one, ``element``, for
    a list; ``key`` and ``value`` for a map. ``default`` stands for a field that the file lacks; None is null.
    ``kind`` "variant" reads a Variant: as JSON text when ``type`` is a string, else as a struct of metadata and value.
    "geometry" is WKB and "uuid" 16 bytes; both are read like other bytes, and annotated when they are written.
    """

    name: str
    type: pa.DataType
    nullable: bool = True
    field_id: int | None = None
    physical_name: str
    children: tuple[ReadField, ...] = ()
    default: pa.Scalar | None = None
    kind: Literal["plain", "variant", "geometry", "uuid"] = "plain"


class _Column(Protocol):
    """Makes one column, or one field below it, from the file's columns."""

    @property
    def source(self) -> FileField | None: ...

    def leaves(self) -> Iterator[int]: ...

    def convert(self, array: pa.Array) -> pa.Array: ...


class Projection:
    """A compiled projection of one file's columns. ``leaves`` are the physical columns it needs, ascending.

    ``pruned``: the batches hold exactly those, in the file's order; else every column of the file.

    Raises DataFileError for columns that cannot be read as declared; the caller adds the file's name.
    """

    def __init__(
        self,
        file: Sequence[FileField],
        fields: Sequence[ReadField],
        *,
        match: Match,
        name_mapping: tuple[NamedField, ...] | None = None,
        pruned: bool = True,
    ) -> None:
        file = tuple(file)
        if match == "id" and name_mapping is not None:
            file = with_name_mapping(file, name_mapping)
        if match == "id" and fields and file and not has_field_ids(file):
            raise DataFileError(
                "Cannot read the file: it has no field ids (expected Parquet field ids, or a name mapping in the table)"
            )
        self._fields = tuple(fields)
        self._columns = tuple(
            _column(field, source, match, (field.name,))
            for field, source in zip(fields, _sources(file, fields, match, ()), strict=True)
        )
        self.schema = pa.schema([pa.field(field.name, field.type, field.nullable) for field in fields])
        self.leaves = tuple(sorted({leaf for column in self._columns for leaf in column.leaves()}))
        needed = frozenset(self.leaves) if pruned else None
        for column in self._columns:
            _settle(column, needed)
        kept = [field for field in file if _is_needed(field, needed)]
        self._sources = tuple(
            None if column.source is None else _position(kept, column.source) for column in self._columns
        )
        self._width = len(kept)

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The declared columns of one batch. Raises DataFileError for values that do not fit."""
        if batch.num_columns != self._width:
            raise DataFileError(f"Cannot read the file: {batch.num_columns} columns came back (expected {self._width})")
        empty = pa.nulls(batch.num_rows)
        arrays = []
        for column, source, field in zip(self._columns, self._sources, self._fields, strict=True):
            made = column.convert(empty if source is None else batch.column(source))
            _require(made, field, (field.name,), None)
            arrays.append(made)
        if not arrays:
            return pa.RecordBatch.from_struct_array(pa.array([{}] * batch.num_rows, pa.struct([])))
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def project(
    batch: pa.RecordBatch,
    file: Sequence[FileField] | None,
    fields: Sequence[ReadField],
    *,
    match: Match,
    name_mapping: tuple[NamedField, ...] | None = None,
) -> pa.RecordBatch:
    """One batch with all columns of a file, projected. ``file``: its columns; None takes the batch's own schema."""
    columns = file_fields(batch.schema) if file is None else file
    return Projection(columns, fields, match=match, name_mapping=name_mapping, pruned=False).apply(batch)


def _is_needed(field: FileField, needed: frozenset[int] | None) -> bool:
    return needed is None or any(leaf in needed for leaf in range(field.first_leaf, field.last_leaf))


def _position(kept: Sequence[FileField], source: FileField) -> int:
    return next(index for index, field in enumerate(kept) if field is source)


def _settle(column: _Column, needed: frozenset[int] | None) -> None:
    if isinstance(column, _Struct):
        column.settle(needed)
    elif isinstance(column, _List | _Map):
        for below in column.below:
            _settle(below, needed)


def _sources(
    file: Sequence[FileField], fields: Sequence[ReadField], match: Match, path: tuple[str, ...]
) -> list[FileField | None]:
    """The file's field for each declared one."""
    found: list[FileField | None] = []
    by_id: dict[int, list[FileField]] = {}
    by_name: dict[str, list[FileField]] = {}
    by_folded: dict[str, list[FileField]] = {}
    for field in file:
        if field.field_id is not None:
            by_id.setdefault(field.field_id, []).append(field)
        by_name.setdefault(field.name, []).append(field)
        by_folded.setdefault(field.name.casefold(), []).append(field)
    for wanted in fields:
        if match == "id" and wanted.field_id is not None:
            candidates = by_id.get(wanted.field_id, [])
        else:
            # Delta's names differ by more than case, and Spark finds a file's column whatever its case.
            candidates = by_name.get(wanted.physical_name) or by_folded.get(wanted.physical_name.casefold(), [])
        if len(candidates) > 1:
            what = f"field id {wanted.field_id}" if match == "id" else f"name {wanted.physical_name!r}"
            raise DataFileError(
                f"Cannot read column {_dotted((*path, wanted.name))}: {len(candidates)} columns of the file have its {what}"
            )
        found.append(candidates[0] if candidates else None)
    return found


def _column(field: ReadField, source: FileField | None, match: Match, path: tuple[str, ...]) -> _Column:
    if source is None:
        return _Missing(field, path)
    if field.kind == "variant":
        return _Variant(field, source, path)
    file_type, target = source.type, field.type
    if isinstance(file_type, pa.BaseExtensionType):
        file_type = file_type.storage_type
    if pt.is_null(file_type) or pt.is_null(target):
        return _Leaf(field, source, path)
    if pt.is_struct(target) and pt.is_struct(file_type):
        return _Struct(field, source, match, path)
    if pt.is_map(target) and pt.is_map(file_type):
        return _Map(field, source, match, path)
    if pt.is_list(target) and is_list(file_type):
        return _List(field, source, match, path)
    return _Leaf(field, source, path)


def _dotted(path: tuple[str, ...]) -> str:
    return repr(".".join(path))


def _mismatch(field: ReadField, source: FileField, path: tuple[str, ...]) -> DataFileError:
    return DataFileError(
        f"Cannot read column {_dotted(path)}: the file's type may not be read as the table's "
        f"(expected {field.type}, found {source.type})"
    )


class _Missing:
    """A field that the file lacks, filled with its default or null."""

    source: FileField | None = None

    def __init__(self, field: ReadField, path: tuple[str, ...]) -> None:
        self._field, self._path = field, path
        self._from_children = bool(
            field.default is not None and field.default.is_valid and pt.is_struct(field.type) and field.children
        )
        self._children = [_Missing(child, (*path, child.name)) for child in field.children * self._from_children]
        if not field.nullable and (field.default is None or not field.default.is_valid):
            raise DataFileError(
                f"Cannot read column {_dotted(path)}: the file lacks it, and it is required and has no default"
            )

    def leaves(self) -> Iterator[int]:
        return iter(())

    def convert(self, array: pa.Array) -> pa.Array:
        field = self._field
        if self._from_children:
            # The default of a struct is an empty one: each of its fields has its own.
            below = [child.convert(array) for child in self._children]
            return pa.StructArray.from_arrays(below, fields=list(field.type))
        if field.default is None:
            return pa.nulls(len(array), field.type)
        return pa.repeat(field.default.cast(field.type), len(array))


class _Leaf:
    """A primitive, promoted."""

    def __init__(self, field: ReadField, source: FileField, path: tuple[str, ...]) -> None:
        self.source: FileField | None = source
        self._leaf = source.first_leaf
        self._file, self._field, self._path = source, field, path
        try:
            self._promote: Convert | None = promotion(source.type, field.type, source.calendar)
        except NotPromotable as error:
            raise _mismatch(field, source, path) from error

    def leaves(self) -> Iterator[int]:
        yield self._leaf

    def convert(self, array: pa.Array) -> pa.Array:
        if self._promote is None:
            return array
        try:
            return self._promote(array)
        except pa.ArrowException as error:
            raise DataFileError(
                f"Cannot read column {_dotted(self._path)}: a value does not fit (expected {self._field.type}, "
                f"found {self._file.type}): {_line(error)}"
            ) from error


class _Struct:
    """A struct, field by field; null where the file's is null, whatever the defaults below it."""

    def __init__(self, field: ReadField, source: FileField, match: Match, path: tuple[str, ...]) -> None:
        self.source: FileField | None = source
        self._file, self._field, self._path = source, field, path
        self.below = tuple(
            _column(child, found, match, (*path, child.name))
            for child, found in zip(field.children, _sources(source.children, field.children, match, path), strict=True)
        )
        self._positions: tuple[int | None, ...] = ()

    def leaves(self) -> Iterator[int]:
        found = False
        for column in self.below:
            for leaf in column.leaves():
                found = True
                yield leaf
        if not found:
            # Nothing below is wanted or present: one leaf still shows where the struct itself is null.
            yield _cheapest_leaf(self._file)

    def settle(self, needed: frozenset[int] | None) -> None:
        kept = [child for child in self._file.children if _is_needed(child, needed)]
        self._positions = tuple(
            None if column.source is None else _position(kept, column.source) for column in self.below
        )
        for column in self.below:
            _settle(column, needed)

    def convert(self, array: pa.Array) -> pa.Array:
        if isinstance(array.type, pa.BaseExtensionType):
            array = array.storage
        empty = pa.nulls(len(array))
        mask = array.is_null() if array.null_count else None
        stored = array.flatten() if array.null_count else [array.field(index) for index in range(array.type.num_fields)]
        arrays = []
        for column, position, child in zip(self.below, self._positions, self._field.children, strict=True):
            made = column.convert(empty if position is None else stored[position])
            _require(made, child, (*self._path, child.name), mask)
            # A value that is null only because its parent is must not be null itself where the type forbids nulls.
            arrays.append(made if child.nullable else without_nulls(made))
        if not arrays:
            return pa.array([{}] * len(array), self._field.type, mask=None if mask is None else mask.to_numpy(False))
        return pa.StructArray.from_arrays(arrays, fields=list(self._field.type), mask=mask)


class _List:
    def __init__(self, field: ReadField, source: FileField, match: Match, path: tuple[str, ...]) -> None:
        self.source: FileField | None = source
        self._field, self._path = field, path
        (element,), (found,) = field.children, source.children
        self.below = (_column(element, found, match, (*path, "element")),)

    def leaves(self) -> Iterator[int]:
        yield from self.below[0].leaves()

    def convert(self, array: pa.Array) -> pa.Array:
        if isinstance(array.type, pa.BaseExtensionType):
            array = array.storage
        if pt.is_list(array.type):
            offsets, first, length = _compact_offsets(array)
            values = array.values.slice(first, length)
        else:
            lengths = pc.fill_null(pc.list_value_length(array), 0).cast(pa.int32())
            offsets = pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum_checked(lengths)])
            values = array.flatten()
        values = self.below[0].convert(values)
        _require(values, self._field.children[0], (*self._path, "element"), None)
        mask = array.is_null() if array.null_count else None
        return pa.ListArray.from_arrays(offsets, values, type=self._field.type, mask=mask)


class _Map:
    def __init__(self, field: ReadField, source: FileField, match: Match, path: tuple[str, ...]) -> None:
        self.source: FileField | None = source
        self._field, self._path = field, path
        self.below = tuple(
            _column(wanted, found, match, (*path, name))
            for wanted, found, name in zip(field.children, source.children, ("key", "value"), strict=True)
        )

    def leaves(self) -> Iterator[int]:
        for column in self.below:
            yield from column.leaves()

    def convert(self, array: pa.Array) -> pa.Array:
        if isinstance(array.type, pa.BaseExtensionType):
            array = array.storage
        offsets, first, length = _compact_offsets(array)
        key, value = self.below
        keys, values = key.convert(array.keys.slice(first, length)), value.convert(array.items.slice(first, length))
        _require(keys, self._field.children[0], (*self._path, "key"), None)
        _require(values, self._field.children[1], (*self._path, "value"), None)
        mask = array.is_null() if array.null_count else None
        return pa.MapArray.from_arrays(offsets, keys, values, type=self._field.type, mask=mask)


class _Variant:
    """A Variant group, put together where it is shredded: as JSON text or as metadata and value."""

    def __init__(self, field: ReadField, source: FileField, path: tuple[str, ...]) -> None:
        self.source: FileField | None = source
        self._field, self._path = field, path
        self._parts = {child.name: index for index, child in enumerate(source.children)}
        binary = all(pt.is_binary(child.type) for child in source.children if child.name in ("metadata", "value"))
        names = self._parts.keys()
        is_group = pt.is_struct(source.type) and "metadata" in names and names <= {"metadata", "value", "typed_value"}
        if not is_group or not binary or len(self._parts) != len(source.children):
            raise DataFileError(
                f"Cannot read column {_dotted(path)}: it is no Variant group "
                f"(expected metadata, value and maybe typed_value, found {source.type})"
            )

    def leaves(self) -> Iterator[int]:
        assert self.source is not None
        yield from range(self.source.first_leaf, self.source.last_leaf)

    def convert(self, array: pa.Array) -> pa.Array:
        below = array.flatten()
        parts = {name: below[index] for name, index in self._parts.items()}
        metadata = parts["metadata"]
        try:
            value = unshredded(metadata, parts.get("value"), parts.get("typed_value"))
            if array.null_count:
                value = pc.if_else(array.is_valid(), value, pa.scalar(None, pa.binary()))
            if pt.is_string(self._field.type):
                return variants_to_json(metadata, value)
        except DataFileError as error:
            raise DataFileError(f"Cannot read column {_dotted(self._path)}: {error.message}") from error
        whole = {"metadata": metadata.fill_null(b""), "value": value.fill_null(b"")}
        arrays = [whole[child.name] for child in self._field.type]
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(arrays, fields=list(self._field.type), mask=mask)


def without_nulls(array: pa.Array) -> pa.Array:
    """The array with its nulls replaced by arbitrary values."""
    if not array.null_count:
        return array
    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, without_nulls(array.storage))
    if pt.is_struct(kind):
        below = [
            array.field(index) if field.nullable else without_nulls(array.field(index))
            for index, field in enumerate(kind)
        ]
        return pa.StructArray.from_arrays(below, fields=list(kind))
    if pt.is_list(kind):
        return pa.ListArray.from_arrays(array.offsets, array.values, type=kind)
    if pt.is_map(kind):
        return pa.MapArray.from_arrays(array.offsets, array.keys, array.items, type=kind)
    if pt.is_null(kind):
        return array
    return pa.Array.from_buffers(kind, len(array), [None, *array.buffers()[1:]], 0, array.offset)


def _compact_offsets(array: pa.Array) -> tuple[pa.Array, int, int]:
    """Offsets that begin at 0, the position of the first value that they count, and the number of values."""
    offsets = array.offsets
    first = offsets[0].as_py() if len(offsets) else 0
    last = offsets[-1].as_py() if len(offsets) else 0
    if first or offsets.offset:
        offsets = pc.subtract(offsets, first)
    return offsets, first, last - first


def _require(array: pa.Array, field: ReadField, path: tuple[str, ...], absent: pa.Array | None) -> None:
    """Refuse a null in a required field, except below a parent that is null itself."""
    if field.nullable or not array.null_count:
        return
    nulls = array.is_null()
    if absent is None or pc.any(pc.and_not(nulls, absent), min_count=0).as_py():
        raise DataFileError(f"Cannot read column {_dotted(path)}: a value is null, but the table says it is required")


def _cheapest_leaf(field: FileField) -> int:
    plain = [child for child in field.children if not child.children]
    structs = [child for child in field.children if pt.is_struct(child.type)]
    if plain:
        return plain[0].first_leaf
    if structs:
        return _cheapest_leaf(structs[0])
    return next(child.first_leaf for child in walk(field.children) if not child.children)


def _line(error: Exception) -> str:
    return str(error).split("\n", 1)[0]
