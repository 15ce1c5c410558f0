"""The verbs: what the command line does, as functions that return dataclasses.

Every function takes a table as a folder, an Iceberg ``*.metadata.json`` or a URL, and these keywords (``Where``) to say
which state of it is meant and where its files are. The result's ``to_json()`` is what ``--json`` prints.

A keyword that a function does not know, or a value of another type than declared, is a UsageError: nothing is done then.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Literal, TypedDict, cast

from deltaberg.errors import UsageError, error_context
from deltaberg.keywords import check_keywords
from deltaberg.migrate.convert import ConvertResult
from deltaberg.migrate.convert import convert as run_conversion
from deltaberg.migrate.engine import Progress
from deltaberg.migrate.engine_choice import rows_checker
from deltaberg.migrate.formats.reader_of import reader_of
from deltaberg.migrate.history import HistoryReport
from deltaberg.migrate.inspection import Inspection
from deltaberg.migrate.plan import plan as make_plan
from deltaberg.migrate.plan_report import Plan
from deltaberg.migrate.refusal import Refused
from deltaberg.migrate.rollback import RollbackReport
from deltaberg.migrate.rollback import rollback as roll_back
from deltaberg.migrate.source import Selector, TableFormat
from deltaberg.migrate.sync import SyncResult
from deltaberg.migrate.sync import sync as run_sync
from deltaberg.migrate.table_ref import TableRef
from deltaberg.migrate.verify.verify import VerifyReport
from deltaberg.migrate.verify.verify import verify as compare
from deltaberg.storage import absolute_location, open_storage
from deltaberg.table_scan import TableScan, scan_source
from deltaberg.timestamps import moment_ms
from deltaberg.translate.options import ConvertOptions, Engine, OptionKeywords, chosen_options, option_types

if TYPE_CHECKING:
    from typing_extensions import Unpack

TablePath = str | os.PathLike[str]
FormatName = Literal["iceberg", "delta"]
DriftChoice = Literal["fail", "keep"]
RowsEngine = Literal["local", "spark"]


class Where(TypedDict, total=False):
    """Which table, exactly.

    version: a Delta version. snapshot_id, ref: an Iceberg snapshot, branch or tag. as_of: either format, the state at a
    moment (UTC where it has no zone). At most one of these four; none means the newest.
    relocate: ``{old prefix: new prefix}`` for tables that were copied since they were written.
    format: which table is meant where a folder holds both.
    storage_options: credentials and settings of an object store, in obstore's spelling.
    allow_locations: prefixes below which files of the table may be although they are in another store (docs/reliability.md).
    """

    version: int | None
    snapshot_id: int | None
    ref: str | None
    as_of: str | datetime | None
    relocate: Mapping[str, str] | None
    format: FormatName | None
    storage_options: Mapping[str, str] | None
    allow_locations: Sequence[str] | None


class ConversionKeywords(Where, OptionKeywords, total=False):
    """Where the source is, and the options of its conversion."""

    engine: Engine


_TYPES: Final[Mapping[str, Any]] = {
    "to": FormatName,
    "target": TablePath | None,
    "options": ConvertOptions | None,
    "columns": Iterable[str] | None,
    "limit": int | None,
    "clock_ms": int | None,
    "progress": Progress | None,
    "rows": bool,
    "engine": RowsEngine,
    "bounds": bool,
    "version": int | None,
    "snapshot_id": int | None,
    "ref": str | None,
    "as_of": str | datetime | None,
    "relocate": Mapping[str, str] | None,
    "format": FormatName | None,
    "storage_options": Mapping[str, str] | None,
    "allow_locations": Iterable[str] | None,
    "clean": bool,
    "squash": bool,
    "on_drift": DriftChoice,
    "dry_run": bool,
}
_WHERE: Final = {key: _TYPES[key] for key in Where.__annotations__}
_CONVERSION: Final = {**_WHERE, **option_types()}


def inspect(table: TablePath, **where: Unpack[Where]) -> Inspection:
    """Format, version, schema, partitioning, features, counts, deletes and size, from the metadata alone."""
    _check("inspect", where)
    location = _location(table)
    with error_context(table=location):
        return reader_of(_ref(location, where).open()).inspect()


def scan(
    table: TablePath, *, columns: Iterable[str] | None = None, limit: int | None = None, **where: Unpack[Where]
) -> TableScan:
    """The rows, deletes applied; nothing is read until the batches are asked for.

    Variant columns come as JSON text, geometry and geography as WKB, uuid as 16 bytes.
    """
    _check("scan", where, columns=columns, limit=limit)
    location = _location(table)
    with error_context(table=location):
        return scan_source(_ref(location, where).open(), columns=columns, limit=limit)


def history(table: TablePath, *, limit: int | None = None, **where: Unpack[Where]) -> HistoryReport:
    """The versions or snapshots, newest first, and the source commit of each where deltaberg wrote the table.

    limit: their number at most.
    """
    _check("history", where, limit=limit)
    location = _location(table)
    with error_context(table=location):
        opened = _ref(location, where).open()
        return HistoryReport.of(opened, reader_of(opened).history(limit=limit), limit=limit)


def plan(
    source: TablePath,
    *,
    to: FormatName,
    target: TablePath | None = None,
    options: ConvertOptions | None = None,
    progress: Progress | None = None,
    **keywords: Unpack[ConversionKeywords],
) -> Plan:
    """Plan a conversion: what it would share, translate, rewrite and refuse, and why. Writes nothing. The arguments are
    those of ``convert``.

    A source that is there but cannot be read (no table, corrupt, of an unknown feature) is a plan with one refusal. Raises
    Conflict where the target holds another table or was changed, as ``convert`` does.
    """
    _check("plan", keywords, _CONVERSION, to=to, target=target, options=options, progress=progress)
    where, choices = _parted(keywords, options)
    location, place = _location(source), None if target is None else _location(target)
    with error_context(table=location):
        try:
            opened = _ref(location, where).open_to_convert(TableFormat(to), target=place)
        except Refused as refused:
            return refused.plan
        return make_plan(opened, to=to, target=place, options=choices, progress=progress)


def convert(
    source: TablePath,
    *,
    to: FormatName,
    target: TablePath | None = None,
    options: ConvertOptions | None = None,
    clock_ms: int | None = None,
    progress: Progress | None = None,
    clean: bool = False,
    **keywords: Unpack[ConversionKeywords],
) -> ConvertResult:
    """Write the table of the other format over the same data files.

    options: may also be given as keywords: ``convert(source, to="iceberg", format_version=3)``. clean: first delete the
    files that other conversions to this target left, except those certain to be running.

    Raises Unsupported where the plan refuses, with the plan as ``plan``; nothing is written then. Raises Interrupted, a
    KeyboardInterrupt that says how much of the target stands, on Ctrl-C.
    """
    _check(
        "convert",
        keywords,
        _CONVERSION,
        to=to,
        target=target,
        options=options,
        clock_ms=clock_ms,
        progress=progress,
        clean=clean,
    )
    where, choices = _parted(keywords, options)
    location, place = _location(source), None if target is None else _location(target)
    with error_context(table=location):
        return run_conversion(
            _ref(location, where).open_to_convert(TableFormat(to), target=place),
            to=to,
            target=place,
            options=choices,
            clock_ms=clock_ms,
            progress=progress,
            clean=clean,
        )


def sync(
    source: TablePath,
    *,
    to: FormatName,
    target: TablePath | None = None,
    squash: bool = False,
    on_drift: DriftChoice = "fail",
    progress: Progress | None = None,
    **where: Unpack[Where],
) -> SyncResult:
    """Commit to the target what the source has committed since the last sync; create the target if there is none.

    squash: one target commit for all source commits. on_drift: ``keep`` leaves a target that cannot go on as it is, and says
    why in the result, instead of raising Conflict. The options of the conversion are those that the target was created
    with.

    Raises Unsupported where a change cannot be carried (nothing is written then), Conflict where the target or the source is
    not what the last sync left.
    """
    _check("sync", where, to=to, target=target, squash=squash, on_drift=on_drift, progress=progress)
    location, place = _location(source), None if target is None else _location(target)
    with error_context(table=location):
        source_table = _ref(location, where).open_to_convert(TableFormat(to), target=place)
        return run_sync(source_table, to=to, target=place, squash=squash, on_drift=on_drift, progress=progress)


def rollback(
    target: TablePath,
    *,
    dry_run: bool = False,
    format: FormatName | None = None,
    relocate: Mapping[str, str] | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> RollbackReport:
    """Roll back what conversions wrote to a folder: its metadata, the files written for it, and the files that
    unfinished conversions left.

    dry_run: name the files and delete nothing. format: of the target, where conversions to both wrote to the folder.
    Raises Conflict where another writer committed to the target or a conversion is running, NotATable where deltaberg
    wrote nothing.
    """
    location = _location(target)
    with error_context(table=location):
        return roll_back(
            open_storage(relocate=relocate or {}, options=storage_options or {}),
            location,
            format=TableFormat(format) if format else None,
            dry_run=dry_run,
        )


def verify(
    source: TablePath,
    target: TablePath,
    *,
    to: FormatName | None = None,
    rows: bool = False,
    bounds: bool = False,
    engine: RowsEngine = "local",
    progress: Progress | None = None,
    **where: Unpack[Where],
) -> VerifyReport:
    """Compare two tables: schema, files, counts, bounds; ``rows`` compares their content too.

    engine: where the rows are read: in this process, or in Spark tasks (of the active session or a new one). to: the
    target's format; needed only where a folder holds both tables. ``where`` chooses the state of the source.
    Differences are reported, not raised.
    """
    _check("verify", where, rows=rows, bounds=bounds, engine=engine, progress=progress)
    if to is not None:
        _check("verify", {}, to=to)
    source_location, target_location = _location(source), _location(target)
    with error_context(table=source_location):
        ref = _ref(source_location, where)
    opened_source, opened_target = ref.open_to_verify(target_location, to=TableFormat(to) if to else None)
    return compare(
        opened_source,
        opened_target,
        rows=rows,
        bounds=bounds,
        compare_rows=rows_checker(engine if rows else "local", progress=progress),
    )


def _check(verb: str, keywords: Mapping[str, object], known: Mapping[str, Any] = _WHERE, **named: object) -> None:
    """Raise UsageError for a keyword that the function ``verb`` lacks, and for a value of a wrong type."""
    check_keywords(f"Cannot {verb}", keywords, known)
    check_keywords(f"Cannot {verb}", named, _TYPES)


def _parted(keywords: ConversionKeywords, options: ConvertOptions | None) -> tuple[Where, ConvertOptions]:
    where = {key: value for key, value in keywords.items() if key in _WHERE}
    chosen = {key: value for key, value in keywords.items() if key not in _WHERE}
    return cast("Where", where), chosen_options(options, chosen)


def _location(table: TablePath) -> str:
    text = os.fspath(table) if isinstance(table, os.PathLike) else table
    if not isinstance(text, str) or not text:
        raise UsageError(f"Cannot open {table!r}: expected a folder, a *.metadata.json or a URL, as a text or path")
    return absolute_location(text)


def _ref(location: str, where: Where) -> TableRef:
    format, as_of = where.get("format"), where.get("as_of")
    return TableRef(
        location=location,
        selector=Selector(
            version=where.get("version"),
            snapshot_id=where.get("snapshot_id"),
            ref=where.get("ref"),
            as_of_ms=None if as_of is None else moment_ms(as_of),
        ),
        format=TableFormat(format) if format else None,
        relocate=where.get("relocate") or {},
        storage_options=where.get("storage_options") or {},
        allow_locations=tuple(where.get("allow_locations") or ()),
    )
