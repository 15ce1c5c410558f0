"""Version checksums: each follows from the one before, and agrees with the log."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from deltaberg.bitmap import PositionBitmap
from deltaberg.delta.create_table import create_table, new_metadata
from deltaberg.delta.deletion_vector.deletion_vector import inline_descriptor
from deltaberg.delta.schema.types import LongType, StructField, StructType
from deltaberg.delta.table import DeltaTable
from deltaberg.delta.transaction import Transaction, begin_transaction
from deltaberg.storage import open_storage

STORAGE = open_storage()
SCHEMA = StructType(fields=(StructField(name="id", type=LongType()),))
MakeFile = Callable[..., pa.RecordBatch]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "table"


def begin(root: Path) -> Transaction:
    return begin_transaction(DeltaTable.open(str(root), STORAGE).snapshot())


def checksum(root: Path, version: int) -> dict[str, object]:
    found = json.loads((root / "_delta_log" / f"{version:020d}.crc").read_text())
    assert isinstance(found, dict)
    return found


def with_vector(batch: pa.RecordBatch, *positions: int) -> pa.RecordBatch:
    vector = inline_descriptor(PositionBitmap.from_positions(np.array(positions)).serialize(), len(positions))
    index = batch.schema.get_field_index("deletion_vector")
    field = batch.schema.field(index)
    body = {
        "storage_type": vector.storage_type,
        "path_or_inline_dv": vector.path_or_inline_dv,
        "offset": vector.offset,
        "size_in_bytes": vector.size_in_bytes,
        "cardinality": vector.cardinality,
    }
    return batch.set_column(index, field, pa.array([body], field.type))


def history(root: Path, data_file: MakeFile) -> None:
    """Two files; rows of one deleted by a vector; the other removed; transactions and domains on the way."""
    metadata = new_metadata(
        SCHEMA,
        table_id="t",
        created_time_ms=1,
        configuration={"delta.enableDeletionVectors": "true", "delta.enableInCommitTimestamps": "true"},
    )
    create = create_table(STORAGE, str(root), metadata=metadata, features=["domainMetadata"], now_ms=lambda: 1000)
    create.add_files([data_file(pa.table({"id": [1, 2, 3]}), path="a"), data_file(pa.table({"id": [4]}), path="b")])
    create.set_txn("app", 1)
    create.set_domain_metadata("d", "1")
    create.commit("WRITE")
    delete = begin(root)
    (live,) = delete.base.add_files()  # type: ignore[union-attr]
    delete.remove_files([live.slice(0, 1)])
    delete.add_files([with_vector(live.slice(0, 1), 0, 2)])
    delete.set_txn("app", 2)
    delete.set_domain_metadata("e", "2")
    delete.commit("DELETE", timestamp_ms=2000)
    drop = begin(root)
    (live,) = drop.base.add_files()  # type: ignore[union-attr]
    drop.remove_files([live.filter(pa.array([path == "b" for path in live.column("path").to_pylist()]))])
    drop.remove_domain_metadata("d")
    drop.commit("DELETE", timestamp_ms=3000)


def test_each_version_says_what_the_table_holds(root: Path, data_file: MakeFile) -> None:
    history(root, data_file)
    size = (root / "a").stat().st_size
    first, second, third = (checksum(root, version) for version in range(3))
    assert [each["numFiles"] for each in (first, second, third)] == [2, 2, 1]
    assert third["tableSizeBytes"] == size
    assert [each["numDeletionVectorsOpt"] for each in (first, second, third)] == [0, 1, 1]
    assert [each["numDeletedRecordsOpt"] for each in (first, second, third)] == [0, 2, 2]
    assert [each["inCommitTimestampOpt"] for each in (first, second, third)] == [1000, 2000, 3000]
    assert third["setTransactions"] == [{"appId": "app", "version": 2}]
    assert [each["domain"] for each in third["domainMetadata"]] == ["e"]  # type: ignore[attr-defined]
    assert (third["numMetadata"], third["numProtocol"]) == (1, 1)
    log = json.loads((root / "_delta_log" / f"{2:020d}.json").read_text().splitlines()[0])
    assert third["txnId"] == log["commitInfo"]["txnId"]
    for version in range(3):  # the reader compares them
        assert list(DeltaTable.open(str(root), STORAGE).snapshot(version).add_files())


def test_it_is_written_only_behind_another(root: Path, data_file: MakeFile) -> None:
    history(root, data_file)
    log = root / "_delta_log"
    (log / f"{2:020d}.crc").unlink()
    begin(root).commit("WRITE")
    assert not (log / f"{3:020d}.crc").exists()


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"numFiles":-1,"tableSizeBytes":3}', '{"numFiles":true}'])
def test_one_that_says_nothing_is_not_built_upon(root: Path, data_file: MakeFile, text: str) -> None:
    history(root, data_file)
    transaction = begin(root)
    (root / "_delta_log" / f"{2:020d}.crc").write_text(text)
    transaction.commit("WRITE")
    assert not (root / "_delta_log" / f"{3:020d}.crc").exists()


def test_an_existing_one_is_never_overwritten(root: Path, data_file: MakeFile) -> None:
    history(root, data_file)
    transaction = begin(root)
    theirs = root / "_delta_log" / f"{3:020d}.crc"
    theirs.write_text("theirs")
    transaction.commit("WRITE")
    assert theirs.read_text() == "theirs"
