"""Tables whose first version is a checkpoint in parts: nobody ever sees a part of them."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltaberg.delta.commit.distributed_create import PartsRecipe, TableInParts, WrittenPart, creation_lock_of, recover
from deltaberg.delta.create_table import create_table, new_metadata
from deltaberg.delta.errors import CorruptLog, DeltaConflict, DeltaError, InvalidDeltaRequest
from deltaberg.delta.log.actions import Txn
from deltaberg.delta.protocol.row_tracking import high_water_mark
from deltaberg.delta.schema.types import LongType, StringType, StructField, StructType
from deltaberg.delta.table import DeltaTable
from deltaberg.delta.transaction import begin_transaction
from deltaberg.storage import open_storage
from deltaberg.storage.errors import StorageError
from tests.independent_readers import delta_rs, duckdb_delta

FILES = 5
ROWS = 10


class Killed(BaseException):
    """The process ends here: nobody cleans up."""


class Watched:
    """A storage that says when something was written or deleted."""

    def __init__(self, after: Callable[[str, str], None], before: Callable[[str, str], None] | None = None) -> None:
        self._storage: Any = open_storage()
        self._after, self._before = after, before or (lambda *_: None)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._storage, name)

    def put(self, location: str, data: bytes) -> None:
        self._before("put", location)
        self._storage.put(location, data)
        self._after("put", location)

    def put_if_absent(self, location: str, data: bytes) -> None:
        self._before("put_if_absent", location)
        self._storage.put_if_absent(location, data)
        self._after("put_if_absent", location)

    def delete(self, location: str) -> None:
        self._before("delete", location)
        self._storage.delete(location)
        self._after("delete", location)

    @contextmanager
    def create(self, location: str, *, durable: bool = False) -> Iterator[pa.NativeFile]:
        self._before("create", location)
        with self._storage.create(location, durable=durable) as sink:
            yield sink
        self._after("create", location)


def metadata(**configuration: str) -> Any:
    schema = StructType(
        fields=(
            StructField(name="id", type=LongType(), nullable=True, metadata={}),
            StructField(name="p", type=StringType(), nullable=True, metadata={}),
        )
    )
    return new_metadata(schema, table_id="t", created_time_ms=1, partition_columns=["p"], configuration=configuration)


def data_files(root: Path) -> list[pa.RecordBatch]:
    """One batch of ADD_SCHEMA for each of FILES files with ROWS rows."""
    batches = []
    for number in range(FILES):
        root.mkdir(parents=True, exist_ok=True)
        place = root / f"f{number}.parquet"
        ids = list(range(number * ROWS, (number + 1) * ROWS))
        pq.write_table(pa.table({"id": pa.array(ids, pa.int64())}), place)
        stats = {
            "num_records": ROWS,
            "min_values": {"id": ids[0]},
            "max_values": {"id": ids[-1]},
            "null_count": {"id": 0},
        }
        batches.append(
            pa.record_batch(
                {
                    "path": [place.name],
                    "partition_values": [{"p": f"p{number % 2}"}],
                    "size": [place.stat().st_size],
                    "modification_time": [1],
                    "data_change": [True],
                    "stats": [stats],
                }
            )
        )
    return batches


def in_parts(root: Path, storage: Any, **options: Any) -> TableInParts:
    configuration = options.pop("configuration", {})
    return TableInParts(
        storage,
        str(root),
        metadata=metadata(**configuration),
        parts=3,
        creation_lock=options.pop("claim", "me"),
        now_ms=lambda: 5,
    )


def create(root: Path, storage: Any, **options: Any) -> WrittenPart:
    """Two parts by the recipe as another process has it, the last file with the commit."""
    batches = data_files(root)
    table = in_parts(root, storage, **options)
    table.begin()
    recipe: PartsRecipe = pickle.loads(pickle.dumps(table.recipe))
    written = [
        pickle.loads(pickle.dumps(recipe.write(storage, number, some)))
        for number, some in ((3, batches[:2]), (2, batches[2:4]))
    ]
    return table.commit(
        written, batches[4:], "CONVERT", timestamp_ms=7, txns=[Txn(app_id="a", version=3, last_updated=9)]
    )


def ids_of(found: pa.Table) -> list[int]:
    return sorted(found["id"].to_pylist())


WHOLE = list(range(FILES * ROWS))


def ours(table: str, version: None) -> pa.Table:
    from deltaberg.delta.scan import scan

    return pa.Table.from_batches(list(scan(DeltaTable.open(table, open_storage()).snapshot()).batches()))


@pytest.mark.parametrize("reader", [ours, delta_rs, duckdb_delta])
def test_at_no_moment_does_a_reader_see_a_part_of_the_table(tmp_path: Path, reader: Callable[..., pa.Table]) -> None:
    root = tmp_path / "t"
    seen: list[tuple[str, bool]] = []

    def look(what: str, location: str) -> None:
        try:
            found = ids_of(reader(str(root), None))
        except Exception:  # noqa: BLE001  a refusal of whatever kind shows nothing
            seen.append((f"{what} {Path(location).name}", False))
            return
        assert found == WHOLE, f"after {what} {location}"
        seen.append((f"{what} {Path(location).name}", True))

    create(root, Watched(look))
    visible = [name for name, whole in seen if whole]
    assert seen[0] == ("put_if_absent 00000000000000000000.json", False)
    assert seen[-1][1]
    # Visible with the part that has protocol and metadata, or with the commit for readers that ask for one.
    assert visible[0] in {
        "create 00000000000000000001.checkpoint.0000000001.0000000003.parquet",
        "put_if_absent 00000000000000000001.json",
    }
    assert not (root / "_delta_log" / "00000000000000000000.json").exists()


def test_the_table_says_what_was_committed(tmp_path: Path) -> None:
    create(tmp_path / "t", open_storage())
    snapshot = DeltaTable.open(str(tmp_path / "t"), open_storage()).snapshot()
    assert snapshot.version == 1
    assert snapshot.txns["a"].version == 3
    assert snapshot.metadata == metadata()
    assert snapshot.segment.checksum is not None
    files = [row for batch in snapshot.add_files() for row in batch.to_pylist()]
    assert sorted(row["path"] for row in files) == [f"f{number}.parquet" for number in range(FILES)]
    assert {row["stats"]["num_records"] for row in files} == {ROWS}
    assert [row["partition_values"]["p"] for row in sorted(files, key=lambda row: row["path"])] == ["p0", "p1"] * 2 + [
        "p0"
    ]
    hint = json.loads((tmp_path / "t" / "_delta_log" / "_last_checkpoint").read_text())
    assert (hint["version"], hint["parts"], hint["size"], hint["numOfAddFiles"]) == (1, 3, FILES + 3, FILES)


def test_commits_go_on_top_of_it(tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake")
    root = tmp_path / "t"
    create(root, open_storage())
    deltalake.write_deltalake(str(root), pa.table({"id": [1000], "p": ["p0"]}), mode="append")
    deltalake.DeltaTable(str(root)).delete("id < 10")
    storage = open_storage()
    snapshot = DeltaTable.open(str(root), storage).snapshot()
    assert snapshot.version == 3
    own = begin_transaction(snapshot)
    own.remove_files([batch.slice(0, 1) for batch in snapshot.add_files() if batch.num_rows][:1])
    assert own.commit("DELETE") == 4
    own.checkpoint()
    left = {tuple(ids_of(reader(str(root), None))) for reader in (ours, delta_rs, duckdb_delta)}
    assert len(left) == 1
    assert 5 not in next(iter(left))


def test_row_ids_of_own_files_follow_those_of_the_parts(tmp_path: Path) -> None:
    root, storage = tmp_path / "t", open_storage()
    batches = [
        batch.append_column("base_row_id", pa.array([100 * number], pa.int64()))
        for number, batch in enumerate(data_files(root))
    ]
    table = in_parts(root, storage, configuration={"delta.enableRowTracking": "true"})
    table.begin()
    written = [table.recipe.write(storage, 2, batches[:2]), table.recipe.write(storage, 3, batches[2:4])]
    with pytest.raises(InvalidDeltaRequest, match="has no baseRowId"):
        table.recipe.write(storage, 3, data_files(root))
    table.commit(written, data_files(root)[4:], "CONVERT", reserved_row_ids=5)
    snapshot = DeltaTable.open(str(root), storage).snapshot()
    ids = {row["path"]: row["base_row_id"] for batch in snapshot.add_files() for row in batch.to_pylist()}
    assert ids == {"f0.parquet": 0, "f1.parquet": 100, "f2.parquet": 200, "f3.parquet": 300, "f4.parquet": 310}
    assert high_water_mark(snapshot.domain_metadata.values()) == 319


@pytest.mark.parametrize("step", range(12))
def test_a_creation_that_dies_anywhere_is_taken_up_again(tmp_path: Path, step: int) -> None:
    root, steps = tmp_path / "t", iter(range(step))

    def die(what: str, location: str) -> None:
        if next(steps, None) is None:
            raise Killed

    try:
        create(root, Watched(lambda *_: None, before=die))
    except Killed:
        recover(open_storage(), str(root), creation_lock="me")
    storage = open_storage()
    if not storage.exists(f"{root}/_delta_log/{1:020d}.json"):
        assert [path.name for path in (root / "_delta_log").glob("*")] == []
        create(root, storage)
    for reader in (ours, delta_rs, duckdb_delta):
        assert ids_of(reader(str(root), None)) == WHOLE
    assert creation_lock_of(storage, str(root)) is None


@pytest.mark.parametrize("step", range(7))
def test_a_creation_that_fails_leaves_nothing(tmp_path: Path, step: int) -> None:
    root, steps = tmp_path / "t", iter(range(step))
    failing = [True]

    def fail(what: str, location: str) -> None:
        if failing[0] and next(steps, None) is None:
            failing[0] = False
            raise StorageError("Cannot write: the disk is full", path=location)

    storage = Watched(lambda *_: None, before=fail)
    table = in_parts(root, storage)
    batches = data_files(root)
    try:
        table.begin()
        written = [table.recipe.write(storage, 2, batches[:2]), table.recipe.write(storage, 3, batches[2:4])]
        table.commit(written, batches[4:], "CONVERT")
    except StorageError:
        table.abandon()
        committed = False
    else:
        table.abandon()
        committed = True
    names = {path.name for path in (root / "_delta_log").glob("*.*")} if (root / "_delta_log").exists() else set()
    if committed:
        assert ids_of(delta_rs(str(root), None)) == WHOLE
    else:
        assert names == set()


def test_a_claimed_folder_is_nobody_elses(tmp_path: Path) -> None:
    root, storage = tmp_path / "t", open_storage()
    mine, other = in_parts(root, storage), in_parts(root, storage, creation_lock="other")
    mine.begin()
    assert creation_lock_of(storage, str(root)) == "me"
    with pytest.raises(DeltaConflict, match="its log exists"):
        other.begin()
    with pytest.raises(DeltaConflict, match="says that another conversion began one"):
        recover(storage, str(root), creation_lock="other")
    with pytest.raises(DeltaConflict, match="its log exists"):
        create_table(storage, str(root), metadata=metadata())
    with pytest.raises(CorruptLog, match="no protocol action"):
        DeltaTable.open(str(root), storage).snapshot()
    mine.abandon()
    other.begin()


def test_a_part_that_is_missing_is_named(tmp_path: Path) -> None:
    table = in_parts(tmp_path / "t", open_storage())
    table.begin()
    with pytest.raises(InvalidDeltaRequest, match=r"parts of the checkpoint are \[\] \(expected 2 to 3\)"):
        table.commit([], [], "CONVERT")


def test_a_table_that_stands_is_no_claim(tmp_path: Path) -> None:
    root, storage = tmp_path / "t", open_storage()
    create_table(storage, str(root), metadata=metadata()).commit("CREATE TABLE")
    assert creation_lock_of(storage, str(root)) is None
    recover(storage, str(root), creation_lock="me")
    assert DeltaTable.open(str(root), storage).snapshot().version == 0


def test_a_file_that_the_table_cannot_hold_is_refused_in_its_part(tmp_path: Path) -> None:
    root, storage = tmp_path / "t", open_storage()
    table = in_parts(root, storage)
    wrong = data_files(root)[0].drop_columns("partition_values")
    with pytest.raises(DeltaError, match="no column 'partition_values'"):
        table.recipe.write(storage, 2, [wrong])
    assert not storage.exists(table.recipe.location(2))


def test_a_creation_that_was_taken_for_dead_leaves_its_files_to_the_other(tmp_path: Path) -> None:
    root, storage = tmp_path / "t", open_storage()
    batches = data_files(root)
    first, second = in_parts(root, storage), in_parts(root, storage)
    first.begin()
    early = [first.recipe.write(storage, 2, batches[:2]), first.recipe.write(storage, 3, batches[2:4])]
    recover(storage, str(root), creation_lock="me")
    second.begin()
    written = [second.recipe.write(storage, 2, batches[:2]), second.recipe.write(storage, 3, batches[2:4])]
    with pytest.raises(DeltaConflict, match="another run of the same conversion has taken it up"):
        first.commit(early, batches[4:], "CONVERT")
    assert not first.abandon()
    second.commit(written, batches[4:], "CONVERT")
    assert ids_of(delta_rs(str(root), None)) == WHOLE
