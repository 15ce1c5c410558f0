"""Row tracking and row lineage: the same numbers under two names.

Delta: "Row Tracking" (domain ``delta.rowTracking``, upstream spelling ``rowIdHighWaterMark``). Iceberg: "Row Lineage".
``baseRowId`` is ``first_row_id``, ``defaultRowCommitVersion`` the data sequence number; the high-water mark is the
highest id given out, ``next-row-id`` the lowest that is not.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from deltaberg.delta.errors import CorruptLog
from deltaberg.delta.log.actions import DomainMetadata
from deltaberg.delta.protocol.protocol import Protocol
from deltaberg.delta.protocol.table_properties import TableProperties

DOMAIN: Final = "delta.rowTracking"
ENABLED_KEY: Final = "delta.enableRowTracking"
ROW_ID_NAME_KEY: Final = "delta.rowTracking.materializedRowIdColumnName"
COMMIT_VERSION_NAME_KEY: Final = "delta.rowTracking.materializedRowCommitVersionColumnName"

ROW_ID_COLUMN: Final = "_row_id"
LAST_UPDATED_COLUMN: Final = "_last_updated_sequence_number"
"""The names that Iceberg's writers give the two columns in data files; Delta's readers find them by these names."""

_NO_ROWS: Final = -1
_HIGH_WATER_MARK: Final = "rowIdHighWaterMark"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaLineage:
    """Row tracking of one Delta snapshot.

    enabled: every live file has its ids. supported: some may. next_row_id: the lowest id not given out.
    row_id_column, commit_version_column: names of materialised columns in data files, where there may be some.
    """

    supported: bool
    enabled: bool
    next_row_id: int
    row_id_column: str | None = None
    commit_version_column: str | None = None


def delta_lineage(
    protocol: Protocol, properties: TableProperties, domains: Mapping[str, DomainMetadata]
) -> DeltaLineage:
    """The row tracking of a Delta snapshot. Raises CorruptLog where the high-water mark is no number."""
    supported = protocol.supports("rowTracking")
    enabled = supported and properties.row_tracking and not properties.row_tracking_suspended
    return DeltaLineage(
        supported=supported,
        enabled=enabled,
        next_row_id=_high_water_mark(domains.get(DOMAIN)) + 1,
        row_id_column=properties.materialized_row_id_column if supported else None,
        commit_version_column=properties.materialized_row_commit_version_column if supported else None,
    )


def _high_water_mark(domain: DomainMetadata | None) -> int:
    if domain is None or domain.removed:
        return _NO_ROWS
    try:
        value = json.loads(domain.configuration)
    except ValueError as error:
        raise CorruptLog(f"Cannot read the domain {DOMAIN}: its configuration is not JSON ({error})") from error
    mark = value.get(_HIGH_WATER_MARK) if isinstance(value, dict) else None
    if not isinstance(mark, int) or isinstance(mark, bool) or not _NO_ROWS <= mark < 2**63 - 1:
        raise CorruptLog(f"Cannot read the domain {DOMAIN}: {_HIGH_WATER_MARK} is {mark!r} (expected a row id)")
    return mark


def iceberg_to_delta_lineage_properties() -> dict[str, str]:
    """Properties of a Delta table whose files may hold Iceberg's lineage columns."""
    return {
        ENABLED_KEY: "true",
        ROW_ID_NAME_KEY: ROW_ID_COLUMN,
        COMMIT_VERSION_NAME_KEY: LAST_UPDATED_COLUMN,
    }
