"""``_last_checkpoint``: where a recent checkpoint is. PROTOCOL "Last Checkpoint File".

It is a hint and no more: it may be stale, damaged or point nowhere, and the log is right.
"""

from __future__ import annotations

import json

from deltaberg.delta.log_path import LAST_CHECKPOINT
from deltaberg.storage.errors import StorageError
from deltaberg.storage.protocol import Storage


def hinted_version(storage: Storage, log_folder: str) -> int | None:
    """The version that the hint names; None when there is no usable hint."""
    try:
        value = json.loads(storage.get(f"{log_folder}/{LAST_CHECKPOINT}"))
    except (StorageError, ValueError, RecursionError):
        return None
    version = value.get("version") if isinstance(value, dict) else None
    if not isinstance(version, int) or isinstance(version, bool) or not 0 <= version < 2**63:
        return None
    return version
