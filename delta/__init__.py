"""Delta Lake, natively: the log, checkpoints, deletion vectors, scans and commits.

``DeltaTable.open`` leads to snapshots; ``read`` gives a snapshot's rows, ``Snapshot.add_files`` its files;
``begin_transaction`` begins a commit on a snapshot and ``create`` one of a new table. Types are in
``deltaberg.delta.schema.types``, errors in ``deltaberg.delta.errors``. A name is loaded when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from deltaberg.delta.checkpoint.checkpoint import checkpoint_snapshot
    from deltaberg.delta.checkpoint.checkpoint_writer import CheckpointKind
    from deltaberg.delta.create_table import create_table as create
    from deltaberg.delta.create_table import new_metadata
    from deltaberg.delta.errors import DeltaCommitStateUnknown, DeltaConflict, DeltaError
    from deltaberg.delta.log.actions import Metadata
    from deltaberg.delta.protocol.protocol import Protocol
    from deltaberg.delta.scan import Scan
    from deltaberg.delta.scan import scan as read
    from deltaberg.delta.schema.column_mapping import MappingMode
    from deltaberg.delta.schema.types import StructField, StructType
    from deltaberg.delta.snapshot import Snapshot
    from deltaberg.delta.table import DeltaTable
    from deltaberg.delta.transaction import Transaction, begin_transaction

__all__ = [
    "CheckpointKind",
    "DeltaCommitStateUnknown",
    "DeltaConflict",
    "DeltaError",
    "DeltaTable",
    "MappingMode",
    "Metadata",
    "Protocol",
    "Scan",
    "Snapshot",
    "StructField",
    "StructType",
    "Transaction",
    "begin_transaction",
    "checkpoint_snapshot",
    "create",
    "new_metadata",
    "read",
]

# No name is that of a module of the package: importing the module would take its place.
_HOMES = {
    "CheckpointKind": "checkpoint.checkpoint_writer",
    "DeltaCommitStateUnknown": "errors",
    "DeltaConflict": "errors",
    "DeltaError": "errors",
    "DeltaTable": "table",
    "MappingMode": "schema.column_mapping",
    "Metadata": "log.actions",
    "Protocol": "protocol.protocol",
    "Scan": "scan",
    "Snapshot": "snapshot",
    "StructField": "schema.types",
    "StructType": "schema.types",
    "Transaction": "transaction",
    "begin_transaction": "transaction",
    "checkpoint_snapshot": "checkpoint.checkpoint",
    "create": "create_table",
    "new_metadata": "create_table",
    "read": "scan",
}
_NAMED_ELSEWHERE = {"create": "create_table", "read": "scan"}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), _NAMED_ELSEWHERE.get(name, name))
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
