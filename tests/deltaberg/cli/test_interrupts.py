"""Ctrl-C and SIGTERM: the same is cleaned up, and one line says what stands."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import deltaberg
from tests.fault_storage import FaultStorage, Mode

deltalake = pytest.importorskip("deltalake")

TERMINATED = """
import os, signal, sys
from deltaberg.cli.main import main
from deltaberg.storage.local_files import LocalFiles

method, ending = sys.argv[1:3]
real = getattr(LocalFiles, method)

def ended(self, path, *arguments, **options):
    if path.endswith(ending):
        os.kill(os.getpid(), signal.SIGTERM)
    return real(self, path, *arguments, **options)

setattr(LocalFiles, method, ended)
main(sys.argv[3:])
"""
"""The command, which gets SIGTERM as it is going to call a method for a file."""


@pytest.fixture
def equal() -> Callable[[Path, Path], bool]:
    return lambda source, target: deltaberg.verify(source, target, rows=True).equal


@pytest.fixture
def table(tmp_path: Path) -> Path:
    folder = tmp_path / "table"
    for number in range(3):
        deltalake.write_deltalake(str(folder), pa.table({"id": [number]}), mode="append")
    return folder


def terminated(method: str, ending: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", TERMINATED, method, ending, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def interrupted_at(monkeypatch: pytest.MonkeyPatch, mode: Mode, operation: str, ending: str) -> None:
    """Ctrl-C at the first operation on a file of that name."""

    def storage(**options: Any) -> FaultStorage:
        return FaultStorage(mode, 0, only=lambda done, location: done == operation and location.endswith(ending))

    monkeypatch.setattr("deltaberg.migrate.table_ref.open_storage", storage)


class TestCtrlC:
    def test_before_anything_stands(self, table: Path, command: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        interrupted_at(monkeypatch, Mode.INTERRUPT_BEFORE, "put", ".json")
        done = command("convert", table, "--to", "iceberg")
        target = table / "_iceberg"
        assert (done.code, done.out) == (130, "")
        assert done.err.strip() == f"deltaberg: interrupted: nothing was written to {target}"
        assert not target.exists()

    def test_behind_the_commit(self, table: Path, command: Any, monkeypatch: pytest.MonkeyPatch, equal: Any) -> None:
        interrupted_at(monkeypatch, Mode.INTERRUPT_BEFORE, "put", "version-hint.text")
        done = command("convert", table, "--to", "iceberg")
        target = table / "_iceberg"
        assert done.code == 130
        said = rf"deltaberg: interrupted: {target} stands, with version 2 of delta table [0-9a-f-]+"
        assert re.fullmatch(said, done.err.strip())
        monkeypatch.undo()
        assert equal(table, target)

    def test_in_the_middle_of_a_history(
        self, tmp_path: Path, table: Path, command: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        source = deltaberg.convert(
            table, to="iceberg", target=tmp_path / "iceberg", options=deltaberg.ConvertOptions(history="all")
        )
        interrupted_at(monkeypatch, Mode.INTERRUPT_BEFORE, "put_if_absent", f"{1:020}.json")
        target = tmp_path / "target"
        done = command("convert", source.target, "--to", "delta", "--target", target, "--history", "all", "--json")
        first = source.commits[0][1]
        message = done.document["error"]["message"]
        assert message.startswith(f"interrupted: {target} stands up to snapshot {first} of iceberg table ")
        assert message.endswith("; what came after it was not committed, and the next run goes on there")
        assert done.document["error"]["type"] == "Interrupted"
        assert done.document["error"]["outcome"] == "stands-in-part"
        assert done.document["error"]["exit_code"] == done.code == 130
        assert done.document["error"]["table"] == str(target)
        monkeypatch.undo()
        assert command("convert", source.target, "--to", "delta", "--target", target, "--history", "all").code == 0

    def test_where_files_had_to_be_left(self, table: Path, command: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        """A second Ctrl-C while the first one is being cleaned up after."""

        class Twice(FaultStorage):
            def put(self, location: str, data: bytes) -> None:
                if "/plan-" in location:
                    raise KeyboardInterrupt
                super().put(location, data)

            def delete(self, location: str) -> None:
                raise KeyboardInterrupt

        monkeypatch.setattr("deltaberg.migrate.table_ref.open_storage", lambda **_: Twice())
        done = command("convert", table, "--to", "iceberg")
        target = table / "_iceberg"
        assert done.code == 130
        assert done.err.strip() == (
            f"deltaberg: interrupted: no table was written to {target}, but files are left there, which the next run removes"
        )

    def test_of_a_command_that_only_reads(self, table: Path, command: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(
            "deltaberg.migrate.table_ref.open_storage", lambda **_: FaultStorage(Mode.INTERRUPT_BEFORE, 3)
        )
        done = command("plan", table, "--to", "iceberg", "--json")
        assert (done.code, done.err.strip()) == (130, "deltaberg: interrupted")
        assert done.document["error"]["exit_code"] == 130

    def test_in_python_is_a_keyboard_interrupt_that_says_what_stands(
        self, table: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        interrupted_at(monkeypatch, Mode.INTERRUPT_BEFORE, "put", ".json")
        with pytest.raises(KeyboardInterrupt) as caught:
            deltaberg.convert(table, to="iceberg")
        assert isinstance(caught.value, deltaberg.Interrupted)
        assert (caught.value.outcome, caught.value.table) == ("nothing-written", str(table / "_iceberg"))


class TestSigterm:
    def test_cleans_up_like_ctrl_c(self, table: Path) -> None:
        before = set(table.rglob("*"))
        done = terminated("put_if_absent", "v1.metadata.json", "convert", table, "--to", "iceberg")
        assert done.returncode == 143, done.stderr
        assert done.stderr.strip() == f"deltaberg: interrupted: nothing was written to {table}/_iceberg"
        assert set(table.rglob("*")) == before

    def test_says_what_stands_in_a_document_too(self, table: Path, equal: Any) -> None:
        done = terminated("put", "version-hint.text", "convert", table, "--to", "iceberg", "--json")
        error = json.loads(done.stdout)["error"]
        assert (done.returncode, error["exit_code"], error["outcome"]) == (143, 143, "stands")
        assert equal(table, table / "_iceberg")

    def test_is_as_before_when_the_command_has_ended(self, table: Path) -> None:
        from deltaberg.cli.main import main

        before = signal.getsignal(signal.SIGTERM)
        hook = sys.excepthook
        try:
            with pytest.raises(SystemExit) as ended:
                main(["inspect", str(table), "--json"])
        finally:
            sys.excepthook = hook
        assert ended.value.code == 0
        assert signal.getsignal(signal.SIGTERM) is before
