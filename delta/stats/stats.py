"""Per-file statistics as typed columns, from JSON text or from a checkpoint's struct. PROTOCOL "Per-file Statistics".

A bound or count that is missing, malformed or of the wrong kind is null: null always means "unknown", so no reader
can skip a file because of it. Nothing is ever filled in.
"""

from __future__ import annotations

import json
from decimal import Context, Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from deltaberg.delta.schema.partition_values import parse_texts
from deltaberg.delta.schema.type_widening import type_changes
from deltaberg.delta.schema.types import (
    BooleanType,
    ByteType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNtzType,
    TimestampType,
    VariantType,
    arrow_type,
    primitive_type_of,
)
from deltaberg.delta.stats.fast_path.uniform_json import read_uniform_objects

_MANY = 256  # lines from which looking for their layout pays
_EXACT = Context(prec=80)
_COUNT_ROLES = frozenset(("num_records", "null_count"))
_COUNTS = (("num_records", "numRecords"), ("tight_bounds", "tightBounds"))
_NESTED = (("min_values", "minValues"), ("max_values", "maxValues"), ("null_count", "nullCount"))
# Marks bounds of a column that was a float: its old texts are the shortest that tell floats apart, and as a double
# such a text may lie on the wrong side of the float's value.
_FORMER_FLOAT = {b"widened-from": b"float"}
# Tells a quoted number from a text; a private-use character that no statistics begin with.
_NOT_TEXT = "\ue0ff"
_BOUNDED = (
    BooleanType,
    ByteType,
    ShortType,
    IntegerType,
    LongType,
    FloatType,
    DoubleType,
    DecimalType,
    StringType,
    DateType,
    TimestampType,
    TimestampNtzType,
)


def stats_type(physical_schema: StructType, *, exclude: frozenset[str] = frozenset()) -> pa.StructType:
    """The Arrow type of parsed statistics, by physical names; ``exclude`` names partition columns, which have none.

    Bounds exist for numbers, booleans, strings, dates and timestamps, and as the logged text (Z85) for variants.
    """
    data = StructType(fields=tuple(field for field in physical_schema.fields if field.name not in exclude))
    bounds = _bounds_type(data)
    return pa.struct(
        [
            pa.field("num_records", pa.int64()),
            pa.field("tight_bounds", pa.bool_()),
            pa.field("min_values", bounds),
            pa.field("max_values", bounds),
            pa.field("null_count", _counts_type(data)),
        ]
    )


def parse_stats(texts: pa.Array, target: pa.StructType) -> pa.Array:
    """Statistics of ``stats_type`` from a column of JSON texts; null for null and for text that is no JSON object.

    Never raises for what a text holds: three ways of reading, each slower and more forgiving than the one before.
    """
    if len(texts) == 0 or texts.null_count == len(texts):
        return pa.nulls(len(texts), target)
    rows, lines = _object_lines(texts)
    parsed = _parse_typed(lines, target)
    if parsed is None:
        parsed = _parse_as_texts(lines, target)
    if parsed is None:
        parsed = _parse_each(lines, target)
    return parsed if rows is None else parsed.take(rows)


def stats_from_struct(stats: pa.Array, target: pa.StructType) -> pa.Array:
    """Statistics of ``stats_type`` from the column ``stats_parsed`` of a checkpoint."""
    if not pa.types.is_struct(stats.type):
        return pa.nulls(len(stats), target)
    logged = dict((*_COUNTS, *_NESTED))
    columns = [_from_column(_child(stats, logged[field.name]), field, field.name) for field in target]
    return pa.StructArray.from_arrays(
        columns, fields=list(target), mask=pc.is_null(stats) if stats.null_count else None
    )


def _bounds_type(struct: StructType) -> pa.StructType:
    members = []
    for field in struct.fields:
        if isinstance(field.type, StructType):
            inner = _bounds_type(field.type)
            if inner.num_fields:
                members.append(pa.field(field.name, inner))
        elif isinstance(field.type, _BOUNDED):
            note = _FORMER_FLOAT if _was_float(field) else None
            members.append(pa.field(field.name, arrow_type(field.type), metadata=note))
        elif isinstance(field.type, VariantType):
            members.append(pa.field(field.name, pa.string()))
    return pa.struct(members)


def _was_float(field: StructField) -> bool:
    return isinstance(field.type, DoubleType) and any(
        isinstance(change.from_type, FloatType) and not change.field_path for change in type_changes(field)
    )


def _counts_type(struct: StructType) -> pa.StructType:
    return pa.struct(
        [
            pa.field(field.name, _counts_type(field.type) if isinstance(field.type, StructType) else pa.int64())
            for field in struct.fields
        ]
    )


def _object_lines(texts: pa.Array) -> tuple[pa.Array | None, pa.Array]:
    """Which line belongs to each row, None where they are the same, and the texts that could be JSON objects."""
    texts = texts.cast(pa.string())
    empty = pc.equal(texts, "")
    if pc.any(empty, min_count=0).as_py():
        texts = pc.if_else(empty, pa.scalar(None, pa.string()), texts)
    if not pc.all(pc.starts_with(texts, "{"), min_count=0).as_py():
        texts = pc.ascii_trim_whitespace(texts)
    if texts.null_count == 0:
        return None, texts
    valid = pc.is_valid(texts).to_numpy(zero_copy_only=False)
    rows = pa.array(np.cumsum(valid) - 1, mask=~valid)
    return rows, texts.drop_null()


def _parse_typed(lines: pa.Array, target: pa.StructType) -> pa.Array | None:
    """All lines at once with the kinds of values that engines write; None when one of them has another kind."""
    read_as = _as_logged(_as_read(target))
    parsed = None
    if len(lines) >= _MANY:
        parsed = read_uniform_objects(lines, read_as, lambda others: _read_objects(others, read_as))
    if parsed is None:
        parsed = _read_objects(lines, read_as)
    return None if parsed is None else _convert(parsed, target)


def _parse_as_texts(lines: pa.Array, target: pa.StructType) -> pa.Array | None:
    """All lines at once after putting every number and boolean in quotes; None when a value is no scalar."""
    # A number follows a key, so a quote and a colon; inside a string that quote would be escaped.
    quoted = lines
    for _ in range(2):  # neighbours share a comma, which one match consumes
        quoted = pc.replace_substring_regex(
            quoted,
            pattern=r'([^\\]":\s*)(-?[0-9][0-9.eE+\-]*|true|false|NaN|-?Infinity)(\s*[,}])',
            replacement=rf'\1"{_NOT_TEXT}\2"\3',
        )
    parsed = _read_objects(quoted, _as_logged(_as_texts(target)))
    return None if parsed is None else _convert(parsed, target, marked=True)


def _parse_each(lines: pa.Array, target: pa.StructType) -> pa.Array:
    """Line by line; a value of another kind than expected is null."""
    rows = [_object_of(line) for line in lines.cast(pa.binary()).to_pylist()]
    texts = _as_logged(_as_texts(target))
    columns = [_text_column(rows, field, field.name) for field in texts]
    mask = pa.array([row is None for row in rows], pa.bool_())
    return _convert(pa.StructArray.from_arrays(columns, fields=list(texts), mask=mask), target, marked=True)


def _object_of(line: bytes) -> dict[str, object] | None:
    try:
        value = json.loads(line, parse_float=_mark, parse_int=_mark, parse_constant=_mark)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _mark(number: str) -> str:
    return _NOT_TEXT + number


def _text_column(rows: list[dict[str, object] | None], field: pa.Field, key: str) -> pa.Array:
    values = [None if row is None else row.get(key) for row in rows]
    if pa.types.is_struct(field.type):
        inner = [value if isinstance(value, dict) else None for value in values]
        columns = [_text_column(inner, member, member.name) for member in field.type]
        mask = pa.array([value is None for value in inner], pa.bool_())
        return pa.StructArray.from_arrays(columns, fields=list(field.type), mask=mask)
    return pa.array([_text_of(value) for value in values], pa.string())


def _text_of(value: object) -> str | None:
    if isinstance(value, bool):
        return _mark("true" if value else "false")
    if not isinstance(value, str):
        return None
    # Half of a surrogate pair is no text.
    return value if value.isascii() or value.encode(errors="ignore").decode() == value else None


def _read_objects(lines: pa.Array, read_as: pa.StructType) -> pa.Array | None:
    """One struct for each line, or None where Arrow cannot read them or finds another number of objects."""
    # With every line a brace-to-brace text, as many objects as lines can only be one object a line.
    if not pc.all(pc.and_(pc.starts_with(lines, "{"), pc.ends_with(lines, "}")), min_count=0).as_py():
        return None
    data = pc.binary_join_element_wise(lines, "\n", "")
    _, offsets, values = data.buffers()
    ends = np.frombuffer(offsets, dtype=np.int32)[data.offset : data.offset + len(data) + 1]
    start, size = int(ends[0]), int(ends[-1] - ends[0])
    try:
        table = pj.read_json(
            pa.BufferReader(values.slice(start, size)),
            read_options=pj.ReadOptions(use_threads=False, block_size=size + 1),
            parse_options=pj.ParseOptions(explicit_schema=pa.schema(list(read_as)), unexpected_field_behavior="ignore"),
        )
        table.validate(full=True)  # the reader lets bytes pass that are not UTF-8
    except pa.ArrowInvalid:
        return None
    if table.num_rows != len(lines):
        return None
    columns = [table.column(field.name).combine_chunks() for field in read_as]
    columns = [each.chunk(0) if isinstance(each, pa.ChunkedArray) else each for each in columns]
    return pa.StructArray.from_arrays(columns, fields=list(read_as))


def _as_logged(stats: pa.StructType) -> pa.StructType:
    """The members under the names that the log uses."""
    names = dict((*_COUNTS, *_NESTED))
    return pa.struct([pa.field(names[field.name], field.type) for field in stats])


def _as_read(target: pa.DataType) -> pa.DataType:
    """The types to pass to Arrow's JSON reader: dates and timestamps as texts, for their many forms.

    The reader takes as many digits as the precision before it moves the point by the scale, and does not check that the
    result still fits; a number that might not fit 128 bits gets 256.
    """
    if pa.types.is_struct(target):
        return pa.struct([pa.field(field.name, _as_read(field.type)) for field in target])
    if pa.types.is_decimal(target) and target.precision + target.scale > pa.decimal128(38).precision:
        return pa.decimal256(target.precision, target.scale)
    return pa.string() if pa.types.is_temporal(target) else target


def _as_texts(target: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(target):
        return pa.struct([pa.field(field.name, _as_texts(field.type)) for field in target])
    return pa.string()


def _convert(column: pa.Array, target: pa.StructType, *, marked: bool = False) -> pa.Array:
    """Statistics as read to their type: texts are parsed, null where they are no value of the type.

    ``marked``: numbers and booleans were made texts that begin with ``_NOT_TEXT``.
    """
    members = [_member(column.field(index), field, field.name, marked=marked) for index, field in enumerate(target)]
    mask = pc.is_null(column) if column.null_count else None
    return pa.StructArray.from_arrays(members, fields=list(target), mask=mask)


def _member(column: pa.Array, field: pa.Field, role: str, *, marked: bool) -> pa.Array:
    """A member at any depth; ``role`` is the top-level member that it belongs to."""
    target = field.type
    if pa.types.is_struct(target):
        members = [_member(column.field(index), child, role, marked=marked) for index, child in enumerate(target)]
        if not members:
            return column
        mask = pc.is_null(column) if column.null_count else None
        return pa.StructArray.from_arrays(members, fields=list(target), mask=mask)
    if marked and pa.types.is_string(target):
        return pc.if_else(pc.starts_with(column, _NOT_TEXT), pa.scalar(None, pa.string()), column)
    if pa.types.is_decimal(column.type):
        column = _fitting(column, target)
    elif column.type != target:
        delta_type = primitive_type_of(target)
        assert delta_type is not None
        column = parse_texts(pc.utf8_ltrim(column, _NOT_TEXT) if marked else column, delta_type)
    elif pa.types.is_float32(target):
        column = _without_overflow(column)
    return _plausible(column, field, role)


def _plausible(column: pa.Array, field: pa.Field, role: str) -> pa.Array:
    """Without negative counts, and with the bounds of former floats widened."""
    if role in _COUNT_ROLES:
        negative = pc.less(column, 0)
        return pc.if_else(negative, pa.scalar(None, column.type), column) if _any(negative) else column
    if field.metadata is not None and field.metadata.items() >= _FORMER_FLOAT.items():
        single = column.cast(pa.float32(), safe=False)
        as_float = pc.if_else(pc.is_finite(single), single.cast(pa.float64()), column)
        widest = pc.min_element_wise if role == "min_values" else pc.max_element_wise
        return pc.if_else(pc.is_finite(column), widest(column, as_float), column)
    return column


def _any(mask: pa.Array) -> bool:
    return bool(pc.any(mask, min_count=0).as_py())


def _fitting(values: pa.Array, target: pa.Decimal128Type) -> pa.Array:
    """Decimals of the precision that their type says; null beyond."""
    largest = pa.scalar(Decimal(10**target.precision - 1).scaleb(-target.scale, _EXACT), values.type)
    beyond = pc.greater(pc.abs(values), largest)
    if _any(beyond):
        values = pc.if_else(beyond, pa.scalar(None, values.type), values)
    return values.cast(target)


def _without_overflow(values: pa.Array) -> pa.Array:
    # A JSON number is never infinite; one that became so is no bound of a float.
    infinite = pc.is_inf(values)
    if not pc.any(infinite, min_count=0).as_py():
        return values
    return pc.if_else(infinite, pa.scalar(None, values.type), values)


def _child(stats: pa.Array, name: str) -> pa.Array:
    index = stats.type.get_field_index(name)
    return stats.field(index) if index >= 0 else pa.nulls(len(stats))


def _from_column(column: pa.Array, field: pa.Field, role: str) -> pa.Array:
    target = field.type
    if pa.types.is_struct(target):
        if not pa.types.is_struct(column.type) or not target.num_fields:
            return pa.nulls(len(column), target)
        members = [_from_column(_child(column, child.name), child, role) for child in target]
        mask = pc.is_null(column) if column.null_count else None
        return pa.StructArray.from_arrays(members, fields=list(target), mask=mask)
    if column.type != target:
        if not _same_kind(column.type, target):
            return pa.nulls(len(column), target)
        try:
            column = column.cast(target)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            return pa.nulls(len(column), target)
    return _plausible(column, field, role)


def _same_kind(found: pa.DataType, target: pa.DataType) -> bool:
    """Whether casting keeps the value: equal kinds, and what type widening allows."""
    for kind in (_is_number, _is_text, _is_day_or_time):
        if kind(found):
            return kind(target)
    return bool(found == target)


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _is_day_or_time(kind: pa.DataType) -> bool:
    return bool(pa.types.is_date(kind) or pa.types.is_timestamp(kind))
