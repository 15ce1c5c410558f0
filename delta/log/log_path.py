"""The names of files in ``_delta_log``, parsed once. PROTOCOL "File Types"."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import Literal

LOG_FOLDER = "_delta_log"
LAST_CHECKPOINT = "_last_checkpoint"
SIDECAR_FOLDER = "_sidecars"

_UUID = r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"
_NAME = re.compile(
    r"(?P<version>[0-9]{20})\.(?:"
    r"(?P<commit>json)"
    r"|(?P<checksum>crc)"
    r"|(?P<end>[0-9]{20})\.compacted\.json"
    r"|checkpoint\.(?:"
    r"(?P<classic>parquet)"
    r"|(?P<part>[0-9]{10})\.(?P<parts>[0-9]{10})\.parquet"
    rf"|(?P<uuid>{_UUID})\.(?P<form>json|parquet)"
    r"))"
)


class LogFileKind(Enum):
    """``N.json``, ``N.crc``, ``X.Y.compacted.json`` and the three names of checkpoints."""

    COMMIT = "commit"
    CHECKSUM = "checksum"
    COMPACTION = "log compaction"
    CLASSIC_CHECKPOINT = "classic checkpoint"
    CHECKPOINT_PART = "part of a checkpoint"
    UUID_CHECKPOINT = "V2 checkpoint"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFile:
    """One file of the log; ``end_version`` of a compaction, ``part`` (from 1) and ``parts`` of a multi-part checkpoint."""

    location: str
    version: int
    kind: LogFileKind
    size: int = 0
    modified_ms: int = 0
    end_version: int | None = None
    part: int | None = None
    parts: int | None = None
    form: Literal["json", "parquet"] = "json"

    @property
    def name(self) -> str:
        return self.location.rpartition("/")[2]


def parse_log_file(location: str, *, size: int = 0, modified_ms: int = 0) -> LogFile | None:
    """The meaning of a name in the log folder; None for names that the protocol does not define."""
    match = _NAME.fullmatch(location.rpartition("/")[2])
    if match is None:
        return None
    version = int(match["version"])
    if version >= 2**63:
        return None

    def found(kind: LogFileKind, **facts: int | None) -> LogFile:
        return LogFile(
            location=location,
            version=version,
            kind=kind,
            size=size,
            modified_ms=modified_ms,
            form="parquet" if location.endswith(".parquet") else "json",
            **facts,
        )

    if match["commit"]:
        return found(LogFileKind.COMMIT)
    if match["checksum"]:
        return found(LogFileKind.CHECKSUM)
    if match["end"]:
        end = int(match["end"])
        return found(LogFileKind.COMPACTION, end_version=end) if version < end else None
    if match["classic"]:
        return found(LogFileKind.CLASSIC_CHECKPOINT)
    if match["part"]:
        part, parts = int(match["part"]), int(match["parts"])
        return found(LogFileKind.CHECKPOINT_PART, part=part, parts=parts) if 1 <= part <= parts else None
    return found(LogFileKind.UUID_CHECKPOINT)


def log_folder(table_root: str) -> str:
    """The log's folder of a table."""
    return f"{table_root.rstrip('/')}/{LOG_FOLDER}"


def commit_name(version: int) -> str:
    """``N.json``."""
    return f"{version:020d}.json"


def checksum_name(version: int) -> str:
    """``N.crc``."""
    return f"{version:020d}.crc"


def classic_checkpoint_name(version: int) -> str:
    """``N.checkpoint.parquet``."""
    return f"{version:020d}.checkpoint.parquet"


def checkpoint_part_name(version: int, part: int, parts: int) -> str:
    """``N.checkpoint.o.p.parquet``; parts count from 1."""
    return f"{version:020d}.checkpoint.{part:010d}.{parts:010d}.parquet"


def first_name_of(version: int) -> str:
    """A name that sorts before every file of that version and after every file of an earlier one."""
    return f"{version:020d}"
