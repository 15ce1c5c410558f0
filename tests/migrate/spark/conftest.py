"""One Spark session without any connector for all tests of this folder: the Spark engine needs none."""

from __future__ import annotations

import importlib.util
import os
import pickle
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from deltaberg.migrate.spark.tasks import Attempt, Done


def _makers(folder: str) -> Any:
    """What the tests of another folder make tables with."""
    place = Path(__file__).parent.parent.parent / folder / "conftest.py"
    spec = importlib.util.spec_from_file_location(f"makers_of_{folder}", place)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


_migrate = _makers("migrate")
opened, write_delta = _migrate.opened, _migrate.write_delta
write_iceberg_file, delete_from_delta = _migrate.write_iceberg_file, _migrate.delete_from_delta
delta_rows, iceberg_rows = _migrate.delta_rows, _migrate.iceberg_rows


@pytest.fixture(scope="session")
def stored_table() -> Any:
    """The class of tables that are laid down file by file."""
    return _makers("iceberg").StoredTable


class InThisProcess:
    """Does what ``SparkWork`` does, one unit after the other; what travels to and from a task is pickled here, too.

    units: how many there were in each run.
    """

    session: Any = None

    def __init__(self) -> None:
        self.units: list[int] = []

    def run(self, work: Callable[..., Any], units: Sequence[Any], **_: Any) -> list[Done[Any]]:
        work = pickle.loads(pickle.dumps(work))
        self.units.append(len(units))
        done = []
        for number, unit in enumerate(units):
            attempt = Attempt(unit=number, name=f"{number}-x")
            result = work(pickle.loads(pickle.dumps(unit)), attempt)
            done.append(Done(attempt=attempt, result=pickle.loads(pickle.dumps(result))))
        return done


@pytest.fixture
def in_this_process() -> InThisProcess:
    return InThisProcess()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Those that ask for the session need Java."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents and "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.engines)


@pytest.fixture(scope="session")
def rewrite_cases() -> Any:
    """The module of small tables with files that cannot be shared."""
    spec = importlib.util.spec_from_file_location("rewrite_cases", Path(__file__).with_name("rewrite_cases.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def spark(java: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Two cores, four tries for a task. The session of ``tests/engines`` does, too, where it runs in this process."""
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is not None:
        yield active
        return
    scratch = tmp_path_factory.mktemp("spark")
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = (
        SparkSession.builder.master("local[2,4]")
        .appName("deltaberg tests")
        .config("spark.local.dir", str(scratch))
        .config("spark.sql.warehouse.dir", str(scratch / "warehouse"))
        .config("spark.driver.memory", "1g")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.default.parallelism", "2")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "OFF")
        .getOrCreate()
    )
    yield session
    if session.sparkContext._jsc is not None:  # None once the session of tests/engines has taken its place
        session.stop()
