"""Whether a commit may follow another one that was faster (PROTOCOL "Delta Table Specification", "Domain Metadata",
"Transaction Identifiers"; the rules are those of the reference implementation under Serializable isolation)."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.delta.errors import DeltaConflict
from deltaberg.delta.history import CommitActions
from deltaberg.delta.log.add_path import path_keys
from deltaberg.delta.protocol import row_tracking


class Reads(Enum):
    """The part of a table that a transaction read before it decided what to write."""

    NOTHING = "nothing: its files are added whatever else the table holds"
    REMOVED_FILES = "the files that it removes"
    WHOLE_TABLE = "all files of the table"


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """The reads and writes of a transaction. ``added`` and ``removed`` are path keys (``add_path.path_keys``)."""

    reads: Reads
    added: pa.Array
    removed: pa.Array
    txn_app_ids: frozenset[str] = field(default_factory=frozenset)
    domains: frozenset[str] = field(default_factory=frozenset)


def check_conflict(intent: Intent, winner: CommitActions) -> None:
    """Return when the transaction may be committed after ``winner``.

    Raises DeltaConflict naming the files or state that both touch. The domain of row tracking is no conflict: ids are
    assigned again.
    """
    version = winner.version
    if winner.protocol is not None:
        raise _conflict(version, "changed the protocol")
    if winner.metadata is not None:
        raise _conflict(version, "changed the metadata (schema, partitioning or properties)")
    for txn in winner.txns:
        if txn.app_id in intent.txn_app_ids:
            raise _conflict(version, f"recorded progress of the application {txn.app_id!r}, too")
    for domain in winner.domain_metadata:
        if domain.domain in intent.domains and domain.domain != row_tracking.DOMAIN:
            raise _conflict(version, f"changed the metadata domain {domain.domain!r}, too")
    removed = path_keys(winner.removes.column("path"))
    twice = _first_common(removed, intent.removed)
    if twice is not None:
        raise _conflict(version, "removed a file that this transaction removes", twice)
    added = path_keys(winner.adds.column("path"))
    twice = _first_common(added, pa.concat_arrays([intent.added, intent.removed]))
    if twice is not None:
        raise _conflict(version, "added a file that this transaction adds or removes", twice)
    if intent.reads is Reads.WHOLE_TABLE:
        if len(removed):
            raise _conflict(version, "removed a file that this transaction read", removed[0].as_py())
        new = added.filter(pc.fill_null(winner.adds.column("data_change"), True))
        if len(new):
            raise _conflict(version, "added a file to the table that this transaction read", new[0].as_py())


def _first_common(left: pa.Array, right: pa.Array) -> str | None:
    if not len(left) or not len(right):
        return None
    common = left.filter(pc.is_in(left, right))
    return str(common[0].as_py()) if len(common) else None


def _conflict(version: int, reason: str, path: str | None = None) -> DeltaConflict:
    return DeltaConflict(
        f"Cannot commit: version {version} {reason}; read the table again and retry", version=version, path=path
    )
