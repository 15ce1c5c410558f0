"""The errors of the Delta core.

DeltaError                           exit 1   root of this package
├── UnsupportedDeltaFeature          exit 3   a table feature, type or format that is refused by name
├── CorruptLog                       exit 1   the log contradicts itself or the protocol, or part of it is missing
├── VersionNotFound                  exit 2   no such version, or its log was cleaned up
├── NotADeltaTable                   exit 1   no ``_delta_log`` with a commit or checkpoint in it
└── DeltaConflict                    exit 5   another writer committed what this commit builds on
"""

from __future__ import annotations

from deltaberg.errors import CommitStateUnknown, Conflict, DeltabergError, NotATable, Unsupported, UsageError


class DeltaError(DeltabergError):
    """Root of the Delta core's errors."""


class UnsupportedDeltaFeature(DeltaError, Unsupported):
    """A table feature, type or file format that is refused by its name (``feature``)."""


class CorruptLog(DeltaError):
    """The transaction log contradicts itself or the protocol, or a part of it is missing or unreadable."""


class VersionNotFound(DeltaError, UsageError):
    """The table has no such version, or the log that led to it was cleaned up."""


class NotADeltaTable(DeltaError, NotATable):
    """The folder holds no ``_delta_log`` with a commit or a checkpoint."""


class CorruptDeletionVector(DeltaError):
    """A deletion vector that contradicts its descriptor, its checksum or its format."""


class InvalidDeltaRequest(DeltaError, UsageError):
    """A commit that the protocol forbids for this table: rows removed from an append-only one, a file added twice."""


class DeltaConflict(DeltaError, Conflict):
    """A concurrent commit conflicts with this one."""


class DeltaCommitStateUnknown(DeltaError, CommitStateUnknown):
    """The store did not say whether the commit took place; no file of it may be deleted."""
