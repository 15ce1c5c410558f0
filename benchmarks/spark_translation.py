"""Both engines translate the metadata of the same tables, in one run: seconds, CPU seconds, memory of driver and workers.

usage: spark_translation.py [--files 100000,1000000] [--folder DIR] [--out RESULTS.json] [--only NAME] [--memory 1g]

Every measurement is a process of its own, and the clock runs from before the session is started. Memory is the peak of
the resident size: of the process, of the largest Python worker, and what the JVM's heap had in use at most. The Spark
engine runs on two cores; ``spark.deltaberg.distributeFrom`` is 0, so that small tables are distributed too.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from conversion import make_tables, peak_mib

TARGETS = {"delta": "iceberg", "iceberg": "delta"}
NAMES = {"delta": "Delta to Iceberg", "iceberg": "Iceberg to Delta"}
_POLL_SECONDS = 0.1


def local(table: Path, to: str, scratch: Path) -> int:
    import deltaberg

    return deltaberg.convert(table, to=to, target=scratch / "target", engine="local").files


def spark(table: Path, to: str, scratch: Path) -> int:
    from deltaberg.migrate.spark import convert

    return convert(session(scratch), table, to=to, target=scratch / "target").files


def session(scratch: Path) -> Any:
    from pyspark.sql import SparkSession

    from deltaberg.migrate.spark.session import LEAN_JAVA

    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    return (
        SparkSession.builder.master("local[2]")
        .config("spark.driver.memory", os.environ.get("BENCH_DRIVER_MEMORY", "1g"))
        .config("spark.driver.extraJavaOptions", LEAN_JAVA)
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.local.dir", str(scratch))
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.deltaberg.distributeFrom", "0")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )


ENGINES: dict[str, Callable[[Path, str, Path], int]] = {"local": local, "spark": spark}


class Watch:
    """The processes below this one: peak resident sizes of Python workers and of the JVM, processor time of all."""

    def __init__(self) -> None:
        self.worker_mib = self.jvm_mib = 0
        self._ticks: dict[str, int] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(_POLL_SECONDS):
            for process in _below(os.getpid()):
                try:
                    name = (process / "comm").read_text().strip()
                    status = (process / "status").read_text()
                    times = (process / "stat").read_text().rpartition(")")[2].split()[11:13]
                except OSError:
                    continue
                self._ticks[process.name] = sum(map(int, times))
                peak = next((line for line in status.splitlines() if line.startswith("VmHWM")), "VmHWM: 0 kB")
                mib = int(peak.split()[1]) // 1024
                if name == "java":
                    self.jvm_mib = max(self.jvm_mib, mib)
                elif name.startswith("python"):
                    self.worker_mib = max(self.worker_mib, mib)

    @property
    def cpu_seconds(self) -> float:
        """User and system time of the processes below this one, as last seen."""
        return sum(self._ticks.values()) / os.sysconf("SC_CLK_TCK")


def _below(root: int) -> list[Path]:
    parents: dict[int, int] = {}
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                parents[int(process.name)] = int((process / "stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, IndexError):
                continue
    found = {root}
    while True:
        more = {child for child, parent in parents.items() if parent in found} - found
        if not more:
            return [Path("/proc") / str(process) for process in found - {root}]
        found |= more


def heap_mib() -> int:
    """The most that any pool of the JVM's heap has held."""
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is None:
        return 0
    pools = active.sparkContext._jvm.java.lang.management.ManagementFactory.getMemoryPoolMXBeans()
    heap = [pool for pool in pools if str(pool.getType()) == "Heap memory"]
    return sum(int(pool.getPeakUsage().getUsed()) for pool in heap) >> 20


def measure_one(engine: str, table: Path, to: str) -> None:
    with tempfile.TemporaryDirectory() as scratch, Watch() as watch:
        began = time.perf_counter()
        files = ENGINES[engine](table, to, Path(scratch))
        seconds = time.perf_counter() - began
        cpu = time.process_time() + watch.cpu_seconds
        heap = heap_mib() if engine == "spark" else 0
    figures = {
        "files": files,
        "seconds": round(seconds, 2),
        "cpu_seconds": round(cpu, 2),
        "process_mib": peak_mib(),
        "worker_mib": watch.worker_mib,
        "jvm_mib": watch.jvm_mib,
        "jvm_heap_mib": heap,
    }
    print(json.dumps(figures))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", default="100000,1000000", help="sizes of the tables, in files")
    parser.add_argument("--folder", type=Path, help="where the tables are made, and kept for the next run")
    parser.add_argument("--out", type=Path, help="write the figures as JSON too")
    parser.add_argument("--only", default="", help="measurements whose name holds this text")
    parser.add_argument("--memory", default="1g", help="spark.driver.memory")
    parser.add_argument("--one", nargs=3, metavar=("ENGINE", "TABLE", "TO"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        measure_one(arguments.one[0], Path(arguments.one[1]), arguments.one[2])
        return
    folder = arguments.folder or Path(tempfile.mkdtemp(prefix="deltaberg-bench-"))
    measured: list[dict[str, Any]] = []
    print(
        f"{'files':>9}  {'what':28}{'s':>8}{'CPU s':>8}{'driver MiB':>12}{'worker MiB':>12}{'JVM MiB':>9}{'heap MiB':>10}"
    )
    for files in map(int, arguments.files.split(",")):
        for kind, table in make_tables(folder, files).items():
            for engine in ENGINES:
                name = f"{NAMES[kind]}, {engine}"
                if arguments.only not in name:
                    continue
                command = [sys.executable, __file__, "--one", engine, str(table), TARGETS[kind]]
                environment = {**os.environ, "BENCH_DRIVER_MEMORY": arguments.memory}
                outcome = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
                if outcome.returncode:
                    print(f"{files:>9,}  {name:28}  failed: {(outcome.stderr.strip().splitlines() or ['?'])[-1]}")
                    continue
                found = json.loads(outcome.stdout.splitlines()[-1])
                assert found["files"] == files, f"{name}: {found['files']} of {files} files"
                measured.append({"what": name, **found})
                print(
                    f"{files:>9,}  {name:28}{found['seconds']:>8.2f}{found['cpu_seconds']:>8.2f}"
                    f"{found['process_mib']:>12,}{found['worker_mib']:>12,}{found['jvm_mib']:>9,}{found['jvm_heap_mib']:>10,}",
                    flush=True,
                )
    if arguments.out:
        results = {"python": platform.python_version(), "machine": platform.machine(), "measured": measured}
        arguments.out.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
