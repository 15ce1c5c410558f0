"""Compare the rows of two tables as multisets, streaming: sums of hashes first, the rows themselves where they differ."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from deltaberg.migrate.formats.reader_of import reader_of
from deltaberg.migrate.source import Source
from deltaberg.migrate.verify.check import SHOWN, Check
from deltaberg.migrate.verify.row_hash import USUAL_KEY, Hashes, HashKey, column_hashes, row_hashes
from deltaberg.migrate.verify.tables import ChosenOptions

SHOWN_ROWS: Final = SHOWN // 2
"""The number of rows of each side that are shown."""

_PARTITIONS: Final = 64
_HELD_HASHES: Final = 1 << 24
"""The number of row hashes of each side that are held at once in the search for the rows that differ."""


@dataclass(slots=True, kw_only=True)
class Sums:
    """rows, and the sums of all hashes modulo 2**64: of whole rows, and of every column by name."""

    rows: int = 0
    total: int = 0
    columns: dict[str, int] = field(default_factory=dict)

    def add(self, hashes: Mapping[str, Hashes], rows: int, key: HashKey = USUAL_KEY) -> None:
        """Rows of which every column has been hashed under the key."""
        self.rows += rows
        self.total = _wrapped(self.total, row_hashes(hashes, rows, key))
        for name, each in hashes.items():
            self.columns[name] = _wrapped(self.columns.get(name, 0), each)

    def add_sums(self, rows: npt.NDArray[np.int64], totals: Hashes, columns: Mapping[str, int]) -> None:
        """Sums made elsewhere: rows and totals of some files, columns of all of them."""
        self.rows += int(rows.sum())
        self.total = _wrapped(self.total, totals)
        for name, each in columns.items():
            self.columns[name] = (self.columns.get(name, 0) + each) % 2**64


def _wrapped(total: int, hashes: Hashes) -> int:
    return (total + int(np.add.reduce(hashes, dtype=np.uint64))) % 2**64


def rows_check(source: Source, target: Source, options: ChosenOptions) -> Check:
    """Whether both tables hold the same rows, however often each; differing columns and rows are named."""
    names = common_columns(source, target, options)
    left, right = _sums(source, names, options), _sums(target, names, options)
    if (left.rows, left.total) == (right.rows, right.total):
        return Check.of("rows", left.rows, [])
    differences = differing_sums(left, right, names)
    differences.extend(_differing_rows(source, target, names, options, left.rows))
    return Check.of("rows", left.rows, differences)


def differing_sums(left: Sums, right: Sums, names: Sequence[str]) -> list[str]:
    """The difference between two tables, as far as their sums show it."""
    if left.rows != right.rows:
        return [f"{left.rows} rows in the source and {right.rows} in the target"]
    columns = [name for name in names if left.columns.get(name) != right.columns.get(name)]
    return [f"the values of {', '.join(columns)} differ"] if columns else []


def common_columns(source: Source, target: Source, options: ChosenOptions) -> list[str]:
    """Top-level columns that both have; the schema check speaks of the others."""
    known = reader_of(source).column_facts(options).keys() & reader_of(target).column_facts(options).keys()
    return sorted(path[0] for path in known if len(path) == 1)


def _hashed(
    table: Source, names: list[str], options: ChosenOptions
) -> Iterator[tuple[pa.RecordBatch, dict[str, Hashes]]]:
    for batch in reader_of(table).rows(names, options):
        yield batch, {name: column_hashes(batch.column(place)) for place, name in enumerate(names)}


def _sums(table: Source, names: list[str], options: ChosenOptions) -> Sums:
    sums = Sums()
    for batch, hashes in _hashed(table, names, options):
        sums.add(hashes, batch.num_rows)
    return sums


def _differing_rows(source: Source, target: Source, names: list[str], options: ChosenOptions, rows: int) -> list[str]:
    """A few rows that only one side has. Reads both tables again, in as many parts as memory asks for."""
    parts = max(1, min(_PARTITIONS, rows // _HELD_HASHES))
    for part in range(parts):
        left = _part_hashes(source, names, options, part, parts)
        right = _part_hashes(target, names, options, part, parts)
        only_left, only_right = multiset_difference(left, right), multiset_difference(right, left)
        if len(only_left) or len(only_right):
            return [
                *(f"only in the source: {row}" for row in _rows_with(source, names, options, only_left)),
                *(f"only in the target: {row}" for row in _rows_with(target, names, options, only_right)),
            ]
    return []


def _part_hashes(table: Source, names: list[str], options: ChosenOptions, part: int, parts: int) -> Hashes:
    """The row hashes that fall into one part, sorted."""
    found = [np.zeros(0, np.uint64)]
    for batch, hashes in _hashed(table, names, options):
        each = row_hashes(hashes, batch.num_rows)
        found.append(each[each % np.uint64(parts) == np.uint64(part)] if parts > 1 else each)
    result = np.concatenate(found)
    result.sort()
    return result


def multiset_difference(left: Hashes, right: Hashes) -> Hashes:
    """Values that occur more often in ``left``; both are sorted."""
    values, counts = np.unique(left, return_counts=True)
    others = np.searchsorted(right, values, side="right") - np.searchsorted(right, values, side="left")
    more: Hashes = values[counts > others]
    return more


def _rows_with(table: Source, names: list[str], options: ChosenOptions, wanted: Hashes) -> list[str]:
    return shown_rows(_hashed(table, names, options), wanted) if len(wanted) else []


def shown_rows(hashed: Iterable[tuple[pa.RecordBatch, Mapping[str, Hashes]]], wanted: Hashes) -> list[str]:
    """The first rows whose hash is wanted, as text."""
    shown: list[str] = []
    for batch, hashes in hashed:
        places = np.flatnonzero(np.isin(row_hashes(hashes, batch.num_rows), wanted))
        for place in places[: SHOWN_ROWS - len(shown)]:
            shown.append(str(batch.slice(int(place), 1).to_pylist()[0])[:500])
        if len(shown) >= SHOWN_ROWS:
            break
    return shown
