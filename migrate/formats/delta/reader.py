"""A Delta table as the verbs read it: the reader of this format."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from deltaberg.delta.log.add_path import location_array
from deltaberg.delta.scan import Scan, scan
from deltaberg.delta.schema.column_mapping import MappingMode
from deltaberg.migrate.formats.delta.files import file_counts, listed_locations
from deltaberg.migrate.formats.delta.history import entries
from deltaberg.migrate.formats.delta.inspection import inspect
from deltaberg.migrate.formats.delta.rows import DeltaFileRows, listed_files, rows
from deltaberg.migrate.formats.delta.stated_bounds import stated_bounds
from deltaberg.migrate.history import HistoryEntry
from deltaberg.migrate.inspection import Inspection
from deltaberg.migrate.source import DeltaSource
from deltaberg.migrate.target.locations import real_locations
from deltaberg.migrate.verify.stated_bounds import StatedBounds, ValueRange
from deltaberg.migrate.verify.tables import ChosenOptions, ColumnFacts, column_facts
from deltaberg.translate.derived_columns import GENERATION_KEY
from deltaberg.translate.field_ids import Path, assigned_ids, declared_ids, mapped_schema
from deltaberg.translate.schema import delta_to_iceberg_schema

_NEWEST_FORMAT: Final = 3
_ONE_PART: Final = 1 << 62


@dataclass(frozen=True, slots=True)
class DeltaReader:
    """Satisfies ``TableReader``."""

    source: DeltaSource

    def inspect(self) -> Inspection:
        return inspect(self.source)

    def history(self, *, limit: int | None) -> Iterator[HistoryEntry]:
        return entries(self.source, limit)

    def scan(self, columns: Sequence[str] | None) -> Scan:
        return scan(self.source.snapshot, columns=columns)

    def stated_files(self) -> int:
        snapshot = self.source.snapshot
        parts = snapshot.checkpoint_parts(files_per_part=_ONE_PART)
        return sum(part.files or 0 for part in parts) + (0 if snapshot.tail is None else snapshot.tail.adds.num_rows)

    def column_facts(self, options: ChosenOptions) -> dict[tuple[str, ...], ColumnFacts]:
        mapping = self.source.snapshot.column_mapping
        delta = mapped_schema(mapping)
        ids = assigned_ids(delta, known=declared_ids(mapping))
        schema = delta_to_iceberg_schema(delta, ids, format_version=_NEWEST_FORMAT).schema
        return column_facts(schema, with_ids=mapping.mode is not MappingMode.NONE, nested_ids=False)

    def derived_columns(self) -> frozenset[str]:
        columns = self.source.snapshot.metadata.schema.fields
        return frozenset(column.name for column in columns if GENERATION_KEY in column.metadata)

    def listed_locations(self) -> Iterator[pa.Array]:
        return listed_locations(self.source)

    def file_counts(self) -> Iterator[pa.RecordBatch]:
        return file_counts(self.source)

    def stated_bounds(self) -> Iterator[tuple[list[StatedBounds], Mapping[Path, ValueRange]]]:
        return stated_bounds(self.source)

    def rows(self, names: list[str], options: ChosenOptions) -> Iterator[pa.RecordBatch]:
        return rows(self.source, names, options)

    def listed_files(self) -> Iterator[pa.RecordBatch]:
        return listed_files(self.source)

    def file_locations(self, files: pa.RecordBatch) -> pa.Array:
        return real_locations(self.source.storage, location_array(files, self.source.snapshot.table_root))

    def file_rows(self, names: list[str], options: ChosenOptions) -> DeltaFileRows:
        return DeltaFileRows(self.source, names, options)
