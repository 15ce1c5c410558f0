"""The live files of a Delta version, each with where it is, its physical rows and what its footer shows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.delta.deletion_vector.deletion_vector import descriptors
from deltaberg.delta.log.add_path import location_array
from deltaberg.migrate.files.file_layout import FileLayout, LayoutReader
from deltaberg.migrate.files.footer_memory import FooterMemory
from deltaberg.migrate.files.footers import ONE_BY_ONE, FooterSampler, Progress, silent
from deltaberg.migrate.files.outside_files import count_vector_files, outside_of
from deltaberg.migrate.source import DeltaSource
from deltaberg.migrate.target.locations import real_locations
from deltaberg.migrate.to_iceberg.provenance import DeltaProvenance


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaFiles:
    """One batch. locations: where the files really are. record_counts: physical rows. layout: indices of the survey's
    ``layout``. deleted: rows that deletion vectors take.
    """

    adds: pa.RecordBatch
    locations: pa.Array
    record_counts: pa.Array
    layout: npt.NDArray[np.int32]

    @property
    def deleted(self) -> pa.Array:
        return pc.fill_null(pc.struct_field(self.adds.column("deletion_vector"), "cardinality"), 0)

    @property
    def stats(self) -> pa.StructArray:
        return self.adds.column("stats")

    def rows_of(self, mask: npt.NDArray[np.bool_]) -> int:
        """Live rows of some of the files."""
        return int(pc.subtract(self.record_counts, self.deleted).to_numpy()[mask].sum())


class DeltaFileReader:
    """Streams a version's files as often as asked; footers are read the first time only."""

    def __init__(
        self,
        source: DeltaSource,
        *,
        deep: bool,
        one_by_one: int = ONE_BY_ONE,
        row_counts: Mapping[str, int] = MappingProxyType({}),
        provenance: DeltaProvenance | None = None,
        distrusted: frozenset[str] = frozenset(),
        memory: FooterMemory | None = None,
        progress: Progress = silent,
    ) -> None:
        """one_by_one, distrusted, memory, progress: as in ``FooterSampler``. row_counts: by location, of files whose footers
        were read before. provenance: None to ask the log when it is needed."""
        self._source = source
        self._provenance = provenance
        self.survey = FooterSampler(
            source.storage,
            deep=deep,
            one_by_one=one_by_one,
            contradicts=self._contradicts,
            distrusted=distrusted,
            memory=memory,
            progress=progress,
        )
        self._row_counts: dict[str, int] = dict(row_counts)
        self.outside = outside_of(source)
        """Files that were described and are not below the table's own folder, those of deletion vectors too."""

    def passes(self) -> Iterator[None]:
        """Each time that all files are to be described; what was seen of them before then does not count twice."""
        for _ in self.survey.passes():
            self.outside = outside_of(self._source)
            yield

    @property
    def provenance(self) -> DeltaProvenance:
        """Evidence in the log of who wrote the version's files."""
        if self._provenance is None:
            self._provenance = DeltaProvenance.of(self._source.snapshot)
        return self._provenance

    def _contradicts(self, layout: FileLayout) -> bool:
        return self.provenance.contradicts(layout)

    @property
    def counted_by_footer(self) -> int:
        """Files whose row count the log does not state."""
        return len(self._row_counts)

    @property
    def row_counts(self) -> Mapping[str, int]:
        """Row counts by location, of the files whose row count the log does not state."""
        return self._row_counts

    def batches(self) -> Iterator[DeltaFiles]:
        """Every live file. Raises the errors of reading the log and, where needed, footers.

        A checksum file that counts other files is the plan's to report, not a reason to stop.
        """
        for adds in self._source.snapshot.add_files(check_totals=False):
            if adds.num_rows:
                yield self.describe(adds)

    def located(self) -> Iterator[DeltaFiles]:
        """Every live file without its layout: footers are read only for row counts that the log does not state."""
        for adds in self._source.snapshot.add_files(check_totals=False):
            if adds.num_rows:
                yield self.locate(adds)

    def describe(self, adds: pa.RecordBatch) -> DeltaFiles:
        """``described`` for a batch of ADD_SCHEMA."""
        locations = real_locations(self._source.storage, location_array(adds, self._source.snapshot.table_root))
        formats = pa.repeat(pa.scalar("parquet"), adds.num_rows)
        counts = pc.struct_field(adds.column("stats"), "num_records")
        layout = self.survey.observe(
            locations, formats, counts, adds.column("size"), lambda: self.provenance.describe(adds, locations)
        )
        if counts.null_count:
            counts = self._counted(counts, locations)
        self.outside.add(locations)
        vectors = adds.column("deletion_vector")
        count_vector_files(self.outside, self._source, vectors)
        if vectors.null_count < len(vectors):
            self._check_exists(vectors)
        return DeltaFiles(adds=adds, locations=locations, record_counts=counts, layout=layout)

    def locate(self, adds: pa.RecordBatch) -> DeltaFiles:
        """A batch of files that were described before, in this process or another; layouts are left out."""
        locations = real_locations(self._source.storage, location_array(adds, self._source.snapshot.table_root))
        counts = pc.struct_field(adds.column("stats"), "num_records")
        return DeltaFiles(
            adds=adds,
            locations=locations,
            record_counts=self._counted(counts, locations) if counts.null_count else counts,
            layout=np.zeros(0, np.int32),
        )

    def _check_exists(self, vectors: pa.Array) -> None:
        """Check that the first files of vectors are there."""
        stored = vectors.filter(pc.fill_null(pc.not_equal(pc.struct_field(vectors, "storage_type"), "i"), False))
        found = descriptors(stored if self.survey.deep else stored.slice(0, ONE_BY_ONE))
        root = self._source.snapshot.table_root
        self.survey.check_exists([each.location(root) for each in found if each is not None])

    def _counted(self, counts: pa.Array, locations: pa.Array) -> pa.Array:
        missing = pc.is_null(counts)
        wanted = locations.filter(missing).to_pylist()
        for location in wanted:
            seen = self.survey.rows_of(location)
            if seen is not None:
                self._row_counts.setdefault(location, seen)
        unread = [location for location in wanted if location not in self._row_counts]
        for location, file in zip(unread, LayoutReader(self._source.storage).sample_all(unread), strict=True):
            if file.trouble is not None:
                self.survey.note_unreadable(location, file.trouble)
            self._row_counts[location] = file.rows or 0
        return pc.replace_with_mask(counts, missing, pa.array([self._row_counts[each] for each in wanted], pa.int64()))
