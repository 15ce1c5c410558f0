"""File statistics both ways, column-wise.

Delta: "Per-file Statistics" (bounds tight or wide, timestamps cut to milliseconds). Iceberg: "Data File Fields"
(bounds are bounds, counts are counts). Nothing is invented: a count that is not known stays absent.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.datafile.parquet.column_metrics import LeafMetrics
from deltaberg.datafile.parquet.parquet_writer import WrittenFiles
from deltaberg.delta.schema import types as delta
from deltaberg.delta.schema.types import arrow_type as delta_arrow_type
from deltaberg.iceberg.manifest.bound_truncation import (
    truncate_lower_bytes,
    truncate_lower_text,
    truncate_upper_bytes,
    truncate_upper_text,
)
from deltaberg.iceberg.manifest.metrics import metric, metric_map
from deltaberg.iceberg.schema import types as ice
from deltaberg.iceberg.schema.single_value import decode_bounds, encode_bounds
from deltaberg.iceberg.schema.types import arrow_type as iceberg_arrow_type
from deltaberg.translate.decimal_bounds import safe_lower, safe_upper
from deltaberg.translate.field_ids import Path
from deltaberg.translate.schema import LeafPair
from deltaberg.translate.struct_members import StructMembers

_MILLISECOND_US = 1_000
_INT64_MAX = 2**63 - 1
_BOUND_LENGTH = 32
"""Code points or bytes that bounds of written files keep."""

_UNBOUNDED_IN_ICEBERG = (ice.VariantType, ice.UnknownType, ice.GeometryType, ice.GeographyType)
_BOUNDED_IN_DELTA = (
    delta.ByteType,
    delta.ShortType,
    delta.IntegerType,
    delta.LongType,
    delta.FloatType,
    delta.DoubleType,
    delta.DecimalType,
    delta.StringType,
    delta.DateType,
    delta.TimestampType,
    delta.TimestampNtzType,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class IcebergMetrics:
    """The metric columns of a batch of data files; maps by field id."""

    value_counts: pa.MapArray
    null_value_counts: pa.MapArray
    nan_value_counts: pa.MapArray | None = None
    lower_bounds: pa.MapArray
    upper_bounds: pa.MapArray


def delta_to_iceberg_metrics(
    stats: pa.StructArray, leaves: Iterable[LeafPair], *, record_counts: pa.Array
) -> IcebergMetrics:
    """Metrics of a batch of ``add.stats`` (ADD_SCHEMA), for the leaves given.

    record_counts: physical rows of each file, int64. NaN counts are not known to Delta and stay absent.
    Bounds that contradict each other (lower above upper) are left out, as is a null count that exceeds the rows.
    """
    rows = len(stats)
    members = StructMembers(stats)
    tight = members.at(("tight_bounds",))
    tight = None if tight is None else pc.fill_null(tight, True)
    values: dict[int, pa.Array] = {}
    nulls: dict[int, pa.Array] = {}
    lowers: dict[int, pa.Array] = {}
    uppers: dict[int, pa.Array] = {}
    for leaf in leaves:
        if leaf.in_collection:
            continue  # such a leaf has as many values as there are elements, which are not counted
        values[leaf.field_id] = record_counts
        null_count = members.at(("null_count", *leaf.path))
        if null_count is not None:
            nulls[leaf.field_id] = _exact_null_counts(null_count, tight, record_counts)
        if isinstance(leaf.iceberg, _UNBOUNDED_IN_ICEBERG) or _collated(leaf):
            continue
        lower, upper = _ordered(
            _lower_to_iceberg(members.at(("min_values", *leaf.path)), leaf.iceberg),
            _upper_to_iceberg(members.at(("max_values", *leaf.path)), leaf.iceberg),
        )
        for bound, columns in ((lower, lowers), (upper, uppers)):
            if bound is not None and bound.null_count < rows:
                columns[leaf.field_id] = encode_bounds(bound, leaf.iceberg)
    return IcebergMetrics(
        value_counts=metric_map(values, length=rows),
        null_value_counts=metric_map(nulls, length=rows),
        lower_bounds=_bound_map(lowers, rows),
        upper_bounds=_bound_map(uppers, rows),
    )


def iceberg_to_delta_stats(batch: pa.RecordBatch, leaves: Iterable[LeafPair]) -> pa.StructArray:
    """``add.stats`` (ADD_SCHEMA) of a batch of data files (DATA_FILE_SCHEMA), for the leaves given.

    ``tight_bounds`` is false throughout: Iceberg's bounds need not be values that occur, and Delta's readers may
    answer MIN and MAX from tight ones. NaN counts as greater than every number in Delta's readers, so a float column
    has a maximum only where it is known to hold no NaN.
    """
    rows = batch.num_rows
    count = batch.column("record_count")
    minima: dict[Path, pa.Array] = {}
    maxima: dict[Path, pa.Array] = {}
    nulls: dict[Path, pa.Array] = {}
    for leaf in leaves:
        if leaf.in_collection or leaf.mapped:
            continue
        null_count = metric(batch.column("null_value_counts"), leaf.field_id)
        if null_count.null_count < rows:
            nulls[leaf.path] = _within(null_count, count)
        if not isinstance(leaf.delta, _BOUNDED_IN_DELTA):
            continue
        lower, upper = _ordered(
            decode_bounds(metric(batch.column("lower_bounds"), leaf.field_id), leaf.iceberg),
            decode_bounds(metric(batch.column("upper_bounds"), leaf.field_id), leaf.iceberg),
        )
        if lower is not None and lower.null_count < rows:
            minima[leaf.path] = _lower_to_delta(lower, leaf.delta)
        if upper is not None and upper.null_count < rows:
            nan_count = metric(batch.column("nan_value_counts"), leaf.field_id)
            maxima[leaf.path] = _upper_to_delta(upper, leaf.delta, nan_count)
    return pa.StructArray.from_arrays(
        [
            count,
            pa.repeat(pa.scalar(False), rows),
            _struct_of(minima, rows),
            _struct_of(maxima, rows),
            _struct_of(nulls, rows),
        ],
        names=["num_records", "tight_bounds", "min_values", "max_values", "null_count"],
    )


def written_to_iceberg_metrics(written: WrittenFiles, types: Mapping[int, ice.Type]) -> IcebergMetrics:
    """Metrics of files that deltaberg wrote; the counts and bounds are exact, long texts and bytes are cut.

    types: the Iceberg types of the leaves by field id; leaves without one have no metrics.
    """
    rows = written.files.num_rows
    known = [leaf for leaf in written.leaves if leaf.field_id in types and not leaf.repeated]
    lowers: dict[int, pa.Array] = {}
    uppers: dict[int, pa.Array] = {}
    for leaf in known:
        assert leaf.field_id is not None
        kind = types[leaf.field_id]
        if isinstance(kind, _UNBOUNDED_IN_ICEBERG):
            continue
        lower, upper = _cut(_typed(leaf.lower, kind), _typed(leaf.upper, kind))
        for bound, columns in ((lower, lowers), (upper, uppers)):
            if bound.null_count < rows:
                columns[leaf.field_id] = encode_bounds(bound, kind)
    counts = {name: _counts(known, name) for name in ("value_count", "null_count", "nan_count")}
    return IcebergMetrics(
        value_counts=metric_map(counts["value_count"], length=rows),
        null_value_counts=metric_map(counts["null_count"], length=rows),
        nan_value_counts=metric_map(counts["nan_count"], length=rows),
        lower_bounds=_bound_map(lowers, rows),
        upper_bounds=_bound_map(uppers, rows),
    )


# Towards Iceberg


def _counts(leaves: Sequence[LeafMetrics], name: str) -> dict[int, pa.Array]:
    return {leaf.field_id: getattr(leaf, name) for leaf in leaves if leaf.field_id is not None}


def _cut(lower: pa.Array, upper: pa.Array) -> tuple[pa.Array, pa.Array]:
    if pa.types.is_string(lower.type):
        return truncate_lower_text(lower, _BOUND_LENGTH), truncate_upper_text(upper, _BOUND_LENGTH)
    if pa.types.is_binary(lower.type):
        return truncate_lower_bytes(lower, _BOUND_LENGTH), truncate_upper_bytes(upper, _BOUND_LENGTH)
    return lower, upper


def _exact_null_counts(null_count: pa.Array, tight: pa.Array | None, record_counts: pa.Array) -> pa.Array:
    """With wide bounds only 0 and "all" are meaningful counts (protocol, ``tightBounds``)."""
    null_count = _within(null_count.cast(pa.int64()), record_counts)
    if tight is None:
        return null_count
    exact = pc.or_(tight, pc.or_(pc.equal(null_count, 0), pc.equal(null_count, record_counts)))
    return pc.if_else(exact, null_count, pa.scalar(None, pa.int64()))


def _lower_to_iceberg(bound: pa.Array | None, kind: ice.Type) -> pa.Array | None:
    if bound is None:
        return None
    bound = _typed(bound, kind)
    if pa.types.is_floating(bound.type):
        bound = _without_nan(bound)
        return pc.if_else(pc.equal(bound, 0), pa.scalar(-0.0, bound.type), bound)  # -0.0 < +0.0 in Iceberg only
    return safe_lower(bound) if pa.types.is_decimal(bound.type) else bound


def _upper_to_iceberg(bound: pa.Array | None, kind: ice.Type) -> pa.Array | None:
    if bound is None:
        return None
    bound = _typed(bound, kind)
    if pa.types.is_floating(bound.type):
        bound = _without_nan(bound)
        return pc.if_else(pc.equal(bound, 0), pa.scalar(0.0, bound.type), bound)
    if isinstance(kind, (ice.TimestampType, ice.TimestamptzType)):
        return _end_of_millisecond(bound)
    return safe_upper(bound) if pa.types.is_decimal(bound.type) else bound


def _end_of_millisecond(bound: pa.Array) -> pa.Array:
    """The last microsecond that truncation to milliseconds could have cut off; finer bounds stay as they are."""
    ticks = bound.cast(pa.int64())
    cut = pc.equal(ticks, _floor_to_millisecond(ticks))
    room = pc.less_equal(ticks, _INT64_MAX - _MILLISECOND_US)
    widened = pc.add(ticks, pc.if_else(pc.and_(cut, room), _MILLISECOND_US - 1, 0))
    return widened.cast(bound.type)


def _typed(bound: pa.Array, kind: ice.Type) -> pa.Array:
    target = iceberg_arrow_type(kind)
    return bound if bound.type == target else bound.cast(target)


def _without_nan(bound: pa.Array) -> pa.Array:
    return pc.if_else(pc.is_nan(bound), pa.scalar(None, bound.type), bound)


def _collated(leaf: LeafPair) -> bool:
    """Bounds of a collated column may follow the collation's order; Iceberg's follow the bytes."""
    return isinstance(leaf.delta, delta.StringType) and leaf.delta.collation is not None


def _bound_map(columns: Mapping[int, pa.Array], rows: int) -> pa.MapArray:
    if columns:
        return metric_map({field_id: array.cast(pa.binary()) for field_id, array in columns.items()})
    return pa.MapArray.from_arrays(
        pa.array([0] * (rows + 1), pa.int32()), pa.array([], pa.int32()), pa.array([], pa.binary())
    )


# Towards Delta


def _lower_to_delta(bound: pa.Array, kind: delta.DeltaType) -> pa.Array:
    bound = bound if bound.type == delta_arrow_type(kind) else bound.cast(delta_arrow_type(kind))
    if isinstance(kind, (delta.TimestampType, delta.TimestampNtzType)):
        return _floor_to_millisecond(bound.cast(pa.int64())).cast(bound.type)
    return bound


def _upper_to_delta(bound: pa.Array, kind: delta.DeltaType, nan_count: pa.Array) -> pa.Array:
    bound = bound if bound.type == delta_arrow_type(kind) else bound.cast(delta_arrow_type(kind))
    if isinstance(kind, (delta.TimestampType, delta.TimestampNtzType)):
        ticks = bound.cast(pa.int64())
        floor = _floor_to_millisecond(ticks)
        room = pc.less_equal(floor, _INT64_MAX - _MILLISECOND_US)
        up = pc.and_(pc.not_equal(ticks, floor), room)
        return pc.add(floor, pc.if_else(up, _MILLISECOND_US, 0)).cast(bound.type)
    if pa.types.is_floating(bound.type):
        no_nan = pc.fill_null(pc.equal(nan_count, 0), False)
        return pc.if_else(no_nan, bound, pa.scalar(None, bound.type))
    return bound


def _struct_of(columns: Mapping[Path, pa.Array], rows: int, depth: int = 0) -> pa.StructArray:
    """Nested structs from arrays by path; no field where nothing is known."""
    names: list[str] = []
    arrays: list[pa.Array] = []
    for name, below in _grouped(columns, depth):
        leaf = next(iter(below)) if len(below) == 1 else None
        if leaf is not None and len(leaf) == depth + 1:
            arrays.append(below[leaf])
        else:
            arrays.append(_struct_of(below, rows, depth + 1))
        names.append(name)
    if not arrays:
        return pa.array([{}] * rows, pa.struct([]))
    return pa.StructArray.from_arrays(arrays, names=names)


def _grouped(columns: Mapping[Path, pa.Array], depth: int) -> Iterator[tuple[str, dict[Path, pa.Array]]]:
    groups: dict[str, dict[Path, pa.Array]] = {}
    for path, array in columns.items():
        groups.setdefault(path[depth], {})[path] = array
    yield from groups.items()


# Both directions


def _floor_to_millisecond(ticks: pa.Array) -> pa.Array:
    """Rounded towards minus infinity; integer division in Arrow rounds towards zero."""
    quotient = pc.divide(ticks, _MILLISECOND_US)
    floor = pc.multiply(quotient, _MILLISECOND_US)
    return pc.subtract(floor, pc.if_else(pc.less(ticks, floor), _MILLISECOND_US, 0))


def _within(null_count: pa.Array, record_counts: pa.Array) -> pa.Array:
    """Counts between 0 and the rows of the file; null elsewhere."""
    sound = pc.and_(pc.greater_equal(null_count, 0), pc.less_equal(null_count, record_counts))
    return pc.if_else(pc.fill_null(sound, False), null_count, pa.scalar(None, pa.int64()))


def _ordered(lower: pa.Array | None, upper: pa.Array | None) -> tuple[pa.Array | None, pa.Array | None]:
    """Both bounds, null where the lower is above the upper: one of them is wrong, and which one is unknown."""
    if lower is None or upper is None or lower.type != upper.type:
        return lower, upper
    sound = pc.fill_null(pc.less_equal(lower, upper), True)
    nothing = pa.scalar(None, lower.type)
    return pc.if_else(sound, lower, nothing), pc.if_else(sound, upper, nothing)
