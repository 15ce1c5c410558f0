"""A survey of Iceberg snapshots' files for a Delta target: one pass, read-only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.delta.log.path_fingerprints import PathFingerprints, first_repeated, paths_among
from deltaberg.iceberg.deletes.delete_index import PUFFIN
from deltaberg.iceberg.manifest.data_file import EQUALITY_DELETES
from deltaberg.iceberg.manifest.live_files import data_files, delete_files
from deltaberg.iceberg.metadata.snapshot import Snapshot
from deltaberg.iceberg.partition.partition_spec import PartitionSpec
from deltaberg.iceberg.partition.transforms import IdentityTransform, TruncateTransform
from deltaberg.iceberg.scan.content_file import refuse_encrypted
from deltaberg.iceberg.schema.schema import Schema
from deltaberg.iceberg.schema.types import StringType
from deltaberg.migrate.files.footer_memory import FooterMemory
from deltaberg.migrate.files.footers import ONE_BY_ONE, FooterSampler, Progress, silent
from deltaberg.migrate.files.outside_files import count_files, outside_of
from deltaberg.migrate.source import IcebergSource
from deltaberg.migrate.target.locations import real_locations
from deltaberg.migrate.to_delta.ancestry import Ancestry
from deltaberg.migrate.to_delta.provenance import IcebergProvenance
from deltaberg.storage.location_roots import Roots
from deltaberg.translate.data_files import top_folder


@dataclass(slots=True, kw_only=True)
class GroupTotals:
    """Files of equal layout and spec. stores: how many of them are on a disk or in a bucket, by ``top_folder``."""

    files: int = 0
    rows: int = 0
    bytes: int = 0
    stores: dict[str, int] = field(default_factory=dict)

    def add(self, other: GroupTotals) -> None:
        self.files += other.files
        self.rows += other.rows
        self.bytes += other.bytes
        for store, files in other.stores.items():
            self.stores[store] = self.stores.get(store, 0) + files


@dataclass(slots=True, kw_only=True)
class DeltaSurvey:
    """Sums over the files of an ancestry's snapshots, every file counted once.

    footers: tells which layout a file has. tallies: by layout and spec id. empty_strings: source ids of partition
    fields with the empty string as value. delete_keys: rows of equality delete files, which compare ``key_columns``.
    deletes: counts of delete files by kind, and the rows that vectors delete; where the ancestry has several snapshots,
    of all of them. listed_twice: a file that one snapshot lists twice; a survey that was made in splits does not check.
    outside: files that are not below the table's own folder.
    """

    footers: FooterSampler
    outside: Roots
    tallies: dict[tuple[int, int], GroupTotals] = field(default_factory=dict)
    empty_strings: set[int] = field(default_factory=set)
    without_row_id: int = 0
    delete_keys: int = 0
    key_columns: set[int] = field(default_factory=set)
    listed_twice: str | None = None
    deletes: dict[str, int] = field(default_factory=lambda: {"vectors": 0, "position": 0, "equality": 0, "rows": 0})

    @property
    def files(self) -> int:
        return sum(tally.files for tally in self.tallies.values())

    def merge(self, other: DeltaSurvey) -> None:
        """Add a survey of other files of the same snapshots."""
        self.outside.merge(other.outside)
        places = self.footers.merge(other.footers)
        for (place, spec_id), tally in other.tallies.items():
            self.tallies.setdefault((places[place], spec_id), GroupTotals()).add(tally)
        self.empty_strings |= other.empty_strings
        self.without_row_id += other.without_row_id
        self.delete_keys += other.delete_keys
        self.key_columns |= other.key_columns
        self.listed_twice = self.listed_twice or other.listed_twice
        for kind, count in other.deletes.items():
            self.deletes[kind] += count


Surveying = Callable[[IcebergSource, Ancestry, bool], DeltaSurvey]
"""Surveys every file of an ancestry's snapshots; the third argument asks for every footer."""


def survey_delta(source: IcebergSource, ancestry: Ancestry, deep: bool, *, progress: Progress = silent) -> DeltaSurvey:
    """Survey the files of every snapshot of the ancestry, in this process. Raises the errors of reading the table."""
    metadata = source.table.metadata
    footers = FooterSampler(
        source.storage,
        deep=deep,
        contradicts=IcebergProvenance.of(metadata).contradicts,
        memory=FooterMemory.of(source.storage, metadata.location),
        progress=progress,
    )
    found = DeltaSurvey(footers=footers, outside=outside_of(source))
    for _ in footers.passes():
        found = _surveyed(DeltaSurvey(footers=footers, outside=outside_of(source)), source, ancestry)
    return found


def _surveyed(found: DeltaSurvey, source: IcebergSource, ancestry: Ancestry) -> DeltaSurvey:
    seen: set[str] = set()
    for snapshot in ancestry.distinct:
        paths = PathFingerprints()
        for batch in data_files(source.table, snapshot, with_metrics=False):
            new = batch if len(ancestry.distinct) == 1 else _unseen(batch, seen)
            paths.add(batch.column("file_path"))
            if new.num_rows:
                examine_files(found, source, ancestry.union, new)
        found.listed_twice = found.listed_twice or _repeated(source, snapshot, paths)
        for batch in delete_files(source.table, snapshot):
            examine_deletes(found, source, batch)
    return found


def observe(
    footers: FooterSampler, source: IcebergSource, batch: pa.RecordBatch
) -> tuple[pa.Array, npt.NDArray[np.int32]]:
    """Where the files of a batch really are, and the layout of each."""
    locations = real_locations(source.storage, batch.column("file_path"))
    layout = footers.observe(
        batch.column("file_path"),
        batch.column("file_format"),
        batch.column("record_count"),
        batch.column("file_size_in_bytes"),
        lambda: IcebergProvenance.of(source.table.metadata).describe(batch),
    )
    return locations, layout


def _repeated(source: IcebergSource, snapshot: Snapshot, paths: PathFingerprints) -> str | None:
    suspects = paths.repeated()
    if not len(suspects):
        return None
    batches = data_files(source.table, snapshot, with_metrics=False)
    return first_repeated(pa.concat_arrays([paths_among(batch.column("file_path"), suspects) for batch in batches]))


def _unseen(batch: pa.RecordBatch, seen: set[str]) -> pa.RecordBatch:
    paths = batch.column("file_path").to_pylist()
    rows = [row for row, path in enumerate(paths) if path not in seen]
    seen.update(paths)
    return batch.take(pa.array(rows, pa.int64()))


def examine_files(found: DeltaSurvey, source: IcebergSource, schema: Schema, batch: pa.RecordBatch) -> None:
    """Add live data files of one partition spec to a survey. Raises UnsupportedIcebergFeature for an encrypted one."""
    _refuse_encrypted(batch)
    locations, layout = observe(found.footers, source, batch)
    count_files(found.outside, source.storage, batch.column("file_path"))
    spec = source.table.metadata.spec_by_id(batch.column("spec_id")[0].as_py())
    _tally(found, layout, spec.spec_id, batch, locations)
    _find_empty_strings(found, schema, spec, batch.column("partition"))
    found.without_row_id += batch.column("first_row_id").null_count


def _refuse_encrypted(batch: pa.RecordBatch) -> None:
    """A file with a plain footer may be encrypted nevertheless: the manifest is asked, as by every Iceberg reader."""
    keys = batch.column("key_metadata")
    if keys.null_count < batch.num_rows:
        row = int(np.flatnonzero(keys.is_valid().to_numpy(zero_copy_only=False))[0])
        refuse_encrypted(batch.column("file_path")[row].as_py(), keys[row].as_py())


def _tally(
    found: DeltaSurvey, layout: npt.NDArray[np.int32], spec_id: int, batch: pa.RecordBatch, locations: pa.Array
) -> None:
    rows = batch.column("record_count").to_numpy()
    sizes = batch.column("file_size_in_bytes").to_numpy()
    files_of = np.bincount(layout, minlength=len(found.footers.layout))
    for index in np.flatnonzero(files_of):
        here = layout == index
        these = GroupTotals(
            files=int(files_of[index]),
            rows=int(rows[here].sum()),
            bytes=int(sizes[here].sum()),
            stores=_stores(locations if here.all() else locations.filter(pa.array(here))),
        )
        found.tallies.setdefault((int(index), spec_id), GroupTotals()).add(these)


def _stores(locations: pa.Array) -> dict[str, int]:
    """A prefix that the first and the last in order share, all share: one batch seldom spans two buckets."""
    ends = pc.min_max(locations).as_py()
    if ends["min"].startswith(top_folder(ends["max"])):
        return {top_folder(ends["max"]): len(locations)}
    return dict(Counter(map(top_folder, locations.to_pylist())))


def _find_empty_strings(found: DeltaSurvey, schema: Schema, spec: PartitionSpec, partition: pa.StructArray) -> None:
    for part in spec.fields:
        column = schema.find(part.source_id)
        if not isinstance(part.transform, (IdentityTransform, TruncateTransform)) or column is None:
            continue
        values = pc.struct_field(partition, part.name)
        if isinstance(column.type, StringType) and pc.any(pc.equal(values, ""), min_count=0).as_py():
            found.empty_strings.add(part.source_id)


def examine_deletes(found: DeltaSurvey, source: IcebergSource, batch: pa.RecordBatch) -> None:
    """Add live delete files to a survey. Raises UnsupportedIcebergFeature for an encrypted one."""
    _refuse_encrypted(batch)
    count_files(found.outside, source.storage, batch.column("file_path"))
    is_vector = pc.equal(batch.column("file_format"), PUFFIN)
    vectors = pc.sum(is_vector).as_py() or 0
    equality = pc.sum(pc.equal(batch.column("content"), EQUALITY_DELETES)).as_py() or 0
    found.deletes["vectors"] += vectors
    found.deletes["equality"] += equality
    by_keys = batch.filter(pc.equal(batch.column("content"), EQUALITY_DELETES))
    found.delete_keys += pc.sum(by_keys.column("record_count")).as_py() or 0
    found.key_columns.update(pc.unique(by_keys.column("equality_ids").flatten()).to_pylist())
    found.deletes["position"] += batch.num_rows - vectors - equality
    found.deletes["rows"] += pc.sum(batch.column("record_count").filter(is_vector)).as_py() or 0
    paths = batch.column("file_path")
    found.footers.check_exists((paths if found.footers.deep else paths.slice(0, ONE_BY_ONE)).to_pylist())
