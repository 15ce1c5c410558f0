"""Version checksums, ``N.crc``: the writer's statement about the table, compared with the log.

PROTOCOL "Version Checksum File". The file is optional, and one that cannot be parsed counts as absent. Where it can be
parsed, a difference in protocol or metadata is an error, since engines take these from either file; a difference in number
and size of files or of deletion vectors means that one of the two has lost something, and it is for the caller to say
whether that is an error (files are read from the log alone) or is reported; histograms, transactions and domains, which writers may leave out or cut, are not compared.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.delta.errors import CorruptLog, DeltaError
from deltaberg.delta.log.actions import Metadata
from deltaberg.delta.log.log_path import LogFile
from deltaberg.delta.protocol.protocol import Protocol
from deltaberg.storage.errors import NotFound
from deltaberg.storage.protocol import Storage


@dataclass(frozen=True, slots=True, kw_only=True)
class ChecksumTotals:
    """Sums over the live files; sizes in bytes, deleted records by the deletion vectors."""

    num_files: int = 0
    size_in_bytes: int = 0
    num_deletion_vectors: int = 0
    num_deleted_records: int = 0

    def plus(self, adds: pa.RecordBatch) -> ChecksumTotals:
        """With a batch of ADD_SCHEMA added."""
        vectors = adds.column("deletion_vector")
        return ChecksumTotals(
            num_files=self.num_files + adds.num_rows,
            size_in_bytes=self.size_in_bytes + (pc.sum(adds.column("size")).as_py() or 0),
            num_deletion_vectors=self.num_deletion_vectors + len(vectors) - vectors.null_count,
            num_deleted_records=self.num_deleted_records
            + (pc.sum(pc.struct_field(vectors, "cardinality")).as_py() or 0),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionChecksum:
    """The parsed file; None where it does not say."""

    location: str
    version: int
    num_files: int | None
    table_size_bytes: int | None
    num_deletion_vectors: int | None
    num_deleted_records: int | None
    in_commit_timestamp: int | None
    protocol: Protocol | None
    metadata: Mapping[str, object] | None

    def check_state(self, protocol: Protocol, metadata: Metadata) -> None:
        """Raise CorruptLog naming version, file and field where protocol or metadata differ."""
        if self.protocol is not None and _comparable(self.protocol) != _comparable(protocol):
            raise self._differs("protocol", self.protocol.to_json(), protocol.to_json())
        if self.metadata is not None:
            ours = metadata.to_json()
            for key in ("id", "schemaString", "partitionColumns", "configuration"):
                if key in self.metadata and self.metadata[key] != ours[key]:
                    raise self._differs(f"metadata.{key}", self.metadata[key], ours[key])

    def check_files(self, totals: ChecksumTotals) -> None:
        """Raise CorruptLog naming version, file and field where the sums over all live files differ."""
        difference = self.difference(totals)
        if difference is not None:
            raise self._differs(*difference)

    def difference(self, totals: ChecksumTotals) -> tuple[str, int, int] | None:
        """The first field in which the sums over all live files differ, the stated value and the actual one."""
        for key, expected, found in (
            ("numFiles", self.num_files, totals.num_files),
            ("tableSizeBytes", self.table_size_bytes, totals.size_in_bytes),
            ("numDeletionVectorsOpt", self.num_deletion_vectors, totals.num_deletion_vectors),
            ("numDeletedRecordsOpt", self.num_deleted_records, totals.num_deleted_records),
        ):
            if expected is not None and expected != found:
                return key, expected, found
        return None

    def _differs(self, key: str, expected: object, found: object) -> CorruptLog:
        return CorruptLog(
            f"Cannot trust version {self.version}: its checksum file and its log differ in {key} "
            f"(checksum {expected!r:.200}, log {found!r:.200}); restore the log or delete the checksum file if it is wrong",
            version=self.version,
            path=self.location,
        )


def read_checksum(storage: Storage, file: LogFile) -> VersionChecksum | None:
    """The checksum of a version; None when the file is gone or is no checksum."""
    try:
        value = json.loads(storage.get(file.location))
    except (NotFound, ValueError, RecursionError):
        return None
    if not isinstance(value, dict):
        return None
    protocol, metadata = value.get("protocol"), value.get("metadata")
    try:
        parsed = Protocol.from_json(protocol) if isinstance(protocol, dict) else None
    except DeltaError:
        return None
    return VersionChecksum(
        location=file.location,
        version=file.version,
        num_files=_count(value, "numFiles"),
        table_size_bytes=_count(value, "tableSizeBytes"),
        num_deletion_vectors=_count(value, "numDeletionVectorsOpt"),
        num_deleted_records=_count(value, "numDeletedRecordsOpt"),
        in_commit_timestamp=_count(value, "inCommitTimestampOpt"),
        protocol=parsed,
        metadata=metadata if isinstance(metadata, dict) else None,
    )


def _count(value: Mapping[str, object], key: str) -> int | None:
    number = value.get(key)
    return number if isinstance(number, int) and not isinstance(number, bool) else None


def _comparable(protocol: Protocol) -> tuple[int, int, frozenset[str], frozenset[str]]:
    return (
        protocol.min_reader_version,
        protocol.min_writer_version,
        frozenset(protocol.reader_features or ()),
        frozenset(protocol.writer_features or ()),
    )
