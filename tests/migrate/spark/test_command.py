"""The command line with a Spark of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest


@pytest.mark.engines
def test_convert_starts_a_session_and_says_nothing_but_the_result(
    java: None, tmp_path: Path, rewrite_cases: Any
) -> None:
    rewrite_cases.field_ids_foreign(tmp_path / "source")
    command = [sys.executable, "-m", "deltaberg", "convert", str(tmp_path / "source"), "--to", "iceberg"]
    kept = {name: value for name, value in os.environ.items() if name not in {"PYSPARK_PYTHON", "MASTER"}}
    environment = {**kept, "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run(
        [*command, "--engine", "spark", "--json"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["rewritten_files"], told["rows"]) == (1, 3)
    assert told["plan"]["cost"]["files"] == 1
    local = subprocess.run(
        [*command, "--engine", "local", "--json"], env=environment, capture_output=True, text=True, check=True
    )
    assert json.loads(local.stdout)["already_current"]
