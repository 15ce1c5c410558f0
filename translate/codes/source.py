"""Codes about a source as a whole: whether it can be read, and its oddities."""

from __future__ import annotations

from typing import Final

from deltaberg.translate.findings import Code, Severity

_ICEBERG: Final = ("iceberg",)
_DELTA: Final = ("delta",)
_BOTH: Final = ("iceberg", "delta")

SOURCE_UNREADABLE: Final = Code(
    name="source-unreadable",
    severity=Severity.REFUSE,
    to=_BOTH,
    reason="There is no table, or its metadata is corrupt, contradicts itself or is incomplete; its rows are unknown.",
    remedy="Repair the source (restore the file that the message names), or choose a state that can be read: "
    "--version, --snapshot-id. --relocate OLD=NEW says where files are that the metadata does not name in full.",
    example="a log with a missing commit, a manifest that is cut off, a folder without a table",
)
SOURCE_FEATURE: Final = Code(
    name="source-feature",
    severity=Severity.REFUSE,
    to=_BOTH,
    reason="The table has a feature, format version or type that deltaberg does not read; reading on could miss rows "
    "or change values.",
    remedy="Drop the feature in the source, or read the table through the catalog or engine that owns it.",
    example="a Delta table with catalogManaged or reader version 99, an encrypted Iceberg table",
)
CHECKSUM_DIFFERS: Final = Code(
    name="checksum-differs",
    severity=Severity.WARNING,
    to=_ICEBERG,
    reason="The version's checksum file (.crc) counts other files than the log, which is whole; readers go by the log.",
    remedy="Compare the rows with what the table should hold; delete the checksum file if it is wrong, restore the "
    "log if that is.",
    example="a .crc that says 10 files beside a log that adds none",
    strict=Severity.REFUSE,
)
SNAPSHOT_ID_UNSIGNED: Final = Code(
    name="snapshot-id-unsigned",
    severity=Severity.INFO,
    to=_DELTA,
    reason="The id is above the largest 64-bit integer; it is kept as the signed number of the same 64 bits.",
    remedy="Nothing to do; --snapshot-id takes either form.",
    example="an Iceberg snapshot with the id 9876543210123456789",
)
EMPTY_SOURCE: Final = Code(
    name="no-snapshot",
    severity=Severity.INFO,
    to=_DELTA,
    reason="The source has no snapshot yet; the target is an empty table.",
    remedy="Nothing to do.",
    example="a newly created Iceberg table",
)
VECTOR_EXCEEDS_FILE: Final = Code(
    name="deletion-vector-exceeds-file",
    severity=Severity.REFUSE,
    to=_ICEBERG,
    reason="The log says that more rows are deleted than the file has; one of the two numbers is wrong.",
    remedy="Repair the source.",
    example="a deletion vector of cardinality 10 for a file of 5 rows",
)
SCHEMA_CONTRADICTORY: Final = Code(
    name="schema-contradictory",
    severity=Severity.REFUSE,
    to=_ICEBERG,
    reason="The source's schema breaks a rule that readers of the target rely on.",
    remedy="Repair the source.",
    example="two columns with one column mapping id, an id above 2147483447",
)
FILE_LISTED_TWICE: Final = Code(
    name="file-listed-twice",
    severity=Severity.REFUSE,
    to=_DELTA,
    reason="One snapshot lists a data file twice, so Iceberg's readers see its rows twice; a Delta table cannot list "
    "it twice, and listing it once would lose rows.",
    remedy="Take one of the two entries out of the source, or rewrite the file there (rewrite_data_files).",
    example="a table to which add_files or a retried commit added a file again",
)
