"""A source that cannot be read, as a plan with one refusal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from deltaberg.datafile.errors import DataFileError
from deltaberg.delta.errors import CorruptDeletionVector, CorruptLog
from deltaberg.errors import DeltabergError, NotATable, Unsupported, error_context
from deltaberg.iceberg.errors import CorruptMetadata
from deltaberg.migrate.plan_report import Plan, items_of
from deltaberg.migrate.source import TableFormat
from deltaberg.migrate.target.target_root import usual_root
from deltaberg.storage.errors import LocationRefused, NotFound, UnusableLocation
from deltaberg.translate import codes
from deltaberg.translate.findings import Code, Finding

_CODES: Final[tuple[tuple[type[DeltabergError], Code], ...]] = (
    (LocationRefused, codes.OTHER_STORE),
    (Unsupported, codes.SOURCE_FEATURE),
    (DataFileError, codes.FILE_UNREADABLE),
    (CorruptMetadata, codes.SOURCE_UNREADABLE),
    (CorruptLog, codes.SOURCE_UNREADABLE),
    (CorruptDeletionVector, codes.SOURCE_UNREADABLE),
    (NotATable, codes.SOURCE_UNREADABLE),
    (NotFound, codes.SOURCE_UNREADABLE),
    (UnusableLocation, codes.SOURCE_UNREADABLE),
)

STOPS_AT_SOURCE: Final[tuple[type[DeltabergError], ...]] = tuple(kind for kind, _ in _CODES)
"""The errors of reading a source that call for a change of the source. A store that fails or asks for credentials, a
request that makes no sense and a lost race are none of these.
"""


class Refused(Unsupported):
    """A conversion that the plan refuses; ``plan`` is the whole document. ``feature`` is the first code that refuses."""

    def __init__(self, plan: Plan, *, cause: DeltabergError | None = None) -> None:
        """cause: the error of reading the source; it knows the table, version and file."""
        refused = [item for item in plan.items if item.severity == "refuse"]
        first = refused[0]
        more = f" (and {len(refused) - 1} more, see the plan)" if len(refused) > 1 else ""
        super().__init__(
            f"Cannot convert: {first.code}: {first.what}: {first.reason} {first.remedy}{more}", feature=first.code
        )
        self.plan = plan
        if cause is not None:
            self.table, self.version, self.path = cause.table, cause.version, cause.path

    @staticmethod
    def because(finding: Finding, *, source: dict[str, Any], to: str, location: str) -> Refused:
        """The refusal for a reason that shows only during the conversion. source, location: as in
        ``refused_by_source``.
        """
        target = {"format": to, "location": location}
        return Refused(Plan(source=source, target=target, items=items_of([finding]), measured=False))


def refused_by_source(error: DeltabergError, *, source: dict[str, Any], to: str, location: str) -> Plan:
    """The plan for a source that ``error`` (one of STOPS_AT_SOURCE) was raised about.

    source: as in ``Plan``. location: the target's folder.
    """
    code = next(code for kind, code in _CODES if isinstance(error, kind))
    where = error.path if code is codes.FILE_UNREADABLE else None
    what = (error.feature if code is codes.SOURCE_FEATURE else where) or "the table"
    return Plan(
        source=source,
        target={"format": to, "location": location},
        items=items_of([Finding(code=code, what=what, detail=str(error))]),
        measured=False,
    )


@contextmanager
def refusing_unopened(location: str, *, to: str, target: str | None) -> Iterator[None]:
    """Raise Refused, with the plan that says why, where the source at ``location`` cannot be opened. target: as typed."""
    try:
        with error_context(table=location):
            yield
    except STOPS_AT_SOURCE as error:
        source = unopened(location, format=TableFormat(to).other.value)
        root = (target or usual_root(location, TableFormat(to))).rstrip("/")
        raise Refused(refused_by_source(error, source=source, to=to, location=root), cause=error) from error


def unopened(location: str, *, format: str) -> dict[str, Any]:
    """``Plan.source`` for a table that could not be opened."""
    return {"format": format, "location": location, "uuid": None, "version": None}
