"""Check the statistics of a table's files against the values that the files hold."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow.compute as pc

from deltaberg.migrate.formats.reader_of import reader_of
from deltaberg.migrate.source import Source
from deltaberg.migrate.verify.check import SHOWN, Check
from deltaberg.migrate.verify.stated_bounds import StatedBounds, ValueRange


def bounds_check(table: Source) -> Check:
    """Whether every bound encloses the values and every null count is the true one. Reads all data of the table."""
    differences: list[str] = []
    compared = total = 0
    for claims, ranges in reader_of(table).stated_bounds():
        for claim in claims:
            compared += 1
            found_here = list(_contradictions(claim, ranges[claim.column]))
            total += len(found_here)
            differences.extend(found_here[: max(0, SHOWN - len(differences))])
    return Check.of("bounds", compared, differences, total=total)


def _contradictions(claim: StatedBounds, values: ValueRange) -> Iterator[str]:
    where = f"{'.'.join(claim.column)} of {claim.file}"
    if claim.nulls is not None and claim.nulls != values.nulls:
        yield f"{where} has {values.nulls} nulls (the metadata say {claim.nulls})"
    for bound, end, word, outside in (
        (claim.lower, values.lower, "below its lower", pc.less),
        (claim.upper, values.upper, "above its upper", pc.greater),
    ):
        if bound is not None and bound.is_valid and end is not None and outside(end, bound.cast(end.type)).as_py():
            yield f"{where} holds {end.as_py()!r}, {word} bound {bound.as_py()!r}"
