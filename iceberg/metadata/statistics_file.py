"""Table and partition statistics files (sections "Table Statistics" and "Partition Statistics")."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from deltaberg.iceberg.schema.json_object import JsonObject

_BLOB_KEYS = frozenset({"type", "snapshot-id", "sequence-number", "fields", "properties"})
_KEYS = frozenset(
    {
        "snapshot-id",
        "statistics-path",
        "file-size-in-bytes",
        "file-footer-size-in-bytes",
        "key-metadata",
        "blob-metadata",
    }
)
_PARTITION_KEYS = frozenset({"snapshot-id", "statistics-path", "file-size-in-bytes"})


@dataclass(frozen=True, slots=True, kw_only=True)
class StatisticsBlob:
    """One blob of a statistics file, as table metadata describes it."""

    type: str
    snapshot_id: int
    sequence_number: int
    fields: tuple[int, ...]
    properties: Mapping[str, str] = field(default_factory=dict, hash=False)
    extra: Mapping[str, object] = field(default_factory=dict, hash=False, compare=False, repr=False)

    def to_json(self) -> dict[str, object]:
        """The blob metadata object."""
        result: dict[str, object] = {
            "type": self.type,
            "snapshot-id": self.snapshot_id,
            "sequence-number": self.sequence_number,
            "fields": list(self.fields),
        }
        if self.properties:
            result["properties"] = dict(self.properties)
        return {**result, **self.extra}

    @classmethod
    def from_json(cls, value: object, path: str) -> StatisticsBlob:
        """Parse a blob's metadata. Raises CorruptMetadata."""
        node = JsonObject(value, path)
        node.raw("fields")
        return cls(
            type=node.text("type"),
            snapshot_id=node.snapshot_id("snapshot-id"),
            sequence_number=node.long("sequence-number"),
            fields=node.integers("fields"),
            properties=node.text_map("properties"),
            extra=node.extra(_BLOB_KEYS),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StatisticsFile:
    """A Puffin file of statistics for one snapshot."""

    snapshot_id: int
    statistics_path: str
    file_size_in_bytes: int
    file_footer_size_in_bytes: int
    key_metadata: str | None = None
    blob_metadata: tuple[StatisticsBlob, ...] = ()
    extra: Mapping[str, object] = field(default_factory=dict, hash=False, compare=False, repr=False)

    def to_json(self) -> dict[str, object]:
        """The statistics file object."""
        result: dict[str, object] = {
            "snapshot-id": self.snapshot_id,
            "statistics-path": self.statistics_path,
            "file-size-in-bytes": self.file_size_in_bytes,
            "file-footer-size-in-bytes": self.file_footer_size_in_bytes,
        }
        if self.key_metadata is not None:
            result["key-metadata"] = self.key_metadata
        result["blob-metadata"] = [blob.to_json() for blob in self.blob_metadata]
        return {**result, **self.extra}

    @classmethod
    def from_json(cls, value: object, path: str) -> StatisticsFile:
        """Parse a statistics file object. Raises CorruptMetadata."""
        node = JsonObject(value, path)
        return cls(
            snapshot_id=node.snapshot_id("snapshot-id"),
            statistics_path=node.text("statistics-path"),
            file_size_in_bytes=node.long("file-size-in-bytes", low=0),
            file_footer_size_in_bytes=node.long("file-footer-size-in-bytes", low=0),
            key_metadata=node.optional_text("key-metadata"),
            blob_metadata=tuple(StatisticsBlob.from_json(item, at) for item, at in node.items("blob-metadata")),
            extra=node.extra(_KEYS),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionStatisticsFile:
    """A file of per-partition statistics for one snapshot."""

    snapshot_id: int
    statistics_path: str
    file_size_in_bytes: int
    extra: Mapping[str, object] = field(default_factory=dict, hash=False, compare=False, repr=False)

    def to_json(self) -> dict[str, object]:
        """The partition statistics file object."""
        return {
            "snapshot-id": self.snapshot_id,
            "statistics-path": self.statistics_path,
            "file-size-in-bytes": self.file_size_in_bytes,
            **self.extra,
        }

    @classmethod
    def from_json(cls, value: object, path: str) -> PartitionStatisticsFile:
        """Parse a partition statistics file object. Raises CorruptMetadata."""
        node = JsonObject(value, path)
        return cls(
            snapshot_id=node.snapshot_id("snapshot-id"),
            statistics_path=node.text("statistics-path"),
            file_size_in_bytes=node.long("file-size-in-bytes", low=0),
            extra=node.extra(_PARTITION_KEYS),
        )
