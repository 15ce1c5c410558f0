"""Metadata translated in parts: the same plan and the same entries as in one process, for tables of every kind."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltaberg.delta.checkpoint.checkpoint import checkpoint_snapshot
from deltaberg.delta.commit.distributed_create import TableInParts
from deltaberg.delta.deletion_vector.deletion_vector import DeletionVectorDescriptor, read_blobs
from deltaberg.delta.table import DeltaTable
from deltaberg.errors import Conflict, DeltabergError, EngineFailed, UsageError
from deltaberg.iceberg.manifest.live_files import data_files, delete_files
from deltaberg.iceberg.manifest.manifest_list import read_manifest_list
from deltaberg.iceberg.partition.partition_spec import PartitionField, PartitionSpec
from deltaberg.iceberg.partition.transforms import parse_transform
from deltaberg.iceberg.schema.schema import Schema
from deltaberg.iceberg.schema.types import LongType, NestedField
from deltaberg.migrate import convert as conversion
from deltaberg.migrate.convert import ConvertResult, convert
from deltaberg.migrate.engine import LocalEngine, LocalSplits, Splits
from deltaberg.migrate.plan import prepare
from deltaberg.migrate.refusal import Refused
from deltaberg.migrate.source import DeltaSource, IcebergSource, Source, open_source
from deltaberg.migrate.spark import to_iceberg as delta_parts
from deltaberg.migrate.spark.job_files import JobFiles
from deltaberg.migrate.spark.splits import PartSettings, distributed
from deltaberg.migrate.spark.staging import Inline, Staging, any_repeated
from deltaberg.migrate.spark.tasks import Attempt, Done
from deltaberg.migrate.target.file_count import stated_files
from deltaberg.migrate.target.run_document import RunId
from deltaberg.migrate.target.undo_storage import UndoStorage
from deltaberg.storage import open_storage
from deltaberg.translate.options import ConvertOptions
from tests.independent_readers import delta_rs, duckdb_delta

CLOCK_MS = 1_700_000_000_000
CORPUS = Path(__file__).resolve().parents[4] / "shared" / "corpus"
# What other projects test themselves with is much alike: those that Spark wrote have every feature.
DELTA = sorted(path.parent.name for path in CORPUS.glob("delta/spark-*/case.json"))
ICEBERG = sorted(path.parent.name for path in CORPUS.glob("iceberg/spark-*/case.json"))


class InParts(LocalEngine):
    """The local engine, but for the files, which units of ``work`` look at and translate."""

    writes_before_plan = True

    def __init__(self, work: Any, files_per_part: int = 2) -> None:
        self.work = work
        self.settings = PartSettings(distribute_from=0, files_per_part=files_per_part)

    def splits_of(
        self, source: Source, options: ConvertOptions, *, target: Any, progress: Any
    ) -> AbstractContextManager[Splits]:
        return distributed(self.work, source, options, settings=self.settings, target=target, progress=lambda *_: None)


@pytest.fixture
def both(in_this_process: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """``both(source, to, options)``: the local conversion and the one in parts, or the error of both."""

    def run(source: Source, to: str, **options: Any) -> tuple[ConvertResult, ConvertResult] | str:
        chosen = ConvertOptions(**options)
        results: list[ConvertResult | str] = []
        for engine, name in ((LocalEngine(), "local"), (InParts(in_this_process), "parts")):
            monkeypatch.setattr(conversion, "engine_of", lambda *_, engine=engine: engine)
            target = tmp_path / name
            try:
                results.append(convert(source, to=to, target=str(target), options=chosen, clock_ms=CLOCK_MS))
            except DeltabergError as error:
                results.append(str(error).replace(str(target), "TARGET"))
                assert [path for path in tmp_path.rglob("*") if path.is_file() and target in path.parents] == []
        if isinstance(results[0], str) or isinstance(results[1], str):
            assert results[0] == results[1]
            return str(results[0])
        return results[0], results[1]

    return run


def said(done: ConvertResult) -> dict[str, Any]:
    """The plan, without the place of the target."""
    document = done.plan.to_json()
    return {**document, "target": {**document["target"], "location": ""}}


def entries(done: ConvertResult) -> list[str]:
    """What the target says of its files, deletes included; names of files that each run writes are its own."""
    table = open_source(done.target, open_storage())
    return sorted(map(repr, _of_iceberg(table) if isinstance(table, IcebergSource) else _of_delta(table)))


def _of_iceberg(table: IcebergSource) -> list[dict[str, Any]]:
    snapshot = table.snapshot
    assert snapshot is not None
    rows = [row for batch in data_files(table.table, snapshot) for row in batch.to_pylist()]
    for row in rows:
        if "rewritten-" in row["file_path"] or "/parts/data/" in row["file_path"] or "/local/data/" in row["file_path"]:
            row["file_path"] = "rewritten"
            row["first_row_id"] = None
    deletes = [row for batch in delete_files(table.table, snapshot) for row in batch.to_pylist()]
    for row in deletes:
        if row["file_format"] == "puffin":
            blob = table.storage.get_range(row["file_path"], row["content_offset"], row["content_size_in_bytes"])
            row["content_offset"], row["file_size_in_bytes"] = blob, 0
        row["file_path"] = ""
    return [*rows, *deletes]


def _of_delta(table: DeltaSource) -> list[dict[str, Any]]:
    rows = [row for batch in table.snapshot.add_files() for row in batch.to_pylist(maps_as_pydicts="lossy")]
    for row in rows:
        # A checkpoint says of no file that it changes data; new files are of version 1 and not 0.
        row["data_change"] = None
        if "rewritten-" in row["path"]:
            row["path"] = "rewritten"
            row["default_row_commit_version"] = None
        vector = row["deletion_vector"]
        if vector is not None:
            described = DeletionVectorDescriptor(**vector)
            row["deletion_vector"] = [
                bytes(blob) for blob in read_blobs(table.storage, table.snapshot.table_root, [described])
            ]
    return rows


def same(found: tuple[ConvertResult, ConvertResult]) -> None:
    local, splits = found
    assert said(splits) == said(local)
    assert entries(splits) == entries(local)
    assert (splits.files, splits.rows, splits.rewritten_files) == (local.files, local.rows, local.rewritten_files)
    assert not list(Path(splits.target).rglob("*staging-*"))


@pytest.mark.skipif(not DELTA, reason="../shared is absent")
@pytest.mark.parametrize("name", DELTA)
def test_a_delta_table_of_the_corpus_becomes_the_same_iceberg_table(name: str, both: Any) -> None:
    try:
        source = open_source(str(CORPUS / "delta" / name / "table"), open_storage())
    except DeltabergError as error:
        pytest.skip(f"the table itself is refused: {error}")
    if not isinstance(source, DeltaSource):
        pytest.skip("it is another format's table")
    found = both(source, "iceberg")
    if not isinstance(found, str):
        same(found)


@pytest.mark.skipif(not ICEBERG, reason="../shared is absent")
@pytest.mark.parametrize("name", ICEBERG)
def test_an_iceberg_table_of_the_corpus_becomes_the_same_delta_table(name: str, both: Any) -> None:
    folder = CORPUS / "iceberg" / name
    known = json.loads((folder / "case.json").read_text(encoding="utf-8"))
    relocate = {known["location"]: str(folder / "table")} if known.get("location") else {}
    relocate |= {old: str(folder / new) for old, new in (known.get("relocate") or {}).items()}
    relocate["s3://fake-bucket"] = str(folder / "absent")
    try:
        source = open_source(str(folder / "table" / known["metadata"]), open_storage(relocate=relocate))
    except DeltabergError as error:
        pytest.skip(f"the table itself is refused: {error}")
    found = both(source, "delta")
    if not isinstance(found, str):
        same(found)


class Broken(BaseException):
    """The process ends here."""


class Failing:
    """Does what ``work`` does, but for the run and unit at which it fails."""

    session: Any = None

    def __init__(self, work: Any, run: int, error: BaseException, *, after: int = 1) -> None:
        self.work, self.error, self.left, self.after = work, error, run, after

    def run(self, work: Any, units: Any, **options: Any) -> Any:
        if self.left == 0:
            self.work.run(work, units[: self.after], **options)
            raise self.error
        self.left -= 1
        return self.work.run(work, units, **options)


@pytest.fixture
def delta_source(write_delta: Any, delete_from_delta: Any) -> Path:
    """Seven files in two partitions, rows deleted from two, a checkpoint and commits after it."""
    for number in range(5):
        ids = pa.array([number * 10 + each for each in range(4)], pa.int64())
        folder = write_delta(pa.table({"id": ids, "p": [f"p{number % 2}"] * 4}), partition_by=["p"])
    delete_from_delta(folder, {0: [1, 2]})
    checkpoint_snapshot(DeltaTable.open(str(folder), open_storage()).snapshot(), now_ms=0)
    for number in range(5, 7):
        ids = pa.array([number * 10 + each for each in range(4)], pa.int64())
        write_delta(pa.table({"id": ids, "p": ["p1"] * 4}), partition_by=["p"])
    delete_from_delta(folder, {1: [0]})
    assert isinstance(folder, Path)
    return folder


@pytest.fixture
def iceberg_source(stored_table: Any, tmp_path: Path) -> Callable[..., IcebergSource]:
    """``iceberg_source(version=3)``: four files, rows deleted by every kind of delete that the version has."""

    def make(version: int = 3) -> IcebergSource:
        schema = Schema(schema_id=0, fields=(NestedField(field_id=1, name="id", required=False, type=LongType()),))
        stored = stored_table(tmp_path / "source", schema, version=version)
        paths = [stored.data(pa.table({"id": pa.array([4 * n + i for i in range(4)], pa.int64())})) for n in range(4)]
        if version >= 3:
            stored.vector(paths[0], [1, 2], sequence_number=2)
        else:
            stored.position_deletes([(paths[0], 1), (paths[0], 2)], sequence_number=2)
        stored.equality_deletes(pa.table({"id": pa.array([9], pa.int64())}), [1], sequence_number=3)
        return source_of(stored)

    return make


class Twice:
    """Does everything two times, as speculation does, and takes what came second."""

    session: Any = None

    def run(self, work: Any, units: Any, **_: Any) -> Any:
        done = []
        for number, unit in enumerate(units):
            for name in ("first", "second"):
                attempt = Attempt(unit=number, name=f"{number}-{name}")
                last = Done(attempt=attempt, result=work(unit, attempt))
            done.append(last)
        return done


def ids_in(found: pa.Table) -> list[int]:
    return sorted(found["id"].to_pylist())


DELTA_IDS = sorted({number * 10 + each for number in range(7) for each in range(4)})


def test_all_kinds_of_parts_of_a_log_make_the_same_table(delta_source: Path, both: Any, iceberg_rows: Any) -> None:
    found = both(open_source(str(delta_source), open_storage()), "iceberg")
    same(found)
    rows = [iceberg_rows(each.target_metadata).sort_by("id") for each in found]
    assert rows[0] == rows[1]
    assert len(rows[0]) == len(DELTA_IDS) - 3


@pytest.mark.parametrize("version", [2, 3])
def test_all_kinds_of_deletes_make_the_same_table(version: int, iceberg_source: Any, both: Any) -> None:
    found = both(iceberg_source(version), "delta")
    same(found)
    wanted = [each for each in range(16) if each not in {1, 2, 9}]
    for done in found:
        for reader in (delta_rs, duckdb_delta):
            assert ids_in(reader(done.target, None)) == wanted


@pytest.mark.parametrize("version", [1, 2])
def test_deletes_in_older_formats_make_the_same_table(version: int, delta_source: Path, both: Any) -> None:
    found = both(open_source(str(delta_source), open_storage()), "iceberg", format_version=version)
    if version == 1:
        assert "deletes-need-version-2" in found
    else:
        same(found)


@pytest.mark.parametrize("run", [0, 1])
@pytest.mark.parametrize("to", ["iceberg", "delta"])
def test_what_fails_in_tasks_leaves_nothing_and_can_be_run_again(
    to: str, run: int, delta_source: Path, iceberg_source: Any, in_this_process: Any, monkeypatch: Any, tmp_path: Path
) -> None:
    source = open_source(str(delta_source), open_storage()) if to == "iceberg" else iceberg_source()
    target = tmp_path / "target"
    failing = Failing(in_this_process, run, EngineFailed("Spark gave the job up"))
    monkeypatch.setattr(conversion, "engine_of", lambda *_: InParts(failing))
    with pytest.raises(EngineFailed, match="gave the job up"):
        convert(source, to=to, target=str(target), clock_ms=CLOCK_MS)
    assert [path for path in target.rglob("*") if path.is_file()] == []
    monkeypatch.setattr(conversion, "engine_of", lambda *_: InParts(in_this_process))
    done = convert(source, to=to, target=str(target), clock_ms=CLOCK_MS)
    assert not done.already_current
    assert done.files == (7 if to == "iceberg" else 4)


@pytest.mark.parametrize("to", ["iceberg", "delta"])
def test_attempts_that_do_not_count_leave_nothing(
    to: str, delta_source: Path, iceberg_source: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    source = open_source(str(delta_source), open_storage()) if to == "iceberg" else iceberg_source()
    done = {}
    for name, engine in (("local", LocalEngine()), ("twice", InParts(Twice()))):
        monkeypatch.setattr(conversion, "engine_of", lambda *_, engine=engine: engine)
        done[name] = convert(source, to=to, target=str(tmp_path / name), clock_ms=CLOCK_MS)
    assert entries(done["twice"]) == entries(done["local"])
    found = open_source(done["twice"].target, open_storage())
    files = {str(path) for path in Path(done["twice"].target).rglob("*") if path.is_file() and "plan-" not in path.name}
    if isinstance(found, IcebergSource):
        snapshot = found.snapshot
        assert snapshot is not None
        listed = {
            manifest.manifest_path for manifest in read_manifest_list(found.storage, snapshot, found.table.metadata)
        }
        deletes = {row["file_path"] for batch in delete_files(found.table, snapshot) for row in batch.to_pylist()}
        used = {snapshot.manifest_list, *listed, *deletes}
        assert {path for path in files if not path.endswith((".metadata.json", "version-hint.text"))} == used
    else:
        vectors = [row["deletion_vector"] for row in _raw_adds(done["twice"]) if row["deletion_vector"]]
        used = {DeletionVectorDescriptor(**vector).location(done["twice"].target) for vector in vectors}
        assert {path for path in files if "/_delta_log/" not in path} == used


@pytest.mark.parametrize("run", [0, 1])
@pytest.mark.parametrize("again", ["local", "parts"])
@pytest.mark.parametrize("to", ["iceberg", "delta"])
def test_a_driver_that_dies_shows_nothing_and_any_engine_takes_up_its_work(
    to: str,
    again: str,
    run: int,
    delta_source: Path,
    iceberg_source: Any,
    in_this_process: Any,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    source = open_source(str(delta_source), open_storage()) if to == "iceberg" else iceberg_source()
    target = tmp_path / "target"
    with monkeypatch.context() as patched:
        # Nobody cleans up in a process that is gone.
        patched.setattr(conversion, "engine_of", lambda *_: InParts(Failing(in_this_process, run, Broken())))
        patched.setattr(UndoStorage, "discard", lambda *_: None)
        patched.setattr(Staging, "clear", lambda *_: None)
        patched.setattr(JobFiles, "__exit__", lambda *_: None)
        patched.setattr(TableInParts, "abandon", lambda *_: None)
        patched.setattr("deltaberg.migrate.spark.to_delta._delete_below", lambda *_: None)
        with pytest.raises(Broken):
            convert(source, to=to, target=str(target), clock_ms=CLOCK_MS)
    with pytest.raises(DeltabergError):
        open_source(str(target), open_storage())
    engine = InParts(in_this_process) if again == "parts" else LocalEngine()
    monkeypatch.setattr(conversion, "engine_of", lambda *_: engine)
    done = convert(source, to=to, target=str(target), clock_ms=CLOCK_MS)
    assert done.files == (7 if to == "iceberg" else 4)
    left = {path.name for path in target.rglob("*") if path.is_file() and "staging-" in str(path)}
    assert left == set()
    if to == "delta":
        reader = delta_rs(done.target, None)
        assert len(reader) == 13
        named = {row["deletion_vector"]["path_or_inline_dv"][:-20] for row in _raw_adds(done) if row["deletion_vector"]}
        folders = {str(path.parent.relative_to(target)) for path in target.rglob("*.bin")}
        assert folders == named


def _raw_adds(done: ConvertResult) -> list[dict[str, Any]]:
    table = open_source(done.target, open_storage())
    assert isinstance(table, DeltaSource)
    return [row for batch in table.snapshot.add_files() for row in batch.to_pylist(maps_as_pydicts="lossy")]


def test_a_running_conversion_keeps_others_out(
    iceberg_source: Any, in_this_process: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    source, target = iceberg_source(), tmp_path / "target"
    refused: list[str] = []

    class Meddling(Failing):
        def run(self, work: Any, units: Any, **options: Any) -> Any:
            if self.left == 0:
                with pytest.raises(Conflict) as caught:
                    convert(source, to="delta", target=str(target), options=ConvertOptions(column_mapping="name"))
                refused.append(str(caught.value))
            self.left -= 1
            return self.work.run(work, units, **options)

    engines = iter([InParts(Meddling(in_this_process, 1, Broken())), LocalEngine()])
    monkeypatch.setattr(conversion, "engine_of", lambda *_: next(engines))
    done = convert(source, to="delta", target=str(target), clock_ms=CLOCK_MS)
    assert "says that another conversion began one" in refused[0]
    assert ids_in(delta_rs(done.target, None)) == [each for each in range(16) if each not in {1, 2, 9}]


def test_a_second_run_finds_the_table_current(
    iceberg_source: Any, in_this_process: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    source, target = iceberg_source(), tmp_path / "target"
    monkeypatch.setattr(conversion, "engine_of", lambda *_: InParts(in_this_process))
    first = convert(source, to="delta", target=str(target), clock_ms=CLOCK_MS)
    assert first.commits == ((1, 1),)
    assert first.target_metadata.endswith("/00000000000000000001.json")
    assert convert(source, to="delta", target=str(target), clock_ms=CLOCK_MS).already_current
    monkeypatch.setattr(conversion, "engine_of", lambda *_: LocalEngine())
    assert convert(source, to="delta", target=str(target), clock_ms=CLOCK_MS).already_current


def test_a_path_that_two_parts_list_is_refused(
    stored_table: Any, in_this_process: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    schema = Schema(schema_id=0, fields=(NestedField(field_id=1, name="id", required=False, type=LongType()),))
    stored = stored_table(tmp_path / "source", schema, version=2)
    path = stored.data(pa.table({"id": pa.array([1], pa.int64())}))
    stored.entries.append(stored.entries[0])
    assert path
    source = source_of(stored)
    for engine in (LocalEngine(), InParts(in_this_process)):
        monkeypatch.setattr(conversion, "engine_of", lambda *_, engine=engine: engine)
        with pytest.raises(Refused, match=r"file-listed-twice: .*lists a data file twice"):
            convert(source, to="delta", target=str(tmp_path / "target"), clock_ms=CLOCK_MS)
        assert not list((tmp_path / "target").rglob("*.json"))


def test_the_plan_writes_nothing_and_says_the_same(
    delta_source: Path, iceberg_source: Any, in_this_process: Any, tmp_path: Path
) -> None:
    for source, to in ((open_source(str(delta_source), open_storage()), "iceberg"), (iceberg_source(), "delta")):
        before = sorted(path for path in tmp_path.rglob("*"))
        with InParts(in_this_process).splits_of(source, ConvertOptions(), target=None, progress=None) as splits:
            made = prepare(source, to=to, splits=splits).plan
        assert made == prepare(source, to=to, splits=LocalSplits()).plan
        assert sorted(path for path in tmp_path.rglob("*")) == before


def test_few_files_and_whole_histories_are_not_distributed(delta_source: Path, in_this_process: Any) -> None:
    source = open_source(str(delta_source), open_storage())
    # One that got a vector after the checkpoint stands in both.
    assert stated_files(source) == 8
    for settings, options in (
        (PartSettings(distribute_from=9), ConvertOptions()),
        (PartSettings(distribute_from=0), ConvertOptions(history="all")),
    ):
        with distributed(
            in_this_process, source, options, settings=settings, target=None, progress=lambda *_: None
        ) as splits:
            assert isinstance(splits, LocalSplits)
    with distributed(
        in_this_process,
        source,
        ConvertOptions(),
        settings=PartSettings(distribute_from=8),
        target=None,
        progress=lambda *_: None,
    ) as splits:
        assert not isinstance(splits, LocalSplits)


def test_repeated_fingerprints_are_found_whatever_part_and_shard_they_are_in(tmp_path: Path) -> None:
    storage = open_storage()
    numbers = np.sort(np.random.default_rng(1).integers(0, 2**64, 1000, dtype=np.uint64, endpoint=False))
    assert len(np.unique(numbers)) == 1000
    for staging in (Staging.below(storage, str(tmp_path), RunId()), Inline.of(storage)):
        apart = [staging.put_paths(f"a{shard}", numbers[shard::3]) for shard in range(3)]
        again = staging.put_paths("b", numbers[500:501])
        for at_a_time in (10, 1 << 25):
            assert not any_repeated(storage, apart, at_a_time=at_a_time)
            assert any_repeated(storage, [*apart, again], at_a_time=at_a_time)


def test_in_spark_tasks_as_in_this_process(
    delta_source: Path, iceberg_source: Any, spark: Any, tmp_path: Path, iceberg_rows: Any
) -> None:
    spark.conf.set("spark.deltaberg.distributeFrom", "0")
    spark.conf.set("spark.deltaberg.filesPerPart", "2")
    try:
        for source, to in ((open_source(str(delta_source), open_storage()), "iceberg"), (iceberg_source(), "delta")):
            local = convert(source, to=to, target=str(tmp_path / "local" / to), clock_ms=CLOCK_MS)
            splits = convert(source, to=to, target=str(tmp_path / "parts" / to), clock_ms=CLOCK_MS, session=spark)
            assert entries(splits) == entries(local)
            assert not list(Path(splits.target).rglob("*staging-*"))
        assert splits.commits[0][1] == 1
        spark.conf.set("spark.deltaberg.filesPerPart", "none")
        with pytest.raises(UsageError, match="filesPerPart=none: expected a whole number"):
            convert(source, to=to, target=str(tmp_path / "other"), session=spark)
    finally:
        spark.conf.unset("spark.deltaberg.distributeFrom")
        spark.conf.unset("spark.deltaberg.filesPerPart")


def partitioned(stored_table: Any, folder: Path) -> Any:
    schema = Schema(schema_id=0, fields=(NestedField(field_id=1, name="id", required=False, type=LongType()),))
    spec = PartitionSpec(
        spec_id=1,
        fields=(PartitionField(source_ids=(1,), field_id=1000, name="id", transform=parse_transform("identity")),),
    )
    return stored_table(folder, schema, specs=(spec,), version=3)


def source_of(stored: Any) -> IcebergSource:
    table = stored.open()
    return IcebergSource(
        table=table,
        snapshot=table.metadata.current_snapshot,
        schema=table.metadata.schema,
        ref=None,
        storage=table.storage,
        location=table.location,
    )


def test_a_vector_that_says_another_partition_is_refused_by_both(stored_table: Any, both: Any, tmp_path: Path) -> None:
    stored = partitioned(stored_table, tmp_path / "source")
    path = stored.data(pa.table({"id": pa.array([1, 1], pa.int64())}), partition={"id": 1})
    stored.vector(path, [0], partition={"id": 2}, sequence_number=2)
    assert "its partition differs from the data file's" in both(source_of(stored), "delta")


def test_a_vector_that_is_left_over_from_a_file_does_no_harm(stored_table: Any, both: Any, tmp_path: Path) -> None:
    stored = partitioned(stored_table, tmp_path / "source")
    for number in (1, 2):
        stored.data(pa.table({"id": pa.array([number] * 2, pa.int64())}), partition={"id": number})
    stored.vector(f"{tmp_path}/source/data/gone.parquet", [0], partition={"id": 1}, sequence_number=2)
    found = both(source_of(stored), "delta")
    same(found)
    assert [done.rows for done in found] == [4, 4]


def test_imported_files_are_all_looked_at_in_parts(tmp_path: Path, both: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delta_parts, "ONE_BY_ONE", 0)
    deltalake = pytest.importorskip("deltalake")
    folder = tmp_path / "imported"
    folder.mkdir()
    pq.write_table(pa.table({"a": [1], "b": [2]}), folder / "0.parquet")
    for number in range(1, 299):
        (folder / f"{number}.parquet").hardlink_to(folder / "0.parquet")
    ids = [pa.field(name, pa.int64(), metadata={"PARQUET:field_id": str(each)}) for each, name in enumerate("ba", 1)]
    pq.write_table(pa.table([[20], [10]], schema=pa.schema(ids)), folder / "299.parquet")
    deltalake.convert_to_deltalake(str(folder))
    found = both(open_source(str(folder), open_storage()), "iceberg")
    same(found)
    assert [(done.plan.footers.read, done.rewritten_files) for done in found] == [(300, 1)] * 2


def test_what_one_part_shows_makes_the_files_of_another_doubtful(
    tmp_path: Path, in_this_process: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two sessions of one engine write moments in different forms; no part of the log alone has both."""
    monkeypatch.setattr(delta_parts, "ONE_BY_ONE", 0)
    folder = tmp_path / "mixed"
    log = folder / "_delta_log"
    log.mkdir(parents=True)
    moments = pa.table({"t": pa.array([0], pa.timestamp("us", "UTC"))})
    schema = {"type": "struct", "fields": [{"name": "t", "type": "timestamp", "nullable": True, "metadata": {}}]}
    metadata = {"id": "x", "format": {"provider": "parquet", "options": {}}, "schemaString": json.dumps(schema)}
    actions: list[dict[str, Any]] = [
        {"commitInfo": {"operation": "WRITE", "engineInfo": "Apache-Spark/3.5.3 Delta-Lake/3.3.0", "timestamp": 1}},
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {"metaData": {**metadata, "partitionColumns": [], "configuration": {}, "createdTime": 1}},
    ]
    for number in range(340):
        name = f"part-{number:05}-{uuid.UUID(int=number)}-c000.snappy.parquet"
        pq.write_table(moments, folder / name, use_deprecated_int96_timestamps=number >= 320)
        file = {"path": name, "partitionValues": {}, "size": (folder / name).stat().st_size, "dataChange": True}
        actions.append({"add": {**file, "modificationTime": number * 1_000, "stats": '{"numRecords": 1}'}})
    (log / f"{0:020}.json").write_text("".join(json.dumps(each) + "\n" for each in actions))
    plans = []
    for engine in (LocalEngine(), InParts(in_this_process, files_per_part=20)):
        source = open_source(str(folder), open_storage())
        with engine.splits_of(source, ConvertOptions(), target=None, progress=lambda *_: None) as splits:
            plans.append(prepare(source, to="iceberg", splits=splits).plan)
    for made in plans:
        assert (made.footers.unread, made.rewritten_files) == (0, 20)
