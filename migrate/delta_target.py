"""Decide how an Iceberg snapshot becomes a Delta version: read-only, one pass over the live files."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from deltaberg.datafile import FileField
from deltaberg.delta.column_mapping import MappingMode
from deltaberg.delta.iceberg_compat import IcebergCompat
from deltaberg.delta.types import DeltaType, StructType
from deltaberg.iceberg.partition_spec import PartitionSpec
from deltaberg.iceberg.schema import Schema
from deltaberg.iceberg.snapshot_ref import MAIN_BRANCH
from deltaberg.iceberg.transforms import IdentityTransform
from deltaberg.migrate.delta_survey import DeltaSurvey, Surveying, survey_delta
from deltaberg.migrate.file_facts import UNREADABLE, FileFacts
from deltaberg.migrate.footers import FooterSurvey
from deltaberg.migrate.iceberg_compat import compat_findings
from deltaberg.migrate.int96_survey import int96_obstacles
from deltaberg.migrate.snapshot_line import SnapshotLine, snapshot_line
from deltaberg.migrate.source import IcebergSource
from deltaberg.translate import codes, source_codes
from deltaberg.translate.carried_mapping import CarriedMapping
from deltaberg.translate.data_files import top_folder
from deltaberg.translate.derived_columns import with_derived_columns
from deltaberg.translate.field_ids import physical_name
from deltaberg.translate.file_columns import (
    Obstacle,
    delta_obstacles,
    held_by_id,
    name_obstacles,
    names_in_file,
    narrower_types,
    still_in_the_way,
    taken_names,
)
from deltaberg.translate.findings import Finding, Severity
from deltaberg.translate.lineage import iceberg_to_delta_lineage_properties
from deltaberg.translate.options import ConvertOptions
from deltaberg.translate.partitioning import DeltaPartitioning, iceberg_to_delta_partitioning
from deltaberg.translate.physical_names import choose_physical_names
from deltaberg.translate.properties import iceberg_to_delta_properties
from deltaberg.translate.schema import DeltaSchemaTranslation, LeafPair, iceberg_to_delta_schema
from deltaberg.translate.type_changes import delta_can_widen, widening_chain

SORT_ORDER_KEY: Final = "deltaberg.iceberg.sort-order"
IDENTIFIER_FIELDS_KEY: Final = "deltaberg.iceberg.identifier-fields"
REFS_KEY: Final = "deltaberg.iceberg.refs"
DELETION_VECTORS_KEY: Final = "delta.enableDeletionVectors"

LOCAL_ROWS: Final = 1_000_000
LOCAL_DELETE_KEYS: Final = 100_000
"""With ``--engine spark``: equality deletes of smaller tables are resolved where the entries are translated."""

_NOT_IN_PARQUET: Final = frozenset(" ,;{}()\n\t=")
"""Delta allows these in names only with column mapping."""

_NAMES_DIFFER: Final = (
    "a column has another name in the files, and DuckDB then reads partition columns as null; --former-names trust-ids "
    "keeps them"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileGroup:
    """Files of equal facts and partition spec. obstacles: why they are not shared; empty where they are."""

    facts: int
    spec_id: int
    files: int
    rows: int
    bytes: int
    obstacles: tuple[Obstacle, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaDesign:
    """Every decision about a Delta target.

    schema: the columns of all snapshots in ``line``, whose leaves are ``leaves``; translation: of the newest schema;
    translations: of each snapshot's. footers: tells which facts a file has. rewritten: (facts, spec id) of files that are written anew.
    lineage: row ids are carried. deletes: counts of delete files by kind. keys_in_tasks: equality deletes are resolved by
    a Spark job, before anything else.
    """

    schema: Schema
    translation: DeltaSchemaTranslation
    leaves: tuple[LeafPair, ...]
    line: SnapshotLine
    translations: tuple[DeltaSchemaTranslation, ...]
    mode: MappingMode
    physical_names: Mapping[int, str]
    type_mappings: Mapping[str, str]
    partitioning: DeltaPartitioning
    footers: FooterSurvey
    groups: tuple[FileGroup, ...]
    rewritten: frozenset[tuple[int, int]]
    lineage: bool
    widened: bool
    properties: Mapping[str, str]
    description: str | None
    deletes: Mapping[str, int]
    keys_in_tasks: bool
    findings: tuple[Finding, ...] = field(default=())

    @property
    def delta_schema(self) -> StructType:
        return self.translation.schema

    def partition_names(self, translation: DeltaSchemaTranslation) -> tuple[str, ...]:
        """The partition columns under the names that one snapshot's schema gives them."""
        names = {physical_name(field): field.name for field in translation.schema.fields}
        own = [names[self.physical_names[column.source_id]] for column in self.partitioning.columns]
        return (*own, *(column.name for column in self.partitioning.derived))


def design_delta(
    source: IcebergSource, options: ConvertOptions, root: str, *, survey_files: Surveying = survey_delta
) -> DeltaDesign:
    """Look at the snapshot's files and decide. Raises what reading the table raises; refusals are findings.

    root: the target's folder. survey_files: who looks at the files.
    """
    line = snapshot_line(source, whole=options.history == "all")
    design = _Designer(source, options, root, line, survey_files).design()
    if design.rewritten and line.last_promotion:
        # A file that is written anew has one type for a column, and versions on both sides of a promotion would need two.
        reason = "files are written anew, and a type was promoted then"
        return _Designer(source, options, root, line.since(line.last_promotion, reason), survey_files).design()
    return design


class _Designer:
    def __init__(
        self, source: IcebergSource, options: ConvertOptions, root: str, line: SnapshotLine, survey_files: Surveying
    ) -> None:
        """line: the snapshots to convert. Everything is decided for the columns that any of them has."""
        self.source = source
        self.options = options
        self.root = root
        self.metadata = source.table.metadata
        self.line = line
        self.schema = line.union
        self.schemas = line.schemas or (source.schema,)
        self.carried = CarriedMapping.of(self.metadata.properties)
        self.survey: DeltaSurvey = survey_files(source, line, options.reads_all_footers)
        self.findings: list[Finding] = []

    def design(self) -> DeltaDesign:
        self._look_at_source()
        held = [
            {} if facts.fields is None else held_by_id(facts.fields, self.schema, self.metadata.name_mapping)
            for facts in self.survey.footers.facts
        ]
        mapped = iceberg_to_delta_schema(
            self.schema, mode=MappingMode.ID, type_mappings=self.options.type_mappings
        ).mapped_ids
        mode = self._mapping_mode()
        partitioning = self._partitioning(mapped, withheld=None)
        sources = frozenset(column.source_id for column in partitioning.columns)
        names = self._physical_names(held, sources, mode)
        if sources and not partitioning.derived and sources <= self._given_names().keys():
            if any(names[column.source_id] != column.name for column in partitioning.columns):
                self.findings.append(Finding(code=codes.PARTITION_NAMES_MAPPED, what=", ".join(partitioning.names)))
        elif partitioning.names and self._misleads_by_names(names):
            partitioning = self._partitioning(mapped, withheld=_NAMES_DIFFER)
            sources = frozenset()
            names = self._physical_names(held, sources, mode)
        mode = self._carried_mode(mode, names, held, sources)
        self.findings.append(Finding(code=codes.COLUMN_MAPPING, what=f"mode {mode.value}"))
        legacy = int96_obstacles(self.survey, self.source, self.line, self.schema, held)
        obstacles = {
            key: (*self._obstacles(key, held[key[0]], names, sources, mapped, mode), *legacy.get(key, ()))
            for key in self.survey.tallies
        }
        groups = tuple(
            FileGroup(
                facts=key[0],
                spec_id=key[1],
                files=tally.files,
                rows=tally.rows,
                bytes=tally.bytes,
                obstacles=obstacles[key],
            )
            for key, tally in self.survey.tallies.items()
        )
        rewritten = self._judge(groups, mode)
        self._look_for_other_buckets(rewritten)
        narrow = self._narrow_types(groups, held, rewritten, sources)
        translations = self._translations(names, narrow, partitioning, mode)
        translation = translations[-1]
        if self.line.cut is not None:
            first = str(self.line.snapshots[0].snapshot_id)
            self.findings.append(Finding(code=codes.HISTORY_TRUNCATED, what=f"snapshot {first}", detail=self.line.cut))
        for each in translations[:-1]:
            self.findings.extend(finding for finding in each.findings if finding not in translation.findings)
        self.findings.extend(translation.findings)
        self.findings.extend(partitioning.findings)
        for field_id, kinds in narrow.items():
            chain = widening_chain(kinds, _leaf_types(self.schema)[field_id])
            detail = ", ".join(f"{change.from_type} to {change.to_type}" for change in chain)
            self.findings.append(Finding(code=codes.TYPE_PROMOTED, what=self.schema.full_name(field_id), detail=detail))
        lineage, properties = self._lineage(), self._properties()
        properties |= self._compat(
            translation.schema, mode, partitioning, with_deletes=any(self.survey.deletes.values()), lineage=lineage
        )
        return DeltaDesign(
            schema=self.schema,
            translation=translation,
            leaves=self._translated(self.schema, names, {}, mode).leaves,
            line=self.line,
            translations=translations,
            mode=mode,
            physical_names=names,
            type_mappings=self.options.type_mappings,
            partitioning=partitioning,
            footers=self.survey.footers,
            groups=groups,
            rewritten=rewritten,
            lineage=lineage,
            widened=bool(narrow),
            properties=properties,
            description=self.metadata.properties.get("comment"),
            deletes=dict(self.survey.deletes),
            keys_in_tasks=self._keys_in_tasks(),
            findings=tuple(self.findings),
        )

    def _look_at_source(self) -> None:
        self.findings.extend(self.survey.footers.findings())
        if self.source.snapshot is None:
            self.findings.append(Finding(code=source_codes.EMPTY_SOURCE, what="snapshots"))
        if self.survey.listed_twice is not None:
            self.findings.append(Finding(code=source_codes.FILE_LISTED_TWICE, what=self.survey.listed_twice, files=1))
        for snapshot in self.line.distinct:
            if snapshot.snapshot_id < 0:
                detail = f"{snapshot.snapshot_id} is {snapshot.snapshot_id + 2**64} unsigned"
                self.findings.append(Finding(code=source_codes.SNAPSHOT_ID_UNSIGNED, what="snapshot", detail=detail))
        for kind, code in (
            ("vectors", codes.DELETION_VECTORS),
            ("position", codes.POSITION_DELETES),
            ("equality", codes.EQUALITY_DELETES),
        ):
            count = self.survey.deletes[kind]
            detail = self._by_keys() if kind == "equality" else ""
            if count:
                self.findings.append(Finding(code=code, what=f"{count} delete files", detail=detail, files=count))

    def _look_for_other_buckets(self, rewritten: frozenset[tuple[int, int]]) -> None:
        """Files that are shared and that no path relative to the target reaches."""
        own, elsewhere = top_folder(f"{self.root}/"), Counter[str]()
        for key, tally in self.survey.tallies.items():
            if key not in rewritten:
                elsewhere.update({store: files for store, files in tally.stores.items() if store != own})
        for store, files in sorted(elsewhere.items()):
            detail = f"{files} files; the target is in {own}"
            self.findings.append(Finding(code=codes.OTHER_BUCKET, what=store, detail=detail, files=files))

    def _keys_in_tasks(self) -> bool:
        rows = sum(tally.rows for tally in self.survey.tallies.values())
        return (
            self.options.engine == "spark"
            and len(self.line.snapshots) == 1
            and self.survey.delete_keys > 0
            and (rows >= LOCAL_ROWS or self.survey.delete_keys >= LOCAL_DELETE_KEYS)
        )

    def _by_keys(self) -> str:
        """Who finds the deleted rows, where that is a question."""
        if self.options.engine != "spark":
            return ""
        where = "by a Spark job" if self._keys_in_tasks() else "without a Spark job of its own"
        return f"{self.survey.delete_keys} deleted keys, {where}"

    def _live_specs(self) -> list[PartitionSpec]:
        ids = sorted({spec_id for _, spec_id in self.survey.tallies}) or [self.metadata.default_spec_id]
        return [self.metadata.spec_by_id(spec_id) for spec_id in ids]

    def _partitioning(self, mapped: frozenset[int], *, withheld: str | None) -> DeltaPartitioning:
        return iceberg_to_delta_partitioning(
            self._live_specs(),
            self.line.shared,
            empty_strings=frozenset(self.survey.empty_strings),
            unmappable=mapped,
            withheld=withheld,
            derive_beside=self._known_names() if self.options.derive_partition_columns else None,
        )

    def _known_names(self) -> set[str]:
        """Names of top-level columns in any schema and any file."""
        of_schemas = {column.name for schema in self.metadata.schemas for column in schema.fields}
        return of_schemas | {each.name for facts in self.survey.footers.facts for each in facts.fields or ()}

    def _misleads_by_names(self, names: Mapping[int, str]) -> bool:
        """DuckDB gives null for every partition column as soon as one column has another physical name."""
        columns = [column for schema in self.schemas for column in schema.fields]
        differ = any(names[column.field_id] != column.name for column in columns)
        return differ and self.options.former_names != "trust-ids"

    # Column mapping

    def _mapping_mode(self) -> MappingMode:
        parquet = [
            self.survey.footers.facts[facts]
            for facts, _ in self.survey.tallies
            if self.survey.footers.facts[facts].fields is not None
        ]
        all_ids = all(facts.has_ids for facts in parquet)
        if self.metadata.name_mapping is None and any(facts.fields and not facts.has_ids for facts in parquet):
            self.findings.append(Finding(code=codes.FIELD_IDS_UNMAPPED, what="data files"))
        match self.options.column_mapping:
            case "auto":
                mode = MappingMode.ID if all_ids else MappingMode.NAME
                if not all_ids:
                    self.findings.append(Finding(code=codes.FIELD_IDS_ABSENT, what="data files"))
            case choice:
                mode = MappingMode(choice)
        return mode

    def _given_names(self) -> Mapping[int, str]:
        """The physical names that partition columns had in the Delta table that this one came from."""
        return {} if self.carried is None else self.carried.partition_names

    def _carried_mode(
        self,
        mode: MappingMode,
        names: Mapping[int, str],
        held: list[dict[int, FileField]],
        partition_sources: frozenset[int],
    ) -> MappingMode:
        """The mode of the Delta table that this one came from, where readers still find every column by it."""
        if self.carried is None or self.options.column_mapping != "auto" or self.carried.mode is MappingMode.ID:
            return mode
        files = zip(self.survey.footers.facts, held, strict=True)
        found = (
            name_obstacles(facts.fields, self.schema, own, names) for facts, own in files if facts.fields is not None
        )
        if any(self._top_level_id(each.column) not in partition_sources for obstacles in found for each in obstacles):
            return mode
        if self.carried.mode is MappingMode.NAME:
            return MappingMode.NAME
        plain = len(set(self.schemas)) == 1 and self.options.iceberg_compat == "none"
        columns = [column for column in self.schema.all_fields() if column.field_id in names]
        usual = all(names[each.field_id] == each.name and not _NOT_IN_PARQUET & set(each.name) for each in columns)
        return MappingMode.NONE if plain and usual else mode

    def _physical_names(
        self, held: list[dict[int, FileField]], partition_sources: frozenset[int], mode: MappingMode
    ) -> dict[int, str]:
        """The name that most bytes use; the present one for partition columns and for what no file holds."""
        bytes_by_name: dict[int, dict[str, int]] = {}
        for (facts, _), tally in self.survey.tallies.items():
            for field_id, name in names_in_file(self.schema, held[facts]).items():
                by_name = bytes_by_name.setdefault(field_id, {})
                by_name[name] = by_name.get(name, 0) + tally.bytes
        taken: dict[int, set[str]] = {}
        for each, own in zip(self.survey.footers.facts, held, strict=True):
            for field_id, others in taken_names(each.fields or (), self.schema, own):
                taken.setdefault(field_id, set()).update(others)
        present = None if mode is MappingMode.NONE else partition_sources
        return choose_physical_names(
            self.schema, bytes_by_name, present=present, given=self._given_names(), taken_in_files=taken
        )

    # Which files cannot be shared

    def _obstacles(
        self,
        key: tuple[int, int],
        held: Mapping[int, FileField],
        names: Mapping[int, str],
        partition_sources: frozenset[int],
        mapped: frozenset[int],
        mode: MappingMode,
    ) -> tuple[Obstacle, ...]:
        facts: FileFacts = self.survey.footers.facts[key[0]]
        if facts is UNREADABLE:
            return ()
        if facts.fields is None:
            return (Obstacle(code=codes.DATA_FILE_FORMAT, column=facts.format),)
        found = list(
            delta_obstacles(
                self.schema,
                held,
                mapped=mapped,
                partition_sources=partition_sources,
                identity_sources=self._identity_sources(key[1]),
            )
        )
        found.extend(
            obstacle
            for obstacle in name_obstacles(facts.fields, self.schema, held, names)
            if self._top_level_id(obstacle.column) not in partition_sources
        )
        if mode is MappingMode.ID and not facts.has_ids:
            found.append(Obstacle(code=codes.FIELD_IDS_DISAGREE, column="field ids"))
        if facts.hybrid_calendar:
            found.append(Obstacle(code=codes.LEGACY_CALENDAR, column="dates and timestamps"))
        return tuple(dict.fromkeys(found))

    def _identity_sources(self, spec_id: int) -> frozenset[int]:
        spec = self.metadata.spec_by_id(spec_id)
        return frozenset(part.source_id for part in spec.fields if isinstance(part.transform, IdentityTransform))

    def _top_level_id(self, name: str) -> int | None:
        return next((column.field_id for column in self.schema.fields if column.name == name), None)

    def _judge(self, groups: tuple[FileGroup, ...], mode: MappingMode) -> frozenset[tuple[int, int]]:
        """One finding per obstacle; the groups that are written anew."""
        rewritten: set[tuple[int, int]] = set()
        for group in groups:
            for obstacle in still_in_the_way(group.obstacles):
                severity, remedy = self._severity(obstacle, mode)
                by_name = obstacle.code in {codes.FORMER_NAMES, codes.FIELD_IDS_DISAGREE}
                self.findings.append(
                    Finding(
                        code=codes.COLUMN_MAPPING_IMPOSSIBLE if mode is MappingMode.NONE and by_name else obstacle.code,
                        what=obstacle.column,
                        files=group.files,
                        rows=group.rows,
                        severity=severity,
                        remedy=remedy,
                    )
                )
                if severity is Severity.REWRITE:
                    rewritten.add((group.facts, group.spec_id))
        return frozenset(rewritten)

    def _severity(self, obstacle: Obstacle, mode: MappingMode) -> tuple[Severity, str | None]:
        if mode is MappingMode.NONE and obstacle.code in {codes.FORMER_NAMES, codes.FIELD_IDS_DISAGREE}:
            return Severity.REFUSE, None
        if obstacle.code is not codes.FORMER_NAMES:
            strict = obstacle.code.strict if self.options.strict else None
            return strict or obstacle.code.severity, None
        match self.options.former_names:
            case "rewrite":
                return Severity.REWRITE, "Nothing to do; these files are written anew, as asked for."
            case "trust-ids" if mode is MappingMode.ID:
                return (
                    Severity.WARNING,
                    "Read the target only with engines that match columns by field id, as Spark does.",
                )
            case _:
                return Severity.REFUSE, None

    # What else the table says

    def _narrow_types(
        self,
        groups: tuple[FileGroup, ...],
        held: list[dict[int, FileField]],
        rewritten: frozenset[tuple[int, int]],
        partition_sources: frozenset[int],
    ) -> dict[int, set[DeltaType]]:
        result: dict[int, set[DeltaType]] = {}
        for group in groups:
            if (group.facts, group.spec_id) in rewritten:
                continue
            for field_id, kind in narrower_types(self.schema, held[group.facts]).items():
                if field_id not in partition_sources:
                    result.setdefault(field_id, set()).add(kind)
        newest = _leaf_types(self.schema)
        for schema in self.schemas[:-1]:
            for field_id, kind in _leaf_types(schema).items():
                if field_id in newest and kind != newest[field_id] and delta_can_widen(kind, newest[field_id]):
                    result.setdefault(field_id, set()).add(kind)
        return result

    def _translations(
        self,
        names: Mapping[int, str],
        narrow: Mapping[int, set[DeltaType]],
        partitioning: DeltaPartitioning,
        mode: MappingMode,
    ) -> tuple[DeltaSchemaTranslation, ...]:
        """The schema of every snapshot; of an empty table, its own."""
        made: dict[int, DeltaSchemaTranslation] = {}
        for schema in self.schemas:
            if schema.schema_id not in made:
                translated = self._translated(schema, names, narrow, mode)
                derived = with_derived_columns(
                    translated.schema,
                    [column.under_names_of(schema) for column in partitioning.derived],
                    mode=mode,
                    last_column_id=self.metadata.last_column_id,
                )
                made[schema.schema_id] = replace(translated, schema=derived)
        return tuple(made[schema.schema_id] for schema in self.schemas)

    def _translated(
        self,
        schema: Schema,
        names: Mapping[int, str],
        narrow: Mapping[int, set[DeltaType]],
        mode: MappingMode,
    ) -> DeltaSchemaTranslation:
        changes = {}
        for field_id, kinds in narrow.items():
            if schema.find(field_id) is not None:
                wide = _leaf_types(schema)[field_id]
                narrower = [kind for kind in kinds if kind != wide and delta_can_widen(kind, wide)]
                changes[field_id] = widening_chain(narrower, wide) if narrower else ()
        return iceberg_to_delta_schema(
            schema, mode=mode, physical_names=names, type_changes=changes, type_mappings=self.options.type_mappings
        )

    def _lineage(self) -> bool:
        if self.metadata.format_version < 3 or self.source.snapshot is None:
            return False
        if self.survey.without_row_id:
            detail = f"{self.survey.without_row_id} files have no row ids yet"
            self.findings.append(Finding(code=codes.LINEAGE_NOT_CARRIED, what="row lineage", detail=detail))
            return False
        self.findings.append(Finding(code=codes.LINEAGE, what="row lineage", files=self.survey.files))
        return True

    def _compat(
        self,
        schema: StructType,
        mode: MappingMode,
        partitioning: DeltaPartitioning,
        *,
        with_deletes: bool,
        lineage: bool,
    ) -> dict[str, str]:
        """The property of --iceberg-compat; findings say whether its rules are kept."""
        if self.options.iceberg_compat == "none":
            return {}
        version = IcebergCompat[self.options.iceberg_compat.upper()]
        enabled = iceberg_to_delta_lineage_properties() if lineage else {}
        if with_deletes:
            enabled = {**enabled, DELETION_VECTORS_KEY: "true"}
        self.findings.extend(
            compat_findings(version, schema, mode=mode, partition_columns=partitioning.names, properties=enabled)
        )
        return {version.property_key: "true"}

    def _properties(self) -> dict[str, str]:
        carried = iceberg_to_delta_properties(self.metadata.properties)
        self.findings.extend(carried.findings)
        result = dict(carried.properties)
        order = self.metadata.sort_order
        if not order.is_unsorted:
            result[SORT_ORDER_KEY] = json.dumps(order.to_json(), separators=(",", ":"))
            self.findings.append(Finding(code=codes.SORT_ORDER, what="sort order"))
        if self.source.schema.identifier_field_ids:
            names = [self.schema.full_name(field_id) for field_id in self.source.schema.identifier_field_ids]
            result[IDENTIFIER_FIELDS_KEY] = json.dumps(names, ensure_ascii=False)
            self.findings.append(Finding(code=codes.IDENTIFIER_FIELDS, what=", ".join(names)))
        others = {name: ref for name, ref in self.metadata.refs.items() if name != MAIN_BRANCH}
        if others:
            result[REFS_KEY] = json.dumps({name: ref.to_json() for name, ref in others.items()}, ensure_ascii=False)
            self.findings.append(Finding(code=codes.REFS, what=", ".join(sorted(others))))
        return result


def _leaf_types(schema: Schema) -> dict[int, DeltaType]:
    """What the leaves are in Delta, by field id; those that Delta lacks left out."""
    return {leaf.field_id: leaf.delta for leaf in iceberg_to_delta_schema(schema, mode=MappingMode.NONE).leaves}
