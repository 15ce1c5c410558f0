"""A store that fails in the middle of a commit: a version is ours, somebody else's, or nobody can tell."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from deltaberg.bitmap import PositionBitmap
from deltaberg.delta.commit import commit_file
from deltaberg.delta.create_table import create_table, new_metadata
from deltaberg.delta.errors import DeltaCommitStateUnknown, DeltaConflict, DeltaError, InvalidDeltaRequest
from deltaberg.delta.schema.types import LongType, StructField, StructType
from deltaberg.delta.table import DeltaTable
from deltaberg.delta.transaction import Transaction, begin_transaction
from deltaberg.storage import open_storage
from deltaberg.storage.errors import AlreadyExists, PermissionDenied, StorageError

SCHEMA = StructType(fields=(StructField(name="id", type=LongType()),))
Fault = Callable[[str], None]


class FaultyStorage:
    """A Storage whose calls run a hook: ``before[name]`` instead of going on when it raises, ``after[name]`` later."""

    def __init__(self) -> None:
        self._real = open_storage()
        self.before: dict[str, Fault] = {}
        self.after: dict[str, Fault] = {}

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._real, name)

        def hooked(location: Any, *arguments: Any, **options: Any) -> Any:
            self.before.get(name, lambda _: None)(str(location))
            result = call(location, *arguments, **options)
            self.after.get(name, lambda _: None)(str(location))
            return result

        return hooked


def failing(error: Exception, times: int = 1, *, only: str = ".json") -> Fault:
    left = iter(range(times))

    def fail(location: str) -> None:
        if location.endswith(only) and next(left, None) is not None:
            raise error

    return fail


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "table"


@pytest.fixture
def storage(root: Path) -> Iterator[FaultyStorage]:
    faulty = FaultyStorage()
    metadata = new_metadata(
        SCHEMA, table_id="t", created_time_ms=1, configuration={"delta.enableDeletionVectors": "true"}
    )
    create_table(faulty, str(root), metadata=metadata).commit("CREATE TABLE")  # type: ignore[arg-type]
    yield faulty
    assert version(root) in (0, 1, 2)


def version(root: Path) -> int:
    return DeltaTable.open(str(root), open_storage()).snapshot().version


def operations(root: Path) -> list[str]:
    found = []
    for file in sorted((root / "_delta_log").glob("*.json")):
        found.append(json.loads(file.read_text().splitlines()[0])["commitInfo"]["operation"])
    return found


def delete_with_vector(storage: FaultyStorage, root: Path) -> Transaction:
    """A transaction that wrote a file of its own already."""
    transaction = begin_transaction(DeltaTable.open(str(root), storage).snapshot())  # type: ignore[arg-type]
    bitmap = PositionBitmap.from_positions(np.array([0]))
    (vector,) = transaction.write_deletion_vectors([(bitmap.serialize(), 1)])
    stats = pa.array([{"num_records": 2}])
    described = pa.array(
        [
            {
                "storage_type": vector.storage_type,
                "path_or_inline_dv": vector.path_or_inline_dv,
                "offset": vector.offset,
                "size_in_bytes": vector.size_in_bytes,
                "cardinality": vector.cardinality,
            }
        ]
    )
    columns = {
        "path": pa.array(["a.parquet"]),
        "partition_values": pa.array([{}], pa.struct([])),
        "size": pa.array([1]),
        "modification_time": pa.array([1]),
        "data_change": pa.array([True]),
        "stats": stats,
        "deletion_vector": described,
    }
    transaction.add_files([pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))])
    return transaction


def vector_files(root: Path) -> int:
    return len(list(root.glob("*.bin")))


def test_a_put_that_fails_after_it_was_done_is_a_commit(storage: FaultyStorage, root: Path) -> None:
    transaction = delete_with_vector(storage, root)
    storage.after["put_if_absent"] = failing(StorageError("timeout"))
    assert transaction.commit("MINE") == 1
    assert operations(root) == ["CREATE TABLE", "MINE"]
    assert vector_files(root) == 1


def test_a_store_that_retried_its_own_request_is_no_conflict(storage: FaultyStorage, root: Path) -> None:
    transaction = delete_with_vector(storage, root)
    storage.after["put_if_absent"] = failing(AlreadyExists("somebody was faster"))
    assert transaction.commit("MINE") == 1
    assert operations(root) == ["CREATE TABLE", "MINE"]


def test_an_unknown_outcome_is_said_and_nothing_is_deleted(
    storage: FaultyStorage, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request to a bucket may still be on its way when it is given up."""
    transaction = delete_with_vector(storage, root)
    monkeypatch.setattr(storage, "resolve", lambda location: f"s3://bucket{location}", raising=False)
    storage.before["put_if_absent"] = failing(StorageError("timeout"))
    with pytest.raises(DeltaCommitStateUnknown, match=r"took place: the store failed and shows no") as caught:
        transaction.commit("MINE")
    assert str(caught.value.path).endswith("00000000000000000001.json")
    assert caught.value.exit_code == 1
    assert vector_files(root) == 1


def test_a_local_write_that_failed_is_a_failure_and_is_cleaned_up(storage: FaultyStorage, root: Path) -> None:
    transaction = delete_with_vector(storage, root)
    storage.before["put_if_absent"] = failing(StorageError("No space left on device"))
    with pytest.raises(StorageError, match=r"^No space left on device") as caught:
        transaction.commit("MINE")
    assert type(caught.value) is StorageError
    assert operations(root) == ["CREATE TABLE"]
    assert vector_files(root) == 0


def test_a_store_that_cannot_be_asked_either_leaves_the_outcome_unknown(storage: FaultyStorage, root: Path) -> None:
    transaction = delete_with_vector(storage, root)
    storage.after["put_if_absent"] = failing(StorageError("timeout"))
    storage.before["head"] = failing(StorageError("still down"))
    with pytest.raises(DeltaCommitStateUnknown, match=r"cannot be asked \(still down\)"):
        transaction.commit("MINE")
    assert operations(root) == ["CREATE TABLE", "MINE"]
    assert vector_files(root) == 1


def test_a_failed_put_that_somebody_else_overtook_is_tried_again_behind_him(storage: FaultyStorage, root: Path) -> None:
    transaction = delete_with_vector(storage, root)
    rival = begin_transaction(DeltaTable.open(str(root), open_storage()).snapshot())

    def overtaken(location: str) -> None:
        if location.endswith("1.json") and version(root) == 0:
            rival.commit("THEIRS")
            raise StorageError("timeout")

    storage.before["put_if_absent"] = overtaken
    assert transaction.commit("MINE") == 2
    assert operations(root) == ["CREATE TABLE", "THEIRS", "MINE"]


def test_a_refused_put_is_a_failure_and_is_cleaned_up(storage: FaultyStorage, root: Path) -> None:
    transaction = delete_with_vector(storage, root)
    storage.before["put_if_absent"] = failing(PermissionDenied("read-only"))
    with pytest.raises(PermissionDenied):
        transaction.commit("MINE")
    assert operations(root) == ["CREATE TABLE"]
    assert vector_files(root) == 0


def test_a_conflict_is_cleaned_up(storage: FaultyStorage, root: Path) -> None:
    transaction = delete_with_vector(storage, root)
    transaction.set_txn("app", 1)
    rival = begin_transaction(DeltaTable.open(str(root), open_storage()).snapshot())
    rival.set_txn("app", 1)
    rival.commit("THEIRS")
    with pytest.raises(DeltaConflict):
        transaction.commit("MINE")
    assert vector_files(root) == 0


def test_a_writer_that_always_loses_gives_up(storage: FaultyStorage, root: Path) -> None:
    transaction = delete_with_vector(storage, root)

    def lose(location: str) -> None:
        if location.endswith(".json") and not location.endswith("9.json"):
            rival = DeltaTable.open(str(root), open_storage()).snapshot()
            if location.endswith(f"{rival.version + 1}.json") and rival.version < 2:
                begin_transaction(rival).commit("THEIRS")

    storage.before["put_if_absent"] = lose
    with pytest.raises(DeltaConflict, match="2 attempts found a faster writer each time"):
        transaction.commit("MINE", attempts=2)
    assert vector_files(root) == 0


def test_an_interrupt_during_the_put_deletes_nothing(storage: FaultyStorage, root: Path) -> None:
    transaction = delete_with_vector(storage, root)

    def interrupt(location: str) -> None:
        if location.endswith(".json"):
            raise KeyboardInterrupt

    storage.after["put_if_absent"] = interrupt
    with pytest.raises(KeyboardInterrupt):
        transaction.commit("MINE")
    assert operations(root) == ["CREATE TABLE", "MINE"]
    assert vector_files(root) == 1


def test_a_commit_stands_without_its_checksum(storage: FaultyStorage, root: Path) -> None:
    transaction = delete_with_vector(storage, root)
    storage.before["put_if_absent"] = failing(StorageError("full"), only=".crc")
    assert transaction.commit("MINE") == 1
    assert not (root / "_delta_log" / f"{1:020d}.crc").exists()


def test_vectors_that_could_not_be_written_leave_no_file(storage: FaultyStorage, root: Path) -> None:
    transaction = begin_transaction(DeltaTable.open(str(root), storage).snapshot())  # type: ignore[arg-type]
    storage.after["create"] = failing(StorageError("full"), only=".bin")
    with pytest.raises(StorageError):
        transaction.write_deletion_vectors([(PositionBitmap().serialize(), 0)])
    assert vector_files(root) == 0


def test_a_transaction_that_is_left_before_its_commit_is_cleaned_up(storage: FaultyStorage, root: Path) -> None:
    with pytest.raises(InvalidDeltaRequest), delete_with_vector(storage, root) as transaction:
        transaction.remove_domain_metadata("unknown")
    assert vector_files(root) == 0
    with delete_with_vector(storage, root) as transaction:
        transaction.commit("MINE")
    assert vector_files(root) == 1
    transaction.abort()
    assert vector_files(root) == 1


def many_files(count: int) -> pa.RecordBatch:
    columns = {
        "path": pa.array([f"part-{number:06d}.parquet" for number in range(count)]),
        "partition_values": pa.array([{}] * count, pa.struct([])),
        "size": pa.array(range(count)),
        "modification_time": pa.array([1] * count),
        "data_change": pa.array([True] * count),
    }
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


class TestACommitTooLargeToBeHeldWhole:
    """Its content is made while it is written."""

    @pytest.fixture(autouse=True)
    def _small_is_smaller(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(commit_file, "_SMALL", 1 << 12)

    def begun(self, storage: FaultyStorage, root: Path) -> Transaction:
        transaction = begin_transaction(DeltaTable.open(str(root), storage).snapshot())  # type: ignore[arg-type]
        transaction.add_files(many_files(50_000).slice(start, 9_000) for start in range(0, 50_000, 9_000))
        return transaction

    def test_it_is_committed_whole_and_in_order(self, storage: FaultyStorage, root: Path) -> None:
        assert self.begun(storage, root).commit("WRITE") == 1
        found = pa.Table.from_batches(DeltaTable.open(str(root), open_storage()).snapshot().add_files())
        assert found.column("path").to_pylist() == many_files(50_000).column("path").to_pylist()
        assert found.column("size").to_pylist() == list(range(50_000))

    def test_behind_a_faster_writer_it_is_made_again(self, storage: FaultyStorage, root: Path) -> None:
        transaction = self.begun(storage, root)
        begin_transaction(DeltaTable.open(str(root), open_storage()).snapshot()).commit("OTHER")
        assert transaction.commit("WRITE") == 2
        assert operations(root) == ["CREATE TABLE", "OTHER", "WRITE"]
        assert (
            sum(each.num_rows for each in DeltaTable.open(str(root), open_storage()).snapshot().add_files()) == 50_000
        )

    def test_a_conflict_with_it_is_found(self, storage: FaultyStorage, root: Path) -> None:
        transaction = self.begun(storage, root)
        other = begin_transaction(DeltaTable.open(str(root), open_storage()).snapshot())
        other.add_files([many_files(50_000).slice(49_999)])
        other.commit("OTHER")
        with pytest.raises(DeltaConflict, match="added a file that this transaction adds"):
            transaction.commit("WRITE")

    def test_a_store_that_fails_before_it_took_everything_has_written_nothing(
        self, storage: FaultyStorage, root: Path
    ) -> None:
        storage.before["put_if_absent"] = failing(StorageError("no route to the store"))
        transaction = self.begun(storage, root)
        with pytest.raises(StorageError, match="no route"):
            transaction.commit("WRITE")
        assert version(root) == 0

    def test_an_answer_that_is_lost_is_looked_up(self, storage: FaultyStorage, root: Path) -> None:
        storage.after["put_if_absent"] = failing(StorageError("connection reset"))
        assert self.begun(storage, root).commit("WRITE") == 1
        assert version(root) == 1

    def test_a_file_that_cannot_be_written_down_leaves_no_commit(self, storage: FaultyStorage, root: Path) -> None:
        transaction = self.begun(storage, root)
        bad = many_files(1).set_column(0, "path", pa.array([None], pa.string()))
        transaction.add_files([bad])
        with pytest.raises(DeltaError, match="path is null"):
            transaction.commit("WRITE")
        assert version(root) == 0
        assert [file.name for file in (root / "_delta_log").iterdir() if file.name.startswith(".")] == []


class TestCheckpointsWhenTheyAreDue:
    def commit(self, root: Path, storage: Any, count: int = 1) -> Transaction:
        base = DeltaTable.open(str(root), storage).snapshot()
        transaction = begin_transaction(base)
        transaction.add_files([many_files((base.version + 1) * count).slice(base.version * count)])
        transaction.commit("WRITE")
        return transaction

    def test_every_interval_and_after_many_files(self, root: Path) -> None:
        configuration = {"delta.checkpointInterval": "3"}
        metadata = new_metadata(SCHEMA, table_id="t", created_time_ms=1, configuration=configuration)
        storage = open_storage()
        create = create_table(storage, str(root), metadata=metadata)
        create.commit("CREATE TABLE")
        assert create.checkpoint_when_due().written is None
        written = [self.commit(root, storage).checkpoint_when_due().written for _ in range(6)]
        assert [None if each is None else each.version for each in written] == [None, None, 3, None, None, 6]
        many = self.commit(root, storage, count=50).checkpoint_when_due(many_files=50).written
        assert many is not None
        assert (many.version, many.num_of_add_files) == (7, 56)
        assert len(list((root / "_delta_log").glob("*.checkpoint.parquet"))) == 3

    def test_a_failure_is_told_and_the_commit_stands(self, storage: FaultyStorage, root: Path) -> None:
        transaction = self.commit(root, storage)
        storage.before["create"] = failing(StorageError("the disk is full"), only=".parquet")
        attempt = transaction.checkpoint_when_due(many_files=1)
        assert attempt.written is None
        assert str(attempt.failure) == "the disk is full"
        assert version(root) == 1

    def test_nothing_was_committed(self, storage: FaultyStorage, root: Path) -> None:
        transaction = begin_transaction(DeltaTable.open(str(root), storage).snapshot())  # type: ignore[arg-type]
        with pytest.raises(InvalidDeltaRequest, match="has committed no version"):
            transaction.checkpoint_when_due()
