"""Files that a snapshot adds, on their way into its manifests: checked, counted, numbers left open or kept.

Other processes than the committing one may write the manifests: ``ManifestRecipe`` can be pickled and opened anywhere,
and its result (``AddedManifests``) is passed to ``SnapshotBuilder.add_manifests``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count
from types import TracebackType

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.iceberg.errors import InvalidIcebergRequest
from deltaberg.iceberg.manifest.data_file import ADDED, DATA
from deltaberg.iceberg.manifest.file_entries import as_status, check_added, conformed, with_columns, with_schemes
from deltaberg.iceberg.manifest.manifest_list import ManifestContent
from deltaberg.iceberg.manifest.rolling_manifests import ManifestFolder, NewManifest, RollingManifests
from deltaberg.iceberg.metadata.table_metadata import TableMetadata
from deltaberg.iceberg.partition.partition_spec import PartitionSpec
from deltaberg.iceberg.pending_files import PendingFiles
from deltaberg.iceberg.schema.types import arrow_type
from deltaberg.iceberg.snapshot_write.snapshot_summary import SnapshotTally
from deltaberg.storage import Storage


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedManifests:
    """Manifests of files that a snapshot adds. highest_sequence_number: of those that entries state, 0 for none."""

    manifests: tuple[NewManifest, ...]
    tally: SnapshotTally = field(default_factory=SnapshotTally)
    highest_sequence_number: int = 0
    adds_deletes: bool = False

    @property
    def locations(self) -> tuple[str, ...]:
        """Where the manifests stand."""
        return tuple(manifest.file.manifest_path for manifest in self.manifests)


class AddedFiles:
    """Writes the files of one partition spec to manifests; use as a context manager, then ask for ``written``.

    keep_inherited: data sequence numbers and first row ids of the batches are stored instead of being inherited from the
    snapshot. Raises InvalidIcebergRequest for files that the format version does not allow.
    """

    def __init__(
        self,
        metadata: TableMetadata,
        folder: ManifestFolder,
        spec: PartitionSpec,
        *,
        keep_inherited: bool,
    ) -> None:
        self._metadata, self._folder, self._spec = metadata, folder, spec
        self._keep_inherited = keep_inherited
        self._runs = ManifestRuns(folder, spec, metadata)
        self._tally = SnapshotTally()
        self._highest = 0
        self._adds_deletes = False
        self.vectors: list[pa.Array] = []

    def __enter__(self) -> AddedFiles:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._runs.__exit__(kind, error, trace)

    def write(self, batch: pa.RecordBatch) -> None:
        """Add the files of a batch of ``data_file_schema`` (missing optional columns are null)."""
        entries = as_status(conformed_entries(batch, self._spec, self._metadata), ADDED)
        check_added(entries, self._metadata.format_version)
        entries = self._as_added(entries)
        self._tally.add(entries)
        self._note_deletes(entries)
        self._runs.write(entries)

    @property
    def written(self) -> AddedManifests:
        """The manifests that were written, once the context has ended."""
        return AddedManifests(
            manifests=self._runs.finished,
            tally=self._tally,
            highest_sequence_number=self._highest,
            adds_deletes=self._adds_deletes,
        )

    def _as_added(self, entries: pa.RecordBatch) -> pa.RecordBatch:
        """Numbers that are inherited from the snapshot are left open; those that are kept are checked at commit."""
        open_numbers = pa.nulls(entries.num_rows, pa.int64())
        columns = {
            "snapshot_id": pa.repeat(pa.scalar(self._folder.snapshot_id, pa.int64()), entries.num_rows),
            "file_sequence_number": open_numbers,
        }
        if not self._keep_inherited:
            columns |= {"sequence_number": open_numbers, "first_row_id": open_numbers}
        else:
            self._highest = max(self._highest, pc.max(entries.column("sequence_number")).as_py() or 0)
        return with_columns(entries, columns)

    def _note_deletes(self, entries: pa.RecordBatch) -> None:
        deletes = entries.filter(pc.not_equal(entries.column("content"), DATA))
        if not deletes.num_rows:
            return
        self._adds_deletes = True
        vectors = deletes.filter(pc.is_valid(deletes.column("content_offset"))).column("referenced_data_file")
        if len(vectors):
            self.vectors.append(vectors)


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestRecipe:
    """How to write manifests of a snapshot that another process will commit; can be pickled."""

    metadata: TableMetadata
    folder: str
    snapshot_id: int
    target_size: int
    codec: str
    keep_inherited: bool

    def open(self, storage: Storage, name: str, *, spec_id: int | None = None) -> AddedFiles:
        """Begin manifests whose file names begin with ``name``, which must be unique."""
        spec = self.metadata.spec if spec_id is None else self.metadata.spec_by_id(spec_id)
        folder = ManifestFolder(
            files=PendingFiles(storage),
            folder=self.folder,
            commit_uuid=name,
            format_version=self.metadata.format_version,
            snapshot_id=self.snapshot_id,
            target_size=self.target_size,
            codec=self.codec,
            numbers=count(),
        )
        return AddedFiles(self.metadata, folder, spec, keep_inherited=self.keep_inherited)


class ManifestRuns:
    """One run of manifests for data files and one for delete files, of one partition spec."""

    def __init__(self, folder: ManifestFolder, spec: PartitionSpec, metadata: TableMetadata) -> None:
        self._runs = {
            content: RollingManifests(folder, spec=spec, schemas=metadata.schemas_newest_first, content=content)
            for content in ManifestContent
        }

    def __enter__(self) -> ManifestRuns:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for run in self._runs.values():
            run.__exit__(kind, error, trace)

    def write(self, entries: pa.RecordBatch) -> None:
        """Append entries of either kind."""
        data = pc.equal(entries.column("content"), DATA)
        if pc.all(data, min_count=0).as_py():
            self._runs[ManifestContent.DATA].write(entries)
            return
        self._runs[ManifestContent.DATA].write(entries.filter(data))
        self._runs[ManifestContent.DELETES].write(entries.filter(pc.invert(data)))

    @property
    def finished(self) -> tuple[NewManifest, ...]:
        """The manifests, those of data files first, once the context has ended."""
        return tuple(manifest for run in self._runs.values() for manifest in run.finished)


def conformed_entries(batch: pa.RecordBatch, spec: PartitionSpec, metadata: TableMetadata) -> pa.RecordBatch:
    """A batch in the exact form of ``data_file_schema``. Raises InvalidIcebergRequest for one of another spec."""
    partition = arrow_type(spec.partition_type(metadata.schemas_newest_first))
    entries = with_schemes(conformed(batch, spec, partition), metadata.format_version)
    if entries.num_rows and not pc.all(pc.equal(entries.column("spec_id"), spec.spec_id)).as_py():
        raise InvalidIcebergRequest(f"Cannot add files: an entry is not of partition spec {spec.spec_id}")
    return entries
