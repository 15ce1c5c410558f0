"""Avro data and delete files as Arrow batches (Appendix A, "Avro").

The decoder is the one for manifests. It reads whole blocks held in memory; here it reads a file a few blocks at a
time, and the additions of data files are handled: fields that are not in the file, and files without field ids.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from deltaberg.datafile.errors import DataFileError
from deltaberg.datafile.file_schema import PARQUET_FIELD_ID, NamedField
from deltaberg.errors import error_context
from deltaberg.iceberg.avro.container import SYNC_SIZE, AvroHeader, read_header, read_long
from deltaberg.iceberg.avro.reader import GROUP_BYTES, read_avro
from deltaberg.iceberg.avro.schema import (
    AvroArray,
    AvroMap,
    AvroRecord,
    AvroScalar,
    AvroType,
    AvroUnion,
    parse_avro_schema,
)
from deltaberg.iceberg.errors import CorruptMetadata
from deltaberg.iceberg.schema.types import (
    ListType,
    MapType,
    NestedField,
    StructType,
    Type,
    VariantType,
    arrow_type,
)
from deltaberg.storage.protocol import Storage

_HEADER_GUESS = 1 << 16
_LONGEST_HEADER = 1 << 26
_BLOCK_PREFIX = 20
_MAP_PART = ("values", "value-id", "value")
_UNMAPPED = NamedField(names=(), field_id=None)


class AvroFile:
    """One Avro file; ``has_field_ids`` tells whether its own schema has any."""

    def __init__(self, storage: Storage, location: str) -> None:
        """Reads the header. Raises DataFileError, StorageError."""
        self.location = location
        self._file = storage.open(location)
        self._size = self._file_size()
        self._header = self._read_header()
        self._schema = self._parse(self._header)
        self.has_field_ids = any(True for _ in _ids(self._schema))

    def iter_batches(
        self, fields: Sequence[NestedField], *, name_mapping: tuple[NamedField, ...] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """The ``fields`` that the file has, with their ids as Arrow metadata, in the file's row order.

        ``name_mapping`` gives ids to the fields that have none. Values come in the types of ``fields``, variants as
        structs of ``metadata`` and ``value``. Raises DataFileError for whatever is corrupt.
        """
        header, schema = self._mapped(name_mapping)
        present = tuple(_present(tuple(fields), schema))
        wanted = StructType(fields=present)
        arrow = pa.schema([_arrow_field(nested) for nested in present])
        for blocks in self._block_groups():
            try:
                for rows in read_avro(blocks, wanted, header=replace(header, size=0)):
                    yield _batch(rows, arrow)
            except CorruptMetadata as error:
                raise self._corrupt(error) from error

    def held_field_ids(self, name_mapping: tuple[NamedField, ...] | None = None) -> frozenset[int]:
        """The ids of the fields of its records, at any depth."""
        return frozenset(_ids(self._mapped(name_mapping)[1]))

    def close(self) -> None:
        self._file.close()

    def _mapped(self, name_mapping: tuple[NamedField, ...] | None) -> tuple[AvroHeader, AvroRecord]:
        if name_mapping is None:
            return self._header, self._schema
        mapped = _with_ids(json.loads(self._header.metadata["avro.schema"]), name_mapping, {})
        metadata = {**self._header.metadata, "avro.schema": json.dumps(mapped).encode()}
        header = replace(self._header, metadata=metadata)
        return header, self._parse(header)

    def _parse(self, header: AvroHeader) -> AvroRecord:
        try:
            schema = parse_avro_schema(header.metadata["avro.schema"])
        except CorruptMetadata as error:
            raise self._corrupt(error) from error
        if not isinstance(schema, AvroRecord):
            raise DataFileError(f"Cannot read Avro file {self.location}: it does not hold records", path=self.location)
        return schema

    def _read_header(self) -> AvroHeader:
        length = _HEADER_GUESS
        while True:
            head = self._read_at(0, min(length, self._size))
            try:
                with error_context(path=self.location):
                    return read_header(head)
            except CorruptMetadata as error:
                if length >= min(self._size, _LONGEST_HEADER):
                    raise self._corrupt(error) from error
            length *= 16

    def _block_groups(self) -> Iterator[bytes]:
        """Whole blocks, as many as fill a group (at least one)."""
        at = start = self._header.size
        while at < self._size:
            end = self._block_end(at)
            if at > start and end - start > GROUP_BYTES:
                yield self._read_at(start, at - start)
                start = at
            at = end
        if at > start:
            yield self._read_at(start, at - start)

    def _block_end(self, at: int) -> int:
        prefix = memoryview(self._read_at(at, min(_BLOCK_PREFIX, self._size - at)))
        try:
            count, place = read_long(prefix, 0, f"block at byte {at}")
            size, place = read_long(prefix, place, f"block at byte {at}")
        except CorruptMetadata as error:
            raise self._corrupt(error) from error
        end = at + place + size + SYNC_SIZE
        if count < 0 or size < 0 or end > self._size:
            raise DataFileError(
                f"Cannot read Avro file {self.location}: the block at byte {at} claims {count} records in {size} bytes, "
                f"but the file has {self._size}",
                path=self.location,
            )
        return end

    def _read_at(self, offset: int, length: int) -> bytes:
        try:
            data: bytes = self._file.read_at(length, offset)
        except (pa.ArrowException, OSError) as error:
            raise DataFileError(f"Cannot read Avro file {self.location}: {error}", path=self.location) from error
        if len(data) != length:
            raise DataFileError(
                f"Cannot read Avro file {self.location}: {length} bytes expected at {offset}, {len(data)} found",
                path=self.location,
            )
        return data

    def _file_size(self) -> int:
        try:
            return int(self._file.size())
        except (pa.ArrowException, OSError) as error:
            raise DataFileError(f"Cannot read Avro file {self.location}: {error}", path=self.location) from error

    def _corrupt(self, error: CorruptMetadata) -> DataFileError:
        return DataFileError(f"Cannot read Avro file {self.location}: {error.message}", path=self.location)


def _present(fields: tuple[NestedField, ...], record: AvroRecord) -> Iterator[NestedField]:
    """The fields that a record has; parts that it lacks are left out."""
    by_id = {written.field_id: written.type for written in record.fields if written.field_id is not None}
    for nested in fields:
        written = by_id.get(nested.field_id)
        if written is not None:
            yield replace(nested, type=_present_type(nested.type, _without_null(written)))


def _present_type(kind: Type, written: AvroType) -> Type:
    match kind, written:
        case StructType(), AvroRecord():
            return StructType(fields=tuple(_present(kind.fields, written)))
        case ListType(), AvroArray():
            return ListType(element=_present_part(kind.element, written.items))
        case MapType(), AvroMap():
            return MapType(key=kind.key, value=_present_part(kind.value, written.values))
        case MapType(), AvroArray(items=AvroRecord(fields=(key, value))):
            return MapType(key=_present_part(kind.key, key.type), value=_present_part(kind.value, value.type))
        case _:
            return kind


def _present_part(part: NestedField, written: AvroType) -> NestedField:
    return replace(part, type=_present_type(part.type, _without_null(written)))


def _without_null(written: AvroType) -> AvroType:
    """The one type beside null of an optional value; any other union is returned unchanged."""
    if not isinstance(written, AvroUnion):
        return written
    others = [each for each in written.branches if not (isinstance(each, AvroScalar) and each.kind == "null")]
    return others[0] if len(others) == 1 else written


def _arrow_field(nested: NestedField) -> pa.Field:
    return pa.field(
        nested.name,
        _arrow_type(nested.type),
        nullable=True,
        metadata={PARQUET_FIELD_ID: str(nested.field_id).encode()},
    )


def _arrow_type(kind: Type) -> pa.DataType:
    match kind:
        case StructType():
            return pa.struct([_arrow_field(nested) for nested in kind.fields])
        case ListType():
            return pa.list_(_arrow_field(kind.element))
        case MapType():
            return pa.map_(_arrow_field(kind.key).with_nullable(False), _arrow_field(kind.value))
        case VariantType():
            return pa.struct([("metadata", pa.binary()), ("value", pa.binary())])
        case _:
            return arrow_type(kind)


def _batch(rows: pa.StructArray, schema: pa.Schema) -> pa.RecordBatch:
    if not len(schema):
        return pa.RecordBatch.from_struct_array(pa.StructArray.from_buffers(pa.struct([]), len(rows), [None]))
    return pa.RecordBatch.from_arrays(
        [_retyped(array, field.type) for array, field in zip(rows.flatten(), schema, strict=True)], schema=schema
    )


def _retyped(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """The array's buffers under a type that differs in field metadata and nullability."""
    if array.type == kind and not pa.types.is_nested(kind):
        return array
    if pa.types.is_struct(kind):
        children = [_retyped(array.field(place), kind.field(place).type) for place in range(kind.num_fields)]
        if not children:
            return pa.Array.from_buffers(kind, len(array), array.buffers()[:1], offset=array.offset, children=[])
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=mask)
    if pa.types.is_map(kind):
        keys, items = _retyped(array.keys, kind.key_type), _retyped(array.items, kind.item_type)
        entries = pa.StructArray.from_arrays([keys, items], fields=[kind.key_field, kind.item_field])
        return pa.Array.from_buffers(kind, len(array), array.buffers()[:2], offset=array.offset, children=[entries])
    if pa.types.is_list(kind):
        items = _retyped(array.values, kind.value_type)
        return pa.Array.from_buffers(kind, len(array), array.buffers()[:2], offset=array.offset, children=[items])
    return array


def _ids(avro: AvroType) -> Iterator[int]:
    match avro:
        case AvroRecord():
            for each in avro.fields:
                if each.field_id is not None:
                    yield each.field_id
                yield from _ids(each.type)
        case AvroArray():
            yield from () if avro.element_id is None else (avro.element_id,)
            yield from _ids(avro.items)
        case AvroMap():
            yield from (each for each in (avro.key_id, avro.value_id) if each is not None)
            yield from _ids(avro.values)
        case AvroUnion():
            for branch in avro.branches:
                yield from _ids(branch)


def _with_ids(value: object, mapping: tuple[NamedField, ...], named: dict[str, dict[str, object]]) -> object:
    """An Avro schema (JSON) with mapped ids where it has none.

    Uses of a named type become copies of its definition: each place has ids of its own.
    """
    if isinstance(value, list):
        return [_with_ids(branch, mapping, named) for branch in value]
    if isinstance(value, str) and value in named:
        value = named[value]
    if not isinstance(value, dict):
        return value
    name, kind = value.get("name"), value.get("type")
    if isinstance(name, str) and kind in ("record", "fixed", "enum"):
        space = value.get("namespace")
        named[name] = named[f"{space}.{name}"] = value
    if isinstance(kind, dict | list) or (isinstance(kind, str) and kind in named):
        return {**value, "type": _with_ids(kind, mapping, named)}
    by_name = {text: mapped for mapped in mapping for text in mapped.names}
    if kind == "record":
        written = value.get("fields")
        fields = written if isinstance(written, list) else []
        return {**value, "fields": [_field_with_ids(each, by_name, named) for each in fields]}
    if kind == "array" and value.get("logicalType") == "map":
        return {**value, "items": _with_ids(value.get("items"), mapping, named)}
    if kind in ("array", "map"):
        part, id_key, mapped_name = ("items", "element-id", "element") if kind == "array" else _MAP_PART
        found = by_name.get(mapped_name, _UNMAPPED)
        ids = {} if found.field_id is None else {id_key: found.field_id}
        return {**ids, **value, part: _with_ids(value.get(part), found.children, named)}
    return value


def _field_with_ids(
    field: dict[str, object], by_name: dict[str, NamedField], named: dict[str, dict[str, object]]
) -> dict[str, object]:
    found = by_name.get(str(field.get("name")), _UNMAPPED)
    ids = {} if found.field_id is None else {"field-id": found.field_id}
    return {**ids, **field, "type": _with_ids(field.get("type"), found.children, named)}
