"""New tables: what ``new_metadata`` fills in and refuses."""

from __future__ import annotations

import uuid
from pathlib import Path

import pyarrow as pa
import pytest

from deltaberg.delta.create_table import create_table, new_metadata, with_column_mapping
from deltaberg.delta.errors import CorruptLog, InvalidDeltaRequest
from deltaberg.delta.protocol.protocol import Protocol
from deltaberg.delta.schema.column_mapping import COLUMN_ID, PHYSICAL_NAME, MappingMode
from deltaberg.delta.schema.types import (
    ArrayType,
    DeltaType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    VoidType,
)
from deltaberg.delta.table import DeltaTable
from deltaberg.storage import open_storage

STORAGE = open_storage()


def fields(*names: str, **types: DeltaType) -> StructType:
    plain = tuple(StructField(name=name, type=LongType()) for name in names)
    return StructType(fields=(*plain, *(StructField(name=name, type=kind) for name, kind in types.items())))


def test_ids_and_physical_names_are_filled_in_around_those_that_are_given() -> None:
    given = StructField(name="new", type=LongType(), metadata={COLUMN_ID: 7, PHYSICAL_NAME: "old"})
    schema = StructType(
        fields=(given, StructField(name="old", type=fields("x", y=ArrayType(element_type=fields("z")))))
    )
    mapped, next_id = with_column_mapping(schema)
    new, old = mapped.fields
    assert new == given
    assert old.metadata == {COLUMN_ID: 8, PHYSICAL_NAME: "old-8"}
    assert isinstance(old.type, StructType)
    x, y = old.type.fields
    assert (x.metadata[PHYSICAL_NAME], y.metadata[PHYSICAL_NAME]) == ("x", "y")
    assert isinstance(y.type, ArrayType)
    assert isinstance(y.type.element_type, StructType)
    ids = [x.metadata[COLUMN_ID], y.metadata[COLUMN_ID], y.type.element_type.fields[0].metadata[COLUMN_ID]]
    assert ids == [9, 10, 11]
    assert next_id == 12


@pytest.mark.parametrize("mode", [MappingMode.NAME, MappingMode.ID])
def test_the_highest_id_is_recorded_and_never_lowered(mode: MappingMode) -> None:
    made = new_metadata(fields("a", "b"), table_id="t", created_time_ms=1, column_mapping=mode)
    assert made.configuration == {"delta.columnMapping.mode": mode.value, "delta.columnMapping.maxColumnId": "2"}
    higher = new_metadata(
        fields("a", "b"),
        table_id="t",
        created_time_ms=1,
        column_mapping=mode,
        configuration={"delta.columnMapping.maxColumnId": "9"},
    )
    assert higher.configuration["delta.columnMapping.maxColumnId"] == "9"


def test_row_tracking_gets_names_for_its_columns() -> None:
    names = iter((uuid.UUID(int=1), uuid.UUID(int=2)))
    made = new_metadata(
        fields("a"),
        table_id="t",
        created_time_ms=1,
        configuration={"delta.enableRowTracking": "true"},
        new_id=lambda: next(names),
    )
    assert made.properties.materialized_row_id_column == "_row-id-col-00000000-0000-0000-0000-000000000001"
    assert made.properties.materialized_row_commit_version_column == (
        "_row-commit-version-col-00000000-0000-0000-0000-000000000002"
    )


def test_they_must_not_be_columns_of_the_table() -> None:
    with pytest.raises(InvalidDeltaRequest, match="is 'a', which is a column of the table"):
        new_metadata(
            fields("a"),
            table_id="t",
            created_time_ms=1,
            configuration={
                "delta.enableRowTracking": "true",
                "delta.rowTracking.materializedRowIdColumnName": "a",
            },
        )


@pytest.mark.parametrize("schema", [fields("a", "A"), fields("x", s=fields("ß", "SS"))])
def test_names_that_differ_by_case_alone(schema: StructType) -> None:
    with pytest.raises(InvalidDeltaRequest, match="differ by case alone"):
        new_metadata(schema, table_id="t", created_time_ms=1)


@pytest.mark.parametrize(
    ("schema", "partition_columns", "message"),
    [
        (fields("a"), ["b"], "the partition column 'b' is not in the schema"),
        (fields("a"), ["a", "a"], "listed twice"),
        (fields(a=ArrayType(element_type=LongType())), ["a"], "not of a primitive type"),
    ],
)
def test_partition_columns_that_cannot_be(schema: StructType, partition_columns: list[str], message: str) -> None:
    with pytest.raises(CorruptLog, match=message):
        new_metadata(schema, table_id="t", created_time_ms=1, partition_columns=partition_columns)


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (fields("a", v=ArrayType(element_type=VoidType())), "the elements of 'v' are void"),
        (fields("a", v=MapType(key_type=StringType(), value_type=VoidType())), "the keys or values of 'v' are void"),
        (fields("a", v=fields(x=VoidType())), "all columns of 'v' are void"),
        (fields(v=VoidType()), "all columns of the table are void"),
    ],
)
def test_rows_with_nothing_to_write(tmp_path: Path, data_file, schema: StructType, message: str) -> None:
    create = create_table(
        STORAGE, str(tmp_path / "table"), metadata=new_metadata(schema, table_id="t", created_time_ms=1)
    )
    create.add_files([data_file(pa.table({"a": [1]}))])
    with pytest.raises(InvalidDeltaRequest, match=message):
        create.commit("WRITE")


def test_a_void_column_beside_others_is_no_hindrance(tmp_path: Path, data_file) -> None:
    root = tmp_path / "table"
    made = new_metadata(fields("a", v=VoidType()), table_id="t", created_time_ms=1)
    create = create_table(STORAGE, str(root), metadata=made)
    create.add_files([data_file(pa.table({"a": [1]}))])
    create.commit("WRITE")
    assert DeltaTable.open(str(root), STORAGE).snapshot().protocol == Protocol(
        min_reader_version=1, min_writer_version=2
    )


@pytest.mark.parametrize("location", ["table", "table/"])
def test_features_can_be_asked_for(tmp_path: Path, location: str) -> None:
    made = new_metadata(fields("a"), table_id="t", created_time_ms=1)
    create_table(STORAGE, f"{tmp_path}/{location}", metadata=made, features=["vacuumProtocolCheck"]).commit("CREATE")
    protocol = DeltaTable.open(str(tmp_path / "table"), STORAGE).snapshot().protocol
    assert protocol.writer_features == protocol.reader_features == ("vacuumProtocolCheck",)


def test_features_that_turn_up_before_the_first_commit_bring_no_others(tmp_path: Path) -> None:
    made = new_metadata(fields("a"), table_id="t", created_time_ms=1)
    create = create_table(STORAGE, str(tmp_path / "table"), metadata=made)
    create.set_domain_metadata("mine", "{}")
    assert create.protocol == Protocol(min_reader_version=1, min_writer_version=7, writer_features=("domainMetadata",))
