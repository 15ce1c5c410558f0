"""Data and delete files of any format, read by field id ("files must use valid Iceberg formats, schemas, and column
projection", sections "Column Projection" and "Delete Formats")."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import TracebackType

import numpy as np
import pyarrow as pa

from deltaberg.datafile.errors import DataFileError
from deltaberg.datafile.file_schema import FileField, NamedField, file_fields, has_field_ids, walk, with_name_mapping
from deltaberg.datafile.parquet.parquet import POSITION_COLUMN, ParquetSource
from deltaberg.datafile.projection import Projection, ReadField
from deltaberg.errors import error_context
from deltaberg.iceberg.avro.file import AvroFile
from deltaberg.iceberg.errors import UnsupportedIcebergFeature
from deltaberg.iceberg.orc.file import OrcFile
from deltaberg.iceberg.schema.name_mapping import NameMapping
from deltaberg.iceberg.schema.read_schema import Constants, mapped_fields, read_fields
from deltaberg.iceberg.schema.types import NestedField
from deltaberg.storage.protocol import Storage

BATCH_ROWS = 65_536


class ContentFile:
    """One data or delete file, opened. Use as a context manager.

    Raises DataFileError naming the file for every defect inside it, UnsupportedIcebergFeature for a file format that
    Iceberg does not define, StorageError for a file that cannot be opened.
    """

    def __init__(
        self,
        storage: Storage,
        location: str,
        file_format: str,
        *,
        key_metadata: bytes | None,
        name_mapping: NameMapping | None,
    ) -> None:
        """``file_format``, ``key_metadata``: as the manifest entry says. ``name_mapping``: for a file without ids."""
        refuse_encrypted(location, key_metadata)
        self.location = location
        self._mapping = name_mapping
        self._source: ParquetSource | OrcFile | AvroFile
        match file_format.lower():
            case "parquet":
                # Iceberg stores proleptic Gregorian dates whatever Spark's legacy keys in the footer say.
                self._source = ParquetSource(storage, location, rebase_calendar=False)
            case "orc":
                self._source = OrcFile(storage, location)
            case "avro":
                self._source = AvroFile(storage, location)
            case other:
                raise UnsupportedIcebergFeature(
                    f"Cannot read {location}: unknown file format {other!r} (expected parquet, orc or avro)",
                    path=location,
                    feature=f"file format {other}",
                )

    def missing(self, fields: Sequence[NestedField]) -> tuple[NestedField, ...]:
        """The top-level fields, of those given, that the file does not hold."""
        mapping = self._usable_mapping({})
        if isinstance(self._source, AvroFile):
            held = self._source.held_field_ids(mapping)
        else:
            columns = _columns(self._source)
            columns = columns if mapping is None else with_name_mapping(columns, mapping)
            held = frozenset(column.field_id for column in walk(columns) if column.field_id is not None)
        return tuple(nested for nested in fields if nested.field_id not in held)

    def iter_batches(
        self,
        fields: Sequence[NestedField],
        *,
        constants: Constants | None = None,
        batch_rows: int = BATCH_ROWS,
        variant_as_json: bool = True,
    ) -> Iterator[pa.RecordBatch]:
        """The fields under their names, then ``_pos``: the row's place in the file, from 0. No empty batches.

        ``constants``: values by field id for fields that the file lacks (``read_schema.identity_constants``).
        """
        constants = constants or {}
        wanted = read_fields(fields, constants, variant_as_json=variant_as_json)
        mapping = self._usable_mapping(constants)
        if isinstance(self._source, ParquetSource):
            yield from self._source.iter_batches(
                wanted, match="id", batch_size=batch_rows, name_mapping=mapping, positions=True
            )
            return
        with error_context(path=self.location):
            if isinstance(self._source, OrcFile):
                batches = _from_orc(self._source, wanted, mapping)
            else:
                batches = _from_avro(self._source, fields, wanted, mapping)
            yield from _with_positions(batches, batch_rows)

    def _usable_mapping(self, constants: Constants) -> tuple[NamedField, ...] | None:
        """The name mapping, for a file that has no field ids of its own."""
        if isinstance(self._source, AvroFile):
            has_ids = self._source.has_field_ids
        else:
            has_ids = has_field_ids(_columns(self._source))
        return None if has_ids else mapped_fields(self._mapping, constants)

    def __enter__(self) -> ContentFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._source.close()


def refuse_encrypted(location: str, key_metadata: bytes | None) -> None:
    """Raise UnsupportedIcebergFeature when a file has key metadata (section "Encryption Keys")."""
    if key_metadata is not None:
        raise UnsupportedIcebergFeature(
            f"Cannot read {location}: it is encrypted; decrypt the table first", path=location, feature="encryption"
        )


def _columns(source: ParquetSource | OrcFile) -> tuple[FileField, ...]:
    return source.fields if isinstance(source, ParquetSource) else file_fields(source.schema)


def _from_orc(
    source: OrcFile, wanted: tuple[ReadField, ...], mapping: tuple[NamedField, ...] | None
) -> Iterator[pa.RecordBatch]:
    columns = file_fields(source.schema)
    needed = Projection(columns, wanted, match="id", name_mapping=mapping).leaves
    chosen = [
        place
        for place, column in enumerate(columns)
        if any(column.first_leaf <= leaf < column.last_leaf for leaf in needed)
    ]
    some = file_fields(pa.schema([source.schema.field(place) for place in chosen]))
    projection = Projection(some, wanted, match="id", name_mapping=mapping, pruned=False)
    for batch in source.iter_batches(chosen):
        yield projection.apply(batch)


def _from_avro(
    source: AvroFile,
    fields: Sequence[NestedField],
    wanted: tuple[ReadField, ...],
    mapping: tuple[NamedField, ...] | None,
) -> Iterator[pa.RecordBatch]:
    if wanted and not source.held_field_ids(mapping):
        raise DataFileError(
            "Cannot read the file: it has no field ids (expected ids in its Avro schema, or a name mapping in the table)"
        )
    projection: Projection | None = None
    for batch in source.iter_batches(fields, name_mapping=mapping):
        if projection is None:
            projection = Projection(file_fields(batch.schema), wanted, match="id", pruned=False)
        yield projection.apply(batch)


def _with_positions(batches: Iterator[pa.RecordBatch], batch_rows: int) -> Iterator[pa.RecordBatch]:
    at = 0
    field = pa.field(POSITION_COLUMN, pa.int64(), nullable=False)
    for batch in batches:
        for start in range(0, batch.num_rows, batch_rows):
            part = batch.slice(start, batch_rows)
            places = pa.array(np.arange(at, at + part.num_rows, dtype=np.int64))
            at += part.num_rows
            yield part.append_column(field, places)
