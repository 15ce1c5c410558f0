"""What a conversion leaves that died: removed by the next one where it can never be committed, and only then."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg.migrate.convert import ConvertResult, convert
from deltaberg.migrate.target.run_document import RunId
from deltaberg.migrate.verify.verify import verify
from deltaberg.storage import process_mark
from deltaberg.translate.options import ConvertOptions
from tests.fault_storage import FaultStorage, Killed, Mode

DAY_S = 24 * 3600


@pytest.fixture
def table(tmp_path: Path, write_delta: Any, delete_from_delta: Any) -> Path:
    folder: Path = write_delta(pa.table({"id": [1, 2, 3], "s": ["a", "b", None]}), tmp_path / "table")
    write_delta(pa.table({"id": [4, 5], "s": ["c", "d"]}), folder)
    delete_from_delta(folder, {0: [0], 1: [1]})
    return folder


@pytest.fixture
def iceberg_table(tmp_path: Path, table: Path, opened: Any) -> Path:
    options = ConvertOptions(format_version=3, history="all")
    return Path(convert(opened(table), to="iceberg", target=str(tmp_path / "iceberg"), options=options).target)


@pytest.fixture(scope="module")
def dead_process() -> str:
    code = "from deltaberg.storage import process_mark; print(process_mark())"
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.strip()


def killed(source: Callable[[Any], Any], name: str, **options: Any) -> None:
    """A conversion that dies before it writes a file of that name."""
    storage = FaultStorage(Mode.KILLED_BEFORE, 0, only=lambda operation, location: location.endswith(name))
    with pytest.raises(Killed):
        convert(source(storage), **options)


def names_below(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def ends(names: list[str]) -> list[str]:
    """Names without what differs from run to run."""
    return sorted(name[-12:] for name in names)


def document_of(target: Path) -> Path:
    (found,) = (target / "_deltaberg").glob("run-*.json")
    return found


def rewrite_process(target: Path, process: str, *, age_s: float = 0) -> None:
    """Make it look as if another process had written the document."""
    path = document_of(target)
    path.write_text(json.dumps({**json.loads(path.read_text()), "process": process}))
    os.utime(path, (time.time() - age_s, time.time() - age_s))


def to_iceberg(table: Path, opened: Any, target: Path, **options: Any) -> ConvertResult:
    return convert(opened(table), to="iceberg", target=str(target), **options)


class TestTheNextConversion:
    @pytest.fixture
    def target(self, tmp_path: Path, table: Path, opened: Any) -> Path:
        """With the files of a conversion that died as it was going to commit."""
        target = tmp_path / "target"
        killed(lambda storage: opened(table, storage=storage), "v1.metadata.json", to="iceberg", target=str(target))
        assert len(names_below(target)) >= 5
        return target

    def test_removes_what_a_dead_one_left_and_says_so(
        self, tmp_path: Path, table: Path, target: Path, opened: Any
    ) -> None:
        left = names_below(target)
        done = to_iceberg(table, opened, target)
        removed = [str(Path(each).relative_to(target)) for each in done.removed]
        assert sorted(removed) == sorted(each for each in left if "/run-" not in each)
        clean = tmp_path / "clean"
        to_iceberg(table, opened, clean)
        assert len(names_below(target)) == len(names_below(clean))
        assert verify(opened(table), opened(target), rows=True).equal

    def test_leaves_one_that_runs_alone(self, table: Path, target: Path, opened: Any) -> None:
        left = names_below(target)
        with subprocess.Popen(
            [
                sys.executable,
                "-c",
                "import sys; from deltaberg.storage import process_mark; print(process_mark(), flush=True); sys.stdin.read()",
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdout is not None
            rewrite_process(target, process.stdout.readline().strip())
            assert to_iceberg(table, opened, target, clean=True).removed == ()
            assert set(left) <= set(names_below(target))
        # It has ended without a commit: a run that writes nothing finds that, too.
        again = to_iceberg(table, opened, target)
        assert again.already_current
        assert len(again.removed) == len(left) - 1
        assert not set(left) & set(names_below(target))

    def test_leaves_one_of_another_machine_alone_for_a_day(self, table: Path, target: Path, opened: Any) -> None:
        left = names_below(target)
        rewrite_process(target, "0123456789ab-1-1")
        assert to_iceberg(table, opened, target).removed == ()
        assert set(left) <= set(names_below(target))
        rewrite_process(target, "0123456789ab-1-1", age_s=DAY_S + 60)
        assert len(to_iceberg(table, opened, target).removed) == len(left) - 1

    def test_clean_removes_what_nothing_proves_to_be_dead(
        self, table: Path, target: Path, opened: Any, command: Any
    ) -> None:
        left = names_below(target)
        rewrite_process(target, "0123456789ab-1-1")
        done = command("convert", table, "--to", "iceberg", "--target", target, "--clean", "--json")
        assert done.code == 0
        assert sorted(done.document["removed"]) == sorted(str(target / each) for each in left if "/run-" not in each)
        for location in done.document["removed"]:
            assert f"deltaberg: removed, left by an unfinished conversion: {location}\n" in done.err
        assert not set(left) & set(names_below(target))

    def test_deletes_nothing_that_is_not_named_by_the_dead_one(self, table: Path, target: Path, opened: Any) -> None:
        """Strangers' files, also where they look much like those of a conversion."""
        strangers = [
            target / "data" / f"rewritten-{RunId().value}.parquet",
            target / "metadata" / f"{RunId().value}-m0.avro",
            target / "_deltaberg" / f"plan-0-{RunId().value}.json",
            target / "_deltaberg" / "run-mine.json",
            target / "_deltaberg" / f"run-{RunId().value}.json",
        ]
        for path in strangers:
            path.parent.mkdir(exist_ok=True)
            path.write_text("{}")
        to_iceberg(table, opened, target, clean=True)
        assert all(path.read_text() == "{}" for path in strangers)

    def test_that_is_refused_removes_nothing(self, table: Path, target: Path, opened: Any) -> None:
        left = names_below(target)
        from deltaberg.migrate.refusal import Refused

        with pytest.raises(Refused):
            to_iceberg(table, opened, target, options=ConvertOptions(format_version=1))
        assert names_below(target) == left


def test_a_run_document_is_there_as_long_as_the_conversion_is_under_way(
    table: Path, tmp_path: Path, opened: Any
) -> None:
    target = tmp_path / "target"
    order = []

    class Watched(FaultStorage):
        def put(self, location: str, data: bytes) -> None:
            order.append(Path(location).name[:4])
            super().put(location, data)

    convert(opened(table, storage=Watched()), to="iceberg", target=str(target))
    assert order[:2] == ["run-", "plan"]
    assert not list((target / "_deltaberg").glob("run-*"))


class TestAReplayThatDied:
    """Several runs carry it on; whatever any version lists has to stay."""

    @pytest.fixture
    def target(self, tmp_path: Path, iceberg_table: Path, opened: Any) -> Path:
        target = tmp_path / "target"
        killed(
            lambda storage: opened(iceberg_table, storage=storage),
            f"{2:020}.json",
            to="delta",
            target=str(target),
            options=ConvertOptions(history="all"),
        )
        return target

    def finish(self, iceberg_table: Path, target: Path, opened: Any, storage: Any = None) -> ConvertResult:
        source = opened(iceberg_table, storage=storage)
        return convert(source, to="delta", target=str(target), options=ConvertOptions(history="all"))

    def test_leaves_no_vector_that_no_version_lists(self, iceberg_table: Path, target: Path, opened: Any) -> None:
        before = set((target / "_deltaberg").glob("deletion_vector_*"))
        assert before
        done = self.finish(iceberg_table, target, opened)
        assert {Path(each) for each in done.removed} == before
        assert len(list((target / "_deltaberg").glob("deletion_vector_*"))) == len(before)
        assert not list((target / "_deltaberg").glob("run-*"))
        assert verify(opened(iceberg_table), opened(target), rows=True).equal

    def test_that_is_done_keeps_what_the_runs_before_committed(
        self, iceberg_table: Path, target: Path, opened: Any
    ) -> None:
        """The second run dies behind its last commit, so that only its document says that it ever was."""
        storage = FaultStorage(
            Mode.KILLED_AFTER,
            0,
            only=lambda operation, location: location.endswith(f"{2:020}.json") and operation == "put_if_absent",
        )
        with pytest.raises(Killed):
            self.finish(iceberg_table, target, opened, storage)
        done = self.finish(iceberg_table, target, opened)
        assert done.already_current
        assert verify(opened(iceberg_table), opened(target), rows=True).equal
        assert not list((target / "_deltaberg").glob("run-*"))


def test_a_mark_names_neither_host_nor_user() -> None:
    import getpass
    import platform

    assert platform.node() not in process_mark()
    assert getpass.getuser() not in process_mark()
