"""Write every snapshot of an Iceberg table as a version of its own, oldest first."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.delta.log.add_path import path_keys
from deltaberg.delta.snapshot import Snapshot as DeltaSnapshot
from deltaberg.delta.table import DeltaTable
from deltaberg.delta.transaction import Transaction
from deltaberg.iceberg.deletes.resolved_deletes import ResolvedDeletes, resolve_deletes
from deltaberg.iceberg.metadata.snapshot import Snapshot
from deltaberg.migrate.files.rewrite import rewritten_location
from deltaberg.migrate.files.vector_copy import DeletionVector
from deltaberg.migrate.target.locations import join
from deltaberg.migrate.target.watermark import Watermark, schema_fingerprint
from deltaberg.migrate.to_delta.entries import HIDDEN_FOLDER, DeltaEntries, Rows, SourceFiles, write_vectors
from deltaberg.migrate.to_delta.writer import AddedSums, DeltaWriter, WrittenDelta
from deltaberg.translate.data_files import encode_paths
from deltaberg.translate.operations import SCHEMA_CHANGED, iceberg_to_delta_operation

_NAMES: Final = uuid.UUID("6c1a6b1e-4a0e-5f43-8a59-1d6a6f0c7b52")


@dataclass(frozen=True, slots=True, kw_only=True)
class _FilesOfSnapshot:
    """The live files of a snapshot: by ``path_keys`` in the target, what tells their deleted rows apart (or null)."""

    keys: pa.Array
    vectors: pa.Array

    @staticmethod
    def of(parts: list[tuple[pa.Array, pa.Array]]) -> _FilesOfSnapshot:
        empty = pa.array([], pa.string())
        return _FilesOfSnapshot(
            keys=pa.concat_arrays([empty, *(keys for keys, _ in parts)]),
            vectors=pa.concat_arrays([empty, *(vectors for _, vectors in parts)]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedFiles:
    """One batch of a snapshot's files. locations, keys: in the target. vectors: a text that tells the deleted rows of each
    apart, null where there are none."""

    files: SourceFiles
    locations: pa.Array
    keys: pa.Array
    vectors: pa.Array


class DeltaReplay:
    """Replays the snapshots of a design's ancestry. A file that is rewritten keeps its deleted rows, as all versions
    share it.
    """

    def __init__(self, writer: DeltaWriter) -> None:
        self._writer = writer
        self._line = writer.design.ancestry
        self._entries: DeltaEntries = writer.entries()
        self._rewriter = self._entries.rewriter()
        self._sums = AddedSums()

    def write(self, *, after: tuple[int, int | None] | None = None) -> WrittenDelta:
        """Commit one version a snapshot, and one for a schema that was changed after the last of them.

        after: id of the snapshot and of the schema that an earlier run got to; only later snapshots are committed.
        Every version that is visible is whole, says which snapshot it holds, and stays even if the next one fails.
        Raises DeltaConflict where another writer commits meanwhile.
        """
        ids: list[tuple[int, int | None]] = [
            (snapshot.snapshot_id, schema.schema_id)
            for snapshot, schema in zip(self._line.snapshots, self._line.schemas, strict=True)
        ]
        first = 0 if after is None else ids.index(after) + 1
        state = _FilesOfSnapshot.of([])
        if first:
            state = _FilesOfSnapshot.of(
                [(each.keys, each.vectors) for each in self._found(self._line.snapshots[first - 1])]
            )
        for version in range(first, len(ids)):
            state = self._commit(version, state)
        return self.written([(ids[version][0], version) for version in range(first, len(ids))])

    def _commit(self, version: int, before: _FilesOfSnapshot) -> _FilesOfSnapshot:
        writer, snapshot = self._writer, self._line.snapshots[version]
        schema = self._line.schemas[version]
        watermark = replace(
            writer.watermark,
            version=snapshot.snapshot_id,
            schema_id=schema.schema_id,
            fingerprint=schema_fingerprint(schema),
        )
        base = None if version == 0 else DeltaTable.open(writer.root, writer.storage).snapshot()
        repeats = self._line.repeats(version)
        timestamp_ms = snapshot.timestamp_ms
        if repeats:
            timestamp_ms = max(timestamp_ms, writer.source.table.metadata.last_updated_ms)
        with self._begin(version, watermark, base) as transaction:
            state = before if repeats else self._fill(transaction, snapshot, base, before)
            operation = iceberg_to_delta_operation(snapshot.operation, first=version == 0)
            said = writer.commit_of(watermark, SCHEMA_CHANGED if repeats else operation, timestamp_ms=timestamp_ms)
            said.commit(transaction, expected_version=version)
        self.committed(transaction)
        return state

    def committed(self, transaction: Transaction) -> None:
        """Report that the version stands, and write the checkpoint that may be due."""
        self._writer.on_commit()
        checkpoint = transaction.checkpoint_when_due()
        if checkpoint.written is not None or checkpoint.failure is not None:
            # A later checkpoint covers all versions, so that the failure of an earlier one does not matter any more.
            self._sums.checkpoint_failure = checkpoint.failure

    def _begin(self, version: int, watermark: Watermark, base: DeltaSnapshot | None) -> Transaction:
        writer = self._writer
        metadata = writer.metadata(
            writer.design.translations[version],
            watermark,
            version,
            created_ms=self._line.snapshots[0].timestamp_ms,
        )
        if base is None:
            return writer.create(metadata)
        transaction = Transaction(
            storage=writer.storage,
            table_root=writer.root,
            base=base,
            protocol=base.protocol,
            metadata=base.metadata,
            now_ms=lambda: writer.clock_ms,
            new_id=writer.run.new,
        )
        transaction.set_metadata(metadata)
        return transaction

    def _fill(
        self, transaction: Transaction, snapshot: Snapshot, base: DeltaSnapshot | None, before: _FilesOfSnapshot
    ) -> _FilesOfSnapshot:
        """Add what is new, exchange the vectors that differ, remove what is gone."""
        changes_data = snapshot.operation != "replace"
        parts: list[tuple[pa.Array, pa.Array]] = []
        changed: dict[str, DeletionVector | None] = {}
        for found in self._found(snapshot):
            parts.append((found.keys, found.vectors))
            places = pc.index_in(found.keys, value_set=before.keys)
            new = _mask(places.is_null())
            self.add(transaction, found, np.flatnonzero(new), snapshot, changes_data=changes_data)
            others = np.flatnonzero(~new & ~_same(found.vectors, before.vectors.take(places)))
            changed |= self.vectors(found, others)
        state = _FilesOfSnapshot.of(parts)
        gone = before.keys.filter(pc.invert(pc.is_in(before.keys, value_set=state.keys)))
        if base is not None and (len(gone) or changed):
            exchange_files(transaction, base, gone, changed, changes_data=changes_data)
        return state

    def _new(
        self, transaction: Transaction, found: DescribedFiles, rows: Rows, snapshot: Snapshot
    ) -> Iterator[pa.RecordBatch]:
        """``add`` actions of files that the target does not list yet."""
        files = found.files
        kept, anew = rows[~files.anew[rows]], rows[files.anew[rows]]
        if len(kept):
            yield self._entries.shared(files, kept, snapshot, transaction)
        if not len(anew):
            return
        some = files.files.take(pa.array(anew))
        vectors = self._entries.vectors(files, anew)
        locations = dict(enumerate(found.locations.take(pa.array(anew)).to_pylist()))
        for row, written in self._rewriter.rewrite(some, {}, locations=locations):
            if written.files.num_rows:
                add = self._entries.rewritten(written, some.slice(row, 1), snapshot)
                vector = vectors.get(int(anew[row]))
                yield add if vector is None else _with_vectors(add, write_vectors(transaction, {0: vector}, 1))

    def _found(self, snapshot: Snapshot) -> Iterator[DescribedFiles]:
        for resolved in resolve_deletes(self._writer.source.table, snapshot):
            yield self.describe(resolved)

    def describe(self, resolved: ResolvedDeletes) -> DescribedFiles:
        """Where the target has, or would have, the files of a batch."""
        files = self._entries.observe(resolved)
        locations = self._target_locations(files)
        return DescribedFiles(
            files=files,
            locations=locations,
            keys=path_keys(encode_paths(locations, self._writer.root)),
            vectors=_vector_keys(files),
        )

    def vectors(self, found: DescribedFiles, rows: Rows) -> dict[str, DeletionVector | None]:
        """The deletion vectors that some files have from now on, None for no deleted rows, by ``path_keys``."""
        vectors = self._entries.vectors(found.files, rows)
        return {str(found.keys[row]): vectors.get(row) for row in rows.tolist()}

    def add(
        self, transaction: Transaction, found: DescribedFiles, rows: Rows, snapshot: Snapshot, *, changes_data: bool
    ) -> None:
        """Add files that the target does not list yet."""
        for adds in self._new(transaction, found, rows, snapshot):
            self._sums.count(adds)
            transaction.add_files([_with_data_change(adds, changes_data)])

    def written(self, commits: Sequence[tuple[int, int]]) -> WrittenDelta:
        """What was committed, in sums."""
        return self._writer.written(self._sums, commits)

    def _target_locations(self, files: SourceFiles) -> pa.Array:
        """Where the target has the files; one that is rewritten has the same name in every version of this conversion,
        and another one in any other that may run at the same time."""
        if not files.anew.any():
            return files.locations
        folder = join(self._writer.root, HIDDEN_FOLDER)
        names = files.locations.to_pylist()
        of_conversion = self._writer.plan_name or self._writer.root
        for row in np.flatnonzero(files.anew).tolist():
            name = uuid.uuid5(_NAMES, f"{of_conversion}|{names[row]}")
            names[row] = rewritten_location(folder, self._writer.run.stamped(name))
        return pa.array(names, pa.string())


def exchange_files(
    transaction: Transaction,
    base: DeltaSnapshot,
    gone: pa.Array,
    changed: Mapping[str, DeletionVector | None],
    *,
    changes_data: bool,
) -> pa.Array:
    """Remove the files in ``gone``, and commit those in ``changed`` again with another vector or none; returns the keys
    of those that the table lists.
    """
    again = pa.array(list(changed), pa.string())
    wanted = pa.concat_arrays([gone.cast(pa.string()), again])
    listed = [pa.array([], pa.string())]
    for adds in base.add_files():
        keys = path_keys(adds.column("path"))
        here = pc.is_in(keys, value_set=wanted)
        if not pc.any(here, min_count=0).as_py():
            continue
        touched, keys = adds.filter(here), keys.filter(here)
        listed.append(keys.cast(pa.string()))
        transaction.remove_files([touched], data_change=changes_data)
        other = pc.is_in(keys, value_set=again)
        files = touched.filter(other)
        if not files.num_rows:
            continue
        chosen = [changed[key] for key in keys.filter(other).to_pylist()]
        vectors = {row: vector for row, vector in enumerate(chosen) if vector is not None}
        descriptors = write_vectors(transaction, vectors, files.num_rows)
        transaction.add_files([_with_data_change(_with_vectors(files, descriptors), changes_data)])
    return pa.concat_arrays(listed)


def _vector_keys(files: SourceFiles) -> pa.Array:
    """A text for the deleted rows of each file, null where there are none: equal texts mean equal rows."""
    vectors, merged = files.resolved.vectors, files.resolved.merged
    place = pc.binary_join_element_wise(
        pc.struct_field(vectors, "location"), pc.struct_field(vectors, "offset").cast(pa.string()), "|"
    )
    has = pc.and_(vectors.is_valid(), pc.greater(pc.struct_field(vectors, "cardinality"), 0))
    keys = pc.if_else(pc.fill_null(has, False), place, pa.scalar(None, pa.string()))
    rows = sorted(row for row, bitmap in merged.items() if bitmap.cardinality)
    if not rows:
        return keys
    digests = [blake2b(merged[row].serialize(), digest_size=16).hexdigest() for row in rows]
    mask = np.zeros(len(keys), dtype=bool)
    mask[rows] = True
    return pc.replace_with_mask(keys, pa.array(mask), pa.array(digests, pa.string()))


def _same(left: pa.Array, right: pa.Array) -> npt.NDArray[np.bool_]:
    """Whether two texts are equal or both null."""
    none = pc.and_(left.is_null(), right.is_null())
    return _mask(pc.or_(none, pc.fill_null(pc.equal(left, right), False)))


def _with_vectors(adds: pa.RecordBatch, vectors: pa.StructArray) -> pa.RecordBatch:
    return adds.set_column(adds.schema.get_field_index("deletion_vector"), "deletion_vector", vectors)


def _with_data_change(adds: pa.RecordBatch, changes_data: bool) -> pa.RecordBatch:
    flags = pa.repeat(pa.scalar(changes_data), adds.num_rows)
    return adds.set_column(adds.schema.get_field_index("data_change"), "data_change", flags)


def _mask(values: pa.Array) -> npt.NDArray[np.bool_]:
    return np.asarray(values.to_numpy(zero_copy_only=False), dtype=bool)
