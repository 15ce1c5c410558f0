"""A typed view of the ``delta.*`` keys of ``metaData.configuration``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from deltaberg.delta.errors import CorruptLog

_CONSTRAINT = "delta.constraints."


@dataclass(frozen=True, slots=True, kw_only=True)
class TableProperties:
    """Values are parsed when asked for; a value that cannot be one of its kind is a CorruptLog naming the key."""

    configuration: Mapping[str, str]

    @property
    def append_only(self) -> bool:
        return self._flag("delta.appendOnly")

    @property
    def column_mapping_mode(self) -> str:
        """``none``, ``name`` or ``id``."""
        mode = self.configuration.get("delta.columnMapping.mode", "none").lower()
        if mode not in ("none", "name", "id"):
            raise _invalid("delta.columnMapping.mode", mode, "none, name or id")
        return mode

    @property
    def column_mapping_max_id(self) -> int | None:
        return self._number("delta.columnMapping.maxColumnId")

    @property
    def change_data_feed(self) -> bool:
        return self._flag("delta.enableChangeDataFeed")

    @property
    def deletion_vectors(self) -> bool:
        return self._flag("delta.enableDeletionVectors")

    @property
    def row_tracking(self) -> bool:
        return self._flag("delta.enableRowTracking")

    @property
    def row_tracking_suspended(self) -> bool:
        return self._flag("delta.rowTrackingSuspended")

    @property
    def materialized_row_id_column(self) -> str | None:
        return self.configuration.get("delta.rowTracking.materializedRowIdColumnName")

    @property
    def materialized_row_commit_version_column(self) -> str | None:
        return self.configuration.get("delta.rowTracking.materializedRowCommitVersionColumnName")

    @property
    def in_commit_timestamps(self) -> bool:
        return self._flag("delta.enableInCommitTimestamps") or self._flag("delta.enableInCommitTimestamps-preview")

    @property
    def in_commit_timestamp_enablement_version(self) -> int | None:
        return self._number("delta.inCommitTimestampEnablementVersion")

    @property
    def in_commit_timestamp_enablement_timestamp_ms(self) -> int | None:
        return self._number("delta.inCommitTimestampEnablementTimestamp")

    @property
    def iceberg_compat_versions(self) -> tuple[int, ...]:
        """The versions of IcebergCompat whose property is true."""
        return tuple(number for number in (1, 2, 3) if self._flag(f"delta.enableIcebergCompatV{number}"))

    @property
    def checkpoint_policy(self) -> str:
        """``classic`` or ``v2``."""
        policy = self.configuration.get("delta.checkpointPolicy", "classic").lower()
        if policy not in ("classic", "v2"):
            raise _invalid("delta.checkpointPolicy", policy, "classic or v2")
        return policy

    @property
    def checkpoint_interval(self) -> int:
        """Commits between checkpoints."""
        interval = self._number("delta.checkpointInterval")
        return 10 if interval is None else interval

    @property
    def write_stats_as_json(self) -> bool:
        return self._flag("delta.checkpoint.writeStatsAsJson", default=True)

    @property
    def write_stats_as_struct(self) -> bool:
        return self._flag("delta.checkpoint.writeStatsAsStruct")

    @property
    def deleted_file_retention(self) -> str:
        """How long removed files stay, as Spark's interval text."""
        return self.configuration.get("delta.deletedFileRetentionDuration", "interval 1 week")

    @property
    def check_constraints(self) -> tuple[tuple[str, str], ...]:
        """Name and SQL expression of each CHECK constraint."""
        return tuple(
            (key.removeprefix(_CONSTRAINT), value)
            for key, value in self.configuration.items()
            if key.startswith(_CONSTRAINT)
        )

    def _flag(self, key: str, *, default: bool = False) -> bool:
        value = self.configuration.get(key)
        if value is None:
            return default
        match value.strip().lower():
            case "true":
                return True
            case "false":
                return False
        raise _invalid(key, value, "true or false")

    def _number(self, key: str) -> int | None:
        value = self.configuration.get(key)
        if value is None:
            return None
        text = value.strip()
        if not text.isascii() or not text.removeprefix("-").isdigit() or len(text) > 20:
            raise _invalid(key, value, "a number")
        return int(text)


def _invalid(key: str, value: str, expected: str) -> CorruptLog:
    return CorruptLog(f"Cannot read the table property {key}: it is {value!r} (expected {expected})")
