"""Convert and compare tables in a Spark session that the caller has: a notebook, Databricks, EMR, Dataproc, Spark Connect."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from deltaberg.errors import error_context
from deltaberg.keywords import check_keywords
from deltaberg.migrate.convert import ConvertResult
from deltaberg.migrate.convert import convert as run_conversion
from deltaberg.migrate.engine import Progress
from deltaberg.migrate.engine_choice import rows_checker
from deltaberg.migrate.source import Selector, TableFormat
from deltaberg.migrate.spark.request_types import REQUEST_TYPES
from deltaberg.migrate.table_ref import TableRef
from deltaberg.migrate.verify.verify import VerifyReport
from deltaberg.migrate.verify.verify import verify as compare
from deltaberg.storage import absolute_location
from deltaberg.translate.options import ConvertOptions, OptionKeywords, chosen_options, option_types

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from typing_extensions import Unpack


_TYPES: Final = {**REQUEST_TYPES, **{name: option_types()[name] for name in OptionKeywords.__annotations__}}


def convert(
    session: SparkSession,
    source: str | os.PathLike[str],
    *,
    to: TableFormat | str,
    target: str | os.PathLike[str] | None = None,
    options: ConvertOptions | None = None,
    version: int | None = None,
    snapshot_id: int | None = None,
    ref: str | None = None,
    as_of_ms: int | None = None,
    relocate: Mapping[str, str] | None = None,
    storage_options: Mapping[str, str] | None = None,
    allow_locations: Iterable[str] = (),
    progress: Progress | None = None,
    **choices: Unpack[OptionKeywords],
) -> ConvertResult:
    """Write the table of the other format; with the plan and result of ``deltaberg.convert``, but the work is done in
    tasks.

    options: may also be given as keywords, as in ``deltaberg.convert``. session: classic or Connect, from Spark 3.5 on;
    it is neither configured nor stopped. Locations are those of executors and driver alike; credentials come from
    ``storage_options`` or the environment of each. allow_locations: as in ``deltaberg.convert``.
    Raises like ``deltaberg.convert``, and EngineUnavailable, EngineFailed for what Spark lacks or gave up.
    """
    check_keywords(
        "Cannot convert",
        {
            "source": source,
            "to": to,
            "target": target,
            "options": options,
            "version": version,
            "snapshot_id": snapshot_id,
            "ref": ref,
            "as_of_ms": as_of_ms,
            "relocate": relocate,
            "storage_options": storage_options,
            "allow_locations": allow_locations,
            "progress": progress,
            **choices,
        },
        _TYPES,
    )
    made = chosen_options(options, choices)
    location = absolute_location(os.fspath(source))
    place = None if target is None else absolute_location(os.fspath(target))
    table = TableRef(
        location=location,
        selector=Selector(version=version, snapshot_id=snapshot_id, ref=ref, as_of_ms=as_of_ms),
        relocate=relocate or {},
        storage_options=storage_options or {},
        allow_locations=tuple(allow_locations or ()),
    )
    with error_context(table=location):
        return run_conversion(
            table.open_to_convert(TableFormat(to), target=place),
            to=to,
            target=place,
            options=made,
            progress=progress,
            session=session,
        )


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
            "allow_locations": allow_locations,
            "progress": progress,
        },
        REQUEST_TYPES,
    )
    table = TableRef(
        location=absolute_location(os.fspath(source)),
        selector=Selector(version=version, snapshot_id=snapshot_id, ref=ref, as_of_ms=as_of_ms),
        relocate=relocate or {},
        storage_options=storage_options or {},
        allow_locations=tuple(allow_locations or ()),
    )
    mine, theirs = table.open_to_verify(absolute_location(os.fspath(target)), to=TableFormat(to))
    checker = rows_checker("spark", session, progress=progress)
    return compare(mine, theirs, rows=rows, bounds=bounds, compare_rows=checker)
