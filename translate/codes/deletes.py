"""Codes about deleted rows."""

from __future__ import annotations

from typing import Final

from deltaberg.translate.findings import Code, Severity

_ICEBERG: Final = ("iceberg",)
_DELTA: Final = ("delta",)
_BOTH: Final = ("iceberg", "delta")

DELETION_VECTORS: Final = Code(
    name="deletion-vectors-copied",
    severity=Severity.INFO,
    to=_BOTH,
    reason="The bytes of the deletion vectors are the same in both formats; they are copied into the other container.",
    remedy="Nothing to do.",
    example="a Delta table after DELETE with deletion vectors on",
)
DELETION_VECTORS_TO_POSITIONS: Final = Code(
    name="deletion-vectors-to-position-deletes",
    severity=Severity.INFO,
    to=_ICEBERG,
    reason="Format version 2 has no deletion vectors; the positions are written as position delete files.",
    remedy="Set --format-version 3 to have the vectors copied.",
    example="a Delta table with deletion vectors and --format-version 2",
)
DELETES_NEED_VERSION_2: Final = Code(
    name="deletes-need-version-2",
    severity=Severity.REFUSE,
    to=_ICEBERG,
    reason="Iceberg format version 1 has no deletes of rows.",
    remedy="Leave --format-version out, set it to 2 or 3, or run OPTIMIZE / REORG PURGE on the source.",
    example="a Delta table with deletion vectors and --format-version 1",
)
POSITION_DELETES: Final = Code(
    name="position-deletes-merged",
    severity=Severity.INFO,
    to=_DELTA,
    reason="All position deletes of a data file are merged into one deletion vector.",
    remedy="Nothing to do.",
    example="an Iceberg v2 table after merge-on-read deletes",
)
EQUALITY_DELETES: Final = Code(
    name="equality-deletes-resolved",
    severity=Severity.INFO,
    to=_DELTA,
    reason="Equality deletes are resolved to deletion vectors by reading the key columns; no data file is rewritten.",
    remedy="Nothing to do.",
    example="an Iceberg table that Flink upserts into",
)
