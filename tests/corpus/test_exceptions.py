"""The catalogue of exceptions names tables and judges that exist, and says why."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).resolve().parents[1]
CATALOGUE: dict[str, Any] = json.loads((TESTS / "exceptions.json").read_text(encoding="utf-8"))
GENERATIONS = {
    line["name"] for line in json.loads((TESTS / "engines" / "generations.json").read_text(encoding="utf-8"))
}


@pytest.mark.parametrize("name", CATALOGUE["tables"])
def test_every_exception_has_a_judge_and_a_reason(name: str) -> None:
    judged = CATALOGUE["tables"][name]
    assert judged
    assert judged.keys() <= {"scan", "convert"} | GENERATIONS
    assert all(each["because"] for each in judged.values())


def test_what_an_engine_cannot_do_is_said_of_engines_that_are_tested() -> None:
    assert CATALOGUE["engines"].keys() <= GENERATIONS


@pytest.mark.parametrize("name", CATALOGUE["tables"])
def test_the_tables_are_in_the_corpus(name: str, shared: Path) -> None:
    assert (shared / "corpus" / name.partition("@")[0]).is_dir()
