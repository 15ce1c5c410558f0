"""Codes about a source as a whole: whether it can be read, and what is odd about it."""

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
    reason="There is no table, or its metadata is corrupt, contradicts itself or is not all there; nobody can say which rows "
    "it has.",
    remedy="Repair the source (restore the file that the message names), or choose a state that can be read: --version, "
    "--snapshot-id. --relocate OLD=NEW says where files are that the metadata does not name in full.",
    example="a log with a missing commit, a manifest that is cut off, a folder without a table",
)
SOURCE_FEATURE: Final = Code(
    name="source-feature",
    severity=Severity.REFUSE,
    to=_BOTH,
    reason="The table has a feature, format version or type that deltaberg does not read; reading on could miss rows or "
    "change values.",
    remedy="Drop the feature in the source, or read the table through the catalog or engine that owns it.",
    example="a Delta table with catalogManaged or reader version 99, an encrypted Iceberg table",
)
CHECKSUM_DIFFERS: Final = Code(
    name="checksum-differs",
    severity=Severity.WARNING,
    to=_ICEBERG,
    reason="The version's checksum file (.crc) counts other files than the log, which is whole; the log is what readers go by.",
    remedy="Compare the rows with what the table should hold; delete the checksum file if it is wrong, restore the log if "
    "that is.",
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

SOURCE_CODES: Final = (CHECKSUM_DIFFERS, SNAPSHOT_ID_UNSIGNED, SOURCE_FEATURE, SOURCE_UNREADABLE)
