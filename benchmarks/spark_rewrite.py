"""How fast tasks rewrite files, beside Spark's own plain copy of the same files.

    python benchmarks/spark_rewrite.py [--megabytes 1024] [--files 8] [--rounds 3]

Makes a Delta table whose files carry field ids that are not the table's, so that a conversion to Iceberg has to write every
one of them anew, and measures, in one session on two cores and turn by turn, ``convert --engine spark`` and
``spark.read.parquet(files).write.parquet(folder)``, both with zstd of level 1. A round is one of each; both are warmed up with a small
table first. MB/s are of source files, by wall time, and MB per processor second, which a busy machine does not change much.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from deltaberg.migrate.spark.api import convert

COLUMNS = [
    ("id", "long", pa.int64()),
    ("price", "double", pa.float64()),
    ("quantity", "integer", pa.int32()),
    ("day", "date", pa.date32()),
    ("at", "timestamp", pa.timestamp("us", "UTC")),
    ("kind", "string", pa.string()),
    ("comment", "string", pa.string()),
    ("amount", "decimal(12,2)", pa.decimal128(12, 2)),
]
WORDS = np.array(["carefully", "final", "deposits", "sleep", "quickly", "above", "the", "ironic", "requests", "haggle"])


def rows(start: int, count: int) -> pa.Table:
    """Made-up sales: sorted keys, few kinds, prose, money."""
    random = np.random.default_rng(start)
    picked = WORDS[random.integers(0, len(WORDS), (count, 4))]
    prose = picked[:, 0]
    for place in range(1, 4):
        prose = np.char.add(np.char.add(prose, " "), picked[:, place])
    columns = [
        pa.array(np.arange(start, start + count)),
        pa.array(random.random(count) * 1000),
        pa.array(random.integers(1, 51, count, dtype=np.int32)),
        pa.array(random.integers(8000, 11000, count, dtype=np.int32)).cast(pa.date32()),
        pa.array(1_600_000_000_000_000 + random.integers(0, 10**14, count)).cast(pa.timestamp("us", "UTC")),
        pa.array(np.array(["A", "N", "R"])[random.integers(0, 3, count)]),
        pa.array(prose),
        pa.array(random.integers(0, 10**7, count)).cast(pa.decimal128(19, 0)).cast(pa.decimal128(12, 2), safe=False),
    ]
    # The ids are one off, so Iceberg's readers would read the wrong columns.
    fields = [
        pa.field(name, kind, metadata={"PARQUET:field_id": str((number + 1) % len(COLUMNS) + 1)})
        for number, (name, _, kind) in enumerate(COLUMNS)
    ]
    return pa.table(columns, schema=pa.schema(fields))


def make_table(folder: Path, files: int, size: int) -> None:
    """A Delta table of so many files of about ``size`` bytes each."""
    folder.mkdir(parents=True)
    piece = 1 << 18
    adds = []
    for number in range(files):
        place = folder / f"part-{number:05d}.parquet"
        count = 0
        with pq.ParquetWriter(place, rows(0, 1).schema, compression="zstd", store_decimal_as_integer=True) as writer:
            while place.stat().st_size < size:
                writer.write_table(
                    pa.concat_tables([rows(number * 10**9 + count + k * piece, piece) for k in range(4)])
                )
                count += 4 * piece
        told = {"path": place.name, "partitionValues": {}, "size": place.stat().st_size, "modificationTime": 1}
        adds.append({"add": {**told, "dataChange": True, "stats": json.dumps({"numRecords": count})}})
    schema = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind, _ in COLUMNS]
    metadata = {
        "id": "11111111-2222-3333-4444-555555555555",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": schema}),
        "partitionColumns": [],
        "configuration": {},
        "createdTime": 1,
    }
    lines = [{"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}, {"metaData": metadata}, *adds]
    (folder / "_delta_log").mkdir()
    log = folder / "_delta_log" / f"{0:020d}.json"
    log.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


def session(scratch: Path) -> Any:
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    return (
        SparkSession.builder.master("local[2,4]")
        .appName("deltaberg benchmark")
        .config("spark.driver.memory", "2g")
        .config("spark.local.dir", str(scratch / "spark"))
        .config("spark.sql.parquet.compression.codec", "zstd")
        # pyarrow's own; Parquet's Java library takes 3 unless told.
        .config("spark.hadoop.parquet.compression.codec.zstd.level", "1")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )


def timed(action: Callable[[], object]) -> tuple[float, float]:
    """Wall time, and processor time of this process and all below it: the JVM and the Python workers."""
    begin, before = time.perf_counter(), processor_seconds()
    action()
    return time.perf_counter() - begin, processor_seconds() - before


def processor_seconds() -> float:
    """Of this process, the processes below it and those of them that have ended; 0 where there is no /proc."""
    times: dict[int, int] = {}
    parents: dict[int, int] = {}
    for place in Path("/proc").glob("[0-9]*/stat"):
        try:
            told = place.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        number = int(place.parent.name)
        parents[number] = int(told[1])
        times[number] = sum(map(int, told[11:15]))
    ticks = 0
    for number, spent in times.items():
        above = number
        while above not in (os.getpid(), 0, 1):
            above = parents.get(above, 0)
        ticks += spent if above == os.getpid() else 0
    return ticks / os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=int, default=1024)
    parser.add_argument("--files", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scratch", type=Path, default=None)
    asked = parser.parse_args()
    scratch = Path(tempfile.mkdtemp(prefix="deltaberg-bench-", dir=asked.scratch))
    try:
        measure(scratch, asked)
    finally:
        shutil.rmtree(scratch)


def measure(scratch: Path, asked: argparse.Namespace) -> None:
    make_table(scratch / "small", 2, 4 << 20)
    make_table(scratch / "source", asked.files, (asked.megabytes << 20) // asked.files)
    spark = session(scratch)
    one_round(spark, scratch / "small", scratch)
    found = []
    for number in range(asked.rounds):
        size, plain, ours = one_round(spark, scratch / "source", scratch)
        found.append((size / plain[0], size / ours[0], size / plain[1], size / ours[1]))
        print(
            f"round {number}: ratio {plain[0] / ours[0]:.2f} by wall time, {plain[1] / ours[1]:.2f} of processor seconds"
        )
    spark.stop()
    wall, our_wall, processor, our_processor = (statistics.median(each) for each in zip(*found, strict=True))
    print(f"{asked.files} files, {size:,.0f} MB")
    print(f"plain Spark  {wall:6.1f} MB/s  {processor:6.1f} MB per processor second")
    print(f"deltaberg    {our_wall:6.1f} MB/s  {our_processor:6.1f} MB per processor second")


def one_round(spark: Any, source: Path, scratch: Path) -> tuple[float, tuple[float, float], tuple[float, float]]:
    """MB of the source; wall and processor seconds of Spark's copy and of ours, which has to have as many rows."""
    names = sorted(str(each) for each in source.glob("*.parquet"))
    copy, target = scratch / "copy", scratch / "target"
    plain = timed(lambda: spark.read.parquet(*names).write.parquet(str(copy)))
    ours = timed(lambda: convert(spark, source, to="iceberg", target=target))
    rows = [
        sum(pq.read_metadata(each).num_rows for each in place.rglob("*.parquet")) for place in (copy, target / "data")
    ]
    assert rows[0] == rows[1], rows
    shutil.rmtree(copy)
    shutil.rmtree(target)
    return sum(os.path.getsize(name) for name in names) / 1e6, plain, ours


if __name__ == "__main__":
    main()
