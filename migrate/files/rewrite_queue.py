"""Collect the files that are to be rewritten until there is enough for a wave, and combine small ones on request."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import pyarrow as pa

from deltaberg.bitmap import PositionBitmap
from deltaberg.datafile import ReadField
from deltaberg.datafile.parquet.parquet_writer import WrittenFiles
from deltaberg.migrate.files.rewrite import (
    NEEDED_COLUMNS,
    NO_DELETES,
    FileRewrite,
    RewriteRunner,
    RewriteUnit,
    file_sizes,
)

_GROUPS_IN_A_WAVE: Final = 256
_METRICS_IN_A_WAVE: Final = 200_000
"""Counts and bounds, of a leaf of a file each, that come back from one wave at most: some hundred megabytes."""

_KEPT: Final = NEEDED_COLUMNS | {"snapshot_id", "sort_order_id"}
"""The columns of DATA_FILE_SCHEMA or ADD_SCHEMA that wait with a file; statistics are the writer's, and large."""


class UnitRewriter(FileRewrite, Protocol):
    """An ``IcebergRewriter`` or ``DeltaRewriter``."""

    @property
    def runner(self) -> RewriteRunner: ...


class Rewrites(Protocol):
    """Takes files that are to be rewritten: a ``RewriteQueue``, or an object that passes them to one in another
    process.
    """

    def add(self, files: pa.RecordBatch, deleted: Mapping[int, PositionBitmap] = NO_DELETES) -> Iterator[Rewritten]: ...

    def finish(self) -> Iterator[Rewritten]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewritten:
    """Source files, all of one spec and partition, and the files that stand in the target for them.

    sources: without statistics.
    """

    sources: pa.RecordBatch
    written: WrittenFiles


class RewriteQueue:
    """Takes batches of files as a listing gives them, and gives back what was written for them, sooner or later.

    Without a target size every file becomes one file. With one, files of one partition are combined until their bytes
    reach it, and files above it are split. Files that Iceberg lists as sorted keep their order: they are split, but
    never combined.
    """

    def __init__(self, rewriter: UnitRewriter) -> None:
        self._rewriter = rewriter
        self._target_size = rewriter.target.target_size
        wave = rewriter.runner.wave_bytes
        self._wave_bytes = wave if self._target_size is None else max(wave, _GROUPS_IN_A_WAVE * self._target_size)
        self._wave_files = max(1, _METRICS_IN_A_WAVE // sum(map(_leaves, rewriter.target.fields)))
        self._waiting: list[RewriteUnit] = []
        self._bytes = 0

    def add(self, files: pa.RecordBatch, deleted: Mapping[int, PositionBitmap] = NO_DELETES) -> Iterator[Rewritten]:
        """Files of DATA_FILE_SCHEMA or ADD_SCHEMA, all of one partition spec; gives what is done by now.

        deleted: the deleted positions of some files, by row.
        """
        kept = files.select([name for name in files.schema.names if name in _KEPT])
        for row, size in enumerate(file_sizes(files)):
            mine = {0: deleted[row]} if row in deleted else NO_DELETES
            self._waiting.append(RewriteUnit(files=kept.slice(row, 1), deleted=mine))
            self._bytes += size
            if self._bytes >= self._wave_bytes or len(self._waiting) >= self._wave_files:
                yield from self.finish()

    def finish(self) -> Iterator[Rewritten]:
        """Rewrite all files that wait."""
        units = self._waiting if self._target_size is None else combined(self._waiting, self._target_size)
        self._waiting, self._bytes = [], 0
        for unit, written in zip(units, self._rewriter.runner.run(self._rewriter, units), strict=True):
            yield Rewritten(sources=unit.files, written=written)


def combined(units: Sequence[RewriteUnit], target_size: int) -> list[RewriteUnit]:
    """Units of one spec and partition joined, in their order, until their bytes reach ``target_size``."""
    open_units: dict[str, list[RewriteUnit]] = {}
    sizes: dict[str, int] = {}
    done: list[list[RewriteUnit]] = []
    for unit in units:
        key = _partition_key(unit.files)
        if key is None or unit.size >= target_size:
            done.append([unit])
            continue
        open_units.setdefault(key, []).append(unit)
        sizes[key] = sizes.get(key, 0) + unit.size
        if sizes[key] >= target_size:
            done.append(open_units.pop(key))
            del sizes[key]
    return [_joined(group) for group in (*done, *open_units.values())]


def _leaves(field: ReadField) -> int:
    return sum(map(_leaves, field.children)) or 1


def _partition_key(file: pa.RecordBatch) -> str | None:
    """A text that identifies a partition of a spec; None for a file that must stay by itself."""
    if "spec_id" not in file.schema.names:
        return repr(file.column("partition_values")[0].as_py())
    if file.column("sort_order_id")[0].as_py():
        return None
    return f"{file.column('spec_id')[0].as_py()}|{file.column('partition')[0].as_py()!r}"


def _joined(group: Sequence[RewriteUnit]) -> RewriteUnit:
    if len(group) == 1:
        return group[0]
    files = pa.Table.from_batches([unit.files for unit in group]).combine_chunks().to_batches()[0]
    deleted = {row: unit.deleted[0] for row, unit in enumerate(group) if 0 in unit.deleted}
    return RewriteUnit(files=files, deleted=deleted)
