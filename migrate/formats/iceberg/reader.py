"""An Iceberg table as the verbs read it: the reader of this format."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from deltaberg.iceberg.manifest.live_files import live_manifests
from deltaberg.iceberg.manifest.manifest_list import ManifestContent
from deltaberg.iceberg.scan.scan import Scan, scan
from deltaberg.iceberg.snapshot_write.splits import listed_files as files_of_manifest
from deltaberg.migrate.formats.iceberg.files import file_counts, listed_locations
from deltaberg.migrate.formats.iceberg.history import entries
from deltaberg.migrate.formats.iceberg.inspection import inspect
from deltaberg.migrate.formats.iceberg.rows import IcebergFileRows, listed_files, rows
from deltaberg.migrate.formats.iceberg.stated_bounds import stated_bounds
from deltaberg.migrate.history import HistoryEntry
from deltaberg.migrate.inspection import Inspection
from deltaberg.migrate.source import IcebergSource
from deltaberg.migrate.target.locations import real_locations
from deltaberg.migrate.verify.stated_bounds import StatedBounds, ValueRange
from deltaberg.migrate.verify.tables import ChosenOptions, ColumnFacts, column_facts, mapped_types
from deltaberg.translate.field_ids import Path


@dataclass(frozen=True, slots=True)
class IcebergReader:
    """Satisfies ``TableReader``."""

    source: IcebergSource

    def inspect(self) -> Inspection:
        return inspect(self.source)

    def history(self, *, limit: int | None) -> Iterator[HistoryEntry]:
        return entries(self.source)

    def scan(self, columns: Sequence[str] | None) -> Scan:
        source = self.source
        return scan(source.table, snapshot=source.snapshot, schema=source.schema, columns=columns)

    def stated_files(self) -> int:
        manifests = live_manifests(self.source.table, self.source.snapshot, ManifestContent.DATA)
        return sum(files_of_manifest(manifest) or 0 for manifest in manifests)

    def column_facts(self, options: ChosenOptions) -> dict[tuple[str, ...], ColumnFacts]:
        schema = mapped_types(self.source.schema, options.type_mappings)
        return column_facts(schema, with_ids=True, nested_ids=True)

    def derived_columns(self) -> frozenset[str]:
        return frozenset()

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
        return real_locations(self.source.storage, files.column("file_path"))

    def file_rows(self, names: list[str], options: ChosenOptions) -> IcebergFileRows:
        return IcebergFileRows(self.source, names, options)
