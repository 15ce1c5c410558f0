"""What proves that a table's own writers wrote a file, and what does not."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaberg.delta.log.actions import CommitInfo
from deltaberg.delta.log.commit_provenance import CommitProvenance, read_provenance
from deltaberg.delta.table import DeltaTable
from deltaberg.iceberg.schema.name_mapping import NAME_MAPPING_PROPERTY
from deltaberg.iceberg.schema.schema import Schema
from deltaberg.iceberg.schema.types import LongType, NestedField
from deltaberg.migrate.files.file_layout import FileLayout
from deltaberg.migrate.files.provenance import Doubts
from deltaberg.migrate.to_delta.provenance import IcebergProvenance
from deltaberg.migrate.to_iceberg.provenance import CLOCKS_DIFFER_MS, DeltaProvenance, doubt_of
from deltaberg.storage import open_storage

SPARK = "Apache-Spark/3.5.3 Delta-Lake/3.3.0"
DELTA_RS = "delta-rs:py-1.1.0"
UUID = str(uuid.UUID(int=7))
CREATED = 1_700_000_000_000
LATER = CREATED + CLOCKS_DIFFER_MS + 1
PART = f"part-00000-{UUID}-c000.snappy.parquet"


def commit(operation: str | None, engine: str | None = SPARK, *, adds: bool = True, **others: Any) -> CommitProvenance:
    raw = {"operation": operation, "engineInfo": engine, "timestamp": CREATED, **others}
    info = CommitInfo(raw={key: value for key, value in raw.items() if value is not None})
    return CommitProvenance(info=info, adds=adds)


class TestOfACommit:
    @pytest.mark.parametrize(
        "own",
        [
            commit("WRITE"),
            commit("CREATE OR REPLACE TABLE AS SELECT"),
            commit("OPTIMIZE", "Databricks-Runtime/15.4.x-photon-scala2.12"),
            commit("WRITE", DELTA_RS, operationMetrics={"num_added_files": 1}),
            commit("MERGE", None, isBlindAppend=False),
            commit("SET TBLPROPERTIES", adds=False),
            commit("ANYTHING NEW", "some engine", adds=False),
            commit("RESTORE"),
        ],
    )
    def test_files_are_its_own(self, own: CommitProvenance) -> None:
        assert doubt_of(own) is None

    @pytest.mark.parametrize(
        ("other", "why"),
        [
            (commit("CONVERT"), "imported by CONVERT"),
            (commit("CLONE"), "imported by CLONE"),
            (commit("ADD FILES", adds=False), "imported by ADD FILES"),
            (commit("CREATE TABLE", DELTA_RS), "a commit of the unknown operation 'CREATE TABLE' added files"),
            (commit("Manual Update"), "a commit of the unknown operation 'Manual Update' added files"),
            (commit("WRITE", DELTA_RS), "WRITE by an unknown writer"),
            (commit("WRITE", "my own tool"), "WRITE by an unknown writer"),
            (commit("WRITE", None), "WRITE by an unknown writer"),
            (CommitProvenance(info=None, adds=True), "a commit does not say who made it"),
        ],
    )
    def test_files_may_be_others(self, other: CommitProvenance, why: str) -> None:
        assert doubt_of(other) == why

    @pytest.mark.parametrize("place", ["first", "last"])
    @pytest.mark.parametrize("files", [1, 2_000])
    def test_is_read_from_either_end(self, tmp_path: Path, place: str, files: int) -> None:
        lines = [json.dumps({"add": {"path": f"{UUID}-{number}", "stats": '"commitInfo"'}}) for number in range(files)]
        lines.insert(0 if place == "first" else files, json.dumps({"commitInfo": {"operation": "WRITE"}}))
        (tmp_path / "0.json").write_text("\n".join(lines) + "\n")
        found = read_provenance(open_storage(), str(tmp_path / "0.json"))
        assert found.adds
        assert found.info is not None
        assert found.info.operation == "WRITE"

    def test_that_is_damaged_says_nothing(self, tmp_path: Path) -> None:
        (tmp_path / "0.json").write_text('{"commitInfo": {"operation"\n[{"commitInfo": 1}]\n{"commitInfo": 1}\n')
        assert read_provenance(open_storage(), str(tmp_path / "0.json")).info is None


def described(table: Path, **changes: Any) -> tuple[list[bool], dict[str, int]]:
    snapshot = DeltaTable.open(str(table), open_storage()).snapshot()
    (adds,) = snapshot.add_files()
    for name, values in changes.items():
        place = adds.schema.get_field_index(name)
        adds = adds.set_column(place, adds.schema.field(place), pa.array(values, adds.schema.field(place).type))
    found = DeltaProvenance.of(snapshot).describe(adds, adds.column("path"))
    return found.own.tolist(), dict(found.doubts)


def delta_table(folder: Path, *infos: dict[str, Any], path: str = PART, dated: int = LATER, **add: Any) -> Path:
    """One file, added by the first commit; a commit for each of ``infos``."""
    log = folder / "_delta_log"
    log.mkdir(parents=True)
    schema = {"type": "struct", "fields": [{"name": "a", "type": "long", "nullable": True, "metadata": {}}]}
    metadata = {
        "id": "x",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps(schema),
        "partitionColumns": [],
        "configuration": {},
        "createdTime": CREATED,
    }
    file = {"path": path, "partitionValues": {}, "size": 9, "modificationTime": dated, "dataChange": True}
    begin = [
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {"metaData": metadata},
        {"add": {**file, "stats": '{"numRecords": 1}', **add}},
    ]
    for version, info in enumerate(infos):
        actions = [{"commitInfo": {"timestamp": CREATED, "engineInfo": SPARK, **info}}, *(begin if not version else [])]
        (log / f"{version:020}.json").write_text("".join(json.dumps(each) + "\n" for each in actions))
    return folder


WRITE = {"operation": "WRITE"}


class TestOfDelta:
    def test_what_spark_wrote_is_own(self, tmp_path: Path) -> None:
        assert described(delta_table(tmp_path, WRITE)) == ([True], {})

    def test_the_table_may_be_younger_than_files_of_a_log_that_tells_all(self, tmp_path: Path) -> None:
        assert described(delta_table(tmp_path, WRITE, dated=CREATED - 5)) == ([True], {})

    @pytest.mark.parametrize(("dated", "own"), [(CREATED + CLOCKS_DIFFER_MS, False), (LATER, True)])
    def test_only_what_is_older_than_an_import_may_come_from_it(self, tmp_path: Path, dated: int, own: bool) -> None:
        table = delta_table(tmp_path, {"operation": "CONVERT"}, WRITE, dated=dated)
        assert described(table) == ([own], {} if own else {"imported by CONVERT": 1})

    @pytest.mark.parametrize(
        ("add", "why"),
        [
            ({"path": f"file:/elsewhere/{PART}"}, "outside the table's folder"),
            ({"path": f"/elsewhere/{PART}"}, "outside the table's folder"),
            ({"path": f"../elsewhere/{PART}"}, "outside the table's folder"),
            ({"path": "part-00000.parquet"}, "not named as Delta's writers do"),
            ({"stats": None}, "without statistics"),
            ({"stats": '{"minValues": {"a": 1}}'}, "without statistics"),
        ],
    )
    def test_what_the_add_itself_makes_doubtful(self, tmp_path: Path, add: dict[str, Any], why: str) -> None:
        assert described(delta_table(tmp_path, WRITE, **add)) == ([False], {why: 1})

    @pytest.mark.parametrize(
        ("dated", "name", "own"),
        [(CREATED, PART, False), (LATER, PART, True), (LATER, f"{UUID}.parquet", False)],
    )
    def test_a_log_without_its_beginning_leaves_the_rest_to_time_and_name(
        self, tmp_path: Path, dated: int, name: str, own: bool
    ) -> None:
        deltalake = pytest.importorskip("deltalake")
        table = delta_table(tmp_path, WRITE, WRITE, path=name, dated=dated)
        deltalake.DeltaTable(str(table)).create_checkpoint()
        (table / "_delta_log" / f"{0:020}.json").unlink()
        assert described(table)[0] == [own]

    def test_a_log_without_its_beginning_and_a_table_without_a_birthday_prove_nothing(self, tmp_path: Path) -> None:
        deltalake = pytest.importorskip("deltalake")
        table = delta_table(tmp_path, WRITE, WRITE)
        first = table / "_delta_log" / f"{0:020}.json"
        first.write_text(first.read_text().replace(f'"createdTime": {CREATED}', '"createdTime": null'))
        deltalake.DeltaTable(str(table)).create_checkpoint()
        first.unlink()
        assert described(table)[0] == [False]

    def test_ids_contradict_a_table_without_column_mapping(self, tmp_path: Path, with_fields: Any) -> None:
        table = delta_table(tmp_path, WRITE)
        proof = DeltaProvenance.of(DeltaTable.open(str(table), open_storage()).snapshot())
        assert proof.contradicts(with_fields(a=1))
        assert not proof.contradicts(with_fields(a=None))


@pytest.fixture
def with_fields() -> Any:
    """``with_fields(a=1)``: facts of a file with column ``a`` under id 1."""
    from deltaberg.datafile import FileField

    def facts(**ids: int | None) -> FileLayout:
        fields = [FileField(name=name, type=pa.int64(), field_id=each) for name, each in ids.items()]
        return FileLayout(format="parquet", fields=tuple(fields))

    return facts


def iceberg_batch(*paths: str) -> pa.RecordBatch:
    return pa.record_batch({"file_path": pa.array(paths), "snapshot_id": pa.array([7] * len(paths), pa.int64())})


SCHEMA = Schema(
    schema_id=0,
    fields=tuple(
        NestedField(field_id=n, name=each, required=False, type=LongType()) for n, each in ((1, "a"), (2, "b"))
    ),
)
PROOF = IcebergProvenance(folders=("s3://b/t/data/",), has_name_mapping=False, schemas=(SCHEMA,))


class TestOfIceberg:
    @pytest.mark.parametrize(
        "name",
        [
            f"00000-0-{UUID}-00001.parquet",
            f"day=2024-01-01/00012-345-{UUID}-0-00001.parquet",
            f"00000-0-{UUID}.parquet",
            f"a/b/20240131_120000_00001_abc12-{UUID}.parquet",
        ],
    )
    def test_files_named_by_its_writers_in_its_folder_are_own(self, name: str) -> None:
        assert PROOF.describe(iceberg_batch(f"s3://b/t/data/{name}")).own.tolist() == [True]

    @pytest.mark.parametrize(
        "path",
        [
            f"s3://b/t/{UUID}/00000-0-{UUID}-00001.parquet",
            f"s3://b/other/data/00000-0-{UUID}-00001.parquet",
            f"s3://b/t/data/../x/00000-0-{UUID}-00001.parquet",
            f"s3://b/t/data/part-00000-{UUID}-c000.snappy.parquet",
            "s3://b/t/data/000000_0",
            "s3://b/t/data/00000-0-1-00001.parquet",
        ],
    )
    def test_others_are_not(self, path: str) -> None:
        assert PROOF.describe(iceberg_batch(path)).own.tolist() == [False]

    def test_a_name_mapping_leaves_no_file_proven(self, catalog: Any) -> None:
        table = catalog.create_table("n.t", schema=pa.schema([("id", pa.int64())]))
        table.append(pa.table({"id": [1]}))
        paths = [each.file.file_path for each in table.scan().plan_files()]
        from deltaberg.iceberg.table import Table

        def own() -> list[bool]:
            opened = Table.open(table.metadata_location, open_storage())
            return list(IcebergProvenance.of(opened.metadata).describe(iceberg_batch(*paths)).own.tolist())

        assert own() == [True]
        with table.transaction() as changes:
            changes.set_properties({NAME_MAPPING_PROPERTY: '[{"field-id": 1, "names": ["id"]}]'})
        assert own() == [False]

    @pytest.mark.parametrize(
        ("ids", "contradicts"),
        [
            ({"a": 1, "b": 2}, False),
            ({"a": 1, "b": 2, "_row_id": 2147483540}, False),
            ({"a": 1}, False),
            ({"a": None, "b": 2}, True),
            ({"a": 1, "c": 3}, True),
            ({"a": 2, "b": 1}, True),
        ],
    )
    def test_what_its_writers_never_write(
        self, ids: dict[str, int | None], contradicts: bool, with_fields: Any
    ) -> None:
        assert PROOF.contradicts(with_fields(**ids)) is contradicts


@given(st.lists(st.lists(st.booleans(), min_size=5, max_size=5), max_size=4))
def test_every_doubted_file_is_counted_once(reasons: list[list[bool]]) -> None:
    import numpy as np

    doubts = Doubts(5)
    for number, mask in enumerate(reasons):
        doubts.add(str(number), np.array(mask))
    doubted = [any(column) for column in zip(*reasons, strict=True)] if reasons else [False] * 5
    assert doubts.own.tolist() == [not each for each in doubted]
    assert sum(doubts.counts.values()) == sum(doubted)
