"""Write every version of a Delta table as a snapshot of its own; one put-if-absent makes all of them visible."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.delta.errors import CorruptLog
from deltaberg.delta.history import CommitActions
from deltaberg.delta.log.actions import CommitInfo
from deltaberg.delta.log.add_path import path_keys
from deltaberg.delta.log.file_actions import vector_ids
from deltaberg.iceberg.manifest.data_file import DATA, POSITION_DELETES
from deltaberg.iceberg.snapshot_write.snapshot_builder import SnapshotBuilder
from deltaberg.iceberg.transaction import Transaction
from deltaberg.migrate.target.watermark import APP_ID_PREFIX, STREAMS_KEY
from deltaberg.migrate.to_iceberg.deletes import DeletePlace
from deltaberg.migrate.to_iceberg.entries import DeleteSink, IcebergEntries
from deltaberg.migrate.to_iceberg.source_files import DeltaFiles
from deltaberg.migrate.to_iceberg.survey import highest_commit_version
from deltaberg.migrate.to_iceberg.version_range import SchemaPeriod, VersionRange
from deltaberg.migrate.to_iceberg.writer import IcebergWriter, WrittenIceberg, snapshot_id_of
from deltaberg.translate.operations import APPEND, OVERWRITE, delta_to_iceberg_operation


@dataclass(slots=True, kw_only=True)
class LiveFile:
    """One live file. location: in the target. vector: the id of its deletion vector in the log. deletes: where the
    target has the deletes.
    """

    location: str
    vector: str | None
    deletes: DeletePlace | None = None


@dataclass(slots=True, kw_only=True)
class _Step:
    """The effect of a commit on the live files, by rows of its adds, and by path."""

    new: list[int] = field(default_factory=list)
    vectors: list[int] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)


class IcebergReplay:
    """Turns the versions of a design's schema periods into snapshots, in a new table or on top of an existing one."""

    def __init__(
        self, writer: IcebergWriter, *, live: Mapping[str, LiveFile] | None = None, last_number: int = 0
    ) -> None:
        """live: files that an existing target has already, by ``path_keys``; all that the commits touch must be among them.
        last_number: the target's highest sequence number."""
        assert writer.design.periods is not None
        self._writer = writer
        self._eras: VersionRange = writer.design.periods
        self._live: dict[str, LiveFile] = dict(live or {})
        self._entries: dict[int, IcebergEntries] = {}
        self._last_number = last_number

    def write(self) -> WrittenIceberg:
        """Commit all versions as the snapshots of a new table, at once. Raises like ``IcebergWriter.write``."""
        writer, periods = self._writer, self._eras
        commits: list[tuple[int, int]] = []
        transaction = writer.begin(writer.design.era_translations[0].schema)
        with transaction:
            commits.append((periods.first, self._first(transaction)))
            for actions in periods.commits():
                commits.append((actions.version, self.snapshot(transaction, [actions])))
            self._check_end()
            table = transaction.commit(timestamp_ms=writer.clock_ms)
        return self.written(commits, table.metadata_location)

    def written(self, commits: Iterable[tuple[int, int]], location: str) -> WrittenIceberg:
        """The totals of the commits."""
        written = [each.written for each in self._entries.values()]
        return WrittenIceberg(
            commits=tuple(commits),
            location=location,
            files=sum(each.files for each in written),
            rows=sum(each.rows for each in written),
            rewritten_files=sum(each.rewritten for each in written),
        )

    def _first(self, transaction: Transaction) -> int:
        """The oldest version, whole."""
        period = self._eras.periods[0]
        entries, reader = self._of(period), self._writer.design.reader
        found = [
            reader.describe(adds) for adds in period.source.snapshot.add_files(check_totals=False) if adds.num_rows
        ]
        vectors = any(batch.adds.column("deletion_vector").null_count < batch.adds.num_rows for batch in found)
        highest = max((highest_commit_version(batch.adds) for batch in found), default=0)
        builder = self._begin(transaction, period.first, OVERWRITE if vectors else APPEND, highest)
        sink = self._writer.delete_sink()
        with sink:
            builder.add_files(entries.entries(iter(found), sink), keep_inherited=self._writer.design.carries_lineage)
            builder.add_files(sink.entries())
        for batch in found:
            self._remember(batch, range(batch.adds.num_rows), entries, sink)
        return builder.snapshot_id

    def snapshot(self, transaction: Transaction, group: Sequence[CommitActions]) -> int:
        """One snapshot of what one commit changes, or several commits in a row; gives its id."""
        for actions in group:
            period = self._eras.period_of(actions.version)
            if period.first == actions.version:
                place = [each.first for each in self._eras.periods].index(period.first)
                transaction.set_schema(self._writer.design.era_translations[place].schema)
        steps = self._steps(group)
        highest = max(highest_commit_version(each.adds) if each.adds.num_rows else 0 for each in group)
        builder = self._begin(
            transaction, group[-1].version, _operation(group, steps), highest, summary=_streams(group)
        )
        self._take_out(builder, group, steps)
        sink = self._writer.delete_sink()
        with sink:
            for actions, step in zip(group, steps, strict=True):
                self._add(builder, actions, step, sink)
            builder.add_files(sink.entries())
        return builder.snapshot_id

    def _add(self, builder: SnapshotBuilder, actions: CommitActions, step: _Step, sink: DeleteSink) -> None:
        entries = self._of(self._eras.period_of(actions.version))
        if step.new:
            files = self._described(actions, step.new)
            found = entries.entries(iter([files]), sink)
            builder.add_files(found, keep_inherited=self._writer.design.carries_lineage)
            self._remember(files, range(files.adds.num_rows), entries, sink)
        if step.vectors:
            files = self._described(actions, step.vectors)
            entries.copy_vectors(files, sink)
            self._remember(files, range(files.adds.num_rows), entries, sink)

    def _check_end(self) -> None:
        """The commits must lead to the files that the newest version has."""
        live = frozenset(
            key
            for adds in self._writer.source.snapshot.add_files(check_totals=False)
            for key in path_keys(adds.column("path")).to_pylist()
        )
        if live != self._live.keys():
            odd = sorted(live ^ self._live.keys())[0]
            raise CorruptLog(
                f"Cannot replay the versions up to {self._eras.last}: the commits and a checkpoint disagree about the file "
                f"{odd}; leave --history all out",
                version=self._eras.last,
                path=odd,
            )

    def _steps(self, group: Sequence[CommitActions]) -> list[_Step]:
        """Files that come, files that stay with another vector, files that go; of several commits, the last action on a
        file counts.

        A file that is committed again with the vector that it has stays as it is (statistics, row ids).
        """
        added = [path_keys(each.adds.column("path")).to_pylist() if each.adds.num_rows else [] for each in group]
        removed = [
            path_keys(each.removes.column("path")).to_pylist() if each.removes.num_rows else [] for each in group
        ]
        last: dict[str, int] = {}
        for place, (comes, goes) in enumerate(zip(added, removed, strict=True)):
            last.update(dict.fromkeys((*goes, *comes), place))
        steps = []
        for place, actions in enumerate(group):
            step = _Step()
            vectors = vector_ids(actions.adds).to_pylist() if added[place] else []
            for row, (key, vector) in enumerate(zip(added[place], vectors, strict=True)):
                if last[key] != place:
                    continue
                live = self._live.get(key)
                if live is None:
                    step.new.append(row)
                elif live.vector != vector:
                    step.vectors.append(row)
            again = frozenset(added[place])
            step.removed = [
                key
                for key in dict.fromkeys(removed[place])
                if key in self._live and key not in again and last[key] == place
            ]
            steps.append(step)
        return steps

    def _take_out(self, builder: SnapshotBuilder, group: Sequence[CommitActions], steps: Sequence[_Step]) -> None:
        """Entries of files that go, and of vectors that are replaced."""
        gone = [self._live.pop(key) for step in steps for key in step.removed]
        files = [each.location for each in gone]
        changed = [key for actions, step in zip(group, steps, strict=True) for key in self._keys(actions, step.vectors)]
        replaced = [self._live[key] for key in changed]
        deletes = [each.deletes for each in (*gone, *replaced) if each.deletes is not None]
        if not files and not deletes:
            return
        spec_id = self._writer.design.spec.spec_id
        rows = len(files) + len(deletes)
        builder.delete_files(
            pa.record_batch(
                {
                    "content": pa.array([DATA] * len(files) + [POSITION_DELETES] * len(deletes), pa.int32()),
                    "file_path": pa.array([*files, *(each.location for each in deletes)], pa.string()),
                    "spec_id": pa.repeat(pa.scalar(spec_id, pa.int32()), rows),
                    "content_offset": pa.array([None] * len(files) + [each.offset for each in deletes], pa.int64()),
                }
            )
        )

    def _keys(self, actions: CommitActions, rows: list[int]) -> list[str]:
        keys = path_keys(actions.adds.column("path").take(pa.array(rows, pa.int64())))
        return [str(key) for key in keys.to_pylist()]

    def _described(self, actions: CommitActions, rows: list[int]) -> DeltaFiles:
        return self._writer.design.reader.describe(actions.adds.take(pa.array(rows, pa.int64())))

    def _remember(self, files: DeltaFiles, rows: range, entries: IcebergEntries, sink: DeleteSink) -> None:
        keys = path_keys(files.adds.column("path")).to_pylist()
        vectors = vector_ids(files.adds).to_pylist()
        locations = files.locations.to_pylist()
        for row in rows:
            location = self._places().get(locations[row], locations[row])
            self._live[keys[row]] = LiveFile(location=location, vector=vectors[row], deletes=sink.places.get(location))

    def _places(self) -> Mapping[str, str]:
        """Where rewritten files are; all schema periods share the map, since a file outlives the period that it came
        in.
        """
        return next(iter(self._entries.values())).written.places

    def _of(self, period: SchemaPeriod) -> IcebergEntries:
        found = self._entries.get(period.first)
        if found is None:
            place = [each.first for each in self._eras.periods].index(period.first)
            translation = self._writer.design.era_translations[place]
            found = self._writer.entries(period.source, period.schema, translation, keep_positions=True)
            if self._entries:
                found.written.places = next(iter(self._entries.values())).written.places
            self._entries[period.first] = found
        return found

    def _begin(
        self,
        transaction: Transaction,
        version: int,
        operation: str,
        highest: int,
        *,
        summary: Mapping[str, str] = MappingProxyType({}),
    ) -> SnapshotBuilder:
        writer, design = self._writer, self._writer.design
        number = writer.sequence_number(version, highest)
        if number is not None:
            number = self._last_number = max(number, self._last_number + 1)
        return transaction.snapshot(
            operation,
            snapshot_id=snapshot_id_of(writer.watermark, version),
            timestamp_ms=self._eras.times[version],
            sequence_number=number,
            first_row_id=design.lineage.next_row_id if design.carries_lineage and version == self._eras.first else None,
            summary={**writer.summary(version), **summary},
        )


def _streams(group: Sequence[CommitActions]) -> dict[str, str]:
    """How far streams have written with these commits."""
    txns = [txn for each in group for txn in each.txns if not txn.app_id.startswith(APP_ID_PREFIX)]
    reached = {txn.app_id: txn.version for txn in txns}
    return {STREAMS_KEY: json.dumps(dict(sorted(reached.items())))} if reached else {}


def _operation(group: Sequence[CommitActions], steps: Sequence[_Step]) -> str:
    flags = [
        column
        for actions in group
        for batch in (actions.adds, actions.removes)
        if batch.num_rows
        for column in batch.column("data_change").to_pylist()
    ]
    return delta_to_iceberg_operation(
        operation=_name(group[0].commit_info) if len(group) == 1 else None,
        added=sum(len(step.new) for step in steps),
        removed=sum(len(step.removed) for step in steps),
        removed_rows=any(
            step.vectors or _adds_vectors(actions, step) for actions, step in zip(group, steps, strict=True)
        ),
        data_change=any(flag is not False for flag in flags),
    )


def _adds_vectors(actions: CommitActions, step: _Step) -> bool:
    if not step.new:
        return False
    new = actions.adds.column("deletion_vector").take(pa.array(step.new, pa.int64()))
    return bool(np.any(np.asarray(pc.is_valid(new).to_numpy(zero_copy_only=False))))


def _name(info: CommitInfo | None) -> str | None:
    return None if info is None else info.operation
