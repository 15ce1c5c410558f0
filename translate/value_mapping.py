"""Values that change their type on the way (``--map``), column-wise.

uuid: 16 bytes; the text form is the canonical lower-case one. fixed: bytes; the text form is upper-case hexadecimal.
time: microseconds since midnight; the text form is ``HH:MM:SS.ffffff``. Nanosecond timestamps are cut to microseconds,
downwards; as long they keep their nanoseconds.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.datafile import ReadField
from deltaberg.delta.schema import types as delta
from deltaberg.delta.schema.types import arrow_type
from deltaberg.iceberg.schema import types as ice
from deltaberg.translate.types import TYPE_MAPPINGS, mappable_name

_HEX = np.frombuffer(b"0123456789abcdef", dtype=np.uint8)
_UUID_DASHES = (8, 12, 16, 20)


def mapped_fields(
    fields: Sequence[ReadField], columns: Sequence[ice.NestedField], mappings: dict[str, str]
) -> tuple[ReadField, ...]:
    """Read fields with the types that ``convert_columns`` produces."""
    return tuple(_mapped_field(field, column, mappings) for field, column in zip(fields, columns, strict=True))


def _mapped_field(field: ReadField, column: ice.NestedField, mappings: dict[str, str]) -> ReadField:
    target = _target(column.type, mappings)
    if target is not None:
        return replace(field, type=arrow_type(target), kind="plain", default=None)
    children = mapped_fields(field.children, ice.nested_fields(column.type), mappings) if field.children else ()
    if not children:
        return field
    below = [pa.field(child.name, child.type, child.nullable) for child in children]
    kind = field.type
    if pa.types.is_struct(kind):
        kind = pa.struct(below)
    elif pa.types.is_map(kind):
        kind = pa.map_(below[0], below[1])
    else:
        kind = pa.list_(below[0])
    return replace(field, type=kind, children=children)


def convert_columns(
    batch: pa.RecordBatch, columns: Sequence[ice.NestedField], mappings: dict[str, str]
) -> pa.RecordBatch:
    """The batch with the columns of mapped types converted, at any depth; other columns as they are."""
    arrays = list(batch.columns)
    for place, column in enumerate(columns):
        arrays[place] = _converted(arrays[place], column.type, mappings)
    names = batch.schema.names
    fields = [
        pa.field(name, array.type, batch.schema.field(place).nullable)
        for place, (name, array) in enumerate(zip(names, arrays, strict=True))
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def _converted(array: pa.Array, kind: ice.Type, mappings: dict[str, str]) -> pa.Array:
    target = _target(kind, mappings)
    if target is not None:
        return _convert(array, kind, target)
    match kind:
        case ice.StructType(fields=fields):
            children = [
                _converted(child, column.type, mappings) for child, column in zip(array.flatten(), fields, strict=True)
            ]
            names = [
                pa.field(field.name, child.type, field.nullable)
                for field, child in zip(array.type, children, strict=True)
            ]
            return pa.StructArray.from_arrays(children, fields=names, mask=pc.is_null(array))
        case ice.ListType(element=element):
            values = _converted(array.flatten(), element.type, mappings)
            item = pa.field("element", values.type, array.type.value_field.nullable)
            return pa.ListArray.from_arrays(_offsets(array), values, type=pa.list_(item), mask=_nulls(array))
        case ice.MapType(key=key, value=value):
            first, last = array.offsets[0].as_py(), array.offsets[-1].as_py()
            keys = _converted(array.keys.slice(first, last - first), key.type, mappings)
            items = _converted(array.items.slice(first, last - first), value.type, mappings)
            target_type = pa.map_(
                pa.field("key", keys.type, False), pa.field("value", items.type, array.type.item_field.nullable)
            )
            offsets = pc.subtract(array.offsets, first)
            return pa.MapArray.from_arrays(offsets, keys, items, type=target_type, mask=_nulls(array))
        case _:
            return array


def _offsets(array: pa.ListArray) -> pa.Array:
    """Offsets into ``array.flatten()``: those of null lists count nothing."""
    lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy()
    return pa.array(np.concatenate(([0], np.cumsum(lengths))), pa.int32())


def _nulls(array: pa.Array) -> pa.Array | None:
    return pc.is_null(array) if array.null_count else None


def _target(kind: ice.Type, mappings: dict[str, str]) -> delta.DeltaType | None:
    name = mappable_name(kind)
    return None if name is None or name not in mappings else TYPE_MAPPINGS[name][mappings[name]]


def _convert(array: pa.Array, kind: ice.Type, target: delta.DeltaType) -> pa.Array:
    text = isinstance(target, delta.StringType)
    match kind:
        case ice.UuidType() | ice.FixedType():
            values = array.cast(pa.binary())
            if not text:
                return values
            return _uuid_text(values) if isinstance(kind, ice.UuidType) else pc.utf8_upper(_hex_text(values))
        case ice.TimeType():
            ticks = array.cast(pa.int64())
            return pc.strftime(ticks.cast(pa.timestamp("us")), "%H:%M:%S") if text else ticks
        case ice.TimestampNsType() | ice.TimestamptzNsType():
            ticks = array.cast(pa.int64())
            return ticks if isinstance(target, delta.LongType) else _floor_to_micros(ticks).cast(arrow_type(target))
        case _:
            return array


def _floor_to_micros(ticks: pa.Array) -> pa.Array:
    quotient = pc.divide(ticks, 1000)
    return pc.subtract(quotient, pc.if_else(pc.less(ticks, pc.multiply(quotient, 1000)), 1, 0))


def _hex_text(values: pa.Array) -> pa.Array:
    """Lower-case hexadecimal of binary values."""
    offsets = np.frombuffer(values.buffers()[1], np.int32)[values.offset : values.offset + len(values) + 1]
    data = values.buffers()[2]
    octets = np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]] if data is not None else np.zeros(0, np.uint8)
    digits = np.empty(2 * len(octets), np.uint8)
    digits[0::2], digits[1::2] = _HEX[octets >> 4], _HEX[octets & 15]
    ends = (2 * (offsets - offsets[0])).astype(np.int32)
    validity = pc.is_valid(values).buffers()[1] if values.null_count else None
    return pa.Array.from_buffers(pa.string(), len(values), [validity, pa.py_buffer(ends), pa.py_buffer(digits)])


def _uuid_text(values: pa.Array) -> pa.Array:
    text = _hex_text(values)
    cuts = (0, *_UUID_DASHES, 32)
    parts = [pc.utf8_slice_codeunits(text, start, stop) for start, stop in itertools.pairwise(cuts)]
    return pc.binary_join_element_wise(*parts, "-")
