"""One manifest file opened: its header and its entries as structs, for Avro and for Parquet alike."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from deltaberg.iceberg.avro.container import MAGIC, read_header
from deltaberg.iceberg.avro.reader import Anchor, read_avro
from deltaberg.iceberg.avro.resolution import written_type
from deltaberg.iceberg.avro.schema import AvroRecord, AvroType, AvroUnion, parse_avro_schema, with_prefixed_fixed
from deltaberg.iceberg.errors import CorruptMetadata, UnsupportedIcebergFeature
from deltaberg.iceberg.manifest.content_stats import content_stats_type
from deltaberg.iceberg.manifest.manifest_entry import (
    CONTENT_STATS,
    DATA_FILE,
    FILE_FORMAT,
    FILE_FORMATS,
    FILE_PATH,
    PARTITION,
    read_type,
)
from deltaberg.iceberg.manifest.manifest_parquet import ParquetManifest
from deltaberg.iceberg.metadata.table_metadata import TableMetadata
from deltaberg.iceberg.partition.partition_spec import PartitionField, PartitionSpec
from deltaberg.iceberg.partition.transforms import UnknownTransform, VoidTransform
from deltaberg.iceberg.schema.types import (
    BinaryType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestampNsType,
    TimestampType,
    TimestamptzNsType,
    TimestamptzType,
    Type,
    UnknownType,
    UuidType,
)
from deltaberg.redaction import told_beginning
from deltaberg.storage.protocol import Storage

PARQUET_MAGIC: Final = b"PAR1"


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestSource:
    """``entries`` are structs typed ``read_type(partition)``, with ``content_stats`` where ``has_content_stats``;
    ``field_ids`` are those that the file has at the top level of an entry, ``properties`` its key-value metadata.
    ``entries_prefixed``: the entries of a file with plain ``fixed`` values as they are with a length before each of these
    (``with_prefixed_fixed``); ``entries`` then are those without. None: the file has no such values."""

    properties: Mapping[str, str]
    field_ids: frozenset[int]
    partition: StructType
    has_content_stats: bool
    entries: Iterator[pa.StructArray]
    entries_prefixed: Iterator[pa.StructArray] | None = None

    @property
    def format_version(self) -> int:
        """The version it was written in; 1 where the header does not say (version 1 need not)."""
        text = self.properties.get("format-version", "1")
        if text not in ("1", "2", "3", "4"):
            raise UnsupportedIcebergFeature(
                f"Cannot read manifest of format version {text!r} (expected 1 to 4)", feature=f"format version {text}"
            )
        return int(text)


def open_manifest(
    storage: Storage, location: str, spec: PartitionSpec, metadata: TableMetadata, *, with_metrics: bool = True
) -> ManifestSource:
    """Open a manifest in the format that its first bytes show. Raises CorruptMetadata and StorageError.

    with_metrics: False leaves the maps by column and ``content_stats`` out of the entries.
    """
    data = storage.get(location)
    if data[: len(MAGIC)] == MAGIC:
        return _open_avro(data, spec, metadata, with_metrics)
    if data[: len(PARQUET_MAGIC)] == PARQUET_MAGIC:
        return _open_parquet(storage, location, spec, metadata, with_metrics)
    raise CorruptMetadata(
        f"Cannot read manifest: expected an Avro or Parquet file, found one that starts with {told_beginning(data[:4])}",
        field="magic",
    )


def partition_type(spec: PartitionSpec, metadata: TableMetadata, written: Mapping[int, Type]) -> StructType:
    """The type of a manifest's partition tuples. A type that the table does not determine (the result of an undefined
    transform, a source column that no schema has any more) is as the file has it.

    Raises CorruptMetadata when the file's partition fields are not those of the spec.
    """
    fields = {part.field_id: part for part in spec.fields}
    missing = [
        part for part in spec.fields if part.field_id not in written and not isinstance(part.transform, VoidTransform)
    ]
    unknown = sorted(field_id for field_id in written if field_id not in fields)
    if missing or unknown:
        raise CorruptMetadata(
            f"Cannot read manifest: its partition fields {sorted(written)} are not those of partition spec "
            f"{spec.spec_id} ({sorted(fields)})",
            field="partition",
        )
    return StructType(
        fields=tuple(_partition_field(part, metadata, written.get(part.field_id)) for part in spec.fields)
    )


def _partition_field(part: PartitionField, metadata: TableMetadata, written: Type | None) -> NestedField:
    """Typed by the newest schema whose source column fits: replacing a table may give a column's id to another type."""
    found = [schema.find(part.source_id) for schema in metadata.schemas_newest_first]
    results = [part.result_type(source.type) for source in found if source is not None]
    if isinstance(part.transform, UnknownTransform) and written is not None:
        kind = written
    elif written is not None:
        kind = next((result for result in results if readable_as(written, result)), written)
    else:
        kind = results[0] if results else part.result_type(None)
    return NestedField(field_id=part.field_id, name=part.name, required=False, type=kind)


def readable_as(written: Type, wanted: Type) -> bool:
    """True when values stored as one type are values of the other, by the promotion rules or by loose annotations."""
    match written, wanted:
        case (IntegerType(), LongType() | DateType()) | (FloatType(), DoubleType()) | (UnknownType(), _):
            return True
        case DateType(), TimestampType() | TimestampNsType():
            return True
        case DecimalType(), DecimalType():
            return written.scale == wanted.scale and written.precision <= wanted.precision
        case (TimestampType() | TimestamptzType(), TimestampType() | TimestamptzType()):
            return True
        case (TimestampNsType() | TimestamptzNsType(), TimestampNsType() | TimestamptzNsType()):
            return True
        case FixedType(), UuidType():
            return written.length == 16
        case StringType() | BinaryType(), StringType() | BinaryType():
            return True
        case _:
            return written == wanted


def _open_parquet(
    storage: Storage, location: str, spec: PartitionSpec, metadata: TableMetadata, with_metrics: bool
) -> ManifestSource:
    manifest = ParquetManifest(storage, location)
    partition = partition_type(spec, metadata, manifest.partition_types())
    has_content_stats = manifest.has_content_stats and with_metrics
    stats = content_stats_type(metadata.schema) if has_content_stats else None
    return ManifestSource(
        properties=manifest.properties,
        field_ids=manifest.field_ids,
        partition=partition,
        has_content_stats=has_content_stats,
        entries=manifest.entries(read_type(partition, stats, with_metrics=with_metrics)),
    )


def _open_avro(data: bytes, spec: PartitionSpec, metadata: TableMetadata, with_metrics: bool) -> ManifestSource:
    header = read_header(data)
    schema = parse_avro_schema(header.metadata["avro.schema"])
    if not isinstance(schema, AvroRecord):
        raise CorruptMetadata("Cannot read manifest: expected its entries to be records", field="avro.schema")
    data_file = _record(_by_id(schema, DATA_FILE))
    if data_file is None:
        raise CorruptMetadata(f"Cannot read manifest: data_file (field id {DATA_FILE}) is missing", field="data_file")
    tuples = _record(_by_id(data_file, PARTITION))
    written: dict[int, Type] = {}
    for each in () if tuples is None else tuples.fields:
        if each.field_id is None:
            raise CorruptMetadata(
                f"Cannot read manifest: its partition field {each.name} has no field id", field=f"partition.{each.name}"
            )
        written[each.field_id] = written_type(each.type, f"partition.{each.name}")
    partition = partition_type(spec, metadata, written)
    has_content_stats = with_metrics and _by_id(data_file, CONTENT_STATS) is not None
    stats = content_stats_type(metadata.schema) if has_content_stats else None
    anchor = Anchor(
        field_id=FILE_PATH,
        text=f"{metadata.location.rstrip('/')}/".encode(),
        next_id=FILE_FORMAT,
        next_values=tuple(name.encode() for name in FILE_FORMATS),
    )
    wanted = read_type(partition, stats, with_metrics=with_metrics)
    return ManifestSource(
        properties={
            key: text
            for key in header.metadata
            if not key.startswith("avro.") and (text := header.text(key)) is not None
        },
        field_ids=frozenset(each.field_id for each in schema.fields if each.field_id is not None),
        partition=partition,
        has_content_stats=has_content_stats,
        entries=read_avro(data, wanted, header=header, anchor=anchor, prefixed=False),
        entries_prefixed=(
            None
            if with_prefixed_fixed(schema) == schema
            else read_avro(data, wanted, header=header, anchor=anchor, prefixed=True)
        ),
    )


def _by_id(record: AvroRecord, field_id: int) -> AvroType | None:
    return next((each.type for each in record.fields if each.field_id == field_id), None)


def _record(avro: AvroType | None) -> AvroRecord | None:
    if isinstance(avro, AvroUnion):
        return next((each for each in avro.branches if isinstance(each, AvroRecord)), None)
    return avro if isinstance(avro, AvroRecord) else None
