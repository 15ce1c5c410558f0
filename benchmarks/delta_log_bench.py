"""Opening Delta tables and listing their files with typed statistics, and writing as many, beside delta-rs.

usage: delta_log_bench.py [--adds 1000000] [--old-commits 100000] [--repeat 3] [--folder DIR] [--only TABLE] [--out RESULTS.json]

Every measurement is a process of its own; the clock runs around the work, imports excluded, and memory is the peak of
the whole process. delta-rs loads the table and lists its add actions, flattened; deltaberg opens it
and reads every batch of ADD_SCHEMA, statistics parsed into columns. Three checkpoints of the same adds: statistics as
JSON text (what delta-rs writes), as text and structs (what Spark writes), and the latter in eight sidecars of a V2 checkpoint; and the first with a commit
behind it that removes every second file.
Then the same adds are written as a table's first commit and checkpointed: deltaberg from batches of ADD_SCHEMA in an
Arrow file, delta-rs from its own objects, which are there before the clock runs. Both alternate, so that a busy machine
slows both; cpu are the seconds of both processors in that time.
"""

from __future__ import annotations

import argparse
import json
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

COLUMNS = [
    ("id", "long"),
    ("b", "integer"),
    ("d", "double"),
    ("e", "double"),
    ("s", "string"),
    ("t", "string"),
    ("day", "date"),
    ("ts", "timestamp"),
    ("price", "decimal(10,2)"),
    ("f", "float"),
]
FIELDS = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in [*COLUMNS, ("p", "integer")]]
METADATA = {
    "id": "9c12d441-03fe-4693-9a96-a0705ddf69c1",
    "format": {"provider": "parquet", "options": {}},
    "schemaString": json.dumps({"type": "struct", "fields": FIELDS}),
    "partitionColumns": ["p"],
    "configuration": {},
    "createdTime": 1_700_000_000_000,
}


def bounds(number: int) -> dict[str, object]:
    return {
        "id": number,
        "b": number % 1_000_000,
        "d": number * 0.25,
        "e": number * 1.1,
        "s": f"name-{number}",
        "t": f"some text value {number}",
        "day": f"20{number % 90 + 10}-{number % 12 + 1:02d}-01",
        "ts": f"2024-03-10T10:{number % 60:02d}:00.{number % 1000:03d}Z",
        "price": number % 10_000_000 + number % 100 / 100,
        "f": number % 1000 * 0.5,
    }


def path(number: int) -> str:
    unique = f"{number * 2654435761 % 2**32:08x}-{number:04x}-4bad-8dad-{number * 40503 % 2**48:012x}"
    return f"p={number % 100}/part-{number % 100_000:05d}-{unique}.c000.snappy.parquet"


def adds(count: int) -> Iterator[dict[str, object]]:
    for number in range(count):
        counts = {name: number % 3 if name in ("d", "t") else 0 for name, _ in COLUMNS}
        low, high = bounds(number * 100), bounds(number * 100 + 99)
        stats = {"numRecords": 100, "minValues": low, "maxValues": high, "nullCount": counts}
        yield {
            "path": path(number),
            "partitionValues": {"p": str(number % 100)},
            "size": 100_000 + number % 1000,
            "modificationTime": 1_700_000_000_000,
            "dataChange": True,
            "stats": json.dumps(stats, separators=(",", ":")),
        }


def make_json_text(folder: Path, count: int) -> None:
    """A commit, checkpointed by delta-rs itself."""
    from deltalake import DeltaTable

    log = folder / "_delta_log"
    log.mkdir(parents=True)
    with (log / f"{0:020d}.json").open("w") as commit:
        commit.write(json.dumps({"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}) + "\n")
        commit.write(json.dumps({"metaData": METADATA}) + "\n")
        for add in adds(count):
            commit.write(json.dumps({"add": add}, separators=(",", ":")) + "\n")
    DeltaTable(folder).create_checkpoint()
    (log / f"{0:020d}.json").write_text('{"commitInfo":{}}\n')


def make_struct(source: Path, folder: Path, *, sidecars: int = 0) -> None:
    """The adds of another table's checkpoint, their statistics as structs."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from deltaberg.delta.table import DeltaTable
    from deltaberg.storage import open_storage

    log = folder / "_delta_log"
    (log / "_sidecars").mkdir(parents=True)
    snapshot = DeltaTable.open(str(source), open_storage()).snapshot()
    logged = pq.read_table(source / "_delta_log" / f"{0:020d}.checkpoint.parquet", columns=["add"]).column("add")
    texts = pa.concat_arrays(logged.chunks).drop_null()
    names = {
        "num_records": "numRecords",
        "min_values": "minValues",
        "max_values": "maxValues",
        "null_count": "nullCount",
    }
    stats = pa.concat_arrays([batch.column("stats") for batch in snapshot.add_files()])
    parsed = pa.StructArray.from_arrays([stats.field(name) for name in names], names=list(names.values()))
    # Side by side, as Spark writes them.
    kept = ["path", "partitionValues", "size", "modificationTime", "dataChange", "stats"]
    rows = pa.StructArray.from_arrays([*(texts.field(name) for name in kept), parsed], names=[*kept, "stats_parsed"])
    if not sidecars:
        table = pa.concat_tables([non_file_actions(), pa.table({"add": rows})], promote_options="default")
        pq.write_table(table, log / f"{0:020d}.checkpoint.parquet", row_group_size=200_000)
        (log / f"{0:020d}.json").write_text('{"commitInfo":{}}\n')
    else:
        features = ["v2Checkpoint"]
        protocol = {
            "minReaderVersion": 3,
            "minWriterVersion": 7,
            "readerFeatures": features,
            "writerFeatures": features,
        }
        lines = [{"checkpointMetadata": {"version": 0}}, {"protocol": protocol}, {"metaData": METADATA}]
        each = -(-len(rows) // sidecars)
        for number in range(sidecars):
            path = log / "_sidecars" / f"{number}.parquet"
            pq.write_table(pa.table({"add": rows.slice(number * each, each)}), path)
            sidecar = {"path": path.name, "sizeInBytes": path.stat().st_size, "modificationTime": 0}
            lines.append({"sidecar": sidecar})
        name = f"{0:020d}.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.json"
        (log / name).write_text("\n".join(map(json.dumps, lines)))
        (log / f"{0:020d}.json").write_text(
            json.dumps({"protocol": protocol}) + "\n" + json.dumps({"metaData": METADATA}) + "\n"
        )
    (log / "_last_checkpoint").write_text(json.dumps({"version": 0, "size": len(rows)}))


def non_file_actions():
    """Protocol and metadata as the first rows of a checkpoint."""
    import pyarrow as pa

    metadata = pa.struct(
        [
            ("id", pa.string()),
            ("format", pa.struct([("provider", pa.string()), ("options", pa.map_(pa.string(), pa.string()))])),
            ("schemaString", pa.string()),
            ("partitionColumns", pa.list_(pa.string())),
            ("configuration", pa.map_(pa.string(), pa.string())),
        ]
    )
    body = {**METADATA, "format": {"provider": "parquet", "options": []}, "configuration": []}
    versions = pa.struct([("minReaderVersion", pa.int32()), ("minWriterVersion", pa.int32())])
    protocol = pa.array([{"minReaderVersion": 1, "minWriterVersion": 2}, None], versions)
    return pa.table({"protocol": protocol, "metaData": pa.array([None, body], metadata)})


def make_half_removed(source: Path, folder: Path, count: int) -> None:
    """The same checkpoint, and a commit after it that removes every second file, as Spark writes removes."""
    log = folder / "_delta_log"
    log.mkdir(parents=True)
    for name in (f"{0:020d}.checkpoint.parquet", f"{0:020d}.json", "_last_checkpoint"):
        (log / name).hardlink_to(source / "_delta_log" / name)
    with (log / f"{1:020d}.json").open("w") as commit:
        for number in range(0, count, 2):
            remove = {
                "path": path(number),
                "deletionTimestamp": 1_700_000_000_000,
                "dataChange": True,
                "extendedFileMetadata": True,
                "partitionValues": {"p": str(number % 100)},
                "size": 100_000 + number % 1000,
            }
            commit.write(json.dumps({"remove": remove}, separators=(",", ":")) + "\n")


def make_batches(table: Path, file: Path) -> None:
    """The adds of a table as batches of ADD_SCHEMA."""
    import pyarrow as pa

    from deltaberg.delta.table import DeltaTable
    from deltaberg.storage import open_storage

    snapshot = DeltaTable.open(str(table), open_storage()).snapshot()
    with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_file(sink, snapshot.add_schema) as writer:
        for batch in snapshot.add_files():
            writer.write_batch(batch)


def make_old_commits(folder: Path, count: int) -> None:
    import pyarrow.parquet as pq

    log = folder / "_delta_log"
    log.mkdir(parents=True)
    for version in range(count):
        (log / f"{version:020d}.json").write_text('{"commitInfo":{}}\n')
    pq.write_table(non_file_actions(), log / f"{count - 1:020d}.checkpoint.parquet")
    (log / f"{count:020d}.json").write_text(json.dumps({"add": next(adds(1))}) + "\n")
    (log / "_last_checkpoint").write_text(json.dumps({"version": count - 1, "size": 2}))


def deltaberg(table: Path) -> tuple[dict[str, float], int]:
    from deltaberg.delta.table import DeltaTable
    from deltaberg.storage import open_storage

    storage = open_storage()

    def read() -> int:
        return sum(batch.num_rows for batch in DeltaTable.open(str(table), storage).snapshot().add_files())

    return timed(read)


def delta_rs(table: Path) -> tuple[dict[str, float], int]:
    from deltalake import DeltaTable

    return timed(lambda: int(DeltaTable(table).get_add_actions(flatten=True).num_rows))


def deltaberg_writes(source: Path) -> tuple[dict[str, float], int]:
    import pyarrow as pa

    from deltaberg.delta.create_table import create_table
    from deltaberg.delta.table import DeltaTable
    from deltaberg.storage import open_storage

    storage = open_storage()
    metadata = DeltaTable.open(str(source.with_name("json text")), storage).snapshot().metadata

    def batches() -> Iterator[pa.RecordBatch]:
        with pa.OSFile(str(source)) as file:
            reader = pa.ipc.open_file(file)
            yield from (reader.get_batch(number) for number in range(reader.num_record_batches))

    def write() -> int:
        transaction = create_table(storage, scratch, metadata=metadata)
        transaction.add_files(batches())
        transaction.commit("WRITE")
        return transaction.checkpoint().num_of_add_files

    with tempfile.TemporaryDirectory(dir=source.parent) as scratch:
        return timed(write)


def delta_rs_writes(source: Path) -> tuple[dict[str, float], int]:
    import pyarrow.parquet as pq
    from deltalake import DeltaTable, Schema
    from deltalake.transaction import AddAction, create_table_with_add_actions

    log = source.with_name("json text") / "_delta_log"
    logged = pq.read_table(log / f"{0:020d}.checkpoint.parquet", columns=["add"]).column("add")
    actions = []
    for chunk in logged.chunks:
        for add in chunk.drop_null().to_pylist():
            partition = dict(add["partitionValues"])
            actions.append(
                AddAction(add["path"], add["size"], partition, add["modificationTime"], add["dataChange"], add["stats"])
            )
    del logged
    schema = Schema.from_json(METADATA["schemaString"])

    def write() -> int:
        create_table_with_add_actions(scratch, schema, actions, mode="append", partition_by=["p"])
        DeltaTable(scratch).create_checkpoint()
        return len(actions)

    with tempfile.TemporaryDirectory(dir=source.parent) as scratch:
        return timed(write)


def timed(work: Callable[[], int]) -> tuple[dict[str, float], int]:
    used, start = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    count = work()
    seconds, now = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF)
    return {"seconds": seconds, "cpu": now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime}, count


def measure(name: str, table: Path) -> dict[str, float]:
    """One reader in a process of its own."""
    command = [sys.executable, __file__, "--measure", name, "--folder", str(table)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def report(name: str, table: Path, repeat: int) -> dict[str, object]:
    writes = " writes" if table.suffix == ".arrow" else ""
    runs: dict[str, list[dict[str, float]]] = {f"deltaberg{writes}": [], f"delta-rs{writes}": []}
    for _ in range(repeat):
        for reader, found in runs.items():
            found.append(measure(reader, table))
    best = {
        reader: {key: statistics.median(run[key] for run in found) for key in found[0]}
        for reader, found in runs.items()
    }
    ours, theirs = best.values()
    line = {
        "table": name,
        **best,
        "times as fast": round(theirs["seconds"] / ours["seconds"], 2),
        "share of memory": round(ours["peak_mb"] / theirs["peak_mb"], 3),
    }
    print(json.dumps(line), flush=True)
    return line


def make_tables(folder: Path, count: int, old_commits: tuple[int, ...]) -> None:
    text = folder / "json text"
    if not text.exists():
        make_json_text(text, count)
        make_struct(text, folder / "json text and structs")
        make_struct(text, folder / "json text and structs in 8 sidecars", sidecars=8)
    if not (folder / "json text, half removed").exists():
        make_half_removed(text, folder / "json text, half removed", count)
    if not (folder / "adds.arrow").exists():
        make_batches(text, folder / "adds.arrow")
    for old in old_commits:
        if not (folder / f"{old} old commits").exists():
            make_old_commits(folder / f"{old} old commits", old)


MEASURED = {
    "deltaberg": deltaberg,
    "delta-rs": delta_rs,
    "deltaberg writes": deltaberg_writes,
    "delta-rs writes": delta_rs_writes,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--adds", type=int, default=1_000_000)
    parser.add_argument("--old-commits", type=int, default=100_000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--only", help="measure one table (or adds.arrow, for the writers)")
    parser.add_argument("--measure", choices=list(MEASURED), help=argparse.SUPPRESS)
    parser.add_argument("--make", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        import pyarrow

        pyarrow.array([0])  # imports pandas where it is installed
        times, count = MEASURED[options.measure](options.folder)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps({**times, "adds": count, "peak_mb": peak}))
        return
    if options.make:
        make_tables(options.folder, options.adds, (10, options.old_commits))
        return
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.folder or Path(scratch)
        # A child inherits the peak of its parent, so this process stays small.
        sizes = ["--adds", str(options.adds), "--old-commits", str(options.old_commits)]
        subprocess.run([sys.executable, __file__, "--make", "--folder", str(folder), *sizes], check=True)
        results = [
            report(name, folder / name, options.repeat)
            for name in sorted(path.name for path in folder.iterdir())
            if options.only in (None, name)
        ]
    if options.out:
        about = {"python": platform.python_version(), "machine": platform.machine(), "adds": options.adds}
        options.out.write_text(json.dumps({"about": about, "results": results}, indent=1))


if __name__ == "__main__":
    main()
