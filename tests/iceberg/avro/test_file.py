"""Avro data files: blocks a few at a time, fields that are not there, files without ids, damaged files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deltaberg.datafile.errors import DataFileError
from deltaberg.datafile.file_schema import NamedField
from deltaberg.errors import DeltabergError
from deltaberg.iceberg.avro import file as avro_file
from deltaberg.iceberg.avro.file import AvroFile
from deltaberg.iceberg.errors import UnsupportedIcebergFeature
from deltaberg.iceberg.schema.types import (
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    Type,
)
from deltaberg.storage import Storage, open_storage


def column(field_id: int, name: str, kind: Type) -> NestedField:
    return NestedField(field_id=field_id, name=name, required=False, type=kind)


def optional(kind: Any) -> list[Any]:
    return ["null", kind]


POINT = {
    "type": "record",
    "name": "point",
    "fields": [{"name": "x", "type": optional("long")}, {"name": "y", "type": optional("long")}],
}


@pytest.fixture
def storage() -> Storage:
    return open_storage()


def write(path: Path, fields: list[dict[str, Any]], rows: list[dict[str, Any]], **options: Any) -> None:
    schema = {"type": "record", "name": "table", "fields": fields}
    with path.open("wb") as file:
        fastavro.writer(file, fastavro.parse_schema(schema), rows, **options)


def read(storage: Storage, path: Path, fields: list[NestedField], **options: Any) -> list[dict[str, Any]]:
    file = AvroFile(storage, str(path))
    rows: list[dict[str, Any]] = []
    for batch in file.iter_batches(fields, **options):
        batch.validate(full=True)
        rows += batch.to_pylist()
    file.close()
    return rows


@pytest.mark.parametrize("codec", ["null", "deflate", "bzip2", "xz"])
def test_blocks_are_read_a_few_at_a_time(
    storage: Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, codec: str
) -> None:
    monkeypatch.setattr(avro_file, "GROUP_BYTES", 3000)
    path = tmp_path / "x.avro"
    rows = [{"id": i, "text": f"row {i}" * (i % 5)} for i in range(3000)]
    fields = [{"name": "id", "type": "long", "field-id": 1}, {"name": "text", "type": "string", "field-id": 2}]
    write(path, fields, rows, codec=codec, sync_interval=1000)
    file = AvroFile(storage, str(path))
    assert file.has_field_ids
    assert file.held_field_ids() == {1, 2}
    batches = list(file.iter_batches([column(1, "n", LongType())]))
    assert len(batches) > 3
    assert pa.Table.from_batches(batches)["n"].to_pylist() == list(range(3000))


def test_only_fields_of_the_file_come_with_their_ids(storage: Storage, tmp_path: Path) -> None:
    path = tmp_path / "x.avro"
    item = {**POINT, "fields": [{**POINT["fields"][0], "field-id": 12}, {**POINT["fields"][1], "field-id": 13}]}  # type: ignore[index]
    fields = [
        {"name": "s", "type": optional({**item, "name": "a"}), "field-id": 1},
        {"name": "l", "type": optional({"type": "array", "items": optional({**item, "name": "b"}), "element-id": 3})},
    ]
    fields[1]["field-id"] = 2
    write(path, fields, [{"s": {"x": 1, "y": 2}, "l": [None, {"x": 3, "y": 4}]}, {"s": None, "l": None}])
    point = StructType(fields=(column(13, "why", LongType()), column(99, "new", StringType())))
    wanted = [column(50, "gone", LongType()), column(2, "l", ListType(element=column(3, "element", point)))]
    (batch,) = AvroFile(storage, str(path)).iter_batches(wanted)
    assert batch.to_pylist() == [{"l": [None, {"why": 4}]}, {"l": None}]
    assert batch.schema.field("l").metadata == {b"PARQUET:field_id": b"2"}
    element = batch.schema.field("l").type.value_field
    assert element.metadata == {b"PARQUET:field_id": b"3"}
    assert element.type.field("why").metadata == {b"PARQUET:field_id": b"13"}


def test_a_name_mapping_gives_each_use_of_a_named_type_its_own_ids(storage: Storage, tmp_path: Path) -> None:
    path = tmp_path / "x.avro"
    fields = [
        {"name": "p", "type": POINT},
        {"name": "q", "type": optional("point")},
        {"name": "l", "type": {"type": "array", "items": "point"}},
        {"name": "m", "type": {"type": "map", "values": optional("point")}},
        {"name": "ignored", "type": "long"},
    ]
    one, two = {"x": 1, "y": 2}, {"x": 3, "y": 4}
    write(path, fields, [{"p": one, "q": two, "l": [one, two], "m": {"k": two}, "ignored": 1}])

    def mapped(field_id: int, *names: str, children: tuple[NamedField, ...] = ()) -> NamedField:
        return NamedField(names=names, field_id=field_id, children=children)

    mapping = (
        mapped(1, "p", children=(mapped(11, "x"), mapped(12, "y"))),
        mapped(2, "q", children=(mapped(21, "x"), mapped(22, "y"))),
        mapped(3, "l", children=(mapped(30, "element", children=(mapped(31, "x"), mapped(32, "y"))),)),
        mapped(4, "m", children=(mapped(40, "key"), mapped(41, "value", children=(mapped(42, "x"), mapped(43, "y"))))),
        NamedField(names=("ignored",), field_id=None),
    )
    text = NestedField(field_id=40, name="key", required=True, type=StringType())

    def y(field_id: int) -> StructType:
        return StructType(fields=(column(field_id, "why", LongType()),))

    wanted = [
        column(1, "a", y(12)),
        column(2, "b", y(22)),
        column(3, "c", ListType(element=column(30, "element", y(32)))),
        column(4, "d", MapType(key=text, value=column(41, "value", y(43)))),
    ]
    assert not AvroFile(storage, str(path)).has_field_ids
    assert AvroFile(storage, str(path)).held_field_ids(mapping) == {1, 11, 12, 2, 21, 22, 3, 30, 31, 32, 4, 41, 42, 43}
    assert read(storage, path, wanted, name_mapping=mapping) == [
        {"a": {"why": 2}, "b": {"why": 4}, "c": [{"why": 2}, {"why": 4}], "d": [("k", {"why": 4})]}
    ]


def test_a_header_larger_than_the_first_read_is_read_whole(storage: Storage, tmp_path: Path) -> None:
    path = tmp_path / "x.avro"
    write(path, [{"name": "id", "type": "long", "field-id": 1}], [{"id": 1}], metadata={"note": "x" * 200_000})
    assert read(storage, path, [column(1, "id", LongType())]) == [{"id": 1}]


def test_a_union_of_several_types_is_refused(storage: Storage, tmp_path: Path) -> None:
    path = tmp_path / "x.avro"
    write(path, [{"name": "id", "type": ["long", "string"], "field-id": 1}], [{"id": 1}])
    with pytest.raises(DataFileError, match="union of long, string"):
        read(storage, path, [column(1, "id", LongType())])


@pytest.mark.parametrize("content", [b"", b"Obj", b"Obj\x01", b"Obj\x01\xff\xff\xff\xff\x0f", b"PAR1" + bytes(100)])
def test_what_is_not_avro_is_refused(storage: Storage, tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.avro"
    path.write_bytes(content)
    with pytest.raises(DataFileError, match="Cannot read Avro file") as caught:
        AvroFile(storage, str(path))
    assert caught.value.path == str(path)


def test_a_file_that_does_not_hold_records_is_refused(storage: Storage, tmp_path: Path) -> None:
    path = tmp_path / "x.avro"
    with path.open("wb") as file:
        fastavro.writer(file, "long", [1])
    with pytest.raises(DataFileError, match="does not hold records"):
        AvroFile(storage, str(path))


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damaged_files_are_read_or_refused_in_our_own_words(
    storage: Storage, tmp_path: Path, data: st.DataObject
) -> None:
    path = tmp_path / "x.avro"
    fields = [
        {"name": "id", "type": optional("long"), "field-id": 1},
        {"name": "l", "type": {"type": "array", "items": "string", "element-id": 3}, "field-id": 2},
    ]
    rows = [{"id": i if i % 3 else None, "l": ["x" * i]} for i in range(20)]
    write(path, fields, rows, codec=data.draw(st.sampled_from(["null", "deflate"])), sync_marker=bytes(16))
    whole = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(bytes(whole[: data.draw(st.integers(len(whole) - 20, len(whole)))]))
    wanted = [column(1, "id", LongType()), column(2, "l", ListType(element=column(3, "element", StringType())))]
    refused: DeltabergError | None = None
    try:
        json.dumps(read(storage, path, wanted))
    except (DataFileError, UnsupportedIcebergFeature) as error:
        refused = error
    assert refused is None or refused.path == str(path)
