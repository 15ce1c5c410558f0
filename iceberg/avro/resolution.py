"""Matching a writer's Avro schema with the Iceberg type that is wanted: by field id, never by name (Appendix A).

What the schema promotion rules allow between the type a value was written as and the type that is asked for is
converted exactly; anything else is a CorruptMetadata that names the field.
"""

from __future__ import annotations

import uuid

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.iceberg.avro.nested import IgnoringReader, ItemsReader, RecordReader, UnionReader
from deltaberg.iceberg.avro.schema import AvroArray, AvroMap, AvroRecord, AvroScalar, AvroType, AvroUnion
from deltaberg.iceberg.avro.values import (
    BooleanReader,
    BytesReader,
    FixedReader,
    FromBinary,
    FromLongs,
    LongReader,
    NullReader,
    Reader,
)
from deltaberg.iceberg.errors import CorruptMetadata
from deltaberg.iceberg.schema.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    GeographyType,
    GeometryType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampNsType,
    TimestampType,
    TimestamptzNsType,
    TimestamptzType,
    TimeType,
    Type,
    UnknownType,
    UuidType,
    VariantType,
    arrow_type,
    type_name,
)

_DAY_US = 86_400_000_000
# Units in a value of each logical type, relative to what Iceberg stores (microseconds; nanoseconds).
_MICROS: dict[str | None, int] = {
    None: 1,
    "timestamp-micros": 1,
    "local-timestamp-micros": 1,
    "timestamp-millis": 1000,
    "local-timestamp-millis": 1000,
    "date": _DAY_US,
}
_NANOS: dict[str | None, int] = {
    None: 1,
    "timestamp-nanos": 1,
    "local-timestamp-nanos": 1,
    "date": _DAY_US * 1000,
}
_TIMES: dict[str | None, int] = {None: 1, "time-micros": 1, "time-millis": 1000}


def resolve(avro: AvroType, wanted: Type, what: str) -> Reader:
    """The reader of values written as ``avro`` that gives ``arrow_type(wanted)``."""
    if isinstance(avro, AvroUnion):
        return _union(avro, wanted, what)
    if isinstance(avro, AvroScalar) and avro.kind == "null":
        return NullReader(what=what, type=arrow_type(wanted))
    match wanted:
        case StructType():
            if isinstance(avro, AvroRecord):
                return resolve_record(avro, wanted, what)
        case ListType():
            if isinstance(avro, AvroArray) and not avro.is_map:
                _check_id(avro.element_id, wanted.element, what)
                item = resolve(avro.items, wanted.element.type, f"{what}.element")
                return ItemsReader(what=what, item=item, type=arrow_type(wanted))
        case MapType():
            return _map(avro, wanted, what)
        case VariantType():
            if isinstance(avro, AvroRecord):
                return _variant(avro, what)
        case UnknownType():
            # Only null can be stored; the bytes of anything else are stepped over and read as null.
            return IgnoringReader(what=what, inner=skipper(avro, what), type=pa.null())
        case _:
            if isinstance(avro, AvroScalar):
                return _scalar(avro, wanted, what)
    raise _mismatch(avro, wanted, what)


def resolve_record(avro: AvroRecord, wanted: StructType, what: str) -> RecordReader:
    """A record's reader: its fields that carry a wanted id become the struct's, all others are stepped over."""
    slots_by_id = {nested.field_id: slot for slot, nested in enumerate(wanted.fields)}
    readers: list[Reader] = []
    slots: list[int | None] = []
    for written in avro.fields:
        here = f"{what}.{written.name}" if what else written.name
        slot = None if written.field_id is None else slots_by_id.get(written.field_id)
        if slot is None:
            readers.append(skipper(written.type, here))
        elif slot in slots:
            raise CorruptMetadata(
                f"Cannot read Avro field {here}: field id {written.field_id} occurs twice in its record", field=here
            )
        else:
            readers.append(resolve(written.type, wanted.fields[slot].type, here))
        slots.append(slot)
    longs = sum(reader.longs for reader in readers) if all(reader.longs for reader in readers) else 0
    return RecordReader(what=what, fields=tuple(readers), slots=tuple(slots), type=arrow_type(wanted), longs=longs)


def skipper(avro: AvroType, what: str) -> Reader:
    """A reader that steps over values that are not wanted."""
    match avro:
        case AvroRecord():
            fields = tuple(skipper(each.type, f"{what}.{each.name}") for each in avro.fields)
            longs = sum(reader.longs for reader in fields) if all(reader.longs for reader in fields) else 0
            return RecordReader(what=what, fields=fields, slots=(None,) * len(fields), type=pa.struct([]), longs=longs)
        case AvroArray():
            return ItemsReader(what=what, item=skipper(avro.items, what), type=pa.null())
        case AvroMap():
            item = RecordReader(
                what=what,
                fields=(BytesReader(what=what, convert=_same), skipper(avro.values, what)),
                slots=(None, None),
                type=pa.struct([]),
            )
            return ItemsReader(what=what, item=item, type=pa.null())
        case AvroUnion():
            branches = tuple(skipper(each, what) for each in avro.branches)
            return UnionReader(what=what, branches=branches, value=0, type=pa.null())
    match avro.kind:
        case "null":
            return NullReader(what=what, type=pa.null())
        case "boolean":
            return BooleanReader(what=what)
        case "int" | "long" | "enum":
            return LongReader(what=what, convert=pa.array)
        case "float" | "double" | "fixed":
            return FixedReader(what=what, size=_width(avro), convert=_same)
        case _:
            return BytesReader(what=what, convert=_same)


def _union(avro: AvroUnion, wanted: Type, what: str) -> Reader:
    values = [i for i, each in enumerate(avro.branches) if not (isinstance(each, AvroScalar) and each.kind == "null")]
    if len(values) > 1:
        raise _mismatch(avro, wanted, what)
    if not values or isinstance(wanted, UnknownType):
        return IgnoringReader(what=what, inner=skipper(avro, what), type=arrow_type(wanted))
    branches = tuple(
        resolve(each, wanted, what) if i == values[0] else NullReader(what=what, type=pa.null())
        for i, each in enumerate(avro.branches)
    )
    return UnionReader(what=what, branches=branches, value=values[0], type=arrow_type(wanted))


def _map(avro: AvroType, wanted: MapType, what: str) -> Reader:
    pair = StructType(fields=(wanted.key, wanted.value))
    if isinstance(avro, AvroMap) and isinstance(wanted.key.type, StringType):
        _check_id(avro.key_id, wanted.key, what)
        _check_id(avro.value_id, wanted.value, what)
        key = resolve(AvroScalar(kind="string"), wanted.key.type, f"{what}.key")
        value = resolve(avro.values, wanted.value.type, f"{what}.value")
        item = RecordReader(what=what, fields=(key, value), slots=(0, 1), type=arrow_type(pair))
        return ItemsReader(what=what, item=item, type=arrow_type(wanted))
    if isinstance(avro, AvroArray) and isinstance(avro.items, AvroRecord):
        item = resolve_record(avro.items, pair, what)
        if 0 in item.slots and 1 in item.slots:
            return ItemsReader(what=what, item=item, type=arrow_type(wanted))
    raise _mismatch(avro, wanted, what)


def _variant(avro: AvroRecord, what: str) -> Reader:
    """A variant's two fields have no ids: they are the one exception that is matched by name."""
    names = {"metadata": 0, "value": 1}
    slots = tuple(names.get(each.name) for each in avro.fields)
    if sorted(slot for slot in slots if slot is not None) != [0, 1]:
        raise CorruptMetadata(f"Cannot read Avro field {what}: a variant needs metadata and value", field=what)
    fields = tuple(
        skipper(each.type, what) if slot is None else resolve(each.type, BinaryType(), f"{what}.{each.name}")
        for each, slot in zip(avro.fields, slots, strict=True)
    )
    return RecordReader(what=what, fields=fields, slots=slots, type=arrow_type(VariantType()))


def _scalar(avro: AvroScalar, wanted: Type, what: str) -> Reader:
    if avro.kind == "boolean" and isinstance(wanted, BooleanType):
        return BooleanReader(what=what)
    if avro.kind in ("int", "long"):
        convert = _from_longs(avro, wanted)
        if convert is not None:
            return LongReader(what=what, convert=convert)
    elif avro.kind in ("float", "double", "fixed"):
        from_fixed = _from_fixed(avro, wanted)
        if from_fixed is not None:
            return FixedReader(what=what, size=_width(avro), convert=from_fixed)
    elif avro.kind in ("bytes", "string"):
        from_bytes = _from_bytes(avro, wanted)
        if from_bytes is not None:
            return BytesReader(what=what, convert=from_bytes)
    raise _mismatch(avro, wanted, what)


def _from_longs(avro: AvroScalar, wanted: Type) -> FromLongs | None:
    target = arrow_type(wanted)
    match wanted:
        case IntegerType():
            return lambda values: pa.array(values).cast(target)
        case LongType():
            return _longs
        case DateType() if avro.logical in (None, "date"):
            return lambda values: pa.array(values).cast(pa.int32()).view(target)
        case TimeType() if avro.logical in _TIMES:
            return _scaled(_TIMES[avro.logical], target)
        case TimestampType() | TimestamptzType() if avro.logical in _MICROS:
            if avro.logical == "date" and isinstance(wanted, TimestamptzType):
                return None
            return _scaled(_MICROS[avro.logical], target)
        case TimestampNsType() | TimestamptzNsType() if avro.logical in _NANOS:
            if avro.logical == "date" and isinstance(wanted, TimestamptzNsType):
                return None
            return _scaled(_NANOS[avro.logical], target)
    return None


def _scaled(factor: int, target: pa.DataType) -> FromLongs:
    def convert(values: npt.NDArray[np.int64]) -> pa.Array:
        longs = pa.array(values)
        return (longs if factor == 1 else pc.multiply_checked(longs, factor)).view(target)

    return convert


def _from_fixed(avro: AvroScalar, wanted: Type) -> FromBinary | None:
    match wanted:
        case FloatType() if avro.kind == "float":
            return lambda values: values.view(pa.float32())
        case DoubleType() if avro.kind == "double":
            return lambda values: values.view(pa.float64())
        case DoubleType() if avro.kind == "float":
            return lambda values: values.view(pa.float32()).cast(pa.float64())
    if avro.kind != "fixed":
        return None
    match wanted:
        case FixedType() if wanted.length == avro.size:
            return _same
        case UuidType() if avro.size == 16:
            return _same
        case BinaryType() | GeometryType() | GeographyType():
            return lambda values: values.cast(pa.binary())
        case DecimalType() if avro.size and (avro.logical != "decimal" or avro.scale == wanted.scale):
            return lambda values: _decimals(values.cast(pa.binary()), wanted)
    return None


def _from_bytes(avro: AvroScalar, wanted: Type) -> FromBinary | None:
    match wanted:
        case StringType():
            return lambda values: values.cast(pa.string())
        case BinaryType() | GeometryType() | GeographyType():
            return _same
        case FixedType() if avro.kind == "bytes":
            return lambda values: values.cast(pa.binary(wanted.length))
        case UuidType() if avro.kind == "bytes":
            return lambda values: values.cast(pa.binary(16))
        case UuidType() if avro.logical == "uuid":
            return _uuids
        case DecimalType() if avro.kind == "bytes" and (avro.logical != "decimal" or avro.scale == wanted.scale):
            return lambda values: _decimals(values, wanted)
    return None


def _decimals(values: pa.BinaryArray, wanted: DecimalType) -> pa.Array:
    """Unscaled two's-complement big-endian integers of any width as decimals."""
    sizes = pc.binary_length(values).to_numpy(zero_copy_only=False).astype(np.int64)
    ends = np.cumsum(sizes)
    content = np.frombuffer(b"".join(values.to_pylist()), dtype=np.uint8)
    if len(sizes) and int(sizes.min()) == 0:
        raise pa.ArrowInvalid("a decimal has no bytes")
    width = max(16, int(sizes.max(initial=16)))
    first = content[ends - sizes] if len(sizes) else content
    cells = np.repeat(np.where(first >= 0x80, 0xFF, 0).astype(np.uint8), width).reshape(len(sizes), width)
    # Column k counts from the last byte, so cells come out little-endian.
    column = np.arange(width)
    stored = column[None, :] < sizes[:, None]
    rows, columns = np.nonzero(stored)
    cells[rows, columns] = content[ends[rows] - 1 - columns]
    if width > 16 and not bool((cells[:, 16:] == np.where(cells[:, 15:16] >= 0x80, 0xFF, 0)).all()):
        raise pa.ArrowInvalid("a decimal exceeds 16 bytes")
    low = np.ascontiguousarray(cells[:, :16])
    result = pa.Array.from_buffers(arrow_type(wanted), len(sizes), [None, pa.py_buffer(low)])
    result.validate(full=True)
    return result


def _uuids(values: pa.Array) -> pa.Array:
    try:
        return pa.array([uuid.UUID(text.decode("ascii")).bytes for text in values.to_pylist()], pa.binary(16))
    except ValueError as error:
        raise pa.ArrowInvalid(str(error)) from error


def _longs(values: npt.NDArray[np.int64]) -> pa.Array:
    return pa.array(values)


def _same(values: pa.Array) -> pa.Array:
    return values


def _width(avro: AvroScalar) -> int:
    return {"float": 4, "double": 8}.get(avro.kind, avro.size)


def _check_id(found: int | None, wanted: NestedField, what: str) -> None:
    if found is not None and found != wanted.field_id:
        raise CorruptMetadata(
            f"Cannot read Avro field {what}: its {wanted.name} has field id {found} (expected {wanted.field_id})",
            field=what,
        )


def _mismatch(avro: AvroType, wanted: Type, what: str) -> CorruptMetadata:
    return CorruptMetadata(
        f"Cannot read Avro field {what}: expected {type_name(wanted)}, found {_avro_name(avro)}", field=what
    )


def _avro_name(avro: AvroType) -> str:
    match avro:
        case AvroScalar():
            name = f"{avro.kind}[{avro.size}]" if avro.kind == "fixed" else avro.kind
            return f"{name} ({avro.logical})" if avro.logical else name
        case AvroRecord():
            return "record"
        case AvroArray():
            return "array"
        case AvroMap():
            return "map"
        case AvroUnion():
            return f"union of {', '.join(_avro_name(each) for each in avro.branches)}"


def written_type(avro: AvroType, what: str) -> Type:
    """The Iceberg type that a writer most plainly stored as an Avro scalar (the table in Appendix A, backwards)."""
    if isinstance(avro, AvroUnion):
        values = [each for each in avro.branches if not (isinstance(each, AvroScalar) and each.kind == "null")]
        if len(values) == 1:
            return written_type(values[0], what)
        if not values:
            return UnknownType()
    if isinstance(avro, AvroScalar):
        match avro.kind, avro.logical:
            case "int", "date":
                return DateType()
            case "long", "time-micros":
                return TimeType()
            case "long", "timestamp-micros" | "timestamp-millis":
                return TimestamptzType() if avro.adjust_to_utc else TimestampType()
            case "long", "timestamp-nanos":
                return TimestamptzNsType() if avro.adjust_to_utc else TimestampNsType()
            case "fixed", "uuid":
                return UuidType()
            case "fixed" | "bytes", "decimal":
                return DecimalType(precision=avro.precision, scale=avro.scale)
            case "fixed", _:
                return FixedType(length=avro.size)
            case kind, _ if kind in _PLAIN:
                return _PLAIN[kind]
    raise CorruptMetadata(f"Cannot read Avro field {what}: expected a scalar, found {_avro_name(avro)}", field=what)


_PLAIN: dict[str, Type] = {
    "null": UnknownType(),
    "boolean": BooleanType(),
    "int": IntegerType(),
    "long": LongType(),
    "float": FloatType(),
    "double": DoubleType(),
    "bytes": BinaryType(),
    "string": StringType(),
}
