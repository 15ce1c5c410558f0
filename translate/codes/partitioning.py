"""Codes about partitioning, and about the rules of an Iceberg compatibility version."""

from __future__ import annotations

from typing import Final

from deltaberg.translate.findings import Code, Severity

_ICEBERG: Final = ("iceberg",)
_DELTA: Final = ("delta",)

PARTITION_TIMEZONE: Final = Code(
    name="partition-timezone",
    severity=Severity.WARNING,
    to=_ICEBERG,
    reason="Timestamp partition values are stated in local time without a zone; each reader assumes its own.",
    remedy="Set --partition-timezone to the zone of the writer.",
    example="a Delta table written with utcTimestampPartitionValues=false",
    strict=Severity.REFUSE,
)
PARTITION_FIELD_KEPT: Final = Code(
    name="partition-field-not-carried",
    severity=Severity.INFO,
    to=_DELTA,
    reason="The field does not partition the Delta table; its column stays an ordinary one and statistics still "
    "skip files.",
    remedy="Nothing to do; --derive-partition-columns adds generated columns for time and truncate transforms.",
    example="bucket(16, id), day(ts), an identity field with empty strings",
)
OTHER_BUCKET: Final = Code(
    name="files-in-another-bucket",
    severity=Severity.WARNING,
    to=_DELTA,
    reason="The files are in another bucket or store than the Delta table, whose log can name them only by absolute "
    "paths. Spark reads these; delta-rs and DuckDB stop.",
    remedy="Choose a --target in the bucket of the data files, or read the Delta table with Spark.",
    example="an Iceberg table in s3://lake, converted with --target s3://other/t",
    strict=Severity.REFUSE,
)
PARTITION_NAMES_MAPPED: Final = Code(
    name="partition-names-mapped",
    severity=Severity.WARNING,
    to=_DELTA,
    reason="The table came from a Delta table with column mapping and gets its partition columns back, under their "
    "former physical names; DuckDB reads the partition columns of any such table as null.",
    remedy="Read the target with Spark, delta-rs or deltaberg, as the original table had to be.",
    example="a column-mapped Delta table that was converted to Iceberg and back",
)
PARTITION_DERIVED: Final = Code(
    name="partition-column-derived",
    severity=Severity.INFO,
    to=_DELTA,
    reason="A generated column with the transform's values partitions the Delta table, as asked for.",
    remedy="Nothing to do.",
    example="day(ts) with --derive-partition-columns: column ts_day",
)
PARTITION_EVOLUTION: Final = Code(
    name="partition-evolution",
    severity=Severity.INFO,
    to=_DELTA,
    reason="Live files were written under several partition specs; Delta has one set of partition columns, so the "
    "identity fields that all of them share are taken.",
    remedy="Nothing to do.",
    example="a table that went from months(ts) to days(ts)",
)

ICEBERG_COMPAT: Final = Code(
    name="iceberg-compat-declared",
    severity=Severity.INFO,
    to=_DELTA,
    reason="The Delta table declares Iceberg compatibility, as asked for, and keeps its rules.",
    remedy="Nothing to do; writers of the Delta table are held to the rules from now on.",
    example="--iceberg-compat v2",
)
ICEBERG_COMPAT_IMPOSSIBLE: Final = Code(
    name="iceberg-compat-impossible",
    severity=Severity.REFUSE,
    to=_DELTA,
    reason="The Delta table would break a rule of the Iceberg compatibility version that was asked for.",
    remedy="Leave --iceberg-compat out or choose another version: v1 and v2 need a source without deletes (compact it "
    "first), v1 one without lists and maps, v3 one with row lineage (format version 3).",
    example="--iceberg-compat v2 and an Iceberg table with deletion vectors",
)
