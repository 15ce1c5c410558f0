"""Writing the manifests of one commit: named, split at the target size, with the numbers of each that row lineage
needs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from types import TracebackType

import pyarrow as pa

from deltaberg.iceberg.manifest.file_entries import row_id_end, unassigned_rows
from deltaberg.iceberg.manifest.manifest_list import ManifestContent, ManifestFile
from deltaberg.iceberg.manifest.manifest_writer import ManifestWriter
from deltaberg.iceberg.partition.partition_spec import PartitionSpec
from deltaberg.iceberg.pending_files import PendingFiles
from deltaberg.iceberg.schema.schema import Schema

# The number of entries after which a manifest's size is checked again.
_SLICE = 8192


@dataclass(frozen=True, slots=True, kw_only=True)
class NewManifest:
    """A manifest of this commit. ``unassigned_rows``: rows of live data files that are to get row ids from it;
    ``row_id_end``: one more than the highest row id that its entries state."""

    file: ManifestFile
    unassigned_rows: int
    row_id_end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestFolder:
    """Where and how a commit writes its manifests; ``numbers`` counts them."""

    files: PendingFiles
    folder: str
    commit_uuid: str
    format_version: int
    snapshot_id: int
    target_size: int
    codec: str
    numbers: Iterator[int]

    def next_location(self) -> str:
        """The location of the next manifest."""
        suffix = "parquet" if self.format_version >= 4 else "avro"
        return self.files.note(f"{self.folder}/{self.commit_uuid}-m{next(self.numbers)}.{suffix}")

    def write_all(
        self,
        batches: Iterable[pa.RecordBatch],
        *,
        spec: PartitionSpec,
        schemas: tuple[Schema, ...],
        content: ManifestContent,
    ) -> tuple[NewManifest, ...]:
        """Write entries of one spec and kind."""
        with RollingManifests(self, spec=spec, schemas=schemas, content=content) as manifests:
            for batch in batches:
                manifests.write(batch)
        return manifests.finished


class RollingManifests:
    """Manifests of one spec and kind, written one after the other; use as a context manager.

    After it ends without an error ``finished`` has them all.
    """

    def __init__(
        self, folder: ManifestFolder, *, spec: PartitionSpec, schemas: tuple[Schema, ...], content: ManifestContent
    ) -> None:
        self._folder = folder
        self._spec = spec
        self._schemas = schemas
        self._content = content
        self._writer: ManifestWriter | None = None
        self._unassigned = 0
        self._end = 0
        self.finished: tuple[NewManifest, ...] = ()

    def __enter__(self) -> RollingManifests:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close(kind, error, trace)

    def write(self, batch: pa.RecordBatch) -> None:
        """Append entries of ``data_file_schema``."""
        for start in range(0, batch.num_rows, _SLICE):
            piece = batch.slice(start, _SLICE)
            if self._writer is None:
                self._writer = self._open()
            self._writer.write(piece)
            self._unassigned += unassigned_rows(piece)
            self._end = max(self._end, row_id_end(piece))
            if self._writer.length >= self._folder.target_size:
                self._close(None, None, None)

    def _open(self) -> ManifestWriter:
        folder = self._folder
        return ManifestWriter(
            folder.files.storage,
            folder.next_location(),
            format_version=folder.format_version,
            spec=self._spec,
            schemas=self._schemas,
            content=self._content,
            snapshot_id=folder.snapshot_id,
            codec=folder.codec,
        ).__enter__()

    def _close(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        writer, self._writer = self._writer, None
        if writer is None:
            return
        writer.__exit__(kind, error, trace)
        if error is None:
            data = self._content is ManifestContent.DATA
            done = NewManifest(
                file=writer.manifest,
                unassigned_rows=self._unassigned if data else 0,
                row_id_end=self._end if data else 0,
            )
            self.finished = (*self.finished, done)
        self._unassigned = 0
        self._end = 0
