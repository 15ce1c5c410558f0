"""The errors of the Iceberg core.

IcebergError(DeltabergError)                    exit 1   something failed
├── CorruptMetadata                             exit 1   a file contradicts the specification; names file and field ├──
InvalidIcebergRequest (UsageError)          exit 2   the caller asks for what the specification forbids │   └──
AmbiguousMetadata                       exit 2   several metadata files of a folder could be current: name one ├──
UnsupportedIcebergFeature (Unsupported)     exit 3   a feature that cannot be read or written exactly ├──
IcebergConflict (Conflict)                  exit 5   another writer changed what this commit depends on ├──
IcebergCommitStateUnknown                   exit 1   a commit may or may not have happened: touch nothing └──
NotAnIcebergTable (NotATable)               exit 1   no Iceberg metadata where a table was expected
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from deltaberg.errors import CommitStateUnknown, Conflict, DeltabergError, NotATable, Unsupported, UsageError


class IcebergError(DeltabergError):
    """Root of the Iceberg core's errors."""


class CorruptMetadata(IcebergError):
    """A metadata structure that the specification does not allow.

    ``field`` is where in the file: a JSON path (``$.schemas[1].fields[3].type``), an Avro field or a byte range.
    """

    def __init__(
        self,
        message: str,
        *,
        field: str | None = None,
        table: str | None = None,
        version: int | str | None = None,
        path: str | None = None,
        feature: str | None = None,
    ) -> None:
        super().__init__(message, table=table, version=version, path=path, feature=feature)
        self.field = field

    def __str__(self) -> str:
        text = super().__str__()
        if self.field is None or self.field in self.message:
            return text
        return f"{text[:-1]}, field {self.field}]" if text.endswith("]") else f"{text} [field {self.field}]"


class InvalidIcebergRequest(IcebergError, UsageError):
    """A request that the specification forbids for this table: a bad schema change, an unknown snapshot id."""


class AmbiguousMetadata(InvalidIcebergRequest):
    """A table was asked for by its folder, in which several metadata files could be current."""


class UnsupportedIcebergFeature(IcebergError, Unsupported):
    """A feature of the table, named in ``feature``, that cannot be read or written exactly."""


class IcebergConflict(IcebergError, Conflict):
    """Another commit changed what this one depends on; nothing of this one is visible."""


class IcebergCommitStateUnknown(IcebergError, CommitStateUnknown):
    """The store did not say whether the commit took place; no file of it may be deleted."""


class NotAnIcebergTable(IcebergError, NotATable):
    """No Iceberg table metadata at a location."""


@contextmanager
def corrupt_context(*, path: str | None = None, field: str | None = None) -> Iterator[None]:
    """Fill in the file and the field that a CorruptMetadata raised inside does not know yet."""
    try:
        yield
    except CorruptMetadata as error:
        error.path = error.path if error.path is not None else path
        error.field = error.field if error.field is not None else field
        raise
