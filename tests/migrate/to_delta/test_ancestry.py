"""Which snapshots can be replayed, and the schema that holds the columns of all of them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from deltaberg.iceberg.schema.schema import Schema
from deltaberg.iceberg.schema.types import (
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    Type,
)
from deltaberg.migrate.to_delta.ancestry import Ancestry, ancestry_of


def column(field_id: int, name: str, kind: Type | None = None, *, default: Any = None) -> NestedField:
    return NestedField(
        field_id=field_id, name=name, required=False, type=kind or IntegerType(), initial_default=default
    )


def line(*schemas: tuple[NestedField, ...], expired: bool = False, whole: bool = True) -> Ancestry:
    """The line of a table with one snapshot a schema."""
    made = [Schema(schema_id=place, fields=fields) for place, fields in enumerate(schemas)]
    snapshots = [
        SimpleNamespace(snapshot_id=place + 1, parent_snapshot_id=place if place or expired else None)
        for place in range(len(schemas))
    ]

    class Metadata:
        def ancestors(self, snapshot_id: int) -> Any:
            return reversed(snapshots[:snapshot_id])

        def schema_for(self, snapshot: Any) -> Schema:
            return made[snapshot.snapshot_id - 1]

    source: Any = SimpleNamespace(
        table=SimpleNamespace(metadata=Metadata()), snapshot=snapshots[-1] if snapshots else None, schema=made[-1]
    )
    return ancestry_of(source, whole=whole)


def names(schema: Schema) -> list[str]:
    return [each.name for each in schema.fields]


def test_only_the_newest_unless_the_whole_line_is_asked_for() -> None:
    found = line((column(1, "a"), column(2, "b")), (column(1, "a"),), whole=False)
    assert [each.snapshot_id for each in found.snapshots] == [2]
    assert found.union is found.schemas[0]
    assert names(found.shared) == ["a"]
    assert found.truncated_because is None


def test_oldest_first_with_the_schema_of_each() -> None:
    found = line((column(1, "a"),), (column(1, "a"), column(2, "b")), (column(1, "a"), column(2, "c")))
    assert [each.snapshot_id for each in found.snapshots] == [1, 2, 3]
    assert [names(each) for each in found.schemas] == [["a"], ["a", "b"], ["a", "c"]]
    assert names(found.union) == ["a", "c"]
    assert names(found.shared) == ["a"]
    assert (found.truncated_because, found.promotes) == (None, False)


def test_expired_snapshots_are_missed() -> None:
    found = line((column(1, "a"),), (column(1, "a"),), expired=True)
    assert len(found.snapshots) == 2
    assert found.truncated_because == "snapshot 0 has expired"


def test_columns_that_are_gone_stand_behind_the_others_under_a_name_of_their_own() -> None:
    found = line(
        (column(1, "a"), column(2, "b"), column(3, "c")),
        (column(1, "a"), column(2, "b")),
        (column(4, "b"), column(1, "a")),
    )
    assert [(each.field_id, each.name) for each in found.union.fields] == [
        (4, "b"),
        (1, "a"),
        (2, "b (field 2)"),
        (3, "c"),
    ]
    assert names(found.shared) == ["a"]


def test_nested_columns_that_are_gone() -> None:
    def struct(*fields: NestedField) -> StructType:
        return StructType(fields=fields)

    def nested(*fields: NestedField) -> tuple[NestedField, ...]:
        key = NestedField(field_id=31, name="key", required=True, type=StringType())
        return (
            column(1, "s", struct(*fields)),
            column(2, "l", ListType(element=column(20, "element", struct(*_moved(fields, 200))))),
            column(3, "m", MapType(key=key, value=column(32, "value", struct(*_moved(fields, 300))))),
        )

    found = line(nested(column(10, "x"), column(11, "y")), nested(column(10, "x")))
    assert [found.union.full_name(each) for each in (11, 211, 311)] == ["s.y", "l.element.y", "m.value.y"]
    assert found.truncated_because is None


def _moved(fields: tuple[NestedField, ...], by: int) -> list[NestedField]:
    return [column(each.field_id + by, each.name, each.type) for each in fields]


def test_a_promotion_is_told() -> None:
    found = line((column(1, "a"),), (column(1, "a", LongType()),), (column(1, "a", LongType()), column(2, "b")))
    assert found.promotes
    assert found.last_promotion == 1
    shorter = found.since(1, "because")
    assert [each.snapshot_id for each in shorter.snapshots] == [2, 3]
    assert (shorter.promotes, shorter.last_promotion, shorter.truncated_because) == (False, 0, "because")


def test_a_dropped_column_with_a_default_ends_the_line() -> None:
    # Files without the column would have to state the default in some versions, and nothing in others.
    found = line((column(1, "a"), column(2, "b", default=7)), (column(1, "a"),), (column(1, "a"), column(3, "c")))
    assert [each.snapshot_id for each in found.snapshots] == [2, 3]
    assert found.truncated_because is not None
    assert "snapshot 2 drops a column with a default" in found.truncated_because


def test_a_column_of_another_kind_ends_the_line() -> None:
    found = line((column(1, "a"),), (column(1, "a", ListType(element=column(2, "element"))),))
    assert [each.snapshot_id for each in found.snapshots] == [2]
    assert found.truncated_because is not None


def test_a_table_without_snapshots() -> None:
    source: Any = SimpleNamespace(
        table=SimpleNamespace(metadata=None), snapshot=None, schema=Schema(schema_id=0, fields=(column(1, "a"),))
    )
    found = ancestry_of(source, whole=True)
    assert (found.snapshots, found.schemas, found.truncated_because) == ((), (), None)
    assert names(found.union) == names(found.shared) == ["a"]
