"""Rewrite the files that cannot be shared: one file for each, streamed in bounded memory, deletes applied."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

import pyarrow as pa

from deltaberg.bitmap import PositionBitmap
from deltaberg.datafile import ReadField
from deltaberg.datafile.parquet.parquet_writer import ROW_GROUP_BYTES, ParquetFileWriter, WrittenFiles, parquet_schema
from deltaberg.delta.scan import scan as scan_delta
from deltaberg.iceberg.deletes.delete_index import DeleteIndex
from deltaberg.iceberg.deletes.row_deletes import FileDeletes
from deltaberg.iceberg.scan.scan import Scan, scan
from deltaberg.iceberg.scan.scan_task import TASK_COLUMNS, tasks
from deltaberg.iceberg.schema.read_schema import read_fields
from deltaberg.iceberg.schema.schema import Schema
from deltaberg.iceberg.schema.types import ListType, MapType, NestedField, StructType, Type
from deltaberg.iceberg.snapshot_write.row_lineage import LINEAGE_FIELDS
from deltaberg.migrate.source import DeltaSource, IcebergSource
from deltaberg.migrate.target.locations import join
from deltaberg.storage import Storage
from deltaberg.translate.value_mapping import convert_columns, mapped_fields

LOCAL_LIMIT_BYTES: Final = 64 << 30
"""The limit of what ``--engine auto`` rewrites on this machine."""

NEEDED_COLUMNS: Final = frozenset(
    {
        *TASK_COLUMNS,
        "file_size_in_bytes",
        "path",
        "partition_values",
        "size",
        "deletion_vector",
        "base_row_id",
        "default_row_commit_version",
    }
)
"""The columns of DATA_FILE_SCHEMA or ADD_SCHEMA that rewriting a file needs."""

NO_DELETES: Final[Mapping[int, PositionBitmap]] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteUnit:
    """Source files that are rewritten together: one, or several of one partition, whose rows follow one another.

    files: rows of DATA_FILE_SCHEMA or ADD_SCHEMA. deleted: deleted positions of some Iceberg files, by row (a Delta
    file's deletion vector stands in its row). location: of the new file; None: under a new name.
    """

    files: pa.RecordBatch
    deleted: Mapping[int, PositionBitmap] = field(default_factory=dict)
    location: str | None = None

    @property
    def size(self) -> int:
        """Bytes of the source files."""
        return sum(file_sizes(self.files))


class FileRewrite(Protocol):
    """How files of one source become files of one target. Picklable, so that tasks on other machines can use it."""

    @property
    def target(self) -> RewriteTarget: ...

    def batches(self, unit: RewriteUnit) -> Iterator[pa.RecordBatch]:
        """The live rows of a unit's files under the target's names and types."""
        ...


class RewriteRunner(Protocol):
    """Rewrites units, in this process or in tasks of a cluster."""

    @property
    def wave_bytes(self) -> int:
        """The number of bytes of source files to pass to ``run`` at a time; 0: any."""
        ...

    def run(self, rewrite: FileRewrite, units: Sequence[RewriteUnit]) -> Iterator[WrittenFiles]:
        """The files that were written for each unit, in the units' order; none for a unit without live rows."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteTarget:
    """Where rewritten files go and what they hold. fields: by physical name and id, lineage columns included.

    target_size: a file of about so many bytes is closed and another begun; None: never.
    """

    storage: Storage
    folder: str
    fields: tuple[ReadField, ...]
    target_size: int | None = None

    def write(self, batches: Iterable[pa.RecordBatch], location: Callable[[int], str]) -> WrittenFiles:
        """The files of all batches; none when there are no rows. location: of the n-th file."""
        size = self.target_size
        with ParquetFileWriter(
            self.storage,
            location,
            parquet_schema(self.fields),
            target_size=size,
            row_group_bytes=ROW_GROUP_BYTES if size is None else min(size, ROW_GROUP_BYTES),
        ) as writer:
            for batch in batches:
                writer.write(batch)
            return writer.finish()

    def write_unit(self, rewrite: FileRewrite, unit: RewriteUnit, folder: str, name: str) -> WrittenFiles:
        """Write one unit under names that begin with ``name``, unless the unit has a location."""
        if unit.location is None:
            return self.write(rewrite.batches(unit), lambda index: _location(folder, name, index))
        only = unit.location
        return replace(self, target_size=None).write(rewrite.batches(unit), lambda _: only)


@dataclass(frozen=True, slots=True, kw_only=True)
class InThisProcess:
    """Writes one unit after the other."""

    new_id: Callable[[], uuid.UUID] = uuid.uuid4

    @property
    def wave_bytes(self) -> int:
        return 0

    def run(self, rewrite: FileRewrite, units: Sequence[RewriteUnit]) -> Iterator[WrittenFiles]:
        for unit in units:
            yield rewrite.target.write_unit(rewrite, unit, rewrite.target.folder, str(self.new_id()))


_LOCAL: Final = InThisProcess()


def rewritten_location(folder: str, name: uuid.UUID) -> str:
    """Where a file that was rewritten goes."""
    return _location(folder, str(name), 0)


def file_sizes(files: pa.RecordBatch) -> list[int]:
    """Bytes of each file of DATA_FILE_SCHEMA or ADD_SCHEMA."""
    name = "file_size_in_bytes" if "file_size_in_bytes" in files.schema.names else "size"
    sizes: list[int] = files.column(name).to_pylist()
    return sizes


def _location(folder: str, name: str, index: int) -> str:
    return join(folder, f"rewritten-{name}{f'-{index}' if index else ''}.parquet")


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
        runner: RewriteRunner = _LOCAL,
        target_size: int | None = None,
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
        self.target = RewriteTarget(storage=storage, folder=folder, fields=(*fields, *lineage), target_size=target_size)
        self.runner = runner

    def __getstate__(self) -> dict[str, object]:
        """A pickled copy writes by itself."""
        return {**self.__dict__, "runner": _LOCAL}

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
        units = [
            RewriteUnit(
                files=files.slice(row, 1),
                deleted={0: deleted[row]} if row in deleted else NO_DELETES,
                location=None if locations is None else locations[row],
            )
            for row in range(files.num_rows)
        ]
        yield from enumerate(self.runner.run(self, units))

    def batches(self, unit: RewriteUnit) -> Iterator[pa.RecordBatch]:
        """The live rows of a unit's files, one file after the other."""
        no_deletes = DeleteIndex((), unpartitioned_spec_ids=frozenset()).match([unit.files])[0]
        for task in tasks(unit.files, no_deletes):
            deletes = FileDeletes(positions=unit.deleted.get(task.row), equality=())
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
        runner: RewriteRunner = _LOCAL,
        target_size: int | None = None,
    ) -> None:
        """schema: the target's. with_lineage: row ids and commit versions are written into the files."""
        self._source = source
        self._names = [field.name for field in schema.fields]
        self._partition_timezone = partition_timezone
        self._with_lineage = with_lineage
        lineage = read_fields(LINEAGE_FIELDS) if with_lineage else ()
        fields = read_fields(schema.fields, variant_as_json=False)
        self.target = RewriteTarget(storage=storage, folder=folder, fields=(*fields, *lineage), target_size=target_size)
        self.runner = runner

    def __getstate__(self) -> dict[str, object]:
        """A pickled copy writes by itself."""
        return {**self.__dict__, "runner": _LOCAL}

    def rewrite(self, adds: pa.RecordBatch) -> Iterator[tuple[int, WrittenFiles]]:
        """The live rows of each file (ADD_SCHEMA) in a new one, with the row it stands in."""
        units = [RewriteUnit(files=adds.slice(row, 1)) for row in range(adds.num_rows)]
        yield from enumerate(self.runner.run(self, units))

    def batches(self, unit: RewriteUnit) -> Iterator[pa.RecordBatch]:
        """The live rows of a unit's files, one file after the other."""
        rows = scan_delta(
            self._source.snapshot,
            columns=self._names,
            with_lineage=self._with_lineage,
            variant_as_json=False,
            files=[unit.files],
            partition_timezone=self._partition_timezone,
        )
        for batch in rows.batches():
            yield batch.rename_columns(self._renamed(batch.schema.names))

    def _renamed(self, names: list[str]) -> list[str]:
        """The lineage columns, which come last, under Iceberg's names."""
        own = names[: len(self._names)]
        return [*own, *(field.name for field in LINEAGE_FIELDS)] if self._with_lineage else own


def _renamed(fields: Sequence[NestedField], names: Mapping[int, str]) -> tuple[NestedField, ...]:
    """The fields under other names, at any depth."""
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
