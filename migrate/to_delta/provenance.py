"""Which files of an Iceberg table its own writers wrote, as far as its metadata proves it.

Iceberg's writers put files below the table's data folder, name them after task and operation, and give every column its
field id. Files that ``add_files``, ``migrate`` and ``snapshot`` register need not have ids: those procedures see to it that the table
has a name mapping (Iceberg, "Column Projection"), so that a table with one proves nothing of any file.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.datafile import FileField
from deltaberg.datafile.file_schema import walk
from deltaberg.iceberg.metadata.table_metadata import TableMetadata
from deltaberg.iceberg.schema.name_mapping import NAME_MAPPING_PROPERTY
from deltaberg.iceberg.schema.schema import Schema, find_in
from deltaberg.migrate.files.file_layout import FileLayout
from deltaberg.migrate.files.provenance import UUID_PATTERN, Doubts, Mask, Provenance, name_pattern

_FOLDER_PROPERTIES: Final = ("write.data.path", "write.object-storage.path", "write.folder-storage.path")
_FIRST_RESERVED_ID: Final = 2_147_483_447
_PLAIN_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

OWN_NAME: Final = (
    # Java (Spark, Flink, Hive, Kafka Connect): partition, task, operation, an epoch where it streams, number of the file
    rf"/\d{{5,}}-\d+-{UUID_PATTERN}(-\d+)?(-\d{{5,}})\.(parquet|orc|avro)$"
    # PyIceberg: 0, task, operation
    rf"|/\d{{5}}-\d+-{UUID_PATTERN}\.parquet$"
    # Trino: query, file
    rf"|/\d{{8}}_\d{{6}}_\d{{5}}_[a-z0-9]{{5}}-{UUID_PATTERN}\.(parquet|orc|avro)$"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class IcebergProvenance:
    """Evidence in one table's metadata that concerns all its files. folders: below which its writers put data files,
    ended by ``/``.
    """

    folders: tuple[str, ...]
    has_name_mapping: bool
    schemas: tuple[Schema, ...]

    @classmethod
    def of(cls, metadata: TableMetadata) -> IcebergProvenance:
        """The evidence of a table."""
        folders = [f"{metadata.location.rstrip('/')}/data"]
        folders += [folder for key in _FOLDER_PROPERTIES if (folder := metadata.properties.get(key))]
        return cls(
            folders=tuple(dict.fromkeys(f"{folder.rstrip('/')}/" for folder in folders)),
            has_name_mapping=NAME_MAPPING_PROPERTY in metadata.properties,
            schemas=metadata.schemas,
        )

    def describe(self, batch: pa.RecordBatch) -> Provenance:
        """The provenance of a batch of live data files. A snapshot is one commit, and the files of one name pattern are
        one writer's.
        """
        paths = batch.column("file_path")
        doubts = Doubts(batch.num_rows)
        doubts.add(
            "the table has a name mapping, as imported files need", np.full(batch.num_rows, self.has_name_mapping)
        )
        below: Mask = np.zeros(batch.num_rows, dtype=np.bool_)
        for folder in self.folders:
            below |= np.asarray(pc.starts_with(paths, folder))
        below &= ~np.asarray(pc.match_substring_regex(paths, r"/\.\.?/"))
        doubts.add("outside the table's data folder", ~below)
        doubts.add("not named as Iceberg's writers do", ~np.asarray(pc.match_substring_regex(paths, OWN_NAME)))
        snapshots = batch.column("snapshot_id")
        doubts.add("of no known snapshot", np.asarray(snapshots.is_null()))
        writers = name_pattern(paths)
        commits = pc.fill_null(snapshots, 0).cast(pa.string())
        return Provenance(
            own=doubts.own,
            groups=pc.binary_join_element_wise(commits, writers, "|"),
            writers=writers,
            exact=np.ones(batch.num_rows, dtype=np.bool_),
            doubts=doubts.counts,
        )

    def contradicts(self, layout: FileLayout) -> bool:
        """Iceberg's writers give every column its id, and write neither INT96 nor in a legacy calendar."""
        if layout.fields is None:
            return False
        ids = {each.field_id for each in walk(layout.fields) if each.field_id is not None}
        return (
            layout.lacks_ids
            or bool(layout.int96)
            or layout.hybrid_calendar
            or any(each < _FIRST_RESERVED_ID and find_in(self.schemas, each) is None for each in ids)
            or any(each.field_id is not None and self._has_other_name(each) for each in layout.fields)
        )

    def _has_other_name(self, column: FileField) -> bool:
        """Whether a top-level column never had the name that the file gives it. Names that files spell otherwise do not count."""
        assert column.field_id is not None
        found = [schema.find(column.field_id) for schema in self.schemas]
        names = {each.name for each in found if each is not None}
        return bool(names) and column.name not in names and all(map(_PLAIN_NAME.fullmatch, names))
