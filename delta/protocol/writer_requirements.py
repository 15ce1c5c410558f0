"""The protocol's requirements of a writer before a commit (PROTOCOL "Requirements for Writers" and each table feature).

deltaberg commits files, it does not make rows: a rule that can only be kept by checking rows (CHECK constraints,
invariants, generated and identity columns) cannot be honoured here, so a commit that would need it is refused by name.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from deltaberg.delta.errors import InvalidDeltaRequest, UnsupportedDeltaFeature
from deltaberg.delta.log.actions import Metadata
from deltaberg.delta.protocol.protocol import Protocol
from deltaberg.delta.schema.schema import walk_fields
from deltaberg.delta.schema.types import ArrayType, DeltaType, MapType, StructType, VoidType

NOT_WRITABLE = {
    "icebergWriterCompatV1": "its rules are those of Iceberg writers, which deltaberg does not check",
    "icebergWriterCompatV3": "its rules are those of Iceberg writers, which deltaberg does not check",
    "redirectWriterOnly-preview": "writes go to the table that the property delta.redirectWriterOnly-preview names",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitShape:
    """The effect of a commit on the data, as far as the rules depend on it."""

    adds_rows: bool = False
    removes_rows: bool = False
    writes_vectors: bool = False
    copies_rows: bool = False


def require_writable(protocol: Protocol) -> None:
    """Raise UnsupportedDeltaFeature naming the version or feature that keeps deltaberg from writing the table."""
    protocol.require_readable()
    if protocol.min_writer_version > 7:
        raise UnsupportedDeltaFeature(
            f"Cannot write the table: it needs writer version {protocol.min_writer_version} (expected at most 7); "
            "upgrade deltaberg",
            feature=f"writer version {protocol.min_writer_version}",
        )
    for name in protocol.unknown_features():
        raise UnsupportedDeltaFeature(
            f"Cannot write the table: it needs the feature {name!r}, which deltaberg does not know; upgrade deltaberg "
            "or drop the feature",
            feature=name,
        )
    for name, reason in NOT_WRITABLE.items():
        if protocol.supports(name):
            raise UnsupportedDeltaFeature(f"Cannot write a table with the feature {name}: {reason}", feature=name)


def check_commit(
    protocol: Protocol, metadata: Metadata, shape: CommitShape, *, rules_guaranteed: frozenset[str] = frozenset()
) -> None:
    """Check a commit against the active features; ``rules_guaranteed``: those whose rules the caller guarantees for
    every row.

    Raises InvalidDeltaRequest for a commit that no writer may make to this table, and UnsupportedDeltaFeature for one
    that a writer may make only after checking the rows.
    """
    properties = metadata.properties
    if shape.removes_rows and protocol.supports("appendOnly") and properties.append_only:
        raise InvalidDeltaRequest(
            "Cannot remove rows: the table is append-only (expected delta.appendOnly false)", feature="appendOnly"
        )
    if shape.writes_vectors and not (protocol.supports("deletionVectors") and properties.deletion_vectors):
        raise InvalidDeltaRequest(
            "Cannot write deletion vectors: they are not active (expected the feature deletionVectors and "
            "delta.enableDeletionVectors true)",
            feature="deletionVectors",
        )
    if shape.copies_rows and _change_data_feed(protocol, metadata):
        raise UnsupportedDeltaFeature(
            "Cannot rewrite files with changed rows: the table keeps a change data feed (expected change data files in "
            "the commit, or delta.enableChangeDataFeed false)",
            feature="changeDataFeed",
        )
    if shape.adds_rows:
        for name in _unwritable_voids(metadata.schema, ()):
            raise InvalidDeltaRequest(
                f"Cannot add rows: {name} (PROTOCOL, Void Type); drop the column or give it a type", feature="void"
            )
        for feature, what in _row_rules(protocol, metadata):
            if feature in rules_guaranteed:
                continue
            raise UnsupportedDeltaFeature(
                f"Cannot add rows: {what}, which deltaberg cannot check; write with an engine that can", feature=feature
            )


def _unwritable_voids(delta_type: DeltaType, path: tuple[str, ...]) -> Iterator[str]:
    """The places where a void type leaves a writer nothing to write: in an array or map, and in a struct or table of
    voids alone.
    """
    where = repr(".".join(path)) if path else "the table"
    match delta_type:
        case StructType(fields=fields):
            if fields and all(isinstance(field.type, VoidType) for field in fields):
                yield f"all columns of {where} are void"
            for field in fields:
                yield from _unwritable_voids(field.type, (*path, field.name))
        case ArrayType(element_type=element):
            if isinstance(element, VoidType):
                yield f"the elements of {where} are void"
            yield from _unwritable_voids(element, (*path, "element"))
        case MapType(key_type=key, value_type=value):
            if isinstance(key, VoidType) or isinstance(value, VoidType):
                yield f"the keys or values of {where} are void"
            yield from _unwritable_voids(key, (*path, "key"))
            yield from _unwritable_voids(value, (*path, "value"))


def _change_data_feed(protocol: Protocol, metadata: Metadata) -> bool:
    return protocol.supports("changeDataFeed") and metadata.properties.change_data_feed


def _row_rules(protocol: Protocol, metadata: Metadata) -> Iterator[tuple[str, str]]:
    if protocol.supports("checkConstraints"):
        for name, _ in metadata.properties.check_constraints:
            yield "checkConstraints", f"the table has the CHECK constraint {name!r}"
    for path, field in walk_fields(metadata.schema):
        name = ".".join(path)
        if protocol.supports("invariants") and "delta.invariants" in field.metadata:
            yield "invariants", f"the column {name!r} has an invariant"
        if protocol.supports("generatedColumns") and "delta.generationExpression" in field.metadata:
            yield "generatedColumns", f"the column {name!r} is generated from others"
        if (
            protocol.supports("identityColumns")
            and "delta.identity.start" in field.metadata
            and field.metadata.get("delta.identity.allowExplicitInsert") is not True
        ):
            yield "identityColumns", f"the column {name!r} is an identity column"
