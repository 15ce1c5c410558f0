"""Write anew the files that cannot be shared: one file for each, streamed in bounded memory, deletes applied."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa

from deltaberg.bitmap import PositionBitmap
from deltaberg.datafile import ReadField
from deltaberg.datafile.parquet_writer import ParquetFileWriter, WrittenFiles, parquet_schema
from deltaberg.delta.scan import scan as scan_delta
from deltaberg.iceberg.delete_index import DeleteIndex
from deltaberg.iceberg.read_schema import read_fields
from deltaberg.iceberg.row_deletes import FileDeletes
from deltaberg.iceberg.row_lineage import LINEAGE_FIELDS
from deltaberg.iceberg.scan import Scan, scan
from deltaberg.iceberg.scan_task import DataFileTask, tasks
from deltaberg.iceberg.schema import Schema
from deltaberg.iceberg.types import ListType, MapType, NestedField, StructType, Type
from deltaberg.migrate.locations import join
from deltaberg.migrate.source import DeltaSource, IcebergSource
from deltaberg.storage import Storage
from deltaberg.translate.values import convert_columns, mapped_fields

LOCAL_LIMIT_BYTES: Final = 64 << 30
"""What ``--engine auto`` still rewrites on this machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteTarget:
    """Where rewritten files go and what they hold. fields: by physical name and id, lineage columns included."""

    storage: Storage
    folder: str
    fields: tuple[ReadField, ...]
    new_id: Callable[[], uuid.UUID] = uuid.uuid4

    def write(self, batches: Iterable[pa.RecordBatch], *, location: str | None = None) -> WrittenFiles:
        """One file of all batches, under a new name unless one is given; no file when there are no rows."""
        location = location or rewritten_location(self.folder, self.new_id())
        with ParquetFileWriter(self.storage, lambda _: location, parquet_schema(self.fields)) as writer:
            for batch in batches:
                writer.write(batch)
            return writer.finish()


def rewritten_location(folder: str, name: uuid.UUID) -> str:
    """Where a file that was written anew goes."""
    return join(folder, f"rewritten-{name}.parquet")


class IcebergRewriter:
    """Rewrites data files of an Iceberg snapshot under the physical names and types of a Delta target."""

    def __init__(
        self,
        source: IcebergSource,
        schema: Schema,
        *,
        storage: Storage,
        folder: str,
        physical_names: Mapping[int, str],
        type_mappings: Mapping[str, str],
        with_lineage: bool,
    ) -> None:
        """schema: in which the snapshot is read. with_lineage: row ids are written into the files."""
        self._columns = _renamed(schema.fields, physical_names)
        self._mappings = dict(type_mappings)
        self._scan: Scan = scan(
            source.table,
            snapshot=source.snapshot,
            schema=replace(schema, fields=self._columns, identifier_field_ids=()),
            with_lineage=with_lineage,
            variant_as_json=False,
        )
        fields = mapped_fields(read_fields(self._columns, variant_as_json=False), self._columns, self._mappings)
        lineage = read_fields(LINEAGE_FIELDS) if with_lineage else ()
        self._target = RewriteTarget(storage=storage, folder=folder, fields=(*fields, *lineage))

    def rewrite(
        self,
        files: pa.RecordBatch,
        deleted: Mapping[int, PositionBitmap],
        *,
        locations: Mapping[int, str] | None = None,
    ) -> Iterator[tuple[int, WrittenFiles]]:
        """The live rows of each data file (DATA_FILE_SCHEMA) in a new one, with the row it stands in.

        deleted: the deleted positions of some files, by row. locations: of the new files, by row; else new names.
        """
        no_deletes = DeleteIndex((), unpartitioned_spec_ids=frozenset()).match([files])[0]
        for task in tasks(files, no_deletes):
            deletes = FileDeletes(positions=deleted.get(task.row), equality=())
            location = None if locations is None else locations[task.row]
            yield task.row, self._target.write(self._batches(task, deletes), location=location)

    def _batches(self, task: DataFileTask, deletes: FileDeletes) -> Iterator[pa.RecordBatch]:
        for batch in self._scan.file_batches(task, deletes):
            yield convert_columns(batch, self._columns, self._mappings)


class DeltaRewriter:
    """Rewrites data files of a Delta version with the field ids of an Iceberg target."""

    def __init__(
        self,
        source: DeltaSource,
        schema: Schema,
        *,
        storage: Storage,
        folder: str,
        partition_timezone: str,
        with_lineage: bool,
    ) -> None:
        """schema: the target's. with_lineage: row ids and commit versions are written into the files."""
        self._source = source
        self._names = [field.name for field in schema.fields]
        self._partition_timezone = partition_timezone
        self._with_lineage = with_lineage
        lineage = read_fields(LINEAGE_FIELDS) if with_lineage else ()
        fields = read_fields(schema.fields, variant_as_json=False)
        self._target = RewriteTarget(storage=storage, folder=folder, fields=(*fields, *lineage))

    def rewrite(self, adds: pa.RecordBatch) -> Iterator[tuple[int, WrittenFiles]]:
        """The live rows of each file (ADD_SCHEMA) in a new one, with the row it stands in."""
        for row in range(adds.num_rows):
            yield row, self._target.write(self._batches(adds.slice(row, 1)))

    def _batches(self, add: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        rows = scan_delta(
            self._source.snapshot,
            columns=self._names,
            with_lineage=self._with_lineage,
            variant_as_json=False,
            files=[add],
            partition_timezone=self._partition_timezone,
        )
        for batch in rows.batches():
            yield batch.rename_columns(self._renamed(batch.schema.names))

    def _renamed(self, names: list[str]) -> list[str]:
        """The lineage columns, which come last, under Iceberg's names."""
        own = names[: len(self._names)]
        return [*own, *(field.name for field in LINEAGE_FIELDS)] if self._with_lineage else own


def _renamed(fields: Sequence[NestedField], names: Mapping[int, str]) -> tuple[NestedField, ...]:
    """The same fields under other names, at any depth."""
    return tuple(
        replace(field, name=names.get(field.field_id, field.name), type=_renamed_type(field.type, names))
        for field in fields
    )


def _renamed_type(kind: Type, names: Mapping[int, str]) -> Type:
    match kind:
        case StructType(fields=fields):
            return replace(kind, fields=_renamed(fields, names))
        case ListType(element=element):
            return replace(kind, element=_renamed((element,), names)[0])
        case MapType(key=key, value=value):
            return replace(kind, key=_renamed((key,), names)[0], value=_renamed((value,), names)[0])
        case _:
            return kind
