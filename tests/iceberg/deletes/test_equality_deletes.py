"""Sets of deleted keys: exact whatever the hashes are, one per scope, kept within bounds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaberg.iceberg.deletes import equality_deletes
from deltaberg.iceberg.deletes.equality_deletes import KeySet, delete_columns
from deltaberg.iceberg.deletes.resolved_deletes import resolve_deletes
from deltaberg.iceberg.errors import CorruptMetadata, UnsupportedIcebergFeature
from deltaberg.iceberg.partition.partition_spec import PartitionField, PartitionSpec
from deltaberg.iceberg.partition.transforms import IdentityTransform
from deltaberg.iceberg.scan.scan import scan
from deltaberg.iceberg.schema.schema import Schema
from deltaberg.iceberg.schema.tuple_keys import tuple_keys
from deltaberg.iceberg.schema.types import (
    GeometryType,
    ListType,
    LongType,
    NestedField,
    StringType,
    StructType,
    VariantType,
)

ID = NestedField(field_id=1, name="id", required=False, type=LongType())
PART = NestedField(field_id=2, name="p", required=False, type=StringType())


def keys(values: list[int | None]) -> pa.BinaryArray:
    return tuple_keys([pa.array(values, pa.int64())], len(values))


@pytest.mark.parametrize("hash_bits", [64, 2, 0])
@given(
    deletes=st.lists(st.tuples(st.one_of(st.none(), st.integers(0, 20)), st.integers(0, 5)), max_size=40),
    rows=st.lists(st.one_of(st.none(), st.integers(0, 20)), max_size=40),
    sequence_number=st.integers(0, 5),
)
def test_a_row_is_deleted_when_a_newer_delete_has_its_key(
    hash_bits: int, deletes: list[tuple[int | None, int]], rows: list[int | None], sequence_number: int
) -> None:
    whole = equality_deletes.hash_keys

    def weak(values: Any) -> Any:
        return whole(values) & np.uint64((1 << hash_bits) - 1)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(equality_deletes, "hash_keys", weak)
        half = len(deletes) // 2
        found = KeySet(
            [keys([key for key, _ in part]) for part in (deletes[:half], deletes[half:])],
            [np.array([n for _, n in part], np.int64) for part in (deletes[:half], deletes[half:])],
        )
        deleted = found.deleted(keys(rows), sequence_number)
    assert len(found) == len({key for key, _ in deletes})
    assert deleted.tolist() == [any(key == row and n > sequence_number for key, n in deletes) for row in rows]


def partitioned(stored_table: Callable[..., Any]) -> Any:
    spec = PartitionSpec(
        spec_id=0,
        fields=(PartitionField(source_ids=(2,), field_id=1000, name="p", transform=IdentityTransform()),),
    )
    return stored_table(Schema(schema_id=0, fields=(ID, PART)), specs=(spec,))


def test_each_delete_file_is_read_once_for_the_files_of_its_partition(
    stored_table: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = partitioned(stored_table)
    for part in ("a", "b"):
        for _ in range(3):
            stored.data(pa.table({"id": [1, 2, 3]}), partition={"p": part})
        for value in (1, 2):
            stored.equality_deletes(pa.table({"id": [value]}), [1], partition={"p": part}, sequence_number=2)
    opened: list[str] = []
    original = equality_deletes.ContentFile

    def counting(storage: Any, location: str, *args: Any, **options: Any) -> Any:
        opened.append(location)
        return original(storage, location, *args, **options)

    monkeypatch.setattr(equality_deletes, "ContentFile", counting)
    assert scan(stored.open()).read_all()["id"].to_pylist() == [3] * 6
    assert len(opened) == len(set(opened)) == 4


def test_scopes_that_do_not_fit_are_read_again(stored_table: Callable[..., Any]) -> None:
    stored = partitioned(stored_table)
    for part in ("a", "b", "a", "b"):
        stored.data(pa.table({"id": [1, 2, 3]}), partition={"p": part})
    for part in ("a", "b"):
        stored.equality_deletes(pa.table({"id": [1, 2]}), [1], partition={"p": part}, sequence_number=2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(equality_deletes, "_CACHED_KEYS", 1)
        merged = [each.merged for each in resolve_deletes(stored.open(), stored.open().metadata.current_snapshot)]
    assert [[bitmap.to_positions().tolist() for bitmap in each.values()] for each in merged] == [[[0, 1]] * 4]


def test_delete_columns_take_the_newest_type_and_their_structs() -> None:
    from types import SimpleNamespace

    inner = NestedField(field_id=3, name="x", required=True, type=LongType())
    outer = NestedField(field_id=2, name="s", required=True, type=StructType(fields=(inner, PART_INSIDE)))
    metadata: Any = SimpleNamespace(
        schemas=(Schema(schema_id=0, fields=(ID, outer)), Schema(schema_id=1, fields=(ID,)))
    )
    found = delete_columns(metadata, (1, 3))
    assert [field.name for field in found.fields] == ["id", "s"]
    struct = found.fields[1].type
    assert isinstance(struct, StructType)
    assert [(field.name, field.required) for field in struct.fields] == [("x", False)]


PART_INSIDE = NestedField(field_id=4, name="y", required=False, type=StringType())


@pytest.mark.parametrize(
    ("field", "field_id"),
    [
        (NestedField(field_id=5, name="v", required=False, type=VariantType()), 5),
        (NestedField(field_id=5, name="g", required=False, type=GeometryType()), 5),
        (NestedField(field_id=5, name="s", required=False, type=StructType(fields=(PART_INSIDE,))), 5),
        (
            NestedField(
                field_id=5,
                name="l",
                required=False,
                type=ListType(element=NestedField(field_id=6, name="element", required=False, type=LongType())),
            ),
            6,
        ),
    ],
)
def test_columns_that_cannot_be_delete_columns_are_refused_by_name(field: NestedField, field_id: int) -> None:
    from types import SimpleNamespace

    metadata: Any = SimpleNamespace(schemas=(Schema(schema_id=0, fields=(field,)),))
    with pytest.raises(UnsupportedIcebergFeature, match=f"Cannot apply equality deletes on {field.name}"):
        delete_columns(metadata, (field_id,))
    with pytest.raises(CorruptMetadata, match="no schema of the table has field 77"):
        delete_columns(metadata, (77,))
