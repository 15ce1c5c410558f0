"""Primitive types both ways; nested types are the schema's business.

Delta: "Primitive Types". Iceberg: "Primitive Types", "Semi-structured Types". Which type a column can be promoted
or widened to stands in ``type_changes``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from deltaberg.delta.schema import types as delta
from deltaberg.iceberg.schema import types as ice


@dataclass(frozen=True, slots=True, kw_only=True)
class TypePair:
    """One row of docs/types.md. ``*`` stands for parameters that are the same on both sides.

    to_iceberg, to_delta: the fate of the type in that direction; empty where the direction does not exist.
    """

    delta: str
    iceberg: str
    to_iceberg: str
    to_delta: str
    note: str = ""


TYPE_PAIRS: Final[tuple[TypePair, ...]] = (
    TypePair(delta="boolean", iceberg="boolean", to_iceberg="carried", to_delta="carried"),
    TypePair(delta="byte", iceberg="int", to_iceberg="widened", to_delta="", note="Parquet holds both as int32"),
    TypePair(delta="short", iceberg="int", to_iceberg="widened", to_delta="", note="Parquet holds both as int32"),
    TypePair(delta="integer", iceberg="int", to_iceberg="carried", to_delta="carried"),
    TypePair(delta="long", iceberg="long", to_iceberg="carried", to_delta="carried"),
    TypePair(delta="float", iceberg="float", to_iceberg="carried", to_delta="carried"),
    TypePair(delta="double", iceberg="double", to_iceberg="carried", to_delta="carried"),
    TypePair(delta="decimal(*)", iceberg="decimal(*)", to_iceberg="carried", to_delta="carried"),
    TypePair(
        delta="string",
        iceberg="string",
        to_iceberg="carried",
        to_delta="carried",
        note="collations, char and varchar lengths are recorded in properties",
    ),
    TypePair(delta="binary", iceberg="binary", to_iceberg="carried", to_delta="carried"),
    TypePair(delta="date", iceberg="date", to_iceberg="carried", to_delta="carried"),
    TypePair(
        delta="timestamp",
        iceberg="timestamptz",
        to_iceberg="carried",
        to_delta="carried",
        note="INT96 files: shared where every value is between 1677 and 2262, else rewritten",
    ),
    TypePair(
        delta="timestamp_ntz",
        iceberg="timestamp",
        to_iceberg="carried",
        to_delta="carried",
        note="Delta feature timestampNtz",
    ),
    TypePair(
        delta="variant",
        iceberg="variant",
        to_iceberg="carried, version 3",
        to_delta="carried",
        note="Delta feature variantType; shredded files are shared",
    ),
    TypePair(
        delta="geometry(*)",
        iceberg="geometry(*)",
        to_iceberg="carried, version 3",
        to_delta="carried",
        note="Delta feature geospatial",
    ),
    TypePair(
        delta="geography(*)",
        iceberg="geography(*)",
        to_iceberg="carried, version 3",
        to_delta="carried",
        note="Delta feature geospatial",
    ),
    TypePair(
        delta="void",
        iceberg="unknown",
        to_iceberg="carried, version 3; below: left out",
        to_delta="carried",
        note="not stored in data files by either",
    ),
    TypePair(delta="interval", iceberg="", to_iceberg="refused", to_delta=""),
    TypePair(delta="", iceberg="time", to_iceberg="", to_delta="refused, or rewritten as asked for (--map time=long)"),
    TypePair(
        delta="", iceberg="uuid", to_iceberg="", to_delta="refused, or rewritten as asked for (--map uuid=string)"
    ),
    TypePair(
        delta="", iceberg="fixed(*)", to_iceberg="", to_delta="refused, or rewritten as asked for (--map fixed=binary)"
    ),
    TypePair(
        delta="",
        iceberg="timestamp_ns",
        to_iceberg="",
        to_delta="refused, or rewritten as asked for (--map timestamp_ns=timestamp_ntz)",
        note="cut to microseconds, downwards",
    ),
    TypePair(
        delta="",
        iceberg="timestamptz_ns",
        to_iceberg="",
        to_delta="refused, or rewritten as asked for (--map timestamptz_ns=timestamp)",
        note="cut to microseconds, downwards",
    ),
)

_TO_ICEBERG: Final[Mapping[type, ice.Type]] = {
    delta.BooleanType: ice.BooleanType(),
    delta.ByteType: ice.IntegerType(),
    delta.ShortType: ice.IntegerType(),
    delta.IntegerType: ice.IntegerType(),
    delta.LongType: ice.LongType(),
    delta.FloatType: ice.FloatType(),
    delta.DoubleType: ice.DoubleType(),
    delta.StringType: ice.StringType(),
    delta.BinaryType: ice.BinaryType(),
    delta.DateType: ice.DateType(),
    delta.TimestampType: ice.TimestamptzType(),
    delta.TimestampNtzType: ice.TimestampType(),
    delta.VariantType: ice.VariantType(),
    delta.VoidType: ice.UnknownType(),
}

_TO_DELTA: Final[Mapping[type, delta.DeltaType]] = {
    ice.BooleanType: delta.BooleanType(),
    ice.IntegerType: delta.IntegerType(),
    ice.LongType: delta.LongType(),
    ice.FloatType: delta.FloatType(),
    ice.DoubleType: delta.DoubleType(),
    ice.StringType: delta.StringType(),
    ice.BinaryType: delta.BinaryType(),
    ice.DateType: delta.DateType(),
    ice.TimestamptzType: delta.TimestampType(),
    ice.TimestampType: delta.TimestampNtzType(),
    ice.VariantType: delta.VariantType(),
    ice.UnknownType: delta.VoidType(),
}

TYPE_MAPPINGS: Final[Mapping[str, Mapping[str, delta.DeltaType]]] = {
    "uuid": {"string": delta.StringType(), "binary": delta.BinaryType()},
    "fixed": {"binary": delta.BinaryType(), "string": delta.StringType()},
    "time": {"long": delta.LongType(), "string": delta.StringType()},
    "timestamp_ns": {"timestamp_ntz": delta.TimestampNtzType(), "long": delta.LongType()},
    "timestamptz_ns": {"timestamp": delta.TimestampType(), "long": delta.LongType()},
}
"""The pairs that ``--map`` accepts: Iceberg type name to the Delta types that can stand for it."""

_MAPPABLE: Final[Mapping[type, str]] = {
    ice.UuidType: "uuid",
    ice.FixedType: "fixed",
    ice.TimeType: "time",
    ice.TimestampNsType: "timestamp_ns",
    ice.TimestamptzNsType: "timestamptz_ns",
}


def delta_to_iceberg_type(kind: delta.DeltaType) -> ice.Type | None:
    """The Iceberg type that holds every value of a Delta primitive; None where there is none."""
    match kind:
        case delta.DecimalType(precision=precision, scale=scale):
            return ice.DecimalType(precision=precision, scale=scale)
        case delta.GeometryType(crs=crs):
            return ice.GeometryType(crs=crs)
        case delta.GeographyType(crs=crs, algorithm=algorithm):
            return ice.GeographyType(crs=crs, algorithm=algorithm.lower())
        case _:
            return _TO_ICEBERG.get(type(kind))


def iceberg_to_delta_type(kind: ice.Type) -> delta.DeltaType | None:
    """The Delta type that holds every value of an Iceberg primitive in the same physical form; None where none does."""
    match kind:
        case ice.DecimalType(precision=precision, scale=scale):
            return delta.DecimalType(precision=precision, scale=scale)
        case ice.GeometryType(crs=crs):
            return delta.GeometryType(crs=crs)
        case ice.GeographyType(crs=crs, algorithm=algorithm):
            return delta.GeographyType(crs=crs, algorithm=algorithm.upper())
        case _:
            return _TO_DELTA.get(type(kind))


def mappable_name(kind: ice.Type) -> str | None:
    """The name by which ``--map`` speaks of an Iceberg type that Delta lacks; None for every other type."""
    return _MAPPABLE.get(type(kind))
