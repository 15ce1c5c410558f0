"""Tables that other engines wrote, and engines in a process of their own that read what deltaberg wrote."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

CORPUS = Path(__file__).resolve().parents[3] / "shared" / "corpus"
CATALOGUE = Path(__file__).resolve().parents[1] / "exceptions.json"
SECONDS_A_CASE = 120
# Tables whose files are said to be in a bucket: no test touches the network.
IN_A_BUCKET = {"iceberg/generated_bounds"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One table of the corpus; ``name`` is ``delta/...`` or ``iceberg/...``."""

    name: str
    folder: Path
    facts: dict[str, Any]

    @property
    def format(self) -> str:
        return str(self.facts["format"])

    @property
    def table(self) -> Path:
        folder = self.folder / "table"
        return folder / self.facts["metadata"] if self.format == "iceberg" and self.facts.get("metadata") else folder

    @property
    def relocation(self) -> list[str]:
        """The options that say where the table's files are now."""
        moved = {}
        if self.facts.get("location"):
            moved[self.facts["location"]] = self.folder / "table"
        for old, new in (self.facts.get("relocate") or {}).items():
            moved[old] = self.folder / new
        return [part for old, new in moved.items() for part in ("--relocate", f"{old}={new}")]

    @property
    def json_columns(self) -> tuple[str, ...]:
        return tuple(self.facts.get("variant_as_json") or ())


@dataclass(frozen=True, slots=True, kw_only=True)
class Converted:
    """What the command said when it planned and converted a table to the other format; ``target``: where."""

    to: str
    target: Path
    planned: Any
    outcome: Any


def cases() -> list[Case]:
    return [
        Case(
            name=f"{file.parent.parent.name}/{file.parent.name}",
            folder=file.parent,
            facts=json.loads(file.read_text(encoding="utf-8")),
        )
        for file in sorted(CORPUS.glob("*/*/case.json"))
        if f"{file.parent.parent.name}/{file.parent.name}" not in IN_A_BUCKET
    ]


def listed_exceptions() -> dict[str, dict[str, dict[str, str]]]:
    """What the catalogue lists of conversions."""
    tables = json.loads(CATALOGUE.read_text(encoding="utf-8"))["tables"]
    return {"convert": {name: judged["convert"] for name, judged in tables.items() if "convert" in judged}}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """``case``: every table; ``converted_case``: every one that is converted. Without ../shared one test is left, which skips."""
    if "case" in metafunc.fixturenames:
        metafunc.parametrize("case", cases() or [None], ids=lambda case: case.name if case else "absent")
    if "converted_case" in metafunc.fixturenames:
        listed = listed_exceptions()["convert"]
        taken = [each for each in cases() if listed.get(each.name, {}).get("outcome") != "refused"]
        metafunc.parametrize("converted_case", taken or [None], ids=lambda case: case.name if case else "absent")


@pytest.fixture(scope="session")
def expectations() -> dict[str, dict[str, dict[str, str]]]:
    """``{"convert": {case: {"outcome", "because", ...}}}``: the cases whose outcome is not ``equal``.

    code: of the plan that refuses. because: words of its message; else the reason.
    """
    return listed_exceptions()


@pytest.fixture(scope="session")
def made() -> dict[str, Converted]:
    """The conversions of this process by the case's name."""
    return {}


@pytest.fixture
def converted(
    command: Any, made: dict[str, Converted], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[Case], Converted]:
    """``converted(case)``: the table planned and converted once, for every test of this process."""

    def convert(case: Case) -> Converted:
        if case.name not in made:
            to = "iceberg" if case.format == "delta" else "delta"
            target = tmp_path_factory.mktemp("corpus") / "target"
            planned = command("plan", case.table, "--to", to, "--target", target, *case.relocation, "--json")
            outcome = command("convert", case.table, "--to", to, "--target", target, *case.relocation, "--json")
            made[case.name] = Converted(to=to, target=target, planned=planned, outcome=outcome)
        return made[case.name]

    return convert


@pytest.fixture(autouse=True)
def no_hang() -> Iterator[None]:
    """A hostile table must not keep a test for ever."""

    def ring(number: int, frame: FrameType | None) -> None:
        pytest.fail(f"no answer after {SECONDS_A_CASE} seconds")

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(SECONDS_A_CASE)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture(scope="session")
def oracle(shared: Path, reader_process: Any) -> Iterator[Any]:
    """The shared reader's engines: ``oracle.read("duckdb-delta", folder)``."""
    reader = reader_process(shared / "crosscheck" / "oracle.py")
    yield reader
    reader.stop()
