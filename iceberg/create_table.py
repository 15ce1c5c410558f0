"""New tables."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count

from deltaberg.iceberg.catalog import CatalogTable
from deltaberg.iceberg.errors import IcebergConflict, InvalidIcebergRequest, NotAnIcebergTable
from deltaberg.iceberg.metadata.location import has_scheme
from deltaberg.iceberg.metadata.metadata_location import METADATA_FOLDER, find_metadata
from deltaberg.iceberg.metadata.table_metadata import TableMetadata
from deltaberg.iceberg.partition.partition_spec import FIRST_PARTITION_FIELD_ID, UNPARTITIONED, PartitionSpec
from deltaberg.iceberg.partition.sort_order import UNSORTED, SortOrder
from deltaberg.iceberg.runtime import Runtime
from deltaberg.iceberg.schema.field_ids import fresh_schema
from deltaberg.iceberg.schema.format_version import check_schema_version, requested_version
from deltaberg.iceberg.schema.schema import Schema
from deltaberg.iceberg.table import Table
from deltaberg.iceberg.transaction import Transaction
from deltaberg.storage import Storage


def create_table(
    storage: Storage,
    location: str,
    *,
    schema: Schema,
    spec: PartitionSpec = UNPARTITIONED,
    sort_order: SortOrder = UNSORTED,
    format_version: int | str = 2,
    properties: Mapping[str, str] | None = None,
    uuid: str | None = None,
    timestamp_ms: int | None = None,
    last_column_id: int | None = None,
    fresh_ids: bool = False,
    catalog: CatalogTable | None = None,
    runtime: Runtime | None = None,
) -> Transaction:
    """Begin a table in a folder; nothing is visible before the transaction is committed.

    Field ids are taken from the schema, or assigned from 1 with ``fresh_ids`` (only for an unpartitioned, unsorted
    table then). ``last_column_id`` reserves ids. Version 4 is asked for as ``4-preview``. Raises IcebergConflict when the
    folder holds a table, InvalidIcebergRequest for a schema, spec or order that the format version does not allow.
    """
    runtime = Runtime() if runtime is None else runtime
    version = requested_version(format_version)
    location = location.rstrip("/") or location
    if version >= 4 and not has_scheme(location):
        location = f"file://{location}"
    if catalog is None:
        _check_absent(storage, location)
    elif catalog.current() is not None:
        raise IcebergConflict(f"Cannot create a table in {location}: the catalog has a table of this name")
    if fresh_ids:
        if spec.fields or sort_order.fields:
            raise InvalidIcebergRequest("Cannot assign fresh field ids: the partition spec or sort order names ids")
        schema = fresh_schema(schema, count(1))
    check_schema_version(schema, version)
    spec.check(schema)
    sort_order.check(schema)
    orders = (sort_order,) if sort_order.is_unsorted else (UNSORTED, sort_order)
    metadata = TableMetadata(
        format_version=version,
        table_uuid=runtime.new_uuid() if uuid is None else uuid,
        location=location,
        last_updated_ms=runtime.now_ms() if timestamp_ms is None else timestamp_ms,
        last_column_id=max(schema.highest_field_id, last_column_id or 0),
        schemas=(schema,),
        current_schema_id=schema.schema_id,
        partition_specs=(spec,),
        default_spec_id=spec.spec_id,
        last_partition_id=max(spec.last_assigned_id, FIRST_PARTITION_FIELD_ID - 1),
        sort_orders=orders,
        default_sort_order_id=sort_order.order_id,
        properties=dict(properties or {}),
        next_row_id=0 if version >= 3 else None,
    )
    unborn = Table(
        metadata=metadata,
        metadata_location=f"{location}/{METADATA_FOLDER}/",
        storage=storage,
        catalog=catalog,
    )
    return Transaction(unborn, creates=True, runtime=runtime)


def _check_absent(storage: Storage, location: str) -> None:
    try:
        found = find_metadata(storage, location)
    except NotAnIcebergTable:
        return
    raise IcebergConflict(f"Cannot create a table in {location}: there is one already ({found})", path=found)
