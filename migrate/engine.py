"""Who does the work of a conversion: this process, or a Spark cluster."""

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
    """A source whose files others look at and translate, part by part."""

    def survey_iceberg(self, request: SurveyRequest, reader: DeltaFileReader) -> IcebergSurvey:
        """Of a Delta version, for an Iceberg target; like ``iceberg_survey.survey_iceberg``."""
        ...

    def survey_delta(self, source: IcebergSource, ancestry: Ancestry, deep: bool) -> DeltaSurvey:
        """Of an Iceberg snapshot, for a Delta target; like ``delta_survey.survey_delta``."""
        ...

    def write_iceberg(self, writer: IcebergWriter) -> WrittenIceberg:
        """What ``IcebergWriter.write`` does, with the parts that were looked at."""
        ...

    def write_delta(self, writer: DeltaWriter) -> WrittenDelta:
        """What ``DeltaWriter.write`` does, but as version 1."""
        ...


class Engine(Protocol):
    """Gives a conversion the hands that it needs."""

    def rewriting(self, storage: UndoStorage, progress: Progress) -> RewriteRunner:
        """Who writes files anew. What it writes is recorded in ``storage``, which can take it all back."""
        ...

    def deleted_by_key(
        self, source: IcebergSource, folder: str, storage: UndoStorage, progress: Progress
    ) -> AbstractContextManager[DeletedByKey | None]:
        """What the source's equality deletes delete, known until the context ends; None: whoever asks finds out.

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
        """The source in parts where that is worth it. target: where the target is going to be; None: nothing is written."""
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
