"""A version of a table: its protocol, metadata and live files. PROTOCOL "Delta Table Specification"."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.delta.actions import DomainMetadata, Txn
from deltaberg.delta.add_file import table_add_schema
from deltaberg.delta.checkpoint_reader import CheckpointReader
from deltaberg.delta.column_mapping import ColumnMapping
from deltaberg.delta.commit_json import FileActions, LoggedAction, parse_file_actions, read_action_lines
from deltaberg.delta.errors import DeltaError
from deltaberg.delta.in_commit_timestamp import commit_timestamp
from deltaberg.delta.log_replay import (
    ReplayedFiles,
    reconcile_small_actions,
    replay_file_actions,
    table_state,
)
from deltaberg.delta.log_segment import LogSegment
from deltaberg.delta.schema import parse_schema
from deltaberg.delta.stats import parse_stats, stats_from_struct
from deltaberg.errors import error_context
from deltaberg.storage.protocol import Storage


class Snapshot:
    """One version of a table. Small facts are there at once; files are streamed when asked for.

    Opening reads the commits after the checkpoint and the small actions of the checkpoint. Raises what reading them
    raises: CorruptLog for a broken log, UnsupportedDeltaFeature for what the protocol needs and deltaberg lacks.
    """

    def __init__(self, storage: Storage, table_root: str, log_folder: str, segment: LogSegment) -> None:
        self.storage = storage
        self.table_root = table_root
        self.log_folder = log_folder
        self.segment = segment
        self.version = segment.version
        self._checkpoint = (
            None if segment.checkpoint is None else CheckpointReader(storage, log_folder, segment.checkpoint)
        )
        with error_context(table=table_root, version=self.version):
            self._load()

    def _load(self) -> None:
        base = () if self._checkpoint is None else self._checkpoint.small_actions()
        names: tuple[str, ...] | None = None
        while True:
            small, pieces, used = self._read_commits(base, names)
            self._state = reconcile_small_actions(small)
            self.protocol, self.metadata = table_state(self._state, version=self.version)
            self.column_mapping = ColumnMapping.of(self.protocol, self.metadata)
            self.add_schema = table_add_schema(self.metadata, self.column_mapping)
            self._partition_names = tuple(self.add_schema.field("partition_values").type.names)
            if not pieces or set(self._partition_names) <= set(used):
                break
            # A later commit changed the partition columns: read the values under their names.
            names = self._partition_names
        self._replayed: ReplayedFiles | None = replay_file_actions(pieces)

    def _read_commits(
        self, base: Sequence[LoggedAction], names: tuple[str, ...] | None
    ) -> tuple[list[LoggedAction], list[FileActions], tuple[str, ...]]:
        small = list(base)
        pieces: list[FileActions] = []
        used = names
        for piece in read_action_lines(self.storage, self.segment.deltas):
            small.extend(piece.small)
            if len(piece.lines):
                if used is None:
                    used = _partition_names_of(small)
                pieces.append(parse_file_actions(piece, used))
        return small, pieces, used or ()

    @property
    def txns(self) -> Mapping[str, Txn]:
        """The newest ``txn`` of every application."""
        return self._state.txns

    @property
    def domain_metadata(self) -> Mapping[str, DomainMetadata]:
        """Every live metadata domain, understood or not."""
        return self._state.domain_metadata

    @cached_property
    def timestamp_ms(self) -> int:
        """When the version was committed, in milliseconds since 1970; see ``commit_timestamp``."""
        return commit_timestamp(self.storage, self.segment, self.protocol, self.metadata)

    def add_files(self) -> Iterator[pa.RecordBatch]:
        """The live files, as batches of ``add_schema`` (ADD_SCHEMA), checkpoint first."""
        with error_context(table=self.table_root, version=self.version):
            for rows in self._live_rows():
                yield self._with_stats(rows)

    def remove_files(self) -> Iterator[pa.RecordBatch]:
        """Tombstones: rows of ``file_actions.remove_rows``, expired ones included."""
        with error_context(table=self.table_root, version=self.version):
            if self._checkpoint is not None:
                for rows in self._checkpoint.removes(self._partition_names):
                    yield rows if self._replayed is None else self._replayed.keep_unmentioned(rows)
            if self._replayed is not None:
                yield from self._replayed.removes.to_batches()

    def _live_rows(self) -> Iterator[pa.RecordBatch]:
        if self._checkpoint is not None:
            for rows in self._checkpoint.adds(self._partition_names):
                kept = rows if self._replayed is None else self._replayed.keep_unmentioned(rows)
                if kept.num_rows:
                    yield kept
        if self._replayed is not None:
            yield from self._replayed.adds.to_batches(max_chunksize=32_768)

    def _with_stats(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        target = self.add_schema.field("stats").type
        texts = rows.column("stats")
        if "stats_parsed" in rows.schema.names:
            stats = stats_from_struct(rows.column("stats_parsed"), target)
            if stats.null_count:
                stats = pc.if_else(pc.is_valid(stats), stats, parse_stats(texts, target))
        else:
            stats = parse_stats(texts, target)
        columns = []
        for field in self.add_schema:
            if field.name == "stats":
                columns.append(stats)
            elif field.name == "partition_values":
                columns.append(_ordered(rows.column("partition_values"), field.type))
            else:
                columns.append(rows.column(field.name))
        return pa.RecordBatch.from_arrays(columns, schema=self.add_schema)


def _ordered(partition_values: pa.StructArray, target: pa.StructType) -> pa.Array:
    if partition_values.type == target:
        return partition_values
    columns = [
        pc.struct_field(partition_values, [partition_values.type.get_field_index(name)]) for name in target.names
    ]
    return pa.StructArray.from_arrays(columns, fields=list(target))


def _partition_names_of(actions: Sequence[LoggedAction]) -> tuple[str, ...]:
    """Names, logical and physical, that partition columns may have by the newest metadata so far."""
    for action in reversed(actions):
        if action.name == "metaData":
            columns = action.body.get("partitionColumns")
            names = [name for name in columns if isinstance(name, str)] if isinstance(columns, (list, tuple)) else []
            schema_string = action.body.get("schemaString")
            try:
                schema = parse_schema(schema_string) if isinstance(schema_string, str) else None
            except DeltaError:
                schema = None
            for field in () if schema is None else schema.fields:
                physical = field.metadata.get("delta.columnMapping.physicalName")
                if field.name in names and isinstance(physical, str):
                    names.append(physical)
            return tuple(dict.fromkeys(names))
    return ()
