"""Codes about data files and their statistics."""

from __future__ import annotations

from typing import Final

from deltaberg.translate.findings import Code, Severity

_ICEBERG: Final = ("iceberg",)
_DELTA: Final = ("delta",)
_BOTH: Final = ("iceberg", "delta")

DATA_FILE_FORMAT: Final = Code(
    name="data-file-format",
    severity=Severity.REWRITE,
    to=_DELTA,
    reason="Delta's data files are Parquet.",
    remedy="Nothing to do; these files are rewritten to Parquet.",
    example="an Iceberg table with ORC or Avro files",
)
INT96: Final = Code(
    name="int96-timestamps",
    severity=Severity.WARNING,
    to=_BOTH,
    reason="Timestamps are stored as INT96, which Iceberg's specification does not list and Delta's knows from Spark; "
    "Spark, DuckDB, PyIceberg and delta-rs read these values right.",
    remedy="--strict rewrites these files; set spark.sql.parquet.outputTimestampType=TIMESTAMP_MICROS for new ones.",
    example="nearly every Delta table that open-source Spark wrote",
    strict=Severity.REWRITE,
)
INT96_OUT_OF_RANGE: Final = Code(
    name="int96-out-of-range",
    severity=Severity.REWRITE,
    to=_BOTH,
    reason="Timestamps stored as INT96 lie outside the years 1677 to 2262, or statistics do not prove that none do; "
    "readers that pass through nanoseconds (PyIceberg, delta-rs) get those wrong.",
    remedy="Nothing to do; these files are rewritten.",
    example="an INT96 file with a timestamp of the year 9999",
)
TWO_LEVEL_LISTS: Final = Code(
    name="two-level-lists",
    severity=Severity.REWRITE,
    to=_ICEBERG,
    reason="Lists are stored in Parquet's legacy two-level form, which Iceberg readers read wrongly or not at all.",
    remedy="Nothing to do; these files are rewritten.",
    example="a Delta file written with spark.sql.parquet.writeLegacyFormat=true",
)
LEGACY_CALENDAR: Final = Code(
    name="legacy-calendar",
    severity=Severity.REWRITE,
    to=_BOTH,
    reason="Dates or timestamps are stored in the hybrid Julian calendar; only Spark rebases them.",
    remedy="Nothing to do; these files are rewritten.",
    example="a file with the key org.apache.spark.legacyDateTime and a date before 1582-10-15",
)
PHYSICAL_TYPE_FOREIGN: Final = Code(
    name="physical-type-foreign",
    severity=Severity.REWRITE,
    to=_BOTH,
    reason="A column is stored in a physical form that readers of the target format do not accept for its type.",
    remedy="Nothing to do; these files are rewritten.",
    example="a decimal stored as variable-length binary",
)
PARTITION_VALUE_DIFFERS: Final = Code(
    name="partition-value-differs",
    severity=Severity.REWRITE,
    to=_ICEBERG,
    reason="The files hold the partition column with other values than the log states; in Delta the log's value "
    "counts, in Iceberg the file's.",
    remedy="Nothing to do; these files are rewritten.",
    example="an empty string, which a Delta log states as null",
)
PARTITION_DOUBLE: Final = Code(
    name="partition-double",
    severity=Severity.REWRITE,
    to=_ICEBERG,
    reason="The value of a double partition column would be read from Iceberg's metadata, and PyIceberg reads it there "
    "in single precision.",
    remedy="Nothing to do; these files are rewritten with the column.",
    example="a Delta table partitioned by a double column with the value 0.1",
)
COLUMN_NOT_IN_FILE: Final = Code(
    name="partition-column-not-in-file",
    severity=Severity.REWRITE,
    to=_DELTA,
    reason="The files lack an identity partition column that is no partition column of the target; its value is in "
    "Iceberg's metadata only.",
    remedy="Nothing to do; these files are rewritten with the column.",
    example="Hive files imported under a partition spec that evolved later",
)
REWRITE_ELSEWHERE: Final = Code(
    name="rewrite-elsewhere",
    severity=Severity.REFUSE,
    to=_BOTH,
    reason="The files that have to be rewritten are more than one machine should do unasked.",
    remedy="Run it on a cluster with --engine spark, or rewrite them here with --engine local.",
    example="two terabytes of ORC files",
)
FILE_UNREADABLE: Final = Code(
    name="file-unreadable",
    severity=Severity.REFUSE,
    to=_BOTH,
    reason="A data or delete file that the source lists is missing or damaged; its rows are lost to any target.",
    remedy="Restore the file or take it out of the source (Delta: FSCK REPAIR TABLE; Iceberg: delete it from the "
    "table), or choose a version that does not list it. --deep checks every file.",
    example="a Delta table after a VACUUM that was too short, a table that was copied without all of its files",
)
ROW_COUNT_DIFFERS: Final = Code(
    name="row-count-differs",
    severity=Severity.REFUSE,
    to=_BOTH,
    reason="The metadata states another number of rows for a file than the file has. Engines answer COUNT(*) from that "
    "number, and row ids and deletes depend on it.",
    remedy="Have the source's engine rewrite the file (OPTIMIZE, rewrite_data_files). --deep checks every file; "
    "otherwise the first files of a table, those that may be imported, and some of every writer and commit are "
    "compared.",
    example="a Delta log whose numRecords is 10 for a file of 5 rows",
)
STATISTICS_FROM_FOOTERS: Final = Code(
    name="row-counts-from-footers",
    severity=Severity.INFO,
    to=_ICEBERG,
    reason="The log has no row count for these files; it is read from their footers.",
    remedy="Nothing to do.",
    example="a Delta table without statistics",
)
