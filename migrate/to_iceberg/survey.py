"""A survey of a Delta version's files for an Iceberg target: one pass, read-only."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.datafile import FileField
from deltaberg.delta.schema.char_padding import has_char, padded
from deltaberg.delta.schema.column_mapping import MappingMode
from deltaberg.delta.schema.partition_values import decode_partition_values
from deltaberg.delta.schema.types import (
    ArrayType,
    DateType,
    DeltaType,
    DoubleType,
    FloatType,
    MapType,
    StructType,
    TimestampNtzType,
    TimestampType,
)
from deltaberg.iceberg.snapshot_write.row_lineage import ROW_ID
from deltaberg.migrate.files.file_layout import FileLayout, differs_from_constant
from deltaberg.migrate.source import DeltaSource
from deltaberg.migrate.to_iceberg.source_files import DeltaFileReader, DeltaFiles
from deltaberg.translate import codes
from deltaberg.translate.field_ids import Path, physical_name
from deltaberg.translate.file_sharing import SharingBlocker, fields_by_path, iceberg_blockers
from deltaberg.translate.findings import Code, Finding
from deltaberg.translate.legacy_timestamps import int96_may_overflow, rebase_may_matter
from deltaberg.translate.lineage import DeltaLineage
from deltaberg.translate.options import ConvertOptions

_WITHOUT_ZONE: Final = r"^\s*\d{4,}-\d\d-\d\d([ T][0-9:.]*)?\s*$"
_DOUBTFUL_PARTITION_TYPES: Final = (TimestampType, TimestampNtzType, FloatType, DoubleType)

Mask = npt.NDArray[np.bool_]


@dataclass(slots=True, kw_only=True)
class SurveyTotals:
    """Sums over the live files. rows: what a reader sees. without_row_id: files without a base row id. rewritten_vectors:
    of files that are rewritten, in which ``rewritten_deletes`` rows are deleted. promoted_files: shared ones with types that
    only format version 3 promotes to the column's.
    highest_commit_version: of all files, which another format's table may have counted in its own way."""

    files: int = 0
    rows: int = 0
    bytes: int = 0
    vectors: int = 0
    deleted_rows: int = 0
    without_row_id: int = 0
    highest_commit_version: int = 0
    rewritten_files: int = 0
    rewritten_rows: int = 0
    rewritten_bytes: int = 0
    rewritten_vectors: int = 0
    rewritten_deletes: int = 0
    promoted_files: int = 0

    def plus(self, other: SurveyTotals) -> SurveyTotals:
        """The totals of both."""
        highest = max(self.highest_commit_version, other.highest_commit_version)
        sums = {each.name: getattr(self, each.name) + getattr(other, each.name) for each in fields(SurveyTotals)}
        return SurveyTotals(**{**sums, "highest_commit_version": highest})


@dataclass(slots=True, kw_only=True)
class IcebergSurvey:
    """Totals, and for every code and column the files and rows that it touches.

    rewritten: locations of files to rewrite. without_row_ids: locations of files whose row ids Iceberg's readers cannot
    see. without_field_ids: layouts with columns that have no id. counted_by_footer: files whose row count the log does
    not state. A survey that was made in splits leaves the locations with the splits.
    """

    totals: SurveyTotals = field(default_factory=SurveyTotals)
    findings_by_column: dict[tuple[str, str], tuple[Code, int, int]] = field(default_factory=dict)
    rewritten: set[str] = field(default_factory=set)
    without_row_ids: set[str] = field(default_factory=set)
    without_field_ids: dict[FileLayout, None] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    counted_by_footer: int = 0

    def mark(self, code: Code, what: str, mask: Mask, batch: DeltaFiles) -> None:
        """Add the files of a batch that a code touches."""
        files = int(mask.sum())
        if files:
            self._count(code, what, files, batch.rows_of(mask))

    def _count(self, code: Code, what: str, files: int, rows: int) -> None:
        _, known_files, known_rows = self.findings_by_column.get((code.name, what), (code, 0, 0))
        self.findings_by_column[code.name, what] = (code, known_files + files, known_rows + rows)

    def merge(self, other: IcebergSurvey) -> None:
        """Add a survey of other files of the same version."""
        self.totals = self.totals.plus(other.totals)
        for (_, what), (code, files, rows) in other.findings_by_column.items():
            self._count(code, what, files, rows)
        self.rewritten |= other.rewritten
        self.without_row_ids |= other.without_row_ids
        self.without_field_ids |= other.without_field_ids
        self.findings += other.findings
        self.counted_by_footer += other.counted_by_footer

    def without_files(self) -> IcebergSurvey:
        """The survey without the locations of single files, which can be many."""
        return replace(self, rewritten=set(), without_row_ids=set())

    def all_findings(self) -> list[Finding]:
        marked = [
            Finding(code=code, what=what, files=files, rows=rows)
            for (_, what), (code, files, rows) in self.findings_by_column.items()
        ]
        return [*marked, *self.findings]


def highest_commit_version(adds: pa.RecordBatch) -> int:
    """The highest ``defaultRowCommitVersion`` of a batch of files; 0 where none has one."""
    return int(pc.max(adds.column("default_row_commit_version")).as_py() or 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class SurveyRequest:
    """The input of a survey of one Delta version; can be pickled.

    schema: with mapping metadata only where it counts. format_version: the highest that the target may get.
    """

    source: DeltaSource
    options: ConvertOptions
    schema: StructType
    ids: Mapping[Path, int]
    lineage: DeltaLineage
    format_version: int

    def surveyor(self, reader: DeltaFileReader, result: IcebergSurvey) -> IcebergSurveyor:
        """Surveys files that ``reader`` describes and adds to ``result``."""
        return IcebergSurveyor(
            self.source,
            reader,
            self.options,
            schema=self.schema,
            ids=self.ids,
            lineage=self.lineage,
            format_version=self.format_version,
            result=result,
        )


Surveying = Callable[[SurveyRequest, DeltaFileReader], IcebergSurvey]
"""Surveys every file of a version. Files that cannot be read are noted in the reader's sampler."""


def survey_iceberg(request: SurveyRequest, reader: DeltaFileReader) -> IcebergSurvey:
    """Survey every file of the version, in this process."""
    result = IcebergSurvey()
    for _ in reader.passes():
        result = request.surveyor(reader, IcebergSurvey()).survey()
    result.totals.rewritten_files = len(result.rewritten)
    result.counted_by_footer = reader.counted_by_footer
    return result


class IcebergSurveyor:
    """Surveys every file of one Delta version."""

    def __init__(
        self,
        source: DeltaSource,
        reader: DeltaFileReader,
        options: ConvertOptions,
        *,
        schema: StructType,
        ids: Mapping[Path, int],
        lineage: DeltaLineage,
        format_version: int,
        result: IcebergSurvey,
    ) -> None:
        """schema: with mapping metadata only where it counts. format_version: the highest that the target may get.
        result: what is added to."""
        self.source = source
        self.reader = reader
        self.options = options
        self.schema = schema
        self.ids = ids
        self.lineage = lineage
        self.format_version = format_version
        self.partition_columns = source.snapshot.metadata.partition_columns
        self.partition_names = frozenset(physical_name(schema.field(name)) for name in self.partition_columns)
        self.temporal = tuple(_temporal_leaves(schema, (), "", in_collection=False))
        self.result = result
        self._held_of: dict[int, dict[Path, FileField]] = {}
        self._obstacles_of: dict[int, tuple[SharingBlocker, ...]] = {}
        self._newest_only: dict[int, bool] = {}
        self._known_layouts: set[int] = set()

    def survey(self) -> IcebergSurvey:
        """Every file of the version. Raises like ``sample``, and the errors of reading footers."""
        for batch in self.reader.batches():
            self.sample(batch)
        return self.result

    def sample(self, batch: DeltaFiles) -> None:
        """Some files. Raises CorruptLog for partition values that do not parse."""
        self._add_up(batch)
        self._examine_partition_texts(batch)
        rewritten = np.zeros(len(batch.layout), dtype=bool)
        for index in np.unique(batch.layout):
            self._examine_group(int(index), batch.layout == index, batch, rewritten)
        if rewritten.any():
            self.result.rewritten.update(batch.locations.filter(pa.array(rewritten)).to_pylist())
            self.result.totals.rewritten_rows += batch.rows_of(rewritten)
            self.result.totals.rewritten_bytes += int(batch.adds.column("size").to_numpy()[rewritten].sum())
            vectors = _mask(batch.adds.column("deletion_vector").is_valid())
            self.result.totals.rewritten_vectors += int((vectors & rewritten).sum())
            self.result.totals.rewritten_deletes += int(batch.deleted.to_numpy(zero_copy_only=False)[rewritten].sum())

    def _add_up(self, batch: DeltaFiles) -> None:
        totals, deleted = self.result.totals, batch.deleted
        totals.files += batch.adds.num_rows
        totals.bytes += pc.sum(batch.adds.column("size")).as_py()
        totals.vectors += batch.adds.num_rows - batch.adds.column("deletion_vector").null_count
        totals.deleted_rows += pc.sum(deleted).as_py()
        totals.rows += pc.sum(batch.record_counts).as_py() - pc.sum(deleted).as_py()
        totals.without_row_id += batch.adds.column("base_row_id").null_count
        totals.highest_commit_version = max(totals.highest_commit_version, highest_commit_version(batch.adds))
        too_many = pc.greater(deleted, batch.record_counts)
        if pc.any(too_many).as_py():
            row = pc.index(too_many, True).as_py()
            detail = f"{deleted[row]} of {batch.record_counts[row]} rows"
            what = str(batch.locations[row])
            self.result.findings.append(Finding(code=codes.VECTOR_EXCEEDS_FILE, what=what, detail=detail, files=1))

    def _examine_partition_texts(self, batch: DeltaFiles) -> None:
        """Values must parse; instants should have an offset."""
        for name in self.partition_columns:
            column, texts = self.schema.field(name), self._texts(batch, name)
            self._decoded(texts, name)
            if isinstance(column.type, TimestampType):
                zoneless = pc.fill_null(pc.match_substring_regex(texts, _WITHOUT_ZONE), False)
                self.result.mark(codes.PARTITION_TIMEZONE, name, _mask(zoneless), batch)

    def _texts(self, batch: DeltaFiles, name: str) -> pa.Array:
        return pc.struct_field(batch.adds.column("partition_values"), [self.partition_columns.index(name)])

    def _decoded(self, texts: pa.Array, name: str) -> pa.Array:
        return decode_partition_values(
            texts,
            self.schema.field(name).type,
            column=name,
            partition_timezone=self.options.partition_timezone,
        )

    def _examine_group(self, index: int, here: Mask, batch: DeltaFiles, rewritten: Mask) -> None:
        layout = self.reader.survey.layout[index]
        if index not in self._known_layouts:
            self._known_layouts.add(index)
            if layout.lacks_ids:
                self.result.without_field_ids[layout] = None
        for blocker in self._blockers(index, layout):
            self.result.mark(blocker.code, blocker.column, here, batch)
            rewritten |= here
        held = self._held(index, layout)
        for leaf in self.temporal:
            found = held.get(leaf.path)
            if found is not None and leaf.path[0] not in self.partition_names:
                self._examine_legacy_forms(leaf, found, layout, here, batch, rewritten)
        if layout.has_ids:
            self._examine_partition_columns(held, here, batch, rewritten)
        self._examine_double_partitions(layout, held, here, batch, rewritten)
        self._examine_lineage(layout, here, batch, rewritten)
        self._look_at_maps(layout, here, batch, rewritten)
        if self._needs_newest_version(index, layout):
            self.result.totals.promoted_files += int((here & ~rewritten).sum())

    def _examine_legacy_forms(
        self,
        leaf: TemporalLeaf,
        found: FileField,
        layout: FileLayout,
        here: Mask,
        batch: DeltaFiles,
        rewritten: Mask,
    ) -> None:
        """INT96 and the hybrid calendar do no harm where statistics prove that all values are modern."""
        if found.first_leaf in layout.int96:
            doubtful = (
                here
                if leaf.in_collection
                else here & _mask(int96_may_overflow(batch.stats, leaf.path, batch.record_counts))
            )
            self.result.mark(codes.INT96_OUT_OF_RANGE, leaf.name, doubtful, batch)
            self.result.mark(codes.INT96, leaf.name, here & ~doubtful, batch)
            rewritten |= here if self.options.strict else doubtful
        if found.calendar is not None:
            doubtful = (
                here
                if leaf.in_collection
                else here & _mask(rebase_may_matter(batch.stats, leaf.path, leaf.type, batch.record_counts))
            )
            self.result.mark(codes.LEGACY_CALENDAR, leaf.name, doubtful, batch)
            rewritten |= doubtful

    def _examine_partition_columns(
        self, held: dict[Path, FileField], here: Mask, batch: DeltaFiles, rewritten: Mask
    ) -> None:
        """In files with field ids Iceberg's readers prefer the file's value, so it has to be the log's.

        Only where both could differ is a footer read: null and the empty string, instants, floats.
        """
        for name in self.partition_columns:
            column = self.schema.field(name)
            found = held.get((physical_name(column),))
            if found is None:
                continue
            texts = self._texts(batch, name)
            doubtful = isinstance(column.type, _DOUBTFUL_PARTITION_TYPES) or has_char(column)
            risky = here & (_mask(pc.is_null(texts)) | doubtful)
            if not risky.any():
                continue
            values = padded(self._decoded(texts, name), column).filter(pa.array(risky))
            locations = batch.locations.filter(pa.array(risky)).to_pylist()
            differs = np.zeros(len(here), dtype=bool)
            differs[np.flatnonzero(risky)] = differs_from_constant(self.source.storage, locations, found.name, values)
            self.result.mark(codes.PARTITION_VALUE_DIFFERS, name, differs, batch)
            rewritten |= differs

    def _examine_double_partitions(
        self, layout: FileLayout, held: dict[Path, FileField], here: Mask, batch: DeltaFiles, rewritten: Mask
    ) -> None:
        """Values that single precision cannot hold have to be in the file, under a field id."""
        for name in self.partition_columns:
            column = self.schema.field(name)
            in_file = (physical_name(column),) in held and not layout.lacks_ids
            if isinstance(column.type, DoubleType) and not in_file:
                values = self._decoded(self._texts(batch, name), name)
                single = values.cast(pa.float32(), safe=False).cast(pa.float64())
                exact = pc.or_(pc.equal(values, single), pc.is_nan(values))
                doubtful = here & ~_mask(pc.fill_null(exact, True))
                self.result.mark(codes.PARTITION_DOUBLE, name, doubtful, batch)
                rewritten |= doubtful

    def _examine_lineage(self, layout: FileLayout, here: Mask, batch: DeltaFiles, rewritten: Mask) -> None:
        """Materialised row ids that lack Iceberg's reserved field id are invisible to its readers."""
        name = self.lineage.row_id_column
        if not self.lineage.enabled or name is None or layout.fields is None or self.format_version < 3:
            return
        stored = next((each for each in layout.fields if each.name == name), None)
        if stored is None or stored.field_id == ROW_ID.field_id:
            return
        self.result.mark(codes.LINEAGE_MATERIALIZED, name, here, batch)
        if self.options.strict:
            rewritten |= here
        else:
            self.result.without_row_ids.update(batch.locations.filter(pa.array(here)).to_pylist())

    def _look_at_maps(self, layout: FileLayout, here: Mask, batch: DeltaFiles, rewritten: Mask) -> None:
        """Without field ids, their keys and values are found through the names on the way."""
        if layout.has_ids or not (here & ~rewritten).any():
            return
        for name in layout.unusual_maps:
            self.result.mark(codes.MAP_GROUP_NAMES, name, here, batch)
            if self.options.strict:
                rewritten |= here

    def _blockers(self, index: int, layout: FileLayout) -> tuple[SharingBlocker, ...]:
        found = self._obstacles_of.get(index)
        if found is None:
            held = self._held(index, layout)
            blockers = list(self._obstacles_at(index, layout, self.format_version))
            blockers.extend(SharingBlocker(code=codes.TWO_LEVEL_LISTS, column=name) for name in layout.two_level_lists)
            blockers.extend(
                SharingBlocker(code=codes.CHAR_PADDING, column=column.name)
                for column in self.schema.fields
                if has_char(column)
                and (physical_name(column),) in held
                and physical_name(column) not in self.partition_names
            )
            found = self._obstacles_of[index] = tuple(dict.fromkeys(blockers))
        return found

    def _obstacles_at(self, index: int, layout: FileLayout, format_version: int) -> tuple[SharingBlocker, ...]:
        hidden = () if layout.has_ids else [(name,) for name in self.partition_names]
        held = self._held(index, layout)
        return iceberg_blockers(
            layout.fields or (), self.schema, self.ids, held, format_version=format_version, skip=hidden
        )

    def _needs_newest_version(self, index: int, layout: FileLayout) -> bool:
        """Whether readers of a lower version than ``format_version`` could not promote what the files hold."""
        needs = self._newest_only.get(index)
        if needs is None:
            below = self._obstacles_at(index, layout, self.format_version - 1)
            needs = below != self._obstacles_at(index, layout, self.format_version)
            self._newest_only[index] = needs
        return needs

    def _held(self, index: int, layout: FileLayout) -> dict[Path, FileField]:
        found = self._held_of.get(index)
        if found is None:
            by_id = self.source.snapshot.column_mapping.mode is MappingMode.ID
            found = self._held_of[index] = fields_by_path(layout.fields or (), self.schema, self.ids, by_id=by_id)
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class TemporalLeaf:
    """A date or timestamp field of a Delta schema."""

    path: Path
    name: str
    type: DeltaType
    in_collection: bool


def _temporal_leaves(kind: DeltaType, path: Path, name: str, *, in_collection: bool) -> Iterator[TemporalLeaf]:
    match kind:
        case StructType(fields=fields):
            for column in fields:
                full = f"{name}.{column.name}" if name else column.name
                below = (*path, physical_name(column))
                yield from _temporal_leaves(column.type, below, full, in_collection=in_collection)
        case ArrayType(element_type=element):
            yield from _temporal_leaves(element, (*path, "element"), f"{name}.element", in_collection=True)
        case MapType(key_type=key, value_type=value):
            yield from _temporal_leaves(key, (*path, "key"), f"{name}.key", in_collection=True)
            yield from _temporal_leaves(value, (*path, "value"), f"{name}.value", in_collection=True)
        case DateType() | TimestampType():
            yield TemporalLeaf(path=path, name=name, type=kind, in_collection=in_collection)


def _mask(values: pa.Array) -> Mask:
    return np.asarray(values.to_numpy(zero_copy_only=False), dtype=bool)
