"""Codes about lineage, history and table properties."""

from __future__ import annotations

from typing import Final

from deltaberg.translate.findings import Code, Severity

_ICEBERG: Final = ("iceberg",)
_DELTA: Final = ("delta",)
_BOTH: Final = ("iceberg", "delta")

LINEAGE: Final = Code(
    name="lineage-carried",
    severity=Severity.INFO,
    to=_BOTH,
    reason="Row ids and the versions of rows' last change are the same on both sides.",
    remedy="Nothing to do.",
    example="a Delta table with row tracking, an Iceberg v3 table",
)
SYNC_SCHEMA: Final = Code(
    name="change-not-followed",
    severity=Severity.REFUSE,
    to=_BOTH,
    reason="The source has changed in a way that this target cannot follow, since its earlier states would read differently.",
    remedy="Convert to another target with --target.",
    example="CREATE OR REPLACE TABLE with a column of the same name and another type",
)
LINEAGE_NOT_CARRIED: Final = Code(
    name="lineage-not-carried",
    severity=Severity.WARNING,
    to=_BOTH,
    reason="Row ids of the source cannot be stated in the target; rows get new ones.",
    remedy="Do not join the two sides by row id.",
    example="row tracking that is supported but not enabled; --format-version 2",
)
LINEAGE_MATERIALIZED: Final = Code(
    name="lineage-not-in-file",
    severity=Severity.WARNING,
    to=_ICEBERG,
    reason="Files hold row ids in a column that Iceberg readers cannot recognise (it lacks Iceberg's reserved field "
    "id), so rows of these files get new ids.",
    remedy="--strict rewrites these files; icebergCompatV3 in the source makes new files carry the ids.",
    example="a Delta table with row tracking after MERGE",
    strict=Severity.REWRITE,
)
HISTORY_TRUNCATED: Final = Code(
    name="history-truncated",
    severity=Severity.WARNING,
    to=_BOTH,
    reason="Older versions are left out: their files or log entries are gone, or the history of one target cannot "
    "follow a change that came after them. The history starts at the first version after that.",
    remedy="Nothing to do; an older version that is still there can be converted alone (--version, --snapshot-id) to "
    "another --target.",
    example="a Delta table whose log was cleaned up or that was replaced with other partition columns, an Iceberg "
    "table after expire_snapshots",
)
REFS: Final = Code(
    name="refs-recorded",
    severity=Severity.INFO,
    to=_DELTA,
    reason="Delta has no branches and tags; they are recorded in a property.",
    remedy="Convert one with --ref.",
    example="an Iceberg table with a tag `release`",
)
SORT_ORDER: Final = Code(
    name="sort-order-recorded",
    severity=Severity.INFO,
    to=_DELTA,
    reason="Delta has no sort order; it is recorded in a property.",
    remedy="Nothing to do.",
    example="an Iceberg table with WRITE ORDERED BY",
)
CLUSTERING: Final = Code(
    name="clustering-recorded",
    severity=Severity.INFO,
    to=_ICEBERG,
    reason="Iceberg has no clustering columns; they are recorded in a property.",
    remedy="Nothing to do.",
    example="a Delta table with CLUSTER BY",
)
SHREDDED_VARIANTS: Final = Code(
    name="shredded-variants",
    severity=Severity.INFO,
    to=_ICEBERG,
    reason="Variants may be stored shredded, and the vectorized reader of Iceberg 1.12 stops on such files; the "
    "target switches it off by `read.parquet.vectorization.enabled`.",
    remedy="Set the property to true where all readers support it; rows are read more slowly without it.",
    example="a Delta table with delta.enableVariantShredding",
)
TRANSACTIONS: Final = Code(
    name="transactions-recorded",
    severity=Severity.INFO,
    to=_ICEBERG,
    reason="The log says how far streams and other applications have written (`txn`); Iceberg has no place for it, so "
    "it is recorded in a property.",
    remedy="Before a stream writes to the target, make sure that it does not begin with rows that the source already "
    "has.",
    example="a Delta table that Structured Streaming fills",
)
IDENTIFIER_FIELDS: Final = Code(
    name="identifier-fields-recorded",
    severity=Severity.INFO,
    to=_DELTA,
    reason="Delta has no identifier fields; they are recorded in a property.",
    remedy="Nothing to do.",
    example="an Iceberg table with SET IDENTIFIER FIELDS",
)
SECRET_PROPERTY: Final = Code(
    name="secret-property-left-out",
    severity=Severity.WARNING,
    to=_BOTH,
    reason="A property looks like a secret and is not copied into the target's metadata.",
    remedy="Set it on the target if it is needed there.",
    example="a property `s3.secret-access-key`",
)
NO_COLUMNS: Final = Code(
    name="no-columns",
    severity=Severity.REFUSE,
    to=_BOTH,
    reason="The table has no columns that the target can hold.",
    remedy="Add a column to the source.",
    example="a Delta table with an empty schema",
)
