"""What a target declares: the features of a Delta table, the format version of an Iceberg one.

Delta: "Table Features", "Valid Feature Names". Only what is in use is declared, so that as many readers as possible
can read the table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from deltaberg.delta import types as delta
from deltaberg.delta.protocol import READER_VERSION_WITH_FEATURES, WRITER_VERSION_WITH_FEATURES, Protocol
from deltaberg.delta.table_features import FEATURE_BY_NAME, FeatureKind

_TYPE_FEATURES: tuple[tuple[tuple[type, ...], str], ...] = (
    ((delta.TimestampNtzType,), "timestampNtz"),
    ((delta.VariantType,), "variantType"),
    ((delta.GeometryType, delta.GeographyType), "geospatial"),
)


def schema_features(schema: delta.StructType) -> tuple[str, ...]:
    """The features that the types of a schema need."""
    kinds = {type(kind) for kind in _types(schema)}
    return tuple(feature for types, feature in _TYPE_FEATURES if kinds.intersection(types))


def protocol_of(features: Iterable[str]) -> Protocol:
    """The protocol that declares these features and those they require, and nothing else.

    Reader version 3 only where a feature asks for it: column mapping alone is reader version 2, as Spark writes it.
    """
    names = sorted(_closure(features))
    readers = [name for name in names if FEATURE_BY_NAME[name].kind is FeatureKind.READER_WRITER]
    if not names:
        return Protocol(min_reader_version=1, min_writer_version=2)
    if readers and readers != ["columnMapping"]:
        return Protocol(
            min_reader_version=READER_VERSION_WITH_FEATURES,
            min_writer_version=WRITER_VERSION_WITH_FEATURES,
            reader_features=tuple(readers),
            writer_features=tuple(names),
        )
    return Protocol(
        min_reader_version=2 if readers else 1,
        min_writer_version=WRITER_VERSION_WITH_FEATURES,
        writer_features=tuple(names),
    )


def _closure(features: Iterable[str]) -> set[str]:
    found: set[str] = set()
    pending = list(features)
    while pending:
        name = pending.pop()
        if name not in found:
            found.add(name)
            pending.extend(FEATURE_BY_NAME[name].requires)
    return found


def _types(kind: delta.DeltaType) -> Iterator[delta.DeltaType]:
    yield kind
    match kind:
        case delta.StructType(fields=fields):
            for field in fields:
                yield from _types(field.type)
        case delta.ArrayType(element_type=element):
            yield from _types(element)
        case delta.MapType(key_type=key, value_type=value):
            yield from _types(key)
            yield from _types(value)
