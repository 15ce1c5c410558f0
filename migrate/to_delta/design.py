"""Decide how an Iceberg snapshot becomes a Delta version: read-only, one pass over the live files."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from deltaberg.datafile import FileField
from deltaberg.delta.protocol.iceberg_compat import IcebergCompat
from deltaberg.delta.schema.column_mapping import MappingMode
from deltaberg.delta.schema.types import DeltaType, StructType
from deltaberg.iceberg.metadata.snapshot_ref import MAIN_BRANCH
from deltaberg.iceberg.partition.partition_spec import PartitionSpec
from deltaberg.iceberg.schema.schema import Schema
from deltaberg.iceberg.schema.types import ListType, MapType, NestedField
from deltaberg.migrate.files.footers import FooterSampler
from deltaberg.migrate.files.outside_files import count_metadata_files, outside_findings
from deltaberg.migrate.source import IcebergSource
from deltaberg.migrate.to_delta.ancestry import Ancestry, ancestry_of
from deltaberg.migrate.to_delta.column_names import ColumnNaming
from deltaberg.migrate.to_delta.existing import ExistingDelta, siblings
from deltaberg.migrate.to_delta.iceberg_compat import compat_findings
from deltaberg.migrate.to_delta.int96_survey import int96_blockers
from deltaberg.migrate.to_delta.sharing import FileGroup, FileSharing, GroupKey
from deltaberg.migrate.to_delta.survey import DeltaSurvey, Surveying, survey_delta
from deltaberg.translate import codes
from deltaberg.translate.column_mapping_property import CarriedMapping
from deltaberg.translate.data_files import top_folder
from deltaberg.translate.derived_columns import with_derived_columns
from deltaberg.translate.field_ids import physical_name
from deltaberg.translate.file_sharing import fields_by_id, narrower_types
from deltaberg.translate.findings import Finding
from deltaberg.translate.lineage import iceberg_to_delta_lineage_properties
from deltaberg.translate.options import ConvertOptions
from deltaberg.translate.partitioning import DeltaPartitioning, iceberg_to_delta_partitioning
from deltaberg.translate.properties import iceberg_to_delta_properties, shown_text
from deltaberg.translate.schema import DeltaSchemaTranslation, LeafPair, iceberg_to_delta_schema
from deltaberg.translate.type_changes import delta_can_widen, widening_chain

SORT_ORDER_KEY: Final = "deltaberg.iceberg.sort-order"
IDENTIFIER_FIELDS_KEY: Final = "deltaberg.iceberg.identifier-fields"
REFS_KEY: Final = "deltaberg.iceberg.refs"
DELETION_VECTORS_KEY: Final = "delta.enableDeletionVectors"

LOCAL_ROWS: Final = 1_000_000
LOCAL_DELETE_KEYS: Final = 100_000
"""With ``--engine spark``: equality deletes of smaller tables are resolved where the entries are translated."""

_NAMES_DIFFER: Final = (
    "a column has another name in the files, and DuckDB then reads partition columns as null; --former-names trust-ids "
    "keeps them"
)
_READ_BY_MAPPING: Final = "reader version 3, since a column has another name in the files; see docs/names.md"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaConversionPlan:
    """Every decision about a Delta target.

    schema: the columns of all snapshots in ``ancestry``, whose leaves are ``leaves``; translation: of the newest
    schema; translations: of each snapshot's. footers: tells which layout a file has. rewritten: keys of the groups of
    files that are rewritten. named_features: readers are told of column mapping by the feature's name. lineage: row ids
    are carried. deletes: counts of delete files by kind. keys_in_tasks: equality deletes are resolved by a Spark job,
    before anything else.
    """

    schema: Schema
    translation: DeltaSchemaTranslation
    leaves: tuple[LeafPair, ...]
    ancestry: Ancestry
    translations: tuple[DeltaSchemaTranslation, ...]
    mode: MappingMode
    physical_names: Mapping[int, str]
    type_mappings: Mapping[str, str]
    partitioning: DeltaPartitioning
    footers: FooterSampler
    groups: tuple[FileGroup, ...]
    rewritten: frozenset[GroupKey]
    named_features: bool
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


def design_delta_increment(
    source: IcebergSource,
    options: ConvertOptions,
    root: str,
    *,
    existing: ExistingDelta,
    ancestry: Ancestry,
    survey_files: Surveying,
) -> DeltaConversionPlan:
    """Decide how more snapshots become versions of an existing target. Raises like ``design_delta``.

    ancestry: the snapshots to come; its schemas begin with the one that the target has now, and so do the design's
    translations. survey_files: surveys the files that come.
    """
    return _Designer(source, options, root, ancestry, survey_files, existing).design()


def design_delta(
    source: IcebergSource, options: ConvertOptions, root: str, *, survey_files: Surveying = survey_delta
) -> DeltaConversionPlan:
    """Survey the snapshot's files and decide. Raises the errors of reading the table; refusals are findings.

    root: the target's folder. survey_files: surveys the files.
    """
    ancestry = ancestry_of(source, whole=options.history == "all")
    design = _Designer(source, options, root, ancestry, survey_files).design()
    if design.rewritten and ancestry.last_promotion:
        # A file that is rewritten has one type for a column, and versions on both sides of a promotion would need two.
        reason = "files are rewritten, and a type was promoted then"
        return _Designer(source, options, root, ancestry.since(ancestry.last_promotion, reason), survey_files).design()
    return design


class _Designer:
    def __init__(
        self,
        source: IcebergSource,
        options: ConvertOptions,
        root: str,
        ancestry: Ancestry,
        survey_files: Surveying,
        existing: ExistingDelta | None = None,
    ) -> None:
        """ancestry: the snapshots to convert. All decisions are for the columns that any of them has. existing: the
        decisions that the target is bound to.
        """
        self.existing = existing
        self.source = source
        self.options = options
        self.root = root
        self.metadata = source.table.metadata
        self.ancestry = ancestry
        self.schema = ancestry.union
        self.schemas = ancestry.schemas or (source.schema,)
        self.survey: DeltaSurvey = survey_files(source, ancestry, options.reads_all_footers)
        count_metadata_files(self.survey.outside, source, ancestry.distinct)
        self.findings: list[Finding] = []

    def design(self) -> DeltaConversionPlan:
        self._examine_source()
        held = [
            {} if layout.fields is None else fields_by_id(layout.fields, self.schema, self.metadata.name_mapping)
            for layout in self.survey.footers.layout
        ]
        naming = ColumnNaming(
            survey=self.survey,
            options=self.options,
            schema=self.schema,
            schemas=self.schemas,
            all_schemas=self.metadata.schemas,
            held=held,
            carried=CarriedMapping.of(self.metadata.properties),
        )
        mapped = iceberg_to_delta_schema(
            self.schema, mode=MappingMode.ID, type_mappings=self.options.type_mappings
        ).mapped_ids
        self.findings.extend(naming.findings(has_name_mapping=self.metadata.name_mapping is not None))
        mode = naming.mode() if self.existing is None else self.existing.mode
        partitioning = self._partitioning(naming, mapped, withheld=None)
        sources = frozenset(column.source_id for column in partitioning.columns)
        names = naming.physical_names(sources, mode) if self.existing is None else self._kept_names(self.existing)
        if self.existing is not None:
            pass
        elif sources and not partitioning.derived and sources <= naming.given.keys():
            if any(names[column.source_id] != column.name for column in partitioning.columns):
                self.findings.append(Finding(code=codes.PARTITION_NAMES_MAPPED, what=", ".join(partitioning.names)))
        elif partitioning.names and naming.differ(names) and not naming.trusts_ids:
            partitioning = self._partitioning(naming, mapped, withheld=_NAMES_DIFFER)
            sources = frozenset()
            names = naming.physical_names(sources, mode)
        if self.existing is None:
            mode = naming.carried_mode(mode, names, sources)
        sharing = FileSharing(
            naming=naming,
            metadata=self.metadata,
            options=self.options,
            names=names,
            mode=mode,
            partition_sources=sources,
            mapped=mapped,
        )
        groups = sharing.groups(int96_blockers(self.survey, self.source, self.ancestry, self.schema, held))
        self.findings.extend(sharing.findings(groups))
        rewritten = sharing.rewritten(groups)
        misleads = mode is not MappingMode.NONE and (naming.differ_anywhere(names) or sharing.misleads_by_name(groups))
        detail = _READ_BY_MAPPING if misleads else ""
        self.findings.append(Finding(code=codes.COLUMN_MAPPING, what=f"mode {mode.value}", detail=detail))
        self._find_other_buckets(rewritten)
        narrow = self._narrow_types(groups, held, rewritten, sources)
        translations = self._translations(names, narrow, partitioning, mode)
        translation = translations[-1]
        if self.ancestry.truncated_because is not None and self.existing is not None:
            self.findings.append(Finding(code=codes.SYNC_SCHEMA, what="schema", detail=self.ancestry.truncated_because))
        elif self.ancestry.truncated_because is not None:
            first = str(self.ancestry.snapshots[0].snapshot_id)
            self.findings.append(
                Finding(code=codes.HISTORY_TRUNCATED, what=f"snapshot {first}", detail=self.ancestry.truncated_because)
            )
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
        return DeltaConversionPlan(
            schema=self.schema,
            translation=translation,
            leaves=self._translated(self.schema, names, {}, mode).leaves,
            ancestry=self.ancestry,
            translations=translations,
            mode=mode,
            physical_names=names,
            type_mappings=self.options.type_mappings,
            partitioning=partitioning,
            footers=self.survey.footers,
            groups=groups,
            rewritten=rewritten,
            named_features=misleads,
            lineage=lineage,
            widened=bool(narrow),
            properties=properties,
            description=shown_text(self.metadata.properties.get("comment")),
            deletes=dict(self.survey.deletes),
            keys_in_tasks=self._keys_in_tasks(),
            findings=tuple(self.findings),
        )

    def _examine_source(self) -> None:
        self.findings.extend(self.survey.footers.findings())
        self.findings.extend(outside_findings(self.survey.outside, self.source.storage))
        if self.source.snapshot is None:
            self.findings.append(Finding(code=codes.EMPTY_SOURCE, what="snapshots"))
        if self.survey.listed_twice is not None:
            self.findings.append(Finding(code=codes.FILE_LISTED_TWICE, what=self.survey.listed_twice, files=1))
        for snapshot in self.ancestry.distinct:
            if snapshot.snapshot_id < 0:
                detail = f"{snapshot.snapshot_id} is {snapshot.snapshot_id + 2**64} unsigned"
                self.findings.append(Finding(code=codes.SNAPSHOT_ID_UNSIGNED, what="snapshot", detail=detail))
        for kind, code in (
            ("vectors", codes.DELETION_VECTORS),
            ("position", codes.POSITION_DELETES),
            ("equality", codes.EQUALITY_DELETES),
        ):
            count = self.survey.deletes[kind]
            detail = self._by_keys() if kind == "equality" else ""
            if count:
                self.findings.append(Finding(code=code, what=f"{count} delete files", detail=detail, files=count))
        self._look_at_key_columns()

    def _look_at_key_columns(self) -> None:
        """The columns below a struct that may be null, in the newest schema that has them."""
        schemas = sorted(self.metadata.schemas, key=lambda schema: -schema.schema_id)
        for field_id in sorted(self.survey.key_columns):
            schema = next((each for each in schemas if each.find(field_id) is not None), None)
            if schema is not None and any(not each.required for each in _parents(schema, field_id)):
                self.findings.append(Finding(code=codes.EQUALITY_DELETES_NESTED, what=schema.full_name(field_id)))

    def _find_other_buckets(self, rewritten: frozenset[GroupKey]) -> None:
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
            and len(self.ancestry.snapshots) == 1
            and self.survey.delete_keys > 0
            and (rows >= LOCAL_ROWS or self.survey.delete_keys >= LOCAL_DELETE_KEYS)
        )

    def _by_keys(self) -> str:
        """Where equality deletes are resolved, where there are any."""
        if self.options.engine != "spark":
            return ""
        where = "by a Spark job" if self._keys_in_tasks() else "without a Spark job of its own"
        return f"{self.survey.delete_keys} deleted keys, {where}"

    def _live_specs(self) -> list[PartitionSpec]:
        ids = sorted({spec_id for _, spec_id in self.survey.tallies}) or [self.metadata.default_spec_id]
        return [self.metadata.spec_by_id(spec_id) for spec_id in ids]

    def _partitioning(self, naming: ColumnNaming, mapped: frozenset[int], *, withheld: str | None) -> DeltaPartitioning:
        found = iceberg_to_delta_partitioning(
            self._live_specs(),
            self.ancestry.shared,
            empty_strings=frozenset(self.survey.empty_strings),
            unmappable=mapped,
            withheld=withheld,
            derive_beside=naming.known() if self.options.derive_partition_columns else None,
        )
        return found if self.existing is None else self._kept_partitioning(found, self.existing)

    def _kept_partitioning(self, found: DeltaPartitioning, existing: ExistingDelta) -> DeltaPartitioning:
        """The target's partition columns, with a refusal where the files that come have no value for one of them."""
        kept = {existing.names[each.field_id] for each in existing.schema.fields
                if each.name in existing.partition_columns}  # fmt: skip
        columns = tuple(column for column in found.columns if existing.names.get(column.source_id) in kept)
        derived = tuple(column for column in found.derived if column.name in existing.partition_columns)
        if self.survey.tallies and len(columns) + len(derived) < len(existing.partition_columns):
            reasons = "; ".join(each.detail for each in found.findings if each.code is codes.PARTITION_FIELD_KEPT)
            what = ", ".join(existing.partition_columns)
            self.findings.append(
                Finding(
                    code=codes.SYNC_SCHEMA,
                    what="partition columns",
                    detail=f"the target is partitioned by {what}, the files that come are not{f' ({reasons})' if reasons else ''}",
                )
            )
        order = {name: place for place, name in enumerate(existing.partition_columns)}
        by_id = {each.field_id: each.name for each in existing.schema.fields}
        columns = tuple(sorted(columns, key=lambda column: order[by_id[column.source_id]]))
        return replace(found, columns=columns, derived=derived)

    def _kept_names(self, existing: ExistingDelta) -> dict[int, str]:
        """The names that the target has; a new column gets its own unless another one has, or had, it in some file."""
        names = dict(existing.names)
        for column in self.schema.all_fields():
            parent = self.schema.parent_id(column.field_id)
            holder = self.schema.find(parent) if parent is not None else None
            if column.field_id in names or (holder is not None and isinstance(holder.type, (ListType, MapType))):
                continue
            beside = {names.get(each.field_id, each.name).lower() for each in siblings(self.schema, column, parent)} | {
                each.name.lower() for schema in self.metadata.schemas for each in siblings(schema, column, parent)
            }
            taken = column.name.lower() in beside
            if taken and existing.mode is MappingMode.NONE:
                detail = f"column {column.name} has the name of one that files had before"
                self.findings.append(Finding(code=codes.SYNC_SCHEMA, what="schema", detail=detail))
            names[column.field_id] = f"col-{column.field_id}" if taken else column.name
        return names

    def _narrow_types(
        self,
        groups: tuple[FileGroup, ...],
        held: list[dict[int, FileField]],
        rewritten: frozenset[GroupKey],
        partition_sources: frozenset[int],
    ) -> dict[int, set[DeltaType]]:
        result: dict[int, set[DeltaType]] = {}
        for group in groups:
            if group.key in rewritten:
                continue
            for field_id, kind in narrower_types(self.schema, held[group.layout]).items():
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
        if self.existing is not None and not self.existing.tracks_rows:
            # Row ids cannot be stated for some files of a table only.
            self.findings.append(
                Finding(code=codes.LINEAGE_NOT_CARRIED, what="row lineage", detail="the target has none")
            )
            return False
        if self.survey.without_row_id:
            detail = f"{self.survey.without_row_id} files have no row ids yet"
            if self.existing is not None:
                self.findings.append(Finding(code=codes.SYNC_SCHEMA, what="row lineage", detail=detail))
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


def _parents(schema: Schema, field_id: int) -> Iterator[NestedField]:
    """The fields that hold a field, the closest first."""
    parent = schema.parent_id(field_id)
    while parent is not None:
        holder = schema.find(parent)
        assert holder is not None
        yield holder
        parent = schema.parent_id(parent)


def _leaf_types(schema: Schema) -> dict[int, DeltaType]:
    """The types of the leaves in Delta, by field id; leaves that Delta lacks are left out."""
    return {leaf.field_id: leaf.delta for leaf in iceberg_to_delta_schema(schema, mode=MappingMode.NONE).leaves}
