"""The package reaches workers that lack it: from a wheel given with --py-files, and from this checkout."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path
from typing import Any

import pytest

from deltaberg.errors import EngineUnavailable
from deltaberg.migrate.spark import shipping

ROOT = Path(__file__).resolve().parent.parent.parent.parent
JOB = """
import json, sys
import deltaberg
from pyspark.sql import SparkSession
from deltaberg.migrate.spark import convert

session = SparkSession.builder.getOrCreate()


def home(batches):
    import importlib.util
    import pyarrow as pa

    for _ in batches:
        found = importlib.util.find_spec("deltaberg")
        yield pa.RecordBatch.from_pydict({"home": [found.origin if found else "none"]})


before = session.range(0, 1, 1, 1).mapInArrow(home, "home string").collect()[0][0]
done = convert(session, sys.argv[1], to="iceberg", target=sys.argv[2])
after = session.range(0, 1, 1, 1).mapInArrow(home, "home string").collect()[0][0]
told = {"driver": deltaberg.__file__, "before": before, "after": after, "rewritten": done.rewritten_files, "rows": done.rows}
open(sys.argv[3], "w").write(json.dumps(told))
session.stop()
"""


@pytest.fixture
def bare_python(tmp_path: Path) -> str:
    """This interpreter with what is installed, but for editable installs: without this package."""
    place = tmp_path / "python"
    site = sysconfig.get_paths()["purelib"]
    place.write_text(f'#!/bin/sh\nPYTHONPATH="$PYTHONPATH:{site}" exec {sys.executable} -S "$@"\n', encoding="utf-8")
    place.chmod(0o755)
    asked = "import importlib.util; print(importlib.util.find_spec('deltaberg'), importlib.util.find_spec('pyarrow'))"
    environment = {**os.environ, "PYTHONPATH": ""}
    run = subprocess.run(
        [place, "-c", asked], capture_output=True, text=True, check=True, cwd=tmp_path, env=environment
    )
    if not run.stdout.startswith("None ModuleSpec"):
        pytest.skip("deltaberg is installed here as a package of its own, so every Python of this environment has it")
    return str(place)


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", folder, ROOT]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"a wheel cannot be built here: {done.stderr.strip().splitlines()[-1]}")
    return next(folder.glob("*.whl"))


@pytest.mark.engines
@pytest.mark.parametrize("given", ["wheel", "zip"])
def test_a_submitted_job_runs_where_workers_lack_the_package(
    given: str, bare_python: str, wheel: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    request.getfixturevalue("java")
    cases = request.getfixturevalue("rewrite_cases")
    cases.field_ids_foreign(tmp_path / "source")
    archive = wheel
    if given == "zip":
        archive = tmp_path / "deltaberg.zip"
        archive.write_bytes(wheel.read_bytes())
    script = tmp_path / "job.py"
    script.write_text(JOB, encoding="utf-8")
    submit = Path(sysconfig.get_paths()["scripts"]) / "spark-submit"
    settings = ["spark.ui.enabled=false", "spark.driver.bindAddress=127.0.0.1", "spark.driver.memory=1g"]
    command = [
        *(submit, "--master", "local[2,4]", "--py-files", archive),
        *(word for setting in settings for word in ("--conf", setting)),
        *(script, tmp_path / "source", tmp_path / "target", tmp_path / "told.json"),
    ]
    environment = {
        **{name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "SPARK_HOME"}},
        "PYSPARK_PYTHON": bare_python,
        "PYSPARK_DRIVER_PYTHON": bare_python,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    done = subprocess.run(
        command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    told = json.loads((tmp_path / "told.json").read_text(encoding="utf-8"))
    assert (told["rewritten"], told["rows"]) == (1, 3)
    assert archive.name in told["driver"]
    assert ".zip" in told["after"]
    assert told["before"] == "none" if given == "wheel" else ".zip" in told["before"]


def test_the_archive_of_a_checkout_holds_every_module_and_imports_by_itself(tmp_path: Path) -> None:
    archive = shipping._archive(str(tmp_path))
    with zipfile.ZipFile(archive) as opened:
        names = set(opened.namelist())
    folders = {
        "deltaberg": "deltaberg",
        **{each: f"deltaberg/{each}" for each in ("iceberg", "delta", "translate", "migrate")},
    }
    wanted = {
        f"{inside}/{path.relative_to(ROOT / folder)}"
        for folder, inside in folders.items()
        for path in (ROOT / folder).rglob("*.py")
    }
    assert names == wanted
    asked = "import deltaberg.migrate.spark.rewrite_files as m, deltaberg; print(m.__file__)"
    site = sysconfig.get_paths()["purelib"]
    environment = {**os.environ, "PYTHONPATH": f"{archive}:{site}"}
    run = subprocess.run(
        [sys.executable, "-S", "-c", asked], capture_output=True, text=True, check=True, cwd=tmp_path, env=environment
    )
    assert run.stdout.startswith(archive)


def test_what_no_archive_can_carry_is_named(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shipping, "NATIVE", ("pyarrow", "no_such_module", "nor_this_one"))
    with pytest.raises(
        EngineUnavailable, match=r"lacks no_such_module, nor_this_one; install deltaberg\[spark\]"
    ) as caught:
        shipping.ship_package(spark)
    assert "--archives" in str(caught.value)


def test_nothing_is_sent_where_the_package_is_installed(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shipping, "_archive", lambda folder: pytest.fail("an archive was made"))
    shipping.ship_package(spark)


def test_every_package_is_a_part_of_what_is_sent() -> None:
    for name in shipping.PACKAGES:
        importlib.import_module(name)
