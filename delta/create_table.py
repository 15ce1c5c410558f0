"""New tables: their first ``metaData`` and ``protocol`` (PROTOCOL "Table Features for New and Existing Tables")."""

from __future__ import annotations

import dataclasses
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

from deltaberg.delta.errors import DeltaConflict, InvalidDeltaRequest
from deltaberg.delta.log.actions import Metadata
from deltaberg.delta.log.log_path import LogFileKind, log_folder, parse_log_file
from deltaberg.delta.protocol.iceberg_compat import with_nested_ids
from deltaberg.delta.protocol.protocol import Protocol
from deltaberg.delta.protocol.required_protocol import protocol_of_new_table
from deltaberg.delta.schema.column_mapping import COLUMN_ID, NESTED_IDS, PHYSICAL_NAME, MappingMode
from deltaberg.delta.schema.schema import schema_to_json, walk_fields
from deltaberg.delta.schema.types import ArrayType, DeltaType, MapType, StructField, StructType
from deltaberg.delta.transaction import Transaction
from deltaberg.storage.protocol import Storage

_NO_PROPERTIES: Mapping[str, str] = MappingProxyType({})
_MODE = "delta.columnMapping.mode"
_MAX_ID = "delta.columnMapping.maxColumnId"
_ROW_ID_COLUMN = "delta.rowTracking.materializedRowIdColumnName"
_ROW_COMMIT_VERSION_COLUMN = "delta.rowTracking.materializedRowCommitVersionColumnName"


def create_table(
    storage: Storage,
    location: str,
    *,
    metadata: Metadata,
    features: Iterable[str] = (),
    protocol: Protocol | None = None,
    now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    new_id: Callable[[], uuid.UUID] = uuid.uuid4,
) -> Transaction:
    """Begin the first commit of a table; nothing is visible before it.

    The protocol declares the features that the metadata uses and those named in ``features``, no others, unless one is
    given. Raises DeltaConflict where a log stands already.
    """
    root = location.rstrip("/") or "/"
    for found in storage.list(log_folder(root)):
        file = parse_log_file(found.location)
        # A checksum without a commit is left from a first commit that was rolled back.
        if file is not None and file.kind is not LogFileKind.CHECKSUM:
            raise DeltaConflict(
                f"Cannot create a table at {location}: its log exists ({found.location}); begin a transaction on it",
                table=location,
            )
    if protocol is None:
        protocol = protocol_of_new_table(metadata, features)
    return Transaction(
        storage=storage,
        table_root=root,
        base=None,
        protocol=Protocol.from_json(protocol.to_json()),
        metadata=metadata,
        now_ms=now_ms,
        new_id=new_id,
    )


def new_metadata(
    schema: StructType,
    *,
    table_id: str,
    created_time_ms: int,
    partition_columns: Iterable[str] = (),
    configuration: Mapping[str, str] = _NO_PROPERTIES,
    column_mapping: MappingMode = MappingMode.NONE,
    name: str | None = None,
    description: str | None = None,
    new_id: Callable[[], uuid.UUID] = uuid.uuid4,
) -> Metadata:
    """The metadata of a new table.

    With column mapping, fields without id get one and fields without physical name keep their own (some readers find
    partition columns only so); IcebergCompat V2 and V3 give ids to list elements and map entries, too. Where row
    tracking is enabled, the names of its materialized columns are made up unless given.

    Raises InvalidDeltaRequest and CorruptLog for a schema or properties that no table can have.
    """
    properties = dict(configuration)
    _check_names(schema)
    if column_mapping is not MappingMode.NONE:
        schema, next_id = with_column_mapping(schema)
        if any(properties.get(f"delta.enableIcebergCompatV{version}", "").lower() == "true" for version in (2, 3)):
            schema, next_id = with_nested_ids(schema, next_id)
        properties[_MODE] = column_mapping.value
        properties[_MAX_ID] = str(max(next_id - 1, int(properties.get(_MAX_ID, 0))))
    if properties.get("delta.enableRowTracking", "").lower() == "true":
        properties.setdefault(_ROW_ID_COLUMN, f"_row-id-col-{new_id()}")
        properties.setdefault(_ROW_COMMIT_VERSION_COLUMN, f"_row-commit-version-col-{new_id()}")
        _check_materialized_columns(schema, properties)
    return Metadata.from_json(
        {
            "id": table_id,
            "name": name,
            "description": description,
            "schemaString": schema_to_json(schema),
            "partitionColumns": list(partition_columns),
            "configuration": properties,
            "createdTime": created_time_ms,
        }
    )


def with_column_mapping(schema: StructType) -> tuple[StructType, int]:
    """The schema with an id and a physical name for every field that lacks them, and the next free id."""
    taken = [0]
    for _, field in walk_fields(schema):
        number = field.metadata.get(COLUMN_ID)
        nested = field.metadata.get(NESTED_IDS)
        taken.extend(
            each for each in (number, *(nested.values() if isinstance(nested, dict) else ())) if isinstance(each, int)
        )
    assign = _Assignment(max(taken) + 1)
    return assign.struct(schema), assign.next_id


class _Assignment:
    def __init__(self, next_id: int) -> None:
        self.next_id = next_id

    def struct(self, struct: StructType) -> StructType:
        given = {str(field.metadata[PHYSICAL_NAME]) for field in struct.fields if PHYSICAL_NAME in field.metadata}
        return StructType(fields=tuple(self._field(field, given) for field in struct.fields))

    def _field(self, field: StructField, given: set[str]) -> StructField:
        metadata = dict(field.metadata)
        if COLUMN_ID not in metadata:
            metadata[COLUMN_ID] = self.next_id
            self.next_id += 1
        if PHYSICAL_NAME not in metadata:
            # A former name may be another field's physical name.
            own = field.name if field.name not in given else f"{field.name}-{metadata[COLUMN_ID]}"
            metadata[PHYSICAL_NAME] = own
            given.add(own)
        return dataclasses.replace(field, type=self._type(field.type), metadata=metadata)

    def _type(self, delta_type: DeltaType) -> DeltaType:
        match delta_type:
            case StructType():
                return self.struct(delta_type)
            case ArrayType(element_type=element):
                return dataclasses.replace(delta_type, element_type=self._type(element))
            case MapType(key_type=key, value_type=value):
                return dataclasses.replace(delta_type, key_type=self._type(key), value_type=self._type(value))
            case _:
                return delta_type


def _check_names(schema: StructType) -> None:
    """Names that differ by case alone are one name to Delta's readers."""
    seen: dict[tuple[str, ...], str] = {}
    for path, field in walk_fields(schema):
        other = seen.setdefault((*path[:-1], field.name.casefold()), field.name)
        if other != field.name:
            raise InvalidDeltaRequest(
                f"Cannot create the table: the columns {other!r} and {'.'.join(path)!r} have names that differ by case "
                "alone (expected unique names regardless of case); rename one"
            )


def _check_materialized_columns(schema: StructType, properties: Mapping[str, str]) -> None:
    names = {name for field in schema.fields for name in (field.name, field.metadata.get(PHYSICAL_NAME, field.name))}
    for key in (_ROW_ID_COLUMN, _ROW_COMMIT_VERSION_COLUMN):
        if properties[key] in names:
            raise InvalidDeltaRequest(
                f"Cannot enable row tracking: {key} is {properties[key]!r}, which is a column of the table",
                feature="rowTracking",
            )
