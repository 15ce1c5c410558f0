"""Writing manifest lists, and the numbers that manifests get from it (sections "Manifest Lists", "First Row ID
Assignment")."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, replace

import pyarrow as pa

from deltaberg.iceberg.avro.container import SYNC_SIZE
from deltaberg.iceberg.avro.writer import AvroWriter
from deltaberg.iceberg.errors import InvalidIcebergRequest
from deltaberg.iceberg.manifest.manifest_list import (
    COUNTS,
    RELATIVE_LOCATIONS,
    ROW_COUNTS,
    UNASSIGNED_SEQUENCE_NUMBER,
    ManifestContent,
    ManifestFile,
    manifest_file_type,
)
from deltaberg.iceberg.metadata.location import has_scheme
from deltaberg.iceberg.schema.types import arrow_type
from deltaberg.storage.protocol import Storage


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenManifestList:
    """The manifests as the list has them, every number assigned; ``next_row_id`` is the lowest row id that is still
    free after them (None below version 3)."""

    location: str
    manifests: tuple[ManifestFile, ...]
    next_row_id: int | None


def write_manifest_list(
    storage: Storage,
    location: str,
    manifests: Iterable[ManifestFile],
    *,
    format_version: int,
    snapshot_id: int,
    parent_snapshot_id: int | None,
    sequence_number: int,
    first_row_id: int | None = None,
    codec: str = "deflate",
    sync: bytes | None = None,
) -> WrittenManifestList:
    """Write the list of a snapshot.

    New manifests (whose sequence number is UNASSIGNED_SEQUENCE_NUMBER) get the snapshot's; from version 3 on, data
    manifests without a first row id get one, counting up from ``first_row_id``, the snapshot's.
    Raises InvalidIcebergRequest for a manifest that lacks what the version requires.
    """
    if format_version >= 3 and first_row_id is None:
        raise InvalidIcebergRequest(f"Cannot write manifest list {location}: format version 3 needs a first row id")
    numbered = tuple(_with_sequence_number(each, sequence_number) for each in manifests)
    next_row_id = None
    if format_version >= 3 and first_row_id is not None:
        numbered, next_row_id = _with_row_ids(numbered, first_row_id)
    kind = manifest_file_type(format_version)
    properties = {
        "snapshot-id": str(snapshot_id),
        "parent-snapshot-id": "null" if parent_snapshot_id is None else str(parent_snapshot_id),
        "format-version": str(format_version),
    }
    if format_version >= 2:
        properties["sequence-number"] = str(sequence_number)
    if format_version >= 3:
        properties["first-row-id"] = str(first_row_id)
    rows = [_row(each, format_version, location) for each in numbered]
    with storage.create(location) as sink:
        writer = AvroWriter(
            sink,
            kind,
            name="manifest_file",
            codec=codec,
            metadata=properties,
            sync=os.urandom(SYNC_SIZE) if sync is None else sync,
        )
        writer.write(pa.array(rows, arrow_type(kind)))
    return WrittenManifestList(location=location, manifests=numbered, next_row_id=next_row_id)


def _with_sequence_number(manifest: ManifestFile, sequence_number: int) -> ManifestFile:
    assigned, lowest = manifest.sequence_number, manifest.min_sequence_number
    assigned = sequence_number if assigned == UNASSIGNED_SEQUENCE_NUMBER else assigned
    lowest = assigned if lowest == UNASSIGNED_SEQUENCE_NUMBER else min(lowest, assigned)
    return replace(manifest, sequence_number=assigned, min_sequence_number=lowest)


def _with_row_ids(manifests: tuple[ManifestFile, ...], first_row_id: int) -> tuple[tuple[ManifestFile, ...], int]:
    """Each manifest that gets an id leaves room for as many rows as its live files have, assigned ones included."""
    result: list[ManifestFile] = []
    free = first_row_id
    for manifest in manifests:
        if manifest.content is ManifestContent.DATA and manifest.first_row_id is None:
            if manifest.added_rows_count is None or manifest.existing_rows_count is None:
                raise InvalidIcebergRequest(
                    f"Cannot assign row ids to manifest {manifest.manifest_path}: its row counts are unknown; rewrite it"
                )
            result.append(replace(manifest, first_row_id=free))
            free += manifest.added_rows_count + manifest.existing_rows_count
        else:
            result.append(manifest)
    return tuple(result), free


def _row(manifest: ManifestFile, version: int, location: str) -> dict[str, object]:
    row: dict[str, object] = {
        nested.name: getattr(manifest, nested.name)
        for nested in manifest_file_type(version).fields
        if nested.name not in ("content", "partitions")
    }
    row["content"] = manifest.content.value
    if version == 1 and manifest.content is not ManifestContent.DATA:
        raise InvalidIcebergRequest(f"Cannot write manifest list {location}: version 1 has no delete manifests")
    missing = [name for name in (*COUNTS, *ROW_COUNTS) if row[name] is None]
    if version >= 2 and missing:
        raise InvalidIcebergRequest(
            f"Cannot write manifest list {location}: {missing[0]} of manifest {manifest.manifest_path} is unknown, "
            f"which version {version} does not allow; rewrite the manifest"
        )
    if version >= RELATIVE_LOCATIONS and not has_scheme(manifest.manifest_path):
        raise InvalidIcebergRequest(
            f"Cannot write manifest list {location}: version {version} reads {manifest.manifest_path} as relative; "
            "give an absolute location with a scheme"
        )
    if manifest.added_snapshot_id is None:
        raise InvalidIcebergRequest(
            f"Cannot write manifest list {location}: manifest {manifest.manifest_path} has no snapshot id"
        )
    summaries = manifest.partitions
    row["partitions"] = (
        None
        if summaries is None
        else [
            {
                "contains_null": each.contains_null,
                "contains_nan": each.contains_nan,
                "lower_bound": each.lower_bound,
                "upper_bound": each.upper_bound,
            }
            for each in summaries
        ]
    )
    return row
