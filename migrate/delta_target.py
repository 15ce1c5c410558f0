"""Decide how an Iceberg snapshot becomes a Delta version: read-only, one pass over the live files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.datafile import FileField
from deltaberg.delta.column_mapping import MappingMode
from deltaberg.delta.iceberg_compat import IcebergCompat
from deltaberg.delta.types import DeltaType, StructType
from deltaberg.iceberg.data_file import EQUALITY_DELETES
from deltaberg.iceberg.delete_index import PUFFIN
from deltaberg.iceberg.live_files import data_files, delete_files
from deltaberg.iceberg.partition_spec import PartitionSpec
from deltaberg.iceberg.schema import Schema
from deltaberg.iceberg.snapshot_ref import MAIN_BRANCH
from deltaberg.iceberg.transforms import IdentityTransform, TruncateTransform
from deltaberg.iceberg.types import ListType, MapType, StringType
from deltaberg.migrate.footers import FileFacts, FooterSurvey, name_pattern
from deltaberg.migrate.iceberg_compat import compat_findings
from deltaberg.migrate.locations import real_locations
from deltaberg.migrate.source import IcebergSource
from deltaberg.translate import codes
from deltaberg.translate.derived_columns import with_derived_columns
from deltaberg.translate.file_columns import (
    Obstacle,
    delta_obstacles,
    held_by_id,
    name_obstacles,
    names_in_file,
    narrower_types,
    still_in_the_way,
)
from deltaberg.translate.findings import Finding, Severity
from deltaberg.translate.lineage import iceberg_to_delta_lineage_properties
from deltaberg.translate.options import ConvertOptions
from deltaberg.translate.partitioning import DeltaPartitioning, iceberg_to_delta_partitioning
from deltaberg.translate.properties import iceberg_to_delta_properties
from deltaberg.translate.schema import DeltaSchemaTranslation, iceberg_to_delta_schema
from deltaberg.translate.type_changes import widening_chain

SORT_ORDER_KEY: Final = "deltaberg.iceberg.sort-order"
IDENTIFIER_FIELDS_KEY: Final = "deltaberg.iceberg.identifier-fields"
REFS_KEY: Final = "deltaberg.iceberg.refs"
DELETION_VECTORS_KEY: Final = "delta.enableDeletionVectors"

_NAMES_DIFFER: Final = (
    "a column has another name in the files, and DuckDB then reads partition columns as null; --former-names trust-ids "
    "keeps them"
)


@dataclass(slots=True, kw_only=True)
class _Tally:
    """Files of equal facts and spec."""

    files: int = 0
    rows: int = 0
    bytes: int = 0


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

    survey: tells which facts a file has. rewritten: (facts, spec id) of files that are written anew.
    lineage: row ids are carried. deletes: counts of delete files by kind.
    """

    schema: Schema
    translation: DeltaSchemaTranslation
    mode: MappingMode
    physical_names: Mapping[int, str]
    type_mappings: Mapping[str, str]
    partitioning: DeltaPartitioning
    survey: FooterSurvey
    groups: tuple[FileGroup, ...]
    rewritten: frozenset[tuple[int, int]]
    lineage: bool
    widened: bool
    properties: Mapping[str, str]
    description: str | None
    deletes: Mapping[str, int]
    findings: tuple[Finding, ...] = field(default=())

    @property
    def delta_schema(self) -> StructType:
        return self.translation.schema


def observe(
    survey: FooterSurvey, source: IcebergSource, batch: pa.RecordBatch
) -> tuple[pa.Array, npt.NDArray[np.int32]]:
    """Where the files of a batch really are, and the facts of each."""
    locations = real_locations(source.storage, batch.column("file_path"))
    commits = pc.fill_null(batch.column("snapshot_id"), 0).cast(pa.string())
    groups = pc.binary_join_element_wise(commits, name_pattern(locations), "|")
    return locations, survey.observe(batch.column("file_path"), batch.column("file_format"), groups)


def design_delta(source: IcebergSource, options: ConvertOptions) -> DeltaDesign:
    """Look at the snapshot's files and decide. Raises what reading the table raises; refusals are findings."""
    return _Designer(source, options).design()


class _Designer:
    def __init__(self, source: IcebergSource, options: ConvertOptions) -> None:
        self.source = source
        self.options = options
        self.metadata = source.table.metadata
        self.schema = source.schema
        self.survey = FooterSurvey(source.storage, deep=options.deep)
        self.findings: list[Finding] = []
        self.tallies: dict[tuple[int, int], _Tally] = {}
        self.empty_strings: set[int] = set()
        self.rows_without_id = 0
        self.files = 0

    def design(self) -> DeltaDesign:
        self._look_at_files()
        deletes = self._look_at_deletes()
        held = [
            {} if facts.fields is None else held_by_id(facts.fields, self.schema, self.metadata.name_mapping)
            for facts in self.survey.facts
        ]
        mapped = iceberg_to_delta_schema(
            self.schema, mode=MappingMode.ID, type_mappings=self.options.type_mappings
        ).mapped_ids
        mode = self._mapping_mode()
        partitioning = self._partitioning(mapped, withheld=None)
        sources = frozenset(column.source_id for column in partitioning.columns)
        names = self._physical_names(held, sources, mode)
        if partitioning.names and self._misleads_by_names(names):
            partitioning = self._partitioning(mapped, withheld=_NAMES_DIFFER)
            sources = frozenset()
            names = self._physical_names(held, sources, mode)
        obstacles = {key: self._obstacles(key, held[key[0]], names, sources, mapped, mode) for key in self.tallies}
        groups = tuple(
            FileGroup(
                facts=key[0],
                spec_id=key[1],
                files=tally.files,
                rows=tally.rows,
                bytes=tally.bytes,
                obstacles=obstacles[key],
            )
            for key, tally in self.tallies.items()
        )
        rewritten = self._judge(groups, mode)
        narrow = self._narrow_types(groups, held, rewritten, sources)
        changes = {field_id: widening_chain(kinds, self._delta_type(field_id)) for field_id, kinds in narrow.items()}
        translation = iceberg_to_delta_schema(
            self.schema,
            mode=mode,
            physical_names=names,
            type_changes=changes,
            type_mappings=self.options.type_mappings,
        )
        translation = replace(
            translation,
            schema=with_derived_columns(
                translation.schema, partitioning.derived, mode=mode, last_column_id=self.metadata.last_column_id
            ),
        )
        self.findings.extend(translation.findings)
        self.findings.extend(partitioning.findings)
        for field_id in narrow:
            self.findings.append(
                Finding(
                    code=codes.TYPE_PROMOTED,
                    what=self.schema.full_name(field_id),
                    detail=", ".join(f"{change.from_type} to {change.to_type}" for change in changes[field_id]),
                )
            )
        lineage, properties = self._lineage(), self._properties()
        properties |= self._compat(
            translation.schema, mode, partitioning, with_deletes=any(deletes.values()), lineage=lineage
        )
        return DeltaDesign(
            schema=self.schema,
            translation=translation,
            mode=mode,
            physical_names=names,
            type_mappings=self.options.type_mappings,
            partitioning=partitioning,
            survey=self.survey,
            groups=groups,
            rewritten=rewritten,
            lineage=lineage,
            widened=bool(narrow),
            properties=properties,
            description=self.metadata.properties.get("comment"),
            deletes=deletes,
            findings=tuple(self.findings),
        )

    # What the files say

    def _look_at_files(self) -> None:
        if self.source.snapshot is None:
            self.findings.append(Finding(code=codes.EMPTY_SOURCE, what="snapshots"))
        for batch in data_files(self.source.table, self.source.snapshot):
            _, facts = observe(self.survey, self.source, batch)
            spec_id = batch.column("spec_id")[0].as_py()
            self._tally(facts, spec_id, batch)
            self._look_for_empty_strings(self.metadata.spec_by_id(spec_id), batch.column("partition"))
            if batch.column("first_row_id").null_count:
                self.rows_without_id += batch.column("first_row_id").null_count
            self.files += batch.num_rows

    def _tally(self, facts: npt.NDArray[np.int32], spec_id: int, batch: pa.RecordBatch) -> None:
        rows = batch.column("record_count").to_numpy()
        sizes = batch.column("file_size_in_bytes").to_numpy()
        count = len(self.survey.facts)
        files_of = np.bincount(facts, minlength=count)
        for index in np.flatnonzero(files_of):
            here = facts == index
            tally = self.tallies.setdefault((int(index), spec_id), _Tally())
            tally.files += int(files_of[index])
            tally.rows += int(rows[here].sum())
            tally.bytes += int(sizes[here].sum())

    def _look_for_empty_strings(self, spec: PartitionSpec, partition: pa.StructArray) -> None:
        for part in spec.fields:
            column = self.schema.find(part.source_id)
            if not isinstance(part.transform, (IdentityTransform, TruncateTransform)) or column is None:
                continue
            values = pc.struct_field(partition, part.name)
            if isinstance(column.type, StringType) and pc.any(pc.equal(values, ""), min_count=0).as_py():
                self.empty_strings.add(part.source_id)

    def _look_at_deletes(self) -> dict[str, int]:
        counts = {"vectors": 0, "position": 0, "equality": 0}
        for batch in delete_files(self.source.table, self.source.snapshot):
            vectors = pc.sum(pc.equal(batch.column("file_format"), PUFFIN)).as_py() or 0
            equality = pc.sum(pc.equal(batch.column("content"), EQUALITY_DELETES)).as_py() or 0
            counts["vectors"] += vectors
            counts["equality"] += equality
            counts["position"] += batch.num_rows - vectors - equality
        for kind, code in (
            ("vectors", codes.DELETION_VECTORS),
            ("position", codes.POSITION_DELETES),
            ("equality", codes.EQUALITY_DELETES),
        ):
            if counts[kind]:
                self.findings.append(Finding(code=code, what=f"{counts[kind]} delete files", files=counts[kind]))
        return counts

    def _live_specs(self) -> list[PartitionSpec]:
        ids = sorted({spec_id for _, spec_id in self.tallies}) or [self.metadata.default_spec_id]
        return [self.metadata.spec_by_id(spec_id) for spec_id in ids]

    def _partitioning(self, mapped: frozenset[int], *, withheld: str | None) -> DeltaPartitioning:
        return iceberg_to_delta_partitioning(
            self._live_specs(),
            self.schema,
            empty_strings=frozenset(self.empty_strings),
            unmappable=mapped,
            withheld=withheld,
            derive_beside=self._known_names() if self.options.derive_partition_columns else None,
        )

    def _known_names(self) -> set[str]:
        """Names of top-level columns in any schema and any file."""
        of_schemas = {column.name for schema in self.metadata.schemas for column in schema.fields}
        return of_schemas | {each.name for facts in self.survey.facts for each in facts.fields or ()}

    def _misleads_by_names(self, names: Mapping[int, str]) -> bool:
        """DuckDB gives null for every partition column as soon as one column has another physical name."""
        differ = any(names[column.field_id] != column.name for column in self.schema.fields)
        return differ and self.options.former_names != "trust-ids"

    # Column mapping

    def _mapping_mode(self) -> MappingMode:
        parquet = [self.survey.facts[facts] for facts, _ in self.tallies if self.survey.facts[facts].fields is not None]
        all_ids = all(facts.has_ids for facts in parquet)
        match self.options.column_mapping:
            case "auto":
                mode = MappingMode.ID if all_ids else MappingMode.NAME
                if not all_ids:
                    self.findings.append(Finding(code=codes.FIELD_IDS_ABSENT, what="data files"))
            case choice:
                mode = MappingMode(choice)
        self.findings.append(Finding(code=codes.COLUMN_MAPPING, what=f"mode {mode.value}"))
        return mode

    def _physical_names(
        self, held: list[dict[int, FileField]], partition_sources: frozenset[int], mode: MappingMode
    ) -> dict[int, str]:
        """The name that most bytes use; the present one for partition columns and for what no file holds."""
        bytes_by_name: dict[int, dict[str, int]] = {}
        for (facts, _), tally in self.tallies.items():
            for field_id, name in names_in_file(self.schema, held[facts]).items():
                by_name = bytes_by_name.setdefault(field_id, {})
                by_name[name] = by_name.get(name, 0) + tally.bytes
        result: dict[int, str] = {}
        taken: dict[int | None, set[str]] = {}
        for column in self.schema.all_fields():
            parent = self.schema.parent_id(column.field_id)
            holder = self.schema.find(parent) if parent is not None else None
            if holder is not None and isinstance(holder.type, (ListType, MapType)):
                continue
            names = bytes_by_name.get(column.field_id, {})
            present = column.field_id in partition_sources or mode is MappingMode.NONE or not names
            wanted = column.name if present else max(names, key=lambda name: (names[name], name == column.name))
            siblings = taken.setdefault(parent, set())
            if wanted.lower() in siblings:
                wanted = f"col-{column.field_id}"
            siblings.add(wanted.lower())
            result[column.field_id] = wanted
        return result

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
        facts: FileFacts = self.survey.facts[key[0]]
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
                self.findings.append(
                    Finding(
                        code=obstacle.code,
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
            return Severity.REFUSE, "Leave --column-mapping out."
        if obstacle.code is not codes.FORMER_NAMES:
            return obstacle.code.severity, None
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
        return result

    def _delta_type(self, field_id: int) -> DeltaType:
        leaves = iceberg_to_delta_schema(self.schema, mode=MappingMode.NONE).leaves
        return next(leaf.delta for leaf in leaves if leaf.field_id == field_id)

    def _lineage(self) -> bool:
        if self.metadata.format_version < 3 or self.source.snapshot is None:
            return False
        if self.rows_without_id:
            detail = f"{self.rows_without_id} files have no row ids yet"
            self.findings.append(Finding(code=codes.LINEAGE_NOT_CARRIED, what="row lineage", detail=detail))
            return False
        self.findings.append(Finding(code=codes.LINEAGE, what="row lineage", files=self.files))
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
        if self.schema.identifier_field_ids:
            names = [self.schema.full_name(field_id) for field_id in self.schema.identifier_field_ids]
            result[IDENTIFIER_FIELDS_KEY] = json.dumps(names, ensure_ascii=False)
            self.findings.append(Finding(code=codes.IDENTIFIER_FIELDS, what=", ".join(names)))
        others = {name: ref for name, ref in self.metadata.refs.items() if name != MAIN_BRANCH}
        if others:
            result[REFS_KEY] = json.dumps({name: ref.to_json() for name, ref in others.items()}, ensure_ascii=False)
            self.findings.append(Finding(code=codes.REFS, what=", ".join(sorted(others))))
        return result
