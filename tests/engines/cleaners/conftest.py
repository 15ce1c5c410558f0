"""The cleaners as Spark runs them, as hostile as it lets them be, and the tables that they are let loose on."""

from __future__ import annotations

import datetime as dt
import importlib.util
import itertools
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

CHECK = "spark.databricks.delta.retentionDurationCheck.enabled"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleaners:
    """Each raises what Spark says."""

    spark: Any

    def vacuum(self, delta: Path, *, hours: int | None = None, lite: bool = False, forced: bool = False) -> None:
        """hours: the retention, the table's own by default. forced: with Spark's own check of it switched off."""
        statement = (
            f"VACUUM delta.`{delta}`{' LITE' if lite else ''}{'' if hours is None else f' RETAIN {hours} HOURS'}"
        )
        if forced:
            self.spark.conf.set(CHECK, "false")
        try:
            self.spark.sql(statement)
        finally:
            self.spark.conf.unset(CHECK)

    def log_cleanup(self, delta: Path) -> None:
        """A checkpoint removes the commits before it that are older than the log's retention, a month unless set."""
        self.forget()
        self._delta_log.forTable(self.spark._jsparkSession, str(delta)).checkpoint()

    def expire_snapshots(self, name: str) -> None:
        """All but the newest, however young, and the schemas and specs that only they used."""
        self.spark.sql(
            f"CALL ice.system.expire_snapshots(table => '{name}', older_than => TIMESTAMP '2999-01-01', "
            "retain_last => 1, clean_expired_metadata => true)"
        )

    def remove_orphan_files(self, name: str) -> None:
        """What is older than a day: the procedure takes nothing younger."""
        older_than = dt.datetime.now(dt.timezone.utc) - dt.timedelta(hours=25)
        self.spark.sql(
            f"CALL ice.system.remove_orphan_files(table => '{name}', older_than => TIMESTAMP '{older_than:%F %T}')"
        )

    def forget(self) -> None:
        """Files at the same place are not those that Spark remembers."""
        self._delta_log.clearCache()

    @property
    def _delta_log(self) -> Any:
        return self.spark._jvm.org.apache.spark.sql.delta.DeltaLog


@pytest.fixture(scope="session")
def engine_cleaners(spark: Any) -> Cleaners:
    return Cleaners(spark=spark)


@pytest.fixture(scope="session")
def cleaner_orders() -> ModuleType:
    """The module that walks the orders."""
    spec = importlib.util.spec_from_file_location("cleaner_orders", Path(__file__).with_name("orders.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def new_namespace() -> Callable[[], str]:
    """The names of folders in the warehouse that no other test uses."""
    numbers = itertools.count()
    return lambda: f"clean{next(numbers)}"


@pytest.fixture(scope="session")
def widens(generation: Any) -> bool:
    """Whether this Delta widens INT to DOUBLE, which Iceberg does not: then files with the narrow type are rewritten."""
    return generation.name != "spark-3.5"


@pytest.fixture(scope="session")
def make_delta(run: Any, widens: bool) -> Callable[[Path], None]:
    """A Delta table with removed files, deletion vectors and, where it can, a file of a type that the table has left."""

    def make(folder: Path) -> None:
        table = f"delta.`{folder}`"
        widening = ", 'delta.enableTypeWidening' = 'true'" if widens else ""
        run(
            f"CREATE TABLE {table} (id INT, v STRING, n {'INT' if widens else 'DOUBLE'}) USING delta "
            f"TBLPROPERTIES ('delta.enableDeletionVectors' = 'true'{widening})",
            f"INSERT INTO {table} SELECT CAST(id AS INT), concat('v', id), CAST(id AS INT) FROM range(10)",
            f"INSERT INTO {table} SELECT CAST(id AS INT), concat('v', id), CAST(id AS INT) FROM range(10, 20)",
            f"OPTIMIZE {table}",
            *((f"ALTER TABLE {table} ALTER COLUMN n TYPE DOUBLE",) if widens else ()),
            f"INSERT INTO {table} SELECT CAST(id AS INT), concat('w', id), CAST(id AS DOUBLE) FROM range(20, 40)",
            f"DELETE FROM {table} WHERE id % 7 = 3",
        )

    return make


@pytest.fixture(scope="session")
def make_iceberg(run: Any) -> Callable[[str, int], None]:
    """An Iceberg table with expired data, deletes (position deletes, in version 3 vectors) and ORC files."""

    def make(name: str, version: int) -> None:
        run(
            f"CREATE TABLE {name} (id INT, v STRING, n DOUBLE) USING iceberg "
            f"TBLPROPERTIES ('format-version' = '{version}', 'write.delete.mode' = 'merge-on-read')",
            f"INSERT INTO {name} SELECT CAST(id AS INT), concat('v', id), CAST(id AS DOUBLE) FROM range(20)",
            f"INSERT OVERWRITE {name} SELECT CAST(id AS INT), concat('w', id), CAST(id AS DOUBLE) FROM range(30)",
            f"ALTER TABLE {name} SET TBLPROPERTIES ('write.format.default' = 'orc')",
            f"INSERT INTO {name} SELECT CAST(id AS INT), concat('o', id), CAST(id AS DOUBLE) FROM range(30, 40)",
            f"ALTER TABLE {name} SET TBLPROPERTIES ('write.format.default' = 'parquet')",
            f"DELETE FROM {name} WHERE id % 7 = 3",
        )

    return make
