"""Scans: what the log says wins over what the files say, and every contradiction is named."""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltaberg.bitmap import PositionBitmap
from deltaberg.datafile import DataFileError
from deltaberg.delta.create_table import create_table, new_metadata
from deltaberg.delta.deletion_vector.deletion_vector import inline_descriptor
from deltaberg.delta.errors import CorruptDeletionVector, CorruptLog, InvalidDeltaRequest
from deltaberg.delta.scan import scan
from deltaberg.delta.schema.column_mapping import MappingMode
from deltaberg.delta.schema.schema import schema_to_json
from deltaberg.delta.schema.types import (
    ArrayType,
    DeltaType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
    VoidType,
)
from deltaberg.delta.snapshot import Snapshot
from deltaberg.delta.table import DeltaTable
from deltaberg.delta.transaction import Transaction, begin_transaction
from deltaberg.storage import open_storage
from deltaberg.storage.errors import NotFound

STORAGE = open_storage()
MakeFile = Callable[..., pa.RecordBatch]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "table"


def create(
    root: Path,
    *fields: StructField,
    configuration: Mapping[str, str] | None = None,
    mode: MappingMode = MappingMode.NONE,
    partition_columns: tuple[str, ...] = (),
) -> Transaction:
    metadata = new_metadata(
        StructType(fields=fields),
        table_id="t",
        created_time_ms=1,
        configuration=configuration or {},
        column_mapping=mode,
        partition_columns=partition_columns,
    )
    return create_table(STORAGE, str(root), metadata=metadata)


def newest(root: Path) -> Snapshot:
    return DeltaTable.open(str(root), STORAGE).snapshot()


def rows(snapshot: Snapshot, **options: object) -> list[dict[str, object]]:
    plan = scan(snapshot, **options)  # type: ignore[arg-type]
    return pa.Table.from_batches(plan.batches(), schema=plan.schema).to_pylist()


def change_schema(root: Path, *fields: StructField) -> None:
    transaction = begin_transaction(newest(root))
    schema = StructType(fields=fields)
    transaction.set_metadata(
        dataclasses.replace(transaction.metadata, schema=schema, schema_string=schema_to_json(schema))
    )
    transaction.commit("ALTER TABLE")


def with_ids(table: pa.Table, ids: Mapping[str, int]) -> pa.Table:
    fields = [
        field.with_metadata({"PARQUET:field_id": str(ids[field.name])}) if field.name in ids else field
        for field in table.schema
    ]
    return table.cast(pa.schema(fields))


def with_vector(batch: pa.RecordBatch, *positions: int) -> pa.RecordBatch:
    bitmap = PositionBitmap.from_positions(np.array(positions, np.int64))
    vector = inline_descriptor(bitmap.serialize(), len(positions))
    return batch.append_column("deletion_vector", pa.array([dataclasses.asdict(vector)]))


ID = StructField(name="id", type=LongType())
NAME = StructField(name="name", type=StringType())


class TestColumns:
    def test_those_that_a_file_lacks_are_null_and_those_that_the_table_lacks_are_not_read(
        self, root: Path, data_file: MakeFile
    ) -> None:
        transaction = create(root, ID, NAME, StructField(name="nothing", type=VoidType()))
        transaction.add_files([data_file(pa.table({"_change_type": ["insert"], "id": [1]}))])
        transaction.commit("WRITE")
        assert rows(newest(root)) == [{"id": 1, "name": None, "nothing": None}]

    def test_one_that_must_not_be_null_reads_as_null_where_files_lack_it(self, root: Path, data_file: MakeFile) -> None:
        transaction = create(root, ID, dataclasses.replace(NAME, nullable=False))
        transaction.add_files([data_file(pa.table({"id": [1]}))])
        transaction.commit("WRITE")
        assert rows(newest(root)) == [{"id": 1, "name": None}]

    def test_chosen_columns_come_in_the_order_asked_for(self, root: Path, data_file: MakeFile) -> None:
        transaction = create(root, ID, NAME, partition_columns=("name",))
        transaction.add_files([data_file(pa.table({"id": [1, 2]}), partition={"name": "x"})])
        transaction.commit("WRITE")
        snapshot = newest(root)
        assert scan(snapshot, columns=["name", "id"]).schema.names == ["name", "id"]
        assert rows(snapshot, columns=["name"]) == [{"name": "x"}] * 2
        assert rows(snapshot, columns=[]) == [{}, {}]

    @pytest.mark.parametrize(
        ("columns", "message"), [(["ID"], r"none of that name \(it has id\)"), (["id", "id"], "twice")]
    )
    def test_other_columns_are_refused(self, root: Path, columns: list[str], message: str) -> None:
        create(root, ID).commit("CREATE TABLE")
        with pytest.raises(InvalidDeltaRequest, match=message):
            scan(newest(root), columns=columns)

    def test_a_column_may_be_called_as_the_scan_calls_its_own(self, root: Path, data_file: MakeFile) -> None:
        transaction = create(
            root, StructField(name="_pos", type=LongType()), configuration={"delta.enableRowTracking": "true"}
        )
        transaction.add_files([with_vector(data_file(pa.table({"_pos": [7, 8, 9]})), 1)])
        with pytest.raises(InvalidDeltaRequest, match="deletion vectors: they are not active"):
            transaction.commit("WRITE")
        again = create(
            root,
            StructField(name="_pos", type=LongType()),
            configuration={"delta.enableRowTracking": "true", "delta.enableDeletionVectors": "true"},
        )
        again.add_files([with_vector(data_file(pa.table({"_pos": [7, 8, 9]})), 1)])
        again.commit("WRITE")
        assert rows(newest(root), with_lineage=True) == [
            {"_pos": 7, "_row_id": 0, "_row_commit_version": 0},
            {"_pos": 9, "_row_id": 2, "_row_commit_version": 0},
        ]


class TestColumnMapping:
    FIELDS = pa.table({"old": pa.array([1, 2], pa.int64()), "s": [{"x": 1}, None]})

    def renamed(self, root: Path, data_file: MakeFile, mode: MappingMode) -> None:
        """``old`` becomes ``new``, ``s.x`` becomes ``s.y``, and a new ``old`` is added; the file is from before."""
        inner = StructType(fields=(StructField(name="x", type=LongType()),))
        transaction = create(
            root, StructField(name="old", type=LongType()), StructField(name="s", type=inner), mode=mode
        )
        table = with_ids(self.FIELDS, {"old": 1, "s": 2})
        struct = pa.struct([pa.field("x", pa.int64(), metadata={"PARQUET:field_id": "3"})])
        table = table.set_column(1, table.schema.field(1).with_type(struct), table["s"].cast(struct))
        transaction.add_files([data_file(table, stats=False)])
        transaction.commit("WRITE")
        old, nested = newest(root).metadata.schema.fields
        assert isinstance(nested.type, StructType)
        new_inner = StructType(fields=(dataclasses.replace(nested.type.fields[0], name="y"),))
        change_schema(
            root,
            dataclasses.replace(old, name="new"),
            dataclasses.replace(nested, type=new_inner),
            StructField(
                name="old",
                type=StringType(),
                metadata={"delta.columnMapping.id": 9, "delta.columnMapping.physicalName": "col-9"},
            ),
        )

    @pytest.mark.parametrize("mode", [MappingMode.NAME, MappingMode.ID])
    def test_renamed_columns_keep_their_data_and_namesakes_do_not_inherit_it(
        self, root: Path, data_file: MakeFile, mode: MappingMode
    ) -> None:
        self.renamed(root, data_file, mode)
        assert rows(newest(root)) == [
            {"new": 1, "s": {"y": 1}, "old": None},
            {"new": 2, "s": None, "old": None},
        ]

    def test_in_mode_id_a_file_without_ids_is_refused(self, root: Path, data_file: MakeFile) -> None:
        transaction = create(root, ID, mode=MappingMode.ID)
        transaction.add_files([data_file(pa.table({"id": [1]}))])
        transaction.commit("WRITE")
        with pytest.raises(DataFileError, match="it has no field ids") as caught:
            rows(newest(root))
        assert "part-" in str(caught.value.path)

    def test_in_mode_id_names_do_not_count(self, root: Path, data_file: MakeFile) -> None:
        transaction = create(root, ID, NAME, mode=MappingMode.ID)
        swapped = with_ids(pa.table({"name": pa.array([1], pa.int64()), "id": ["x"]}), {"name": 1, "id": 2})
        transaction.add_files([data_file(swapped, stats=False)])
        transaction.commit("WRITE")
        assert rows(newest(root)) == [{"id": 1, "name": "x"}]


class TestPartitionValues:
    def test_those_of_the_log_win_over_those_in_the_file(self, root: Path, data_file: MakeFile) -> None:
        transaction = create(root, ID, StructField(name="p", type=IntegerType()), partition_columns=("p",))
        transaction.add_files(
            [
                data_file(pa.table({"id": [1], "p": pa.array([7], pa.int32())}), partition={"p": "8"}),
                data_file(pa.table({"id": [2], "p": pa.array([7], pa.int32())}), partition={"p": None}),
            ]
        )
        transaction.commit("WRITE")
        assert rows(newest(root)) == [{"id": 1, "p": 8}, {"id": 2, "p": None}]

    def test_one_that_is_not_of_its_type_is_named(self, root: Path, data_file: MakeFile) -> None:
        transaction = create(root, ID, StructField(name="p", type=IntegerType()), partition_columns=("p",))
        transaction.add_files([data_file(pa.table({"id": [1]}), partition={"p": "eight"})])
        transaction.commit("WRITE")
        with pytest.raises(CorruptLog, match="the partition value 'eight' of column 'p': it is no integer"):
            rows(newest(root))

    def test_timestamps_without_zone_are_of_the_zone_that_the_caller_names(
        self, root: Path, data_file: MakeFile
    ) -> None:
        transaction = create(root, ID, StructField(name="p", type=TimestampType()), partition_columns=("p",))
        transaction.add_files([data_file(pa.table({"id": [1]}), partition={"p": "2024-01-01 00:00:00.5"})])
        transaction.commit("WRITE")
        snapshot = newest(root)
        utc = dt.datetime(2024, 1, 1, 0, 0, 0, 500_000, tzinfo=dt.timezone.utc)
        assert rows(snapshot)[0]["p"] == utc
        assert rows(snapshot, partition_timezone="Asia/Tokyo")[0]["p"] == utc - dt.timedelta(hours=9)


class TestDeletionVectors:
    def one_file(self, root: Path, data_file: MakeFile, *deleted: int, count: int = 10) -> None:
        transaction = create(root, ID, configuration={"delta.enableDeletionVectors": "true"})
        file = data_file(pa.table({"id": pa.array(range(count), pa.int64())}))
        transaction.add_files([with_vector(file, *deleted)])
        transaction.commit("WRITE")

    @pytest.mark.parametrize("deleted", [(), (0,), (9,), (0, 5, 6, 9), tuple(range(10))])
    @pytest.mark.parametrize("batch_size", [1, 3, 100])
    def test_deleted_rows_are_left_out_whatever_the_batches(
        self, root: Path, data_file: MakeFile, deleted: tuple[int, ...], batch_size: int
    ) -> None:
        self.one_file(root, data_file, *deleted)
        found = [row["id"] for row in rows(newest(root), batch_size=batch_size)]
        assert found == [number for number in range(10) if number not in deleted]

    def test_one_that_deletes_a_row_beyond_the_file_is_refused(self, root: Path, data_file: MakeFile) -> None:
        self.one_file(root, data_file, 3, 10)
        with pytest.raises(CorruptDeletionVector, match=r"it deletes row 10 \(expected rows below 10"):
            rows(newest(root))

    def test_positions_run_over_row_groups(self, root: Path, tmp_path: Path, data_file: MakeFile) -> None:
        self.one_file(root, data_file, 0, 4, 5, 9)
        (file,) = root.glob("*.parquet")
        pq.write_table(pq.read_table(file), file, row_group_size=2)
        assert [row["id"] for row in rows(newest(root))] == [1, 2, 3, 6, 7, 8]


class TestLineage:
    def tracked(self, root: Path) -> Transaction:
        return create(root, ID, configuration={"delta.enableRowTracking": "true"})

    def test_materialized_values_win_over_generated_ones(self, root: Path, data_file: MakeFile) -> None:
        transaction = self.tracked(root)
        properties = transaction.metadata.properties
        kept, since = properties.materialized_row_id_column, properties.materialized_row_commit_version_column
        assert kept is not None
        assert since is not None
        transaction.add_files(
            [
                data_file(pa.table({"id": [1, 2]})),
                data_file(
                    pa.table(
                        {"id": [3, 4], kept: pa.array([40, None], pa.int64()), since: pa.array([None, 7], pa.int64())}
                    )
                ),
            ]
        )
        transaction.commit("WRITE")
        assert [tuple(row.values()) for row in rows(newest(root), with_lineage=True)] == [
            (1, 0, 0),
            (2, 1, 0),
            (3, 40, 0),
            (4, 3, 7),
        ]

    def test_where_it_is_not_enabled_there_is_none(self, root: Path) -> None:
        create(root, ID).commit("CREATE TABLE")
        with pytest.raises(InvalidDeltaRequest, match="row tracking is not enabled"):
            scan(newest(root), with_lineage=True)

    def test_a_file_without_ids_contradicts_the_table(self, root: Path, data_file: MakeFile) -> None:
        transaction = self.tracked(root)
        transaction.add_files([data_file(pa.table({"id": [1]}))])
        transaction.commit("WRITE")
        commit = root / "_delta_log" / f"{0:020d}.json"
        commit.write_text(commit.read_text().replace(',"baseRowId":0', ""))
        assert rows(newest(root)) == [{"id": 1}]
        with pytest.raises(CorruptLog, match="the add has no baseRowId"):
            rows(newest(root), with_lineage=True)

    def test_the_names_of_the_columns_must_be_free(self, root: Path) -> None:
        create(
            root, StructField(name="_row_id", type=LongType()), configuration={"delta.enableRowTracking": "true"}
        ).commit("CREATE TABLE")
        with pytest.raises(InvalidDeltaRequest, match="the table has a column '_row_id' of its own"):
            scan(newest(root), with_lineage=True)


class TestFiles:
    def test_absolute_and_encoded_paths(self, root: Path, tmp_path: Path, data_file: MakeFile) -> None:
        outside = tmp_path / "else where" / "f%41.parquet"
        outside.parent.mkdir()
        pq.write_table(pa.table({"id": [1]}), outside)
        transaction = create(root, ID)
        inside = data_file(pa.table({"id": [2]}), path="a b+c.parquet")
        encoded = str(outside).replace("%", "%25").replace(" ", "%20")
        transaction.add_files(
            [
                inside.set_column(0, "path", pa.array([f"file://{encoded}"])),
                inside.set_column(0, "path", pa.array(["a%20b+c.parquet"])),
            ]
        )
        transaction.commit("WRITE")
        assert sorted(row["id"] for row in rows(newest(root))) == [1, 2]  # type: ignore[type-var]

    def test_a_missing_file_is_named(self, root: Path, data_file: MakeFile) -> None:
        transaction = create(root, ID)
        transaction.add_files([data_file(pa.table({"id": [2]}), path="gone.parquet")])
        transaction.commit("WRITE")
        (root / "gone.parquet").unlink()
        with pytest.raises(NotFound) as caught:
            rows(newest(root))
        assert caught.value.path == str(root / "gone.parquet")

    def test_a_scan_can_be_cut_to_some_files(self, root: Path, data_file: MakeFile) -> None:
        transaction = create(root, ID)
        transaction.add_files([data_file(pa.table({"id": [number]})) for number in range(3)])
        transaction.commit("WRITE")
        snapshot = newest(root)
        (files,) = snapshot.add_files()
        assert rows(snapshot, files=[files.slice(1, 1)]) == [{"id": 1}]

    def test_a_type_that_was_never_widened_is_refused(self, root: Path, data_file: MakeFile) -> None:
        transaction = create(root, ID)
        transaction.add_files([data_file(pa.table({"id": ["one"]}), stats=False)])
        transaction.commit("WRITE")
        with pytest.raises(DataFileError, match=r"column 'id'.*\(expected int64, found string\)"):
            rows(newest(root))


CHAR = "__CHAR_VARCHAR_TYPE_STRING"


@pytest.mark.parametrize(
    ("kind", "sql", "stored", "read"),
    [
        (StringType(), "char(3)", ["a", "abcd", None], ["a  ", "abcd", None]),
        (StringType(), "varchar(3)", ["a"], ["a"]),
        (ArrayType(element_type=StringType()), "array<char(2)>", [["a", None], [], None], [["a ", None], [], None]),
        (
            MapType(key_type=StringType(), value_type=StringType()),
            "map<char(2),varchar(9)>",
            [[("k", "v")], None, [("k", None)]],
            [[("k ", "v")], None, [("k ", None)]],
        ),
        (
            StructType(
                fields=(
                    StructField(name="x:<y", type=DoubleType()),
                    StructField(name="c", type=ArrayType(element_type=StringType())),
                )
            ),
            "struct<`x:<y`:double,c:array<CHAR(2)>>",
            [{"x:<y": 1.0, "c": ["z"]}, None],
            [{"x:<y": 1.0, "c": ["z "]}, None],
        ),
    ],
)
def test_char_columns_are_padded_at_any_depth(
    root: Path, data_file: MakeFile, kind: DeltaType, sql: str, stored: list[object], read: list[object]
) -> None:
    from deltaberg.delta.schema.types import arrow_type

    field = StructField(name="c", type=kind, metadata={CHAR: sql})
    transaction = create(root, field)
    table = pa.table({"c": pa.array(["skipped", *stored][1:], arrow_type(kind))})
    transaction.add_files([data_file(table, stats=False)])
    transaction.commit("WRITE")
    assert [row["c"] for row in rows(newest(root))] == read
    assert [row["c"] for row in rows(newest(root), batch_size=1)] == read


def test_paths_of_vectors_hold_below_a_prefix(root: Path, data_file: MakeFile, engines) -> None:
    transaction = create(root, ID, configuration={"delta.enableDeletionVectors": "true"})
    bitmap = PositionBitmap.from_positions(np.array([0, 2]))
    file = data_file(pa.table({"id": pa.array(range(4), pa.int64())}))
    (vector,) = transaction.write_deletion_vectors([(bitmap.serialize(), 2)], prefix="_deltaberg")
    transaction.add_files([file.append_column("deletion_vector", pa.array([dataclasses.asdict(vector)]))])
    transaction.commit("WRITE")
    assert (root / "_deltaberg").is_dir()
    assert [row["id"] for row in rows(newest(root))] == [1, 3]
    for engine in ("deltalake", "duckdb"):
        assert sorted(engines.rows(engine, root)["id"].to_pylist()) == [1, 3]


def test_inline_vectors_are_read_by_other_engines(root: Path, data_file: MakeFile, engines) -> None:
    transaction = create(root, ID, configuration={"delta.enableDeletionVectors": "true"})
    transaction.add_files([with_vector(data_file(pa.table({"id": pa.array(range(4), pa.int64())})), 0, 2)])
    transaction.commit("WRITE")
    add = json.loads((root / "_delta_log" / f"{0:020d}.json").read_text().splitlines()[-1])["add"]
    assert add["deletionVector"]["storageType"] == "i"
    assert "offset" not in add["deletionVector"]
    for engine in ("deltalake", "duckdb"):
        assert sorted(engines.rows(engine, root)["id"].to_pylist()) == [1, 3]


def test_a_mapping_that_only_the_list_for_writers_names_is_obeyed(root: Path, data_file: MakeFile, engines) -> None:
    """What Delta Spark 3.1 leaves after ``delta.minReaderVersion`` was set to 3."""
    transaction = create(root, ID, mode=MappingMode.NAME)
    transaction.add_files([data_file(pa.table({"id": [1, 2]}))])
    transaction.commit("WRITE")
    (field,) = newest(root).metadata.schema.fields
    change_schema(root, dataclasses.replace(field, name="number"))
    for checksum in (root / "_delta_log").glob("*.crc"):
        checksum.unlink()
    log = root / "_delta_log" / f"{0:020d}.json"
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    for action in actions:
        if "protocol" in action:
            assert "columnMapping" in action["protocol"]["writerFeatures"]
            action["protocol"] |= {"minReaderVersion": 3, "readerFeatures": []}
    log.write_text("".join(json.dumps(action) + "\n" for action in actions))
    assert rows(newest(root)) == [{"number": 1}, {"number": 2}]
    assert sorted(engines.rows("deltalake", root)["number"].to_pylist()) == [1, 2]
