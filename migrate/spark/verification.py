"""Compare two tables in a Spark session that the caller has."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from deltaberg.errors import error_context
from deltaberg.keywords import check_keywords
from deltaberg.migrate.engine import Progress, rows_checker
from deltaberg.migrate.source import TableFormat, open_source
from deltaberg.migrate.spark.request_types import REQUEST_TYPES
from deltaberg.migrate.verify import VerifyReport
from deltaberg.migrate.verify import verify as compare
from deltaberg.storage import absolute_location, open_storage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def verify(
    session: SparkSession,
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    to: TableFormat | str,
    rows: bool = True,
    bounds: bool = False,
    version: int | None = None,
    snapshot_id: int | None = None,
    ref: str | None = None,
    as_of_ms: int | None = None,
    relocate: Mapping[str, str] | None = None,
    storage_options: Mapping[str, str] | None = None,
    allow_locations: Iterable[str] = (),
    progress: Progress | None = None,
) -> VerifyReport:
    """The report of ``deltaberg.verify``; the rows are read by tasks.

    to: the target's format. version, snapshot_id, ref, as_of_ms: the state of the source. session: as for ``convert``.
    Differences are reported, not raised. Raises like ``deltaberg.verify``, and EngineUnavailable, EngineFailed.
    """
    check_keywords(
        "Cannot verify",
        {
            "source": source,
            "target": target,
            "to": to,
            "rows": rows,
            "bounds": bounds,
            "version": version,
            "snapshot_id": snapshot_id,
            "ref": ref,
            "as_of_ms": as_of_ms,
            "relocate": relocate,
            "storage_options": storage_options,
            "progress": progress,
        },
        REQUEST_TYPES,
    )
    wanted = TableFormat(to)
    storage = open_storage(relocate=relocate or {}, options=storage_options or {})
    allowed = tuple(allow_locations)
    left, right = absolute_location(os.fspath(source)), absolute_location(os.fspath(target))
    with error_context(table=left):
        mine = open_source(
            left,
            storage,
            version=version,
            snapshot_id=snapshot_id,
            ref=ref,
            as_of_ms=as_of_ms,
            format=wanted.other,
            allow_locations=allowed,
            beside=[right],
        )
    with error_context(table=right):
        theirs = open_source(right, storage, format=wanted, allow_locations=allowed, beside=[left])
    checker = rows_checker("spark", session, progress=progress)
    return compare(mine, theirs, rows=rows, bounds=bounds, compare_rows=checker)
