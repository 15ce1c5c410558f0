"""Compare a target with its source: schema, files, counts, deletes, bounds, and the rows themselves on request."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.migrate.formats.reader_of import reader_of
from deltaberg.migrate.source import Source
from deltaberg.migrate.target.watermark import describe_source
from deltaberg.migrate.verify.bounds import bounds_check
from deltaberg.migrate.verify.check import SHOWN, Check, shares
from deltaberg.migrate.verify.presence import presence_check
from deltaberg.migrate.verify.rows import rows_check
from deltaberg.migrate.verify.tables import ChosenOptions
from deltaberg.storage import NotFound

_OWN_FILE: Final = r"/rewritten-[0-9a-f-]+\.parquet$"


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyReport:
    """All comparisons of one source with one target."""

    source: dict[str, Any]
    target: dict[str, Any]
    checks: tuple[Check, ...]

    @property
    def equal(self) -> bool:
        return all(check.equal for check in self.checks)

    def to_json(self) -> dict[str, Any]:
        return {
            "source": self.source,
            "target": self.target,
            "equal": self.equal,
            "checks": [check.to_json() for check in self.checks],
        }


def verify(
    source: Source,
    target: Source,
    *,
    rows: bool = False,
    bounds: bool = False,
    compare_rows: Callable[[Source, Source, ChosenOptions], Check] = rows_check,
) -> VerifyReport:
    """Compare two tables of either format; ``rows`` compares their content, ``bounds`` checks statistics with data.

    A file that either table lists and that is not there is a difference; content and bounds are not compared then.

    compare_rows: compares the content; in this process by default.

    Differences are reported, not raised: the caller decides (the command line exits with 4).
    """
    options = ChosenOptions.of(target)
    presence = presence_check(source, target)
    checks = [_schema_check(source, target, options), presence, *_file_checks_unless_missing(source, target, presence)]
    if bounds:
        checks.append(bounds_check(target) if presence.equal else _not_compared("bounds"))
    if rows:
        checks.append(compare_rows(source, target, options) if presence.equal else _not_compared("rows"))
    return VerifyReport(source=describe_source(source), target=describe_source(target), checks=tuple(checks))


def _not_compared(name: str) -> Check:
    return Check.of(name, 0, ["not compared, since files are missing"])


def _file_checks_unless_missing(source: Source, target: Source, presence: Check) -> list[Check]:
    """The files of both tables by their metadata. Delete files are read for it: without them deleted rows are unknown."""
    try:
        return _file_checks(_file_counts(source), _file_counts(target))
    except NotFound:
        if presence.equal:
            raise
        return [_not_compared("files")]


def _file_counts(source: Source) -> pa.Table:
    schema = pa.schema([("location", pa.string()), ("rows", pa.int64()), ("deleted", pa.int64())])
    return pa.Table.from_batches(reader_of(source).file_counts(), schema=schema)


def _schema_check(source: Source, target: Source, options: ChosenOptions) -> Check:
    """Names, types, nullability, and ids where both tables have them."""
    left, right = reader_of(source).column_facts(options), reader_of(target).column_facts(options)
    differences = []
    added = reader_of(target).derived_columns() if options.derives else frozenset()
    for path in dict.fromkeys((*left, *right)):
        name, mine, theirs = ".".join(path), left.get(path), right.get(path)
        if mine is None and name in added:
            continue
        if mine is None or theirs is None:
            differences.append(f"column {name} is in the {'target' if mine is None else 'source'} only")
            continue
        if mine.type != theirs.type:
            differences.append(f"column {name} is {mine.type} in the source and {theirs.type} in the target")
        if mine.required != theirs.required:
            words = {True: "required", False: "optional"}
            differences.append(
                f"column {name} is {words[mine.required]} in the source and {words[theirs.required]} in the target"
            )
        if None not in (mine.field_id, theirs.field_id) and mine.field_id != theirs.field_id:
            differences.append(
                f"column {name} has id {mine.field_id} in the source and {theirs.field_id} in the target"
            )
    return Check.of("schema", len(left), differences)


def _file_checks(left: pa.Table, right: pa.Table) -> list[Check]:
    """Files by place, and what both tables say about those that they share."""
    left_places, right_places = left["location"].combine_chunks(), right["location"].combine_chunks()
    place = pc.index_in(right_places, value_set=left_places)
    own = right.filter(pc.is_null(place))
    foreign = own["location"].filter(pc.invert(pc.match_substring_regex(own["location"], _OWN_FILE)))
    missing = left.filter(pc.invert(pc.is_in(left_places, value_set=right_places)))
    missing = missing.filter(pc.less(missing["deleted"], missing["rows"]))["location"]
    if len(foreign) < own.num_rows:
        # Rewritten files take the place of these.
        missing = missing.slice(0, 0)
    here, there = shares(len(missing), len(foreign))
    files = [f"file {each.as_py()} is in the source only" for each in missing.slice(0, here)]
    files += [f"file {each.as_py()} is in the target only" for each in foreign.slice(0, there)]
    shared = right.filter(pc.is_valid(place))
    mine = left.take(pc.drop_null(place))
    checks = [
        Check.of("files", left.num_rows, files, total=len(missing) + len(foreign)),
        _column_check("row counts of files", "rows", mine, shared),
        _column_check("deleted rows of files", "deleted", mine, shared),
    ]
    totals = [pc.sum(pc.subtract(table["rows"], table["deleted"])).as_py() or 0 for table in (left, right)]
    differences = [] if totals[0] == totals[1] else [f"{totals[0]} rows in the source and {totals[1]} in the target"]
    return [*checks, Check.of("rows in all", totals[0], differences)]


def _column_check(name: str, column: str, left: pa.Table, right: pa.Table) -> Check:
    unequal = pc.not_equal(left[column], right[column])
    some = left.filter(unequal).slice(0, SHOWN)
    others = right.filter(unequal).slice(0, SHOWN)
    differences = [
        f"{mine['location']}: {mine[column]} in the source and {theirs[column]} in the target"
        for mine, theirs in zip(some.to_pylist(), others.to_pylist(), strict=True)
    ]
    return Check.of(name, left.num_rows, differences, total=pc.sum(unequal).as_py() or 0)
