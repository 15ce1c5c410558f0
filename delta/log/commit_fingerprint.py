"""Fingerprints that distinguish two commits of one version number by as much of their content as that takes.

Copies of a table that diverged have one table id and the same version numbers. A commit states a time, and the names of
its files are random, so no two commits have one content unless one was copied from the other.
"""

from __future__ import annotations

import hashlib
from typing import Final

from deltaberg.delta.log.log_path import LogFile
from deltaberg.storage.protocol import Storage

_WHOLE_UP_TO: Final = 1 << 20
_END: Final = _WHOLE_UP_TO // 2


def commit_fingerprint(storage: Storage, commit: LogFile) -> str:
    """SHA-256 of a commit's size and bytes; of one above 1 MiB, of its first and last half MiB. Raises NotFound."""
    if commit.size <= _WHOLE_UP_TO:
        content = storage.get(commit.location)
        size = len(content)
    else:
        size = commit.size
        first = storage.get_range(commit.location, 0, _END)
        content = first + storage.get_range(commit.location, size - _END, _END)
    return hashlib.sha256(f"{size}|".encode() + content).hexdigest()
