"""Decide how a Delta version becomes an Iceberg snapshot: read-only, one pass over the live files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from deltaberg.delta.types import StructType
from deltaberg.errors import UsageError
from deltaberg.iceberg.errors import InvalidIcebergRequest
from deltaberg.iceberg.name_mapping import NameMapping
from deltaberg.iceberg.partition_spec import PartitionSpec
from deltaberg.migrate.delta_files import DeltaFileReader
from deltaberg.migrate.iceberg_survey import FileTotals, IcebergSurvey, IcebergSurveyor
from deltaberg.migrate.source import DeltaSource
from deltaberg.translate import codes
from deltaberg.translate.field_ids import Path, assigned_ids, declared_ids, mapped_schema, physical_name
from deltaberg.translate.findings import Finding
from deltaberg.translate.lineage import DeltaLineage, delta_lineage
from deltaberg.translate.name_mapping import NameMappingTranslation, delta_to_name_mapping
from deltaberg.translate.options import ConvertOptions
from deltaberg.translate.partitioning import delta_to_iceberg_spec
from deltaberg.translate.properties import delta_to_iceberg_properties
from deltaberg.translate.schema import IcebergSchemaTranslation, delta_to_iceberg_schema, required_version

CLUSTERING_KEY: Final = "deltaberg.delta.clustering"
_CLUSTERING_DOMAIN: Final = "delta.clustering"
_VERSIONS: Final = (1, 2, 3)
_NEWEST: Final = 3
_RULES: Final[Mapping[str, str]] = {
    "delta.appendOnly": "append-only table",
    "delta.enableChangeDataFeed": "change data feed",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class IcebergDesign:
    """Every decision about an Iceberg target.

    schema: Delta's, its mapping metadata only where it counts; ids: by its physical paths. reader: streams the files
    once more. rewritten: locations of files that are written anew. fresh_rows: of files whose rows get new ids.
    carries_lineage: row ids and commit versions of the other files are stated. last_column_id: spare ids included.
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
    fresh_rows: frozenset[str]
    lineage: DeltaLineage
    carries_lineage: bool
    properties: Mapping[str, str]
    totals: FileTotals
    findings: tuple[Finding, ...] = field(default=())


def design_iceberg(source: DeltaSource, options: ConvertOptions) -> IcebergDesign:
    """Look at the version's files and decide. Raises what reading the table raises; refusals are findings.

    Raises UsageError for a format version that does not exist.
    """
    if options.format_version is not None and options.format_version not in _VERSIONS:
        raise UsageError(f"Cannot write Iceberg format version {options.format_version}: expected 1, 2 or 3")
    snapshot = source.snapshot
    mapping = snapshot.column_mapping
    schema = mapped_schema(mapping)
    first_free = (mapping.max_column_id or 0) + 1
    ids = assigned_ids(schema, known=declared_ids(mapping), first_free=first_free)
    lineage = delta_lineage(snapshot.protocol, snapshot.metadata.properties, snapshot.domain_metadata)
    reader = DeltaFileReader(source, deep=options.deep)
    wanted, why = _version_by_schema(schema, lineage, options)
    surveyor = IcebergSurveyor(
        source,
        reader,
        options,
        schema=schema,
        ids=ids,
        lineage=lineage,
        format_version=wanted if options.format_version is not None else _NEWEST,
    )
    survey = surveyor.survey()
    findings = survey.all_findings()
    version = _version(wanted, why, survey, options, findings)
    translation = _translated(schema, ids, version)
    findings.extend(translation.findings)
    partition_columns = snapshot.metadata.partition_columns
    name_mapping = _name_mapping(schema, ids, partition_columns, translation, survey, first_free)
    if survey.nameless:
        findings.append(Finding(code=codes.NAME_MAPPING, what="data files"))
    carries = _carries_lineage(version, lineage, survey, findings)
    return IcebergDesign(
        schema=schema,
        ids=ids,
        translation=translation,
        spec=delta_to_iceberg_spec(partition_columns, translation.schema),
        format_version=version,
        name_mapping=name_mapping.mapping,
        last_column_id=max(name_mapping.last_id, first_free - 1),
        reader=reader,
        rewritten=frozenset(survey.rewritten),
        fresh_rows=frozenset(survey.fresh_rows) if carries else frozenset(),
        lineage=lineage,
        carries_lineage=carries,
        properties=_properties(source, findings),
        totals=survey.totals,
        findings=tuple(findings),
    )


def _version_by_schema(schema: StructType, lineage: DeltaLineage, options: ConvertOptions) -> tuple[int, str]:
    if options.format_version is not None:
        return options.format_version, ""
    version, why = required_version(schema)
    if lineage.enabled and version < 3:
        return 3, "row tracking"
    return (version, why) if version > 2 else (2, "")


def _version(wanted: int, why: str, survey: IcebergSurvey, options: ConvertOptions, findings: list[Finding]) -> int:
    vectors = survey.totals.vectors
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
                rows=survey.totals.deleted_rows,
            )
        )
    return version


def _translated(schema: StructType, ids: Mapping[Path, int], version: int) -> IcebergSchemaTranslation:
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
    schema: StructType,
    ids: Mapping[Path, int],
    partition_columns: tuple[str, ...],
    translation: IcebergSchemaTranslation,
    survey: IcebergSurvey,
    first_free: int,
) -> NameMappingTranslation:
    hidden = [(physical_name(schema.field(name)),) for name in partition_columns]
    return delta_to_name_mapping(
        schema,
        ids,
        hidden=(*hidden, *translation.left_out),
        files=[facts.fields or () for facts in survey.nameless.values()],
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


def _properties(source: DeltaSource, findings: list[Finding]) -> dict[str, str]:
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
        result["comment"] = metadata.description
    clustering = source.snapshot.domain_metadata.get(_CLUSTERING_DOMAIN)
    if clustering is not None:
        result[CLUSTERING_KEY] = clustering.configuration
        findings.append(Finding(code=codes.CLUSTERING, what="clustering columns"))
    return result
