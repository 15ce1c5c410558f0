"""There and back again: rows, schema, partitioning and deletes are what they were."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltaberg.delta.schema.schema import type_to_json
from deltaberg.iceberg.create_table import create_table
from deltaberg.iceberg.manifest.live_files import data_files
from deltaberg.iceberg.partition.partition_spec import UNPARTITIONED, PartitionField, PartitionSpec
from deltaberg.iceberg.partition.transforms import parse_transform
from deltaberg.iceberg.schema.schema import Schema
from deltaberg.iceberg.schema.types import LongType, NestedField, TimestampType
from deltaberg.iceberg.table import Table
from deltaberg.migrate.convert import convert
from deltaberg.migrate.source import DeltaSource, IcebergSource
from deltaberg.migrate.verify.verify import verify
from deltaberg.storage import open_storage
from deltaberg.translate.options import ConvertOptions

types = pytest.importorskip("pyiceberg.types")
transforms = pytest.importorskip("pyiceberg.transforms")
partitioning = pytest.importorskip("pyiceberg.partitioning")
schemas = pytest.importorskip("pyiceberg.schema")

UTC = dt.timezone.utc
POINT = pa.struct([("x", pa.float64()), ("tags", pa.list_(pa.string()))])
PLACES = ["plain", "with space", "a/b", "100% = ü", "", None]


def delta_table_rows() -> pa.Table:
    """Four rows for every place."""
    count = 4 * len(PLACES)
    numbers = range(count)
    moments = [dt.datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC) + dt.timedelta(days=i) for i in numbers]
    moments[1], moments[2] = dt.datetime(9999, 12, 31, 23, 59, 59, 999_999, UTC), dt.datetime(1, 1, 1, tzinfo=UTC)
    return pa.table(
        [
            pa.array(numbers, pa.int64()),
            pa.array([None if i % 5 == 0 else Decimal(i * 7) / 100 for i in numbers], pa.decimal128(20, 2)),
            pa.array(moments, pa.timestamp("us", "UTC")),
            pa.array([None if i % 3 == 0 else {"x": i / 3, "tags": [str(i), None]} for i in numbers], POINT),
            pa.array([[("k", i), ("l", None)] for i in numbers], pa.map_(pa.string(), pa.int32())),
            pa.array([PLACES[i % len(PLACES)] for i in numbers]),
            pa.array([None if i % 2 else dt.date(2024, 2, 29) for i in numbers]),
        ],
        schema=pa.schema(
            [
                pa.field("id", pa.int64(), nullable=False),
                pa.field("price", pa.decimal128(20, 2)),
                pa.field("moment", pa.timestamp("us", "UTC")),
                pa.field("point", POINT),
                pa.field("counts", pa.map_(pa.string(), pa.int32())),
                pa.field("the place", pa.string()),
                pa.field("day", pa.date32()),
            ]
        ),
    )


def by_the_protocol(rows: pa.Table) -> pa.Table:
    """An empty string as a partition value is null in Delta, whatever delta-rs takes it for."""
    place = rows.schema.get_field_index("the place")
    values = [value or None for value in rows["the place"].to_pylist()]
    return rows.set_column(place, "the place", pa.array(values, pa.string()))


@pytest.mark.parametrize("format_version", [2, 3])
def test_delta_to_iceberg_to_delta(
    tmp_path: Path,
    write_delta: Any,
    delete_from_delta: Any,
    opened: Any,
    delta_rows: Any,
    iceberg_rows: Any,
    difference: Callable[..., str],
    format_version: int,
) -> None:
    folder = write_delta(delta_table_rows(), partition_by=["the place", "day"])
    write_delta(delta_table_rows().slice(0, 12), folder)
    delete_from_delta(folder, {0: [0], 3: [1]})
    source = opened(folder)
    wanted = by_the_protocol(delta_rows(folder))
    assert wanted.num_rows == 34

    there = convert(source, to="iceberg", options=ConvertOptions(format_version=format_version))
    assert not difference(iceberg_rows(there.target_metadata), wanted)
    middle = opened(there.target)
    assert [field.name for field in middle.table.metadata.partition_specs[-1].fields] == ["the place", "day"]
    assert there.rows == 34
    assert there.rewritten_files == 0

    back = convert(middle, to="delta", target=str(tmp_path / "back"))
    assert not difference(delta_rows(back.target), wanted)
    final = opened(back.target)
    assert final.snapshot.metadata.partition_columns == ("the place", "day")
    assert _columns_of_delta(final) == _columns_of_delta(source)
    report = verify(source, final, rows=True, bounds=True)
    assert report.equal, report.to_json()
    assert {each.name for each in report.checks} == {
        "presence of files",
        "schema",
        "files",
        "row counts of files",
        "deleted rows of files",
        "rows in all",
        "bounds",
        "rows",
    }


def _columns_of_delta(source: DeltaSource) -> list[tuple[Any, ...]]:
    """Names, types, nullability and comments."""
    return [
        (field.name, _bare(type_to_json(field.type)), field.nullable, field.metadata.get("comment"))
        for field in source.snapshot.metadata.schema.fields
    ]


def _bare(kind: Any) -> Any:
    """A type's JSON without the members that column mapping adds."""
    if isinstance(kind, dict):
        return {key: _bare(value) for key, value in kind.items() if key != "metadata"}
    return [_bare(each) for each in kind] if isinstance(kind, list) else kind


def test_comments_and_nullability_survive_in_every_field(
    tmp_path: Path, catalog: Any, opened: Any, iceberg_rows: Any, difference: Callable[..., str]
) -> None:
    table = evolved_table(catalog)
    there = convert(
        opened(table.metadata_location),
        to="delta",
        target=str(tmp_path / "delta"),
        options=ConvertOptions(former_names="rewrite"),
    )
    back = convert(opened(there.target), to="iceberg")
    assert _columns_of_iceberg(opened(back.target)) == _columns_of_iceberg(opened(table.metadata_location))
    assert not difference(iceberg_rows(back.target_metadata), table.scan().to_arrow())


def _columns_of_iceberg(source: IcebergSource) -> list[tuple[Any, ...]]:
    """Ids, names, types, nullability and comments of every field at any depth."""
    return [
        (each.field_id, each.name, type(each.type).__name__, each.required, each.doc)
        for each in source.schema.all_fields()
    ]


def evolved_table(catalog: Any) -> Any:
    """Two partition fields; a column added, one renamed, one dropped between two appends."""
    schema = schemas.Schema(
        types.NestedField(1, "id", types.LongType(), required=True, doc="the key"),
        types.NestedField(2, "text", types.StringType()),
        types.NestedField(3, "moment", types.TimestamptzType()),
        types.NestedField(4, "region", types.StringType(), doc="where"),
        types.NestedField(5, "gone", types.IntegerType()),
        types.NestedField(
            6, "tags", types.ListType(element_id=7, element_type=types.StringType(), element_required=False)
        ),
        types.NestedField(8, "kind", types.IntegerType(), required=True),
    )
    spec = partitioning.PartitionSpec(
        partitioning.PartitionField(4, 1000, transforms.IdentityTransform(), "region"),
        partitioning.PartitionField(8, 1001, transforms.IdentityTransform(), "kind"),
    )
    table = catalog.create_table("n.t", schema=schema, partition_spec=spec)
    table.append(iceberg_table_rows(0, "text").append_column("gone", pa.array(range(12), pa.int32())))
    with table.update_schema() as update:
        update.rename_column("text", "words")
        update.add_column("added", types.DoubleType(), doc="later")
        update.delete_column("gone")
    table.append(iceberg_table_rows(12, "words").append_column("added", pa.array([i / 3 for i in range(12)])))
    return table


def iceberg_table_rows(start: int, text: str) -> pa.Table:
    numbers = range(start, start + 12)
    return pa.table(
        [
            pa.array(numbers, pa.int64()),
            pa.array([None if i % 4 == 0 else f"t{i}" for i in numbers]),
            pa.array([dt.datetime(2024, 3, 1, 12 * (i % 2), tzinfo=UTC) for i in numbers], pa.timestamp("us", "UTC")),
            pa.array([None if i % 3 == 0 else "n/ö %" for i in numbers]),
            pa.array([None if i % 2 else [str(i), None] for i in numbers], pa.list_(pa.string())),
            pa.array([i % 2 for i in numbers], pa.int32()),
        ],
        schema=pa.schema(
            [
                pa.field("id", pa.int64(), nullable=False),
                pa.field(text, pa.string()),
                pa.field("moment", pa.timestamp("us", "UTC")),
                pa.field("region", pa.string()),
                pa.field("tags", pa.list_(pa.string())),
                pa.field("kind", pa.int32(), nullable=False),
            ]
        ),
    )


def test_iceberg_to_delta_to_iceberg_with_evolution_and_deletes(
    tmp_path: Path,
    catalog: Any,
    delete_from_iceberg: Any,
    opened: Any,
    delta_rows: Any,
    iceberg_rows: Any,
    difference: Callable[..., str],
) -> None:
    place = delete_from_iceberg(evolved_table(catalog).metadata_location, {0: [0], 2: [1], 5: [0]})
    source = opened(place)
    wanted = iceberg_rows(place)
    assert wanted.num_rows == 21
    there = convert(source, to="delta", target=str(tmp_path / "delta"), options=ConvertOptions(former_names="rewrite"))
    assert there.rewritten_files == 4
    assert there.rows == 21
    assert there.plan.deletes["position"] == 3
    assert not difference(delta_rows(there.target), wanted)
    back = convert(opened(there.target), to="iceberg")
    assert not difference(iceberg_rows(back.target_metadata), wanted)
    assert [each.name for each in opened(back.target).table.metadata.partition_specs[-1].fields] == ["region", "kind"]
    for target in (there.target, back.target):
        report = verify(source, opened(target), rows=True, bounds=True)
        assert report.equal, report.to_json()


def test_trusting_ids_rewrites_nothing(
    tmp_path: Path, catalog: Any, opened: Any, iceberg_rows: Any, difference: Callable[..., str]
) -> None:
    table = evolved_table(catalog)
    source = opened(table.metadata_location)
    done = convert(source, to="delta", target=str(tmp_path / "delta"), options=ConvertOptions(former_names="trust-ids"))
    assert done.rewritten_files == 0
    assert verify(source, opened(done.target), rows=True).equal
    back = convert(opened(done.target), to="iceberg")
    assert not difference(iceberg_rows(back.target_metadata), table.scan().to_arrow())


@pytest.mark.parametrize("transform", ["bucket[4]", "day", "hour", "truncate[10]", "void"])
@pytest.mark.parametrize("format_version", [1, 2, 3])
def test_a_hidden_partition_leaves_every_column_where_it_is(
    tmp_path: Path,
    write_iceberg_file: Any,
    opened: Any,
    delta_rows: Any,
    iceberg_rows: Any,
    difference: Callable[..., str],
    transform: str,
    format_version: int,
) -> None:
    moment, number = NestedField(field_id=4, name="ts", required=False, type=TimestampType()), LongType()
    schema = Schema(schema_id=0, fields=(NestedField(field_id=2, name="n", required=False, type=number), moment))
    source_id = 4 if transform in ("day", "hour") else 2
    field = PartitionField(source_ids=(source_id,), field_id=1000, name="hidden", transform=parse_transform(transform))
    spec = PartitionSpec(spec_id=0, fields=(field,))
    root = str(tmp_path / "iceberg")
    pieces = [
        pa.table(
            {
                "n": pa.array([None if moment is None else i], pa.int64()),
                "ts": pa.array([moment], pa.timestamp("us")),
            }
        )
        for i, moment in enumerate([dt.datetime(1969, 12, 31, 23, 59, 59, 999_999), None, dt.datetime(2024, 1, 1)], -15)
    ]
    with create_table(open_storage(), root, schema=schema, spec=spec, format_version=format_version) as transaction:
        entries = [write_iceberg_file(root, schema, piece, spec) for piece in pieces]
        transaction.snapshot("append").add_files(entries, 0)
        table = transaction.commit()
    wanted = pa.concat_tables(pieces)
    assert not difference(iceberg_rows(table.metadata_location), wanted)
    there = convert(opened(root), to="delta", target=str(tmp_path / "delta"))
    assert opened(there.target).snapshot.metadata.partition_columns == ()
    assert there.rewritten_files == 0
    assert not difference(delta_rows(there.target), wanted)
    back = convert(opened(there.target), to="iceberg")
    assert not difference(iceberg_rows(back.target_metadata), wanted)
    assert verify(opened(root), opened(back.target), rows=True, bounds=True).equal


@pytest.mark.parametrize("format_version", ["1", "2", "3"])
def test_deletes_of_every_format_version(
    tmp_path: Path,
    catalog: Any,
    delete_from_iceberg: Any,
    opened: Any,
    delta_rows: Any,
    difference: Callable[..., str],
    format_version: str,
) -> None:
    if format_version == "3":
        pytest.importorskip("pyiceberg")
        place = _version_3_table(tmp_path)
    else:
        table = catalog.create_table(
            "n.t", schema=iceberg_table_rows(0, "text").schema, properties={"format-version": format_version}
        )
        table.append(iceberg_table_rows(0, "text"))
        place = table.metadata_location
    if format_version != "1":
        place = delete_from_iceberg(place, {0: [0, 3, 11]})
    wanted = iceberg_table_rows(0, "text")
    if format_version != "1":
        wanted = wanted.take([1, 2, 4, 5, 6, 7, 8, 9, 10])
    done = convert(opened(place), to="delta", target=str(tmp_path / "delta"))
    assert not difference(delta_rows(done.target), wanted)
    assert done.rows == wanted.num_rows


def _version_3_table(tmp_path: Path) -> str:
    """A Delta table's Iceberg side in version 3, since PyIceberg does not write that version."""
    deltalake = pytest.importorskip("deltalake")
    folder = str(tmp_path / "first")
    deltalake.write_deltalake(folder, iceberg_table_rows(0, "text"))
    from deltaberg.migrate.source import open_source

    done = convert(open_source(folder, open_storage()), to="iceberg", options=ConvertOptions(format_version=3))
    assert Table.open(done.target, open_storage()).metadata.format_version == 3
    return done.target_metadata


def _lineage(place: str) -> dict[str, tuple[int, int]]:
    """First row id and sequence number of every live file, by its name."""
    table = Table.open(place, open_storage())
    return {
        Path(row["file_path"]).name: (row["first_row_id"], row["sequence_number"])
        for batch in data_files(table, table.metadata.current_snapshot)
        for row in batch.select(["file_path", "first_row_id", "sequence_number"]).to_pylist()
    }


@pytest.mark.parametrize("history", ["latest", "all"])
def test_row_ids_and_the_numbers_of_commits_survive(
    tmp_path: Path, write_iceberg_file: Any, delete_from_iceberg: Any, opened: Any, history: Any
) -> None:
    """The files come from the fourth commit at most, yet the first Delta version has them all."""
    root = str(tmp_path / "iceberg")
    schema = Schema(schema_id=0, fields=(NestedField(field_id=1, name="n", required=False, type=LongType()),))
    with create_table(open_storage(), root, schema=schema, spec=UNPARTITIONED, format_version=3) as transaction:
        transaction.commit()
    for number in range(4):
        piece = write_iceberg_file(root, schema, pa.table({"n": [number, number + 10]}), UNPARTITIONED)
        with Table.open(root, open_storage()).transaction() as transaction:
            transaction.snapshot("append").add_files(piece, 0)
            place = transaction.commit().metadata_location
    place = delete_from_iceberg(place, {1: [0]})
    wanted = _lineage(place)
    assert sorted(wanted.values()) == [(0, 1), (2, 2), (4, 3), (6, 4)]
    there = convert(opened(place), to="delta", target=str(tmp_path / "delta"))
    adds = pa.Table.from_batches(list(opened(there.target).snapshot.add_files()))
    assert sorted(
        zip(*(adds[name].to_pylist() for name in ("base_row_id", "default_row_commit_version")), strict=True)
    ) == (sorted(wanted.values()))
    back = convert(opened(there.target), to="iceberg", options=ConvertOptions(history=history))
    assert _lineage(back.target_metadata) == wanted
    final = Table.open(back.target, open_storage()).metadata
    assert final.last_sequence_number >= 4
    assert final.next_row_id == 8
    assert verify(opened(place), opened(back.target), rows=True, bounds=True).equal


def mapped_delta_table(folder: Path, mode: str) -> Path:
    """A column-mapped table, partitioned by ``p``, whose columns have physical names of their own."""
    described = [("id", "long", "col-1"), ("text", "string", "col-2"), ("p", "string", "col-3")]
    fields = [
        {
            "name": name,
            "type": kind,
            "nullable": name != "id",
            "metadata": {
                "comment": f"the {name}",
                "delta.columnMapping.id": number,
                "delta.columnMapping.physicalName": physical,
            },
        }
        for number, (name, kind, physical) in enumerate(described, 1)
    ]
    metadata = {
        "id": "7f0b1c9e-0000-4000-8000-000000000001",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": fields}),
        "partitionColumns": ["p"],
        "configuration": {"delta.columnMapping.mode": mode, "delta.columnMapping.maxColumnId": "3"},
        "createdTime": 1,
    }
    actions: list[dict[str, Any]] = [
        {"protocol": {"minReaderVersion": 2, "minWriterVersion": 5}},
        {"metaData": metadata},
    ]
    for place, value in enumerate(("x", "y", None)):
        schema = pa.schema(
            [
                pa.field("col-1", pa.int64(), nullable=False, metadata={"PARQUET:field_id": "1"}),
                pa.field("col-2", pa.string(), metadata={"PARQUET:field_id": "2"}),
            ]
        )
        file = folder / f"part-{place}.parquet"
        folder.mkdir(exist_ok=True)
        pq.write_table(pa.table([[place, place + 10], ["a", None]], schema=schema), file)
        stats = {"numRecords": 2, "minValues": {"col-1": place}, "maxValues": {"col-1": place + 10}}
        add = {
            "path": file.name,
            "partitionValues": {"col-3": value},
            "size": file.stat().st_size,
            "modificationTime": 1,
            "dataChange": True,
            "stats": json.dumps({**stats, "nullCount": {"col-1": 0, "col-2": 1}}),
        }
        actions.append({"add": add})
    (folder / "_delta_log").mkdir()
    text = "\n".join(json.dumps(action) for action in actions)
    (folder / "_delta_log" / f"{0:020}.json").write_text(text + "\n")
    return folder


@pytest.mark.parametrize("mode", ["name", "id"])
def test_a_column_mapped_delta_table_gets_its_partitioning_and_physical_names_back(
    tmp_path: Path, opened: Any, delta_rows: Any, iceberg_rows: Any, difference: Callable[..., str], mode: str
) -> None:
    folder = mapped_delta_table(tmp_path / "t", mode)
    wanted = delta_rows(folder)
    assert sorted(wanted["p"].to_pylist(), key=str) == [None, None, "x", "x", "y", "y"]
    there = convert(opened(folder), to="iceberg")
    assert not difference(iceberg_rows(there.target_metadata), wanted)
    back = convert(opened(there.target), to="delta", target=str(tmp_path / "back"))
    assert back.rewritten_files == 0
    assert "partition-names-mapped" in {item.code for item in back.plan.items if item.severity == "warning"}
    final = opened(back.target)
    assert final.snapshot.metadata.partition_columns == ("p",)
    assert final.snapshot.column_mapping.mode.value == mode
    assert _columns_of_delta(final) == _columns_of_delta(opened(folder))
    assert not difference(delta_rows(back.target), wanted)
    report = verify(opened(folder), final, rows=True, bounds=True)
    assert report.equal, report.to_json()


def test_a_column_that_was_renamed_meanwhile_keeps_its_physical_name(
    tmp_path: Path, opened: Any, delta_rows: Any
) -> None:
    there = convert(opened(mapped_delta_table(tmp_path / "t", "name")), to="iceberg")
    table = opened(there.target).table
    with table.transaction() as transaction:
        transaction.update_schema(lambda columns: columns.rename_column("p", "q").rename_column("id", "key"))
        transaction.commit()
    back = convert(opened(there.target), to="delta", target=str(tmp_path / "back"))
    assert back.rewritten_files == 0
    schema = opened(back.target).snapshot.metadata.schema
    physical = {column.name: column.metadata["delta.columnMapping.physicalName"] for column in schema.fields}
    assert physical == {"key": "col-1", "text": "col-2", "q": "col-3"}
    rows = delta_rows(back.target)
    assert sorted(rows["q"].to_pylist(), key=str) == [None, None, "x", "x", "y", "y"]
    assert sorted(rows["key"].to_pylist()) == [0, 1, 2, 10, 11, 12]


def test_a_plain_delta_table_comes_back_without_column_mapping(
    tmp_path: Path, write_delta: Any, opened: Any, delta_rows: Any, difference: Callable[..., str]
) -> None:
    folder = write_delta(pa.table({"id": [1, 2], "p": ["x", "y"]}), partition_by=["p"])
    there = convert(opened(folder), to="iceberg")
    back = convert(opened(there.target), to="delta", target=str(tmp_path / "back"))
    snapshot = opened(back.target).snapshot
    assert snapshot.column_mapping.mode.value == "none"
    assert (snapshot.protocol.min_reader_version, snapshot.metadata.partition_columns) == (1, ("p",))
    assert not difference(delta_rows(back.target), delta_rows(folder))


def test_a_plain_delta_table_whose_column_was_renamed_meanwhile_needs_column_mapping(
    tmp_path: Path, write_delta: Any, opened: Any, delta_rows: Any
) -> None:
    there = convert(opened(write_delta(pa.table({"id": [1, 2], "a": ["x", "y"]}))), to="iceberg")
    with opened(there.target).table.transaction() as transaction:
        transaction.update_schema(lambda columns: columns.rename_column("a", "b"))
        transaction.commit()
    back = convert(opened(there.target), to="delta", target=str(tmp_path / "back"))
    assert opened(back.target).snapshot.column_mapping.mode.value == "name"
    assert delta_rows(back.target).to_pydict() == {"id": [1, 2], "b": ["x", "y"]}
