"""An Iceberg snapshot translated in tasks: each takes some data manifests with the delete manifests that can touch
them.

A task surveys its files as the local engine does, and later makes ``add`` actions of them as the local engine does,
into a part of the target's first checkpoint. The driver adds up the surveys, decides, and commits.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa

from deltaberg.delta.commit.distributed_create import FIRST_VERSION, PartsRecipe, TableInParts, WrittenPart
from deltaberg.delta.deletion_vector.deletion_vector import DeletionVectorDescriptor
from deltaberg.delta.deletion_vector.deletion_vector_file import write_deletion_vectors
from deltaberg.delta.log.actions import Metadata
from deltaberg.errors import CommitStateUnknown, error_context
from deltaberg.iceberg.deletes.delete_index import DeleteMatches
from deltaberg.iceberg.deletes.resolved_deletes import resolve_matched
from deltaberg.iceberg.manifest.live_files import live_entries, live_manifests
from deltaberg.iceberg.manifest.manifest_list import ManifestContent, ManifestFile
from deltaberg.iceberg.metadata.snapshot import Snapshot
from deltaberg.iceberg.scan.scan_task import matched_batches
from deltaberg.iceberg.snapshot_write.splits import (
    SnapshotSplit,
    listed_files,
    snapshot_splits,
    split_data_files,
    split_deletes,
)
from deltaberg.migrate.files.file_layout import FileLayout
from deltaberg.migrate.files.footers import ONE_BY_ONE, FooterSampler
from deltaberg.migrate.files.outside_files import outside_of
from deltaberg.migrate.files.rewrite import InThisProcess
from deltaberg.migrate.files.rewrite_queue import RewriteQueue
from deltaberg.migrate.refusal import Refused
from deltaberg.migrate.source import IcebergSource
from deltaberg.migrate.spark.equality_deletes import resolve_equality_deletes
from deltaberg.migrate.spark.staged_positions import StagedPositions
from deltaberg.migrate.spark.staging import Place, StagedPaths, StagedRewrites, Staging, any_repeated, staged_rewrites
from deltaberg.migrate.spark.tasks import Attempt, SparkWork, TaskProgress
from deltaberg.migrate.target.interrupted_create import VECTORS_FOLDER, creation_lock_text
from deltaberg.migrate.target.locations import join
from deltaberg.migrate.target.watermark import describe_source
from deltaberg.migrate.to_delta.ancestry import Ancestry
from deltaberg.migrate.to_delta.entries import HIDDEN_FOLDER, DeltaEntries
from deltaberg.migrate.to_delta.provenance import IcebergProvenance
from deltaberg.migrate.to_delta.survey import DeltaSurvey, examine_deletes, examine_files
from deltaberg.migrate.to_delta.writer import RULES_GUARANTEED, AddedSums, DeltaWriter, SnapshotCommit, WrittenDelta
from deltaberg.storage import Storage, StorageError
from deltaberg.translate.codes import FILE_LISTED_TWICE
from deltaberg.translate.findings import Finding

_NAMESPACE: Final = uuid.UUID("5c1f2b3e-8a53-5d0e-9a0b-5b4f0b9c7e21")
_NO_WORDS: Final = np.zeros(0, np.uint64)


@dataclass(frozen=True, slots=True, kw_only=True)
class IcebergSplit:
    """The split of one task. one_by_one: how many of its files may be sampled one by one. found: where its survey left
    the layouts; None before the survey. number: of its part of the target's checkpoint.
    """

    part: SnapshotSplit
    one_by_one: int
    number: int
    found: Place | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteSplit:
    """Delete manifests to survey. sought: how many of their files may be checked for existence."""

    manifests: tuple[ManifestFile, ...]
    sought: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ToDeltaSurvey:
    """What a task found. found: where it left what it knows of the footers of single files."""

    survey: DeltaSurvey
    found: Place | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToDeltaSurveyTask:
    """Surveys the files of one split. distrusted: writers whose files are all sampled."""

    source: IcebergSource
    ancestry: Ancestry
    staging: Staging
    deep: bool
    distrusted: frozenset[str] = frozenset()

    def __call__(self, unit: IcebergSplit | DeleteSplit, attempt: Attempt) -> ToDeltaSurvey:
        source = self.source
        one_by_one = unit.one_by_one if isinstance(unit, IcebergSplit) else unit.sought
        footers = FooterSampler(
            source.storage,
            deep=self.deep,
            one_by_one=one_by_one,
            contradicts=IcebergProvenance.of(source.table.metadata).contradicts,
            distrusted=self.distrusted,
        )
        found = DeltaSurvey(footers=footers, outside=outside_of(source))
        for _ in footers.passes():
            found = DeltaSurvey(footers=footers, outside=outside_of(source))
            self._look_at(unit, found)
        return ToDeltaSurvey(
            survey=replace(found, footers=footers.without_files()),
            found=self.staging.put(f"{attempt.name}-footers", footers) if isinstance(unit, IcebergSplit) else None,
        )

    def _look_at(self, unit: IcebergSplit | DeleteSplit, found: DeltaSurvey) -> None:
        if isinstance(unit, IcebergSplit):
            for batch in split_data_files(self.source.table, unit.part, with_metrics=False):
                examine_files(found, self.source, self.ancestry.union, batch)
            return
        for manifest in unit.manifests:
            for batch in live_entries(self.source.table, manifest):
                examine_deletes(found, self.source, batch)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToDeltaResult:
    """The files that a task wrote. vectors: deletion vectors that found their data file. rewrites: where the files to
    rewrite are staged.
    """

    written: WrittenPart
    paths: StagedPaths
    vectors: int
    rewrites: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToDeltaTask:
    """Makes ``add`` actions of the files of one unit. rewritten: layouts and spec ids of files to rewrite.

    key: identifies the conversion, so that every attempt writes equal files under equal names.
    """

    entries: DeltaEntries
    snapshot: Snapshot
    rewritten: frozenset[tuple[FileLayout, int]]
    by_key: StagedPositions | None
    recipe: PartsRecipe
    staging: Staging
    key: str

    def __call__(self, unit: IcebergSplit, attempt: Attempt) -> ToDeltaResult:
        with error_context(table=self.entries.source.table.location, version=self.snapshot.snapshot_id):
            return self._translated(unit, attempt)

    def _translated(self, unit: IcebergSplit, attempt: Attempt) -> ToDeltaResult:
        table = self.entries.source.table
        assert unit.found is not None
        footers: FooterSampler = self.staging.take(unit.found)
        places = {layout: place for place, layout in enumerate(footers.layout)}
        rewritten = frozenset((places[layout], spec) for layout, spec in self.rewritten if layout in places)
        entries = replace(self.entries, design=replace(self.entries.design, footers=footers, rewritten=rewritten))
        vectors = _PartVectors(self.staging.storage, self.recipe.table_root, self.key, unit.number)
        deletes = split_deletes(table, unit.part)
        counted = _CountedVectors()
        matched = counted.of(matched_batches(split_data_files(table, unit.part), deletes.index))
        by_key = None
        if self.by_key is not None:
            by_key = self.by_key.reader([manifest.manifest_path for manifest in unit.part.manifests])
        with StagedRewrites(self.staging, attempt.name) as queue:
            resolved = resolve_matched(table, deletes, matched, by_key=by_key)
            adds = entries.adds(resolved, self.snapshot, vectors, queue)
            written = self.recipe.write(self.staging.storage, unit.number, adds)
        return ToDeltaResult(
            written=replace(written, paths=_NO_WORDS),
            paths=self.staging.put_paths(attempt.name, written.paths),
            vectors=counted.vectors,
            rewrites=tuple(queue.locations),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorCheckTask:
    """Matches a part's files with all delete manifests. Raises CorruptMetadata for a vector that belongs to one of them
    but has another partition.
    """

    source: IcebergSource
    snapshot: Snapshot

    def __call__(self, unit: SnapshotSplit, attempt: Attempt) -> int:
        table = self.source.table
        counted = _CountedVectors()
        with error_context(table=table.location, version=self.snapshot.snapshot_id):
            files = split_data_files(table, unit, with_metrics=False)
            for _ in counted.of(matched_batches(files, split_deletes(table, unit).index)):
                pass
        return counted.vectors


class _CountedVectors:
    """Counts the deletion vectors that were found for data files."""

    def __init__(self) -> None:
        self.vectors = 0

    def of(
        self, matched: Iterable[tuple[pa.RecordBatch, DeleteMatches]]
    ) -> Iterator[tuple[pa.RecordBatch, DeleteMatches]]:
        for batch, matches in matched:
            self.vectors += int(np.count_nonzero(matches.vector.counts))
            yield batch, matches


class _PartVectors:
    """Writes the deletion vectors of one part under names that every attempt gives them. Satisfies ``VectorSink``."""

    def __init__(self, storage: Storage, root: str, key: str, number: int) -> None:
        self._storage, self._root, self._key, self._number = storage, root, key, number
        self._files = 0

    def write_deletion_vectors(
        self, vectors: Iterable[tuple[bytes, int]], *, prefix: str = ""
    ) -> tuple[DeletionVectorDescriptor, ...]:
        folder = join(prefix, f"{VECTORS_FOLDER}{self._key}") if prefix else f"{VECTORS_FOLDER}{self._key}"
        return write_deletion_vectors(
            self._storage, self._root, vectors, new_id=self._next_id, prefix=folder
        ).descriptors

    def _next_id(self) -> uuid.UUID:
        self._files += 1
        return uuid.uuid5(_NAMESPACE, f"{self._key}|{self._number}|{self._files}")


class IcebergTranslation:
    """One conversion of an Iceberg snapshot to Delta, whose files are surveyed and translated in tasks."""

    def __init__(
        self,
        work: SparkWork,
        source: IcebergSource,
        snapshot: Snapshot,
        staging: Staging,
        *,
        files_per_part: int,
        progress: TaskProgress | None = None,
    ) -> None:
        self._work, self._staging, self._progress = work, staging, progress
        self._source, self._snapshot, self._files_per_part = source, snapshot, files_per_part
        self._units = _split(source, snapshot, files_per_part)
        self._survey: DeltaSurvey | None = None

    def survey(self, source: IcebergSource, ancestry: Ancestry, deep: bool) -> DeltaSurvey:
        """The result of ``survey_delta``; its footers know layouts, but no file."""
        task = ToDeltaSurveyTask(source=source, ancestry=ancestry, staging=self._staging, deep=deep)
        while True:
            found = self._looked_at(task)
            survey = DeltaSurvey(footers=FooterSampler(source.storage, deep=deep), outside=outside_of(source))
            for each in found:
                survey.merge(each.survey)
            # What one task saw of a writer makes the files doubtful that others took to be alike.
            distrusted = survey.footers.judged()
            if distrusted <= task.distrusted:
                break
            task = replace(task, distrusted=distrusted)
        self._units = [
            replace(unit, found=each.found) for unit, each in zip(self._units, found[: len(self._units)], strict=True)
        ]
        self._survey = survey
        return survey

    def _looked_at(self, task: ToDeltaSurveyTask) -> list[ToDeltaSurvey]:
        units: list[IcebergSplit | DeleteSplit] = [*self._units, *_delete_units(self._source, self._snapshot)]
        done = self._work.run(
            task,
            units,
            description=f"deltaberg: look at {self._source.location}",
            progress=self._progress,
        )
        return [each.result for each in done]

    def write(self, writer: DeltaWriter) -> WrittenDelta:
        """Commit the version that ``writer`` describes as version 1, in a checkpoint. Raises like ``DeltaWriter.write``."""
        return writer.write(partial(self._create, writer), version=FIRST_VERSION)

    def _create(self, writer: DeltaWriter, metadata: Metadata, said: SnapshotCommit) -> AddedSums:
        key = _key(writer, self._files_per_part)
        table = TableInParts(
            writer.storage,
            writer.root,
            metadata=metadata,
            protocol=writer.protocol(metadata),
            parts=1 + len(self._units),
            creation_lock=creation_lock_text(writer.watermark, writer.options_text),
            rules_guaranteed=RULES_GUARANTEED,
            now_ms=lambda: writer.clock_ms,
        )
        table.begin()
        try:
            return self._committed(writer, said, table, key)
        except CommitStateUnknown:
            raise
        except BaseException:
            if table.abandon():
                _delete_below(writer.storage, join(writer.root, HIDDEN_FOLDER, f"{VECTORS_FOLDER}{key}"))
            raise

    def _committed(self, writer: DeltaWriter, said: SnapshotCommit, table: TableInParts, key: str) -> AddedSums:
        done = self._work.run(
            self._task(writer, table.recipe, key),
            self._units,
            description=f"deltaberg: write the checkpoint of {writer.root}",
            progress=self._progress,
        )
        parts = [each.result for each in done]
        if any_repeated(self._staging.storage, [part.paths for part in parts]):
            raise Refused.because(
                Finding(code=FILE_LISTED_TWICE, what="data files"),
                source=describe_source(writer.source),
                to="delta",
                location=writer.root,
            )
        self._check_vectors(sum(part.vectors for part in parts))
        staged = [location for part in parts for location in part.rewrites]
        own = table.commit(
            [part.written for part in parts],
            self._rewritten(writer, staged),
            said.operation,
            parameters=said.parameters,
            timestamp_ms=said.timestamp_ms,
            extra_info=said.extra_info,
            txns=[said.txn],
            reserved_row_ids=said.reserved_row_ids,
        )
        totals = sum((part.written.totals for part in parts), own.totals)
        rows = (totals.rows or 0) - totals.deleted_rows
        return AddedSums(files=totals.files, rows=rows, rewritten_files=own.totals.files)

    def _task(self, writer: DeltaWriter, recipe: PartsRecipe, key: str) -> ToDeltaTask:
        survey = self._survey
        assert survey is not None
        layout = survey.footers.layout
        by_key = None
        if writer.design.keys_in_tasks:
            by_key = resolve_equality_deletes(
                self._work,
                self._source.table,
                self._snapshot,
                folder=join(self._staging.folder, "equality"),
                progress=self._progress,
            )
        return ToDeltaTask(
            entries=replace(writer.entries(), storage=self._staging.storage, runner=InThisProcess()),
            snapshot=self._snapshot,
            rewritten=frozenset((layout[place], spec_id) for place, spec_id in writer.design.rewritten),
            by_key=by_key,
            recipe=recipe,
            staging=self._staging,
            key=key,
        )

    def _check_vectors(self, matched: int) -> None:
        """A vector without its file belongs to a file that is gone, or has the wrong partition."""
        assert self._survey is not None
        if matched == self._survey.deletes["vectors"]:
            return
        parts = snapshot_splits(
            self._source.table, self._snapshot, files_per_part=self._files_per_part, every_delete=True
        )
        self._work.run(
            VectorCheckTask(source=self._source, snapshot=self._snapshot),
            parts,
            description=f"deltaberg: deletion vectors without a file in {self._source.location}",
            progress=self._progress,
        )

    def _rewritten(self, writer: DeltaWriter, staged: Sequence[str]) -> Iterator[pa.RecordBatch]:
        if not staged:
            return
        entries = writer.entries()
        queue = RewriteQueue(entries.rewriter())
        for files, deleted in staged_rewrites(self._staging, staged):
            yield from entries.rewritten_entries(queue.add(files, deleted), self._snapshot)
        yield from entries.rewritten_entries(queue.finish(), self._snapshot)


def _split(source: IcebergSource, snapshot: Snapshot, files_per_part: int) -> list[IcebergSplit]:
    units: list[IcebergSplit] = []
    before = 0
    for number, part in enumerate(snapshot_splits(source.table, snapshot, files_per_part=files_per_part), start=2):
        units.append(IcebergSplit(part=part, one_by_one=max(0, ONE_BY_ONE - before), number=number))
        before += part.files or 0
    return units


def _delete_units(source: IcebergSource, snapshot: Snapshot) -> list[DeleteSplit]:
    units: list[DeleteSplit] = []
    before = 0
    for manifest in live_manifests(source.table, snapshot, ManifestContent.DELETES):
        units.append(DeleteSplit(manifests=(manifest,), sought=max(0, ONE_BY_ONE - before)))
        before += listed_files(manifest) or 0
    return units


def _key(writer: DeltaWriter, files_per_part: int) -> str:
    text = f"{creation_lock_text(writer.watermark, writer.options_text)}|{writer.root}|{files_per_part}"
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _delete_below(storage: Storage, folder: str) -> None:
    with suppress(StorageError):
        for file in list(storage.list(folder)):
            storage.delete(file.location)
        storage.delete_unfinished(folder)
        storage.delete_folder(folder)
