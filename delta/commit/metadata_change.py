"""Which changes of ``metaData`` a commit may make to an existing table (PROTOCOL "Change Metadata" and each feature)."""

from __future__ import annotations

from deltaberg.delta.errors import InvalidDeltaRequest
from deltaberg.delta.log.actions import Metadata
from deltaberg.delta.schema.column_mapping import PHYSICAL_NAME
from deltaberg.delta.schema.schema import walk_fields


def check_metadata_change(before: Metadata, after: Metadata) -> None:
    """Raise InvalidDeltaRequest for a change that would leave data files or row ids unreadable."""
    if before.id != after.id:
        raise InvalidDeltaRequest(f"Cannot change the table's id from {before.id} to {after.id}: it names the table")
    was, now = before.properties, after.properties
    modes = (was.column_mapping_mode, now.column_mapping_mode)
    if modes[0] != modes[1]:
        if modes != ("none", "name"):
            raise InvalidDeltaRequest(
                f"Cannot change delta.columnMapping.mode from {modes[0]} to {modes[1]}: files that exist do not fit it",
                feature="columnMapping",
            )
        _check_names_kept(before, after)
    if (now.column_mapping_max_id or 0) < (was.column_mapping_max_id or 0) and modes[1] != "none":
        raise InvalidDeltaRequest(
            f"Cannot lower delta.columnMapping.maxColumnId from {was.column_mapping_max_id} to "
            f"{now.column_mapping_max_id}: ids are never used again",
            feature="columnMapping",
        )
    if now.row_tracking and not (now.materialized_row_id_column and now.materialized_row_commit_version_column):
        raise InvalidDeltaRequest(
            "Cannot enable row tracking: the names of its materialized columns are not in the configuration",
            feature="rowTracking",
        )
    if now.row_tracking and now.row_tracking_suspended:
        raise InvalidDeltaRequest(
            "Cannot enable row tracking while delta.rowTrackingSuspended is true", feature="rowTracking"
        )
    if was.iceberg_compat_versions == (3,) and now.iceberg_compat_versions != (3,):
        raise InvalidDeltaRequest(
            "Cannot disable icebergCompatV3: the reference implementation never does", feature="icebergCompatV3"
        )


def _check_names_kept(before: Metadata, after: Metadata) -> None:
    """Columns that files hold under their names keep those names as physical names when column mapping is enabled."""
    known = {path for path, _ in walk_fields(before.schema)}
    for path, field in walk_fields(after.schema):
        if path in known and field.metadata.get(PHYSICAL_NAME) != field.name:
            raise InvalidDeltaRequest(
                f"Cannot switch on column mapping: the physical name of {'.'.join(path)!r} is "
                f"{field.metadata.get(PHYSICAL_NAME)!r} (expected {field.name!r}, its name in the files)",
                feature="columnMapping",
            )
