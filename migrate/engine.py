"""Runs the work of a conversion: in this process, or on a Spark cluster."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Protocol

from deltaberg.iceberg.deletes.resolved_deletes import DeletedByKey
from deltaberg.migrate.files.footers import silent
from deltaberg.migrate.files.rewrite import InThisProcess, RewriteRunner
from deltaberg.migrate.source import IcebergSource, Source
from deltaberg.migrate.target.undo_storage import UndoStorage
from deltaberg.migrate.to_delta.ancestry import Ancestry
from deltaberg.migrate.to_delta.replay import DeltaReplay
from deltaberg.migrate.to_delta.survey import DeltaSurvey, survey_delta
from deltaberg.migrate.to_delta.writer import DeltaWriter, WrittenDelta
from deltaberg.migrate.to_iceberg.replay import IcebergReplay
from deltaberg.migrate.to_iceberg.source_files import DeltaFileReader
from deltaberg.migrate.to_iceberg.survey import IcebergSurvey, SurveyRequest, survey_iceberg
from deltaberg.migrate.to_iceberg.writer import IcebergWriter, WrittenIceberg
from deltaberg.translate.options import ConvertOptions

Progress = Callable[[str, int, int], None]
"""Called with (stage, done, total); total 0 where it is not known."""


class Splits(Protocol):
    """The files of a source, in splits that are surveyed and then translated, here or in tasks."""

    def survey_iceberg(self, request: SurveyRequest, reader: DeltaFileReader) -> IcebergSurvey:
        """Look at every file of a Delta version, for an Iceberg target."""
        ...

    def survey_delta(self, source: IcebergSource, ancestry: Ancestry, deep: bool) -> DeltaSurvey:
        """Look at every file of an Iceberg snapshot, for a Delta target."""
        ...

    def write_iceberg(self, writer: IcebergWriter) -> WrittenIceberg:
        """Write the Iceberg table that ``writer`` describes, after the survey. Raises like ``IcebergWriter.write``."""
        ...

    def write_delta(self, writer: DeltaWriter, *, after: tuple[int, int | None] | None) -> WrittenDelta:
        """Write the Delta table that ``writer`` describes, after the survey. after: as in ``DeltaReplay.write``.

        Raises like ``DeltaWriter.write``.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalSplits:
    """The whole source in one split, which this process surveys and translates. Satisfies ``Splits``."""

    progress: Progress = silent

    def survey_iceberg(self, request: SurveyRequest, reader: DeltaFileReader) -> IcebergSurvey:
        return survey_iceberg(request, reader)

    def survey_delta(self, source: IcebergSource, ancestry: Ancestry, deep: bool) -> DeltaSurvey:
        return survey_delta(source, ancestry, deep, progress=self.progress)

    def write_iceberg(self, writer: IcebergWriter) -> WrittenIceberg:
        return writer.write(writer.add_files) if writer.design.periods is None else IcebergReplay(writer).write()

    def write_delta(self, writer: DeltaWriter, *, after: tuple[int, int | None] | None) -> WrittenDelta:
        if len(writer.design.ancestry.snapshots) < 2:
            return writer.write(writer.create_at_once)
        return DeltaReplay(writer).write(after=after)


class Engine(Protocol):
    """Runs the expensive steps of a conversion, in this process or on a cluster."""

    @property
    def writes_before_plan(self) -> bool:
        """Whether files may be written before there is a plan: tasks leave what they found for each other."""
        ...

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
    ) -> AbstractContextManager[Splits]:
        """The source in splits. target: where the target is going to be; None: nothing is written."""
        ...


class LocalEngine:
    """Does everything in this process."""

    writes_before_plan = False

    def rewriting(self, storage: UndoStorage, progress: Progress) -> RewriteRunner:
        return InThisProcess(new_id=storage.run.new)

    def splits_of(
        self,
        source: Source,
        options: ConvertOptions,
        *,
        target: tuple[UndoStorage, str] | None,
        progress: Progress,
    ) -> AbstractContextManager[Splits]:
        return nullcontext(LocalSplits(progress=progress))

    def deleted_by_key(
        self, source: IcebergSource, folder: str, storage: UndoStorage, progress: Progress
    ) -> AbstractContextManager[DeletedByKey | None]:
        return nullcontext()
