"""Runs the work of a conversion: in this process, or on a Spark cluster."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from deltaberg.iceberg.deletes.resolved_deletes import DeletedByKey
from deltaberg.migrate.files.rewrite import InThisProcess, RewriteRunner
from deltaberg.migrate.source import IcebergSource, Source
from deltaberg.migrate.target.undo_storage import UndoStorage
from deltaberg.migrate.to_delta.ancestry import Ancestry
from deltaberg.migrate.to_delta.survey import DeltaSurvey
from deltaberg.migrate.to_delta.writer import DeltaWriter, WrittenDelta
from deltaberg.migrate.to_iceberg.source_files import DeltaFileReader
from deltaberg.migrate.to_iceberg.survey import IcebergSurvey, SurveyRequest
from deltaberg.migrate.to_iceberg.writer import IcebergWriter, WrittenIceberg
from deltaberg.translate.options import ConvertOptions

Progress = Callable[[str, int, int], None]
"""Called with (stage, done, total); total 0 where it is not known."""


class Splits(Protocol):
    """A source whose files are surveyed and translated in tasks, split by split."""

    def survey_iceberg(self, request: SurveyRequest, reader: DeltaFileReader) -> IcebergSurvey:
        """Survey a Delta version for an Iceberg target; like ``to_iceberg.survey.survey_iceberg``."""
        ...

    def survey_delta(self, source: IcebergSource, ancestry: Ancestry, deep: bool) -> DeltaSurvey:
        """Survey an Iceberg snapshot for a Delta target; like ``to_delta.survey.survey_delta``."""
        ...

    def write_iceberg(self, writer: IcebergWriter) -> WrittenIceberg:
        """Like ``IcebergWriter.write``, with the splits that were surveyed."""
        ...

    def write_delta(self, writer: DeltaWriter) -> WrittenDelta:
        """Like ``DeltaWriter.write``, but the table begins with version 1."""
        ...


class Engine(Protocol):
    """Runs the expensive steps of a conversion, in this process or on a cluster."""

    def rewriting(self, storage: UndoStorage, progress: Progress) -> RewriteRunner:
        """Rewrites files. They are recorded in ``storage``, which can roll all of them back."""
        ...

    def deleted_by_key(
        self, source: IcebergSource, folder: str, storage: UndoStorage, progress: Progress
    ) -> AbstractContextManager[DeletedByKey | None]:
        """The rows that the source's equality deletes delete, known until the context ends; None: they are resolved
        when they are needed.

        folder: below which files may be staged meanwhile.
        """
        ...

    def splits_of(
        self,
        source: Source,
        options: ConvertOptions,
        *,
        target: tuple[UndoStorage, str] | None,
        progress: Progress,
    ) -> AbstractContextManager[Splits | None]:
        """The splits of the source where they are worth their cost. target: the future target's folder; None: nothing
        is written.
        """
        ...


class LocalEngine:
    """Does everything in this process."""

    def rewriting(self, storage: UndoStorage, progress: Progress) -> RewriteRunner:
        return InThisProcess(new_id=storage.run.new)

    def splits_of(
        self,
        source: Source,
        options: ConvertOptions,
        *,
        target: tuple[UndoStorage, str] | None,
        progress: Progress,
    ) -> AbstractContextManager[Splits | None]:
        return nullcontext()

    def deleted_by_key(
        self, source: IcebergSource, folder: str, storage: UndoStorage, progress: Progress
    ) -> AbstractContextManager[DeletedByKey | None]:
        return nullcontext()
