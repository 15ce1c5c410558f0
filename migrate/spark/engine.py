"""The engine of a conversion that runs its work in Spark tasks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from deltaberg.iceberg.deletes.resolved_deletes import DeletedByKey
from deltaberg.migrate.engine import Progress, Splits
from deltaberg.migrate.files.rewrite import RewriteRunner
from deltaberg.migrate.source import IcebergSource, Source
from deltaberg.migrate.spark.equality_deletes import resolve_equality_deletes
from deltaberg.migrate.spark.rewrite_files import InSparkTasks
from deltaberg.migrate.spark.session import spark_session
from deltaberg.migrate.spark.splits import PartSettings, distributed
from deltaberg.migrate.spark.staging import Staging
from deltaberg.migrate.spark.tasks import SparkWork
from deltaberg.migrate.target.locations import join
from deltaberg.migrate.target.undo_storage import UndoStorage
from deltaberg.translate.options import ConvertOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkEngine:
    """Satisfies ``Engine``."""

    work: SparkWork

    @property
    def writes_before_plan(self) -> bool:
        return True

    @classmethod
    def of(cls, session: SparkSession | None) -> SparkEngine:
        """With a session, the active one, or a new one. Raises EngineUnavailable."""
        return cls(work=SparkWork(spark_session(session)))

    def splits_of(
        self,
        source: Source,
        options: ConvertOptions,
        *,
        target: tuple[UndoStorage, str] | None,
        progress: Progress,
    ) -> AbstractContextManager[Splits]:
        return distributed(
            self.work,
            source,
            options,
            settings=PartSettings.of(self.work.session),
            target=target,
            progress=progress,
        )

    def rewriting(self, storage: UndoStorage, progress: Progress) -> RewriteRunner:
        return InSparkTasks(
            work=self.work,
            storage=storage,
            progress=lambda done, total: progress("rewrite, MiB", done >> 20, total >> 20),
        )

    @contextmanager
    def deleted_by_key(
        self, source: IcebergSource, folder: str, storage: UndoStorage, progress: Progress
    ) -> Iterator[DeletedByKey | None]:
        if source.snapshot is None:
            yield None
            return
        staging = Staging.below(storage, folder, storage.run)
        storage.create_folders(join(staging.folder, "x"))
        try:
            staged = resolve_equality_deletes(
                self.work,
                source.table,
                source.snapshot,
                folder=staging.folder,
                progress=lambda done, total: progress("equality deletes, tasks", done, total),
            )
            yield staged.reader()
        finally:
            staging.clear()
