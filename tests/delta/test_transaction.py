"""Commits: what they write, what they refuse, and how they stand behind faster ones."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from deltaberg.bitmap import PositionBitmap
from deltaberg.delta.create_table import create_table, new_metadata
from deltaberg.delta.errors import DeltaConflict, InvalidDeltaRequest, UnsupportedDeltaFeature
from deltaberg.delta.scan import scan
from deltaberg.delta.schema.types import LongType, StringType, StructField, StructType
from deltaberg.delta.snapshot import Snapshot
from deltaberg.delta.table import DeltaTable
from deltaberg.delta.transaction import Transaction, begin_transaction
from deltaberg.storage import open_storage

STORAGE = open_storage()
SCHEMA = StructType(fields=(StructField(name="id", type=LongType()), StructField(name="name", type=StringType())))
TABLE_ID = "11111111-2222-3333-4444-555555555555"
NOW = 1_700_000_000_000


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "table"


def metadata(configuration: dict[str, str] | None = None, schema: StructType = SCHEMA, **more: object):
    return new_metadata(
        schema,
        table_id=TABLE_ID,
        created_time_ms=NOW,
        configuration=configuration or {},
        **more,  # type: ignore[arg-type]
    )


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "name": pa.array([f"n{i}" for i in ids])})


def read(root: Path, version: int | None = None) -> list[dict[str, object]]:
    plan = scan(DeltaTable.open(str(root), STORAGE).snapshot(version))
    return sorted(pa.Table.from_batches(plan.batches(), plan.schema).to_pylist(), key=lambda row: row["id"])


def newest(root: Path) -> Snapshot:
    return DeltaTable.open(str(root), STORAGE).snapshot()


def actions(root: Path, version: int) -> list[dict]:
    text = (root / "_delta_log" / f"{version:020d}.json").read_text()
    return [json.loads(line) for line in text.splitlines()]


def begin(root: Path) -> Transaction:
    return begin_transaction(newest(root), now_ms=lambda: NOW)


def test_a_new_table_declares_nothing_that_it_does_not_use(root: Path, data_file, engines) -> None:
    create = create_table(STORAGE, str(root), metadata=metadata(), now_ms=lambda: NOW)
    create.add_files([data_file(rows(1, 2)), data_file(rows(3))])
    assert create.commit("WRITE", parameters={"mode": "Append", "partitionBy": []}) == 0
    info, protocol, meta, first, second = actions(root, 0)
    assert protocol == {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}
    assert meta["metaData"]["id"] == TABLE_ID
    assert info["commitInfo"]["operation"] == "WRITE"
    assert info["commitInfo"]["operationParameters"] == {"mode": "Append", "partitionBy": "[]"}
    assert info["commitInfo"]["operationMetrics"]["numOutputRows"] == "3"
    assert info["commitInfo"]["timestamp"] == NOW
    assert uuid.UUID(info["commitInfo"]["txnId"])
    assert {"inCommitTimestamp", "readVersion"} & info["commitInfo"].keys() == set()
    assert json.loads(first["add"]["stats"])["maxValues"] == {"id": 2, "name": "n2"}
    assert second["add"]["partitionValues"] == {}
    expected = [{"id": i, "name": f"n{i}"} for i in (1, 2, 3)]
    assert read(root) == expected
    for engine in ("deltalake", "duckdb"):
        assert sorted(engines.rows(engine, root).to_pylist(), key=lambda r: r["id"]) == expected


def make(root: Path, data_file, *ids: int, configuration: dict[str, str] | None = None) -> None:
    create = create_table(STORAGE, str(root), metadata=metadata(configuration), now_ms=lambda: NOW)
    if ids:
        create.add_files([data_file(rows(*ids))])
    create.commit("CREATE TABLE")


def test_files_are_appended_and_removed(root: Path, data_file, engines) -> None:
    make(root, data_file, 1, 2)
    append = begin(root)
    append.add_files([data_file(rows(3))])
    append.set_txn("stream-1", 17, last_updated_ms=NOW)
    assert append.commit("WRITE", timestamp_ms=NOW + 5) == 1
    info = actions(root, 1)[0]["commitInfo"]
    assert (info["readVersion"], info["isBlindAppend"], info["timestamp"]) == (0, True, NOW + 5)
    delete = begin(root)
    (live,) = delete.base.add_files()  # type: ignore[union-attr]
    first = live.filter(pc.equal(pc.struct_field(live.column("stats"), "num_records"), 2))
    delete.remove_files([first])
    assert delete.commit("DELETE", timestamp_ms=NOW + 9) == 2
    (remove,) = [a["remove"] for a in actions(root, 2) if "remove" in a]
    assert remove == {
        "path": first.column("path")[0].as_py(),
        "deletionTimestamp": NOW + 9,
        "dataChange": True,
        "extendedFileMetadata": True,
        "partitionValues": {},
        "size": first.column("size")[0].as_py(),
        "stats": '{"numRecords":2}',
    }
    assert newest(root).txns["stream-1"].version == 17
    assert read(root) == [{"id": 3, "name": "n3"}]
    assert [row["id"] for row in read(root, 1)] == [1, 2, 3]
    for engine in ("deltalake", "duckdb"):
        assert engines.rows(engine, root).to_pylist() == [{"id": 3, "name": "n3"}]


def with_vectors(batch: pa.RecordBatch, vectors: list[dict[str, object] | None]) -> pa.RecordBatch:
    index = batch.schema.get_field_index("deletion_vector")
    kind = batch.schema.field(index).type
    return batch.set_column(index, batch.schema.field(index), pa.array(vectors, kind))


def vector(*positions: int) -> tuple[bytes, int]:
    return PositionBitmap.from_positions(np.array(positions, np.int64)).serialize(), len(positions)


def update_vector(transaction: Transaction, *positions: int) -> None:
    (live,) = transaction.base.add_files()  # type: ignore[union-attr]
    (descriptor,) = transaction.write_deletion_vectors([vector(*positions)])
    body = {
        "storage_type": descriptor.storage_type,
        "path_or_inline_dv": descriptor.path_or_inline_dv,
        "offset": descriptor.offset,
        "size_in_bytes": descriptor.size_in_bytes,
        "cardinality": descriptor.cardinality,
    }
    transaction.remove_files([live])
    transaction.add_files([with_vectors(live, [body])])


def test_rows_are_deleted_by_removing_a_file_and_adding_it_with_a_vector(root: Path, data_file, engines) -> None:
    make(root, data_file, 1, 2, 3, 4, configuration={"delta.enableDeletionVectors": "true"})
    assert actions(root, 0)[1]["protocol"] == {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": ["deletionVectors"],
        "writerFeatures": ["deletionVectors"],
    }
    for positions in ((1,), (1, 2)):
        delete = begin(root)
        update_vector(delete, *positions)
        delete.commit("DELETE")
    assert [row["id"] for row in read(root)] == [1, 4]
    assert [row["id"] for row in read(root, 1)] == [1, 3, 4]
    tight = [json.loads(a["add"]["stats"]).get("tightBounds") for v in range(3) for a in actions(root, v) if "add" in a]
    assert tight == [None, False, False]
    for engine in ("deltalake", "duckdb"):
        assert sorted(engines.rows(engine, root)["id"].to_pylist()) == [1, 4]


def with_members(structs: pa.Array, kind: pa.DataType) -> pa.Array:
    """Structs with every member of a type, null where they lack it."""
    columns = [
        pc.struct_field(structs, field.name) if field.name in structs.type.names else pa.nulls(len(structs), field.type)
        for field in kind
    ]
    return pa.StructArray.from_arrays(columns, names=kind.names)


def test_a_file_that_was_removed_may_come_back(root: Path, data_file) -> None:
    make(root, data_file, 1)
    (live,) = newest(root).add_files()
    remove = begin(root)
    remove.remove_files([live])
    remove.commit("DELETE")
    add = begin(root)
    add.add_files([live])
    assert add.commit("RESTORE") == 2
    assert read(root) == [{"id": 1, "name": "n1"}]
    checksum = json.loads((root / "_delta_log" / f"{2:020d}.crc").read_text())
    assert (checksum["numFiles"], checksum["tableSizeBytes"]) == (1, live.column("size")[0].as_py())


def test_a_file_committed_again_counts_once(root: Path, data_file) -> None:
    make(root, data_file, 1)
    (live,) = newest(root).add_files()
    again = begin(root)
    again.add_files([live], recommitted=True)
    assert again.commit("COMPUTE STATS") == 1
    assert read(root) == [{"id": 1, "name": "n1"}]
    checksum = json.loads((root / "_delta_log" / f"{1:020d}.crc").read_text())
    assert (checksum["numFiles"], checksum["tableSizeBytes"]) == (1, live.column("size")[0].as_py())


class TestWhatTheProtocolForbidsIsRefused:
    def refuse(self, transaction: Transaction, error: type[Exception], message: str, **options: object) -> None:
        version = transaction.base.version if transaction.base else -1
        with pytest.raises(error, match=message):
            transaction.commit("WRITE", **options)  # type: ignore[arg-type]
        assert not (Path(transaction.table_root) / "_delta_log" / f"{version + 1:020d}.json").exists()

    def test_removing_from_an_append_only_table(self, root: Path, data_file) -> None:
        make(root, data_file, 1, configuration={"delta.appendOnly": "true"})
        delete = begin(root)
        delete.remove_files(delete.base.add_files())  # type: ignore[union-attr]
        self.refuse(delete, InvalidDeltaRequest, "the table is append-only")

    def test_rearranging_an_append_only_table_is_allowed(self, root: Path, data_file) -> None:
        make(root, data_file, 1, configuration={"delta.appendOnly": "true"})
        optimize = begin(root)
        optimize.remove_files(optimize.base.add_files(), data_change=False)  # type: ignore[union-attr]
        optimize.add_files([data_file(rows(1), data_change=False)])
        assert optimize.commit("OPTIMIZE") == 1

    def test_vectors_where_they_are_not_active_and_their_files_are_deleted(self, root: Path, data_file) -> None:
        make(root, data_file, 1, 2)
        delete = begin(root)
        update_vector(delete, 0)
        assert len(list(root.glob("deletion_vector_*.bin"))) == 1
        self.refuse(delete, InvalidDeltaRequest, "deletion vectors: they are not active")
        assert list(root.glob("deletion_vector_*.bin")) == []

    def test_a_vector_without_a_record_count(self, root: Path, data_file) -> None:
        make(root, data_file, 1, 2, configuration={"delta.enableDeletionVectors": "true"})
        live = pa.RecordBatch.from_pylist(
            [{"path": "x", "partition_values": None, "size": 1, "modification_time": 1, "data_change": True}]
        )
        batch = pa.RecordBatch.from_arrays(
            [
                *(live.column(n) for n in ("path", "size", "modification_time", "data_change")),
                pa.array([{}], pa.struct([])),
                pa.array(
                    [
                        {
                            "storage_type": "i",
                            "path_or_inline_dv": "x",
                            "offset": None,
                            "size_in_bytes": 4,
                            "cardinality": 1,
                        }
                    ]
                ),
            ],
            names=["path", "size", "modification_time", "data_change", "partition_values", "deletion_vector"],
        )
        with pytest.raises(InvalidDeltaRequest, match="its stats have no numRecords"):
            begin(root).add_files([batch])

    @pytest.mark.parametrize(
        ("configuration", "field_metadata", "feature"),
        [
            ({"delta.constraints.positive": "id > 0"}, {}, "checkConstraints"),
            ({}, {"delta.invariants": '{"expression":{"expression":"id > 3"}}'}, "invariants"),
            ({}, {"delta.generationExpression": "name"}, "generatedColumns"),
            ({}, {"delta.identity.start": 1, "delta.identity.step": 1}, "identityColumns"),
        ],
    )
    def test_rows_that_need_looking_at(
        self, root: Path, data_file, configuration: dict[str, str], field_metadata: dict[str, object], feature: str
    ) -> None:
        schema = StructType(fields=(StructField(name="id", type=LongType(), metadata=field_metadata), SCHEMA.fields[1]))
        create_table(STORAGE, str(root), metadata=metadata(configuration, schema)).commit("CREATE TABLE")
        assert newest(root).protocol.supports(feature)
        append = begin(root)
        append.add_files([data_file(rows(5))])
        with pytest.raises(UnsupportedDeltaFeature, match="which deltaberg cannot check") as caught:
            append.commit("WRITE")
        assert caught.value.feature == feature
        vouched = begin(root)
        vouched.add_files([data_file(rows(5))])
        assert vouched.commit("WRITE", rules_guaranteed=[feature]) == 1

    def test_changed_rows_without_change_files(self, root: Path, data_file) -> None:
        make(root, data_file, 1, configuration={"delta.enableChangeDataFeed": "true"})
        update = begin(root)
        update.remove_files(update.base.add_files())  # type: ignore[union-attr]
        update.add_files([data_file(rows(2))])
        self.refuse(update, UnsupportedDeltaFeature, "the table keeps a change data feed")
        overwrite = begin(root)
        overwrite.remove_files(overwrite.base.add_files())  # type: ignore[union-attr]
        overwrite.add_files([data_file(rows(2))])
        assert overwrite.commit("WRITE", copies_rows=False) == 1

    @pytest.mark.parametrize("feature", ["icebergWriterCompatV1", "somethingNew"])
    def test_a_writer_feature_that_cannot_be_honoured(self, root: Path, data_file, feature: str) -> None:
        make(root, data_file, 1)
        log = root / "_delta_log"
        protocol = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": [feature]}}
        (log / f"{1:020d}.json").write_text(json.dumps(protocol) + "\n")
        with pytest.raises(UnsupportedDeltaFeature, match=feature) as caught:
            begin(root)
        assert caught.value.feature == feature

    def test_the_same_file_twice(self, root: Path, data_file) -> None:
        make(root, data_file)
        file = data_file(rows(1))
        twice = begin(root)
        twice.add_files([file, file])
        self.refuse(twice, InvalidDeltaRequest, "Cannot add a file twice in one commit")

    def test_a_file_removed_and_added_as_it_was(self, root: Path, data_file) -> None:
        make(root, data_file, 1)
        same = begin(root)
        live = list(same.base.add_files())  # type: ignore[union-attr]
        same.remove_files(live)
        same.add_files(live)
        self.refuse(same, InvalidDeltaRequest, "Cannot remove and add a file with the same deletion vector")

    def test_removing_a_file_that_is_not_live(self, root: Path, data_file) -> None:
        make(root, data_file, 1)
        remove = begin(root)
        remove.remove_files([data_file(rows(2))])
        self.refuse(
            remove, InvalidDeltaRequest, "Cannot remove a file that is not live in version 0; give the rows of its add"
        )

    def test_removing_a_file_twice_one_after_the_other(self, root: Path, data_file) -> None:
        make(root, data_file, 1)
        (live,) = newest(root).add_files()
        first = begin(root)
        first.remove_files([live])
        first.commit("DELETE")
        second = begin(root)
        second.remove_files([live])
        self.refuse(second, InvalidDeltaRequest, "Cannot remove a file that is not live in version 1")

    def test_removing_a_file_with_another_vector_than_it_has(self, root: Path, data_file) -> None:
        make(root, data_file, 1, configuration={"delta.enableDeletionVectors": "true"})
        (live,) = newest(root).add_files()
        vector = pa.array([{"storage_type": "u", "path_or_inline_dv": "x" * 20, "size_in_bytes": 1, "cardinality": 1}])
        index = live.schema.get_field_index("deletion_vector")
        kind = live.schema.field(index).type
        remove = begin(root)
        remove.remove_files(
            [live.set_column(index, live.schema.field(index), pc.cast(with_members(vector, kind), kind))]
        )
        self.refuse(remove, InvalidDeltaRequest, "not live with this deletion vector in version 0")

    def test_adding_a_file_that_is_live(self, root: Path, data_file) -> None:
        make(root, data_file, 1)
        (live,) = newest(root).add_files()
        again = begin(root)
        again.add_files([live])
        self.refuse(
            again, InvalidDeltaRequest, "Cannot add a file that is live in version 0 already: remove it in the same"
        )
        escaped = live.set_column(0, live.schema.field(0), pc.replace_substring(live.column(0), "p", "%70"))
        spelled = begin(root)
        spelled.add_files([escaped])
        self.refuse(spelled, InvalidDeltaRequest, "Cannot add a file that is live in version 0 already")

    def test_committing_a_file_again_that_is_not_live(self, root: Path, data_file) -> None:
        make(root, data_file, 1)
        again = begin(root)
        again.add_files([data_file(rows(2))], recommitted=True)
        self.refuse(
            again, InvalidDeltaRequest, "Cannot commit a file again that is not live in version 0; add it as a new"
        )

    def test_an_empty_partition_value(self, root: Path, data_file) -> None:
        create_table(STORAGE, str(root), metadata=metadata(partition_columns=("name",))).commit("CREATE TABLE")
        with pytest.raises(InvalidDeltaRequest, match="the empty string: Delta reads it as null"):
            begin(root).add_files([data_file(rows(1), partition={"name": ""})])

    def test_other_partition_columns(self, root: Path, data_file) -> None:
        make(root, data_file)
        with pytest.raises(InvalidDeltaRequest, match=r"of the columns \['p'\] \(expected \[\]"):
            begin(root).add_files([data_file(rows(1), partition={"p": "1"})])

    def test_system_domains(self, root: Path, data_file) -> None:
        make(root, data_file)
        with pytest.raises(InvalidDeltaRequest, match=r"domains that begin with delta\. are the system's"):
            begin(root).set_domain_metadata("delta.rowTracking", "{}")

    def test_row_ids_without_the_feature(self, root: Path, data_file) -> None:
        make(root, data_file)
        file = data_file(rows(1))
        append = begin(root)
        append.add_files([file.append_column("base_row_id", pa.array([7]))])
        self.refuse(append, InvalidDeltaRequest, "the protocol does not support rowTracking")

    def test_a_second_creation(self, root: Path, data_file) -> None:
        make(root, data_file)
        with pytest.raises(DeltaConflict, match="its log exists"):
            create_table(STORAGE, str(root), metadata=metadata())

    def test_a_second_commit(self, root: Path, data_file) -> None:
        make(root, data_file)
        append = begin(root)
        append.commit("WRITE")
        with pytest.raises(InvalidDeltaRequest, match="Cannot commit a transaction twice"):
            append.commit("WRITE")


class TestFasterWriters:
    """Each transaction is begun on version 0; somebody else commits version 1 first."""

    def race(
        self, root: Path, data_file, mine: Callable[[Transaction], None], theirs: Callable[[Transaction], None]
    ) -> int:
        make(root, data_file, 1, 2)
        first, second = begin(root), begin(root)
        mine(first)
        theirs(second)
        second.commit("WRITE")
        return first.commit("WRITE")

    def test_two_appends_both_stand(self, root: Path, data_file) -> None:
        version = self.race(
            root, data_file, lambda t: t.add_files([data_file(rows(3))]), lambda t: t.add_files([data_file(rows(4))])
        )
        assert version == 2
        assert [row["id"] for row in read(root)] == [1, 2, 3, 4]

    @pytest.mark.parametrize(
        ("mine", "theirs", "message"),
        [
            ("remove", "remove", "removed a file that this transaction removes"),
            ("read", "append", "added a file to the table that this transaction read"),
            ("read", "remove", "removed a file that this transaction read"),
            ("append", "metadata", "changed the metadata"),
            ("append", "protocol", "changed the protocol"),
            ("metadata", "append", "added a file to the table that this transaction read"),
            ("txn", "txn", "recorded progress of the application 'a', too"),
            ("domain", "domain", "changed the metadata domain 'd', too"),
        ],
    )
    def test_conflict(self, root: Path, data_file, mine: str, theirs: str, message: str) -> None:
        deeds: dict[str, Callable[[Transaction], None]] = {
            "append": lambda t: t.add_files([data_file(rows(9))]),
            "remove": lambda t: t.remove_files(t.base.add_files()),  # type: ignore[union-attr]
            "read": lambda t: t.read_table(),
            "metadata": lambda t: t.set_metadata(metadata({"delta.logRetentionDuration": "interval 2 days"})),
            "protocol": lambda t: t.set_domain_metadata("d", "{}"),
            "txn": lambda t: t.set_txn("a", 1),
            "domain": lambda t: t.set_domain_metadata("d", "{}"),
        }
        if mine == "domain":
            make(root, data_file, configuration={"delta.enableRowTracking": "true"})
            first, second = begin(root), begin(root)
            deeds[mine](first)
            deeds[theirs](second)
            second.commit("WRITE")
            with pytest.raises(DeltaConflict, match=message):
                first.commit("WRITE")
            return
        with pytest.raises(DeltaConflict, match=message) as caught:
            self.race(root, data_file, deeds[mine], deeds[theirs])
        assert caught.value.version == 1
        assert caught.value.exit_code == 5

    def test_the_version_that_was_asked_for_or_none(self, root: Path, data_file) -> None:
        make(root, data_file, 1)
        first, second = begin(root), begin(root)
        first.add_files([data_file(rows(2))])
        second.commit("WRITE")
        with pytest.raises(DeltaConflict, match="Cannot commit version 1: it exists already"):
            first.commit("WRITE", expected_version=1)
        with pytest.raises(DeltaConflict, match=r"begun on version 1 \(expected 6\)"):
            begin(root).commit("WRITE", expected_version=7)

    def test_row_ids_are_assigned_again_behind_the_winner(self, root: Path, data_file) -> None:
        make(root, data_file, 1, 2, configuration={"delta.enableRowTracking": "true"})
        first, second = begin(root), begin(root)
        first.add_files([data_file(rows(3, 4, 5))])
        second.add_files([data_file(rows(6))])
        second.commit("WRITE")
        assert first.commit("WRITE") == 2
        adds = [a["add"] for v in range(3) for a in actions(root, v) if "add" in a]
        assert [(a["baseRowId"], a["defaultRowCommitVersion"]) for a in adds] == [(0, 0), (2, 1), (3, 2)]
        assert json.loads(newest(root).domain_metadata["delta.rowTracking"].configuration) == {"rowIdHighWaterMark": 5}

    def test_a_table_created_twice_at_once(self, root: Path) -> None:
        first, second = (create_table(STORAGE, str(root), metadata=metadata()) for _ in range(2))
        first.commit("CREATE TABLE")
        with pytest.raises(DeltaConflict, match="Cannot commit version 0: it exists already"):
            second.commit("CREATE TABLE")


PROPERTIES = {"delta.enableInCommitTimestamps": "true"}


class TestInCommitTimestamps:
    def test_they_grow_even_when_the_clock_does_not(self, root: Path, data_file) -> None:
        make(root, data_file, configuration=PROPERTIES)
        for expected in (NOW + 1, NOW + 2):
            begin(root).commit("WRITE", timestamp_ms=NOW - 1000)
            snapshot = newest(root)
            assert snapshot.timestamp_ms == expected
            info = actions(root, snapshot.version)[0]["commitInfo"]
            assert info["inCommitTimestamp"] == info["timestamp"] == expected

    def test_they_stand_behind_the_winners(self, root: Path, data_file) -> None:
        make(root, data_file, configuration=PROPERTIES)
        first, second = begin(root), begin(root)
        second.commit("WRITE", timestamp_ms=NOW + 500)
        first.commit("WRITE", timestamp_ms=NOW + 100)
        assert newest(root).timestamp_ms == NOW + 501

    def test_enabling_them_later_records_where_they_begin(self, root: Path, data_file) -> None:
        make(root, data_file)
        before = newest(root).timestamp_ms
        enable = begin(root)
        enable.set_metadata(metadata(PROPERTIES))
        enable.commit("SET TBLPROPERTIES", timestamp_ms=0)
        snapshot = newest(root)
        assert snapshot.timestamp_ms == before + 1
        assert snapshot.metadata.properties.in_commit_timestamp_enablement_version == 1
        assert snapshot.metadata.properties.in_commit_timestamp_enablement_timestamp_ms == before + 1
        assert snapshot.protocol.supports("inCommitTimestamp")
