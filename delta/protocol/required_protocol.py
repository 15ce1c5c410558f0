"""Which table features a table's metadata calls for, and the protocol that declares just those.

PROTOCOL "Table Features for New and Existing Tables": a new table lists what it uses; an existing one keeps what it
had, because some earlier version may use it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from deltaberg.delta.errors import InvalidDeltaRequest
from deltaberg.delta.log.actions import Metadata
from deltaberg.delta.protocol.protocol import Protocol
from deltaberg.delta.protocol.table_features import FEATURE_BY_NAME, FEATURES, FeatureKind, legacy_features
from deltaberg.delta.schema.column_mapping import PHYSICAL_NAME
from deltaberg.delta.schema.schema import walk_fields
from deltaberg.delta.schema.types import (
    ArrayType,
    DeltaType,
    GeographyType,
    GeometryType,
    MapType,
    StringType,
    StructType,
    TimestampNtzType,
    VariantType,
)

_LEGACY_WRITER = frozenset(("appendOnly", "invariants"))
_FIELD_METADATA = (
    ("delta.invariants", "invariants"),
    ("delta.generationExpression", "generatedColumns"),
    ("delta.identity.start", "identityColumns"),
    ("CURRENT_DEFAULT", "allowColumnDefaults"),
    ("delta.typeChanges", "typeWidening"),
)
_DOMAINS = {"delta.clustering": "clustering", "delta.rowTracking": "rowTracking"}


def features_in_use(metadata: Metadata, *, domains: Iterable[str] = ()) -> frozenset[str]:
    """The features that schema, properties and metadata domains use, with those that they require in turn."""
    names = set(_used(metadata, tuple(domains)))
    pending = list(names)
    while pending:
        for required in FEATURE_BY_NAME[pending.pop()].requires:
            if required not in names:
                names.add(required)
                pending.append(required)
    return frozenset(names)


def has_other_names(schema: StructType) -> bool:
    """Whether some column of a mapped schema has another name in the data files than for its readers."""
    return any(field.metadata.get(PHYSICAL_NAME, field.name) != field.name for _, field in walk_fields(schema))


def protocol_of_new_table(metadata: Metadata, features: Iterable[str] = (), *, by_name: bool = False) -> Protocol:
    """The protocol of a new table: the features of its metadata, and ``features``, which the metadata need not show.

    by_name: as in ``new_protocol``; also true where column mapping gives a column another name in the files.
    """
    mapped = metadata.properties.column_mapping_mode != "none" and has_other_names(metadata.schema)
    return new_protocol({*features_in_use(metadata), *features}, by_name=by_name or mapped)


def new_protocol(features: Iterable[str], *, by_name: bool = False) -> Protocol:
    """The protocol of a new table that supports exactly these features.

    Column mapping alone stays on reader version 2, as the reference implementation has it, because more readers know
    that. by_name: reader version 3, which lists it: some readers take version 2 for one that they know and find columns
    by their present names all the same (delta-rs's ``to_pandas``), but stop at a listed feature that they do not know.
    Raises InvalidDeltaRequest for a feature that does not exist.
    """
    names = _ordered(features)
    readers = tuple(name for name in names if FEATURE_BY_NAME[name].kind is FeatureKind.READER_WRITER)
    if set(names) <= _LEGACY_WRITER:
        return Protocol(min_reader_version=1, min_writer_version=2)
    if not readers:
        return Protocol(min_reader_version=1, min_writer_version=7, writer_features=names)
    if readers == ("columnMapping",) and not by_name:
        return Protocol(min_reader_version=2, min_writer_version=7, writer_features=names)
    return Protocol(min_reader_version=3, min_writer_version=7, reader_features=readers, writer_features=names)


def upgraded_protocol(protocol: Protocol, features: Iterable[str]) -> Protocol:
    """The protocol of an existing table with more features; the same object when it has them all.

    What the present versions imply is listed, too: earlier versions of the table may have used it.
    """
    missing = [name for name in _ordered(features) if not protocol.supports(name)]
    if not missing:
        return protocol
    implied = [each.name for each in legacy_features(protocol.min_reader_version, protocol.min_writer_version)]
    writers = tuple(dict.fromkeys((*(protocol.writer_features or ()), *implied, *missing)))
    readers = tuple(
        name for name in writers if name in FEATURE_BY_NAME and FEATURE_BY_NAME[name].kind is FeatureKind.READER_WRITER
    )
    if protocol.min_reader_version >= 3 or set(readers) - {"columnMapping"}:
        listed = tuple(dict.fromkeys((*(protocol.reader_features or ()), *readers)))
        return Protocol(min_reader_version=3, min_writer_version=7, reader_features=listed, writer_features=writers)
    return Protocol(min_reader_version=2 if readers else 1, min_writer_version=7, writer_features=writers)


def _used(metadata: Metadata, domains: tuple[str, ...]) -> Iterator[str]:
    for feature in FEATURES:
        enabled = (
            feature.enabled_by is not None and metadata.configuration.get(feature.enabled_by, "").lower() == "true"
        )
        if enabled and feature.alias_of is None:
            yield feature.name
    properties = metadata.properties
    if properties.column_mapping_mode != "none":
        yield "columnMapping"
    if properties.check_constraints:
        yield "checkConstraints"
    if properties.checkpoint_policy == "v2":
        yield "v2Checkpoint"
    for _, field in walk_fields(metadata.schema):
        if not field.nullable:
            # The reference implementation counts NOT NULL as an invariant and refuses a table that does not declare it.
            yield "invariants"
        for key, feature_name in _FIELD_METADATA:
            if key in field.metadata:
                yield feature_name
    yield from _used_by_type(metadata.schema)
    for domain in domains:
        yield _DOMAINS.get(domain, "domainMetadata")


def _used_by_type(delta_type: DeltaType) -> Iterator[str]:
    match delta_type:
        case StructType(fields=fields):
            for field in fields:
                yield from _used_by_type(field.type)
        case ArrayType(element_type=element):
            yield from _used_by_type(element)
        case MapType(key_type=key, value_type=value):
            yield from _used_by_type(key)
            yield from _used_by_type(value)
        case TimestampNtzType():
            yield "timestampNtz"
        case VariantType():
            yield "variantType"
        case GeometryType() | GeographyType():
            yield "geospatial"
        case StringType(collation=collation) if collation is not None:
            yield "collations"


def _ordered(features: Iterable[str]) -> tuple[str, ...]:
    names = frozenset(features)
    unknown = sorted(names - FEATURE_BY_NAME.keys())
    if unknown:
        raise InvalidDeltaRequest(f"Cannot declare the feature {unknown[0]!r}: there is none of that name")
    return tuple(feature.name for feature in FEATURES if feature.name in names)
