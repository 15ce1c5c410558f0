"""An error is one line of bounded length and of printable characters, whatever the file holds that it quotes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaberg.cli.console import LONGEST_LINE, error_line


@given(st.text(max_size=3000))
def test_any_text_is_one_printable_line(text: str) -> None:
    line = error_line(text)
    assert len(line) <= LONGEST_LINE
    assert line.isprintable()
    if text.isprintable() and len(text) <= LONGEST_LINE:
        assert line == text


def test_long_values_lose_their_middle_and_the_rest_stays() -> None:
    line = error_line(f"Cannot read /t/{'x' * 5000}.json: it is {'9' * 5000} (expected less); repair it")
    assert line == f"Cannot read /t/{'x' * 97}…{'x' * 93}.json: it is {'9' * 100}…{'9' * 99} (expected less); repair it"
    many = error_line("a " * 3000 + "; repair it")
    assert len(many) == LONGEST_LINE
    assert many.endswith("a ; repair it")


@pytest.mark.parametrize("verb", ["inspect", "plan", "convert"])
def test_what_a_file_holds_is_quoted_short_and_without_control_characters(
    verb: str, command: Any, delta_folder: Path
) -> None:
    log = delta_folder / "_delta_log" / f"{1:020d}.json"
    name = "\x1b[31m" + "y" * 100_000
    log.write_text(
        json.dumps(
            {
                "protocol": {
                    "minReaderVersion": 3,
                    "minWriterVersion": 7,
                    "readerFeatures": [name],
                    "writerFeatures": [name],
                }
            }
        )
    )
    arguments = (verb, delta_folder, *(("--to", "iceberg") if verb != "inspect" else ()))
    outcome = command(*arguments)
    assert outcome.code == 3
    assert outcome.err.count("\n") == 1
    assert len(outcome.err) < LONGEST_LINE + 20
    assert "\x1b" not in outcome.err
    assert "\\x1b[31m" in outcome.err
    whole = command(*arguments, "--json").document
    assert "y" * 100_000 in json.dumps(whole)
