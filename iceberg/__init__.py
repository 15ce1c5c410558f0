"""Apache Iceberg, natively: table metadata, manifests, deletes, scans and commits.

``Table.open`` leads to metadata and snapshots; ``read`` gives a snapshot's rows, ``live_data_files`` its files;
``Table.transaction`` begins changes to a table and ``create`` a new one. Types are in ``deltaberg.iceberg.schema.types``,
errors in ``deltaberg.iceberg.errors``. A name is loaded when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from deltaberg.iceberg.create_table import create_table as create
    from deltaberg.iceberg.errors import IcebergCommitStateUnknown, IcebergConflict, IcebergError
    from deltaberg.iceberg.manifest.live_files import data_files as live_data_files
    from deltaberg.iceberg.metadata.snapshot import Snapshot
    from deltaberg.iceberg.metadata.table_metadata import TableMetadata
    from deltaberg.iceberg.partition.partition_spec import PartitionField, PartitionSpec
    from deltaberg.iceberg.partition.sort_order import SortField, SortOrder
    from deltaberg.iceberg.scan.scan import Scan
    from deltaberg.iceberg.scan.scan import scan as read
    from deltaberg.iceberg.schema.schema import Schema
    from deltaberg.iceberg.schema.types import NestedField
    from deltaberg.iceberg.table import Table
    from deltaberg.iceberg.transaction import Transaction

__all__ = [
    "IcebergCommitStateUnknown",
    "IcebergConflict",
    "IcebergError",
    "NestedField",
    "PartitionField",
    "PartitionSpec",
    "Scan",
    "Schema",
    "Snapshot",
    "SortField",
    "SortOrder",
    "Table",
    "TableMetadata",
    "Transaction",
    "create",
    "live_data_files",
    "read",
]

# No name is that of a module of the package: importing the module would take its place.
_HOMES = {
    "IcebergCommitStateUnknown": "errors",
    "IcebergConflict": "errors",
    "IcebergError": "errors",
    "NestedField": "schema.types",
    "PartitionField": "partition.partition_spec",
    "PartitionSpec": "partition.partition_spec",
    "Scan": "scan.scan",
    "Schema": "schema.schema",
    "Snapshot": "metadata.snapshot",
    "SortField": "partition.sort_order",
    "SortOrder": "partition.sort_order",
    "Table": "table",
    "TableMetadata": "metadata.table_metadata",
    "Transaction": "transaction",
    "create": "create_table",
    "live_data_files": "manifest.live_files",
    "read": "scan.scan",
}
_NAMED_ELSEWHERE = {"create": "create_table", "live_data_files": "data_files", "read": "scan"}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), _NAMED_ELSEWHERE.get(name, name))
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
