"""A gateway between Apache Iceberg and Delta Lake: one set of data files, two sets of metadata.

The verbs of the command line are functions here: ``inspect``, ``scan``, ``history``, ``plan``, ``convert``, ``sync``, ``rollback``,
``verify``.
Importing the package costs nothing; a name is loaded when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from deltaberg.api import convert, history, inspect, plan, rollback, scan, sync, verify
    from deltaberg.errors import (
        CommitStateUnknown,
        Conflict,
        DeltabergError,
        Interrupted,
        NotATable,
        Unsupported,
        UsageError,
        VerificationFailed,
    )
    from deltaberg.migrate.convert import ConvertResult
    from deltaberg.migrate.history import HistoryReport
    from deltaberg.migrate.inspection import Inspection
    from deltaberg.migrate.plan_report import Plan
    from deltaberg.migrate.publish.publisher import Publisher, PublishReport
    from deltaberg.migrate.rollback import RollbackReport
    from deltaberg.migrate.sync import SyncResult
    from deltaberg.migrate.verify.verify import VerifyReport
    from deltaberg.table_scan import TableScan
    from deltaberg.translate.options import ConvertOptions

__version__ = "0.1.0"

__all__ = [
    "CommitStateUnknown",
    "Conflict",
    "ConvertOptions",
    "ConvertResult",
    "DeltabergError",
    "HistoryReport",
    "Inspection",
    "Interrupted",
    "NotATable",
    "Plan",
    "PublishReport",
    "Publisher",
    "RollbackReport",
    "SyncResult",
    "TableScan",
    "Unsupported",
    "UsageError",
    "VerificationFailed",
    "VerifyReport",
    "convert",
    "history",
    "inspect",
    "plan",
    "rollback",
    "scan",
    "sync",
    "verify",
]

_HOMES = {
    "deltaberg.api": ("convert", "history", "inspect", "plan", "rollback", "scan", "sync", "verify"),
    "deltaberg.errors": (
        "CommitStateUnknown",
        "Conflict",
        "DeltabergError",
        "Interrupted",
        "NotATable",
        "Unsupported",
        "UsageError",
        "VerificationFailed",
    ),
    "deltaberg.migrate.convert": ("ConvertResult",),
    "deltaberg.migrate.history": ("HistoryReport",),
    "deltaberg.migrate.inspection": ("Inspection",),
    "deltaberg.migrate.plan_report": ("Plan",),
    "deltaberg.migrate.publish.publisher": ("PublishReport", "Publisher"),
    "deltaberg.migrate.rollback": ("RollbackReport",),
    "deltaberg.migrate.sync": ("SyncResult",),
    "deltaberg.migrate.verify.verify": ("VerifyReport",),
    "deltaberg.table_scan": ("TableScan",),
    "deltaberg.translate.options": ("ConvertOptions",),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
