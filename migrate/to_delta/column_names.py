"""How readers of a Delta target find its columns: the column mapping mode, and every column's physical name.

Delta: "Column Mapping". Readers go by field id or by physical name, and some by the present name in every mode
(docs/names.md); a name is right where none of them takes one column for another.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from deltaberg.datafile import FileField
from deltaberg.delta.schema.column_mapping import MappingMode
from deltaberg.iceberg.schema.schema import Schema
from deltaberg.migrate.to_delta.survey import DeltaSurvey
from deltaberg.translate import codes
from deltaberg.translate.column_mapping_property import CarriedMapping
from deltaberg.translate.file_sharing import SharingBlocker, name_obstacles, names_in_file, taken_names
from deltaberg.translate.findings import Finding
from deltaberg.translate.options import ConvertOptions
from deltaberg.translate.physical_names import choose_physical_names

_NOT_IN_PARQUET: Final = frozenset(" ,;{}()\n\t=")
"""Delta allows these in names only with column mapping."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnNaming:
    """The names that a source's files and schemas have for its columns.

    schema: the columns of all ``schemas``. held: by layout of the survey, which field of a file is which column.
    carried: the mapping of the Delta table that the source came from. all_schemas: those of the table, its past
    included.
    """

    survey: DeltaSurvey
    options: ConvertOptions
    schema: Schema
    schemas: Sequence[Schema]
    all_schemas: Sequence[Schema]
    held: Sequence[Mapping[int, FileField]]
    carried: CarriedMapping | None

    @property
    def trusts_ids(self) -> bool:
        """Whether the user states that all readers go by field id alone."""
        return self.options.former_names == "trust-ids"

    @property
    def given(self) -> Mapping[int, str]:
        """The physical names that partition columns had in the Delta table that this one came from."""
        return {} if self.carried is None else self.carried.partition_names

    def known(self) -> set[str]:
        """Names of top-level columns in any schema and any file."""
        of_schemas = {column.name for schema in self.all_schemas for column in schema.fields}
        return of_schemas | {each.name for layout in self.survey.footers.layout for each in layout.fields or ()}

    def mode(self) -> MappingMode:
        """The mode that was asked for; else by id where all files have ids."""
        match self.options.column_mapping:
            case "auto":
                return MappingMode.ID if self._all_have_ids() else MappingMode.NAME
            case choice:
                return MappingMode(choice)

    def findings(self, *, has_name_mapping: bool) -> Iterator[Finding]:
        """The consequences of files without field ids for readers of both formats."""
        live = [self.survey.footers.layout[layout] for layout, _ in self.survey.tallies]
        if not has_name_mapping and any(layout.fields and not layout.has_ids for layout in live):
            yield Finding(code=codes.FIELD_IDS_UNMAPPED, what="data files")
        if self.options.column_mapping == "auto" and not self._all_have_ids():
            yield Finding(code=codes.FIELD_IDS_ABSENT, what="data files")

    def physical_names(self, partition_sources: frozenset[int], mode: MappingMode) -> dict[int, str]:
        """The name that most bytes use; the present one for partition columns and for columns that no file holds."""
        bytes_by_name: dict[int, dict[str, int]] = {}
        for (layout, _), tally in self.survey.tallies.items():
            for field_id, name in names_in_file(self.schema, self.held[layout]).items():
                by_name = bytes_by_name.setdefault(field_id, {})
                by_name[name] = by_name.get(name, 0) + tally.bytes
        taken: dict[int, set[str]] = {}
        for each, own in zip(self.survey.footers.layout, self.held, strict=True):
            for field_id, others in taken_names(each.fields or (), self.schema, own):
                taken.setdefault(field_id, set()).update(others)
        return choose_physical_names(
            self.schema,
            bytes_by_name,
            present=None if mode is MappingMode.NONE else partition_sources,
            given=self.given,
            taken_in_files=taken,
            shared_under_any_name=self.trusts_ids and mode is MappingMode.ID,
        )

    def carried_mode(
        self, mode: MappingMode, names: Mapping[int, str], partition_sources: frozenset[int]
    ) -> MappingMode:
        """The mode of the Delta table that this one came from, where readers still find every column by it."""
        if self.carried is None or self.options.column_mapping != "auto" or self.carried.mode is MappingMode.ID:
            return mode
        if any(self.blockers(layout, names, partition_sources) for layout in range(len(self.held))):
            return mode
        if self.carried.mode is MappingMode.NAME:
            return MappingMode.NAME
        plain = len(set(self.schemas)) == 1 and self.options.iceberg_compat == "none"
        columns = [column for column in self.schema.all_fields() if column.field_id in names]
        usual = all(names[each.field_id] == each.name and not _NOT_IN_PARQUET & set(each.name) for each in columns)
        return MappingMode.NONE if plain and usual else mode

    def differ(self, names: Mapping[int, str]) -> bool:
        """Whether a top-level column has another physical name than it has in some schema."""
        return any(names[column.field_id] != column.name for schema in self.schemas for column in schema.fields)

    def differ_anywhere(self, names: Mapping[int, str]) -> bool:
        """Whether a column at any depth has another physical name than in some schema."""
        columns = (column for schema in self.schemas for column in schema.all_fields())
        return any(names.get(column.field_id, column.name) != column.name for column in columns)

    def blockers(
        self, layout: int, names: Mapping[int, str], partition_sources: frozenset[int]
    ) -> tuple[SharingBlocker, ...]:
        """Columns that a reader matching by physical name would miss or mistake in files of these layouts."""
        fields = self.survey.footers.layout[layout].fields
        found = () if fields is None else name_obstacles(fields, self.schema, self.held[layout], names)
        return tuple(each for each in found if self._top_level_id(each.column) not in partition_sources)

    def _top_level_id(self, name: str) -> int | None:
        return next((column.field_id for column in self.schema.fields if column.name == name), None)

    def _all_have_ids(self) -> bool:
        live = [self.survey.footers.layout[layout] for layout, _ in self.survey.tallies]
        return all(layout.has_ids for layout in live if layout.fields is not None)
