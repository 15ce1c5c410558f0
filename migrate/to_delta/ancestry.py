"""The snapshots of an Iceberg table that can be replayed into versions of a Delta table, and the schemas they have.

An ancestry goes from a snapshot back through its parents. It ends where a parent has expired, and where the schema
changed in a way that one set of files cannot follow.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

from deltaberg.iceberg.metadata.snapshot import Snapshot
from deltaberg.iceberg.schema.schema import Schema
from deltaberg.iceberg.schema.types import ListType, MapType, NestedField, StructType, Type
from deltaberg.migrate.source import IcebergSource


@dataclass(frozen=True, slots=True, kw_only=True)
class Ancestry:
    """snapshots: oldest first, with the schema of each; the last one twice where the schema was changed after it.
    union: the newest schema and what older ones had beside.

    promotes: whether a type was promoted on the way. truncated_because: why older snapshots are left out.
    """

    snapshots: tuple[Snapshot, ...]
    schemas: tuple[Schema, ...]
    union: Schema
    promotes: bool
    truncated_because: str | None

    def since(self, first: int, truncated_because: str) -> Ancestry:
        """The ancestry without its ``first`` oldest snapshots."""
        return _ancestry(self.snapshots[first:], self.schemas[first:], truncated_because)

    @property
    def distinct(self) -> tuple[Snapshot, ...]:
        """``snapshots`` without the repetition."""
        return tuple({each.snapshot_id: each for each in self.snapshots}.values())

    def repeats(self, place: int) -> bool:
        """Whether the snapshot at a place is the one before it, in another schema."""
        return place > 0 and self.snapshots[place].snapshot_id == self.snapshots[place - 1].snapshot_id

    @property
    def shared(self) -> Schema:
        """The columns of ``union`` that every schema has."""
        return replace(
            self.union,
            fields=tuple(
                column
                for column in self.union.fields
                if all(schema.find(column.field_id) is not None for schema in self.schemas)
            ),
            identifier_field_ids=(),
        )

    @property
    def last_promotion(self) -> int:
        """The place of the first snapshot from which on no type changes; 0 where none does."""
        for place in range(len(self.schemas) - 1, 0, -1):
            if _changes_types(self.schemas[place - 1], self.schemas[place]):
                return place
        return 0


def line_of(snapshots: Sequence[Snapshot], schemas: Sequence[Schema]) -> Ancestry:
    """Snapshots that come to a target that exists. schemas: the target's own, then one for each commit to come;
    ``truncated_because`` says why one set of files cannot follow them.
    """
    first = _first_that_follows(schemas)
    ancestry = _ancestry(snapshots, schemas, None)
    if not first:
        return ancestry
    return replace(
        ancestry,
        truncated_because=f"a column is dropped that has a default, or changes its kind, with schema {schemas[first].schema_id}",
    )


def ancestry_of(source: IcebergSource, *, whole: bool) -> Ancestry:
    """The ancestry of the source's snapshot; ``whole`` False: that snapshot alone. Raises CorruptMetadata for a circle."""
    metadata, snapshot = source.table.metadata, source.snapshot
    if snapshot is None:
        return Ancestry(snapshots=(), schemas=(), union=source.schema, promotes=False, truncated_because=None)
    if not whole:
        return _ancestry((snapshot,), (source.schema,), None)
    found = tuple(reversed(list(metadata.ancestors(snapshot.snapshot_id))))
    schemas = tuple(metadata.schema_for(each) for each in found)
    if schemas[-1].fields != source.schema.fields:
        found, schemas = (*found, found[-1]), (*schemas, source.schema)
    else:
        schemas = (*schemas[:-1], source.schema)
    oldest = found[0]
    truncated_because = None
    if oldest.parent_snapshot_id is not None:
        truncated_because = f"snapshot {oldest.parent_snapshot_id} has expired"
    first = _first_that_follows(schemas)
    if first:
        truncated_because = (
            f"snapshot {found[first].snapshot_id} drops a column with a default, or changes a column's kind"
        )
    return _ancestry(found[first:], schemas[first:], truncated_because)


def _ancestry(snapshots: Sequence[Snapshot], schemas: Sequence[Schema], truncated_because: str | None) -> Ancestry:
    return Ancestry(
        snapshots=tuple(snapshots),
        schemas=tuple(schemas),
        union=_union(schemas),
        promotes=any(_changes_types(before, after) for before, after in itertools.pairwise(schemas)),
        truncated_because=truncated_because,
    )


def _first_that_follows(schemas: Sequence[Schema]) -> int:
    """The place from which on every schema can be told by the union of all."""
    for place in range(len(schemas) - 1, 0, -1):
        before, newest = schemas[place - 1], schemas[-1]
        for column in before.all_fields():
            present = newest.find(column.field_id)
            if present is None and column.initial_default is not None:
                return place
            if present is not None and _kind(present.type) != _kind(column.type):
                return place
    return 0


def _kind(kind: Type) -> str:
    return type(kind).__name__ if isinstance(kind, (StructType, ListType, MapType)) else "leaf"


def _changes_types(before: Schema, after: Schema) -> bool:
    pairs = ((each.type, after.find(each.field_id)) for each in before.leaves())
    return any(present is not None and present.type != kind for kind, present in pairs)


def _union(schemas: Sequence[Schema]) -> Schema:
    newest = schemas[-1]
    if len(schemas) == 1:
        return newest
    older = [schema.fields for schema in reversed(schemas[:-1])]
    return Schema(schema_id=newest.schema_id, fields=_united(newest.fields, older))


def _united(fields: tuple[NestedField, ...], older: Sequence[tuple[NestedField, ...]]) -> tuple[NestedField, ...]:
    """Fields, and behind them those of older structs that are gone, under names that no other field has."""
    by_id = {each.field_id: each for each in fields}
    gone: dict[int, NestedField] = {}
    for former in older:
        for each in former:
            if each.field_id not in by_id:
                gone.setdefault(each.field_id, each)
    result = [
        replace(each, type=_united_type(each.type, _same(older, each.field_id))) for each in (*fields, *gone.values())
    ]
    names = {each.name for each in fields}
    for place in range(len(fields), len(result)):
        each = result[place]
        name = each.name if each.name not in names else f"{each.name} (field {each.field_id})"
        names.add(name)
        result[place] = replace(each, name=name, required=False, write_default=None)
    return tuple(result)


def _same(older: Sequence[tuple[NestedField, ...]], field_id: int) -> list[Type]:
    return [each.type for former in older for each in former if each.field_id == field_id]


def _united_type(kind: Type, older: Sequence[Type]) -> Type:
    match kind:
        case StructType(fields=fields):
            return replace(
                kind, fields=_united(fields, [each.fields for each in older if isinstance(each, StructType)])
            )
        case ListType(element=element):
            below = [each.element.type for each in older if isinstance(each, ListType)]
            return replace(kind, element=replace(element, type=_united_type(element.type, below)))
        case MapType(value=value):
            below = [each.value.type for each in older if isinstance(each, MapType)]
            return replace(kind, value=replace(value, type=_united_type(value.type, below)))
        case _:
            return kind
