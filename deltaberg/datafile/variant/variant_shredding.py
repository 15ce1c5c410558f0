"""Shredded Variants put together again (Variant Shredding).

A Variant group may hold, beside ``metadata`` and ``value``, a ``typed_value``: a primitive, a list whose elements are
such groups, or a struct of such groups. Where ``typed_value`` is null the Variant is in ``value``; where both are
there, ``value`` holds the fields of an object that ``typed_value`` does not.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from deltaberg.datafile.errors import DataFileError
from deltaberg.datafile.variant.variant_metadata import field_ids, field_names, malformed, unsigned

NULL_VALUE = b"\x00"
Values = list[bytes | None]


def unshredded(metadata: pa.Array, value: pa.Array | None, typed_value: pa.Array | None) -> pa.Array:
    """The whole ``value`` of each Variant as a binary array; a missing one is the Variant null.

    Raises DataFileError for shredding that the specification forbids or types that it does not have.
    """
    if typed_value is None:
        if value is None:
            raise malformed("its group has neither value nor typed_value")
        return value.fill_null(NULL_VALUE)
    dictionaries = metadata.to_pylist()
    values = _group(dictionaries, value, typed_value)
    return pa.array([NULL_VALUE if data is None else data for data in values], pa.binary())


def _group(dictionaries: Values, value: pa.Array | None, typed_value: pa.Array | None) -> Values:
    """One group: per row its encoded value, None where it is missing."""
    rest: Values = [None] * len(dictionaries) if value is None else value.to_pylist()
    if typed_value is None:
        return rest
    kind = typed_value.type
    if pt.is_struct(kind):
        return _objects(dictionaries, rest, typed_value)
    typed = _arrays(dictionaries, typed_value) if pt.is_list(kind) else _primitives(typed_value)
    result: Values = []
    for whole, part in zip(rest, typed, strict=True):
        if whole is not None and part is not None:
            raise malformed("both value and typed_value are there, and it is no object")
        result.append(part if whole is None else whole)
    return result


def _members(array: pa.Array) -> tuple[pa.Array | None, pa.Array | None]:
    """The value and typed_value of a struct array of groups, found by name."""
    names = [field.name for field in array.type]
    if not set(names) <= {"value", "typed_value"} or len(set(names)) != len(names) or not names:
        raise malformed(f"a shredded group has the fields {names} (expected value and typed_value)")
    parts = dict(zip(names, array.flatten(), strict=True))
    return parts.get("value"), parts.get("typed_value")


def _arrays(dictionaries: Values, typed_value: pa.Array) -> Values:
    offsets = typed_value.offsets.to_numpy(zero_copy_only=False).astype(np.int64)
    elements = typed_value.values
    if not pt.is_struct(elements.type):
        raise malformed(f"the elements of a shredded array are {elements.type} (expected groups)")
    rows = np.repeat(np.arange(len(dictionaries)), np.diff(offsets)).tolist()
    first, last = int(offsets[0]), int(offsets[-1])
    inside = elements.slice(first, last - first)
    values = _group([dictionaries[row] for row in rows], *_members(inside))
    bounds = (offsets - first).tolist()
    valid = typed_value.is_valid().to_pylist()
    return [
        _encode_array([NULL_VALUE if item is None else item for item in values[start:end]]) if present else None
        for start, end, present in zip(bounds, bounds[1:], valid, strict=False)
    ]


def _objects(dictionaries: Values, rest: Values, typed_value: pa.Array) -> Values:
    names = [field.name for field in typed_value.type]
    if len(set(names)) != len(names):
        raise malformed("a shredded object has a field twice")
    columns = []
    for name, group in zip(names, typed_value.flatten(), strict=True):
        if not pt.is_struct(group.type):
            raise malformed(f"the shredded field {name!r} is {group.type} (expected a group)")
        columns.append(_group(dictionaries, *_members(group)))
    valid = typed_value.is_valid().to_pylist()
    result: Values = []
    for row, present in enumerate(valid):
        whole, metadata = rest[row], dictionaries[row]
        if not present:
            result.append(whole)
            continue
        fields = {} if whole is None else _object_fields(metadata, whole)
        for name, column in zip(names, columns, strict=True):
            item = column[row]
            if item is not None:
                if name in fields:
                    raise malformed(f"the field {name!r} is both in value and in typed_value")
                fields[name] = item
        result.append(_encode_object(metadata, fields))
    return result


def _object_fields(metadata: bytes | None, value: bytes) -> dict[str, bytes]:
    """The fields of an encoded object, still encoded."""
    if not value or value[0] & 3 != 2:
        raise malformed("both value and typed_value are there, and value is no object")
    detail = value[0] >> 2
    offset_width, id_width = (detail & 3) + 1, ((detail >> 2) & 3) + 1
    start = 1 + (4 if detail >> 4 & 1 else 1)
    size = int.from_bytes(value[1:start], "little")
    offsets_start = start + size * id_width
    first = offsets_start + (size + 1) * offset_width
    if first > len(value):
        raise malformed(f"an object has {len(value)} bytes (expected {size} fields)")
    offsets = unsigned(value, offsets_start, size + 1, offset_width)
    if len(set(offsets[:-1])) < size:
        raise malformed("its values overlap")
    names = field_names(metadata or b"")
    fields: dict[str, bytes] = {}
    ends = dict(zip(sorted(offsets), [*sorted(offsets)[1:], offsets[-1]], strict=True))
    for number, offset in zip(unsigned(value, start, size, id_width), offsets, strict=False):
        if number >= len(names) or first + offset >= len(value) or names[number] in fields:
            raise malformed("the fields of an object repeat or lead outside it")
        fields[names[number]] = value[first + offset : first + ends[offset]]
    return fields


def _encode_object(metadata: bytes | None, fields: dict[str, bytes]) -> bytes:
    ids = field_ids(metadata or b"")
    names = sorted(fields, key=str.encode)
    missing = [name for name in names if name not in ids]
    if missing:
        raise malformed(f"the shredded field {missing[0]!r} is not in its metadata")
    numbers = [ids[name] for name in names]
    id_width = _width(max(numbers, default=0))
    content = [fields[name] for name in names]
    large, offsets, offset_width = _layout(content)
    header = 2 | (offset_width - 1) << 2 | (id_width - 1) << 4 | large << 6
    return b"".join(
        (
            bytes((header,)),
            len(names).to_bytes(4 if large else 1, "little"),
            *(number.to_bytes(id_width, "little") for number in numbers),
            offsets,
            *content,
        )
    )


def _encode_array(content: list[bytes]) -> bytes:
    large, offsets, offset_width = _layout(content)
    header = 3 | (offset_width - 1) << 2 | large << 4
    return b"".join((bytes((header,)), len(content).to_bytes(4 if large else 1, "little"), offsets, *content))


def _layout(content: list[bytes]) -> tuple[int, bytes, int]:
    """Whether the count needs 4 bytes, the encoded offsets, and the bytes of each."""
    offsets = [0]
    for item in content:
        offsets.append(offsets[-1] + len(item))
    width = _width(offsets[-1])
    return int(len(content) > 255), b"".join(offset.to_bytes(width, "little") for offset in offsets), width


def _width(number: int) -> int:
    return max(1, (number.bit_length() + 7) // 8)


def _primitives(array: pa.Array) -> Values:
    """A primitive column, each value encoded in the Variant type that stands for the column's."""
    kind = array.type
    if pt.is_boolean(kind):
        return [None if item is None else b"\x04" if item else b"\x08" for item in array.to_pylist()]
    if pt.is_string(kind):
        return [None if item is None else _encode_string(item) for item in array.cast(pa.binary()).to_pylist()]
    if pt.is_binary(kind):
        return [None if item is None else _sized(15, item) for item in array.to_pylist()]
    if pt.is_fixed_size_binary(kind) and kind.byte_width == 16 and not pt.is_decimal(kind):
        return [None if item is None else b"\x50" + item for item in array.to_pylist()]
    if pt.is_decimal128(kind):
        return _decimals(array)
    number = _fixed_type_id(kind)
    if number is None:
        raise DataFileError(f"Cannot read a Variant: it is shredded as {kind}, which the specification does not list")
    return _fixed(array, number)


def _fixed_type_id(kind: pa.DataType) -> int | None:
    simple: tuple[tuple[Callable[[pa.DataType], bool], int], ...] = (
        (pt.is_int8, 3),
        (pt.is_int16, 4),
        (pt.is_int32, 5),
        (pt.is_int64, 6),
        (pt.is_float64, 7),
        (pt.is_date32, 11),
        (pt.is_float32, 14),
    )
    for test, number in simple:
        if test(kind):
            return number
    if pt.is_time64(kind) and kind.unit == "us":
        return 17
    if pt.is_timestamp(kind) and kind.unit in ("us", "ns"):
        return (12 if kind.tz else 13) if kind.unit == "us" else (18 if kind.tz else 19)
    return None


def _fixed(array: pa.Array, number: int) -> Values:
    width = array.type.bit_width // 8
    return _prefixed(array, bytes((number << 2,)), width, width)


def _decimals(array: pa.Array) -> Values:
    precision, scale = array.type.precision, array.type.scale
    number, width = (8, 4) if precision <= 9 else (9, 8) if precision <= 18 else (10, 16)
    # Arrow holds 16 bytes, little-endian; the low ones are the shorter decimal.
    return _prefixed(array, bytes((number << 2, scale)), width, 16)


def _prefixed(array: pa.Array, header: bytes, width: int, stride: int) -> Values:
    """The first ``width`` bytes of each value of ``stride`` bytes, after a header."""
    content = array.buffers()[1]
    data = b"" if content is None else content.to_pybytes()
    starts = range(array.offset * stride, (array.offset + len(array)) * stride, stride)
    return [
        header + data[start : start + width] if present else None
        for start, present in zip(starts, array.is_valid().to_pylist(), strict=True)
    ]


def _encode_string(data: bytes) -> bytes:
    return bytes((len(data) << 2 | 1,)) + data if len(data) < 64 else _sized(16, data)


def _sized(number: int, data: bytes) -> bytes:
    return bytes((number << 2,)) + len(data).to_bytes(4, "little") + data
