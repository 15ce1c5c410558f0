"""Equality deletes resolved by Spark tasks: time, and the memory of the largest task, with a key that most rows have.

    python benchmarks/spark_equality_deletes.py [--rows 4000000] [--keys 1000000] [--hot 0.9]

Makes an Iceberg table of eight files in which one key covers ``--hot`` of the rows and deletes ``--keys`` keys, that one
among them. Resolves them in this process, in tasks that hold the keys, and by Spark's join, and checks that all three say
the same. Processor seconds are those of all processes of a way together, memory is the largest resident set of a task's
Python process; the one before any work is what its imports take.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from deltaberg.iceberg.create_table import create_table
from deltaberg.iceberg.deletes.resolved_deletes import DeletedByKey, resolve_deletes
from deltaberg.iceberg.manifest.data_file import EQUALITY_DELETES
from deltaberg.iceberg.schema.schema import Schema
from deltaberg.iceberg.schema.types import LongType, NestedField, StringType
from deltaberg.iceberg.table import Table
from deltaberg.migrate.spark.equality_deletes import Limits, resolve_equality_deletes
from deltaberg.migrate.spark.tasks import SparkWork
from deltaberg.storage import open_storage

FILES, DELETE_FILES = 8, 4
SCHEMA = Schema(
    schema_id=0,
    fields=(
        NestedField(field_id=1, name="id", required=False, type=LongType()),
        NestedField(field_id=2, name="note", required=False, type=StringType()),
    ),
)


def make_table(root: str, rows: int, keys: int, hot: float) -> Table:
    """Even ids are deleted, as far as there are keys, and the hot one."""
    random = np.random.default_rng(7)
    data = []
    for number in range(FILES):
        count = rows // FILES
        ids = np.arange(number * count, (number + 1) * count) + 1
        ids[random.random(count) < hot] = 0
        data.append(write(root, pa.table({"id": ids, "note": pa.repeat("x", count)}), {"id": 1, "note": 2}))
    deleted = np.concatenate(([0], 2 * np.arange(1, keys)))
    deletes = [write(root, pa.table({"id": part}), {"id": 1}) for part in np.array_split(deleted, DELETE_FILES)]
    with create_table(open_storage(), root, schema=SCHEMA) as transaction:
        transaction.snapshot("append").add_files(data, 0)
        table = transaction.commit()
    with table.transaction() as transaction:
        entries = [each.append_column("content", pa.array([EQUALITY_DELETES], pa.int32())) for each in deletes]
        entries = [each.append_column("equality_ids", pa.array([[1]], pa.list_(pa.int32()))) for each in entries]
        transaction.snapshot("delete").add_files(entries, 0)
        return transaction.commit()


def write(root: str, rows: pa.Table, ids: dict[str, int]) -> pa.RecordBatch:
    place = Path(root) / "data" / f"{len(list(Path(root).glob('data/*'))):05}.parquet"
    place.parent.mkdir(parents=True, exist_ok=True)
    fields = [pa.field(f.name, f.type, metadata={"PARQUET:field_id": str(ids[f.name])}) for f in rows.schema]
    pq.write_table(rows.cast(pa.schema(fields)), place)
    return pa.record_batch(
        {
            "file_path": pa.array([str(place)]),
            "file_format": pa.array(["parquet"]),
            "partition": pa.array([{}], pa.struct([])),
            "record_count": pa.array([rows.num_rows]),
            "file_size_in_bytes": pa.array([place.stat().st_size]),
            "spec_id": pa.array([0], pa.int32()),
        }
    )


@dataclass
class Use:
    """What a way took."""

    seconds: float = 0.0
    processor_seconds: float = 0.0
    worker_megabytes: int = 0


@contextmanager
def measured() -> Iterator[Use]:
    use, stop = Use(), threading.Event()
    before, started = processor_seconds(), time.monotonic()
    watch = threading.Thread(target=watch_workers, args=(use, stop), daemon=True)
    watch.start()
    try:
        yield use
    finally:
        stop.set()
        watch.join()
        use.seconds, use.processor_seconds = time.monotonic() - started, processor_seconds() - before


def family() -> list[Path]:
    """This process and all below it."""
    parents = {}
    for place in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(place.parent.name)] = int(place.read_text().rsplit(")", 1)[1].split()[1])
        except OSError:
            continue
    found = {os.getpid()}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return [Path("/proc") / str(each) for each in found]


def processor_seconds() -> float:
    """Of all processes that live, and of those that they outlived."""
    total = 0
    for place in family():
        try:
            total += sum(int(each) for each in (place / "stat").read_text().rsplit(")", 1)[1].split()[11:15])
        except OSError:
            continue
    return total / os.sysconf("SC_CLK_TCK")


def watch_workers(use: Use, stop: threading.Event) -> None:
    while not stop.wait(0.2):
        for place in family():
            try:
                if "pyspark" in (place / "cmdline").read_text() and "java" not in (place / "cmdline").read_text():
                    pages = int((place / "statm").read_text().split()[1])
                    use.worker_megabytes = max(use.worker_megabytes, pages * os.sysconf("SC_PAGE_SIZE") >> 20)
            except OSError:
                continue


def positions(table: Table, by_key: DeletedByKey | None) -> list[Any]:
    found = []
    for each in resolve_deletes(table, table.metadata.current_snapshot, by_key=by_key):
        found += [(row, each.merged[row]) for row in sorted(each.merged)]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--hot", type=float, default=0.9)
    chosen = parser.parse_args()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").config("spark.driver.memory", "1g")
    for name in ("spark.ui.enabled", "spark.ui.showConsoleProgress"):
        builder = builder.config(name, "false")
    session = builder.config("spark.sql.shuffle.partitions", "8").config("spark.log.level", "ERROR").getOrCreate()
    work = SparkWork(session)
    with tempfile.TemporaryDirectory() as root:
        table = make_table(f"{root}/table", chosen.rows, chosen.keys, chosen.hot)
        snapshot = table.metadata.current_snapshot
        assert snapshot is not None
        with measured() as idle:
            work.run(_nothing, [0, 1], description="warm up")
            time.sleep(1)
        print(f"imports: {idle.worker_megabytes} MB a task")
        with measured() as local:
            expected = positions(table, None)
        deleted = sum(bitmap.cardinality for _, bitmap in expected)
        print(f"{chosen.rows:,} rows, {chosen.keys:,} delete keys, {deleted:,} rows deleted")
        show("this process", local)
        for name, limits in (
            ("tasks that hold the keys", Limits(held_keys=2 * chosen.keys, list_rows=chosen.rows // FILES)),
            ("Spark's join", Limits(held_keys=0, list_rows=chosen.rows // FILES)),
        ):
            with measured() as use:
                staged = resolve_equality_deletes(
                    work, table, snapshot, folder=f"{root}/{limits.held_keys}", limits=limits
                )
            show(name, use)
            assert positions(table, staged.reader()) == expected, name
    session.stop()


def _nothing(unit: int, attempt: Any) -> int:
    return unit


def show(name: str, use: Use) -> None:
    memory = f", {use.worker_megabytes} MB in the largest task" if use.worker_megabytes else ""
    print(f"{name:25} {use.seconds:7.1f} s {use.processor_seconds:7.1f} processor seconds{memory}")


if __name__ == "__main__":
    main()
