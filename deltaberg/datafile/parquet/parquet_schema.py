"""The facts about a file's columns that a Parquet footer states beyond their Arrow types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.types as pt

from deltaberg.datafile.errors import DataFileError
from deltaberg.datafile.file_schema import FileField, file_fields
from deltaberg.datafile.hybrid_calendar import HybridCalendar
from deltaberg.datafile.parquet.parquet_footer import ParquetFooter, SchemaNode

SPARK_VERSION = b"org.apache.spark.version"
SPARK_TIMEZONE = b"org.apache.spark.timeZone"
LEGACY_DATETIME = b"org.apache.spark.legacyDateTime"
LEGACY_INT96 = b"org.apache.spark.legacyINT96"


def parquet_fields(footer: ParquetFooter, arrow_schema: pa.Schema, *, rebase_calendar: bool) -> tuple[FileField, ...]:
    """The columns of a file as a tree whose leaves are Parquet's, with the calendar that each was written in.

    Raises DataFileError where the two schemas do not have the same leaves or the writer's time zone is unknown.
    """
    fields = file_fields(arrow_schema)
    leaves = tuple(leaf for leaf, _ in footer.schema.leaves())
    found = fields[-1].last_leaf if fields else 0
    if found != len(leaves):
        raise DataFileError(f"Cannot read the file: its schema makes {found} columns (expected {len(leaves)})")
    datetime, int96 = calendars(footer.key_values) if rebase_calendar else (None, None)
    if datetime is None and int96 is None:
        return fields
    return tuple(_with_calendar(field, leaves, datetime, int96) for field in fields)


def calendars(key_values: Mapping[bytes, bytes]) -> tuple[HybridCalendar | None, HybridCalendar | None]:
    """The calendars of (dates and int64 timestamps, INT96 timestamps); None is the proleptic Gregorian one.

    Spark's rule: files of Spark before 3.0 (INT96: before 3.1) or with a legacy key are in the hybrid calendar, in
    the zone that the footer names. Files of other writers never are.
    """
    version = _version(key_values.get(SPARK_VERSION))
    if version is None:
        return None, None
    old_datetime = version < (3, 0) or LEGACY_DATETIME in key_values
    old_int96 = version < (3, 1) or LEGACY_INT96 in key_values
    if not old_datetime and not old_int96:
        return None, None
    zone = key_values.get(SPARK_TIMEZONE, b"UTC").decode("utf-8", "replace")
    try:
        calendar = HybridCalendar(timezone=zone)
    except ValueError as error:
        raise DataFileError(
            f"Cannot read the file: it was written in a legacy calendar in the time zone {zone!r}: {error}"
        ) from error
    return calendar if old_datetime else None, calendar if old_int96 else None


def _version(text: bytes | None) -> tuple[int, int] | None:
    if text is None:
        return None
    parts = text.split(b".")
    try:
        return int(parts[0]), int(parts[1])
    except (ValueError, IndexError) as error:
        raise DataFileError(
            f"Cannot read the file: its Spark version is {text!r} (expected 3.5.1 or the like)"
        ) from error


def _with_calendar(
    field: FileField, leaves: Sequence[SchemaNode], datetime: HybridCalendar | None, int96: HybridCalendar | None
) -> FileField:
    if field.children:
        below = tuple(_with_calendar(child, leaves, datetime, int96) for child in field.children)
        return replace(field, children=below)
    if pt.is_temporal(field.type):
        stored_int96 = leaves[field.first_leaf].physical_type == "INT96"
        return replace(field, calendar=int96 if stored_int96 else datetime)
    return field
