"""The rows of a Delta version, whole or file by file, as a comparison reads them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from deltaberg.delta.scan import Scan, scan
from deltaberg.migrate.source import DeltaSource
from deltaberg.migrate.verify.tables import ChosenOptions

_ADD_COLUMNS = ["path", "partition_values", "size", "deletion_vector", "base_row_id", "default_row_commit_version"]


def rows(source: DeltaSource, names: list[str], options: ChosenOptions) -> Iterator[pa.RecordBatch]:
    """The named columns in that order."""
    return _scan(source, names, options, None).batches()


def listed_files(source: DeltaSource) -> Iterator[pa.RecordBatch]:
    """The input of ``DeltaFileRows`` for every live file, in the order in which ``rows`` reads them."""
    for adds in source.snapshot.add_files(check_totals=False):
        yield adds.select(_ADD_COLUMNS)


@dataclass(slots=True)
class DeltaFileRows:
    """Satisfies ``FileRows``."""

    source: DeltaSource
    names: list[str]
    options: ChosenOptions

    def of(self, files: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
        for place in range(files.num_rows):
            for batch in _scan(self.source, self.names, self.options, files.slice(place, 1)).batches():
                yield place, batch


def _scan(source: DeltaSource, names: list[str], options: ChosenOptions, files: pa.RecordBatch | None) -> Scan:
    return scan(
        source.snapshot,
        columns=names,
        partition_timezone=options.partition_timezone,
        variant_as_json=False,
        files=None if files is None else [files],
    )
