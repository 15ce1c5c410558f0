"""The rows of an Iceberg snapshot, whole or file by file, as a comparison reads them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from deltaberg.iceberg.deletes.row_deletes import RowDeletes
from deltaberg.iceberg.manifest.live_files import data_files
from deltaberg.iceberg.scan.scan import Scan, scan
from deltaberg.iceberg.scan.scan_task import TASK_COLUMNS, tasks
from deltaberg.migrate.source import IcebergSource
from deltaberg.migrate.verify.tables import ChosenOptions
from deltaberg.translate.value_mapping import convert_columns


def rows(source: IcebergSource, names: list[str], options: ChosenOptions) -> Iterator[pa.RecordBatch]:
    """The named columns in that order, mapped types converted."""
    found = _scan(source, names)
    for batch in found.batches() if source.snapshot is not None else ():
        yield convert_columns(batch, found.fields, dict(options.type_mappings))


def listed_files(source: IcebergSource) -> Iterator[pa.RecordBatch]:
    """The input of ``IcebergFileRows`` for every live file, in the order in which ``rows`` reads them."""
    for batch in data_files(source.table, source.snapshot, with_metrics=False):
        yield batch.select([*TASK_COLUMNS, "file_size_in_bytes"]).rename_columns([*TASK_COLUMNS, "size"])


@dataclass(slots=True)
class IcebergFileRows:
    """Satisfies ``FileRows``; what deletes rows is read once."""

    source: IcebergSource
    names: list[str]
    options: ChosenOptions
    _deletes: RowDeletes | None = field(default=None, init=False)

    def of(self, files: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
        if self._deletes is None:
            self._deletes = RowDeletes(self.source.table, self.source.snapshot)
        found = _scan(self.source, self.names)
        for task in tasks(files, self._deletes.index.match([files])[0]):
            for batch in found.file_batches(task, self._deletes.of(task)):
                yield task.row, convert_columns(batch, found.fields, dict(self.options.type_mappings))


def _scan(source: IcebergSource, names: list[str]) -> Scan:
    return scan(source.table, snapshot=source.snapshot, schema=source.schema, columns=names, variant_as_json=False)
