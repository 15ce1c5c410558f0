"""Manifest entries per second and peak memory, read and written, beside PyIceberg on the same entries.

usage: manifest_bench.py [--entries 100000] [--columns 10] [--repeat 3] [--out RESULTS.json]

Every measurement is a process of its own; the clocks run around the work alone (the one of the CPU adds up both
threads and does not notice what else the machine does), and memory is the growth of the process's peak. Both libraries read both files: the one that PyIceberg wrote and the one written here.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

SNAPSHOT_ID = 4_444_444_444_444_444_444
LOCATION = "s3://warehouse/db/events"


def table_metadata(columns: int):
    from deltaberg.iceberg.metadata.table_metadata_json import read_metadata

    kinds = ("long", "string")
    fields = [{"id": i + 1, "name": f"c{i}", "required": False, "type": kinds[i % 2]} for i in range(columns)]
    day = {"id": columns + 1, "name": "day", "required": False, "type": "date"}
    return read_metadata(
        json.dumps(
            {
                "format-version": 2,
                "table-uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1",
                "location": LOCATION,
                "last-sequence-number": 1,
                "last-updated-ms": 0,
                "last-column-id": columns + 1,
                "schemas": [{"type": "struct", "schema-id": 0, "fields": [*fields, day]}],
                "current-schema-id": 0,
                "partition-specs": [
                    {
                        "spec-id": 0,
                        "fields": [
                            {"source-id": columns + 1, "field-id": 1000, "name": "day", "transform": "identity"}
                        ],
                    }
                ],
                "default-spec-id": 0,
                "last-partition-id": 1000,
                "sort-orders": [{"order-id": 0, "fields": []}],
                "default-sort-order-id": 0,
            }
        ).encode()
    )


def batches(entries: int, columns: int, size: int = 8192) -> Iterator[pa.RecordBatch]:
    """Added data files of 365 days, each with metrics of every column."""
    from deltaberg.iceberg.manifest.data_file import data_file_schema
    from deltaberg.iceberg.manifest.metrics import metric_map

    random = np.random.default_rng(7)
    schema = data_file_schema(pa.struct([pa.field("day", pa.date32())]))

    def counts(low: int, high: int, rows: int) -> pa.MapArray:
        return metric_map({i + 1: pa.array(random.integers(low, high, rows)) for i in range(columns)})

    def bounds(rows: int) -> pa.MapArray:
        found = {}
        for i in range(columns):
            numbers = random.integers(0, 1 << 40, rows)
            values = [each.tobytes() for each in numbers] if i % 2 == 0 else [b"value-%010d" % each for each in numbers]
            found[i + 1] = pa.array(values, pa.binary())
        return metric_map(found)

    for first in range(0, entries, size):
        rows = min(size, entries - first)
        days = np.arange(first, first + rows) % 365 + 20_000
        names = [
            f"{LOCATION}/data/day={dt.date(1970, 1, 1) + dt.timedelta(int(day))}/part-{first + i:08d}-{x:032x}.parquet"
            for i, (day, x) in enumerate(zip(days, random.integers(0, 1 << 62, rows), strict=True))
        ]
        partition = pa.StructArray.from_arrays([pa.array(days.astype(np.int32)).view(pa.date32())], names=["day"])
        known = {
            "status": pa.repeat(pa.scalar(1, pa.int32()), rows),
            "content": pa.repeat(pa.scalar(0, pa.int32()), rows),
            "file_path": pa.array(names),
            "file_format": pa.repeat("parquet", rows),
            "spec_id": pa.repeat(pa.scalar(0, pa.int32()), rows),
            "partition": partition,
            "record_count": pa.array(random.integers(1, 10**6, rows)),
            "file_size_in_bytes": pa.array(random.integers(10**6, 10**9, rows)),
            "column_sizes": counts(1000, 10**7, rows),
            "value_counts": counts(1, 10**6, rows),
            "null_value_counts": counts(0, 100, rows),
            "lower_bounds": bounds(rows),
            "upper_bounds": bounds(rows),
            "split_offsets": pa.array([[4]] * rows, schema.field("split_offsets").type),
            "sort_order_id": pa.repeat(pa.scalar(0, pa.int32()), rows),
        }
        arrays = [
            known[field.name].cast(field.type) if field.name in known else pa.nulls(rows, field.type)
            for field in schema
        ]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def ours_write(path: Path, entries: int, columns: int) -> dict[str, float]:
    from deltaberg.iceberg.manifest.manifest_list import ManifestContent
    from deltaberg.iceberg.manifest.manifest_writer import ManifestWriter
    from deltaberg.storage.object_storage import open_storage

    metadata = table_metadata(columns)
    made = list(batches(entries, columns))

    def work() -> int:
        with ManifestWriter(
            open_storage(),
            str(path),
            format_version=2,
            spec=metadata.spec,
            schemas=metadata.schema,
            content=ManifestContent.DATA,
            snapshot_id=SNAPSHOT_ID,
        ) as writer:
            for batch in made:
                writer.write(batch)
        return writer.entries

    return measured(work)


def ours_read(path: Path, entries: int, columns: int) -> dict[str, float]:
    from deltaberg.iceberg.manifest.manifest_list import ManifestFile
    from deltaberg.iceberg.manifest.manifest_reader import read_manifest
    from deltaberg.storage.object_storage import open_storage

    metadata = table_metadata(columns)
    manifest = ManifestFile(
        manifest_path=str(path), manifest_length=path.stat().st_size, partition_spec_id=0, sequence_number=1
    )
    return measured(lambda: sum(batch.num_rows for batch in read_manifest(open_storage(), manifest, metadata)))


def pyiceberg_table(columns: int):
    from pyiceberg.partitioning import PartitionField, PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.transforms import IdentityTransform
    from pyiceberg.types import DateType, LongType, NestedField, StringType

    kinds = (LongType(), StringType())
    fields = [NestedField(i + 1, f"c{i}", kinds[i % 2], required=False) for i in range(columns)]
    schema = Schema(*fields, NestedField(columns + 1, "day", DateType(), required=False))
    day = PartitionField(source_id=columns + 1, field_id=1000, transform=IdentityTransform(), name="day")
    return schema, PartitionSpec(day, spec_id=0)


def pyiceberg_write(path: Path, entries: int, columns: int) -> dict[str, float]:
    from pyiceberg.io.pyarrow import PyArrowFileIO
    from pyiceberg.manifest import (
        DataFile,
        DataFileContent,
        FileFormat,
        ManifestEntry,
        ManifestEntryStatus,
        write_manifest,
    )
    from pyiceberg.typedef import Record

    schema, spec = pyiceberg_table(columns)
    maps = ("column_sizes", "value_counts", "null_value_counts", "lower_bounds", "upper_bounds")
    made = []
    for batch in batches(entries, columns):
        for row in batch.to_pylist():
            data_file = DataFile.from_args(
                content=DataFileContent.DATA,
                file_path=row["file_path"],
                file_format=FileFormat.PARQUET,
                partition=Record((row["partition"]["day"] - dt.date(1970, 1, 1)).days),
                record_count=row["record_count"],
                file_size_in_bytes=row["file_size_in_bytes"],
                **{name: dict(row[name]) for name in maps},
                nan_value_counts=None,
                split_offsets=[4],
                sort_order_id=0,
            )
            data_file.spec_id = 0
            made.append(
                ManifestEntry.from_args(status=ManifestEntryStatus.ADDED, snapshot_id=SNAPSHOT_ID, data_file=data_file)
            )

    def work() -> int:
        with write_manifest(2, spec, schema, PyArrowFileIO().new_output(str(path)), SNAPSHOT_ID, "deflate") as writer:
            for entry in made:
                writer.add_entry(entry)
        return len(made)

    return measured(work)


def pyiceberg_read(path: Path, entries: int, columns: int) -> dict[str, float]:
    from pyiceberg.io.pyarrow import PyArrowFileIO
    from pyiceberg.manifest import ManifestContent, ManifestFile

    manifest = ManifestFile.from_args(
        manifest_path=str(path),
        manifest_length=path.stat().st_size,
        partition_spec_id=0,
        content=ManifestContent.DATA,
        sequence_number=1,
        min_sequence_number=1,
        added_snapshot_id=SNAPSHOT_ID,
    )
    return measured(lambda: len(manifest.fetch_manifest_entry(PyArrowFileIO())))


def measured(work: Callable[[], int]) -> dict[str, float]:
    # The first array of a process makes pyarrow import pandas, where there is one.
    pa.array(np.zeros(1))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start, cpu_start = time.perf_counter(), time.process_time()
    done = work()
    seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu_start
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "entries_per_second": done / seconds,
        "entries_per_cpu_second": done / cpu_seconds,
        "peak_mb": (after - before) / 1024,
    }


MEASUREMENTS: dict[str, Callable[[Path, int, int], dict[str, float]]] = {
    "pyiceberg_write": pyiceberg_write,
    "ours_write": ours_write,
    "pyiceberg_read": pyiceberg_read,
    "ours_read": ours_read,
}


def in_own_process(name: str, path: Path, entries: int, columns: int, repeat: int) -> dict[str, float]:
    """The best speeds and the highest peak of some runs: what else the machine does can only slow a run down."""
    runs = []
    for _ in range(repeat):
        command = [sys.executable, __file__, "--one", name, str(path)]
        command += ["--entries", str(entries), "--columns", str(columns)]
        runs.append(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
    return {
        "entries_per_second": max(run["entries_per_second"] for run in runs),
        "entries_per_cpu_second": max(run["entries_per_cpu_second"] for run in runs),
        "peak_mb": max(run["peak_mb"] for run in runs),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--entries", type=int, default=100_000)
    parser.add_argument("--columns", type=int, default=10)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--one", nargs=2, metavar=("NAME", "PATH"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(MEASUREMENTS[given.one[0]](Path(given.one[1]), given.entries, given.columns)))
        return
    results: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        files = {"pyiceberg": Path(folder) / "pyiceberg.avro", "ours": Path(folder) / "ours.avro"}
        for writer, path in files.items():
            results[f"write: {writer}"] = in_own_process(
                f"{writer}_write", path, given.entries, given.columns, given.repeat
            )
            results[f"write: {writer}"]["bytes_per_entry"] = path.stat().st_size / given.entries
        for written, path in files.items():
            for reader in files:
                results[f"read {written}'s file: {reader}"] = in_own_process(
                    f"{reader}_read", path, given.entries, given.columns, given.repeat
                )
    print(f"{given.entries} entries, {given.columns} columns, {platform.machine()}, Python {platform.python_version()}")
    for name, result in results.items():
        print(
            f"{name:32s} {result['entries_per_second']:>10,.0f} entries/s "
            f"{result['entries_per_cpu_second']:>10,.0f} a CPU second {result['peak_mb']:>6,.0f} MB"
        )
    for name in ("write: {}", "read pyiceberg's file: {}", "read ours's file: {}"):
        ours, theirs = results[name.format("ours")], results[name.format("pyiceberg")]
        wall, cpu = (ours[unit] / theirs[unit] for unit in ("entries_per_second", "entries_per_cpu_second"))
        print(f"{name.format('ratio'):32s} {wall:>10.1f} times     {cpu:>10.1f} times")
    if given.out is not None:
        given.out.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
