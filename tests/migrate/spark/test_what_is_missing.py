"""Without Spark, Java or what executors need, one line says what to install, and nothing is written."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest


@pytest.fixture
def table(tmp_path: Path) -> Path:
    deltalake = pytest.importorskip("deltalake")
    deltalake.write_deltalake(str(tmp_path / "table"), pa.table({"id": [1]}))
    return tmp_path / "table"


def convert(table: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {
        name: value for name, value in os.environ.items() if name not in {"JAVA_HOME", "SPARK_HOME", "SPARK_REMOTE"}
    }
    command = [sys.executable, "-m", "deltaberg", "convert", str(table), "--to", "iceberg", "--engine", "spark"]
    return subprocess.run(
        command, env={**kept, **environment}, capture_output=True, text=True, timeout=300, check=False
    )


def assert_refused(done: subprocess.CompletedProcess[str], table: Path, *words: str) -> None:
    assert done.returncode == 1
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1, done.stderr
    assert all(word in lines[0] for word in words), lines[0]
    assert not (table / "_iceberg").exists()


def stub(folder: Path, name: str, text: str) -> str:
    """A module that is found instead of the installed one."""
    (folder / name).mkdir(parents=True)
    (folder / name / "__init__.py").write_text(text, encoding="utf-8")
    return str(folder)


def test_without_java(table: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    done = convert(table, PATH=str(tmp_path / "empty"))
    assert_refused(
        done, table, "no java is on the path", "or later; install it (for example openjdk-17-jre-headless)", "JAVA_HOME"
    )


def test_with_a_java_that_is_too_old(table: Path, tmp_path: Path) -> None:
    java = tmp_path / "jdk" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text("#!/bin/sh\necho 'openjdk version \"1.7.0_99\"' >&2\n", encoding="utf-8")
    java.chmod(0o755)
    done = convert(table, JAVA_HOME=str(tmp_path / "jdk"))
    assert_refused(done, table, f"{java} is Java 7", "or later; install it")


def test_with_a_java_that_does_not_run(table: Path, tmp_path: Path) -> None:
    done = convert(table, JAVA_HOME=str(tmp_path / "nowhere"))
    assert_refused(done, table, "nowhere/bin/java does not run", "JAVA_HOME")


def test_without_pyspark(table: Path, tmp_path: Path) -> None:
    done = convert(table, PYTHONPATH=stub(tmp_path / "stubs", "pyspark", "raise ImportError('no pyspark here')\n"))
    assert_refused(done, table, "PySpark is not installed; pip install 'deltaberg[spark]'")


def test_with_a_pyspark_that_is_too_old(table: Path, tmp_path: Path) -> None:
    folder = stub(tmp_path / "stubs", "pyspark", "__version__ = '3.4.4'\n")
    (tmp_path / "stubs" / "pyspark" / "sql.py").write_text("class SparkSession: pass\n", encoding="utf-8")
    done = convert(table, PYTHONPATH=folder)
    assert_refused(done, table, "Spark 3.4.4 is too old (expected 3.5 or later)", "pip install 'deltaberg[spark]'")


def test_without_pandas(table: Path, tmp_path: Path) -> None:
    done = convert(table, PYTHONPATH=stub(tmp_path / "stubs", "pandas", "raise ImportError('no pandas here')\n"))
    assert_refused(done, table, "pandas", "is not installed; pip install 'deltaberg[spark]'")
