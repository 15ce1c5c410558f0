"""Apache Iceberg, natively: table metadata, manifests, deletes, scans and commits.

``Table.open`` leads to metadata and snapshots; ``read`` gives a snapshot's rows, ``live_data_files`` its files;
``Table.transaction`` begins changes to a table and ``create`` a new one. Types are in ``deltaberg.iceberg.types``,
errors in ``deltaberg.iceberg.errors``. A name is loaded when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from deltaberg.iceberg.create_table import create_table as create
    from deltaberg.iceberg.errors import IcebergCommitStateUnknown, IcebergConflict, IcebergError
    from deltaberg.iceberg.live_files import data_files as live_data_files
    from deltaberg.iceberg.partition_spec import PartitionField, PartitionSpec
    from deltaberg.iceberg.scan import Scan
    from deltaberg.iceberg.scan import scan as read
    from deltaberg.iceberg.schema import Schema
    from deltaberg.iceberg.snapshot import Snapshot
    from deltaberg.iceberg.sort_order import SortField, SortOrder
    from deltaberg.iceberg.table import Table
    from deltaberg.iceberg.table_metadata import TableMetadata
    from deltaberg.iceberg.transaction import Transaction
    from deltaberg.iceberg.types import NestedField

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
    "NestedField": "types",
    "PartitionField": "partition_spec",
    "PartitionSpec": "partition_spec",
    "Scan": "scan",
    "Schema": "schema",
    "Snapshot": "snapshot",
    "SortField": "sort_order",
    "SortOrder": "sort_order",
    "Table": "table",
    "TableMetadata": "table_metadata",
    "Transaction": "transaction",
    "create": "create_table",
    "live_data_files": "live_files",
    "read": "scan",
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
