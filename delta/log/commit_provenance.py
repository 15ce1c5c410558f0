"""The provenance that a commit states, read from its ends only. PROTOCOL "Commit Provenance Information".

Writers put ``commitInfo`` first or last. A commit may add millions of files, so the lines between are not read.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

from deltaberg.delta.log.actions import CommitInfo
from deltaberg.errors import error_context
from deltaberg.storage.protocol import Storage

_END_BYTES: Final = 64 << 10


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitProvenance:
    """info: None where neither end of the commit has any. adds: whether files are added there."""

    info: CommitInfo | None
    adds: bool


def read_provenance(storage: Storage, location: str) -> CommitProvenance:
    """The provenance of one commit file. Raises NotFound, StorageError."""
    with error_context(path=location), storage.open(location) as file:
        size = file.size()
        lines = file.read(min(size, _END_BYTES)).split(b"\n")
        if size > _END_BYTES:
            # The incomplete line at the end of a piece is not read.
            lines.pop()
            file.seek(max(_END_BYTES, size - _END_BYTES))
            lines += file.read().split(b"\n")[1:]
    return CommitProvenance(
        info=next((info for info in map(_commit_info, lines) if info is not None), None),
        adds=any(line.lstrip().startswith(b'{"add"') for line in lines),
    )


def _commit_info(line: bytes) -> CommitInfo | None:
    if b'"commitInfo"' not in line:
        return None
    try:
        action = json.loads(line)
    except (ValueError, RecursionError):
        return None
    body = action.get("commitInfo") if isinstance(action, dict) else None
    return CommitInfo(raw=body) if isinstance(body, dict) else None
