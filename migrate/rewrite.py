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
from deltaberg.iceberg.delete_index import DeleteIndex
from deltaberg.iceberg.read_schema import read_fields
from deltaberg.iceberg.row_deletes import FileDeletes
from deltaberg.iceberg.row_lineage import LINEAGE_FIELDS
from deltaberg.iceberg.scan import Scan, scan
from deltaberg.iceberg.scan_task import DataFileTask, tasks
from deltaberg.iceberg.schema import Schema
from deltaberg.iceberg.types import ListType, MapType, NestedField, StructType, Type
from deltaberg.migrate.locations import join
from deltaberg.migrate.source import IcebergSource
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

    def write(self, batches: Iterable[pa.RecordBatch]) -> WrittenFiles:
        """One file of all batches; no file when there are no rows."""
        location = join(self.folder, f"rewritten-{self.new_id()}.parquet")
        with ParquetFileWriter(self.storage, lambda _: location, parquet_schema(self.fields)) as writer:
            for batch in batches:
                writer.write(batch)
            return writer.finish()


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
        self, files: pa.RecordBatch, deleted: Mapping[int, PositionBitmap]
    ) -> Iterator[tuple[int, WrittenFiles]]:
        """The live rows of each data file (DATA_FILE_SCHEMA) in a new one, with the row it stands in.

        deleted: the deleted positions of some files, by row.
        """
        no_deletes = DeleteIndex((), unpartitioned_spec_ids=frozenset()).match([files])[0]
        for task in tasks(files, no_deletes):
            deletes = FileDeletes(positions=deleted.get(task.row), equality=())
            yield task.row, self._target.write(self._batches(task, deletes))

    def _batches(self, task: DataFileTask, deletes: FileDeletes) -> Iterator[pa.RecordBatch]:
        for batch in self._scan.file_batches(task, deletes):
            yield convert_columns(batch, self._columns, self._mappings)


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
