"""What every test can ask for: the shared material, the command, and whether two tables hold the same rows."""

from __future__ import annotations

import datetime as dt
import json
import math
import os
import re
import select
import shutil
import struct
import subprocess
import sys
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import settings

from tests.independent_readers import asked

# No test is timed: a busy machine must not fail one.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

ROOT = Path(__file__).resolve().parent.parent

# No test leaves anything in the user's cache folder, or finds there what another one left.
os.environ["DELTABERG_FOOTER_CACHE"] = "off"


# A folder with many orders of cleaners has a session of its own, so that neither worker has most of Spark's work.
SESSIONS = ("tests/engines/cleaners/", "tests/engines/", "tests/migrate/spark/")
# Files of this folder have the tables of the corpus in common, and what is made of them.
TABLES = "tests/corpus/"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """``--dist loadgroup``: the tests of a folder that share a Spark session share a worker, so do those of one table of the
    corpus and those of one file, which have caches in common.

    By the folder and not by pytest-xdist's marker, whose groups are lost with pytest 9.2.
    """
    if config.getvalue("dist") != "loadgroup":
        return None
    from xdist.scheduler import LoadGroupScheduling

    class ByFolder(LoadGroupScheduling):  # type: ignore[misc, unused-ignore]
        def _split_scope(self, nodeid: str) -> str:
            found = next((folder for folder in SESSIONS if nodeid.startswith(folder)), None)
            if found:
                return found
            file, _, test = nodeid.partition("::")
            return f"{TABLES}{test.partition('[')[2]}" if file.startswith(TABLES) else file

    return ByFolder(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests marked ``campaign`` run only where the marker is asked for by name."""
    if "campaign" in str(config.getoption("markexpr")):
        return
    left_out = [item for item in items if item.get_closest_marker("campaign")]
    if left_out:
        items[:] = [item for item in items if not item.get_closest_marker("campaign")]
        config.hook.pytest_deselected(items=left_out)


@pytest.fixture(autouse=True)
def _nothing_is_put_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """No machine stops during a test; what is put on disk, and when, is what tests/deltaberg/storage/test_disk_sync.py asks."""
    monkeypatch.setattr(os, "fsync", lambda handle: None)


FAULTS = "faults"


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """How many faults were injected (``record_property``), by kind of work."""
    counts: Counter[str] = Counter()
    for report in terminalreporter.stats.get("passed", []):
        for name, count in getattr(report, "user_properties", ()):
            if name.startswith(FAULTS):
                counts[name.removeprefix(FAULTS).strip()] += count
    if counts:
        terminalreporter.section("faults injected")
        for name, count in sorted(counts.items()):
            terminalreporter.line(f"{count:6} {name}")
        terminalreporter.line(f"{sum(counts.values()):6} in all")


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of tables that other engines wrote, beside the repository; not part of a fresh clone."""
    folder = ROOT.parent / "shared"
    if not (folder / "corpus").is_dir():
        pytest.skip("../shared is absent")
    return folder


@pytest.fixture(scope="session")
def java() -> None:
    """For what starts Spark: a skip without Java, and a failure in CI, where Spark must judge."""
    reason = _without_java()
    if reason:
        if os.environ.get("CI") == "true":
            pytest.fail(f"CI must run Spark: {reason}")
        pytest.skip(reason)


def _without_java() -> str | None:
    """Why Spark cannot start here; None when it can."""
    java = Path(os.environ["JAVA_HOME"], "bin", "java") if os.environ.get("JAVA_HOME") else shutil.which("java")
    if java is None:
        return "Spark needs Java 17 or later, and no java is on the path"
    try:
        subprocess.run([java, "-version"], check=True, capture_output=True, timeout=60)
    except (OSError, subprocess.SubprocessError) as error:
        return f"Spark needs Java 17 or later, and {java} does not run: {error}"
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a call of the command did."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        """The one JSON document of ``--json``."""
        loaded = json.loads(self.out)
        assert isinstance(loaded, dict)
        return loaded


Command = Callable[..., Outcome]


@pytest.fixture
def command(capfd: pytest.CaptureFixture[str]) -> Command:
    """``command("scan", table, "--limit", 3)``: the deltaberg command, in this process."""
    from deltaberg.cli.main import run
    from deltaberg.cli.options import Invocation

    def call(*arguments: object) -> Outcome:
        capfd.readouterr()
        code = run([str(argument) for argument in arguments], Invocation())
        out, err = capfd.readouterr()
        return Outcome(code=code, out=out, err=err)

    return call


Difference = Callable[..., str]
_UUID = re.compile("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


@pytest.fixture(scope="session")
def difference() -> Difference:
    """``difference(got, wanted)``: '' when both tables hold the same rows as multisets, else what differs.

    Values, nulls, NaN and column names count; row order, column order and Arrow's flavour of a type do not. A uuid is
    its 16 bytes or its text.
    ``json_columns`` hold JSON text and are compared as JSON; ``signed_zero=True`` tells -0.0 from 0.0.
    """
    return _difference


def _difference(
    got: pa.Table, wanted: pa.Table, *, json_columns: tuple[str, ...] = (), signed_zero: bool = False
) -> str:
    if sorted(got.column_names) != sorted(wanted.column_names):
        return f"columns {sorted(got.column_names)} instead of {sorted(wanted.column_names)}"
    if got.num_rows != wanted.num_rows:
        return f"{got.num_rows} rows instead of {wanted.num_rows}"
    if not signed_zero and not json_columns and _equal_when_sorted(got, wanted):
        return ""
    left, right = (Counter(_rows(table, json_columns, signed_zero)) for table in (got, wanted))
    if left == right:
        return ""
    return f"only got {list((left - right).elements())[:3]}; only wanted {list((right - left).elements())[:3]}"


def _equal_when_sorted(got: pa.Table, wanted: pa.Table) -> bool:
    """A quick yes for large flat tables of the same types; a no means nothing."""
    names = sorted(wanted.column_names)
    got, wanted = got.select(names), wanted.select(names)
    if got.num_rows < 1_000 or not all(map(_same_flat_type, got.schema.types, wanted.schema.types)):
        return False
    try:
        got = got.cast(wanted.schema)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError):
        return False
    if got.equals(wanted):
        return True
    order = [(name, "ascending") for name in names]
    return got.sort_by(order).combine_chunks().equals(wanted.sort_by(order).combine_chunks())


def _same_flat_type(one: pa.DataType, other: pa.DataType) -> bool:
    """Whether they are one type but for Arrow's flavour of it, its unit or its digits."""
    if one == other:
        return not pa.types.is_nested(one)
    flavours: tuple[tuple[Callable[[pa.DataType], bool], ...], ...] = (
        (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view),
        (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view),
        (pa.types.is_decimal,),
        (pa.types.is_integer,),
        (lambda kind: pa.types.is_timestamp(kind) and kind.tz is None,),
        (lambda kind: pa.types.is_timestamp(kind) and kind.tz is not None,),
    )
    return any(any(is_it(one) for is_it in flavour) and any(is_it(other) for is_it in flavour) for flavour in flavours)


def _rows(table: pa.Table, json_columns: tuple[str, ...], signed_zero: bool) -> Iterator[str]:
    names = sorted(table.column_names)
    columns = []
    for name in names:
        values = table.column(name).to_pylist()
        if name in json_columns:
            values = [_parsed(value) for value in values]
        columns.append([_canonical(value, signed_zero) for value in values])
    for row in zip(*columns, strict=True):
        yield json.dumps(row)


def _parsed(value: Any) -> Any:
    """JSON text as what it says; a variant may stand inside a struct, a list or a map."""
    match value:
        case str():
            try:
                return json.loads(value)
            except json.JSONDecodeError:
                return value
        case dict():
            return {key: _parsed(item) for key, item in value.items()}
        case list():
            return [_parsed(item) for item in value]
    return value


def _canonical(value: Any, signed_zero: bool) -> Any:
    match value:
        case None | bool() | int():
            return value
        case str():
            return ["bytes", value.replace("-", "")] if _UUID.fullmatch(value) else value
        case float() if math.isnan(value):
            return ["float", "NaN"]
        case float():
            return ["float", struct.pack(">d", value if signed_zero else value + 0.0).hex()]
        case bytes() | bytearray() | memoryview():
            return ["bytes", bytes(value).hex()]
        case uuid.UUID():
            return ["bytes", value.bytes.hex()]
        case Decimal():
            return ["decimal", f"{value:f}".rstrip("0").rstrip(".") if "." in f"{value:f}" else f"{value:f}"]
        case dt.datetime():
            zone = "" if value.tzinfo is None else "Z"
            plain = value if value.tzinfo is None else value.astimezone(dt.timezone.utc).replace(tzinfo=None)
            return ["timestamp", plain.isoformat(timespec="microseconds") + zone]
        case dt.date() | dt.time():
            return ["date or time", value.isoformat()]
        case dict():
            return {key: _canonical(item, signed_zero) for key, item in sorted(value.items())}
        case list() | tuple() if value and all(isinstance(item, tuple) and len(item) == 2 for item in value):
            return [
                "map",
                sorted(json.dumps([_canonical(k, signed_zero), _canonical(v, signed_zero)]) for k, v in value),
            ]
        case list() | tuple():
            return [_canonical(item, signed_zero) for item in value]
    return str(value)


SECONDS_A_READ = 60


class ReaderProcess:
    """One long-lived process of independent_readers.py; started again after an engine aborted it."""

    def __init__(self, scratch: Path, *oracle: Path) -> None:
        script = Path(__file__).parent / "independent_readers.py"
        self._command = [sys.executable, "-W", "ignore", str(script), *map(str, oracle)]
        self._out = scratch / "rows.parquet"
        self._process: subprocess.Popen[str] | None = None

    def read(self, engine: str, table: Path, version: int | None = None) -> pa.Table | str:
        """The rows, or a text that names the engine's version, its query and the file, and has its words behind the colon."""
        if self._process is None:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                bufsize=1,
            )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._out.unlink(missing_ok=True)
        at = None if version is None else str(version)
        request = {"engine": engine, "table": str(table), "out": str(self._out), "version": at}
        self._process.stdin.write(json.dumps(request) + "\n")
        answer = ""
        while not answer.startswith("READ "):
            ready, _, _ = select.select([self._process.stdout], [], [], SECONDS_A_READ)
            answer = self._process.stdout.readline() if ready else ""
            if not answer:
                self.stop()
                return f"{asked(engine, str(table), at)}: " + ("the process aborted" if ready else "no answer")
        result = json.loads(answer.removeprefix("READ "))
        if "error" in result:
            return f"{asked(engine, str(table), at)}: {result['error']}"
        return pq.read_table(self._out)

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


@pytest.fixture(scope="session")
def reader_process(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., ReaderProcess]:
    return lambda *oracle: ReaderProcess(tmp_path_factory.mktemp("read"), *oracle)


@pytest.fixture(scope="session")
def independent(reader_process: Callable[..., ReaderProcess]) -> Iterator[ReaderProcess]:
    """Engines that nobody here wrote: ``independent.read("pyiceberg", metadata_file)``."""
    reader = reader_process()
    yield reader
    reader.stop()
