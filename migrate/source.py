"""Open a table of either format at one point of its history."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from deltaberg.errors import NotATable

if TYPE_CHECKING:
    from deltaberg.delta.table import DeltaTable
    from deltaberg.delta.table import Snapshot as DeltaSnapshot
    from deltaberg.iceberg.snapshot import Snapshot as IcebergSnapshot
    from deltaberg.iceberg.table import Table as IcebergTable
    from deltaberg.storage.protocol import Storage


class TableFormat(str, Enum):
    """The two formats, by the words the command line uses."""

    ICEBERG = "iceberg"
    DELTA = "delta"

    @property
    def other(self) -> TableFormat:
        return TableFormat.DELTA if self is TableFormat.ICEBERG else TableFormat.ICEBERG


@dataclass(frozen=True, slots=True, kw_only=True)
class IcebergSource:
    """An Iceberg table at one snapshot; ``snapshot`` is None for a table that has none yet."""

    table: IcebergTable
    snapshot: IcebergSnapshot | None
    ref: str | None
    storage: Storage
    location: str

    @property
    def format(self) -> TableFormat:
        return TableFormat.ICEBERG


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaSource:
    """A Delta table at one version."""

    table: DeltaTable
    snapshot: DeltaSnapshot
    storage: Storage
    location: str

    @property
    def format(self) -> TableFormat:
        return TableFormat.DELTA


Source = IcebergSource | DeltaSource


def open_source(
    location: str,
    storage: Storage,
    *,
    version: int | None = None,
    snapshot_id: int | None = None,
    ref: str | None = None,
    as_of_ms: int | None = None,
    format: TableFormat | None = None,
) -> Source:
    """The table at ``location`` (a folder or an Iceberg ``*.metadata.json``), at one point of its history.

    version: Delta only; snapshot_id, ref: Iceberg only; as_of_ms: either, milliseconds since 1970 UTC.
    format: which to take where both stand in one folder.

    Raises NotATable where neither format's metadata stands, UsageError where both do and ``format`` is not given
    or where a selector belongs to the other format.
    """
    raise NotATable(f"Cannot open {location}: no Iceberg or Delta metadata there")
