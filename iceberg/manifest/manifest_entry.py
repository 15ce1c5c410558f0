"""The fields of ``manifest_entry`` and ``data_file`` with their ids, as each format version writes them.

Sections "Manifest Entry Fields" and "Data File Fields". ``READ_FIELDS`` is the union of all versions with everything
optional that some version may lack: fields are found by id, and absent fields are null.
"""

from __future__ import annotations

from typing import Final

from deltaberg.iceberg.schema.types import (
    BinaryType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    Type,
)

STATUS: Final = 0
SNAPSHOT_ID: Final = 1
DATA_FILE: Final = 2
SEQUENCE_NUMBER: Final = 3
FILE_SEQUENCE_NUMBER: Final = 4
FILE_PATH: Final = 100
FILE_FORMAT: Final = 101
PARTITION: Final = 102
RECORD_COUNT: Final = 103
FILE_SIZE: Final = 104
BLOCK_SIZE: Final = 105
CONTENT: Final = 134
CONTENT_STATS: Final = 146

BLOCK_SIZE_DEFAULT: Final = 64 * 1024 * 1024
"""The value that version 1 requires in ``block_size_in_bytes`` and that no reader uses."""

METRIC_MAPS: Final = frozenset(
    ("column_sizes", "value_counts", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds")
)

FILE_FORMATS: Final = ("avro", "orc", "parquet", "puffin")

_INT: Final = IntegerType()
_LONG: Final = LongType()
_STRING: Final = StringType()
_BINARY: Final = BinaryType()


def _required(field_id: int, name: str, kind: Type, doc: str | None = None) -> NestedField:
    return NestedField(field_id=field_id, name=name, required=True, type=kind, doc=doc)


def _optional(field_id: int, name: str, kind: Type, doc: str | None = None) -> NestedField:
    return NestedField(field_id=field_id, name=name, required=False, type=kind, doc=doc)


def _map(key_id: int, value: Type) -> MapType:
    return MapType(key=_required(key_id, "key", _INT), value=_required(key_id + 1, "value", value))


def _list(element_id: int, element: Type) -> ListType:
    return ListType(element=_required(element_id, "element", element))


_CONTENT = _required(CONTENT, "content", _INT, "Contents of the file: 0=data, 1=position deletes, 2=equality deletes")
_LOCATION = (
    _required(FILE_PATH, "file_path", _STRING, "Location URI with FS scheme"),
    _required(FILE_FORMAT, "file_format", _STRING, "File format name: avro, orc, parquet, or puffin"),
)
_SIZES = (
    _required(RECORD_COUNT, "record_count", _LONG, "Number of records in the file"),
    _required(FILE_SIZE, "file_size_in_bytes", _LONG, "Total file size in bytes"),
)
_BLOCK_SIZE = _required(BLOCK_SIZE, "block_size_in_bytes", _LONG)
_METRICS = (
    _optional(108, "column_sizes", _map(117, _LONG), "Map of column id to total size on disk"),
    _optional(109, "value_counts", _map(119, _LONG), "Map of column id to total count, including null and NaN"),
    _optional(110, "null_value_counts", _map(121, _LONG), "Map of column id to null value count"),
    _optional(137, "nan_value_counts", _map(138, _LONG), "Map of column id to number of NaN values in the column"),
    _optional(125, "lower_bounds", _map(126, _BINARY), "Map of column id to lower bound"),
    _optional(128, "upper_bounds", _map(129, _BINARY), "Map of column id to upper bound"),
    _optional(131, "key_metadata", _BINARY, "Encryption key metadata blob"),
    _optional(132, "split_offsets", _list(133, _LONG), "Splittable offsets"),
)
_EQUALITY_IDS = _optional(135, "equality_ids", _list(136, _INT), "Equality comparison field IDs")
_SORT_ORDER = _optional(140, "sort_order_id", _INT, "Sort order ID")
_FIRST_ROW_ID = _optional(142, "first_row_id", _LONG, "The first row ID assigned to the first row in the data file")
_REFERENCED = _optional(
    143,
    "referenced_data_file",
    _STRING,
    "Fully qualified location (URI with FS scheme) of a data file that all deletes reference",
)
_CONTENT_PLACE = (
    _optional(144, "content_offset", _LONG, "The offset in the file where the content starts"),
    _optional(145, "content_size_in_bytes", _LONG, "The length of referenced content stored in the file"),
)


def _partition(partition: StructType) -> NestedField:
    return _required(PARTITION, "partition", partition, "Partition data tuple, schema based on the partition spec")


def _data_file_fields(version: int, partition: StructType) -> tuple[NestedField, ...]:
    if version == 1:
        return (*_LOCATION, _partition(partition), *_SIZES, _BLOCK_SIZE, *_METRICS, _SORT_ORDER)
    common = (_CONTENT, *_LOCATION, _partition(partition), *_SIZES, *_METRICS, _EQUALITY_IDS, _SORT_ORDER)
    if version == 2:
        return (*common, _REFERENCED)
    return (*common, _FIRST_ROW_ID, _REFERENCED, *_CONTENT_PLACE)


def entry_type(version: int, partition: StructType) -> StructType:
    """``manifest_entry`` as a format version writes it, for a spec with the given partition type."""
    data_file = StructType(fields=_data_file_fields(version, partition))
    numbers = (
        ()
        if version == 1
        else (
            _optional(SEQUENCE_NUMBER, "sequence_number", _LONG),
            _optional(FILE_SEQUENCE_NUMBER, "file_sequence_number", _LONG),
        )
    )
    return StructType(
        fields=(
            _required(STATUS, "status", _INT),
            _optional(SNAPSHOT_ID, "snapshot_id", _LONG),
            *numbers,
            _required(DATA_FILE, "data_file", data_file),
        )
    )


def read_type(
    partition: StructType, content_stats: StructType | None = None, *, with_metrics: bool = True
) -> StructType:
    """The type to read an entry of any version as; ``content_stats`` where the file has that field (version 4).

    with_metrics: whether the maps by column are wanted too, by far the largest part of an entry.
    """
    fields = _data_file_fields(3, partition)
    if not with_metrics:
        fields = tuple(each for each in fields if each.name not in METRIC_MAPS)
    if content_stats is not None:
        fields = (*fields, _optional(CONTENT_STATS, "content_stats", content_stats))
    return StructType(
        fields=(
            _required(STATUS, "status", _INT),
            _optional(SNAPSHOT_ID, "snapshot_id", _LONG),
            _optional(SEQUENCE_NUMBER, "sequence_number", _LONG),
            _optional(FILE_SEQUENCE_NUMBER, "file_sequence_number", _LONG),
            _required(DATA_FILE, "data_file", StructType(fields=fields)),
        )
    )
