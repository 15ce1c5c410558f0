"""Decide how a Delta version becomes an Iceberg snapshot: read-only, one pass over the live files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from deltaberg.delta.checkpoint.checksum import ChecksumTotals as LogTotals
from deltaberg.delta.schema.types import StructType
from deltaberg.iceberg.errors import InvalidIcebergRequest
from deltaberg.iceberg.partition.partition_spec import PartitionSpec
from deltaberg.iceberg.schema.name_mapping import NameMapping
from deltaberg.migrate.files.footer_memory import FooterMemory
from deltaberg.migrate.files.footers import Progress, silent
from deltaberg.migrate.files.outside_files import count_sidecars, outside_findings
from deltaberg.migrate.source import DeltaSource
from deltaberg.migrate.target.watermark import APP_ID_PREFIX
from deltaberg.migrate.to_iceberg.source_files import DeltaFileReader
from deltaberg.migrate.to_iceberg.survey import IcebergSurvey, Surveying, SurveyRequest, SurveyTotals, survey_iceberg
from deltaberg.migrate.to_iceberg.version_range import VersionRange, version_range
from deltaberg.redaction import redacted
from deltaberg.translate import codes
from deltaberg.translate.column_mapping_property import MAPPING_KEY, CarriedMapping
from deltaberg.translate.field_ids import Path, assigned_ids, declared_ids, mapped_schema, physical_name
from deltaberg.translate.findings import Finding
from deltaberg.translate.lineage import DeltaLineage, delta_lineage
from deltaberg.translate.name_mapping import NameMappingTranslation, delta_to_name_mapping
from deltaberg.translate.options import ConvertOptions
from deltaberg.translate.partitioning import delta_to_iceberg_spec
from deltaberg.translate.properties import delta_to_iceberg_properties
from deltaberg.translate.schema import IcebergSchemaTranslation, delta_to_iceberg_schema, required_version

CLUSTERING_KEY: Final = "deltaberg.delta.clustering"
TRANSACTIONS_KEY: Final = "deltaberg.delta.transactions"
_VECTORIZED_KEY: Final = "read.parquet.vectorization.enabled"
_CLUSTERING_DOMAIN: Final = "delta.clustering"
_NEWEST: Final = 3
_RULES: Final[Mapping[str, str]] = {
    "delta.appendOnly": "append-only table",
    "delta.enableChangeDataFeed": "change data feed",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class IcebergConversionPlan:
    """Every decision about an Iceberg target.

    schema: Delta's, its mapping metadata only where it counts; ids: by its physical paths. reader: streams the files
    once more. rewritten: locations of files that are rewritten. without_row_ids: of files whose rows get new ids.
    carries_lineage: row ids and commit versions of the other files are stated. last_column_id: spare ids included.
    vectors: files that have deletion vectors in the target, with ``deleted_rows`` rows; a file that is rewritten
    without the deleted rows has none. periods: the versions to replay, with one schema translation for each schema
    period; None where only the newest is converted. totals then count the files of all versions.
    """

    schema: StructType
    ids: Mapping[Path, int]
    translation: IcebergSchemaTranslation
    spec: PartitionSpec
    format_version: int
    name_mapping: NameMapping
    last_column_id: int
    reader: DeltaFileReader
    rewritten: frozenset[str]
    without_row_ids: frozenset[str]
    lineage: DeltaLineage
    carries_lineage: bool
    properties: Mapping[str, str]
    totals: SurveyTotals
    vectors: int
    deleted_rows: int
    periods: VersionRange | None = None
    era_translations: tuple[IcebergSchemaTranslation, ...] = ()
    findings: tuple[Finding, ...] = field(default=())


def design_iceberg(
    source: DeltaSource,
    options: ConvertOptions,
    *,
    survey_files: Surveying = survey_iceberg,
    progress: Progress = silent,
) -> IcebergConversionPlan:
    """Survey the version's files and decide. survey_files: surveys them where one version is converted. progress: called
    for footers that this process reads.

    Raises the errors of reading the table; refusals are findings.
    """
    periods = version_range(source, format_version=options.format_version) if options.history == "all" else None
    schemas = _schemas(source, periods)
    first_free = (source.snapshot.column_mapping.max_column_id or 0) + 1
    ids = _ids(source, schemas[-1], first_free) if periods is None else periods.ids
    lineage = _lineage(source, periods)
    reader = DeltaFileReader(
        source,
        deep=options.reads_all_footers,
        memory=FooterMemory.of(source.storage, source.snapshot.table_root),
        progress=progress,
    )
    wanted, why = _version_by_schema(schemas, lineage, options)
    if periods is not None and options.format_version is None and wanted < periods.format_version:
        wanted, why = periods.format_version, "a type was changed in its history"
    survey = _surveyed(source, periods, reader, options, schemas, ids, lineage, wanted, survey_files)
    count_sidecars(reader.outside, source)
    findings = [*survey.all_findings(), *reader.survey.findings(), *outside_findings(reader.outside, source.storage)]
    difference = source.snapshot.checksum_difference(_log_totals(source, survey, periods))
    if difference is not None:
        findings.append(Finding(code=codes.CHECKSUM_DIFFERS, what="checksum file", detail=difference))
    if survey.counted_by_footer:
        findings.append(Finding(code=codes.STATISTICS_FROM_FOOTERS, what="row counts", files=survey.counted_by_footer))
    if periods is not None and periods.truncated_because is not None:
        findings.append(
            Finding(code=codes.HISTORY_TRUNCATED, what=f"version {periods.first}", detail=periods.truncated_because)
        )
    vectors, deleted_rows = survey.totals.vectors, survey.totals.deleted_rows
    if periods is None:  # a replay rewrites files with the rows that a later version deletes
        vectors -= survey.totals.rewritten_vectors
        deleted_rows -= survey.totals.rewritten_deletes
    if options.format_version is None and wanted < _NEWEST and survey.totals.promoted_files:
        wanted, why = _NEWEST, "files of a date that was widened to a timestamp"
    version = _version(wanted, why, vectors, deleted_rows, options, findings)
    translations = tuple(translated(schema, ids, version) for schema in schemas)
    findings.extend(finding for translation in translations for finding in dict.fromkeys(translation.findings))
    partition_columns = source.snapshot.metadata.partition_columns
    merged = schemas[-1] if periods is None else periods.merged
    name_mapping = _name_mapping(merged, ids, schemas[-1], partition_columns, translations, survey, first_free)
    if survey.without_field_ids:
        findings.append(Finding(code=codes.NAME_MAPPING, what="data files"))
    carries = _carries_lineage(version, lineage, survey, findings)
    return IcebergConversionPlan(
        schema=schemas[-1],
        ids=ids,
        translation=translations[-1],
        spec=delta_to_iceberg_spec(partition_columns, translations[-1].schema),
        format_version=version,
        name_mapping=name_mapping.mapping,
        last_column_id=max(name_mapping.last_id, first_free - 1),
        reader=reader,
        rewritten=frozenset(survey.rewritten),
        without_row_ids=frozenset(survey.without_row_ids) if carries else frozenset(),
        lineage=lineage,
        carries_lineage=carries,
        properties={**properties_of(source, findings), MAPPING_KEY: _carried_mapping(source, schemas[-1], ids)},
        totals=survey.totals,
        vectors=vectors,
        deleted_rows=deleted_rows,
        periods=periods,
        era_translations=translations if periods is not None else (),
        findings=tuple(findings),
    )


def _schemas(source: DeltaSource, periods: VersionRange | None) -> tuple[StructType, ...]:
    """The schemas to translate, the source's own last."""
    if periods is None:
        return (mapped_schema(source.snapshot.column_mapping),)
    return tuple(period.schema for period in periods.periods)


def _ids(source: DeltaSource, schema: StructType, first_free: int) -> dict[Path, int]:
    return assigned_ids(schema, known=declared_ids(source.snapshot.column_mapping), first_free=first_free)


def _lineage(source: DeltaSource, periods: VersionRange | None) -> DeltaLineage:
    """Row ids can be stated where every replayed version has them."""
    snapshot = source.snapshot
    lineage = delta_lineage(snapshot.protocol, snapshot.metadata.properties, snapshot.domain_metadata)
    for period in () if periods is None else periods.periods:
        then = period.source.snapshot
        if not delta_lineage(then.protocol, then.metadata.properties, then.domain_metadata).enabled:
            return replace(lineage, enabled=False)
    return lineage


def _surveyed(
    source: DeltaSource,
    periods: VersionRange | None,
    reader: DeltaFileReader,
    options: ConvertOptions,
    schemas: tuple[StructType, ...],
    ids: Mapping[Path, int],
    lineage: DeltaLineage,
    wanted: int,
    survey_files: Surveying,
) -> IcebergSurvey:
    """Every file of the version; with periods, those of the first version and all that later ones add."""

    def request(at: DeltaSource, schema: StructType) -> SurveyRequest:
        return SurveyRequest(
            source=at,
            options=options,
            schema=schema,
            ids=ids,
            lineage=lineage,
            format_version=wanted if options.format_version is not None else _NEWEST,
        )

    if periods is None:
        return survey_files(request(source, schemas[-1]), reader)
    result = IcebergSurvey()
    for _ in reader.passes():
        result = IcebergSurvey()
        surveyors = {
            period.first: request(period.source, period.schema).surveyor(reader, result) for period in periods.periods
        }
        first = periods.periods[0]
        for adds in first.source.snapshot.add_files(check_totals=False):
            if adds.num_rows:
                surveyors[first.first].sample(reader.describe(adds))
        for actions in periods.commits():
            if actions.adds.num_rows:
                surveyors[periods.period_of(actions.version).first].sample(reader.describe(actions.adds))
    result.totals.rewritten_files = len(result.rewritten)
    result.counted_by_footer = reader.counted_by_footer
    return result


def _log_totals(source: DeltaSource, survey: IcebergSurvey, periods: VersionRange | None) -> LogTotals:
    """The totals of the newest version; a survey of all versions has counted more."""
    if periods is None:
        found = survey.totals
        return LogTotals(
            num_files=found.files,
            size_in_bytes=found.bytes,
            num_deletion_vectors=found.vectors,
            num_deleted_records=found.deleted_rows,
        )
    totals = LogTotals()
    for adds in source.snapshot.add_files(check_totals=False):
        totals = totals.plus(adds)
    return totals


def _version_by_schema(
    schemas: tuple[StructType, ...], lineage: DeltaLineage, options: ConvertOptions
) -> tuple[int, str]:
    if options.format_version is not None:
        return options.format_version, ""
    version, why = max(map(required_version, schemas), key=lambda each: each[0])
    if lineage.enabled and version < 3:
        return 3, "row tracking"
    return (version, why) if version > 2 else (2, "")


def _version(
    wanted: int, why: str, vectors: int, deleted_rows: int, options: ConvertOptions, findings: list[Finding]
) -> int:
    version = wanted
    if options.format_version is None and vectors and version < 3:
        version, why = 3, "deletion vectors"
    if why:
        findings.append(Finding(code=codes.FORMAT_VERSION, what=f"version {version}", detail=why))
    if vectors:
        by_version = {1: codes.DELETES_NEED_VERSION_2, 2: codes.DELETION_VECTORS_TO_POSITIONS}
        findings.append(
            Finding(
                code=by_version.get(version, codes.DELETION_VECTORS),
                what="deletion vectors",
                files=vectors,
                rows=deleted_rows,
            )
        )
    return version


def translated(schema: StructType, ids: Mapping[Path, int], version: int) -> IcebergSchemaTranslation:
    """The schema; one that contradicts itself is translated under other ids, with a finding that refuses it."""
    try:
        return delta_to_iceberg_schema(schema, ids, format_version=version)
    except InvalidIcebergRequest as error:
        fallback = delta_to_iceberg_schema(schema, assigned_ids(schema, known={}), format_version=version)
        refusal = Finding(code=codes.SCHEMA_CONTRADICTORY, what="schema", detail=error.message)
        return IcebergSchemaTranslation(
            schema=fallback.schema,
            leaves=fallback.leaves,
            left_out=fallback.left_out,
            findings=(*fallback.findings, refusal),
        )


def _name_mapping(
    merged: StructType,
    ids: Mapping[Path, int],
    schema: StructType,
    partition_columns: tuple[str, ...],
    translations: tuple[IcebergSchemaTranslation, ...],
    survey: IcebergSurvey,
    first_free: int,
) -> NameMappingTranslation:
    """merged: the columns of all versions; schema: the newest one, whose partition columns are all versions'."""
    hidden = [(physical_name(schema.field(name)),) for name in partition_columns]
    left_out = [path for translation in translations for path in translation.left_out]
    return delta_to_name_mapping(
        merged,
        ids,
        hidden=(*hidden, *left_out),
        files=[layout.fields or () for layout in survey.without_field_ids],
        first_spare_id=max([first_free, *(field_id + 1 for field_id in ids.values())]),
    )


def _carries_lineage(version: int, lineage: DeltaLineage, survey: IcebergSurvey, findings: list[Finding]) -> bool:
    if not lineage.supported:
        return False
    if not lineage.enabled:
        findings.append(
            Finding(code=codes.LINEAGE_NOT_CARRIED, what="row tracking", detail="supported but not enabled")
        )
        return False
    if version < 3:
        findings.append(Finding(code=codes.LINEAGE_NOT_CARRIED, what="row tracking", detail=f"version {version}"))
        return False
    if survey.totals.without_row_id:
        detail = f"{survey.totals.without_row_id} files have no base row id"
        findings.append(Finding(code=codes.LINEAGE_NOT_CARRIED, what="row tracking", detail=detail))
        return False
    findings.append(Finding(code=codes.LINEAGE, what="row tracking", files=survey.totals.files))
    return True


def _carried_mapping(source: DeltaSource, schema: StructType, ids: Mapping[Path, int]) -> str:
    names = [physical_name(schema.field(name)) for name in source.snapshot.metadata.partition_columns]
    mode = source.snapshot.column_mapping.mode
    return CarriedMapping(mode=mode, partition_names={ids[(name,)]: name for name in names}).to_text()


def properties_of(source: DeltaSource, findings: list[Finding]) -> dict[str, str]:
    """The properties that the target takes over; adds to ``findings``."""
    metadata = source.snapshot.metadata
    carried = delta_to_iceberg_properties(metadata.configuration)
    findings.extend(carried.findings)
    for key, rule in _RULES.items():
        if metadata.configuration.get(key, "").lower() == "true":
            findings.append(Finding(code=codes.RULE_NOT_ENFORCED, what=key, detail=rule))
    for name, expression in metadata.properties.check_constraints:
        findings.append(Finding(code=codes.RULE_NOT_ENFORCED, what=name, detail=f"CHECK {expression}"))
    result = dict(carried.properties)
    if metadata.description:
        result["comment"] = redacted(metadata.description)
    clustering = source.snapshot.domain_metadata.get(_CLUSTERING_DOMAIN)
    if clustering is not None:
        result[CLUSTERING_KEY] = clustering.configuration
        findings.append(Finding(code=codes.CLUSTERING, what="clustering columns"))
    if source.snapshot.protocol.supports("variantShredding"):
        result.setdefault(_VECTORIZED_KEY, "false")
        findings.append(Finding(code=codes.SHREDDED_VARIANTS, what="variants"))
    applications = source.snapshot.txns.items()
    reached = {redacted(name): txn.version for name, txn in sorted(applications) if not name.startswith(APP_ID_PREFIX)}
    if reached:
        result[TRANSACTIONS_KEY] = json.dumps(reached)
        findings.append(Finding(code=codes.TRANSACTIONS, what=f"{len(reached)} applications"))
    return result
