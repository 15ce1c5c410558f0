"""The root of every error that deltaberg raises, and what each means to a user.

    DeltabergError                       exit 1   something failed
    ├── UsageError                       exit 2   the request itself makes no sense
    │   └── storage.errors.OutsideTarget exit 2   something would be written outside the target
    ├── Unsupported                      exit 3   refused: a feature that cannot be carried or read exactly
    │   ├── storage.errors.LocationRefused exit 3 a place that may not be read (docs/reliability.md)
    │   └── migrate.refusal.Refused      exit 3   a conversion that its plan refuses
    ├── VerificationFailed               exit 4   two tables differ
    ├── Conflict                         exit 5   another writer committed, or the source or target drifted ├──
    CommitStateUnknown               exit 1   the outcome of a commit could not be learnt: touch nothing ├── NotATable
    exit 1   no Iceberg or Delta metadata where a table was expected ├── EngineUnavailable                exit 1   the
    Spark engine cannot start or lacks something: what to install ├── EngineFailed                     exit 1   Spark
    gave a job up for a reason of its own
    ├── StorageError                     exit 1   deltaberg.storage.errors
    ├── DataFileError                    exit 1   deltaberg.datafile.errors: a data file cannot be read as declared
    ├── IcebergError                     exit 1   deltaberg.iceberg.errors
    └── DeltaError                       exit 1   deltaberg.delta.errors

A message is one line that says what was expected, what was found and what to do. The fields say where;
they are filled in at the place that knows them (``error_context``), not threaded through every call.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar

from deltaberg.redaction import redacted


class DeltabergError(Exception):
    """Root of the tree. ``table``, ``version``, ``path`` and ``feature`` say what the message is about.

    Secrets are removed from every text of an error, whichever code sets it.
    """

    exit_code: ClassVar[int] = 1

    def __init__(
        self,
        message: str,
        *,
        table: str | None = None,
        version: int | str | None = None,
        path: str | None = None,
        feature: str | None = None,
    ) -> None:
        super().__init__(redacted(message))
        self.message = message
        self.table = table
        self.version = version
        self.path = path
        self.feature = feature

    def __setattr__(self, name: str, value: object) -> None:
        super().__setattr__(name, redacted(value) if isinstance(value, str) else value)

    def __str__(self) -> str:
        where = [
            f"{name} {value}"
            for name, value in (("table", self.table), ("version", self.version), ("file", self.path))
            if value is not None and str(value) not in self.message
        ]
        text = " ".join(self.message.split("\n"))
        return f"{text} [{', '.join(where)}]" if where else text


class UsageError(DeltabergError):
    """The request contradicts itself or names something that is not there (exit 2)."""

    exit_code = 2


class Unsupported(DeltabergError):
    """A feature that cannot be read or carried exactly, named in ``feature`` (exit 3)."""

    exit_code = 3


class VerificationFailed(DeltabergError):
    """Two tables that should be equal differ (exit 4)."""

    exit_code = 4


class Conflict(DeltabergError):
    """Another writer committed first, or the source or target drifted (exit 5)."""

    exit_code = 5


class CommitStateUnknown(DeltabergError):
    """A commit may or may not have happened; nothing it wrote may be deleted."""


class NotATable(DeltabergError):
    """Neither Iceberg nor Delta metadata stands where a table was expected."""


class EngineUnavailable(DeltabergError):
    """Spark, Java or something that executors need is missing or too old; the message says what to install."""


class EngineFailed(DeltabergError):
    """Spark gave a job up: a worker that died again and again, a lost cluster, a cancelled job."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C or a signal to end, with what stands of the work: a KeyboardInterrupt and no DeltabergError, so that code
    that handles Ctrl-C handles this too.

    outcome: ``nothing-written``, ``stands``, ``stands-in-part``, ``left-files`` or ``unknown``. table: the target's folder.
    """

    def __init__(self, message: str, *, table: str, outcome: str) -> None:
        super().__init__(message)
        self.message = message
        self.table = table
        self.outcome = outcome


@contextmanager
def error_context(
    *, table: str | None = None, version: int | str | None = None, path: str | None = None
) -> Iterator[None]:
    """Fill in the fields that an error raised inside leaves empty."""
    try:
        yield
    except DeltabergError as error:
        error.table = error.table if error.table is not None else table
        error.version = error.version if error.version is not None else version
        error.path = error.path if error.path is not None else path
        raise
