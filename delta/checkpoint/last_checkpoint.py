"""``_last_checkpoint``: where a recent checkpoint is. PROTOCOL "Last Checkpoint File".

It is a hint and no more: it may be stale, damaged or name a checkpoint that is gone, and the log is right. Only a version
beyond the end of the log means something: its end is lost (``log_listing.find_segment``).
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from deltaberg.delta.log.log_path import (
    LAST_CHECKPOINT,
    LogFileKind,
    checkpoint_part_name,
    classic_checkpoint_name,
    parse_log_file,
)
from deltaberg.storage.errors import StorageError
from deltaberg.storage.protocol import Storage

_MOST_PARTS = 1000  # of a checkpoint whose files are asked for by name


@dataclass(frozen=True, slots=True, kw_only=True)
class LastCheckpoint:
    """The version that the hint names, and the names of the checkpoint's files if they are as it says.

    No names where the hint does not state them as the protocol defines.
    """

    version: int
    names: tuple[str, ...]


def read_hint(storage: Storage, log_folder: str) -> LastCheckpoint | None:
    """The content of the hint; None when there is no usable one."""
    try:
        value = json.loads(storage.get(f"{log_folder}/{LAST_CHECKPOINT}"))
    except (StorageError, ValueError, RecursionError):
        return None
    version = value.get("version") if isinstance(value, dict) else None
    if not isinstance(version, int) or isinstance(version, bool) or not 0 <= version < 2**63:
        return None
    return LastCheckpoint(version=version, names=_names(version, value.get("parts"), value.get("v2Checkpoint")))


def hinted_version(storage: Storage, log_folder: str) -> int | None:
    """The version that the hint names; None when there is no usable hint."""
    hint = read_hint(storage, log_folder)
    return None if hint is None else hint.version


def _names(version: int, parts: object, v2: object) -> tuple[str, ...]:
    if v2 is not None:
        name = v2.get("path") if isinstance(v2, dict) else None
        file = parse_log_file(name) if isinstance(name, str) and "/" not in name else None
        kinds = (LogFileKind.UUID_CHECKPOINT, LogFileKind.CLASSIC_CHECKPOINT)
        return (file.name,) if file is not None and file.version == version and file.kind in kinds else ()
    if parts is None:
        return (classic_checkpoint_name(version),)
    if not isinstance(parts, int) or isinstance(parts, bool) or not 1 <= parts <= _MOST_PARTS:
        return ()
    return tuple(checkpoint_part_name(version, part, parts) for part in range(1, parts + 1))
