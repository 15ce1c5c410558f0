"""Bring an Iceberg target up to date with its Delta source: each new version becomes a snapshot, made from its commit.

Earlier decisions of the target are kept: field ids, partition spec, format version, whether row ids are carried. The
files that the commits touch are looked up in the target's own manifests; other files are not read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.delta.history import CommitActions
from deltaberg.delta.log.add_path import location_array, path_keys
from deltaberg.delta.log.file_actions import vector_ids
from deltaberg.delta.schema.types import StructType
from deltaberg.errors import Conflict
from deltaberg.iceberg.manifest.live_files import live_entries, live_manifests
from deltaberg.iceberg.manifest.manifest_list import ManifestContent
from deltaberg.iceberg.metadata.snapshot import Snapshot
from deltaberg.iceberg.metadata.snapshot_ref import MAIN_BRANCH
from deltaberg.iceberg.metadata.table_requirement import AssertRefSnapshotId
from deltaberg.iceberg.runtime import Runtime
from deltaberg.iceberg.schema.name_mapping import NAME_MAPPING_PROPERTY, MappedField, NameMapping
from deltaberg.iceberg.table import Table
from deltaberg.iceberg.transaction import Transaction
from deltaberg.migrate.source import DeltaSource
from deltaberg.migrate.target.locations import real_locations
from deltaberg.migrate.target.watermark import LINEAGE_KEY, WATERMARK_KEY
from deltaberg.migrate.to_iceberg.deletes import DeletePlace
from deltaberg.migrate.to_iceberg.design import TRANSACTIONS_KEY, IcebergConversionPlan, properties_of, translated
from deltaberg.migrate.to_iceberg.replay import IcebergReplay, LiveFile
from deltaberg.migrate.to_iceberg.source_files import DeltaFileReader
from deltaberg.migrate.to_iceberg.survey import IcebergSurvey, SurveyRequest
from deltaberg.migrate.to_iceberg.version_range import VersionRange, eras_since
from deltaberg.migrate.to_iceberg.writer import IcebergWriter, WrittenIceberg
from deltaberg.translate import codes
from deltaberg.translate.field_ids import Path, mapped_schema, paired_ids, physical_name
from deltaberg.translate.findings import Finding
from deltaberg.translate.lineage import DeltaLineage, delta_lineage
from deltaberg.translate.name_mapping import delta_to_name_mapping
from deltaberg.translate.options import ConvertOptions
from deltaberg.translate.schema import required_version


@dataclass(frozen=True, slots=True, kw_only=True)
class IcebergIncrement:
    """The commits that an Iceberg target needs. commits: the source's, oldest first. live: the files of the target that
    they touch, by ``path_keys``.
    """

    target: Table
    design: IcebergConversionPlan
    commits: tuple[CommitActions, ...]
    live: Mapping[str, LiveFile]


def design_increment(
    source: DeltaSource, base: DeltaSource, target: Table, options: ConvertOptions
) -> IcebergIncrement:
    """Decide how the versions after ``base``, which the target holds, become snapshots. Read-only.

    Refusals are findings of the design. Raises VersionNotFound where the log no longer has a commit, Conflict where the
    target lacks a file that the source's version had.
    """
    metadata = target.metadata
    known = paired_ids(mapped_schema(base.snapshot.column_mapping), metadata.schema)
    periods = eras_since(
        source, base, format_version=options.format_version or 3, known=known, last_id=metadata.last_column_id
    )
    commits = tuple(periods.commits())
    schemas = [period.schema for period in periods.periods]
    needed = max(metadata.format_version, *(required_version(schema)[0] for schema in schemas), periods.format_version)
    version = metadata.format_version if options.format_version is not None else needed
    lineage, carries = _lineage(base, periods, target)
    reader = DeltaFileReader(source, deep=True)
    survey = _surveyed(periods, commits, reader, options, lineage, version)
    findings: list[Finding] = [*survey.all_findings(), *reader.survey.findings()]
    if periods.truncated_because is not None:
        findings.append(Finding(code=codes.SYNC_SCHEMA, what="schema", detail=periods.truncated_because))
    if survey.totals.vectors:
        by_version = {1: codes.DELETES_NEED_VERSION_2, 2: codes.DELETION_VECTORS_TO_POSITIONS}
        code = by_version.get(version, codes.DELETION_VECTORS)
        findings.append(
            Finding(code=code, what="deletion vectors", files=survey.totals.vectors, rows=survey.totals.deleted_rows)
        )
    translations = tuple(translated(schema, periods.ids, version) for schema in schemas)
    findings.extend(finding for each in translations for finding in dict.fromkeys(each.findings))
    mapping = _name_mapping(periods, survey, target, left_out=[path for each in translations for path in each.left_out])
    design = IcebergConversionPlan(
        schema=schemas[-1],
        ids=periods.ids,
        translation=translations[-1],
        spec=metadata.spec,
        format_version=version,
        name_mapping=mapping,
        last_column_id=max([metadata.last_column_id, *_mapped_ids(mapping.fields)]),
        reader=reader,
        rewritten=frozenset(survey.rewritten),
        without_row_ids=frozenset(survey.without_row_ids) if carries else frozenset(),
        lineage=lineage,
        carries_lineage=carries,
        properties=properties_of(source, findings),
        totals=survey.totals,
        vectors=survey.totals.vectors,
        deleted_rows=survey.totals.deleted_rows,
        periods=periods,
        era_translations=translations,
        findings=tuple(findings),
    )
    return IcebergIncrement(target=target, design=design, commits=commits, live=_live(base, target, commits))


def write_increment(increment: IcebergIncrement, writer: IcebergWriter, *, squash: bool) -> WrittenIceberg:
    """Commit a snapshot for each of the source's commits, all of them at once. squash: one snapshot for all.

    Raises IcebergConflict where another writer has committed to the target meanwhile, else like
    ``IcebergWriter.write``.
    """
    target, design = increment.target, increment.design
    head = target.metadata.current_snapshot
    replay = IcebergReplay(writer, live=increment.live, last_number=target.metadata.last_sequence_number)
    groups = [list(increment.commits)] if squash else [[each] for each in increment.commits]
    with target.transaction(Runtime(new_uuid=lambda: str(writer.run.new()))) as transaction:
        transaction.require(
            AssertRefSnapshotId(ref=MAIN_BRANCH, snapshot_id=None if head is None else head.snapshot_id)
        )
        if design.format_version != target.metadata.format_version:
            transaction.upgrade(design.format_version)
        _set_properties(transaction, increment)
        commits = tuple((group[-1].version, replay.snapshot(transaction, group)) for group in groups)
        table = transaction.commit(timestamp_ms=writer.clock_ms)
    return replay.written(commits, table.metadata_location)


def _lineage(base: DeltaSource, periods: VersionRange, target: Table) -> tuple[DeltaLineage, bool]:
    """The source's row tracking, and whether the target goes on with its ids: it has them so far, and every new version
    has them."""
    states = [
        delta_lineage(snapshot.protocol, snapshot.metadata.properties, snapshot.domain_metadata)
        for snapshot in (base.snapshot, *(period.source.snapshot for period in periods.periods))
    ]
    metadata = target.metadata
    line = metadata.ancestors(metadata.current_snapshot_id)
    own = next((each for each in line if WATERMARK_KEY in each.summary), None)
    stated = own is not None and own.summary.get(LINEAGE_KEY) == "carried"
    carried = stated or (metadata.next_row_id or 0) == states[0].next_row_id
    return states[-1], metadata.format_version >= 3 and carried and all(each.enabled for each in states)


def _surveyed(
    periods: VersionRange,
    commits: Sequence[CommitActions],
    reader: DeltaFileReader,
    options: ConvertOptions,
    lineage: DeltaLineage,
    version: int,
) -> IcebergSurvey:
    result = IcebergSurvey()
    surveyors = {
        period.first: SurveyRequest(
            source=period.source,
            options=options,
            schema=period.schema,
            ids=periods.ids,
            lineage=lineage,
            format_version=version,
        ).surveyor(reader, result)
        for period in periods.periods
    }
    for actions in commits:
        if actions.adds.num_rows:
            surveyors[periods.period_of(actions.version).first].sample(reader.describe(actions.adds))
    result.totals.rewritten_files = len(result.rewritten)
    return result


# The name mapping


def _name_mapping(
    periods: VersionRange, survey: IcebergSurvey, target: Table, *, left_out: Sequence[Path]
) -> NameMapping:
    """The target's mapping with the columns that have come since; ids that it gave to no column may change."""
    schema: StructType = periods.periods[-1].schema
    columns = periods.periods[-1].source.snapshot.metadata.partition_columns
    hidden = [(physical_name(schema.field(name)),) for name in columns]
    present = target.metadata.name_mapping
    highest = max([target.metadata.last_column_id, *periods.ids.values()])
    made = delta_to_name_mapping(
        periods.merged,
        periods.ids,
        hidden=[*hidden, *left_out],
        files=[layout.fields or () for layout in survey.without_field_ids],
        first_spare_id=highest + 1,
    ).mapping
    if present is None:
        return made
    return NameMapping(fields=_united(present.fields, made.fields, frozenset(periods.ids.values())))


def _united(
    present: tuple[MappedField, ...], made: tuple[MappedField, ...], columns: frozenset[int]
) -> tuple[MappedField, ...]:
    """Existing mappings stay, unless a column has taken their id or name."""
    by_name = {each.names[0]: each for each in made}
    result = []
    for each in present:
        other = by_name.pop(each.names[0], None)
        if other is None:
            if each.field_id not in columns:
                result.append(each)
        elif other.field_id in columns and other.field_id != each.field_id:
            result.append(other)
        else:
            keeps = each.field_id not in columns or other.field_id == each.field_id
            result.append(replace(each if keeps else other, fields=_united(each.fields, other.fields, columns)))
    return (*result, *by_name.values())


def _mapped_ids(fields: Sequence[MappedField]) -> Iterator[int]:
    for each in fields:
        if each.field_id is not None:
            yield each.field_id
        yield from _mapped_ids(each.fields)


def _set_properties(transaction: Transaction, increment: IcebergIncrement) -> None:
    """Only where the source's metadata or the mapping has changed: other commits leave the properties alone."""
    design, properties = increment.design, increment.target.metadata.properties
    wanted: dict[str, str] = {}
    mapping = design.name_mapping.to_text()
    if mapping != properties.get(NAME_MAPPING_PROPERTY):
        wanted[NAME_MAPPING_PROPERTY] = mapping
    if any(each.metadata is not None or each.domain_metadata for each in increment.commits):
        wanted |= {
            key: text
            for key, text in design.properties.items()
            if key != TRANSACTIONS_KEY and properties.get(key) != text
        }
    if wanted:
        transaction.set_properties(wanted)


# The files of the target that the commits touch


@dataclass(frozen=True, slots=True, kw_only=True)
class _Touched:
    """A file that a commit removes or lists again. vector: the one that the version before had. stated: whether a
    ``remove`` states it; else the file is listed again, with that very vector, which deletes ``cardinality`` rows.
    """

    location: str
    vector: str | None
    stated: bool
    cardinality: int


def _live(base: DeltaSource, target: Table, commits: Sequence[CommitActions]) -> dict[str, LiveFile]:
    """Raises Conflict where the target does not have what the source had."""
    touched = _touched(base, commits)
    if not touched:
        return {}
    snapshot = target.metadata.current_snapshot
    wanted = pa.array([each.location for each in touched.values()], pa.string())
    there = _data_files(target, snapshot, wanted)
    deletes = _deletes(target, snapshot, wanted)
    result = {}
    absent = []
    for key, each in touched.items():
        if each.location not in there:
            absent.append(key)
            continue
        place = deletes.get(each.location)
        agrees = (each.vector is not None) == (place is not None) if each.stated else each.cardinality == _rows(place)
        if not agrees:
            raise Conflict(
                f"Cannot go on with {target.location}: the deleted rows of {each.location} are not those of version "
                f"{base.snapshot.version} of the source; choose another --target",
                path=each.location,
            )
        result[key] = LiveFile(location=each.location, vector=each.vector, deletes=None if place is None else place[0])
    _check_absent(base, target, absent)
    return result


def _rows(place: tuple[DeletePlace, int] | None) -> int:
    return 0 if place is None else place[1]


def _touched(base: DeltaSource, commits: Sequence[CommitActions]) -> dict[str, _Touched]:
    """The files that are removed, and those that are added but may be there already, by ``path_keys``. A file is new
    where its commit says that it changes data and it was written after the base version.
    """
    root, storage = base.snapshot.table_root, base.storage
    result: dict[str, _Touched] = {}
    came: set[str] = set()
    for actions in commits:
        if actions.removes.num_rows:
            removes = actions.removes
            keys = path_keys(removes.column("path")).to_pylist()
            locations = real_locations(storage, location_array(removes.column("path"), root)).to_pylist()
            for key, location, vector in zip(keys, locations, vector_ids(removes).to_pylist(), strict=True):
                if key not in came and key not in result:
                    result[key] = _Touched(location=location, vector=vector, stated=True, cardinality=0)
        if actions.adds.num_rows:
            adds = actions.adds
            keys = path_keys(adds.column("path")).to_pylist()
            locations = real_locations(storage, location_array(adds, root)).to_pylist()
            changes = pc.fill_null(adds.column("data_change"), True).to_pylist()
            times = pc.fill_null(adds.column("modification_time"), 0).to_pylist()
            deleted = pc.fill_null(pc.struct_field(adds.column("deletion_vector"), "cardinality"), 0).to_pylist()
            vectors = vector_ids(adds).to_pylist()
            for key, location, new, written, rows, vector in zip(
                keys, locations, changes, times, deleted, vectors, strict=True
            ):
                if key in result or key in came:
                    continue
                if new and written > base.snapshot.timestamp_ms:
                    came.add(key)
                else:
                    result[key] = _Touched(location=location, vector=vector, stated=False, cardinality=rows)
    return result


def _data_files(target: Table, snapshot: Snapshot | None, wanted: pa.Array) -> frozenset[str]:
    found: list[str] = []
    for manifest in live_manifests(target, snapshot, ManifestContent.DATA):
        for batch in live_entries(target, manifest, with_metrics=False):
            paths = batch.column("file_path")
            found.extend(paths.filter(pc.is_in(paths, value_set=wanted)).to_pylist())
    return frozenset(found)


def _deletes(target: Table, snapshot: Snapshot | None, wanted: pa.Array) -> dict[str, tuple[DeletePlace, int]]:
    """Where the deletes of some data files stand, and how many rows they delete; one place a file, as deltaberg writes
    them."""
    result: dict[str, tuple[DeletePlace, int]] = {}
    for manifest in live_manifests(target, snapshot, ManifestContent.DELETES):
        for batch in live_entries(target, manifest, with_metrics=False):
            files = batch.column("referenced_data_file")
            chosen = batch.filter(pc.fill_null(pc.is_in(files, value_set=wanted), False))
            for file, path, offset, rows in zip(
                *(
                    chosen.column(name).to_pylist()
                    for name in ("referenced_data_file", "file_path", "content_offset", "record_count")
                ),
                strict=True,
            ):
                result[file] = DeletePlace(location=path, offset=offset), rows
    return result


def _check_absent(base: DeltaSource, target: Table, absent: Sequence[str]) -> None:
    """A file that the target lacks must not have been live in the source either."""
    if not absent:
        return
    wanted = pa.array(absent, pa.string())
    for names in base.snapshot.live_names():
        keys = path_keys(names.column("path"))
        found = keys.filter(pc.is_in(keys, value_set=wanted))
        if len(found):
            raise Conflict(
                f"Cannot go on with {target.location}: it does not list {found[0].as_py()} of the source's version "
                f"{base.snapshot.version} under its own name, since that file was rewritten for the target or taken out of "
                "it; choose another --target",
                path=found[0].as_py(),
            )
