"""The interface that deltaberg needs of a catalog: a pointer to a table's metadata file that can be swapped (section
"Metastore Tables").
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from deltaberg.iceberg.metadata.metadata_update import MetadataUpdate
from deltaberg.iceberg.metadata.table_metadata import TableMetadata
from deltaberg.iceberg.metadata.table_requirement import TableRequirement


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogCommit:
    """One commit in both forms that a catalog may accept: as a pointer swap, or as requirements and updates.

    ``expected`` is the metadata file that must still be current (None: the table must not exist), ``location`` the
    file that was written with ``metadata``. A catalog that writes metadata itself uses ``requirements`` and
    ``updates`` and ignores both.
    """

    expected: str | None
    location: str
    metadata: TableMetadata
    requirements: tuple[TableRequirement, ...]
    updates: tuple[MetadataUpdate, ...]


class CatalogTable(Protocol):
    """One table of a catalog."""

    def current(self) -> str | None:
        """The location of the current metadata file; None when the catalog has no such table."""
        ...

    def commit(self, commit: CatalogCommit) -> str:
        """Make the commit current and return the metadata file's location.

        Raises IcebergConflict when the table has changed, IcebergCommitStateUnknown when the outcome is not known,
        and another DeltabergError when nothing happened.
        """
        ...
