"""The statistics of a column of a file by the metadata, and by the values in the file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.translate.field_ids import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedBounds:
    """The statistics of one column of one file in the metadata; None where there are none."""

    file: str
    column: Path
    lower: pa.Scalar | None
    upper: pa.Scalar | None
    nulls: int | None


@dataclass(slots=True)
class ValueRange:
    """The values of one column of one file, added up batch by batch; NaN is in no range."""

    lower: pa.Scalar | None = None
    upper: pa.Scalar | None = None
    nulls: int = 0
    rows: int = 0

    def add(self, values: pa.Array) -> None:
        self.rows += len(values)
        self.nulls += values.null_count
        if pa.types.is_floating(values.type):
            values = values.filter(pc.invert(pc.is_nan(values)))
        if pa.types.is_nested(values.type) or pa.types.is_null(values.type):
            return
        ends = pc.min_max(values)
        if ends["min"].is_valid:
            lower, upper = ends["min"], ends["max"]
            self.lower = lower if self.lower is None or pc.less(lower, self.lower).as_py() else self.lower
            self.upper = upper if self.upper is None or pc.greater(upper, self.upper).as_py() else self.upper


def value_ranges(batches: Iterator[pa.RecordBatch], paths: Iterable[Path]) -> dict[Path, ValueRange]:
    result = {path: ValueRange() for path in paths}
    for batch in batches:
        for path, values in result.items():
            values.add(_leaf(batch, path))
    return result


def _leaf(rows: pa.RecordBatch, path: Path) -> pa.Array:
    column = rows.column(path[0])
    for name in path[1:]:
        column = pc.struct_field(column, name)
    return column
