"""Whether a commit may follow another one that was faster (PROTOCOL "Delta Table Specification", "Domain Metadata",
"Transaction Identifiers"; the rules are those of the reference implementation under Serializable isolation)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.delta import row_tracking
from deltaberg.delta.actions import CommitInfo, DomainMetadata, Txn
from deltaberg.delta.add_path import path_keys
from deltaberg.delta.commit_json import parse_file_actions, read_action_lines
from deltaberg.delta.errors import DeltaConflict
from deltaberg.delta.log_path import LogFile, LogFileKind, commit_name
from deltaberg.storage.protocol import Storage

_NO_FILES = pa.record_batch([pa.array([], pa.string()), pa.array([], pa.bool_())], names=["path", "data_change"])


class Reads(Enum):
    """What a transaction looked at before it decided what to write."""

    NOTHING = "nothing: its files are added whatever else the table holds"
    REMOVED_FILES = "the files that it removes"
    WHOLE_TABLE = "all files of the table"


@dataclass(frozen=True, slots=True, kw_only=True)
class Winner:
    """The actions of a commit that was faster: rows of ``file_actions.add_rows`` and ``remove_rows``, and the rest."""

    version: int
    adds: pa.Table
    removes: pa.Table
    metadata: bool
    protocol: bool
    txns: tuple[Txn, ...]
    domain_metadata: tuple[DomainMetadata, ...]
    commit_info: CommitInfo

    @staticmethod
    def read(storage: Storage, log_folder: str, version: int) -> Winner:
        """The commit of a version. Raises CorruptLog for a malformed one and NotFound where there is none."""
        location = f"{log_folder}/{commit_name(version)}"
        found = storage.head(location)
        file = LogFile(
            location=location,
            version=version,
            kind=LogFileKind.COMMIT,
            size=found.size,
            modified_ms=found.modified_ms,
        )
        actions: dict[str, list[Mapping[str, object]]] = {}
        adds, removes = [_NO_FILES], [_NO_FILES]
        for piece in read_action_lines(storage, [file]):
            for action in piece.small:
                actions.setdefault(action.name, []).append(action.body)
            files = parse_file_actions(piece, ())
            adds.append(files.adds.select(["path", "data_change"]))
            removes.append(files.removes.select(["path", "data_change"]))
        return Winner(
            version=version,
            adds=pa.Table.from_batches(adds),
            removes=pa.Table.from_batches(removes),
            metadata="metaData" in actions,
            protocol="protocol" in actions,
            txns=tuple(map(Txn.from_json, actions.get("txn", ()))),
            domain_metadata=tuple(map(DomainMetadata.from_json, actions.get("domainMetadata", ()))),
            commit_info=CommitInfo(raw=next(iter(actions.get("commitInfo", ())), {})),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """What a transaction read and wants to write. ``added`` and ``removed`` are path keys (``add_path.path_keys``)."""

    reads: Reads
    added: pa.Array
    removed: pa.Array
    txn_app_ids: frozenset[str] = field(default_factory=frozenset)
    domains: frozenset[str] = field(default_factory=frozenset)


def check_conflict(intent: Intent, winner: Winner) -> None:
    """Return when the transaction may be committed after ``winner``.

    Raises DeltaConflict saying what both touch. The domain of row tracking is no conflict: ids are assigned again.
    """
    version = winner.version
    if winner.protocol:
        raise _conflict(version, "changed the protocol")
    if winner.metadata:
        raise _conflict(version, "changed the metadata (schema, partitioning or properties)")
    for txn in winner.txns:
        if txn.app_id in intent.txn_app_ids:
            raise _conflict(version, f"recorded progress of the application {txn.app_id!r}, too")
    for domain in winner.domain_metadata:
        if domain.domain in intent.domains and domain.domain != row_tracking.DOMAIN:
            raise _conflict(version, f"changed the metadata domain {domain.domain!r}, too")
    removed = path_keys(winner.removes.column("path").combine_chunks())
    twice = _first_common(removed, intent.removed)
    if twice is not None:
        raise _conflict(version, "removed a file that this transaction removes", twice)
    added = path_keys(winner.adds.column("path").combine_chunks())
    twice = _first_common(added, pa.concat_arrays([intent.added, intent.removed]))
    if twice is not None:
        raise _conflict(version, "added a file that this transaction adds or removes", twice)
    if intent.reads is Reads.WHOLE_TABLE:
        if len(removed):
            raise _conflict(version, "removed a file that this transaction read", removed[0].as_py())
        new = added.filter(pc.fill_null(winner.adds.column("data_change").combine_chunks(), True))
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
