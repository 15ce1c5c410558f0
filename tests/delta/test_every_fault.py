"""Every operation of a commit fails in every way: the table reads as before or as after, and the work can be done again."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltaberg.bitmap import PositionBitmap
from deltaberg.delta.commit.distributed_create import TableInParts, recover
from deltaberg.delta.create_table import create_table, new_metadata
from deltaberg.delta.deletion_vector.deletion_vector import DeletionVectorDescriptor
from deltaberg.delta.errors import CorruptLog
from deltaberg.delta.scan import scan
from deltaberg.delta.schema.types import LongType, StructField, StructType
from deltaberg.delta.table import DeltaTable
from deltaberg.delta.transaction import begin_transaction
from deltaberg.errors import NotATable
from deltaberg.storage import Storage, open_storage
from tests.fault_storage import Mode, survive_every_fault
from tests.independent_readers import delta_rs

SCHEMA = StructType(fields=(StructField(name="id", type=LongType()),))
MODES = pytest.mark.parametrize("mode", Mode, ids=lambda mode: mode.name)


def add(root: str, name: str, *ids: int, vector: DeletionVectorDescriptor | None = None) -> pa.RecordBatch:
    """A file with rows and the batch of ADD_SCHEMA that adds it."""
    place = Path(root) / f"{name}.parquet"
    place.parent.mkdir(parents=True, exist_ok=True)
    if not place.exists():
        pq.write_table(pa.table({"id": pa.array(ids, pa.int64())}), place)
    columns = {
        "path": pa.array([place.name]),
        "partition_values": pa.array([{}], pa.struct([])),
        "size": pa.array([place.stat().st_size]),
        "modification_time": pa.array([1]),
        "data_change": pa.array([True]),
        "stats": pa.array([{"num_records": len(ids)}]),
    }
    if vector is not None:
        members = ("storage_type", "path_or_inline_dv", "offset", "size_in_bytes", "cardinality")
        columns["deletion_vector"] = pa.array([{name: getattr(vector, name) for name in members}])
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def metadata(**configuration: str) -> Any:
    return new_metadata(SCHEMA, table_id="t", created_time_ms=1, configuration=configuration)


def create(storage: Storage, root: str, **configuration: str) -> None:
    with create_table(storage, root, metadata=metadata(**configuration)) as transaction:
        transaction.add_files([add(root, "a", 1, 2)])
        transaction.commit("WRITE")


def append(storage: Storage, root: str) -> None:
    with begin_transaction(DeltaTable.open(root, storage).snapshot()) as transaction:
        transaction.add_files([add(root, "b", 3)])
        transaction.commit("WRITE")


def append_with_checkpoint(storage: Storage, root: str) -> None:
    transaction = begin_transaction(DeltaTable.open(root, storage).snapshot())
    transaction.add_files([add(root, "b", 3)])
    transaction.commit("WRITE")
    transaction.checkpoint_when_due(many_files=1)


def delete(storage: Storage, root: str) -> None:
    """The row 1, by a deletion vector."""
    snapshot = DeltaTable.open(root, storage).snapshot()
    with begin_transaction(snapshot) as transaction:
        bitmap = PositionBitmap.from_positions(np.array([0]))
        (vector,) = transaction.write_deletion_vectors([(bitmap.serialize(), 1)])
        transaction.remove_files(snapshot.add_files())
        transaction.add_files([add(root, "a", 1, 2, vector=vector)])
        transaction.commit("DELETE")


def create_in_parts(storage: Storage, root: str) -> None:
    """As a conversion does it, after what a dead one left was cleared away."""
    recover(storage, root, creation_lock="me")
    table = TableInParts(storage, root, metadata=metadata(), parts=3, creation_lock="me", now_ms=lambda: 5)
    table.begin()
    try:
        written = [
            table.recipe.write(storage, 2, [add(root, "a", 1, 2)]),
            table.recipe.write(storage, 3, [add(root, "b", 3)]),
        ]
        table.commit(written, [add(root, "c", 4)], "CONVERT")
    except BaseException:
        table.abandon()
        raise


def data(root: str) -> None:
    """The data files that the works below commit."""
    add(root, "a", 1, 2)
    add(root, "b", 3)
    add(root, "c", 4)


def ids_found(root: str) -> list[int] | None:
    """What deltaberg and delta-rs read, where the version's checksum says so, too; None for no table."""
    try:
        snapshot = DeltaTable.open(root, open_storage()).snapshot()
    except NotATable:
        return None
    assert sum(batch.num_rows for batch in snapshot.add_files()) >= 1  # compares with the checksum
    plan = scan(snapshot)
    ours = sorted(pa.Table.from_batches(plan.batches(), plan.schema)["id"].to_pylist())
    assert sorted(delta_rs(root, None)["id"].to_pylist()) == ours
    return ours


def created_in_parts(root: str) -> list[int] | None:
    """As ``ids_found``. With the part of its checkpoint that has the protocol the table is whole to some readers; it stands
    with the commit."""
    try:
        ours = ids_found(root)
    except CorruptLog as error:
        if "no protocol action" not in error.message:
            raise
        ours = None
    assert ours in (None, [1, 2, 3, 4])
    if (Path(root) / "_delta_log" / f"{1:020}.json").exists():
        assert ours is not None
        return ours
    return None


@MODES
def test_of_a_creation(tmp_path: Path, record_property: Callable[..., None], mode: Mode) -> None:
    faults = survive_every_fault(mode, str(tmp_path), prepare=data, work=create, state=ids_found, after=[1, 2])
    record_property("faults of a Delta creation", faults)


def with_vectors(root: str) -> None:
    data(root)
    create(open_storage(), root, **{"delta.enableDeletionVectors": "true"})


@MODES
@pytest.mark.parametrize(
    ("work", "after"),
    [(append, [1, 2, 3]), (append_with_checkpoint, [1, 2, 3]), (delete, [2])],
    ids=["append", "append with a checkpoint", "deletion vector"],
)
def test_of_a_commit(
    tmp_path: Path,
    record_property: Callable[..., None],
    mode: Mode,
    work: Callable[[Storage, str], None],
    after: list[int],
) -> None:
    faults = survive_every_fault(mode, str(tmp_path), prepare=with_vectors, work=work, state=ids_found, after=after)
    record_property(f"faults of a Delta commit: {work.__name__.replace('_', ' ')}", faults)


@MODES
def test_of_a_creation_in_parts(tmp_path: Path, record_property: Callable[..., None], mode: Mode) -> None:
    faults = survive_every_fault(
        mode, str(tmp_path), prepare=data, work=create_in_parts, state=created_in_parts, after=[1, 2, 3, 4]
    )
    record_property("faults of a Delta creation in parts", faults)


def test_a_checksum_of_a_commit_that_was_taken_back_makes_room(tmp_path: Path) -> None:
    root = str(tmp_path / "t")
    data(root)
    log = Path(root) / "_delta_log"
    log.mkdir()
    stale = log / f"{0:020}.crc"
    stale.write_text('{"txnId":"gone","tableSizeBytes":1,"numFiles":1,"numMetadata":1,"numProtocol":1}')
    create(open_storage(), root)
    assert ids_found(root) == [1, 2]
    (commit,) = [json.loads(line) for line in (log / f"{0:020}.json").read_text().splitlines() if "commitInfo" in line]
    assert json.loads(stale.read_text())["txnId"] == commit["commitInfo"]["txnId"]
