"""Who does the work of a conversion: this process, or a Spark cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from deltaberg.migrate.recording_storage import RecordingStorage
from deltaberg.migrate.rewrite import InThisProcess, RewriteRunner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Progress = Callable[[str, int, int], None]
"""Called with (stage, done, total); total 0 where it is not known."""


class Engine(Protocol):
    """Gives a conversion the hands that it needs."""

    def rewriting(self, storage: RecordingStorage, progress: Progress) -> RewriteRunner:
        """Who writes files anew. What it writes is recorded in ``storage``, which can take it all back."""
        ...


class LocalEngine:
    """Does everything in this process."""

    def rewriting(self, storage: RecordingStorage, progress: Progress) -> RewriteRunner:
        return InThisProcess()


def engine_of(name: str, session: SparkSession | None = None) -> Engine:
    """The engine that ``--engine`` names; ``auto`` is this process, since the plan refuses what is too much for it.

    session: the Spark session to use; None: the active one or a new one. Raises EngineUnavailable.
    """
    if name != "spark" and session is None:
        return LocalEngine()
    from deltaberg.migrate.spark.engine import SparkEngine

    return SparkEngine.of(session)
