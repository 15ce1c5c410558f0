"""Files per second and peak memory of both conversions, beside PyIceberg and delta-rs on the same metadata.

usage: conversion.py [--files 10000,100000] [--folder DIR] [--out RESULTS.json] [--only NAME]

Every measurement is a process of its own: the clock runs around the work, imports excluded; memory is the process's peak.
The share of translate/ is that of the time inside its functions, what they call included, by the profiler.
Run it with ``make bench``.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import platform
import pstats
import resource
import shutil
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))


def deltaberg_to_iceberg(table: Path, scratch: Path) -> int:
    import deltaberg

    return timed(lambda: deltaberg.convert(table, to="iceberg", target=scratch / "target").files)


def deltaberg_to_delta(table: Path, scratch: Path) -> int:
    import deltaberg

    return timed(lambda: deltaberg.convert(table, to="delta", target=scratch / "target").files)


def delta_rs_lists(table: Path, scratch: Path) -> int:
    from deltalake import DeltaTable

    return timed(lambda: DeltaTable(table).get_add_actions(flatten=True).num_rows)


def pyiceberg_reads(table: Path, scratch: Path) -> int:
    from pyiceberg.table import StaticTable

    def read() -> int:
        opened = StaticTable.from_metadata(str(newest_metadata(table)))
        snapshot = opened.current_snapshot()
        assert snapshot is not None
        return sum(len(manifest.fetch_manifest_entry(opened.io)) for manifest in snapshot.manifests(opened.io))

    return timed(read)


def pyiceberg_writes(table: Path, scratch: Path) -> int:
    import metadata_tables
    from pyiceberg.io.pyarrow import PyArrowFileIO
    from pyiceberg.manifest import ManifestEntry, ManifestEntryStatus, write_manifest
    from pyiceberg.partitioning import PartitionField, PartitionSpec
    from pyiceberg.transforms import IdentityTransform

    files = sum(1 for _ in table.rglob("*.parquet"))
    spec = PartitionSpec(PartitionField(source_id=11, field_id=1000, transform=IdentityTransform(), name="day"))
    entries = [
        ManifestEntry.from_args(status=ManifestEntryStatus.ADDED, snapshot_id=1, data_file=data_file)
        for data_file in metadata_tables.data_files(table, range(files), 1_000)
    ]

    def write() -> int:
        for start in range(0, files, 10_000):
            output = PyArrowFileIO().new_output(str(scratch / f"{start}.avro"))
            with write_manifest(2, spec, metadata_tables.SCHEMA, output, 1, "deflate") as writer:
                for entry in entries[start : start + 10_000]:
                    writer.add_entry(entry)
        return files

    return timed(write)


MEASUREMENTS: dict[str, tuple[str, Callable[[Path, Path], int]]] = {
    "deltaberg: Delta to Iceberg": ("delta", deltaberg_to_iceberg),
    "delta-rs: list the same log": ("delta", delta_rs_lists),
    "PyIceberg: write the same manifests": ("iceberg", pyiceberg_writes),
    "deltaberg: Iceberg to Delta": ("iceberg", deltaberg_to_delta),
    "PyIceberg: read the same manifests": ("iceberg", pyiceberg_reads),
}
SHARES = {
    "share of translate/: Delta to Iceberg": ("delta", "iceberg"),
    "share of translate/: Iceberg to Delta": ("iceberg", "delta"),
}
_CLOCKS = (0.0, 0.0)


def timed(work: Callable[[], int]) -> int:
    global _CLOCKS  # noqa: PLW0603  the one thing that a measuring process remembers
    began, began_cpu = time.perf_counter(), time.process_time()
    files = work()
    _CLOCKS = (time.perf_counter() - began, time.process_time() - began_cpu)
    return files


def newest_metadata(folder: Path) -> Path:
    return max((folder / "metadata").glob("*.metadata.json"), key=lambda path: path.name)


def translate_share(table: Path, to: str) -> float:
    """The part of a conversion's time that passes inside translate/, whatever it calls there included."""
    import deltaberg
    from deltaberg.translate import schema

    layer = str(Path(schema.__file__).parent)
    profile = cProfile.Profile()
    with tempfile.TemporaryDirectory() as scratch:
        began = time.perf_counter()
        profile.runcall(deltaberg.convert, table, to=to, target=Path(scratch) / "target")
        whole = time.perf_counter() - began
    inside = 0.0
    calls = pstats.Stats(profile).stats  # type: ignore[attr-defined]  {function: (..., {caller: (..., cumulative seconds)})}
    for (file, _, _), (_, _, _, _, callers) in calls.items():
        if file.startswith(layer):
            inside += sum(timing[3] for caller, timing in callers.items() if not caller[0].startswith(layer))
    return inside / whole


def measure_one(name: str, table: Path) -> None:
    if name in SHARES:
        print(json.dumps({"translate_share": round(translate_share(table, SHARES[name][1]), 3)}))
        return
    with tempfile.TemporaryDirectory() as scratch:
        files = MEASUREMENTS[name][1](table, Path(scratch))
    seconds, cpu = (round(clock, 3) for clock in _CLOCKS)
    print(json.dumps({"files": files, "seconds": seconds, "cpu_seconds": cpu, "peak_mib": peak_mib()}))


def peak_mib() -> int:
    """Highest resident memory of this process. Linux counts the parent's into ``ru_maxrss``; VmHWM is our own."""
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) // 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // (1024 * 1024)


def start_up(runs: int = 7) -> dict[str, float]:
    """Median seconds of ``deltaberg --help`` and of an interpreter that does nothing."""
    commands = {
        "python -c pass": [sys.executable, "-c", "pass"],
        "deltaberg --help": [str(Path(sysconfig.get_path("scripts")) / "deltaberg"), "--help"],
    }
    result = {}
    for name, command in commands.items():
        seconds = []
        for _ in range(runs):
            began = time.perf_counter()
            subprocess.run(command, check=True, capture_output=True)
            seconds.append(time.perf_counter() - began)
        result[name] = round(statistics.median(seconds), 3)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", default="10000,100000", help="sizes of the tables, in files")
    parser.add_argument("--folder", type=Path, help="where the tables are made, and kept for the next run")
    parser.add_argument("--out", type=Path, help="write the figures as JSON too")
    parser.add_argument("--only", default="", help="measurements whose name holds this text")
    parser.add_argument("--one", nargs=2, metavar=("NAME", "TABLE"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        measure_one(arguments.one[0], Path(arguments.one[1]))
        return
    folder = arguments.folder or Path(tempfile.mkdtemp(prefix="deltaberg-bench-"))
    results: dict[str, object] = {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "start-up": start_up(),
    }
    seconds = results["start-up"]
    print(
        f"start-up: {seconds}\n\n{'files':>9}  {'what':38}{'seconds':>9}{'CPU s':>8}{'files/s':>12}{'peak MiB':>10}",
        flush=True,
    )
    measured = []
    try:
        for files in map(int, arguments.files.split(",")):
            tables = make_tables(folder, files)
            for name, (kind, _) in {**MEASUREMENTS, **SHARES}.items():
                if arguments.only not in name:
                    continue
                figures = in_own_process(name, tables[kind])
                if isinstance(figures, str):
                    print(f"{files:>9,}  {name:38}  failed: {figures}", flush=True)
                    continue
                if name in SHARES:
                    measured.append({"what": name, "files": files, **figures})
                    print(f"{files:>9,}  {name:38}{figures['translate_share']:>9.1%}", flush=True)
                    continue
                assert figures["files"] == files, f"{name}: {figures['files']} of {files} files"
                rate = files / figures["seconds"]
                measured.append({"what": name, **figures, "files_per_second": round(rate)})
                print(
                    f"{files:>9,}  {name:38}{figures['seconds']:>9.2f}{figures['cpu_seconds']:>8.2f}{rate:>12,.0f}{figures['peak_mib']:>10,}",
                    flush=True,
                )
    finally:
        if not arguments.folder:
            shutil.rmtree(folder, ignore_errors=True)
    results["conversions"] = measured
    if arguments.out:
        arguments.out.write_text(json.dumps(results, indent=1) + "\n")


def in_own_process(name: str, table: Path) -> dict[str, float] | str:
    """The figures of one measurement, or why there are none."""
    command = [sys.executable, __file__, "--one", name, str(table)]
    outcome = subprocess.run(command, capture_output=True, text=True, check=False)
    if outcome.returncode:
        return (outcome.stderr.strip().splitlines() or ["?"])[-1]
    figures: dict[str, float] = json.loads(outcome.stdout.splitlines()[-1])
    return figures


def make_tables(folder: Path, files: int) -> dict[str, Path]:
    """Both tables of one size, made unless they stand there from an earlier run."""
    import metadata_tables

    tables = {"delta": folder / f"delta-{files}", "iceberg": folder / f"iceberg-{files}"}
    for kind, table in tables.items():
        if not table.exists():
            getattr(metadata_tables, f"write_{kind}")(table, files)
    return tables


if __name__ == "__main__":
    main()
