"""The engine of a conversion that runs its work in Spark tasks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from deltaberg.migrate.engine import Progress
from deltaberg.migrate.recording_storage import RecordingStorage
from deltaberg.migrate.rewrite import RewriteRunner
from deltaberg.migrate.spark.rewrite_files import InSparkTasks
from deltaberg.migrate.spark.session import spark_session
from deltaberg.migrate.spark.work import SparkWork

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkEngine:
    """Satisfies ``Engine``."""

    work: SparkWork

    @classmethod
    def of(cls, session: SparkSession | None) -> SparkEngine:
        """With a session, the active one, or a new one. Raises EngineUnavailable."""
        return cls(work=SparkWork(spark_session(session)))

    def rewriting(self, storage: RecordingStorage, progress: Progress) -> RewriteRunner:
        return InSparkTasks(
            work=self.work,
            storage=storage,
            progress=lambda done, total: progress("rewrite, MiB", done >> 20, total >> 20),
        )
