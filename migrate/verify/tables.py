"""A common view of tables of either format, to compare them: columns by id, files by place, rows by hash."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.delta.log.add_path import location_array
from deltaberg.delta.scan import Scan as DeltaScan
from deltaberg.delta.scan import scan as scan_delta
from deltaberg.delta.schema.column_mapping import MappingMode
from deltaberg.iceberg.deletes.resolved_deletes import resolve_deletes
from deltaberg.iceberg.deletes.row_deletes import RowDeletes
from deltaberg.iceberg.manifest.live_files import data_files
from deltaberg.iceberg.scan.scan import Scan as IcebergScan
from deltaberg.iceberg.scan.scan import scan as scan_iceberg
from deltaberg.iceberg.scan.scan_task import TASK_COLUMNS, tasks
from deltaberg.iceberg.schema import types as ice
from deltaberg.iceberg.schema.schema import Schema
from deltaberg.migrate.source import DeltaSource, IcebergSource, Source
from deltaberg.migrate.target.locations import real_locations
from deltaberg.migrate.target.watermark import OPTIONS_KEY
from deltaberg.migrate.to_iceberg.source_files import DeltaFileReader
from deltaberg.translate.derived_columns import GENERATION_KEY
from deltaberg.translate.field_ids import assigned_ids, declared_ids, mapped_schema
from deltaberg.translate.schema import delta_to_iceberg_schema, iceberg_to_delta_schema
from deltaberg.translate.types import delta_to_iceberg_type
from deltaberg.translate.value_mapping import convert_columns

_NEWEST_FORMAT = 3
_ADD_COLUMNS = ["path", "partition_values", "size", "deletion_vector", "base_row_id", "default_row_commit_version"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnFacts:
    """One field at any depth. field_id: None where the table has none of its own."""

    name: str
    type: str
    required: bool
    field_id: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenOptions:
    """The options of a target's conversion that change values, from its own properties."""

    type_mappings: Mapping[str, str]
    partition_timezone: str
    derives: bool = False

    @staticmethod
    def of(target: Source) -> ChosenOptions:
        """Raises nothing: a text that is not deltaberg's counts as no choice."""
        properties = (
            target.table.metadata.properties
            if isinstance(target, IcebergSource)
            else target.snapshot.metadata.configuration
        )
        try:
            chosen = json.loads(properties.get(OPTIONS_KEY, "{}"))
        except ValueError:
            chosen = {}
        mappings = chosen.get("type_mappings", {}) if isinstance(chosen, dict) else {}
        timezone = chosen.get("partition_timezone", "UTC") if isinstance(chosen, dict) else "UTC"
        return ChosenOptions(
            type_mappings=mappings if isinstance(mappings, dict) else {},
            partition_timezone=timezone if isinstance(timezone, str) else "UTC",
            derives=isinstance(chosen, dict) and chosen.get("derive_partition_columns") is True,
        )


def column_facts(source: Source, options: ChosenOptions) -> dict[tuple[str, ...], ColumnFacts]:
    """Every field by the names that lead to it, types in Iceberg's words (void columns left out)."""
    if isinstance(source, IcebergSource):
        schema, with_ids = _mapped_schema(source.schema, options), True
    else:
        mapping = source.snapshot.column_mapping
        delta = mapped_schema(mapping)
        ids = assigned_ids(delta, known=declared_ids(mapping))
        schema = delta_to_iceberg_schema(delta, ids, format_version=_NEWEST_FORMAT).schema
        with_ids = mapping.mode is not MappingMode.NONE
    nested_ids = isinstance(source, IcebergSource)
    result: dict[tuple[str, ...], ColumnFacts] = {}
    for field in schema.all_fields():
        if isinstance(field.type, ice.UnknownType):
            continue
        own = with_ids and (nested_ids or not _is_part(schema, field.field_id))
        kind = "nested" if ice.nested_fields(field.type) else ice.type_name(field.type)
        result[field_path(schema, field)] = ColumnFacts(
            name=schema.full_name(field.field_id),
            type=kind,
            required=field.required,
            field_id=field.field_id if own else None,
        )
    return result


def derived_names(target: Source, options: ChosenOptions) -> frozenset[str]:
    """Generated columns that the conversion was asked to add."""
    if isinstance(target, IcebergSource) or not options.derives:
        return frozenset()
    columns = target.snapshot.metadata.schema.fields
    return frozenset(column.name for column in columns if GENERATION_KEY in column.metadata)


def _mapped_schema(schema: Schema, options: ChosenOptions) -> Schema:
    """With the types that ``--map`` chose, so that both sides of a mapped column say the same."""
    if not options.type_mappings:
        return schema
    leaves = iceberg_to_delta_schema(schema, mode=MappingMode.ID, type_mappings=options.type_mappings).leaves
    changed = {leaf.field_id: delta_to_iceberg_type(leaf.delta) for leaf in leaves if leaf.mapped}
    return Schema(schema_id=schema.schema_id, fields=tuple(_retyped(field, changed) for field in schema.fields))


def _retyped(field: ice.NestedField, changed: Mapping[int, ice.Type | None]) -> ice.NestedField:
    kind = field.type
    match kind:
        case ice.StructType(fields=fields):
            return replace(field, type=replace(kind, fields=tuple(_retyped(each, changed) for each in fields)))
        case ice.ListType(element=element):
            return replace(field, type=replace(kind, element=_retyped(element, changed)))
        case ice.MapType(key=key, value=value):
            return replace(field, type=replace(kind, key=_retyped(key, changed), value=_retyped(value, changed)))
        case _:
            return replace(field, type=changed.get(field.field_id) or kind, initial_default=None, write_default=None)


def field_path(schema: Schema, field: ice.NestedField) -> tuple[str, ...]:
    """The names that lead to a field, outermost first; a name may hold dots."""
    names = [field.name]
    parent = schema.parent_id(field.field_id)
    while parent is not None:
        holder = schema.find(parent)
        assert holder is not None
        names.append(holder.name)
        parent = schema.parent_id(parent)
    return tuple(reversed(names))


def _is_part(schema: Schema, field_id: int) -> bool:
    parent = schema.parent_id(field_id)
    holder = schema.find(parent) if parent is not None else None
    return holder is not None and isinstance(holder.type, (ice.ListType, ice.MapType))


def file_table(source: Source) -> pa.Table:
    """``location``, ``rows`` (physical) and ``deleted`` of every live file."""
    batches = _iceberg_files(source) if isinstance(source, IcebergSource) else _delta_files(source)
    schema = pa.schema([("location", pa.string()), ("rows", pa.int64()), ("deleted", pa.int64())])
    return pa.Table.from_batches(batches, schema=schema)


def _iceberg_files(source: IcebergSource) -> Iterator[pa.RecordBatch]:
    for resolved in resolve_deletes(source.table, source.snapshot):
        files = resolved.data_files
        deleted = pc.fill_null(pc.struct_field(resolved.vectors, "cardinality"), 0).to_numpy().copy()
        deleted[np.asarray(resolved.vectors.is_null())] = 0
        for row, positions in resolved.merged.items():
            deleted[row] = positions.cardinality
        yield pa.record_batch(
            {
                "location": real_locations(source.storage, files.column("file_path")),
                "rows": files.column("record_count"),
                "deleted": pa.array(deleted, pa.int64()),
            }
        )


def _delta_files(source: DeltaSource) -> Iterator[pa.RecordBatch]:
    for batch in DeltaFileReader(source, deep=False).located():
        yield pa.record_batch({"location": batch.locations, "rows": batch.record_counts, "deleted": batch.deleted})


def row_batches(source: Source, names: list[str], options: ChosenOptions) -> Iterator[pa.RecordBatch]:
    """The rows, the named columns in that order, mapped types converted."""
    if isinstance(source, IcebergSource):
        rows = _iceberg_scan(source, names)
        for batch in rows.batches() if source.snapshot is not None else ():
            yield convert_columns(batch, rows.fields, dict(options.type_mappings))
        return
    yield from _delta_scan(source, names, options, None).batches()


def listed_files(source: Source) -> Iterator[pa.RecordBatch]:
    """The input of ``FileRows`` for every live file, in the order in which ``row_batches`` reads them."""
    if isinstance(source, IcebergSource):
        for batch in data_files(source.table, source.snapshot, with_metrics=False):
            yield batch.select([*TASK_COLUMNS, "file_size_in_bytes"]).rename_columns([*TASK_COLUMNS, "size"])
        return
    for adds in source.snapshot.add_files(check_totals=False):
        yield adds.select(_ADD_COLUMNS)


def file_locations(source: Source, files: pa.RecordBatch) -> pa.Array:
    """Where the files of a batch of ``listed_files`` really are."""
    if isinstance(source, IcebergSource):
        return real_locations(source.storage, files.column("file_path"))
    return real_locations(source.storage, location_array(files, source.snapshot.table_root))


class FileRows:
    """Reads the rows of some files, as ``row_batches`` does those of all."""

    def __init__(self, source: Source, names: list[str], options: ChosenOptions) -> None:
        self._source = source
        self._names = names
        self._options = options
        self._deletes: RowDeletes | None = None

    def of(self, files: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Each file's rows with its place in the batch of ``listed_files``. Raises the errors of reading it."""
        if not isinstance(self._source, IcebergSource):
            for place in range(files.num_rows):
                for batch in _delta_scan(self._source, self._names, self._options, files.slice(place, 1)).batches():
                    yield place, batch
            return
        if self._deletes is None:
            self._deletes = RowDeletes(self._source.table, self._source.snapshot)
        rows = _iceberg_scan(self._source, self._names)
        for task in tasks(files, self._deletes.index.match([files])[0]):
            for batch in rows.file_batches(task, self._deletes.of(task)):
                yield task.row, convert_columns(batch, rows.fields, dict(self._options.type_mappings))


def _iceberg_scan(source: IcebergSource, names: list[str]) -> IcebergScan:
    return scan_iceberg(
        source.table, snapshot=source.snapshot, schema=source.schema, columns=names, variant_as_json=False
    )


def _delta_scan(
    source: DeltaSource, names: list[str], options: ChosenOptions, files: pa.RecordBatch | None
) -> DeltaScan:
    return scan_delta(
        source.snapshot,
        columns=names,
        partition_timezone=options.partition_timezone,
        variant_as_json=False,
        files=None if files is None else [files],
    )
