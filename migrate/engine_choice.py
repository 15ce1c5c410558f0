"""Which engine ``--engine`` names. Spark's is imported only where it is asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from deltaberg.migrate.engine import Engine, LocalEngine, Progress
from deltaberg.migrate.source import Source
from deltaberg.migrate.verify.check import Check
from deltaberg.migrate.verify.rows import rows_check
from deltaberg.migrate.verify.tables import ChosenOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


RowsChecker = Callable[[Source, Source, ChosenOptions], Check]


def rows_checker(name: str, session: SparkSession | None = None, *, progress: Progress | None = None) -> RowsChecker:
    """The comparison of rows on the chosen engine; ``session`` as for ``engine_of``. Raises EngineUnavailable."""
    if name != "spark" and session is None:
        return rows_check
    from deltaberg.migrate.spark.session import spark_session
    from deltaberg.migrate.spark.tasks import SparkWork
    from deltaberg.migrate.spark.verify_rows import spark_rows_check

    work = SparkWork(spark_session(session))
    return spark_rows_check(
        work, progress=None if progress is None else lambda done, total: progress("compare rows, tasks", done, total)
    )


def engine_of(name: str, session: SparkSession | None = None) -> Engine:
    """The engine that ``--engine`` names; ``auto`` is this process, since the plan refuses more work than it can do.

    session: the Spark session to use; None: the active one or a new one. Raises EngineUnavailable.
    """
    if name != "spark" and session is None:
        return LocalEngine()
    from deltaberg.migrate.spark.engine import SparkEngine

    return SparkEngine.of(session)
