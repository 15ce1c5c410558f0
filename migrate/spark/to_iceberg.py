"""A Delta version translated in tasks: each takes a part of its checkpoint, or some of the files of the commits after
it.

A task surveys its files as the local engine does, and later makes entries of them as the local engine does, into
manifests of its own. The driver adds up the surveys, decides, and commits the manifests.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa

from deltaberg.delta.checkpoint.checkpoint_reader import CheckpointPart
from deltaberg.delta.log.add_path import path_keys
from deltaberg.delta.log.log_replay import ReplayedFiles
from deltaberg.delta.log.path_fingerprints import fingerprints
from deltaberg.iceberg.snapshot_write.added_files import AddedManifests, ManifestRecipe
from deltaberg.iceberg.snapshot_write.snapshot_builder import SnapshotBuilder
from deltaberg.migrate.files.footers import ONE_BY_ONE, FooterSampler
from deltaberg.migrate.source import DeltaSource
from deltaberg.migrate.spark.job_files import JobFiles
from deltaberg.migrate.spark.staging import Place, StagedPaths, StagedRewrites, Staging, any_repeated, staged_rewrites
from deltaberg.migrate.spark.tasks import Attempt, SparkWork, TaskProgress
from deltaberg.migrate.target.locations import join
from deltaberg.migrate.to_iceberg.deletes import PositionDeleteFiles, PuffinVectors
from deltaberg.migrate.to_iceberg.entries import DeleteSink, IcebergEntries, Written
from deltaberg.migrate.to_iceberg.provenance import DeltaProvenance
from deltaberg.migrate.to_iceberg.source_files import DeltaFileReader, DeltaFiles
from deltaberg.migrate.to_iceberg.survey import IcebergSurvey, SurveyRequest
from deltaberg.migrate.to_iceberg.writer import IcebergWriter, WrittenIceberg
from deltaberg.storage import Storage
from deltaberg.storage.location_roots import Roots

_TAIL_ROWS: Final = 8192


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaSplit:
    """The split of one task. part: of the checkpoint; None: the files of later commits that stand at ``rows``.

    one_by_one: how many of its files may be sampled one by one. found: where its survey left the facts about single
    files; None before the survey, and where there are none.
    """

    part: CheckpointPart | None
    rows: Place | None
    one_by_one: int
    found: Place | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaParts:
    """The units of a version and what tasks need to read any of them; can be pickled without the units.

    keys: where the keys of later commits are staged, which hide files of the checkpoint; None where there are none.
    """

    source: DeltaSource
    staging: Staging
    keys: Place | None

    def batches(self, unit: DeltaSplit) -> Iterator[pa.RecordBatch]:
        """The live files of a unit, in batches of ADD_SCHEMA."""
        snapshot = self.source.snapshot
        if unit.part is None:
            assert unit.rows is not None
            yield from snapshot.with_stats(self.staging.rows(unit.rows))
            return
        tail: ReplayedFiles | None = None if self.keys is None else self.staging.take(self.keys)
        yield from snapshot.part_files(unit.part, tail)


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownFiles:
    """The facts about single files of a split, by location: those to rewrite, those whose row ids are not carried, and
    the rows of those whose log does not state them.
    """

    rewritten: frozenset[str]
    without_row_ids: frozenset[str]
    row_counts: dict[str, int]

    def __bool__(self) -> bool:
        return bool(self.rewritten or self.without_row_ids or self.row_counts)


_NOTHING_KNOWN: Final = KnownFiles(rewritten=frozenset(), without_row_ids=frozenset(), row_counts={})


@dataclass(frozen=True, slots=True, kw_only=True)
class ToIcebergSurvey:
    """What a task found. paths, found: where it left the fingerprints of its paths and what it knows of single files."""

    survey: IcebergSurvey
    footers: FooterSampler
    outside: Roots
    paths: StagedPaths
    found: Place | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToIcebergSurveyTask:
    """Surveys the files of one split. distrusted: writers whose files are all sampled."""

    parts: DeltaParts
    request: SurveyRequest
    provenance: DeltaProvenance
    distrusted: frozenset[str] = frozenset()

    def __call__(self, unit: DeltaSplit, attempt: Attempt) -> ToIcebergSurvey:
        staging = self.parts.staging
        reader = DeltaFileReader(
            self.parts.source,
            deep=self.request.options.reads_all_footers,
            one_by_one=unit.one_by_one,
            provenance=self.provenance,
            distrusted=self.distrusted,
        )
        survey, paths = IcebergSurvey(), [np.zeros(0, np.uint64)]
        for _ in reader.passes():
            survey, paths = IcebergSurvey(), [np.zeros(0, np.uint64)]
            surveyor = self.request.surveyor(reader, survey)
            for adds in self.parts.batches(unit):
                if adds.num_rows:
                    paths.append(fingerprints(path_keys(adds.column("path"))))
                    surveyor.sample(reader.describe(adds))
        survey.totals.rewritten_files = len(survey.rewritten)
        survey.counted_by_footer = reader.counted_by_footer
        every = np.concatenate(paths)
        every.sort()
        known = KnownFiles(
            rewritten=frozenset(survey.rewritten),
            without_row_ids=frozenset(survey.without_row_ids),
            row_counts=dict(reader.row_counts),
        )
        return ToIcebergSurvey(
            survey=survey.without_files(),
            footers=reader.survey.without_files(),
            outside=reader.outside,
            paths=staging.put_paths(attempt.name, every),
            found=staging.put(f"{attempt.name}-known", known) if known else None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ToIcebergResult:
    """The files that a task wrote. deletes: files of deletes. rewrites: where the files to rewrite are staged."""

    manifests: AddedManifests
    files: int
    rows: int
    deletes: tuple[str, ...]
    rewrites: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToIcebergTask:
    """Makes entries of the files of one unit. entries: without files to rewrite, which each unit knows itself.

    job: begins the names of all files.
    """

    parts: DeltaParts
    entries: IcebergEntries
    recipe: ManifestRecipe
    storage: Storage
    data_folder: str
    job: str

    def __call__(self, unit: DeltaSplit, attempt: Attempt) -> ToIcebergResult:
        staging = self.parts.staging
        known: KnownFiles = _NOTHING_KNOWN if unit.found is None else staging.take(unit.found)
        reader = DeltaFileReader(self.parts.source, deep=False, row_counts=known.row_counts)
        entries = replace(
            self.entries,
            rewritten=known.rewritten,
            without_row_ids=known.without_row_ids if self.entries.lineage else frozenset(),
            written=Written(),
        )
        name = f"{self.job}-{attempt.name}"
        deletes = self._sink(name)
        with (
            deletes,
            StagedRewrites(staging, attempt.name) as queue,
            self.recipe.open(self.storage, name) as added,
        ):
            for batch in entries.entries(self._located(unit, reader), deletes, queue=queue):
                added.write(batch)
            for batch in deletes.entries():
                added.write(batch)
        return ToIcebergResult(
            manifests=added.written,
            files=entries.written.files,
            rows=entries.written.rows,
            deletes=deletes.locations,
            rewrites=tuple(queue.locations),
        )

    def _located(self, unit: DeltaSplit, reader: DeltaFileReader) -> Iterator[DeltaFiles]:
        for adds in self.parts.batches(unit):
            if adds.num_rows:
                yield reader.locate(adds)

    def _sink(self, name: str) -> DeleteSink:
        kind = PuffinVectors if self.recipe.metadata.format_version >= 3 else PositionDeleteFiles
        return kind(self.storage, self.data_folder, spec_id=self.entries.spec.spec_id, name=name)


class DeltaTranslation:
    """One conversion of a Delta version to Iceberg, whose files are surveyed and translated in tasks."""

    def __init__(
        self,
        work: SparkWork,
        source: DeltaSource,
        staging: Staging,
        *,
        files_per_part: int,
        progress: TaskProgress | None = None,
    ) -> None:
        self._work, self._staging, self._progress = work, staging, progress
        self._parts, self._units = _split(source, staging, files_per_part)

    def survey(self, request: SurveyRequest, reader: DeltaFileReader) -> IcebergSurvey:
        """The result of ``survey_iceberg`` without the locations of single files, which stay with the splits.

        Raises CorruptLog, after all files were surveyed, as ``Snapshot.add_files`` does.
        """
        task = ToIcebergSurveyTask(parts=self._parts, request=request, provenance=reader.provenance)
        while True:
            found = self._looked_at(task)
            footers = FooterSampler(request.source.storage, deep=request.options.reads_all_footers)
            for each in found:
                footers.merge(each.footers)
            # What one task saw of a writer makes the files doubtful that others took to be alike.
            distrusted = footers.judged()
            if distrusted <= task.distrusted:
                break
            task = replace(task, distrusted=distrusted)
        repeated = any_repeated(self._staging.storage, [each.paths for each in found])
        request.source.snapshot.check_parts(None, repeated=repeated)
        self._units = [replace(unit, found=each.found) for unit, each in zip(self._units, found, strict=True)]
        reader.survey.merge(footers)
        survey = IcebergSurvey()
        for each in found:
            survey.merge(each.survey)
            reader.outside.merge(each.outside)
        return survey

    def _looked_at(self, task: ToIcebergSurveyTask) -> list[ToIcebergSurvey]:
        where = task.request.source.location
        done = self._work.run(task, self._units, description=f"deltaberg: look at {where}", progress=self._progress)
        return [each.result for each in done]

    def write(self, writer: IcebergWriter, job: JobFiles) -> WrittenIceberg:
        """Commit the snapshot that ``writer`` describes. Raises like ``IcebergWriter.write``."""
        return writer.write(partial(self._add_files, writer, job), merge_manifests=False)

    def _add_files(self, writer: IcebergWriter, job: JobFiles, builder: SnapshotBuilder) -> Written:
        carries_lineage = writer.design.carries_lineage
        data_folder = join(writer.root, "data")
        entries = writer.all_entries()
        written = entries.written
        recipe = builder.manifest_recipe(keep_inherited=carries_lineage)
        job.writes_to(data_folder, recipe.folder)
        task = ToIcebergTask(
            parts=self._parts,
            entries=replace(entries, rewritten=frozenset(), without_row_ids=frozenset()),
            recipe=recipe,
            storage=self._staging.storage,
            data_folder=data_folder,
            job=job.name,
        )
        done = self._work.run(
            task, self._units, description=f"deltaberg: write manifests of {writer.root}", progress=self._progress
        )
        parts = [each.result for each in done]
        builder.add_manifests(part.manifests for part in parts)
        for part in parts:
            job.keep(*part.manifests.locations, *part.deletes)
            written.files += part.files
            written.rows += part.rows
        staged = [location for part in parts for location in part.rewrites]
        if staged:
            adds = (batch for batch, _ in staged_rewrites(self._staging, staged))
            builder.add_files(entries.rewrite(adds), keep_inherited=carries_lineage)
        return written


def _split(source: DeltaSource, staging: Staging, files_per_part: int) -> tuple[DeltaParts, list[DeltaSplit]]:
    """The splits; the actions of the commits after the checkpoint are staged for the tasks."""
    snapshot = source.snapshot
    tail = snapshot.tail
    hidden = 0 if tail is None else len(tail.logical_files)
    units: list[DeltaSplit] = []
    before = 0
    for part in snapshot.checkpoint_parts(files_per_part=files_per_part):
        units.append(DeltaSplit(part=part, rows=None, one_by_one=_allowance(before - hidden)))
        before += part.files or 0
    keys = None
    if tail is not None:
        if units:
            keys = staging.put("tail-keys", tail.without_rows())
        for number, start in enumerate(range(0, tail.adds.num_rows, files_per_part)):
            some = tail.adds.slice(start, files_per_part).to_batches(max_chunksize=_TAIL_ROWS)
            rows = staging.put_rows(f"tail-{number}", some)
            units.append(DeltaSplit(part=None, rows=rows, one_by_one=_allowance(before - hidden + start)))
    return DeltaParts(source=source, staging=staging, keys=keys), units


def _allowance(files_before: int) -> int:
    """How many files of a split are sampled one by one, when at least so many come before it."""
    return max(0, ONE_BY_ONE - max(0, files_before))
