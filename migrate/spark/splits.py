"""Whether a conversion's files are surveyed and translated in tasks, and the staging folder for that."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

from deltaberg.errors import UsageError
from deltaberg.migrate.engine import LocalSplits, Splits
from deltaberg.migrate.files.footers import Progress
from deltaberg.migrate.source import DeltaSource, IcebergSource, Source
from deltaberg.migrate.spark.job_files import JobFiles
from deltaberg.migrate.spark.staging import Inline, Staging
from deltaberg.migrate.spark.tasks import SparkWork, TaskProgress
from deltaberg.migrate.spark.to_delta import IcebergTranslation
from deltaberg.migrate.spark.to_iceberg import DeltaTranslation
from deltaberg.migrate.target.file_count import DISTRIBUTE_FROM, stated_files
from deltaberg.migrate.target.locations import join
from deltaberg.migrate.target.undo_storage import UndoStorage
from deltaberg.migrate.to_delta.ancestry import Ancestry
from deltaberg.migrate.to_delta.entries import HIDDEN_FOLDER
from deltaberg.migrate.to_delta.survey import DeltaSurvey
from deltaberg.migrate.to_delta.writer import DeltaWriter, WrittenDelta
from deltaberg.migrate.to_iceberg.source_files import DeltaFileReader
from deltaberg.migrate.to_iceberg.survey import IcebergSurvey, SurveyRequest
from deltaberg.migrate.to_iceberg.writer import IcebergWriter, WrittenIceberg
from deltaberg.translate.options import ConvertOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILES_PER_PART: Final = 100_000

_FROM_KEY: Final = "spark.deltaberg.distributeFrom"
_PART_KEY: Final = "spark.deltaberg.filesPerPart"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartSettings:
    """distribute_from: the number of files from which tasks are used (``spark.deltaberg.distributeFrom`` of the
    session). files_per_part: about how many files a task takes; row groups and manifests are not split
    (``spark.deltaberg.filesPerPart``).
    """

    distribute_from: int = DISTRIBUTE_FROM
    files_per_part: int = FILES_PER_PART

    @classmethod
    def of(cls, session: SparkSession) -> PartSettings:
        """The settings of a session. Raises UsageError for a value that is no positive number."""
        return cls(
            distribute_from=_number(session, _FROM_KEY, DISTRIBUTE_FROM, least=0),
            files_per_part=_number(session, _PART_KEY, FILES_PER_PART, least=1),
        )


def _number(session: SparkSession, key: str, usual: int, *, least: int) -> int:
    text = session.conf.get(key, str(usual)) or str(usual)
    if not text.isascii() or not text.isdecimal() or int(text) < least:
        raise UsageError(f"Cannot use the setting {key}={text}: expected a whole number, at least {least}")
    return int(text)


@contextmanager
def distributed(
    work: SparkWork,
    source: Source,
    options: ConvertOptions,
    *,
    settings: PartSettings,
    target: tuple[UndoStorage, str] | None,
    progress: Progress,
) -> Iterator[Splits]:
    """A source in splits for tasks; the driver does it all for few files, and for a whole history.

    target: the future target's folder; None where nothing may be written.
    """
    is_empty = isinstance(source, IcebergSource) and source.snapshot is None
    if options.history == "all" or is_empty or stated_files(source) < settings.distribute_from:
        yield LocalSplits(progress=progress)
        return
    files_per_part = settings.files_per_part
    count_tasks: TaskProgress = partial(progress, "tasks")
    staging: Staging = Inline.of(source.storage)
    if target is not None:
        storage, root = target
        staging = Staging.below(
            source.storage, join(root, HIDDEN_FOLDER if isinstance(source, IcebergSource) else "data"), storage.run
        )
        storage.create_folders(join(staging.folder, "x"))
    try:
        if isinstance(source, DeltaSource):
            delta = DeltaTranslation(work, source, staging, files_per_part=files_per_part, progress=count_tasks)
            yield _SparkSplits(delta=delta, recorded=None if target is None else target[0])
        else:
            assert source.snapshot is not None
            yield _SparkSplits(
                iceberg=IcebergTranslation(
                    work, source, source.snapshot, staging, files_per_part=files_per_part, progress=count_tasks
                )
            )
    finally:
        staging.clear(None if target is None else target[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class _SparkSplits:
    """Satisfies ``Splits`` for a source of either format."""

    delta: DeltaTranslation | None = None
    iceberg: IcebergTranslation | None = None
    recorded: UndoStorage | None = field(default=None)

    def survey_iceberg(self, request: SurveyRequest, reader: DeltaFileReader) -> IcebergSurvey:
        assert self.delta is not None
        return self.delta.survey(request, reader)

    def survey_delta(self, source: IcebergSource, ancestry: Ancestry, deep: bool) -> DeltaSurvey:
        assert self.iceberg is not None
        return self.iceberg.survey(source, ancestry, deep)

    def write_iceberg(self, writer: IcebergWriter) -> WrittenIceberg:
        assert self.delta is not None
        assert self.recorded is not None
        with JobFiles(self.recorded) as job:
            return self.delta.write(writer, job)

    def write_delta(self, writer: DeltaWriter, *, after: tuple[int, int | None] | None) -> WrittenDelta:
        assert after is None  # a history is never distributed
        assert self.iceberg is not None
        return self.iceberg.write(writer)
