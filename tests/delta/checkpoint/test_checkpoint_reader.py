"""Checkpoints of every kind give the same table; one that lacks a part or contradicts itself is named."""

from __future__ import annotations

import json
import threading
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltaberg.delta.checkpoint import checkpoint_reader, log_parquet
from deltaberg.delta.errors import CorruptLog, NotADeltaTable, VersionNotFound
from deltaberg.delta.snapshot import Snapshot
from deltaberg.delta.table import DeltaTable
from deltaberg.storage import open_storage
from deltaberg.storage.protocol import FileInfo

Log = Any
UUID = "80a083e8-7026-4e79-81be-64bd76c43a11"
STATS = '{"numRecords":5,"minValues":{"id":1},"maxValues":{"id":9},"nullCount":{"id":0}}'
V2 = {"reader": 3, "writer": 7, "readerFeatures": ["v2Checkpoint"], "writerFeatures": ["v2Checkpoint"]}


def opened(log: Log, version: int | None = None) -> Snapshot:
    return DeltaTable.open(str(log.root), open_storage()).snapshot(version)


def live(log: Log, version: int | None = None) -> dict[str, Any]:
    rows = [row for batch in opened(log, version).add_files() for row in batch.to_pylist()]
    assert len({row["path"] for row in rows}) == len(rows)
    return {row["path"]: row for row in rows}


def small(log: Log, **protocol: Any) -> list[dict[str, Any]]:
    return [
        log.protocol(**protocol),
        log.metadata(partitionColumns=["p"], configuration={"a": "b"}),
        {"txn": {"appId": "app", "version": 3, "lastUpdated": None}},
        {"domainMetadata": {"domain": "d", "configuration": "{}", "removed": False}},
    ]


def files(log: Log) -> list[dict[str, Any]]:
    return [
        log.add("a%20b", partitionValues={"p": "x"}, stats=STATS, tags={"t": "1"}, baseRowId=4),
        log.add("c", partitionValues={"p": None}, deletionVector=log.vector()),
        log.remove("gone"),
    ]


def classic(log: Log) -> None:
    log.checkpoint(10, *small(log), *files(log))


def multi_part(log: Log) -> None:
    parts = [files(log)[:1], small(log), files(log)[1:]]
    for number, actions in enumerate(parts, start=1):
        log.checkpoint(10, *actions, name=f"{10:020d}.checkpoint.{number:010d}.{3:010d}.parquet")


def v2_parquet(log: Log) -> None:
    metadata = {"checkpointMetadata": {"version": 10, "tags": {}}}
    log.checkpoint(10, metadata, *small(log, **V2), *files(log), name=f"{10:020d}.checkpoint.{UUID}.parquet")


def sidecars(log: Log) -> list[dict[str, Any]]:
    for name, actions in (("s 1.parquet", files(log)[:1]), ("s2.parquet", files(log)[1:])):
        log.checkpoint(10, *actions, name=f"_sidecars/{name}")
    return [
        {"sidecar": {"path": "s%201.parquet", "sizeInBytes": 1, "modificationTime": 1}},
        {"sidecar": {"path": "s2.parquet", "sizeInBytes": 1, "modificationTime": 1}},
    ]


def v2_parquet_with_sidecars(log: Log) -> None:
    metadata = {"checkpointMetadata": {"version": 10}}
    actions = [metadata, *small(log, **V2), *sidecars(log)]
    log.checkpoint(10, *actions, name=f"{10:020d}.checkpoint.{UUID}.parquet")


def v2_json(log: Log) -> None:
    lines = [{"checkpointMetadata": {"version": 10}}, *small(log, **V2), *files(log)]
    log.write(f"{10:020d}.checkpoint.{UUID}.json", "\n".join(map(json.dumps, lines)))


def v2_json_with_sidecars(log: Log) -> None:
    lines = [{"checkpointMetadata": {"version": 10}}, *small(log, **V2), *sidecars(log)]
    log.write(f"{10:020d}.checkpoint.{UUID}.json", "\n".join(map(json.dumps, lines)))


def classic_name_with_sidecars(log: Log) -> None:
    log.checkpoint(10, {"checkpointMetadata": {"version": 10}}, *small(log, **V2), *sidecars(log))


KINDS = [
    classic,
    multi_part,
    v2_parquet,
    v2_parquet_with_sidecars,
    v2_json,
    v2_json_with_sidecars,
    classic_name_with_sidecars,
]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_kind_of_checkpoint_is_the_same_table(log: Log, kind: Any) -> None:
    kind(log)
    log.commit(11, log.add("d", partitionValues={"p": "y"}), log.remove("c", deletionVector=log.vector()))
    snapshot = opened(log)
    assert snapshot.version == 11
    assert dict(snapshot.metadata.configuration) == {"a": "b"}
    assert snapshot.txns["app"].version == 3
    assert snapshot.domain_metadata["d"].configuration == "{}"
    assert set(live(log)) == {"a%20b", "d"}
    before = live(log, 10)
    assert set(before) == {"a%20b", "c"}
    row = before["a%20b"]
    assert (row["partition_values"], dict(row["tags"]), row["base_row_id"]) == ({"p": "x"}, {"t": "1"}, 4)
    assert (row["stats"]["num_records"], row["stats"]["max_values"]["id"]) == (5, 9)
    assert before["c"]["partition_values"] == {"p": None}
    assert before["c"]["deletion_vector"]["cardinality"] == 2
    removed = {row["path"] for batch in snapshot.remove_files() for row in batch.to_pylist()}
    assert removed == {"gone", "c"}


def test_a_tombstone_of_a_file_that_came_back_with_a_vector_stays(log: Log) -> None:
    log.checkpoint(3, log.protocol(), log.metadata(), log.remove("a"), log.remove("b"))
    log.commit(4, log.add("a", deletionVector=log.vector()), log.add("b"))
    assert [row["path"] for batch in opened(log).remove_files() for row in batch.to_pylist()] == ["a"]
    assert set(live(log)) == {"a", "b"}


STRUCT = pa.struct(
    [
        ("numRecords", pa.int64()),
        ("minValues", pa.struct([("id", pa.int64())])),
        ("maxValues", pa.struct([("id", pa.int64())])),
        ("nullCount", pa.struct([("id", pa.int64())])),
    ]
)
PARSED = {"numRecords": 7, "minValues": {"id": 2}, "maxValues": {"id": 8}, "nullCount": {"id": 1}}


def test_a_struct_of_statistics_goes_before_the_text(log: Log) -> None:
    both = log.add("a", stats=STATS, stats_parsed=PARSED)
    log.checkpoint(0, log.protocol(), log.metadata(), both, stats_parsed=STRUCT)
    assert live(log)["a"]["stats"]["num_records"] == 7


def test_a_struct_of_statistics_alone_is_enough(log: Log) -> None:
    log.checkpoint(
        0, log.protocol(), log.metadata(), log.add("a", stats_parsed=PARSED), log.add("b"), stats_parsed=STRUCT
    )
    rows = live(log)
    assert rows["a"]["stats"]["max_values"]["id"] == 8
    assert rows["b"]["stats"] is None


def test_where_the_struct_is_missing_the_text_is_read(log: Log) -> None:
    adds = [log.add("a", stats=STATS, stats_parsed=PARSED), log.add("b", stats=STATS), log.add("c")]
    log.checkpoint(0, log.protocol(), log.metadata(), *adds, stats_parsed=STRUCT)
    assert {path: row["stats"] and row["stats"]["num_records"] for path, row in live(log).items()} == {
        "a": 7,
        "b": 5,
        "c": None,
    }


def test_other_spellings_of_text_columns_are_read(log: Log) -> None:
    log.checkpoint(0, *small(log), *files(log))
    path = log.folder / f"{0:020d}.checkpoint.parquet"
    table = pq.read_table(path, read_dictionary=["add.path"])
    adds = table.column("add").combine_chunks()
    large = pa.struct(
        [
            field.with_type(
                pa.large_string() if field.type == pa.string() else pa.int32() if field.name == "size" else field.type
            )
            for field in adds.type
        ]
    )
    pq.write_table(table.set_column(table.schema.get_field_index("add"), "add", adds.cast(large)), path)
    assert set(live(log)) == {"a%20b", "c"}


def test_partition_values_may_be_there_as_a_struct_alone(log: Log) -> None:
    path = log.checkpoint(0, *small(log), *files(log))
    table = pq.read_table(path)
    index = table.schema.get_field_index("add")
    adds = table.column("add").combine_chunks()
    names = [field.name for field in adds.type if field.name != "partitionValues"]
    parsed = pa.array([{"p": f"v{number}"} for number in range(len(adds))])
    columns = [pa.compute.struct_field(adds, name) for name in names]
    slim = pa.StructArray.from_arrays([*columns, parsed], names=[*names, "partitionValues_parsed"], mask=adds.is_null())
    pq.write_table(table.set_column(index, "add", slim), path)
    values = {row["partition_values"]["p"] for row in live(log).values()}
    assert values == {"v4", "v5"}


def test_int96_bounds_of_distant_years_are_read(log: Log) -> None:
    schema = json.loads(log.SCHEMA)
    schema["fields"].append({"name": "ts", "type": "timestamp", "nullable": True, "metadata": {}})
    bounds = pa.struct([("ts", pa.timestamp("us"))])
    struct = pa.struct([("numRecords", pa.int64()), ("minValues", bounds)])
    moment = pa.scalar(-62135596800000000 + 86400000000 * 400, pa.timestamp("us")).as_py()
    add = log.add("a", stats_parsed={"numRecords": 1, "minValues": {"ts": moment}})
    path = log.checkpoint(0, log.protocol(), log.metadata(schemaString=json.dumps(schema)), add, stats_parsed=struct)
    pq.write_table(pq.read_table(path), path, use_deprecated_int96_timestamps=True)
    found = live(log)["a"]["stats"]["min_values"]["ts"]
    assert found.replace(tzinfo=None) == moment


def test_decimal_bounds_of_a_struct_are_exact(log: Log) -> None:
    schema = {"type": "struct", "fields": [{"name": "d", "type": "decimal(38,9)", "nullable": True, "metadata": {}}]}
    struct = pa.struct([("numRecords", pa.int64()), ("maxValues", pa.struct([("d", pa.decimal128(38, 9))]))])
    value = Decimal("12345678901234567890123456789.123456789")
    add = log.add("a", stats_parsed={"numRecords": 1, "maxValues": {"d": value}})
    log.checkpoint(0, log.protocol(), log.metadata(schemaString=json.dumps(schema)), add, stats_parsed=struct)
    assert live(log)["a"]["stats"]["max_values"]["d"] == value


def without(log: Log, what: str) -> None:
    log.checkpoint(3, *[action for action in small(log) if what not in action], *files(log))


def two(log: Log, what: str) -> None:
    log.checkpoint(3, *small(log), *[action for action in small(log) if what in action])


def corrupt_sidecar(log: Log) -> None:
    v2_json_with_sidecars(log)
    (log.folder / "_sidecars" / "s2.parquet").write_bytes(b"PAR1 or so")


def missing_sidecar(log: Log) -> None:
    v2_json_with_sidecars(log)
    (log.folder / "_sidecars" / "s2.parquet").unlink()


def truncated(log: Log) -> None:
    classic(log)
    path = log.folder / f"{10:020d}.checkpoint.parquet"
    path.write_bytes(path.read_bytes()[:-100])


def files_in_two_places(log: Log) -> None:
    lines = [{"checkpointMetadata": {"version": 10}}, *small(log, **V2), *sidecars(log), log.add("x")]
    log.write(f"{10:020d}.checkpoint.{UUID}.json", "\n".join(map(json.dumps, lines)))


def same_sidecar_twice(log: Log) -> None:
    lines = [{"checkpointMetadata": {"version": 10}}, *small(log, **V2), *sidecars(log)[:1] * 2]
    log.write(f"{10:020d}.checkpoint.{UUID}.json", "\n".join(map(json.dumps, lines)))


def v2_of_another_version(log: Log) -> None:
    log.write(
        f"{10:020d}.checkpoint.{UUID}.json",
        "\n".join(map(json.dumps, [{"checkpointMetadata": {"version": 9}}, *small(log, **V2)])),
    )


def v2_without_its_metadata(log: Log) -> None:
    log.write(f"{10:020d}.checkpoint.{UUID}.json", "\n".join(map(json.dumps, small(log, **V2))))


def wrong_type(log: Log) -> None:
    table = pa.table(
        {
            "add": pa.array([{"path": "a", "size": "ten"}]),
            "protocol": pa.nulls(1, pa.struct([("minReaderVersion", pa.int32())])),
        }
    )
    classic(log)
    pq.write_table(table, log.folder / f"{10:020d}.checkpoint.{UUID}.parquet")


def column_of_another_kind(log: Log, name: str) -> None:
    path = log.checkpoint(10, *small(log), *files(log))
    table = pq.read_table(path)
    index = table.schema.get_field_index(name)
    pq.write_table(table.set_column(index, name, pa.array([5] * table.num_rows)), path)


def no_path(log: Log) -> None:
    log.checkpoint(3, *small(log), log.add("a"), {"add": {"path": None, "size": 1}})


def added_twice(log: Log) -> None:
    log.checkpoint(3, *small(log), log.add("a"), log.add("b"), log.add("a"))


DAMAGES = [
    (lambda log: without(log, "protocol"), "the log has no protocol action", None),
    (lambda log: without(log, "metaData"), "the log has no metaData action", None),
    (lambda log: two(log, "protocol"), "two protocol actions", "checkpoint"),
    (lambda log: two(log, "metaData"), "two metaData actions", "checkpoint"),
    (lambda log: two(log, "txn"), "two txn actions of 'app'", "checkpoint"),
    (missing_sidecar, "it is missing", "s2.parquet"),
    (corrupt_sidecar, "it is no valid Parquet", "s2.parquet"),
    (truncated, "it is no valid Parquet", "checkpoint.parquet"),
    (files_in_two_places, "add actions itself and in sidecars", UUID),
    (same_sidecar_twice, "the sidecar s%201.parquet twice", UUID),
    (v2_of_another_version, r"names the versions [9] (expected one, 10)", UUID),
    (v2_without_its_metadata, r"names the versions [] (expected one, 10)", UUID),
    (wrong_type, "checkpointMetadata", UUID),
    (lambda log: column_of_another_kind(log, "add"), "column add is of type int64", "checkpoint.parquet"),
    (lambda log: column_of_another_kind(log, "metaData"), "column metaData is of type int64", "checkpoint.parquet"),
    (no_path, "path is missing", "checkpoint.parquet"),
    (added_twice, "a is live twice", None),
]


@pytest.mark.parametrize(("damage", "message", "path"), DAMAGES, ids=[message for _, message, _ in DAMAGES])
def test_a_damaged_checkpoint_names_version_and_file(log: Log, damage: Any, message: str, path: str | None) -> None:
    damage(log)
    with pytest.raises(CorruptLog) as caught:
        live(log)
    assert message in str(caught.value)
    assert caught.value.version in (3, 10)
    assert path is None or path in str(caught.value.path)


def test_a_multi_part_checkpoint_with_a_missing_part_is_ignored(log: Log) -> None:
    log.create(log.add("first"))
    for version in range(1, 11):
        log.commit(version, {"commitInfo": {}})
    multi_part(log)
    assert set(live(log)) == {"a%20b", "c"}
    (log.folder / f"{10:020d}.checkpoint.{2:010d}.{3:010d}.parquet").unlink()
    assert set(live(log)) == {"first"}


@pytest.mark.parametrize(
    "hint",
    [
        '{"version":10,"size":3}',
        '{"version":3,"size":3}',
        '{"version":"10"}',
        '{"version":-1}',
        '{"version":1e3}',
        '{"version":',
        "",
        "[]",
        "\xff",
    ],
)
def test_the_last_checkpoint_file_is_only_a_hint(log: Log, hint: str) -> None:
    log.create(log.add("first"))
    for version in range(1, 12):
        log.commit(version, log.add(f"f{version}", partitionValues={"p": "y"}))
    classic(log)
    log.write("_last_checkpoint", hint.encode("latin-1"))
    assert opened(log).version == 11
    assert set(live(log)) == {"a%20b", "c", "f11"}
    assert set(live(log, 2)) == {"first", "f1", "f2"}


def test_a_hint_to_an_older_checkpoint_finds_the_newer_one(log: Log) -> None:
    log.checkpoint(3, *small(log), log.add("old"))
    log.commit(3, {"commitInfo": {}})
    classic(log)
    log.commit(10, {"commitInfo": {}})
    log.write("_last_checkpoint", '{"version":3,"size":3}')
    assert set(live(log)) == {"a%20b", "c"}
    with pytest.raises(CorruptLog, match="commit 4"):
        live(log, 5)
    with pytest.raises(VersionNotFound, match="cleaned up"):
        live(log, 2)


class CountingStorage:
    """Counts what opening a table asks of the storage."""

    def __init__(self, *, probes: bool = True) -> None:
        self._storage = open_storage()
        self._probes = probes
        self.calls: list[tuple[str, str]] = []

    def __getattr__(self, name: str) -> Any:
        target = getattr(self._storage, name)

        def call(location: str, *args: Any, **options: Any) -> Any:
            if name == "probe" and not self._probes:  # as in an object store
                return None
            self.calls.append((name, location.rpartition("/")[2]))
            found = target(location, *args, **options)
            return list(self._listed(found)) if name == "list" else found

        return call

    def _listed(self, found: Any) -> Any:
        for info in found:
            assert isinstance(info, FileInfo)
            self.calls.append(("listed", info.location.rpartition("/")[2]))
            yield info


@pytest.mark.parametrize("is_store", [False, True])
def test_old_commits_behind_a_checkpoint_cost_nothing(log: Log, is_store: bool) -> None:
    calls = []
    for old in (10, 300):
        fresh = type(log)(log.root / str(old))
        for version in range(old):
            fresh.commit(version, {"commitInfo": {}})
        fresh.checkpoint(old - 1, *small(fresh), *files(fresh))
        fresh.commit(old, fresh.add("new", partitionValues={"p": "y"}))
        fresh.write("_last_checkpoint", json.dumps({"version": old - 1, "size": 7}))
        storage = CountingStorage(probes=not is_store)
        snapshot = DeltaTable.open(str(fresh.root), storage).snapshot()  # type: ignore[arg-type]
        assert sum(batch.num_rows for batch in snapshot.add_files()) == 3
        calls.append([name for name, _ in storage.calls])
    assert calls[0] == calls[1]
    assert calls[0].count("listed") == (4 if is_store else 0)


def test_memory_does_not_grow_with_the_checkpoint(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    # Both checkpoints have many more batches than are held at once.
    monkeypatch.setattr(checkpoint_reader, "TEXT_BATCH_ROWS", 2048)
    peaks = []
    for rows in (40_000, 120_000):
        fresh = type(log)(log.root / str(rows))
        adds = [fresh.add(f"part-{number:06d}.parquet", stats=STATS) for number in range(rows)]
        fresh.checkpoint(0, fresh.protocol(), fresh.metadata(), *adds)
        snapshot = opened(fresh)
        del adds
        before = pa.total_allocated_bytes()
        peak = total = 0
        for batch in snapshot.add_files():
            total += batch.num_rows
            peak = max(peak, pa.total_allocated_bytes() - before)
        assert total == rows
        peaks.append(peak)
    assert peaks[1] < 1.5 * peaks[0]


def test_a_folder_without_a_log_is_no_table(tmp_path: Path) -> None:
    with pytest.raises(NotADeltaTable, match="no Delta log found") as caught:
        DeltaTable.open(str(tmp_path), open_storage())
    assert caught.value.table == str(tmp_path)


def test_a_long_tail_of_commits_is_told_from_a_long_checkpoint(log: Log) -> None:
    half = 20_000
    log.checkpoint(
        0,
        log.protocol(),
        log.metadata(),
        *(log.add(f"old-{number}", stats=STATS) for number in range(2 * half)),
        name=f"{0:020d}.checkpoint.{1:010d}.{2:010d}.parquet",
    )
    log.checkpoint(
        0,
        *(log.add(f"parsed-{number}", stats_parsed=PARSED) for number in range(100)),
        name=f"{0:020d}.checkpoint.{2:010d}.{2:010d}.parquet",
        stats_parsed=STRUCT,
    )
    log.commit(1, *(log.remove(f"old-{number}") for number in range(half)), log.remove("parsed-7"))
    log.commit(2, *(log.add(f"new-{number}") for number in range(half)))
    batches = list(opened(log).add_files())
    assert max(batch.num_rows for batch in batches) <= log_parquet.TEXT_BATCH_ROWS
    found = [path for batch in batches for path in batch.column("path").to_pylist()]
    wanted = [f"old-{number}" for number in range(half, 2 * half)]
    wanted += [f"parsed-{number}" for number in range(100) if number != 7]
    assert found == wanted + [f"new-{number}" for number in range(half)]


@pytest.mark.parametrize("rows", [1, 8191, 8192, 16_384, 40_000])
def test_a_checkpoint_read_by_several_threads_is_the_same(log: Log, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    stats = {"numRecords": 3, "minValues": {"id": 1}, "maxValues": {"id": 2}, "nullCount": {"id": 0}}
    adds = [
        log.add(
            f"f{number}", size=number, partitionValues={"p": str(number)}, stats_parsed=stats, stats=json.dumps(stats)
        )
        for number in range(rows)
    ]
    log.checkpoint(10, *small(log), *adds)
    alone = list(opened(log).add_files())
    monkeypatch.setattr(log_parquet, "_WORTH_A_THREAD", 1)
    monkeypatch.setattr(log_parquet, "_UNEVEN", 1)
    monkeypatch.setattr(log_parquet, "processors", lambda: 3)
    together = list(opened(log).add_files())
    assert pa.Table.from_batches(together).equals(pa.Table.from_batches(alone))
    assert sum(batch.num_rows for batch in together) == rows


def test_a_reader_that_stops_early_leaves_no_thread(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_parquet, "_WORTH_A_THREAD", 1)
    monkeypatch.setattr(log_parquet, "_UNEVEN", 1)
    monkeypatch.setattr(log_parquet, "processors", lambda: 2)
    log.checkpoint(10, *small(log), *(log.add(f"f{number}", partitionValues={"p": "1"}) for number in range(50_000)))
    before = threading.active_count()
    files = opened(log).add_files()
    next(files)
    assert threading.active_count() > before
    files.close()
    assert threading.active_count() == before


@pytest.mark.parametrize(("damage", "message", "path"), DAMAGES, ids=[message for _, message, _ in DAMAGES])
def test_damage_is_named_by_whichever_thread_finds_it(
    log: Log, damage: Any, message: str, path: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_parquet, "_WORTH_A_THREAD", 1)
    monkeypatch.setattr(log_parquet, "_UNEVEN", 1)
    monkeypatch.setattr(log_parquet, "processors", lambda: 3)
    test_a_damaged_checkpoint_names_version_and_file(log, damage, message, path)


def test_a_damaged_page_names_its_file(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    log.checkpoint(10, *small(log), *(log.add(f"f{number}", partitionValues={"p": "1"}) for number in range(20_000)))
    monkeypatch.setattr(log_parquet, "_WORTH_A_THREAD", 1)
    monkeypatch.setattr(log_parquet, "_UNEVEN", 1)
    monkeypatch.setattr(log_parquet, "processors", lambda: 3)
    (file,) = (log.root / "_delta_log").glob("*.checkpoint.parquet")
    chunks = pq.ParquetFile(file).metadata.row_group(0)
    paths = next(chunk for chunk in map(chunks.column, range(chunks.num_columns)) if chunk.path_in_schema == "add.path")
    content = bytearray(file.read_bytes())
    start = paths.dictionary_page_offset or paths.data_page_offset
    content[start : start + 40] = b"\xff" * 40
    file.write_bytes(content)
    with pytest.raises(CorruptLog, match="it is no valid Parquet") as caught:
        live(log)
    assert str(caught.value.path) == str(file)
